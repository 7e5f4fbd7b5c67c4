r"""ν-SVR of all targets and all settings at once, on the device of the arrays.

The alternating direction method of multipliers on the dual in β: with the constraints
:math:`B = \{|z_i| \le C, \sum_i z_i = 0, \sum_i |z_i| \le C \nu n\}`,

.. math:: x \leftarrow (K + \rho I)^{-1} (y + \rho (z - u)), \quad
          z \leftarrow \Pi_B(x + u), \quad u \leftarrow u + x - z.

One eigendecomposition of K serves every ρ, so that each problem, a column, keeps its own. The
projection is exact: with the budget used up its positive and its negative part are shifted and
clipped, each by its own threshold; if the thresholds cross, the budget is not used up, and there
is one. So z has exact zeros and bounds, and the violation of the optimality conditions is measured
on it as everywhere else. Columns that reached the tolerance leave the batch; those that are left
in the end are finished by pairs on the host.

Only the array API standard is used, in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import array_api_compat as compat
import numpy as np

from zslearn.solvers._nu_svr_smo import PairSolver
from zslearn.utils import Array, row_blocks, to_numpy

# What one array of a batch of settings may take on the device; about a dozen live at a time.
_BATCH_BYTES = 1 << 29
# Steps between checks, and steps before the rest goes to the host.
_CHECK = 20
_STEPS = 600
# Steps after which the weights ρ are adapted.
_BALANCE = (20, 40, 60, 80, 120, 160, 240, 320, 480)
_RELAXATION = 1.6
# Steps of a search for a threshold: from the last one, and where it must be exact.
_QUICK, _EXACT = 3, 40
# Nearer than this to a bound, in units of C, is at the bound.
_SNAP = 1e-11

Setting = tuple[float, float, Array, Array, Array, Array, Array]


@dataclass
class _Batch:
    """Columns that are still being solved; every field has one entry or one column each."""

    column: Array
    Y: Array
    C: Array
    half: Array
    rho: Array
    z: Array
    u: Array
    top: Array
    bottom: Array
    middle: Array

    def keep(self, rows: Array) -> _Batch:
        """The columns at the given positions."""
        xp = compat.array_namespace(rows)
        parts = {}
        for field in fields(self):
            value = getattr(self, field.name)
            parts[field.name] = xp.take(value, rows, axis=value.ndim - 1)
        return _Batch(**parts)


def solve_settings(
    K: Any,
    Y: Any,
    penalties: list[float],
    shares: list[float],
    *,
    tol: float,
    max_iter: int,
    n_threads: int,
) -> Iterator[Setting]:
    """Solve every pair of settings for every target.

    Parameters
    ----------
    K : array of shape (n_points, n_points)
        Kernel.
    Y : array of shape (n_points, n_targets)
        Targets, of the same library and on the same device.
    penalties, shares : list of float
        Values of C and of ν.
    tol : float
        Largest violation of the optimality conditions.
    max_iter : int
        Largest number of steps per column, on the device and again on the host.
    n_threads : int
        Threads of the host.

    Yields
    ------
    tuple
        C, nu, coef, intercept, epsilon, violation, n_iter, as in `NuSVRResult`; one pair
        at a time, C slowest.
    """
    xp = compat.array_namespace(K, Y)
    if len(K.shape) != 2 or K.shape[0] != K.shape[1] or K.shape[0] != Y.shape[0]:
        raise ValueError(
            f"K must be square and Y have as many rows; got shapes {tuple(K.shape)} and "
            f"{tuple(Y.shape)}."
        )
    K, Y = xp.astype(K, xp.float64), xp.astype(Y, xp.float64)
    if not (bool(xp.all(xp.isfinite(K))) and bool(xp.all(xp.isfinite(Y)))):
        raise ValueError("K and Y must be finite.")
    eigen = xp.linalg.eigh(K)
    interpolant = _interpolant(eigen, Y)
    settings = [(C, nu) for C in penalties for nu in shares]
    setting_bytes = 8 * Y.shape[0] * Y.shape[1]
    for batch in row_blocks(len(settings), row_bytes=setting_bytes, budget=_BATCH_BYTES):
        group = settings[batch]
        yield from _solve_group(K, Y, eigen, interpolant, group, tol, max_iter, n_threads)


def _solve_group(
    K: Array,
    Y: Array,
    eigen: Any,
    interpolant: Array | None,
    settings: list[tuple[float, float]],
    tol: float,
    max_iter: int,
    n_threads: int,
) -> Iterator[Setting]:
    """Solve settings that fit into the device's memory together."""
    xp = compat.array_namespace(Y)
    device = compat.device(Y)
    n_points, n_targets = Y.shape
    n_columns = len(settings) * n_targets
    C = xp.asarray(np.repeat([s[0] for s in settings], n_targets), device=device)
    budget = np.repeat([s[0] * s[1] * n_points for s in settings], n_targets)
    half = xp.asarray(budget / 2, device=device)
    zeros = xp.zeros(n_columns, dtype=xp.float64, device=device)
    # Results in rows, so that a column is written by one index.
    coef = xp.zeros((n_columns, n_points), dtype=xp.float64, device=device)
    numbers = xp.zeros((n_columns, 4), dtype=xp.float64, device=device)
    repeated = xp.tile(Y, (1, len(settings)))
    batch = _Batch(
        column=xp.arange(n_columns, device=device),
        Y=repeated,
        C=C,
        half=half,
        rho=zeros + _first_rho(eigen.eigenvalues),
        z=xp.zeros_like(repeated),
        u=xp.zeros_like(repeated),
        top=zeros,
        bottom=zeros,
        middle=zeros,
    )
    if interpolant is not None:
        batch.z = xp.tile(interpolant, (1, len(settings)))
        batch = _retire(K, batch, 0, tol, coef, numbers)
        batch.z = xp.zeros_like(batch.z)
    step = 0
    while batch.column.shape[0] > 0 and step < min(_STEPS, max_iter):
        step += 1
        check = step % _CHECK == 0
        _step(K, eigen, batch, exact=check, balance=step in _BALANCE)
        if check:
            batch = _retire(K, batch, step, tol, coef, numbers)
    if batch.column.shape[0] > 0:
        _finish_on_host(
            K, batch, settings, n_targets, step, tol, max_iter, n_threads, coef, numbers
        )
    for position, (C_value, nu) in enumerate(settings):
        rows = slice(position * n_targets, (position + 1) * n_targets)
        intercept, epsilon, violation, n_iter = (numbers[rows, i] for i in range(4))
        yield (
            C_value,
            nu,
            xp.matrix_transpose(coef[rows, :]),
            intercept,
            epsilon,
            violation,
            xp.astype(n_iter, xp.int64),
        )


