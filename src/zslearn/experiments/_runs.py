"""Runs: methods tuned and measured on a data set, one record each, resumed where they stopped."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from numbers import Integral
from pathlib import Path
from threading import Lock
from typing import Any, cast

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend
from sklearn.exceptions import FitFailedWarning

from zslearn._utils._array import to_numpy
from zslearn._utils._files import fingerprint
from zslearn._utils._messages import name_some, plain, warn_user
from zslearn._utils._processes import end_with_parent, shared_threads
from zslearn._utils._progress import progress_bar
from zslearn._version import __version__
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.experiments._examples import save_examples
from zslearn.experiments._measure import circumstances, tune_and_measure, untested_classes
from zslearn.experiments._methods import Method, find_method
from zslearn.experiments._protocol import GRIDS, PROTOCOLS, Protocol, authors_protocol, named_grid
from zslearn.experiments._records import RECORD_SCHEMA, check_record, read_record, write_record
from zslearn.experiments._summary import is_class_split
from zslearn.experiments._tuning import TuningOptions, tune_at_once

# The runs of a benchmark: which there are, their names, and what can be known beforehand.


@dataclass(frozen=True, eq=False)
class Run:
    """One method on one split, in one setting, with one seed.

    `label` says which, as far as the runs of one call differ; `data_key` is a digest of the data.
    """

    data: ZeroShotDataset
    name: str
    method: Method
    setting: str
    seed: int
    grid: str
    protocol: Protocol
    out: Path
    shared: Path
    label: str
    data_key: str

    @property
    def slug(self) -> str:
        """A file name that tells the run; the default protocol goes without saying.

        A split other than "ns" can be made in several ways, from published or random lists of
        classes and with any hold-out: a digest of its version tells them apart.
        """
        data, protocol = self.data, self.protocol.name
        made = "" if data.split == "ns" else f"-{fingerprint(data.version)[:6]}"
        parts = [
            data.name,
            data.split + made,
            data.features,
            *([data.semantic] if data.semantic else []),
            self.name,
            self.setting,
            self.grid,
            self.seed,
        ]
        return _slug(*parts, *([] if protocol == "default" else [protocol]))

    @property
    def path(self) -> Path:
        """The record."""
        return self.out / f"{self.slug}.json"

    @property
    def parts(self) -> Path:
        """Where finished settings of its search are kept."""
        return self.out / f".parts-{self.slug}"

    def key(self) -> str:
        """A digest of all that the record depends on."""
        return fingerprint(
            self.data_key,
            self.method.definition(),
            self.setting,
            self.grid,
            self.protocol.definition(self.setting),
            self.seed,
            __version__,
        )

    def check(self) -> None:
        """Raise an error where it is known beforehand that the run must fail."""
        estimator = self.method.make()
        if self.method.tune is tune_at_once:
            named_grid(estimator, self.grid)
        if self.method.check is not None:
            self.method.check(self.data)

    def is_finished(self) -> bool:
        """Whether there is a record of this very run; a damaged one is named."""
        if not self.path.exists():
            return False
        try:
            record = read_record(self.path)
        except (ValueError, OSError) as error:
            reason = " ".join(str(error).split())
            warn_user(f"The record {self.path} is computed again: {reason}.")
            return False
        return "failed" not in record and record.get("key") == self.key()

    def origin(self) -> dict[str, Any]:
        """What a record says of the run before its results."""
        return {
            "schema": RECORD_SCHEMA,
            "dataset": self.data.name,
            "split": self.data.split,
            "split_version": self.data.version,
            "features": self.data.features,
            **({"semantic": self.data.semantic} if self.data.semantic else {}),
            "method": self.method.name,
            "setting": self.setting,
            "protocol": self.protocol.name,
            "seed": self.seed,
            "grid": self.grid,
        }


def chosen_splits(data: ZeroShotDataset, splits: str | Sequence[str] | None) -> list[str]:
    """Names of splits, each once; "ss" may stand for every class split."""
    words = [data.split] if splits is None else [splits] if isinstance(splits, str) else splits
    chosen: list[str] = []
    for word in words:
        class_splits = [name for name in data.splits if is_class_split(name)]
        chosen += class_splits if word == "ss" and word not in data.splits else [word]
    if not chosen:
        raise ValueError(f"{data.name} has no class splits; it has {', '.join(data.splits)}.")
    return list(dict.fromkeys(chosen))


def check_measurable(data: ZeroShotDataset, settings: Sequence[str]) -> None:
    """Refuse a setting that the active split cannot measure."""
    if "gzsl" not in settings:
        return
    where = f"{data.name}, split {data.split!r}"
    if not len(data.active_split.test_seen):
        raise ValueError(
            f"{where}, has no test images of seen classes, which the generalized setting needs: "
            "hold some out when it is loaded (hold_out=0.2; on the command line --hold-out 0.2), "
            "or ask for the setting zsl alone."
        )
    if untested := untested_classes(data):
        raise ValueError(
            f"{where}, has no test images of these classes: {name_some(untested)}; the generalized "
            "setting measures every described class. Leave them out of the signatures, hold out "
            "an image of each, or ask for the setting zsl alone."
        )


def _protocol_of(
    protocol: str | Protocol,
    data: ZeroShotDataset,
    settings: Sequence[str],
    n_splits: int | None,
    authors: str | os.PathLike[str] | None,
) -> Protocol:
    """The protocol for one split."""
    if isinstance(protocol, Protocol):
        if protocol.name in PROTOCOLS and not protocol.is_authors:
            raise ValueError(f"The name {protocol.name!r} is taken; call your protocol otherwise.")
        if n_splits is not None:
            raise ValueError("A Protocol has its own number of folds: n_splits is not for it.")
        return protocol
    if protocol == "default":
        return Protocol("default") if n_splits is None else Protocol("default", n_splits)
    if protocol != "authors":
        raise ValueError(f"There is no protocol {protocol!r}; there are: {', '.join(PROTOCOLS)}.")
    if n_splits is not None:
        raise ValueError("The authors' protocol has five folds: n_splits is not for it.")
    return authors_protocol(data, authors, hold_out="gzsl" in settings)


def plan_runs(
    parts: Sequence[ZeroShotDataset],
    named: dict[str, Method],
    settings: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    protocol: str | Protocol,
    grid: str | None,
    n_splits: int | None,
    authors: str | os.PathLike[str] | None,
) -> Iterator[Run]:
    """Every run, in the order in which they are computed."""
    if isinstance(protocol, Protocol) and protocol.is_for_one_split and len(parts) > 1:
        names = name_some([part.split for part in parts])
        raise ValueError(
            f"The class_order and the rows held_out of the protocol {protocol.name!r} are those of "
            f"one split, but there are several: {names}. Run each split with its own Protocol."
        )
    protocols = [_protocol_of(protocol, part, settings, n_splits, authors) for part in parts]
    chosen_grid = grid or protocols[0].grid
    if chosen_grid not in GRIDS:
        raise ValueError(f"There is no grid named {chosen_grid!r}; there are: {', '.join(GRIDS)}.")
    # The data themselves are the same for every split, and large.
    whole = fingerprint(to_numpy(parts[0].X), parts[0].y, parts[0].signatures)
    for part, of_part in zip(parts, protocols, strict=True):
        split = part.active_split
        data_key = fingerprint(whole, split.train, split.test_seen, split.test_unseen)
        for seed in seeds:
            # Not that of another run into the same folder, which may end before this one. The
            # settings of this run share theirs.
            of_run = list(named), list(settings), chosen_grid, seed
            identity = (*of_run, of_part.definition("zsl"))
            shared = fingerprint(data_key, *identity)
            where = [part.split] if len(parts) > 1 else []
            where += [f"seed {seed}"] if len(seeds) > 1 else []
            for setting, name in product(settings, named):
                yield Run(
                    data=part,
                    name=name,
                    method=named[name],
                    setting=setting,
                    seed=seed,
                    grid=chosen_grid,
                    protocol=of_part,
                    out=out,
                    shared=out / f".parts-shared-{shared[:12]}",
                    label=", ".join([name, setting, *where]),
                    data_key=data_key,
                )


def _slug(*parts: Any) -> str:
    """A file name that tells the parts and differs when they do."""
    plain = "_".join(re.sub(r"[^A-Za-z0-9.-]+", "-", str(part)).strip("-") for part in parts)
    return plain if plain == "_".join(map(str, parts)) else f"{plain}_{fingerprint(*parts)[:6]}"


# Several runs at a time, each in a process of its own.
#
# The folds of one search fill two processes badly: five folds take three rounds, and the fit at
# the
# end is one process's work. Runs fill them, as long as there are many more runs than processes.

_logger = logging.getLogger("zslearn")
# With fewer runs for each process the last ones would leave most processes idle.
_RUNS_PER_PROCESS = 2

#: Computes a run with so many processes for its folds, with or without a bar; the reason where it
#: failed.
Compute = Callable[[Run, int | None, bool], str | None]


@dataclass
class Outcome:
    """What came of a run in another process.

    Parameters
    ----------
    number : int
        Which run.
    reason : str or None, default=None
        Why it failed.
    warnings : list of Warning
        What it warned of.
    lines : list of LogRecord
        What it logged.
    """

    number: int
    reason: str | None = None
    warnings: list[Warning] = field(default_factory=list)
    lines: list[logging.LogRecord] = field(default_factory=list)


def n_lanes(n_runs: int, n_jobs: int | None) -> int:
    """How many runs to compute at a time."""
    if n_jobs in (None, 1) or type(get_active_backend()[0]).__name__ != "LokyBackend":
        return 1
    lanes: int = joblib.effective_n_jobs(n_jobs)
    return lanes if n_runs >= _RUNS_PER_PROCESS * lanes else 1


def side_by_side(
    runs: Sequence[Run], compute: Compute, lanes: int, begin: Callable[[Run], None]
) -> Iterator[tuple[Run, str | None]]:
    """Compute runs in processes, each of which goes on with the next run when it is done.

    A run that can read what another one has fitted waits for the first such run to end, as long as
    there are others to compute.
    """
    queue = _Queue(runs)

    def tasks() -> Iterator[Any]:
        while (number := queue.take()) is not None:
            begin(runs[number])
            yield joblib.delayed(_in_a_process)(
                number, runs[number], compute, lanes, os.getpid(), _logger.getEffectiveLevel()
            )

    parallel = joblib.Parallel(
        n_jobs=lanes, return_as="generator_unordered", batch_size=1, pre_dispatch=lanes
    )
    try:
        with warnings.catch_warnings():
            # joblib renews a process whose memory grew, loses nothing by it, and warns.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            for outcome in parallel(tasks()):
                queue.end(outcome.number)
                _say(outcome)
                yield runs[outcome.number], outcome.reason
    except TerminatedWorkerError as error:
        reason = str(error).partition("\n")[0]
        warn_user(f"A process was ended from outside ({reason}); the runs left go on one by one.")


class _Queue:
    """Runs that have not begun, and which of them had better wait."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._left = list(range(len(runs)))
        self._running: set[int] = set()
        # What a run has fitted that others read.
        self._fitted: set[tuple[Any, ...]] = set()
        # joblib takes the next run in a thread of its own.
        self._lock = Lock()

    def take(self) -> int | None:
        """The number of the next run; None where all have begun."""
        with self._lock:
            if not self._left:
                return None
            coming = {fit for number in self._running for fit in self._fits(number)} - self._fitted
            free = (number for number in self._left if not coming & self._fits(number))
            chosen = next(free, self._left[0])
            self._left.remove(chosen)
            self._running.add(chosen)
            return chosen

    def end(self, number: int) -> None:
        """A run has ended; what it fitted can be read."""
        with self._lock:
            self._running.discard(number)
            self._fitted |= self._fits(number)

    def _fits(self, number: int) -> set[tuple[Any, ...]]:
        run = self._runs[number]
        return {(name, run.setting, run.shared) for name in run.method.shares}


