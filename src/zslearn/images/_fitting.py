"""Fitting a method on samples of some classes, images or rows of a table."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from zslearn._utils._columns import check_scaling, chosen_scaling
from zslearn._utils._messages import (
    name_some,
    warn_user,
)
from zslearn.base import ZeroShotMetaClassifier
from zslearn.calibration import CalibratedStacking, NoneOfThese, RankPredictor
from zslearn.images._samples import Samples, refuse_undescribed
from zslearn.model_selection import (
    LEADING_METHODS,
    GeneralizedClassKFold,
    TuningOptions,
    ZeroShotPipeline,
    best_search,
    find_method,
)
from zslearn.signatures import scale_signatures, taxonomy_hierarchy

_logger = logging.getLogger("zslearn")

#: The method that held-out classes choose.
AUTO = "auto"
#: With fewer seen classes none can be held out in turn.
_FEWEST_CLASSES = 4


def fit_samples(
    samples: Samples,
    signatures: pd.DataFrame,
    method: str = AUTO,
    *,
    tune: str | None = "fast",
    leave_out: Iterable[str] = (),
    none_rate: float | None = None,
    taxonomy: pd.DataFrame | None = None,
    feature_scaling: str | None = None,
    signature_scaling: str | None = "auto",
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Any:
    """Fit a method on labelled samples; classes without samples are known by their description.

    Hyper-parameters, the calibration factor and the temperature of probabilities are found on
    held-out classes. A factor under which fewer than half as many training samples keep their class
    as without one is dropped, with a warning.

    Parameters
    ----------
    samples : Samples
        With labels.
    signatures : DataFrame
        One row per class, with and without samples.
    method : str, default="auto"
        A name that :func:`~zslearn.model_selection.find_method` knows; or "auto": Gaussian EXEM,
        EXEM and SynC are tuned, and the one with the largest AUSUC on held-out classes is taken.
        Without tuning it is Gaussian EXEM.
    tune : str or None, default="fast"
        The grid of hyper-parameters to search; None takes the method's defaults.
    leave_out : iterable of str, default=()
        Classes whose samples are not trained on.
    none_rate : float, optional
        Reject samples that no described class fits, at this rate of false alarms; see
        :class:`~zslearn.calibration.NoneOfThese`.
    taxonomy : DataFrame, optional
        Ranks of the described classes, as :func:`~zslearn.signatures.taxonomy_hierarchy` takes
        them: the model also answers at the deepest rank that is sure.
    feature_scaling : {"auto", "standard", "range"} or None, default=None
        How the model standardises features in different units; see
        :func:`~zslearn.datasets.load_table`.
    signature_scaling : {"auto", "standard", "range"} or None, default="auto"
        The same for signatures; see :func:`~zslearn.signatures.scale_signatures`.
    random_state : int, default=0
        Seed of the folds and of the method.
    n_jobs : int, optional
        Folds at the same time.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    zero-shot estimator
        Fitted, with probabilities: :class:`~zslearn.model_selection.ZeroShotSearchCV`, or
        :class:`~zslearn.calibration.CalibratedStacking` without tuning or with samples of fewer
        than four classes; with `none_rate` :class:`~zslearn.calibration.NoneOfThese`, with
        `taxonomy` :class:`~zslearn.calibration.RankPredictor`.

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
        raise ValueError(f"none_rate={none_rate} must be a share between 0 and 1, such as 0.05.")
    if none_rate is not None and taxonomy is not None:
        raise ValueError("A model answers none of these or at a rank: give none_rate or taxonomy.")
    check_scaling(feature_scaling, "feature_scaling", auto=True)
    hierarchy = None if taxonomy is None else _hierarchy_of(taxonomy, signatures.index)
    X, y = _training(samples, signatures, list(leave_out))
    seen = np.unique(y)
    signatures = scale_signatures(signatures, signature_scaling, seen_classes=set(seen.tolist()))
    scaler = _scaler(X, samples.about.get("columns"), feature_scaling)
    scaled = X if scaler is None else scaler.transform(X)
    # Folds give the method unlabelled samples, since it may be adapted later.
    settings = {"random_state": random_state, "unlabelled_weight": "cv"}
    known = [find_method(name) for name in (LEADING_METHODS if method == AUTO else [method])]
    # The part of a data set that tuning needs.
    data: Any = SimpleNamespace(X_train=scaled, y_train=y, signatures=signatures, seen_classes=seen)
    for one in known:
        if one.check is not None:
            one.check(data)
    model: Any
    if tune is None or len(seen) < _FEWEST_CLASSES:
        calibrated = CalibratedStacking(
            known[0].make_with(**settings),
            temperature="cv",
            n_jobs=n_jobs,
            random_state=random_state,
        )
        model = calibrated.fit(scaled, y, signatures=signatures)
    else:
        options = TuningOptions(
            "gzsl",
            tune,
            GeneralizedClassKFold(min(5, len(seen) // 2), random_state=random_state),
            n_jobs=n_jobs,
            progress=progress,
            temperature="cv",
        )
        searches = [one.tune(one.make_with(**settings), data, options) for one in known]
        model = best_search(searches)
        if len(known) > 1:
            pairs = zip(known, searches, strict=True)
            scores = ", ".join(f"{one.name} {search.best_score_:.3f}" for one, search in pairs)
            chosen = fitted_method(model)
            _logger.info("%s is taken; AUSUC on held-out classes: %s", chosen, scores)
    _drop_harmful_factor(model, scaled, y, samples.row_noun)
    if none_rate is None and hierarchy is None:
        return model if scaler is None else _behind(scaler, model)
    fitted = clone(model.estimator_)
    stacked = CalibratedStacking(
        fitted if scaler is None else make_pipeline(clone(scaler), fitted),
        bias=float(model.bias_),
        temperature=model.temperature_,
    )
    outer: Any = RankPredictor(stacked, hierarchy)
    if none_rate is not None:
        outer = NoneOfThese(stacked, false_alarm_rate=none_rate)
    outer.set_params(n_jobs=n_jobs, random_state=random_state)
    return outer.fit(X, y, signatures=signatures)


def _training(
    samples: Samples, signatures: pd.DataFrame, leave_out: list[str]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features and labels to learn from; labels without a signature are refused."""
    noun = samples.row_noun
    y = refuse_undescribed(samples.y, signatures.index, row_noun=noun, leave_out=leave_out)
    kept = ~np.isin(y, leave_out) if leave_out else np.ones(len(y), bool)
    if (n_classes := len(set(y[kept].tolist()))) < 2:
        raise ValueError(
            f"{noun.capitalize()}s of {n_classes} class are too few; give {noun}s of at least two "
            "classes, better of many."
        )
    return samples.X[kept], y[kept]


def _hierarchy_of(taxonomy: pd.DataFrame, described: pd.Index) -> pd.DataFrame:
    """Child–parent pairs of the described classes; those that a taxonomy lacks are named."""
    missing = [label for label in described if label not in taxonomy.index]
    if missing:
        raise ValueError(f"The taxonomy has no row of {name_some(missing)}.")
    return taxonomy_hierarchy(taxonomy.loc[described])


def _scaler(X: NDArray[Any], columns: Any, scaling: str | None) -> Any:
    """A fitted scaler of scikit-learn where features are to be standardised, else None."""
    if scaling == "auto":
        scaling = chosen_scaling(X, columns, "auto", "features")
    if scaling is None:
        return None
    return (StandardScaler() if scaling == "standard" else MinMaxScaler()).fit(X)


def _behind(scaler: Any, model: Any) -> ZeroShotPipeline:
    """A fitted model behind a fitted scaler, which takes features as they come."""
    pipeline = ZeroShotPipeline([("scaler", scaler), ("method", model)])
    pipeline.transformers_ = Pipeline([("scaler", scaler)])
    return pipeline


def _drop_harmful_factor(model: Any, X: NDArray[Any], y: NDArray[Any], row_noun: str) -> None:
    """Do without a calibration factor that takes their class from most training samples."""
    if not model.bias_:
        return
    right, without = (int(np.sum(one.predict(X) == y)) for one in (model, model.estimator_))
    if 2 * right < without:
        warn_user(
            f"With the calibration factor that held-out classes chose, {right} of {len(y)} "
            f"training {row_noun}s keep their class, {without} without it. It is left out."
        )
        model.bias_ = 0.0


def estimators_of(model: Any) -> list[Any]:
    """A fitted model and what is inside it; the method is the last."""
    found = [model]
    while True:
        if isinstance(found[-1], ZeroShotPipeline):
            found.append(found[-1].steps[-1][1])
        elif isinstance(found[-1], ZeroShotMetaClassifier):
            found.append(found[-1].estimator_)
        else:
            return found


def fitted_method(model: Any, method: str = AUTO) -> str:
    """The name of the method of a fitted model: `method`, or what "auto" chose."""
    kinds = {type(find_method(name).make()): name for name in LEADING_METHODS}
    return kinds[type(estimators_of(model)[-1])] if method == AUTO else method
