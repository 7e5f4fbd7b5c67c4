"""What a search says while it runs: lines for `verbose`, and for the logger "zslearn"."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.exceptions import FitFailedWarning

from zslearn.model_selection._fold import FoldResult
from zslearn.utils import warn_user

_logger = logging.getLogger("zslearn")


def say_fold(
    number: int,
    n_folds: int,
    result: FoldResult,
    settings: Sequence[Mapping[str, Any]],
    name: str,
    verbose: int,
) -> None:
    """Say what each setting scored in a fold, and how long it took.

    Parameters
    ----------
    number, n_folds : int
        Which fold, from 0, of how many.
    result : FoldResult
        What the fold gave.
    settings : sequence of mappings
        Hyper-parameters.
    name : str
        The score that is maximised.
    verbose : int
        Lines are printed from 2 on.
    """
    if verbose < 2 and not _logger.isEnabledFor(logging.DEBUG):
        return
    for index, setting in enumerate(settings):
        words = ", ".join(f"{key}={value}" for key, value in setting.items())
        if index in result.failures:
            outcome = f"failed: {result.failures[index]}"
        else:
            seconds = result.scores["fit_time"][index] + result.scores["score_time"][index]
            outcome = f"{name}={result.scores[name][index]:.3f}, {seconds:.2f} s"
        _say(f"[fold {number + 1}/{n_folds}] {words}: {outcome}", logging.DEBUG, verbose >= 2)


def say_choice(search: Any, seconds: float) -> None:
    """Say what a search chose, and what took how long.

    Parameters
    ----------
    search : ZeroShotSearchCV
        Fitted. The line is printed where its `verbose` is 1 or more.
    seconds : float
        How long it searched.
    """
    method = type(search.estimator).__name__
    words = ", ".join(f"{k}={v}" for k, v in search.best_params_.items()) or "its defaults"
    score = f"score {search.best_score_:.3f} in {search.n_splits_} folds"
    times = f"search {seconds:.1f} s, refit {search.refit_time_:.1f} s"
    line = f"{method}: chose {words}; {score if search.n_splits_ else 'no folds'}; {times}"
    _say(line, logging.INFO, search.verbose >= 1)


def warn_of_failures(
    method: str,
    results: Sequence[FoldResult],
    settings: Sequence[Mapping[str, Any]],
    error_score: str | float,
) -> None:
    """Warn once for each setting that failed, with the folds and the reason.

    Parameters
    ----------
    method : str
        Name of the method.
    results : sequence of FoldResult
        One per fold.
    settings : sequence of mappings
        Hyper-parameters.
    error_score : float
        What a failure scores.
    """
    for index, setting in enumerate(settings):
        reasons = {
            fold: result.failures[index]
            for fold, result in enumerate(results)
            if index in result.failures
        }
        if reasons:
            warn_user(
                f"{method} failed with {dict(setting)} in fold {', '.join(map(str, reasons))} and "
                f"scores {error_score} there. {next(iter(reasons.values()))}",
                FitFailedWarning,
            )


def _say(line: str, level: int, printed: bool) -> None:
    """Log a line; print it where nobody who listens to the logger shows it."""
    _logger.log(level, line)
    if printed and not _is_shown(level):
        print(line)


def _is_shown(level: int) -> bool:
    """Whether a handler of the logger, or of one above it, writes lines of a level to a stream.

    Handlers that write to files do not count: what `verbose` asks for is to be seen.
    """
    if not _logger.isEnabledFor(level):
        return False
    logger: logging.Logger | None = _logger
    while logger is not None:
        if any(_writes_to_a_screen(h) and level >= h.level for h in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _writes_to_a_screen(handler: logging.Handler) -> bool:
    return getattr(handler, "stream", None) in (
        sys.stdout,
        sys.stderr,
        sys.__stdout__,
        sys.__stderr__,
    )
