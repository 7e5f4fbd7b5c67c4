"""Finished parts of long work, kept in a folder beside its result."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.features._archives import (
    array_json,
    json_array,
    read_archive,
    text_array,
    write_archive,
)
from zslearn.utils import DamagedFileError, read_checked_json, write_checked_json

#: Images of a part: what an interruption can cost.
PART_SIZE = 256


@dataclass(frozen=True, eq=False)
class Part:
    """Features of the images of a part that could be read, and why others could not."""

    X: NDArray[np.float32]
    rows: list[int]
    digests: list[str]
    skipped: dict[int, str]


class Parts:
    """Finished parts of one extraction.

    Parameters
    ----------
    out : Path
        The file that all parts become; they are kept in a folder of its name and ``.parts``.
    inputs : str
        What decides the features; parts of other inputs are removed.
    resume : bool
        Whether to use parts that are there.
    """

    def __init__(self, out: Path, inputs: str, *, resume: bool) -> None:
        self.folder = out.with_name(f"{out.name}.parts")
        self._state = self.folder / "inputs.json"
        try:
            same = read_checked_json(self._state).get("inputs") == inputs
        except (OSError, DamagedFileError):
            same = False
        if not (same and resume):
            self.remove()
            write_checked_json(self._state, {"inputs": inputs})

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.npz"

    def count(self, n_images: int) -> int:
        """How many images are done."""
        sizes = [min(PART_SIZE, n_images - start) for start in range(0, n_images, PART_SIZE)]
        return sum(size for i, size in enumerate(sizes) if self._path(i).is_file())

    def read(self, number: int, rows: Sequence[int]) -> Part | None:
        """A part that was kept, or None where there is none that is whole."""
        try:
            arrays = read_archive(self._path(number))
            part = Part(
                arrays["X"].astype(np.float32, copy=False),
                arrays["rows"].tolist(),
                arrays["digests"].tolist(),
                {int(row): str(reason) for row, reason in array_json(arrays["skipped"])},
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        is_whole = sorted([*part.rows, *part.skipped]) == list(rows)
        return part if is_whole and len(part.X) == len(part.rows) == len(part.digests) else None

    def write(self, number: int, part: Part) -> None:
        """Keep a part."""
        arrays: dict[str, NDArray[Any]] = {
            "X": part.X,
            "rows": np.asarray(part.rows, dtype=np.int64),
            "digests": text_array(part.digests),
            "skipped": json_array([[row, reason] for row, reason in part.skipped.items()]),
        }
        write_archive(self._path(number), arrays)

    def remove(self) -> None:
        """Remove what is kept, and the folder if nothing else is in it."""
        for path in (*self.folder.glob("part-*.npz"), self._state):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()
