r"""ν-support vector regression of many targets over one kernel.

For a target y over n points with the kernel K (with LIBSVM's C = λ/n),

.. math:: \min_{q, b, \epsilon, \xi} \tfrac12 \|q\|^2
          + C \left(\nu n \epsilon + \textstyle\sum_i \xi_i\right) \quad \text{subject to} \quad
          |q^\top \theta(a_i) + b - y_i| \le \epsilon + \xi_i,

(Eq. 12) is solved through its dual: by interpolation if no step is needed (here), by pairs of
coefficients on the CPU (`_smo`), or, for arrays of torch, CuPy and other libraries, for all
targets and settings at once on their device (`_batched`). Every solution comes with its largest
violation of the optimality conditions, in units of the target.

If the budget :math:`C \nu n` is not exhausted, the tube has no width, and the optimality conditions
are :math:`K\beta + b + \lambda = y` with :math:`\sum_i \beta_i = 0`, where λ is 0 for coefficients
inside ±C and has the sign of those held there. With
:math:`G = K^{-1} - K^{-1} 1 1^\top K^{-1} / (1^\top K^{-1} 1)` and a set A of coefficients held at
:math:`c`,

.. math:: G_{AA} \lambda_A = (G y)_A - c, \qquad \beta = G (y - \lambda).

All targets share one Cholesky factor of K; each adds a system of the size of its A, which is small
unless C is small. A is found in rounds: coefficients beyond ±C enter, those whose λ has the wrong
sign leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array

from zslearn._solvers.nu_svr._smo import RESOLUTION, PairSolver
from zslearn._utils._array import Array, Floats, is_foreign, to_numpy
from zslearn._utils._messages import warn_user
from zslearn._utils._processes import one_blas_thread
from zslearn._utils._saved import saved_part

# Up to this number of points one thread is faster for linear algebra, and steps of pairs are faster
# than sets of coefficients held at ±C.
_FEW_POINTS = 1000
# Relative difference of numbers that are equal up to rounding.
_ROUNDING = 1e-9
# Targets with more than this fraction of the points at ±C are solved by pairs.
_MOST_HELD = 0.125
_ROUNDS = 20


@saved_part
@dataclass(frozen=True)
class NuSVRResult:
    """Regressors of all targets for one setting, with their certificate.

    Parameters
    ----------
    C, nu : float
        The setting.
    coef : array of shape (n_points, n_targets)
        Dual coefficients β = α − α*.
    intercept : array of shape (n_targets,)
        Constant terms b.
    epsilon : array of shape (n_targets,)
        Half-widths of the tubes.
    violation : array of shape (n_targets,)
        Largest violation of the optimality conditions of each target, as LIBSVM measures it.
    n_iter : array of shape (n_targets,)
        Number of steps; 0 if a starting point was optimal.
    """

    C: float
    nu: float
    coef: Array
    intercept: Array
    epsilon: Array
    violation: Array
    n_iter: Array

    def predict(self, K: Array) -> Array:
        """Predict all targets.

        Parameters
        ----------
        K : array of shape (n_queries, n_points)
            Kernel between the queries and the training points.

        Returns
        -------
        array of shape (n_queries, n_targets)
            Predictions.
        """
        return K @ self.coef + self.intercept


def nu_svr(
    K: ArrayLike | Array,
    Y: ArrayLike | Array,
    *,
    C: float = 1.0,
    nu: float = 0.5,
    tol: float = 1e-3,
    max_iter: int = 1_000_000,
    n_jobs: int | None = None,
) -> NuSVRResult:
    """Fit one ν-SVR per target, all over one kernel.

    Parameters
    ----------
    K : array of shape (n_points, n_points)
        Positive semi-definite kernel of the training points. An array of torch, CuPy or another
        library of the array API standard is computed with on its own device.
    Y : array of shape (n_points, n_targets)
        Targets; they are not scaled.
    C : float, default=1.0
        Penalty, as in LIBSVM and scikit-learn.
    nu : float, default=0.5
        In (0, 1]: bounds the share of points outside the tube from above and that of support
        vectors from below.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in units of the target. Values down to 1e-10
        can be reached on the CPU.
    max_iter : int, default=1_000_000
        Largest number of steps per target.
    n_jobs : int, optional
        Number of threads; by default the number of cores.

    Returns
    -------
    NuSVRResult
        The regressors.

    Warns
    -----
    ConvergenceWarning
        When the tolerance is not reached.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import nu_svr
    >>> points = np.linspace(0, 1, 20)[:, None]
    >>> K = np.exp(-10 * (points - points.T) ** 2)
    >>> Y = np.hstack([np.sin(4 * points), np.cos(4 * points)])
    >>> fit = nu_svr(K, Y, C=10.0, tol=1e-6)
    >>> bool(fit.violation.max() <= 1e-6)
    True
    >>> bool(abs(fit.predict(K) - Y).max() < 0.01)
    True
    """
    return next(nu_svr_path(K, Y, C=[C], nu=[nu], tol=tol, max_iter=max_iter, n_jobs=n_jobs))


def nu_svr_path(
    K: ArrayLike | Array,
    Y: ArrayLike | Array,
    *,
    C: Sequence[float],
    nu: Sequence[float],
    **options: Any,
) -> Iterator[NuSVRResult]:
    """Fit ν-SVRs for every pair of settings, each starting from solved neighbours.

    A solution that does not exhaust its budget Cνn remains optimal for larger ν, and one that
    touches no bound ±C remains optimal for larger C with the same Cν; in a grid of powers of two
    most settings are such neighbours. The others start from the neighbour with the lowest
    objective.

    Parameters
    ----------
    K, Y : array of shape (n_points, n_points), and array of shape (n_points, n_targets)
        Positive semi-definite kernel and targets; see :func:`nu_svr`.
    C, nu : sequence of float
        The settings; every pair is solved.
    **options : dict
        `tol`, `max_iter` and `n_jobs` of :func:`nu_svr`, for each setting.

    Yields
    ------
    NuSVRResult
        One per pair, in ascending order of C, then of ν.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import nu_svr_path
    >>> points = np.linspace(0, 1, 20)[:, None]
    >>> K = np.exp(-10 * (points - points.T) ** 2)
    >>> for fit in nu_svr_path(K, np.sin(4 * points), C=[1, 100], nu=[0.1, 0.5], tol=1e-6):
    ...     print(fit.C, fit.nu, fit.epsilon.round(3), fit.violation.max() <= 1e-6)
    1.0 0.1 [0.128] True
    1.0 0.5 [0.002] True
    100.0 0.1 [0.] True
    100.0 0.5 [0.] True
    """
    return (result for _, result in nu_svr_paths([K], Y, C=C, nu=nu, **options))


def nu_svr_paths(
    kernels: Iterable[ArrayLike | Array],
    Y: ArrayLike | Array,
    *,
    C: Sequence[float],
    nu: Sequence[float],
    tol: float = 1e-3,
    max_iter: int = 1_000_000,
    n_jobs: int | None = None,
) -> Iterator[tuple[int, NuSVRResult]]:
    """The path of :func:`nu_svr_path` over each of several kernels, with the kernel's number.

    On the CPU the kernels are solved one after another, on request; on a device all are solved
    together, to keep it busy.
    """
    for value in C:
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"C must be a positive number; got {value!r}.")
    for value in nu:
        if not 0 < value <= 1:
            raise ValueError(f"nu must be in (0, 1]; got {value!r}.")
    penalties, shares = sorted({float(value) for value in C}), sorted({float(v) for v in nu})
    if not penalties or not shares:
        raise ValueError("C and nu must each name at least one value.")
    if not tol > 0:
        raise ValueError(f"tol must be positive; got {tol!r}.")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1; got {max_iter!r}.")
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter}
    options["n_threads"] = joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs)
    if is_foreign(Y) or (isinstance(kernels, list) and any(map(is_foreign, kernels))):
        from zslearn._solvers.nu_svr._batched import solve_kernels

        found = solve_kernels(list(kernels), Y, penalties, shares, **options)
    else:
        found = _solve_on_host(kernels, Y, penalties, shares, **options)
    return _results(found, tol, max_iter)


def _results(
    found: Iterator[tuple[int, tuple[Any, ...]]], tol: float, max_iter: int
) -> Iterator[tuple[int, NuSVRResult]]:
    """Results, with a warning about each one that does not reach the tolerance."""
    for number, fields in found:
        result = NuSVRResult(*fields)
        violation = to_numpy(result.violation)
        missed = int((violation > tol).sum())
        if missed:
            warn_user(
                f"ν-SVR with C={result.C:g}, nu={result.nu:g}: {missed} of {len(violation)} "
                f"targets miss tol={tol:g} after {max_iter} steps; the largest violation is "
                f"{violation.max():.2g}. Increase max_iter or tol, or lower C.",
                ConvergenceWarning,
            )
        yield number, result


def _solve_on_host(
    kernels: Iterable[ArrayLike],
    unchecked_targets: ArrayLike,
    penalties: list[float],
    shares: list[float],
    *,
    tol: float,
    max_iter: int,
    n_threads: int,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Solve the grid over each kernel, in ascending order of C; two rows of it serve as starts."""
    Y: Floats = check_array(unchecked_targets, dtype=np.float64, input_name="Y")
    n_points, n_targets = Y.shape
    targets = np.ascontiguousarray(Y.T)
    # Coefficients and residuals: two rows of the grid, and the interpolant.
    n_columns = len(shares)
    interpolated = 2 * n_columns
    beta = np.empty((2 * n_columns + 1, n_targets, n_points))
    r = np.empty_like(beta)
    for number, unchecked in enumerate(kernels):
        K = _check_kernel(unchecked, n_points)
        exact: _Interpolation | None = None
        with suppress(scipy.linalg.LinAlgError), one_blas_thread(when=n_points <= _FEW_POINTS):
            exact = _Interpolation(K, Y)
        with ExitStack() as stack:
            solver: PairSolver | None = None
            for row, C in enumerate(penalties):
                here, before = (row % 2) * n_columns, (1 - row % 2) * n_columns
                if exact is not None:
                    coef, residual = exact.within(C)
                    beta[interpolated], r[interpolated] = coef.T, residual.T
                for column, nu in enumerate(shares):
                    out = here + column
                    if exact is not None and exact.is_exact:
                        result = _without_tube(coef, residual, C, nu, tol)
                        if result is not None:
                            beta[out], r[out] = beta[interpolated], r[interpolated]
                            yield number, result
                            continue
                    starts = [] if exact is None else [interpolated]
                    if column > 0:
                        starts.append(out - 1)
                    if row > 0:
                        starts.extend(before + at for at in (column, column + 1) if at < n_columns)
                    if solver is None:
                        solver = stack.enter_context(PairSolver(K, n_threads))
                    found = solver.solve(
                        targets, C, nu, beta, r, starts, out, tol=tol, max_iter=max_iter
                    )
                    yield number, (C, nu, beta[out].T.copy(), *found)


