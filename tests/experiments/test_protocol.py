"""Protocols, several splits and seeds, and what is refused before anything is tuned."""

from __future__ import annotations

import copy
import dataclasses
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat
from sklearn.exceptions import FitFailedWarning

from zslearn.baselines import ALE, ESZSL, GFZSL
from zslearn.datasets import ClassSplit
from zslearn.experiments import (
    Protocol,
    authors_protocol,
    build_table,
    read_failures,
    read_records,
    run_benchmark,
    summarize_runs,
)
from zslearn.model_selection import (
    METHODS,
    ClassKFold,
    GeneralizedClassKFold,
    Method,
    TuningOptions,
    best_search,
    find_method,
    named_grid,
)
from zslearn.synthesis import EXEM, SynC


def _with_splits(data, **splits):
    """The same data with further splits, and another name."""
    other = copy.copy(data)
    object.__setattr__(other, "splits", {**data.splits, **splits})
    return other


def _class_split(data, unseen, *, hold_out=True):
    """A split with other unseen classes; two images of each seen class are tested on."""
    labels = np.unique(data.y)
    is_unseen = np.isin(data.y, unseen)
    rank = pd.Series(data.y).groupby(data.y).cumcount().to_numpy()
    held = ~is_unseen & (rank < 2) & hold_out
    return ClassSplit(
        train=np.flatnonzero(~is_unseen & ~held),
        test_seen=np.flatnonzero(held),
        test_unseen=np.flatnonzero(is_unseen),
        seen_classes=labels[~np.isin(labels, unseen)],
        unseen_classes=np.asarray(unseen),
        version=f"made-{'-'.join(map(str, unseen))}",
    )


@pytest.fixture(scope="module")
def several(tiny):
    labels = np.unique(tiny.y)
    splits = {f"ss-{i}": _class_split(tiny, labels[3 * i : 3 * i + 3]) for i in range(1, 3)}
    return _with_splits(tiny, **splits)


# Several splits and seeds


def test_every_split_and_seed_has_a_record(several, tmp_path):
    said = []
    paths = run_benchmark(
        several, "ESZSL", tmp_path, splits="ss", seeds=[3, 4], settings=["zsl"], say=said.append
    )
    assert said == [
        "ESZSL, zsl, ss-1, seed 3: tuning",
        "ESZSL, zsl, ss-1, seed 4: tuning",
        "ESZSL, zsl, ss-2, seed 3: tuning",
        "ESZSL, zsl, ss-2, seed 4: tuning",
    ]
    found = [json.loads(path.read_text()) for path in paths]
    assert [(r["split"], r["seed"]) for r in found] == [
        ("ss-1", 3), ("ss-1", 4), ("ss-2", 3), ("ss-2", 4)
    ]  # fmt: skip
    assert found[0]["split_version"] == several.splits["ss-1"].version
    # Each record equals that of a separate run.
    alone = run_benchmark(
        several.with_split("ss-2"), "ESZSL", tmp_path / "alone", settings=["zsl"], seeds=4
    )
    single = json.loads(alone[0].read_text())
    for name in ("metrics", "hyper_parameters", "per_class", "cross_validation", "key"):
        assert single[name] == found[-1][name]
    values = np.array([r["metrics"]["per_class_accuracy"] for r in found]).reshape(2, 2)
    summary = summarize_runs(read_records(tmp_path).query("~file.str.contains('alone')"))
    assert summary.mean.loc["ESZSL", "accuracy"] == pytest.approx(values.mean())
    assert summary.deviation.loc["ESZSL", "accuracy"] == pytest.approx(
        values.mean(axis=0).std(ddof=1)
    )


# Checks before the computation


def _never(*given):
    raise AssertionError("tuned")


def test_the_generalized_setting_needs_test_images_of_seen_classes(tiny, tmp_path, monkeypatch):
    labels = np.unique(tiny.y)
    data = _with_splits(tiny, **{"ss-1": _class_split(tiny, labels[:3], hold_out=False)})
    monkeypatch.setitem(METHODS, "ESZSL", Method("ESZSL", ESZSL, _never))
    for settings in (["gzsl"], ["zsl", "gzsl"]):
        with pytest.raises(ValueError, match=r"split 'ss-1', has no test images.*hold_out=0\.2"):
            run_benchmark(data, "ESZSL", tmp_path, splits=["ns", "ss-1"], settings=settings)
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    (path,) = run_benchmark(data, "ESZSL", tmp_path, splits="ss-1", settings=["zsl"])
    assert "harmonic" not in json.loads(path.read_text())["metrics"]


