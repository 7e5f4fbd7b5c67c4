r"""DAP: direct attribute prediction.

One logistic regression per attribute gives :math:`p(a_m | x)`; a class is as probable as its binary
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

from zslearn._scoring._embedding import for_many_passes
from zslearn._solvers._logistic import logistic_path
from zslearn._solvers._platt import platt_targets
from zslearn._utils._docstrings import inherit_docs
from zslearn.base._training import Training
from zslearn.baselines._base_attributes import AttributeClassifier, LinearModels
from zslearn.baselines._base_probabilities import total_variance


@inherit_docs
class DAP(AttributeClassifier):
    """Direct attribute prediction: attributes first, then the class that has them.

    Parameters
    ----------
    alpha : float, default=1e-4
        Penalty of the attributes' logistic regressions, in units of the features' variance.
    calibration : {"targets", "classes"} or None, default="targets"
        How probabilities are kept from being too sure. "targets": regressions are trained on
        Platt's targets, (N₊ + 1)/(N₊ + 2) and 1/(N₋ + 2), in the place of 1 and 0; this costs
        nothing. "classes": Platt's sigmoid is fitted to the log-odds of seen classes that were held
        out in turn, a third of them at a time, so that an attribute that does not carry over to
        other classes loses its weight; this takes three times as long, and of few seen classes the
        sigmoids learn too little to help. None: neither.

    Attributes
    ----------
    coef_ : array of shape (n_kept, n_features)
        Coefficients of the attributes' regressions.
    intercept_ : array of shape (n_kept,)
        Their intercepts.

    See Also
    --------
    IAP : Predicts the seen classes first, and attributes from these.
    zslearn.signatures.binarize_signatures : Binary signatures with thresholds of one's own.

    Notes
    -----
    Binary signatures are taken as they are: 0 and 1, or −1 and 1. In other signatures an attribute
    is present where the normalised value is above its mean over the seen classes. Classes with the
    same attributes after that have the same scores. Of several views all attributes count the same:
    the weights of :class:`~zslearn.signatures.MultiSignatures` are not used. Nor does
    `signature_scale` change which attributes are present.

    The original has support vector machines, with a sum of χ² kernels of several features, and
    Platt scaling on held-out samples; here it is linear logistic regression. Where a sigmoid is
    fitted, classes are held out for it and not samples, as it is to classes that attributes carry
    over.

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

    def _path(
        self, training: Training, alphas: Sequence[float], *, soften: bool
    ) -> list[LinearModels]:
        """One regression per attribute; `soften` asks for Platt's targets."""
        has = training.signatures
        targets = platt_targets(has, counts=training.counts) if soften else has
        unit = total_variance(training.rows)
        results = logistic_path(
            for_many_passes(training.rows),
            targets,
            codes=training.y,
            alphas=[unit * a for a in alphas],
            tol=self.tol,
        )
        return [(result.coef, result.intercept) for result in results]
