"""What descriptions in words say of classes, and which of them to improve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import unit_rows
from zslearn._utils._messages import name_pairs, name_some
from zslearn.signatures._text import Encoder, text_signatures, words_of

#: Classes nearer than this share of the median distance cannot be distinguished.
_TOO_NEAR = 0.1
#: Rows of the table that `str` shows.
_SHOWN = 10


@dataclass(frozen=True, eq=False)
class _DescriptionReport:
    """What is in descriptions of classes, and what is wrong with them."""

    n_texts: dict[Any, int]  # class → how many texts
    empty: list[Any]  # classes without text
    equal: list[tuple[Any, ...]]  # classes with the very same texts
    near: list[tuple[Any, Any]]  # pairs whose texts the encoder takes for one, nearest first
    everywhere: list[str]  # words that each class has: they distinguish none
    #: Class → the nearest by text and by images, and how many classes are as near by text as the
    #: latter; those where text and images differ most come first.
    neighbours: pd.DataFrame

    def __str__(self) -> str:
        lines = [f"{len(self.n_texts)} classes, {sum(self.n_texts.values())} texts"]
        if self.empty:
            lines.append(f"without text: {len(self.empty)}, {name_some(self.empty)}")
        lines += [f"equal text: {name_some(group)}; say how they differ" for group in self.equal]
        if self.near:
            pairs = name_pairs(self.near, _SHOWN)
            lines.append(f"cannot be distinguished by their text: {pairs}; say how they differ")
        if self.everywhere:
            lines.append(f"words of every class: {name_some(self.everywhere, _SHOWN)}")
        if len(self.neighbours):
            lines.append(self.neighbours.head(_SHOWN).to_string())
        return "\n".join(lines)


def description_report(
    descriptions: Mapping[Any, str | Iterable[str]],
    encoder: Encoder | None = None,
    *,
    means: pd.DataFrame | None = None,
    cache: bool = True,
    progress: bool = False,
) -> _DescriptionReport:
    """Say what is in descriptions of classes, and which of them to improve.

    Parameters
    ----------
    descriptions : mapping
        Label → one text or several. Here they may be empty: such classes are named.
    encoder, cache, progress
        As of :func:`encode_text`.
    means : DataFrame of shape (n_seen, n_features), optional
        Mean image features of classes that have images; the index holds the labels.

    Returns
    -------
    DescriptionReport
        `empty` classes, groups with `equal` texts, pairs that are too `near` to be distinguished
        (under a tenth of the median distance between classes), the words that occur `everywhere`,
        and the table `neighbours`: the nearest class by text and by images, and the rank that the
        latter has by text. Where that rank is high, text and images differ: classes that look like
        each other are described differently, or the text says what cannot be seen. `str` gives it
        as text.

    See Also
    --------
    attribute_report : The same of a table of attributes.

    Examples
    --------
    >>> from zslearn.signatures import description_report
    >>> said = {"wren": "a small bird", "robin": "a small bird", "owl": "a bird of the night",
    ...         "kite": []}
    >>> print(description_report(said, lambda texts: [[len(text), 1.0] for text in texts]))
    4 classes, 3 texts
    without text: 1, 'kite'
    equal text: 'wren', 'robin'; say how they differ
    words of every class: 'a', 'bird'
          by text  similarity
    wren    robin         1.0
    robin    wren         1.0
    owl      wren        -1.0
    """
    of_class = {
        label: [text for text in ([said] if isinstance(said, str) else said) if text.strip()]
        for label, said in descriptions.items()
    }
    described = {label: texts for label, texts in of_class.items() if texts}
    groups: dict[Any, list[Any]] = {}
    for label, texts in described.items():
        groups.setdefault(frozenset(" ".join(words_of(text)) for text in texts), []).append(label)
    equal = [tuple(labels) for labels in groups.values() if len(labels) > 1]
    words = [{word for text in texts for word in words_of(text)} for texts in described.values()]
    in_all = set.intersection(*words) if len(words) > 1 else set()
    order = [w for texts in list(described.values())[:1] for text in texts for w in words_of(text)]
    near: list[tuple[Any, Any]] = []
    neighbours = pd.DataFrame()
    if len(described) > 1:
        vectors = text_signatures(described, encoder, cache=cache, progress=progress)
        known = {pair for group in equal for pair in combinations(group, 2)}
        near = [pair for pair in _near_pairs(vectors) if pair not in known]
        neighbours = _neighbours(vectors, means)
    return _DescriptionReport(
        {label: len(texts) for label, texts in of_class.items()},
        [label for label in of_class if label not in described],
        equal,
        near,
        [word for word in dict.fromkeys(order) if word in in_all],
        neighbours,
    )


def _near_pairs(vectors: pd.DataFrame) -> list[tuple[Any, Any]]:
    """Pairs of classes under a tenth of the median distance, nearest first."""
    unit = unit_rows(vectors.to_numpy())
    rows, columns = np.triu_indices(len(unit), 1)
    distances = np.sqrt(np.maximum(2 - 2 * (unit @ unit.T)[rows, columns], 0))
    order = np.argsort(distances, kind="stable")
    chosen = order[distances[order] < _TOO_NEAR * np.median(distances)]
    labels = vectors.index
    return [(labels[rows[i]], labels[columns[i]]) for i in chosen]


def _similarity(vectors: NDArray[Any]) -> NDArray[Any]:
    """Cosines of what distinguishes classes from their mean; none of a class with itself."""
    unit = unit_rows(vectors - vectors.mean(axis=0))
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -np.inf)
    return similarity


def _neighbours(vectors: pd.DataFrame, means: pd.DataFrame | None) -> pd.DataFrame:
    """The nearest class by text and by images, most different first."""
    similarity = _similarity(vectors.to_numpy())
    nearest = similarity.argmax(axis=1)
    table = pd.DataFrame(
        {"by text": vectors.index[nearest], "similarity": similarity.max(axis=1).round(3)},
        index=list(vectors.index),
    )
    seen = [] if means is None else [label for label in vectors.index if label in means.index]
    if means is None or len(seen) < 2:
        return table
    by_images = np.array(seen, dtype=object)[
        _similarity(means.loc[seen].to_numpy(dtype=np.float64)).argmax(axis=1)
    ]
    rows, columns = (
        vectors.index.get_indexer(pd.Index(seen)),
        vectors.index.get_indexer(pd.Index(by_images)),
    )
    ranks = 1 + (similarity[rows] > similarity[rows, columns][:, None]).sum(axis=1)
    table["by images"] = pd.Series(by_images, index=seen)
    table["its rank by text"] = pd.Series(ranks, index=seen, dtype="Int64")
    return table.sort_values("its rank by text", ascending=False, kind="stable")


def random_descriptions(
    names: Iterable[str],
    n_texts: int = 15,
    *,
    prompt: str = "{}, which has {}",
    random_state: int = 0,
) -> dict[str, list[str]]:
    """Describe classes by random letters: what descriptions must be better than.

    Each class gets its name with the same meaningless words. Averages over such texts often gain
    as much over the name alone as sentences of a language model do; sentences that gain no more
    than these say nothing.

    Parameters
    ----------
    names : iterable of str
        Names of classes.
    n_texts : int, default=15
        Texts per class.
    prompt : str, default="{}, which has {}"
        Where the name and the random words stand.
    random_state : int, default=0
        Seed.

    Returns
    -------
    dict of str to list of str
        Descriptions, as :func:`text_signatures` and
        :func:`zslearn.images.text_features` take them.

    References
    ----------
    K. Roth et al., "Waffling around for performance: visual classification with random words and
    broad concepts", ICCV 2023.

    Examples
    --------
    >>> from zslearn.signatures import random_descriptions
    >>> random_descriptions(["wren", "owl"], 1)["owl"]
    ['owl, which has qnhibbae qxnpzsq']
    """
    if prompt.count("{}") != 2:
        raise ValueError(f"prompt={prompt!r} needs '{{}}' twice: for the name and random words.")
    rng = np.random.default_rng(random_state)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    nonsense = [
        " ".join("".join(rng.choice(letters, rng.integers(3, 9))) for _ in range(2))
        for _ in range(n_texts)
    ]
    return {name: [prompt.format(name, words) for words in nonsense] for name in names}
