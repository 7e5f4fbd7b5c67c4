"""Picture of the confusions among unseen classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._optional import import_optional
from zslearn.metrics._accuracy import check_pair
from zslearn.metrics._plot import (
    BLUE,
    VERMILION,
    CandidatesDisplay,
    frame_cell,
    plain_texts,
    short_name,
    signature_rows,
    write_cell,
)
from zslearn.metrics._validation import check_classes, check_known, positions, unique

# The best order of the leaves takes time that grows with the cube of the number of classes.
_MOST_ORDERED = 500
# Up to so many classes shares are written into the cells, and all labels are shown.
_MOST_VALUES, _MOST_LABELS = 15, 50
# In inches: side of an example, width of a pair in words, and what labels and titles take.
_EXAMPLE, _WORDS, _MARGIN = 0.8, 3.6, 2.2


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


def _shares(counts: NDArray[Any], n_samples: NDArray[Any]) -> Floats:
    """Each row divided by its number of samples; NaN for a class without a sample."""
    n_samples = n_samples[:, None]
    return np.where(n_samples > 0, counts / np.maximum(n_samples, 1), np.nan)


def _order(
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


def _pick_examples(
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
        even = np.linspace(0, len(found) - 1, min(n_examples, len(found))).round().astype(int)
        examples[pair.true, pair.predicted] = [images[int(i)] for i in found[even]]
        # Of the class that it was taken for one that was recognised, if there is any.
        own = np.flatnonzero(rows == predicted)
        right = own[columns[own] == predicted]
        typical = (right if len(right) else own)[:1]
        examples[pair.predicted, pair.predicted] = [images[int(i)] for i in typical]
    return examples


def _draw_shares(ax: Any, shares: Floats, options: Mapping[str, Any]) -> Any:
    """Draw cells and colour bar; rows of classes without a sample are grey."""
    defaults = {"cmap": "Blues", "vmin": 0.0, "vmax": 1.0, "interpolation": "nearest"}
    cells = ax.imshow(np.ma.masked_invalid(shares), **(defaults | dict(options)))
    ax.set_facecolor("0.85")
    if shares.shape[1] > shares.shape[0]:
        ax.axvline(shares.shape[0] - 0.5, color="0.3", linewidth=1)
    bar = ax.figure.colorbar(cells, ax=ax, shrink=0.8)
    bar.ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    bar.set_label("Share of the class's samples")
    return cells


def _label_axes(ax: Any, points: float, classes: NDArray[Any], has_other: bool) -> None:
    """Name rows and columns, as many as do not touch on a side of so many typographic points."""
    n_classes = len(classes)
    size = float(np.clip(0.75 * points / n_classes, 7, 10))
    step = -(-n_classes // int(np.clip(points / (1.1 * size), 2, _MOST_LABELS)))
    shown = list(range(0, n_classes, step))
    names = [short_name(classes[i]) for i in shown]
    ax.set_yticks(shown, names, fontsize=size, parse_math=False)
    if has_other:
        # Labels near the further column give way to it where they are thinned.
        shown = [i for i in shown if step == 1 or n_classes - i >= step] + [n_classes]
        names = [*names[: len(shown) - 1], "other classes"]
    rotation = {"rotation": 90} if max(map(len, names)) > 2 else {}
    ax.set_xticks(shown, names, fontsize=size, parse_math=False, **rotation)
    ax.set(xlabel="Predicted class", ylabel="True class")


def _in_words(pair: ConfusedPair) -> str:
    return (
        f"{short_name(pair.true)} → {short_name(pair.predicted)}: {100 * pair.share:.0f} % "
        f"({pair.n_confused} of {pair.n_samples})"
    )


def _show(ax: Any, image: Any, options: Mapping[str, Any]) -> None:
    """Draw an image."""
    pixels = to_numpy(image)
    if not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (3, 4))):
        raise ValueError(
            "An image must have the shape (height, width) or (height, width, 3 or 4), got "
            f"{pixels.shape}."
        )
    ax.imshow(pixels, **({"cmap": "gray"} | dict(options)))


@inherit_docs
@dataclass(kw_only=True, eq=False, repr=False)
class UnseenConfusionDisplay(CandidatesDisplay):
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
        order: Literal["similarity", "name"] | None = None,
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
            How many of the worst pairs are named, and how many images of each are drawn,
            evenly spaced among the confused samples.
        name : str, default=None
            Name in the title. None: no title.
        ax : matplotlib Axes, default=None
            Where to draw the shares alone. None: a new figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : UnseenConfusionDisplay
        """
        true, pred = check_pair(y_true, y_pred)
        labels = unique(true) if classes is None else check_classes(classes)
        labels = labels[_order(labels, signatures, order)]

        rows, columns = check_known(true, labels), positions(pred, labels)
        n_classes = len(labels)
        counts = np.zeros((n_classes, n_classes + 1), dtype=np.intp)
        # Position −1 is the last column.
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
            pairs = display.worst_pairs(n_pairs)
            display.examples = _pick_examples(pairs, labels, rows, columns, images, n_examples)
        return display.plot(ax=ax, n_pairs=n_pairs, **kwargs)

    @property
    def shares(self) -> Floats:
        """Shares of each class's samples, by predicted class; NaN for a class without a sample."""
        return _shares(self.counts, self._n_samples())

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
        confused = np.where(np.eye(len(self.classes), dtype=bool), 0, self.counts)
        n_samples, labels = self._n_samples(), self.classes.tolist()
        shares = _shares(confused, n_samples)
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
        n_pairs: int = 5,
        include_values: bool | None = None,
        image_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
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
        """
        pairs, shares = self.worst_pairs(n_pairs), self.shares
        if self.n_other is not None:
            other = _shares(self.n_other[:, None], self._n_samples())
            shares = np.column_stack([shares, other])
        own_figure = ax is None
        self.example_axes_: Any = None
        examples = self._examples_of(pairs) if own_figure and self.examples and pairs else []
        if own_figure:
            side = float(np.clip(0.17 * len(shares) + 1.6, 2.6, 8.5))
            ax = self._new_axes(side, shares.shape, pairs, examples)
        else:
            extent = ax.get_window_extent()
            side = min(extent.width, extent.height) / ax.figure.dpi
        self._begin(ax)
        self.im_ = _draw_shares(ax, shares, kwargs)
        if include_values is None:
            include_values = len(self.classes) <= _MOST_VALUES
        self.text_ = self._write_values(shares) if include_values else None
        _label_axes(ax, 72 * side, self.classes, has_other=self.n_other is not None)
        if self.estimator_name is not None:
            ax.set_title(short_name(self.estimator_name), parse_math=False)
        self._mark_pairs(pairs)
        if examples:
            self._draw_examples(pairs, examples, image_kwargs or {})
        elif pairs and own_figure:
            self._list_pairs(pairs)
        if own_figure:
            # A layout with something outside the axes settles in the second pass.
            self.figure_.draw_without_rendering()
        return self

    def _examples_of(self, pairs: list[ConfusedPair]) -> list[Sequence[Any]]:
        """Images of each pair that were confused."""
        return [(self.examples or {}).get((pair.true, pair.predicted), ()) for pair in pairs]

    def _new_axes(
        self,
        side: float,
        shape: tuple[int, ...],
        pairs: list[ConfusedPair],
        examples: list[Sequence[Any]],
    ) -> Any:
        """Axes for the shares in a new figure, with a column to the right for what is beside."""
        pyplot = import_optional("matplotlib.pyplot", type(self).__name__)
        width = side * shape[1] / shape[0]
        # One more column for the class that the images were taken for.
        n_columns = max(map(len, examples)) + 1 if examples else 0
        beside = max(_EXAMPLE * n_columns, _WORDS) if pairs else 0.0
        height = max(side + _MARGIN, (_EXAMPLE + 0.4) * len(examples))
        figure = pyplot.figure(figsize=(width + _MARGIN + beside, height), layout="constrained")
        if not examples:
            return figure.add_subplot()
        ratios = [width + _MARGIN] + [beside / n_columns] * n_columns
        grid = figure.add_gridspec(len(examples), 1 + n_columns, width_ratios=ratios)
        self.example_axes_ = np.empty((len(examples), n_columns), dtype=object)
        for row, column in np.ndindex(self.example_axes_.shape):
            image_ax = figure.add_subplot(grid[row, 1 + column], xticks=[], yticks=[])
            image_ax.set_frame_on(False)
            self.example_axes_[row, column] = image_ax
        return figure.add_subplot(grid[:, 0])

    def _write_values(self, shares: Floats) -> NDArray[Any]:
        """Shares in percent; zeros are left out."""
        texts = np.full(shares.shape, None, dtype=object)
        for i, j in zip(*np.nonzero(np.nan_to_num(shares)), strict=True):
            percent = f"{100 * shares[i, j]:.0f}"
            texts[i, j] = write_cell(self.im_, j, i, shares[i, j], percent, 8)
        return texts

    def _mark_pairs(self, pairs: Sequence[ConfusedPair]) -> None:
        """Frame the cells of the pairs, and put their numbers at the corners."""
        labels = self.classes.tolist()
        self.marks_ = []
        for number, pair in enumerate(pairs, start=1):
            row, column = labels.index(pair.true), labels.index(pair.predicted)
            frame_cell(self.ax_, (column - 0.5, column + 0.5), (row - 0.5, row + 0.5), 1.5)
            mark = self.ax_.annotate(
                str(number), (column + 0.5, row - 0.5), xytext=(0, 0), textcoords="offset points",
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
            handles, [_in_words(pair) for pair in pairs], title="Worst confusions",
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
        """One row per pair: images that were confused, and one of the class they were taken for."""
        for number, (pair, row) in enumerate(zip(pairs, self.example_axes_, strict=True)):
            title = f"{number + 1}  {_in_words(pair)}"
            # No title of the axes: a layout would move the images apart by its width.
            words = row[0].text(0, 1.1, title, transform=row[0].transAxes, parse_math=False)
            words.set(fontsize=8, in_layout=False)
            for ax, image in zip(row, examples[number], strict=False):
                if image is not None:
                    _show(ax, image, options)
            (typical,) = (self.examples or {}).get((pair.predicted, pair.predicted), ()) or (None,)
            if typical is not None:
                _show(row[-1], typical, options)
                row[-1].set_frame_on(True)
                row[-1].spines[:].set(color=BLUE, linewidth=2)
                row[-1].set_xlabel("predicted", color=BLUE, fontsize=7)
