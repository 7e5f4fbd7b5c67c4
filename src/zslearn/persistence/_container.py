"""The file format: arrays as in safetensors, and a JSON text as the metadata entry "zslearn".

Before memory is allocated, safetensors checks the types and sizes of arrays, and that they fill the
file without gaps or overlaps; zslearn also checks the memory limit. The text contains a digest of
its other entries and of the name, type, shape and bytes of every array. It is the only metadata
entry, because safetensors does not preserve the order of several.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from zslearn._utils._files import atomic_write, regular_size
from zslearn._utils._messages import plain
from zslearn._utils._reading import Budget, unique_keys

#: Type of safetensors → dtype. Files are little-endian.
DTYPES = {
    "BOOL": np.dtype(np.bool_),
    **{f"U{8 * n}": np.dtype(f"<u{n}") for n in (1, 2, 4, 8)},
    **{f"I{8 * n}": np.dtype(f"<i{n}") for n in (1, 2, 4, 8)},
    **{f"F{8 * n}": np.dtype(f"<f{n}") for n in (2, 4, 8)},
}
# Maximum size of a header; readers of safetensors accept up to 100 MB.
_MAX_HEADER = 64 * 2**20
# Memory of the Python objects of a JSON text, per byte of text.
_MEMORY_PER_BYTE = 24
# Arrays from this size are mapped into memory, so that processes share them.
_MIN_MAPPED = 1 << 24
# Maximum number of values in a JSON text, each of which may take about 100 bytes of memory.
_MOST_VALUES = 4_000_000


class ModelFileError(ValueError):
    """A model file cannot be loaded; the message names the file and the reason."""


class BadContentError(ValueError):
    """The reason why a file cannot be loaded; the caller adds the name of the file."""


class CannotSaveError(TypeError):
    """A model contains an object that model files cannot; the message names it."""


class OpenFile(NamedTuple):
    """A file with a valid header, whose arrays are read on demand."""

    content: dict[str, Any]
    sha256: str
    tensors: Any
    budget: Budget
    file: Any

    def arrays(self) -> dict[str, dict[str, Any]]:
        """Type and shape of each array by name, without reading it."""
        found = {}
        for name in self.tensors.keys():  # noqa: SIM118
            array = self.tensors.get_slice(name)
            if array.get_dtype() not in DTYPES:
                raise BadContentError(f"its array {plain(name, 60)!r} has an unknown type")
            kind = DTYPES[array.get_dtype()].name
            found[name] = {"dtype": kind, "shape": array.get_shape()}
        return found

    def read_arrays(self, *, verify: bool = True) -> dict[str, NDArray[Any]]:
        """Read all arrays, and compare the digest; large ones are mapped into memory."""
        sizes = {}
        for name, declared in self.arrays().items():
            # An empty array may have a long axis, which results computed from it inherit.
            n_numbers = math.prod(max(n, 1) for n in declared["shape"])
            sizes[name] = n_numbers * np.dtype(declared["dtype"]).itemsize
            self.budget.check(sizes[name])
        arrays = self._mapped({name for name, n in sizes.items() if n >= _MIN_MAPPED})
        for name in sizes.keys() - arrays.keys():
            arrays[name] = self.tensors.get_tensor(name)
        if not verify:
            return arrays
        if _digest(self.content, arrays) != self.sha256:
            raise BadContentError(
                "its checksum does not match: it was damaged or changed after it was written"
            )
        for name, array in arrays.items():
            # Booleans are bytes of 0 or 1; NumPy treats others inconsistently.
            if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
                raise BadContentError(f"its array {plain(name, 60)!r} contains invalid booleans")
        return arrays

    def _mapped(self, names: set[str]) -> dict[str, NDArray[Any]]:
        """Map some arrays, in pages of which a process has a copy only if it writes to them."""
        if not names:
            return {}
        mapping = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_COPY)
        length = int.from_bytes(mapping[:8], "little")
        header = json.loads(mapping[8 : 8 + length])
        arrays: dict[str, NDArray[Any]] = {}
        for name in names:
            dtype, shape = DTYPES[header[name]["dtype"]], header[name]["shape"]
            start = 8 + length + header[name]["data_offsets"][0]
            numbers = np.frombuffer(mapping, dtype, math.prod(shape), start)
            arrays[name] = numbers.reshape(shape)
        return arrays


def write_file(path: Path, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a file atomically; arrays are C-contiguous, of the types in `DTYPES`."""
    text = _text({"sha256": _digest(content, arrays), **content})
    if len(text) > _MAX_HEADER // 2:
        raise ValueError(
            f"The header of the model file would exceed {_MAX_HEADER >> 21} MiB: pass large lists "
            "as arrays in extras=, not in about=."
        )
    with atomic_write(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode
        save_file(dict(arrays), temporary, metadata={"zslearn": text})
        # Restore the permissions of the umask; safetensors grants them to the owner only.
        temporary.chmod(mode)


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, allow_nan=False, separators=(",", ":"))


def _digest(content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of the content and of all arrays by name."""
    digest = hashlib.sha256(_text(content).encode())
    for name, array in sorted(arrays.items()):
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"\n{name!r} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@contextmanager
def open_file(path: Path) -> Iterator[OpenFile]:
    """Open a file and validate its header."""
    regular_size(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        budget = Budget(path, file_size=size)
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > size - 8:
            raise BadContentError(
                "it is not a model file or is incomplete: its header is longer than the file"
            )
        if length > _MAX_HEADER:
            raise BadContentError(f"its header exceeds {_MAX_HEADER >> 20} MiB")
        budget.check(size + _MEMORY_PER_BYTE * length)
        with _opened(path) as tensors:
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                yield _open_file(tensors, budget, file)
                return
    # The file was replaced while it was opened.
    with open_file(path) as replaced:
        yield replaced


def _open_file(tensors: Any, budget: Budget, file: Any) -> OpenFile:
    """Read the description in the header."""
    metadata = tensors.metadata() or {}
    if metadata.keys() != {"zslearn"}:
        raise BadContentError("it is not a model file: it lacks the metadata of zslearn")
    content = read_json(metadata["zslearn"], "its description")
    if not isinstance(content, dict):
        raise BadContentError("its description is not a JSON object")
    return OpenFile(content, str(content.pop("sha256", "")), tensors, budget, file)


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="np")
    except Exception as error:
        raise BadContentError(f"it is damaged or incomplete: {plain(error, 200)}") from error


def read_json(text: str, what: str) -> Any:
    """Read JSON without duplicate keys or NaN, of limited size and depth."""
    if sum(text.count(mark) for mark in ",[{") > _MOST_VALUES:
        raise BadContentError(f"{what} has more than {_MOST_VALUES:,} values")
    try:
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=_refuse_constant)
    except RecursionError:
        raise BadContentError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise BadContentError(f"{what} is not JSON ({plain(error, 200)})") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
