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
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from zslearn._utils._messages import name_some, warn_user
from zslearn._utils._validation import check_scaling, chosen_scaling
from zslearn.base import ZeroShotMetaClassifier
from zslearn.calibration import Adaptation, CalibratedStacking, NoneOfThese, RankPredictor
from zslearn.images._samples import Samples, check_labels
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

#: Choose the method on held-out classes.
AUTO = "auto"
#: With fewer seen classes, none can be held out.
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
    tune : str or None, default="fast"
        The hyper-parameter grid to search; None keeps the method's defaults.
    leave_out : iterable of str, default=()
        Classes whose samples are not used for training.
    none_rate : float, optional
        Reject samples that fit no described class, at this false-alarm rate; see
        :class:`~zslearn.calibration.NoneOfThese`.
    taxonomy : DataFrame, optional
        Ranks of the described classes, as for :func:`~zslearn.signatures.taxonomy_hierarchy`. The
        model then also predicts the deepest rank of which it is confident.
    feature_scaling : {"auto", "standard", "range"} or None, default=None
        How to scale features with different units; see :func:`~zslearn.datasets.load_table`.
    signature_scaling : {"auto", "standard", "range"} or None, default="auto"
        The same for signatures; see :func:`~zslearn.signatures.scale_signatures`.
    random_state : int, default=0
        Seed of the folds and of the method.
    n_jobs : int, optional
        Number of folds fitted in parallel.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    zero-shot estimator
        A fitted :class:`~zslearn.model_selection.ZeroShotSearchCV`, or
        :class:`~zslearn.calibration.CalibratedStacking` without tuning or with fewer than four
        seen classes; wrapped in :class:`~zslearn.calibration.NoneOfThese` with `none_rate`, in
        :class:`~zslearn.calibration.RankPredictor` with `taxonomy`.

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
    seen = np.unique(y)
    signatures = scale_signatures(signatures, signature_scaling, seen_classes=set(seen.tolist()))
    scaler = _scaler(X, samples.about.get("columns"), feature_scaling)
    scaled = X if scaler is None else scaler.transform(X)
    # The unlabelled weight is tuned because the model may be adapted later.
    settings = {"random_state": random_state, "unlabelled_weight": "cv"}
    known = [find_method(name) for name in (LEADING_METHODS if method == AUTO else [method])]
    # The attributes of a data set that tuning reads.
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
            measure = "AUSUC (area under the seen–unseen curve) on held-out classes"
            _logger.info("chose %s; %s: %s", chosen, measure, scores)
    _drop_harmful_factor(model, scaled, y, samples.row_noun)
    if none_rate is None and hierarchy is None:
        if scaler is None:
            return model
        pipeline = ZeroShotPipeline([("scaler", scaler), ("method", model)])
        pipeline.transformers_ = Pipeline([("scaler", scaler)])
        return pipeline
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


def _scaler(X: NDArray[Any], columns: Any, scaling: str | None) -> Any:
    """Fit the scaler of the features, or return None."""
    if scaling == "auto":
        scaling = chosen_scaling(X, columns, "auto", "features")
    if scaling is None:
        return None
    return (StandardScaler() if scaling == "standard" else MinMaxScaler()).fit(X)


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
