r"""DAP: direct attribute prediction.

One logistic regression an attribute gives :math:`p(a_m | x)`; a class is as probable as its binary
signature,

.. math:: p(c | x) \propto \prod_m \frac{p(a_m^c | x)}{p(a_m^c)}.

The attributes' regressions, on the binary signatures of the samples' classes, minimise

.. math:: \frac{1}{N} \sum_n \log(1 + e^{f_{nm}}) - a_m^{y_n} f_{nm}
          + \frac{\alpha v}{2} \|w_m\|^2, \qquad f_{nm} = w_m^\top x_n + b_m,

with v the features' mean squared distance from their mean. The prior :math:`p(a_m)` is the share of
the seen classes that have the attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.baselines._attributes import AttributeClassifier
from zslearn.baselines._seen_probabilities import spread
from zslearn.solvers import LogisticResult, logistic_path
from zslearn.solvers._platt import platt_targets
from zslearn.utils import Array, move_like


class DAP(AttributeClassifier):
    """Direct attribute prediction: attributes first, then the class that has them.

    Parameters
    ----------
    alpha : float, default=1e-4
        Penalty of the attributes' logistic regressions, in units of the features' spread.
    calibration : {"targets", "classes"} or None, default="targets"
        How probabilities are kept from being too sure. "targets": regressions are trained on
        Platt's targets, (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2), in the place of 1 and 0; this costs
        nothing. "classes": Platt's sigmoid is fitted to the log-odds of seen classes that were held
        out in turn, a third of them at a time, so that an attribute that does not carry over to
        other classes loses its weight; this takes three times as long, and of few seen classes the
        sigmoids learn too little to help. None: neither.
    tol : float, default=1e-4
        Relative optimality gap of the regressions.
    random_state : int, RandomState instance or None, default=0
        Which classes are held out together for `calibration="classes"`.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over. It does
        not change which attributes are present.

    Attributes
    ----------
    coef_ : array of shape (n_kept, n_features)
        Coefficients of the attributes' regressions.
    intercept_ : array of shape (n_kept,)
        Their intercepts.
    slope_, offset_ : ndarray of shape (n_kept,)
        The sigmoid of each attribute: calibrated log-odds are slope · log-odds + offset.
    prior_ : ndarray of shape (n_kept,)
        Share of the seen classes that have the attribute.
    thresholds_ : ndarray of shape (n_attributes,)
        Above these normalised values an attribute is present; learned from the seen classes, 0
        where their signatures are binary.
    attributes_ : ndarray of shape (n_kept,)
        Positions of the attributes that are used: those that vary among the seen classes.
    classes_ : ndarray of shape (n_classes,)
        Every described class, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        The classes of the training data, sorted.
    unseen_classes_ : ndarray of shape (n_unseen,)
        The classes known by their signature alone, sorted.
    n_features_in_ : int
        Width of `X`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` had string names.
    signature_scale_ : tuple of float
        The number that the signatures of each view are divided by.

    See Also
    --------
    IAP : Predicts the seen classes first, and attributes from these.
    zslearn.signatures.binarize_signatures : Binary signatures with thresholds of one's own.

    Notes
    -----
    Binary signatures are taken as they are: 0 and 1, or −1 and 1. In other signatures an attribute
    is present where the normalised value is above its mean over the seen classes. Classes with the
    same attributes after that have the same scores. Of several views all attributes count alike:
    the weights of :class:`~zslearn.signatures.MultiSignatures` are not used.

    The original has kernel support vector machines with Platt scaling on held-out samples; here it
    is linear logistic regression. Where a sigmoid is fitted, classes are held out for it and not
    samples, as it is to classes that attributes carry over.

    References
    ----------
    C. H. Lampert, H. Nickisch and S. Harmeling, "Attribute-based classification for zero-shot
    visual object categorization", IEEE TPAMI 36(3), 2014.

    J. Platt, "Probabilistic outputs for support vector machines and comparisons to regularized
    likelihood methods", Advances in Large Margin Classifiers, 1999.

    Examples
    --------
    >>> from zslearn.baselines import DAP
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = DAP().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "calibration": [None, "targets", "classes"],
            "alpha": [10.0 ** (k / 2) for k in range(-12, 3)],
        },
        "fast": {"alpha": [10.0 ** (k / 2) for k in range(-10, -3)]},
    }

    def __init__(
        self,
        alpha: float = 1e-4,
        *,
        calibration: str | None = "targets",
        tol: float = 1e-4,
        random_state: Any = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.alpha = alpha
        self.calibration = calibration
        self.tol = tol
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _path(
        self,
        X: Array,
        y: NDArray[np.intp],
        binary: NDArray[np.bool_],
        alphas: Sequence[float],
        *,
        soften: bool,
    ) -> list[LogisticResult]:
        targets = platt_targets(binary[y]) if soften else binary[y]
        unit = spread(X)
        return logistic_path(X, targets, alphas=[unit * a for a in alphas], tol=self.tol)

    def _log_odds(
        self, X: Array, coef: Array, intercept: Array, binary: NDArray[np.bool_]
    ) -> Array:
        xp = compat.array_namespace(X)
        return X @ xp.matrix_transpose(move_like(coef, X)) + move_like(intercept, X)
