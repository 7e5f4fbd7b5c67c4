"""Plots of the seen–unseen curve, of reliability curves, and of predicted variances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn.metrics._curve import seen_unseen_curve
from zslearn.metrics._display import Display, plain_texts, with_name
from zslearn.metrics._reliability import calibration_error, reliability_curve
from zslearn.metrics._validation import Missing


@inherit_docs
@dataclass(kw_only=True, eq=False, repr=False)
class SeenUnseenCurveDisplay(Display):
    """Plot of the seen–unseen accuracy curve.

    A circle marks the point without calibration (factor 0), a diamond the point at the calibration
    factor, if there is one.

    Use `from_estimator` or `from_predictions` to create a display; parameters are stored as
    attributes.

    Parameters
    ----------
    acc_unseen, acc_seen : ndarray of shape (n_points,)
        Accuracies on unseen and on seen classes.
    bias : ndarray of shape (n_points,)
        Smallest calibration factor of each point, starting with −inf.
    ausuc : float
        Area under the curve.
    calibration_factor : float, default=None
        Calibration factor to mark with a diamond.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    point_ : matplotlib Line2D
        Point without calibration.
    calibrated_point_ : matplotlib Line2D or None
        Point at `calibration_factor`.

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

    acc_unseen: Floats
    acc_seen: Floats
    bias: Floats
    ausuc: float
    estimator_name: str | None = None
    calibration_factor: float | None = None

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
    ) -> Self:
        """Plot the curve of a fitted estimator.

        The curve is that of the scores without calibration. The diamond shows the accuracies of a
        calibrated estimator, the circle those without its calibration factor.

        Parameters
        ----------
        estimator : object
            Fitted estimator with `classes_`, `seen_classes_` and `decision_function(X,
            classes=...)`. Its calibration factor is `bias_`, if it has one.
        X : array of shape (n_samples, n_features)
            Samples of seen and of unseen classes.
        missing : {"error", "ignore", "zero"}, default="error"
            How to treat a class without samples in `y`; see `seen_unseen_curve`.
        ax : matplotlib Axes, default=None
            Axes to draw into; by default those of a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.
        """
        scores = to_numpy(estimator.decision_function(X, classes=estimator.classes_))
        space = {"classes": estimator.classes_, "seen_classes": estimator.seen_classes_}
        acc_unseen, acc_seen, bias = seen_unseen_curve(y, scores, missing=missing, **space)
        factor = getattr(estimator, "bias_", None) or 0.0
        name = type(estimator).__name__ if name is None else name
        display = cls._of_curve(acc_unseen, acc_seen, bias + factor, name, factor or None)
        return display.plot(ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        scores: Any,
        *,
        classes: ArrayLike,
        seen_classes: ArrayLike,
        missing: Missing = "error",
        calibration_factor: float | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the curve of scores.

        Parameters
        ----------
        y_true, classes, seen_classes, missing
            See :func:`seen_unseen_curve`.
        scores : array of shape (n_samples, n_classes)
            Scores without calibration; larger is better.
        calibration_factor : float, default=None
            Calibration factor to mark with a diamond.
        name : str, default=None
            Name in the legend.

        Returns
        -------
        display : SeenUnseenCurveDisplay
        """
        curve = seen_unseen_curve(
            y_true, scores, classes=classes, seen_classes=seen_classes, missing=missing
        )
        return cls._of_curve(*curve, name, calibration_factor).plot(ax=ax, **kwargs)

    @classmethod
    def _of_curve(
        cls, acc_unseen: Floats, acc_seen: Floats, bias: Floats, name: Any, factor: Any
    ) -> Self:
        return cls(
            acc_unseen=acc_unseen,
            acc_seen=acc_seen,
            bias=bias,
            ausuc=float(np.trapezoid(acc_seen, acc_unseen)),
            estimator_name=name,
            calibration_factor=factor,
        )

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the curve and its markers."""
        ax = self._begin(ax)
        name = self.estimator_name if name is None else name
        label = with_name(name, f"AUSUC = {self.ausuc:0.2f}")
        (self.line_,) = ax.plot(self.acc_unseen, self.acc_seen, **{"label": label, **kwargs})
        self.point_ = self._mark(0.0, "o")
        factor = self.calibration_factor
        self.calibrated_point_ = None if factor is None else self._mark(factor, "D")
        ax.set(
            xlabel="Accuracy on unseen classes (A_U→T)", ylabel="Accuracy on seen classes (A_S→T)"
        )
        # auto=None lets further curves on the same axes extend the upper limits.
        ax.set_xlim(left=0, auto=None)
        ax.set_ylim(bottom=0, auto=None)
        ax.legend(loc="lower left")
        return self

    def _mark(self, factor: float, marker: str) -> Any:
        """Draw a marker at the point of a calibration factor, with a tolerance for rounding."""
        rounding = 1e-6 * float(np.abs(self.bias[1:]).max())
        position = max(int(np.searchsorted(self.bias, factor + rounding, side="right")) - 1, 0)
        x, y = self.acc_unseen[position], self.acc_seen[position]
        color = self.line_.get_color()
        (point,) = self.ax_.plot(x, y, marker=marker, linestyle="none", color=color)
        return point


@inherit_docs
@dataclass(kw_only=True, eq=False, repr=False)
class ReliabilityDisplay(Display):
    """Plot of accuracy against confidence (reliability diagram).

    Predictions below the diagonal are overconfident, those above it underconfident. The area of a
    marker is proportional to the number of samples in its bin.

    Use `from_estimator` or `from_predictions` to create a display; parameters are stored as
    attributes.

    Parameters
    ----------
    confidence, accuracy, counts : ndarray of shape (n_filled,)
        The reliability curve; see :func:`reliability_curve`.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    markers_ : matplotlib PathCollection
        One marker per bin.
    diagonal_ : matplotlib Line2D
        Line of perfect calibration.

    Examples
    --------
    >>> from zslearn.metrics import ReliabilityDisplay
    >>> display = ReliabilityDisplay.from_predictions(
    ...     ["ant", "ant", "bee", "ant"],
    ...     [[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.2, 0.8]],
    ...     classes=["ant", "bee"],
    ...     name="EXEM",
    ... )
    >>> display.line_.get_label()
    'EXEM (ECE = 0.20)'
    """

    confidence: Floats
    accuracy: Floats
    counts: NDArray[np.intp]
    estimator_name: str | None = None

    _candidates, _predict = "classes_", "predict_proba"

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        probabilities: Any,
        *,
        classes: ArrayLike,
        n_bins: int = 15,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the curve of probabilities.

        Parameters
        ----------
        y_true, probabilities, classes, n_bins
            See :func:`reliability_curve`.
        name : str, default=None
            Name in the legend.
        ax : matplotlib Axes, default=None
            Axes to draw into; by default those of a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : ReliabilityDisplay
        """
        confidence, accuracy, counts = reliability_curve(
            y_true, probabilities, classes=classes, n_bins=n_bins
        )
        display = cls(confidence=confidence, accuracy=accuracy, counts=counts, estimator_name=name)
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the curve, its markers and the diagonal."""
        ax = self._begin(ax)
        error = f"ECE = {calibration_error(self.confidence, self.accuracy, self.counts):0.2f}"
        label = with_name(self.estimator_name if name is None else name, error)
        (self.diagonal_,) = ax.plot([0, 1], [0, 1], color="0.6", linestyle=":")
        (self.line_,) = ax.plot(self.confidence, self.accuracy, **{"label": label, **kwargs})
        sizes, color = 200 * self.counts / self.counts.sum(), self.line_.get_color()
        self.markers_ = ax.scatter(self.confidence, self.accuracy, s=sizes, color=color)
        ax.set(
            xlabel="Confidence (probability of the predicted class)",
            ylabel="Accuracy",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        ax.legend(loc="upper left")
        return self


@inherit_docs
@dataclass(kw_only=True, eq=False, repr=False)
class VarianceDisplay(Display):
    """Plot of predicted variances of class means against the errors on held-out classes.

    Each point is a dimension of the whitened space. On the diagonal the squared errors of predicted
    class means match the variances that the model predicts; above it the model is overconfident,
    below it underconfident.

    Use `from_estimator` to create a display; parameters are stored as attributes.

    Parameters
    ----------
    predicted : array-like of shape (n_dims,)
        Variances predicted by the model.
    observed : array-like of shape (n_dims,)
        Mean squared errors on held-out classes.

    Attributes
    ----------
    points_ : matplotlib PathCollection
        One marker per dimension.
    diagonal_ : matplotlib Line2D
        Line of equal variances.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.metrics import VarianceDisplay
    >>> from zslearn.synthesis import GaussianEXEM
    >>> data = make_zero_shot(random_state=0)
    >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> display = VarianceDisplay.from_estimator(model)
    >>> len(display.predicted)
    19
    """

    predicted: Any
    observed: Any
    estimator_name: str | None = None

    @classmethod
    def from_estimator(  # type: ignore[override]
        cls, estimator: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Plot the variances of a fitted estimator.

        Parameters
        ----------
        estimator : GaussianEXEM
            Fitted estimator with `predicted_variances_` and `observed_variances_`.
        ax : matplotlib Axes, default=None
            Axes to draw into; by default those of a new figure.
        **kwargs : dict
            Passed to matplotlib's `scatter`.
        """
        check_is_fitted(estimator, ["predicted_variances_", "observed_variances_"])
        display = cls(
            predicted=estimator.predicted_variances_,
            observed=estimator.observed_variances_,
            estimator_name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw one point per dimension, and the diagonal."""
        ax = self._begin(ax)
        predicted, observed = (np.asarray(x, dtype=float) for x in (self.predicted, self.observed))
        ratio = f"observed / predicted = {observed.sum() / max(predicted.sum(), 1e-300):0.2f}"
        label = with_name(self.estimator_name if name is None else name, ratio)
        options = {"s": 16, "alpha": 0.7, "linewidths": 0, "label": label}
        self.points_ = ax.scatter(predicted, observed, **(options | kwargs))
        values = np.concatenate([predicted, observed])
        ends = [values[values > 0].min(initial=1.0), values.max(initial=1.0)]
        (self.diagonal_,) = ax.plot(ends, ends, color="0.6", linestyle=":", zorder=0)
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="Predicted variance of class means",
            ylabel="Squared error on held-out classes",
        )
        plain_texts(ax.legend(loc="upper left"))
        return self
