r"""How honest probabilities are: of predictions made with probability p, a share p is right.

Predictions are sorted into bins by their confidence, the probability of the predicted class. With
n_b predictions in bin b, of which a share acc_b is right at a mean confidence conf_b, the expected
calibration error is

.. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \, | \mathrm{acc}_b - \mathrm{conf}_b |.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn.metrics._plot import CandidatesDisplay, Display, plain_texts, with_name
from zslearn.metrics._validation import (
    check_classes,
    check_k,
    check_known,
    check_labels,
    check_same_kind,
    check_same_length,
)


def reliability_curve(
    y_true: ArrayLike, probabilities: Any, *, classes: ArrayLike, n_bins: int = 15
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Confidence and accuracy of predictions, in bins of equal width by confidence.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    probabilities : array of shape (n_samples, n_classes)
        Rows sum to 1. The class with the largest probability is the predicted one.
    classes : array-like of shape (n_classes,)
        Labels of the columns.
    n_bins : int, default=15
        Number of bins between 0 and 1.

    Returns
    -------
    confidence : ndarray of shape (n_filled,)
        Mean probability of the predicted class in each bin that holds a sample, ascending.
    accuracy : ndarray of shape (n_filled,)
        Share of these predictions that are right.
    counts : ndarray of shape (n_filled,)
        Number of samples in the bin.

    See Also
    --------
    expected_calibration_error : One number out of the curve.
    ReliabilityDisplay : Its picture.

    Examples
    --------
    >>> from zslearn.metrics import reliability_curve
    >>> probabilities = [[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]
    >>> confidence, accuracy, counts = reliability_curve(
    ...     ["ant", "bee", "bee", "bee"], probabilities, classes=["ant", "bee"], n_bins=2
    ... )
    >>> confidence, accuracy, counts
    (array([0.75]), array([0.75]), array([4]))
    """
    confidences, right = _check(y_true, probabilities, classes)
    (n_bins,) = check_k(n_bins)
    # Bins are open on the left, so that a probability of 1 is in the last.
    bins = np.clip(np.ceil(confidences * n_bins).astype(np.intp) - 1, 0, n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    filled = counts > 0
    counts = counts[filled]
    confidence = np.bincount(bins, weights=confidences, minlength=n_bins)[filled] / counts
    accuracy = np.bincount(bins, weights=right, minlength=n_bins)[filled] / counts
    return confidence, accuracy, counts


def expected_calibration_error(
    y_true: ArrayLike, probabilities: Any, *, classes: ArrayLike, n_bins: int = 15
) -> float:
    r"""How far the confidence of predictions is from their accuracy.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \, | \mathrm{acc}_b - \mathrm{conf}_b |

    over the bins of :func:`reliability_curve`. It says whether probabilities can be taken at their
    word, not whether predictions are good: equal probabilities for balanced classes have none.

    Parameters
    ----------
    y_true, probabilities, classes, n_bins
        As of :func:`reliability_curve`.

    Returns
    -------
    float
        Between 0 and 1; 0 is best.

    See Also
    --------
    zslearn.calibration.CalibratedStacking : Finds a temperature for honest probabilities.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger. "On Calibration of Modern Neural Networks". ICML,
    2017.

    Examples
    --------
    >>> from zslearn.metrics import expected_calibration_error
    >>> probabilities = [[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.2, 0.8]]
    >>> round(expected_calibration_error(
    ...     ["ant", "ant", "bee", "ant"], probabilities, classes=["ant", "bee"]
    ... ), 6)
    0.2
    """
    confidence, accuracy, counts = reliability_curve(
        y_true, probabilities, classes=classes, n_bins=n_bins
    )
    return _error(confidence, accuracy, counts)


@inherit_docs
@dataclass(kw_only=True, eq=False, repr=False)
class ReliabilityDisplay(CandidatesDisplay):
    """Picture of accuracy against confidence: on the diagonal probabilities are honest.

    Below it predictions are too sure of themselves, above it not sure enough. The area of a marker
    is in proportion to the number of samples in its bin.

    Use `from_estimator` or `from_predictions` to make one. All parameters are stored as attributes.

    Parameters
    ----------
    confidence : ndarray of shape (n_filled,)
        Mean probability of the predicted class in each bin.
    accuracy : ndarray of shape (n_filled,)
        Share of right predictions in each bin.
    counts : ndarray of shape (n_filled,)
        Number of samples in each bin.
    estimator_name : str, default=None
        Name in the legend. None: only the error is shown.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    markers_ : matplotlib PathCollection
        One marker per bin.
    diagonal_ : matplotlib Line2D
        Where accuracy is confidence.

    See Also
    --------
    zslearn.metrics.reliability_curve : Computes the curve.
    zslearn.metrics.expected_calibration_error : The number in the legend.

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

    _candidates, _choose = "classes_", "predict_proba"

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
        """Plot the curve of given probabilities.

        Parameters
        ----------
        y_true, probabilities, classes, n_bins
            As of :func:`reliability_curve`.
        name : str, default=None
            Name in the legend. None: only the error is shown.
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
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
        error = f"ECE = {_error(self.confidence, self.accuracy, self.counts):0.2f}"
        label = with_name(self.estimator_name if name is None else name, error)
        (self.diagonal_,) = ax.plot([0, 1], [0, 1], color="0.6", linestyle=":")
        (self.line_,) = ax.plot(self.confidence, self.accuracy, **{"label": label, **kwargs})
        self.markers_ = ax.scatter(
            self.confidence,
            self.accuracy,
            s=200 * self.counts / self.counts.sum(),
            color=self.line_.get_color(),
        )
        ax.set(
            xlabel="Confidence (probability of the predicted class)",
            ylabel="Accuracy",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        ax.legend(loc="upper left")
        return self


def _error(confidence: Floats, accuracy: Floats, counts: NDArray[np.intp]) -> float:
    return float(np.average(np.abs(accuracy - confidence), weights=counts))


def _check(
    y_true: ArrayLike, probabilities: Any, classes: ArrayLike
) -> tuple[Floats, NDArray[np.bool_]]:
    """Confidence of each prediction, and whether it is right."""
    true, columns = check_labels(y_true, "y_true"), check_classes(classes)
    check_same_kind("y_true", true, "classes", columns)
    code = check_known(true, columns)
    chances = np.asarray(to_numpy(probabilities), dtype=np.float64)
    if chances.ndim != 2 or chances.shape[1] != len(columns):
        raise ValueError(
            f"probabilities must have one column per class, {len(columns)}; got shape "
            f"{chances.shape}."
        )
    check_same_length("y_true", true, "probabilities", chances)
    sums = chances.sum(axis=1)
    # Not written as "far from 1", which NaN is not.
    if not ((chances >= 0).all() and (np.abs(sums - 1) < 1e-4).all()):
        raise ValueError(
            "probabilities must not be negative, and their rows must sum to 1. Scores become "
            "probabilities by predict_proba."
        )
    predicted = chances.argmax(axis=1)
    return np.minimum(chances.max(axis=1), 1.0), predicted == code


@inherit_docs
@dataclass(kw_only=True, eq=False, repr=False)
class VarianceDisplay(Display):
    """Picture of the variances that a model states against those that left-out classes show.

    A point is a dimension of the whitened space. On the diagonal predictions of class means are as
    far off as the model says; above it the model is too sure of itself, below it not sure enough.

    Use `from_estimator` to make one. All parameters are stored as attributes.

    Parameters
    ----------
    stated : array-like of shape (n_dims,)
        Variances that the model states.
    found : array-like of shape (n_dims,)
        Squared errors, averaged over classes.
    estimator_name : str, default=None
        Name in the legend. None: only the ratio is shown.

    Attributes
    ----------
    points_ : matplotlib PathCollection
        The dimensions.
    diagonal_ : matplotlib Line2D
        Where both are equal.

    See Also
    --------
    zslearn.synthesis.GaussianEXEM : Has both as fitted attributes.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.metrics import VarianceDisplay
    >>> from zslearn.synthesis import GaussianEXEM
    >>> data = make_zero_shot(random_state=0)
    >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> display = VarianceDisplay.from_estimator(model)
    >>> len(display.stated)
    19
    """

    stated: Any
    found: Any
    estimator_name: str | None = None

    def __post_init__(self) -> None:
        self.stated = np.asarray(self.stated, dtype=np.float64)
        self.found = np.asarray(self.found, dtype=np.float64)
        if self.stated.shape != self.found.shape or self.stated.ndim != 1:
            raise ValueError(
                "stated and found must have one entry per dimension: got shapes "
                f"{self.stated.shape} and {self.found.shape}."
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Plot the variances of a fitted estimator.

        Parameters
        ----------
        estimator : GaussianEXEM
            Fitted: it has `stated_variances_` and `found_variances_`.
        name : str, default=None
            Name in the legend. None: the name of the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        **kwargs : dict
            Passed to matplotlib's `scatter`.

        Returns
        -------
        display : VarianceDisplay
        """
        check_is_fitted(estimator, ["stated_variances_", "found_variances_"])
        display = cls(
            stated=estimator.stated_variances_,
            found=estimator.found_variances_,
            estimator_name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw a point per dimension, and the diagonal.

        Parameters
        ----------
        **kwargs : dict
            Passed to matplotlib's `scatter`.
        """
        ax = self._begin(ax)
        ratio = f"found / stated = {self.found.sum() / max(self.stated.sum(), 1e-300):0.2f}"
        label = with_name(self.estimator_name if name is None else name, ratio)
        options = {"s": 16, "alpha": 0.7, "linewidths": 0, "label": label}
        self.points_ = ax.scatter(self.stated, self.found, **(options | kwargs))
        values = np.concatenate([self.stated, self.found])
        ends = [values[values > 0].min(initial=1.0), values.max(initial=1.0)]
        (self.diagonal_,) = ax.plot(ends, ends, color="0.6", linestyle=":", zorder=0)
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="Variance that is stated for a class mean",
            ylabel="Squared error of left-out classes",
        )
        plain_texts(ax.legend(loc="upper left"))
        return self
