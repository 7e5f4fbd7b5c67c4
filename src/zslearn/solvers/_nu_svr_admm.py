r"""Steps of the alternating direction method of multipliers for many ν-SVRs at once.

The dual in β, with the constraint on the sum on one side and those on the size on the other,

.. math:: x \leftarrow \arg\min_{\mathbf{1}^\top x = 0} \tfrac12 x^\top K x - y^\top x
          + \tfrac\rho2 \|x - z + u\|^2, \quad
          z \leftarrow \Pi_S(x + u), \quad u \leftarrow u + x - z,
          \quad S = \{|z_i| \le C, \; \textstyle\sum_i |z_i| \le C \nu n\}.

Every problem is a row and has its own ρ: in the eigenvectors of K, of which one decomposition
serves all, x is a division and the multiplier of its sum one number. The projection shrinks towards
zero by one threshold, which Newton's method follows from step to step.

A solution must meet all constraints at once, with exact zeros and bounds. So the point that is
looked at now and then is the projection on all of them: with the budget used up the positive and
the negative part are shrunk, each by its own threshold; if the thresholds cross, the budget is not
used up, and there is one. The optimality conditions are measured there.

Only the array API standard is used, in float64; torch clips in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import array_api_compat as compat
import numpy as np

from zslearn.utils import Array

_RELAXATION = 1.6
_FIRST_RHO = 0.3
# Newton steps for a threshold: from the one before, and at most where it must be exact.
_QUICK, _EXACT = 2, 40
# Steps between looks whether an exact threshold is found: each look waits for the device.
_LOOK = 5
# Nearer than this to a bound, in units of C, is at the bound.
_SNAP = 1e-11


class Kernel:
    """A kernel with what all steps need of it.

    Parameters
    ----------
    K : array of shape (n_points, n_points)
        In float64.
    """

    def __init__(self, K: Array) -> None:
        self.K = K
        xp = compat.array_namespace(K)
        self.values, self.vectors = xp.linalg.eigh(K)
        self.transposed = xp.matrix_transpose(self.vectors)
        #: The vector of ones in the eigenvectors.
        self.ones = xp.sum(self.vectors, axis=0)

    def interpolant(self, Y: Array) -> Array | None:
        """Coefficients that reproduce targets up to a constant; None for a singular kernel.

        Parameters
        ----------
        Y : array of shape (n_targets, n_points)
            Targets.

        Returns
        -------
        array of shape (n_targets, n_points) or None
            Their sums are zero.
        """
        xp = compat.array_namespace(Y)
        if not float(self.values[0]) > 1e-13 * float(self.values[-1]):
            return None
        by_one = (self.ones / self.values)[None, :] @ self.transposed
        beta = (Y @ self.vectors / self.values[None, :]) @ self.transposed
        beta = beta - by_one * (xp.sum(beta, axis=1, keepdims=True) / xp.sum(by_one))
        return beta - xp.mean(beta, axis=1, keepdims=True)


@dataclass(frozen=True)
class Problems:
    """Problems that are being solved, one row each; those of one kernel are neighbours.

    Parameters
    ----------
    row : array of shape (n_rows,)
        Where the solution is to be written.
    age : array of shape (n_rows,)
        Steps taken.
    Y : array of shape (n_rows, n_points)
        Targets.
    C, budget : array of shape (n_rows, 1)
        Bound of a coefficient, and of the sum of their sizes.
    rho : array of shape (n_rows, 1)
        Weights ρ.
    z, u : array of shape (n_rows, n_points)
        Coefficients and scaled multipliers.
    inverse : array of shape (n_rows, n_points)
        1 / (λ + ρ) for the eigenvalues λ.
    mass : array of shape (n_rows, 1)
        1ᵀ(K + ρ)⁻¹1.
    shrink : array of shape (n_rows, 1)
        Threshold of the latest projection.
    kernels : tuple of (Kernel, int)
        The kernels in the order of the rows, and how many rows each has.
    """

    row: Array
    age: Array
    Y: Array
    C: Array
    budget: Array
    rho: Array
    z: Array
    u: Array
    inverse: Array
    mass: Array
    shrink: Array
    kernels: tuple[tuple[Kernel, int], ...]

    @classmethod
    def new(
        cls, kernel: Kernel, row: Array, Y: Array, C: Array, budget: Array, length: Array
    ) -> Problems:
        """Problems of one kernel, not yet begun.

        The first ρ is the size of a target over that of its coefficients, of which `length` is an
        estimate.
        """
        xp = compat.array_namespace(Y)
        zero, z = xp.zeros_like(C), xp.zeros_like(Y)
        largest = zero + xp.maximum(kernel.values[-1], xp.full_like(kernel.values[-1], 1e-300))
        rho = _FIRST_RHO * _norms(Y - xp.mean(Y, axis=1, keepdims=True)) / length
        rho = xp.minimum(xp.maximum(rho, 1e-8 * largest), 10 * largest)
        state = cls(
            row, xp.zeros_like(row), Y, C, budget, rho, z, z, z, zero, zero,
            ((kernel, Y.shape[0]),),
        )  # fmt: skip
        return state.weighted(rho)

    def weighted(self, rho: Array) -> Problems:
        """The same problems with other weights."""
        inverse = self.by_kernel(lambda kernel, rows: 1 / (kernel.values[None, :] + rho[rows, :]))
        mass = self.by_kernel(
            lambda kernel, rows: inverse[rows, :] @ (kernel.ones * kernel.ones)[:, None]
        )
        return replace(self, rho=rho, u=self.u * (self.rho / rho), inverse=inverse, mass=mass)

    def by_kernel(self, function: Callable[[Kernel, slice], Array]) -> Array:
        """What a function makes of the rows of each kernel, one below another."""
        parts, first = [], 0
        for kernel, number in self.kernels:
            parts.append(function(kernel, slice(first, first + number)))
            first += number
        return parts[0] if len(parts) == 1 else compat.array_namespace(self.Y).concat(parts, axis=0)

    def take(self, positions: Array, numbers: Sequence[int]) -> Problems:
        """The rows at ascending positions; `numbers` says how many of them each kernel has."""
        xp = compat.array_namespace(positions)
        kernels = tuple(
            (kernel, number)
            for (kernel, _), number in zip(self.kernels, numbers, strict=True)
            if number
        )
        parts = {
            field.name: xp.take(getattr(self, field.name), positions, axis=0)
            for field in fields(self)
            if field.name != "kernels"
        }
        return Problems(**parts, kernels=kernels)

    def followed_by(self, others: Problems) -> Problems:
        """These problems, then others."""
        xp = compat.array_namespace(self.Y)
        parts = {
            field.name: xp.concat([getattr(self, field.name), getattr(others, field.name)], axis=0)
            for field in fields(self)
            if field.name != "kernels"
        }
        kernels = list(self.kernels)
        for kernel, number in others.kernels:
            if kernels and kernels[-1][0] is kernel:
                number += kernels.pop()[1]
            kernels.append((kernel, number))
        return Problems(**parts, kernels=tuple(kernels))


def step(state: Problems, *, balance: bool = False) -> Problems:
    """One step of all problems; ρ is adapted where it is time and `balance` allows it."""
    x = state.z - state.u
    x *= state.rho
    x += state.Y
    x = state.by_kernel(lambda kernel, rows: _solved(kernel, state, x[rows, :], rows))
    v = _RELAXATION * x
    v += (1 - _RELAXATION) * state.z
    v += state.u
    shrink = _shrinkage(v, state)
    outer = state.C + shrink
    z = _clip(v, -outer, outer)
    z -= _clip(v, -shrink, shrink)
    v -= z
    after = replace(state, z=z, u=v, shrink=shrink, age=state.age + 1)
    return _balanced(after, x, state.z) if balance else after


def _solved(kernel: Kernel, state: Problems, right: Array, rows: slice) -> Array:
    """(K + ρ)⁻¹ of the right side less the multiple of 1 that makes the sum zero."""
    right = right @ kernel.vectors
    inverse = state.inverse[rows, :]
    excess = ((right * inverse) @ kernel.ones[:, None]) / state.mass[rows, :]
    right -= excess * kernel.ones[None, :]
    right *= inverse
    return right @ kernel.transposed


def _shrinkage(v: Array, state: Problems) -> Array:
    """The t ≥ 0 for which clip(|v| − t, 0, C) is within the budget, from the one before."""
    xp = compat.array_namespace(v)
    size, t = xp.abs(v), state.shrink
    zero = xp.zeros_like(t)
    for _ in range(_QUICK):
        left = size - t
        clipped = _clip(left, zero, state.C)
        excess = xp.sum(clipped, axis=1, keepdims=True) - state.budget
        inside = xp.sum(xp.astype(clipped == left, xp.int8), axis=1, keepdims=True)
        t = xp.maximum(
            t + excess / xp.astype(xp.maximum(inside, xp.ones_like(inside)), v.dtype), zero
        )
    return t


def _balanced(state: Problems, x: Array, before: Array) -> Problems:
    """Adapt ρ to primal against dual residual, each in units of what it is the residual of."""
    xp = compat.array_namespace(x)
    primal = _norms(x - state.z) / (xp.maximum(_norms(x), _norms(state.z)) + 1e-12)
    fitted = state.by_kernel(lambda kernel, rows: x[rows, :] @ kernel.K)
    dual = state.rho * _norms(state.z - before)
    dual = dual / (xp.maximum(_norms(state.Y), _norms(fitted)) + 1e-12)
    ratio = xp.sqrt(primal / (dual + 1e-30))
    ratio = xp.minimum(xp.maximum(ratio, xp.full_like(ratio, 0.1)), xp.full_like(ratio, 10.0))
    # Less and less often: a weight that keeps changing keeps the method from converging.
    age = state.age[:, None]
    often, seldom = xp.remainder(age, 40) == 0, xp.remainder(age, 160) == 0
    due = (age <= 40) | ((age <= 160) & often) | seldom
    return state.weighted(xp.where(due, state.rho * ratio, state.rho))


@dataclass(frozen=True)
class Certificate:
    """Feasible points, and how far each is from the optimum.

    Parameters
    ----------
    z : array of shape (n_rows, n_points)
        Coefficients within all constraints.
    intercept, epsilon, violation : array of shape (n_rows,)
        What belongs to them.
    feasible : array of bool of shape (n_rows,)
        Whether the constraints hold but for rounding.
    """

    z: Array
    intercept: Array
    epsilon: Array
    violation: Array
    feasible: Array


def certify(state: Problems, z: Array | None = None) -> Certificate:
    """Measure the optimality conditions, at the nearest feasible points unless others are given.

    Parameters
    ----------
    state : Problems
        The problems.
    z : array of shape (n_rows, n_points), optional
        Feasible points.

    Returns
    -------
    Certificate
        One entry per problem.
    """
    xp = compat.array_namespace(state.Y)
    C, half = state.C, state.budget / 2
    if z is None:
        z = _feasible(state)
    r = state.Y - state.by_kernel(lambda kernel, rows: z[rows, :] @ kernel.K)
    size = xp.abs(z)
    left = half - xp.sum(size, axis=1, keepdims=True) / 2
    tight = left <= 1e-11 * half
    up, down = z < C, z > -C
    negative, positive = z < 0, z > 0
    lowest, highest = xp.full_like(C, -np.inf), xp.full_like(C, np.inf)

    def largest(mask: Array) -> Array:
        return xp.max(xp.where(mask, r, lowest), axis=1, keepdims=True)

    def smallest(mask: Array) -> Array:
        return xp.min(xp.where(mask, r, highest), axis=1, keepdims=True)

    def mean(mask: Array, otherwise: Array) -> Array:
        weight = xp.astype(mask, r.dtype)
        count = xp.sum(weight, axis=1, keepdims=True)
        value = xp.sum(weight * r, axis=1, keepdims=True)
        return xp.where(
            count > 0, value / xp.where(count > 0, count, xp.ones_like(count)), otherwise
        )

    high, low = largest(up), smallest(down)
    high_negative, low_positive = largest(negative), smallest(positive)
    by_side = xp.maximum(high - low_positive, high_negative - low)
    violation = xp.where(tight, by_side, high - low)
    violation = xp.where(violation > 0, violation, xp.zeros_like(violation))
    inside = up & down
    upper = mean(inside & positive, _between(largest(~positive), smallest(~up)))
    lower = mean(inside & negative, _between(largest(~down), smallest(~negative)))
    centre = mean(inside, _between(high_negative, low_positive))
    intercept = xp.where(tight, (upper + lower) / 2, centre)
    epsilon = xp.where(tight & (upper > lower), (upper - lower) / 2, xp.zeros_like(upper))
    feasible = (
        (xp.max(size, axis=1, keepdims=True) <= C)
        & (left >= -1e-9 * half)
        & (xp.abs(xp.sum(z, axis=1, keepdims=True)) <= 1e-9 * half)
    )
    return Certificate(z, intercept[:, 0], epsilon[:, 0], violation[:, 0], feasible[:, 0])


def _feasible(state: Problems) -> Array:
    """The nearest points that meet all constraints, with exact zeros and bounds."""
    xp = compat.array_namespace(state.Y)
    v = state.z + state.u
    C, zero, half = state.C, xp.zeros_like(state.C), state.budget / 2
    top = _threshold(v, state.shrink, zero, C, half)
    bottom = _threshold(-v, state.shrink, zero, C, half)
    middle = _threshold(v, zero, -C, C, zero)
    z = _clip(v - top, zero, C) - _clip(-v - bottom, zero, C)
    z = xp.where(top + bottom >= 0, z, _clip(v - middle, -C, C))
    # What rounding keeps from zero or from a bound is there.
    size = xp.abs(z)
    z = xp.where(size < _SNAP * C, xp.zeros_like(z), z)
    return xp.where(C - size < _SNAP * C, xp.sign(z) * C, z)


def _threshold(v: Array, start: Array, low: Array, high: Array, total: Array) -> Array:
    """The t for which clip(v − t, low, high) sums to `total` in each row.

    Newton's method, which ends in a few steps on a piecewise linear function; where it leaves the
    bracket or finds no slope, the bracket is halved.
    """
    xp = compat.array_namespace(v)
    left = xp.min(v, axis=1, keepdims=True) - high
    right = xp.max(v, axis=1, keepdims=True) - low
    t = xp.minimum(xp.maximum(start, left), right)
    best, least = t, xp.full_like(t, np.inf)
    enough = 1e-13 * xp.maximum(total, high)
    for number in range(_EXACT):
        w = v - t
        clipped = _clip(w, low, high)
        excess = xp.sum(clipped, axis=1, keepdims=True) - total
        inside = xp.sum(xp.astype(clipped == w, xp.int8), axis=1, keepdims=True)
        slope = xp.astype(inside, v.dtype)
        better = xp.abs(excess) < least
        best, least = xp.where(better, t, best), xp.where(better, xp.abs(excess), least)
        if number % _LOOK == _LOOK - 1 and bool(xp.all(least <= enough)):
            break
        left = xp.where(excess > 0, t, left)
        right = xp.where(excess > 0, right, t)
        t = t + excess / xp.maximum(slope, xp.ones_like(slope))
        halve = (slope == 0) | (t <= left) | (t >= right)
        t = xp.where(halve, (left + right) / 2, t)
    return best


def _between(a: Array, b: Array) -> Array:
    """The middle of two bounds, one of which may be missing."""
    xp = compat.array_namespace(a)
    a_there, b_there = xp.isfinite(a), xp.isfinite(b)
    a = xp.where(a_there, a, b)
    b = xp.where(b_there, b, a)
    return (a + b) / 2


def _norms(x: Array) -> Array:
    xp = compat.array_namespace(x)
    return xp.sqrt(xp.sum(x * x, axis=1, keepdims=True))


def _clip(x: Array, low: Array, high: Array) -> Array:
    xp = compat.array_namespace(x)
    if compat.is_torch_namespace(xp):
        return x.clamp(low, high)
    return xp.minimum(xp.maximum(x, low), high)
