"""ν-SVR of many targets over one kernel, against a loop of scikit-learn's NuSVR.

Every row is a ratio of two times of one run; both sides stop at a violation of 1e-3. Ours takes
all cores, the loop one: halve a ratio for a loop on two. The loop is timed on some of the targets,
spread evenly over all of them, and on every setting, and its time is multiplied up; ours is timed
whole. Targets are the projected class means of CUB where ZSLEARN_DATA names a folder that has its
features, and made with the same spectrum otherwise.

    python benchmarks/bench_nu_svr.py                 # all of it, some minutes
    python benchmarks/bench_nu_svr.py --quick         # one kernel a size, no paper grid
    python benchmarks/bench_nu_svr.py --only grids    # a part, for gather.py
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.io
from _common import Report, seconds
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import NuSVR

from zslearn.signatures import normalize_signatures, rbf_similarity
from zslearn.solvers import nu_svr, nu_svr_path
from zslearn.synthesis import ClassStatistics

PENALTIES = [2.0**k for k in range(-5, 6)]
SHARES = [2.0**k for k in range(-8, 1)]
WIDTHS = [2.0**k for k in range(-4, 5)]
# Numbers of classes (AwA's, CUB's, SUN's and ImageNet's) → what the ratio is to be at least.
SINGLE = {40: None, 150: 8.0, 645: 5.0, 1000: None}
GRIDS = {40: None, 150: 30.0, 645: 15.0, 1000: None}


def synthetic(n_classes: int, n_attributes: int, n_dims: int, seed: int = 0):
    """Signatures, and targets that depend on them by half, with the spectrum of CUB's exemplars."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n_classes, 20))
    signatures = np.abs(hidden @ rng.normal(size=(20, n_attributes))) + 0.1
    smooth = np.tanh(hidden @ rng.normal(size=(20, n_dims)) / 3)
    noise = rng.normal(size=(n_classes, n_dims))
    targets = smooth / smooth.std(axis=0) + noise
    spectrum = 0.235 * np.arange(1, n_dims + 1) ** -0.72
    return normalize_signatures(signatures), targets * spectrum / np.sqrt(2)


def cub(n_classes: int | None = None, fold: int | None = None):
    """Signatures and exemplars of CUB's seen classes; without one of five folds if asked."""
    folder = Path(os.environ.get("ZSLEARN_DATA", "")) / "xlsa17" / "CUB"
    if not os.environ.get("ZSLEARN_DATA") or not (folder / "efficientnet_lite0.mat").exists():
        return None
    features = scipy.io.loadmat(folder / "efficientnet_lite0.mat")
    splits = scipy.io.loadmat(folder / "att_splits.mat")
    rows = splits["trainval_loc"].ravel().astype(int) - 1
    X, y = features["features"].T[rows], features["labels"].ravel().astype(int)[rows]
    if fold is not None:
        seen = np.random.default_rng(0).permutation(np.unique(y))
        keep = ~np.isin(y, np.array_split(seen, 5)[fold])
        X, y = X[keep], y[keep]
    statistics = ClassStatistics.from_samples(X, y)
    components, _ = statistics.principal_components(1000)
    exemplars = (statistics.means - statistics.mean) @ components.T
    signatures = normalize_signatures(splits["original_att"].T)[statistics.classes - 1]
    return signatures, exemplars


def problem(n_classes: int, n_dims: int):
    """The most real problem there is of this size."""
    if n_classes == 150 and (real := cub()) is not None:
        return "CUB", real[0], np.ascontiguousarray(real[1][:, :n_dims])
    attributes = {40: 85, 150: 312, 645: 102, 1000: 500}[n_classes]
    return "synthetic", *synthetic(n_classes, attributes, n_dims)


def loop_seconds(K, Y, settings, n_sampled: int) -> float:
    """Time of the loop over all targets and the given settings, from some of the targets."""
    columns = np.linspace(0, Y.shape[1] - 1, n_sampled).astype(int)
    start = time.perf_counter()
    for C, nu in settings:
        for j in columns:
            NuSVR(kernel="precomputed", C=C, nu=nu).fit(K, Y[:, j])
    return (time.perf_counter() - start) * Y.shape[1] / n_sampled


