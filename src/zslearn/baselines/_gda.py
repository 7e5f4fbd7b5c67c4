r"""GDA: Gaussian discriminant analysis of a few images, beside the score of the description.

All classes are Gaussians of one covariance. With :math:`\mu_c` the means of the classes that have
images and :math:`\Sigma` the covariance within these, pooled, of n images in d dimensions, the
inverse is shrunk,

.. math:: P = d \, \bigl((n - 1) \Sigma + \rho \, \mathrm{tr}(\Sigma) I\bigr)^{-1},

and the score of class c by its images is the logarithm of its density over that of a Gaussian at
:math:`\bar\mu`, the mean of the means, where a class without images is taken to lie:

.. math:: g_c(x) = (\mu_c - \bar\mu)^\top P (x - \bar\mu)
          - \tfrac12 (\mu_c - \bar\mu)^\top P (\mu_c - \bar\mu).

The score of a class is that of its description plus :math:`\alpha g_c(x)`.
"""

from __future__ import annotations

from functools import cache, partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn._utils._array import Array, Floats
from zslearn._utils._docstrings import inherit_docs
from zslearn.base._class_statistics import ClassStatistics
from zslearn.baselines._base_few_images import FewImages


@inherit_docs
class GDA(FewImages):
    """Gaussians of one covariance around the class means, plus the score of the description.

    Parameters
    ----------
    shrinkage : float, default=1.0
        ρ of the shrunk inverse covariance: 1 in the original, where all n images are few ones. With
        thousands of images of other classes the inverse is hardly shrunk then.

    See Also
    --------
    TipAdapter : Compares with the images themselves.

    Notes
    -----
    What differs from the original: a zero-shot method of any kind takes the place of CLIP's text
    encoder; the covariance is that within all classes of the training data; scores are around the
    mean of the class means, which gives classes without images a place; and both scores are brought
    to one unit.

    The weight is found by leaving out classes and giving some of their images back:
    ``ZeroShotSearchCV(GDA(method), "fast", cv=ClassKFold(5, shots=k))``.

    References
    ----------
    Z. Wang, J. Liang, L. Sheng, R. He, Z. Wang and T. Tan, "A hard-to-beat baseline for
    training-free CLIP-based adaptation", ICLR 2024.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL, GDA
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = GDA(ESZSL()).fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_seen, data.y_test_seen, classes=data.seen_classes) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FewImages._parameter_constraints,
        "shrinkage": [Interval(Real, 0, None, closed="neither")],
    }
    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {"weight": [2.0**k for k in range(-8, 9)]},
        "fast": {
            "min_images": [1, 20],
            "shrinkage": [1.0, 10.0, 100.0, 1000.0],
            "weight": [2.0**k for k in range(-4, 5)],
        },
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        min_images: int = 1,
        weight: float = 1.0,
        shrinkage: float = 1.0,
    ) -> None:
        self.estimator = estimator
        self.min_images = min_images
        self.weight = weight
        self.shrinkage = shrinkage

    def _sum_images(self, X: Array, codes: NDArray[np.intp], weights: Floats | None) -> Any:
        sums = ClassStatistics.of_rows(X, codes, self._seen, weights=weights)
        return cache(partial(_discriminant, sums))

    def _learn_images(self, sums: Any) -> None:
        self.coef_, self.intercept_ = sums(self.shrinkage)


def _discriminant(sums: ClassStatistics, shrinkage: float) -> tuple[Floats, Floats]:
    """Coefficients and intercept of each class."""
    center, scatter = sums.means.mean(axis=0), sums.scatter  # the scatter is (n − 1) Σ
    trace = float(np.trace(scatter)) / max(float(sums.sizes.sum()) - 1, 1)
    # Without any deviation all directions count the same.
    shrunk = scatter + (shrinkage * trace or 1.0) * np.eye(len(scatter))
    solved = scipy.linalg.solve(shrunk, (sums.means - center).T, assume_a="pos")
    coef = len(scatter) * np.ascontiguousarray(solved.T)
    # −½ (μ − μ̄)ᵀP(μ − μ̄) − (μ − μ̄)ᵀP μ̄ = −½ (μ − μ̄)ᵀP(μ + μ̄)
    return coef, -0.5 * (coef * (sums.means + center)).sum(axis=1)
