"""Signatures of a person's classes, from a table or texts; features as a model file needs them.

Further classes are described as those of the model were, images become features as its own did.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from zslearn._utils._array import unit_rows
from zslearn._utils._messages import composed, name_some, plain, warn_user
from zslearn.datasets import read_descriptions, read_signature_table
from zslearn.images._backbones import Backbone, load_backbone
from zslearn.images._features import (
    ImageFeatures,
    extract_features,
    is_feature_table,
    load_features,
    refuse_other_features,
    table_features,
)
from zslearn.signatures import ENCODER_NAMES, encoder_name, text_signatures

#: What a name is put into where no other prompts are given.
PROMPTS = ("a photo of a {}.",)
#: Names by which timm and open_clip know networks themselves.
_KNOWN_THERE = re.compile(r"timm:[\w.-]+|open_clip:[\w.-]+(/[\w-]+)?", re.ASCII)


def refuse_foreign_network(backbone: str, where: str) -> None:
    """Refuse a network that a file names and that would be fetched from a hub or a folder.

    Files of models and features are passed on: what they name must not decide what is downloaded,
    or which files are read.
    """
    package, separator, name = backbone.partition(":")
    if not separator:
        return
    tag = name.partition("/")[2]
    if _KNOWN_THERE.fullmatch(backbone) is None or (tag and Path(tag).exists()):
        raise ValueError(
            f"{where} names the network {plain(backbone, 100)}, which {plain(package, 20)} would "
            "fetch from a hub or a folder. If you trust it, name it yourself: make features by "
            "zslearn features extract IMAGES --backbone …, and give these; for texts name the "
            "encoder 'backbone'."
        )


def encoder_for_model(named: str, encoder: str | None, where: str) -> str:
    """The text encoder of a model file: one that the library knows, or the caller's.

    A folder that a file names is not read on its word alone.
    """
    is_known = named in ("backbone", *ENCODER_NAMES)
    if encoder is None and not is_known:
        raise ValueError(
            f"{where} names the text encoder {plain(named, 100)!r}, which is none that zslearn "
            "knows by its name. A folder on the word of a file is not read: if you trust it, name "
            "it yourself as --text-encoder st:FOLDER (encoder= in Python)."
        )
    if encoder is not None and is_known and encoder != named:
        raise ValueError(
            f"{where} was described by the text encoder {named!r}, not by {encoder!r}."
        )
    return named if encoder is None else encoder


def backbone_for_model(
    about: Mapping[str, Any],
    *,
    model_name: str = "the model",
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
) -> Backbone | None:
    """The network that made the features of a model, or None where its `about` does not say."""
    expected = about.get("features")
    if not isinstance(expected, Mapping) or not expected.get("backbone"):
        return None
    name = str(expected["backbone"])
    refuse_foreign_network(name, model_name)
    preprocessing = expected.get("preprocessing")
    crop = preprocessing.get("crop") if isinstance(preprocessing, Mapping) else None
    network = load_backbone(name, weights=weights, device=device, crop=crop)
    refuse_other_features(expected, network.about, whose=model_name, where="this machine")
    return network


def features_for_model(
    source: str | os.PathLike[str],
    about: Mapping[str, Any],
    *,
    model_name: str = "the model",
    label: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    **options: Any,
) -> ImageFeatures:
    """Features as a model needs them: those of images are made as its training features were.

    Parameters
    ----------
    source : path
        A file ``.npz`` of features, a folder of images, or a table ``.csv`` of their paths; for a
        model of a table another one with its columns.
    about : mapping
        `about` of the model file, whose "features" say how features were made.
    model_name : str, default="the model"
        What errors call the model.
    label : str, optional
        The column of labels of a table; by default the one that the model was fitted with.
    weights, device
        See :func:`load_backbone`.
    **options
        Further arguments of :func:`~zslearn.images.extract_features`.

    Returns
    -------
    ImageFeatures
        Made by the same network, weights and preprocessing.

    Raises
    ------
    ValueError
        The features were made by another network, or the model does not say by which.
    """
    expected = about.get("features")
    expected = expected if isinstance(expected, Mapping) else {}
    where = plain(source)
    columns, own_label = expected.get("columns"), expected.get("label")
    if isinstance(columns, list) and Path(source).suffix != ".npz":
        if not Path(source).exists():
            raise FileNotFoundError(f"{where}: there is no such file.")
        if not Path(source).is_file() or not is_feature_table(source):
            raise ValueError(
                f"{model_name} was fitted on a table with the columns {name_some(columns)}; "
                f"{where} is no such table (.csv, .parquet)."
            )
        if label is None and isinstance(own_label, str):
            label = own_label
        return table_features(source, columns=columns, label=label)
    if label is not None:
        raise ValueError(f"label= is for a table of features; {where} is none.")
    if Path(source).suffix == ".npz":
        features = load_features(source)
        refuse_other_features(expected, features.about, whose=model_name, where=where)
    else:
        network = backbone_for_model(about, model_name=model_name, weights=weights, device=device)
        if network is None:
            raise ValueError(
                f"{model_name} does not say how its features were made, so that none can be made "
                f"of the images in {where}; give a file of features (.npz)."
            )
        features = extract_features(source, network, **options)
    had, has = (bool(record.get("boxes")) for record in (expected, features.about))
    if expected and features.about and had != has:
        with_or_without = "with" if had else "without"
        warn_user(
            f"{model_name} was fitted on images {with_or_without} bounding boxes, and those of "
            f"{where} are {'with' if has else 'without'}: they look different to it."
        )
    return features


#: Number and dot in front of the name of a class, as CUB's folders have.
_NUMBER = re.compile(r"^\d+[._-]+")


@dataclass(frozen=True, eq=False)
class Description:
    """Signatures of classes, and how they were made.

    Parameters
    ----------
    signatures : DataFrame
        One row per class.
    about : dict
        "kind": "table", or "text" with the name of the "encoder" and the "texts" of each class.
    """

    signatures: pd.DataFrame
    about: dict[str, Any]


def read_class_table(path: str | os.PathLike[str], label: str | None = None) -> Description:
    """Read a table of attributes, one row per class.

    Parameters
    ----------
    path : path
        A file ``.csv`` or ``.parquet``: labels in the first column or in that named by `label`,
        numbers in the others.
    label : str, optional
        The column of labels.

    Returns
    -------
    Description
        Labels are text, as those of folders are.
    """
    table = read_signature_table(path, label=label, text_labels=True)
    index = [composed(name) for name in table.index]
    return Description(table.set_axis(index, axis=0), {"kind": "table"})


def read_class_texts(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read the texts of classes from a file.

    Parameters
    ----------
    path : path
        A table or a file ``.json`` of texts, as :func:`~zslearn.datasets.read_descriptions` takes
        them. Where there is no text, the name of the class is its text: without the number in
        front, and with spaces for underscores. Where other classes have texts, a warning names such
        classes.

    Returns
    -------
    dict of str to list of str
        The texts of each class.

    Raises
    ------
    ValueError
        There are no classes, a row has no name, or a JSON file has another shape.
    """
    said: dict[str, list[str]] = {}
    for label, texts in read_descriptions(path, keep_empty=True).items():
        said.setdefault(composed(label), []).extend(texts)
    silent = [name for name, texts in said.items() if not texts]
    if 0 < len(silent) < len(said):
        warn_user(
            f"{plain(path)}: {len(silent)} of {len(said)} classes have no text, and are described "
            f"by their names: {name_some(silent)}."
        )
    return {name: texts or [_spoken(name)] for name, texts in said.items()}