def _in_a_process(
    number: int, run: Run, compute: Compute, lanes: int, caller: int, level: int
) -> Outcome:
    end_with_parent(caller, child=True)
    with (
        warnings.catch_warnings(record=True) as caught,
        _collected_lines(level) as lines,
        shared_threads(lanes),
    ):
        warnings.simplefilter("default")
        reason = compute(run, 1, False)
    said = [warning.message for warning in caught if isinstance(warning.message, Warning)]
    return Outcome(number, reason, said, lines)


@contextmanager
def _collected_lines(level: int) -> Iterator[list[logging.LogRecord]]:
    """What is logged inside, instead of being shown."""
    lines: list[logging.LogRecord] = []
    handler = logging.Handler()

    def keep(record: logging.LogRecord) -> None:
        # Arguments may be anything; the line is text.
        record.msg, record.args, record.exc_info = record.getMessage(), None, None
        lines.append(record)

    handler.emit = keep  # type: ignore[method-assign]
    before = _logger.level, _logger.propagate
    _logger.addHandler(handler)
    _logger.setLevel(level)
    _logger.propagate = False
    try:
        yield lines
    finally:
        _logger.removeHandler(handler)
        _logger.level, _logger.propagate = before


def _say(outcome: Outcome) -> None:
    """Log and warn here what was said in the process."""
    for line in outcome.lines:
        if _logger.isEnabledFor(line.levelno):
            _logger.handle(line)
    for warning in outcome.warnings:
        warn_user(str(warning), type(warning))


