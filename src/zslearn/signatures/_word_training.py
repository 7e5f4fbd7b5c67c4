"""Word vectors trained on a person's corpus, by the paper's recipe.

Skip-gram with hierarchical softmax over phrases: terms of several words that often stand together
are joined by "_" before training, so that they get vectors of their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from zslearn.signatures._word_files import WordVectors, from_gensim
from zslearn.utils import import_optional, plain, progress_bar, warn_user

#: Mean occurrences of a word below which there is nothing to learn from.
_LEAST_OCCURRENCES = 5

#: Words whose score is higher are one term, as in the program word2phrase.
_PHRASE_THRESHOLD = 100.0

#: A corpus: one or several text files, or sentences as lists of words.
Corpus = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Iterable[list[str]]


def train_word_vectors(
    corpus: Corpus,
    *,
    n_dimensions: int = 500,
    window: int = 20,
    n_epochs: int = 1,
    min_count: int = 5,
    phrases: bool = True,
    lower_case: bool = True,
    random_state: int = 0,
    n_jobs: int = 1,
    progress: bool = False,
) -> WordVectors:
    """Train word vectors on a corpus: skip-gram with hierarchical softmax.

    By default this is the paper's recipe: phrases are joined first, 500 dimensions, a window of
    20 words, one epoch ("wv-v1"; with ten epochs "wv-v2"), no limit on the vocabulary.

    Parameters
    ----------
    corpus : path, iterable of paths, or iterable of lists of str
        Text files in UTF-8 with one sentence, paragraph or article per line, words parted by
        spaces and other signs; or sentences as lists of words.
    n_dimensions : int, default=500
        Width of the vectors.
    window : int, default=20
        Words on either side that are predicted from a word.
    n_epochs : int, default=1
        Passes over the corpus.
    min_count : int, default=5
        Words that occur less often are left out.
    phrases : bool, default=True
        Whether words that often stand together are joined by "_" first.
    lower_case : bool, default=True
        Whether capitals are turned into small letters.
    random_state : int, default=0
        Seed; with one job the same vectors come again.
    n_jobs : int, default=1
        Threads.
    progress : bool, default=False
        Whether to show how far it is, in sentences.

    Returns
    -------
    WordVectors
        The commonest word first.

    Raises
    ------
    ValueError
        The corpus is too small for its vocabulary, or a file cannot be read as text.
    ImportError
        gensim is not installed.

    See Also
    --------
    word_signatures : Signatures of classes from such vectors.
    """
    models = import_optional("gensim.models", "Training word vectors")
    sizes = {
        "n_dimensions": n_dimensions, "window": window, "n_epochs": n_epochs,
        "min_count": min_count, "n_jobs": n_jobs,
    }  # fmt: skip
    for name, value in sizes.items():
        if not (isinstance(value, (int, np.integer)) and value >= 1):
            raise ValueError(f"{name}={value!r} must be a whole number of at least 1.")
    sentences = _Sentences(corpus, lower_case)
    n_sentences, n_words, n_kinds = sentences.count()
    n_passes = (2 if phrases else 1) + n_epochs
    with progress_bar(progress, n_sentences * n_passes, "sentences") as advance:
        sentences.advance = advance
        terms: Any = sentences
        if phrases:
            found = models.phrases.Phrases(
                sentences,
                min_count=min_count,
                threshold=_PHRASE_THRESHOLD,
                scoring=_phrase_score,
                delimiter="_",
            )
            terms = _Joined(sentences, found.freeze())
        model = models.Word2Vec(
            vector_size=n_dimensions,
            window=window,
            min_count=min_count,
            sg=1,
            hs=1,
            negative=0,
            seed=random_state,
            workers=n_jobs,
        )
        model.build_vocab(terms)
        _check_size(model, n_words, n_kinds, min_count, n_dimensions)
        model.train(terms, total_examples=model.corpus_count, epochs=n_epochs)
    return from_gensim(model.wv)


def _phrase_score(
    worda_count: float,
    wordb_count: float,
    bigram_count: float,
    len_vocab: float,
    min_count: float,
    corpus_word_count: float,
) -> float:
    """How much oftener two words stand together than by chance, as word2phrase counts it.

    gensim passes the arguments by these names; its own score has the size of the vocabulary in the
    place of the number of words.
    """
    return (bigram_count - min_count) / worda_count / wordb_count * corpus_word_count


def _check_size(model: Any, n_words: int, n_kinds: int, min_count: int, width: int) -> None:
    """Refuse a corpus in which words do not occur often enough to be learned."""
    kept = len(model.wv)
    n_kept = sum(model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key)
    has = f"The corpus has {n_words} words, {n_kinds} different ones"
    if kept < 2:
        raise ValueError(
            f"{has}; {kept} of these occur at least {min_count} times (min_count). It is too small "
            "for its vocabulary: give more text."
        )
    if n_kept < _LEAST_OCCURRENCES * kept:
        raise ValueError(
            f"{has}, and each of the {kept} that are kept occurs {n_kept / kept:.1f} times on "
            f"average, where {_LEAST_OCCURRENCES} are the least to learn from. It is too small for "
            "its vocabulary: give more text, or raise min_count."
        )
    if kept < width:
        warn_user(
            f"The vocabulary of {kept} words is smaller than the {width} dimensions of their "
            "vectors: give more text, or lower n_dimensions."
        )


class _Sentences:
    """Sentences of a corpus, which can be gone through again and again."""

    def __init__(self, corpus: Any, lower_case: bool) -> None:
        self.lower_case = lower_case
        self.advance: Callable[[int], None] = lambda amount: None
        if isinstance(corpus, (str, os.PathLike)):
            corpus = [corpus]
        items = list(corpus)
        if not items:
            raise ValueError("corpus is empty.")
        self.files: list[Path] | None = None
        self.lists: list[list[str]] = []
        if all(isinstance(item, (str, os.PathLike)) for item in items):
            self.files = [Path(item) for item in items]
        elif all(isinstance(item, (list, tuple)) for item in items):
            self.lists = [list(item) for item in items]
        else:
            raise ValueError("corpus must be text files, or sentences as lists of words.")

    def __iter__(self) -> Iterator[list[str]]:
        for n_done, sentence in enumerate(self._sentences(), 1):
            yield sentence
            if not n_done % 1000:
                self.advance(1000)

    def _sentences(self) -> Iterator[list[str]]:
        if self.files is None:
            yield from self.lists
            return
        utils = import_optional("gensim.utils", "Training word vectors")
        for path in self.files:
            try:
                with open(path, encoding="utf-8") as file:
                    for line in file:
                        yield list(utils.tokenize(line, lowercase=self.lower_case))
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{plain(path)}: the text is not UTF-8 ({error.reason}); save it as UTF-8."
                ) from error

    def count(self) -> tuple[int, int, int]:
        """Sentences, words, and different words."""
        n_sentences = n_words = 0
        kinds: set[str] = set()
        for sentence in self._sentences():
            n_sentences += 1
            n_words += len(sentence)
            kinds.update(sentence)
        if not n_words:
            raise ValueError("corpus has no words.")
        return n_sentences, n_words, len(kinds)


class _Joined:
    """Sentences with their phrases joined; found anew in each pass, so that none are in memory."""

    def __init__(self, sentences: _Sentences, phrases: Any) -> None:
        self.sentences, self.phrases = sentences, phrases

    def __iter__(self) -> Iterator[list[str]]:
        for sentence in self.sentences:
            yield self.phrases[sentence]
