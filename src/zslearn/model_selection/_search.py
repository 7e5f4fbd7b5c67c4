"""Search for hyper-parameters on held-out classes."""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._files import Checkpoint
from zslearn._utils._fit_cache import FitCache, fingerprint, source_digest
from zslearn._utils._messages import InputWarning, name_some, warn_user
from zslearn._utils._progress import progress_bar
from zslearn._utils._saved import Saved, saves
from zslearn.base._classifier import fit_weighted
from zslearn.base._meta import ZeroShotMetaClassifier, ZeroShotPipeline, as_zero_shot
from zslearn.base._predictor import clone_with
from zslearn.calibration._folds import FEWEST_CLASSES, checked_folds, mean_calibration, seen_table
from zslearn.model_selection._fold_tasks import (
    TIED,
    TIMES,
    Advance,
    FoldResult,
    FoldTask,
    run_folds,
)
from zslearn.model_selection._grids import (
    Edge,
    Grid,
    expand,
    find_edges,
    value_beyond,
    warn_of_edges,
)

_logger = logging.getLogger("zslearn")

Setting = Literal["zsl", "gzsl"]

# Results of a setting that are not scores: they have no "test" in their name and no rank.
_NO_SCORES = ("bias", "score_scale", "temperature")
#: Maximum number of extensions of a method's own grid.
EXTENSIONS = 4


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
@dataclass(eq=False, repr=False)
class ZeroShotSearchCV(ZeroShotMetaClassifier):
    """Choose hyper-parameters on held-out classes, then refit on all of the training data.

    In the conventional setting a fold trains on some of the seen classes, and validates on images
    of the others with these as the only candidates. In the generalized setting it also validates on
    held-out images of the training classes, and all seen classes are candidates; the calibration
    factor is the mean over the folds at the chosen hyper-parameters. Unseen classes and test images
    are not used.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        The method, or a scikit-learn pipeline that ends in one. Settings that differ only in the
        last step share the fitted transformers.
    grid : {"fast", "paper", "paper-googlenet", "quick"}, mapping or list of mappings
        Values by hyper-parameter, or the name of a grid of the method; see :func:`named_grid`. The
        first hyper-parameter changes slowest. Those of a pipeline have the name of their step as a
        prefix, as in scikit-learn: ``"exem__gamma"``.
    setting : {"zsl", "gzsl"}, default="zsl"
        Conventional or generalized.
    scoring : str, callable, list of str or mapping of str to callable, optional
        Scores, of which the first is maximised: "accuracy" (per class, among the held-out classes;
        the default of "zsl"), "ausuc" (the default of "gzsl"), "harmonic_mean" (at the fold's best
        factor), or callables `(estimator, X, y, classes) → float` for images of held-out classes.
    cv : int, splitter or list of (train, test), default=5
        Number of folds over the seen classes, reduced so that each has at least two; a splitter
        such as :class:`ClassKFold`; or the training and validation rows of each fold.
    n_jobs : int, optional
        Number of folds computed in parallel. Inside :func:`on_cluster`, or joblib's
        ``parallel_config("dask")``, the workers of the cluster compute them.
    checkpoint : path, optional
        Folder for finished settings, from which an interrupted search resumes. Other searches do
        not read them.
    memory : path, optional
        Folder for fits that searches share, such as the classifiers of SynC "ovo" and "cs", the
        regressors of EXEM, or the scatter matrix of the features. Entries are keyed by all of their
        inputs; beyond two gigabytes the least recently used are removed. Delete the folder when it
        is no longer needed.
    progress : bool, default=False
        Whether to show a progress bar in the terminal or notebook.
    verbose : int, default=0
        1 shows the bar and prints the chosen setting; 2 also prints the score and time of every
        setting. The logger "zslearn" always gets these lines, at levels INFO and DEBUG.
    error_score : "raise" or float, default=nan
        Score of a setting in a fold where it fails to fit or score. A warning gives the setting,
        the fold and the reason; NaN means that the setting is not chosen. "raise" ends the search.
    temperature : None, "cv" or float, default=None
        Divisor that converts scores to log probabilities. "cv" maximises the likelihood of the
        validation labels of each fold (at the factor of the fold, in the generalized setting), for
        every setting, and takes the geometric mean over the folds. None: no `predict_proba`.
    rescale_bias : bool, default=True
        Whether to convert factor and temperature of the folds to the scale of the final scores; see
        :class:`~zslearn.calibration.CalibratedStacking`.
    extensions : int, optional
        Maximum number of times that the grid is extended while the best setting is on its edge:
        that setting is tried one step beyond each edge, and beyond all of them. By default 4 for a
        named grid of the method, and 0 for a grid given as values and for the paper's grids, which
        belong to its protocol.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data with the chosen hyper-parameters; a
        :class:`~zslearn.model_selection.ZeroShotPipeline` if a pipeline was given.
    best_estimator_ : zero-shot estimator
        The same under scikit-learn's name. Unlike the search, it does not apply the calibration
        factor and the temperature.
    best_params_ : dict
        The chosen hyper-parameters; of equally good ones, the first in the order of the grid.
    best_score_ : float
        Their mean score over the folds; NaN if nothing was searched: without signatures, with fewer
        than four seen classes, or with a single setting in the conventional setting.
    best_index_ : int
        Their position in `cv_results_`.
    cv_results_ : dict
        Columns over the settings, as in scikit-learn: "params", a masked array "param_<name>" per
        hyper-parameter, "split<i>_test_<name>", "mean_test_<name>", "std_test_<name>" and
        "rank_test_<name>" per score, and the mean and std of "fit_time" and "score_time" (work that
        settings share counts towards the first). In the generalized setting also "bias", with
        ``temperature="cv"`` "temperature", and with either "score_scale": per split, mean and std.
    edges_ : dict of str to {"smallest", "largest"}
        Hyper-parameters whose chosen value is the smallest or largest of three or more numbers,
        unless an inner value is as good or the method accepts none beyond. For a grid given as
        values, a :class:`GridEdgeWarning` lists them.
    n_extensions_ : int
        Number of settings tried beyond the grid; they come last in `cv_results_`.
    bias_ : float
        Calibration factor; 0 in the conventional setting.
    temperature_ : float or None
        Temperature of the probabilities; 1 if it should be estimated and nothing was searched.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds to fit `estimator_`.
    n_read_fits_ : int
        Number of fits read from `memory`; no other time includes theirs.
    reused_time_ : float
        Seconds that computing them took.

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

    estimator: Any
    grid: Grid
    _: KW_ONLY
    setting: Setting = "zsl"
    scoring: Any = None
    cv: Any = 5
    n_jobs: int | None = None
    checkpoint: str | PathLike[str] | None = None
    memory: str | PathLike[str] | None = None
    progress: bool = False
    verbose: int = 0
    error_score: str | float = np.nan
    temperature: str | float | None = None
    rescale_bias: bool = True
    extensions: int | None = None

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

    @property
    def best_estimator_(self) -> Any:
        """The fitted method, under scikit-learn's name."""
        return self.estimator_

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Search, then fit the method on all of the training data.

        Weights apply to training; validation images all count the same, as in scikit-learn.
        """
        start = time.perf_counter()
        settings = expand(as_zero_shot(self.estimator), self.grid)
        scorers = _checked_scorers(self.scoring, self.setting)
        self.bias_ = 0.0
        self.temperature_: Any = self.temperature
        self.best_index_ = self.n_read_fits_ = self.n_splits_ = self.n_extensions_ = 0
        self.reused_time_, self.best_score_ = 0.0, math.nan
        self.edges_: dict[str, Edge] = {}
        can_hold_out = signatures is not None and len(np.unique(y)) >= FEWEST_CLASSES
        if can_hold_out and (len(settings) > 1 or self.setting == "gzsl"):
            settings = self._search(X, y, signatures, weights, settings, scorers)
        else:
            if len(settings) > 1:
                warn_user(
                    f"No classes can be held out without signatures or with fewer than "
                    f"{FEWEST_CLASSES} seen classes: the first setting of the grid is used."
                )
            self.cv_results_ = _parameter_columns(settings) | {"params": settings}
        self.best_params_ = dict(settings[self.best_index_])
        chosen = time.perf_counter()
        best = clone_with(as_zero_shot(self.estimator), self.best_params_)
        with FitCache(self.memory) as cache, warnings.catch_warnings():
            for name in self.best_params_:
                # Such as "n_components=500 is more than …", for values that the user listed.
                warnings.filterwarnings("ignore", rf"{name.rpartition('__')[2]}=", InputWarning)
            self.estimator_ = fit_weighted(best, X, y, signatures, weights)
        self.n_read_fits_ += cache.n_read
        self.reused_time_ += cache.seconds
        self.refit_time_ = time.perf_counter() - chosen
        self._calibrate(X)
        _log_choice(self, chosen - start)
        if not isinstance(self.grid, str):
            warn_of_edges(self.best_params_, self.edges_)

    def refit(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Fit the chosen setting on other samples, such as a larger training set.

        Parameters
        ----------
        X, y, signatures
            See `fit`.

        Returns
        -------
        ZeroShotSearchCV
            A new search with the same choices. Factor and temperature of the folds are converted to
            the scale of the new model's scores.
        """
        other = self._copy()
        other.estimator_ = clone(self.estimator_).fit(X, y, signatures=signatures)
        other._calibrate(X)
        return other._as_fitted()

    def _calibrate(self, X: Any) -> None:
        """Average factor and temperature over the folds, in units of the final scores."""
        if self.setting == "gzsl" or self.temperature == "cv":
            of_folds = map(self._fold_values, ("bias", "temperature", "score_scale"))
            self.bias_, found = mean_calibration(
                self.estimator_, X, *of_folds, rescale=self.rescale_bias
            )
            self.temperature_ = found if self.temperature == "cv" else self.temperature

    def _fold_values(self, name: str) -> list[float]:
        """A result of the chosen setting in each fold; NaN if it was not computed."""
        missing = np.full(self.best_index_ + 1, np.nan)
        columns = [self.cv_results_.get(f"split{k}_{name}", missing) for k in range(self.n_splits_)]
        return [column[self.best_index_] for column in columns]

    def _search(
        self,
        X: Any,
        y: NDArray[Any],
        signatures: Any,
        weights: Floats | None,
        settings: list[dict[str, Any]],
        scorers: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        """Score the settings in all folds; return them with those tried beyond the grid."""
        method = as_zero_shot(self.estimator)
        folds = checked_folds(self.cv, X, y, method, generalized=self.setting == "gzsl")
        table = seen_table(signatures, np.unique(y))
        tasks = [
            FoldTask(
                as_zero_shot(self.estimator),
                X,
                y,
                weights,
                table,
                fold,
                scorers,
                self._result_names(scorers),
                raise_errors=self.error_score == "raise",
                memory=None if self.memory is None else Path(self.memory).absolute(),
            )
            for fold in folds
        ]
        run = partial(self._run_folds, tasks)
        results = run(settings)
        self._read_results(results, settings, scorers)
        for _ in range(self._max_extensions()):
            further = self._settings_beyond(settings, scorers)
            if not further:
                break
            results = [a.extended(b) for a, b in zip(results, run(further), strict=True)]
            settings = settings + further
            self.n_extensions_ += len(further)
            self._read_results(results, settings, scorers)
        _warn_of_failures(type(self.estimator).__name__, results, settings, self.error_score)
        _warn_of_ties(results, settings, next(iter(scorers)))
        return settings

    def _run_folds(self, tasks: list[FoldTask], settings: list[dict[str, Any]]) -> list[FoldResult]:
        """Compute every fold, or read its results from the checkpoint."""
        tasks = [replace(task, settings=settings) for task in tasks]
        if self.checkpoint is not None:
            task, table, folds = tasks[0], tasks[0].table, [task.fold for task in tasks]
            key = fingerprint(
                to_numpy(task.X), task.y, task.weights, table.labels, *table.arrays, table.weights,
                folds, self.estimator, settings, task.scorers, self.setting, task.names,
                source_digest(), table.scalings,
            )  # fmt: skip
            # Absolute: workers may have another working directory.
            folder = Path(self.checkpoint).absolute()
            tasks = [
                replace(task, checkpoint=Checkpoint(folder / f"fold-{number}-{key[:16]}.json", key))
                for number, task in enumerate(tasks)
            ]
        results: list[FoldResult] = []
        bar: AbstractContextManager[Advance] = nullcontext(lambda amount: None)
        if self.progress or self.verbose > 0:
            bar = progress_bar(True, len(tasks) * len(settings), "settings × folds")
        with bar as advance, warnings.catch_warnings():
            # joblib replaces workers whose memory grew: harmless.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            for result in run_folds(tasks, self.n_jobs, advance):
                _log_fold(len(results), len(tasks), result, tasks[0], self.verbose)
                results.append(result)
        return results

    def _result_names(self, scorers: Mapping[str, Any]) -> list[str]:
        """Names of the results of each setting in each fold."""
        names = list(scorers)
        names += ["bias"] if self.setting == "gzsl" else []
        names += ["temperature"] if self.temperature == "cv" else []
        return names + (["score_scale"] if len(names) > len(scorers) else [])

    def _max_extensions(self) -> int:
        """Maximum number of extensions of the grid."""
        if self.extensions is not None:
            return self.extensions
        is_protocol = isinstance(self.grid, str) and self.grid.startswith("paper")
        return EXTENSIONS if isinstance(self.grid, str) and not is_protocol else 0

    def _settings_beyond(
        self, settings: list[dict[str, Any]], scorers: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """The best setting moved one step beyond each edge that it is on, and beyond all."""
        method, best = as_zero_shot(self.estimator), settings[self.best_index_]
        mean = self.cv_results_[f"mean_test_{next(iter(scorers))}"]
        steps = {
            name: value_beyond(method, name, [s[name] for s in settings if name in s], edge)
            for name, edge in find_edges(method, settings, self.best_index_, mean, fewest=2).items()
        }
        moved = [{name: value} for name, value in steps.items()] + [steps] * (len(steps) > 1)
        # Compared by fingerprint, since values may be arrays.
        known = {fingerprint(sorted(setting.items())) for setting in settings}
        further = [{**best, **values} for values in moved]
        return [s for s in further if fingerprint(sorted(s.items())) not in known]

    def _read_results(
        self, results: list[FoldResult], settings: list[dict[str, Any]], scorers: Mapping[str, Any]
    ) -> None:
        """Tabulate the results and find the best setting."""
        self.n_splits_ = len(results)
        self.n_read_fits_ = sum(result.n_read_fits for result in results)
        self.reused_time_ = sum(result.reused_time for result in results)
        error_score = np.nan if self.error_score == "raise" else float(self.error_score)
        names = self._result_names(scorers)
        self.cv_results_ = _results_table(results, settings, names, error_score)
        mean: Floats = self.cv_results_[f"mean_test_{next(iter(scorers))}"]
        if np.isnan(mean).all():
            _warn_of_failures(type(self.estimator).__name__, results, settings, self.error_score)
            reasons = {reason for result in results for reason in result.failures.values()}
            because = f" Reasons: {'; '.join(sorted(reasons)[:3])}" if reasons else ""
            raise ValueError(f"Every setting of the grid scored NaN.{because}")
        self.best_index_ = int(np.nanargmax(mean))
        self.best_score_ = float(mean[self.best_index_])
        self.edges_ = find_edges(self.estimator, settings, self.best_index_, mean)

    def _is_generalized(self) -> bool:
        return self.setting == "gzsl"

    def _has_temperature(self) -> bool:
        return self.temperature is not None or hasattr(self.estimator, "predict_proba")

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        if self.setting == "gzsl":
            scorer = scorer.with_class_bias(self.seen_classes_, self.bias_)
        return scorer if self.temperature_ is None else scorer.at_temperature(self.temperature_)


def _checked_scorers(scoring: Any, setting: str) -> dict[str, Any]:
    """Scorers by name: None for scores of the library, else a callable."""
    if scoring is None:
        scoring = "accuracy" if setting == "zsl" else "ausuc"
    if isinstance(scoring, Mapping):
        chosen = dict(scoring)
    elif callable(scoring):
        chosen = {"score": scoring}
    else:
        listed = [scoring] if isinstance(scoring, str) else list(scoring)
        chosen = {one if isinstance(one, str) else one.__name__: one for one in listed}
    known = ("accuracy",) if setting == "zsl" else ("accuracy", "ausuc", "harmonic_mean")
    out: dict[str, Any] = {}
    for name, scorer in chosen.items():
        if callable(scorer):
            out[name] = scorer
        elif scorer in known:
            out[scorer] = None
        else:
            raise ValueError(
                f"scoring={scorer!r} is not available with setting={setting!r}; use "
                f"{', '.join(known)}, or a callable (estimator, X, y, classes) → float."
            )
    if not out:
        raise ValueError("scoring is empty.")
    return out


def _parameter_columns(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A column "param_<name>" per hyper-parameter, masked where a setting does not name it."""
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for setting in settings for name in setting):
        column = np.empty(len(settings), dtype=object)
        for index, setting in enumerate(settings):
            if name in setting:
                column[index] = setting[name]
        absent = [name not in setting for setting in settings]
        columns[f"param_{name}"] = np.ma.MaskedArray(column, mask=absent)
    return columns


def _results_table(
    results: Sequence[FoldResult],
    settings: list[dict[str, Any]],
    names: Sequence[str],
    error_score: float,
) -> dict[str, Any]:
    """`cv_results_`, with the columns of scikit-learn."""
    table: dict[str, Any] = {}
    for name in TIMES:
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
            ranks = rankdata(np.nan_to_num(-mean, nan=np.inf), method="min")
            table[f"rank_{label}"] = ranks.astype(np.int32)
    return table


def _warn_of_failures(
    method: str,
    results: Sequence[FoldResult],
    settings: Sequence[Mapping[str, Any]],
    error_score: str | float,
) -> None:
    """Warn once per reason why settings failed, with the settings and the folds."""
    failed: dict[str, tuple[dict[int, None], set[int]]] = {}
    for fold, result in enumerate(results):
        for index, reason in result.failures.items():
            indices, folds = failed.setdefault(reason, ({}, set()))
            indices[index] = None
            folds.add(fold)
    for reason, (indices, folds) in failed.items():
        which = name_some([dict(settings[index]) for index in indices], 3)
        warn_user(
            f"{method} failed at {which} in fold {', '.join(map(str, sorted(folds)))} and scores "
            f"{error_score} there. {reason}",
            FitFailedWarning,
        )


def _warn_of_ties(
    results: Sequence[FoldResult], settings: Sequence[Mapping[str, Any]], name: str
) -> None:
    """Warn if all classes, or all settings, have equal scores in a fold."""
    tied = np.stack([result.scores[TIED] == 1 for result in results])
    if tied.any():
        which = [dict(settings[i]) for i in np.flatnonzero(tied.any(axis=0)).tolist()]
        folds = name_some(np.flatnonzero(tied.any(axis=1)).tolist())
        warn_user(
            f"In fold {folds} all classes have the same score on every image under "
            f"{name_some(which)}: {name} is at chance level there."
        )
    values = np.stack([result.scores[name] for result in results])
    # Two settings are often equally good, and several may be perfect.
    if len(settings) > 2:
        equal = np.flatnonzero(((values == values[:, :1]) & (values != 1.0)).all(axis=1))
        if equal.size:
            warn_user(
                f"In fold {name_some(equal.tolist())} all {len(settings)} settings have the same "
                f"{name}, {name_some(np.unique(values[equal, 0]).round(4).tolist())}, which does "
                "not distinguish them."
            )


def _log_fold(number: int, n_folds: int, result: FoldResult, task: FoldTask, verbose: int) -> None:
    """Log the score and the time of each setting in a fold."""
    if verbose < 2 and not _logger.isEnabledFor(logging.DEBUG):
        return
    name = task.names[0]
    for index, setting in enumerate(task.settings):
        words = ", ".join(f"{key}={value}" for key, value in setting.items())
        if index in result.failures:
            outcome = f"failed: {result.failures[index]}"
        else:
            seconds = sum(result.scores[time_name][index] for time_name in TIMES)
            outcome = f"{name}={result.scores[name][index]:.3f}, {seconds:.2f} s"
        _log(f"[fold {number + 1}/{n_folds}] {words}: {outcome}", logging.DEBUG, verbose >= 2)


def _log_choice(search: Any, seconds: float) -> None:
    """Log the chosen setting, its score and the times."""
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


def unseen_accuracy_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Per-class accuracy on the classes that an estimator was not trained on, among these alone.

    Use it as `scoring` of scikit-learn's `cross_val_score`, `cross_validate` and `GridSearchCV`
    with folds that hold out whole classes. It is what :class:`ZeroShotSearchCV` measures in the
    conventional setting. By default those functions call `score`, with all described classes as
    candidates, as in the generalized setting.

    Parameters
    ----------
    estimator : zero-shot estimator, or Pipeline that ends in one
        A fitted estimator.
    X : array-like of shape (n_samples, n_features)
        Image features.
    y : array-like of shape (n_samples,)
        Class labels. Samples of seen classes are ignored.

    Returns
    -------
    float
        Between 0 and 1.

    See Also
    --------
    ClassKFold : Folds that hold out whole classes.

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
        # scikit-learn's pipeline passes `classes` on only without metadata routing.
        if len(estimator.steps) > 1:
            X = estimator[:-1].transform(X)
        estimator = estimator[-1]
    labels = to_numpy(y)
    unseen = np.setdiff1d(labels, estimator.seen_classes_)
    if len(unseen) == 0:
        raise ValueError(
            "y contains only classes that the estimator was trained on. Hold out whole classes: "
            "cv=ClassKFold(5)."
        )
    if len(unseen) < len(np.unique(labels)):
        rows = np.flatnonzero(np.isin(labels, unseen))
        X, labels = _safe_indexing(X, rows), labels[rows]
    return estimator.score(X, labels, classes=unseen)
