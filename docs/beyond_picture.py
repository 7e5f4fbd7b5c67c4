"""The picture of accuracy against seconds; results_tables.py draws it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

#: Pixels between a point and its label, and around a label.
NEAR, MARGIN = 9, 1


class Point(NamedTuple):
    """A method: seconds, accuracy, its colour, and whether it is a network on a GPU."""

    name: str
    seconds: float
    accuracy: float
    color: str
    on_gpu: bool


def draw(panels: Mapping[str, Sequence[Point]], path: Path) -> None:
    """Draw one panel for each kind of signatures, and write the picture.

    Parameters
    ----------
    panels : mapping of str to sequence of Point
        Title of a panel → its methods.
    path : Path
        The file to write.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(10, 4.6), dpi=120, layout="constrained")
    for ax, (title, points) in zip(axes, panels.items(), strict=True):
        for point in points:
            ax.plot(
                point.seconds,
                point.accuracy,
                "s" if point.on_gpu else "o",
                color=point.color,
                markerfacecolor="none" if point.on_gpu else point.color,
            )
        ax.set(xscale="log", xlabel="seconds of search and fit", title=title, xlim=(4, 1200))
        ax.set_xticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1,000"])
        ax.minorticks_off()
        ax.margins(y=0.08)
    axes[0].set_ylabel("accuracy among unseen classes, %")
    for mark, words in (("o", "one core, with its search"), ("s", "GPU, without a search")):
        face = "none" if mark == "s" else "0.35"
        axes[-1].plot([], [], mark, color="0.35", markerfacecolor=face, label=words)
    axes[-1].legend(loc="lower right", fontsize=7.5)
    figure.draw_without_rendering()  # axes have their place; labels must not move them
    figure.set_layout_engine("none")
    for ax, points in zip(axes, panels.values(), strict=True):
        label(ax, points)
    figure.savefig(path)  # as labels were placed
    plt.close(figure)


def label(ax: Any, points: Sequence[Point]) -> None:
    """Name the points, each beside its mark, where no mark and no other name is."""
    where = ax.transData.transform([(p.seconds, p.accuracy) for p in points])
    boxes = [np.concatenate([xy - NEAR + 2, xy + NEAR - 2]) for xy in where]  # the marks
    if ax.get_legend():
        boxes.append(np.array(ax.get_legend().get_window_extent().extents))
    inside = np.array(ax.get_window_extent().extents)
    # Points in a crowd first, while there is space around them.
    crowd = [np.sort(np.abs(where - xy).max(axis=1))[1:3].sum() for xy in where]
    for at in np.argsort(crowd):
        text = ax.annotate(
            points[at].name, points[at][1:3], (0, 0), textcoords="offset points", size=7.5
        )
        size = np.array(text.get_window_extent().size)
        costs = [
            _hidden(corner, size, boxes, inside) + 0.01 * number
            for number, corner in enumerate(_corners(where[at], size))
        ]
        corner = list(_corners(where[at], size))[int(np.argmin(costs))]
        text.set_position((corner - where[at]) * 72 / ax.figure.dpi)
        boxes.append(np.concatenate([corner - MARGIN, corner + size + MARGIN]))
        middle = corner + size / 2
        gap = np.maximum(np.abs(where[at] - middle) - size / 2, 0.0)
        if np.hypot(*gap) > 2 * NEAR:  # far from its mark: a line says whose it is
            end = np.clip(where[at], corner, corner + size)
            line = ax.transData.inverted().transform([where[at], end])
            ax.plot(*line.T, color="0.6", linewidth=0.6, zorder=0)


def _corners(point: Any, size: Any) -> Iterator[Any]:
    """Lower left corners that a label may have, the best to read first."""
    width, height = size
    for step in range(1, 5):
        far = step * NEAR
        right, left, middle = far, -far - width, -width / 2
        for x, y in (
            (right, -height / 2),
            (left, -height / 2),
            (middle, far),
            (middle, -far - height),
            (right, far / 2),
            (right, -far / 2 - height),
            (left, far / 2),
            (left, -far / 2 - height),
        ):
            yield point + np.array([x, y])


def _hidden(corner: Any, size: Any, boxes: Sequence[Any], inside: Any) -> float:
    """The area that a label would share with boxes, or have outside the axes."""
    own = np.concatenate([corner, corner + size])
    shared = sum(_common(own, box) for box in boxes)
    return float(shared + 10 * (size.prod() - _common(own, inside)))


def _common(first: Any, second: Any) -> float:
    width, height = np.minimum(first[2:], second[2:]) - np.maximum(first[:2], second[:2])
    return float(max(width, 0.0) * max(height, 0.0))
