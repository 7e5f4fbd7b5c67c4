"""Search for hyper-parameters by leaving out classes.

A fold fits every setting of the grid without some seen classes, and scores it on these. What is
finished is kept in a checkpoint of the fold; folds are computed one after another, in processes of
this machine, or on a cluster.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.validation import _is_arraylike

from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Floats, take_rows, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._files import Checkpoint, DamagedFileError
from zslearn._utils._fit_cache import FitCache, fingerprint, source_digest
from zslearn._utils._messages import InputWarning, name_some, warn_user
from zslearn._utils._processes import end_with_parent, threads_for
from zslearn._utils._progress import progress_bar
from zslearn._utils._saved import Saved, saves
from zslearn._utils._validation import is_share
from zslearn.base._classifier import fit_weighted
from zslearn.base._meta import ZeroShotMetaClassifier, ZeroShotPipeline, as_zero_shot
from zslearn.base._predictor import with_setting
from zslearn.calibration._folds import (
    FEWEST_CLASSES,
    Fold,
    FoldImages,
    checked_folds,
    mean_calibration,
    seen_table,
)
from zslearn.signatures._table import SignatureTable

_logger = logging.getLogger("zslearn")

Setting = Literal["zsl", "gzsl"]
Grid = str | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
Edge = Literal["smallest", "largest"]
Advance = Callable[[int], None]

# Seconds that are kept of each setting beside its scores.
_TIMES = ("fit_time", "score_time")
# 1 where all classes score the same on every image, beside the scores of each setting.
_TIED = "tied"
# What is no score has no "test" in its name and no rank.
_NO_SCORES = ("bias", "score_scale", "temperature")
# So many settings fail alone in the same way, none succeeds: the others are not tried.
_SAME_FAILURES = 3
# Two values have no middle: a choice among them is on an edge whatever it is.
_FEWEST_VALUES = 3
# How often a method's own grid grows beyond its edges.
EXTENSIONS = 4


class GridEdgeWarning(InputWarning):
    """A search chose the smallest or the largest value of a hyper-parameter's list."""


@dataclass(frozen=True)
class FoldResult:
    """What a fold gave.

    `scores` are by name and setting, with times and ties, NaN where a setting failed; `failures`
    are reasons by setting; `n_read_fits` were read, as another search had computed them, in place
    of `reused_time` seconds.
    """

    scores: dict[str, Floats]
    failures: dict[int, str]
    n_read_fits: int = 0
    reused_time: float = 0.0

    def and_then(self, further: FoldResult) -> FoldResult:
        """With the results of further settings of the same fold behind these."""
        n_settings = len(self.scores[_TIED])
        return FoldResult(
            {name: np.append(values, further.scores[name]) for name, values in self.scores.items()},
            self.failures | {n_settings + i: why for i, why in further.failures.items()},
            self.n_read_fits + further.n_read_fits,
            self.reused_time + further.reused_time,
        )


