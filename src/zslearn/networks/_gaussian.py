r"""Features of a class as a Gaussian around a mean that its signature predicts.

With the class means :math:`m_c` of the seen classes, their mean :math:`\bar m`, and the RBF kernel
K between their signatures,

.. math:: m(a) = \bar m + k(a)^\top (K + \lambda I)^{-1} (M - \bar m), \qquad
          x \mid a \sim \mathcal N\bigl(m(a), \Sigma\bigr),

where :math:`\Sigma` is the covariance within classes, pooled over the seen ones and shrunk towards
its mean variance.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from zslearn.signatures import rbf_similarity
from zslearn.solvers import class_means, deviation_blocks
from zslearn.utils import Array, Floats, checks_parameters, to_numpy


# Defaults: by leaving out seen classes of CUB, `gamma` and `alpha` with the nearest mean; any
# `shrinkage` from 0.03 to 0.3 gives the same there.
class GaussianGenerator(BaseEstimator):
    """Draw features from a Gaussian whose mean is regressed on the signature.

    The simplest generator there is: kernel ridge for the means, one covariance for all classes.

    Parameters
    ----------
    gamma : float, default=0.25
        Width of the RBF kernel between signatures, in units of their median distance.
    alpha : float, default=0.03
        Ridge λ of the means.
    shrinkage : float, default=0.1
        Share of the mean variance in the covariance, between 0 and 1.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the class means.
    coef_ : ndarray of shape (n_seen, n_features)
        What the kernel with the seen signatures is multiplied by.
    signatures_ : ndarray of shape (n_seen, n_attributes)
        Signatures of the seen classes.
    root_ : ndarray of shape (n_features, n_features)
        A square root of the covariance: standard normal rows times it have that covariance.

    See Also
    --------
    GeneratedFeatures : Trains a classifier on what it generates.
    zslearn.baselines.GFZSL : Scores with such densities, without drawing from them.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.networks import GaussianGenerator
    >>> data = make_zero_shot(random_state=0)
    >>> seen = data.signatures.loc[data.seen_classes]
    >>> y = seen.index.get_indexer(data.y_train)
    >>> generator = GaussianGenerator().fit(data.X_train, y, seen.to_numpy())
    >>> unseen = data.signatures.loc[data.unseen_classes].to_numpy()
    >>> generator.sample(unseen, 5, random_state=0).shape == (len(unseen), 5, data.X_train.shape[1])
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "shrinkage": [Interval(Real, 0, 1, closed="both")],
    }

    #: Values to search, by name.
    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "gamma": [2.0**k for k in range(-5, 3)],
            "alpha": [10.0 ** (k / 2) for k in range(-6, 1)],
        },
        "fast": {
            "gamma": [2.0**k for k in range(-4, 1)],
            "alpha": [0.01, 0.03, 0.1, 0.3],
        },
    }

    def __init__(self, gamma: float = 0.25, alpha: float = 0.03, *, shrinkage: float = 0.1) -> None:
        self.gamma = gamma
        self.alpha = alpha
        self.shrinkage = shrinkage

    @checks_parameters()
    def fit(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> Self:
        """Learn from features of the seen classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Features, of any library of the array API standard.
        y : ndarray of int of shape (n_samples,)
            Position of each sample's class in `signatures`.
        signatures : ndarray of shape (n_seen, n_attributes)
            One row per class.

        Returns
        -------
        self
            The fitted generator.
        """
        y = np.asarray(y)
        means = class_means(X, y, len(signatures))
        covariance: Any = 0.0
        for _, _, deviations in deviation_blocks(X, y, means):
            covariance = covariance + to_numpy(deviations.T @ deviations)
        covariance /= max(len(y) - len(signatures), 1)
        self.root_ = _root(covariance, self.shrinkage)
        targets = to_numpy(means)
        self.mean_ = targets.mean(axis=0)
        self.signatures_ = np.asarray(signatures, dtype=np.float64)
        kernel = rbf_similarity(self.signatures_, gamma=self.gamma)
        ridge = kernel + self.alpha * np.eye(len(kernel))
        self.coef_ = np.linalg.solve(ridge, targets - self.mean_)
        return self

    def predict(self, signatures: Floats) -> Floats:
        """Means of classes.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            One row per class.

        Returns
        -------
        ndarray of shape (n_classes, n_features)
            One row per class.
        """
        check_is_fitted(self)
        kernel = rbf_similarity(signatures, self.signatures_, gamma=self.gamma)
        return self.mean_ + kernel @ self.coef_

    def sample(self, signatures: Floats, n_samples: int, random_state: Any = None) -> Floats:
        """Draw features of classes.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            One row per class.
        n_samples : int
            How many per class.
        random_state : int, RandomState or None, default=None
            Decides the noise. All classes share it, so that the features of a class do not depend
            on which others are asked for.

        Returns
        -------
        ndarray of shape (n_classes, n_samples, n_features)
            Features.
        """
        means = self.predict(signatures)
        noise = check_random_state(random_state).normal(size=(n_samples, len(self.mean_)))
        return means[:, None, :] + noise @ self.root_


def _root(covariance: Floats, shrinkage: float) -> Floats:
    """A square root of the covariance, shrunk towards its mean variance."""
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 0.0)
    shrunk = (1 - shrinkage) * values + shrinkage * values.mean()
    root: Floats = np.sqrt(shrunk)[:, None] * vectors.T
    return root
