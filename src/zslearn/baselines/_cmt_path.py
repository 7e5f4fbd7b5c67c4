"""How CMT's network is trained: one path of L-BFGS, and the networks at some of its steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zslearn.baselines._cmt_network import (
    Network,
    NetworkEvaluation,
    NetworkProblem,
    evaluate,
)
from zslearn.solvers import lbfgs
from zslearn.utils import Floats

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
    """The paths of problems that differ in alpha alone, evaluated side by side.

    Parameters
    ----------
    problems : sequence of NetworkProblem
        What is minimised.
    start : ndarray of shape (n_hidden, n_weights)
        First weights.
    stops : collection of int
        Steps at which networks are wanted; the largest ends a path.
    tol : float
        A path ends, too, when a step lowers the objective by less than this share of it; later
        stops then get the last network.
    watch : callable, optional
        Called with the network after every step.

    Returns
    -------
    list of TrainedPath
        One per problem.
    """
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
