"""Pieces of an analysis: each gives numbers, has a record of its own, and is computed once.

A piece is a method, a setting of the analysis (so many seen classes, so many phantoms, …) and a
seed. Its record is one of a run, with the setting as ``"variant"``: tables read it as they read any
other. A finished piece is not computed again; one that was stopped is not there.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning

from zslearn._utils._array import to_numpy
from zslearn._utils._files import fingerprint
from zslearn._utils._messages import name_some, warn_user
from zslearn._utils._progress import progress_bar
from zslearn._version import __version__
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.experiments._measure import circumstances
from zslearn.experiments._methods import Method, find_method
from zslearn.experiments._protocol import GRIDS, Protocol
from zslearn.experiments._records import RECORD_SCHEMA, check_record, read_record, write_record
from zslearn.experiments._runs import _as_seeds, _failure, _one_line, _slug
from zslearn.experiments._tuning import TuningOptions, tune_with_views
from zslearn.model_selection._search import GridEdgeWarning, ZeroShotSearchCV

# Settings of pieces as records name them, and the numbers of records as a table.


def write_value(value: Any) -> str:
    """A value of a setting as text; numbers as short as they can be."""
    is_float = isinstance(value, float)
    return f"{value:.6g}" if is_float else str(value)


def write_variant(variant: Mapping[str, Any]) -> str:
    """A setting as records name it: ``name=value`` joined by ``;``."""
    return ";".join(f"{name}={write_value(value)}" for name, value in variant.items())


def read_variant(text: str) -> dict[str, Any]:
    """The setting that a record names; numbers as numbers, "None" as None."""
    pairs = [part.partition("=") for part in text.split(";") if part]
    return {name: _read_value(value) for name, _, value in pairs}


def _read_value(text: str) -> Any:
    if text == "None":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def pieces_frame(paths: Iterable[Path | str]) -> pd.DataFrame:
    """Numbers of the records of an analysis."""
    rows = []
    for path in paths:
        record = read_record(Path(path))
        if "failed" in record:
            continue
        origin = {name: record.get(name, "") for name in ("dataset", "split", "semantic", "method")}
        setting = read_variant(record.get("variant", ""))
        rows += [
            {**origin, **setting, "seed": record["seed"], "metric": metric, "value": value}
            for metric, value in record["metrics"].items()
            if value is not None
        ]
    return pd.DataFrame(rows)


Say = Callable[[str], None]


class RunOptions(TypedDict, total=False):
    """How an analysis runs, whatever it analyses; see :class:`PieceRunner`."""

    grid: str
    n_splits: int
    resume: bool
    progress: bool
    n_jobs: int | None
    say: Say
    command: str | None


@dataclass(frozen=True, eq=False)
class Piece:
    """What is computed at once and kept in one record.

    Parameters
    ----------
    method : str
        Name of the row: a method, or what takes its place.
    seed : int
        Decides folds, and what is left to chance.
    compute : callable
        Gives the results for the record: ``"metrics"``, and whatever else it keeps.
    variant : mapping of str to object
        Setting of the analysis.
    depends : tuple
        What the results depend on beside the data, the method, the setting and the seed.
    semantic : str, optional
        Kind of signatures, where it is not that of the data set.
    """

    method: str
    seed: int
    compute: Callable[[], Mapping[str, Any]]
    variant: Mapping[str, Any] = field(default_factory=dict)
    depends: tuple[Any, ...] = ()
    semantic: str | None = None

    @property
    def label(self) -> str:
        """The piece in words."""
        setting = [f"{name} {write_value(value)}" for name, value in self.variant.items()]
        kind = [self.semantic] if self.semantic else []
        return ", ".join([self.method, *kind, *setting, f"seed {self.seed}"])


class PieceRunner:
    """Computes the pieces of an analysis of one data set, and tunes what they need.

    Parameters
    ----------
    analysis : str
        Name of the analysis.
    data : ZeroShotDataset
        With its active split.
    out : path
        Folder of the records; it is made.
    grid : str, default="quick"
        Which of the methods' grids is searched: "quick" is "fast" with at most three values of each
        hyper-parameter, the ends and the middle.
    n_splits : int, default=3
        Folds over the seen classes.
    resume : bool, default=True
        Whether finished pieces are kept.
    progress : bool, default=False
        Whether a bar is drawn.
    n_jobs : int, optional
        Folds at the same time.
    say : callable, optional
        Called with a line of text before each piece.
    command : str, optional
        What a person would type to have it again; records keep it.
    """

    def __init__(
        self,
        analysis: str,
        data: ZeroShotDataset,
        out: Path | str,
        *,
        grid: str = "quick",
        n_splits: int = 3,
        resume: bool = True,
        progress: bool = False,
        n_jobs: int | None = None,
        say: Say = lambda text: None,
        command: str | None = None,
    ) -> None:
        self.analysis = analysis
        self.data = data
        self.out = Path(out)
        if grid not in GRIDS:
            raise ValueError(f"There is no grid named {grid!r}; there are: {', '.join(GRIDS)}.")
        self.grid = grid
        self.protocol = Protocol("default", n_splits)
        self.resume = resume
        self.progress = progress
        self.n_jobs = n_jobs
        self.say = say
        self.command = command
        split = data.active_split
        self._data_key = fingerprint(
            to_numpy(data.X), data.y, data.signatures, split.train, split.test_unseen
        )
        self._searches: dict[str, ZeroShotSearchCV] = {}

    def tune(
        self,
        method: str | Method,
        seed: int,
        *,
        data: ZeroShotDataset | None = None,
        fixed: Mapping[str, Any] | None = None,
    ) -> ZeroShotSearchCV:
        """Tune a method on seen classes that are left out; once, however often it is asked for."""
        found = find_method(method) if isinstance(method, str) else method
        data = self.data if data is None else data
        fixed = dict(fixed or {})
        split = data.active_split
        key = fingerprint(
            self._data_key, data.signatures, split.train, found.definition(), fixed, seed, self.grid
        )
        if key not in self._searches:
            estimator = self.make(found, seed).set_params(**fixed)
            options = _WithoutSome(
                setting="zsl",
                grid=self.grid,
                cv=self.protocol.folds("zsl", len(data.seen_classes), seed),
                checkpoint=self._parts / key[:16],
                shared=self._parts / f"{key[:16]}-shared",
                n_jobs=self.n_jobs,
                not_searched=tuple(fixed),
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GridEdgeWarning)
                self._searches[key] = tune_with_views(found.tune, estimator, data, options)
        return self._searches[key]

    def make(self, method: str | Method, seed: int) -> Any:
        """A method with its defaults and a seed, not fitted."""
        found = find_method(method) if isinstance(method, str) else method
        return self.protocol.prepare(found.make(), seed)

    def refit(self, search: ZeroShotSearchCV, data: ZeroShotDataset, **parameters: Any) -> Any:
        """Fit the method a search chose on another training part, or with other parameters."""
        model = clone(search.estimator_).set_params(**parameters)
        return model.fit(data.X_train, data.y_train, signatures=data.signatures)

    @property
    def _parts(self) -> Path:
        return self.out / f".parts-{self.analysis}"

    def run(self, pieces: Iterable[Piece]) -> pd.DataFrame:
        """Compute what is not finished."""
        pieces = list(pieces)
        if not pieces:
            raise ValueError(f"Nothing to compute for {self.analysis}: no methods or no settings.")
        if not self.resume:
            shutil.rmtree(self._parts, ignore_errors=True)
        failed: list[str] = []
        paths = []
        with progress_bar(self.progress, len(pieces), self.analysis) as advance:
            for piece in pieces:
                path = self.path(piece)
                if not (self.resume and self._is_finished(piece, path)):
                    self.say(f"{self.analysis}: {piece.label}")
                    reason = self._write(piece, path)
                    failed += [] if reason is None else [f"{piece.label} ({reason})"]
                paths.append(path)
                advance(1)
        if len(failed) == len(pieces):
            raise ValueError(f"Every part of {self.analysis} failed: {name_some(failed, 3)}.")
        if failed:
            warn_user(
                f"Parts of {self.analysis} failed: {name_some(failed)}. Their records say why; "
                "running again with resume tries them again.",
                FitFailedWarning,
            )
        else:
            shutil.rmtree(self._parts, ignore_errors=True)
        return pieces_frame(paths)

    def path(self, piece: Piece) -> Path:
        """Where the record of a piece is."""
        data = self.data
        made = "" if data.split == "ns" else f"-{fingerprint(data.version)[:6]}"
        kind = [piece.semantic] if piece.semantic else []
        setting = [f"{name}-{write_value(value)}" for name, value in piece.variant.items()]
        where = [data.name, data.split + made, data.features]
        parts = [*where, self.analysis, piece.method, *kind, *setting, piece.seed]
        return self.out / f"{_slug(*parts)}.json"

    def _key(self, piece: Piece) -> str:
        method = piece.method
        try:
            definition: Any = find_method(method).definition()
        except ValueError:
            definition = method
        return fingerprint(
            self.analysis,
            self._data_key,
            definition,
            dict(piece.variant),
            piece.seed,
            piece.depends,
            piece.semantic,
            self.grid,
            self.protocol.definition("zsl"),
            __version__,
        )

    def _is_finished(self, piece: Piece, path: Path) -> bool:
        if not path.exists():
            return False
        try:
            record = read_record(path)
        except (ValueError, OSError) as error:
            warn_user(f"The record {path} is computed again: {_one_line(error)}.")
            return False
        return "failed" not in record and record.get("key") == self._key(piece)

    def _write(self, piece: Piece, path: Path) -> str | None:
        """Compute a piece and write its record; the reason where it failed."""
        origin = self._origin(piece)
        reason = None
        try:
            key = self._key(piece)
            found = origin | dict(piece.compute()) | circumstances() | {"key": key}
            record = json.loads(json.dumps(found))
            check_record(record)
        except Exception as error:
            reason = _one_line(error)
            record = origin | _failure(error) | circumstances()
        write_record(record, path)
        return reason

    def _origin(self, piece: Piece) -> dict[str, Any]:
        data = self.data
        semantic = data.semantic if piece.semantic is None else piece.semantic
        return {
            "schema": RECORD_SCHEMA,
            "analysis": self.analysis,
            "dataset": data.name,
            "split": data.split,
            "split_version": data.version,
            "features": data.features,
            **({"semantic": semantic} if semantic else {}),
            "method": piece.method,
            "setting": "zsl",
            "variant": write_variant(piece.variant),
            "protocol": "default",
            "grid": self.grid,
            "seed": piece.seed,
            **({} if self.command is None else {"command": self.command}),
        }


@dataclass(frozen=True)
class _WithoutSome(TuningOptions):
    """Options of a search that leaves some hyper-parameters as they were set."""

    not_searched: tuple[str, ...] = ()

    def grid_of(self, estimator: Any, *, without: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The values to search, without those that were set."""
        return super().grid_of(estimator, without=(*without, *self.not_searched))


def chosen_seeds(seeds: int | Sequence[int]) -> list[int]:
    """Seeds as a list of plain numbers, each once."""
    return _as_seeds(seeds, None)


def chosen_methods(methods: str | Sequence[str]) -> list[str]:
    """Known names of methods, each once; an unknown one is refused before anything is computed."""
    names = [methods] if isinstance(methods, str) else list(methods)
    if not names:
        raise ValueError("Name at least one method.")
    return list(dict.fromkeys(n if ":" in n else find_method(n).name for n in names))
