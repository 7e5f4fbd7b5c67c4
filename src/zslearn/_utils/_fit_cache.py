"""Fingerprints of computations, and a cache of fits by fingerprint.

``joblib.hash`` includes fitted attributes of estimators, hashes functions only by name and
DataFrames by the layout of their blocks. These fingerprints depend only on what determines a
result: hyper-parameters, code and content.
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
    """A digest of the content of the arguments.

    Arrays and DataFrames are hashed by content, estimators by class and hyper-parameters, functions
    by name and code, containers by their items, objects with a method ``fingerprint_parts()`` by
    its result, and all others by their `repr`.
    """
    digest = hashlib.sha256()
    _add(digest, parts)
    return digest.hexdigest()


@functools.cache
def source_digest() -> str:
    """A digest of the package's source files; results of other versions are not reused."""
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
        # The order must be the same in every process.
        digest.update("".join(sorted(fingerprint(item) for item in part)).encode())
    elif (items := _items(part)) is not None:
        for item in items:
            _add(digest, item)
    else:
        digest.update(repr(part).encode())
    digest.update(b">")


def _items(part: Any) -> Iterable[Any] | None:
    """The parts of an object that determine it; None if its `repr` does."""
    if isinstance(part, np.ndarray):
        return [part.tolist()]
    if isinstance(part, pd.DataFrame):
        # The `repr` of a long DataFrame is abbreviated.
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
    """The code of a function and of the functions that it defines."""
    constants = [_code(c) if inspect.iscode(c) else c for c in code.co_consts]
    return [code.co_code, code.co_names, constants]


Arrays = dict[str, NDArray[Any]]

#: Maximum size of a cache folder in bytes, of which one fit may use at most a fraction.
MAX_FIT_BYTES = 1 << 31
_MAX_FIT_FRACTION = 4
# Key of the fitting time among the arrays of a fit.
_SECONDS_KEY = "seconds to fit"


class FitCache:
    """A cache of fits in a folder, used by this thread within the context; None disables it."""

    def __init__(self, folder: str | PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)
        # Number of fits that were read instead of computed, and the time saved.
        self.n_read, self.seconds = 0, 0.0
        self._token: Token[FitCache | None] | None = None

    def __enter__(self) -> Self:
        self._token = _active.set(None if self.folder is None else self)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _active.reset(self._token)


_active: ContextVar[FitCache | None] = ContextVar("fit_cache", default=None)


def cached_fit(
    parts: tuple[Any, ...],
    compute: Callable[[], Arrays],
    suits: Callable[[Arrays], bool] = lambda arrays: True,
) -> Arrays:
    """Read the fit with these parts from the active cache, or compute and cache it."""
    cache = _active.get()
    if cache is None or cache.folder is None:
        return compute()
    path = cache.folder / f"fit-{fingerprint(source_digest(), *parts)[:40]}.npz"
    # Unreadable files are treated as missing.
    with contextlib.suppress(OSError, DamagedCacheError, KeyError):
        arrays = read_arrays(path, max_bytes=MAX_FIT_BYTES)
        seconds = float(arrays.pop(_SECONDS_KEY))
        if suits(arrays):
            with contextlib.suppress(OSError):  # removed in the meantime, or not writable
                os.utime(path)
            cache.seconds += seconds
            cache.n_read += 1
            return arrays
    start = time.perf_counter()
    arrays = compute()
    took = np.asarray(time.perf_counter() - start)
    size = sum(array.nbytes for array in arrays.values())
    # A full disk only costs time.
    with contextlib.suppress(OSError):
        if size <= MAX_FIT_BYTES // _MAX_FIT_FRACTION:
            _make_room(cache.folder, size)
            write_arrays(path, arrays | {_SECONDS_KEY: took}, durable=False)
    return arrays


def _make_room(folder: Path, size: int) -> None:
    """Remove the least recently used fits to make room for another one."""
    files = [(path.stat(), path) for path in folder.glob("fit-*.npz")]
    total = size + sum(status.st_size for status, _ in files)
    for status, path in sorted(files, key=lambda file: file[0].st_mtime_ns):
        if total <= MAX_FIT_BYTES:
            break
        path.unlink(missing_ok=True)
        total -= status.st_size


def cached_results(
    parts: tuple[Any, ...],
    solve: Callable[[], Iterable[Any]],
    names: Sequence[str],
    suits: Callable[[Arrays], bool] = lambda arrays: True,
) -> list[dict[str, Any]]:
    """Attributes of several results, each of which is cached as one array."""

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
    """Whether a cache is active for fits of these rows, which must be a NumPy array."""
    return _active.get() is not None and isinstance(X, np.ndarray)