def _step(K: Array, eigen: Any, batch: _Batch, *, exact: bool, balance: bool) -> None:
    """One round of the method on all columns, in place."""
    xp = compat.array_namespace(K)
    values, vectors = eigen
    right = batch.Y + batch.rho * (batch.z - batch.u)
    right = xp.matrix_transpose(vectors) @ right
    x = vectors @ (right / (values[:, None] + batch.rho))
    relaxed = _RELAXATION * x + (1 - _RELAXATION) * batch.z
    before = batch.z
    _project(batch, relaxed + batch.u, _EXACT if exact else _QUICK)
    batch.u = batch.u + relaxed - batch.z
    if balance:
        # Primal against dual residual, each in units of what it is the residual of.
        primal = _norms(x - batch.z) / (xp.maximum(_norms(x), _norms(batch.z)) + 1e-12)
        dual = batch.rho * _norms(batch.z - before)
        dual = dual / (xp.maximum(_norms(batch.Y), _norms(K @ x)) + 1e-12)
        ratio = xp.sqrt(primal / (dual + 1e-30))
        ratio = xp.clip(ratio, 0.1, 10.0)
        batch.rho = batch.rho * ratio
        batch.u = batch.u / ratio


def _project(batch: _Batch, v: Array, steps: int) -> None:
    """Nearest feasible point of each column of `v`, into `batch.z`."""
    xp = compat.array_namespace(v)
    C, zero = batch.C, xp.zeros_like(batch.C)
    batch.top = _threshold(v, batch.top, zero, C, batch.half, steps)
    batch.bottom = _threshold(-v, batch.bottom, zero, C, batch.half, steps)
    batch.middle = _threshold(v, batch.middle, -C, C, zero, steps)
    tight = batch.top + batch.bottom >= 0
    z = _clip(v - batch.top, zero, C) - _clip(-v - batch.bottom, zero, C)
    z = xp.where(tight[None, :], z, _clip(v - batch.middle, -C, C))
    # What rounding keeps from zero or from a bound is there.
    size = xp.abs(z)
    z = xp.where(size < _SNAP * C, xp.zeros_like(z), z)
    batch.z = xp.where(C - size < _SNAP * C, xp.sign(z) * C, z)


