"""Variants of Gaussian EXEM on held-out classes: the table of research_notes/gaussian_exem.rst.

``python docs/gaussian_variants.py cub glyphs …`` measures them on data sets, in five folds, and
keeps the scores in docs/results/gaussian_variants.json; without arguments it writes the table from
these. What did not pay is not in the library, so the variants are written out here.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from scipy.spatial.distance import pdist

from zslearn.datasets import ZeroShotDataset, load_glyphs, load_xlsa17, make_zero_shot
from zslearn.metrics import ausuc, per_class_accuracy
from zslearn.signatures import normalize_signatures, rbf_similarity
from zslearn.synthesis._gaussian_process import ClassProcess, basis

RESULTS = Path(__file__).parent / "results"
N_FOLDS = 5
#: Data sets: their name in the table, and how they are loaded.
DATA = {
    "cub": "CUB, attributes",
    "sent": "CUB, sentences",
    "glyphs": "glyphs",
    "emoji": "emoji",
    "made0": "made up, 1",
    "made1": "made up, 2",
    "made2": "made up, 3",
}
MADE_UP: list[dict[str, Any]] = [
    {"n_seen": 60},
    {"n_seen": 60, "nonlinearity": 1.0, "noise": 0.3},
    {
        "n_seen": 100,
        "signature_kind": "binary",
        "n_modes": 3,
        "n_features": 128,
        "n_attributes": 30,
        "noise": 0.3,
    },
]


@dataclass(frozen=True)
class Variant:
    """What differs from one layer: see :func:`kernel` and :func:`scores`."""

    kernel: str = "layers"
    score: str = "shared"
    trusts: tuple[float, ...] = (0.3, 0.1, 0.03)
    n_components: int | None = None


VARIANTS = {
    "500 components, one layer, trust 1": Variant("signatures", trusts=(1.0,), n_components=500),
    "one layer, trust 1": Variant("signatures", trusts=(1.0,)),
    "one layer": Variant("signatures"),
    "two layers": Variant(),
    "two layers, trust 1": Variant(trusts=(1.0,)),
    "two layers, of predicted means alone": Variant("means"),
    "three layers": Variant("three"),
    "two layers, seen classes predicted without themselves": Variant("loo"),
    "one layer, linear kernel added": Variant("linear"),
    "two layers, variances of the prediction in the score": Variant(score="predictive"),
    "two layers, squared errors of leaving a class out in the metric": Variant(score="errors"),
    "two layers, a variance of its own for each seen class": Variant(score="class"),
    "two layers, Student's t": Variant(score="t"),
}


def load(name: str) -> ZeroShotDataset:
    """A data set, of which the training part is used."""
    if name.startswith("made"):
        number = int(name.removeprefix("made"))
        return make_zero_shot(n_unseen=5, random_state=number, **MADE_UP[number])
    if name == "glyphs":
        return load_glyphs()
    if name == "emoji":
        raise SystemExit("The column emoji was measured with load_emoji of an earlier version.")
    signatures = {"signatures": "sent_splits.mat:att"} if name == "sent" else {}
    return load_xlsa17("CUB", features="efficientnet_lite0.mat", **signatures)


class Fold:
    """Some seen classes left out, and a fifth of the images of the others held aside."""

    def __init__(self, data: ZeroShotDataset, number: int, n_components: int | None) -> None:
        X = np.asarray(data.X_train, dtype=float)
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
        y = np.searchsorted(data.seen_classes, data.y_train)
        n_classes = len(data.seen_classes)
        order = np.random.RandomState(0).permutation(n_classes)
        unseen = np.sort(order[number::N_FOLDS])
        seen = np.setdiff1d(np.arange(n_classes), unseen)
        # Of glyphs all three images of a face are on the same side, as in the test.
        held = _held_out(y, seen, 3 if data.name == "glyphs" else 1)
        place = np.empty(n_classes, dtype=int)
        place[np.r_[seen, unseen]] = np.arange(n_classes)
        parts = [np.isin(y, seen) & ~held, held, np.isin(y, unseen)]
        self.n_seen, self.n_unseen = len(seen), len(unseen)
        self.y, self.y_seen, self.y_unseen = (place[y[part]] for part in parts)
        self.sizes = np.bincount(self.y).astype(float)
        table = data.signatures.loc[data.seen_classes].to_numpy(dtype=float)[np.r_[seen, unseen]]
        rows = table / np.linalg.norm(table, axis=1, keepdims=True)
        self.signatures = normalize_signatures(table, scale=_median(rows[: len(seen)]))
        self._project([X[part] for part in parts], n_components)
        self.space = cache(self._space)
        self.kernel = cache(self._kernel)

    def _project(self, rows: list[Any], n_components: int | None) -> None:
        """Rows and class means along the eigenvectors of the covariance within classes."""
        X = rows[0]
        means = np.stack([X[self.y == c].mean(axis=0) for c in range(self.n_seen)])
        axes = np.eye(X.shape[1])
        if n_components is not None:
            width = X.shape[1]
            chosen = [width - n_components, width - 1]
            axes = scipy.linalg.eigh(np.cov(X.T), subset_by_index=chosen)[1]
        deviations = (X - means[self.y]) @ axes
        values, vectors = np.linalg.eigh(deviations.T @ deviations / (len(X) - self.n_seen))
        self.values, axes = np.maximum(values, 0.0), axes @ vectors
        center = means.mean(axis=0)
        self.rows = [(part - center) @ axes for part in rows]
        self.means = (means - center) @ axes

    def _space(self, shrinkage: float) -> tuple[list[Any], Any]:
        """Whitened rows and class means, rows of a common norm."""
        roots = np.sqrt((1 - shrinkage) * self.values + shrinkage * self.values.mean())
        _, lengths, axes = scipy.linalg.svd(self.means / roots, full_matrices=False)
        axes = (axes[lengths > 1e-6 * lengths[0]] / roots).T
        rows, means = [part @ axes for part in self.rows], self.means @ axes
        within = ((rows[0] - means[self.y]) ** 2).sum() / len(self.y)
        squares = (means**2).sum(axis=1) + within
        norm = np.sqrt(self.sizes @ squares / self.sizes.sum())
        means = means * (norm / np.sqrt(squares))[:, None]
        center = means.mean(axis=0)
        rows = [norm * r / np.linalg.norm(r, axis=1, keepdims=True) - center for r in rows]
        return rows, means - center

    def _kernel(self, kind: str, shrinkage: float, gamma: float, alpha: float) -> TableKernel:
        """The kernel of a variant, between all classes and the seen ones."""
        n, table = self.n_seen, self.signatures
        below = np.asarray(rbf_similarity(table, table[:n], gamma=gamma))
        if kind == "linear":
            centered = table - table[:n].mean(axis=0)
            unit = np.mean((centered[:n] ** 2).sum(axis=1))
            return TableKernel(self, (below + centered @ centered[:n].T / unit) / 2, gamma)
        kernel = TableKernel(self, below, gamma)
        _, means = self.space(shrinkage)
        for _ in range({"signatures": 0, "three": 2}.get(kind, 1)):
            process = kernel.process(means, alpha)
            points = kernel.table @ process.coef
            if kind == "loo":
                points[:n] = process.leave_one_out(kernel.seen).means
            points = points / np.linalg.norm(points, axis=1, keepdims=True)
            points = points / _median(points[:n])
            above = np.asarray(rbf_similarity(points, points[:n], gamma=gamma))
            share = 0.0 if kind == "means" else 0.5
            kernel = TableKernel(self, share * below + (1 - share) * above, gamma)
        return kernel


class TableKernel:
    """A kernel as numbers: a row for each class, a column for each seen one."""

    def __init__(self, fold: Fold, table: Any, gamma: float) -> None:
        self.table, self.gamma, self._sizes = table, gamma, fold.sizes
        seen = table[: fold.n_seen]
        values, vectors = np.linalg.eigh((seen + seen.T) / 2)
        self.seen = (vectors * np.maximum(values, 0.0)) @ vectors.T

    def process(self, means: Any, alpha: float) -> ClassProcess:
        """The process conditioned on class means."""
        return ClassProcess.of(basis(self.seen, self._sizes, alpha), means, alpha)


def _held_out(y: Any, seen: Any, size: int) -> Any:
    """A fifth of the samples of each seen class, in groups of neighbours."""
    rng, held = np.random.RandomState(100), np.zeros(len(y), dtype=bool)
    for c in seen:
        rows = np.flatnonzero(y == c)
        groups = np.arange(len(rows)) // size
        n_groups = groups.max() + 1
        chosen = rng.permutation(n_groups)[: max(1, round(0.2 * n_groups))]
        held[rows[np.isin(groups, chosen)]] = True
    return held


def _median(rows: Any) -> float:
    distances = pdist(rows)
    return float(np.median(distances[distances > 1e-9]))


def measure(fold: Fold, variant: Variant, at: tuple[float, ...]) -> tuple[float, float]:
    """Accuracy among the classes left out, and AUSUC."""
    shrinkage, gamma, alpha, trust = at
    rows, means = fold.space(shrinkage)
    local = variant.kernel in ("signatures", "linear")
    key = (variant.kernel, 0.0, gamma, 0.0) if local else (variant.kernel, shrinkage, gamma, alpha)
    kernel = fold.kernel(*key)
    process = kernel.process(means, alpha)
    prior = process.leave_one_out(kernel.seen)
    known = prior.given(trust * fold.sizes, means)
    predicted = process.predict(kernel.table[fold.n_seen :])
    centers = np.r_[known.means, predicted.means]
    variances = np.r_[known.variances, predicted.variances]
    if variant.score == "errors":
        units = 1 / np.sqrt(1 + ((means - prior.means) ** 2).mean(axis=0))
        rows, centers = [part * units for part in rows], centers * units
    spread = np.ones(len(centers))
    if variant.score == "class":
        own = np.bincount(fold.y, ((rows[0] - means[fold.y]) ** 2).sum(axis=1)) / fold.sizes
        spread[: fold.n_seen] = np.sqrt(own / own.mean())
    found = [scores(part, centers, variances, spread, variant.score) for part in rows[1:]]
    classes = np.arange(fold.n_seen + fold.n_unseen)
    among = found[1][:, fold.n_seen :].argmax(axis=1) + fold.n_seen
    return per_class_accuracy(fold.y_unseen, among), ausuc(
        np.r_[fold.y_seen, fold.y_unseen],
        np.concatenate(found),
        classes=classes,
        seen_classes=classes[: fold.n_seen],
    )


def scores(z: Any, centers: Any, variances: Any, spread: Any, kind: str) -> Any:
    """Log densities, up to what all classes share."""
    n_dims = z.shape[1]
    if kind == "predictive":
        total = 1 + variances
        linear = centers / total
        constant = 0.5 * (centers * linear + np.log(total)).sum(axis=1)
        return 0.5 * (z * z) @ (1 - 1 / total).T + z @ linear.T - constant
    squares = (z**2).sum(axis=1)[:, None] - 2 * z @ centers.T + (centers**2).sum(axis=1)
    if kind == "t":
        freedom = 2 * n_dims
        return -(freedom + n_dims) / 2 * np.log1p(np.maximum(squares, 0.0) / freedom)
    return -0.5 * (squares / spread + n_dims * np.log(spread))


def run(name: str) -> dict[str, dict[str, float]]:
    """Every variant on a data set, each at its best setting."""
    data, found = load(name), {}
    for n_components in (None, 500):
        if n_components and data.X_train.shape[1] <= n_components:
            continue
        folds = [Fold(data, number, n_components) for number in range(N_FOLDS)]
        for label, variant in VARIANTS.items():
            if variant.n_components != n_components:
                continue
            grid = product((0.1, 0.3, 0.6), (0.5, 1.0), (0.03, 0.1, 0.3), variant.trusts)
            values = [np.mean([measure(f, variant, at) for f in folds], axis=0) for at in grid]
            accuracy, area = np.max(values, axis=0)
            found[label] = {"accuracy": round(float(accuracy), 4), "ausuc": round(float(area), 4)}
            print(name, label, found[label], flush=True)
    return found


def table(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """Rows of the table."""
    names = [name for name in DATA if name in results]
    lines = ["variant; " + "; ".join(DATA[name] for name in names)]
    for label in VARIANTS:
        cells = []
        for name in names:
            of = results[name].get(label)
            cells.append(f"{100 * of['accuracy']:.1f}, {of['ausuc']:.3f}" if of else "–")
        lines.append("; ".join([label, *cells]))
    head = ".. csv-table::\n   :header-rows: 1\n   :class: numbers\n   :delim: ;\n\n"
    return head + "".join(f"   {line}\n" for line in lines)


def main() -> None:
    """Measure what is named, or write the table."""
    path = RESULTS / "gaussian_variants.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in sys.argv[1:]:
        results[name] = run(name)
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "gaussian_variants.inc").write_text(table(results), encoding="utf-8")


if __name__ == "__main__":
    main()
