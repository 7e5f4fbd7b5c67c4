r"""The two-layer network of CMT, and how it is trained.

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

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse
from numpy.typing import NDArray

from zslearn.baselines._cmt_hidden import HiddenLayer
from zslearn.scoring import PreparedRows
from zslearn.solvers import mean_square_distance
from zslearn.utils import Array, Floats, is_foreign, move_like, row_blocks, to_numpy

# Pairs of steps and gradients that L-BFGS remembers.
_MEMORY = 10
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


class TrainedPath(NamedTuple):
    """First layers along one path of training.

    Parameters
    ----------
    layers : dict of int to ndarray of shape (n_hidden, n_weights)
        By the number of steps, those of the last step among them.
    n_iter : int
        Steps of the whole path.
    most : int
        Steps that were allowed; a path of fewer came to its end.
    """

    layers: dict[int, Floats]
    n_iter: int
    most: int

    def has(self, stops: Collection[int]) -> bool:
        """Whether a path to these stops, which may be a longer one, would give the same layers."""
        is_long = self.n_iter < self.most or max(stops) <= self.most
        return is_long and all(min(stop, self.n_iter) in self.layers for stop in stops)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The path as arrays, to be kept."""
        steps = sorted(self.layers)
        layers = np.stack([self.layers[step] for step in steps])
        return {"steps": np.array(steps), "layers": layers, "most": np.array(self.most)}

    @classmethod
    def of(cls, arrays: dict[str, NDArray[Any]]) -> TrainedPath:
        """A path that was kept."""
        steps = arrays["steps"].tolist()
        layers = dict(zip(steps, arrays["layers"], strict=True))
        return cls(layers, steps[-1], int(arrays["most"]))


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

    def start(self, n_hidden: int, rng: np.random.RandomState) -> Floats:
        """Random first weights; their rows have about unit norm. Intercepts begin at zero."""
        weights = rng.normal(size=(n_hidden, self.n_features)) / np.sqrt(self.n_features)
        return np.pad(weights, [(0, 0), (0, int(self.fit_intercept))])

    def hidden(self, theta: Floats) -> tuple[HiddenLayer, Floats, Floats]:
        """H, to be read block by block, with HᵀH and the sums of H over each class on the host."""
        xp, device = compat.array_namespace(self.X), compat.device(self.X)
        weights, offset = self._first_layer(theta)
        first = xp.asarray(weights, dtype=self._product_dtype, device=device)
        offset = xp.asarray(offset, dtype=self._dtype, device=device)
        few = not isinstance(self.X, PreparedRows)
        layer = HiddenLayer(self._block, self.n_samples, first, offset, are_few=few)
        gram, sums = 0.0, 0.0
        for rows in self._blocks:
            block = layer.computed(rows)
            gram = gram + xp.matrix_transpose(block) @ block
            sums = sums + self._class_sums(rows, block)
        return layer, to_numpy(gram), to_numpy(sums)

    def _class_sums(self, rows: slice, block: Array) -> Array:
        """Sums of the rows of a block over each class."""
        xp = compat.array_namespace(block)
        labels, n_classes = self._labels[rows], len(self.counts)
        if not is_foreign(block):
            at = np.arange(len(labels) + 1)
            # One entry for each sample, in a column for its class.
            member = scipy.sparse.csr_array(
                (np.ones(len(labels)), labels, at), shape=(len(labels), n_classes)
            )
            return member.T @ block
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
        theta = flat.reshape(-1, self.n_features + self.fit_intercept)
        layer, gram, sums = self.hidden(theta)
        second = self.second_layer(gram, sums)
        # At the best θ₂ the error and its penalty are ‖A_y‖²/N − ⟨θ₂ᵀ, HᵀA_y/N⟩.
        explained = float(np.sum(second * self._right_side(sums)))
        decayed = theta * (np.arange(theta.shape[1]) < self.n_features)
        value = self._target_norm - explained + self.alpha * float(np.sum(decayed**2))
        slope = self._slope(layer, second, self.second_intercept(sums, second))
        return value, (slope + 2 * self.alpha * decayed).ravel()

    def _slope(self, layer: HiddenLayer, second: Floats, intercept: Floats) -> Floats:
        r"""Gradient of the mean squared error for θ₁, and for b₁ beside it.

        It is 2/N (E θ₂ ∘ (1 − H²))ᵀ X with E = H θ₂ᵀ + b₂ − A_y.
        """
        xp, device = compat.array_namespace(self.X), compat.device(self.X)
        outer, wanted = (
            xp.asarray(part, dtype=self._dtype, device=device)
            for part in (second @ second.T, (self.targets - intercept) @ second.T)
        )
        slope, total = 0.0, 0.0
        for rows in self._blocks:
            block, features = layer.read(rows)
            back = block @ outer - xp.take(wanted, self._labels[rows], axis=0)
            back = back * (1 - block * block)
            narrow = xp.astype(back, self._product_dtype, copy=False)
            product = xp.matrix_transpose(narrow) @ features
            slope = slope + xp.astype(product, self._dtype, copy=False)
            total = total + xp.sum(back, axis=0)
        sums = to_numpy(total)[:, None]
        for_weights = (to_numpy(slope) - sums * self.mean) / self.scale
        parts = [for_weights, sums] if self.fit_intercept else [for_weights]
        return np.hstack(parts) * (2 / self.n_samples)

    def network(self, theta: Floats, n_iter: int) -> Network:
        """The network of these first weights, with its best second ones."""
        _, gram, sums = self.hidden(theta)
        first, inner = self._first_layer(theta)
        second = self.second_layer(gram, sums)
        outer = self.signature_mean + self.signature_scale * self.second_intercept(sums, second)
        return Network((first.T, second * self.signature_scale), (inner, outer), n_iter)


