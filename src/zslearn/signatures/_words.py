"""Build signatures from word vectors, which gensim reads from files or trains on a corpus."""

from __future__ import annotations

import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn._utils._files import regular_size
from zslearn._utils._messages import name_some, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import progress_bar
from zslearn._utils._validation import checks_arguments
from zslearn.signatures._text import texts_by_class
from zslearn.signatures._views import class_frame

#: Maximum ratio of the sizes of an uncompressed and a compressed file.
_MAX_COMPRESSION = 64


def _read_word_vectors(path: str | os.PathLike[str]) -> Any:
    """Read word vectors from a file, with gensim."""
    path = Path(path)
    regular_size(path)
    gensim = import_optional("gensim", "Reading word vectors")
    try:
        has_header, is_binary = _format(path, gensim)
        found = gensim.models.KeyedVectors.load_word2vec_format(
            str(path), binary=is_binary, no_header=not has_header, unicode_errors="replace"
        )
        if not found.vectors.size:
            raise ValueError("it has no numbers")
    except (EOFError, OSError, TypeError, ValueError, AssertionError, zlib.error) as error:
        if str(error).startswith(plain(path)):
            raise
        raise ValueError(
            f"{plain(path)}: gensim cannot read it as word vectors: {plain(str(error), 200)}."
        ) from error
    bad = np.flatnonzero(~np.isfinite(found.vectors).all(axis=1))
    if bad.size:
        word = found.index_to_key[bad[0]]
        raise ValueError(f"{plain(path)}: the vector of {plain(word)!r} has NaN or infinity.")
    return found


def _format(path: Path, gensim: Any) -> tuple[bool, bool]:
    """Detect from its first two lines whether a file has a header and whether it is binary."""
    with gensim.utils.open(str(path), "rb") as file:
        first, second = file.readline(1 << 24), file.readline(1 << 24).split()
    fields = first.split()
    if not first:
        raise ValueError(f"{plain(path)} is empty.")
    if first[:1] == b"\x80":
        raise ValueError(
            f"{plain(path)} is a pickle, as gensim's KeyedVectors are saved; reading it can run "
            "arbitrary code. If you trust it, load it with gensim's KeyedVectors.load, and "
            "pass the vectors or save them with save_word2vec_format."
        )
    if re.fullmatch(rb"\s*\d{1,18}\s+\d{1,18}\s*", first):
        n_words, width = map(int, fields)
        # The header must not declare more than the file can hold: a number takes two bytes or more.
        largest = path.stat().st_size * (_MAX_COMPRESSION if path.suffix == ".gz" else 1)
        if not (n_words >= 1 and width >= 1 and 2 * n_words * width <= largest):
            raise ValueError(
                f"{plain(path)} declares {n_words} words of {width} numbers, more than it can "
                "hold; it is incomplete."
            )
        return True, len(second) != width + 1 or not _are_numbers(second[1:])
    if len(fields) > 2 and _are_numbers(fields[-2:]):
        return False, False
    raise ValueError(
        f"{plain(path)} is not in a supported format: word2vec's text or binary format, or GloVe's "
        "text format."
    )


def _are_numbers(fields: list[bytes]) -> bool:
    try:
        return len([float(field) for field in fields]) > 0
    except ValueError:
        return False


#: Minimum mean number of occurrences of a word.
_MIN_OCCURRENCES = 5
#: Minimum score of two words that form a phrase, as in word2phrase.
_PHRASE_THRESHOLD = 100.0

#: One or several text files, or sentences as lists of words.
Corpus = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Iterable[list[str]]


