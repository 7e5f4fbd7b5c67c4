"""Several runs at a time, each in a process of its own.

The folds of one search fill two processes badly: five folds take three rounds, and the fit at the
end is one process's work. Runs fill them, as long as there are many more runs than processes.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend

from zslearn.experiments._plan import Run
from zslearn.utils import end_with_parent, shared_threads, warn_user

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
    """How many runs to compute at a time.

    Parameters
    ----------
    n_runs : int
        How many there are.
    n_jobs : int or None
        Processes, as joblib counts them.

    Returns
    -------
    int
        All processes, or 1 where there are too few runs for them, or workers of a cluster.
    """
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

    Parameters
    ----------
    runs : sequence of Run
        In the order in which they begin where nothing waits.
    compute : callable
        What is done in a process.
    lanes : int
        Number of processes.
    begin : callable
        Called with a run when it begins.

    Yields
    ------
    run : Run
        One that has ended.
    reason : str or None
        Why it failed. What it warned of and logged has been said.
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