def single(report: Report, n_classes: int, floor: float | None, gammas: list[float]) -> None:
    name, signatures, Y = problem(n_classes, 500)
    for gamma in gammas:
        K = rbf_similarity(signatures, gamma=gamma)
        nu_svr(K, Y)
        ours, fit = seconds(lambda K=K: nu_svr(K, Y), repeats=3)
        tight, exact = seconds(lambda K=K: nu_svr(K, Y, tol=1e-8))
        sampled = 50 if n_classes < 500 else 10
        loop = loop_seconds(K, Y, [(1.0, 0.5)], sampled)
        report.add(
            what="one setting", data=name, classes=n_classes, dims=500, gamma=gamma,
            loop_s=loop, loop_sampled=f"{sampled}/500 dims", ours_s=ours, ratio=loop / ours,
            floor=floor, violation=float(fit.violation.max()), ours_1e8_s=tight,
            violation_1e8=float(exact.violation.max()),
        )  # fmt: skip


def grid(report: Report, n_classes: int, floor: float | None, gammas: list[float]) -> None:
    name, signatures, Y = problem(n_classes, 500)
    settings = [(C, nu) for C in PENALTIES for nu in SHARES]
    for gamma in gammas:
        K = rbf_similarity(signatures, gamma=gamma)
        start = time.perf_counter()
        violation = max(
            float(fit.violation.max()) for fit in nu_svr_path(K, Y, C=PENALTIES, nu=SHARES)
        )
        ours = time.perf_counter() - start
        sampled = 10 if n_classes < 500 else 3
        loop = loop_seconds(K, Y, settings, sampled)
        report.add(
            what="grid C × ν", data=name, classes=n_classes, dims=500, gamma=gamma,
            loop_s=loop, loop_sampled=f"{sampled}/500 dims, 99/99 settings", ours_s=ours,
            ratio=loop / ours, floor=floor, violation=violation,
        )  # fmt: skip


def paper_grid(report: Report) -> None:
    """C × ν × γ × d × folds at CUB's shape; d = 500 is the first half of d = 1000."""
    total = loop = violation = 0.0
    name = "CUB"
    for fold in range(5):
        real = cub(fold=fold)
        if real is None:
            name = "synthetic"
            real = synthetic(120, 312, 1000, seed=fold)
        signatures, Y = real
        start = time.perf_counter()
        for gamma in WIDTHS:
            K = rbf_similarity(signatures, gamma=gamma)
            for fit in nu_svr_path(K, Y, C=PENALTIES, nu=SHARES):
                violation = max(violation, float(fit.violation.max()))
        total += time.perf_counter() - start
        if fold == 0:
            settings = [(C, nu) for C in PENALTIES for nu in SHARES]
            for gamma in WIDTHS:
                K = rbf_similarity(signatures, gamma=gamma)
                # Both projections of five folds: 1,500 dims.
                loop += 5 * 1.5 * loop_seconds(K, Y, settings, 4)
    report.add(
        what="paper's grid, 5 folds", data=name, classes=120, dims="500 and 1000", gamma="9 values",
        loop_s=loop, loop_sampled="4/1000 dims, 99/99 settings, 9/9 γ, 1/5 folds", ours_s=total,
        ratio=loop / total, floor="360 s", violation=violation, regressors=6_682_500,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one kernel a size, no paper grid")
    parser.add_argument("--only", choices=["one", "grids", "paper"], help="a part of it")
    options = parser.parse_args()
    quick, only = options.quick, options.only
    warnings.simplefilter("error", ConvergenceWarning)
    gammas = [1.0] if quick else [2.0**-4, 1.0, 2.0**4]
    report = Report("nu_svr", "ν-SVR of all dimensions against a loop of NuSVR", part=only)
    for n_classes, floor in SINGLE.items():
        if only in (None, "one"):
            single(report, n_classes, floor, gammas)
    for n_classes, floor in GRIDS.items():
        if only in (None, "grids") and (not quick or n_classes < 500):
            grid(report, n_classes, floor, gammas)
    if only == "paper" or (only is None and not quick):
        paper_grid(report)
    print(report.save())


if __name__ == "__main__":
    main()
