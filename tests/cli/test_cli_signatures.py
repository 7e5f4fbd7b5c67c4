"""`zslearn signatures`: tables for other commands."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pandas as pd
import pytest

from zslearn.cli import main
from zslearn.datasets import read_signature_table
from zslearn.signatures import (
    _encoders,
    combine_signatures,
    hierarchy_signatures,
    word_signatures,
)

NOUNS = (
    "  1 WordNet 3.0 Copyright 2006\n"
    "00001740 03 n 01 entity 0 000 | that which is\n"
    "02084071 05 n 02 dog 0 house_dog 0 001 @ 00001740 n 0000 | barks\n"
    "02121808 05 n 01 cat 0 001 @ 00001740 n 0000 | purrs\n"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a small WordNet, word vectors and a text encoder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZSLEARN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "wordnet").mkdir()
    (tmp_path / "wordnet" / "data.noun").write_text(NOUNS)
    (tmp_path / "wnids.txt").write_text("n02084071\nn02121808\n")
    vectors = np.array([[1, 0], [0, 1], [1, 2]], dtype="<f4")
    words = zip((b"dog", b"cat", b"house"), vectors, strict=True)
    lines = b"".join(word + b" " + row.tobytes() + b"\n" for word, row in words)
    (tmp_path / "v.bin").write_bytes(b"3 2\n" + lines)
    monkeypatch.setattr(_encoders, "_version", lambda package: "1")
    monkeypatch.setattr(
        _encoders, "_load_use", lambda: lambda texts: [[len(t), t.count("a")] for t in texts]
    )
    return tmp_path


def test_text_from_a_file(folder, capsys):
    (folder / "d.json").write_text(json.dumps({"cat": ["a pet", "it purrs"], "dog": "barks"}))
    assert main(["signatures", "text", "d.json", "-o", "s.csv"]) == 0
    assert capsys.readouterr().out == "wrote s.csv: 2 classes, 2 columns\n"
    found = read_signature_table("s.csv")
    assert found.loc["cat"].tolist() == [6.5, 0.5]


def test_a_report_of_descriptions(folder, capsys):
    said = {"cat": ["it purrs"], "cow": ["IT purrs!"], "dog": ["it barks aa"], "owl": []}
    (folder / "d.json").write_text(json.dumps(said))
    X = np.array([[1.0, 0], [1, 0.1], [0, 1]])
    np.savez(folder / "f.npz", X=X, y=np.array(["cat", "dog", "cow"]))
    assert main(["signatures", "report", "d.json"]) == 0
    assert "by images" not in capsys.readouterr().out
    words = ["signatures", "report", "d.json", "--features", "f.npz", "-o", "n.csv"]
    assert main(words) == 0
    report = capsys.readouterr().out
    assert "without text: 1, 'owl'" in report
    assert "equal text: 'cat', 'cow'; describe how they differ" in report
    assert "words used for every class: 'it'" in report
    table = pd.read_csv("n.csv", index_col=0)
    assert table.loc["cat", "by images"] == "dog"
    assert table.loc["cat", "by text"] == "cow"


def test_text_from_wordnet(folder):
    words = ["signatures", "text", "--wnids", "wnids.txt", "--wordnet", "wordnet", "-o", "s.csv"]
    assert main(words) == 0
    assert read_signature_table("s.csv").loc["n02084071"].iloc[0] == len("dog, house dog: barks")
    assert main([*words, "--say", "names"]) == 0
    assert read_signature_table("s.csv").loc["n02084071"].iloc[0] == (3 + 9) / 2


@pytest.mark.skipif(importlib.util.find_spec("gensim") is None, reason="needs gensim")
def test_words(folder, capsys):
    (folder / "names.csv").write_text("label,a,b\nx,dog,house dog\ny,Cat,\nz,unknown,\n")
    assert main(["signatures", "words", "names.csv", "--vectors", "v.bin", "-o", "s.csv"]) == 0
    out, err = capsys.readouterr()
    assert "s.csv: 2 classes, 2 columns" in out
    assert "without a vector: z" in out
    assert err.startswith("zslearn: warning: Dropped 1 of 3 classes")
    assert read_signature_table("s.csv").loc["x"].tolist() == [1.0, 0.5]
    assert main([
        "signatures", "words", "--wnids", "wnids.txt", "--wordnet", "wordnet", "--vectors",
        "v.bin", "--phrases", "joined", "-o", "s.csv",
    ]) == 0  # fmt: skip
    assert read_signature_table("s.csv").loc["n02084071"].tolist() == [1.0, 0.0]


def test_hierarchy(folder):
    (folder / "tree.csv").write_text("child,parent\na,x\nb,x\nc,y\nx,top\ny,top\n")
    assert main(["signatures", "hierarchy", "tree.csv", "-o", "s.csv"]) == 0
    found = read_signature_table("s.csv")
    assert found.index.tolist() == ["a", "b", "c"]
    tree = {"a": "x", "b": "x", "c": "y", "x": "top", "y": "top"}
    assert np.allclose(found, hierarchy_signatures(tree, ["a", "b", "c"]))
    (folder / "classes.txt").write_text("a\ny\n")
    assert main(["signatures", "hierarchy", "tree.csv", "--classes", "classes.txt",
                 "-o", "s.csv"]) == 0  # fmt: skip
    assert read_signature_table("s.csv").index.tolist() == ["a", "y"]
    assert main(["signatures", "hierarchy", "--wnids", "wnids.txt", "--wordnet", "wordnet",
                 "-o", "s.csv"]) == 0  # fmt: skip
    assert read_signature_table("s.csv").shape == (2, 1)


def test_taxonomy(folder, capsys, monkeypatch):
    (folder / "ranks.csv").write_text("class,order,family\na,x,f\nb,,f\nc,y,\n")
    assert main(["signatures", "taxonomy", "ranks.csv", "-o", "s.csv"]) == 0
    found = read_signature_table("s.csv")
    assert found.columns.tolist() == ["order: x", "order: y", "family: f"]
    assert found.loc["b"].tolist() == [1, 0, 1]
    with monkeypatch.context() as patch:
        patch.setattr("zslearn.signatures._hierarchy._MAX_COLUMN_CELLS", 8)
        assert main(["signatures", "taxonomy", "ranks.csv", "-o", "s.csv"]) == 1
        assert "every taxon of 3 classes is too large" in capsys.readouterr().err
    (folder / "ranks.csv").write_text("class,order,family\na,x,f\nb,y,f\n")
    assert main(["signatures", "taxonomy", "ranks.csv", "-o", "s.csv"]) == 1
    assert "ranks.csv: The family 'f' is in more than one order: 'x', 'y'" in (
        capsys.readouterr().err
    )


def test_attributes(folder, capsys):
    (folder / "a.csv").write_text("class,legs,size\na,4,1\nb,4,\nc,4,3\n")
    assert main(["signatures", "attributes", "a.csv", "-o", "s.csv"]) == 1
    out, err = capsys.readouterr()
    assert "3 classes, 2 attributes, continuous" in out
    assert "with missing values: 1, size (1)" in out
    assert "have missing values in 1 of 2 columns" in err
    assert not (folder / "s.csv").exists()
    options = ["--missing", "mean", "--drop-constant"]
    assert main(["signatures", "attributes", "a.csv", "-o", "s.csv", *options]) == 0
    assert read_signature_table("s.csv")["size"].tolist() == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("gensim") is None, reason="needs gensim")
def test_train_words(folder, capsys):
    (folder / "corpus.txt").write_text("the cat sees the dog\n" * 30)
    words = ["signatures", "train-words", "corpus.txt", "--dimensions", "3", "-o", "new.txt"]
    assert main(words) == 0
    assert "new.txt: 4 words, 3 dimensions" in capsys.readouterr().out
    names = {word: word for word in ("the", "cat", "sees", "dog")}
    assert word_signatures(names, "new.txt").shape == (4, 3)
    (folder / "small.txt").write_text("the cat\n")
    assert main([*words[:2], "small.txt", "-o", "small.bin"]) == 1
    assert "Give more text" in capsys.readouterr().err
    assert not (folder / "small.bin").exists()


def test_combine(folder, capsys):
    pd.DataFrame({"x": [1.0, -1.0, 2.0]}, index=["a", "b", "c"]).to_csv("one.csv")
    pd.DataFrame({"x": [1.0, 0.0], "y": [0.0, 1.0]}, index=["b", "a"]).to_csv("two.csv")
    assert main(["signatures", "combine", "one.csv", "two.csv", "-o", "s.csv",
                 "--weights", "1", "3"]) == 0  # fmt: skip
    assert "Dropped 1 of 3 classes that are not in every table: 'c'" in capsys.readouterr().err
    found = read_signature_table("s.csv")
    one, two = (read_signature_table(f"{name}.csv") for name in ("one", "two"))
    assert np.allclose(found, combine_signatures([one.loc[["a", "b"]], two], [1, 3]))
    # Inner products are weighted sums of those of the tables.
    assert np.allclose((found @ found.T).loc["a", "a"], 0.25 * 0.25 + 0.75 * 0.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["text", "-o", "s.csv"], "Give either a"),
        (["text", "wnids.txt", "--wnids", "1k", "-o", "s.csv"], "Give either a file"),
        (["text", "nothing.csv", "-o", "s.csv"], "nothing.csv"),
        (["text", "--wnids", "nothing", "--wordnet", "wordnet", "-o", "s.csv"], "2-hop and 3-hop"),
        (["text", "--wnids", "bad.txt", "--wordnet", "wordnet", "-o", "s.csv"], "bad.txt: 1 of 1"),
        (["text", "wnids.txt", "--encoder", "us", "-o", "s.csv"], "no encoder 'us'"),
        (["text", "--wnids", "1k", "--wordnet", "nowhere", "-o", "s.csv"], "wordnet-base"),
        (["words", "wnids.txt", "--vectors", "none.bin", "-o", "s.csv"], "none.bin"),
        (["hierarchy", "-o", "s.csv"], "Give either a"),
        (["hierarchy", "wnids.txt", "-o", "s.csv"], "use .csv, .tsv, .xlsx or .parquet"),
        (["attributes", "text.csv", "-o", "s.csv"], "are not numeric"),
        (["combine", "n.csv", "-o", "s.csv", "--weights", "1", "2"], "1 views need 1 weights"),
    ],
)
def test_errors_are_one_line(folder, capsys, words, message):
    (folder / "bad.txt").write_text("n00000001\n")
    (folder / "text.csv").write_text("class,x\na,yes\nb,maybe\n")
    (folder / "n.csv").write_text("class,x\na,1\nb,2\n")
    assert main(["signatures", *words]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not (folder / "s.csv").exists()
