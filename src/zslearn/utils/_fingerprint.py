"""Digests that tell whether two computations are the same."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Mapping
from types import CodeType
from typing import Any

import numpy as np
import pandas as pd

from zslearn.utils._array import is_foreign, to_numpy


def fingerprint(*parts: Any) -> str:
    """A digest of what is given, by content.

    Arrays and frames count by what they hold; estimators by class and hyper-parameters; functions
    by name and code; mappings, sequences and sets item by item; what has a method
    ``fingerprint_parts()`` by what that gives; anything else by what `repr` says of it.

    Parameters
    ----------
    *parts : object
        What the computation depends on.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    _add(digest, parts)
    return digest.hexdigest()


def _add(digest: Any, part: Any) -> None:
    digest.update(f"<{type(part).__module__}.{type(part).__qualname__} ".encode())
    if isinstance(part, np.ndarray) and part.dtype.kind != "O":
        digest.update(f"{part.dtype.str} {part.shape} ".encode())
        digest.update(_bytes(part))
    elif isinstance(part, np.ndarray):
        _add(digest, part.tolist())
    elif isinstance(part, pd.DataFrame):
        # What `repr` says of a long one leaves out its middle.
        _add(digest, [part.index.to_numpy(), part.columns.to_numpy(), part.to_numpy()])
    elif isinstance(part, (pd.Series, pd.Index)):
        _add(digest, part.to_frame())
    elif isinstance(part, Mapping):
        for key, value in part.items():
            _add(digest, key)
            _add(digest, value)
    elif isinstance(part, (list, tuple)):
        for item in part:
            _add(digest, item)
    elif isinstance(part, (set, frozenset)):
        # In an order that is the same in every process.
        digest.update("".join(sorted(fingerprint(item) for item in part)).encode())
    elif is_foreign(part):
        _add(digest, to_numpy(part))
    elif isinstance(part, functools.partial):
        _add(digest, [part.func, part.args, part.keywords])
    elif hasattr(part, "fingerprint_parts") and not inspect.isclass(part):
        _add(digest, part.fingerprint_parts())
    elif hasattr(part, "get_params") and not inspect.isclass(part):
        _add(digest, part.get_params(deep=False))
    elif inspect.isfunction(part):
        cells = [cell.cell_contents for cell in part.__closure__ or ()]
        _add(digest, [part.__module__, part.__qualname__, *_code(part.__code__)])
        _add(digest, [part.__defaults__, part.__kwdefaults__, cells])
    else:
        digest.update(repr(part).encode())
    digest.update(b">")


def _bytes(array: np.ndarray[Any, Any]) -> Any:
    """What an array holds, without a copy where that can be."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8) if flat.dtype.itemsize else b""


def _code(code: CodeType) -> list[Any]:
    """What a function does, and what functions do that it defines."""
    constants = [c for c in code.co_consts if not inspect.iscode(c)]
    inner = [_code(c) for c in code.co_consts if inspect.iscode(c)]
    return [code.co_code, code.co_names, constants, *inner]
