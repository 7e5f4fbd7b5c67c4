"""Figures of evaluations: seen–unseen curves, and test images with their predicted classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._files import replacing
from zslearn._utils._optional import import_optional
from zslearn.experiments._evaluate import Evaluation
from zslearn.experiments._names import method_style
from zslearn.metrics import SeenUnseenCurveDisplay

_RIGHT, _WRONG = "#1a7f37", "#b42318"


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure so that a reader meets a whole file or none."""
    with replacing(path) as temporary:
        # The same figure gives the same file: an SVG would hold the time.
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(temporary, dpi=150, metadata=metadata)


def new_figure(**options: Any) -> Any:
    """A figure that no window and no global state knows of."""
    figure = import_optional("matplotlib.figure", "Drawing pictures")
    return figure.Figure(layout="constrained", **options)


def save_curves(evaluations: Sequence[Evaluation], path: Path) -> None:
    """Draw the seen–unseen accuracy curves of several methods into one file.

    Colours and dashes are those of :func:`method_style`.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        One per method.
    path : Path
        The picture; its ending tells the format.
    """
    figure = new_figure(figsize=(6, 5))
    axes = figure.subplots()
    for evaluation in evaluations:
        SeenUnseenCurveDisplay.from_predictions(
            **vars(evaluation.generalized),
            calibration_factor=evaluation.bias,
            name=evaluation.method,
            ax=axes,
            **method_style(evaluation.method).plot_options,
        )
    axes.set_title("Seen–unseen accuracy; circle: factor 0, diamond: calibrated", fontsize=10)
    save_figure(figure, path)


def one_of_each(y_true: NDArray[Any], predicted: NDArray[Any]) -> list[int]:
    """A row of each class at random, of all of them the same share right as of all rows.

    The class with which the sum of the accuracies so far passes the next half shows a right answer.
    """
    rng, total, chosen = np.random.RandomState(0), 0.5, []
    for label in np.unique(y_true):
        of_class = np.flatnonzero(y_true == label)
        is_right = predicted[of_class] == label
        before, total = total, total + is_right.mean()
        # Sums of fractions may miss a whole number by rounding.
        shows_right = np.floor(total + 1e-9) > np.floor(before + 1e-9)
        chosen.append(int(rng.choice(of_class[is_right == shows_right])))
    return chosen


def save_predictions(
    images: NDArray[Any], y_true: NDArray[Any], predicted: NDArray[Any], path: Path, *, title: str
) -> None:
    """Draw images in rows of ten with what the model said, right or wrong."""
    columns = 10
    rows = -(-len(images) // columns)
    figure = new_figure(figsize=(0.95 * columns, 1.25 * rows + 0.5))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, image, true, said in zip(grid.flat, images, y_true, predicted, strict=False):
        right = said == true
        axes.imshow(255 - image, cmap="gray", vmin=0, vmax=255)
        caption = f"{said}" if right else f"{said} (is {true})"
        axes.set_title(caption, color=_RIGHT if right else _WRONG, fontsize=10)
    figure.suptitle(title, fontsize=11)
    save_figure(figure, path)
