"""Picture of the confusions among unseen classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn.metrics._confusions import (
    ConfusedPair,
    count_confusions,
    find_worst_pairs,
    order_classes,
    pick_examples,
    shares_of_classes,
)
from zslearn.metrics._draw_confusions import (
    draw_examples,
    draw_shares,
    fit_figure,
    label_axes,
    mark_pairs,
    name_pairs,
    square_axes,
    write_values,
)
from zslearn.metrics._plot_tools import short_name
from zslearn.metrics._validation import (
    check_classes,
    check_known,
    check_labels,
    check_same_kind,
    check_same_length,
    positions,
    unique,
)
from zslearn.utils import Floats, import_optional

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
