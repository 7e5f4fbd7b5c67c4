"""Fingerprints that tell whether two computations are the same, and fits kept under them.

``joblib.hash`` digests estimators with all that was fitted, functions by name alone and frames by
the layout of their blocks; here what decides a result counts: hyper-parameters, code and content.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from os import PathLike
from pathlib import Path
from types import CodeType
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import is_foreign, to_numpy
from zslearn._utils._files import DamagedCacheError, read_arrays, write_arrays


def fingerprint(*parts: Any) -> str:
    """A digest of what is given, by content.

    Arrays and frames count by what they hold; estimators by class and hyper-parameters; functions
    by name and code; mappings, sequences and sets item by item; what has a method
    ``fingerprint_parts()`` by what that gives; anything else by what `repr` says of it.
    """
    digest = hashlib.sha256()
    _add(digest, parts)
    return digest.hexdigest()


@functools.cache
def source_digest() -> str:
    """A digest of the package's source files: results kept by another source are not read."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _add(digest: Any, part: Any) -> None:
    digest.update(f"<{type(part).__module__}.{type(part).__qualname__} ".encode())
    if isinstance(part, np.ndarray) and part.dtype.kind != "O":
        digest.update(f"{part.dtype.str} {part.shape} ".encode())
        flat = np.ascontiguousarray(part).reshape(-1)
        digest.update(flat.view(np.uint8) if flat.dtype.itemsize else b"")
    elif isinstance(part, (set, frozenset)):
        # In an order that is the same in every process.
        digest.update("".join(sorted(fingerprint(item) for item in part)).encode())
    elif (items := _items(part)) is not None:
        for item in items:
            _add(digest, item)
    else:
        digest.update(repr(part).encode())
    digest.update(b">")


def _items(part: Any) -> Iterable[Any] | None:
    """What something is built from, piece by piece; None where `repr` says all of it."""
    if isinstance(part, np.ndarray):
        return [part.tolist()]
    if isinstance(part, pd.DataFrame):
        # What `repr` says of a long one leaves out its middle.
        values = [part.index.to_numpy(), part.columns.to_numpy(), part.to_numpy()]
        return [values, *(v for name, v in part.attrs.items() if name == "signature_scaling")]
    if isinstance(part, (pd.Series, pd.Index)):
        return [part.to_frame()]
    if isinstance(part, Mapping):
        return (item for pair in part.items() for item in pair)
    if isinstance(part, (list, tuple)):
        return part
    if is_foreign(part):
        return [to_numpy(part)]
    if isinstance(part, functools.partial):
        return [part.func, part.args, part.keywords]
    if inspect.isfunction(part):
        cells = [cell.cell_contents for cell in part.__closure__ or ()]
        code = _code(part.__code__)
        return [part.__module__, part.__qualname__, code, part.__defaults__, part.__kwdefaults__,
                cells]  # fmt: skip
    if inspect.isclass(part):
        return None
    if hasattr(part, "fingerprint_parts"):
        return [part.fingerprint_parts()]
    return [part.get_params(deep=False)] if hasattr(part, "get_params") else None


def _code(code: CodeType) -> list[Any]:
    """What a function does, and what functions do that it defines."""
    constants = [_code(c) if inspect.iscode(c) else c for c in code.co_consts]
    return [code.co_code, code.co_names, constants]


Arrays = dict[str, NDArray[Any]]

#: A folder holds no more than this, in bytes, and no fit that would push most others out.
MAX_FIT_BYTES = 1 << 31
_MOST_OF_ALL = 4
# Beside the arrays of a fit: the seconds that it took.
_SECONDS_KEY = "seconds to fit"


class FitCache:
    """A folder of fits, in use in this thread `with` it; None keeps nothing."""

    def __init__(self, folder: str | PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)
        # Fits that were read instead of computed, and the time that computing them had taken.
        self.n_read, self.seconds = 0, 0.0
        self._token: Token[FitCache | None] | None = None

    def __enter__(self) -> Self:
        self._token = _active.set(None if self.folder is None else self)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _active.reset(self._token)

    def get(
        self, parts: tuple[Any, ...], compute: Callable[[], Arrays], suits: Callable[[Arrays], bool]
    ) -> Arrays:
        """The arrays of a fit, read or computed; see :func:`cached_fit`."""
        assert self.folder is not None
        path = self.folder / f"fit-{fingerprint(source_digest(), *parts)[:40]}.npz"
        # What cannot be read is computed, as if it were not there.
        with contextlib.suppress(OSError, DamagedCacheError, KeyError):
            arrays = read_arrays(path, max_bytes=MAX_FIT_BYTES)
            seconds = float(arrays.pop(_SECONDS_KEY))
            if suits(arrays):
                with contextlib.suppress(OSError):  # it may be gone meanwhile, or not ours to touch
                    os.utime(path)
                self.seconds += seconds
                self.n_read += 1
                return arrays
        start = time.perf_counter()
        arrays = compute()
        took = np.asarray(time.perf_counter() - start)
        size = sum(array.nbytes for array in arrays.values())
        # Nothing but time is lost where the disk is full.
        with contextlib.suppress(OSError):
            if size <= MAX_FIT_BYTES // _MOST_OF_ALL:
                self._remove_oldest(size)
                write_arrays(path, arrays | {_SECONDS_KEY: took}, durable=False)
        return arrays

    def _remove_oldest(self, size: int) -> None:
        """Remove fits that were not used for longest until another one has its place."""
        assert self.folder is not None
        files = [(path.stat(), path) for path in self.folder.glob("fit-*.npz")]
        total = size + sum(found.st_size for found, _ in files)
        for found, path in sorted(files, key=lambda file: file[0].st_mtime_ns):
            if total <= MAX_FIT_BYTES:
                break
            path.unlink(missing_ok=True)
            total -= found.st_size


_active: ContextVar[FitCache | None] = ContextVar("fit_cache", default=None)


def cached_fit(
    parts: tuple[Any, ...],
    compute: Callable[[], Arrays],
    suits: Callable[[Arrays], bool] = lambda arrays: True,
) -> Arrays:
    """Read a fit where one of the same parts is kept; else compute it, and keep it."""
    cache = _active.get()
    return compute() if cache is None else cache.get(parts, compute, suits)


def cached_results(
    parts: tuple[Any, ...],
    solve: Callable[[], Iterable[Any]],
    names: Sequence[str],
    suits: Callable[[Arrays], bool] = lambda arrays: True,
) -> list[dict[str, Any]]:
    """Some attributes of each of several results, which are cached as one array of each."""

    def compute() -> Arrays:
        results = list(solve())
        return {name: np.stack([getattr(result, name) for result in results]) for name in names}

    arrays = cached_fit(parts, compute, suits)
    values = zip(*(arrays[name] for name in names), strict=True)
    return [
        {name: x if x.ndim else x.item() for name, x in zip(names, row, strict=True)}
        for row in values
    ]


def caches_fits(X: Any) -> bool:
    """Whether fits of these rows are kept now: those of NumPy's arrays."""
    return _active.get() is not None and isinstance(X, np.ndarray)
