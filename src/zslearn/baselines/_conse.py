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

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn._scoring._classes import ScoreFunction
from zslearn._utils._array import Array, Floats, move_like
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._classifier import ZeroShotClassifier, group_by_params
from zslearn.base._training import Training
from zslearn.baselines._attributes import linear_scores, seen_path


@inherit_docs
@saves(
    coef_=Saved("n_seen", "n_features"),
    intercept_=Saved("n_seen"),
    seen_signatures_=Saved("n_seen", "n_attributes"),
)
class ConSE(ZeroShotClassifier):
    """Average the signatures of the most probable seen classes; compare by the cosine.

    Parameters
    ----------
    n_top : int, default=10
        How many seen classes are averaged, T of the paper that introduced the method; all of them
        where there are fewer.
    alpha : float, default=1e-4
        Penalty of the seen classes' softmax regression, in units of the features' variance.
    tol : float, default=1e-4
        Optimality gap of the regression, as a share of its objective and of what training gains.

    Attributes
    ----------
    coef_ : array of shape (n_seen, n_features)
        Coefficients of the seen classes.
    intercept_ : array of shape (n_seen,)
        Their intercepts.
    seen_signatures_ : ndarray of shape (n_seen, n_attributes)
        Normalised signatures of the seen classes.

    Notes
    -----
    The original takes the probabilities of a network trained on the seen classes; here a softmax
    regression on fixed features gives them. Of seen classes that tie for the last place all count.
    The cosine does not depend on `signature_scale`.

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

    describes_each_alone = True
    score_function: ScoreFunction = "cosine"
    path_parameters: ClassVar[tuple[str, ...]] = ("alpha", "n_top")

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

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Penalties share a path of warm starts, and each solution serves every `n_top`."""
        for same_tol in group_by_params(variants, "tol"):
            groups = group_by_params(same_tol, "alpha")
            alphas = [group[0].alpha for group in groups]
            results = seen_path(training, alphas, tol=same_tol[0].tol)
            for group, result in zip(groups, results, strict=True):
                for variant in group:
                    variant.coef_, variant.intercept_ = result.coef, result.intercept
                    variant.seen_signatures_ = training.signatures
                    yield variant

    def embed(self, X: Array) -> Array:
        """Average the signatures of the most probable seen classes."""
        scores = linear_scores(X, self.coef_, self.intercept_)
        xp = compat.array_namespace(scores)
        n_top = min(self.n_top, scores.shape[1])
        ordered = xp.sort(scores, axis=1)
        shares = xp.exp(scores - ordered[:, -1:])
        shares = xp.where(scores >= ordered[:, -n_top][:, None], shares, xp.zeros_like(shares))
        shares = shares / xp.sum(shares, axis=1, keepdims=True)
        return shares @ move_like(self.seen_signatures_, shares)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Floats:
        """Give the signature itself."""
        return signatures
