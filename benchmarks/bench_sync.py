"""Training of SynC's classifiers against SciPy's L-BFGS-B, in one run.

For each loss our solver trains to a relative duality gap of 1e-3. SciPy starts from zero (Crammer
and Singer's hinge: from small random numbers, as zero is a kink) and is stopped as soon as its
objective is no higher than ours, or at its own end, or at the time limit; then its time is a lower
bound and `reached` is False. The hinge is given to it as it is, by subgradients, and smoothed by a
soft maximum; the better of the two counts.

    python benchmarks/bench_sync.py            # N = 19,832, D = 2,048, C = 40: some minutes
    python benchmarks/bench_sync.py --only cs  # a part, for gather.py
    python benchmarks/bench_sync.py --quick    # N = 1,500, D = 128, C = 12
"""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import Report, seconds
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from zslearn._solvers.svm._multiclass import loss_and_slope
from zslearn.solvers import multiclass_svm, multiclass_svm_path

ALPHAS = [2.0**power for power in range(-30, -7, 2)]
ALPHA = 2.0**-12
FLOOR = 5.0
QUICK_LIMIT = 2.5


class Reached(Exception):
    """The target, or the time limit."""


def make_rows(n_samples: int, n_features: int, n_classes: int) -> tuple[Any, Any, Any]:
    """Rectified features round class means, of unit norm, and signatures of the classes."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n_samples) % n_classes)
    signatures = rng.standard_normal((n_classes, 20))
    means = signatures @ rng.standard_normal((20, n_features)) / np.sqrt(20)
    loadings = rng.standard_normal((300, n_features)) / np.sqrt(np.arange(1, 301))[:, None]
    X = np.empty((n_samples, n_features))
    for start in range(0, n_samples, 2048):
        rows = slice(start, min(start + 2048, n_samples))
        size = rows.stop - rows.start
        block = 0.35 * means[y[rows]] + 0.3 * rng.standard_normal((size, 300)) @ loadings
        block += 0.5 * rng.standard_normal((size, n_features))
        X[rows] = np.maximum(block, 0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    signatures /= np.linalg.norm(signatures, axis=1, keepdims=True)
    return X, y, np.linalg.norm(signatures[:, None] - signatures[None], axis=2)


class Peer:
    """SciPy's L-BFGS-B on the same objective, watched until it is as low as ours."""

    def __init__(self, X: Any, y: Any, n_classes: int, loss: str, margins: Any = None) -> None:
        self.X, self.y, self.loss, self.margins = X, y, loss, margins
        self.shape = (n_classes, X.shape[1])

    def smoothed(self, scores: Any, temperature: float) -> tuple[float, Any]:
        n_samples = len(self.y)
        every = np.arange(n_samples)
        margins = 1 - np.eye(self.shape[0]) if self.margins is None else self.margins
        violations = (scores + margins[self.y] - scores[every, self.y][:, None]) / temperature
        slope = softmax(violations, axis=1)
        slope[every, self.y] -= 1
        return temperature * float(np.mean(logsumexp(violations, axis=1))), slope / n_samples

    def time_to(
        self, target: float, alpha: float, limit: float, temperature: float | None = None
    ) -> dict[str, Any]:
        start = time.perf_counter()
        best, calls = np.inf, 0

        def objective(flat: Any) -> tuple[float, Any]:
            nonlocal best, calls
            calls += 1
            W = flat.reshape(self.shape)
            scores = self.X @ W.T
            penalty = 0.5 * alpha * float(flat @ flat)
            value, slope = loss_and_slope(scores, self.y, self.loss, self.margins)
            best = min(best, value + penalty)
            if best <= target or time.perf_counter() - start > limit:
                raise Reached
            if temperature is not None:
                value, slope = self.smoothed(scores, temperature)
            return value + penalty, (slope.T @ self.X + alpha * W).ravel()

        first = np.zeros(self.shape).ravel()
        if self.loss == "crammer_singer":
            first = 1e-3 * np.random.default_rng(0).standard_normal(first.size)
        with contextlib.suppress(Reached):
            minimize(
                objective,
                first,
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 10**6, "maxfun": 10**6, "ftol": 0, "gtol": 0},
            )
        wall = time.perf_counter() - start
        return {"seconds": wall, "objective": best, "calls": calls, "reached": best <= target}

    def default(self, alpha: float) -> dict[str, Any]:
        """SciPy with its own stopping rule, smooth loss only."""

        def objective(flat: Any) -> tuple[float, Any]:
            W = flat.reshape(self.shape)
            value, slope = loss_and_slope(self.X @ W.T, self.y, self.loss, self.margins)
            value += 0.5 * alpha * float(flat @ flat)
            return value, (slope.T @ self.X + alpha * W).ravel()

        first = np.zeros(self.shape).ravel()
        wall, found = seconds(lambda: minimize(objective, first, jac=True, method="L-BFGS-B"))
        return {"seconds": wall, "objective": found.fun}


