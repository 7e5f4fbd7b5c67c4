"""Signatures from word vectors: the mean over the names of a class."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._files import replacing
from zslearn._utils._messages import name_some, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import progress_bar
from zslearn.signatures._text import _texts_of, column_names

# Word vectors in files: word2vec's text and binary format, GloVe's text, gensim's own.
#
# A file is read once from its start to its end, and only the words that are wanted are kept.

_MAX_WIDTH = 100_000
#: A line of text, or a word in a binary file, that is longer is none.
_MAX_LINE, _MAX_WORD = 1 << 24, 1 << 16
_PICKLE, _GZIP = b"\x80", b"\x1f\x8b"
_KINDS = ("word2vec", "word2vec-binary", "glove", "gensim")
_MEBIBYTE = 1 << 20
#: What a compressed file may unpack to: a multiple of its size, and this much beside.
_MULTIPLE, _BESIDE = 64, 64 * _MEBIBYTE


@dataclass(frozen=True, eq=False)
class WordVectors(Mapping[str, NDArray[np.float32]]):
    """Vectors of words, by word.

    Parameters
    ----------
    words : list of str
        The words, each once.
    vectors : ndarray of shape (n_words, n_dimensions)
        One row per word.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.signatures import WordVectors
    >>> found = WordVectors(["cat", "dog"], np.array([[1.0, 0.0], [0.9, 0.1]]))
    >>> found["dog"]
    array([0.9, 0.1], dtype=float32)
    """

    words: list[str]
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        vectors = np.asarray(self.vectors, dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(self.words):
            raise ValueError(
                f"vectors has shape {vectors.shape} for {len(self.words)} words; give one row per "
                "word."
            )
        place: dict[str, int] = {}
        for i, word in enumerate(self.words):
            place.setdefault(word, i)
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "_place", place)

    def __getitem__(self, word: str) -> NDArray[np.float32]:
        return self.vectors[self._place[word]]  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return len(self._place)  # type: ignore[attr-defined]


def read_word_vectors(
    path: str | os.PathLike[str],
    needed: Collection[str] | None = None,
    *,
    kind: str | None = None,
    trusted: bool = False,
    progress: bool = False,
) -> WordVectors:
    r"""Read word vectors from a file.

    Parameters
    ----------
    path : path
        A file in word2vec's text or binary format, in GloVe's text format, or of gensim's
        KeyedVectors; the first three may be compressed with gzip.
    needed : collection of str or None, default=None
        The words to keep; None keeps all.
    kind : {"word2vec", "word2vec-binary", "glove", "gensim"} or None, default=None
        The format; None finds it out from the first bytes.
    trusted : bool, default=False
        Whether gensim may read its own file. Such a file is a pickle, which can run any code: say
        so only of a file that you have written yourself. Files of the other formats cannot.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    WordVectors
        Words in the order of the file. Of a word that is there twice the first vector is kept.

    Raises
    ------
    ValueError
        The file is of none of these formats, damaged, or has vectors of different widths; the line
        is named.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from zslearn.signatures import read_word_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "vectors.txt"
    ...     _ = path.write_text("cat 1 0 0.5\ndog 0.9 0.1 0.5\n")
    ...     found = read_word_vectors(path, ["dog"])
    >>> list(found), found.vectors.shape
    (['dog'], (1, 3))
    """
    path = Path(path)
    if kind is not None and kind not in _KINDS:
        raise ValueError(f"kind={kind!r}; there are {', '.join(map(repr, _KINDS))}.")
    kind = kind or _guess(path)
    wanted = None if needed is None else set(needed)
    if kind == "gensim":
        return _read_gensim(path, wanted, trusted)
    read = {"word2vec": _read_text, "glove": _read_text, "word2vec-binary": _read_binary}[kind]
    with _opened(path) as (file, raw), _progress(path, raw, progress) as advance:
        try:
            words, rows = read(file, path, wanted, advance, kind == "word2vec")
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{plain(path)}: the compressed file is damaged ({error}).") from error
    vectors = np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)
    if not np.isfinite(vectors).all():
        bad = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise ValueError(f"{plain(path)}: the vector of {words[bad]!r} has NaN or infinity.")
    return WordVectors(words, vectors)


def save_word_vectors(vectors: WordVectors, path: str | os.PathLike[str]) -> None:
    """Write word vectors in word2vec's format, whole or not at all.

    Parameters
    ----------
    vectors : WordVectors
        What to write.
    path : path
        The file; binary where it ends in ``.bin``, else text.

    Raises
    ------
    ValueError
        A word has spaces in it that would be read as something else.
    """
    path = Path(path)
    for word in vectors.words:
        if not _can_be_written(word, is_binary=path.suffix == ".bin"):
            raise ValueError(
                f"{plain(path)}: the word {plain(word, 60)!r} would not be read as it is, because "
                "of the spaces in it or around it. Write underscores in their place."
            )
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(f"{len(vectors.words)} {vectors.vectors.shape[1]}\n".encode())
        for word, row in zip(vectors.words, vectors.vectors, strict=True):
            if path.suffix == ".bin":
                file.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")
            else:
                file.write(f"{word} {' '.join(str(value) for value in row)}\n".encode())


def _can_be_written(word: str, *, is_binary: bool) -> bool:
    """Whether a word can be told from what stands beside it in a file."""
    parts = word.split(" ")
    has_other_space = any(part != "".join(part.split()) or not part for part in parts)
    is_number = len(parts) > 1 and _numbers([parts[1].encode()]) is not None
    return not (has_other_space or is_number or (is_binary and len(parts) > 1))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file as it reads, and the one on disk below, which knows how far it is."""
    with open(path, "rb") as raw:
        start = raw.read(2)
        raw.seek(0)
        if start == _GZIP:
            with gzip.open(raw) as unpacked:
                yield _Unpacked(unpacked, path), raw  # type: ignore[misc]
        else:
            yield raw, raw


