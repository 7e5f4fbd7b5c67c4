r"""CMT: images are mapped into the space of signatures by a two-layer network.

.. math:: \min_{\theta} \frac{1}{N} \sum_i \|a_{y_i} - \theta_2 \tanh(\theta_1 x_i)\|^2
          + \alpha \left(\|\theta_1\|_F^2 + \|\theta_2\|_F^2\right),

and an image belongs to the class whose signature is nearest to where it is mapped. How θ is found
is told in :mod:`zslearn.baselines._cmt`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from zslearn._scoring._classes import ScoreFunction
from zslearn._scoring._embedding import PreparedRows
from zslearn._solvers._class_sums import mean_square_distance
from zslearn._solvers._lbfgs import lbfgs
from zslearn._utils._array import Array, Floats, is_foreign, move_like, to_numpy
from zslearn._utils._blocks import row_blocks
from zslearn._utils._device import block_budget
from zslearn._utils._fit_cache import keeps_fits, kept_fit
from zslearn._version import __version__
from zslearn.base._classifier import ZeroShotClassifier
from zslearn.base._training import Training
from zslearn.baselines import _early_stopping
from zslearn.baselines._early_stopping import HeldOutClasses, on_one_path

# The hidden layer of CMT's network, read twice: for the objective and for its slope.

# Where samples are few the hidden layer of all of them is held, up to so many blocks of memory.
# Else what enters it is, up to this share of the features; or it is computed again.
_HELD_BLOCKS = 2
_HELD_SHARE = 1 / 8


def held_bytes(like: Array) -> int:
    """How large a hidden layer may be to be held whole, on the device of an array."""
    return _HELD_BLOCKS * block_budget(like)


class HiddenLayer:
    """H for one first layer: held whole where it is small, else as much of it as is worth it.

    Parameters
    ----------
    features : callable
        Gives the features of a slice of the samples, in the dtype of products.
    n_samples : int
        Number of samples.
    first : array of shape (n_hidden, n_features)
        Weights, in the dtype of products.
    offset : array of shape (n_hidden,)
        Intercepts, in float64.
    are_few : bool
        Whether a copy of the samples may be held.
    """

    def __init__(
        self,
        features: Callable[[slice], Array],
        n_samples: int,
        first: Array,
        offset: Array,
        *,
        are_few: bool,
    ) -> None:
        self.features, self.first, self.offset = features, first, offset
        n_hidden, n_features = first.shape
        size = 8 * n_samples * n_hidden
        self._holds_output = are_few and size <= held_bytes(first)
        self._holds_input = n_hidden <= _HELD_SHARE * n_features
        self._held: dict[int, Array] = {}

    def computed(self, rows: slice) -> Array:
        """A block of H, of which what is wanted again is held."""
        inner = self._inner(self.features(rows))
        if self._holds_input and not self._holds_output:
            self._held[rows.start] = inner
        block = self._tanh(inner)
        if self._holds_output:
            self._held[rows.start] = block
        return block

    def read(self, rows: slice) -> tuple[Array, Array]:
        """A block of H and its features, once more."""
        features = self.features(rows)
        held = self._held.get(rows.start)
        if held is not None and self._holds_output:
            return held, features
        return self._tanh(self._inner(features) if held is None else held), features

    def _inner(self, features: Array) -> Array:
        return features @ compat.array_namespace(features).matrix_transpose(self.first)

    def _tanh(self, inner: Array) -> Array:
        xp = compat.array_namespace(inner)
        inner = xp.astype(inner, xp.float64, copy=False)
        return xp.tanh(inner + self.offset[None, :])


# The two-layer network of CMT: its objective, and the gradient of it.
#
# Features x and signatures a are measured from their means over the training samples and the seen
# classes, in units of their root mean square norm. In these units the network minimises
#
# .. math:: J(\theta_1, \theta_2) = \frac{1}{N} \sum_i \|a_{y_i} - \theta_2 \tanh(\theta_1
# x_i)\|^2
#           + \alpha \left(\|\theta_1\|_F^2 + \|\theta_2\|_F^2\right).
#
# For a given :math:`\theta_1` the best :math:`\theta_2` is a ridge regression on the h hidden
# units,
#
# .. math:: \theta_2^\top = \left(\tfrac{1}{N} H^\top H + \alpha I\right)^{-1}
#           \tfrac{1}{N} H^\top A_y, \quad H = \tanh(X \theta_1^\top),
#
# so that L-BFGS need only search :math:`\theta_1` (variable projection). The gradient there is
# that
# of J at the best :math:`\theta_2`. Only HᵀH, the sums of H over each class and the signatures
# of the
# classes enter, so that the number of attributes hardly counts.
#
# The two products with X, nearly all of the cost, are computed in the dtype of X; all else, and
# what
# is added up over the samples, in float64.
#
# With intercepts the network is :math:`\theta_2 \tanh(\theta_1 x + b_1) + b_2`; they are not
# penalised. The best :math:`b_2` brings the mean output to the mean target, which comes to
# centring H
# and :math:`A_y` over the samples; :math:`b_1` is searched as one more column of
# :math:`\theta_1`.

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


# How CMT's network is trained: one path of L-BFGS, and the networks at some of its steps.

# Pairs of steps and gradients that L-BFGS remembers.
_MEMORY = 10
# What the steps of paths side by side may take.
_STEPS_BYTES = 1 << 28


class TrainedPath(NamedTuple):
    """Networks along one path of training.

    Parameters
    ----------
    networks : dict of int to Network
        By the number of steps, that of the last step among them.
    n_iter : int
        Steps of the whole path.
    most : int
        Steps that were allowed; a path of fewer came to its end.
    """

    networks: dict[int, Network]
    n_iter: int
    most: int

    def has(self, stops: Collection[int]) -> bool:
        """Whether a path to these stops, which may be a longer one, would give the same ones."""
        is_long = self.n_iter < self.most or max(stops) <= self.most
        return is_long and all(min(stop, self.n_iter) in self.networks for stop in stops)

    def at(self, stops: Collection[int]) -> dict[int, Network]:
        """The networks, one per stop; those that end at the same step share one."""
        return {stop: self.networks[min(stop, self.n_iter)] for stop in stops}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The path as arrays, to be kept."""
        steps = sorted(self.networks)
        parts = {
            "first": [self.networks[step].coefs[0] for step in steps],
            "second": [self.networks[step].coefs[1] for step in steps],
            "inner": [self.networks[step].intercepts[0] for step in steps],
            "outer": [self.networks[step].intercepts[1] for step in steps],
        }
        stacked = {name: np.stack(arrays) for name, arrays in parts.items()}
        return {"steps": np.array(steps), "most": np.array(self.most), **stacked}

    @classmethod
    def of(cls, arrays: dict[str, NDArray[Any]]) -> TrainedPath:
        """A path that was kept."""
        steps = arrays["steps"].tolist()
        parts = zip(
            steps, *(arrays[name] for name in ("first", "second", "inner", "outer")), strict=True
        )
        networks = {
            step: Network((first, second), (inner, outer), step)
            for step, first, second, inner, outer in parts
        }
        return cls(networks, steps[-1], int(arrays["most"]))


