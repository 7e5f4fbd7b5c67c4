"""Word vectors in files: word2vec's text and binary format, GloVe's text, gensim's own.

A file is read once from its start to its end, and only the words that are wanted are kept.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import import_optional, plain, progress_bar, replacing

_MAX_WIDTH = 100_000
#: A line of text, or a word in a binary file, that is longer is none.
_MAX_LINE, _MAX_WORD = 1 << 24, 1 << 16
_PICKLE, _GZIP = b"\x80", b"\x1f\x8b"
_KINDS = ("word2vec", "word2vec-binary", "glove", "gensim")
_MEBIBYTE = 1 << 20
#: What a compressed file may unpack to: a multiple of its size, and this much beside.
_MULTIPLE, _BESIDE = 64, 64 * _MEBIBYTE


@dataclass(frozen=True, eq=False)
class WordVectors(Mapping[str, NDArray[np.float32]]):
    """Vectors of words, by word.

    Parameters
    ----------
    words : list of str
        The words, each once.
    vectors : ndarray of shape (n_words, n_dimensions)
        One row per word.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.signatures import WordVectors
    >>> found = WordVectors(["cat", "dog"], np.array([[1.0, 0.0], [0.9, 0.1]]))
    >>> found["dog"]
    array([0.9, 0.1], dtype=float32)
    """

    words: list[str]
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        vectors = np.asarray(self.vectors, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(self.words):
            raise ValueError(
                f"vectors has shape {vectors.shape} for {len(self.words)} words; give one row per "
                "word."
            )
        place: dict[str, int] = {}
        for i, word in enumerate(self.words):
            place.setdefault(word, i)
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "_place", place)

    def __getitem__(self, word: str) -> NDArray[np.float32]:
        return self.vectors[self._place[word]]  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return len(self._place)  # type: ignore[attr-defined]


def read_word_vectors(
    path: str | os.PathLike[str],
    needed: Collection[str] | None = None,
    *,
    kind: str | None = None,
    trusted: bool = False,
    progress: bool = False,
) -> WordVectors:
    r"""Read word vectors from a file.

    Parameters
    ----------
    path : path
        A file in word2vec's text or binary format, in GloVe's text format, or of gensim's
        KeyedVectors; the first three may be compressed with gzip.
    needed : collection of str or None, default=None
        The words to keep; None keeps all.
    kind : {"word2vec", "word2vec-binary", "glove", "gensim"} or None, default=None
        The format; None finds it out from the first bytes.
    trusted : bool, default=False
        Whether gensim may read its own file. Such a file is a pickle, which can run any code: say
        so only of a file that you have written yourself. Files of the other formats cannot.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    WordVectors
        Words in the order of the file. Of a word that is there twice the first vector is kept.

    Raises
    ------
    ValueError
        The file is of none of these formats, damaged, or has vectors of different widths; the line
        is named.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from zslearn.signatures import read_word_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "vectors.txt"
    ...     _ = path.write_text("cat 1 0 0.5\ndog 0.9 0.1 0.5\n")
    ...     found = read_word_vectors(path, ["dog"])
    >>> list(found), found.vectors.shape
    (['dog'], (1, 3))
    """
    path = Path(path)
    if kind is not None and kind not in _KINDS:
        raise ValueError(f"kind={kind!r}; there are {', '.join(map(repr, _KINDS))}.")
    kind = kind or _guess(path)
    wanted = None if needed is None else set(needed)
    if kind == "gensim":
        return _read_gensim(path, wanted, trusted)
    read = {"word2vec": _read_text, "glove": _read_text, "word2vec-binary": _read_binary}[kind]
    with _opened(path) as (file, raw), _progress(path, raw, progress) as advance:
        try:
            words, rows = read(file, path, wanted, advance, kind == "word2vec")
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{plain(path)}: the compressed file is damaged ({error}).") from error
    vectors = np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)
    if not np.isfinite(vectors).all():
        bad = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise ValueError(f"{plain(path)}: the vector of {words[bad]!r} has NaN or infinity.")
    return WordVectors(words, vectors)


def save_word_vectors(vectors: WordVectors, path: str | os.PathLike[str]) -> None:
    """Write word vectors in word2vec's format, whole or not at all.

    Parameters
    ----------
    vectors : WordVectors
        What to write.
    path : path
        The file; binary where it ends in ``.bin``, else text.

    Raises
    ------
    ValueError
        A word has spaces in it that would be read as something else.
    """
    path = Path(path)
    for word in vectors.words:
        if not _can_be_written(word, is_binary=path.suffix == ".bin"):
            raise ValueError(
                f"{plain(path)}: the word {plain(word, 60)!r} would not be read as it is, because "
                "of the spaces in it or around it. Write underscores in their place."
            )
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(f"{len(vectors.words)} {vectors.vectors.shape[1]}\n".encode())
        for word, row in zip(vectors.words, vectors.vectors, strict=True):
            if path.suffix == ".bin":
                file.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")
            else:
                file.write(f"{word} {' '.join(str(value) for value in row)}\n".encode())


def _can_be_written(word: str, *, is_binary: bool) -> bool:
    """Whether a word can be told from what stands beside it in a file."""
    parts = word.split(" ")
    has_other_space = any(part != "".join(part.split()) or not part for part in parts)
    is_number = len(parts) > 1 and _numbers([parts[1].encode()]) is not None
    return not (has_other_space or is_number or (is_binary and len(parts) > 1))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file as it reads, and the one on disk below, which knows how far it is."""
    with open(path, "rb") as raw:
        start = raw.read(2)
        raw.seek(0)
        if start == _GZIP:
            with gzip.open(raw) as unpacked:
                yield _Unpacked(unpacked, path), raw  # type: ignore[misc]
        else:
            yield raw, raw


