"""Pipes and devices, which may be waited for without end, are refused by whatever reads files."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import zslearn
from zslearn._utils._reading import read_rows
from zslearn.datasets import (
    ClassShards,
    FeatureBlocks,
    load_table,
    read_child_parent_pairs,
    read_descriptions,
    read_signature_table,
)
from zslearn.datasets._mat import read_mat
from zslearn.images import load_features, read_image
from zslearn.signatures import WordNet, train_word_vectors, word_signatures

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")

READERS = {
    "labels.csv": lambda path: load_table(np.eye(2), path, {"a": [1.0], "b": [2.0]}),
    "features.npy": lambda path: load_table(path, ["a", "b"], {"a": [1.0], "b": [2.0]}),
    "features.npz": lambda path: load_table(path, ["a", "b"], {"a": [1.0], "b": [2.0]}),
    "blocks.npy": FeatureBlocks.open,
    "blocks.arrow": FeatureBlocks.open,
    "blocks.zarr/c/0/0": lambda path: list(FeatureBlocks.open(path.parents[2]).blocks()),
    "shards/n1.npy": lambda path: ClassShards(path.parent).n_features,
    "shards/n1.h5": lambda path: ClassShards(path.parent).n_features,
    "signatures.csv": read_signature_table,
    "texts.txt": read_descriptions,
    "texts.json": read_descriptions,
    "tree.parquet": read_child_parent_pairs,
    "list.csv": lambda path: read_rows(path, ["image"]),
    "matlab.mat": lambda path: read_mat(path, {"att"}),
    "words.txt": lambda path: word_signatures({"x": "dog"}, path),
    "corpus.txt": train_word_vectors,
    "data.noun": lambda path: WordNet(path.parent),
    "image.png": read_image,
    "images.npz": load_features,
    "model.zsl": zslearn.load,
}


@pytest.fixture
def soon():
    """End what would wait without end."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", READERS)
def test_nothing_waits_for_a_pipe_or_a_device(tmp_path, soon, name, kind):
    path = tmp_path / name
    if "zarr" in name:
        pytest.importorskip("zarr").save_array(str(path.parents[2]), np.eye(2))
        path.unlink()
    elif name == "corpus.txt":
        pytest.importorskip("gensim")
    elif name == "image.png":
        pytest.importorskip("PIL")
    path.parent.mkdir(exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises((OSError, ValueError)) as caught:
        READERS[name](path)
    # Readers of images, of WordNet and of shards look for a kind of file first.
    refusals = ("regular file", "not a file", "no file", "no features", "was not found")
    assert any(refusal in str(caught.value) for refusal in refusals)