def train(
    problem: NetworkProblem,
    start: Floats,
    stops: Collection[int],
    tol: float,
    watch: Callable[[Network], None] | None = None,
) -> dict[int, Network]:
    """One path of L-BFGS, and the network at some of its steps.

    Parameters
    ----------
    problem : NetworkProblem
        What is minimised.
    start : ndarray of shape (n_hidden, n_features)
        First weights.
    stops : collection of int
        Steps at which the network is wanted; the largest ends the path.
    tol : float
        The path ends, too, when a step lowers the objective by less than this share of it; later
        stops then get the last network.
    watch : callable, optional
        Called with the network after every step.

    Returns
    -------
    dict of int to Network
        One per stop; those that end at the same step share one network.
    """
    return networks_at(problem, descend(problem, start, stops, tol, watch), stops)


def networks_at(
    problem: NetworkProblem, path: TrainedPath, stops: Collection[int]
) -> dict[int, Network]:
    """The networks of a path, one per stop; see :func:`train`."""
    ends = {stop: min(stop, path.n_iter) for stop in stops}
    networks = {end: problem.network(path.layers[end], end) for end in set(ends.values())}
    return {stop: networks[end] for stop, end in ends.items()}


def descend(
    problem: NetworkProblem,
    start: Floats,
    stops: Collection[int],
    tol: float,
    watch: Callable[[Network], None] | None = None,
) -> TrainedPath:
    """The path of L-BFGS; see :func:`train`."""
    kept: dict[int, Floats] = {}
    last = start, 0

    def after_step(intermediate_result: Any) -> None:
        nonlocal last
        last = intermediate_result.x.reshape(start.shape).copy(), last[1] + 1
        if last[1] in stops:
            kept[last[1]] = last[0]
        if watch is not None:
            watch(problem.network(*last))

    scipy.optimize.minimize(
        problem.value_and_gradient,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=after_step,
        options={"maxiter": max(stops), "maxcor": _MEMORY, "ftol": tol, "gtol": 0.0},
    )
    theta, n_iter = last
    kept[n_iter] = theta
    return TrainedPath(kept, n_iter, max(stops))


def with_halves(stops: Collection[int]) -> set[int]:
    """Stops, and half of the last, a quarter of it, and so on: the usual steps of grids."""
    return {*stops, *(max(stops) >> k for k in range(1, max(stops).bit_length()))}


def _positive(scale: float) -> float:
    """A scale that can be divided by."""
    return scale if scale > 0 else 1.0
