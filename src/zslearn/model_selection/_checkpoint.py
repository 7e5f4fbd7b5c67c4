"""What a search has finished, on disk: whole files that only the same search reads."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zslearn.utils import Floats, replacing

_SECONDS = 5.0


class Checkpoint:
    """Finished settings of one fold.

    Parameters
    ----------
    folder : Path or None
        Where the file lies; None keeps nothing.
    fold : int
        Number of the fold.
    key : str
        Fingerprint of the search. A file of another search counts as absent.
    """

    def __init__(self, folder: Path | None, fold: int, key: str) -> None:
        self.path = None if folder is None else folder / f"fold-{fold}-{key[:16]}.json"
        self.key = key
        self.done: dict[int, dict[str, float]] = {}
        self._written = time.monotonic()
        if self.path is not None and self.path.exists():
            self.done = self._read(self.path)

    def _read(self, path: Path) -> dict[int, dict[str, float]]:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["key"] != self.key:
                return {}
            return {int(index): dict(scores) for index, scores in content["done"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # Not ours, or damaged: what it may have held is computed again.
            return {}

    def add(self, index: int, scores: dict[str, float]) -> None:
        """Keep what a setting gave; written now and then."""
        self.done[index] = scores
        if time.monotonic() - self._written > _SECONDS:
            self.write()

    def write(self) -> None:
        """Write all that is finished."""
        if self.path is None:
            return
        with replacing(self.path) as temporary:
            content = {"key": self.key, "done": {str(i): s for i, s in self.done.items()}}
            temporary.write_text(json.dumps(content), encoding="utf-8")
        self._written = time.monotonic()

    def table(self, n_settings: int, names: Sequence[str]) -> dict[str, Floats]:
        """What every setting gave, by name, in the order of the settings; NaN for none."""
        missing = float("nan")
        return {
            name: np.asarray([self.done.get(i, {}).get(name, missing) for i in range(n_settings)])
            for name in names
        }
