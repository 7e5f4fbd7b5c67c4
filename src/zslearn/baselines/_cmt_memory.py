"""A folder of CMT's trained first layers, so that methods that need the same train it once.

A file is called by a digest of all that its path of training depends on. It holds the weights after
some numbers of steps, plain numbers that cannot run code; one that cannot be read is as if it were
not there. What was taken from the folder is noted in it, with the seconds that training had taken.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zslearn.utils import Floats, fingerprint, replacing

# A folder grows no larger, in bytes.
_LARGEST = 2 << 30
_NOTES = "reused.txt"


class TrainedPath(NamedTuple):
    """First layers along one path of training.

    Parameters
    ----------
    layers : dict of int to ndarray of shape (n_hidden, n_weights)
        By the number of steps.
    n_iter : int
        Steps of the whole path.
    is_over : bool
        Whether it ended before all steps that were allowed: there are no later ones.
    seconds : float
        What training took.
    """

    layers: dict[int, Floats]
    n_iter: int
    is_over: bool
    seconds: float

    def reaches(self, stops: Collection[int]) -> bool:
        """Whether the network after each number of steps is known."""
        return all(stop in self.layers or (self.is_over and stop > self.n_iter) for stop in stops)


class NetworkMemory:
    """The place of one path of training in a folder.

    Parameters
    ----------
    folder : str
        It is made.
    *parts : object
        All that the path depends on.
    """

    def __init__(self, folder: str, *parts: object) -> None:
        self._folder = Path(folder)
        self._file = self._folder / f"{fingerprint('path of CMT 1', *parts)}.npz"

    def recall(self, stops: Collection[int]) -> TrainedPath | None:
        """The path, if it was kept and knows the networks after these numbers of steps."""
        path = self._read()
        if path is None or not path.reaches(stops):
            return None
        # Several processes may add a line at once: one short write each.
        with open(self._folder / _NOTES, "a", encoding="ascii") as notes:
            notes.write(f"{path.seconds:.6f}\n")
        return path

    def keep(self, path: TrainedPath) -> None:
        """Keep a path, unless the folder is full."""
        steps = sorted(path.layers)
        layers = np.stack([path.layers[step] for step in steps])
        taken = sum(file.stat().st_size for file in self._folder.glob("*.npz"))
        if taken + layers.nbytes > _LARGEST:
            return
        with replacing(self._file) as temporary, open(temporary, "wb") as file:
            np.savez(
                file, steps=np.asarray(steps), layers=layers, n_iter=np.asarray(path.n_iter),
                is_over=np.asarray(path.is_over), seconds=np.asarray(path.seconds),
            )  # fmt: skip

    def _read(self) -> TrainedPath | None:
        try:
            with np.load(self._file, allow_pickle=False) as file:
                layers = dict(zip(file["steps"].tolist(), file["layers"], strict=True))
                n_iter, is_over = int(file["n_iter"]), bool(file["is_over"])
                return TrainedPath(layers, n_iter, is_over, float(file["seconds"]))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None


def seconds_saved(folder: str) -> float:
    """What training took of all that was taken from a folder since the last call.

    Parameters
    ----------
    folder : str
        Of :class:`NetworkMemory`; it need not exist.

    Returns
    -------
    float
        Seconds.
    """
    notes = Path(folder) / _NOTES
    try:
        lines = notes.read_text(encoding="ascii").split()
        os.unlink(notes)
        return sum(map(float, lines))
    except (OSError, ValueError):
        return 0.0
