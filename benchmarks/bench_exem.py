"""Fitting EXEM, against scikit-learn's PCA and a NuSVR for each dimension, and how it grows.

Both sides get the same rows of unit norm, the same number of components and the same kernel; the
peer's regressors are fitted on some of the dimensions, spread over all, and their time is
multiplied up. `agreement` is the correlation of the exemplars that both predict for classes without
rows, over the dimensions that were fitted. Growth is the fitted power of the rows, the classes or
the dimensions that processor seconds grow with.

    python benchmarks/bench_exem.py
    python benchmarks/bench_exem.py --quick
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
from _common import Report, fitted_exponent, interleaved
from sklearn.decomposition import PCA
from sklearn.svm import NuSVR

from zslearn._utils._array import unit_rows
from zslearn.signatures import rbf_similarity
from zslearn.synthesis import EXEM


def problem(n_rows: int, n_features: int, n_seen: int, n_unseen: int = 20):
    rng = np.random.default_rng(0)
    signatures = rng.standard_normal((n_seen + n_unseen, 40))
    means = np.maximum(signatures @ rng.standard_normal((40, n_features)) / 6, 0)
    y = np.arange(n_rows) % n_seen
    X = np.maximum(means[y] + 0.5 * rng.standard_normal((n_rows, n_features)), 0)
    return X.astype(np.float32), y, pd.DataFrame(signatures)


def against_peer(report: Report, n_rows: int, n_features: int, n_seen: int, width: int) -> None:
    X, y, table = problem(n_rows, n_features, n_seen)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    model = EXEM(n_components=width, tol=1e-3)
    model.fit(X, y, signatures=table)  # what is compiled is compiled here
    ours = interleaved({"ours": lambda: model.fit(X, y, signatures=table)}, repeats=3)["ours"]
    start = time.process_time()
    pca = PCA(width, svd_solver="covariance_eigh").fit(unit)
    projected = pca.transform(unit)
    targets = np.stack([projected[y == c].mean(axis=0) for c in range(n_seen)])
    pca_s = time.process_time() - start
    whole = unit_rows(table.to_numpy()) / model.signature_scale_[0]
    K = rbf_similarity(whole[:n_seen], gamma=1.0)
    K_unseen = rbf_similarity(whole[n_seen:], whole[:n_seen], gamma=1.0)
    some = np.unique(np.linspace(0, width - 1, 24).astype(int))
    start = time.process_time()
    predicted = np.stack(
        [
            NuSVR(kernel="precomputed", C=1.0, nu=0.5, tol=1e-3)
            .fit(np.asarray(K), targets[:, j])
            .predict(np.asarray(K_unseen))
            for j in some
        ],
        axis=1,
    )
    svr_s = (time.process_time() - start) * width / len(some)
    found = model.class_scorer_.parameters[n_seen:][:, some]
    # Components are found up to their sign.
    correlations = [abs(np.corrcoef(a, b)[0, 1]) for a, b in zip(found.T, predicted.T, strict=True)]
    report.add(
        what="fit",
        rows=n_rows,
        features=n_features,
        classes=n_seen,
        components=width,
        peer_s=pca_s + svr_s,
        peer_pca_s=pca_s,
        ours_s=ours,
        ratio=(pca_s + svr_s) / ours,
        agreement=float(np.median(correlations)),
    )


def growth(report: Report, what: str, shapes: list[tuple[int, int, int]]) -> None:
    """Shapes differ in one number, which is the `what` they grow in."""
    which = ("rows", "features", "classes").index(what)
    times = []
    for shape in shapes:
        X, y, table = problem(*shape)
        model = EXEM(n_components=64, tol=1e-3)
        fit = interleaved({"fit": lambda m=model, X=X, y=y, t=table: m.fit(X, y, signatures=t)}, 3)
        times.append(fit["fit"])
    sizes = [float(shape[which]) for shape in shapes]
    report.add(
        what=f"growth in {what}",
        sizes=sizes,
        seconds=times,
        exponent=fitted_exponent(sizes, times),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    report = Report("exem", "EXEM's fit against PCA + NuSVR of scikit-learn, processor seconds")
    against_peer(report, *((5_000, 512, 150, 250) if quick else (20_000, 1024, 200, 500)))
    unit, few = (2, 3) if quick else (4, 4)
    growth(report, "rows", [(n * 1000 * unit, 256, 50) for n in (2, 4, 8, 16)[:few]])
    growth(report, "features", [(1000 * unit, d, 50) for d in (128, 256, 512, 1024)[:few]])
    growth(report, "classes", [(1000 * unit, 128, c) for c in (50, 100, 200, 400)[:few]])
    report.save()


if __name__ == "__main__":
    main()
