"""Analyses: their measures against independent computations, and tables against records."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import pearsonr
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from zslearn.datasets import make_zero_shot
from zslearn.experiments import build_table, read_records, run_benchmark, write_record
from zslearn.experiments._records import whole_records
from zslearn.experiments._runs import draw_unseen
from zslearn.experiments.analyses import AnalysisDisplay, run_analysis, with_fewer_seen
from zslearn.experiments.analyses._classes import thirds_by_distance, with_ideal_half
from zslearn.experiments.analyses._exemplars import compare_distances
from zslearn.experiments.analyses._jobs import JobRunner
from zslearn.experiments.analyses._records import compare_protocols
from zslearn.experiments.analyses._run import analyze
from zslearn.experiments.analyses._shots import (
    ADDED,
    DESCRIBED,
    NEAREST,
    images_worth,
    worth_in_words,
    worth_rows,
)
from zslearn.experiments.analyses._sync import components_for_variance
from zslearn.experiments.analyses._unlabelled import unlabelled_sets
from zslearn.signatures import MultiSignatures


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(random_state=0)


def _accuracy(frame):
    return frame[frame["metric"] == "per_class_accuracy"]


# Measures.


def _points(seed, n=9):
    # Whole numbers, which give ties.
    return np.random.RandomState(seed).randint(4, size=(n, 3)).astype(float)


def _overlap_by_hand(first, second, k):
    shares = []
    for row in range(len(first)):
        others = [c for c in range(len(first)) if c != row]
        near = [set(sorted(others, key=lambda c: (d[row, c], c))[:k]) for d in (first, second)]
        shares.append(len(near[0] & near[1]) / k)
    return np.mean(shares)


@pytest.mark.parametrize("n_rows", [2, 1000])
def test_distances_are_compared_as_in_a_direct_computation(block_bytes, n_rows):
    block_bytes(8 * 8 * 9 * n_rows)
    points = _points(2), _points(3)
    first, second = (cdist(rows, rows) for rows in points)
    found = compare_distances(*points)
    for k in range(1, 9):
        by_hand = _overlap_by_hand(first, second, k)
        assert found["overlaps"][k - 1] == pytest.approx(by_hand, abs=1e-6)
    # All other classes are neighbours in both.
    assert found["overlaps"][7] == 1.0
    rows = [pearsonr(a, b)[0] for a, b in zip(first, second, strict=True)]
    pairs = np.triu_indices(9, 1)
    assert found["metrics"] == pytest.approx(
        {
            "distance_correlation": np.mean(rows),
            "pearson_of_pairs": pearsonr(first[pairs], second[pairs])[0],
            "knn_overlap": _overlap_by_hand(first, second, 4),
        }
    )
    same = compare_distances(points[0], 3 * points[0])["metrics"]
    assert same == pytest.approx(dict.fromkeys(same, 1.0))


def test_components_are_those_of_scikit_learn():
    rows = np.random.RandomState(0).normal(size=(12, 6)) * [9, 5, 3, 1, 0.5, 0.1]
    explained = np.cumsum(PCA().fit(rows).explained_variance_ratio_)
    assert components_for_variance(rows) == np.argmax(explained >= 0.95) + 1


def test_thirds_by_distance_from_the_seen_classes(data):
    angles = {"seen": 0.0, "a": 0.1, "b": 0.2, "c": 0.2, "d": 0.5, "e": 0.5, "f": 0.9}
    table = pd.DataFrame({label: (np.cos(v), np.sin(v)) for label, v in angles.items()}).T
    small = SimpleNamespace(
        signatures=table,
        seen_classes=np.array(["seen"]),
        unseen_classes=np.array(list("fedcba")),
    )
    found = thirds_by_distance(small)
    assert list(found) == ["a", "c", "b", "e", "d", "f"]
    # Classes at the same distance share a group.
    assert [found[label] for label in "abcdef"] == [
        f"{where} third" for where in ("near", "middle", "middle", "far", "far", "far")
    ]


# Data.


def test_subsets_of_seen_classes_are_nested(data):
    sizes = {n: set(with_fewer_seen(data, n, 3).seen_classes) for n in (5, 10, 20)}
    assert sizes[5] < sizes[10] < sizes[20] == set(data.seen_classes)
    assert sizes[10] != set(with_fewer_seen(data, 10, 4).seen_classes)


def test_a_subset_keeps_unseen_classes_and_the_images_of_its_classes(data):
    fewer = with_fewer_seen(data, 7, 0)
    kept = np.isin(data.y_train, fewer.seen_classes)
    np.testing.assert_array_equal(fewer.X_train, data.X_train[kept])
    np.testing.assert_array_equal(fewer.X_test_unseen, data.X_test_unseen)
    kept = np.isin(data.y_test_seen, fewer.seen_classes)
    np.testing.assert_array_equal(fewer.X_test_seen, data.X_test_seen[kept])
    np.testing.assert_array_equal(fewer.y_test_seen, data.y_test_seen[kept])
    assert set(fewer.signatures.index) == {*fewer.seen_classes, *data.unseen_classes}


@pytest.mark.parametrize("n_seen", [3, 21])
def test_impossible_sizes_of_a_subset_raise(data, n_seen):
    with pytest.raises(ValueError, match="between 4 and 20"):
        with_fewer_seen(data, n_seen, 0)


def test_ideal_signatures_do_not_use_tested_images(data):
    halved, ideal = with_ideal_half(data, 0)
    testing = set(halved.active_split.test_unseen)
    label = data.unseen_classes[0]
    rows = [r for r in data.active_split.test_unseen if data.y[r] == label and r not in testing]
    assert len(rows) == 15
    np.testing.assert_allclose(ideal.loc[label], normalize(data.X[rows]).mean(axis=0))
    seen = data.seen_classes[0]
    own = normalize(data.X_train[data.y_train == seen]).mean(axis=0)
    np.testing.assert_allclose(ideal.loc[seen], own)


# Analyses.


@pytest.mark.slow
def test_phantoms_are_relative_to_as_many_as_seen_classes(data, tmp_path):
    frame = _accuracy(analyze("phantoms", data, tmp_path, shares=[0.4, 1.4]))
    by_share = frame.set_index("n_phantoms")
    assert list(by_share.index) == [0.4, 1.0, 1.4]
    assert by_share.loc[1.0, "relative"] == 1.0
    ratio = by_share.loc[0.4, "value"] / by_share.loc[1.0, "value"]
    assert by_share.loc[0.4, "relative"] == pytest.approx(ratio)


def test_the_number_of_components_decreases_with_the_penalty(data, tmp_path):
    frame = analyze("components", data, tmp_path, alphas=[2.0**-18, 2.0**-4])
    number = frame[frame["metric"] == "components"].set_index("alpha")["value"]
    assert number.iloc[0] > number.iloc[-1] >= 1
    share = frame[frame["metric"] == "components_share"]["value"].to_numpy()
    np.testing.assert_allclose(share, number.to_numpy() / 20)


def test_analyses_of_sync_reject_other_methods(data, tmp_path):
    for name in ("phantoms", "components", "penalties"):
        with pytest.raises(ValueError, match="SynC"):
            analyze(name, data, tmp_path, methods="ESZSL")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The phantoms have shrunk")
def test_forms_of_sync_fill_their_tables(data, tmp_path):
    frame = _accuracy(analyze("penalties", data, tmp_path)).set_index("form")["value"]
    # Both are the default.
    assert frame["penalty on w"] == frame["fixed phantoms"]
    records = read_records(tmp_path)
    table = build_table(records, "regularization", only_ours=True).ours
    assert table.loc["make_zero_shot", "NS penalize=w"] == round(100 * frame["penalty on w"], 1)
    table = build_table(records, "learned_phantoms", only_ours=True).ours
    wanted = round(100 * frame["learned phantoms"], 1)
    assert table.loc["make_zero_shot", "NS learn_phantoms=True"] == wanted


def test_signatures_are_measured_as_in_a_direct_computation(data, tmp_path):
    views = {"five": data.signatures.iloc[:, :5], "others": data.signatures.iloc[:, 5:]}
    data = data.with_signatures(MultiSignatures(views))
    frame = analyze("exemplars", data, tmp_path)
    unseen = list(data.unseen_classes)
    real = np.stack(
        [
            normalize(data.X_test_unseen[data.y_test_unseen == label]).mean(axis=0)
            for label in unseen
        ]
    )
    halves = [normalize(view.loc[unseen]) for view in views.values()]
    whole = np.hstack(halves) / np.sqrt(2)
    for name, rows in (("Semantic representations", whole), ("five", halves[0])):
        found = frame[(frame["method"] == name) & (frame["metric"] == "distance_correlation")]
        distances = cdist(rows, rows), cdist(real, real)
        expected = np.mean([pearsonr(a, b)[0] for a, b in zip(*distances, strict=True)])
        assert found["value"].item() == pytest.approx(expected)
        found = frame[(frame["method"] == name) & (frame["metric"] == "knn_overlap_at_k")]
        by_hand = [_overlap_by_hand(*distances, k) for k in range(1, 5)]
        np.testing.assert_allclose(found.sort_values("k")["value"], by_hand, atol=1e-6)
    at_40 = frame[(frame["method"] == "Predicted exemplars") & (frame["metric"] == "knn_overlap")]
    assert at_40["k"].item() == 2


@pytest.mark.slow
def test_exemplars_fill_their_tables(data, tmp_path):
    frame = analyze("exemplars", data, tmp_path)
    records = read_records(tmp_path)
    value = {(row.method, row.metric): row.value for row in frame.itertuples()}
    table = build_table(records, "knn_overlap", only_ours=True).ours
    expected = round(100 * value["Predicted exemplars", "knn_overlap"], 1)
    assert table.loc["Predicted exemplars", "make_zero_shot NS k=2"] == expected
    table = build_table(records, "correlation", only_ours=True).ours
    expected = round(value["Semantic representations", "distance_correlation"], 3)
    assert table.loc["make_zero_shot", "NS Semantic representations"] == expected


def test_a_map_contains_images_and_both_exemplars(data, tmp_path):
    frame = analyze("exemplar-map", data, tmp_path, n_classes=3, n_images=8)
    assert frame.groupby("kind").size().to_dict() == {"image": 24, "predicted": 3, "real": 3}
    assert np.isfinite(frame[["x", "y"]].to_numpy()).all()


@pytest.mark.slow
def test_regressors_fill_their_tables(data, tmp_path):
    frame = analyze(
        "regressors", data, tmp_path, methods=["svr", "krr"], dimensions=[10, None, 999]
    )
    # More components than features are skipped.
    assert set(frame["n_components"].dropna()) == {10}
    accuracy = _accuracy(frame)
    records = read_records(tmp_path)
    table = build_table(records, "pca", only_ours=True).ours
    svr = accuracy[(accuracy["regressor"] == "svr") & (accuracy["n_components"] == 10)]
    assert table.loc["make_zero_shot", "NS n_components=10"] == round(100 * svr["value"].item(), 1)
    table = build_table(records, "regressor", only_ours=True).ours
    krr = accuracy[(accuracy["regressor"] == "krr") & accuracy["n_components"].isna()]
    row = "make_zero_shot · EXEM (1NN, kernel ridge)"
    assert table.loc[row, "NS n_components=None"] == round(100 * krr["value"].item(), 1)
    with pytest.raises(ValueError, match="Unknown methods: forest"):
        analyze("regressors", data, tmp_path, methods=["forest"])


def test_contributions_of_groups_add_up_to_the_accuracy(data, tmp_path):
    frame = analyze("distance", data, tmp_path, methods="ESZSL")
    parts = frame[frame["metric"] == "contribution"]["value"].sum()
    whole = analyze("seen-classes", data, tmp_path, methods="ESZSL", shares=[1.0])
    assert parts == pytest.approx(_accuracy(whole)["value"].item())


@pytest.mark.slow
def test_ideal_signatures_are_better(data, tmp_path):
    frame = _accuracy(analyze("ideal", data, tmp_path, methods="EXEM (1NN)", seeds=[0, 1]))
    mean = frame.groupby("semantic")["value"].mean()
    assert mean["ideal"] > mean["attributes"]


# From records.


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    run_benchmark(data, ["ESZSL", "CCA"], out, settings=["gzsl"], grid="quick", n_splits=3)
    return out


def test_curves_are_those_of_the_records(runs, tmp_path):
    frame = analyze("curves", None, tmp_path, runs=runs)
    records = read_records(runs).set_index(["method", "metric"])["value"]
    for method, part in frame.groupby("method"):
        assert part["ausuc"].iloc[0] == records[method, "ausuc"]
        area = np.trapezoid(part["acc_seen"], part["acc_unseen"])
        assert area == pytest.approx(records[method, "ausuc"])
        for mark, prefix in (("without", ""), ("calibrated", "calibrated_")):
            (point,) = part[part["mark"].str.contains(mark)].to_dict("records")
            assert point["acc_seen"] == pytest.approx(records[method, f"{prefix}seen"])
            assert point["harmonic"] == pytest.approx(records[method, f"{prefix}harmonic"])


def test_groups_from_records_equal_computed_ones(data, tmp_path):
    runs = tmp_path / "runs"
    run_benchmark(data, ["ESZSL"], runs, settings=["zsl"], grid="quick", n_splits=3)
    computed, read = (
        _accuracy(analyze("distance", data, tmp_path, **options)).set_index("group")["value"]
        for options in ({"methods": "ESZSL"}, {"methods": "eszsl", "runs": runs})
    )
    assert read.to_dict() == computed.to_dict()
    with pytest.raises(ValueError, match="pass the data set"):
        analyze("distance", None, tmp_path, runs=runs)


def test_imagenet_figures_are_read_from_records(tmp_path):
    """Accuracies by hops (Figure 6), and overlaps of kinds of signatures by set (Figure 7)."""
    origin = {
        **{"schema": 1, "dataset": "ImageNet", "split": "ss", "split_version": "", "features": "f"},
        **{"setting": "zsl", "seed": 0},
    }
    per_class = {"n1": 0.9, "n2": 0.5, "n3": 0.3, "n4": 0.1}
    groups = {"2-hop": ["n2"], "pure 3-hop": ["n1", "n4"]}
    for kind, overlap in (("hie", 0.5), ("wv-v2", 0.2)):
        of_kind = {**origin, "semantic": kind}
        classes = {"per_class": per_class, "groups": groups}
        record = {**of_kind, "subset": "all", "method": "ESZSL", "metrics": {}, **classes}
        write_record(record, tmp_path / f"{kind}.json")
        for subset in ("2-hop", "all"):
            record = {**of_kind, "subset": subset, "method": kind, "analysis": "exemplars"}
            results = {"variant": "k=2", "metrics": {"knn_overlap": overlap}}
            results["overlaps"] = [overlap, 2 * overlap]
            write_record({**record, **results}, tmp_path / f"{kind}-{subset}.json")
    frame = _accuracy(analyze("distance", None, tmp_path, runs=tmp_path))
    value = frame.set_index(["semantic", "group"])["value"]
    assert value["hie"].to_dict() == {"2-hop": 0.5, "pure 3-hop": 0.5, "rest": 0.3}
    frame = analyze("exemplars", None, tmp_path, runs=tmp_path)
    # The kind that the others are compared to comes first.
    assert list(frame["method"].unique()) == ["wv-v2", "hie"]
    found = frame[frame["metric"] == "knn_overlap_at_k"].set_index(["subset", "method", "k"])
    assert found["value"]["2-hop", "hie", 2] == 1.0
    for name, words in (("groups", "lists of classes"), ("overlaps", "list of fractions")):
        with pytest.raises(ValueError, match=words):
            write_record({**record, **results, name: 3}, tmp_path / "damaged.json")


def _write_records(folder, values, *, protocol="default", metric="per_class_accuracy"):
    for (method, dataset, seed), value in values.items():
        write_record(
            {
                "schema": 1,
                "dataset": dataset,
                "split": "ns",
                "split_version": "1",
                "features": "f",
                "method": method,
                "setting": "zsl",
                "protocol": protocol,
                "grid": "fast",
                "seed": seed,
                "metrics": {metric: value},
            },
            folder / f"{protocol}-{method}-{dataset}-{seed}.json",
        )


def test_protocols_are_compared_seed_by_seed(tmp_path):
    rng = np.random.RandomState(0)
    base = {("ESZSL", "A", s): rng.rand() for s in (0, 1, 2)}
    other = {key: rng.rand() for key in base if key[2] > 0}
    _write_records(tmp_path, base)
    _write_records(tmp_path, other, protocol="ten folds")
    row = analyze("protocol", None, tmp_path, runs=tmp_path).iloc[0]
    apart = [other[key] - base[key] for key in other]
    assert row["difference"] == pytest.approx(np.mean(apart))
    assert row["deviation"] == pytest.approx(np.std(apart, ddof=1))
    assert row["n_seeds"] == 2
    records = read_records(tmp_path)
    with pytest.raises(ValueError, match="no records of the protocol"):
        compare_protocols(records[records["protocol"] != "default"])


# Few-shot learning.


def test_number_of_images_that_a_description_is_worth():
    # 4 is halfway between 2 and 8 on a logarithmic scale.
    assert images_worth([1, 2, 8], [0.1, 0.2, 0.4], 0.3) == pytest.approx(4.0)
    assert images_worth([1, 2, 8], [0.1, 0.2, 0.4], 0.2) == pytest.approx(2.0)
    assert np.isnan(images_worth([1, 2], [0.1, 0.2], 0.3))
    assert np.isnan(images_worth([1, 2], [0.1, 0.2], 0.05))


def test_what_a_description_is_worth_in_words():
    rows = [(DESCRIBED, 0, 0.5), (NEAREST, 1, 0.4), (NEAREST, 2, 0.6)]
    frame = pd.DataFrame(
        [(name, k, seed, "per_class_accuracy", v) for seed in (0, 1) for name, k, v in rows],
        columns=["method", "shots", "seed", "metric", "value"],
    )

    def words(change=0.0, seeds=(0, 1)):
        changed = frame["value"] + change * (frame["shots"] > 0) * frame["seed"].isin(seeds)
        found = frame.assign(value=changed)
        return worth_in_words(pd.concat([found, worth_rows(found)]))

    assert words() == "1.4 ± 0.0 images"
    # If images alone reach it in some draws only, there is no mean.
    assert words(-0.3, [0]) == words(-0.3) == "more than 2 images"
    assert words(0.2) == "fewer than 1 image"
    assert worth_in_words(frame[frame["shots"] > 0]) == ""


def test_from_zero_to_many(data, tmp_path):
    rows = [DESCRIBED, ADDED, NEAREST]
    frame = analyze("shots", data, tmp_path, methods=rows, seeds=[1], shots=[0, 1, 4])
    accuracy = _accuracy(frame).set_index(["method", "shots"])["value"]
    assert list(accuracy[DESCRIBED].index) == [0, 1, 4]
    assert list(accuracy[NEAREST].index) == [1, 4]
    assert accuracy[NEAREST, 1] < accuracy[NEAREST, 4] < accuracy[DESCRIBED, 4]
    record = next(r for r in whole_records(tmp_path) if r["method"] == ADDED and r["shots"] == 4)
    search = JobRunner("shots", data, tmp_path / "again").tune(DESCRIBED, 0)
    model = search.estimator_.set_params(**record["hyper_parameters"])
    drawn, rest = draw_unseen(data, 4, 1)
    model.add_examples(data.X[drawn], data.y[drawn])
    score = model.score(rest.X_test_unseen, rest.y_test_unseen, classes=rest.unseen_classes)
    assert accuracy[ADDED, 4] == pytest.approx(score)


def test_unlabelled_sets(tmp_path):
    data = make_zero_shot(30, 6, nonlinearity=1.0, random_state=0)
    y = data.y_test_unseen
    sets = unlabelled_sets(y, 0)
    for kind, chosen in sets.items():
        assert not set(chosen.rows) & set(chosen.scored), kind
        assert set(y[chosen.scored]) == set(chosen.candidates), kind
        assert set(chosen.present) <= set(chosen.candidates), kind
    assert np.unique(y[sets["few"].rows], return_counts=True)[1].tolist() == [3] * 6
    assert set(y[sets["half absent"].rows]) == set(sets["half absent"].present)
    assert not set(y[sets["foreign only"].rows]) & set(sets["foreign only"].candidates)
    frame = analyze("unlabelled-sets", data, tmp_path, seeds=[0])
    means = frame.pivot_table(index="set", columns="metric", values="value")
    assert set(means.index) == set(sets)
    np.testing.assert_allclose(means["before"] + means["gain"], means["per_class_accuracy"])
    assert set(means.index[means["gain_absent"].notna()]) == {
        "half absent",
        "foreign only",
        "10 to 1",
    }
    # No image of a candidate is in the set.
    assert set(means.index[means["gain_present"].isna()]) == {"foreign only"}
    assert means.loc["foreign only", "gain_absent"] == means.loc["foreign only", "gain"]
    assert means.loc["all", "gain"] > 0
    with pytest.raises(ValueError, match="needs methods with adapt; got ESZSL"):
        analyze("unlabelled-sets", data, tmp_path, methods="ESZSL")
    pytest.importorskip("matplotlib")
    axes = AnalysisDisplay(frame, "unlabelled-sets").plot().ax_
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(sets)


def test_a_class_without_scored_images_does_not_count(tmp_path):
    pytest.importorskip("matplotlib")
    data = make_zero_shot(9, 4, n_features=6, n_attributes=4, random_state=0)
    split = data.active_split
    first = data.y[split.test_unseen] == data.unseen_classes[0]
    rows = split.test_unseen[~first | (np.cumsum(first) == 1)]
    data = data.with_splits({"one": replace(split, test_unseen=rows)}).with_split("one")
    options = {"methods": "Gaussian EXEM", "seeds": [0, 1], "grid": "fast", "n_splits": 2}
    frame, _ = run_analysis("unlabelled-sets", data, tmp_path, **options)
    assert frame["value"].notna().all()
    assert len(frame[frame["metric"] == "before"]) == 2 * frame["set"].nunique() == 12