_SETTINGS = ("zsl", "gzsl")

Say = Callable[[str], None]


def run_benchmark(
    data: ZeroShotDataset,
    methods: str | Sequence[str],
    out: str | os.PathLike[str],
    *,
    settings: Sequence[str] = ("zsl", "gzsl"),
    splits: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] = (0,),
    protocol: str | Protocol = "default",
    grid: str | None = None,
    n_splits: int | None = None,
    seed: int | None = None,
    authors: str | os.PathLike[str] | None = None,
    resume: bool = True,
    n_jobs: int | None = None,
    progress: bool = False,
    command: str | None = None,
    say: Say = lambda text: None,
) -> list[Path]:
    """Tune, fit and measure methods on a data set, and write one record for each.

    Every method is tuned by leaving out seen classes of the training part, fitted on all of that
    part, and then measured on the test parts: once for each split, seed and setting. A record is
    written when it is finished, whole or not at all. A finished one is not computed again, and
    inside an unfinished one the search goes on where it was stopped. A record that is damaged, or
    that was changed after it was written, is computed again with a warning.

    A method that fails does not end the run: a record that says why takes the place of its record,
    the others go on, and a `FitFailedWarning` at the end names what failed. The next run with
    `resume` tries it again. See :func:`failed_runs`. What is known beforehand to fail is said
    before anything is tuned.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set, with its active split.
    methods : str or sequence of str
        Names in `METHODS`, or of methods of one's own; see :func:`find_method`.
    out : str or path
        Folder of the records; it is made.
    settings : sequence of {"zsl", "gzsl"}
        Conventional, generalized, or both. Each is tuned for itself.
    splits : str or sequence of str, optional
        Names of splits of the data set; by default its active one. "ss" is all of "ss-1", "ss-2",
        … where there is no split of that name.
    seeds : int or sequence of int
        Each decides the folds, and what a method leaves to chance.
    protocol : {"default", "authors"} or Protocol
        How methods are tuned; see :class:`Protocol` and :func:`authors_protocol`.
    grid : {"fast", "paper", "paper-googlenet", "quick"}, optional
        Which of the methods' grids; by default that of the protocol: "fast", or "paper" for
        "authors". "quick" is a part of "fast", for a first look.
    n_splits : int, optional
        Folds over the seen classes; by default those of the protocol, five.
    seed : int, optional
        The same as `seeds` with one seed.
    authors : str or path, optional
        Folder of the authors' files, for the protocol "authors".
    resume : bool
        Whether what is finished is kept.
    n_jobs : int, optional
        Processes. Where there are many runs, each computes one; else they compute the folds of one
        run after another. Records are the same.
    progress : bool
        Whether searches draw a bar.
    command : str, optional
        What a person would type to run the same again; records keep it for the report.
    say : callable
        Called with a line of text before each run, and after one that failed.

    Returns
    -------
    list of Path
        The records, in the order of splits, seeds, settings and methods; those of failed runs too.

    Raises
    ------
    ValueError
        A name is unknown, the protocol has nothing for the data, or the generalized setting is
        asked for on a split without test images of seen classes: before anything is computed.

    See Also
    --------
    read_records : What the records say.
    summarize_runs : The results as one table.
    failed_runs : Which runs failed, and why.
    grid_edges : Where a search ended on the edge of its grid.
    """
    _check_settings(settings)
    seeds = _as_seeds(seeds, seed)
    named = _named_methods(methods)
    parts = [data.with_split(name) for name in chosen_splits(data, splits)]
    for part in parts:
        check_measurable(part, settings)
    runs = list(
        plan_runs(parts, named, settings, seeds, Path(out), protocol, grid, n_splits, authors)
    )
    if not resume:
        for folder in {folder for run in runs for folder in (run.parts, run.shared)}:
            shutil.rmtree(folder, ignore_errors=True)
    kept = {} if command is None else {"command": command}
    failed = _refuse_early(runs, say, kept)
    save_examples(data, out)
    todo = [run for run in runs if run not in failed and not (resume and _is_finished(run, say))]
    for run, reason in _compute_all(todo, n_jobs, progress, kept, say):
        if reason is None:
            shutil.rmtree(run.parts, ignore_errors=True)
        else:
            failed.append(run)
            say(f"{run.label}: failed ({reason}); going on")
    failed.sort(key=runs.index)
    for folder in {run.shared for run in runs} - {run.shared for run in failed}:
        shutil.rmtree(folder, ignore_errors=True)
    if failed:
        warn_user(
            f"Runs failed: {name_some([run.label for run in failed])}. Their records say why, see "
            "failed_runs; running again with resume tries them again.",
            FitFailedWarning,
        )
    return [run.path for run in runs]


