r"""IAP: indirect attribute prediction.

Classifiers give the probabilities of the seen classes, and these those of the attributes,

.. math:: p(a_m | x) = \sum_y p(a_m | y)\, p(y | x), \qquad p(a_m | y) \in \{0, 1\},

from which on a class is scored as in DAP,
:math:`p(c | x) \propto \prod_m p(a_m^c | x) / p(a_m^c)`. Of the classifiers there are two kinds. A
softmax regression of all classes minimises

.. math:: \frac{1}{N} \sum_n \log \sum_y e^{f_{ny}} - f_{n y_n}
          + \frac{\alpha v}{2} \|W\|_F^2, \qquad f_{ny} = w_y^\top x_n + b_y,

with v the features' mean squared distance from their mean. Or each class y has a linear support
vector machine against all others, which minimises, with :math:`s_{ny} = 1` for the samples of y and
−1 for others,

.. math:: \frac{1}{N} \sum_n \max(0, 1 - s_{ny} f_{ny})^2
          + \frac{\alpha}{2} \left(v \|w_y\|^2 + b_y^2\right)

for features measured from their mean. Platt's sigmoid makes its scores probabilities,
:math:`p(y | x) = 1 / (1 + e^{-(A_y f_y + B_y)})`. It is fitted to the scores of samples that were
held out in turn, a part of each class at a time; the machines themselves are trained on all.
Their probabilities are divided by their sum, which the odds of an attribute do not depend on.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from zslearn._solvers._platt import platt_scaling
from zslearn._solvers.svm._multiclass import SVMResult, multiclass_svm_path
from zslearn._utils._array import Array, Floats, move_like, take_rows, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn.base._training import Training
from zslearn.baselines._base_attributes import AttributeClassifier, LinearModels
from zslearn.baselines._base_probabilities import seen_path, total_variance

# Parts of the samples that are held out in turn for the sigmoids of the support vector machines.
_FOLDS = 3


@inherit_docs
class IAP(AttributeClassifier):
    """Indirect attribute prediction: seen classes first, then attributes, then the class.

    Parameters
    ----------
    alpha : float, default=1e-4
        Penalty of the seen classes' classifiers, in units of the features' variance.
    probabilities : {"softmax", "platt"}, default="softmax"
        Where the probabilities of the seen classes come from: one softmax regression, or a linear
        support vector machine for each class against the others, with Platt's sigmoid, which is
        fitted to samples that were held out; this takes several times as long.
    calibration : {"targets", "classes"} or None, default="targets"
        How probabilities are kept from being too sure. "targets": the regression is trained on
        softened targets, as if two more samples of each class were spread evenly over all classes
        (Platt's targets where there are two); the sigmoids of "platt" are fitted to Platt's targets
        in any case. "classes": Platt's sigmoid is fitted to the attributes' log-odds of seen
        classes that were held out in turn; see :class:`DAP`. None: neither.

    Attributes
    ----------
    coef_ : array of shape (n_seen, n_features)
        Coefficients of the seen classes' logits, or of their log-odds under the sigmoids.
    intercept_ : array of shape (n_seen,)
        Their intercepts.

    See Also
    --------
    DAP : Predicts attributes directly; how signatures become binary is described there.
    zslearn.signatures.binarize_signatures : Binary signatures with thresholds of one's own.

    Notes
    -----
    The paper of 2009 has a softmax regression, without softened targets or sigmoids: that is
    `calibration=None`. The one of 2014 has a support vector machine for each class against the
    others, with Platt's sigmoids: that is `probabilities="platt"`, though its kernel is a sum of χ²
    kernels of several features and its hinge is not squared, where here machines are linear.
    Probabilities below 1e-307 of the largest count as that.

    References
    ----------
    C. H. Lampert, H. Nickisch and S. Harmeling, "Learning to detect unseen object classes by
    between-class attribute transfer", CVPR 2009.

    C. H. Lampert, H. Nickisch and S. Harmeling, "Attribute-based classification for zero-shot
    visual object categorization", IEEE TPAMI 36(3), 2014.

    J. Platt, "Probabilistic outputs for support vector machines and comparisons to regularized
    likelihood methods", Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> from zslearn.baselines import IAP
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = IAP().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "calibration": [None, "targets", "classes"],
            "alpha": [10.0 ** (k / 2) for k in range(-12, 3)],
        },
        "fast": {
            "calibration": ["targets", "classes"],
            "alpha": [10.0**k for k in (-5.5, -5, -4.5, -4, -3, -2)],
        },
    }

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AttributeClassifier._parameter_constraints,
        "probabilities": [StrOptions({"softmax", "platt"})],
    }

    def __init__(
        self,
        alpha: float = 1e-4,
        *,
        probabilities: str = "softmax",
        calibration: str | None = "targets",
        tol: float = 1e-4,
        random_state: Any = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        super().__init__(
            alpha,
            calibration=calibration,
            tol=tol,
            random_state=random_state,
            feature_norm=feature_norm,
            signature_scale=signature_scale,
        )
        self.probabilities = probabilities

    def _path(
        self, training: Training, alphas: Sequence[float], *, soften: bool
    ) -> list[LinearModels]:
        """One softmax regression of the seen classes, or one machine for each."""
        if self.probabilities == "softmax":
            results = seen_path(training, alphas, tol=self.tol, soften=soften)
            return [(result.coef, result.intercept) for result in results]
        return _platt_path(training, alphas, tol=self.tol, random_state=self.random_state)

    def _log_odds(self, scores: Array, has: NDArray[np.bool_]) -> Array:
        """Sum p(y|x) over the classes with the attribute and over the others, in logarithms."""
        xp = compat.array_namespace(scores)
        wide = xp.astype(scores, xp.float64)
        if self.probabilities == "platt":
            # log p = −log(1 + e^−f)
            wide = xp.clip(wide, max=0.0) - xp.log1p(xp.exp(-xp.abs(wide)))
        shares = xp.exp(wide - xp.max(wide, axis=1, keepdims=True))
        tiny = float(xp.finfo(xp.float64).smallest_normal)
        with_it = move_like(has.astype(np.float64), shares)
        present = xp.log(xp.clip(shares @ with_it, min=tiny))
        absent = xp.log(xp.clip(shares @ (1 - with_it), min=tiny))
        return xp.astype(present - absent, scores.dtype)


def _platt_path(
    training: Training, alphas: Sequence[float], *, tol: float, random_state: Any
) -> list[LinearModels]:
    """Train one machine per seen class with its sigmoid, for each penalty."""
    xp = compat.array_namespace(training.X)
    mean = xp.mean(training.X, axis=0)
    unit = float(np.sqrt(total_variance(training.X)))
    centered = (training.X - mean[None, :]) / unit
    rows = xp.concat([centered, xp.ones_like(centered[:, :1])], axis=1)
    fold = _folds(training, check_random_state(random_state))
    sigmoids = _sigmoids(rows, training, fold, alphas, tol)
    models = []
    for result, (slope, offset) in zip(
        _machines(rows, training.y, training.n_seen, alphas, tol), sigmoids, strict=True
    ):
        slope, offset = move_like(slope, result.coef), move_like(offset, result.coef)
        coef = slope[:, None] * result.coef[:, :-1] / unit
        center = coef @ move_like(to_numpy(mean), coef)
        models.append((coef, slope * result.coef[:, -1] + offset - center))
    return models


def _machines(
    rows: Array, y: NDArray[np.intp], n_seen: int, alphas: Sequence[float], tol: float
) -> list[SVMResult]:
    """One machine per class and penalty."""
    # The solver takes the mean over the classes, too.
    shared = [alpha / n_seen for alpha in alphas]
    return multiclass_svm_path(rows, y, alphas=shared, n_classes=n_seen, tol=tol)


def _folds(training: Training, rng: np.random.RandomState) -> NDArray[np.intp]:
    """The part that each sample is held out with; each class is spread over all of them."""
    order = rng.permutation(len(training.y))
    order = order[np.argsort(training.y[order], kind="stable")]
    fold = np.empty(len(order), dtype=np.intp)
    # Neighbours are of one class: counting on from class to class keeps the parts even.
    fold[order] = np.arange(len(order)) % _FOLDS
    return fold


def _sigmoids(
    rows: Array,
    training: Training,
    fold: NDArray[np.intp],
    alphas: Sequence[float],
    tol: float,
) -> list[tuple[Floats, Floats]]:
    """Slopes and offsets of all classes, for each penalty."""
    y, n_seen = training.y, training.n_seen
    own = y[:, None] == np.arange(n_seen)
    known = np.zeros(own.shape, dtype=bool)
    tables = [np.zeros(own.shape, dtype=np.float32) for _ in alphas]
    for part in range(_FOLDS):
        held, rest = np.flatnonzero(fold == part), np.flatnonzero(fold != part)
        if not (len(held) and len(rest)):
            continue
        known[held] = np.bincount(y[rest], minlength=n_seen) > 0
        results = _machines(take_rows(rows, rest), y[rest], n_seen, alphas, tol)
        left_out = take_rows(rows, held)
        for table, result in zip(tables, results, strict=True):
            coef = move_like(result.coef, rows)
            table[held] = to_numpy(left_out @ compat.array_namespace(coef).matrix_transpose(coef))
    fitted = (own & known).any(axis=0) & (~own & known).any(axis=0)
    sigmoids = [platt_scaling(table.astype(np.float64), own, known) for table in tables]
    if fitted.any():
        # Classes that have no sigmoid of their own take the middle one.
        for numbers in itertools.chain.from_iterable(sigmoids):
            numbers[~fitted] = np.median(numbers[fitted])
    return sigmoids
