"""Signatures from word vectors: files, look-up and training."""

from __future__ import annotations

import gzip
import pickle

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("gensim")
from gensim.models import KeyedVectors

from zslearn.base import InputWarning
from zslearn.signatures import train_word_vectors, word_signatures

RNG = np.random.default_rng(0)
WORDS = ["cat", "dog", "sea_lion", "Zürich", "的", "polar"]
VECTORS = KeyedVectors(5)
VECTORS.add_vectors(WORDS, RNG.normal(size=(6, 5)).astype(np.float32))


@pytest.fixture(params=["text", "binary", "glove", "text.gz", "binary.gz"])
def file(request, tmp_path):
    kind, _, packed = request.param.partition(".")
    path = tmp_path / f"v.{kind}{'.gz' if packed else ''}"
    VECTORS.save_word2vec_format(str(path), binary=kind == "binary", write_header=kind != "glove")
    return path


def test_every_format_gives_the_same(file):
    found = word_signatures({word: word for word in WORDS}, file)
    assert np.array_equal(found, VECTORS.vectors)
    for vectors in (file, VECTORS):
        found = word_signatures({1: ["cat", "dog"], 2: "sea lion"}, vectors)
        assert np.allclose(found.loc[1], (VECTORS["cat"] + VECTORS["dog"]) / 2)
        assert np.allclose(found.loc[2], VECTORS["sea_lion"])


def test_a_pickle_is_not_read(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was read",))

    path = tmp_path / "vectors.kv"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match=r"is a pickle.*KeyedVectors\.load"):
        word_signatures({"x": "dog"}, path)


def test_damaged_files(tmp_path):
    cases = [
        (b"", "is empty"),
        (b"hello world\n", "not in a supported format"),
        (b"a 1 2 3\nb 1 2\n", "cannot read it"),
        (b"2 3\na 1 2 3\nb 1 2\n", "cannot read it"),
        (b"3 2\na 1 2\nb 3 4\n", "unexpected end"),
        (b"a 1 2\nb 1 x\n", "cannot read it"),
        (b"a 1 2\nb 1 nan\n", "'b' has NaN or infinity"),
        (b"2 2\na \x00\x00\x80\x3f\x00\x00\x80\x3f\nb \x00\x00", "unexpected end"),
        (b"9 999999999\nxyz\n", "declares 9 words of 999999999 numbers"),
        (b"999999999999 9\nxyz\n", "declares 999999999999 words"),
        (gzip.compress(b"a 1 2\n" * 1000, mtime=0)[:-12], "cannot read it"),
    ]
    for content, message in cases:
        path = tmp_path / ("v.gz" if content[:2] == b"\x1f\x8b" else "v")
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            word_signatures({"x": "a"}, path)


def test_the_first_of_two_vectors_is_kept(tmp_path):
    path = tmp_path / "v"
    path.write_text("5 1 2\nb 3 4\n5 5 6\n")
    assert word_signatures({"x": "5"}, path).loc["x"].tolist() == [1, 2]


# ----------------------------------------------------------------------------------- look-up

KNOWN = {
    "dog": [1, 0], "domestic_dog": [0, 1], "polar": [2, 0], "bear": [0, 2], "New_York": [5, 5],
    "hot": [1, 1], "house": [4, 0],
}  # fmt: skip


@pytest.mark.parametrize(
    ("names", "phrases", "vector"),
    [
        ("dog", "both", [1, 0]),
        ("Dog", "both", [1, 0]),
        (["dog", "domestic dog"], "both", [0.5, 0.5]),
        (["dog", "domestic dog"], "averaged", [1, 0]),
        (["dog", "unknown"], "both", [1, 0]),
        ("polar bear", "both", [1, 1]),
        ("new york", "both", [5, 5]),
        ("new york", "joined", [5, 5]),
        ("hot-house", "both", [2.5, 0.5]),
    ],
)
def test_look_up(names, phrases, vector):
    assert word_signatures({"x": names}, KNOWN, phrases=phrases).loc["x"].tolist() == vector


