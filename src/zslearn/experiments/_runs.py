"""Runs: methods tuned and measured on a data set, one record each, resumed where they stopped."""

from __future__ import annotations

import json
import os
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, cast

from sklearn.exceptions import FitFailedWarning

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._examples import save_examples
from zslearn.experiments._lanes import n_lanes, side_by_side
from zslearn.experiments._measure import circumstances, tune_and_measure
from zslearn.experiments._methods import Method, find_method
from zslearn.experiments._plan import Run, check_measurable, chosen_splits, plan_runs
from zslearn.experiments._protocol import Protocol
from zslearn.experiments._record_checks import check_record
from zslearn.experiments._records import write_record
from zslearn.experiments._tuning import TuningOptions
from zslearn.utils import name_some, plain, progress_bar, warn_user

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