class _Unpacked:
    """A compressed file as it reads, up to a multiple of its size: zeros can go on for long."""

    def __init__(self, file: gzip.GzipFile, path: Path) -> None:
        self._file, self._path = file, path
        self._left = _MULTIPLE * path.stat().st_size + _BESIDE

    def readline(self, size: int) -> bytes:
        return self._counted(self._file.readline(size))

    def read(self, size: int) -> bytes:
        return self._counted(self._file.read(size))

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(
                f"{plain(self._path)} unpacks to more than {_MULTIPLE} times its size, as no word "
                "vectors do. If you trust it, unpack it first."
            )
        return data


@contextmanager
def _progress(path: Path, raw: IO[bytes], shown: bool) -> Iterator[Callable[[], None]]:
    done = 0
    total = max(1, path.stat().st_size // _MEBIBYTE)
    with progress_bar(shown, total, "MiB of word vectors") as advance:

        def to_here() -> None:
            nonlocal done
            now = min(total, raw.tell() // _MEBIBYTE)
            advance(now - done)
            done = now

        yield to_here


def _guess(path: Path) -> str:
    """The format of a file, by its first bytes."""
    with _opened(path) as (file, _):
        try:
            first = file.readline(_MAX_LINE)
            rest = file.read(1 << 16)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{plain(path)}: the file cannot be read ({error}).") from error
    if first[:1] == _PICKLE:
        return "gensim"
    if not first:
        raise ValueError(f"{plain(path)} is empty.")
    if re.fullmatch(rb"\s*\d{1,18}\s+\d{1,18}\s*", first):
        width = int(first.split()[1])
        line = rest.partition(b"\n")[0].split()
        return (
            "word2vec"
            if len(line) > width and _numbers(line[-width:]) is not None
            else ("word2vec-binary")
        )
    fields = first.split()
    if len(fields) > 2 and _numbers(fields[-2:]) is not None:
        return "glove"
    raise ValueError(
        f"{plain(path)} is no file of word vectors that is known: word2vec's text and binary "
        "format, GloVe's text, and gensim's KeyedVectors are read."
    )


def _numbers(fields: list[bytes]) -> NDArray[np.float32] | None:
    try:
        return np.array([float(field) for field in fields], dtype=np.float32)
    except ValueError:
        return None


def _read_header(file: IO[bytes], path: Path) -> tuple[int, int]:
    fields = file.readline(200).split()
    try:
        n_words, width = (int(field) for field in fields)
    except ValueError:
        raise ValueError(
            f"{plain(path)}: the first line must give the number of words and the width."
        ) from None
    if not (n_words >= 1 and 1 <= width <= _MAX_WIDTH):
        raise ValueError(f"{plain(path)} announces {n_words} words of {width} numbers.")
    return n_words, width


def _read_text(
    file: IO[bytes],
    path: Path,
    wanted: set[str] | None,
    advance: Callable[[], None],
    has_header: bool,
) -> tuple[list[str], list[NDArray[np.float32]]]:
    n_words, width = _read_header(file, path) if has_header else (0, 0)
    found: dict[str, NDArray[np.float32]] = {}
    number = int(has_header)
    n_lines = 0
    while line := file.readline(_MAX_LINE):
        number += 1
        if not number % 10_000:
            advance()
        line = line.strip(b" \r\n\t")
        if not line:
            continue
        n_lines += 1
        fields = line.split(b" ") if b"\t" not in line else line.split()
        width = width or len(fields) - 1
        if not width:
            raise ValueError(f"{plain(path)}: line {number} has a word and no numbers.")
        word = fields[0]
        # A few words of GloVe's have spaces in them.
        if len(fields) > width + 1 and _numbers(fields[1:2]) is None:
            word = b" ".join(fields[:-width])
        elif len(fields) != width + 1:
            raise ValueError(
                f"{plain(path)}: line {number} has {len(fields) - 1} numbers and the others "
                f"{width}; vectors must be of one width."
            )
        name = word.decode("utf-8", "replace")
        if name in found or (wanted is not None and name not in wanted):
            continue
        row = _numbers(fields[-width:])
        if row is None:
            raise ValueError(f"{plain(path)}: line {number} has something that is no number.")
        found[name] = row
    if has_header and n_lines != n_words:
        raise ValueError(
            f"{plain(path)} announces {n_words} words and has {n_lines}: it is not whole."
        )
    return list(found), list(found.values())


def _read_binary(
    file: IO[bytes],
    path: Path,
    wanted: set[str] | None,
    advance: Callable[[], None],
    has_header: bool,
) -> tuple[list[str], list[NDArray[np.float32]]]:
    n_words, width = _read_header(file, path)
    found: dict[str, NDArray[np.float32]] = {}
    # What was read and not yet used begins at `at`.
    data, at, size = b"", 0, 4 * width
    for number in range(n_words):
        if not number % 10_000:
            advance()
        while (end := data.find(b" ", at)) < 0 or len(data) < end + 1 + size:
            more = file.read(max(_MEBIBYTE, size))
            data, at = data[at:] + more, 0
            if not more or (b" " not in data[:_MAX_WORD]):
                raise ValueError(
                    f"{plain(path)} announces {n_words} words of {width} numbers and ends, or "
                    f"makes no sense, after {number}: it is not whole."
                )
        name = data[at:end].lstrip(b"\n").decode("utf-8", "replace")
        if name not in found and (wanted is None or name in wanted):
            found[name] = np.frombuffer(data, "<f4", width, end + 1).astype(np.float32)
        at = end + 1 + size
    if (data[at:] + file.read(_MEBIBYTE)).strip(b"\n"):
        raise ValueError(
            f"{plain(path)} announces {n_words} words of {width} numbers and goes on behind them: "
            "it is damaged."
        )
    return list(found), list(found.values())


def _read_gensim(path: Path, wanted: set[str] | None, trusted: bool) -> WordVectors:
    if not trusted:
        raise ValueError(
            f"{plain(path)} is a pickle, as gensim saves its KeyedVectors; reading one can run any "
            "code. If you have written it yourself, say trusted=True; else ask for the vectors in "
            "word2vec's format (KeyedVectors.save_word2vec_format)."
        )
    models = import_optional("gensim.models", "Reading gensim's KeyedVectors")
    return from_gensim(models.KeyedVectors.load(str(path), mmap="r"), wanted)


def from_gensim(vectors: Any, wanted: Collection[str] | None = None) -> WordVectors:
    """The words of a gensim KeyedVectors, all or those that are wanted."""
    vectors = getattr(vectors, "wv", vectors)
    words = [word for word in vectors.index_to_key if wanted is None or word in wanted]
    rows = [vectors.key_to_index[word] for word in words]
    return WordVectors(words, np.array(vectors.vectors[rows], dtype=np.float32))
