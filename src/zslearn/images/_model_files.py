"""Model files that know how to be used: how features are made, what classes are described by.

With them further samples can be predicted, and further classes, examples and unlabelled samples be
given to a saved model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._files import locked, refuse_unwritable
from zslearn._utils._messages import look_alikes, name_pairs, name_some, plain, warn_user
from zslearn.calibration import Adaptation, Adapted
from zslearn.images._backbones import Backbone, load_backbone, refuse_foreign_backbone
from zslearn.images._describing import Description, describe_in_text
from zslearn.images._features import read_samples, refuse_other_features
from zslearn.images._fitting import estimators_of
from zslearn.images._samples import Samples, is_feature_table, refuse_undescribed
from zslearn.persistence import ModelFile, read_model, save
from zslearn.signatures import ENCODER_NAMES
from zslearn.synthesis import GaussianEXEM

#: Features of training images that travel with a model, in bytes; of more images some are taken.
_KEPT_BYTES = 64 * 2**20
#: What of the record of features a model file keeps.
_RECORD = (
    *("backbone", "weights_sha256", "n_features", "preprocessing", "boxes", "versions"),
    *("columns", "label"),
)


def save_fitted(
    model: Any,
    path: str | os.PathLike[str],
    samples: Samples,
    description: Description,
    *,
    method: str,
) -> None:
    """Write a model with what it takes to predict samples and to describe further classes.

    The file's `about` has "features" (how they are made), "signatures" (how classes are described),
    "method", and "training" with names ("images") and "labels" of the rows of the extra array
    "training_features". The extra array "training_digests" tells training samples from others.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted.
    path : path
        The file.
    samples, description : Samples, Description
        What the model was fitted on.
    method : str
        Name of the method.
    """
    kept = samples.take(_thinned(samples, _KEPT_BYTES))
    about = {
        "features": {key: samples.about[key] for key in _RECORD if key in samples.about},
        "signatures": description.about,
        "method": method,
        "training": {
            "images": list(kept.names),
            "labels": [] if kept.y is None else kept.y.tolist(),
        },
    }
    extras: dict[str, Any] = {"training_features": np.asarray(kept.X, dtype=np.float32)}
    if samples.digests:
        extras["training_digests"] = np.asarray(samples.digests, dtype=np.str_)
    save(model, path, about=about, extras=extras)


def _thinned(samples: Samples, budget: int) -> NDArray[np.intp]:
    """Rows within a budget of memory, of every class the same number where it has so many."""
    n_rows = max(1, budget // max(1, 4 * samples.X.shape[1]))
    if len(samples) <= n_rows or samples.y is None:
        return np.arange(min(len(samples), n_rows))
    place = pd.Series(samples.y).groupby(samples.y, sort=False).cumcount().to_numpy()
    # First the first image of each class, then the second of each, …
    return np.sort(np.argsort(place, kind="stable")[:n_rows])


def _part(about: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of a model file's record; empty where it is missing or something else."""
    found = about.get(name)
    return found if isinstance(found, Mapping) else {}


# Features and signatures for a model, made as its own were.


def backbone_for_model(
    about: Mapping[str, Any],
    *,
    model_name: str = "the model",
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
) -> Backbone | None:
    """Load the network that made the features of a model.

    Parameters
    ----------
    about : mapping
        `about` of the model file.
    model_name : str, default="the model"
        What errors call the model.
    weights, device
        See :func:`load_backbone`.

    Returns
    -------
    Backbone or None
        None where the file names no network; a ValueError where it differs on this machine.
    """
    expected = _part(about, "features")
    if not expected.get("backbone"):
        return None
    name = str(expected["backbone"])
    refuse_foreign_backbone(name, model_name)
    crop = _part(expected, "preprocessing").get("crop")
    network = load_backbone(name, weights=weights, device=device, crop=crop)
    refuse_other_features(expected, network.about, whose=model_name, where="this machine")
    return network


