"""Fitting a method on images of some classes, and files of models that know how to be used.

A model file says how features are made of images and what classes are described by, so that images
can be predicted and further classes described later.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from zslearn._utils._columns import check_scaling, chosen_scaling
from zslearn._utils._files import locked, refuse_unwritable
from zslearn._utils._messages import (
    did_you_mean,
    look_alikes,
    name_near_misses,
    name_pairs,
    name_some,
    plain,
    warn_user,
)
from zslearn.base._meta import ZeroShotMetaClassifier, ZeroShotPipeline
from zslearn.calibration._none_of_these import NoneOfThese
from zslearn.calibration._ranks import RankPredictor
from zslearn.calibration._stacking import CalibratedStacking
from zslearn.calibration._unlabelled import Adaptation, Adapted
from zslearn.images._describing import (
    Description,
    describe_in_text,
    encoder_for_model,
    prompts_for_model,
    refuse_foreign_network,
)
from zslearn.images._features import ImageFeatures
from zslearn.model_selection import (
    LEADING_METHODS,
    METHODS,
    GeneralizedClassKFold,
    TuningOptions,
    best_of,
    find_method,
)
from zslearn.persistence._model_files import ModelFile, read_model, save
from zslearn.signatures import taxonomy_hierarchy
from zslearn.synthesis import GaussianEXEM

_logger = logging.getLogger("zslearn")

#: The method that classes left out choose.
AUTO = "auto"
#: Features of training images that travel with a model, in bytes; of more images some are taken.
_KEPT_BYTES = 64 * 2**20
#: What of the record of features a model file keeps.
_RECORD = (
    *("backbone", "weights_sha256", "n_features", "preprocessing", "boxes", "versions"),
    *("columns", "label"),
)


def save_image_model(
    model: Any,
    path: str | os.PathLike[str],
    features: ImageFeatures,
    description: Description,
    *,
    method: str,
) -> None:
    """Write a model with what is needed to predict images and to describe further classes.

    The file's `about` has "features" (how features are made of images), "signatures" (what classes
    are described by), "method", and "training" with the names of "images" and their "labels", which
    belong to the rows of the array "training_features" among its extras. The array
    "training_digests" tells the training images from others.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted.
    path : path
        The file.
    features : ImageFeatures
        What the model was trained on.
    description : Description
        What classes were described by.
    method : str
        What the method is called.
    """
    rows = _thinned(features, _KEPT_BYTES)
    kept = features.take(rows)
    about = {
        "features": {key: features.about[key] for key in _RECORD if key in features.about},
        "signatures": description.about,
        "method": method,
        "training": {
            "images": list(kept.images),
            "labels": [] if kept.y is None else kept.y.tolist(),
        },
    }
    extras: dict[str, Any] = {"training_features": np.asarray(kept.X, dtype=np.float32)}
    if features.digests:
        extras["training_digests"] = np.asarray(features.digests, dtype=np.str_)
    save(model, path, about=about, extras=extras)


def _thinned(features: ImageFeatures, budget: int) -> NDArray[np.intp]:
    """Rows within a budget of memory, of every class the same number as far as it has so many."""
    n_rows = max(1, budget // max(1, 4 * features.X.shape[1]))
    if len(features) <= n_rows or features.y is None:
        return np.arange(min(len(features), n_rows))
    place = pd.Series(features.y).groupby(features.y, sort=False).cumcount().to_numpy()
    # First the first image of each class, then the second of each, …
    return np.sort(np.argsort(place, kind="stable")[:n_rows])


def add_classes_to_file(
    path: str | os.PathLike[str],
    description: pd.DataFrame | Mapping[str, Any],
    out: str | os.PathLike[str] | None = None,
    *,
    encoder: str | None = None,
) -> list[str]:
    """Describe further classes to a saved model; nothing is learned again.

    Parameters
    ----------
    path : path
        The model file.
    description : DataFrame or mapping
        Signatures with the attributes that the model knows, one row per class; or the texts of each
        class, for a model whose classes are described in text.
    out : path, optional
        Where to write the model; by default it takes the place of `path`, whole or not at all.
    encoder : str, optional
        What turns texts into vectors, for a file that names an encoder in a folder
        (``st:FOLDER``): such a folder is read on your word alone.

    Returns
    -------
    list of str
        Labels of the new classes.

    Raises
    ------
    ValueError
        A class is known already, or is described in another way than those of the model.
    RuntimeError
        Another process adds classes to the same file; the message names it.
    """
    labels: list[str] = []

    def describe(file: ModelFile) -> ModelFile:
        table, about = _described(file, description, encoder, plain(path))
        labels.extend(str(label) for label in table.index)
        return replace(file, model=file.model.add_classes(table), about=about)

    change_file(path, out, describe)
    return labels


def change_file(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None,
    change: Callable[[ModelFile], ModelFile],
) -> None:
    """Read a model file and write what `change` makes of it, in its place or to `out`."""
    target = Path(path if out is None else out)
    # A lock makes folders: first there must be a model.
    os.stat(path)
    refuse_unwritable(target)
    # Between reading and writing nobody else changes it, which would be lost.
    with locked(target):
        file = change(read_model(path))
        save(file.model, target, about=file.about, extras=file.extras)


def add_examples_to_file(
    path: str | os.PathLike[str],
    features: ImageFeatures,
    signatures: pd.DataFrame | None = None,
    out: str | os.PathLike[str] | None = None,
) -> list[str]:
    """Give labelled samples to a saved model; returns the classes that have no description.

    Nothing else is learned again; see :meth:`zslearn.synthesis.GaussianEXEM.add_examples`.
    """
    if features.y is None:
        refuse_undescribed(None, (), thing=features.thing)
    y = np.asarray(features.y)
    alone: list[str] = []

    def add(file: ModelFile) -> ModelFile:
        model = file.model
        refuse_without(model, "add_examples", plain(path))
        known = [*model.classes_.tolist(), *([] if signatures is None else signatures.index)]
        unknown = [label for label in dict.fromkeys(y.tolist()) if label not in set(known)]
        if pairs := look_alikes(unknown, known):
            raise ValueError(
                f"There are {features.thing}s of classes that look like known ones, and are "
                f"others: {name_pairs(pairs)}. Write each name in one way."
            )
        alone.extend(unknown)
        model = model.add_examples(features.X, y, signatures=signatures)
        digests = file.extras.get("training_digests", np.empty(0, dtype=np.str_))
        extras = dict(file.extras)
        if features.digests:
            extras["training_digests"] = np.concatenate([digests.ravel(), list(features.digests)])
        return replace(file, model=model, extras=extras)

    change_file(path, out, add)
    return alone


def adapted_model(model: Any, X: NDArray[Any], **options: Any) -> tuple[Any, Adaptation]:
    """A model adapted to unlabelled samples, and what they changed; a calibration is kept."""
    adapted = found = model.adapt(X, **options)
    while not hasattr(found, "adaptation_"):
        found = found._inner
    return adapted, found.adaptation_


def refuse_without(model: Any, verb: str, where: str) -> None:
    """Refuse a model whose method does not have a verb of Gaussian EXEM's."""
    while hasattr(model, "_inner") and not isinstance(model, Adapted):
        model = model._inner
    if not hasattr(model, verb):
        raise ValueError(
            f"{where}: {type(model).__name__} has no {verb}; fit it anew with --method "
            "'Gaussian EXEM', which has."
        )
    if verb == "adapt" and not isinstance(model, (Adapted, GaussianEXEM)):
        raise ValueError(
            f"{where}: {type(model).__name__} adapts without a look at classes left out, and only "
            "in Python; fit it anew with --method 'Gaussian EXEM', or call its adapt yourself."
        )