def _threshold(v: Array, start: Array, low: Array, high: Array, total: Array, steps: int) -> Array:
    """The t for which clip(v − t, low, high) sums to `total` in each column.

    Newton's method, which ends in a few steps on a piecewise linear function; where it leaves the
    bracket or finds no slope, the bracket is halved.
    """
    xp = compat.array_namespace(v)
    left = xp.min(v, axis=0) - high
    right = xp.max(v, axis=0) - low
    t = xp.minimum(xp.maximum(start, left), right)
    best, least = t, xp.full_like(t, np.inf)
    for _ in range(steps):
        w = v - t
        excess = xp.sum(_clip(w, low, high), axis=0) - total
        slope = xp.sum(xp.astype((w > low) & (w < high), v.dtype), axis=0)
        better = xp.abs(excess) < least
        best, least = xp.where(better, t, best), xp.where(better, xp.abs(excess), least)
        left = xp.where(excess > 0, t, left)
        right = xp.where(excess > 0, right, t)
        t = t + excess / xp.where(slope > 0, slope, xp.ones_like(slope))
        halve = (slope == 0) | (t <= left) | (t >= right)
        t = xp.where(halve, (left + right) / 2, t)
    return best


def _retire(K: Array, batch: _Batch, step: int, tol: float, coef: Array, numbers: Array) -> _Batch:
    """Write the columns that reached the tolerance; return the others."""
    xp = compat.array_namespace(K)
    intercept, epsilon, violation, feasible = _certify(K, batch)
    done = feasible & (violation <= tol)
    rows = xp.nonzero(done)[0]
    if rows.shape[0] == 0:
        return batch
    at = xp.take(batch.column, rows, axis=0)
    parts = [intercept, epsilon, violation, xp.zeros_like(violation) + step]
    _write(coef, at, xp.matrix_transpose(xp.take(batch.z, rows, axis=1)))
    _write(numbers, at, xp.stack([xp.take(part, rows, axis=0) for part in parts], axis=1))
    return batch.keep(xp.nonzero(~done)[0])


def _write(out: Array, rows: Array, values: Array) -> None:
    """Set rows of an array; the standard has no assignment by an array of positions."""
    xp = compat.array_namespace(out)
    if compat.is_torch_namespace(xp) or compat.is_cupy_namespace(xp):
        out[rows] = values
        return
    for position, row in enumerate(to_numpy(rows).tolist()):
        out[row, :] = values[position, :]


def _certify(K: Array, batch: _Batch) -> tuple[Array, Array, Array, Array]:
    """Intercept, half-width of the tube, largest violation, and whether the constraints hold."""
    xp = compat.array_namespace(K)
    z, C = batch.z, batch.C
    r = batch.Y - K @ z
    left = batch.half - xp.sum(xp.abs(z), axis=0) / 2
    tight = left <= 1e-11 * batch.half
    up, down = z < C, z > -C
    negative, positive = z < 0, z > 0
    inside = up & down

    def largest(mask: Array) -> Array:
        return xp.max(xp.where(mask, r, xp.full_like(r, -np.inf)), axis=0)

    def smallest(mask: Array) -> Array:
        return xp.min(xp.where(mask, r, xp.full_like(r, np.inf)), axis=0)

    def mean(mask: Array, otherwise: Array) -> Array:
        weight = xp.astype(mask, r.dtype)
        count = xp.sum(weight, axis=0)
        value = xp.sum(weight * r, axis=0) / xp.where(count > 0, count, xp.ones_like(count))
        return xp.where(count > 0, value, otherwise)

    by_side = xp.maximum(largest(up) - smallest(positive), largest(negative) - smallest(down))
    violation = xp.where(tight, by_side, largest(up) - smallest(down))
    violation = xp.where(violation > 0, violation, xp.zeros_like(violation))
    at_top, at_bottom = ~up, ~down
    upper = mean(inside & positive, _between(largest(~positive), smallest(at_top)))
    lower = mean(inside & negative, _between(largest(at_bottom), smallest(~negative)))
    centre = mean(inside, _between(largest(negative), smallest(positive)))
    intercept = xp.where(tight, (upper + lower) / 2, centre)
    epsilon = xp.where(tight & (upper > lower), (upper - lower) / 2, xp.zeros_like(upper))
    feasible = (
        (xp.max(xp.abs(z), axis=0) <= C)
        & (left >= -1e-9 * batch.half)
        & (xp.abs(xp.sum(z, axis=0)) <= 1e-9 * batch.half)
    )
    return intercept, epsilon, violation, feasible