def features_for_model(
    source: str | os.PathLike[str],
    about: Mapping[str, Any],
    *,
    model_name: str = "the model",
    label: str | None = None,
    described: Sequence[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    **options: Any,
) -> Samples:
    """Features as a model needs them: by the network, weights and preprocessing of its own.

    Parameters
    ----------
    source : path
        A file ``.npz`` of features, a folder of images, or a table ``.csv`` of their paths; for a
        model of a table another one with its columns.
    about, model_name, weights, device
        See :func:`backbone_for_model`.
    label : str, optional
        The column of labels of a table; by default the one that the model was fitted with.
    described : sequence of str, optional
        The classes that labels may name; other labels are refused before features are computed.
    **options
        Further arguments of :func:`extract_features`.

    Returns
    -------
    Samples
        A ValueError where they were made otherwise, or the model does not say how.
    """
    path, where, expected = Path(source), plain(source), _part(about, "features")
    columns = expected.get("columns")
    known = {"described": described, "by": model_name}
    if isinstance(columns, list) and path.suffix != ".npz":
        if not path.exists():
            raise FileNotFoundError(f"{where}: there is no such file.")
        if not is_feature_table(path):
            raise ValueError(
                f"{model_name} was fitted on a table with the columns {name_some(columns)}; "
                f"{where} is no such table (.csv, .parquet)."
            )
        own_label = expected.get("label")
        label = own_label if label is None and isinstance(own_label, str) else label
        return read_samples(path, label=label, columns=columns, **known)
    if label is not None:
        raise ValueError(f"label= is for a table of features; {where} is none.")
    if path.suffix == ".npz":
        samples = read_samples(path, weights=weights, **known, **options)
        refuse_other_features(expected, samples.about, whose=model_name, where=where)
    else:
        network = backbone_for_model(about, model_name=model_name, weights=weights, device=device)
        if network is None:
            raise ValueError(
                f"{model_name} does not say how its features were made, so that none can be made "
                f"of the images in {where}; give a file of features (.npz)."
            )
        samples = read_samples(path, backbone=network, **known, **options)
    had, has = (bool(record.get("boxes")) for record in (expected, samples.about))
    if expected and samples.about and had != has:
        with_or_without = "with" if had else "without"
        warn_user(
            f"{model_name} was fitted on images {with_or_without} bounding boxes, and those of "
            f"{where} are {'with' if has else 'without'}: they look different to it."
        )
    return samples


def encoder_for_model(
    about: Mapping[str, Any], encoder: str | None = None, *, model_name: str = "the model"
) -> str:
    """The text encoder that a model's classes were described by.

    Parameters
    ----------
    about, model_name
        See :func:`backbone_for_model`.
    encoder : str, optional
        An encoder in a folder (``st:FOLDER``), which is read on your word, not on that of a file.

    Returns
    -------
    str
        Its name; a ValueError where the classes are not described by text, or by another encoder.
    """
    signatures = _part(about, "signatures")
    if signatures.get("kind") != "text":
        raise ValueError(
            f"{model_name}: its classes are described by numbers, not by text; give a table with "
            "the same columns."
        )
    named = signatures.get("encoder")
    if not isinstance(named, str):
        raise ValueError(f"{model_name} does not say what turned its texts into numbers.")
    is_known = named in ("backbone", *ENCODER_NAMES)
    if encoder is None and not is_known:
        raise ValueError(
            f"{model_name} names the text encoder {plain(named, 100)!r}, which is none that "
            "zslearn knows by its name. A folder on the word of a file is not read: if you trust "
            "it, name it yourself as --text-encoder st:FOLDER (encoder= in Python)."
        )
    if encoder is not None and is_known and encoder != named:
        raise ValueError(
            f"{model_name} was described by the text encoder {named!r}, not by {encoder!r}."
        )
    return named if encoder is None else encoder


def describe_for_model(
    texts: Mapping[str, str | Sequence[str]],
    about: Mapping[str, Any],
    encoder: str | None = None,
    *,
    backbone: Backbone | None = None,
    model_name: str = "the model",
    cache: bool = True,
) -> Description:
    """Describe further classes in text, by the encoder and prompts of a model.

    Parameters
    ----------
    texts : mapping of str to str or sequence of str
        The texts of each class.
    about, encoder, model_name
        See :func:`encoder_for_model`.
    backbone, cache
        See :func:`describe_in_text`.

    Returns
    -------
    Description
        With the signatures of these classes alone.
    """
    encoder = encoder_for_model(about, encoder, model_name=model_name)
    features = _part(about, "features")
    if encoder == "backbone" and backbone is None:
        refuse_foreign_backbone(str(features.get("backbone", "")), model_name)
    prompts = _part(about, "signatures").get("prompts")
    if not isinstance(prompts, list) or not all(isinstance(prompt, str) for prompt in prompts):
        prompts = None
    options: dict[str, Any] = {"backbone": backbone, "cache": cache}
    return describe_in_text(texts, encoder, prompts=prompts, about_features=features, **options)


# Changes of model files.


def _change_file(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None,
    change: Callable[[ModelFile], ModelFile | None],
) -> None:
    """Read a model file and write what `change` makes of it, unless that is None."""
    target = Path(path if out is None else out)
    # A lock makes folders: first there must be a model.
    os.stat(path)
    refuse_unwritable(target)
    # Nobody else changes it between reading and writing, which would be lost.
    with locked(target):
        file = change(read_model(path))
        if file is not None:
            save(file.model, target, about=file.about, extras=file.extras)


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
        Where to write the model; by default it replaces `path` atomically.
    encoder : str, optional
        See :func:`encoder_for_model`.

    Returns
    -------
    list of str
        Labels of the new classes; a ValueError where one is known already or described otherwise.
    """
    labels: list[str] = []

    def describe(file: ModelFile) -> ModelFile:
        table, about = description, dict(file.about)
        if isinstance(table, Mapping):
            new = describe_for_model(table, about, encoder, model_name=plain(path))
            table, signatures = new.signatures, _part(about, "signatures")
            texts = {**_part(signatures, "texts"), **new.about["texts"]}
            about["signatures"] = {**signatures, "texts": texts}
        labels.extend(str(label) for label in table.index)
        return replace(file, model=file.model.add_classes(table), about=about)

    _change_file(path, out, describe)
    return labels


def add_examples_to_file(
    path: str | os.PathLike[str],
    samples: Samples,
    signatures: pd.DataFrame | None = None,
    out: str | os.PathLike[str] | None = None,
) -> list[str]:
    """Give labelled samples to a saved model, by its `add_examples`.

    Parameters
    ----------
    path, out
        See :func:`add_classes_to_file`.
    samples : Samples
        With labels.
    signatures : DataFrame, optional
        Signatures of classes that the model does not describe yet.

    Returns
    -------
    list of str
        Classes that have examples and no description.
    """
    noun = samples.row_noun
    y = np.asarray(refuse_undescribed(samples.y, None, row_noun=noun))
    alone: list[str] = []

    def add(file: ModelFile) -> ModelFile:
        check_can_learn(file.model, "add_examples", plain(path))
        known = [*file.model.classes_.tolist(), *([] if signatures is None else signatures.index)]
        unknown = [label for label in dict.fromkeys(y.tolist()) if label not in set(known)]
        if pairs := look_alikes(unknown, known):
            raise ValueError(
                f"There are {noun}s of classes that look like known ones, and are others: "
                f"{name_pairs(pairs)}. Write each name in one way."
            )
        alone.extend(unknown)
        model = file.model.add_examples(samples.X, y, signatures=signatures)
        extras = dict(file.extras)
        if samples.digests:
            digests = extras.get("training_digests", np.empty(0, dtype=np.str_))
            extras["training_digests"] = np.concatenate([digests.ravel(), list(samples.digests)])
        return replace(file, model=model, extras=extras)

    _change_file(path, out, add)
    return alone


def adapt_file(
    path: str | os.PathLike[str],
    samples: Samples,
    *,
    classes: Sequence[Any] | None = None,
    accept: str | bool = "cv",
    out: str | os.PathLike[str] | None = None,
) -> Adaptation:
    """Adapt a saved model to unlabelled samples; its calibration is kept.

    Parameters
    ----------
    path, out
        See :func:`add_classes_to_file`. A model that does not gain is not written.
    samples : Samples
        Their labels are not used.
    classes, accept
        See :meth:`zslearn.synthesis.GaussianEXEM.adapt`.

    Returns
    -------
    Adaptation
        What the samples changed.
    """
    done: list[Adaptation] = []

    def adapt(file: ModelFile) -> ModelFile | None:
        check_can_learn(file.model, "adapt", plain(path))
        model = file.model.adapt(samples.X, classes=classes, accept=accept)
        found = (getattr(part, "adaptation_", None) for part in estimators_of(model))
        done.append(next(adaptation for adaptation in found if adaptation is not None))
        return replace(file, model=model) if done[0].accepted else None

    _change_file(path, out, adapt)
    return done[0]


def check_can_learn(model: Any, verb: str, model_name: str = "the model") -> None:
    """Check that a model has `verb`, "add_examples" or "adapt"; else raise a ValueError."""
    *_, method = parts = estimators_of(model)
    advice = "fit it anew with method='Gaussian EXEM'"
    if not hasattr(model, verb):
        name = type(method).__name__
        raise ValueError(f"{model_name}: {name} has no {verb}; {advice}, which has.")
    if verb == "adapt" and not any(isinstance(part, (Adapted, GaussianEXEM)) for part in parts):
        raise ValueError(
            f"{model_name}: {type(method).__name__} adapts without a look at held-out classes, and "
            f"only in Python; {advice}, or call its adapt yourself."
        )