class _Unpacked:
    """A compressed file as it reads, up to a multiple of its size: zeros can go on for long."""

    def __init__(self, file: gzip.GzipFile, path: Path) -> None:
        self._file, self._path = file, path
        self._left = _MULTIPLE * path.stat().st_size + _BESIDE

    def readline(self, size: int) -> bytes:
        return self._counted(self._file.readline(size))

    def read(self, size: int) -> bytes:
        return self._counted(self._file.read(size))

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(
                f"{plain(self._path)} unpacks to more than {_MULTIPLE} times its size, as no word "
                "vectors do. If you trust it, unpack it first."
            )
        return data


@contextmanager
def _progress(path: Path, raw: IO[bytes], shown: bool) -> Iterator[Callable[[], None]]:
    done = 0
    total = max(1, path.stat().st_size // _MEBIBYTE)
    with progress_bar(shown, total, "MiB of word vectors") as advance:

        def to_here() -> None:
            nonlocal done
            now = min(total, raw.tell() // _MEBIBYTE)
            advance(now - done)
            done = now

        yield to_here


def _guess(path: Path) -> str:
    """The format of a file, by its first bytes."""
    with _opened(path) as (file, _):
        try:
            first = file.readline(_MAX_LINE)
            rest = file.read(1 << 16)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{plain(path)}: the file cannot be read ({error}).") from error
    if first[:1] == _PICKLE:
        return "gensim"
    if not first:
        raise ValueError(f"{plain(path)} is empty.")
    if re.fullmatch(rb"\s*\d{1,18}\s+\d{1,18}\s*", first):
        width = int(first.split()[1])
        line = rest.partition(b"\n")[0].split()
        return (
            "word2vec"
            if len(line) > width and _numbers(line[-width:]) is not None
            else ("word2vec-binary")
        )
    fields = first.split()
    if len(fields) > 2 and _numbers(fields[-2:]) is not None:
        return "glove"
    raise ValueError(
        f"{plain(path)} is no file of word vectors that is known: word2vec's text and binary "
        "format, GloVe's text, and gensim's KeyedVectors are read."
    )


def _numbers(fields: list[bytes]) -> NDArray[np.float32] | None:
    try:
        return np.array([float(field) for field in fields], dtype=np.float32)
    except ValueError:
        return None


def _read_header(file: IO[bytes], path: Path) -> tuple[int, int]:
    fields = file.readline(200).split()
    try:
        n_words, width = (int(field) for field in fields)
    except ValueError:
        raise ValueError(
            f"{plain(path)}: the first line must give the number of words and the width."
        ) from None
    if not (n_words >= 1 and 1 <= width <= _MAX_WIDTH):
        raise ValueError(f"{plain(path)} announces {n_words} words of {width} numbers.")
    return n_words, width


def _read_text(
    file: IO[bytes],
    path: Path,
    wanted: set[str] | None,
    advance: Callable[[], None],
    has_header: bool,
) -> tuple[list[str], list[NDArray[np.float32]]]:
    n_words, width = _read_header(file, path) if has_header else (0, 0)
    found: dict[str, NDArray[np.float32]] = {}
    number = int(has_header)
    n_lines = 0
    while line := file.readline(_MAX_LINE):
        number += 1
        if not number % 10_000:
            advance()
        line = line.strip(b" \r\n\t")
        if not line:
            continue
        n_lines += 1
        fields = line.split(b" ") if b"\t" not in line else line.split()
        width = width or len(fields) - 1
        if not width:
            raise ValueError(f"{plain(path)}: line {number} has a word and no numbers.")
        word = fields[0]
        # A few words of GloVe's have spaces in them.
        if len(fields) > width + 1 and _numbers(fields[1:2]) is None:
            word = b" ".join(fields[:-width])
        elif len(fields) != width + 1:
            raise ValueError(
                f"{plain(path)}: line {number} has {len(fields) - 1} numbers and the others "
                f"{width}; vectors must be of one width."
            )
        name = word.decode("utf-8", "replace")
        if name in found or (wanted is not None and name not in wanted):
            continue
        row = _numbers(fields[-width:])
        if row is None:
            raise ValueError(f"{plain(path)}: line {number} has something that is no number.")
        found[name] = row
    if has_header and n_lines != n_words:
        raise ValueError(
            f"{plain(path)} announces {n_words} words and has {n_lines}: it is not whole."
        )
    return list(found), list(found.values())


def _read_binary(
    file: IO[bytes],
    path: Path,
    wanted: set[str] | None,
    advance: Callable[[], None],
    has_header: bool,
) -> tuple[list[str], list[NDArray[np.float32]]]:
    n_words, width = _read_header(file, path)
    found: dict[str, NDArray[np.float32]] = {}
    # What was read and not yet used begins at `at`.
    data, at, size = b"", 0, 4 * width
    for number in range(n_words):
        if not number % 10_000:
            advance()
        while (end := data.find(b" ", at)) < 0 or len(data) < end + 1 + size:
            more = file.read(max(_MEBIBYTE, size))
            data, at = data[at:] + more, 0
            if not more or (b" " not in data[:_MAX_WORD]):
                raise ValueError(
                    f"{plain(path)} announces {n_words} words of {width} numbers and ends, or "
                    f"makes no sense, after {number}: it is not whole."
                )
        name = data[at:end].lstrip(b"\n").decode("utf-8", "replace")
        if name not in found and (wanted is None or name in wanted):
            found[name] = np.frombuffer(data, "<f4", width, end + 1).astype(np.float32)
        at = end + 1 + size
    if (data[at:] + file.read(_MEBIBYTE)).strip(b"\n"):
        raise ValueError(
            f"{plain(path)} announces {n_words} words of {width} numbers and goes on behind them: "
            "it is damaged."
        )
    return list(found), list(found.values())


def _read_gensim(path: Path, wanted: set[str] | None, trusted: bool) -> WordVectors:
    if not trusted:
        raise ValueError(
            f"{plain(path)} is a pickle, as gensim saves its KeyedVectors; reading one can run any "
            "code. If you have written it yourself, say trusted=True; else ask for the vectors in "
            "word2vec's format (KeyedVectors.save_word2vec_format)."
        )
    models = import_optional("gensim.models", "Reading gensim's KeyedVectors")
    return from_gensim(models.KeyedVectors.load(str(path), mmap="r"), wanted)


def from_gensim(vectors: Any, wanted: Collection[str] | None = None) -> WordVectors:
    """The words of a gensim KeyedVectors, all or those that are wanted."""
    vectors = getattr(vectors, "wv", vectors)
    words = [word for word in vectors.index_to_key if wanted is None or word in wanted]
    rows = [vectors.key_to_index[word] for word in words]
    return WordVectors(words, np.array(vectors.vectors[rows], dtype=np.float32))


# Word vectors trained on a person's corpus, by the paper's recipe.
#
# Skip-gram with hierarchical softmax over phrases: terms of several words that often stand
# together
# are joined by "_" before training, so that they get vectors of their own.

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