class Descents:
    """Paths of L-BFGS from one start that differ in alpha alone, computed side by side.

    Parameters
    ----------
    problem : NetworkProblem
        What is minimised, under any alpha.
    start : ndarray of shape (n_hidden, n_weights)
        First weights.
    tol : float
        A path ends, too, when a step lowers the objective by less than this share of it.
    """

    def __init__(self, problem: NetworkProblem, start: Floats, tol: float) -> None:
        self.problem, self.start, self.tol = problem, start, tol
        self._wanted: dict[float, Collection[int]] = {}
        self._paths: dict[float, TrainedPath] = {}

    def add(self, alpha: float, stops: Collection[int]) -> None:
        """Plan a path to some stops, of which the last is the same for all."""
        self._wanted[alpha] = stops

    def forget(self, alpha: float) -> None:
        """Leave a path out of the plan, where its networks are known."""
        self._wanted.pop(alpha, None)
        self._paths.pop(alpha, None)

    def path(
        self,
        alpha: float,
        stops_for: Callable[[Collection[int]], Collection[int]] = set,
        watch: Callable[[Network], None] | None = None,
    ) -> TrainedPath:
        """One of the paths; those that are planned are computed with it.

        `stops_for` says where networks are kept by where they are wanted. `watch` is called with
        the network after every step.
        """
        if alpha not in self._paths:
            # Each holds its last steps, too.
            most = _STEPS_BYTES // (8 * 2 * _MEMORY * self.start.size)
            n_together = max(1, min(self.problem.most_together(len(self.start)), most))
            others = [other for other in self._wanted if other not in {alpha, *self._paths}]
            alphas = [alpha, *others[: n_together - 1]]
            problems = [self.problem.with_alpha(alpha) for alpha in alphas]
            stops = stops_for({stop for alpha in alphas for stop in self._wanted[alpha]})
            paths = descend_together(problems, self.start, stops, self.tol, watch)
            self._paths.update(zip(alphas, paths, strict=True))
        return self._paths[alpha]


