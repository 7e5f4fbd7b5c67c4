"""EXEM's whole grid of the paper at SUN's shape: 891 ν-SVR settings, two widths, five folds.

645 seen classes of 16 rows, 516 of them in a fold, 2,048 features, 102 attributes; the rows are
made up. The search is :class:`~zslearn.model_selection.ZeroShotSearchCV` as a user calls it, with
the tolerance that LIBSVM stops at. It can be stopped and goes on from its checkpoint; a fold's
seconds are those of all its settings, whenever they were computed.

    python benchmarks/bench_search.py --checkpoint FOLDER     # the whole grid
    python benchmarks/bench_search.py --folds 0               # one fold of five
    python benchmarks/bench_search.py --quick                 # a tenth of the size
    python benchmarks/bench_search.py --device cuda           # rows on a GPU
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from _common import Report

from zslearn.model_selection import ClassKFold, ZeroShotSearchCV
from zslearn.synthesis import EXEM

PER_CLASS, N_FEATURES, N_ATTRIBUTES = 16, 2048, 102
TOLERANCE = 1e-3


def problem(n_classes: int, n_features: int):
    """Rows around a smooth function of hidden traits, which the signatures know in part."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((n_classes, 20))
    signatures = np.abs(hidden @ rng.standard_normal((20, N_ATTRIBUTES)))
    signatures += 0.5 * rng.random(signatures.shape)
    means = np.tanh(hidden @ rng.standard_normal((20, 200)) / 4)
    means = means @ rng.standard_normal((200, n_features)) / 14
    means += 0.4 * rng.standard_normal(means.shape)
    y = np.repeat(np.arange(n_classes), PER_CLASS)
    X = np.empty((len(y), n_features), dtype=np.float32)
    for c in range(n_classes):
        noise = rng.standard_normal((PER_CLASS, n_features))
        X[y == c] = np.maximum(means[c] + noise, 0)
    return X, y, pd.DataFrame(signatures)


def part_of(options: argparse.Namespace) -> str | None:
    """Which folds and kernels, where they are not all; or another tolerance."""
    names = [f"fold{number}" for number in options.folds] if len(options.folds) < 5 else []
    names += [f"gamma{gamma:g}" for gamma in options.gammas or []]
    names += [f"tol{options.tol:g}"] if options.tol != TOLERANCE else []
    return "-".join(names) or None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folds", type=int, nargs="*", default=range(5), help="which of the five")
    parser.add_argument("--gammas", type=float, nargs="*", help="some of the nine kernels")
    parser.add_argument("--tol", type=float, default=TOLERANCE)
    parser.add_argument("--checkpoint", help="a folder to go on from")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    n_classes, n_features = (65, 256) if options.quick else (645, N_FEATURES)
    X, y, signatures = problem(n_classes, n_features)
    device = None
    if options.device != "cpu":
        import torch

        X, device = torch.asarray(X, device=options.device), torch.cuda.get_device_name()
    grid = dict(EXEM.grids["paper"])
    if options.gammas:
        grid["gamma"] = options.gammas
    if options.quick:
        grid |= {"n_components": [100, 200], "gamma": grid["gamma"][::4]}
    every = list(ClassKFold(5).split(X, y))
    folds = [every[number] for number in options.folds]
    search = ZeroShotSearchCV(EXEM(tol=options.tol), grid, cv=folds, checkpoint=options.checkpoint)
    EXEM(n_components=8, C=0.01).fit(X[:200], y[:200], signatures=signatures)  # compiles
    wall, processor = time.perf_counter(), time.process_time()
    search.fit(X, y, signatures=signatures)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    results = search.cv_results_
    n_settings = len(results["params"])
    report = Report(
        "search_cuda" if device else "search",
        f"EXEM's grid of the paper, SUN's shape, {device or 'on the processor'}",
        part=part_of(options),
    )
    report.add(
        classes=n_classes,
        rows=len(y),
        features=n_features,
        settings=n_settings,
        kernels=len(grid["gamma"]),
        folds=list(options.folds),
        tol=options.tol,
        wall_s=wall,
        processor_s=processor,
        fit_s=float(results["mean_fit_time"].sum() * search.n_splits_),
        score_s=float(results["mean_score_time"].sum() * search.n_splits_),
        refit_s=search.refit_time_,
        floor_s=60 if device else 1800,
        best=search.best_params_,
        accuracy=search.best_score_,
    )
    report.save(device)


if __name__ == "__main__":
    main()
