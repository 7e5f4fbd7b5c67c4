r"""ConSE: convex combination of semantic embeddings.

An image lies where the T most probable seen classes lie, averaged by their probability,

.. math:: e(x) = \sum_{t=1}^T \frac{p(y_t | x)}{\sum_{s=1}^T p(y_s | x)}\, a_{y_t},

and belongs to the class whose signature has the largest cosine with e(x). The probabilities come
from a softmax regression of the seen classes, which minimises

.. math:: \frac{1}{N} \sum_n \log \sum_y e^{f_{ny}} - f_{n y_n}
          + \frac{\alpha v}{2} \|W\|_F^2, \qquad f_{ny} = w_y^\top x_n + b_y,

with v the features' mean squared distance from their mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn.base import Training, ZeroShotClassifier
from zslearn.baselines._seen_probabilities import seen_path, seen_scores
from zslearn.scoring import ScoreFunction
from zslearn.solvers import LogisticResult
from zslearn.utils import Array, move_like


class ConSE(ZeroShotClassifier):
    """Average the signatures of the most probable seen classes; compare by the cosine.

    Parameters
    ----------
    n_top : int, default=10
        How many seen classes are averaged, T of the paper that introduced the method; all of them
        where there are fewer.
    alpha : float, default=1e-4
        Penalty of the seen classes' softmax regression, in units of the features' spread.
    tol : float, default=1e-4
        Relative optimality gap of the regression.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over. The
        cosine does not depend on it.

    Attributes
    ----------
    coef_ : array of shape (n_seen, n_features)
        Coefficients of the seen classes.
    intercept_ : array of shape (n_seen,)
        Their intercepts.
    seen_signatures_ : ndarray of shape (n_seen, n_attributes)
        Normalised signatures of the seen classes.
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

    Notes
    -----
    The original takes the probabilities of a network trained on the seen classes; here a softmax
    regression on fixed features gives them. Of seen classes that tie for the last place all count.

    References
    ----------
    M. Norouzi, T. Mikolov, S. Bengio, Y. Singer, J. Shlens, A. Frome, G. S. Corrado and J. Dean,
    "Zero-shot learning by convex combination of semantic embeddings", ICLR 2014.

    Examples
    --------
    >>> from zslearn.baselines import ConSE
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = ConSE().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    score_function: ScoreFunction = "cosine"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "n_top": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "alpha": [10.0 ** (k / 2) for k in range(-12, 3)],
            "n_top": [1, 2, 3, 5, 10, 20, 30, 50, 100, 200],
        },
        "fast": {
            "alpha": [10.0**k for k in range(-6, -2)],
            "n_top": [1, 3, 5, 10, 30],
        },
    }
    grid_order: ClassVar[tuple[str, ...]] = ("alpha", "n_top")

    def __init__(
        self,
        n_top: int = 10,
        alpha: float = 1e-4,
        *,
        tol: float = 1e-4,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.n_top = n_top
        self.alpha = alpha
        self.tol = tol
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _fit(self, X: Array, y: NDArray[np.intp], signatures: NDArray[np.float64]) -> None:
        (result,) = seen_path(X, y, len(signatures), [self.alpha], soften=False, tol=self.tol)
        self._take(result, signatures)

    def _take(self, result: LogisticResult, signatures: NDArray[np.float64]) -> None:
        # Copies: what several values of n_top share shall not change through one of them.
        xp = compat.array_namespace(result.coef)
        self.coef_ = xp.asarray(result.coef, copy=True)
        self.intercept_ = xp.asarray(result.intercept, copy=True)
        self.seen_signatures_ = signatures.copy()

    def _fit_settings(
        self, training: Training, settings: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Self]]:
        """Penalties share a path, and each solution serves every `n_top`."""
        variants = self._variants(settings)
        seen = training.signatures
        alphas = list(dict.fromkeys(one.alpha for one in variants))
        results = seen_path(training.X, training.y, len(seen), alphas, soften=False, tol=self.tol)
        by_alpha = dict(zip(alphas, results, strict=True))
        for i in range(len(variants)):
            one = variants.pop(0)  # so that its arrays live no longer than it is used
            one._take(by_alpha[one.alpha], seen)
            yield i, one

    def embed(self, X: Array) -> Array:
        """Average the signatures of the most probable seen classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Prepared features.

        Returns
        -------
        array of shape (n_samples, n_attributes)
            One convex combination a row.
        """
        scores = seen_scores(X, self.coef_, self.intercept_)
        xp = compat.array_namespace(scores)
        n_top = min(self.n_top, scores.shape[1])
        ordered = xp.sort(scores, axis=1)
        shares = xp.exp(scores - ordered[:, -1:])
        shares = xp.where(scores >= ordered[:, -n_top][:, None], shares, xp.zeros_like(shares))
        shares = shares / xp.sum(shares, axis=1, keepdims=True)
        return shares @ move_like(self.seen_signatures_, shares)

    def synthesize(self, signatures: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the signature itself.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            Normalised signatures.

        Returns
        -------
        ndarray of shape (n_classes, n_attributes)
            One point a class.
        """
        return signatures
