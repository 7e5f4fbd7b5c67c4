"""The experiments on ImageNet: measures against whole arrays, and a generated store end to end."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import normalize

from zslearn.baselines import ESZSL
from zslearn.cli import main
from zslearn.datasets import ClassShards, imagenet_classes, make_zero_shot
from zslearn.experiments import ImageNetBench, build_table, read_image_counts, read_records
from zslearn.experiments._imagenet import SetMeasure, imagenet_test_sets
from zslearn.experiments.analyses._exemplars import compare_distances
from zslearn.metrics import (
    flat_hit_at_k,
    hierarchical_precision_at_k,
    per_class_accuracy,
    per_sample_accuracy,
)
from zslearn.signatures import WordNet, hierarchy_signatures

# Measures.


@pytest.mark.parametrize("waiting", [1, 10**6])
def test_measures_in_blocks_are_those_of_whole_arrays(monkeypatch, waiting):
    monkeypatch.setattr("zslearn.experiments._imagenet._WAITING", waiting)
    data = make_zero_shot(n_seen=10, n_unseen=8, random_state=1)
    model = ESZSL().fit(data.X_train, data.y_train, signatures=data.signatures)
    X, y = data.X_test_unseen, data.y_test_unseen
    unseen = np.sort(data.unseen_classes)
    pairs = pd.DataFrame(
        [(label, f"g{i % 3}") for i, label in enumerate(unseen)]
        + [(f"g{i}", "root") for i in range(3)],
        columns=["child", "parent"],
    )
    sets = {"all": unseen.tolist(), "some": unseen[[0, 2, 3, 6, 7]].tolist()}
    cuts = np.array_split(np.random.default_rng(0).permutation(len(y)), 7)
    measured = {name: SetMeasure(classes, pairs) for name, classes in sets.items()}
    for measure, cut in product(measured.values(), cuts):
        measure.add(model.class_scorer_, X[cut], y[cut])
    for name, classes in sets.items():
        inside = np.isin(y, classes)
        top, _ = model.predict_top_k(X[inside], 5, classes=classes)
        true = y[inside]
        found = measured[name].metrics()
        assert measured[name].counts.n_samples.sum() == inside.sum()
        assert found["per_class_accuracy"] == pytest.approx(per_class_accuracy(true, top[:, 0]))
        assert found["per_sample_accuracy"] == pytest.approx(per_sample_accuracy(true, top[:, 0]))
        for k in (1, 2, 5):
            assert found[f"flat_hit_at_{k}"] == pytest.approx(flat_hit_at_k(true, top, k))
        for k in (2, 5):
            deep = hierarchical_precision_at_k(true, top, k, hierarchy=pairs, classes=classes)
            assert found[f"hierarchical_precision_at_{k}"] == pytest.approx(deep)
        # There are not so many classes.
        assert "flat_hit_at_10" not in found


# The store.


@pytest.fixture(scope="module")
def wordnet():
    try:
        imagenet_classes("21k")
        return WordNet()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def make_store(folder, wordnet, n_seen, n_near, n_far, n_rows=6, width=12, seed=0):
    """A store of real wnids, whose features follow the hierarchy, and tables of signatures."""
    rng = np.random.default_rng(seed)
    seen = imagenet_classes("1k")[:: 1000 // n_seen][:n_seen]
    near = imagenet_classes("2-hop", wordnet=wordnet)
    far = [w for w in imagenet_classes("unseen") if w not in set(near)]
    unseen = [*near[:: len(near) // n_near][:n_near], *far[:: len(far) // n_far][:n_far]]
    classes = [*seen, *unseen]
    hie = hierarchy_signatures(wordnet, classes, n_components=width)
    truth = hie.to_numpy() / np.abs(hie.to_numpy()).max() + 0.3 * rng.normal(size=hie.shape)
    for wnid, center in zip(classes, truth @ rng.normal(size=(width, width)), strict=True):
        count = n_rows + int(rng.integers(4))
        rows = center + 0.3 * rng.normal(size=(count, width))
        np.save(folder / f"{wnid}.npy", rows.astype(np.float32))
    tables = {"hie": hie}
    for name, noise in (("wv-v1", 0.6), ("wv-v2", 0.2)):
        values = truth + noise * rng.normal(size=truth.shape)
        tables[name] = pd.DataFrame(values, index=classes)
    return tables


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The search ended on an edge", "ignore:3 classes have the")
def test_commands_draw_the_figures_of_imagenet(tmp_path, wordnet, capsys):
    """Accuracies by hops (figure 6) and overlaps of two kinds of signatures (figure 7)."""
    pytest.importorskip("matplotlib")
    store = tmp_path / "features"
    store.mkdir()
    tables = make_store(store, wordnet, 12, 6, 12, n_rows=3)
    kinds = {name: tables[name] for name in ("wv-v2", "hie")}
    runs = tmp_path / "runs"
    bench = ImageNetBench(
        ClassShards(store), kinds, runs, wordnet, per_class=3, grid="quick", n_folds=2
    )
    files = bench.run(["ESZSL"], ideal=False)
    out = tmp_path / "out"
    assert main(["analyze", "distance", "--runs", str(runs), "--out", str(out)]) == 0
    frame = pd.read_csv(out / "distance.csv")
    assert list(frame["group"].unique()) == ["2-hop", "pure 3-hop", "rest"]
    assert set(frame["semantic"]) == {"wv-v2", "hie", "wv-v2 + hie"}
    # The parts of all groups are the accuracy among all classes, which the record of a class
    # within two hops does not have to itself.
    parts = frame[frame["metric"] == "contribution"].groupby("semantic")["value"].sum()
    whole = read_records(files).query("subset == 'all' and metric == 'per_class_accuracy'")
    expected = whole.set_index("semantic")["value"].to_dict()
    assert parts.to_dict() == pytest.approx(expected, abs=1e-8)
    (per_class,) = whole[whole["semantic"] == "hie"]["by_class"]
    assert len(per_class) == len(bench.unseen)

    words = ["analyze", "exemplars", "--runs", str(runs), "--out", str(out)]
    assert main([*words, "--methods", "wv-v2", "hie"]) == 0
    frame = pd.read_csv(out / "exemplars.csv")
    assert set(frame["subset"]) == {"2-hop", "3-hop", "all"}
    assert list(frame["method"].unique()) == ["wv-v2", "hie"]
    near = bench.sets["2-hop"]
    real = [normalize(bench.shards.rows(wnid)).mean(axis=0) for wnid in near]
    rows = normalize(tables["hie"].loc[near].to_numpy())
    by_hand = compare_distances(rows, np.stack(real))["overlaps"]
    is_found = (frame["subset"] == "2-hop") & (frame["method"] == "hie")
    found = frame[is_found & (frame["metric"] == "knn_overlap_at_k")].sort_values("k")
    np.testing.assert_allclose(found["value"], by_hand, atol=1e-6)
    pictures = {"distance", "exemplars-overlap", "exemplars-difference"}
    assert {path.stem for path in out.glob("*.png")} == pictures
    assert "2-hop" in capsys.readouterr().out


@pytest.mark.slow
def test_generated_store_end_to_end(tmp_path, wordnet, capsys):
    store = tmp_path / "features"
    store.mkdir()
    tables = make_store(store, wordnet, 24, 12, 36, n_rows=4)
    np.save(store / "n99999999.npy", np.ones((2, 12), dtype=np.float32))
    words = []
    for name, table in tables.items():
        table.rename_axis("class").to_csv(tmp_path / f"{name}.csv")
        words.append(f"{name}={tmp_path / name}.csv")
    command = ["bench", "imagenet", str(store), "--signatures", *words, "--out"]
    command += [str(tmp_path / "runs"), "--jobs", "1", "--folds", "3"]
    command += ["--methods", "ESZSL"]
    assert main(command) == 0
    shown, said = capsys.readouterr()
    assert "zslearn: warning: " in said
    assert "1 shard unknown to the hierarchy: 'n99999999'" in said
    for title in ("Table 4", "Table 7", "Table 8", "Table 9", "Table 10", "Table 11", "Table 12"):
        assert title in shown
    records = read_records(tmp_path / "runs" / "whole")
    assert set(records["subset"]) == {"2-hop", "3-hop", "all"}
    assert set(records["semantic"]) == {*tables, "wv-v1 + hie", "wv-v2 + hie"}
    metrics = {"per_class_accuracy", "per_sample_accuracy"}
    metrics |= {f"flat_hit_at_{k}" for k in (1, 2, 5, 10, 20)}
    metrics |= {f"hierarchical_precision_at_{k}" for k in (2, 5, 10, 20)}
    assert set(records["metric"]) == metrics
    value = records.set_index(["method", "subset", "semantic", "metric"])["value"]
    # Better signatures do better, ideal ones best of all.
    good, poor = (value["ESZSL", "all", kind, "flat_hit_at_5"] for kind in ("wv-v2", "wv-v1"))
    assert good > max(poor, 0.2)
    half = read_records(tmp_path / "runs" / "half")
    assert set(half["semantic"]) == {"wv-v2 + hie", "ideal"}
    ideal = half[half["metric"] == "per_class_accuracy"].groupby("semantic")["value"].mean()
    assert ideal["ideal"] > ideal["wv-v2 + hie"]
    assert build_table(records, "semantic", only_ours=True).ours.notna().any(axis=None)
    # Finished runs are not repeated.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json")}
    assert main(command) == 0
    assert "unknown to the hierarchy" in capsys.readouterr().err
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json")}
    assert before == after
    command[command.index("--out") + 1] = str(tmp_path / "other")
    assert main([*command, "--no-ideal"]) == 0
    assert not (tmp_path / "other" / "half").exists()


@pytest.mark.slow
def test_test_sets(wordnet):
    unseen = imagenet_classes("unseen")[::17][:1200]
    counts = pd.Series(np.arange(1, 1201), index=unseen)
    sets = imagenet_test_sets(unseen, wordnet=wordnet, counts=counts)
    assert list(sets) == [
        "2-hop", "3-hop", "most-500", "most-1K", "least-500", "least-1K", "all",
    ]  # fmt: skip
    assert set(sets["most-500"]) == set(unseen[700:])
    assert set(sets["least-500"]) == set(unseen[:500])
    assert set(sets["2-hop"]) < set(sets["3-hop"]) < set(sets["all"])
    with pytest.raises(ValueError, match="table of image counts has no row for"):
        imagenet_test_sets(unseen, wordnet=wordnet, counts=counts.iloc[1:])


def test_image_counts(tmp_path):
    (tmp_path / "counts.csv").write_text("wnid,images\nn00000001,5\nn00000002,7\n")
    assert read_image_counts(tmp_path / "counts.csv").to_dict() == {
        "n00000001": 5,
        "n00000002": 7,
    }
    (tmp_path / "counts.csv").write_text("wnid,images\nn00000001,5\nn00000002,-7\n")
    with pytest.raises(ValueError, match="'n00000002' has a negative count"):
        read_image_counts(tmp_path / "counts.csv")
    (tmp_path / "counts.csv").write_text("wnid,a,b\nn00000001,5,1\n")
    with pytest.raises(ValueError, match="expected two columns"):
        read_image_counts(tmp_path / "counts.csv")


def test_words_of_the_command(tmp_path, capsys, wordnet):
    np.save(tmp_path / "n02084071.npy", np.ones((2, 3), dtype=np.float32))
    command = ["bench", "imagenet", str(tmp_path), "--signatures"]
    assert main([*command, "words.csv"]) == 1
    assert "--signatures takes KIND=FILE" in capsys.readouterr().err
    (tmp_path / "words.csv").write_text("class,a\nn02084071,1.5\n")
    assert main([*command, f"wv={tmp_path}/words.csv", "--epochs", "0"]) == 1
    assert "--epochs must be at least 1; got 0" in capsys.readouterr().err
