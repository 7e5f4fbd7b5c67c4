"""Fitting a method on images of some classes, and files of models that know how to be used.

A model file says how features are made of images and what classes are described by, so that images
can be predicted and further classes described later.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from zslearn._utils._files import locked
from zslearn._utils._messages import (
    can_be_seen,
    did_you_mean,
    name_near_misses,
    name_some,
    plain,
)
from zslearn.calibration._none_of_these import NoneOfThese
from zslearn.calibration._stacking import CalibratedStacking
from zslearn.experiments._methods import LEADING, METHODS, find_method
from zslearn.experiments._protocol import Protocol
from zslearn.experiments._tuning import TuningOptions, best_of
from zslearn.images._describing import (
    Description,
    describe_in_text,
    encoder_for_model,
    refuse_foreign_network,
)
from zslearn.images._features import ImageFeatures
from zslearn.persistence._model_files import ModelFile, read_model, save

_logger = logging.getLogger("zslearn")

#: The method that classes left out choose.
AUTO = "auto"
#: Features of training images that travel with a model, in bytes; of more images some are taken.
_KEPT_BYTES = 64 * 2**20
#: What of the record of features a model file keeps.
_RECORD = ("backbone", "weights_sha256", "n_features", "preprocessing", "boxes", "versions")


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
    target = Path(path if out is None else out)
    # A lock makes folders: first there must be a model.
    os.stat(path)
    # Between reading and writing nobody else adds classes, which would be lost.
    with locked(target):
        file = read_model(path)
        table, about = _described(file, description, encoder, plain(path))
        labels = [str(label) for label in table.index]
        if not all(label.strip() and can_be_seen(label) for label in labels):
            raise ValueError(
                "A class has no name, or one with characters that cannot be seen; name every class "
                "that is described."
            )
        model = file.model.add_classes(table)
        save(model, target, about=about, extras=file.extras)
    return labels


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
    new = describe_in_text(description, encoder, about_features=features)
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
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Any:
    """Fit a method on images with labels; classes without images are known by their description.

    Hyper-parameters, the calibration factor and the temperature of probabilities are found by
    leaving out classes that have images.

    Parameters
    ----------
    features : ImageFeatures
        With labels.
    signatures : DataFrame
        One row per class, of those with images and of others.
    method : str, default="auto"
        A name that :func:`~zslearn.experiments.find_method` knows; or "auto": Gaussian EXEM, EXEM
        and SynC are tuned, and the one with the largest AUSUC on the classes left out is taken.
        Where nothing is tuned it is Gaussian EXEM.
    tune : str or None, default="fast"
        The grid of hyper-parameters to search; None takes the method's defaults.
    leave_out : iterable of str, default=()
        Classes whose images are not trained on.
    none_rate : float, optional
        Say "none of these" of images that no described class fits, at this share of false alarms;
        see :class:`~zslearn.calibration.NoneOfThese`.
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
        classes have images; with `none_rate` :class:`~zslearn.calibration.NoneOfThese`.

    Raises
    ------
    ValueError
        An image has a label that no signature describes, there are no labels, or `none_rate` is no
        share.

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
    X, y = _training(features, signatures, list(leave_out))
    known = [find_method(name) for name in (LEADING if method == AUTO else [method])]
    protocol = Protocol("default")
    seen = np.unique(y)
    # What tuning asks of a data set.
    data: Any = SimpleNamespace(X_train=X, y_train=y, signatures=signatures, seen_classes=seen)
    for one in known:
        if one.check is not None:
            one.check(data)
    model: Any
    if tune is None or len(seen) < _FEWEST_CLASSES:
        calibrated = CalibratedStacking(
            protocol.prepare(known[0].make(), random_state),
            temperature="cv",
            n_jobs=n_jobs,
            random_state=random_state,
        )
        model = calibrated.fit(X, y, signatures=signatures)
    else:
        options = TuningOptions(
            "gzsl",
            tune,
            protocol.folds("gzsl", len(seen), random_state),
            n_jobs=n_jobs,
            progress=progress,
            temperature="cv",
        )
        searches = [
            one.tune(protocol.prepare(one.make(), random_state), data, options) for one in known
        ]
        model = best_of(searches)
        if len(known) > 1:
            pairs = zip(known, searches, strict=True)
            scores = ", ".join(f"{one.name} {search.best_score_:.3f}" for one, search in pairs)
            chosen_name = fitted_method(model, method)
            _logger.info("%s is taken; AUSUC on classes left out: %s", chosen_name, scores)
    if none_rate is None:
        return model
    chosen = CalibratedStacking(
        clone(model.estimator_), bias=float(model.bias_), temperature=model.temperature_
    )
    rejecting = NoneOfThese(
        chosen, false_alarm_rate=none_rate, n_jobs=n_jobs, random_state=random_state
    )
    return rejecting.fit(X, y, signatures=signatures)


def fitted_method(model: Any, method: str) -> str:
    """The name of the method that a model was fitted with; "auto" is what it chose."""
    while getattr(model, "estimator_", None) is not None:
        model = model.estimator_
    kinds = {type(METHODS[name].make()): name for name in LEADING}
    return kinds[type(model)] if method == AUTO else method


def _training(
    features: ImageFeatures, signatures: pd.DataFrame, leave_out: list[str]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features and labels to learn from; labels without a signature are refused."""
    if features.y is None:
        raise ValueError(
            "The images have no labels: put each into a folder of its class, or give a table "
            "(.csv) with the columns path and label."
        )
    present = list(dict.fromkeys(features.y.tolist()))
    if unknown := [label for label in leave_out if label not in present]:
        near = did_you_mean(unknown[0], present)
        raise ValueError(f"There are no images of {name_some(unknown)} to leave out.{near}")
    described = set(signatures.index.tolist())
    if missing := [label for label in present if label not in described]:
        near = name_near_misses(
            missing,
            signatures.index.tolist(),
            unknown_in="the list of images",
            known_in="the description",
        )
        raise ValueError(
            f"There are images of {name_some(missing)}, which no row of the description is about. "
            f"Describe every class that has images.{near}"
        )
    kept = ~np.isin(features.y, leave_out) if leave_out else np.ones(len(features), bool)
    y = features.y[kept]
    if len(set(y.tolist())) < 2:
        raise ValueError(
            f"Images of {len(set(y.tolist()))} class are too few; give images of at least two "
            "classes, better of many."
        )
    return features.X[kept], y
