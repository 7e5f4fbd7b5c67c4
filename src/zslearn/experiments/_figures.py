"""Figures of evaluations: seen–unseen curves, and test images with their predicted classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._files import replacing
from zslearn._utils._optional import import_optional
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.experiments._evaluate import Evaluation
from zslearn.experiments._names import method_style
from zslearn.metrics._plot import SeenUnseenCurveDisplay

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
    axes.set_title(
        "Seen–unseen accuracy; circle: without calibration, diamond: calibrated", fontsize=10
    )
    save_figure(figure, path)


def save_predictions(
    data: ZeroShotDataset, predicted: NDArray[Any], path: Path, *, title: str
) -> None:
    """Draw test images of unseen classes with what the model said, right or wrong."""
    rng, columns, rows = np.random.RandomState(0), 10, 5
    y_true = data.y_test_unseen
    images = data.images_test_unseen
    turns = [rng.permutation(np.flatnonzero(y_true == c)) for c in data.unseen_classes]
    n_turns = -(-columns * rows // len(turns))
    chosen = [turn[i] for i in range(n_turns) for turn in turns if i < len(turn)][: columns * rows]
    figure = new_figure(figsize=(0.95 * columns, 1.25 * rows + 0.5))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, i in zip(grid.flat, chosen, strict=False):
        right = predicted[i] == y_true[i]
        axes.imshow(255 - images[i], cmap="gray", vmin=0, vmax=255)
        caption = f"{predicted[i]}" if right else f"{predicted[i]} (is {y_true[i]})"
        axes.set_title(caption, color=_RIGHT if right else _WRONG, fontsize=10)
    figure.suptitle(title, fontsize=11)
    save_figure(figure, path)
