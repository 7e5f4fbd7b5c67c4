"""Ctrl-C ends a long solve: compiled code and linear algebra give way now and then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

# Each begins with a small problem, so that nothing is compiled later, and then would take hours.
PREPARE = """
import numpy as np
from zslearn import solvers
rng = np.random.default_rng(0)
"""
CRAMMER_SINGER = """
def solve(n, **options):
    X = rng.standard_normal((n, 64))
    solvers.multiclass_svm(
        X, np.arange(n), loss="crammer_singer", random_state=0, alpha=1e-7, tol=1e-15, **options
    )

solve(5, max_iter=1)
print("start", flush=True)
solve(3000, max_iter=10**9)
"""
NU_SVR = """
def solve(n, **options):
    points = np.linspace(0, 1, n)[:, None]
    K = np.exp(-((points - points.T) ** 2))
    solvers.nu_svr(K, rng.standard_normal((n, 3)), C=1e4, nu=0.5, n_jobs=1, **options)

solve(5)
print("start", flush=True)
solve(1500, tol=1e-14, max_iter=10**12)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("script", [CRAMMER_SINGER, NU_SVR], ids=["crammer_singer", "nu_svr"])
def test_ctrl_c_ends_a_long_solve(script):
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PREPARE + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "start\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        # An interrupt that Python meets in a finaliser is only printed: a person presses again.
        for _ in range(5):
            process.send_signal(signal.SIGINT)
            try:
                _, said = process.communicate(timeout=30)
                break
            except subprocess.TimeoutExpired:
                continue
    finally:
        process.kill()
    assert "KeyboardInterrupt" in said.splitlines()[-1]
    assert process.returncode != 0
