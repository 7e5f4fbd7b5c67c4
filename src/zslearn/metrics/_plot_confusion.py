"""Picture of the confusions among unseen classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._optional import import_optional
from zslearn.metrics._plot import BLUE, VERMILION, short_name, signature_rows
from zslearn.metrics._validation import (
    check_classes,
    check_known,
    check_labels,
    check_same_kind,
    check_same_length,
    positions,
    unique,
)

# Confusions among classes as data: counts, shares, worst pairs, order and examples.

# The best order of the leaves takes time that grows with the cube of the number of classes.
_MOST_ORDERED = 500


class ConfusedPair(NamedTuple):
    """Samples of one class that were taken for another.

    Attributes
    ----------
    true : label
        Their class.
    predicted : label
        The class that they were taken for.
    share : float
        The share of the samples of the class `true` that were.
    n_confused : int
        How many were.
    n_samples : int
        How many samples the class `true` has.
    """

    true: Any
    predicted: Any
    share: float
    n_confused: int
    n_samples: int


def count_confusions(
    rows: NDArray[np.intp], columns: NDArray[np.intp], n_classes: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Number of samples by true and predicted class, and of those taken for any other class."""
    # Position −1 becomes the last column.
    cells = rows * (n_classes + 1) + np.where(columns < 0, n_classes, columns)
    counts = np.bincount(cells, minlength=n_classes * (n_classes + 1))
    counts = counts.reshape(n_classes, n_classes + 1)
    return counts[:, :-1], counts[:, -1]


def shares_of_classes(counts: NDArray[Any], n_samples: NDArray[Any]) -> Floats:
    """Each row divided by its number of samples; NaN for a class without a sample."""
    n_samples = n_samples[:, None]
    return np.where(n_samples > 0, counts / np.maximum(n_samples, 1), np.nan)


def find_worst_pairs(
    counts: NDArray[Any], n_samples: NDArray[Any], classes: NDArray[Any], n_pairs: int
) -> list[ConfusedPair]:
    """Pairs with the largest shares; see `UnseenConfusionDisplay.worst_pairs`."""
    confused = np.where(np.eye(len(classes), dtype=bool), 0, counts)
    shares = shares_of_classes(counts, n_samples)
    rows, columns = np.nonzero(confused)
    worst = np.lexsort((columns, rows, -confused[rows, columns], -shares[rows, columns]))[:n_pairs]
    labels = classes.tolist()
    return [
        ConfusedPair(
            labels[i], labels[j], float(shares[i, j]), int(confused[i, j]), int(n_samples[i])
        )
        for i, j in zip(rows[worst], columns[worst], strict=True)
    ]


def order_classes(
    classes: NDArray[Any], signatures: Any, order: Literal["similarity", "name"] | None
) -> NDArray[np.intp]:
    """Positions of the classes in the order of the picture."""
    if order not in ("similarity", "name", None):
        raise ValueError(f'order must be "similarity", "name" or None, got {order!r}.')
    if order == "similarity" and signatures is None:
        raise ValueError('order="similarity" needs signatures=.')
    by_name = positions(unique(classes), classes)
    if signatures is None or order == "name" or len(classes) < 3:
        return by_name
    # Imported here because it takes long.
    from scipy.cluster.hierarchy import leaves_list, linkage

    # Starting from the order of names, equal signatures stay in it.
    rows = signature_rows(signatures, classes[by_name])
    tree = linkage(rows, method="average", optimal_ordering=len(classes) <= _MOST_ORDERED)
    return by_name[leaves_list(tree)]


def pick_examples(
    pairs: list[ConfusedPair],
    classes: NDArray[Any],
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
    images: Any,
    n_examples: int,
) -> dict[tuple[Any, Any], list[Any]]:
    """Images of the worst pairs, and one of each class that was predicted wrongly there."""
    examples: dict[tuple[Any, Any], list[Any]] = {}
    labels = classes.tolist()
    for pair in pairs:
        true, predicted = labels.index(pair.true), labels.index(pair.predicted)
        found = np.flatnonzero((rows == true) & (columns == predicted))
        spread = np.linspace(0, len(found) - 1, min(n_examples, len(found))).round().astype(int)
        examples[pair.true, pair.predicted] = [images[int(i)] for i in found[spread]]
        # Of the class that it was taken for one that was recognised, if there is any.
        own = np.flatnonzero(rows == predicted)
        right = own[columns[own] == predicted]
        typical = (right if len(right) else own)[:1]
        examples[pair.predicted, pair.predicted] = [images[int(i)] for i in typical]
    return examples


# Drawing of confusions: the cells and their labels, the worst pairs and their images.

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


# Up to so many classes shares are written into the cells.
_MOST_VALUES = 15


