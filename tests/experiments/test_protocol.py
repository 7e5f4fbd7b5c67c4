"""Protocols, several splits and seeds, and what is refused before anything is tuned."""

from __future__ import annotations

import copy
import dataclasses
import json
import warnings
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat
from sklearn.exceptions import FitFailedWarning

from zslearn._utils._files import write_checked_json
from zslearn._utils._messages import InputWarning
from zslearn.baselines import ALE, ESZSL, GFZSL
from zslearn.datasets import ClassSplit, make_zero_shot
from zslearn.experiments import (
    Protocol,
    authors_protocol,
    build_table,
    read_records,
    run_benchmark,
    summarize_runs,
)
from zslearn.experiments._records import checked_edges, read_failures, whole_records
from zslearn.model_selection import (
    METHODS,
    ClassKFold,
    GeneralizedClassKFold,
    Method,
    TuningOptions,
    best_of,
    default_methods,
    find_method,
    named_grid,
)
from zslearn.model_selection._tuning import (
    tune_at_once,
    tune_generator,
    tune_in_two_steps,
    tune_on_exemplars,
    tune_whitened,
)
from zslearn.networks import GeneratedFeatures, WGANGenerator
from zslearn.synthesis import EXEM, SynC


@pytest.fixture(scope="module")
def tiny():
    return make_zero_shot(
        n_seen=8, n_unseen=3, n_features=6, n_attributes=5, samples_per_class=6, random_state=1
    )


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
    # Each is the record that a run of its own gives.
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


def test_words_for_splits_and_seeds(several, tiny, tmp_path):
    def splits(data, words):
        paths = run_benchmark(data, "ESZSL", tmp_path, splits=words, settings=["zsl"])
        return [json.loads(path.read_text())["split"] for path in paths]

    assert splits(several, None) == ["ns"]
    assert splits(several, ["ns", "ss-2", "ns"]) == ["ns", "ss-2"]
    with pytest.raises(ValueError, match="no split 'ss-9'"):
        splits(several, ["ss-9"])
    with pytest.raises(ValueError, match="no class splits; it has ns"):
        splits(tiny, "ss")
    for wrong in ([], [-1], ["1"], [True]):
        with pytest.raises(ValueError, match="seeds are whole numbers"):
            run_benchmark(tiny, "ESZSL", tmp_path, seeds=wrong)


def test_a_split_of_that_name_is_taken_itself(several, tmp_path):
    data = _with_splits(several, ss=several.splits["ss-2"])
    (path,) = run_benchmark(data, "ESZSL", tmp_path, splits="ss", settings=["zsl"])
    assert json.loads(path.read_text())["split"] == "ss"


# What is known beforehand


def _never(*given):
    raise AssertionError("tuned")


def test_the_generalized_setting_needs_test_images_of_seen_classes(tiny, tmp_path, monkeypatch):
    labels = np.unique(tiny.y)
    data = _with_splits(tiny, **{"ss-1": _class_split(tiny, labels[:3], hold_out=False)})
    monkeypatch.setitem(METHODS, "ESZSL", Method("ESZSL", ESZSL, _never))
    for settings in (["gzsl"], ["zsl", "gzsl"]):
        with pytest.raises(ValueError, match=r"split 'ss-1', has no test images.*--hold-out 0\.2"):
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
    assert failed["reason"].str.contains("make them so with zslearn.signatures").all()
    # What is refused is what fitting refuses.
    with pytest.raises(ValueError, match="needs all of them binary"):
        METHODS["DAP"].make().fit(data.X_train, data.y_train, signatures=data.signatures)


def test_a_grid_that_a_method_lacks_is_said_first(tiny, tmp_path, monkeypatch):
    class Own(ESZSL):
        grids: ClassVar = {"fast": {"alpha_features": [1.0]}}

    monkeypatch.setitem(METHODS, "Own", Method("Own", Own))
    said = []
    with pytest.warns(FitFailedWarning):
        run_benchmark(tiny, "Own", tmp_path, settings=["zsl"], grid="paper", say=said.append)
    assert said == [
        "Own, zsl: failed (Own has no grid named 'paper'; there are: 'fast'.); going on"
    ]


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
    with pytest.raises(ValueError, match="needs a name"):
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


