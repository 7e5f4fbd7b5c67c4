"""The coverage and size of prediction sets, for the tables of `research_notes/calibration.rst`.

`python docs/coverage_table.py` prints rows of a csv-table: means and standard deviations over
splits of the *seen* classes, of which a quarter plays the unseen ones, and a fifth of the images of
the others is held aside for testing. With `--real` the data sets' own splits, once.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from zslearn import EXEM, GaussianEXEM
from zslearn.calibration import PredictionSets
from zslearn.datasets import ZeroShotDataset, load_glyphs, load_xlsa17

STATED = (0.8, 0.9, 0.95)
DATA = {
    "CUB": lambda: load_xlsa17("CUB", features="efficientnet_lite0.mat"),
    "glyphs": load_glyphs,
}
METHODS = {"Gaussian EXEM": GaussianEXEM, "EXEM (1NN)": EXEM}
Split = tuple[Any, Any, list[tuple[str, Any, Any, Any]]]


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    for name in options.data:
        data = DATA[name]()
        for method in options.methods:
            found: dict[str, list[Any]] = {}
            splits = _real(data) if options.real else _drawn(data, options.splits)
            for X, y, parts in splits:
                signatures = data.signatures.loc[np.unique(np.concatenate([y, *parts[0][2:]]))]
                model = PredictionSets(METHODS[method]()).fit(X, y, signatures=signatures)
                for part, rows, labels, classes in parts:
                    reports = [
                        model.coverage_report(rows, labels, classes=classes, coverage=stated)
                        for stated in STATED
                    ]
                    found.setdefault(part, []).append([report.mean() for report in reports])
            for part, values in found.items():
                print(f"   {name}, {method}, {part}, {_cells(np.asarray(values))}", flush=True)


def _drawn(data: ZeroShotDataset, n_splits: int) -> Iterator[Split]:
    """Splits of the seen classes: training images, and what is tested."""
    X, y = np.asarray(data.X_train), np.asarray(data.y_train)
    classes = np.unique(y)
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        new = rng.choice(classes, len(classes) // 4, replace=False)
        is_new = np.isin(y, new)
        aside = ~is_new & (rng.random(len(y)) < 0.2)
        train = ~is_new & ~aside
        yield X[train], y[train], _parts(X[is_new], y[is_new], X[aside], y[aside], new)


def _real(data: ZeroShotDataset) -> Iterator[Split]:
    """The split of the data set."""
    tested = data.X_test_unseen, data.y_test_unseen, data.X_test_seen, data.y_test_seen
    yield data.X_train, data.y_train, _parts(*tested, data.unseen_classes)


def _parts(X_new: Any, y_new: Any, X_seen: Any, y_seen: Any, new: Any) -> Any:
    return [
        ("new among new", X_new, y_new, new),
        ("new among all", X_new, y_new, None),
        ("seen among all", X_seen, y_seen, None),
    ]


def _cells(values: Any) -> str:
    """Coverage and size at each stated coverage, with spreads where there are several splits."""
    means, spreads = values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else None
    cells = []
    for i in range(len(STATED)):
        coverage, size = f"{means[i, 0]:.3f}", f"{means[i, 1]:.2f}"
        if spreads is not None:
            coverage, size = f"{coverage} ± {spreads[i, 0]:.3f}", f"{size} ± {spreads[i, 1]:.2f}"
        cells += [coverage, size]
    return ", ".join(cells)


if __name__ == "__main__":
    main()