def descend_together(
    problems: Sequence[NetworkProblem],
    start: Floats,
    stops: Collection[int],
    tol: float,
    watch: Callable[[Network], None] | None = None,
) -> list[TrainedPath]:
    """The paths of problems that differ in alpha alone, evaluated side by side."""
    paths = [_Path(problem, start, stops, tol, watch) for problem in problems]
    active = paths
    while active:
        found = evaluate([path.problem for path in active], [path.point for path in active])
        for path, evaluation in zip(active, found, strict=True):
            path.go_on(evaluation)
        active = [path for path in active if not path.ended]
    return [TrainedPath(path.networks, path.n_iter, max(stops)) for path in paths]


class _Path:
    """A descent on its way: the point that it asks for, and the networks at its stops."""

    def __init__(
        self,
        problem: NetworkProblem,
        start: Floats,
        stops: Collection[int],
        tol: float,
        watch: Callable[[Network], None] | None,
    ) -> None:
        self.problem, self.stops, self.watch = problem, stops, watch
        self.networks: dict[int, Network] = {}
        self.n_iter, self.ended = 0, False
        self._last: tuple[Floats, NetworkEvaluation] | None = None
        self._descent = lbfgs(
            start.ravel(), self._after_step, max_iter=max(stops), tol=tol, memory=_MEMORY
        )
        self.point = next(self._descent)

    def go_on(self, found: NetworkEvaluation) -> None:
        """Take what the point evaluates to, and ask for the next."""
        if self._last is None:
            self._last = self.point, found
        try:
            self.point = self._descent.send(found)
        except StopIteration:
            self.ended = True
            self.networks[self.n_iter] = self.problem.network(self.n_iter, *self._last)

    def _after_step(self, flat: Floats, found: NetworkEvaluation) -> None:
        self.n_iter += 1
        self._last = flat, found
        if self.n_iter in self.stops or self.watch is not None:
            network = self.problem.network(self.n_iter, flat, found)
            if self.n_iter in self.stops:
                self.networks[self.n_iter] = network
            if self.watch is not None:
                self.watch(network)


def with_halves(stops: Collection[int]) -> set[int]:
    """Stops, and half of the last, a quarter of it, and so on: the usual steps of grids."""
    return {*stops, *(max(stops) >> k for k in range(1, max(stops).bit_length()))}


_PARAMETERS = f"""
hidden_size : int, default=100
    Hidden units.
alpha : float, default=1e-4
    Weight decay, in units of features and signatures of unit root mean square norm.
fit_intercept : bool, default=False
    Whether each layer has an intercept of its own. Without, it has what centring of features and
    of signatures comes to.
max_iter : int, default=40
    Steps of L-BFGS at most. Stopping early regularises; a search trains once for all values.
{_early_stopping.PARAMETERS.strip()}
tol : float, default=1e-6
    Training ends when a step lowers the objective by less than this share of it.
random_state : int, RandomState instance or None, default=0
    Decides the first weights, and what is held out.
"""

_ATTRIBUTES = f"""
coefs_ : tuple of ndarray
    θ₁ᵀ of shape (n_features, hidden_size), θ₂ᵀ of shape (hidden_size, n_attributes).
intercepts_ : tuple of ndarray
    Of each layer: what centring comes to, and with `fit_intercept` what was learned besides.
n_iter_ : int
    Steps of L-BFGS.
{_early_stopping.ATTRIBUTES.strip()}
"""