def _between(a: Array, b: Array) -> Array:
    """The middle of two bounds, one of which may be missing."""
    xp = compat.array_namespace(a)
    a_there, b_there = xp.isfinite(a), xp.isfinite(b)
    a = xp.where(a_there, a, b)
    b = xp.where(b_there, b, a)
    return (a + b) / 2


def _finish_on_host(
    K: Array,
    batch: _Batch,
    settings: list[tuple[float, float]],
    n_targets: int,
    step: int,
    tol: float,
    max_iter: int,
    n_threads: int,
    coef: Array,
    numbers: Array,
) -> None:
    """Finish what is left by pairs of coefficients, from where it stands."""
    xp = compat.array_namespace(K)
    device = compat.device(K)
    kernel = np.ascontiguousarray(to_numpy(K))
    columns = to_numpy(batch.column)
    targets = np.ascontiguousarray(to_numpy(batch.Y).T)
    beta = np.zeros((2, *targets.shape))
    beta[0] = to_numpy(batch.z).T
    beta[0] -= beta[0].mean(axis=1, keepdims=True)
    r = np.zeros_like(beta)
    r[0] = targets - beta[0] @ kernel
    results = np.zeros((len(columns), 4))
    with PairSolver(kernel, n_threads) as solver:
        for setting in np.unique(columns // n_targets):
            (rows,) = np.nonzero(columns // n_targets == setting)
            C, nu = settings[setting]
            coefficients, residuals = beta[:, rows], r[:, rows]
            found = solver.solve(
                targets[rows], C, nu, coefficients, residuals, [0], 1, tol=tol, max_iter=max_iter
            )
            beta[1, rows] = coefficients[1]
            results[rows] = np.column_stack(found)
    results[:, 3] += step
    _write(coef, batch.column, xp.asarray(beta[1], device=device))
    _write(numbers, batch.column, xp.asarray(results, device=device))


def _interpolant(eigen: Any, Y: Array) -> Array | None:
    """Coefficients that reproduce the targets up to a constant; None for a singular kernel."""
    xp = compat.array_namespace(Y)
    values, vectors = eigen
    if not float(values[0]) > 1e-13 * float(values[-1]):
        return None
    ones = xp.ones((Y.shape[0], 1), dtype=Y.dtype, device=compat.device(Y))
    right = xp.matrix_transpose(vectors) @ xp.concat([Y, ones], axis=1)
    solved = vectors @ (right / values[:, None])
    beta, by_one = solved[:, :-1], solved[:, -1:]
    beta = beta - by_one * (xp.sum(beta, axis=0) / xp.sum(by_one))
    return beta - xp.mean(beta, axis=0, keepdims=True)


def _first_rho(values: Array) -> float:
    """Between the middle and the largest eigenvalue."""
    middle = max(float(values[values.shape[0] // 2]), 1e-8 * float(values[-1]), 1e-300)
    return float(np.sqrt(middle * max(float(values[-1]), 1e-300)))


def _norms(x: Array) -> Array:
    xp = compat.array_namespace(x)
    return xp.sqrt(xp.sum(x * x, axis=0))


def _clip(x: Array, low: Array, high: Array) -> Array:
    xp = compat.array_namespace(x)
    return xp.minimum(xp.maximum(x, low), high)
