"""Picture of the accuracy of unseen classes against their distance from the seen ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import Floats
from zslearn._utils._docstrings import inherit_docs
from zslearn.metrics._accuracy import per_class_accuracy
from zslearn.metrics._display import (
    BLUE,
    Display,
    plain_texts,
    short_name,
    signature_rows,
    with_name,
)
from zslearn.metrics._validation import check_classes, check_labels, unique

# Where a label may stand, in typographic points from its class; to the right first.
_PLACES = (
    (5, 2, "left", "bottom"),
    (5, -2, "left", "top"),
    (-5, 2, "right", "bottom"),
    (-5, -2, "right", "top"),
    (0, 5, "center", "bottom"),
    (0, -5, "center", "top"),
)


@inherit_docs
@dataclass(kw_only=True, eq=False, repr=False)
class ClassDistanceDisplay(Display):
    """Picture of the accuracy in each unseen class against its distance from the seen classes.

    A point is an unseen class: to the right the Euclidean distance from its signature to the
    nearest one of a seen class, signatures being of unit length; upwards the share of its samples
    that were recognised. The legend has Spearman's rank correlation of the two. Classes far from
    the trend are named.

    Use `from_estimator` or `from_predictions` to create one; parameters are stored as attributes.

    Parameters
    ----------
    distance : ndarray of shape (n_classes,)
        Distance of each unseen class to the nearest seen one.
    accuracy : ndarray of shape (n_classes,)
        Accuracy in each class; NaN where it has no sample, and then no point.
    classes : ndarray of shape (n_classes,)
        The unseen classes.
    nearest : ndarray of shape (n_classes,), default=None
        The seen class that is nearest to each.

    Attributes
    ----------
    points_ : matplotlib PathCollection
        The classes.
    labels_ : list of matplotlib Annotation
        Names of classes that are far from the trend.

    Examples
    --------
    >>> from zslearn.metrics import ClassDistanceDisplay
    >>> display = ClassDistanceDisplay.from_predictions(
    ...     ["emu", "emu", "owl", "owl"],
    ...     ["emu", "emu", "owl", "emu"],
    ...     signatures={"cat": [1, 0, 0], "hen": [0, 1, 0], "emu": [0, 3, 1], "owl": [1, 1, 2]},
    ...     seen_classes=["cat", "hen"],
    ... )
    >>> display.distance.round(2)
    array([0.32, 1.09])
    >>> display.accuracy
    array([1. , 0.5])
    >>> display.nearest.tolist()
    ['hen', 'cat']
    """

    distance: Any
    accuracy: Any
    classes: Any
    nearest: NDArray[Any] | None = None
    estimator_name: str | None = None

    def __post_init__(self) -> None:
        self.distance = np.asarray(self.distance, dtype=np.float64)
        self.accuracy = np.asarray(self.accuracy, dtype=np.float64)
        self.classes = check_classes(self.classes)
        if not len(self.distance) == len(self.accuracy) == len(self.classes):
            raise ValueError(
                "distance, accuracy and classes must have one entry per class: got "
                f"{len(self.distance)}, {len(self.accuracy)} and {len(self.classes)}."
            )

    _also: ClassVar[dict[str, str]] = {"seen_classes": "seen_classes_"}

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        signatures: Any,
        seen_classes: ArrayLike,
        classes: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the unseen classes of predicted labels.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels of samples of unseen classes.
        y_pred : array-like of shape (n_samples,)
            Predicted labels.
        signatures : DataFrame, mapping or MultiSignatures
            Signatures of `classes` and `seen_classes`, perhaps of others.
        seen_classes : array-like
            The classes with training samples.
        classes : array-like, default=None
            The unseen classes, among them every label of `y_true`. One without a sample has no
            point. None: those that occur in `y_true`.
        name : str, default=None
            Name in the legend. None: only the correlation is shown.
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : ClassDistanceDisplay
        """
        unseen = unique(check_labels(y_true, "y_true")) if classes is None else np.asarray(classes)
        seen = check_classes(seen_classes, "seen_classes")
        accuracy = per_class_accuracy(
            y_true, y_pred, classes=unseen, missing="ignore", average=None
        )
        # Imported here because it takes long.
        from scipy.spatial.distance import cdist

        distances = cdist(signature_rows(signatures, unseen), signature_rows(signatures, seen))
        display = cls(
            distance=distances.min(axis=1),
            accuracy=accuracy,
            classes=unseen,
            nearest=seen[distances.argmin(axis=1)],
            estimator_name=name,
        )
        return display.plot(ax=ax, **kwargs)

    @property
    def correlation(self) -> float:
        """Spearman's rank correlation; NaN with fewer than 3 classes or where all are equal."""
        shown = ~np.isnan(self.accuracy)
        # Equal distances may differ by rounding, which must not rank them.
        distance, accuracy = self.distance[shown].round(12), self.accuracy[shown]
        if shown.sum() < 3 or np.ptp(distance) == 0 or np.ptp(accuracy) == 0:
            return float("nan")
        # Imported here because it takes long.
        from scipy.stats import spearmanr

        return float(spearmanr(distance, accuracy).statistic)

    def plot(
        self, ax: Any = None, *, name: str | None = None, n_labels: int = 10, **kwargs: Any
    ) -> Self:
        """Draw a point per class and the names of those far from the trend.

        Parameters
        ----------
        n_labels : int, default=10
            How many classes are named, at most: those whose accuracy is furthest from the line of
            least squares. A name that fits nowhere beside its point is left out. Names are placed
            for the size that the figure has now.
        **kwargs : dict
            Passed to matplotlib's `scatter`.
        """
        ax = self._begin(ax, layout="constrained")
        shown = np.flatnonzero(~np.isnan(self.accuracy))
        distance, accuracy = self.distance[shown], self.accuracy[shown]
        correlation = self.correlation
        text = f"rank correlation ρ = {correlation:.2f}".replace("-", "−")
        text = "rank correlation undefined" if np.isnan(correlation) else text
        name = self.estimator_name if name is None else name
        label = with_name(None if name is None else short_name(name), text)
        options: dict[str, Any] = {"s": 22, "alpha": 0.8, "linewidths": 0, "label": label}
        # A second display on the same axes gets a colour of its own.
        if not ax.collections and not {"c", "color"} & set(kwargs):
            options["color"] = BLUE
        self.points_ = ax.scatter(distance, accuracy, **(options | kwargs))
        ax.set(
            xlabel="Distance to the nearest seen class (signatures of unit length)",
            ylabel="Accuracy in the class",
        )
        ax.set_ylim(min(-0.05, ax.get_ylim()[0]), max(1.05, ax.get_ylim()[1]))
        # Above the axes it covers no point.
        plain_texts(ax.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False))

        centred = distance - distance.mean()
        slope = (centred @ accuracy) / max(float(centred @ centred), 1e-300)
        residuals = np.abs(accuracy - accuracy.mean() - slope * centred)
        furthest = np.argsort(-residuals, kind="stable")[:n_labels]
        names = [short_name(self.classes[i]) for i in shown[furthest]]
        self.labels_ = _place_labels(ax, names, distance[furthest], accuracy[furthest])
        return self


def _place_labels(ax: Any, names: list[str], x: Floats, y: Floats) -> list[Any]:
    """Write names beside their points where they cover no other name and no point."""
    # Only now are the axes where the figure's layout puts them.
    ax.figure.draw_without_rendering()
    frame = ax.get_window_extent()
    taken = [text.get_window_extent() for text in (*ax.texts, ax.get_legend())]
    points = np.concatenate(
        [ax.transData.transform(np.ma.getdata(c.get_offsets())) for c in ax.collections]
    )
    labels = []
    for name, *point in zip(names, x, y, strict=True):
        label = ax.annotate(
            name, point, xytext=(0, 0), textcoords="offset points", fontsize=8, parse_math=False
        )
        for dx, dy, ha, va in _PLACES:
            label.set(position=(dx, dy), ha=ha, va=va)
            box = label.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1
            inside = inside and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not box.count_contains(points) and not box.count_overlaps(taken):
                taken.append(box)
                labels.append(label)
                break
        else:
            label.remove()
    return labels