@checks_arguments(
    {
        name: [Interval(Integral, 1, None, closed="left")]
        for name in ("n_dimensions", "window", "n_epochs", "min_count", "n_jobs")
    }
)
def train_word_vectors(
    corpus: Corpus,
    *,
    n_dimensions: int = 500,
    window: int = 20,
    n_epochs: int = 1,
    min_count: int = 5,
    random_state: int = 0,
    n_jobs: int = 1,
    progress: bool = False,
) -> Any:
    """Train word vectors on a corpus with the skip-gram model and hierarchical softmax.

    Words that often occur together are joined by "_" first. The defaults follow the paper: 500
    dimensions, a window of 20 words, one epoch ("wv-v1"; ten epochs for "wv-v2"), and an unlimited
    vocabulary.

    Parameters
    ----------
    corpus : path, iterable of paths, or iterable of lists of str
        Text files in UTF-8 with one sentence, paragraph or article per line, which are converted to
        lower case; or sentences as lists of words.
    n_dimensions : int, default=500
        Dimension of the vectors.
    window : int, default=20
        Number of words on either side that a word predicts.
    n_epochs : int, default=1
        Number of passes over the corpus.
    min_count : int, default=5
        Minimum number of occurrences of a word.
    random_state : int, default=0
        Seed; results are reproducible with one job only.
    n_jobs : int, default=1
        Number of threads.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    gensim.models.KeyedVectors
        Sorted by frequency; the method `save_word2vec_format` writes a file.
    """
    models = import_optional("gensim.models", "Training word vectors")
    sentences = _Sentences(corpus)
    counts = Counter(word for sentence in sentences for word in sentence)
    if not counts:
        raise ValueError("corpus has no words.")
    # gensim iterates over the sentences for the phrases, the vocabulary and each epoch.
    n_passes = 2 + n_epochs
    with progress_bar(progress, sentences.n_sentences * n_passes, "sentences") as advance:
        sentences.advance = advance
        phraser = models.phrases.Phrases(
            sentences, min_count, _PHRASE_THRESHOLD, scoring=_phrase_score, delimiter="_"
        )
        # Phrases are joined again in each pass, to save memory.
        terms = phraser.freeze()[sentences]
        options = {"window": window, "min_count": min_count, "seed": random_state}
        model = models.Word2Vec(
            vector_size=n_dimensions, sg=1, hs=1, negative=0, workers=n_jobs, **options
        )
        model.build_vocab(terms)
        _check_corpus(model, counts, min_count, n_dimensions)
        model.train(terms, total_examples=model.corpus_count, epochs=n_epochs)
    return model.wv


def _phrase_score(
    worda_count: float,
    wordb_count: float,
    bigram_count: float,
    len_vocab: float,
    min_count: float,
    corpus_word_count: float,
) -> float:
    """Score how much more often than by chance two words occur together, as in word2phrase.

    gensim's own score uses the size of the vocabulary instead of the number of words.
    """
    return (bigram_count - min_count) / worda_count / wordb_count * corpus_word_count


def _check_corpus(model: Any, counts: Counter[str], min_count: int, width: int) -> None:
    """Raise if the words of a corpus are too rare to be learned."""
    kept = len(model.wv)
    n_kept = sum(model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key)
    size = f"The corpus has {counts.total()} words, {len(counts)} of them distinct"
    if kept < 2 or n_kept < _MIN_OCCURRENCES * kept:
        raise ValueError(
            f"{size}. The {kept} that occur at least min_count={min_count} times do so "
            f"{n_kept / max(kept, 1):.1f} times on average, fewer than {_MIN_OCCURRENCES}. Give "
            "more text, or raise min_count."
        )
    if kept < width:
        warn_user(
            f"The vocabulary of {kept} words is smaller than the {width} dimensions of the "
            "vectors; give more text, or reduce n_dimensions."
        )


class _Sentences:
    """The sentences of a corpus, which can be iterated over repeatedly."""

    def __init__(self, corpus: Any) -> None:
        self.advance: Callable[[int], None] = lambda amount: None
        self.n_sentences = 0
        self.items = [corpus] if isinstance(corpus, (str, os.PathLike)) else list(corpus)
        if not self.items:
            raise ValueError("corpus is empty.")
        if not any(
            all(isinstance(item, kind) for item in self.items)
            for kind in ((str, os.PathLike), (list, tuple))
        ):
            raise ValueError("corpus must be text files, or sentences as lists of words.")

    def __iter__(self) -> Iterator[list[str]]:
        self.n_sentences = 0
        for item in self.items:
            for sentence in self._lines(item) if isinstance(item, (str, os.PathLike)) else [item]:
                yield list(sentence)
                self.n_sentences += 1
                if not self.n_sentences % 1000:
                    self.advance(1000)

    def _lines(self, path: str | os.PathLike[str]) -> Iterator[Iterable[str]]:
        tokenize = import_optional("gensim.utils", "Training word vectors").tokenize
        regular_size(path)
        try:
            with open(path, encoding="utf-8") as file:
                for line in file:
                    yield tokenize(line, lowercase=True)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{plain(path)}: the text is not UTF-8 ({error.reason}); save it as UTF-8."
            ) from error


Phrases = Literal["joined", "averaged", "both"]


