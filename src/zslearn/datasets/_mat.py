"""Read numeric arrays, strings and cell arrays from MATLAB files.

SciPy reads versions 5 and 7, and h5py reads 7.3, which is HDF5. Declared sizes are checked before
memory is allocated; structures, objects, function handles and links to other files are refused.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray

from zslearn._utils._optional import import_optional
from zslearn._utils._reading import Budget, FileLimitError, reason

#: A variable: an array of numbers, a string, or a list of these for a cell array.
Value = NDArray[Any] | str | list[Any]

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
#: MATLAB's number classes → NumPy types.
_NUMBERS = {
    "double": "f8", "single": "f4", "logical": "u1",
    **{f"{sign}int{8 * n}": f"{sign or 'i'}{n}" for sign in ("", "u") for n in (1, 2, 4, 8)},
}  # fmt: skip
#: Bytes per item of each class; the rows of text that SciPy counts, and cells, are Python objects.
_WIDTHS = {**{kind: int(code[1]) for kind, code in _NUMBERS.items()}, "char": 160, "cell": 640}


class MatFileError(ValueError):
    """The file is not a MATLAB file, is damaged, or has an unsupported variable."""


def read_mat(path: Path, names: Collection[str]) -> dict[str, Value]:
    """Read the variables with these names that a MATLAB file of version 5, 7 or 7.3 has."""
    budget = Budget(path)
    with open(path, "rb") as file:
        head = file.read(520)
    is_hdf5 = head.startswith(_HDF5_SIGNATURE) or head[512:].startswith(_HDF5_SIGNATURE)
    if is_hdf5:
        h5py = import_optional("h5py", f"Reading {path.name}, a MATLAB file of version 7.3,")
    try:
        if not is_hdf5:
            return _read_v5(path, set(names), budget)
        with h5py.File(path, "r") as hdf5:
            found = [name for name in names if name in hdf5]
            for name in found:
                if not isinstance(hdf5.get(name, getlink=True), h5py.HardLink):
                    raise _refusal(name, "link")
            return {name: _hdf5_value(h5py, hdf5, hdf5[name], name, budget) for name in found}
    except FileLimitError:
        raise
    except MatFileError as error:
        raise MatFileError(f"{path}: {error}") from None
    # A damaged file can raise almost any error.
    except Exception as error:
        raise MatFileError(
            f"{path}: this is not a MATLAB file of version 5, 7 or 7.3, or it is damaged "
            f"({reason(error)}); download it again, and check that it is not a web page."
        ) from error


def _refusal(name: str, kind: str) -> MatFileError:
    return MatFileError(
        f"variable {name!r} is or contains a {kind}; only arrays of real numbers, strings and cell "
        "arrays of these are supported."
    )


def _read_v5(path: Path, names: set[str], budget: Budget) -> dict[str, Value]:
    listed = [item for item in scipy.io.whosmat(str(path)) if item[0] in names]
    for name, shape, kind in listed:
        if kind not in _WIDTHS:
            raise _refusal(name, kind)
        budget.take(_WIDTHS[kind] * math.prod(shape))
    if len({item[0] for item in listed}) != len(listed):
        raise MatFileError("a variable occurs twice: the file is damaged.")
    if not listed:
        return {}
    found = scipy.io.loadmat(str(path), variable_names=list(names))
    values: dict[str, Value] = {}
    for name, _, kind in listed:
        value = _plain(found[name], name)
        # MATLAB stores small integers in fewer bytes than their class.
        if isinstance(value, np.ndarray):
            value = value.astype(_NUMBERS[kind], copy=False)
        values[name] = value
    return values


def _plain(array: Any, name: str, *, inside_cell: bool = False) -> Value:
    """Convert an array from SciPy to numbers, a string, or a list in MATLAB's column order."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiubUO":
        kind = getattr(array, "dtype", None)
        raise _refusal(name, "complex number" if kind and kind.kind == "c" else "object")
    if array.dtype.kind == "U":
        rows = [str(row) for row in array.ravel()]
        return rows[0] if len(rows) == 1 else [row.rstrip() for row in rows] if rows else ""
    if array.dtype.kind != "O":
        return array
    if inside_cell:
        raise _refusal(name, "cell array inside another")
    return [_plain(item, name, inside_cell=True) for item in array.ravel(order="F")]


def _hdf5_value(
    h5py: Any, file: Any, item: Any, name: str, budget: Budget, *, inside_cell: bool = False
) -> Value:
    """Convert an HDF5 data set, which is transposed, to numbers, a string, or a list of cells."""
    if not isinstance(item, h5py.Dataset):
        raise _refusal(name, "structure, object or sparse matrix")
    kind = item.attrs.get("MATLAB_class", b"double")  # plain HDF5 has no class
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    if kind not in _WIDTHS or "MATLAB_object_decode" in item.attrs:
        raise _refusal(name, kind[:40])
    check_hdf5_size(item, name, budget)
    if item.attrs.get("MATLAB_empty"):  # it stores its shape
        shape = tuple(int(side) for side in np.ravel(item[()]))
        if 0 not in shape or min(shape) < 0 or len(shape) > 8:
            raise MatFileError(
                f"variable {name!r} is empty but has an invalid shape: damaged file."
            )
        return "" if kind == "char" else [] if kind == "cell" else np.empty(shape)
    if kind == "cell":
        if item.dtype != h5py.ref_dtype or inside_cell:
            raise _refusal(name, "cell array inside another, or without references")
        budget.take(_WIDTHS["cell"] * item.size)
        return [
            _hdf5_value(h5py, file, file[reference], name, budget, inside_cell=True)
            for reference in item[()].flat
        ]
    if item.dtype.kind not in "fiub":
        raise _refusal(name, f"{kind} of {item.dtype}")
    if kind != "char":
        return item[()].T
    if item.ndim != 2 or item.dtype.kind != "u":
        raise _refusal(name, f"{kind} of {item.dtype}")
    budget.take(16 * item.size)
    codes = np.ascontiguousarray(item[()].T, dtype="<u2")
    rows = [row.tobytes().decode("utf-16-le", errors="replace") for row in codes]
    return rows[0] if len(rows) == 1 else [row.rstrip() for row in rows]


def check_hdf5_size(item: Any, name: str, budget: Budget) -> None:
    """Raise if an HDF5 array is stored in another file or declares too large a size."""
    if item.external is not None or item.is_virtual:
        raise MatFileError(f"variable {name!r} is stored in another file, which is not read.")
    if item.shape is None:
        raise MatFileError(f"variable {name!r} has no shape: the file is damaged.")
    budget.take(math.prod(item.shape) * item.dtype.itemsize)  # item.size may overflow
    if item.chunks is not None:
        # A filter decodes one buffer into another, and the library keeps the last chunk.
        budget.check(3 * math.prod(item.chunks) * item.dtype.itemsize)