def _check_kernel(K: ArrayLike, n_points: int) -> Floats:
    """Validate a kernel: finite and symmetric, with one point per row of the targets."""
    kernel = check_array(K, dtype=np.float64, order="C", input_name="K")
    if kernel.shape[0] != kernel.shape[1]:
        raise ValueError(f"K must be square; got shape {kernel.shape}.")
    if len(kernel) != n_points:
        raise ValueError(
            f"K is a kernel of {len(kernel)} points, but Y has {n_points} rows: "
            "one row per point is needed."
        )
    if float(np.abs(kernel - kernel.T).max()) > 1e-8 * float(np.abs(kernel).max()):
        raise ValueError("K must be symmetric, as a kernel of the training points is.")
    return kernel


def _without_tube(
    coef: Floats, residual: Floats, C: float, nu: float, tol: float
) -> tuple[Any, ...] | None:
    """The solution with these coefficients and a tube of no width; None if it is not optimal."""
    size, budget = np.abs(coef), C * nu * len(coef)
    left = 0.5 * (budget - float(size.sum(axis=0).max()))
    if float(size.max()) > C or left <= RESOLUTION * budget:
        return None
    # The largest residual that may rise less the smallest that may fall.
    up = np.where(coef < C, residual, -np.inf).max(axis=0)
    down = np.where(coef > -C, residual, np.inf).min(axis=0)
    violation = np.maximum(up - down, 0.0)
    if float(violation.max()) > tol:
        return None
    inside = size < C
    total: Floats = np.where(inside, residual, 0.0).sum(axis=0)
    intercept = total / np.maximum(inside.sum(axis=0), 1)
    zeros = np.zeros(len(intercept))
    return C, nu, coef.copy(), intercept, zeros, violation, zeros.astype(np.int64)


