"""Model files that know how their features and signatures were made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.features import ImageFeatures
from zslearn.persistence import read_model, save
from zslearn.recognition._describing import Description, describe_in_text
from zslearn.recognition._sources import encoder_for_model, refuse_foreign_network
from zslearn.utils import plain

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
    """
    file = read_model(path)
    about = dict(file.about)
    signatures = about.get("signatures")
    signatures = dict(signatures) if isinstance(signatures, Mapping) else {}
    if isinstance(description, Mapping):
        if signatures.get("kind") != "text":
            raise ValueError(
                f"{plain(path)}: its classes are described by numbers, not by text; give a table "
                "with the same columns."
            )
        new = _describe_as_in_file(
            description, signatures, encoder, about.get("features"), plain(path)
        )
        known = signatures.get("texts")
        signatures["texts"] = {
            **(known if isinstance(known, Mapping) else {}),
            **new.about["texts"],
        }
        about["signatures"] = signatures
        table = new.signatures
    else:
        table = description
    labels = [str(label) for label in table.index]
    if not all(label.strip() for label in labels):
        raise ValueError("A class has no name; name every class that is described.")
    model = file.model.add_classes(table)
    save(model, Path(path if out is None else out), about=about, extras=file.extras)
    return labels


def _describe_as_in_file(
    texts: Mapping[str, Any],
    signatures: Mapping[str, Any],
    encoder: str | None,
    features: Any,
    where: str,
) -> Description:
    """Signatures of texts by the encoder that a model file, or the caller, names."""
    named = signatures.get("encoder")
    if not isinstance(named, str):
        raise ValueError(f"{where} does not say what turned its texts into numbers.")
    encoder = encoder_for_model(named, encoder, where)
    features = features if isinstance(features, Mapping) else {}
    if encoder == "backbone":
        refuse_foreign_network(str(features.get("backbone", "")), where)
    return describe_in_text(texts, encoder, about_features=features)