def _spoken(name: str) -> str:
    """The name of a class as a person would say it."""
    return " ".join(re.split(r"[_\s]+", _NUMBER.sub("", name))).strip() or name


def text_features(
    names: Sequence[str] | Mapping[str, str | Sequence[str]],
    prompts: str | Sequence[str] = PROMPTS,
    *,
    backbone: str | Backbone,
    pool: Literal["mean"] | None = "mean",
) -> pd.DataFrame:
    """Signatures of classes by the text side of a model that also knows pictures.

    A name is put into every prompt; the vectors of the texts, each of unit length, are averaged,
    and the mean is brought to unit length.

    Parameters
    ----------
    names : sequence of str, or mapping
        Names of classes; or label → what is said of the class, one text or several.
    prompts : sequence of str, default=("a photo of a {}.",)
        Each with "{}" in the place of the text.
    backbone : str or Backbone
        A model of open_clip; see :func:`load_backbone`.
    pool : "mean" or None, default="mean"
        None: each text of a class keeps a row of its own, the mean over the prompts, and
        :class:`PromptClassifier` averages scores instead of vectors.

    Returns
    -------
    DataFrame of shape (n_classes, n_features)
        One row per class, in the space of the model's image features. Without pooling one row per
        text, with the levels "class" and "sentence" in the index.

    Raises
    ------
    ValueError
        The model has no side for text, or a prompt has no place for the name.
    """
    described = names if isinstance(names, Mapping) else {name: name for name in names}
    if not described:
        raise ValueError("There are no names of classes.")
    network = load_backbone(backbone) if isinstance(backbone, str) else backbone
    table = text_signatures(described, network.encode_text, pool=pool, prompts=prompts)
    return pd.DataFrame(unit_rows(table.to_numpy()), index=table.index, columns=table.columns)


def describe_in_text(
    texts: Mapping[str, str | Sequence[str]],
    encoder: str | None = None,
    *,
    prompts: str | Sequence[str] | None = None,
    about_features: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Description:
    """Signatures of classes from what is said of them.

    Parameters
    ----------
    texts : mapping of str to str or sequence of str
        The texts of each class.
    encoder : str, optional
        What turns text into vectors: an encoder of :func:`~zslearn.signatures.encode_text`, or
        "backbone" for the text side of the network that made the image features. By default
        "backbone" where that has one, else the default encoder.
    prompts : str or sequence of str, optional
        What each text is put into, in the place of "{}", averaged; by default the text stands
        alone, and "backbone" has that of :func:`text_features`.
    about_features : mapping, optional
        How the image features were made; "backbone" needs it.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    Description
        It names encoder and prompts, so that further classes can be described in the same way.
    """
    said = {label: [text] if isinstance(text, str) else list(text) for label, text in texts.items()}
    prompts = [prompts] if isinstance(prompts, str) else list(prompts or ())
    backbone = str((about_features or {}).get("backbone", ""))
    if encoder is None:
        encoder = "backbone" if backbone.startswith("open_clip:") else encoder_name()
        refuse_foreign_network(backbone, "The record of the features")
    if encoder == "backbone":
        if not backbone:
            raise ValueError("Nobody knows which network made the features; name an encoder.")
        prompts = prompts or list(PROMPTS)
        signatures = text_features(said, prompts, backbone=load_backbone(backbone))
    else:
        encoder, prompts = encoder_name(encoder), prompts or ["{}"]
        signatures = text_signatures(said, encoder, prompts=prompts, progress=progress)
    about = {"kind": "text", "encoder": encoder, "prompts": prompts, "texts": said}
    return Description(signatures, about)


def prompts_for_model(described: Mapping[str, Any]) -> list[str] | None:
    """The prompts that a model file says its texts were put into; None where it says none."""
    prompts = described.get("prompts")
    if not isinstance(prompts, list) or not all(isinstance(prompt, str) for prompt in prompts):
        return None
    return prompts
