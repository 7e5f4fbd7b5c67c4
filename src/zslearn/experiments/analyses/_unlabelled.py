"""Accuracy gained from unlabelled images, by the kind of the unlabelled set.

The test images of the unseen classes are split into halves at random: one provides the unlabelled
sets, the other is scored, so that classes without images in the set count as well.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._messages import InputWarning
from zslearn.experiments.analyses._drawing import ACCURACY, grouped_bars, mean_and_deviation
from zslearn.experiments.analyses._jobs import JobRunner
from zslearn.metrics import per_class_accuracy

_FEW = 3  # images per class


class UnlabelledSet(NamedTuple):
    """Rows of an unlabelled set, the candidates, and the rows to score."""

    rows: NDArray[np.intp]
    candidates: NDArray[Any]
    scored: NDArray[np.intp]
    present: NDArray[Any]  # candidates with images in the set, or with more of them


def unlabelled_sets(y: Any, seed: int) -> dict[str, UnlabelledSet]:
    """Draw an unlabelled set of each kind from the images of unseen classes, by their labels."""
    y, rng = np.asarray(y), np.random.default_rng(seed)
    classes, codes = np.unique(y, return_inverse=True)
    order = rng.permutation(len(y))
    order = order[np.argsort(codes[order], kind="stable")]
    codes = codes[order]
    rank = np.arange(len(y)) - np.searchsorted(codes, codes)
    inside, rank = rank % 2 == 0, rank // 2
    half = np.sort(rng.permutation(classes)[: len(classes) // 2])
    present = np.isin(y[order], half)
    scored, scored_half = order[~inside], order[~inside & present]
    return {
        "all": UnlabelledSet(order[inside], classes, scored, classes),
        "few": UnlabelledSet(order[inside & (rank < _FEW)], classes, scored, classes),
        "half absent": UnlabelledSet(order[inside & present], classes, scored, half),
        "half foreign": UnlabelledSet(order[inside], half, scored_half, half),
        "foreign only": UnlabelledSet(order[inside & ~present], half, scored_half, half[:0]),
        "10 to 1": UnlabelledSet(
            order[inside & (present | (rank % 10 == 0))], classes, scored, half
        ),
    }


def accuracies(model: Any, X: Any, y: Any, classes: NDArray[Any]) -> Floats:
    """Accuracy of each class among `classes`, the candidates; NaN if it has no images."""
    predicted = model.predict(X, classes=classes)
    found: Floats = per_class_accuracy(
        y, predicted, classes=classes, missing="ignore", average=None
    )
    return found


def adapt_and_score(
    model: Any, X: Any, y: Any, chosen: UnlabelledSet
) -> tuple[Any, dict[str, float]]:
    """A model adapted to a set, and how the accuracy of the candidates changed by it."""
    with warnings.catch_warnings():
        # A refused adaptation is a gain of 0.
        warnings.simplefilter("ignore", InputWarning)
        adapted = model.adapt(X[chosen.rows], classes=chosen.candidates)
    before, after = (
        accuracies(fitted, X[chosen.scored], y[chosen.scored], chosen.candidates)
        for fitted in (model, adapted)
    )
    gain, is_present = after - before, np.isin(chosen.candidates, chosen.present)
    metrics = {"before": before, ACCURACY: after, "gain": gain}
    metrics |= {"gain_present": gain[is_present], "gain_absent": gain[~is_present]}
    # A class without scored images does not count.
    counted = {name: values[~np.isnan(values)] for name, values in metrics.items()}
    return adapted, {name: float(v.mean()) for name, v in counted.items() if v.size}


def compare_sets(runner: JobRunner) -> pd.DataFrame:
    """Measure the gain of tuned methods with a set of each kind; a seed is a draw of the sets."""
    data = runner.data
    X, y = data.X_test_unseen, np.asarray(to_numpy(data.y_test_unseen))
    if len(np.unique(y)) < 2:
        raise ValueError("This analysis needs test images of at least two unseen classes.")

    def compute(method: str, seed: int, **variant: Any) -> dict[str, Any]:
        model = runner.tune(method, 0).estimator_
        return {
            "metrics": adapt_and_score(model, X, y, unlabelled_sets(y, seed)[variant["set"]])[1]
        }

    kinds = list(unlabelled_sets(y, 0))
    return runner.run(runner.jobs(compute, [{"set": kind} for kind in kinds]))


def draw_gains(ax: Any, frame: pd.DataFrame) -> None:
    """Draw the gains of present and of absent classes, a group per kind of set."""
    kinds, methods = list(dict.fromkeys(frame["set"])), list(dict.fromkeys(frame["method"]))
    stats = mean_and_deviation(frame, ["method", "set", "metric"])
    bars = []
    for method, part in product(methods, ("present", "absent")):
        own = stats[(stats["method"] == method) & (stats["metric"] == f"gain_{part}")]
        label = f"{part} classes" if len(methods) == 1 else f"{method}, {part} classes"
        bars.append((own.set_index("set"), {"label": label}))
    grouped_bars(ax, kinds, bars)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_xticks(range(len(kinds)), kinds)
    ax.set(xlabel="unlabelled set", ylabel="gain of accuracy (points)")
    ax.legend(fontsize=8)
