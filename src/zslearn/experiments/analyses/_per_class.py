"""Single unseen classes: what they are taken for, what tells the two apart, and how far they are.

Beside the accuracy of each class stand the class that it is most often taken for and the attributes
in which the two differ most, in units of the attributes' standard deviation over all classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._measure import by_class
from zslearn.experiments._records import read_record
from zslearn.experiments.analyses._classes import nearest_seen
from zslearn.experiments.analyses._display import AnalysisDisplay
from zslearn.experiments.analyses._pieces import (
    Piece,
    PieceRunner,
    RunOptions,
    chosen_methods,
    chosen_seeds,
)
from zslearn.metrics import ClassDistanceDisplay, UnseenConfusionDisplay

METHODS = ("EXEM (1NN)",)


def analyze_per_class(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = METHODS,
    seeds: int | Sequence[int] = (0,),
    n_attributes: int = 3,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Look at each unseen class: its accuracy, its worst confusion, its distance.

    Parameters
    ----------
    data : ZeroShotDataset
        With its active split.
    out : path
        Folder of the records, which hold the whole confusion.
    methods : str or sequence of str
        Names of methods; each is tuned by leaving out seen classes.
    seeds : int or sequence of int
        Each decides folds.
    n_attributes : int, default=3
        How many attributes are named.
    **options
        How it runs; see :class:`PieceRunner`.

    Returns
    -------
    DataFrame
        One row per method, seed and class: `method`, `seed`, `class`, `accuracy`, `distance` to
        the `nearest` seen class, `taken_for`, the `share` of its images that are, and
        `differ_in`: attributes; `confusion` maps each answer to a number of images.
    """
    runner = PieceRunner("per-class", data, out, **options)
    classes = [str(label) for label in data.unseen_classes.tolist()]

    def compute(method: str, seed: int) -> dict[str, Any]:
        model = runner.tune(method, seed).estimator_
        predicted = model.predict(data.X_test_unseen, classes=data.unseen_classes)
        found = by_class(data.y_test_unseen, predicted, data.unseen_classes)
        accuracy = float(np.mean(list(found["per_class"].values())))
        names = [str(label) for label in predicted.tolist()]
        return {"metrics": {"per_class_accuracy": accuracy}, **found, "predicted": names}

    pieces = [
        Piece(method, seed, partial(compute, method, seed), {"of": "classes"})
        for seed in chosen_seeds(seeds)
        for method in chosen_methods(methods)
    ]
    runner.run(pieces)
    distances = nearest_seen(data)
    distances.index = pd.Index([str(label) for label in distances.index])
    rows: list[dict[str, Any]] = []
    predictions: dict[str, list[str]] = {}
    truth = [str(label) for label in data.y_test_unseen.tolist()]
    for piece in pieces:
        record = read_record(runner.path(piece))
        if "failed" in record:
            continue
        predictions.setdefault(piece.method, record["predicted"])
        answers = pd.crosstab(pd.Series(truth), pd.Series(record["predicted"]))
        for label in classes:
            worst, share = record["confused_with"].get(label, [[None, 0.0]])[0]
            rows.append(
                {
                    "method": piece.method,
                    "seed": piece.seed,
                    "class": label,
                    "accuracy": record["per_class"].get(label, np.nan),
                    "distance": distances.loc[label, "distance"],
                    "nearest": str(distances.loc[label, "nearest"]),
                    "taken_for": worst,
                    "share": share,
                    "differ_in": differing_attributes(data, label, worst, n_attributes),
                    "confusion": _counts(answers, label),
                }
            )
    frame = pd.DataFrame(rows)
    # For pictures with example images: pandas keeps `attrs` beside the table.
    frame.attrs["predictions"] = predictions
    return frame


def _counts(answers: pd.DataFrame, label: str) -> dict[str, int]:
    """How often images of a class got each answer; empty for a class without an image."""
    if label not in answers.index:
        return {}
    counts = answers.loc[label].to_dict()
    return {str(name): int(count) for name, count in counts.items() if count}


def differing_attributes(
    data: ZeroShotDataset, first: str, second: str | None, number: int = 3
) -> str:
    """Name the attributes in which two classes differ most.

    Parameters
    ----------
    data : ZeroShotDataset
        Whose signatures are compared; those of several kinds have no attributes in common.
    first, second : str
        Labels, as text.
    number : int, default=3
        How many.

    Returns
    -------
    str
        Such as "mark caron −, letter z +": plus where the first class has more. Empty where there
        is no second class, or the signatures are of several kinds or equal.
    """
    if second is None or not isinstance(data.signatures, pd.DataFrame):
        return ""
    labels = [str(label) for label in data.signatures.index]
    values = data.signatures.to_numpy(dtype=float)
    spread = values.std(axis=0)
    apart = values[labels.index(first)] - values[labels.index(second)]
    apart = np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0)
    order = np.argsort(-np.abs(apart), kind="stable")[:number]
    names = data.signatures.columns
    named = [f"{names[i]} {'+' if apart[i] > 0 else '−'}" for i in order if apart[i]]
    return ", ".join(named)


class PerClassDisplay(AnalysisDisplay):
    """Pictures of single unseen classes, of the first method of the table.

    "distance" has the accuracy of each class against the distance to the nearest seen one,
    "confusion" which classes are taken for which.
    """

    columns = ("method", "seed", "class", "accuracy", "distance", "confusion")
    panels = ("distance", "confusion")
    size = (7.4, 5.8)

    def _draw(self, ax: Any, panel: str) -> None:
        method = str(self.frame["method"].iloc[0])
        first = self.frame[self.frame["method"] == method]
        if panel == "distance":
            mean = first.groupby("class", sort=False)[["accuracy", "distance"]].mean()
            ClassDistanceDisplay(
                distance=mean["distance"].to_numpy(),
                accuracy=mean["accuracy"].to_numpy(),
                classes=mean.index.to_numpy(dtype=str),
                estimator_name=method,
            ).plot(ax=ax)
            return
        of_seed = first[first["seed"] == first["seed"].iloc[0]]
        labels = of_seed["class"].tolist()
        counts = [[row.get(label, 0) for label in labels] for row in of_seed["confusion"]]
        display = UnseenConfusionDisplay(
            counts=np.array(counts), classes=np.array(labels), estimator_name=method
        )
        display.plot(ax=ax)

    def plot_pairs(
        self, data: ZeroShotDataset, *, n_pairs: int = 4, n_examples: int = 5
    ) -> UnseenConfusionDisplay:
        """Draw the confusion with images of the worst pairs, in a figure of its own.

        Parameters
        ----------
        data : ZeroShotDataset
            What was analysed; it has images.
        n_pairs, n_examples : int
            How many pairs, and images of each.

        Returns
        -------
        UnseenConfusionDisplay
        """
        method = str(self.frame["method"].iloc[0])
        if data.images is None:
            raise ValueError(f"{data.name} has no images to show.")
        predictions = self.frame.attrs.get("predictions", {})
        if method not in predictions:
            raise ValueError(
                "Examples are drawn from the table as analyze_per_class returned it; this one lost "
                "its predictions."
            )
        return UnseenConfusionDisplay.from_predictions(
            _texts(data.y_test_unseen),
            np.array(predictions[method]),
            classes=_texts(data.unseen_classes),
            images=data.images_test_unseen,
            n_pairs=n_pairs,
            n_examples=n_examples,
            name=method,
            image_kwargs={"cmap": "gray_r"} if np.ndim(data.images) == 3 else None,
        )


def _texts(labels: Any) -> NDArray[Any]:
    return np.array([str(label) for label in np.asarray(labels).tolist()])
