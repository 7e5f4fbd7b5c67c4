"""Search for hyper-parameters by leaving out classes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from sklearn.base import _fit_context, clone
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from zslearn._version import __version__
from zslearn.base import ZeroShotMetaClassifier, find_classes
from zslearn.metrics import (
    ausuc,
    best_harmonic_mean,
    per_class_accuracy,
)
from zslearn.model_selection._checkpoint import Checkpoint
from zslearn.model_selection._grid import Grid, expand
from zslearn.model_selection._split import ClassKFold, GeneralizedClassKFold
from zslearn.scoring import class_scores
from zslearn.signatures._table import SignatureTable
from zslearn.utils import InputWarning, end_with_parent, take_rows, to_numpy, warn_user
from zslearn.utils._fingerprint import fingerprint

Setting = Literal["zsl", "gzsl"]
Scorer = Callable[[Any, Any, NDArray[Any], NDArray[Any]], float]


class ZeroShotSearchCV(ZeroShotMetaClassifier):
    """Choose hyper-parameters on classes that were left out of training, then fit on all.

    In the conventional setting a fold trains on some of the seen classes and validates on the
    others, among which it chooses. In the generalized setting images of the classes that it trained
    on are validated too, and all seen classes are candidates; the calibration factor is the mean of
    the folds' best ones, at the chosen hyper-parameters. Unseen classes and test images play no
    part.

    Parameters
    ----------
    estimator : zero-shot estimator
        The method.
    grid : {"paper", "fast"}, mapping or list of mappings
        Hyper-parameters with their values, or the name of one of the method's own grids.
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

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on all of the training data with the chosen hyper-parameters.
    best_params_ : dict
        The chosen hyper-parameters. Of equally good ones the first in the order of the grid.
    best_score_ : float
        Their mean score over the folds; NaN where nothing was searched: without signatures, with
        fewer than four seen classes, or with one setting in the conventional setting.
    best_index_ : int
        Their position in `cv_results_`.
    cv_results_ : dict
        "params", and for each score its "split<i>_test_<name>", "mean_test_<name>" and
        "std_test_<name>"; in the generalized setting also "split<i>_bias" and "mean_bias".
    bias_ : float
        Calibration factor; 0 in the conventional setting.
    n_splits_ : int
        Number of folds.
    classes_ : ndarray of shape (n_classes,)
        Every described class, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        The classes of the training data, sorted.
    unseen_classes_ : ndarray of shape (n_unseen,)
        The classes known by their signature alone, sorted.
    n_features_in_ : int
        Width of `X`.

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
    >>> search = ZeroShotSearchCV(ESZSL(), {"alpha_features": [0.1, 1.0, 10.0, 1000.0]})
    >>> search = search.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> sorted(search.best_params_)
    ['alpha_features']
    >>> search.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "fit_grid", "decision_function"])],
        "grid": [str, Mapping, list, tuple],
        "setting": [StrOptions({"zsl", "gzsl"})],
        "scoring": [str, callable, list, tuple, Mapping, None],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split"]), list],
        "n_jobs": [Integral, None],
        "checkpoint": [str, PathLike, None],
        "progress": ["boolean"],
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
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.setting = setting
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.progress = progress

    @_fit_context(prefer_skip_nested_validation=False)
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
            The fitted search, which predicts by the chosen method.
        """
        X, y = self._check_training(X, y)
        settings = expand(self.estimator, self.grid)
        scorers = _scorers(self.scoring, self.setting)
        seen = np.unique(y)
        self.bias_ = 0.0
        self.best_index_ = 0
        if signatures is None or len(seen) < 4 or (len(settings) == 1 and self.setting == "zsl"):
            if len(settings) > 1:
                warn_user(
                    "No classes can be left out, for want of signatures or of four seen classes: "
                    "the first setting of the grid is taken."
                )
            self.cv_results_ = {"params": settings}
            self.n_splits_ = 0
            self.best_score_ = float("nan")
        else:
            table = SignatureTable.from_user(signatures, seen)
            self._search(X, y, table.subset(table.positions(seen)), settings, scorers)
        self.best_params_ = dict(settings[self.best_index_])
        best = clone(self.estimator).set_params(**self.best_params_)
        self.estimator_ = best.fit(X, y, signatures=signatures)
        return self

    def _search(
        self,
        X: Any,
        y: NDArray[Any],
        table: SignatureTable,
        settings: list[dict[str, Any]],
        scorers: dict[str, Any],
    ) -> None:
        folds = self._checked_folds(X, y)
        self.n_splits_ = len(folds)
        names = [*scorers, "bias"] if self.setting == "gzsl" else list(scorers)
        folder = None if self.checkpoint is None else Path(self.checkpoint)
        key = ""
        if folder is not None:
            key = fingerprint(
                to_numpy(X), y, table.labels, *table.arrays, table.weights, folds,
                self.estimator, settings, scorers, self.setting, __version__,
            )  # fmt: skip
        with (
            _progress(self.progress, len(folds) * len(settings)) as advance,
            warnings.catch_warnings(),
        ):
            # joblib renews a worker whose memory grew, loses nothing by it, and warns.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            together = self.n_jobs not in (None, 1)
            results = Parallel(n_jobs=self.n_jobs, return_as="generator")(
                delayed(_run_fold)(
                    clone(self.estimator),
                    X,
                    y,
                    table,
                    fold,
                    settings,
                    scorers,
                    names,
                    Checkpoint(folder, number, key),
                    # A worker cannot reach the bar: it moves when a fold is done.
                    None if together else advance,
                    os.getpid(),
                )
                for number, fold in enumerate(folds)
            )
            tables = []
            for result in results:
                tables.append(result)
                if together:
                    advance(len(settings))
        results_: dict[str, Any] = {"params": settings}
        for name in names:
            label = "bias" if name == "bias" else f"test_{name}"
            values = np.stack([table[name] for table in tables])
            for number, row in enumerate(values):
                results_[f"split{number}_{label}"] = row
            results_[f"mean_{label}"] = values.mean(axis=0)
            results_[f"std_{label}"] = values.std(axis=0)
        self.cv_results_ = results_
        mean = results_[f"mean_test_{next(iter(scorers))}"]
        if np.isnan(mean).all():
            raise ValueError("Every setting of the grid gave NaN as its score.")
        self.best_index_ = int(np.nanargmax(mean))
        self.best_score_ = float(mean[self.best_index_])
        if self.setting == "gzsl":
            self.bias_ = float(results_["mean_bias"][self.best_index_])

    def _checked_folds(
        self, X: Any, y: NDArray[Any]
    ) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The folds, of which each must leave out classes and keep at least two."""
        right = ClassKFold if self.setting == "zsl" else GeneralizedClassKFold
        if isinstance(self.cv, Integral):
            # At least two classes are left out in a fold: among one there is nothing to choose.
            folds = right(min(int(self.cv), len(np.unique(y)) // 2)).split(X, y)
        else:
            folds = self.cv.split(X, y) if hasattr(self.cv, "split") else self.cv
        checked = [(np.asarray(train), np.asarray(test)) for train, test in folds]
        for number, (train, test) in enumerate(checked):
            kept, tested = np.unique(y[train]), np.unique(y[test])
            left_out = np.setdiff1d(tested, kept)
            if len(kept) < 2 or len(left_out) == 0:
                raise ValueError(
                    f"Fold {number} of cv trains on {len(kept)} classes and leaves out "
                    f"{len(left_out)}; it must train on two or more and leave out whole classes. "
                    f"Use {right.__name__}."
                )
            if self.setting == "gzsl" and len(left_out) == len(tested):
                raise ValueError(
                    f"Fold {number} of cv validates no image of a class that it trains on, which "
                    f"the generalized setting needs. Use {right.__name__}."
                )
            if self.setting == "zsl" and len(left_out) == 1:
                warn_user(f"Fold {number} of cv leaves out one class: it tells nothing.")
        return checked

    def _seen_bias(self) -> float | None:
        return self.bias_ if self.setting == "gzsl" else None


class _Validation:
    """Images that validate a fold, and the scores of estimators on them.

    Estimators of one grid often embed images in the same way: the embedded images are kept, by the
    estimator's word on its embedding.
    """

    def __init__(self, X: Any, y: NDArray[Any], seen: NDArray[Any], table: SignatureTable) -> None:
        self.X, self.y = X, y
        self.unseen = np.setdiff1d(table.labels, seen)
        self.is_unseen = np.isin(y, self.unseen)
        self._embedded: dict[Any, Any] = {}

    def scores(self, estimator: Any, classes: NDArray[Any]) -> NDArray[Any]:
        """Scores of all images; columns follow `classes`."""
        told = estimator.embedding_key()
        if told is None:
            return to_numpy(estimator.decision_function(self.X, classes=classes))
        prepare, embed = estimator._row_steps()
        key = (told, prepare.norm)
        if key not in self._embedded:
            # One kind is kept: grids change the embedding slowest.
            self._embedded = {key: embed(prepare(estimator._check_features(self.X)))}
        described = estimator._snapshot()
        positions = find_classes(classes, described.labels)
        bias = estimator._class_bias(described.labels)
        return to_numpy(
            class_scores(
                self._embedded[key],
                take_rows(described.parameters, positions),
                score=estimator.score_function,
                bias=None if bias is None else bias[positions],
            )
        )


def _accuracy(estimator: Any, validation: _Validation) -> dict[str, float]:
    scores = validation.scores(estimator, validation.unseen)[validation.is_unseen]
    predicted = validation.unseen[scores.argmax(axis=1)]
    return {"accuracy": float(per_class_accuracy(validation.y[validation.is_unseen], predicted))}


def _generalized(estimator: Any, validation: _Validation) -> dict[str, float]:
    given = {
        "y_true": validation.y,
        "scores": validation.scores(estimator, estimator.classes_),
        "classes": estimator.classes_,
        "seen_classes": estimator.seen_classes_,
        "missing": "ignore",
    }
    best, bias = best_harmonic_mean(**given)
    return {"ausuc": float(ausuc(**given)), "harmonic_mean": float(best), "bias": float(bias)}


def _run_fold(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    table: SignatureTable,
    fold: tuple[NDArray[np.intp], NDArray[np.intp]],
    settings: list[dict[str, Any]],
    scorers: dict[str, Any],
    names: list[str],
    checkpoint: Checkpoint,
    advance: Callable[[int], None] | None,
    caller: int,
) -> dict[str, NDArray[np.float64]]:
    """Scores of every setting in one fold; what is finished already is not computed again."""
    end_with_parent(caller)
    train, test = fold
    seen = np.unique(y[train])
    validation = _Validation(take_rows(X, test), y[test], seen, table)
    left = [i for i in range(len(settings)) if i not in checkpoint.done]
    if advance is not None:
        advance(len(settings) - len(left))
    with warnings.catch_warnings():
        # Said again when the chosen setting is fitted on all of the data.
        warnings.simplefilter("ignore", InputWarning)
        fitted = estimator.fit_grid(
            take_rows(X, train),
            y[train],
            signatures=table.as_user(),
            settings=[settings[i] for i in left],
        )
        for position, one in fitted if left else ():
            found: dict[str, float] = {}
            if "accuracy" in scorers:
                found |= _accuracy(one, validation)
            if {"ausuc", "harmonic_mean", "bias"} & set(names):
                found |= _generalized(one, validation)
            for name, scorer in scorers.items():
                if callable(scorer):
                    rows = take_rows(validation.X, np.flatnonzero(validation.is_unseen))
                    labels = validation.y[validation.is_unseen]
                    found[name] = float(scorer(one, rows, labels, validation.unseen))
            checkpoint.add(left[position], {name: found[name] for name in names})
            if advance is not None:
                advance(1)
    if left:
        checkpoint.write()
    return checkpoint.table(len(settings), names)


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


@contextmanager
def _progress(shown: bool, total: int) -> Iterator[Callable[[int], None]]:
    """A bar with the time left, on standard error where that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield lambda amount: None
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("settings × folds", total=total)
        yield lambda amount: bar.advance(task, amount)