def word_signatures(
    names: Mapping[Any, str | Iterable[str]] | pd.Series,
    vectors: Mapping[str, Any] | str | os.PathLike[str] | Any,
    *,
    phrases: Phrases = "both",
) -> pd.DataFrame:
    """Build signatures from the word vectors of class names.

    The vectors of several names are averaged. A name is looked up as given, in lower case, and
    capitalised.

    Parameters
    ----------
    names : mapping or Series
        Label → one or several names, for example from :meth:`zslearn.signatures.WordNet.names`.
    vectors : path, mapping or gensim KeyedVectors
        Vectors by word, or a file in word2vec's text or binary format or in GloVe's text format,
        possibly compressed with gzip (.gz). gensim's own files are pickles, which can run code:
        pass the result of ``KeyedVectors.load`` if you trust such a file.
    phrases : {"both", "joined", "averaged"}, default="both"
        How to look up names of several words: as one term ("joined"), as the mean of their words
        ("averaged"), or as one term if it is known and else as the mean ("both").

    Returns
    -------
    DataFrame
        One row per class with a vector; other classes are dropped with a warning.

    Examples
    --------
    >>> from zslearn.signatures import word_signatures
    >>> vectors = {"dog": [1, 0], "sea_lion": [0, 1], "polar": [0, 0.4], "bear": [0.8, 0]}
    >>> names = {"n1": ["dog", "domestic dog"], "n2": "sea lion", "n3": "polar bear"}
    >>> word_signatures(names, vectors, phrases="both")
           word 0  word 1
    class
    n1        1.0     0.0
    n2        0.0     1.0
    n3        0.4     0.2
    """
    if phrases not in ("both", "joined", "averaged"):
        raise ValueError(f"phrases={phrases!r} must be 'both', 'joined' or 'averaged'.")
    of_class = texts_by_class(names, "names")
    if isinstance(vectors, (str, os.PathLike)):
        vectors = _read_word_vectors(vectors)
    vectors = getattr(vectors, "wv", vectors)
    if not (isinstance(vectors, Mapping) or hasattr(vectors, "key_to_index")):
        raise ValueError(
            "vectors must be a path, a mapping of words to vectors, or gensim's KeyedVectors; got "
            f"{type(vectors).__name__}."
        )
    means: dict[Any, NDArray[np.float64]] = {}
    for label, synonyms in of_class.items():
        of_names = [_look_up(name, vectors, phrases) for name in synonyms]
        known = [vector for vector in of_names if vector is not None]
        if known:
            means[label] = _mean(known)
    if not means:
        raise ValueError(
            f"The word vectors contain no name of any of the {len(of_class)} classes, such as "
            f"{name_some(next(iter(of_class.values())))}. Check the language of the vectors and "
            "the names."
        )
    missing = [label for label in of_class if label not in means]
    if missing:
        warn_user(
            f"Dropped {len(missing)} of {len(of_class)} classes without a word vector: "
            f"{name_some(missing)}."
        )
    rows = list(means.values())
    _mean(rows)  # raises if their lengths differ
    return class_frame(np.stack(rows), means, "word")


def _mean(vectors: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Average vectors; raise if their lengths differ."""
    shapes = sorted({vector.shape for vector in vectors})
    if len(shapes) > 1:
        raise ValueError(f"Word vectors must have the same length; found {name_some(shapes)}.")
    return np.mean(vectors, axis=0)


def _look_up(name: str, vectors: Any, phrases: str) -> NDArray[np.float64] | None:
    """Return the vector of a name, or None if it is unknown."""
    words = name.replace("_", " ").replace("-", " ").split()
    is_phrase = len(words) > 1
    if phrases != "averaged" or not is_phrase:
        whole = "_".join(name.replace("_", " ").split())
        for form in (whole, whole.replace("-", "_")):
            vector = _look_up_form(form, vectors)
            if vector is not None:
                return vector
    if phrases == "joined" or not is_phrase:
        return None
    of_words = [_look_up_form(word, vectors) for word in words]
    known = [vector for vector in of_words if vector is not None]
    # Part of a name may mean something else: "polar" alone is not a bear.
    return _mean(known) if len(known) == len(words) else None


def _look_up_form(word: str, vectors: Any) -> NDArray[np.float64] | None:
    """Return the vector of a word as given, in lower case, or with each part capitalised."""
    capital = "_".join(part[:1].upper() + part[1:] for part in word.split("_"))
    for form in (word, word.lower(), capital):
        if form in vectors:
            return np.asarray(vectors[form], dtype=np.float64)
    return None
