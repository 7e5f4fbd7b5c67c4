"""Calibrated stacking: a factor that lowers the scores of the seen classes."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Floats
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._meta import ZeroShotMetaClassifier
from zslearn.calibration._folds import FOLD_CONSTRAINTS, FoldScores, mean_calibration, score_folds


@inherit_docs
@saves(
    bias_=Saved(),
    fold_biases_=Saved("n_folds", finite=False),
    temperature_=Saved(above=0, optional=True),
    fold_temperatures_=Saved(None, finite=False),
    refit_time_=Saved(least=0),
)
@dataclass(eq=False, repr=False)
class CalibratedStacking(ZeroShotMetaClassifier):
    r"""Lower the scores of the seen classes by a factor (Eq. 17).

    .. math:: \hat y = \arg\max_{c \in \mathcal{T}} f_c(x) - b \, [c \in \mathcal{S}]

    Methods are biased towards their training classes; the factor b compensates for this bias. It is
    estimated on the training data alone: a share of the images of every seen class is held out, and
    in each fold some seen classes stand for unseen ones. The factor of a fold maximises the
    harmonic mean of the accuracies on held-out classes and on held-out images; b is the mean over
    the folds, in units of the scores of the final model.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        Provides the scores. A scikit-learn pipeline must end in a zero-shot estimator.
    bias : "cv" or float, default="cv"
        The factor b; "cv" estimates it as above.
    temperature : None, "cv" or float, default=None
        Divisor that converts the lowered scores to log probabilities. "cv" maximises the likelihood
        of the validation labels of each fold and takes the geometric mean over the folds, in units
        of the final scores. None: no `predict_proba`.
    cv : int, splitter or list of (train, test), default=5
        Number of folds over the seen classes, reduced so that each has at least two; a splitter
        such as :class:`~zslearn.model_selection.GeneralizedClassKFold`; or the training and
        validation rows of each fold. :class:`~zslearn.model_selection.ZeroShotSearchCV` with the
        same folds finds the same factor.
    held_out : float, default=0.2
        Share of the images of each seen class that is held out, if `cv` is a number.
    rescale_bias : bool, default=True
        Whether to convert the factor and temperature of a fold to the score scale of the final
        model. The score scale is the standard deviation of an image's scores over the seen classes.
        The authors' program does not convert them. It matters if scores shrink as classes are
        added, as in SynC; otherwise the harmonic mean is the same on average.
    n_jobs : int, optional
        Number of folds fitted in parallel, as in scikit-learn.
    random_state : int, RandomState or None, default=0
        Seed of the folds and of the held-out images, if `cv` is a number.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data; a :class:`~zslearn.model_selection.ZeroShotPipeline`
        if a pipeline was given.
    bias_ : float
        The factor; 0 without signatures and with fewer than four seen classes, as no class can then
        be held out.
    fold_biases_ : ndarray of shape (n_folds,)
        The factor of each fold in its own units, NaN or infinite if it has none; empty unless
        estimated.
    temperature_ : float or None
        The temperature; 1 if no class can be held out.
    fold_temperatures_ : ndarray of shape (n_folds,)
        The temperature of each fold in its own units; empty unless estimated.
    refit_time_ : float
        Seconds to fit `estimator_`.

    See Also
    --------
    zslearn.metrics.ausuc : Summarises a method over all factors.
    zslearn.metrics.expected_calibration_error : Measures the calibration of probabilities.

    References
    ----------
    W.-L. Chao, S. Changpinyo, B. Gong and F. Sha, "An empirical study and analysis of generalized
    zero-shot learning for object recognition in the wild", ECCV 2016.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.calibration import CalibratedStacking
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = CalibratedStacking(ESZSL(), temperature="cv")
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.bias_ > 0
    True
    >>> model.predict_proba(data.X_test_unseen, classes=data.unseen_classes).shape
    (150, 5)
    """

    estimator: Any
    _: KW_ONLY
    bias: str | float = "cv"
    temperature: str | float | None = None
    cv: Any = 5
    held_out: float = 0.2
    rescale_bias: bool = True
    n_jobs: int | None = None
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FOLD_CONSTRAINTS,
        "bias": [StrOptions({"cv"}), Interval(Real, None, None, closed="neither")],
        "temperature": [StrOptions({"cv"}), Interval(Real, 0, None, closed="neither"), None],
        "rescale_bias": ["boolean"],
    }

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Fit the estimator, then estimate the factor and the temperature."""
        start = time.perf_counter()
        super()._learn(X, y, signatures, weights)
        self.refit_time_ = time.perf_counter() - start
        folds = []
        if "cv" in (self.bias, self.temperature):
            measure = partial(_factor_and_temperature, bias=self.bias, temperature=self.temperature)
            folds = score_folds(
                self, X, y, signatures, weights, measure, with_scale=self.rescale_bias
            )
        factors, temperatures, scales = np.asarray(folds, dtype=np.float64).reshape(-1, 3).T
        self.fold_biases_ = factors if self.bias == "cv" else np.empty(0)
        self.fold_temperatures_ = temperatures if self.temperature == "cv" else np.empty(0)
        factor, found = mean_calibration(
            self.estimator_, X, factors, temperatures, scales, rescale=self.rescale_bias
        )
        self.bias_ = factor if self.bias == "cv" else float(self.bias)
        self.temperature_: Any = found if self.temperature == "cv" else self.temperature

    def _is_generalized(self) -> bool:
        return True

    def _has_temperature(self) -> bool:
        return self.temperature is not None or hasattr(self.estimator, "predict_proba")

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        scorer = scorer.with_class_bias(self.seen_classes_, self.bias_)
        return scorer if self.temperature_ is None else scorer.at_temperature(self.temperature_)


def _factor_and_temperature(
    fold: FoldScores, *, bias: Any, temperature: Any
) -> tuple[float, float, float]:
    """The factor of a fold, the temperature at that factor, and the scale of the scores."""
    factor = fold.curve_summary()[2] if bias == "cv" else float(bias)
    found = fold.temperature(factor) if temperature == "cv" else float("nan")
    return factor, found, fold.scale
