"""What is said of a file that is no good."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._files import replacing
from zslearn._utils._messages import plain
from zslearn.datasets._files import Budget


class ModelFileError(ValueError):
    """A model file cannot be used: the text names the file, says why and what to do."""


class BadContentError(ValueError):
    """What is wrong with a file, without its name, which whoever opened the file adds."""


class CannotSaveError(TypeError):
    """A model holds something that a model file cannot: the text says what, and where."""


# JSON from files that are not trusted: no duplicates, no NaN, of a size that can be.

#: Values in a text of JSON at most. Each may take some 100 bytes of memory.
MOST_VALUES = 4_000_000


def write_json(value: Any) -> str:
    """Compact JSON in ASCII; NaN and infinity are a ValueError."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def read_json(text: str, what: str) -> Any:
    """Read JSON strictly."""
    if sum(text.count(mark) for mark in ",[{") > MOST_VALUES:
        raise BadContentError(f"{what} has more than {MOST_VALUES:,} values")
    try:
        return json.loads(
            text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
        )
    except BadContentError as error:
        raise BadContentError(f"{what} {error}") from None
    except RecursionError:
        raise BadContentError(f"{what} is nested too deep") from None
    except ValueError as error:
        raise BadContentError(f"{what} is no JSON ({plain(error, 200)})") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise BadContentError(f"has the key {plain(twice, 60)!r} twice")
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise BadContentError(f"has {name}, which is no number of JSON")


# The file itself: arrays and one text, in the format of safetensors.
#
# Eight bytes give the length of a header of JSON; the header names each array with its type, its
# shape and its place in the bytes that follow, and has texts under ``__metadata__``:
#
# * ``sha256``: digest of the whole file with these 64 digits written as zeros. It comes first, so
#   that its place in the file is always the same;
# * ``format``: "zslearn";
# * ``zslearn``: a text, here of JSON, that says what the arrays are.
#
# Reading takes nothing on trust: types are of a closed list, sizes follow from shapes, and
# arrays lie
# one after another without gap or overlap to the last byte, before memory is taken for any of
# them.

