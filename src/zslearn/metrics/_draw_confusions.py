"""Drawing of confusions: the cells and their labels, the worst pairs and their images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.metrics._confusions import ConfusedPair
from zslearn.metrics._plot_tools import BLUE, VERMILION, short_name
from zslearn.utils import Floats, import_optional, to_numpy

# Up to so many classes all labels are shown.
_MOST_LABELS = 50
# Side of an example and margin around the picture, in inches.
_EXAMPLE, _MARGIN = 0.7, 0.1


def draw_shares(ax: Any, bar_ax: Any, shares: Floats, options: Mapping[str, Any]) -> Any:
    """Draw cells and colour bar, beside `ax` where `bar_ax` is None; empty rows are grey."""
    defaults = {"cmap": "Blues", "vmin": 0.0, "vmax": 1.0, "interpolation": "nearest"}
    cells = ax.imshow(np.ma.masked_invalid(shares), **(defaults | dict(options)))
    ax.set_facecolor("0.85")
    n_classes, n_columns = shares.shape
    if n_columns > n_classes:
        ax.axvline(n_classes - 0.5, color="0.3", linewidth=1)
    where = {"ax": ax, "shrink": 0.8} if bar_ax is None else {"cax": bar_ax}
    bar = ax.figure.colorbar(cells, **where)
    bar.ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    bar.set_label("Share of the class's samples")
    return cells


def write_values(cells: Any, shares: Floats) -> NDArray[Any]:
    """Shares in percent, in a colour that can be read on the cell; zeros are left out."""
    texts = np.full(shares.shape, None, dtype=object)
    for i, j in zip(*np.nonzero(np.nan_to_num(shares)), strict=True):
        red, green, blue, _ = cells.cmap(cells.norm(shares[i, j]))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        texts[i, j] = cells.axes.text(
            j, i, f"{100 * shares[i, j]:.0f}",
            ha="center", va="center", fontsize=8, color="white" if dark else "black",
        )  # fmt: skip
    return texts


def label_axes(ax: Any, classes: NDArray[Any], has_other: bool) -> None:
    """Name rows and columns; `has_other`: a last column holds all other classes."""
    n_classes = len(classes)
    size, step = _label_size(ax, n_classes)
    shown = range(0, n_classes, step)
    names = [short_name(classes[i]) for i in shown]
    ax.set_yticks(shown, names, fontsize=size, parse_math=False)
    columns, column_names = list(shown), list(names)
    if has_other:
        # The last class gives way to the further column where labels are thinned.
        while step > 1 and columns and n_classes - columns[-1] < step:
            columns.pop(), column_names.pop()
        columns.append(n_classes)
        column_names.append("other classes")
    turned = max(map(len, column_names)) > 2
    rotation = {"rotation": 90} if turned else {}
    ax.set_xticks(columns, column_names, fontsize=size, parse_math=False, **rotation)
    ax.set(xlabel="Predicted class", ylabel="True class")


def _label_size(ax: Any, n_classes: int) -> tuple[float, int]:
    """Size of the labels, and every how many-th class has one, so that they do not touch."""
    extent = ax.get_window_extent()
    points = min(extent.width, extent.height) * 72 / ax.figure.dpi
    size = float(np.clip(0.75 * points / n_classes, 7, 10))
    most = int(np.clip(points / (1.1 * size), 2, _MOST_LABELS))
    return size, -(-n_classes // most)


def mark_pairs(ax: Any, pairs: Sequence[ConfusedPair], classes: NDArray[Any]) -> list[Any]:
    """Frame the cells of the pairs, and put their numbers at the corners."""
    labels = classes.tolist()
    marks = []
    for number, pair in enumerate(pairs, start=1):
        row, column = labels.index(pair.true), labels.index(pair.predicted)
        left, right, top, bottom = column - 0.5, column + 0.5, row - 0.5, row + 0.5
        ax.plot(
            [left, right, right, left, left], [top, top, bottom, bottom, top],
            color=VERMILION, linewidth=1.5, scalex=False, scaley=False, clip_on=False,
        )  # fmt: skip
        mark = ax.annotate(
            str(number), (right, top), xytext=(0, 0), textcoords="offset points",
            ha="center", va="center", fontsize=7, color="white", fontweight="bold",
            bbox={"boxstyle": "circle,pad=0.15", "facecolor": VERMILION, "edgecolor": "white"},
        )  # fmt: skip
        marks.append(mark)
    return marks


def name_pairs(bar_ax: Any, pairs: Sequence[ConfusedPair]) -> None:
    """List the worst pairs to the right of the colour bar."""
    lines = import_optional("matplotlib.lines", "UnseenConfusionDisplay")
    figure = bar_ax.figure
    handles = [
        lines.Line2D([], [], color=VERMILION, marker=f"${number}$", linestyle="none")
        for number in range(1, len(pairs) + 1)
    ]
    legend = figure.legend(
        handles, [_in_words(pair) for pair in pairs], title="Worst confusions",
        loc="upper left", bbox_to_anchor=_right_of(bar_ax),
        bbox_transform=figure.dpi_scale_trans, borderaxespad=0,
        fontsize=9, title_fontsize=10, alignment="left", frameon=False,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)


def draw_examples(
    bar_ax: Any,
    pairs: Sequence[ConfusedPair],
    examples: Mapping[tuple[Any, Any], Sequence[Any]],
    options: Mapping[str, Any],
) -> NDArray[Any]:
    """One row per pair: images that were confused, and one of the class they were taken for."""
    confused = [examples.get((pair.true, pair.predicted), ()) for pair in pairs]
    axes = _axes_grid(bar_ax, len(pairs), max(map(len, confused)) + 1)
    for i, pair in enumerate(pairs):
        row, last = axes[i], axes[i, -1]
        title = f"{i + 1}  {_in_words(pair)}"
        row[0].set_title(title, loc="left", fontsize=8, parse_math=False)
        for ax, image in zip(row, confused[i], strict=False):
            _show(ax, image, options)
        looks_like = examples.get((pair.predicted, pair.predicted), ())
        if _show(last, looks_like[0] if len(looks_like) else None, options):
            last.set_frame_on(True)
            for spine in last.spines.values():
                spine.set(color=BLUE, linewidth=2)
    if any(ax.images for ax in axes[:, -1]):
        axes[-1, -1].set_xlabel("predicted class", color=BLUE, fontsize=8)
    return axes


def square_axes(pyplot: Any, n_rows: int, n_columns: int) -> tuple[Any, Any]:
    """A new figure with axes whose cells are squares, and axes for the colour bar beside them."""
    cell = float(np.clip(0.17 * n_rows + 1.6, 2.6, 8.5)) / n_rows
    width, height = cell * n_columns, cell * n_rows
    figure = pyplot.figure(figsize=(width, height))
    return figure.add_axes((0, 0, 1, 1)), _axes_at(figure, (width + 0.15, 0, 0.18, height))


def _axes_at(figure: Any, place: tuple[float, float, float, float]) -> Any:
    """Axes at a place given in inches: left, bottom, width, height."""
    width, height = figure.get_size_inches()
    left, bottom, wide, high = place
    return figure.add_axes((left / width, bottom / height, wide / width, high / height))


def _axes_grid(left_ax: Any, n_rows: int, n_columns: int) -> NDArray[Any]:
    """Empty axes for images, to the right of others; above each row is room for a line."""
    left, top = _right_of(left_ax)
    axes = np.empty((n_rows, n_columns), dtype=object)
    for row, column in np.ndindex(axes.shape):
        x, y = left + 1.08 * _EXAMPLE * column, top - (_EXAMPLE + 0.3) * (row + 1)
        axes[row, column] = ax = _axes_at(left_ax.figure, (x, y, _EXAMPLE, _EXAMPLE))
        ax.set(xticks=[], yticks=[])
        ax.set_frame_on(False)
    return axes


def _right_of(ax: Any) -> tuple[float, float]:
    """The place to the right of axes and their labels, at their upper end, in inches."""
    dpi = ax.figure.dpi
    return ax.get_tightbbox().x1 / dpi + 0.25, ax.get_window_extent().y1 / dpi


def fit_figure(figure: Any) -> None:
    """Give a figure the size of what was drawn, also outside of it; nothing is scaled."""
    box = figure.get_tightbbox()
    old_width, old_height = figure.get_size_inches()
    width, height = box.width + 2 * _MARGIN, box.height + 2 * _MARGIN
    for legend in figure.legends:
        anchor = legend.get_bbox_to_anchor().transformed(figure.dpi_scale_trans.inverted())
        legend.set_bbox_to_anchor(
            (anchor.x0 - box.x0 + _MARGIN, anchor.y0 - box.y0 + _MARGIN), figure.dpi_scale_trans
        )
    figure.set_size_inches(width, height)
    for ax in figure.axes:
        place = ax.get_position(original=True)
        ax.set_position(
            (
                (place.x0 * old_width - box.x0 + _MARGIN) / width,
                (place.y0 * old_height - box.y0 + _MARGIN) / height,
                place.width * old_width / width,
                place.height * old_height / height,
            )
        )


def _in_words(pair: ConfusedPair) -> str:
    return (
        f"{short_name(pair.true)} → {short_name(pair.predicted)}: {100 * pair.share:.0f} % "
        f"({pair.n_confused} of {pair.n_samples})"
    )


def _show(ax: Any, image: Any, options: Mapping[str, Any]) -> bool:
    """Draw an image if there is one."""
    if image is None:
        return False
    pixels = to_numpy(image)
    if not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (3, 4))):
        raise ValueError(
            "An image must have the shape (height, width) or (height, width, 3 or 4), got "
            f"{pixels.shape}."
        )
    ax.imshow(pixels, **({"cmap": "gray"} | dict(options)))
    return True