def test_classes_without_a_vector_are_listed():
    names = {"a": "dog", "b": "unknown", "c": ["polar bear"], "d": "polar fox"}
    with pytest.warns(InputWarning, match="2 of 4 classes without a word vector.*'b', 'd'"):
        found = word_signatures(names, KNOWN)
    assert found.index.tolist() == ["a", "c"]
    with pytest.warns(InputWarning, match="'b', 'c', 'd'"):
        assert word_signatures(pd.Series(names), KNOWN, phrases="joined").index.tolist() == ["a"]


@pytest.mark.parametrize(
    ("names", "vectors", "options", "message"),
    [
        ({}, KNOWN, {}, "an empty mapping"),
        ({"x": []}, KNOWN, {}, "'x' has no description"),
        ({"x": "unknown"}, KNOWN, {}, "no name of any of the 1 classes"),
        ({"x": "dog"}, [1], {}, "got list"),
        ({"x": "dog"}, KNOWN, {"phrases": "split"}, "phrases='split'"),
        ({"x": "dog cat"}, {"dog": [1, 2], "cat": [1, 2, 3]}, {}, "must have the same length"),
    ],
)
def test_wrong_input(names, vectors, options, message):
    with pytest.raises(ValueError, match=message):
        word_signatures(names, vectors, **options)


# ---------------------------------------------------------------------------------- training

ANIMALS = ["cat", "dog", "cow", "pig"]
SHIPS = ["ferry", "canoe", "sloop", "yacht"]


def write_corpus(path, n_lines=600):
    """Animals eat in fields and ships sail to harbours; "polar" and "bear" stand together."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(n_lines):
        kinds, verb, place = (ANIMALS, "eats", "field") if i % 2 else (SHIPS, "sails", "harbour")
        a, b = rng.choice(kinds, 2)
        lines.append(f"The {a} {verb} near the {b} in the {place}.")
        if i % 20 == 0:
            lines.append(f"A polar bear eats a {rng.choice(ANIMALS)}.")
    path.write_text("\n".join(lines))


@pytest.mark.slow
def test_training_learns_what_stands_together(tmp_path):
    path = tmp_path / "corpus.txt"
    write_corpus(path)
    options = {"n_dimensions": 10, "window": 5, "n_epochs": 10}
    found = train_word_vectors(path, **options)
    assert found.vectors.shape[1] == 10
    assert "polar_bear" in found
    assert "The" not in found
    unit = {word: found[word] / np.linalg.norm(found[word]) for word in ANIMALS + SHIPS}
    within = np.mean([unit[a] @ unit[b] for a in ANIMALS for b in ANIMALS if a != b])
    across = np.mean([unit[a] @ unit[b] for a in ANIMALS for b in SHIPS])
    assert within > across + 0.1
    again = train_word_vectors(path, **options)
    assert again.index_to_key == found.index_to_key
    assert np.array_equal(again.vectors, found.vectors)
    lists = [line.lower().replace(".", "").split() for line in path.read_text().splitlines()]
    assert train_word_vectors(lists, **options).index_to_key[0] == "the"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corpus", "options", "message"),
    [
        (b"some few words\n", {}, "3 words, 3 of them distinct\\. The 0 that"),
        (b"a few words more than once a few\n", {"min_count": 1}, "do so 1.3 times on average"),
        (b"1 2 3\n", {}, "has no words"),
        (b"a\n", {"n_epochs": 0}, "'n_epochs' parameter"),
        ("Zürich".encode("latin-1"), {}, "not UTF-8"),
        ([], {}, "corpus is empty"),
        ([3], {}, "text files, or sentences"),
    ],
)
def test_wrong_corpora(tmp_path, corpus, options, message):
    if isinstance(corpus, bytes):
        path = tmp_path / "corpus.txt"
        path.write_bytes(corpus)
        corpus = path
    with pytest.raises(ValueError, match=message):
        train_word_vectors(corpus, **options)


@pytest.mark.slow
def test_more_dimensions_than_words_are_named():
    with pytest.warns(InputWarning, match="smaller than the 50 dimensions"):
        train_word_vectors([["a", "b"]] * 50, n_dimensions=50)