def _check_settings(settings: Sequence[str]) -> None:
    unknown = [name for name in settings if name not in _SETTINGS]
    if unknown:
        raise ValueError(
            f"Unknown settings: {name_some(unknown)}. There are: {', '.join(_SETTINGS)}."
        )


def _as_seeds(seeds: int | Sequence[int], seed: int | None) -> list[int]:
    """Seeds, each once; one alone may be called `seed`."""
    if seed is not None:
        if not isinstance(seeds, tuple | list) or tuple(seeds) != (0,):
            raise ValueError("Give seeds or seed, not both.")
        seeds = seed
    found: list[Any] = [seeds] if isinstance(seeds, Integral) else list(cast("Any", seeds))
    if not found or not all(
        isinstance(s, Integral) and not isinstance(s, bool) and int(s) >= 0 for s in found
    ):
        raise ValueError(f"seeds are whole numbers, 0 or larger; got {seeds!r}.")
    # Plain numbers, as records hold them; NumPy's are no JSON.
    return list(dict.fromkeys(map(int, found)))


def _named_methods(methods: str | Sequence[str]) -> dict[str, Method]:
    named: dict[str, Method] = {}
    for name in [methods] if isinstance(methods, str) else methods:
        method = find_method(name)
        # Two spellings are one method; classes of two modules may share their name.
        named[name if ":" in name else method.name] = method
    return named


