"""What a search has finished, on disk: whole files that only the same search reads.

A file carries a checksum. One that is damaged or was edited, or whose scores cannot be scores, is
passed over with a warning, and what it held is computed again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zslearn.utils import (
    DamagedFileError,
    Floats,
    is_share,
    read_checked_json,
    warn_once,
    warn_user,
    write_checked_json,
)

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
    n_settings : int
        How many settings the search has.
    names : iterable of str
        What every setting must have a number of.
    fractions : iterable of str
        Those of them that lie between 0 and 1.
    """

    def __init__(
        self,
        folder: Path | None,
        fold: int,
        key: str,
        *,
        n_settings: int,
        names: Iterable[str],
        fractions: Iterable[str] = (),
    ) -> None:
        self.path = None if folder is None else folder / f"fold-{fold}-{key[:16]}.json"
        self.key = key
        self.done: dict[int, dict[str, float]] = {}
        self._n_settings = n_settings
        self._names, self._fractions = frozenset(names), frozenset(fractions)
        self._written = time.monotonic()
        if self.path is not None:
            self.done = self._read(self.path)

    def _read(self, path: Path) -> dict[int, dict[str, float]]:
        try:
            content = read_checked_json(path)
            if content.get("key") != self.key:
                return {}
            return self._checked(content.get("done"))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, DamagedFileError) as error:
            warn_user(f"Passed over the checkpoint {path}: {error}. Its scores are computed again.")
            return {}

    def _checked(self, done: Any) -> dict[int, dict[str, float]]:
        """Scores by setting, each in its range; DamagedFileError where they are not."""
        if not isinstance(done, dict):
            raise DamagedFileError("'done' is not an object")
        checked: dict[int, dict[str, float]] = {}
        settings = {str(index) for index in range(self._n_settings)}
        for word, scores in done.items():
            if word not in settings:
                raise DamagedFileError(f"there is no setting {word[:20]!r}")
            if not isinstance(scores, dict) or not scores.keys() >= self._names:
                raise DamagedFileError(f"setting {word} lacks scores")
            checked[int(word)] = {name: self._number(name, v) for name, v in scores.items()}
        return checked

    def _number(self, name: str, value: Any) -> float:
        """A score; what was NaN is written as null."""
        if value is None:
            return math.nan
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise DamagedFileError(f"{name!r:.60} is {value!r:.60}, not a number")
        if name in self._fractions and not is_share(value):
            raise DamagedFileError(f"{name!r:.60} is {value!r:.60}, not between 0 and 1")
        try:
            return float(value)
        except OverflowError:
            raise DamagedFileError(f"{name!r:.60} is too large a number") from None

    def refresh(self) -> None:
        """Also take what another process has finished since, as one that was killed."""
        if self.path is not None:
            self.done = self._read(self.path) | self.done

    def add(self, index: int, scores: dict[str, float]) -> None:
        """Keep what a setting gave; written now and then."""
        self.done[index] = scores
        if time.monotonic() - self._written > _SECONDS:
            self.write()

    def write(self) -> None:
        """Write all that is finished; a search goes on without a checkpoint if it cannot."""
        if self.path is None:
            return
        done = {
            str(index): {name: None if math.isnan(v) else v for name, v in scores.items()}
            for index, scores in self.done.items()
        }
        try:
            write_checked_json(self.path, {"key": self.key, "done": done})
        except OSError as error:
            # Of the folder: every fold has a file there, and meets the same.
            warn_once(
                f"Could not write checkpoints to {self.path.parent} "
                f"({error.strerror or type(error).__name__}). The search goes on; if it is "
                "stopped, it starts anew."
            )
        self._written = time.monotonic()

    def table(self, n_settings: int, names: Sequence[str]) -> dict[str, Floats]:
        """What every setting gave, by name, in the order of the settings; NaN for none."""
        missing = float("nan")
        return {
            name: np.asarray([self.done.get(i, {}).get(name, missing) for i in range(n_settings)])
            for name in names
        }