def test_the_generalized_setting_needs_images_of_every_class(tiny, tmp_path):
    """Without the test images of one seen class."""
    split = tiny.active_split
    kept = split.test_seen[tiny.y_test_seen != tiny.seen_classes[0]]
    data = _with_splits(tiny, fewer=dataclasses.replace(split, test_seen=kept))
    message = f"no test images of these classes: '{tiny.seen_classes[0]}'"
    with pytest.raises(ValueError, match=message):
        run_benchmark(data, "ESZSL", tmp_path, splits="fewer")
    assert not list(tmp_path.iterdir())
    (path,) = run_benchmark(data, "ESZSL", tmp_path, splits="fewer", settings=["zsl"])
    metrics = json.loads(path.read_text())["metrics"]
    assert "per_class_accuracy" in metrics
    assert "harmonic" not in metrics


def test_methods_that_need_binary_attributes_are_refused_first(tiny, tmp_path):
    data = copy.copy(tiny)
    binary = (tiny.signatures > tiny.signatures.median()).astype(float)
    binary.iloc[:, 0] = 1.0
    binary.loc[tiny.unseen_classes[0]] = np.linspace(0.1, 0.9, binary.shape[1])
    object.__setattr__(data, "signatures", binary)
    said = []
    with pytest.warns(FitFailedWarning, match="'DAP, zsl', 'HAT, zsl'"):
        paths = run_benchmark(
            data, ["ESZSL", "DAP", "HAT"], tmp_path, settings=["zsl"], say=said.append
        )
    assert [line.partition(" (")[0] for line in said] == [
        "DAP, zsl: failed",
        "HAT, zsl: failed",
        "ESZSL, zsl: tuning",
    ]
    failed = read_failures(paths)
    assert failed["reason"].str.contains("binarize_signatures").all()
    # Fitting refuses the same.
    with pytest.raises(ValueError, match="needs either all or none"):
        METHODS["DAP"].make().fit(data.X_train, data.y_train, signatures=data.signatures)


# Protocols


def test_folds_of_a_protocol(tiny):
    order = [7, 0, 6, 1, 5, 2, 4, 3]
    protocol = Protocol("mine", n_splits=3, remainder="drop", class_order=order, held_out=2)
    folds = protocol.folds("zsl", 8, seed=5)
    expected = ClassKFold(3, remainder="drop", class_order=order)
    for found, wanted in zip(
        folds.split(None, tiny.y_train), expected.split(None, tiny.y_train), strict=True
    ):
        np.testing.assert_array_equal(found[1], wanted[1])
    generalized = protocol.folds("gzsl", 8, seed=5)
    assert (generalized.held_out, generalized.remainder) == (2, "drop")
    assert protocol.folds("zsl", 5, seed=0).n_splits == 2
    with pytest.raises(ValueError, match="needs a printable name"):
        Protocol(" ")


def test_a_protocol_sets_inner_methods_too():
    estimator = Protocol("mine", signature_scale="all").make(find_method("EXEM (SynC cs)"), 7)
    assert (estimator.signature_scale, estimator.estimator.signature_scale) == ("all", "all")
    assert (estimator.random_state, estimator.estimator.random_state) == (7, 7)
    scaled = Method("ALE", lambda: ALE(signature_scale=2.0))
    assert Protocol("mine").make(scaled, 7).signature_scale == 2.0


