r"""ν-support vector regression of many targets over one kernel.

For a target y over n points with the kernel K (the paper's eEXEMlearn, with LIBSVM's C = λ/n),

.. math:: \min_{q, b, \epsilon, \xi} \tfrac12 \|q\|^2
          + C \left(\nu n \epsilon + \textstyle\sum_i \xi_i\right) \quad \text{subject to} \quad
          |q^\top \theta(a_i) + b - y_i| \le \epsilon + \xi_i,

is solved through its dual, by pairs of coefficients on the processor
(:mod:`zslearn._solvers.nu_svr._smo`) or, for arrays of torch, CuPy and the like, for all targets and
all settings at once on their device (:mod:`zslearn._solvers.nu_svr._batched`). Every solution comes
with its largest violation of the optimality conditions, in units of the target.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array

from zslearn._solvers.nu_svr._batched import solve_kernels
from zslearn._solvers.nu_svr._interpolation import Interpolation, StepFree
from zslearn._solvers.nu_svr._smo import PairSolver
from zslearn._utils._array import Array, Floats, is_foreign, to_numpy
from zslearn._utils._files import saved_part
from zslearn._utils._processes import one_blas_thread

# Up to so many points linear algebra takes one thread: to wait for a second costs more than it
# saves.
_SMALL = 1000


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
        Steps taken; 0 where a start was optimal already.
    """

    C: float
    nu: float
    coef: Array
    intercept: Array
    epsilon: Array
    violation: Array
    n_iter: Array

    @property
    def n_support(self) -> NDArray[np.intp]:
        """Number of points with a coefficient other than 0, for each target."""
        return np.count_nonzero(to_numpy(self.coef), axis=0)

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
    warm_start: NuSVRResult | None = None,
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
        Largest violation of the optimality conditions, in units of the target. Down to 1e-10 is
        reached on the processor.
    max_iter : int, default=1_000_000
        Largest number of steps per target.
    warm_start : NuSVRResult, optional
        A solution for the same points and targets under another setting, or of a similar kernel.
    n_jobs : int, optional
        Threads. By default as many as there are cores.

    Returns
    -------
    NuSVRResult
        The regressors.

    Warns
    -----
    ConvergenceWarning
        When the tolerance is not reached.

    See Also
    --------
    nu_svr_path : Many settings of C and ν.

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
    return next(
        nu_svr_path(
            K,
            Y,
            C=[C],
            nu=[nu],
            tol=tol,
            max_iter=max_iter,
            warm_start=warm_start,
            n_jobs=n_jobs,
        )
    )