def _described(
    file: ModelFile, description: pd.DataFrame | Mapping[str, Any], encoder: str | None, where: str
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Signatures of further classes, and what the model file says of all of them."""
    about = dict(file.about)
    if not isinstance(description, Mapping):
        return description, about
    signatures, features = about.get("signatures"), about.get("features")
    signatures = dict(signatures) if isinstance(signatures, Mapping) else {}
    if signatures.get("kind") != "text":
        raise ValueError(
            f"{where}: its classes are described by numbers, not by text; give a table with the "
            "same columns."
        )
    named = signatures.get("encoder")
    if not isinstance(named, str):
        raise ValueError(f"{where} does not say what turned its texts into numbers.")
    encoder = encoder_for_model(named, encoder, where)
    features = features if isinstance(features, Mapping) else {}
    if encoder == "backbone":
        refuse_foreign_network(str(features.get("backbone", "")), where)
    new = describe_in_text(
        description, encoder, prompts=prompts_for_model(signatures), about_features=features
    )
    known = signatures.get("texts")
    known = known if isinstance(known, Mapping) else {}
    signatures["texts"] = {**known, **new.about["texts"]}
    return new.signatures, about | {"signatures": signatures}


#: Fewer seen classes than this cannot be left out in turn.
_FEWEST_CLASSES = 4


def fit_images(
    features: ImageFeatures,
    signatures: pd.DataFrame,
    method: str = AUTO,
    *,
    tune: str | None = "fast",
    leave_out: Iterable[str] = (),
    none_rate: float | None = None,
    taxonomy: pd.DataFrame | None = None,
    feature_scaling: str | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Any:
    """Fit a method on images with labels; classes without images are known by their description.

    Hyper-parameters, the calibration factor and the temperature of probabilities are found by
    leaving out classes that have images. A factor under which fewer than half as many training
    images keep their class as without one is left out, which a warning says.

    Parameters
    ----------
    features : ImageFeatures
        With labels.
    signatures : DataFrame
        One row per class, of those with images and of others.
    method : str, default="auto"
        A name that :func:`~zslearn.model_selection.find_method` knows; or "auto": Gaussian EXEM,
        EXEM and SynC are tuned, and the one with the largest AUSUC on the classes left out is
        taken.
        Where nothing is tuned it is Gaussian EXEM.
    tune : str or None, default="fast"
        The grid of hyper-parameters to search; None takes the method's defaults.
    leave_out : iterable of str, default=()
        Classes whose images are not trained on.
    none_rate : float, optional
        Say "none of these" of images that no described class fits, at this share of false alarms;
        see :class:`~zslearn.calibration.NoneOfThese`.
    taxonomy : DataFrame, optional
        Ranks of the described classes, as :func:`~zslearn.signatures.taxonomy_hierarchy` takes
        them: the model also answers at the deepest rank that is sure.
    feature_scaling : {"auto", "standard", "range"} or None, default=None
        How features in different units are brought to one; see
        :func:`~zslearn.datasets.load_table`. The model does it itself.
    random_state : int, default=0
        Decides the folds, and what a method leaves to chance.
    n_jobs : int, optional
        Folds at the same time.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    zero-shot estimator
        Fitted, with probabilities: :class:`~zslearn.model_selection.ZeroShotSearchCV`, or
        :class:`~zslearn.calibration.CalibratedStacking` without tuning or where fewer than four
        classes have images; with `none_rate` :class:`~zslearn.calibration.NoneOfThese`, with
        `taxonomy` :class:`~zslearn.calibration.RankPredictor`.

    Raises
    ------
    ValueError
        An image has a label that no signature describes, there are no labels, `none_rate` is no
        share, or it is given together with `taxonomy`.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.images import ImageFeatures
    >>> from zslearn.images import fit_images
    >>> data = make_zero_shot(random_state=0)
    >>> names = tuple(map(str, range(len(data.y_train))))
    >>> features = ImageFeatures(data.X_train, data.y_train, names)
    >>> model = fit_images(features, data.signatures, "eszsl", tune=None)
    >>> model.predict_proba(data.X_test_unseen[:1]).shape == (1, len(data.signatures))
    True
    """
    if none_rate is not None and not 0 < none_rate < 1:
        raise ValueError(f"none_rate={none_rate} must be a share between 0 and 1, such as 0.05.")
    if none_rate is not None and taxonomy is not None:
        raise ValueError("A model answers none of these or at a rank: give none_rate or taxonomy.")
    hierarchy = None if taxonomy is None else _hierarchy_of(taxonomy, signatures.index)
    X, y = _training(features, signatures, list(leave_out))
    check_scaling(feature_scaling, "feature_scaling", auto=True)
    scaler = _scaler(X, features.about.get("columns"), feature_scaling)
    raw, X = X, X if scaler is None else scaler.transform(X)
    known = [find_method(name) for name in (LEADING_METHODS if method == AUTO else [method])]
    # It may be adapted later.
    settings = {"random_state": random_state, "unlabelled_weight": "cv"}
    seen = np.unique(y)
    # What tuning asks of a data set.
    data: Any = SimpleNamespace(X_train=X, y_train=y, signatures=signatures, seen_classes=seen)
    for one in known:
        if one.check is not None:
            one.check(data)
    model: Any
    if tune is None or len(seen) < _FEWEST_CLASSES:
        calibrated = CalibratedStacking(
            known[0].new(**settings),
            temperature="cv",
            n_jobs=n_jobs,
            random_state=random_state,
        )
        model = calibrated.fit(X, y, signatures=signatures)
    else:
        options = TuningOptions(
            "gzsl",
            tune,
            GeneralizedClassKFold(min(5, len(seen) // 2), random_state=random_state),
            n_jobs=n_jobs,
            progress=progress,
            temperature="cv",
        )
        searches = [one.tune(one.new(**settings), data, options) for one in known]
        model = best_of(searches)
        if len(known) > 1:
            pairs = zip(known, searches, strict=True)
            scores = ", ".join(f"{one.name} {search.best_score_:.3f}" for one, search in pairs)
            chosen_name = fitted_method(model, method)
            _logger.info("%s is taken; AUSUC on classes left out: %s", chosen_name, scores)
    _drop_harmful_factor(model, X, y, features.thing)
    if none_rate is None and hierarchy is None:
        return model if scaler is None else _behind(scaler, model)
    method_alone = clone(model.estimator_)
    chosen = CalibratedStacking(
        method_alone if scaler is None else make_pipeline(clone(scaler), method_alone),
        bias=float(model.bias_),
        temperature=model.temperature_,
    )
    if none_rate is not None:
        model = NoneOfThese(chosen, false_alarm_rate=none_rate)
    else:
        model = RankPredictor(chosen, hierarchy)
    model.set_params(n_jobs=n_jobs, random_state=random_state)
    return model.fit(raw, y, signatures=signatures)


def _hierarchy_of(taxonomy: pd.DataFrame, described: pd.Index) -> pd.DataFrame:
    """Child–parent pairs of the described classes; those that a taxonomy lacks are named."""
    missing = [label for label in described if label not in taxonomy.index]
    if missing:
        raise ValueError(f"The taxonomy has no row of {name_some(missing)}.")
    return taxonomy_hierarchy(taxonomy.loc[described])


def _drop_harmful_factor(model: Any, X: NDArray[Any], y: NDArray[Any], thing: str) -> None:
    """Do without a calibration factor that takes their class from most training samples."""
    if not model.bias_:
        return
    right, without = (int(np.sum(one.predict(X) == y)) for one in (model, model.estimator_))
    if 2 * right < without:
        warn_user(
            f"With the calibration factor that left-out classes chose, {right} of {len(y)} "
            f"training {thing}s keep their class, {without} without it. It is left out."
        )
        model.bias_ = 0.0


def _scaler(X: NDArray[Any], columns: Any, scaling: str | None) -> Any:
    """A fitted scaler of scikit-learn where features are to be brought to one unit, else None."""
    if scaling == "auto":
        scaling = chosen_scaling(X, columns, scaling, "features")
    if scaling is None:
        return None
    return (StandardScaler() if scaling == "standard" else MinMaxScaler()).fit(X)


def _behind(scaler: Any, model: Any) -> ZeroShotPipeline:
    """A fitted model behind a fitted scaler, as one that takes features as they come."""
    pipeline = ZeroShotPipeline([("scaler", scaler), ("method", model)])
    pipeline.transformers_ = Pipeline([("scaler", scaler)])
    return pipeline


def refuse_undescribed(
    labels: NDArray[Any] | None,
    described: Iterable[Any],
    *,
    thing: str = "image",
    by: str = "the description",
    leave_out: Sequence[str] = (),
) -> None:
    """Refuse labels that are not described; called before features are computed as well."""
    if labels is None:
        raise ValueError(
            f"The {thing}s have no labels: put each into a folder of its class, or give a table "
            "(.csv) with the columns path and label."
            if thing == "image"
            else f"The {thing}s have no labels: name the column of labels with label=."
        )
    present = list(dict.fromkeys(labels.tolist()))
    if unknown := [label for label in leave_out if label not in present]:
        near = did_you_mean(unknown[0], present)
        raise ValueError(f"There are no {thing}s of {name_some(unknown)} to leave out.{near}")
    described = list(described)
    known = set(described)
    if missing := [label for label in present if label not in known]:
        near = name_near_misses(missing, described, unknown_in=f"the list of {thing}s", known_in=by)
        if len(missing) == len(present) and not near:
            near = f" None of the {thing}s is of a class there: is this the right folder or table?"
        advice = "Describe these first (zslearn add-class), or leave them out."
        if by == "the description":
            advice = f"Describe every class that has {thing}s."
        raise ValueError(
            f"There are {thing}s of {name_some(missing)}, which {by} does not have. {advice}{near}"
        )


def fitted_method(model: Any, method: str) -> str:
    """The name of the method that a model was fitted with; "auto" is what it chose."""
    while isinstance(model, ZeroShotMetaClassifier):
        model = model._inner
    kinds = {type(METHODS[name].make()): name for name in LEADING_METHODS}
    return kinds[type(model)] if method == AUTO else method


def _training(
    features: ImageFeatures, signatures: pd.DataFrame, leave_out: list[str]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features and labels to learn from; labels without a signature are refused."""
    thing = features.thing
    refuse_undescribed(features.y, signatures.index, thing=thing, leave_out=leave_out)
    assert features.y is not None
    kept = ~np.isin(features.y, leave_out) if leave_out else np.ones(len(features), bool)
    y = features.y[kept]
    if len(set(y.tolist())) < 2:
        raise ValueError(
            f"{thing.capitalize()}s of {len(set(y.tolist()))} class are too few; give {thing}s of "
            "at least two classes, better of many."
        )
    return features.X[kept], y