@dataclass(frozen=True)
class FoldTask:
    """What a worker needs to compute one fold.

    `scorers` are by name, None for those of the library; `names` is what is kept of each setting:
    the scores, "bias" in the generalized setting, "temperature" where one is wanted, and with
    either "score_scale". `caller` is the process that asked, `memory` the folder of fits that
    several searches have in common.
    """

    estimator: Any
    X: Any
    y: NDArray[Any]
    weights: Floats | None
    table: SignatureTable
    fold: Fold
    settings: Sequence[Mapping[str, Any]]
    scorers: Mapping[str, Any]
    names: Sequence[str]
    checkpoint: Checkpoint
    raise_errors: bool
    caller: int
    memory: Path | None = None

    def run(self, advance: Advance | None = None) -> FoldResult:
        """Score every setting; what is finished already is not computed again."""
        end_with_parent(self.caller)
        advance = advance or (lambda amount: None)
        done = self._read()
        left = self._settings_left(done)
        advance(len(done))
        failures: dict[int, str] = {}
        generalized = "bias" in self.names
        images = FoldImages(self.X, self.y, self.table.labels, self.fold, generalized=generalized)
        queue = [left] if left else []
        try:
            with warnings.catch_warnings(), FitCache(self.memory) as kept_fits:
                # Reported when the chosen setting is fitted on all of the data; a search finds out
                # by itself which settings do not converge.
                warnings.simplefilter("ignore", InputWarning)
                warnings.simplefilter("ignore", ConvergenceWarning)
                while queue:
                    wanted = queue.pop(0)
                    try:
                        self._fit_and_score(wanted, images, advance, done)
                    except Exception as error:
                        if self.raise_errors:
                            raise
                        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
                        rest = [i for i in wanted if i not in done]
                        same = sum(other == reason for other in failures.values())
                        if len(wanted) == 1 or (not done and same >= _SAME_FAILURES):
                            failures.update(dict.fromkeys(rest, reason))
                            advance(len(rest))
                        else:
                            # Halves of the settings, so that the others go on sharing their work.
                            middle = -(-len(rest) // 2)
                            queue[:0] = [half for half in (rest[:middle], rest[middle:]) if half]
        finally:
            # Also after Ctrl-C: what is finished is not lost.
            if left:
                self._write(done)
        scores = {
            name: np.asarray(
                [done.get(i, {}).get(name, math.nan) for i in range(len(self.settings))]
            )
            for name in (*self.names, *_TIMES, _TIED)
        }
        return FoldResult(scores, failures, kept_fits.n_read, kept_fits.seconds)

    def _read(self) -> dict[int, dict[str, float]]:
        """What is finished: scores by setting; null is NaN, which JSON does not have."""
        return self.checkpoint.read(self._checked_scores) or {}

    def _checked_scores(self, done: Any) -> dict[int, dict[str, float]]:
        """What a checkpoint holds; DamagedFileError where no search could have written it."""
        known = {str(index) for index in range(len(self.settings))}
        if not isinstance(done, dict) or not done.keys() <= known:
            raise DamagedFileError("it is not of these settings")
        names = {*self.names, *_TIMES, _TIED}
        fractions = {name for name, scorer in self.scorers.items() if scorer is None}
        checked: dict[int, dict[str, float]] = {}
        for index, scores in done.items():
            if not isinstance(scores, dict) or scores.keys() != names:
                raise DamagedFileError(f"setting {index} has other scores")
            for name, value in scores.items():
                # A whole number may be too large for a float.
                is_number = type(value) is float or (type(value) is int and abs(value) < 2**53)
                if value is not None and not (is_share(value) if name in fractions else is_number):
                    raise DamagedFileError(f"{name} of setting {index} is {value!r:.60}")
            checked[int(index)] = {n: math.nan if v is None else v for n, v in scores.items()}
        return checked

    def _write(self, done: Mapping[int, Mapping[str, float]]) -> None:
        """Write what is finished."""
        self.checkpoint.write(
            {
                str(index): {name: None if math.isnan(v) else v for name, v in scores.items()}
                for index, scores in done.items()
            }
        )

    def _settings_left(self, done: Mapping[int, Any]) -> list[int]:
        """Settings that are not finished, and the finished ones on the path of one of these.

        Solutions along a path start from each other: with others beside it, a solution would differ
        in its last digits from that of a search that was never interrupted.
        """
        left = [i for i in range(len(self.settings)) if i not in done]
        along = _path_parameters(self.estimator)
        if not along or not done:
            return left
        across = {name for setting in self.settings for name in setting} - along
        known = self.estimator.get_params(deep=True)
        paths = [
            fingerprint({name: setting.get(name, known[name]) for name in across})
            for setting in self.settings
        ]
        unfinished = {paths[i] for i in left}
        return [i for i, path in enumerate(paths) if path in unfinished]

    def _fit_and_score(
        self,
        left: list[int],
        images: FoldImages,
        advance: Advance,
        done: dict[int, dict[str, float]],
    ) -> None:
        """Fit some settings together; what each gave is kept at once.

        The time of a fit is that since the model before was scored. What settings share is in the
        time of the first that needs it.
        """
        train = self.fold.train
        options: dict[str, Any] = {}
        if self.weights is not None:
            options["sample_weight"] = self.weights[train]
        # Accuracy among the classes left out asks for no others; a function of the user's may.
        only_accuracy = dict(self.scorers) == {"accuracy": None} and len(self.names) == 1
        only_unseen = only_accuracy and self.fold.unlabelled != "gzsl"
        if only_unseen and getattr(self.estimator, "describes_each_alone", False):
            options["classes"] = images.unseen
        start = time.perf_counter()
        fitted = self.estimator.fit_grid(
            take_rows(self.X, train),
            self.y[train],
            signatures=self.table,
            settings=[self.settings[i] for i in left],
            **options,
        )
        for position, model in fitted:
            if left[position] in done:
                continue
            is_fitted = time.perf_counter()
            with threads_for(2.0 * math.prod(self.X.shape) * len(model.classes_)):
                found = self._measure(model, images)
            times = is_fitted - start, time.perf_counter() - is_fitted
            done[left[position]] = found | dict(zip(_TIMES, times, strict=True))
            if self.checkpoint.is_due():
                self._write(done)
            advance(1)
            start = time.perf_counter()

    def _measure(self, model: Any, images: FoldImages) -> dict[str, float]:
        """The scores of a fitted estimator by name, and whether all classes score the same."""
        found: dict[str, float] = {}
        model = images.adapted(model)
        if "temperature" in self.names or None in self.scorers.values():
            scores = images.scores(model, with_scale="score_scale" in self.names)
            found |= {"score_scale": scores.scale, _TIED: float(scores.is_tied())}
            factor = 0.0
            if "bias" in self.names:
                area, best, factor = scores.curve_summary()
                found |= {"ausuc": area, "harmonic_mean": best, "bias": factor}
            if "accuracy" in self.scorers:
                found["accuracy"] = scores.conventional().accuracy()
            if "temperature" in self.names:
                found["temperature"] = scores.temperature(factor)
        for name, function in self.scorers.items():
            if callable(function):
                given = (images.X_unseen, images.y_unseen, images.unseen)
                found[name] = float(function(model, *given))
        return {name: found[name] for name in self.names} | {_TIED: found.get(_TIED, math.nan)}


def _path_parameters(estimator: Any) -> set[str]:
    """Hyper-parameters along which solutions start from each other, also those of inner methods."""
    names = set(getattr(estimator, "path_parameters", ()))
    steps = getattr(estimator, "steps", None)
    at, inner = steps[-1] if steps else ("estimator", getattr(estimator, "estimator", None))
    if inner is not None:
        names |= {f"{at}__{name}" for name in _path_parameters(inner)}
    return names


def start_folds(
    tasks: Sequence[FoldTask], X: Any, n_jobs: int | None, advance: Advance
) -> Iterator[FoldResult]:
    """Compute folds: on a cluster inside :func:`on_cluster`, else in processes of this machine."""
    backend, _ = joblib.parallel.get_active_backend()
    if n_jobs != 1 and type(backend).__name__ == "DaskDistributedBackend":
        from zslearn.model_selection._cluster import run_on_cluster

        running, alone = run_on_cluster(backend.client, tasks, X), False
    else:
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
        alone = parallel.n_jobs in (None, 1)
        running = parallel(joblib.delayed(task.run)(advance if alone else None) for task in tasks)
    for result in running:
        # Another process cannot reach the bar: it moves when a fold is done.
        if not alone:
            advance(len(tasks[0].settings))
        yield result


def _log_fold(number: int, n_folds: int, result: FoldResult, task: FoldTask, verbose: int) -> None:
    """Report what each setting scored in a fold, and how long it took."""
    if verbose < 2 and not _logger.isEnabledFor(logging.DEBUG):
        return
    name = task.names[0]
    for index, setting in enumerate(task.settings):
        words = ", ".join(f"{key}={value}" for key, value in setting.items())
        if index in result.failures:
            outcome = f"failed: {result.failures[index]}"
        else:
            seconds = result.scores["fit_time"][index] + result.scores["score_time"][index]
            outcome = f"{name}={result.scores[name][index]:.3f}, {seconds:.2f} s"
        _log(f"[fold {number + 1}/{n_folds}] {words}: {outcome}", logging.DEBUG, verbose >= 2)


def _log_choice(search: Any, seconds: float) -> None:
    """Report what a search chose, and what took how long."""
    method = type(search.estimator).__name__
    words = ", ".join(f"{k}={v}" for k, v in search.best_params_.items()) or "its defaults"
    score = f"score {search.best_score_:.3f} in {search.n_splits_} folds"
    if search.n_extensions_:
        plural = "s" if search.n_extensions_ > 1 else ""
        score += f", {search.n_extensions_} setting{plural} beyond the grid"
    times = f"search {seconds:.1f} s, refit {search.refit_time_:.1f} s"
    line = f"{method}: chose {words}; {score if search.n_splits_ else 'no folds'}; {times}"
    _log(line, logging.INFO, search.verbose >= 1)


def _log(line: str, level: int, printed: bool) -> None:
    _logger.log(level, line)
    if printed:
        print(line)


def _warn_of_failures(
    method: str,
    results: Sequence[FoldResult],
    settings: Sequence[Mapping[str, Any]],
    error_score: str | float,
) -> None:
    """Warn once for each reason why settings failed, with these and the folds."""
    failed: dict[str, dict[int, list[int]]] = {}
    for fold, result in enumerate(results):
        for index, reason in result.failures.items():
            failed.setdefault(reason, {}).setdefault(index, []).append(fold)
    for reason, of_reason in failed.items():
        which = name_some([dict(settings[index]) for index in of_reason], 3)
        folds = ", ".join(
            map(str, sorted({fold for found in of_reason.values() for fold in found}))
        )
        warn_user(
            f"{method} failed at {which} in fold {folds} and scores {error_score} there. {reason}",
            FitFailedWarning,
        )


def _warn_of_equal_scores(
    results: Sequence[FoldResult], settings: Sequence[Mapping[str, Any]], name: str
) -> None:
    """Warn where a fold distinguishes nothing: all classes score the same, or all settings do."""
    tied = np.stack([result.scores[_TIED] == 1 for result in results])
    if tied.any():
        which = [dict(settings[i]) for i in np.flatnonzero(tied.any(axis=0)).tolist()]
        folds = name_some(np.flatnonzero(tied.any(axis=1)).tolist())
        warn_user(
            f"In fold {folds} all classes score the same on every image under {name_some(which)}: "
            f"{name} is that of a guess there."
        )
    values = np.stack([result.scores[name] for result in results])
    # Two settings may well be equally good, and all of them perfect.
    if len(settings) > 2:
        equal = np.flatnonzero(((values == values[:, :1]) & (values != 1.0)).all(axis=1))
        if equal.size:
            warn_user(
                f"In fold {name_some(equal.tolist())} all {len(settings)} settings have the same "
                f"{name}, {name_some(np.unique(values[equal, 0]).round(4).tolist())}: it does not "
                "distinguish them there."
            )


def _parameter_columns(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Settings by hyper-parameter: "param_<name>", masked where a setting does not name it."""
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for setting in settings for name in setting):
        column = np.empty(len(settings), dtype=object)
        for index, setting in enumerate(settings):
            if name in setting:
                column[index] = setting[name]
        absent = [name not in setting for setting in settings]
        columns[f"param_{name}"] = np.ma.MaskedArray(column, mask=absent)
    return columns


def _collect(
    results: Sequence[FoldResult],
    settings: list[dict[str, Any]],
    names: Sequence[str],
    error_score: float,
) -> dict[str, Any]:
    """The table of settings and what each gave in each fold, as scikit-learn lays it out."""
    table: dict[str, Any] = {}
    for name in _TIMES:
        times = np.stack([result.scores[name] for result in results])
        table |= {f"mean_{name}": times.mean(axis=0), f"std_{name}": times.std(axis=0)}
    table |= _parameter_columns(settings)
    table["params"] = settings
    for name in names:
        values = np.stack([result.scores[name] for result in results])
        is_score = name not in _NO_SCORES
        if is_score:
            for row, result in zip(values, results, strict=True):
                row[list(result.failures)] = error_score
        label, mean = f"test_{name}" if is_score else name, values.mean(axis=0)
        table |= {f"split{number}_{label}": row for number, row in enumerate(values)}
        table |= {f"mean_{label}": mean, f"std_{label}": values.std(axis=0)}
        if is_score:
            # 1 for the best; equals share the smallest rank, and NaN is last.
            ranks = rankdata(np.nan_to_num(-mean, nan=np.inf), method="min")
            table[f"rank_{label}"] = ranks.astype(np.int32)
    return table


def expand(estimator: Any, grid: Grid) -> list[dict[str, Any]]:
    """List the settings of a grid; of equally good ones the first is taken."""
    if isinstance(grid, str):
        named = getattr(estimator, "grids", {})
        if grid not in named:
            there = ", ".join(repr(name) for name in named) or "none"
            raise ValueError(
                f"{type(estimator).__name__} has no grid named {grid!r}; there are: {there}. "
                "Give a mapping of hyper-parameters to values."
            )
        grid = named[grid]
    grids = [grid] if isinstance(grid, Mapping) else list(grid)
    known = estimator.get_params(deep=True)
    settings: list[dict[str, Any]] = []
    for part in grids:
        if not isinstance(part, Mapping):
            raise TypeError(f"A grid maps hyper-parameters to values; got {part!r}.")
        for name, values in part.items():
            if name not in known:
                raise ValueError(
                    f"{type(estimator).__name__} has no hyper-parameter {name!r}; it has "
                    f"{', '.join(sorted(known))}."
                )
            if isinstance(values, str) or not _is_arraylike(values) or len(values) == 0:
                raise ValueError(f"The grid must list values for {name!r}; got {values!r}.")
        for values in itertools.product(*part.values()):
            settings.append(dict(zip(part, values, strict=True)))
    if not settings:
        raise ValueError("The grid is empty.")
    return settings


def _checked_scorers(scoring: Any, setting: str) -> dict[str, Any]:
    """Scores by name; those of the library by None, others by their callable."""
    if scoring is None:
        scoring = "accuracy" if setting == "zsl" else "ausuc"
    if isinstance(scoring, Mapping):
        chosen = dict(scoring)
    elif callable(scoring):
        chosen = {"score": scoring}
    else:
        words = [scoring] if isinstance(scoring, str) else list(scoring)
        chosen = {word if isinstance(word, str) else word.__name__: word for word in words}
    known = ("accuracy",) if setting == "zsl" else ("accuracy", "ausuc", "harmonic_mean")
    out: dict[str, Any] = {}
    for name, scorer in chosen.items():
        if callable(scorer):
            out[name] = scorer
        elif scorer in known:
            out[scorer] = None
        else:
            raise ValueError(
                f"scoring={scorer!r} is not known in the setting {setting!r}; use one of "
                f"{', '.join(known)}, or a callable (estimator, X, y, classes) → float."
            )
    if not out:
        raise ValueError("scoring is empty.")
    return out


def unseen_accuracy_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Per-class accuracy on the classes that an estimator did not see, among these alone.

    For `scoring` of scikit-learn's `cross_val_score`, `cross_validate` and `GridSearchCV`, with
    folds that leave out whole classes. It gives what :class:`ZeroShotSearchCV` measures in the
    conventional setting. Without it those functions call `score`, where all described classes are
    candidates: the accuracy on unseen classes in the generalized setting.

    Parameters
    ----------
    estimator : zero-shot estimator, or Pipeline that ends in one
        Fitted.
    X : array-like of shape (n_samples, n_features)
        Image features.
    y : array-like of shape (n_samples,)
        Their labels. Samples of seen classes are left out.

    Returns
    -------
    float
        Between 0 and 1.

    See Also
    --------
    ClassKFold : Folds that leave out whole classes.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.model_selection import ClassKFold, unseen_accuracy_scorer
    >>> data = make_zero_shot(random_state=0)
    >>> accuracies = cross_val_score(
    ...     ESZSL(),
    ...     data.X_train,
    ...     data.y_train,
    ...     cv=ClassKFold(5),
    ...     scoring=unseen_accuracy_scorer,
    ...     params={"signatures": data.signatures},
    ... )
    >>> accuracies.shape
    (5,)
    """
    if isinstance(estimator, Pipeline) and not isinstance(estimator, ZeroShotPipeline):
        # By hand: scikit-learn's pipeline passes `classes` on only where nothing routes it.
        if len(estimator.steps) > 1:
            X = estimator[:-1].transform(X)
        estimator = estimator[-1]
    labels = to_numpy(y)
    unseen = np.setdiff1d(labels, estimator.seen_classes_)
    if len(unseen) == 0:
        raise ValueError(
            "y holds classes only that the estimator was trained on. Leave out whole classes: "
            "cv=ClassKFold(5)."
        )
    if len(unseen) < len(np.unique(labels)):
        rows = np.flatnonzero(np.isin(labels, unseen))
        X, labels = _safe_indexing(X, rows), labels[rows]
    return estimator.score(X, labels, classes=unseen)


def find_edges(
    estimator: Any,
    settings: Sequence[Mapping[str, Any]],
    best: int,
    mean: Floats,
    fewest: int = _FEWEST_VALUES,
) -> dict[str, Edge]:
    """Hyper-parameters whose chosen value is the smallest or largest of so many numbers or more.

    Where a value further inside is as good, or where the estimator takes no value beyond (a share
    of 1, say), the choice is no reason to search further and is left out.
    """
    edges: dict[str, Edge] = {}
    for name, chosen in settings[best].items():
        values = [setting[name] for setting in settings if name in setting]
        if not all(isinstance(v, Real) and not isinstance(v, bool) for v in values):
            continue
        if len(set(values)) < fewest or min(values) < chosen < max(values):
            continue
        edge: Edge = "largest" if chosen == max(values) else "smallest"
        as_good = [
            setting[name]
            for setting, score in zip(settings, mean, strict=True)
            if name in setting and np.isclose(score, mean[best], rtol=1e-12, atol=1e-15)
        ]
        is_alone = all(value == chosen for value in as_good)
        if is_alone and _value_beyond(estimator, name, values, edge) is not None:
            edges[name] = edge
    return edges


def _warn_of_edges(chosen: Mapping[str, Any], edges: Mapping[str, Edge]) -> None:
    """Say once which choices sit on an edge, and where to look further."""
    if not edges:
        return
    further = {"smallest": "smaller", "largest": "larger"}
    sentences = [
        f"{name}={chosen[name]} is the {edge} value of the grid: try {further[edge]} ones"
        for name, edge in edges.items()
    ]
    warn_user(f"The search ended on an edge. {'; '.join(sentences)}.", GridEdgeWarning)


def _value_beyond(estimator: Any, name: str, values: Sequence[Any], edge: Edge) -> Any:
    """The next value beyond an edge, by the last step in the grid; None where there is none."""
    ordered = sorted(set(values), reverse=edge == "smallest")
    last, inner = ordered[-1], ordered[-2]
    beyond = last * (last / inner) if min(ordered) > 0 else 2 * last - inner
    whole = all(isinstance(value, Integral) for value in values)
    # Without what rounding adds: 0.1 and not 0.10000000000000002.
    beyond = round(beyond) if whole else float(f"{beyond:.12g}")
    owner, _, own_name = name.rpartition("__")
    if owner:
        estimator = estimator.get_params(deep=True).get(owner)
    for constraint in getattr(estimator, "_parameter_constraints", {}).get(own_name, ()):
        if isinstance(constraint, Options) and last in constraint.options:
            return None
        if isinstance(constraint, Interval) and last in constraint and beyond not in constraint:
            side = "right" if edge == "largest" else "left"
            bound = getattr(constraint, side)
            return bound if bound in constraint and bound != last else None
    return beyond if beyond != last else None


@inherit_docs
@saves(
    best_index_=Saved(kind="int", least=0),
    best_params_=Saved(kind=dict),
    best_score_=Saved(finite=False),
    bias_=Saved(),
    temperature_=Saved(above=0, optional=True),
    cv_results_=Saved(kind=dict, finite=False),
    edges_=Saved(kind=dict),
    n_extensions_=Saved(kind="int", least=0),
    n_read_fits_=Saved(kind="int", least=0),
    n_splits_=Saved(kind="int", least=0),
    refit_time_=Saved(least=0),
    reused_time_=Saved(least=0),
)
class ZeroShotSearchCV(ZeroShotMetaClassifier):
    """Choose hyper-parameters on classes that were left out of training, then fit on all.

    In the conventional setting a fold trains on some of the seen classes and validates on the
    others, among which it chooses. In the generalized setting images of the classes that it trained
    on are validated too, and all seen classes are candidates; the calibration factor is the mean of
    the folds' best ones, at the chosen hyper-parameters. Unseen classes and test images play no
    part.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        The method; or a pipeline of scikit-learn that ends in one, which gets the signatures.
        Settings that differ in the last step alone share the fitted transformers.
    grid : {"paper", "fast"}, mapping or list of mappings
        Hyper-parameters with their values, or the name of one of the method's own grids. The first
        hyper-parameter changes slowest. Those of a pipeline carry the name of their step, as in
        scikit-learn: ``"exem__gamma"``.
    setting : {"zsl", "gzsl"}, default="zsl"
        Conventional or generalized.
    scoring : str, callable, list of str or mapping of str to callable, optional
        What is maximised, the first if there are several: "accuracy" (per-class accuracy among the
        classes left out; the default of "zsl"), "ausuc" (the default of "gzsl"), "harmonic_mean"
        (at the fold's best factor), or callables `(estimator, X, y, classes) → float`, which get
        the images of the classes left out.
    cv : int, splitter or list of (train, test), default=5
        Number of folds over the seen classes, no more than leaves two classes to each; or a
        splitter such as :class:`ClassKFold`; or rows to train on and to validate on.
    n_jobs : int, optional
        Folds that are computed at the same time. Inside :func:`on_cluster`, or joblib's
        ``parallel_config("dask")``, workers of the cluster compute them.
    checkpoint : path, optional
        A folder where finished settings are kept. A search that was stopped, even by force, goes
        on from there; another search does not read them.
    memory : path, optional
        A folder where fits are kept that several searches have in common, such as the trainings of
        SynC "ovo" and "cs", the regressors of EXEM, or the scatter of the features with its
        eigenvectors, which many methods begin with. They go by the content of all that they depend
        on, and two gigabytes at most are kept: those that were not used for longest are removed.
        Whoever names the folder removes it.
    progress : bool, default=False
        Whether a bar shows how far the search is, and the time left: in a terminal, or below the
        cell of a notebook.
    verbose : int, default=0
        As in scikit-learn: 1 shows the bar and says what was chosen; 2 also prints what each
        setting scored and how long it took. The logger "zslearn" has the first at level INFO and
        the second at DEBUG, whatever this is.
    error_score : "raise" or float, default=nan
        What a setting scores in a fold where fitting or scoring it fails. A warning names the
        setting, the fold and the reason, and the setting is not chosen if this is NaN. "raise" ends
        the search instead.
    temperature : None, "cv" or float, default=None
        What scores are divided by to become logarithms of probabilities. "cv" takes the temperature
        under which the labels of a fold's validation images are most likely (in the conventional
        setting those of the classes left out, among these; in the generalized setting all, at the
        fold's factor), and the geometric mean over the folds at the chosen hyper-parameters. It is
        found for every setting and takes time. With None there is no `predict_proba`.
    rescale_bias : bool, default=True
        Whether calibration factor and temperature of a fold are multiplied by the ratio of the
        scales of the scores: after training on all classes, and in the fold. See
        :class:`~zslearn.calibration.CalibratedStacking`.
    extensions : int, optional
        How often the grid may grow where the best setting is on its edge: that setting is tried a
        step further out, beyond each edge and beyond all of them. By default 4 times for a grid of
        the method's own, and never for one that is given here, nor for a grid of the paper, which
        is part of its protocol.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data with the chosen hyper-parameters; a
        :class:`~zslearn.model_selection.ZeroShotPipeline` where a pipeline was given.
    best_estimator_ : zero-shot estimator
        The same under scikit-learn's name. It knows nothing of the factor and the temperature,
        with which the search itself predicts.
    best_params_ : dict
        The chosen hyper-parameters. Of equally good ones the first in the order of the grid.
    best_score_ : float
        Their mean score over the folds; NaN where nothing was searched: without signatures, with
        fewer than four seen classes, or with one setting in the conventional setting.
    best_index_ : int
        Their position in `cv_results_`.
    cv_results_ : dict
        A column per key, a row per setting, as in scikit-learn: "params" and a masked array
        "param_<name>" for each hyper-parameter; for each score "split<i>_test_<name>",
        "mean_test_<name>", "std_test_<name>" and "rank_test_<name>"; "mean_fit_time",
        "std_fit_time", "mean_score_time" and "std_score_time" in seconds; in the generalized
        setting also "split<i>_bias", "mean_bias" and "std_bias"; with `temperature="cv"` the same
        of "temperature"; with either the same of "score_scale". What settings share is in the time
        of the first that needs it, so that times are right in sum and one setting's may be near 0.
    edges_ : dict of str to {"smallest", "largest"}
        Hyper-parameters whose chosen value is the smallest or the largest of three or more numbers
        in the grid, unless a value further inside is as good or the method takes none beyond. A
        :class:`GridEdgeWarning` names them where you gave the grid. Of a grid that grows, those
        left after its last step.
    n_extensions_ : int
        Settings that were tried beyond the grid; they are the last of `cv_results_`.
    bias_ : float
        Calibration factor; 0 in the conventional setting.
    temperature_ : float or None
        Temperature of the probabilities; 1 where it is wanted and nothing was searched.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds to fit `estimator_`.
    n_read_fits_ : int
        Fits that were read from `memory`, and whose time is in no other time given here.
    reused_time_ : float
        Seconds that these had taken when they were computed.

    See Also
    --------
    ClassKFold : Folds of the conventional setting.
    GeneralizedClassKFold : Folds of the generalized setting.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.model_selection import ZeroShotSearchCV
    >>> data = make_zero_shot(random_state=0)
    >>> search = ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0, 10.0, 100.0, 1000.0]})
    >>> search = search.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> sorted(search.best_params_)
    ['alpha_features']
    >>> search.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "fit_grid", "decision_function"]), Pipeline],
        "grid": [str, Mapping, list, tuple],
        "setting": [StrOptions({"zsl", "gzsl"})],
        "scoring": [str, callable, list, tuple, Mapping, None],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split"]), list],
        "n_jobs": [Integral, None],
        "checkpoint": [str, PathLike, None],
        "memory": [str, PathLike, None],
        "progress": ["boolean"],
        "verbose": ["verbose"],
        "error_score": [StrOptions({"raise"}), Real],
        "temperature": [StrOptions({"cv"}), Interval(Real, 0, None, closed="neither"), None],
        "rescale_bias": ["boolean"],
        "extensions": [Interval(Integral, 0, None, closed="left"), None],
    }

    cv_results_: dict[str, Any]
    temperature_: Any
    best_index_: int
    n_splits_: int

    def __init__(
        self,
        estimator: Any,
        grid: Grid,
        *,
        setting: Setting = "zsl",
        scoring: Any = None,
        cv: Any = 5,
        n_jobs: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        memory: str | PathLike[str] | None = None,
        progress: bool = False,
        verbose: int = 0,
        error_score: str | float = np.nan,
        temperature: str | float | None = None,
        rescale_bias: bool = True,
        extensions: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.setting = setting
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.memory = memory
        self.progress = progress
        self.verbose = verbose
        self.error_score = error_score
        self.temperature = temperature
        self.rescale_bias = rescale_bias
        self.extensions = extensions

    @property
    def best_estimator_(self) -> Any:
        """The fitted method, under scikit-learn's name for it."""
        return self.estimator_

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Search, then fit the method on all of the training data.

        Without signatures no class can be held out and still be described: the first setting is
        taken. Weights count in training; validation images all count the same, as in scikit-learn.
        """
        start = time.perf_counter()
        self._choose(X, y, signatures, weights)
        chosen = time.perf_counter()
        best = with_setting(as_zero_shot(self.estimator), self.best_params_)
        with FitCache(self.memory) as kept, warnings.catch_warnings():
            for name in self.best_params_:
                # Whoever lists values to try knows them: "n_components=500 is more than …".
                start_of_it = rf"{name.rpartition('__')[2]}="
                warnings.filterwarnings("ignore", start_of_it, InputWarning)
            self.estimator_ = fit_weighted(best, X, y, signatures, weights)
        self.n_read_fits_ += kept.n_read
        self.reused_time_ += kept.seconds
        self.refit_time_ = time.perf_counter() - chosen
        self._calibrate(X)
        _log_choice(self, chosen - start)
        if not isinstance(self.grid, str):
            _warn_of_edges(self.best_params_, self.edges_)

    def refit(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Fit the chosen setting on other samples, such as training images with a few more.

        Parameters
        ----------
        X, y, signatures
            As of `fit`.

        Returns
        -------
        ZeroShotSearchCV
            Another search with the same choices; factor and temperature of the folds are brought to
            the scale of the scores of the new model.
        """
        other = self._copy()
        other.estimator_ = clone(self.estimator_).fit(X, y, signatures=signatures)
        other._calibrate(X)
        return other._settled()

    def _calibrate(self, X: Any) -> None:
        """Factor and temperature of the folds, brought to the scale of the final scores."""
        if self.setting == "gzsl" or self.temperature == "cv":
            of_folds = map(self._of_folds, ("bias", "temperature", "score_scale"))
            self.bias_, found = mean_calibration(
                self.estimator_, X, *of_folds, rescale=self.rescale_bias
            )
            self.temperature_ = found if self.temperature == "cv" else self.temperature

    def _of_folds(self, name: str) -> list[float]:
        """What the chosen setting gave in each fold; NaN of what is not wanted."""
        nothing = np.full(self.best_index_ + 1, np.nan)
        columns = [self.cv_results_.get(f"split{k}_{name}", nothing) for k in range(self.n_splits_)]
        return [column[self.best_index_] for column in columns]

    def _choose(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Choose a setting, by searching where classes can be left out."""
        settings = expand(as_zero_shot(self.estimator), self.grid)
        scorers = _checked_scorers(self.scoring, self.setting)
        seen = np.unique(y)
        self.bias_, self.temperature_ = 0.0, self.temperature
        self.best_index_ = self.n_read_fits_ = self.n_splits_ = self.n_extensions_ = 0
        self.reused_time_, self.best_score_ = 0.0, math.nan
        self.edges_: dict[str, Edge] = {}
        nothing_to_choose = len(settings) == 1 and self.setting == "zsl"
        if signatures is None or len(seen) < FEWEST_CLASSES or nothing_to_choose:
            if len(settings) > 1:
                warn_user(
                    "No classes can be left out, for want of signatures or of "
                    f"{FEWEST_CLASSES} seen classes: the first setting of the grid is taken."
                )
            self.cv_results_ = _parameter_columns(settings) | {"params": settings}
        else:
            table = seen_table(signatures, seen)
            run = partial(self._run_folds, X, y, weights, table, scorers)
            results = run(settings)
            self._read_results(results, settings, scorers)
            for _ in range(self._most_extensions()):
                further = self._further_settings(settings, scorers)
                if not further:
                    break
                results = [a.and_then(b) for a, b in zip(results, run(further), strict=True)]
                settings = settings + further
                self.n_extensions_ += len(further)
                self._read_results(results, settings, scorers)
            _warn_of_failures(type(self.estimator).__name__, results, settings, self.error_score)
            _warn_of_equal_scores(results, settings, next(iter(scorers)))
        self.best_params_ = dict(settings[self.best_index_])

    def _most_extensions(self) -> int:
        """How often the grid may grow."""
        if self.extensions is not None:
            return self.extensions
        is_protocol = isinstance(self.grid, str) and self.grid.startswith("paper")
        return EXTENSIONS if isinstance(self.grid, str) and not is_protocol else 0

    def _further_settings(
        self, settings: list[dict[str, Any]], scorers: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """The best setting a step beyond the edges that it is on: beyond each, and beyond all."""
        method, best = as_zero_shot(self.estimator), settings[self.best_index_]
        mean = self.cv_results_[f"mean_test_{next(iter(scorers))}"]
        steps = {
            name: _value_beyond(method, name, [s[name] for s in settings if name in s], edge)
            for name, edge in find_edges(method, settings, self.best_index_, mean, fewest=2).items()
        }
        moved = [{name: value} for name, value in steps.items()] + [steps] * (len(steps) > 1)
        # By fingerprint: values of a grid may be arrays, which == compares entry by entry.
        known = {fingerprint(sorted(setting.items())) for setting in settings}
        further = [{**best, **values} for values in moved]
        return [s for s in further if fingerprint(sorted(s.items())) not in known]

    def _names(self, scorers: Mapping[str, Any]) -> list[str]:
        """What is kept of each setting in each fold."""
        names = list(scorers)
        names += ["bias"] if self.setting == "gzsl" else []
        names += ["temperature"] if self.temperature == "cv" else []
        return names + (["score_scale"] if len(names) > len(scorers) else [])

    def _read_results(
        self,
        results: list[FoldResult],
        settings: list[dict[str, Any]],
        scorers: Mapping[str, Any],
    ) -> None:
        """The table of all settings, and the best of them."""
        self.n_splits_ = len(results)
        self.n_read_fits_ = sum(result.n_read_fits for result in results)
        self.reused_time_ = sum(result.reused_time for result in results)
        score = np.nan if self.error_score == "raise" else float(self.error_score)
        self.cv_results_ = _collect(results, settings, self._names(scorers), score)
        decisive = next(iter(scorers))
        mean: Floats = self.cv_results_[f"mean_test_{decisive}"]
        if np.isnan(mean).all():
            _warn_of_failures(type(self.estimator).__name__, results, settings, self.error_score)
            reasons = {reason for result in results for reason in result.failures.values()}
            because = f" Why: {'; '.join(sorted(reasons)[:3])}" if reasons else ""
            raise ValueError(f"Every setting of the grid gave NaN as its score.{because}")
        self.best_index_ = int(np.nanargmax(mean))
        self.best_score_ = float(mean[self.best_index_])
        self.edges_ = find_edges(self.estimator, settings, self.best_index_, mean)

    def _run_folds(
        self,
        X: Any,
        y: NDArray[Any],
        weights: Floats | None,
        table: SignatureTable,
        scorers: dict[str, Any],
        settings: list[dict[str, Any]],
    ) -> list[FoldResult]:
        """Compute every fold, or read what was finished before."""
        folds = checked_folds(
            self.cv, X, y, as_zero_shot(self.estimator), generalized=self.setting == "gzsl"
        )
        names = self._names(scorers)
        checkpoints = [Checkpoint(None, "")] * len(folds)
        if self.checkpoint is not None:
            key = fingerprint(
                to_numpy(X), y, weights, table.labels, *table.arrays, table.weights, folds,
                self.estimator, settings, scorers, self.setting, names, source_digest(),
                table.scalings,
            )  # fmt: skip
            # Absolute: workers may have been started elsewhere.
            folder = Path(self.checkpoint).absolute()
            files = [folder / f"fold-{number}-{key[:16]}.json" for number in range(len(folds))]
            checkpoints = [Checkpoint(file, key) for file in files]
        tasks = [
            FoldTask(
                as_zero_shot(self.estimator),
                X,
                y,
                weights,
                table,
                fold,
                settings,
                scorers,
                names,
                checkpoint,
                raise_errors=self.error_score == "raise",
                caller=os.getpid(),
                memory=None if self.memory is None else Path(self.memory).absolute(),
            )
            for fold, checkpoint in zip(folds, checkpoints, strict=True)
        ]
        results: list[FoldResult] = []
        shown = self.progress or self.verbose > 0
        bar = progress_bar(shown, len(folds) * len(settings), "settings × folds")
        with bar as advance, warnings.catch_warnings():
            # joblib renews a worker whose memory grew, loses nothing by it, and warns.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            for result in start_folds(tasks, X, self.n_jobs, advance):
                _log_fold(len(results), len(folds), result, tasks[0], self.verbose)
                results.append(result)
        return results

    def _is_generalized(self) -> bool:
        return self.setting == "gzsl"

    def _has_temperature(self) -> bool:
        return self.temperature is not None or hasattr(self.estimator, "predict_proba")

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        if self.setting == "gzsl":
            scorer = scorer.with_class_bias(self.seen_classes_, self.bias_)
        return scorer if self.temperature_ is None else scorer.at_temperature(self.temperature_)
