r"""LatEm: latent embeddings for zero-shot classification.

The score is piecewise linear: the best of K bilinear maps, chosen anew for each pair of image and
class, :math:`F(x, a) = \max_k x^\top W_k a`. For each image one other class c is drawn at random,

.. math:: \min_W \sum_n \max\{0, 1 + F(x_n, a_c) - F(x_n, a_{y_n})\},

and the maps that won, for y and for c, take a step. With K = 1 the score is bilinear.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from zslearn._scoring._classes import ScoreFunction
from zslearn._utils._array import Array, Floats
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._jit import jit, jit_inner
from zslearn._utils._saved import Saved, saves
from zslearn.base._training import Training
from zslearn.baselines._ranking import (
    AnyFloats,
    Descent,
    RankingClassifier,
    Seed,
    mean_square,
)

# Standard deviation of the scores under the first, random maps, in units of the margin.
_INIT_SCALE = 0.1


@jit("the descent of several maps")
def visit_rows(
    X: Any,
    rows: Any,
    y: Any,
    negatives: Any,
    step: Any,
    batch_size: int,
    gram: Any,
    P: Any,
    V: Any,
    change: Any,
) -> None:
    """Visit rows of X in turn; those that their negative violates step down their loss."""
    # `P` holds the classifiers under each map, (n_maps, n_classes, n_features), and `V` the sum of
    # all steps; both are updated after each batch. `change` is zero before and after.
    is_changed = np.zeros(P.shape[:2], dtype=np.bool_)
    for start in range(0, len(rows), batch_size):
        for n in range(start, min(start + batch_size, len(rows))):
            row = X[rows[n]]
            other, other_map = _best(P, negatives[n], row, np.inf)
            own, own_map = _best(P, y[n], row, 1 + other)
            if 1 + other - own > 0:
                is_changed[own_map, y[n]] = is_changed[other_map, negatives[n]] = True
                _add(change[own_map, y[n]], step, row)
                _add(change[other_map, negatives[n]], -step, row)
        for k in range(len(P)):
            classes = np.flatnonzero(is_changed[k])
            for c in range(P.shape[1]):
                for t in classes:
                    _add(P[k, c], gram[c, t], change[k, t])
            for t in classes:
                V[k, t] += change[k, t]
                change[k, t] = 0
            is_changed[k] = False


@jit_inner(fast={"contract", "reassoc"})
def _best(P: Any, of_class: int, row: Any, enough: float) -> Any:
    """The largest score of a class under any map, or the first that is enough; and its map."""
    best, which = 0.0, 0
    for k in range(P.shape[0]):
        classifier, score = P[k, of_class], row[0] - row[0]
        for d in range(len(row)):
            score += classifier[d] * row[d]
        if k == 0 or score > best:
            best, which = score, k
        if best >= enough:
            break
    return best, which


@jit_inner(fast={"contract"})
def _add(to: Any, weight: Any, row: Any) -> None:
    for d in range(len(row)):
        to[d] += weight * row[d]


class LatentDescent(Descent):
    r"""Descent on the ranking loss of :math:`\max_k x^\top W_k a`, K maps at once.

    Steps add to each map combinations of the signatures: :math:`W_k = W_{k0} + V_k^\top A`, with
    one row of :math:`V_k` for each class. The classifiers :math:`P_k = A W_k^\top` of all classes
    are kept up to date beside it.
    """

    def __init__(
        self,
        X: AnyFloats,
        y: NDArray[np.intp],
        signatures: Floats,
        start: AnyFloats,
        step: float,
        **options: Any,
    ) -> None:
        super().__init__(X, y, step, **options)
        self.signatures = signatures.astype(X.dtype)
        self.gram = self.signatures @ self.signatures.T
        self.start = start.astype(X.dtype)
        self.P = self.signatures @ np.swapaxes(self.start, 1, 2)
        self.V, self._change = np.zeros_like(self.P), np.zeros_like(self.P)

    @property
    def coef(self) -> AnyFloats:
        """The maps, of shape (n_maps, n_features, n_attributes)."""
        return self.start + np.swapaxes(self.V, 1, 2) @ self.signatures

    def _visit(self, order: NDArray[np.intp]) -> None:
        n_classes = len(self.signatures)
        y = self.y[order]
        # Another class for each row, drawn evenly.
        negatives = (y + self.rng.randint(1, n_classes, size=len(y))) % n_classes
        tables = self.gram, self.P, self.V, self._change
        options = self.X.dtype.type(self.step), self.batch_size, *tables
        if isinstance(self.X, np.ndarray):
            visit_rows(self.X, order, y, negatives, *options)
            return
        for start in range(0, len(order), self.batch_size):
            batch = slice(start, start + self.batch_size)
            X = self.X[order[batch]]
            visit_rows(X, np.arange(len(X)), y[batch], negatives[batch], *options)


@inherit_docs
@saves(
    coef_=Saved("n_maps", "n_features", "n_attributes"),
)
class LatEm(RankingClassifier):
    """The best of several bilinear maps, learned by ranking against random negatives.

    Parameters
    ----------
    n_maps : int, default=2
        Number of maps, K.
    learning_rate : float, default=0.4
        Length of the steps. At 1 a sample moves the scores of its class and of its negative by
        about the margin: units of 1 / (mean ‖x‖² · mean ‖a‖²).
    max_iter : int, default=128
        Number of epochs. The original takes 150.
    scaling : {"center", "zscore"} or None, default="zscore"
        How prepared features are scaled; see :class:`ALE`.

    Attributes
    ----------
    coef_ : array of shape (n_maps, n_features, n_attributes)
        The bilinear maps.

    See Also
    --------
    SJE : One map, and the worst class in place of a random one.

    Notes
    -----
    The original takes a step after each sample and may prune maps that win too rarely; here steps
    are taken by batches, and the number of maps is searched. Features are scaled as in the
    original, to z-scores that are divided by the largest of them; as steps are measured in units of
    the features' size, that number changes nothing. The only regularisation is the end of training.

    The first maps and the negatives are random, and accuracy varies with `random_state`: on CUB
    with a standard deviation of 1.6 points over five seeds. Compare several.

    The margin is 1: another one would only scale the maps. Unlike methods of one map, this one
    depends on the origin of the signatures: centre those that have a large offset in common.

    References
    ----------
    Y. Xian, Z. Akata, G. Sharma, Q. Nguyen, M. Hein and B. Schiele, "Latent embeddings for
    zero-shot classification", CVPR 2016.

    Examples
    --------
    >>> from zslearn.baselines import LatEm
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = LatEm().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    score_function: ScoreFunction = "max_dot"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RankingClassifier._parameter_constraints,
        "n_maps": [Interval(Integral, 1, None, closed="left")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "scaling": ["zscore"],
            "n_maps": [2, 4, 6, 8, 10],
            "learning_rate": [4.0**k for k in range(-4, 3)],
            "max_iter": [8, 16, 32, 64, 128, 192],
        },
        "fast": {
            "scaling": ["zscore"],
            "n_maps": [2, 4],
            "learning_rate": [0.4, 1.6, 6.4],
            "max_iter": [50, 100, 150],
        },
    }

    def __init__(
        self,
        n_maps: int = 2,
        learning_rate: float = 0.4,
        max_iter: int = 128,
        *,
        batch_size: int = 64,
        scaling: str | None = "zscore",
        random_state: Seed = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        super().__init__(
            learning_rate,
            max_iter,
            batch_size=batch_size,
            scaling=scaling,
            random_state=random_state,
            feature_norm=feature_norm,
            signature_scale=signature_scale,
        )
        self.n_maps = n_maps

    def _descent(self, training: Training) -> LatentDescent:
        X, signatures = training.X, training.signatures
        unit = mean_square(X) * mean_square(signatures)
        rng = check_random_state(self.random_state)
        shape = (self.n_maps, X.shape[1], signatures.shape[1])
        start = rng.standard_normal(shape) * (_INIT_SCALE / np.sqrt(unit))
        step = self.learning_rate / unit
        return LatentDescent(
            X, training.y, signatures, start, step, batch_size=self.batch_size, rng=rng
        )

    @staticmethod
    def _of_maps(coef: Array, signatures: Array) -> Array:
        xp = compat.array_namespace(coef)
        return xp.permute_dims(signatures @ xp.matrix_transpose(coef), (1, 0, 2))