class _Interpolation:
    """Coefficients that reproduce all targets up to a constant, with sum zero.

    If they meet the constraints of a setting, as usual for well-separated points, they are its
    solution without any step of a solver. A singular kernel raises LinAlgError.
    """

    def __init__(self, K: Floats, Y: Floats) -> None:
        self.K, self.Y = K, Y
        self.factor = scipy.linalg.cho_factor(K, lower=True)
        solved = scipy.linalg.cho_solve(self.factor, np.column_stack([Y, np.ones(len(K))]))
        coef, self.ones = solved[:, :-1], solved[:, -1]
        coef = coef - self.ones[:, None] * (coef.sum(axis=0) / self.ones.sum())
        coef -= coef.mean(axis=0)
        if not np.isfinite(coef).all():
            raise scipy.linalg.LinAlgError("The kernel is singular.")
        # The coefficients of a constant target are rounding errors.
        self.coef = np.where(np.ptp(Y, axis=0) == 0, 0.0, coef)
        self.residual = Y - K @ self.coef
        # With an ill-conditioned kernel yᵀβ and βᵀKβ differ.
        linear = np.einsum("nt,nt->t", Y, self.coef)
        quadratic = np.einsum("nt,nt->t", Y - self.residual, self.coef)
        self.is_exact = bool(np.all(np.abs(linear - quadratic) <= _ROUNDING * quadratic))
        # Rows of G, computed on demand, and the position of the row of each point, or −1.
        self.rows = np.empty((0, len(K)))
        self.row_of = np.full(len(K), -1, dtype=np.intp)

    def within(self, C: float) -> tuple[Floats, Floats]:
        """β, with coefficients beyond ±C held there if they are few for a target, and y − Kβ."""
        held = self._held_at(C) if self.is_exact and len(self.K) > _FEW_POINTS else {}
        if not held:
            return self.coef, self.residual
        coef, residual = self.coef.copy(), self.residual.copy()
        targets = np.fromiter(held, dtype=np.intp)
        coef[:, targets] = np.column_stack(list(held.values()))
        residual[:, targets] = self.Y[:, targets] - self.K @ coef[:, targets]
        return coef, residual

    def _held_at(self, C: float) -> dict[int, Floats]:
        """Coefficients by target, some of them at ±C while the others interpolate."""
        beyond = np.abs(self.coef) > C
        targets = np.flatnonzero(beyond.any(axis=0)).tolist()
        open_sets = {target: np.flatnonzero(beyond[:, target]) for target in targets}
        found: dict[int, Floats] = {}
        for _ in range(_ROUNDS):
            few = {t: A for t, A in open_sets.items() if len(A) <= _MOST_HELD * len(self.K)}
            if not few:
                break
            self._need(np.concatenate(list(few.values())))
            open_sets = {}
            for target, held in few.items():
                beta, after = self._hold(self.coef[:, target], held, C)
                if after is None:
                    found[target] = beta
                elif len(after):
                    open_sets[target] = after
        return found

    def _hold(
        self, free: Floats, held: NDArray[np.intp], C: float
    ) -> tuple[Floats, NDArray[np.intp] | None]:
        """Coefficients with a set held at ±C, and the next set, or None if this set is optimal."""
        rows = self.rows[self.row_of[held]]
        side = np.sign(free[held])
        try:
            factor = scipy.linalg.cho_factor(rows[:, held], lower=True)
        except scipy.linalg.LinAlgError:
            return free, held[:0]
        pull = scipy.linalg.cho_solve(factor, free[held] - C * side)
        beta = free - pull @ rows
        inside = np.ones(len(beta), dtype=bool)
        inside[held] = False
        beta[held] = C * side
        beta[inside] -= beta.sum() / max(int(inside.sum()), 1)
        beyond = inside & (np.abs(beta) > C)
        stays = pull * side >= 0
        if stays.all() and not beyond.any():
            return beta, None
        # Rarely, a coefficient passes the opposite bound; then the target is solved by pairs.
        if (np.sign(beta[beyond]) != np.sign(free[beyond])).any():
            return free, held[:0]
        return beta, np.union1d(held[stays], np.flatnonzero(beyond))

    def _need(self, points: NDArray[np.intp]) -> None:
        """Compute missing rows of G."""
        missing = np.unique(points[self.row_of[points] < 0])
        if not missing.size:
            return
        unit = np.zeros((len(self.K), len(missing)))
        unit[missing, np.arange(len(missing))] = 1.0
        columns = scipy.linalg.cho_solve(self.factor, unit, overwrite_b=True)
        columns -= self.ones[:, None] * (self.ones[missing] / self.ones.sum())
        self.row_of[missing] = len(self.rows) + np.arange(len(missing))
        self.rows = np.vstack([self.rows, columns.T])
