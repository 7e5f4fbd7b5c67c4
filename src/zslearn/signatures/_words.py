"""Signatures from word vectors: the mean over the names of a class."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.signatures._text import _texts_of, column_names
from zslearn.signatures._word_files import from_gensim, read_word_vectors
from zslearn.utils import name_some, warn_user

Phrases = Literal["joined", "averaged", "both"]


class WordSignatures(NamedTuple):
    """Signatures from word vectors, and the classes that have none.

    Parameters
    ----------
    table : DataFrame
        One row per class that has a vector; the index holds the labels.
    missing : list
        The other classes.
    """

    table: pd.DataFrame
    missing: list[Any]


def word_signatures(
    names: Mapping[Any, str | Iterable[str]] | pd.Series,
    vectors: Mapping[str, Any] | str | os.PathLike[str] | Any,
    *,
    phrases: Phrases = "both",
    trusted: bool = False,
    progress: bool = False,
) -> WordSignatures:
    """Make signatures of classes from word vectors of their names.

    The vector of a class is the mean over those of its names (synonyms) that are known. A name of
    several words is looked up as one term, joined by "_"; where that is not known, the vectors of
    its words are averaged. A name is tried as it is written, in lower case, and with capitals.

    Parameters
    ----------
    names : mapping or Series
        Label → one name or several, as :meth:`zslearn.signatures.WordNet.names` gives them.
    vectors : path, mapping, WordVectors or gensim KeyedVectors
        A file as of :func:`read_word_vectors`, of which only the words of the names are kept; or
        vectors by word.
    phrases : {"both", "joined", "averaged"}, default="both"
        How names of several words are looked up: as one term, else the mean of their words; only
        as one term; or only as the mean of their words.
    trusted : bool, default=False
        Whether a file of gensim's own format may be read, as of :func:`read_word_vectors`.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    WordSignatures
        The `table`, one row per class with a vector, and the classes `missing` in it, of which a
        warning tells, too.

    Raises
    ------
    ValueError
        No class has a vector, vectors are of different widths, or a file cannot be read.

    See Also
    --------
    train_word_vectors : Vectors from a corpus.

    Examples
    --------
    >>> from zslearn.signatures import word_signatures
    >>> vectors = {"dog": [1, 0], "sea_lion": [0, 1], "polar": [0, 0.4], "bear": [0.8, 0]}
    >>> names = {"n1": ["dog", "domestic dog"], "n2": "sea lion", "n3": "polar bear"}
    >>> word_signatures(names, vectors, phrases="both").table
           word 0  word 1
    class
    n1        1.0     0.0
    n2        0.0     1.0
    n3        0.4     0.2
    """
    if phrases not in ("both", "joined", "averaged"):
        raise ValueError(f"phrases={phrases!r}; there are 'both', 'joined' and 'averaged'.")
    if isinstance(names, pd.Series):
        names = names.to_dict()
    if not isinstance(names, Mapping) or not names:
        raise ValueError("names must map each label to a name or to several; got none.")
    of_class = {label: _texts_of(label, of_label) for label, of_label in names.items()}
    known = _vectors(vectors, of_class, phrases, trusted, progress)
    found: dict[Any, NDArray[np.float64]] = {}
    for label, synonyms in of_class.items():
        of_names = [_look_up(name, known, phrases) for name in synonyms]
        have = [vector for vector in of_names if vector is not None]
        if have:
            found[label] = np.mean(have, axis=0)
    missing = [label for label in of_class if label not in found]
    if not found:
        raise ValueError(
            f"None of the {len(of_class)} classes has a name in the word vectors, such as "
            f"{name_some(next(iter(of_class.values())))}: the vectors are of another language, "
            "or the names are no words."
        )
    if missing:
        warn_user(
            f"{len(missing)} of {len(of_class)} classes have no word vector and are left out: "
            f"{name_some(missing)}."
        )
    rows = np.stack(list(found.values()))
    index = pd.Index(list(found), name="class", tupleize_cols=False)
    table = pd.DataFrame(rows, index=index, columns=column_names("word", rows.shape[1]))
    return WordSignatures(table, missing)


def _vectors(
    vectors: Any, of_class: Mapping[Any, list[str]], phrases: str, trusted: bool, progress: bool
) -> dict[str, NDArray[np.float64]]:
    """Vectors of the words that may be looked up, all of one width."""
    needed = {
        word
        for synonyms in of_class.values()
        for name in synonyms
        for forms in [*_joined(name), *_parts(name)]
        for word in forms
    }
    if isinstance(vectors, (str, os.PathLike)):
        vectors = read_word_vectors(vectors, needed, trusted=trusted, progress=progress)
    elif not isinstance(vectors, Mapping):
        if not hasattr(getattr(vectors, "wv", vectors), "key_to_index"):
            raise ValueError(
                "vectors must be a file, vectors by word, or gensim's KeyedVectors; got "
                f"{type(vectors).__name__}."
            )
        vectors = from_gensim(vectors, needed)
    known = {
        word: np.asarray(vectors[word], dtype=np.float64)
        for word in sorted(needed)
        if word in vectors
    }
    widths: dict[tuple[int, ...], str] = {}
    for word, vector in known.items():
        widths.setdefault(vector.shape, word)
    if len(widths) > 1 or any(len(shape) != 1 for shape in widths):
        listed = ", ".join(f"{word!r} of shape {shape}" for shape, word in widths.items())
        raise ValueError(f"Word vectors must be of one width; there are {listed}.")
    return known


def _forms(word: str) -> tuple[str, ...]:
    """A word as it is written, in lower case, and with a capital at each part."""
    capital = "_".join(part[:1].upper() + part[1:] for part in word.split("_"))
    return tuple(dict.fromkeys((word, word.lower(), capital)))


def _joined(name: str) -> list[tuple[str, ...]]:
    """Forms of a whole name, its words joined: as written, and without hyphens."""
    whole = "_".join(name.replace("_", " ").split())
    return [_forms(form) for form in dict.fromkeys((whole, whole.replace("-", "_")))]


def _parts(name: str) -> list[tuple[str, ...]]:
    """Forms of each word of a name."""
    return [_forms(word) for word in name.replace("_", " ").replace("-", " ").split()]


def _look_up(
    name: str, known: Mapping[str, NDArray[np.float64]], phrases: str
) -> NDArray[np.float64] | None:
    """The vector of a name; None where nothing of it is known."""
    is_phrase = len(_parts(name)) > 1
    if phrases != "averaged" or not is_phrase:
        for forms in _joined(name):
            for form in forms:
                if form in known:
                    return known[form]
    if phrases == "joined" or not is_phrase:
        return None
    words = [_first(forms, known) for forms in _parts(name)]
    have = [vector for vector in words if vector is not None]
    # Half of a name may mean something else: "polar" alone is no bear.
    return np.mean(have, axis=0) if len(have) == len(words) else None


def _first(
    forms: Sequence[str], known: Mapping[str, NDArray[np.float64]]
) -> NDArray[np.float64] | None:
    return next((known[form] for form in forms if form in known), None)
