r"""The two-layer network of CMT: its objective, and the gradient of it.

Features x and signatures a are measured from their means over the training samples and the seen
classes, in units of their root mean square norm. In these units the network minimises

.. math:: J(\theta_1, \theta_2) = \frac{1}{N} \sum_i \|a_{y_i} - \theta_2 \tanh(\theta_1 x_i)\|^2
          + \alpha \left(\|\theta_1\|_F^2 + \|\theta_2\|_F^2\right).

For a given :math:`\theta_1` the best :math:`\theta_2` is a ridge regression on the h hidden units,

.. math:: \theta_2^\top = \left(\tfrac{1}{N} H^\top H + \alpha I\right)^{-1}
          \tfrac{1}{N} H^\top A_y, \quad H = \tanh(X \theta_1^\top),

so that L-BFGS need only search :math:`\theta_1` (variable projection). The gradient there is that
of J at the best :math:`\theta_2`. Only HᵀH, the sums of H over each class and the signatures of the
classes enter, so that the number of attributes hardly counts.

The two products with X, nearly all of the cost, are computed in the dtype of X; all else, and what
is added up over the samples, in float64.

With intercepts the network is :math:`\theta_2 \tanh(\theta_1 x + b_1) + b_2`; they are not
penalised. The best :math:`b_2` brings the mean output to the mean target, which comes to centring H
and :math:`A_y` over the samples; :math:`b_1` is searched as one more column of :math:`\theta_1`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from zslearn.baselines._cmt_hidden import HiddenLayer, held_bytes
from zslearn.scoring import PreparedRows
from zslearn.solvers import mean_square_distance
from zslearn.utils import Array, Floats, is_foreign, move_like, row_blocks, to_numpy

# A mean of so many times the deviations costs float32 a digit.
_FAR = 16


class Network(NamedTuple):
    """Weights in the units of prepared features and normalised signatures.

    Parameters
    ----------
    coefs : tuple of ndarray
        Of shapes (n_features, n_hidden) and (n_hidden, n_attributes).
    intercepts : tuple of ndarray
        Of shapes (n_hidden,) and (n_attributes,).
    n_iter : int
        Steps that led here.
    """

    coefs: tuple[Floats, Floats]
    intercepts: tuple[Floats, Floats]
    n_iter: int

    def embed(self, X: Array) -> Array:
        """Map features to the space of signatures, on their device."""
        xp = compat.array_namespace(X)
        first, second = (move_like(coef, X) for coef in self.coefs)
        inner, outer = (move_like(intercept, X)[None, :] for intercept in self.intercepts)
        return xp.tanh(X @ first + inner) @ second + outer


class NetworkEvaluation(NamedTuple):
    """The objective for one first layer.

    Parameters
    ----------
    value : float
        J at the best second layer.
    gradient : ndarray of shape (n_hidden * n_weights,)
        Its gradient for the first layer.
    second : ndarray of shape (n_hidden, n_attributes)
        The best second layer, θ₂ᵀ.
    intercept : ndarray of shape (n_attributes,)
        That of the second layer, b₂.
    """

    value: float
    gradient: Floats
    second: Floats
    intercept: Floats


class NetworkProblem:
    r"""The objective over :math:`\theta_1` alone, for one set of training samples.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Prepared features, on any device; they are read block by block.
    y : ndarray of shape (n_samples,)
        Positions in the seen classes.
    signatures : ndarray of shape (n_seen, n_attributes)
        Normalised signatures of the seen classes.
    alpha : float
        Weight decay.
    fit_intercept : bool, default=False
        Whether each layer has an intercept.
    """

    def __init__(
        self,
        X: Array,
        y: NDArray[np.intp],
        signatures: Floats,
        alpha: float,
        *,
        fit_intercept: bool = False,
    ) -> None:
        self.X = X
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.n_samples, self.n_features = X.shape
        # A row in float64 with what is computed from it, and which class it is of.
        self._blocks = row_blocks(self.n_samples, 8 * (2 * self.n_features + len(signatures)))
        self.counts = np.bincount(y, minlength=len(signatures)).astype(np.float64)
        xp = compat.array_namespace(X)
        self._labels = xp.asarray(y, device=compat.device(X))
        self._members: dict[int, Any] = {}
        self.mean, self.scale = self._feature_units()
        self._product_dtype = self._dtype_of_products()
        self.signature_mean = signatures.mean(axis=0)
        centered = signatures - self.signature_mean
        self.signature_scale = _positive(float(np.sqrt((centered**2).sum(axis=1).mean())))
        self.targets = centered / self.signature_scale
        shares = self.counts / self.n_samples
        # What the outputs are measured from: their own mean, where b₂ is free.
        self._target_mean = shares @ self.targets * fit_intercept
        self._target_norm = float(shares @ (self.targets**2).sum(axis=1))
        self._target_norm -= float(self._target_mean @ self._target_mean)

    def _feature_units(self) -> tuple[Floats, float]:
        """Mean of the features, and root mean square distance from it."""
        xp = compat.array_namespace(self.X)
        sums = (xp.sum(self.X[rows, :], axis=0, dtype=xp.float64) for rows in self._blocks)
        mean = sum(sums) / self.n_samples
        return to_numpy(mean), _positive(float(np.sqrt(mean_square_distance(self.X))))

    @property
    def _dtype(self) -> Any:
        return compat.array_namespace(self.X).float64

    def _dtype_of_products(self) -> Any:
        """float32 for features in it, unless their mean would drown what they deviate by."""
        is_narrow = self.X.dtype == compat.array_namespace(self.X).float32
        far = float(np.linalg.norm(self.mean)) > _FAR * self.scale
        return self.X.dtype if is_narrow and not far else self._dtype

    def _block(self, rows: slice) -> Array:
        xp = compat.array_namespace(self.X)
        return xp.astype(self.X[rows, :], self._product_dtype, copy=False)

    def with_alpha(self, alpha: float) -> NetworkProblem:
        """The same problem with another weight decay."""
        other = copy.copy(self)
        other.alpha = alpha
        return other

    def most_together(self, n_hidden: int) -> int:
        """How many first layers are evaluated side by side: those whose hidden units are held."""
        if isinstance(self.X, PreparedRows):
            return 1
        return max(1, held_bytes(self.X) // (8 * self.n_samples * n_hidden))

    def start(self, n_hidden: int, rng: np.random.RandomState) -> Floats:
        """Random first weights; their rows have about unit norm. Intercepts begin at zero."""
        weights = rng.normal(size=(n_hidden, self.n_features)) / np.sqrt(self.n_features)
        return np.pad(weights, [(0, 0), (0, int(self.fit_intercept))])

    def hidden(self, theta: Floats) -> tuple[HiddenLayer, Floats, Floats]:
        """H, to be read block by block, with HᵀH and the sums of H over each class on the host."""
        layer, grams, sums = self._hidden([theta])
        return layer, grams[0], sums[0]

    def _hidden(self, thetas: Sequence[Floats]) -> tuple[HiddenLayer, list[Floats], list[Floats]]:
        """H of several first layers side by side, with HᵀH and the sums of each."""
        xp, device = compat.array_namespace(self.X), compat.device(self.X)
        layers = [self._first_layer(theta) for theta in thetas]
        weights, offset = (np.concatenate(parts) for parts in zip(*layers, strict=True))
        first = xp.asarray(weights, dtype=self._product_dtype, device=device)
        offset = xp.asarray(offset, dtype=self._dtype, device=device)
        few = not isinstance(self.X, PreparedRows)
        layer = HiddenLayer(self._block, self.n_samples, first, offset, are_few=few)
        parts = _side_by_side(thetas)
        grams: list[Any] = [0.0] * len(parts)
        sums: Any = 0.0
        for rows in self._blocks:
            block = layer.computed(rows)
            for i, part in enumerate(parts):
                grams[i] = grams[i] + xp.matrix_transpose(block[:, part]) @ block[:, part]
            sums = sums + self._class_sums(rows, block)
        sums = to_numpy(sums)
        return layer, [to_numpy(gram) for gram in grams], [sums[:, part] for part in parts]

    def _class_sums(self, rows: slice, block: Array) -> Array:
        """Sums of the rows of a block over each class."""
        xp = compat.array_namespace(block)
        labels, n_classes = self._labels[rows], len(self.counts)
        if not is_foreign(block):
            if rows.start not in self._members:
                # One entry for each sample, in a row for its class.
                at = np.arange(len(labels))
                self._members[rows.start] = scipy.sparse.csr_array(
                    (np.ones(len(labels)), (labels, at)), shape=(n_classes, len(labels))
                )
            return self._members[rows.start] @ block
        classes = xp.arange(n_classes, device=compat.device(block))
        return xp.astype(labels[None, :] == classes[:, None], self._dtype) @ block

    def _first_layer(self, theta: Floats) -> tuple[Floats, Floats]:
        """θ₁ in the units of X, and the intercept with what centring adds."""
        first = theta[:, : self.n_features] / self.scale
        offset = -first @ self.mean
        return first, offset + theta[:, self.n_features] if self.fit_intercept else offset

    def second_layer(self, gram: Floats, sums: Floats) -> Floats:
        """θ₂ᵀ = (HᵀH/N + αI)⁻¹ HᵀA/N, of shape (n_hidden, n_attributes); H centred where b₂ is."""
        mean = self._hidden_mean(sums)
        ridge = gram / self.n_samples - np.outer(mean, mean)
        ridge[np.diag_indices_from(ridge)] += self.alpha
        if not np.isfinite(ridge).all():
            raise FloatingPointError("the weights are no longer finite numbers")
        return scipy.linalg.solve(ridge, self._right_side(sums), assume_a="pos")

    def second_intercept(self, sums: Floats, second: Floats) -> Floats:
        """b₂, of shape (n_attributes,); zero where there are no intercepts."""
        return self._target_mean - self._hidden_mean(sums) @ second

    def _hidden_mean(self, sums: Floats) -> Floats:
        """What H is measured from."""
        return sums.sum(axis=0) / self.n_samples * self.fit_intercept

    def _right_side(self, sums: Floats) -> Floats:
        """HᵀA/N, of what H and A are beyond their means."""
        products = sums.T @ self.targets / self.n_samples
        return products - np.outer(self._hidden_mean(sums), self._target_mean)

    def value_and_gradient(self, flat: Floats) -> tuple[float, Floats]:
        """J at the best θ₂, and its gradient for θ₁."""
        return evaluate([self], [flat])[0][:2]

    def _slopes(
        self, layer: HiddenLayer, seconds: Sequence[Floats], intercepts: Sequence[Floats]
    ) -> list[Floats]:
        r"""Gradients of the mean squared error for each θ₁, and for b₁ beside it.

        It is 2/N (E θ₂ ∘ (H² − 1))ᵀ X with E = A_y − H θ₂ᵀ − b₂.
        """
        xp, device = compat.array_namespace(self.X), compat.device(self.X)
        outers, wanted = (
            [xp.asarray(part, dtype=self._dtype, device=device) for part in parts]
            for parts in (
                [second @ second.T for second in seconds],
                [
                    (self.targets - intercept) @ second.T
                    for second, intercept in zip(seconds, intercepts, strict=True)
                ],
            )
        )
        parts = _side_by_side(seconds)
        slope, total = 0.0, 0.0
        for rows in self._blocks:
            block, features = layer.read(rows)
            labels = self._labels[rows]
            backs = [
                xp.take(target, labels, axis=0) - block[:, part] @ outer
                for part, outer, target in zip(parts, outers, wanted, strict=True)
            ]
            back = backs[0] if len(backs) == 1 else xp.concat(backs, axis=1)
            bent = block * block
            bent -= 1
            back *= bent
            narrow = xp.astype(back, self._product_dtype, copy=False)
            product = xp.matrix_transpose(narrow) @ features
            slope = slope + xp.astype(product, self._dtype, copy=False)
            total = total + xp.sum(back, axis=0)
        sums = to_numpy(total)[:, None]
        for_weights = (to_numpy(slope) - sums * self.mean) / self.scale
        columns = [for_weights, sums] if self.fit_intercept else [for_weights]
        slopes = np.hstack(columns) * (2 / self.n_samples)
        return [slopes[part] for part in parts]

    def network(self, n_iter: int, flat: Floats, found: NetworkEvaluation) -> Network:
        """The network of first weights and the best second ones, which were found for them."""
        theta = flat.reshape(-1, self.n_features + self.fit_intercept)
        first, inner = self._first_layer(theta)
        outer = self.signature_mean + self.signature_scale * found.intercept
        return Network((first.T, found.second * self.signature_scale), (inner, outer), n_iter)


def evaluate(
    problems: Sequence[NetworkProblem], points: Sequence[Floats]
) -> list[NetworkEvaluation]:
    """The objectives of problems that differ in alpha alone, each at a first layer of its own.

    One product with X serves all.
    """
    common = problems[0]
    thetas = [flat.reshape(-1, common.n_features + common.fit_intercept) for flat in points]
    layer, grams, sums = common._hidden(thetas)
    seconds = [
        problem.second_layer(*parts) for problem, *parts in zip(problems, grams, sums, strict=True)
    ]
    intercepts = [common.second_intercept(*parts) for parts in zip(sums, seconds, strict=True)]
    slopes = common._slopes(layer, seconds, intercepts)
    found = []
    for i, (problem, theta) in enumerate(zip(problems, thetas, strict=True)):
        # At the best θ₂ the error and its penalty are ‖A_y‖²/N − ⟨θ₂ᵀ, HᵀA_y/N⟩.
        explained = float(np.sum(seconds[i] * problem._right_side(sums[i])))
        decayed = theta * (np.arange(theta.shape[1]) < problem.n_features)
        value = problem._target_norm - explained + problem.alpha * float(np.sum(decayed**2))
        gradient = (slopes[i] + 2 * problem.alpha * decayed).ravel()
        found.append(NetworkEvaluation(value, gradient, seconds[i], intercepts[i]))
    return found


def _side_by_side(tables: Sequence[Floats]) -> list[slice]:
    """Which columns are those of each table's rows."""
    ends = np.cumsum([len(table) for table in tables]).tolist()
    return [slice(end - len(table), end) for end, table in zip(ends, tables, strict=True)]


def _positive(scale: float) -> float:
    """A scale that can be divided by."""
    return scale if scale > 0 else 1.0