def _refuse_early(runs: Sequence[Run], say: Say, kept: dict[str, Any]) -> list[Run]:
    """Write records of runs that must fail, before anything is tuned."""
    refused: list[Run] = []
    for run in runs:
        try:
            run.check()
        except Exception as error:
            write_record(run.origin() | _failure(error) | circumstances() | kept, run.path)
            say(f"{run.label}: failed ({_one_line(error)}); going on")
            refused.append(run)
    return refused


def _is_finished(run: Run, say: Say) -> bool:
    """Whether a run has its record, which is then said."""
    if not run.is_finished():
        return False
    # Left by a run that was killed as soon as its record was written.
    shutil.rmtree(run.parts, ignore_errors=True)
    say(f"{run.label}: finished before")
    return True


def _compute_all(
    runs: Sequence[Run], n_jobs: int | None, progress: bool, kept: dict[str, Any], say: Say
) -> Iterator[tuple[Run, str | None]]:
    """Compute runs: each as it ends, with the reason where it failed."""
    compute = partial(_write, kept=kept)
    left = list(runs)

    def begin(run: Run) -> None:
        say(f"{run.label}: tuning")

    if (lanes := n_lanes(len(runs), n_jobs)) > 1:
        with progress_bar(progress, len(runs), "runs") as advance:
            for run, reason in side_by_side(runs, compute, lanes, begin):
                left.remove(run)
                yield run, reason
                advance(1)
    for run in left:
        begin(run)
        yield run, compute(run, n_jobs, progress)


def _write(run: Run, n_jobs: int | None, progress: bool, *, kept: dict[str, Any]) -> str | None:
    """Run a method and write its record; the reason where it failed."""
    reason = None
    options = TuningOptions(
        setting=run.setting,
        grid=run.grid,
        cv=run.protocol.folds(run.setting, len(run.data.seen_classes), run.seed),
        checkpoint=run.parts,
        shared=run.shared,
        n_jobs=n_jobs,
        progress=progress,
        rescale_bias=run.protocol.rescale_bias,
    )
    try:
        # First: a key that cannot be made costs nothing then.
        key = run.key()
        estimator = run.protocol.prepare(run.method.make(), run.seed)
        results = tune_and_measure(run.method, estimator, run.data, options)
        found = run.origin() | results | circumstances() | kept | {"key": key}
        record = json.loads(json.dumps(found))
        check_record(record)
    except Exception as error:
        reason = _one_line(error)
        # Without a key: no version of the program can take it for a finished one.
        record = run.origin() | _failure(error) | circumstances() | kept
    write_record(record, run.path)
    return reason


def _failure(error: Exception) -> dict[str, Any]:
    """What a record says of an error."""
    failure = {
        "type": type(error).__name__,
        "reason": _one_line(error),
        "traceback": "".join(traceback.format_exception(error)),
    }
    return {"metrics": {}, "failed": failure}


def _one_line(error: Exception) -> str:
    """What an error says, in one line that is safe to show on a terminal."""
    return plain(" ".join(str(error).split())) or type(error).__name__
