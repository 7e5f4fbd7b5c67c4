"""Memory that fitting each method needs beyond the given rows, on the CPU.

Each fit runs in a new process, once small, so that imports and compiled code are there, then whole.
`float32` and `float64` are the growth of the process's largest memory (its resident set) while the
whole fit runs, as a share of the rows in that precision: 0.5 means that rows and fitting together
take one and a half times the rows.

With --scaled all is a thirteenth as large, the blocks and the tables that are computed at a time as
well, everything runs in one process, and what NumPy and Python ask for is counted: some seconds for
a method, on any machine.

    python benchmarks/bench_memory.py
    python benchmarks/bench_memory.py --scaled
    python benchmarks/bench_memory.py --quick
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pandas as pd
from _common import Report, slug

from zslearn._solvers.svm import _squared_hinge as _svm_squared_hinge
from zslearn._utils import _array
from zslearn.model_selection import METHODS

# Training that goes on and on, or to a close end, takes no more memory than its first steps.
SHORT = {"max_iter": 3, "n_epochs": 2}
LOOSE = {"tol": 0.1}
# Why a method holds more than half of its rows.
REASONS = {
    "CMT": "ten steps and gradients of all weights, which L-BFGS remembers in double precision",
    "CMT*": "ten steps and gradients of all weights, which L-BFGS remembers in double precision",
    "BiDiLEL": "the samples of one class in double precision, and tables of features by features",
    "Gaussian EXEM": "tables of features by features",
    "EXEM (SynC o-vs-o)": "tables of features by features beside those of the method",
    "EXEM (SynC cs)": "tables of features by features beside those of the method",
    "EXEM (SynC struct)": "tables of features by features beside those of the method",
    "EXEM (ConSE)": "tables of features by features beside those of the method",
}


def problem(n_rows: int, n_features: int, n_classes: int, dtype: str = "float32"):
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    signatures = rng.standard_normal((n_classes + 20, 32))
    means = np.maximum(signatures @ rng.standard_normal((32, n_features)), 0)
    X = np.empty((n_rows, n_features), dtype=dtype)
    for start in range(0, n_rows, 1000):
        block = slice(start, min(start + 1000, n_rows))
        X[block] = np.maximum(means[y[block]] + rng.standard_normal(X[block].shape), 0)
    return X, y, pd.DataFrame(signatures)


def shortened(model):
    changed = {}
    for path, value in model.get_params().items():
        name = path.rpartition("__")[2]
        if name in SHORT and isinstance(value, int):
            changed[path] = min(value, SHORT[name])
        if name in LOOSE and isinstance(value, float):
            changed[path] = max(value, LOOSE[name])
    return model.set_params(**changed)


def measure_scaled(name: str) -> float:
    """The share of a small fit, whose blocks are as small beside its rows as those of a large."""
    X, y, signatures = problem(12_000, 512, 20)
    _array.BLOCK_BYTES = 1 << 21
    _svm_squared_hinge._TABLE_BYTES = 1 << 21
    make = METHODS[name].make
    shortened(make()).fit(X[:60], y[:60], signatures=signatures)
    gc.collect()
    tracemalloc.start()
    try:
        shortened(make()).fit(X, y, signatures=signatures)
        return tracemalloc.get_traced_memory()[1] / X.nbytes
    finally:
        tracemalloc.stop()


def resident() -> int:
    """Bytes of this process that lie in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def measure_here(name: str, size: tuple[int, int, int], dtype: str) -> float:
    """The share of one fit, in this process."""
    warnings.simplefilter("ignore")
    X, y, signatures = problem(*size, dtype)
    make = METHODS[name].make
    # Compile and import first. Fewer rows than features take another code path.
    few = slice(0, size[1] + 2 * size[2])
    shortened(make()).fit(X[few], y[few], signatures=signatures)

    gc.collect()
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the largest resident set is counted anew
    before = resident()
    shortened(make()).fit(X, y, signatures=signatures)
    with open("/proc/self/status", encoding="ascii") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    return (peak * 1024 - before) / X.nbytes


def measure(name: str, size: tuple[int, int, int], dtype: str) -> float:
    """The share of one fit, in a new process with one thread."""
    code = (
        "import sys, json, bench_memory as b; "
        "print(json.dumps(b.measure_here(*json.loads(sys.argv[1]))))"
    )
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    # Freed memory is returned at once, so that the peak is memory in use.
    threads |= {"MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "65536"}
    run = subprocess.run(
        [sys.executable, "-c", code, json.dumps([name, size, dtype])],
        env={**os.environ, **threads},
        cwd=os.path.dirname(os.path.abspath(__file__)),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        print(f"{name}: {run.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return float("nan")
    return float(json.loads(run.stdout.splitlines()[-1]))


def reasoned(name: str, shares: dict[str, float]) -> dict[str, object]:
    """Shares, and what for, where one of them is more than half of the rows."""
    return {**shares, "why": REASONS.get(name, "") if max(shares.values()) > 0.5 else ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows, fewer methods")
    parser.add_argument("--scaled", action="store_true", help="a small problem, in one process")
    parser.add_argument("--methods", nargs="*", help="names; by default those of `zslearn bench`")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    size = (30_000, 1024, 30) if options.quick else (40_000, 1024, 40)
    names = options.methods or [name for name, m in METHODS.items() if m.in_default]
    if options.quick and not options.methods:
        names = ["EXEM (1NN)", "SynC cs"]
    shape = f"{size[0]:,} × {size[1]:,}, {size[2]} classes"
    if options.scaled:
        shape = "12,000 × 512, 20 classes, blocks scaled down"
    part = "scaled" if options.scaled else None
    if options.methods and not options.scaled:
        part = f"{list(METHODS).index(names[0]):02}-{slug(names[0])}"
    report = Report("memory", f"Memory of fit beyond the rows, as a share of them: {shape}", part)
    for name in names:
        if options.scaled:
            report.add(method=name, **reasoned(name, {"float32": measure_scaled(name)}))
            continue
        shares = {"float32": measure(name, size, "float32")}
        if not options.quick:
            shares["float64"] = measure(name, size, "float64")
        report.add(method=name, **reasoned(name, shares))
    report.save()


if __name__ == "__main__":
    main()
