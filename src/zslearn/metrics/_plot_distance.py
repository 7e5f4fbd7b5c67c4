"""Plot of the accuracy of unseen classes against their distance from the seen classes."""

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

# Offsets, in typographic points, and alignments of a label, in order of preference.
_LABEL_POSITIONS = (
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
    """Plot of the accuracy of each unseen class against its distance from the seen classes.

    The distance of a class is the Euclidean distance of its signature, normalised to unit length,
    from the nearest signature of a seen class. The legend shows Spearman's rank correlation.
    Classes far from the linear trend are labelled.

    Use `from_estimator` or `from_predictions` to create a display; parameters are stored as
    attributes.

    Parameters
    ----------
    distance : ndarray of shape (n_classes,)
        Distance of each unseen class from the nearest seen class.
    accuracy : ndarray of shape (n_classes,)
        Accuracy of each class; classes without samples have NaN and are not shown.
    classes : ndarray of shape (n_classes,)
        The unseen classes.
    nearest : ndarray of shape (n_classes,), default=None
        The seen class nearest to each unseen class.

    Attributes
    ----------
    points_ : matplotlib PathCollection
        One marker per class.
    labels_ : list of matplotlib Annotation
        Labels of classes far from the trend.

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

    _estimator_options: ClassVar[dict[str, str]] = {"seen_classes": "seen_classes_"}

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
        """Plot the accuracies of predicted labels.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels of samples of unseen classes.
        y_pred : array-like of shape (n_samples,)
            Predicted labels.
        signatures : DataFrame, mapping or MultiSignatures
            Signatures of at least `classes` and `seen_classes`.
        seen_classes : array-like
            Classes with training samples.
        classes : array-like, default=None
            The unseen classes, which must include every label of `y_true`; by default the labels
            of `y_true`.
        name : str, default=None
            Name in the legend.
        ax : matplotlib Axes, default=None
            Axes to draw into; by default those of a new figure.
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
        from scipy.spatial.distance import cdist  # slow to import

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
        """Spearman's rank correlation; NaN for fewer than 3 classes or constant values."""
        shown = ~np.isnan(self.accuracy)
        # Rounding, so that equal distances are ties.
        distance, accuracy = self.distance[shown].round(12), self.accuracy[shown]
        if shown.sum() < 3 or np.ptp(distance) == 0 or np.ptp(accuracy) == 0:
            return float("nan")
        from scipy.stats import spearmanr  # slow to import

        return float(spearmanr(distance, accuracy).statistic)

    def plot(
        self, ax: Any = None, *, name: str | None = None, n_labels: int = 10, **kwargs: Any
    ) -> Self:
        """Draw one point per class, and label classes far from the trend.

        Parameters
        ----------
        n_labels : int, default=10
            Maximum number of labels. The classes furthest from the least-squares line are labelled,
            unless the label would overlap others. Label positions depend on the figure's size.
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
        # Further displays on the same axes follow matplotlib's colour cycle.
        if not ax.collections and not {"c", "color"} & set(kwargs):
            options["color"] = BLUE
        self.points_ = ax.scatter(distance, accuracy, **(options | kwargs))
        ax.set(
            xlabel="Distance from the nearest seen class (signatures of unit length)",
            ylabel="Accuracy of the class",
        )
        ax.set_ylim(min(-0.05, ax.get_ylim()[0]), max(1.05, ax.get_ylim()[1]))
        # Above the axes the legend covers no points.
        plain_texts(ax.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False))

        centred = distance - distance.mean()
        slope = (centred @ accuracy) / max(float(centred @ centred), 1e-300)
        residuals = np.abs(accuracy - accuracy.mean() - slope * centred)
        furthest = np.argsort(-residuals, kind="stable")[:n_labels]
        names = [short_name(self.classes[i]) for i in shown[furthest]]
        self.labels_ = _place_labels(ax, names, distance[furthest], accuracy[furthest])
        return self


def _place_labels(ax: Any, names: list[str], x: Floats, y: Floats) -> list[Any]:
    """Write names beside their points unless they would cover other names or points."""
    # Drawing applies the layout of the figure, which moves the axes.
    ax.figure.draw_without_rendering()
    frame = ax.get_window_extent()
    occupied = [text.get_window_extent() for text in (*ax.texts, ax.get_legend())]
    points = np.concatenate(
        [ax.transData.transform(np.ma.getdata(c.get_offsets())) for c in ax.collections]
    )
    labels = []
    for name, *point in zip(names, x, y, strict=True):
        label = ax.annotate(
            name, point, xytext=(0, 0), textcoords="offset points", fontsize=8, parse_math=False
        )
        for dx, dy, ha, va in _LABEL_POSITIONS:
            label.set(position=(dx, dy), ha=ha, va=va)
            box = label.get_window_extent()
            is_inside = frame.containsx(box.x0) and frame.containsx(box.x1)
            is_inside = is_inside and frame.containsy(box.y0) and frame.containsy(box.y1)
            if is_inside and not box.count_contains(points) and not box.count_overlaps(occupied):
                occupied.append(box)
                labels.append(label)
                break
        else:
            label.remove()
    return labels
