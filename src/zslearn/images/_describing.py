"""Signatures of a user's classes: read from a table, or made from texts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from zslearn._utils._array import unit_rows
from zslearn._utils._messages import composed, name_some, plain, warn_user
from zslearn.datasets import read_descriptions, read_signature_table
from zslearn.images._backbones import Backbone, load_backbone, refuse_foreign_backbone
from zslearn.signatures import encoder_name, text_signatures

#: The prompts that a name is put into by default.
PROMPTS = ("a photo of a {}.",)
#: The number and dot in front of the name of a class, as CUB's folders have.
_NUMBER = re.compile(r"^\d+[._-]+")


@dataclass(frozen=True, eq=False)
class Description:
    """Signatures of classes, and how they were made.

    Parameters
    ----------
    signatures : DataFrame
        One row per class.
    about : dict
        "kind": "table", or "text" with the "encoder", the "prompts" and the "texts" of each class.
    """

    signatures: pd.DataFrame
    about: dict[str, Any]


def read_class_table(path: str | os.PathLike[str], label: str | None = None) -> Description:
    """Read a table of attributes, one row per class.

    Parameters
    ----------
    path, label
        See :func:`~zslearn.datasets.read_signature_table`.

    Returns
    -------
    Description
        Labels are text, as those of folders are.
    """
    table = read_signature_table(path, label=label, text_labels=True)
    index = [composed(name) for name in table.index]
    return Description(table.set_axis(index, axis=0), {"kind": "table"})


def read_class_texts(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read the texts of classes, as :func:`~zslearn.datasets.read_descriptions` does.

    A class without a text is described by its name: without a number in front, and with spaces for
    underscores. A warning names such classes where others have texts.
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
    for name in silent:
        said[name] = [" ".join(re.split(r"[_\s]+", _NUMBER.sub("", name))).strip() or name]
    return said


def text_features(
    names: Sequence[str] | Mapping[str, str | Sequence[str]],
    prompts: str | Sequence[str] = PROMPTS,
    *,
    backbone: str | Backbone,
    pool: Literal["mean"] | None = "mean",
) -> pd.DataFrame:
    """Signatures of classes by the text side of a model that also knows images.

    Each name is put into every prompt; the text vectors, of unit length, are averaged and
    normalised again.

    Parameters
    ----------
    names : sequence of str, or mapping
        Names of classes; or label → descriptions of the class, one text or several.
    prompts : sequence of str, default=("a photo of a {}.",)
        Each with "{}" in the place of the text.
    backbone : str or Backbone
        A model of open_clip; see :func:`load_backbone`.
    pool : "mean" or None, default="mean"
        None keeps a row for each text of a class, the mean over the prompts:
        :class:`PromptClassifier` then averages scores instead of vectors.

    Returns
    -------
    DataFrame of shape (n_classes, n_features)
        One row per class, in the space of the model's image features. Without pooling one row per
        text, with the levels "class" and "sentence" in the index.
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
    backbone: Backbone | None = None,
    cache: bool = True,
    progress: bool = False,
) -> Description:
    """Signatures of classes from their texts.

    Parameters
    ----------
    texts : mapping of str to str or sequence of str
        The texts of each class.
    encoder : str, optional
        An encoder of :func:`~zslearn.signatures.encode_text`, or "backbone" for the text side of
        the network that made the image features. By default "backbone" where that has one, else the
        default encoder.
    prompts : str or sequence of str, optional
        What each text is put into, in the place of "{}", averaged; by default the text stands
        alone, and "backbone" has that of :func:`text_features`.
    about_features : mapping, optional
        How the image features were made, as in :class:`Samples`; "backbone" needs it.
    backbone : Backbone, optional
        That network, where it is loaded already.
    cache : bool, default=True
        Whether vectors of sentences are kept on disk.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    Description
        With encoder and prompts, so that further classes can be described in the same way.
    """
    said = {label: [text] if isinstance(text, str) else list(text) for label, text in texts.items()}
    network = str((about_features or {}).get("backbone", ""))
    if encoder is None:
        encoder = "backbone" if network.startswith("open_clip:") else encoder_name()
        refuse_foreign_backbone(network, "The record of the features")
    prompts = [prompts] if isinstance(prompts, str) else list(prompts or ())
    if encoder == "backbone":
        if backbone is None and not network:
            raise ValueError("Nobody knows which network made the features; name an encoder.")
        prompts = prompts or list(PROMPTS)
        signatures = text_features(said, prompts, backbone=backbone or load_backbone(network))
    else:
        encoder, prompts = encoder_name(encoder), prompts or ["{}"]
        options = {"cache": cache, "progress": progress}
        signatures = text_signatures(said, encoder, prompts=prompts, **options)
    about = {"kind": "text", "encoder": encoder, "prompts": prompts, "texts": said}
    return Description(signatures, about)
