"""Rows of a Zarr array, or of a group that holds one array of features and one of labels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from zslearn.datasets._limits import reason
from zslearn.datasets._row_files import RowFile, RowsAndLabels
from zslearn.datasets._zarr_limits import SWELLING, check_array
from zslearn.utils import import_optional, name_some

_METADATA = (".zarray", "zarr.json")
# What only moves, compresses or rounds numbers. Others might run code: "pickle" does.
_CODECS = frozenset(
    [
        "adler32",
        "astype",
        "bitround",
        "blosc",
        "bytes",
        "bz2",
        "crc32",
        "crc32c",
        "delta",
        "endian",
        "fixedscaleoffset",
        "fletcher32",
        "gzip",
        "lz4",
        "lzma",
        "packbits",
        "quantize",
        "shard_index",
        "sharding_indexed",
        "shuffle",
        "transpose",
        "zlib",
        "zstd",
    ]
)


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr array or group."""
    names = (*_METADATA, ".zgroup")
    return path.is_dir() and any((path / name).is_file() for name in names)


class ZarrRows(RowFile):
    """Rows of a Zarr array on disk.

    Parameters
    ----------
    path : Path
        The folder of an array, or of a group.
    features, label : str
        Names of the arrays in a group; that of the labels may be absent.
    """

    def __init__(self, path: Path, features: str, label: str) -> None:
        self.name = str(path)
        is_group = not any(_is_array(path / name) for name in _METADATA)
        inner = path / features if is_group else path
        if not any((inner / name).is_file() for name in _METADATA):
            raise ValueError(
                f"{path}: the group has no array {features!r}. Name it with features=…"
            )
        self._array = open_array(inner)
        self.shape, self.dtype = tuple(self._array.shape), np.dtype(self._array.dtype)
        self._labels = None
        if is_group and any((path / label / name).is_file() for name in _METADATA):
            self._labels = open_array(path / label)
            if tuple(self._labels.shape) != self.shape[:1]:
                raise ValueError(
                    f"{path}: {label!r} has shape {tuple(self._labels.shape)}, and there are "
                    f"{self.shape[0]} rows of features."
                )
        self.has_labels = self._labels is not None
        self._n_chunks = int(self._array.nchunks_initialized)

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        """Read whole chunks where they are not larger than a block."""
        chunk = max(1, int(self._array.chunks[0]))
        if length > chunk:
            length -= length % chunk
        first = start
        while first < self.shape[0]:
            # Back to the beginning of a chunk after a start in the middle.
            last = min(first + length - first % min(length, chunk), self.shape[0])
            labels = None if self._labels is None else self._slice(self._labels, first, last)
            yield self._slice(self._array, first, last), labels
            first = last
        # A chunk that is not there reads as zeros.
        if int(self._array.nchunks_initialized) != self._n_chunks:
            raise ValueError(f"{self.name}: chunks came or went while the array was being read.")

    def _slice(self, array: Any, first: int, last: int) -> Any:
        try:
            return np.asarray(array[first:last])
        # Each codec raises errors of its own.
        except Exception as error:
            raise ValueError(
                f"{self.name}: rows {first} to {last - 1} cannot be read ({reason(error)})."
            ) from error

    def identity(self) -> list[Any]:
        """Also how many chunks there are."""
        return [*super().identity(), self._n_chunks]


def array_names(path: Path) -> list[str]:
    """Names of the arrays in the folder of a group, sorted."""
    inner = [folder for folder in path.iterdir() if folder.is_dir()]
    return sorted(
        folder.name for folder in inner if any(_is_array(folder / name) for name in _METADATA)
    )


def _is_array(file: Path) -> bool:
    """Whether a file of metadata is there and is that of an array."""
    if not file.is_file():
        return False
    return file.name == ".zarray" or _read_json(file).get("node_type") == "array"


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: not whole, or no JSON ({reason(error)}).") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file}: not an object of JSON.")
    return content


def open_array(path: Path) -> Any:
    """Open an array whose codecs are known to be harmless, and whose chunks are not too large.

    Parameters
    ----------
    path : Path
        The folder of the array.

    Returns
    -------
    zarr.Array
        Of numbers or text.

    Raises
    ------
    ValueError
        It is damaged, asks for a codec that is not known, or takes too much memory.
    """
    files = [path / name for name in _METADATA if (path / name).is_file()]
    # Which of two the library would use is its own affair.
    if len(files) != 1:
        raise ValueError(
            f"{path}: an array has one of {' and '.join(_METADATA)}; not {len(files)}."
        )
    names = _codecs(_read_json(files[0]))
    unknown = sorted(set(names) - _CODECS)
    if unknown:
        raise ValueError(f"{path}: codecs that are not read: {name_some(unknown)}.")
    zarr = import_optional("zarr", "Reading Zarr arrays")
    try:
        array = zarr.open_array(str(path), mode="r")
        is_plain = np.dtype(array.dtype).kind in "biufU"
    except Exception as error:
        raise ValueError(f"{path}: the array cannot be opened ({reason(error)}).") from error
    if not is_plain:
        raise ValueError(f"{path}: an array of {array.dtype} is not read; give numbers.")
    # Inside of a shard each chunk is compressed by itself.
    is_sharded = "sharding_indexed" in names
    check_array(array, path, [] if is_sharded else [name for name in names if name in SWELLING])
    return array


def _codecs(metadata: dict[str, Any]) -> list[str]:
    """Names of all codecs that metadata asks for, those inside others too."""
    kinds = [metadata.get("codecs"), metadata.get("filters")]
    listed = [codec for kind in kinds if isinstance(kind, list) for codec in kind]
    names: list[str] = []
    for codec in [*listed, metadata.get("compressor")]:
        if isinstance(codec, str):
            codec = {"name": codec}
        if not isinstance(codec, dict):
            continue
        name = str(codec.get("name", codec.get("id", "")))
        names.append(name.removeprefix("numcodecs."))
        inside = codec.get("configuration")
        if isinstance(inside, dict):
            for key in ("codecs", "index_codecs"):
                names += _codecs({"codecs": inside.get(key)})
    return names
