"""ν-SVRs that several searches have in common.

EXEM (1NN), EXEM (1NNs) and the first step of EXEM under another method solve the same problems in
the same folds: exemplars and signatures are the same, and only what becomes of them differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._version import __version__
from zslearn.solvers import NuSVRResult, nu_svr_path, nu_svr_paths
from zslearn.utils import Array, Floats, keeps_fits, kept_fit

# A path is kept if it has so many problems times squared classes times dimensions, which takes
# longer than to read it, and if its coefficients take no more bytes: they would push others out.
_WORTH_KEEPING = 2e7
_MAX_BYTES = 1 << 26
_FIELDS = tuple(field.name for field in fields(NuSVRResult))


def shared_nu_svr_paths(
    kernels: Iterable[Array],
    targets: Array,
    *,
    C: Sequence[float],
    nu: Sequence[float],
    tol: float,
    **options: Any,
) -> Iterator[tuple[int, NuSVRResult]]:
    """:func:`~zslearn.solvers.nu_svr_paths`, whose results other searches may read.

    Parameters
    ----------
    kernels : iterable of arrays of shape (n_seen, n_seen)
        Kernels of the seen classes.
    targets : array of shape (n_seen, n_dims)
        Their exemplars.
    C, nu : sequence of float
        The settings; every pair is solved.
    tol : float
        Largest violation of the optimality conditions.
    **options : object
        As :func:`~zslearn.solvers.nu_svr_paths` takes them.

    Yields
    ------
    number : int
        Position of the kernel, ascending.
    result : NuSVRResult
        C ascending and, within, ν ascending.
    """
    n_problems = len(set(C)) * len(set(nu))
    n_seen, n_dims = targets.shape
    is_large = n_problems * n_seen**2 * n_dims >= _WORTH_KEEPING
    if not (keeps_fits(targets) and is_large and 8 * n_problems * targets.size <= _MAX_BYTES):
        yield from nu_svr_paths(kernels, targets, C=C, nu=nu, tol=tol, **options)
        return
    for number, K in enumerate(kernels):
        for result in _kept_path(
            K, targets, C=sorted(set(C)), nu=sorted(set(nu)), tol=tol, **options
        ):
            yield number, result


def _kept_path(
    K: Floats, targets: Floats, *, n_jobs: int | None = None, **settings: Any
) -> Iterator[NuSVRResult]:
    arrays = kept_fit(
        ("nu_svr_path", __version__, K, targets, settings),
        lambda: _as_arrays(list(nu_svr_path(K, targets, n_jobs=n_jobs, **settings))),
        # Solving once more says what did not reach the tolerance.
        lambda arrays: bool((arrays["violation"] <= settings["tol"]).all()),
    )
    for values in zip(*(arrays[name] for name in _FIELDS), strict=True):
        yield NuSVRResult(*(value.item() if value.ndim == 0 else value for value in values))


def _as_arrays(results: list[NuSVRResult]) -> dict[str, NDArray[Any]]:
    """Results as arrays, one of each field."""
    return {
        name: np.stack([np.asarray(getattr(result, name)) for result in results])
        for name in _FIELDS
    }
