"""Signatures of the user's classes, read from a table or encoded from texts."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from zslearn._utils._array import unit_rows
from zslearn._utils._messages import composed, name_some, plain, warn_user
from zslearn.datasets import read_descriptions, read_signature_table
from zslearn.images._backbones import Backbone, load_backbone, refuse_foreign_backbone
from zslearn.signatures import encoder_name, text_signatures

#: Default prompts for the text side of an image-text model.
PROMPTS = ("a photo of a {}.",)
#: The number in front of a class name, as in CUB's folders ("003.Sooty_Albatross").
_NUMBER = re.compile(r"^\d+[._-]+")


@dataclass(frozen=True, eq=False)
class Description:
    """Signatures of classes, with a record of how they were made.

    Parameters
    ----------
    signatures : DataFrame
        One row per class.
    about : dict
        "kind": "table"; or "text", with the "encoder", the "prompts" and the "texts" of each class.
    """

    signatures: pd.DataFrame
    about: dict[str, Any]


def read_class_table(
    path: str | os.PathLike[str], label: str | None = None, *, drop: Collection[str] = ()
) -> Description:
    """Read a table of attributes with one row per class; labels become text, as folder names are.

    Parameters
    ----------
    path, label
        See :func:`~zslearn.datasets.read_signature_table`.
    drop : collection of str, default=()
        Columns that are not used; those that the table does not have are ignored.

    Returns
    -------
    Description
        The signatures.
    """
    table = read_signature_table(path, label=label, text_labels=True, any_columns=True)
    dropped = [name for name in table.columns if name in set(drop)]
    table = table.drop(columns=dropped).rename(columns=str)
    index = [composed(name) for name in table.index]
    return Description(
        table.set_axis(index, axis=0), {"kind": "table", **({"dropped": dropped} if drop else {})}
    )


def read_class_texts(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read texts of classes with :func:`~zslearn.datasets.read_descriptions`.

    A class without a text is described by its name, without a leading number and with spaces for
    underscores. If other classes have texts, a warning names those without.
    """
    texts: dict[str, list[str]] = {}
    for label, found in read_descriptions(path, keep_empty=True).items():
        texts.setdefault(composed(label), []).extend(found)
    empty = [name for name, found in texts.items() if not found]
    if 0 < len(empty) < len(texts):
        warn_user(
            f"{plain(path)}: {len(empty)} of {len(texts)} classes have no text and are described "
            f"by their names: {name_some(empty)}."
        )
    for name in empty:
        texts[name] = [" ".join(re.split(r"[_\s]+", _NUMBER.sub("", name))).strip() or name]
    return texts


def text_features(
    names: Sequence[str] | Mapping[str, str | Sequence[str]],
    prompts: str | Sequence[str] = PROMPTS,
    *,
    backbone: str | Backbone,
    pool: Literal["mean"] | None = "mean",
) -> pd.DataFrame:
    """Encode class names with the text side of an image-text model.

    Each name is inserted into every prompt; the unit-length text vectors are averaged and
    normalised again.

    Parameters
    ----------
    names : sequence of str, or mapping
        Class names, or a mapping from label to one or more descriptions.
    prompts : sequence of str, default=("a photo of a {}.",)
        Templates in which "{}" stands for the text.
    backbone : str or Backbone
        A model of open_clip; see :func:`load_backbone`.
    pool : "mean" or None, default="mean"
        None keeps one row per text, averaged over the prompts: :class:`PromptClassifier` then
        averages scores instead of vectors.

    Returns
    -------
    DataFrame of shape (n_classes, n_features)
        Signatures in the space of the model's image features. Without pooling, the index has the
        levels "class" and "sentence".
    """
    described = names if isinstance(names, Mapping) else {name: name for name in names}
    if not described:
        raise ValueError("No class names were given.")
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
    """Encode texts of classes as signatures.

    Parameters
    ----------
    texts : mapping of str to str or sequence of str
        The texts of each class.
    encoder : str, optional
        An encoder of :func:`~zslearn.signatures.encode_text`, or "backbone" for the text side of
        the network that computed the image features, which is the default if it has one.
    prompts : str or sequence of str, optional
        Templates in which "{}" stands for the text; their vectors are averaged. By default the text
        alone, or the prompt of :func:`text_features` with "backbone".
    about_features : mapping, optional
        How the image features were made (`Samples.about`); needed for "backbone".
    backbone : Backbone, optional
        The network, if it is already loaded.
    cache : bool, default=True
        Whether to cache sentence vectors on disk.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    Description
        The signatures, with encoder and prompts, so that other classes can be encoded alike.
    """
    as_lists = {
        label: [text] if isinstance(text, str) else list(text) for label, text in texts.items()
    }
    network = str((about_features or {}).get("backbone", ""))
    if encoder is None:
        encoder = "backbone" if network.startswith("open_clip:") else encoder_name()
        refuse_foreign_backbone(network, "The record of the features")
    prompts = [prompts] if isinstance(prompts, str) else list(prompts or ())
    if encoder == "backbone":
        if backbone is None and not network:
            raise ValueError("The network that computed the features is unknown; name an encoder.")
        prompts = prompts or list(PROMPTS)
        signatures = text_features(as_lists, prompts, backbone=backbone or load_backbone(network))
    else:
        encoder, prompts = encoder_name(encoder), prompts or ["{}"]
        signatures = text_signatures(
            as_lists, encoder, prompts=prompts, cache=cache, progress=progress
        )
    about = {"kind": "text", "encoder": encoder, "prompts": prompts, "texts": as_lists}
    return Description(signatures, about)
