"""Search for hyper-parameters by leaving out classes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.exceptions import FitFailedWarning
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from zslearn._version import __version__
from zslearn.base import ZeroShotMetaClassifier, with_setting
from zslearn.calibration import (
    FEWEST_CLASSES,
    Fold,
    checked_folds,
    chosen_temperature,
    mean_factor,
)
from zslearn.model_selection._checkpoint import Checkpoint
from zslearn.model_selection._edges import Edge, find_edges, warn_of_edges
from zslearn.model_selection._fold import FoldResult, FoldTask
from zslearn.model_selection._grid import Grid, expand
from zslearn.model_selection._progress import progress_bar
from zslearn.model_selection._results import collect, parameter_columns
from zslearn.pipeline import as_zero_shot
from zslearn.scoring import ClassScorer
from zslearn.signatures import SignatureTable
from zslearn.utils import Floats, checks_parameters, fingerprint, to_numpy, warn_user

Setting = Literal["zsl", "gzsl"]


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
        Folds that are computed at the same time.
    checkpoint : path, optional
        A folder where finished settings are kept. A search that was stopped, even by force, goes
        on from there; another search does not read them.
    progress : bool, default=False
        Whether a bar shows how far the search is, and the time left.
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

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data with the chosen hyper-parameters; a
        :class:`~zslearn.pipeline.ZeroShotPipeline` where a pipeline was given.
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
        setting also "split<i>_bias", "mean_bias" and "std_bias", with `temperature="cv"` the same
        of "temperature". What settings share is in the time of the first that needs it, so that
        times are right in sum and one setting's may be near 0.
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
    <attributes of every wrapper>

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
        "progress": ["boolean"],
        "error_score": [StrOptions({"raise"}), Real],
        "temperature": [StrOptions({"cv"}), Interval(Real, 0, None, closed="neither"), None],
    }

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
        progress: bool = False,
        error_score: str | float = np.nan,
        temperature: str | float | None = None,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.setting = setting
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.progress = progress
        self.error_score = error_score
        self.temperature = temperature

    @property
    def best_estimator_(self) -> Any:
        """The fitted method, under scikit-learn's name for it."""
        return self.estimator_

    @checks_parameters(also_of_inner=True)
    def fit(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
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

        Returns
        -------
        self
            The fitted search, which predicts by the chosen method. After an error it is as it was.
        """
        with self._anew() as fresh:
            X, y = fresh._check_training(X, y)
            fresh._choose(X, y, signatures)
            best = with_setting(as_zero_shot(self.estimator), fresh.best_params_)
            fresh.estimator_ = best.fit(X, y, signatures=signatures)
        warn_of_edges(self.best_params_, self.edges_)
        return self

    def _choose(self, X: Any, y: NDArray[Any], signatures: Any) -> None:
        """Choose a setting, by searching where classes can be left out."""
        settings = expand(as_zero_shot(self.estimator), self.grid)
        scorers = _scorers(self.scoring, self.setting)
        seen = np.unique(y)
        self.bias_ = 0.0
        self.temperature_ = chosen_temperature(self.temperature, ())
        self.best_index_ = 0
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
            self._search(X, y, table.subset(table.positions(seen)), settings, scorers)
        self.best_params_ = dict(settings[self.best_index_])

    def _search(
        self,
        X: Any,
        y: NDArray[Any],
        table: SignatureTable,
        settings: list[dict[str, Any]],
        scorers: dict[str, Any],
    ) -> None:
        folds = checked_folds(self.cv, X, y, generalized=self.setting == "gzsl")
        self.n_splits_ = len(folds)
        names = [*scorers, "bias"] if self.setting == "gzsl" else list(scorers)
        if self.temperature == "cv":
            names.append("temperature")
        results = self._run_folds(X, y, table, folds, settings, scorers, names)
        self._warn_of_failures(results, settings)
        score = np.nan if self.error_score == "raise" else float(self.error_score)
        self.cv_results_ = collect(results, settings, names, score)
        mean: Floats = self.cv_results_[f"mean_test_{next(iter(scorers))}"]
        if np.isnan(mean).all():
            reasons = {reason for result in results for reason in result.failures.values()}
            because = f" Why: {'; '.join(sorted(reasons)[:3])}" if reasons else ""
            raise ValueError(f"Every setting of the grid gave NaN as its score.{because}")
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
            )  # fmt: skip
        tasks = [
            FoldTask(
                as_zero_shot(self.estimator),
                X,
                y,
                table,
                fold,
                settings,
                scorers,
                names,
                Checkpoint(folder, number, key),
                self.error_score == "raise",
                os.getpid(),
            )
            for number, fold in enumerate(folds)
        ]
        with (
            progress_bar(self.progress, len(folds) * len(settings)) as advance,
            warnings.catch_warnings(),
        ):
            # joblib renews a worker whose memory grew, loses nothing by it, and warns.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            # A worker cannot reach the bar: it moves when a fold is done.
            together = self.n_jobs not in (None, 1)
            running = Parallel(n_jobs=self.n_jobs, return_as="generator")(
                delayed(task.run)(None if together else advance) for task in tasks
            )
            results = []
            for result in running:
                results.append(result)
                if together:
                    advance(len(settings))
        return results

    def _warn_of_failures(
        self, results: Sequence[FoldResult], settings: Sequence[Mapping[str, Any]]
    ) -> None:
        """One warning for each setting that failed, with the folds and the reason."""
        for index, setting in enumerate(settings):
            reasons = {
                fold: result.failures[index]
                for fold, result in enumerate(results)
                if index in result.failures
            }
            if reasons:
                folds = ", ".join(map(str, reasons))
                warn_user(
                    f"{type(self.estimator).__name__} failed with {dict(setting)} in fold "
                    f"{folds} and scores {self.error_score} there. "
                    f"{next(iter(reasons.values()))}",
                    FitFailedWarning,
                )

    def _has_temperature(self) -> bool:
        return self.temperature is not None or hasattr(self.estimator, "predict_proba")

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        if self.setting == "gzsl":
            scorer = scorer.holding_back(self.seen_classes_, self.bias_)
        return scorer if self.temperature_ is None else scorer.at_temperature(self.temperature_)


def _scorers(scoring: Any, setting: Setting) -> dict[str, Any]:
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
