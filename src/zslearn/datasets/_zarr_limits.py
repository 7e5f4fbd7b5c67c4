"""What reading a Zarr array from outside may take: by what it declares, and by its chunks."""

from __future__ import annotations

import bz2
import lzma
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zslearn.datasets._limits import Budget

#: Codecs whose output can be far longer than their input.
_STREAMS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(47),
    "zlib": lambda: zlib.decompressobj(47),
    "bz2": bz2.BZ2Decompressor,
    "lzma": lzma.LZMADecompressor,
}
SWELLING = frozenset([*_STREAMS, "blosc", "lz4", "zstd"])
_METADATA = (".zarray", ".zattrs", ".zgroup", "zarr.json")
_BLOCK = 2**20
#: Filters may widen the numbers of a chunk, and put a checksum or a header beside them.
_WIDENED, _EXTRA = 8, 2**16


def check_array(array: Any, folder: Path, compressors: list[str]) -> None:
    """Refuse an array that takes too much memory for the size of its files.

    Parameters
    ----------
    array : zarr.Array
        The array, of which nothing was read yet.
    folder : Path
        Where its files lie.
    compressors : list of str
        Those of its codecs that compress.

    Raises
    ------
    FileLimitError
        It declares too much.
    ValueError
        A chunk unpacks to more than the array declares, or is compressed more than once.
    """
    files = [file for file in folder.rglob("*") if file.is_file()]
    budget = Budget(folder, file_size=sum(file.stat().st_size for file in files))
    if len(compressors) > 1:
        raise ValueError(f"{folder}: it is compressed more than once, which is not read.")
    item = array.dtype.itemsize
    chunk = math.prod(array.chunks) * item
    budget.check(math.prod(array.shape) * item)
    # A codec reads one buffer and writes another, and the numbers are copied out of it.
    budget.check(3 * chunk)
    if not compressors:
        return
    most = _WIDENED * chunk + _EXTRA
    for file in files:
        if file.name not in _METADATA and _unpacked_bytes(compressors[0], file, most) > most:
            raise ValueError(
                f"{folder}: the chunk {file.relative_to(folder)} unpacks to more than the array "
                "declares; it is damaged or made to do harm."
            )


def _unpacked_bytes(codec: str, file: Path, enough: int) -> int:
    """How long a chunk is once it is unpacked; counted no further than `enough`."""
    if codec in _STREAMS:
        return _stream_bytes(_STREAMS[codec](), file, enough)
    with open(file, "rb") as source:
        head = source.read(18)
    if codec == "lz4":
        return int.from_bytes(head[:4], "little")
    if codec == "blosc":
        return int.from_bytes(head[4:8], "little")
    return _zstd_bytes(head)


def _stream_bytes(stream: Any, file: Path, enough: int) -> int:
    length = 0
    with open(file, "rb") as source:
        while length <= enough and not stream.eof and (data := source.read(_BLOCK)):
            while data and length <= enough and not stream.eof:
                try:
                    length += len(stream.decompress(data, _BLOCK))
                except (OSError, EOFError, lzma.LZMAError, zlib.error):
                    return length  # reading it says what is wrong
                data = getattr(stream, "unconsumed_tail", b"")
                while not getattr(stream, "needs_input", True) and length <= enough:
                    length += len(stream.decompress(b"", _BLOCK))
    return length


def _zstd_bytes(head: bytes) -> int:
    """The length that the header of a Zstandard frame gives; 0 where it gives none."""
    if head[:4] != b"\x28\xb5\x2f\xfd" or len(head) < 6:
        return 0
    flags = head[4]
    is_single = bool(flags & 0x20)
    width = (1 if is_single else 0, 2, 4, 8)[flags >> 6]
    at = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    value = int.from_bytes(head[at : at + width], "little")
    return value + 256 if width == 2 else value
