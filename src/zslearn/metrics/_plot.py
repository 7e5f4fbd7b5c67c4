"""Pictures of metrics, as Display classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn.metrics._curve import area_under, seen_unseen_curve
from zslearn.metrics._validation import Missing
from zslearn.utils import import_optional


class SeenUnseenCurveDisplay:
    """Picture of the seen–unseen accuracy curve.

    Use `from_estimator` or `from_predictions` to make one. All parameters are stored as attributes.

    Parameters
    ----------
    acc_unseen : ndarray of shape (n_points,)
        Accuracies on unseen classes.
    acc_seen : ndarray of shape (n_points,)
        Accuracies on seen classes.
    bias : ndarray of shape (n_points,)
        Smallest calibration factor of each point, increasing from −inf.
    ausuc : float, default=None
        Area under the curve. None: not shown.
    estimator_name : str, default=None
        Name in the legend. None: not shown.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    point_ : matplotlib Line2D
        The point without calibration (factor 0).
    ax_ : matplotlib Axes
        The axes with the curve.
    figure_ : matplotlib Figure
        The figure that holds the axes.

    See Also
    --------
    zslearn.metrics.seen_unseen_curve : Computes the curve.
    zslearn.metrics.ausuc : Computes the area under it.

    References
    ----------
    W.-L. Chao, S. Changpinyo, B. Gong, F. Sha. "An Empirical Study and Analysis of Generalized
    Zero-Shot Learning for Object Recognition in the Wild". ECCV, 2016.

    Examples
    --------
    >>> from zslearn.metrics import SeenUnseenCurveDisplay, ausuc, seen_unseen_curve
    >>> y_true = ["cat", "cat", "owl", "owl"]
    >>> scores = [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 4.0]]
    >>> space = {"classes": ["cat", "owl"], "seen_classes": ["cat"]}
    >>> acc_unseen, acc_seen, bias = seen_unseen_curve(y_true, scores, **space)
    >>> display = SeenUnseenCurveDisplay(
    ...     acc_unseen=acc_unseen,
    ...     acc_seen=acc_seen,
    ...     bias=bias,
    ...     ausuc=ausuc(y_true, scores, **space),
    ...     estimator_name="EXEM",
    ... )
    >>> display.plot()
    <...SeenUnseenCurveDisplay object at ...>
    """

    line_: Any
    point_: Any
    ax_: Any
    figure_: Any

    def __init__(
        self,
        *,
        acc_unseen: NDArray[np.float64],
        acc_seen: NDArray[np.float64],
        bias: NDArray[np.float64],
        ausuc: float | None = None,
        estimator_name: str | None = None,
    ) -> None:
        self.acc_unseen = acc_unseen
        self.acc_seen = acc_seen
        self.bias = bias
        self.ausuc = ausuc
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        missing: Missing = "error",
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> SeenUnseenCurveDisplay:
        """Plot the curve of a fitted estimator.

        Parameters
        ----------
        estimator : object
            Fitted, with `classes_`, `seen_classes_` and `decision_function(X, classes=...)`.
        X : array of shape (n_samples, n_features)
            Samples of seen and of unseen classes.
        y : array-like of shape (n_samples,)
            Their labels.
        missing : {"error", "ignore", "zero"}, default="error"
            What to do with a class of `classes_` that never occurs in `y`; see `seen_unseen_curve`.
        name : str, default=None
            Name in the legend. None: the name of the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : SeenUnseenCurveDisplay

        See Also
        --------
        SeenUnseenCurveDisplay.from_predictions : The same from scores.
        """
        return cls.from_predictions(
            y,
            estimator.decision_function(X, classes=estimator.classes_),
            classes=estimator.classes_,
            seen_classes=estimator.seen_classes_,
            missing=missing,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        scores: Any,
        *,
        classes: ArrayLike,
        seen_classes: ArrayLike,
        missing: Missing = "error",
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> SeenUnseenCurveDisplay:
        """Plot the curve of given scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels: samples of seen and of unseen classes.
        scores : array of shape (n_samples, n_classes)
            Scores, larger is better.
        classes : array-like of shape (n_classes,)
            Labels of the columns of `scores`.
        seen_classes : array-like
            The seen ones among `classes`; the others are the unseen ones.
        missing : {"error", "ignore", "zero"}, default="error"
            What to do with a class that never occurs in `y_true`; see `seen_unseen_curve`.
        name : str, default=None
            Name in the legend. None: only the area is shown.
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : SeenUnseenCurveDisplay

        See Also
        --------
        SeenUnseenCurveDisplay.from_estimator : The same from an estimator and samples.

        Examples
        --------
        >>> from zslearn.metrics import SeenUnseenCurveDisplay
        >>> display = SeenUnseenCurveDisplay.from_predictions(
        ...     ["cat", "cat", "owl", "owl"],
        ...     [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 4.0]],
        ...     classes=["cat", "owl"],
        ...     seen_classes=["cat"],
        ...     name="EXEM",
        ... )
        >>> display.line_.get_label()
        'EXEM (AUSUC = 0.88)'
        """
        acc_unseen, acc_seen, bias = seen_unseen_curve(
            y_true, scores, classes=classes, seen_classes=seen_classes, missing=missing
        )
        display = cls(
            acc_unseen=acc_unseen,
            acc_seen=acc_seen,
            bias=bias,
            ausuc=area_under(acc_unseen, acc_seen),
            estimator_name=name,
        )
        return display.plot(ax=ax, name=name, **kwargs)

    def plot(
        self, ax: Any = None, *, name: str | None = None, **kwargs: Any
    ) -> SeenUnseenCurveDisplay:
        """Draw the curve, and a marker where there is no calibration (factor 0).

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        name : str, default=None
            Name in the legend. None: `estimator_name`.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : SeenUnseenCurveDisplay
            This object.
        """
        pyplot = import_optional("matplotlib.pyplot", "SeenUnseenCurveDisplay")
        if ax is None:
            _, ax = pyplot.subplots()
        self.ax_, self.figure_ = ax, ax.figure

        label = self._label(self.estimator_name if name is None else name)
        line_kwargs = {} if label is None else {"label": label}
        line_kwargs.update(kwargs)
        (self.line_,) = ax.plot(self.acc_unseen, self.acc_seen, **line_kwargs)

        uncalibrated = max(int(np.searchsorted(self.bias, 0.0, side="right")) - 1, 0)
        (self.point_,) = ax.plot(
            self.acc_unseen[uncalibrated],
            self.acc_seen[uncalibrated],
            marker="o",
            linestyle="none",
            color=self.line_.get_color(),
        )

        ax.set(
            xlabel="Accuracy on unseen classes (A_U→T)",
            ylabel="Accuracy on seen classes (A_S→T)",
        )
        # auto=None keeps the upper limits free for further curves on the same axes.
        ax.set_xlim(left=0, auto=None)
        ax.set_ylim(bottom=0, auto=None)
        if "label" in line_kwargs:
            ax.legend(loc="lower left")
        return self

    def _label(self, name: str | None) -> str | None:
        area = None if self.ausuc is None else f"AUSUC = {self.ausuc:0.2f}"
        if name is None or area is None:
            return name if area is None else area
        return f"{name} ({area})"
