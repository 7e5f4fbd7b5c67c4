"""Proximal gradient steps on the coefficients of phantoms, and the losses they descend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from zslearn.solvers import SVMLoss
from zslearn.synthesis._phantoms import Views
from zslearn.utils import Floats

_Extra = TypeVar("_Extra")

# A first step moves β by this share of its norm, and none by more than the second.
_FIRST_MOVE = 0.05
_LARGEST_MOVE = 0.5
# Share of the fall that the quadratic model of a step promises which must come true.
_SUFFICIENT = 0.1
# Halvings of a step before the method gives up.
_HALVINGS = 25
# Share of a small fall below which the promise of a step is not worth a try.
_NEGLIGIBLE = 0.1
# Steps in a row that hardly lower the objective, after which it has converged.
_SMALL_STEPS = 3


@dataclass(frozen=True)
class Point(Generic[_Extra]):
    """Coefficients and what is known there.

    Parameters
    ----------
    betas : tuple of ndarray
        β of each view.
    value : float
        The whole objective.
    gradients : tuple of ndarray
        Of the part without the ℓ1 norm.
    extra : object
        What belongs to this point besides: the base classifiers, say.
    """

    betas: Views
    value: float
    gradients: Views
    extra: _Extra


@dataclass(frozen=True)
class Descent(Generic[_Extra]):
    """Where a descent ended.

    Parameters
    ----------
    point : Point
        The best coefficients.
    values : tuple of float
        The objective after each step, falling.
    refused : bool
        Whether the last step was cut short by points that `evaluate` refused.
    converged : bool
        Whether it ended by itself, and not at its largest number of steps.
    """

    point: Point[_Extra]
    values: tuple[float, ...]
    refused: bool
    converged: bool = True


def descend(
    start: Point[_Extra],
    evaluate: Callable[[Views, _Extra], Point[_Extra] | None],
    *,
    eta: float,
    steps: int,
    fall: float,
    highest: float | None = None,
) -> Descent[_Extra]:
    r"""Lower an objective by proximal gradient steps; it never rises.

    A step of length t goes to :math:`\beta' = \mathrm{soft}(\beta - t \nabla, t \eta)` and is
    taken if the objective falls by at least a part of :math:`\|\beta' - \beta\|^2 / 2t`; else t
    is halved. The next length follows the curvature along the step (Barzilai and Borwein).

    Parameters
    ----------
    start : Point
        Where to start.
    evaluate : callable
        Coefficients, and the extra of the point before → their point; None where they are no
        solution, whatever their objective.
    eta : float
        Weight of the ℓ1 norm.
    steps : int
        Largest number of steps.
    fall : float
        A step that lowers the objective by less than this share of its whole fall so far is small;
        the descent ends after several small ones in a row.
    highest : float, optional
        The objective that the whole fall is measured from; by default that of `start`.

    Returns
    -------
    Descent
        The last point.
    """
    highest = start.value if highest is None else highest
    point, values, n_small = start, list[float](), 0
    slope = _norm(steepest(point, eta))
    length = _FIRST_MOVE * _norm(point.betas) / slope if slope > 0 else 0.0
    refused, converged = False, False
    for _ in range(steps):
        slope = _norm(steepest(point, eta))
        if slope == 0:
            converged = True
            break
        # A step is never longer than length · slope.
        length = min(length, _LARGEST_MOVE * _norm(point.betas) / slope)
        # Shorter steps than one that promises much less than a small fall are not worth a try.
        least = _NEGLIGIBLE * fall * (highest - point.value)
        trial, length, refused = _search(point, evaluate, eta, length, least)
        if trial is None:
            converged = True
            break
        is_small = point.value - trial.value <= fall * (highest - trial.value)
        n_small = n_small + 1 if is_small else 0
        length = _next_length(point, trial, length)
        point = trial
        values.append(point.value)
        if n_small == _SMALL_STEPS:
            converged = True
            break
    return Descent(point, tuple(values), refused, converged)


def _search(
    point: Point[_Extra],
    evaluate: Callable[[Views, _Extra], Point[_Extra] | None],
    eta: float,
    length: float,
    least: float,
) -> tuple[Point[_Extra] | None, float, bool]:
    """The next point, the length of the step to it, and whether longer steps were refused."""
    refused = False
    for _ in range(_HALVINGS):
        betas = tuple(
            soft_threshold(beta - length * gradient, length * eta)
            for beta, gradient in zip(point.betas, point.gradients, strict=True)
        )
        moved = _norm(_difference(betas, point.betas))
        if moved <= 1e-12 * _norm(point.betas) or moved**2 / (2 * length) < least:
            break
        trial = evaluate(betas, point.extra)
        refused = refused or trial is None
        if trial is not None and trial.value < point.value - _SUFFICIENT * moved**2 / (2 * length):
            return trial, length, refused
        length /= 2
    return None, length, refused


def _next_length(point: Point[Any], trial: Point[Any], length: float) -> float:
    """The inverse of the curvature along a step, within bounds of its length."""
    step = _difference(trial.betas, point.betas)
    change = _difference(trial.gradients, point.gradients)
    curvature = sum(float(np.sum(s * c)) for s, c in zip(step, change, strict=True))
    squared = _norm(step) ** 2
    if curvature * 10 * length <= squared:
        return 10 * length
    return max(squared / curvature, length / 10)


def steepest(point: Point[Any], eta: float) -> Views:
    """The smallest subgradient of the whole objective; zero where β is stationary."""
    parts = []
    for beta, gradient in zip(point.betas, point.gradients, strict=True):
        part = gradient + eta * np.sign(beta)
        parts.append(np.where(beta == 0, soft_threshold(gradient, eta), part))
    return tuple(parts)


def soft_threshold(x: Floats, threshold: float) -> Floats:
    """The proximal map of the ℓ1 norm."""
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0)


def _difference(first: Views, second: Views) -> Views:
    return tuple(a - b for a, b in zip(first, second, strict=True))


def _norm(arrays: Views) -> float:
    return float(np.sqrt(sum(float(np.sum(array**2)) for array in arrays)))


@dataclass(frozen=True)
class ScoreLoss:
    """The loss of a table of scores, with weights of the samples and a smoothed slope.

    Parameters
    ----------
    y : ndarray of int of shape (n_samples,)
        Class of each sample.
    loss : {"squared_hinge", "crammer_singer"}
        The loss; see :func:`zslearn.solvers.multiclass_svm`.
    margins : ndarray of shape (n_classes, n_classes) or None
        Margins of Crammer–Singer; 1 by default.
    weights : ndarray of shape (n_samples,) or None
        How much each sample counts.
    """

    y: NDArray[np.intp]
    loss: SVMLoss
    margins: Floats | None
    weights: Floats | None = None

    def shares(self) -> Floats:
        """The share of each sample in the mean."""
        if self.weights is None:
            return np.full(len(self.y), 1 / len(self.y))
        return self.weights / self.weights.sum()

    def __call__(
        self, scores: Floats, *, smoothing: float = 0.0, dual: Floats | None = None
    ) -> tuple[float, Floats]:
        """The loss, and its slope with respect to the scores.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, n_classes)
            Scores of all samples.
        smoothing : float
            For Crammer–Singer: the slope is that of the smoothed loss μ log Σ exp(· / μ), so that
            near a kink it points to neither side alone. The value is that of the loss itself.
        dual : ndarray of shape (n_samples, n_classes), optional
            For Crammer–Singer: dual points, whose slope is taken. At an optimum of the classifiers
            this is the one subgradient that is stationary there.

        Returns
        -------
        value : float
            The mean loss.
        slope : ndarray of shape (n_samples, n_classes)
            Its derivative.
        """
        every, shares = np.arange(len(self.y)), self.shares()[:, None]
        if self.loss == "squared_hinge":
            # −s·max(0, 1 − s·score): negative where the true class should score higher.
            slope = np.maximum(1 + scores, 0)
            slope[every, self.y] = -np.maximum(1 - scores[every, self.y], 0)
            weight = shares / scores.shape[1]
            return float(np.sum(weight * slope**2)), 2 * weight * slope
        n_classes = scores.shape[1]
        margins = 1.0 - np.eye(n_classes) if self.margins is None else self.margins
        violations = scores + margins[self.y] - scores[every, self.y][:, None]
        worst = violations.argmax(axis=1)
        value = float(np.sum(shares[:, 0] * violations[every, worst]))
        if dual is not None:
            slope = np.array(dual, dtype=np.float64)
        elif smoothing > 0:
            slope = np.exp((violations - violations[every, worst][:, None]) / smoothing)
            slope /= slope.sum(axis=1, keepdims=True)
        else:
            slope = np.zeros_like(scores)
            slope[every, worst] = 1.0
        slope[every, self.y] -= 1.0
        return value, shares * slope
