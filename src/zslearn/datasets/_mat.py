"""MATLAB files, as far as they hold plain arrays and strings, and nothing else.

Two formats carry the ending ``.mat``: version 5 (and its compressed form, 7), which is read here
from its published description, and 7.3, which is HDF5. Both can hold far more than arrays:
structures, objects, function handles, links to other files. What is read is named here; whatever
is not is refused with one :class:`MatFileError`. Nothing is ever evaluated, and no more memory is
taken than a limit that goes by the size of the file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection
from pathlib import Path

from zslearn.datasets._limits import Budget, FileLimitError, reason
from zslearn.datasets._mat_hdf5 import read_hdf5
from zslearn.datasets._mat_v5 import read_v5
from zslearn.datasets._mat_values import MatFileError, Value
from zslearn.utils import import_optional

__all__ = ["MatFileError", "Value", "read_mat"]

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def read_mat(
    path: str | os.PathLike[str], names: Collection[str], *, max_bytes: int | None = None
) -> dict[str, Value]:
    """Read some variables of a MATLAB file of version 5, 7 or 7.3.

    Parameters
    ----------
    path : str or path
        The file.
    names : collection of str
        The variables to read. The others are skipped, whatever they are.
    max_bytes : int or None, default=None
        The most memory that reading may take, in bytes. None: what ``limit_reading`` or the
        environment variable ``ZSLEARN_MAX_BYTES`` says, else 64 times the size of the file and
        64 MiB.

    Returns
    -------
    dict
        Those of `names` that the file holds. Arrays have MATLAB's shape; they may be read-only.

    Raises
    ------
    MatFileError
        The file is foreign, truncated or damaged, or a variable is not an array of real numbers,
        a string, or a cell array of those.
    FileLimitError
        The file would take more memory than `max_bytes`.
    OSError
        The file cannot be opened.
    ImportError
        The file is of version 7.3 and h5py is not installed.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from zslearn.datasets._mat import read_mat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "small.mat"
    ...     savemat(path, {"a": np.eye(2), "names": np.array(["x", "yz"], dtype=object)})
    ...     read_mat(path, {"a", "names", "absent"})
    {'a': array([[1., 0.],
           [0., 1.]]), 'names': ['x', 'yz']}
    """
    path = Path(path)
    with open(path, "rb") as file:
        budget = Budget(path, max_bytes)
        head = file.read(520)
        is_hdf5 = head.startswith(_HDF5_SIGNATURE) or head[512:].startswith(_HDF5_SIGNATURE)
        if is_hdf5:
            h5py = import_optional("h5py", f"Reading {path.name}, a MATLAB file of version 7.3,")
        try:
            if is_hdf5:
                return read_hdf5(h5py, path, names, budget)
            order = _byte_order(head)
            file.seek(128)
            return read_v5(file, order, names, budget)
        except FileLimitError:
            raise
        except MatFileError as error:
            raise MatFileError(f"{path}: {error}") from None
        # A damaged file can raise nearly anything, and the answer is always the same.
        except Exception as error:
            raise MatFileError(
                f"{path}: the file is damaged ({reason(error)}); get it again."
            ) from error


def _byte_order(head: bytes) -> str:
    if len(head) < 128:
        raise MatFileError(
            f"{len(head)} bytes are too few for a MATLAB file; the file is truncated or of another "
            "kind."
        )
    order = {b"IM": "<", b"MI": ">"}.get(head[126:128])
    if order is None or struct.unpack(order + "H", head[124:126])[0] >> 8 != 1:
        raise MatFileError(
            "this is no MATLAB file of version 5, 7 or 7.3; save it in one of these (in MATLAB: "
            "save -v7), or check that the download is the file and not a web page."
        )
    return order