def test_parts_of_a_grid_that_become_one_are_searched_once():
    options = TuningOptions("zsl", "fast", cv=2)
    names = ["covariance", "n_components", "alpha_variance"]
    assert options.grid_of(GFZSL(), without=names) == [{"alpha_mean": [0.03, 0.1, 0.3, 1.0]}]
    assert options.grid_of(GFZSL()) == GFZSL.grids["fast"]


def test_positions_of_a_protocol_are_those_of_one_split(tiny, tmp_path):
    split = tiny.active_split
    both = replace(tiny, splits={tiny.split: split, "ss-1": split, "ss-2": split})
    order = list(range(len(tiny.seen_classes)))
    for mine in (Protocol("mine", 2, class_order=order), Protocol("mine", 2, held_out=[0, 1])):
        with pytest.raises(ValueError, match="of one split, but there are several: 'ss-1', 'ss-2'"):
            run_benchmark(both, "ESZSL", tmp_path, protocol=mine, splits="ss", settings=["zsl"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["default", "authors"])
def test_names_of_protocols_are_taken(tiny, tmp_path, name):
    with pytest.raises(ValueError, match=f"'{name}' is taken"):
        run_benchmark(tiny, "ESZSL", tmp_path, protocol=Protocol(name, 2))


@pytest.mark.slow
def test_splits_made_in_two_ways_do_not_share_a_record(tiny, tmp_path):
    """Random and published class splits, or two hold-outs, differ in the version alone."""

    def made(name, version):
        split = replace(tiny.active_split, version=version)
        return replace(tiny, splits={name: split}, split=name)

    run = partial(run_benchmark, methods="ESZSL", out=tmp_path, settings=["zsl"])
    (random,) = run(made("ss-1", "xlsa17/ss-1/random-seed0/a"))
    (published,) = run(made("ss-1", "xlsa17/ss-1/b"))
    assert random != published
    assert random.exists()
    assert published.exists()
    # "ns" is one thing, and keeps its name.
    (plain,) = run(made("ns", "xlsa17/ns/PS1/c"))
    assert "_ns_" in plain.name


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
    with pytest.raises(ValueError, match="'default' is taken"):
        run_benchmark(tiny, "ESZSL", tmp_path, protocol=Protocol("default", n_splits=2))
    with pytest.raises(ValueError, match="no protocol 'theirs'; there are: default, authors"):
        run_benchmark(tiny, "ESZSL", tmp_path, protocol="theirs")
    with pytest.raises(ValueError, match="n_splits is not for it"):
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
    with pytest.raises(ValueError, match="five folds"):
        run_benchmark(data, "ESZSL", tmp_path / "r", protocol="authors", authors=folder, n_splits=3)


def test_the_conventional_setting_needs_no_hold_out(authors, tmp_path):
    data, folder = authors
    (folder / "CUB_PS_GZSL_inform.mat").unlink()
    options = {"protocol": "authors", "authors": folder, "grid": "fast"}
    (path,) = run_benchmark(data, "ESZSL", tmp_path / "runs", settings=["zsl"], **options)
    assert json.loads(path.read_text())["protocol"] == "authors"
    with pytest.raises(FileNotFoundError, match="GZSL_inform"):
        run_benchmark(data, "ESZSL", tmp_path / "runs", settings=["gzsl"], **options)


@pytest.mark.slow
def test_a_conventional_run_is_the_same_beside_a_generalized_one(authors, tmp_path):
    data, folder = authors
    options = {"protocol": "authors", "authors": folder, "grid": "fast"}
    run_benchmark(data, "ESZSL", tmp_path / "runs", settings=["zsl"], **options)
    said = []
    run_benchmark(data, "ESZSL", tmp_path / "runs", say=said.append, **options)
    assert said == ["ESZSL, zsl: finished before", "ESZSL, gzsl: tuning"]


def test_what_is_searched_beside_a_grid():
    options = TuningOptions("zsl", "fast", ClassKFold(2), also={"ridge": [0.0, 1e-6]})
    assert options.grid_of(Learning()) == [{**Learning.grids["fast"], "ridge": [0.0, 1e-6]}]
    assert options.grid_of(Learning(), without=["ridge"]) == [Learning.grids["fast"]]
    assert options.grid_of(ESZSL()) == named_grid(ESZSL(), "fast")


# The two steps of learned phantoms


class Learning(SynC):
    """SynC with small grids."""

    grids: ClassVar = {
        "fast": {"gamma": [0.5, 1.0], "alpha": [2.0**-12, 2.0**-8]},
        "phantoms": {"eta": [1e-4, 1e-2], "norm_penalty": [1e-3, 1e-1]},
    }


def test_two_steps(tiny):
    """λ and σ with fixed phantoms; then η and γ at these."""
    options = TuningOptions("zsl", "fast", ClassKFold(2))
    estimator = Learning(learn_phantoms=True, tol=1e-2)
    search = tune_in_two_steps(estimator, tiny, options)
    fixed = tune_at_once(Learning(tol=1e-2), tiny, options)
    assert {n: search.best_params_[n] for n in fixed.best_params_} == fixed.best_params_
    assert set(search.best_params_) == {"gamma", "alpha", "eta", "norm_penalty"}
    assert search.estimator_.learn_phantoms
    for name, value in search.best_params_.items():
        assert getattr(search.estimator_, name) == value
    second = options.search(
        Learning(learn_phantoms=True, tol=1e-2, **fixed.best_params_), Learning.grids["phantoms"]
    ).fit(tiny.X_train, tiny.y_train, signatures=tiny.signatures)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_accuracy"], second.cv_results_["mean_test_accuracy"]
    )
    # A ridge that is searched beside the grid has no place there.
    with_ridge = replace(options, also={"ridge": [1e-3]})
    assert tune_in_two_steps(estimator, tiny, with_ridge).best_params_ == search.best_params_
    with pytest.raises(ValueError, match="no grid named 'phantoms'"):
        tune_in_two_steps(
            type("Bare", (SynC,), {"grids": {"fast": {"gamma": [1.0]}}})(), tiny, options
        )


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
        tune_on_exemplars(EXEM(tol=1e-2, estimator=ESZSL()), data, Kept("gzsl", "fast", folds))
        regressors, method = searches
        scores.append(regressors.cv_results_["mean_test_exemplar_distance"])
        assert "estimator" not in regressors.best_params_
        assert method.setting == "gzsl"
    np.testing.assert_allclose(*scores, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_whitening_is_tuned_beside_the_rest(tiny):
    """Of the shrinkages the one with the best score in the folds."""
    options = TuningOptions("zsl", "fast", ClassKFold(2))

    def plain(estimator, data, of_shrinkage):
        grid = {"gamma": [0.5, 1.0]}
        search = of_shrinkage.search(estimator, grid)
        return search.fit(data.X_train, data.y_train, signatures=data.signatures)

    search = tune_whitened(plain, EXEM(tol=1e-2), tiny, options)
    scores = {}
    for whiten in (0.1, 0.3, 0.6):
        scores[whiten] = plain(EXEM(tol=1e-2, whiten=whiten), tiny, options).best_score_
    assert search.best_score_ == max(scores.values())
    assert scores[search.best_params_["whiten"]] == search.best_score_
    assert search.estimator_.whiten == search.best_params_["whiten"]
    assert set(search.best_params_) == {"whiten", "gamma"}
    assert METHODS["EXEM (ESZSL, whitened)"].make().estimator is not None
    assert "EXEM (ESZSL, whitened)" not in default_methods()


def test_checkpoints_of_each_whitening_are_kept_apart(tiny, tmp_path):
    options = TuningOptions("zsl", "fast", ClassKFold(2), tmp_path / "own", tmp_path / "shared")
    below = options.in_folder("whiten-0.1")
    assert below.checkpoint == tmp_path / "own" / "whiten-0.1"
    assert below.shared == tmp_path / "shared" / "whiten-0.1"
    assert TuningOptions("zsl", "fast", ClassKFold(2)).in_folder("a").checkpoint is None


@pytest.mark.slow
def test_epochs_of_a_generator_are_tuned(tiny):
    pytest.importorskip("torch")
    options = TuningOptions("zsl", "fast", ClassKFold(2))

    class Counted(WGANGenerator):
        """With a small grid, and a count of its runs."""

        grids: ClassVar = {"fast": {"n_epochs": [2, 1]}}
        runs: ClassVar = []

        def _train(self, *arguments):
            self.runs.append(arguments[-1])
            return super()._train(*arguments)

    estimator = GeneratedFeatures(Counted(4, n_critic=1, n_epochs=2, device="cpu"), n_generated=3)
    search = tune_generator(estimator, tiny, options)
    chosen = search.best_params_["generator__n_epochs"]
    # A run per fold, to the largest number; then the chosen one on all classes.
    assert Counted.runs == [2, 2, chosen]
    assert search.estimator_.generator_.n_epochs == chosen
    assert METHODS["f-CLSWGAN"].tune is tune_generator


def test_variants_are_found_and_not_run_by_default():
    default = default_methods()
    assert len(default) == 29
    variant = METHODS["SynC cs (learned phantoms)"]
    assert variant.name not in default
    assert variant.make().learn_phantoms
    assert variant.tune is tune_in_two_steps
    assert [name for name in METHODS if name in default] == default


# Records that cannot be trusted


def _edited(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _rewritten(path, **changes):
    """A record that carries a right checksum and cannot be one."""
    record = {k: v for k, v in json.loads(path.read_text()).items() if k != "checksum"}
    write_checked_json(path, record | changes)


DAMAGES = {
    "accuracy of 9": lambda path: _edited(path, metrics={"per_class_accuracy": 9.0}),
    "accuracy of 0.99": lambda path: _edited(path, metrics={"per_class_accuracy": 0.99}),
    "no metrics": lambda path: _edited(path, metrics={}),
    "other choice": lambda path: _edited(path, hyper_parameters={}),
    "signed accuracy of 9": lambda path: _rewritten(path, metrics={"per_class_accuracy": 9.0}),
    "signed list": lambda path: _rewritten(path, metrics=[1]),
    "signed curve": lambda path: _rewritten(path, curve=3),
    "nested without end": lambda path: path.write_text("[" * 200_000),
    "truncated": lambda path: path.write_text(path.read_text()[:-100]),
    "other bytes": lambda path: path.write_bytes(bytes(range(256))),
    "empty": lambda path: path.write_text(""),
    "no checksum": lambda path: path.write_text(
        json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "checksum"})
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_record_that_cannot_be_trusted_is_computed_again(tiny, tmp_path, name, monkeypatch):
    monkeypatch.setitem(ESZSL.grids, "fast", {"alpha_features": [1.0, 10.0]})
    (path,) = run_benchmark(tiny, "ESZSL", tmp_path, settings=["zsl"], n_splits=2)
    whole = json.loads(path.read_text())
    DAMAGES[name](path)
    with pytest.warns(InputWarning, match="Skipped .*run it again"):
        assert read_records(tmp_path).empty
    said = []
    with pytest.warns(InputWarning, match="is computed again") as caught:
        run_benchmark(tiny, "ESZSL", tmp_path, settings=["zsl"], n_splits=2, say=said.append)
    assert said == ["ESZSL, zsl: tuning"]
    assert any(w.filename == __file__ for w in caught)
    again = json.loads(path.read_text())
    for field in ("metrics", "hyper_parameters", "cross_validation", "key"):
        assert again[field] == whole[field]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_records(tmp_path)) == len(again["metrics"])
        run_benchmark(tiny, "ESZSL", tmp_path, settings=["zsl"], n_splits=2, say=said.append)
    assert said[-1] == "ESZSL, zsl: finished before"


def test_edges_are_listed(tiny, tmp_path, monkeypatch):
    def tune(*given):
        search = tune_at_once(*given)
        search.best_params_ = {"alpha_features": 100.0, "alpha_signatures": 1.0}
        search.edges_ = {"alpha_features": "largest"}
        return search

    monkeypatch.setitem(METHODS, "ESZSL", Method("ESZSL", ESZSL, tune))
    monkeypatch.setitem(ESZSL.grids, "fast", {"alpha_features": [1.0]})
    paths = run_benchmark(tiny, ["ESZSL", "ConSE"], tmp_path, settings=["zsl"], n_splits=2)
    edges = [checked_edges(record) for record in whole_records(paths)]
    assert edges[0] == {"alpha_features": (100.0, "largest")}


def test_a_search_without_a_score_is_never_the_best():
    scores = (float("nan"), 0.2, float("nan"), 0.4, 0.4)
    searches = [SimpleNamespace(best_score_=s, n_read_fits_=1, reused_time_=2.0) for s in scores]
    best = best_of(searches)
    assert best is searches[3]
    assert (best.n_read_fits_, best.reused_time_) == (5, 10.0)
    assert best_of(searches[:1]) is searches[0]
