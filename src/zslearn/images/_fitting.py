"""Fit a method on labelled samples: images or rows of a table."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from zslearn._utils._messages import name_some, warn_user
from zslearn._utils._processes import one_blas_thread
from zslearn._utils._validation import check_scaling, without_scaling_warning
from zslearn.base import ZeroShotMetaClassifier
from zslearn.calibration import CalibratedStacking, NoneOfThese, RankPredictor
from zslearn.images._samples import Samples, check_labels
from zslearn.model_selection import (
    LEADING_METHODS,
    GeneralizedClassKFold,
    Method,
    TableChoice,
    TableChoices,
    TableClassifier,
    TuningOptions,
    ZeroShotPipeline,
    best_search,
    find_method,
)
from zslearn.signatures import indistinct_pairs, taxonomy_hierarchy
from zslearn.synthesis import Adaptation

_logger = logging.getLogger("zslearn")

#: Choose the method on held-out classes.
AUTO = "auto"
#: AUSUC by which the best method for a table is ahead of those that are not tuned.
_FAR_BEHIND = 0.05
#: With fewer seen classes, none can be held out.
_FEWEST_CLASSES = 4
#: A table with fewer cells is fitted by one thread: starting others takes longer than they save.
_SMALL_TABLE = 200_000


def fit_samples(
    samples: Samples,
    signatures: pd.DataFrame,
    method: str = AUTO,
    *,
    tune: str | None = AUTO,
    leave_out: Iterable[str] = (),
    none_rate: float | None = None,
    taxonomy: pd.DataFrame | None = None,
    feature_scaling: str | None = "auto",
    row_norm: str | None = "auto",
    signature_scaling: str | None = "auto",
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Any:
    """Fit a method on labelled samples, and describe classes without samples.

    Hyper-parameters, the calibration factor and the temperature of probabilities are chosen on
    held-out classes. The factor is dropped, with a warning, if it leaves less than half as many
    training samples correctly classified as no calibration does.

    Parameters
    ----------
    samples : Samples
        Labelled samples.
    signatures : DataFrame
        One row per class, including classes without samples.
    method : str, default="auto"
        A name known to :func:`~zslearn.model_selection.find_method`; or "auto", which tunes
        Gaussian EXEM, EXEM and SynC and keeps the one with the largest AUSUC on held-out classes
        (Gaussian EXEM without tuning).
    tune : str or None, default="auto"
        The hyper-parameter grid to search: "auto" is "quick" for tables and "fast" for other
        features; None keeps the method's defaults.
    leave_out : iterable of str, default=()
        Classes whose samples are not used for training.
    none_rate : float, optional
        Reject samples that fit no described class, at this false-alarm rate; see
        :class:`~zslearn.calibration.NoneOfThese`.
    taxonomy : DataFrame, optional
        Ranks of the described classes, as for :func:`~zslearn.signatures.taxonomy_hierarchy`. The
        model then also predicts the deepest rank of which it is confident.
    feature_scaling : {"auto", "standard", "robust", "range"} or None, default="auto"
        How the numbers of a table are scaled. "auto" chooses on held-out classes for each method,
        and leaves arrays of features unchanged.
    row_norm : {"auto", "l2"} or None, default="auto"
        Whether rows are normalised to unit length; "auto" chooses for tables.
    signature_scaling : {"auto", "standard", "robust", "range"} or None, default="auto"
        How the numbers of the class table are scaled; "auto" chooses for tables, and is that of
        :func:`~zslearn.signatures.scale_signatures` for images.
    random_state : int, default=0
        Seed of the folds and of the method.
    n_jobs : int, optional
        Number of folds fitted in parallel; always one for small tables.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    zero-shot estimator
        A fitted :class:`~zslearn.model_selection.ZeroShotSearchCV`, or
        :class:`~zslearn.calibration.CalibratedStacking` without tuning or with fewer than four
        seen classes; wrapped in :class:`~zslearn.calibration.NoneOfThese` with `none_rate`, in
        :class:`~zslearn.calibration.RankPredictor` with `taxonomy`; and all of it in a
        :class:`~zslearn.model_selection.TableClassifier` if the samples are a table, or if the
        class table holds more than numbers.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.images import Samples, fit_samples
    >>> data = make_zero_shot(random_state=0)
    >>> names = tuple(map(str, range(len(data.y_train))))
    >>> samples = Samples(data.X_train, data.y_train, names)
    >>> model = fit_samples(samples, data.signatures, "eszsl", tune=None)
    >>> model.predict_proba(data.X_test_unseen[:1]).shape == (1, len(data.signatures))
    True
    """
    if none_rate is not None and not 0 < none_rate < 1:
        raise ValueError(f"none_rate={none_rate} must be between 0 and 1, such as 0.05.")
    if none_rate is not None and taxonomy is not None:
        raise ValueError("none_rate= and taxonomy= cannot be combined; give one of them.")
    check_scaling(feature_scaling, "feature_scaling", auto=True)
    hierarchy = None
    if taxonomy is not None:
        if missing := [label for label in signatures.index if label not in taxonomy.index]:
            raise ValueError(f"The taxonomy has no row for {name_some(missing)}.")
        hierarchy = taxonomy_hierarchy(taxonomy.loc[signatures.index])
    X, y = _training(samples, signatures, list(leave_out))
    has_names = hasattr(X, "columns")
    if not has_names and (feature_scaling not in (AUTO, None) or row_norm != AUTO):
        feature_scaling = None if feature_scaling == AUTO else feature_scaling
        X = pd.DataFrame(X).add_prefix("column ")
    choices = TableChoices(X, y, signatures)
    is_small = choices.columns is not None and X.size < _SMALL_TABLE
    n_jobs = 1 if is_small else n_jobs
    is_chosen = choices.columns is not None and feature_scaling == AUTO
    with one_blas_thread(is_small), without_scaling_warning(is_chosen):
        model, choice = _tune(
            choices,
            method,
            tune,
            {
                "scaling": feature_scaling,
                "row_norm": row_norm,
                "signature_scaling": signature_scaling,
                "random_state": random_state,
            },
            n_jobs=n_jobs,
            progress=progress,
        )
        _drop_harmful_factor(model, choice.rows, y, samples.row_noun)
        if none_rate is not None or hierarchy is not None:
            stacked = CalibratedStacking(
                clone(model.estimator_), bias=float(model.bias_), temperature=model.temperature_
            )
            outer: Any = RankPredictor(stacked, hierarchy)
            if none_rate is not None:
                outer = NoneOfThese(stacked, false_alarm_rate=none_rate)
            outer.set_params(n_jobs=n_jobs, random_state=random_state)
            model = outer.fit(choice.rows, y, signatures=choice.signatures)
    if choice.attributes is not None:
        described = signatures.loc[choice.signatures.index]
        indistinct = indistinct_pairs(described, choice.signatures, seen_classes=np.unique(y))
        if indistinct:
            listed = ", ".join(map(str, indistinct[:5]))
            more = f" and {len(indistinct) - 5} more pairs" if len(indistinct) > 5 else ""
            warn_user(
                f"The description cannot tell these classes apart: {listed}{more}. No classes with "
                "samples differ in these attributes: add other attributes, or a few samples of "
                "these classes."
            )
    if choice.columns is None and choice.attributes is None:
        return model
    return TableClassifier.from_fitted(choice, model, has_names=has_names)


def _tune(
    choices: TableChoices,
    method: str,
    tune: str | None,
    options: dict[str, Any],
    *,
    n_jobs: int | None,
    progress: bool,
) -> tuple[Any, TableChoice]:
    """Choose scaling, norm and hyper-parameters of each method, and keep the best method."""
    y, random_state = choices.y, options["random_state"]
    seen = np.unique(y)
    if tune == AUTO:
        tune = "fast" if choices.columns is None else "quick"
    # The unlabelled weight is tuned because the model may be adapted later.
    settings = {"random_state": random_state, "unlabelled_weight": "cv"}
    known = [find_method(name) for name in (LEADING_METHODS if method == AUTO else [method])]
    chosen: list[tuple[Method, TableChoice]] = []
    best = 0.0
    for one in known[: 1 if tune is None else None]:
        estimator = one.make_with(**settings)
        choice = choices.choose(estimator, **options, least=best - 2 * _FAR_BEHIND)
        best = max(best, choice.score or 0.0)
        chosen.append((one, choice))
    folds = GeneralizedClassKFold(max(2, min(5, len(seen) // 2)), random_state=random_state)
    common: dict[str, Any] = {"n_jobs": n_jobs, "temperature": "cv"}
    searches: dict[Any, tuple[Method, TableChoice]] = {}
    behind = []
    for one, choice in chosen:
        # A method that is far behind at its defaults is not tuned.
        if choice.score is not None and choice.score < best - _FAR_BEHIND:
            behind.append(f"{one.name} {choice.score:.3f} (not tuned)")
            continue
        # The attributes of a data set that tuning reads.
        data: Any = SimpleNamespace(
            X_train=choice.rows, y_train=y, signatures=choice.signatures, seen_classes=seen
        )
        if one.check is not None:
            one.check(data)
        estimator = one.make_with(**settings, **choice.method_settings)
        if tune is None or len(seen) < _FEWEST_CLASSES:
            calibrated = CalibratedStacking(estimator, random_state=random_state, **common)
            return calibrated.fit(choice.rows, y, signatures=choice.signatures), choice
        search_options = TuningOptions("gzsl", tune, folds, progress=progress, **common)
        searches[one.tune(estimator, data, search_options)] = one, choice
    model: Any = best_search(searches)
    if len(chosen) > 1:
        pairs = [f"{one.name} {search.best_score_:.3f}" for search, (one, _) in searches.items()]
        measure = "AUSUC (area under the seen–unseen curve) on held-out classes"
        listed = ", ".join([*pairs, *behind])
        _logger.info("chose %s; %s: %s", fitted_method(model), measure, listed)
    return model, searches[model][1]


def _training(
    samples: Samples, signatures: pd.DataFrame, leave_out: list[str]
) -> tuple[Any, NDArray[Any]]:
    """Select the features and labels to train on, and check the labels."""
    noun = samples.row_noun
    y = check_labels(samples.y, signatures.index, row_noun=noun, leave_out=leave_out)
    kept = ~np.isin(y, leave_out) if leave_out else np.ones(len(y), bool)
    if (n_classes := len(set(y[kept].tolist()))) < 2:
        raise ValueError(
            f"Training needs {noun}s of at least two classes, preferably many; there are {noun}s "
            f"of {n_classes}."
        )
    return samples.X[kept], y[kept]


def _drop_harmful_factor(model: Any, X: NDArray[Any], y: NDArray[Any], row_noun: str) -> None:
    """Drop a calibration factor that misclassifies most training samples."""
    if not model.bias_:
        return
    right, without = (int(np.sum(one.predict(X) == y)) for one in (model, model.estimator_))
    if 2 * right < without:
        warn_user(
            f"The calibration factor chosen on held-out classes leaves {right} of {len(y)} "
            f"training {row_noun}s correctly classified, compared with {without} without it. It "
            "was dropped."
        )
        model.bias_ = 0.0


def estimators_of(model: Any) -> list[Any]:
    """A fitted model and the estimators inside it, the method last."""
    found = [model]
    while True:
        if isinstance(found[-1], ZeroShotPipeline):
            found.append(found[-1].steps[-1][1])
        elif isinstance(found[-1], ZeroShotMetaClassifier):
            found.append(found[-1].estimator_)
        else:
            return found


def prepared(model: Any, X: Any) -> tuple[Any, Any]:
    """The model inside a :class:`TableClassifier`, and its prepared samples; others unchanged."""
    if not isinstance(model, TableClassifier):
        return model, X
    return model.estimator_, X if model.columns_ is None else model.columns_.transform(X)


def adaptation_of(model: Any) -> Adaptation:
    """Return what the last `adapt` of a fitted model changed, also inside wrappers."""
    found = (getattr(part, "adaptation_", None) for part in estimators_of(model))
    return next(adaptation for adaptation in found if adaptation is not None)


def fitted_method(model: Any, method: str = AUTO) -> str:
    """Return the name of `method`, or of the one that "auto" chose for a fitted model."""
    if method != AUTO:
        return find_method(method).name
    kinds = {type(find_method(name).make()): name for name in LEADING_METHODS}
    return kinds[type(estimators_of(model)[-1])]