def one_versus_other(
    report: Report, X: Any, y: Any, n_classes: int, limit: float, *, quick: bool
) -> None:
    """The whole path of alpha: ours warm-started, SciPy cold for each value."""

    alphas = ALPHAS[::4] if quick else ALPHAS
    ours, results = seconds(lambda: multiclass_svm_path(X, y, alphas=alphas, tol=1e-3))
    limit = limit if quick else max(limit, 0.75 * ours)
    peer = Peer(X, y, n_classes, "squared_hinge")
    total, reached, calls = 0.0, True, 0
    for result in sorted(results, key=lambda r: -r.alpha):
        found = peer.time_to(result.objective, result.alpha, limit)
        total, reached = total + found["seconds"], reached and found["reached"]
        calls += found["calls"]
        report.add(
            problem=f"ovo, alpha=2^{np.log2(result.alpha):.0f}",
            objective=result.objective,
            relative_gap=result.relative_gap,
            iterations=result.n_iter,
            scipy_s=found["seconds"],
            scipy_objective=found["objective"],
            scipy_calls=found["calls"],
            reached=found["reached"],
        )
    report.add(
        problem=f"ovo, path of {len(alphas)}",
        ours_s=ours,
        scipy_s=total,
        ratio=total / ours,
        floor=FLOOR,
        scipy_calls=calls,
        reached=reached,
    )
    report.save()
    # For information: SciPy's own stopping rule, which ends early where alpha is small.
    found_all = [peer.default(result.alpha) for result in results]
    excess = [
        found["objective"] / result.objective
        for result, found in zip(results, found_all, strict=True)
    ]
    total = sum(found["seconds"] for found in found_all)
    report.add(
        problem=f"ovo, path of {len(alphas)}, SciPy's default stop",
        ours_s=ours,
        scipy_s=total,
        ratio=total / ours,
        scipy_objective=f"objective {min(excess):.4g} to {max(excess):.4g} times ours",
    )


def crammer_singer(
    report: Report,
    name: str,
    X: Any,
    y: Any,
    n_classes: int,
    margins: Any,
    limit: float,
    *,
    quick: bool,
) -> None:
    def solve(tol: float) -> Callable[[], Any]:
        return lambda: multiclass_svm(
            X, y, alpha=ALPHA, loss="crammer_singer", margins=margins, tol=tol, random_state=0
        )

    ours, result = seconds(solve(1e-3))
    limit = limit if quick else max(limit, 2 * FLOOR * ours)
    peer = Peer(X, y, n_classes, "crammer_singer", margins)
    runs: list[dict[str, Any]] = []
    for temperature in (None, 0.03, 0.003):
        best = min((run["seconds"] for run in runs if run["reached"]), default=limit)
        runs.append(peer.time_to(result.objective, ALPHA, min(best, limit), temperature))
    found = min(runs, key=lambda run: (not run["reached"], run["seconds"]))
    report.add(
        problem=f"{name}, alpha=2^-12, gap 1e-3",
        objective=result.objective,
        relative_gap=result.relative_gap,
        iterations=result.n_iter,
        ours_s=ours,
        scipy_s=found["seconds"],
        scipy_objective=min(run["objective"] for run in runs),
        scipy_calls=found["calls"],
        reached=found["reached"],
        ratio=found["seconds"] / ours,
        floor=FLOOR,
    )
    if quick:
        return
    fine, result = seconds(solve(1e-6))
    report.add(
        problem=f"{name}, alpha=2^-12, gap 1e-6",
        objective=result.objective,
        relative_gap=result.relative_gap,
        iterations=result.n_iter,
        ours_s=fine,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--limit", type=float, default=30.0, help="seconds a SciPy run may take at least"
    )
    parser.add_argument("--only", choices=["ovo", "cs", "struct"])
    options = parser.parse_args()
    size = (1500, 128, 12) if options.quick else (19_832, 2048, 40)
    limit = min(options.limit, QUICK_LIMIT) if options.quick else options.limit
    X, y, margins = make_rows(*size)
    warnings.simplefilter("ignore")
    # Compile before the clock runs.
    multiclass_svm(X[:100], y[:100], alpha=0.1, loss="crammer_singer", n_classes=size[2], tol=0.5)
    title = "SynC training, N = {:,}, D = {:,}, C = {}".format(*size)
    report = Report("sync", title, part=options.only)
    if options.only in (None, "cs"):
        crammer_singer(report, "cs", X, y, size[2], None, limit, quick=options.quick)
    if options.only in (None, "struct"):
        crammer_singer(report, "struct", X, y, size[2], margins, limit, quick=options.quick)
    if options.only in (None, "ovo"):
        one_versus_other(report, X, y, size[2], limit, quick=options.quick)
    report.save()


if __name__ == "__main__":
    main()