#: Type of safetensors → dtype. Files are little-endian.
DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype("<u1"),
    "I8": np.dtype("<i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

_METADATA = "__metadata__"
_FORMAT = "zslearn"
_PREFIX = b'{"__metadata__":{"sha256":"'
_DIGITS = 64
_NO_DIGEST = b"0" * _DIGITS
#: Bytes of a header at most; readers of safetensors take up to 100 MB.
MAX_HEADER = 64 * 2**20
_MOST_ARRAYS = 100_000
_MOST_AXES = 32
# Texts of JSON become objects of Python, which take more memory than their text.
_MEMORY_PER_BYTE = 24


class Entry(NamedTuple):
    """An array as a header declares it."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


class Container(NamedTuple):
    """The header of an open file, checked."""

    file: BinaryIO
    text: str
    sha256: str
    entries: list[Entry]
    header: bytes

    def read_arrays(self) -> dict[str, NDArray[Any]]:
        """Every array by name; the digest is compared on the way."""
        digest = hashlib.sha256(_without_digest(self.header))
        arrays = {}
        for entry in self.entries:
            array = np.empty(entry.shape, dtype=entry.dtype)
            view = _bytes_of(array)
            if self.file.readinto(view) != len(view):  # type: ignore[attr-defined]
                raise BadContentError("it ends in the middle: it was not copied whole")
            digest.update(view)
            arrays[entry.name] = array
        if digest.hexdigest() != self.sha256:
            raise BadContentError(
                "its checksum does not match: it was damaged or changed after it was written"
            )
        for name, array in arrays.items():
            _refuse_odd_booleans(name, array)
        return arrays


def write_container(path: Path, text: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a file, whole or not at all."""
    # The widest first, so that each begins at a multiple of its width.
    order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    table: dict[str, Any] = {
        _METADATA: {"sha256": _NO_DIGEST.decode(), "format": _FORMAT, _FORMAT: text}
    }
    begin = 0
    for name in order:
        array = arrays[name]
        end = begin + array.nbytes
        kind = _NAMES[array.dtype.newbyteorder("<")]
        table[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    content = write_json(table).encode("ascii")
    content += b" " * (-len(content) % 8)
    if len(content) > MAX_HEADER:
        raise ValueError(
            f"The header of the model file would take {len(content) >> 20} MiB, more than "
            f"{MAX_HEADER >> 20}: give large lists as arrays in extras=, not in about=."
        )
    header = len(content).to_bytes(8, "little") + content
    digest = hashlib.sha256(header)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(header)
        for name in order:
            view = _bytes_of(arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False))
            digest.update(view)
            file.write(view)
        file.seek(8 + len(_PREFIX))
        file.write(digest.hexdigest().encode("ascii"))


@contextmanager
def open_container(path: Path) -> Iterator[Container]:
    """Open a file and check its header; arrays are read on demand."""
    # Nobody waits for the other end of a pipe.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadContentError("it is a folder, no model file")
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadContentError("it is no plain file")
        yield _read_header(path, file, os.fstat(descriptor).st_size)


def _read_header(path: Path, file: BinaryIO, file_size: int) -> Container:
    start = file.read(8)
    if len(start) < 8:
        raise BadContentError("it is no model file: it is too short for a header")
    length = int.from_bytes(start, "little")
    if length > file_size - 8:
        raise BadContentError(
            "it is no model file, or not all of one: its header is longer than the file"
        )
    if length > MAX_HEADER:
        raise BadContentError(f"its header takes more than {MAX_HEADER >> 20} MiB")
    Budget(path).check(file_size + _MEMORY_PER_BYTE * length)
    content = file.read(length)
    if len(content) < length:
        raise BadContentError("it ends in the middle: it was not copied whole")
    if not content.startswith(_PREFIX):
        raise BadContentError("it is no model file: its header does not begin as zslearn writes it")
    try:
        table = read_json(content.decode("utf-8"), "its header")
    except UnicodeDecodeError:
        raise BadContentError("its header is no text") from None
    # Its first bytes say that it is an object.
    metadata = table.pop(_METADATA)
    if metadata.keys() != {"sha256", "format", _FORMAT} or metadata["format"] != _FORMAT:
        raise BadContentError("its header names another format than zslearn's")
    if not all(isinstance(value, str) for value in metadata.values()):
        raise BadContentError("its header has something else than text in its metadata")
    if len(table) > _MOST_ARRAYS:
        raise BadContentError(f"it names more than {_MOST_ARRAYS:,} arrays")
    entries = [_entry(name, said) for name, said in table.items()]
    _refuse_gaps(entries, file_size - 8 - length)
    text, digest = metadata[_FORMAT], metadata["sha256"]
    return Container(file, text, digest, _in_order(entries), start + content)


def _entry(name: str, said: Any) -> Entry:
    """What a header says of an array, if it can be."""
    shown = plain(name, 60)
    if not isinstance(said, dict) or said.keys() != {"dtype", "shape", "data_offsets"}:
        raise BadContentError(f"array {shown!r} is not described by dtype, shape and data_offsets")
    kind, shape, offsets = said["dtype"], said["shape"], said["data_offsets"]
    if not isinstance(kind, str) or kind not in DTYPES:
        raise BadContentError(f"array {shown!r} is of an unknown type, {plain(kind, 30)}")
    if not _are_sizes(shape) or len(shape) > _MOST_AXES:
        raise BadContentError(f"array {shown!r} has no proper shape")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise BadContentError(f"array {shown!r} has no proper place in the file")
    # In whole numbers of Python, which do not overflow; an empty array may not claim huge sides.
    size = DTYPES[kind].itemsize
    for side in shape:
        size *= max(side, 1)
    if size > 2**62 or (0 not in shape and size != offsets[1] - offsets[0]):
        raise BadContentError(f"array {shown!r} has a shape that does not fit its bytes")
    if 0 in shape and offsets[0] != offsets[1]:
        raise BadContentError(f"array {shown!r} has a shape that does not fit its bytes")
    return Entry(name, DTYPES[kind], tuple(shape), *offsets)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**62 for v in values)


def _in_order(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (entry.begin, entry.end))


def _refuse_gaps(entries: list[Entry], n_bytes: int) -> None:
    """Arrays lie one after another, from the first byte to the last."""
    at = 0
    for entry in _in_order(entries):
        if entry.begin != at:
            kind = "overlap" if entry.begin < at else "leave a gap"
            raise BadContentError(f"its arrays {kind} at {plain(entry.name, 60)!r}")
        at = entry.end
    if at > n_bytes:
        raise BadContentError("it ends in the middle: it was not copied whole")
    if at < n_bytes:
        raise BadContentError(f"{n_bytes - at} bytes follow after its last array")


def _refuse_odd_booleans(name: str, array: NDArray[Any]) -> None:
    """A boolean is a byte of 0 or 1; others would count as neither or both."""
    if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise BadContentError(f"array {plain(name, 60)!r} has booleans that are none")


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _without_digest(header: bytes) -> bytes:
    """The first bytes of a file, with zeros in the place of its digest."""
    at = 8 + len(_PREFIX)
    return header[:at] + _NO_DIGEST + header[at + _DIGITS :]
