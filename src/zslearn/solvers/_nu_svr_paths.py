"""ν-SVR over several kernels of the same points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import ArrayLike

from zslearn.solvers._nu_svr import NuSVRResult, checked_grid, n_threads_of, nu_svr_path, warned
from zslearn.solvers._nu_svr_batched import solve_kernels
from zslearn.utils import Array, is_foreign

__all__ = ["nu_svr_paths"]


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

    Parameters
    ----------
    kernels : iterable of arrays of shape (n_points, n_points)
        Positive semi-definite kernels of the same points; see :func:`nu_svr`.
    Y : array of shape (n_points, n_targets)
        Targets.
    C, nu : sequence of float
        The settings; every pair is solved.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in units of the target.
    max_iter : int, default=1_000_000
        Largest number of steps per target and setting.
    n_jobs : int, optional
        Threads. By default as many as there are cores.

    Yields
    ------
    number : int
        Position of the kernel, ascending.
    result : NuSVRResult
        In the order of :func:`nu_svr_path`.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import nu_svr_paths
    >>> points = np.linspace(0, 1, 20)[:, None]
    >>> kernels = [np.exp(-gamma * (points - points.T) ** 2) for gamma in (10, 100)]
    >>> for number, fit in nu_svr_paths(kernels, np.sin(4 * points), C=[1.0], nu=[0.1, 0.5]):
    ...     print(number, fit.nu, fit.epsilon.round(2))
    0 0.1 [0.13]
    0 0.5 [0.]
    1 0.1 [0.24]
    1 0.5 [0.]
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
