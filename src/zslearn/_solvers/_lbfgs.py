r"""L-BFGS that asks for evaluations: whoever drives it can evaluate several descents at once.

With the last steps :math:`s_i` and changes :math:`y_i` of the gradient as rows of S and Y, the
direction of the next step is (Byrd, Nocedal and Schnabel, 1994)

.. math:: -\gamma g - S^\top R^{-\top} \big((D + \gamma Y Y^\top) u - \gamma Y g\big)
          + \gamma Y^\top u, \qquad u = R^{-1} S g,

with R the upper triangle of :math:`S Y^\top`, D its diagonal and
:math:`\gamma = s^\top y / y^\top y` of the last step: two passes over S and Y. The length of a step
meets the strong Wolfe conditions; lengths are tried in the order of Moré and Thuente (1994).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.linalg

from zslearn._utils._array import Floats

# The share of the slope that a step must fall by, and what the slope must fall to.
_FALL, _FLATTER = 1e-3, 0.9
# Lengths of one step that are tried.
_TRIALS = 20
# Where a minimum is not enclosed yet, the next length is between so many times the last change.
_SHORTEST, _LONGEST = 1.1, 4.0


class Evaluation(Protocol):
    """What is asked of a point: the objective and its gradient."""

    @property
    def value(self) -> float:
        """The objective."""

    @property
    def gradient(self) -> Floats:
        """Its gradient, of shape (n,)."""


_E = TypeVar("_E", bound=Evaluation)


def lbfgs(
    start: Floats,
    after_step: Callable[[Floats, _E], None],
    *,
    max_iter: int,
    tol: float,
    memory: int = 10,
) -> Generator[Floats, _E, None]:
    """Descend from a point; a generator that yields points and is sent what they evaluate to."""
    x, n_iter = start, 0
    found = yield x
    steps = _Steps(memory, len(start))
    while n_iter < max_iter and found.gradient.any():
        direction = steps.direction(found.gradient)
        slope = float(direction @ found.gradient)
        ended = None
        if slope < 0:
            # Nothing is known of the first step but its direction: it has unit length.
            length = 1.0 if n_iter else 1 / float(np.linalg.norm(direction))
            ended = yield from _search(x, direction, found, slope, length)
        if ended is None:
            if not steps.slots:
                return
            steps.slots.clear()
            continue
        x, there, length = ended
        fall, size = found.value - there.value, max(abs(found.value), abs(there.value), 1.0)
        steps.add(length * direction, there.gradient - found.gradient, -length * slope)
        found, n_iter = there, n_iter + 1
        after_step(x, found)
        if fall <= tol * size:
            return


class _Steps:
    """The last steps and changes of the gradient, and their inner products."""

    def __init__(self, memory: int, n: int) -> None:
        self.memory = memory
        self.rows = np.zeros((2 * memory, n))
        # s_i · y_j and y_i · y_j.
        self.products = np.zeros((2 * memory, memory))
        self.slots: list[int] = []
        self._gradient_products: Floats | None = None
        self._scale = 1.0
        self._new: int | None = None

    def add(self, step: Floats, change: Floats, expected: float) -> None:
        """Remember a step, unless the gradient hardly changed along it."""
        along = float(step @ change)
        self._new = None
        if along <= np.finfo(np.float64).eps * expected:
            self._gradient_products = None
            return
        if len(self.slots) < self.memory:
            slot = next(i for i in range(self.memory) if i not in self.slots)
        else:
            slot = self.slots.pop(0)
        self.slots.append(slot)
        self.rows[slot], self.rows[self.memory + slot] = step, change
        self._scale = along / float(change @ change)
        self._new = slot

    def direction(self, gradient: Floats) -> Floats:
        """Where the next step goes."""
        if not self.slots:
            self._gradient_products, self._new = None, None
            return -gradient
        m = self.memory
        with_gradient = self.rows @ gradient
        if self._new is not None:
            self._take_products(self._new, with_gradient)
        self._gradient_products, self._new = with_gradient, None
        at, scale = np.array(self.slots), self._scale
        upper = np.triu(self.products[np.ix_(at, at)])
        among = self.products[np.ix_(m + at, at)]
        u = scipy.linalg.solve_triangular(upper, with_gradient[at])
        right = np.diag(upper) * u + scale * (among @ u - with_gradient[m + at])
        weights = np.zeros(2 * m)
        weights[at] = -scipy.linalg.solve_triangular(upper, right, trans="T")
        weights[m + at] = scale * u
        direction: Floats = weights @ self.rows
        direction -= scale * gradient
        return direction

    def _take_products(self, slot: int, with_gradient: Floats) -> None:
        """The products of the last change of the gradient with all rows, in its column."""
        m, change = self.memory, self.rows[self.memory + slot]
        if self._gradient_products is None:
            column = self.rows @ change
        else:
            # Those with the gradient now and before are known, but for the rows that are new.
            column = with_gradient - self._gradient_products
            for row in (slot, m + slot):
                column[row] = self.rows[row] @ change
        self.products[:, slot] = column
        self.products[m + slot, :] = column[m:]


class _Trial(NamedTuple):
    """A length of the step, with the objective and its slope there."""

    length: float
    value: float
    slope: float


def _search(
    x: Floats, direction: Floats, found: _E, slope: float, length: float
) -> Generator[Floats, _E, tuple[Floats, _E, float] | None]:
    """Find a step by the strong Wolfe conditions: where it leads, and its length."""
    best = other = _Trial(0.0, found.value, slope)
    enclosed, bounds = False, (0.0, (1 + _LONGEST) * length)
    widths = [np.inf, np.inf]
    for _ in range(_TRIALS):
        point = x + length * direction
        there = yield point
        here = _Trial(length, there.value, float(there.gradient @ direction))
        is_lower = here.value <= found.value + _FALL * length * slope
        if is_lower and abs(here.slope) <= -_FLATTER * slope:
            return point, there, length
        length = _next_length(best, other, here, enclosed, bounds)
        if here.value > best.value:
            other, enclosed = here, True
        else:
            if here.slope * best.slope < 0:
                other, enclosed = best, True
            best = here
        if enclosed:
            width = abs(other.length - best.length)
            if width >= 0.66 * widths[0]:
                length = (best.length + other.length) / 2
            widths = [widths[1], width]
            ends = sorted((best.length, other.length))
            bounds = ends[0], ends[1]
            if not bounds[0] < length < bounds[1] or width <= 0.1 * bounds[1]:
                return None
        else:
            last = length - best.length
            bounds = length + _SHORTEST * last, length + _LONGEST * last
    return None


def _next_length(
    best: _Trial, other: _Trial, here: _Trial, enclosed: bool, bounds: tuple[float, float]
) -> float:
    """The length to try next, by a cubic and a parabola through what is known."""
    if here.value > best.value:
        cubic, parabola = _cubic(best, here), _parabola(best, here)
        if abs(cubic - best.length) <= abs(parabola - best.length):
            return cubic
        return (cubic + parabola) / 2
    if here.slope * best.slope < 0:
        cubic, secant = _cubic(best, here), _secant(best, here)
        return max(cubic, secant, key=lambda length: abs(length - here.length))
    if abs(here.slope) < abs(best.slope):
        beyond = bounds[1] if here.length > best.length else bounds[0]
        cubic, secant = _cubic(best, here), _secant(best, here)
        # A cubic that falls without end, or whose minimum lies behind, says only where to.
        if not (cubic - here.length) * (here.length - best.length) > 0:
            cubic = beyond
        choose = min if enclosed else max
        length = choose(cubic, secant, key=lambda length: abs(length - here.length))
        if not enclosed:
            return float(np.clip(length, *bounds))
        limit = here.length + 0.66 * (other.length - here.length)
        return min(limit, length) if here.length > best.length else max(limit, length)
    if enclosed:
        return _cubic(here, other)
    return bounds[1] if here.length > best.length else bounds[0]


def _cubic(a: _Trial, b: _Trial) -> float:
    """The minimum of the cubic with the values and slopes of two trials; NaN without one."""
    apart = b.length - a.length
    middle = np.float64(a.slope + b.slope - 3 * (b.value - a.value) / apart)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        root = np.sign(apart) * np.sqrt(middle**2 - a.slope * b.slope)
        share = np.float64(b.slope + root - middle) / (b.slope - a.slope + 2 * root)
    return float(b.length - apart * share)


def _parabola(a: _Trial, b: _Trial) -> float:
    """The minimum of the parabola with the value and slope of one trial and the other's value."""
    apart = b.length - a.length
    return a.length + apart * a.slope / (a.slope - (b.value - a.value) / apart) / 2


def _secant(a: _Trial, b: _Trial) -> float:
    """Where the slope would be zero, were it linear between two trials."""
    return b.length - b.slope * (b.length - a.length) / (b.slope - a.slope)
