"""Search for hyper-parameters by leaving out classes."""

from __future__ import annotations

import itertools
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import FitFailedWarning
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _is_arraylike

from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._files import fingerprint
from zslearn._utils._fit_cache import keeping_fits
from zslearn._utils._messages import InputWarning, name_some, warn_user
from zslearn._utils._progress import progress_bar
from zslearn._utils._validation import checks_parameters
from zslearn._version import __version__
from zslearn.base._meta import ZeroShotMetaClassifier
from zslearn.base._pipeline import as_zero_shot
from zslearn.base._variants import with_setting
from zslearn.base._weights import fit_weighted, weighted_samples
from zslearn.calibration._held_out import (
    FEWEST_CLASSES,
    Fold,
    checked_folds,
    chosen_temperature,
    mean_factor,
    rescaled,
    score_spread,
)
from zslearn.model_selection._cluster import start_folds
from zslearn.model_selection._fold import TIED, TIMES, Checkpoint, FoldResult, FoldTask
from zslearn.model_selection._landscape import Edge, find_edges, warn_of_edges
from zslearn.model_selection._scorers import known_scorers
from zslearn.signatures._table import SignatureTable

# What a search says while it runs: lines for `verbose`, and for the logger "zslearn".

_logger = logging.getLogger("zslearn")


def say_fold(
    number: int,
    n_folds: int,
    result: FoldResult,
    settings: Sequence[Mapping[str, Any]],
    name: str,
    verbose: int,
) -> None:
    """Say what each setting scored in a fold, and how long it took."""
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
    """Say what a search chose, and what took how long."""
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
    """Warn once for each setting that failed, with the folds and the reason."""
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


# The table of a search: every setting with what it gave, as scikit-learn lays it out.

# What is no score has no "test" in its name and no rank.
_NO_SCORES = ("bias", "spread", "temperature")


