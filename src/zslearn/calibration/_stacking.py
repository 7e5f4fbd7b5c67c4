"""The estimator that holds seen classes back by a factor."""

from __future__ import annotations

import time
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Floats
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._meta import inner_has
from zslearn.calibration._folds import FoldScores, mean_calibration, score_folds
from zslearn.calibration._thresholds import HeldOutCalibration


@inherit_docs
@saves(
    bias_=Saved(),
    fold_biases_=Saved("n_folds", finite=False),
    fold_temperatures_=Saved(None, finite=False),
    refit_time_=Saved(least=0),
)
class CalibratedStacking(HeldOutCalibration):
    r"""Lower the scores of the seen classes by a factor (the paper's eGZSLPredictCalib).

    .. math:: \hat y = \arg\max_{c \in \mathcal{T}} f_c(x) - b \, [c \in \mathcal{S}]

    A method that never saw an image of some classes prefers those it saw. The factor b balances
    that. It is found on the training data alone, by leaving out whole classes: a share of the
    images of every seen class is held aside; in each fold some seen classes play the unseen ones.
    The fold's factor is the one with the best harmonic mean of the accuracies on the images of the
    left-out classes and on the images held aside; b is the mean over the folds, each brought to the
    scale of the scores after training on all classes.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        What gives the scores. A pipeline of scikit-learn must end in a zero-shot estimator, which
        gets the signatures.
    bias : "cv" or float, default="cv"
        The factor b, or "cv" to find it as above.
    temperature : None, "cv" or float, default=None
        What the lowered scores are divided by to become logarithms of probabilities. "cv" takes
        the temperature under which the labels of a fold's validation images are most likely, and
        the geometric mean over the folds, each brought to the scale of the final scores. With None
        there is no `predict_proba`.
    cv : int, splitter or list of (train, test), default=5
        Number of folds over the seen classes, no more than leaves two classes to each; or a
        splitter such as :class:`~zslearn.model_selection.GeneralizedClassKFold`, or rows to train
        on and to validate on. :class:`~zslearn.model_selection.ZeroShotSearchCV` with the same
        folds finds the same factor.
    rescale_bias : bool, default=True
        Whether factor and temperature of a fold are multiplied by the ratio of the scales of the
        scores: after training on all classes, and in the fold. The scale is the standard deviation
        of an image's scores over the seen classes. The authors' program does not do so. It matters
        where scores shrink as classes are added, as those of SynC do; elsewhere the harmonic mean
        is the same on average, and may be lower in a single case.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data; a :class:`~zslearn.model_selection.ZeroShotPipeline`
        where a pipeline was given.
    bias_ : float
        The factor. Without signatures, where no class can be left out and still be described, and
        with fewer than four seen classes, it is 0.
    fold_biases_ : ndarray of shape (n_folds,)
        The factor of each fold, as it was found there, NaN or infinite where it has none; empty
        when none was searched.
    temperature_ : float or None
        The temperature; 1 where no class can be left out.
    fold_temperatures_ : ndarray of shape (n_folds,)
        The temperature of each fold, as it was found there; empty when none was searched.
    refit_time_ : float
        Seconds to fit `estimator_`.

    See Also
    --------
    zslearn.metrics.ausuc : Measures a method over all factors at once.
    zslearn.metrics.expected_calibration_error : Measures how honest probabilities are.

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
    >>> model = CalibratedStacking(ESZSL())
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.bias_ > 0
    True

    Probabilities, among the unseen classes:

    >>> model = CalibratedStacking(ESZSL(), temperature="cv")
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> chances = model.predict_proba(data.X_test_unseen, classes=data.unseen_classes)
    >>> bool(abs(chances.sum(axis=1) - 1).max() < 1e-9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HeldOutCalibration._parameter_constraints,
        "bias": [StrOptions({"cv"}), Interval(Real, None, None, closed="neither")],
        "temperature": [StrOptions({"cv"}), Interval(Real, 0, None, closed="neither"), None],
        "rescale_bias": ["boolean"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        bias: str | float = "cv",
        temperature: str | float | None = None,
        cv: Any = 5,
        held_out: float = 0.2,
        rescale_bias: bool = True,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.bias = bias
        self.temperature = temperature
        self.cv = cv
        self.held_out = held_out
        self.rescale_bias = rescale_bias
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Fit the estimator, and find the factor and the temperature."""
        start = time.perf_counter()
        super(HeldOutCalibration, self)._learn(X, y, signatures, weights)
        self.refit_time_ = time.perf_counter() - start
        folds = []
        if "cv" in (self.bias, self.temperature):
            measure = partial(_factor_and_temperature, bias=self.bias, temperature=self.temperature)
            folds = score_folds(
                self, X, y, signatures, weights, measure, with_scale=self.rescale_bias
            )
        # The best factor of each fold, the best temperature, and the scale of the scores.
        factors, temperatures, scales = np.asarray(folds, dtype=np.float64).reshape(-1, 3).T
        self.fold_biases_ = factors if self.bias == "cv" else np.empty(0)
        self.fold_temperatures_ = temperatures if self.temperature == "cv" else np.empty(0)
        factor, found = mean_calibration(
            self.estimator_, X, factors, temperatures, scales, rescale=self.rescale_bias
        )
        self.bias_ = factor if self.bias == "cv" else float(self.bias)
        self.temperature_ = found if self.temperature == "cv" else self.temperature

    @inner_has("adapt")
    def adapt(self, X: Any, **options: Any) -> Self:
        """Adapt the inner estimator to unlabelled images; factor and temperature are kept.

        Unlike a promised rate they are estimates, as a search has them. Folds with unlabelled
        images, such as ``GeneralizedClassKFold(unlabelled="gzsl")`` as `cv`, find those of adapted
        models.
        """
        return super(HeldOutCalibration, self).adapt(X, **options)

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
