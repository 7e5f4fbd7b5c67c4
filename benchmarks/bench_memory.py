"""What fitting each method takes beyond the rows it is given, on the CPU.

The peak of all memory that NumPy and Python ask for while `fit` runs, as a share of the rows' own:
0.5 means that rows and fitting together take one and a half times the rows.

    python benchmarks/bench_memory.py
    python benchmarks/bench_memory.py --quick
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
import warnings

import numpy as np
import pandas as pd
from _common import Report

from zslearn.experiments import METHODS

# Training that goes on and on takes no more memory than its first steps.
SHORT = {"max_iter": 3, "n_epochs": 2}


def problem(n_rows: int, n_features: int, n_classes: int):
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    signatures = rng.standard_normal((n_classes + 20, 32))
    means = np.maximum(signatures @ rng.standard_normal((32, n_features)), 0)
    X = np.empty((n_rows, n_features), dtype=np.float32)
    for start in range(0, n_rows, 1000):
        block = slice(start, min(start + 1000, n_rows))
        X[block] = np.maximum(means[y[block]] + rng.standard_normal(X[block].shape), 0)
    return X, y, pd.DataFrame(signatures)


def shortened(model):
    names = {
        name: value
        for name, value in model.get_params().items()
        if name.rpartition("__")[2] in SHORT and isinstance(value, int)
    }
    return model.set_params(**{n: min(v, SHORT[n.rpartition("__")[2]]) for n, v in names.items()})


def peak_bytes(function) -> int:
    """Largest memory in use while a function runs, less what was in use before."""
    gc.collect()
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="a third of the rows, fewer methods")
    parser.add_argument("--methods", nargs="*", help="names; by default those of `zslearn bench`")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    size = (8_000, 1024, 30) if options.quick else (24_000, 1024, 40)
    X, y, signatures = problem(*size)
    quick = ["EXEM (1NN)", "EXEM (1NNs)", "SynC o-vs-o", "ESZSL", "SAE", "CCA", "COSTA", "ConSE"]
    names = options.methods or (
        quick if options.quick else [name for name, m in METHODS.items() if m.in_default]
    )
    shape = f"{size[0]:,} × {size[1]:,} float32, {size[2]} classes"
    report = Report("memory", f"Memory of fit beyond the rows, {shape}")
    few = slice(0, 3 * size[2])
    for name in names:
        make = METHODS[name].make
        # What is compiled or imported is not of the rows.
        shortened(make()).fit(X[few], y[few], signatures=signatures)
        peak = peak_bytes(lambda make=make: shortened(make()).fit(X, y, signatures=signatures))
        report.add(method=name, peak_mib=peak / 2**20, share_of_rows=peak / X.nbytes)
    report.save()


if __name__ == "__main__":
    main()