class CMT(ZeroShotClassifier):
    """Cross-modal transfer: a two-layer network from features to signatures, nearest signature.

    Parameters
    ----------
    <parameters of CMT>
    <parameters of every method>

    Attributes
    ----------
    <attributes of CMT>
    <attributes of every method>

    See Also
    --------
    CMTStar : With the gate that tells novel images from seen ones.

    Notes
    -----
    The paper states the sum of squared errors alone. The authors' program
    (github.com/mganjoo/zslearning) adds weight decay of 1e-4, of features and word vectors in its
    own units, intercepts in both layers (here `fit_intercept=True`; there decayed, too, here not),
    and a penalty that keeps the mean activation of the hidden units at a given level, which is left
    out here. θ₂ is solved for exactly in each step of L-BFGS; the program searches both layers.

    References
    ----------
    R. Socher, M. Ganjoo, C. D. Manning and A. Y. Ng, "Zero-shot learning through cross-modal
    transfer", NIPS 2013.

    Examples
    --------
    >>> from zslearn.baselines import CMT
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = CMT().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    score_function: ScoreFunction = "euclidean"

    _doc_parts: ClassVar[Mapping[str, str]] = {
        **ZeroShotClassifier._doc_parts,
        "parameters of CMT": _PARAMETERS,
        "attributes of CMT": _ATTRIBUTES,
    }

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "hidden_size": [50, 100, 200, 400],
            "alpha": [10.0**k for k in range(-6, 0)],
            "max_iter": [5, 10, 20, 40, 80, 160],
        },
        "fast": {
            "alpha": [10.0**k for k in range(-5, -2)],
            "max_iter": [3, 6, 12, 24, 48, 96],
        },
    }
    #: Hyper-parameters of what is learned besides the network.
    _beside_network: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        hidden_size: int = 100,
        alpha: float = 1e-4,
        *,
        fit_intercept: bool = False,
        max_iter: int = 40,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.hidden_size = hidden_size
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.tol = tol
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """One path of training serves all variants that only leave it at different steps.

        Paths that differ in alpha alone are trained side by side.
        """
        plans: dict[Any, list[tuple[list[Self], list[int]]]] = {}
        for group in on_one_path(variants, *cls._beside_network):
            stops = []
            for variant in group:
                rng = check_random_state(variant.random_state)
                # The same for all of a group.
                seed = rng.randint(2**31 - 1)
                stops.append(variant._stop(training, seed, rng))
            first = group[0]
            kind = seed, first.hidden_size, first.fit_intercept, first.tol, max(stops)
            plans.setdefault(kind, []).append((group, stops))
        for (seed, *_), plan in plans.items():
            problem = plan[0][0][0]._problem(training)
            descents = plan[0][0][0]._descents(problem, seed)
            for group, stops in plan:
                descents.add(group[0].alpha, stops)
            for group, stops in plan:
                networks = group[0]._networks(training, descents, stops)
                beside: dict[int, Any] = {}
                for variant, stop in zip(group, stops, strict=True):
                    if stop not in beside:
                        beside[stop] = variant._beside(networks[stop], training)
                    variant._take(networks[stop], training, beside[stop])
                    yield variant

    def _problem(self, training: Training) -> NetworkProblem:
        """What is minimised."""
        return NetworkProblem(
            training.X_or_rows,
            training.y,
            training.signatures,
            self.alpha,
            fit_intercept=self.fit_intercept,
        )

    def _descents(self, problem: NetworkProblem, seed: int) -> Descents:
        start = problem.start(self.hidden_size, np.random.RandomState(seed))
        return Descents(problem, start, self.tol)

    def _networks(
        self, training: Training, descents: Descents, stops: Collection[int]
    ) -> dict[int, Network]:
        """Networks after some numbers of steps, along one path of training."""
        rows = training.X_or_rows
        if not keeps_fits(rows):
            return descents.path(self.alpha).at(stops)
        # CMT* has the same network beside what else it learns, and the other setting may choose
        # another of its steps.
        parts = "CMT's networks", __version__, rows, training.y, training.signatures
        path = kept_fit(
            (*parts, descents.start, self.alpha, self.fit_intercept, self.tol),
            lambda: descents.path(self.alpha, with_halves).arrays(),
            lambda arrays: TrainedPath.of(arrays).has(stops),
        )
        descents.forget(self.alpha)
        return TrainedPath.of(path).at(stops)

    def _stop(self, training: Training, seed: int, rng: np.random.RandomState) -> int:
        """The number of steps; with `early_stopping`, where classes held out fare best."""
        self.validation_scores_: list[float] = []
        if not self.early_stopping:
            return self.max_iter
        classes = HeldOutClasses.of(training, self.validation_fraction, rng)
        if classes is None:
            return self.max_iter
        held = classes.held

        def watch(network: Network) -> None:
            classes.judge(held.X, held.signatures, "euclidean", network.embed)

        descents = self._descents(self._problem(classes.kept), seed)
        descents.add(self.alpha, [self.max_iter])
        descents.path(self.alpha, watch=watch)
        self.validation_scores_ = classes.accuracies
        # Without any step there was nothing to choose from.
        return classes.best or self.max_iter

    def _beside(self, network: Network, training: Training) -> Any:
        """What variants of one network share of what else they learn from the samples."""
        return None

    def _take(self, network: Network, training: Training, beside: Any) -> None:
        """Take over a network; what else is learned from the samples is learned here."""
        self.coefs_ = network.coefs
        self.intercepts_ = network.intercepts
        self.n_iter_ = network.n_iter

    def embed(self, X: Array) -> Array:
        """Map features into the space of signatures.

        <parameters of embed>

        Returns
        -------
        array of shape (n_samples, n_attributes)
            θ₂ tanh(θ₁ x), with the intercepts.
        """
        return Network(self.coefs_, self.intercepts_, self.n_iter_).embed(X)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Signatures are the parameters as they are.

        <parameters of synthesize>

        Returns
        -------
        ndarray of shape (n_classes, n_attributes)
            The same.
        """
        return signatures