def parameter_columns(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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


def collect(
    results: Sequence[FoldResult],
    settings: list[dict[str, Any]],
    names: Sequence[str],
    error_score: float,
) -> dict[str, Any]:
    """The table of settings and what each gave in each fold."""
    table: dict[str, Any] = {}
    for name in TIMES:
        times = np.stack([result.scores[name] for result in results])
        table |= {f"mean_{name}": times.mean(axis=0), f"std_{name}": times.std(axis=0)}
    table |= parameter_columns(settings)
    table["params"] = settings
    for name in names:
        values = np.stack([result.scores[name] for result in results])
        if name in _NO_SCORES:
            table |= _summary(name, values)
            continue
        for row, result in zip(values, results, strict=True):
            row[list(result.failures)] = error_score
        table |= _summary(f"test_{name}", values)
        table[f"rank_test_{name}"] = _ranks(table[f"mean_test_{name}"])
    return table


def warn_of_equal_scores(
    results: Sequence[FoldResult], settings: Sequence[Mapping[str, Any]], name: str
) -> None:
    """Say where a fold tells nothing: all classes score alike, or all settings do."""
    tied = np.stack([result.scores[TIED] == 1 for result in results])
    if tied.any():
        which = [dict(settings[i]) for i in np.flatnonzero(tied.any(axis=0)).tolist()]
        folds = name_some(np.flatnonzero(tied.any(axis=1)).tolist())
        warn_user(
            f"In fold {folds} all classes score alike on every image under {name_some(which)}: "
            f"{name} is that of a guess there.",
            InputWarning,
        )
    values = np.stack([result.scores[name] for result in results])
    # Two settings may well be equally good, and all of them perfect.
    if len(settings) > 2:
        equal = np.flatnonzero(((values == values[:, :1]) & (values != 1.0)).all(axis=1))
        if equal.size:
            warn_user(
                f"In fold {name_some(equal.tolist())} all {len(settings)} settings have the same "
                f"{name}, {name_some(np.unique(values[equal, 0]).round(4).tolist())}: they are not "
                "told apart there.",
                InputWarning,
            )


def _summary(label: str, values: Floats) -> dict[str, Floats]:
    """A row for each fold, their mean and standard deviation."""
    table = {f"split{number}_{label}": row for number, row in enumerate(values)}
    return table | {f"mean_{label}": values.mean(axis=0), f"std_{label}": values.std(axis=0)}


def _ranks(mean: Floats) -> NDArray[np.int32]:
    """1 for the best; equals share the smallest rank, and NaN is last."""
    losses = np.where(np.isnan(mean), np.inf, -mean)
    return (1 + np.searchsorted(np.sort(losses), losses)).astype(np.int32)


# Settings of a grid, in the order that decides ties.

Grid = str | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


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


Setting = Literal["zsl", "gzsl"]


@inherit_docs
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
        A folder where fits are kept that several searches have in common, such as the softmax
        regressions of ConSE and the trainings of SynC "ovo" and "cs", whatever the classes'
        signatures are, the networks of CMT and CMT*, the regressors of EXEM, or the scatter of the
        features with its eigenvectors, which many methods begin with.
        They go by the content of all that they depend on, and two gigabytes at most are kept: those
        that were not used for longest make room. Whoever names the folder removes it.
    progress : bool, default=False
        Whether a bar shows how far the search is, and the time left: in a terminal, or below the
        cell of a notebook.
    verbose : int, default=0
        As in scikit-learn: 1 shows the bar and says what was chosen; 2 also prints what each
        setting scored and how long it took. The logger "zslearn" has the first at level INFO and
        the second at DEBUG, whatever this is; a line that a handler of this logger writes to the
        terminal is not printed once more.
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
        Whether the calibration factor of a fold is multiplied by the ratio of the spreads of the
        scores: after training on all classes, and in the fold. See
        :class:`~zslearn.calibration.CalibratedStacking`.

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
        setting also "split<i>_bias", "mean_bias" and "std_bias", and the same of "spread", the
        scale of the scores; with `temperature="cv"` the same of "temperature". What settings share
        is in the time of the first that needs it, so that times are right in sum and one setting's
        may be near 0.
    edges_ : dict of str to {"smallest", "largest"}
        Hyper-parameters whose chosen value is the smallest or the largest of three or more numbers
        in the grid, unless a value further inside is as good or the method takes none beyond. A
        :class:`GridEdgeWarning` names them.
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
    }

    cv_results_: dict[str, Any]
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

    @property
    def best_estimator_(self) -> Any:
        """The fitted method, under scikit-learn's name for it."""
        return self.estimator_

    @checks_parameters(also_of_inner=True)
    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Search, then fit the method on all of the training data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Class labels.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; see :meth:`ZeroShotClassifier.fit`. Without signatures no
            class can be left out and still be described: the first setting is taken.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts in training, for a method whose `fit` takes it. Images that
            validate all count the same, as in scikit-learn.

        Returns
        -------
        self
            The fitted search, which predicts by the chosen method. After an error it is as it was.
        """
        with self._anew() as fresh:
            X, y = fresh._check_training(X, y)
            X, y, weights = weighted_samples(X, y, sample_weight)
            start = time.perf_counter()
            fresh._choose(X, y, signatures, weights)
            chosen = time.perf_counter()
            best = with_setting(as_zero_shot(self.estimator), fresh.best_params_)
            with keeping_fits(self.memory) as kept:
                fresh.estimator_ = fit_weighted(best, X, y, signatures, weights)
            if kept is not None:
                fresh.n_read_fits_ += kept.n_read
                fresh.reused_time_ += kept.seconds
            fresh.refit_time_ = time.perf_counter() - chosen
            fresh._rescale(X)
        say_choice(self, chosen - start)
        warn_of_edges(self.best_params_, self.edges_)
        return self

    def _rescale(self, X: Any) -> None:
        """Bring the factor of the folds to the scale of the final scores."""
        if self.setting == "gzsl" and self.rescale_bias and self.n_splits_:
            columns, index = self.cv_results_, self.best_index_
            biases, spreads = (
                [columns[f"split{k}_{name}"][index] for k in range(self.n_splits_)]
                for name in ("bias", "spread")
            )
            final = score_spread(self.estimator_, X)
            self.bias_ = mean_factor(rescaled(biases, spreads, final))

    def _choose(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Choose a setting, by searching where classes can be left out."""
        settings = expand(as_zero_shot(self.estimator), self.grid)
        scorers = known_scorers(self.scoring, self.setting)
        seen = np.unique(y)
        self.bias_ = 0.0
        self.temperature_ = chosen_temperature(self.temperature, ())
        self.best_index_ = self.n_read_fits_ = 0
        self.reused_time_ = 0.0
        self.edges_: dict[str, Edge] = {}
        nothing_to_choose = len(settings) == 1 and self.setting == "zsl"
        if signatures is None or len(seen) < FEWEST_CLASSES or nothing_to_choose:
            if len(settings) > 1:
                warn_user(
                    "No classes can be left out, for want of signatures or of "
                    f"{FEWEST_CLASSES} seen classes: the first setting of the grid is taken."
                )
            self.cv_results_ = parameter_columns(settings) | {"params": settings}
            self.n_splits_ = 0
            self.best_score_ = float("nan")
        else:
            table = SignatureTable.from_user(signatures, seen)
            table = table.subset(table.positions(seen))
            self._search(X, y, weights, table, settings, scorers)
        self.best_params_ = dict(settings[self.best_index_])

    def _search(
        self,
        X: Any,
        y: NDArray[Any],
        weights: Floats | None,
        table: SignatureTable,
        settings: list[dict[str, Any]],
        scorers: dict[str, Any],
    ) -> None:
        folds = checked_folds(self.cv, X, y, generalized=self.setting == "gzsl")
        self.n_splits_ = len(folds)
        names = [*scorers, "bias", "spread"] if self.setting == "gzsl" else list(scorers)
        if self.temperature == "cv":
            names.append("temperature")
        results = self._run_folds(X, y, weights, table, folds, settings, scorers, names)
        self.n_read_fits_ = sum(result.n_read_fits for result in results)
        self.reused_time_ = sum(result.reused_time for result in results)
        name = type(self.estimator).__name__
        warn_of_failures(name, results, settings, self.error_score)
        score = np.nan if self.error_score == "raise" else float(self.error_score)
        self.cv_results_ = collect(results, settings, names, score)
        mean: Floats = self.cv_results_[f"mean_test_{next(iter(scorers))}"]
        if np.isnan(mean).all():
            reasons = {reason for result in results for reason in result.failures.values()}
            because = f" Why: {'; '.join(sorted(reasons)[:3])}" if reasons else ""
            raise ValueError(f"Every setting of the grid gave NaN as its score.{because}")
        warn_of_equal_scores(results, settings, next(iter(scorers)))
        self.best_index_ = int(np.nanargmax(mean))
        self.best_score_ = float(mean[self.best_index_])
        if self.setting == "gzsl":
            self.bias_ = mean_factor([r.scores["bias"][self.best_index_] for r in results])
        if self.temperature == "cv":
            found = [r.scores["temperature"][self.best_index_] for r in results]
            self.temperature_ = chosen_temperature("cv", found)
        self.edges_ = find_edges(self.estimator, settings, self.best_index_, mean)

    def _run_folds(
        self,
        X: Any,
        y: NDArray[Any],
        weights: Floats | None,
        table: SignatureTable,
        folds: list[Fold],
        settings: list[dict[str, Any]],
        scorers: dict[str, Any],
        names: list[str],
    ) -> list[FoldResult]:
        """Compute every fold, or read what was finished before."""
        folder = None if self.checkpoint is None else Path(self.checkpoint)
        key = ""
        if folder is not None:
            key = fingerprint(
                to_numpy(X), y, table.labels, *table.arrays, table.weights, folds,
                self.estimator, settings, scorers, self.setting, __version__,
                *(["temperature"] if "temperature" in names else []),
                *([] if weights is None else [weights]),
            )  # fmt: skip
        # A callable of the user's may give any number.
        fractions = [name for name, scorer in scorers.items() if scorer is None]
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
                Checkpoint(
                    folder,
                    number,
                    key,
                    n_settings=len(settings),
                    names=names,
                    fractions=fractions,
                ),
                self.error_score == "raise",
                os.getpid(),
                None if self.memory is None else Path(self.memory).absolute(),
            )
            for number, fold in enumerate(folds)
        ]
        with (
            self._bar(len(folds) * len(settings)) as advance,
            warnings.catch_warnings(),
        ):
            # joblib renews a worker whose memory grew, loses nothing by it, and warns.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            # A worker cannot reach the bar: it moves when a fold is done.
            running, together = start_folds(tasks, X, self.n_jobs, advance)
            results: list[FoldResult] = []
            for result in running:
                say_fold(
                    len(results), len(folds), result, settings, next(iter(scorers)), self.verbose
                )
                results.append(result)
                if together:
                    advance(len(settings))
        return results

    def _bar(self, total: int) -> AbstractContextManager[Callable[[int], None]]:
        return progress_bar(self.progress or self.verbose > 0, total, "settings × folds")

    def _has_temperature(self) -> bool:
        return self.temperature is not None or hasattr(self.estimator, "predict_proba")

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        if self.setting == "gzsl":
            scorer = scorer.with_class_bias(self.seen_classes_, self.bias_)
        return scorer if self.temperature_ is None else scorer.at_temperature(self.temperature_)