def nu_svr_path(
    K: ArrayLike | Array,
    Y: ArrayLike | Array,
    *,
    C: Sequence[float],
    nu: Sequence[float],
    tol: float = 1e-3,
    max_iter: int = 1_000_000,
    warm_start: NuSVRResult | None = None,
    n_jobs: int | None = None,
) -> Iterator[NuSVRResult]:
    """Fit ν-SVRs for every pair of settings, each begun where its neighbours ended.

    A solution that does not use up its budget Cνn stays one when ν grows, and one that touches no
    box ±C stays one when C grows and Cν is kept; in a grid of powers of two most settings are such
    neighbours. The others begin at the neighbour with the lowest objective.

    Parameters
    ----------
    K : array of shape (n_points, n_points)
        Positive semi-definite kernel; see :func:`nu_svr`.
    Y : array of shape (n_points, n_targets)
        Targets.
    C, nu : sequence of float
        The settings; every pair is solved.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in units of the target.
    max_iter : int, default=1_000_000
        Largest number of steps per target and setting.
    warm_start : NuSVRResult, optional
        A start for the first setting.
    n_jobs : int, optional
        Threads. By default as many as there are cores.

    Yields
    ------
    NuSVRResult
        One per pair, C ascending and, within, ν ascending, whatever the order they were given in.

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
    penalties, shares = checked_grid(C, nu, tol, max_iter)
    if is_foreign(K) or is_foreign(Y):
        results: Iterator[NuSVRResult] = (
            NuSVRResult(*fields)
            for _, fields in solve_kernels(
                [K],
                Y,
                penalties,
                shares,
                tol=tol,
                max_iter=max_iter,
                n_threads=n_threads_of(n_jobs),
            )
        )
    else:
        kernel, targets = _checked(K, Y)
        results = _path(
            kernel, targets, penalties, shares, tol, max_iter, warm_start, n_threads_of(n_jobs)
        )
    return warned(results, tol, max_iter)


def checked_grid(
    C: Sequence[float], nu: Sequence[float], tol: float, max_iter: int
) -> tuple[list[float], list[float]]:
    """Values of C and of ν in ascending order; refuse what cannot be solved."""
    penalties = sorted({_positive("C", value) for value in C})
    shares = sorted({_share(value) for value in nu})
    if not penalties or not shares:
        raise ValueError("C and nu must each name at least one value.")
    if not tol > 0:
        raise ValueError(f"tol must be positive; got {tol!r}.")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1; got {max_iter!r}.")
    return penalties, shares


def warned(results: Iterator[NuSVRResult], tol: float, max_iter: int) -> Iterator[NuSVRResult]:
    """Pass results on; say so where one did not reach the tolerance."""
    for result in results:
        violation = to_numpy(result.violation)
        missed = int((violation > tol).sum())
        if missed:
            warnings.warn(
                f"ν-SVR with C={result.C:g}, nu={result.nu:g}: {missed} of "
                f"{len(violation)} targets miss tol={tol:g} after {max_iter} steps; the "
                f"largest violation is {violation.max():.2g}. Raise max_iter or tol, "
                "or lower C.",
                ConvergenceWarning,
                stacklevel=3,
            )
        yield result


def _path(
    K: Floats,
    Y: Floats,
    penalties: list[float],
    shares: list[float],
    tol: float,
    max_iter: int,
    warm_start: NuSVRResult | None,
    n_threads: int,
) -> Iterator[NuSVRResult]:
    """Solve the grid, C ascending; two rows of it are kept as starts."""
    n_points, n_targets = Y.shape
    targets = np.ascontiguousarray(Y.T)
    # Slots: two rows of the grid, the interpolant, the user's start.
    n_columns = len(shares)
    beta = np.empty((2 * n_columns + 2, n_targets, n_points))
    r = np.empty_like(beta)
    always = []
    with one_blas_thread(when=n_points <= _SMALL):
        exact = Interpolation.of(K, Y)
        if exact is not None:
            always.append(2 * n_columns)
        if warm_start is not None:
            start = _start_of(warm_start, Y)
            beta[2 * n_columns + 1], r[2 * n_columns + 1] = start.T, (Y - K @ start).T
            always.append(2 * n_columns + 1)
    with PairSolver(K, n_threads) as solver:
        for row, C in enumerate(penalties):
            here, before = (row % 2) * n_columns, (1 - row % 2) * n_columns
            step_free = None if exact is None else exact.within(C)
            if step_free is not None:
                beta[2 * n_columns], r[2 * n_columns] = step_free.coef.T, step_free.residual.T
            for column, nu in enumerate(shares):
                starts = list(always)
                if column > 0:
                    starts.append(here + column - 1)
                if row > 0:
                    starts.extend(before + at for at in (column, column + 1) if at < n_columns)
                out = here + column
                if step_free is not None and step_free.solves(nu, tol):
                    beta[out], r[out] = beta[2 * n_columns], r[2 * n_columns]
                    yield _without_steps(step_free, nu)
                    continue
                intercept, epsilon, violation, n_iter = solver.solve(
                    targets, C, nu, beta, r, starts, out, tol=tol, max_iter=max_iter
                )
                coef = beta[out].T.copy()
                yield NuSVRResult(C, nu, coef, intercept, epsilon, violation, n_iter)


def _without_steps(solution: StepFree, nu: float) -> NuSVRResult:
    n_targets = solution.coef.shape[1]
    return NuSVRResult(
        solution.C,
        nu,
        solution.coef.copy(),
        solution.intercept,
        np.zeros(n_targets),
        solution.violation,
        np.zeros(n_targets, dtype=np.int64),
    )


def _start_of(warm_start: NuSVRResult, Y: Floats) -> Floats:
    if warm_start.coef.shape != Y.shape:
        raise ValueError(
            f"warm_start has coefficients of shape {tuple(warm_start.coef.shape)}; "
            f"the targets have shape {Y.shape}."
        )
    return np.asarray(warm_start.coef, dtype=np.float64)


def _checked(K: ArrayLike, Y: ArrayLike) -> tuple[Floats, Floats]:
    """Kernel and targets as finite float64 arrays that fit together."""
    kernel = check_array(K, dtype=np.float64, order="C", input_name="K")
    targets = check_array(Y, dtype=np.float64, input_name="Y")
    if kernel.shape[0] != kernel.shape[1]:
        raise ValueError(f"K must be square; got shape {kernel.shape}.")
    if len(kernel) != len(targets):
        raise ValueError(
            f"K is a kernel of {len(kernel)} points, but Y has {len(targets)} rows: "
            "one row per point is needed."
        )
    scale = float(np.abs(kernel).max())
    if float(np.abs(kernel - kernel.T).max()) > 1e-8 * scale:
        raise ValueError("K is not symmetric: a kernel of the training points is.")
    return kernel, targets


def _positive(name: str, value: float) -> float:
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    return float(value)


def _share(nu: float) -> float:
    if not 0 < nu <= 1:
        raise ValueError(f"nu must be in (0, 1]; got {nu!r}.")
    return float(nu)


def n_threads_of(n_jobs: int | None) -> int:
    """Threads to solve with; by default as many as there are cores."""
    return joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs)


# ν-SVR over several kernels of the same points.


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
    """Fit ν-SVRs for every pair of settings over each of several kernels.

    On the processor one kernel is solved after another, each when it is asked for; arrays on a
    device are solved together, as few problems at a time would leave it idle.
    """
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter}
    if not is_foreign(Y):
        for number, K in enumerate(kernels):
            for result in nu_svr_path(K, Y, C=C, nu=nu, n_jobs=n_jobs, **options):
                yield number, result
        return
    penalties, shares = checked_grid(C, nu, tol, max_iter)
    found = solve_kernels(
        list(kernels), Y, penalties, shares, n_threads=n_threads_of(n_jobs), **options
    )
    for number, fields in found:
        (result,) = warned(iter([NuSVRResult(*fields)]), tol, max_iter)
        yield number, result
