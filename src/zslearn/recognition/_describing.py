"""What is known of classes: a table of attributes, or words."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn.datasets import read_signature_table
from zslearn.features import load_backbone, text_features
from zslearn.recognition._sources import refuse_foreign_network
from zslearn.signatures import encoder_name, text_signatures
from zslearn.utils import composed, plain, read_rows

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


def describe_in_words(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read what is said of classes.

    Parameters
    ----------
    path : path
        A file of comma-separated values with the columns class and text. A class may have several
        rows. Where the text is empty, or class is the only column, the name of the class is its
        text: without the number in front, and with spaces for underscores.

    Returns
    -------
    dict of str to list of str
        The texts of each class.

    Raises
    ------
    ValueError
        The table has no classes, a row has no name, or there are columns but none called text.
    """
    said: dict[str, list[str]] = {}
    for line, row in read_rows(Path(path), ["class"], optional=["text"], instead=False):
        name = composed(row["class"])
        if not name:
            raise ValueError(f"{plain(path)}: line {line} names no class.")
        said.setdefault(name, []).append(row["text"] or _spoken(name))
    if not said:
        raise ValueError(f"{plain(path)}: there are no classes; the table has no rows.")
    return said


def _spoken(name: str) -> str:
    """The name of a class as a person would say it."""
    return " ".join(re.split(r"[_\s]+", _NUMBER.sub("", name))).strip() or name


def describe_in_text(
    texts: Mapping[str, str | Sequence[str]],
    encoder: str | None = None,
    *,
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
    about_features : mapping, optional
        How the image features were made; "backbone" needs it.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    Description
        It names the encoder, so that further classes can be described in the same way.
    """
    said = {label: [text] if isinstance(text, str) else list(text) for label, text in texts.items()}
    backbone = str((about_features or {}).get("backbone", ""))
    if encoder is None:
        encoder = "backbone" if backbone.startswith("open_clip:") else encoder_name()
        refuse_foreign_network(backbone, "The record of the features")
    if encoder == "backbone":
        if not backbone:
            raise ValueError("Nobody knows which network made the features; name an encoder.")
        signatures = text_features(said, backbone=load_backbone(backbone))
    else:
        encoder = encoder_name(encoder)
        signatures = text_signatures(said, encoder, progress=progress)
    return Description(signatures, {"kind": "text", "encoder": encoder, "texts": said})
