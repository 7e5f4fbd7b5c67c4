"""Plot of the confusions among unseen classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._optional import import_optional
from zslearn.metrics._display import (
    BLUE,
    VERMILION,
    Display,
    frame_cell,
    plain_texts,
    short_name,
    signature_rows,
    write_cell,
)
from zslearn.metrics._validation import check_classes, check_known, check_pair, positions, unique

# Optimal leaf ordering takes cubic time in the number of classes.
_MAX_OPTIMAL_ORDERING = 500
# Maximum numbers of classes for which shares are written into the cells, and of axis labels.
_MAX_WRITTEN, _MAX_LABELS = 15, 50
# In inches: side of an example image, width of the list of pairs, and margin for axis labels.
_EXAMPLE_SIZE, _LIST_WIDTH, _MARGIN = 0.8, 3.6, 2.2


class ConfusedPair(NamedTuple):
    """Samples of one class that were predicted as another.

    Attributes
    ----------
    true : label
        True class of the samples.
    predicted : label
        Predicted class.
    share : float
        Share of the samples of class `true` that were confused.
    n_confused : int
        Number of confused samples.
    n_samples : int
        Number of samples of class `true`.
    """

    true: Any
    predicted: Any
    share: float
    n_confused: int
    n_samples: int

    def __str__(self) -> str:
        return (
            f"{short_name(self.true)} → {short_name(self.predicted)}: {100 * self.share:.0f} % "
            f"({self.n_confused} of {self.n_samples})"
        )


@inherit_docs
@dataclass(kw_only=True, eq=False, repr=False)
class UnseenConfusionDisplay(Display):
    """Plot of the confusion matrix of unseen classes, normalised by row.

    The worst pairs are numbered in the cells and listed, with example images if available.

    Use `from_estimator` or `from_predictions` to create a display; parameters are stored as
    attributes.

    Parameters
    ----------
    counts : ndarray of shape (n_classes, n_classes)
        Number of samples by true class (rows) and predicted class (columns).
    classes : ndarray of shape (n_classes,)
        Labels of the rows and columns.
    n_other : ndarray of shape (n_classes,), default=None
        Number of samples of each class that were predicted as a class outside `classes`, shown in
        an additional column. None if there are none.
    examples : mapping of (label, label) to list of images, default=None
        Example images by true and predicted class. Those of (c, c) show typical samples of class c.
        An image has shape (height, width) or (height, width, 3 or 4); missing images are None.

    Attributes
    ----------
    im_ : matplotlib AxesImage
        The shares.
    text_ : list of matplotlib Text
        Non-zero shares in percent; empty for more than 15 classes.
    marks_ : list of matplotlib Text
        Numbers of the worst pairs.
    example_axes_ : ndarray of matplotlib Axes of shape (n_pairs, n_columns) or None
        One row per worst pair, with a sample of the predicted class in the last column. None
        without examples.

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

    counts: Any
    classes: Any
    n_other: Any = None
    examples: Mapping[tuple[Any, Any], Sequence[Any]] | None = None
    estimator_name: str | None = None

    def __post_init__(self) -> None:
        self.counts, self.classes = np.asarray(self.counts), check_classes(self.classes)
        if self.counts.shape != (len(self.classes), len(self.classes)):
            raise ValueError(
                f"counts must have one row and one column per class: there are "
                f"{len(self.classes)} classes, and counts has shape {self.counts.shape}."
            )
        self.n_other = None if self.n_other is None else np.asarray(self.n_other)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        signatures: Any = None,
        images: Any = None,
        n_pairs: int = 5,
        n_examples: int = 6,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the confusions of predicted labels.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_pred : array-like of shape (n_samples,)
            Predicted labels. Labels outside `classes` are counted in one common column.
        classes : array-like, default=None
            Classes to show, which must include every label of `y_true`; by default the labels of
            `y_true`.
        signatures : DataFrame, mapping or MultiSignatures, default=None
            Signatures of the classes, used to place similar classes side by side (average linkage
            of signatures normalised to unit length). By default classes are sorted by label.
        images : sequence of n_samples images, default=None
            Images of shape (height, width) or (height, width, 3 or 4), or None if missing. Examples
            of the worst pairs are drawn beside the matrix.
        n_pairs, n_examples : int, default=5 and 6
            Numbers of worst pairs, and of example images for each pair.
        name : str, default=None
            Title.
        ax : matplotlib Axes, default=None
            Axes for the matrix alone; by default a new figure that also lists the worst pairs.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : UnseenConfusionDisplay
        """
        true, pred = check_pair(y_true, y_pred, "y_pred")
        labels = _ordered(unique(true) if classes is None else check_classes(classes), signatures)
        rows, columns = check_known(true, labels), positions(pred, labels)
        counts = np.zeros((len(labels), len(labels) + 1), dtype=np.intp)
        # Labels outside `classes` have position −1, which is the last column.
        np.add.at(counts, (rows, columns), 1)
        display = cls(
            counts=counts[:, :-1],
            classes=labels,
            n_other=counts[:, -1] if counts[:, -1].any() else None,
            estimator_name=name,
        )
        if images is not None:
            if len(images) != len(true):
                raise ValueError(
                    f"images must have one entry per sample: got {len(images)} images for "
                    f"{len(true)} labels."
                )
            display._pick_examples(rows, columns, images, n_pairs, n_examples)
        return display.plot(ax=ax, n_pairs=n_pairs, **kwargs)

    def _pick_examples(
        self,
        rows: NDArray[np.intp],
        columns: NDArray[np.intp],
        images: Any,
        n_pairs: int,
        n_examples: int,
    ) -> None:
        """Choose evenly spaced images of the worst pairs, and one of each predicted class."""
        examples: dict[tuple[Any, Any], Sequence[Any]] = {}
        labels = self.classes.tolist()
        for pair in self.worst_pairs(n_pairs):
            true, predicted = labels.index(pair.true), labels.index(pair.predicted)
            confused = np.flatnonzero((rows == true) & (columns == predicted))
            n_shown = min(n_examples, len(confused))
            shown = confused[np.linspace(0, len(confused) - 1, n_shown).round().astype(int)]
            examples[pair.true, pair.predicted] = [images[i] for i in shown.tolist()]
            # Prefer a correctly predicted sample of the predicted class.
            own = np.flatnonzero(rows == predicted)
            typical = own[np.argsort(columns[own] != predicted, kind="stable")][:1]
            examples[pair.predicted, pair.predicted] = [images[i] for i in typical.tolist()]
        self.examples = examples

    @property
    def shares(self) -> Floats:
        """Shares of each class's samples, by predicted class; NaN for classes without samples."""
        return self._share(self.counts)

    def _share(self, counts: NDArray[Any]) -> Floats:
        """Counts divided by the number of samples of each row."""
        n_samples = self._n_samples()[:, None]
        return np.where(n_samples > 0, counts / np.maximum(n_samples, 1), np.nan)

    def _n_samples(self) -> NDArray[Any]:
        total = self.counts.sum(axis=1)
        return np.asarray(total if self.n_other is None else total + self.n_other)

    def worst_pairs(self, n_pairs: int = 5) -> list[ConfusedPair]:
        """Pairs of classes with the largest shares of confused samples.

        Parameters
        ----------
        n_pairs : int, default=5
            Maximum number of pairs; pairs without confusions are not included.

        Returns
        -------
        list of ConfusedPair
            Worst first. Equal shares are ordered by the number of samples, then from the top left.
            The pairs (a, b) and (b, a) are separate.
        """
        confused = np.where(np.eye(len(self.classes), dtype=bool), 0, self.counts)
        shares, n_samples, labels = self.shares, self._n_samples(), self.classes.tolist()
        rows, columns = np.nonzero(confused)
        worst = np.lexsort((columns, rows, -confused[rows, columns], -shares[rows, columns]))
        return [
            ConfusedPair(
                labels[i], labels[j], float(shares[i, j]), int(confused[i, j]), int(n_samples[i])
            )
            for i, j in zip(rows[worst[:n_pairs]], columns[worst[:n_pairs]], strict=True)
        ]

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        n_pairs: int = 5,
        image_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the matrix, the worst pairs and their examples.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes for the matrix alone, with the worst pairs numbered in the cells. By default a new
            figure that also lists the pairs, with examples.
        name : str, default=None
            Title; by default `estimator_name`.
        n_pairs : int, default=5
            Number of worst pairs to mark.
        image_kwargs : mapping, default=None
            Passed to matplotlib's `imshow` for the examples, for example `{"cmap": "gray_r"}`.
        **kwargs : dict
            Passed to matplotlib's `imshow` for the matrix.
        """
        pairs, shares = self.worst_pairs(n_pairs), self.shares
        if self.n_other is not None:
            shares = np.column_stack([shares, self._share(self.n_other[:, None])])
        own_figure = ax is None
        examples: list[Sequence[Any]] = []
        if own_figure:
            side = float(np.clip(0.17 * len(shares) + 1.6, 2.6, 8.5))
            if self.examples:
                examples = [self.examples.get((pair.true, pair.predicted), ()) for pair in pairs]
            ax = self._new_axes(side, side * shares.shape[1] / len(shares), pairs, examples)
        else:
            self.example_axes_: Any = None
            extent = ax.get_window_extent()
            side = min(extent.width, extent.height) / ax.figure.dpi
        self._begin(ax)
        self._draw_shares(shares, kwargs)
        self._label_axes(72 * side)
        name = self.estimator_name if name is None else name
        if name is not None:
            ax.set_title(short_name(name), parse_math=False)
        self._mark_pairs(pairs)
        if examples:
            self._draw_examples(pairs, examples, {"cmap": "gray"} | dict(image_kwargs or {}))
        elif pairs and own_figure:
            self._list_pairs(pairs)
        if own_figure:
            # A layout with artists outside the axes needs a second pass.
            self.figure_.draw_without_rendering()
        return self

    def _new_axes(
        self, height: float, width: float, pairs: list[ConfusedPair], examples: list[Sequence[Any]]
    ) -> Any:
        """Axes for the matrix in a new figure, with space for pairs and examples to the right."""
        pyplot = import_optional("matplotlib.pyplot", type(self).__name__)
        # The last column shows the predicted class.
        n_columns = max(map(len, examples)) + 1 if examples else 0
        right_width = max(_EXAMPLE_SIZE * n_columns, _LIST_WIDTH) if pairs else 0.0
        total_height = max(height + _MARGIN, (_EXAMPLE_SIZE + 0.4) * len(examples))
        size = width + _MARGIN + right_width, total_height
        figure = pyplot.figure(figsize=size, layout="constrained")
        self.example_axes_ = None
        if not examples:
            return figure.add_subplot()
        ratios = [width + _MARGIN] + [right_width / n_columns] * n_columns
        grid = figure.add_gridspec(len(examples), 1 + n_columns, width_ratios=ratios)
        self.example_axes_ = np.empty((len(examples), n_columns), dtype=object)
        for row, column in np.ndindex(self.example_axes_.shape):
            image_ax = figure.add_subplot(grid[row, 1 + column], xticks=[], yticks=[])
            image_ax.set_frame_on(False)
            self.example_axes_[row, column] = image_ax
        return figure.add_subplot(grid[:, 0])

    def _draw_shares(self, shares: Floats, options: Mapping[str, Any]) -> None:
        """Draw cells and colour bar; rows of classes without samples are grey."""
        ax = self.ax_
        defaults = {"cmap": "Blues", "vmin": 0.0, "vmax": 1.0, "interpolation": "nearest"}
        self.im_ = ax.imshow(np.ma.masked_invalid(shares), **(defaults | dict(options)))
        ax.set_facecolor("0.85")
        if self.n_other is not None:
            ax.axvline(len(shares) - 0.5, color="0.3", linewidth=1)
        bar = self.figure_.colorbar(self.im_, ax=ax, shrink=0.8)
        bar.ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
        bar.set_label("Share of the class's samples")
        self.text_: list[Any] = []
        if len(shares) <= _MAX_WRITTEN:
            self.text_ = [
                write_cell(self.im_, j, i, shares[i, j], f"{100 * shares[i, j]:.0f}", 8)
                for i, j in zip(*np.nonzero(np.nan_to_num(shares)), strict=True)
            ]

    def _label_axes(self, points: float) -> None:
        """Label as many rows and columns as fit on a side of this length, in points."""
        n_classes = len(self.classes)
        size = float(np.clip(0.75 * points / n_classes, 7, 10))
        step = -(-n_classes // int(np.clip(points / (1.1 * size), 2, _MAX_LABELS)))
        shown = list(range(0, n_classes, step))
        names = [short_name(self.classes[i]) for i in shown]
        self.ax_.set_yticks(shown, names, fontsize=size, parse_math=False)
        if self.n_other is not None:
            # The additional column is always labelled, if need be instead of its neighbours.
            shown = [i for i in shown if step == 1 or n_classes - i >= step] + [n_classes]
            names = [*names[: len(shown) - 1], "other classes"]
        rotation = {"rotation": 90} if max(map(len, names)) > 2 else {}
        self.ax_.set_xticks(shown, names, fontsize=size, parse_math=False, **rotation)
        self.ax_.set(xlabel="Predicted class", ylabel="True class")

    def _mark_pairs(self, pairs: Sequence[ConfusedPair]) -> None:
        """Frame and number the cells of the pairs."""
        labels = self.classes.tolist()
        self.marks_ = []
        for number, pair in enumerate(pairs, start=1):
            row, column = labels.index(pair.true), labels.index(pair.predicted)
            frame_cell(self.ax_, (column - 0.5, column + 0.5), (row - 0.5, row + 0.5), 1.5)
            mark = self.ax_.text(
                column + 0.5, row - 0.5, str(number),
                ha="center", va="center", fontsize=7, color="white", fontweight="bold", zorder=4,
                bbox={"boxstyle": "circle,pad=0.15", "facecolor": VERMILION, "edgecolor": "white"},
            )  # fmt: skip
            self.marks_.append(mark)

    def _list_pairs(self, pairs: Sequence[ConfusedPair]) -> None:
        """List the worst pairs to the right of the colour bar."""
        lines = import_optional("matplotlib.lines", type(self).__name__)
        handles = [
            lines.Line2D([], [], color=VERMILION, marker=f"${number}$", linestyle="none")
            for number in range(1, len(pairs) + 1)
        ]
        legend = self.figure_.legend(
            handles, [str(pair) for pair in pairs], title="Worst confusions",
            loc="outside right upper", fontsize=9, title_fontsize=10, alignment="left",
            frameon=False,
        )  # fmt: skip
        plain_texts(legend)

    def _draw_examples(
        self,
        pairs: Sequence[ConfusedPair],
        examples: Sequence[Sequence[Any]],
        options: Mapping[str, Any],
    ) -> None:
        """Draw one row per pair: confused images, then one of the predicted class."""
        for number, (pair, row) in enumerate(zip(pairs, self.example_axes_, strict=True)):
            # The layout would reserve the width of a real title between the images.
            title = row[0].text(0, 1.1, f"{number + 1}  {pair}", transform=row[0].transAxes)
            title.set(fontsize=8, parse_math=False, in_layout=False)
            for ax, image in zip(row, examples[number], strict=False):
                _show(ax, image, options)
            for typical in (self.examples or {}).get((pair.predicted, pair.predicted), ()):
                if _show(row[-1], typical, options):
                    row[-1].set_frame_on(True)
                    row[-1].spines[:].set(color=BLUE, linewidth=2)
                    row[-1].set_xlabel("predicted", color=BLUE, fontsize=7)


def _ordered(classes: NDArray[Any], signatures: Any) -> NDArray[Any]:
    """Classes sorted by label, or with similar signatures side by side."""
    classes = classes[positions(unique(classes), classes)]
    if signatures is None or len(classes) < 3:
        return classes
    from scipy.cluster.hierarchy import leaves_list, linkage  # slow to import

    rows = signature_rows(signatures, classes)
    tree = linkage(rows, method="average", optimal_ordering=len(classes) <= _MAX_OPTIMAL_ORDERING)
    return classes[leaves_list(tree)]


def _show(ax: Any, image: Any, options: Mapping[str, Any]) -> bool:
    """Draw an image; return whether it exists."""
    if image is None:
        return False
    pixels = to_numpy(image)
    if not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (3, 4))):
        raise ValueError(
            "images must have shape (height, width) or (height, width, 3 or 4), got "
            f"{pixels.shape}."
        )
    ax.imshow(pixels, **options)
    return True