class UnseenConfusionDisplay:
    """Picture of the confusions among unseen classes.

    A row is a class, a column is what its samples were taken for; the cell is the share of the
    class's samples, so that a row sums to 1. The worst pairs are numbered in the cells and named,
    beside examples where there are images.

    Use `from_estimator` or `from_predictions` to make one. All parameters are stored as attributes.

    Parameters
    ----------
    counts : ndarray of shape (n_classes, n_classes)
        Number of samples by true class (rows) and predicted class (columns).
    classes : ndarray of shape (n_classes,)
        Labels of the rows and columns.
    n_other : ndarray of shape (n_classes,), default=None
        Number of samples of each class that were taken for a class not in `classes`. They get a
        column of their own. None: there are none.
    examples : mapping of (label, label) to list of images, default=None
        Images of some cells, by true and predicted class. Those of (c, c) show what the class c
        looks like. An image has the shape (height, width) or (height, width, 3 or 4), and may be
        None where it is missing. None: no examples are drawn.
    estimator_name : str, default=None
        Name in the title. None: not shown.

    Attributes
    ----------
    im_ : matplotlib AxesImage
        The shares.
    text_ : ndarray of shape (n_rows, n_columns) of matplotlib Text or None
        The shares in the cells, in percent; None where they are not written.
    marks_ : list of matplotlib Text
        The numbers of the worst pairs, in their order.
    example_axes_ : ndarray of matplotlib Axes of shape (n_pairs, n_columns) or None
        One row per worst pair; in the last column the class that it was taken for. None without
        examples.
    ax_ : matplotlib Axes
        The axes with the shares.
    figure_ : matplotlib Figure
        The figure that holds the axes.

    See Also
    --------
    zslearn.metrics.per_class_accuracy : The mean of the diagonal.
    zslearn.metrics.ClassDistanceDisplay : Which classes are hard, by their description.

    Examples
    --------
    >>> from zslearn.metrics import UnseenConfusionDisplay
    >>> display = UnseenConfusionDisplay.from_predictions(
    ...     ["cat", "cat", "owl", "owl", "owl"], ["cat", "owl", "owl", "owl", "cat"]
    ... )
    >>> display.shares.round(2)
    array([[0.5 , 0.5 ],
           [0.33, 0.67]])
    >>> pair = display.worst_pairs(1)[0]
    >>> f"{pair.true} taken for {pair.predicted}: {pair.n_confused} of {pair.n_samples}"
    'cat taken for owl: 1 of 2'
    """

    im_: Any
    text_: NDArray[Any] | None
    marks_: list[Any]
    example_axes_: NDArray[Any] | None
    ax_: Any
    figure_: Any

    def __init__(
        self,
        *,
        counts: ArrayLike,
        classes: ArrayLike,
        n_other: NDArray[Any] | None = None,
        examples: Mapping[tuple[Any, Any], Sequence[Any]] | None = None,
        estimator_name: str | None = None,
    ) -> None:
        counts, classes = np.asarray(counts), check_classes(classes)
        if counts.shape != (len(classes), len(classes)):
            raise ValueError(
                f"counts must have one row and one column per class: there are {len(classes)} "
                f"classes, and counts has shape {counts.shape}."
            )
        self.counts = counts
        self.classes = classes
        self.n_other = None if n_other is None else np.asarray(n_other)
        self.examples = examples
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        signatures: Any = None,
        order: Literal["similarity", "name"] | None = None,
        images: Any = None,
        n_pairs: int = 5,
        n_examples: int = 6,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> UnseenConfusionDisplay:
        """Plot the confusions of a fitted estimator, which chooses among the unseen classes.

        Parameters
        ----------
        estimator : object
            Fitted, with `predict(X, classes=...)` and, where `classes` is None, `unseen_classes_`.
        X : array of shape (n_samples, n_features)
            Samples of unseen classes.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like, default=None
            The classes to choose among. None: `unseen_classes_`.
        signatures : DataFrame, mapping or MultiSignatures, default=None
            What is known of the classes, for their order.
        order : {"similarity", "name"}, default=None
            See `from_predictions`.
        images : sequence of n_samples images, default=None
            See `from_predictions`.
        n_pairs, n_examples : int, default=5 and 6
            How many of the worst pairs are named, and how many images of each are drawn.
        name : str, default=None
            Name in the title. None: the name of the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw the shares alone. None: a new figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : UnseenConfusionDisplay

        See Also
        --------
        UnseenConfusionDisplay.from_predictions : The same from predicted labels.
        """
        candidates = estimator.unseen_classes_ if classes is None else classes
        return cls.from_predictions(
            y,
            estimator.predict(X, classes=candidates),
            classes=candidates,
            signatures=signatures,
            order=order,
            images=images,
            n_pairs=n_pairs,
            n_examples=n_examples,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        signatures: Any = None,
        order: Literal["similarity", "name"] | None = None,
        images: Any = None,
        n_pairs: int = 5,
        n_examples: int = 6,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> UnseenConfusionDisplay:
        """Plot the confusions of predicted labels.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_pred : array-like of shape (n_samples,)
            Predicted labels. Those outside `classes` are counted together in one column.
        classes : array-like, default=None
            The classes that are shown, which must hold every label of `y_true`. One without a
            sample has an empty row. None: those that occur in `y_true`.
        signatures : DataFrame, mapping or MultiSignatures, default=None
            What is known of the classes, for their order.
        order : {"similarity", "name"}, default=None
            "similarity" puts classes with similar signatures side by side (average linkage of the
            distances between signatures of unit length), so that confusions of similar classes lie
            near the diagonal; "name" sorts the labels. None: by similarity if there are signatures.
        images : sequence of n_samples images, default=None
            The image of each sample, of shape (height, width) or (height, width, 3 or 4); None
            where one is missing. Examples of the worst pairs are drawn beside the shares.
        n_pairs, n_examples : int, default=5 and 6
            How many of the worst pairs are named, and how many images of each are drawn: spread
            evenly over the confused samples.
        name : str, default=None
            Name in the title. None: no title.
        ax : matplotlib Axes, default=None
            Where to draw the shares alone. None: a new figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : UnseenConfusionDisplay

        See Also
        --------
        UnseenConfusionDisplay.from_estimator : The same from an estimator and samples.
        """
        true, pred = check_labels(y_true, "y_true"), check_labels(y_pred, "y_pred")
        check_same_length("y_true", true, "y_pred", pred)
        check_same_kind("y_true", true, "y_pred", pred)
        labels = unique(true) if classes is None else check_classes(classes)
        labels = labels[order_classes(labels, signatures, order)]

        rows, columns = check_known(true, labels), positions(pred, labels)
        counts, n_other = count_confusions(rows, columns, len(labels))
        display = cls(
            counts=counts,
            classes=labels,
            n_other=n_other if n_other.any() else None,
            estimator_name=name,
        )
        if images is not None:
            if len(images) != len(true):
                raise ValueError(
                    f"images must have one entry per sample: got {len(images)} images for "
                    f"{len(true)} labels."
                )
            pairs = display.worst_pairs(n_pairs)
            display.examples = pick_examples(pairs, labels, rows, columns, images, n_examples)
        return display.plot(ax=ax, n_pairs=n_pairs, **kwargs)

    @property
    def shares(self) -> Floats:
        """Shares of each class's samples, by predicted class; NaN for a class without a sample."""
        return shares_of_classes(self.counts, self._n_samples())

    def _n_samples(self) -> NDArray[Any]:
        total = self.counts.sum(axis=1)
        return total if self.n_other is None else total + self.n_other

    def worst_pairs(self, n_pairs: int = 5) -> list[ConfusedPair]:
        """Pairs of classes with the largest shares of confused samples.

        Parameters
        ----------
        n_pairs : int, default=5
            How many, at most; pairs that were never confused are not among them.

        Returns
        -------
        list of ConfusedPair
            The worst first; of equal shares the one with more samples, then the one further up and
            left in the picture. "a taken for b" and "b taken for a" are two pairs.
        """
        return find_worst_pairs(self.counts, self._n_samples(), self.classes, n_pairs)

    def plot(
        self,
        ax: Any = None,
        *,
        n_pairs: int = 5,
        include_values: bool | None = None,
        image_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> UnseenConfusionDisplay:
        """Draw the shares, the worst pairs and their examples.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw the shares alone: the worst pairs are numbered in the cells, and
            `worst_pairs` names them. None: a new figure, with their names and examples.
        n_pairs : int, default=5
            How many of the worst pairs are marked.
        include_values : bool, default=None
            Whether shares are written into the cells, in percent. None: up to 15 classes.
        image_kwargs : mapping, default=None
            Passed to matplotlib's `imshow` for the examples; `{"cmap": "gray_r"}` draws ink dark
            if larger numbers are more ink.
        **kwargs : dict
            Passed to matplotlib's `imshow` for the shares.

        Returns
        -------
        display : UnseenConfusionDisplay
            This object.
        """
        pyplot = import_optional("matplotlib.pyplot", "UnseenConfusionDisplay")
        pairs = self.worst_pairs(n_pairs)
        shares = self.shares
        if self.n_other is not None:
            other = shares_of_classes(self.n_other[:, None], self._n_samples())
            shares = np.column_stack([shares, other])
        own_figure = ax is None
        bar_ax = None
        if own_figure:
            ax, bar_ax = square_axes(pyplot, *shares.shape)
        self.ax_, self.figure_ = ax, ax.figure
        self.im_ = draw_shares(ax, bar_ax, shares, kwargs)
        if include_values is None:
            include_values = len(self.classes) <= _MOST_VALUES
        self.text_ = write_values(self.im_, shares) if include_values else None
        label_axes(ax, self.classes, has_other=self.n_other is not None)
        if self.estimator_name is not None:
            ax.set_title(short_name(self.estimator_name), parse_math=False)
        self.marks_ = mark_pairs(ax, pairs, self.classes)
        self.example_axes_ = None
        if own_figure:
            if pairs and self.examples:
                self.example_axes_ = draw_examples(bar_ax, pairs, self.examples, image_kwargs or {})
            elif pairs:
                name_pairs(bar_ax, pairs)
            fit_figure(self.figure_)
        return self
