"""Compiled functions: their private cache folder, and interruption by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from zslearn._utils._jit import jit

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and signals are POSIX's")

PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
import compiled
print(compiled.double(21.0), "hits", sum(compiled.double.dispatcher.stats.cache_hits.values()))
"""
MODULE = """
from zslearn._utils._jit import jit

@jit("a test")
def double(x):
    return 2 * x
"""


@pytest.mark.slow
def test_only_a_folder_of_ones_own_is_used(tmp_path):
    (tmp_path / "compiled.py").write_text(MODULE)
    environment = {key: value for key, value in os.environ.items() if "NUMBA" not in key}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}

    def run() -> str:
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    first = run()
    assert "Compiling a test, which takes a few seconds once on this machine." in first
    assert "42.0 hits 0" in first
    (folder,) = tmp_path.rglob("numba")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.rglob("*.nbc"))
    assert run() == "42.0 hits 1\n"
    folder.chmod(0o770)
    shared = run()
    assert f"in every process ({folder} must belong to the user and have mode 700" in shared
    assert "42.0 hits 0" in shared


def test_an_interrupt_behind_a_system_error_is_raised():
    @jit()
    def stub():
        return 0

    def interrupted(cause):
        try:
            raise ValueError from cause
        except ValueError as error:
            raise SystemError("returned a result with an exception set") from error

    stub.dispatcher = interrupted  # in the place of Numba's own
    with pytest.raises(KeyboardInterrupt):
        stub(KeyboardInterrupt())
    with pytest.raises(SystemError, match="with an exception set"):
        stub(MemoryError())
    with pytest.raises(SystemError):
        stub(None)


def test_ctrl_c_in_a_compiled_call():
    # Results of this kind are made by a function of Python, in which the interrupt is raised.
    @jit()
    def copy(x):
        return x.copy(), x.copy()

    x = np.zeros(1000)
    copy(x)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for delay in np.linspace(0.001, 0.002, 50):
            with pytest.raises(KeyboardInterrupt):  # noqa: PT012
                signal.setitimer(signal.ITIMER_REAL, delay)
                while True:
                    copy(x)
    finally:
        signal.signal(signal.SIGALRM, before)
