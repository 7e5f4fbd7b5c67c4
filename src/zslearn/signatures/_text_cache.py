"""Vectors of texts, kept between runs by the content of the text and of the encoder.

One encoder has sixteen files; the first digit of a text's digest says in which its vector is. So a
new text rewrites a sixteenth of what is kept. Files are whole or not there and carry a checksum;
one that is damaged is dropped, and its vectors are computed anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import (
    DamagedCacheError,
    cache_folder,
    plain,
    read_arrays,
    warn_user,
    write_arrays,
)

#: The most vectors in one file; of more, those that were added last are kept.
MAX_ROWS = 20_000
_DIGITS = "0123456789abcdef"


def text_key(text: str) -> str:
    """Digest of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class TextCache:
    """The vectors that one encoder gave to texts.

    Parameters
    ----------
    identity : str
        What names the encoder and its content: vectors of another identity are never read.
    """

    def __init__(self, identity: str) -> None:
        digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._folder = cache_folder() / "text" / digest

    def _path(self, digit: str) -> Path:
        return self._folder / f"{digit}.npz"

    def read(self, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Vectors that are kept, by key."""
        found: dict[str, NDArray[np.float32]] = {}
        for digit in sorted({key[0] for key in keys}):
            kept = self._read_file(digit)
            found.update((key, kept[key]) for key in keys if key in kept)
        return found

    def write(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep vectors, by key; where nothing can be written, say so and go on."""
        try:
            for digit in _DIGITS:
                new = {key: vector for key, vector in vectors.items() if key[0] == digit}
                if new:
                    self._write_file(digit, {**self._read_file(digit), **new})
        except OSError as error:
            warn_user(
                f"The vectors of texts were computed but not kept in {plain(self._folder)} "
                f"({error}). Name a folder that can be written by the environment variable "
                "ZSLEARN_CACHE."
            )

    def _read_file(self, digit: str) -> dict[str, NDArray[np.float32]]:
        try:
            arrays = read_arrays(self._path(digit))
            keys, vectors = arrays["keys"], arrays["vectors"]
        except (FileNotFoundError, DamagedCacheError, KeyError):
            return {}
        is_sound = (
            keys.dtype == np.uint8
            and keys.ndim == vectors.ndim == 2
            and keys.shape == (len(vectors), 32)
            and vectors.dtype == np.float32
            and np.isfinite(vectors).all()
        )
        if not is_sound:
            return {}
        return {key.tobytes().hex(): row for key, row in zip(keys, vectors, strict=True)}

    def _write_file(self, digit: str, vectors: dict[str, NDArray[np.float32]]) -> None:
        last = list(vectors.items())[-MAX_ROWS:]
        # Vectors of another width come from an encoder that changed under its name.
        width = len(last[-1][1])
        last = [(key, row) for key, row in last if len(row) == width]
        keys = np.frombuffer(b"".join(bytes.fromhex(key) for key, _ in last), dtype=np.uint8)
        rows = np.stack([row for _, row in last]).astype(np.float32)
        write_arrays(self._path(digit), {"keys": keys.reshape(-1, 32), "vectors": rows})
