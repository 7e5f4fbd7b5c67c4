r"""IAP: indirect attribute prediction.

Classifiers give the probabilities of the seen classes, and these those of the attributes,

.. math:: p(a_m | x) = \sum_y p(a_m | y)\, p(y | x), \qquad p(a_m | y) \in \{0, 1\},

from which on a class is scored as in DAP,
:math:`p(c | x) \propto \prod_m p(a_m^c | x) / p(a_m^c)`. Of the classifiers there are two kinds. A
softmax regression of all classes minimises

.. math:: \frac{1}{N} \sum_n \log \sum_y e^{f_{ny}} - f_{n y_n}
          + \frac{\alpha v}{2} \|W\|_F^2, \qquad f_{ny} = w_y^\top x_n + b_y,

with v the features' mean squared distance from their mean. Or each class has a support vector
machine of its own under a sigmoid; see :mod:`zslearn.baselines._base_probabilities`. Their probabilities
are divided by their sum, which the odds of an attribute do not depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from zslearn._solvers.logistic._path import LogisticResult
from zslearn._solvers.logistic._sharing import softmax_spectrum, turned_rows
from zslearn._utils._array import Array, move_like, take_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn.base._training import Training
from zslearn.baselines._base_attributes import AttributeClassifier
from zslearn.baselines._base_probabilities import SeenLogOdds, seen_path, sigmoid_path


@inherit_docs
class IAP(AttributeClassifier):
    """Indirect attribute prediction: seen classes first, then attributes, then the class.

    Parameters
    ----------
    alpha : float, default=1e-4
        Penalty of the seen classes' classifiers, in units of the features' spread.
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

    _one_path: ClassVar[tuple[str, ...]] = (*AttributeClassifier._one_path, "probabilities")

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
        self,
        training: Training,
        alphas: Sequence[float],
        *,
        soften: bool,
        shared: Any = None,
        guides: Any = None,
    ) -> Sequence[LogisticResult | SeenLogOdds]:
        """One softmax regression of the seen classes, or one machine for each."""
        if self.probabilities == "platt":
            return sigmoid_path(training, alphas, tol=self.tol, random_state=self.random_state)
        # Of one penalty: the last fit, which is often the same for both settings.
        last = len(alphas) == 1
        spectrum, turned = shared or (None, None)
        return seen_path(
            training,
            alphas,
            tol=self.tol,
            soften=soften,
            keep=last,
            spectrum=spectrum,
            turned=turned,
            guides=guides,
        )

    def _shared(self, training: Training) -> Any:
        """The eigenvectors in which softmax regressions are solved, and the rows in these."""
        if self.probabilities == "platt":
            return None
        spectrum = softmax_spectrum(training.X_or_rows, training.y, training.n_seen)
        return spectrum, turned_rows(training.X_or_rows, spectrum)

    def _shared_by(self, shared: Any, rows: NDArray[np.intp]) -> Any:
        """The same eigenvectors, and some of the rows."""
        if shared is None:
            return None
        spectrum, turned = shared
        return spectrum, None if turned is None else take_rows(turned, rows)

    def _guides(
        self, results: Sequence[Any], classes: NDArray[np.intp] | None = None
    ) -> Sequence[LogisticResult] | None:
        """Regressions of the seen classes without some."""
        if self.probabilities == "platt":
            return None
        if classes is None:
            return results
        return [
            replace(
                result,
                coef=take_rows(result.coef, classes),
                intercept=take_rows(result.intercept, classes),
            )
            for result in results
        ]

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