def test_the_papers_grids():
    """REFERENCE: the two kinds of features that the paper has."""
    sync, exem = SynC(), EXEM()
    (paper,) = named_grid(sync, "paper")
    assert paper["alpha"] == [2.0**k for k in range(-30, -7, 2)]
    (googlenet,) = named_grid(sync, "paper-googlenet")
    assert googlenet["alpha"] == [2.0**k for k in range(-24, -8)]
    assert googlenet["gamma"] == paper["gamma"]
    (googlenet,) = named_grid(exem, "paper-googlenet")
    # A footnote: λ = 1 and d = 500.
    assert googlenet["C"] == [1.0]
    assert googlenet["n_components"] == [500]
    assert list(googlenet) == list(named_grid(exem, "paper")[0])
    assert named_grid(ESZSL(), "paper-googlenet") == [ESZSL.grids["paper"]]
    assert named_grid(GFZSL(), "paper-googlenet") == GFZSL.grids["paper"]


def test_positions_of_a_protocol_are_those_of_one_split(tiny, tmp_path):
    split = tiny.active_split
    both = replace(tiny, splits={tiny.split: split, "ss-1": split, "ss-2": split})
    order = list(range(len(tiny.seen_classes)))
    for mine in (Protocol("mine", 2, class_order=order), Protocol("mine", 2, held_out=[0, 1])):
        with pytest.raises(ValueError, match="holds for one split; got 'ss-1', 'ss-2'"):
            run_benchmark(both, "ESZSL", tmp_path, protocol=mine, splits="ss", settings=["zsl"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["default", "authors"])
def test_names_of_protocols_are_taken(tiny, tmp_path, name):
    with pytest.raises(ValueError, match=f"'{name}' is reserved"):
        run_benchmark(tiny, "ESZSL", tmp_path, protocol=Protocol(name, 2))


@pytest.mark.slow
def test_a_protocol_of_ones_own(tiny, tmp_path):
    mine = Protocol("mine", n_splits=2, signature_scale="all")
    paths = run_benchmark(tiny, "ESZSL", tmp_path, protocol=mine, settings=["zsl"])
    record = json.loads(paths[0].read_text())
    assert record["protocol"] == "mine"
    assert paths[0].stem.split("_")[-2] == "mine"
    assert "split1_test_accuracy" in record["cross_validation"]
    assert "split2_test_accuracy" not in record["cross_validation"]
    default = run_benchmark(tiny, "ESZSL", tmp_path, settings=["zsl"])
    assert json.loads(default[0].read_text())["protocol"] == "default"
    records = read_records(tmp_path)
    assert sorted(records["protocol"].unique()) == ["default", "mine"]
    with pytest.raises(ValueError, match="differ in protocol"):
        build_table(records, "zsl", only_ours=True)
    # Another protocol under the same name is another run.
    said = []
    other = Protocol("mine", n_splits=2, signature_scale="seen")
    run_benchmark(tiny, "ESZSL", tmp_path, protocol=other, settings=["zsl"], say=said.append)
    assert said == ["ESZSL, zsl: tuning"]
    with pytest.raises(ValueError, match="'default' is reserved"):
        run_benchmark(tiny, "ESZSL", tmp_path, protocol=Protocol("default", n_splits=2))
    with pytest.raises(ValueError, match="Unknown protocol 'theirs'; choose from default, authors"):
        run_benchmark(tiny, "ESZSL", tmp_path, protocol="theirs")
    with pytest.raises(ValueError, match="leave out n_splits"):
        run_benchmark(tiny, "ESZSL", tmp_path, protocol=mine, n_splits=3)


@pytest.fixture
def authors(tiny, tmp_path):
    """Data that are called CUB, and the authors' files for it."""
    data = copy.copy(tiny)
    object.__setattr__(data, "name", "CUB")
    numbered = [c for c in data.signatures.index if c in set(data.seen_classes.tolist())]
    held = [np.flatnonzero(data.y_train == label)[:1] + 1 for label in numbered]
    cells = np.empty((1, len(held)), dtype=object)
    cells[0] = [rows[:, None] for rows in held]
    folder = tmp_path / "authors"
    folder.mkdir()
    order = np.array([[3, 1, 2, 8, 7, 6, 5, 4]])
    savemat(folder / "CUB_PS_class_info.mat", {"class_order": order})
    savemat(
        folder / "CUB_PS_GZSL_inform.mat",
        {"CV_hold_ind": np.sort(np.concatenate(held))[:, None], "CV_hold_loc": cells},
    )
    return data, folder


def test_the_authors_protocol(authors, tmp_path):
    data, folder = authors
    protocol = authors_protocol(data, folder)
    assert (protocol.remainder, protocol.signature_scale, protocol.grid) == ("drop", "all", "paper")
    sorted_labels = np.unique(data.y_train)
    numbered = [c for c in data.signatures.index if c in set(sorted_labels.tolist())]
    assert sorted_labels[protocol.class_order].tolist() == [
        numbered[i - 1] for i in (3, 1, 2, 8, 7, 6, 5, 4)
    ]
    assert len(protocol.held_out) == 8
    paths = run_benchmark(
        data, "ESZSL", tmp_path / "runs", protocol="authors", authors=folder, grid="fast"
    )
    for path, setting in zip(paths, ("zsl", "gzsl"), strict=True):
        record = json.loads(path.read_text())
        assert record["protocol"] == "authors"
        # The search under the same conditions, put together by hand.
        search = TuningOptions(setting, "fast", protocol.folds(setting, 8, 0)).search(
            ESZSL(signature_scale="all"), "fast"
        )
        search.fit(data.X_train, data.y_train, signatures=data.signatures)
        name = "mean_test_accuracy" if setting == "zsl" else "mean_test_ausuc"
        assert record["cross_validation"][name] == search.cv_results_[name].tolist()


def test_the_authors_protocol_is_refused_where_there_is_none(tiny, authors, tmp_path):
    data, folder = authors
    for wrong, message in ((tiny, "make_zero_shot"), (data, "CUB_PS_class_info.mat")):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            run_benchmark(
                wrong, "ESZSL", tmp_path / "runs", protocol="authors", authors=tmp_path / "none"
            )
    with pytest.raises(ValueError, match="leave out n_splits"):
        run_benchmark(data, "ESZSL", tmp_path / "r", protocol="authors", authors=folder, n_splits=3)


def test_the_conventional_setting_needs_no_hold_out(authors, tmp_path):
    data, folder = authors
    (folder / "CUB_PS_GZSL_inform.mat").unlink()
    options = {"protocol": "authors", "authors": folder, "grid": "fast"}
    (path,) = run_benchmark(data, "ESZSL", tmp_path / "runs", settings=["zsl"], **options)
    assert json.loads(path.read_text())["protocol"] == "authors"
    with pytest.raises(FileNotFoundError, match="GZSL_inform"):
        run_benchmark(data, "ESZSL", tmp_path / "runs", settings=["gzsl"], **options)


# The two steps of learned phantoms


def test_regressors_are_chosen_without_the_images_held_aside(tiny):
    """In the generalized setting the second step validates on them."""
    held = np.flatnonzero(pd.Series(tiny.y_train).groupby(tiny.y_train).cumcount() == 0)
    X = np.array(tiny.X)
    X[tiny.active_split.train[held]] = np.random.default_rng(0).standard_normal((len(held), 6))
    scores = []
    for data in (tiny, replace(tiny, X=X)):
        searches = []

        class Kept(TuningOptions):
            def search(self, estimator, grid, *, kept=searches, **options):
                kept.append(super().search(estimator, grid, **options))
                return kept[-1]

            def grid_of(self, estimator, **options):
                return [{"gamma": [0.5, 1.0]} if isinstance(estimator, EXEM) else {}]

        folds = GeneralizedClassKFold(2, held_out=held)
        METHODS["EXEM (ESZSL)"].tune(
            EXEM(tol=1e-2, estimator=ESZSL()), data, Kept("gzsl", "fast", folds)
        )
        regressors, method = searches
        scores.append(regressors.cv_results_["mean_test_exemplar_distance"])
        assert "estimator" not in regressors.best_params_
        assert method.setting == "gzsl"
    np.testing.assert_allclose(*scores, rtol=1e-9, atol=1e-12)


# Records that cannot be trusted


def test_a_search_without_a_score_is_never_the_best():
    scores = (float("nan"), 0.2, float("nan"), 0.4, 0.4)
    searches = [SimpleNamespace(best_score_=s, n_read_fits_=1, reused_time_=2.0) for s in scores]
    best = best_search(searches)
    assert best is searches[3]
    assert (best.n_read_fits_, best.reused_time_) == (5, 10.0)
    assert best_search(searches[:1]) is searches[0]
