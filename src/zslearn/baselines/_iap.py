r"""IAP: indirect attribute prediction.

A softmax regression gives the probabilities of the seen classes, and these those of the attributes,

.. math:: p(a_m | x) = \sum_y p(a_m | y)\, p(y | x), \qquad p(a_m | y) \in \{0, 1\},

from which on a class is scored as in DAP,
:math:`p(c | x) \propto \prod_m p(a_m^c | x) / p(a_m^c)`. The regression minimises

.. math:: \frac{1}{N} \sum_n \log \sum_y e^{f_{ny}} - f_{n y_n}
          + \frac{\alpha v}{2} \|W\|_F^2, \qquad f_{ny} = w_y^\top x_n + b_y,

with v the features' mean squared distance from their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.base import Training
from zslearn.baselines._base_attributes import AttributeClassifier
from zslearn.baselines._seen_probabilities import seen_path
from zslearn.solvers import LogisticResult
from zslearn.utils import Array, move_like


class IAP(AttributeClassifier):
    """Indirect attribute prediction: seen classes first, then attributes, then the class.

    Parameters
    ----------
    alpha : float, default=1e-4
        Penalty of the seen classes' softmax regression, in units of the features' spread.
    calibration : {"targets", "classes"} or None, default="targets"
        How probabilities are kept from being too sure. "targets": the regression is trained on
        softened targets, as if two more samples of each class were spread evenly over all classes
        (Platt's targets where there are two). "classes": Platt's sigmoid is fitted to the
        attributes' log-odds of seen classes that were held out in turn; see :class:`DAP`. None:
        neither.
    <parameters of attribute methods>
    <parameters of every method>

    Attributes
    ----------
    coef_ : array of shape (n_seen, n_features)
        Coefficients of the seen classes.
    intercept_ : array of shape (n_seen,)
        Their intercepts.
    <attributes of attribute methods>
    <attributes of every method>

    See Also
    --------
    DAP : Predicts attributes directly; how signatures become binary is described there.
    zslearn.signatures.binarize_signatures : Binary signatures with thresholds of one's own.

    Notes
    -----
    The original fits neither targets nor a sigmoid to the seen classes' probabilities; that is
    `calibration=None`. Probabilities below 1e-307 of the largest count as that.

    References
    ----------
    C. H. Lampert, H. Nickisch and S. Harmeling, "Attribute-based classification for zero-shot
    visual object categorization", IEEE TPAMI 36(3), 2014.

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

    def _path(
        self, training: Training, alphas: Sequence[float], *, soften: bool
    ) -> list[LogisticResult]:
        """One softmax regression of the seen classes."""
        return seen_path(training, alphas, tol=self.tol, soften=soften)

    def _log_odds(self, scores: Array, has: NDArray[np.bool_]) -> Array:
        """Sum p(y|x) over the classes with the attribute and over the others, in logarithms."""
        xp = compat.array_namespace(scores)
        wide = xp.astype(scores, xp.float64)
        shares = xp.exp(wide - xp.max(wide, axis=1, keepdims=True))
        tiny = float(xp.finfo(xp.float64).smallest_normal)
        with_it = move_like(has.astype(np.float64), shares)
        present = xp.log(xp.clip(shares @ with_it, min=tiny))
        absent = xp.log(xp.clip(shares @ (1 - with_it), min=tiny))
        return xp.astype(present - absent, scores.dtype)
