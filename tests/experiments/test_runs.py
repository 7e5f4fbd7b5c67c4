from __future__ import annotations

import json
import re
import sys
import warnings
from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import ParameterGrid

from report_records import records_in
from zslearn._utils._fit_cache import source_digest
from zslearn.base import InputWarning
from zslearn.baselines import ESZSL, GFZSL
from zslearn.cli import main
from zslearn.datasets import make_zero_shot
from zslearn.experiments import (
    build_table,
    read_failures,
    read_records,
    read_test_selection,
    render,
    run_benchmark,
    summarize_runs,
    write_record,
    write_report,
)
from zslearn.experiments._records import read_record, selection_file, slug
from zslearn.experiments._report._build import inflation_of
from zslearn.experiments._runs import draw_unseen
from zslearn.experiments.analyses._run import analyze
from zslearn.metrics import ausuc
from zslearn.model_selection import (
    METHODS,
    ClassKFold,
    GeneralizedClassKFold,
    Method,
    ZeroShotSearchCV,
    find_method,
    named_grid,
)
from zslearn.synthesis import GaussianEXEM


def test_ranks_of_a_taxonomy_and_some_of_its_classes(tiny, tmp_path):
    labels = tiny.signatures.index
    ranks = pd.DataFrame({"order": "all", "family": "f0"}, index=labels)
    ranks.loc[tiny.unseen_classes[:2], "family"] = "f1"
    options = {"settings": ["zsl"], "taxonomy": ranks}
    (whole,) = run_benchmark(tiny, ["ESZSL"], tmp_path, **options)
    (part,) = run_benchmark(tiny, ["ESZSL"], tmp_path, **options, subset="f1")
    whole, part = (json.loads(path.read_text()) for path in (whole, part))
    numbers = whole["metrics"]
    assert numbers["rank_accuracy_order"] == 1
    assert numbers["per_class_accuracy"] <= numbers["rank_accuracy_family"] <= 1
    assert part["split"] == "ns, only f1"
    assert set(part["per_class"]) == set(tiny.unseen_classes[:2])
    table = summarize_runs(read_records(tmp_path)).mean
    assert list(table.columns[:3]) == ["accuracy", "order right", "family right"]
    assert len(table) == 2
    for changed, message in (
        ({"subset": "f2"}, "has no 'f2'"),
        ({"subset": "f1", "taxonomy": None}, "pass taxonomy="),
        ({"taxonomy": ranks.drop(tiny.unseen_classes[0])}, "no row for"),
        ({"subset": tiny.unseen_classes[0]}, "1 of the unseen classes"),
    ):
        with pytest.raises(ValueError, match=message):
            run_benchmark(tiny, ["ESZSL"], tmp_path, **{**options, **changed})


def test_records(tiny, tmp_path):
    said = []
    paths = run_benchmark(tiny, ["ESZSL"], tmp_path / "runs", say=said.append)
    for path, setting in zip(paths, ("zsl", "gzsl"), strict=True):
        assert path.name.startswith(f"make-zero-shot_ns_synthetic_ESZSL_{setting}_fast_0")
    zsl, gzsl = (json.loads(path.read_text()) for path in paths)
    assert zsl["split_version"] == tiny.version
    assert set(zsl["per_class"]) == set(tiny.unseen_classes)
    accuracy = np.mean(list(zsl["per_class"].values()))
    assert zsl["metrics"]["per_class_accuracy"] == pytest.approx(accuracy)
    assert len(zsl["cross_validation"]["params"]) <= 60
    assert zsl["hyper_parameters"] in zsl["cross_validation"]["params"]
    assert set(gzsl["per_class"]) == set(tiny.signatures.index)
    curve = gzsl["curve"]
    area = np.trapezoid(curve["acc_seen"], curve["acc_unseen"])
    assert gzsl["metrics"]["ausuc"] == pytest.approx(area)
    seen = np.mean([gzsl["per_class"][c] for c in tiny.seen_classes])
    assert gzsl["metrics"]["calibrated_seen"] == pytest.approx(seen)
    assert said == ["ESZSL, zsl: tuning", "ESZSL, gzsl: tuning"]
    assert not list((tmp_path / "runs").glob(".parts*"))


def test_finished_runs_are_kept_unless_told_otherwise(tiny, tmp_path):
    def run(**options):
        said = []
        path = run_benchmark(
            tiny, ["ESZSL"], tmp_path, settings=["zsl"], say=said.append, **options
        )[0]
        return path.stat().st_mtime_ns, said

    first, _ = run()
    assert run() == (first, ["ESZSL, zsl: already finished"])
    assert run(resume=False)[0] > first
    second, _ = run()
    assert run(n_splits=3)[0] > second  # another run under the same name
    path = next(tmp_path.glob("*.json"))
    path.write_text(path.read_text()[:100])
    with pytest.warns(InputWarning, match="will be recomputed: incomplete or not JSON"):
        assert run(n_splits=3)[1] == ["ESZSL, zsl: tuning"]
    json.loads(path.read_text())


def test_another_source_computes_again(tiny, tmp_path, monkeypatch):
    """A solver that changed leaves no old record "already finished"."""
    said = []
    options = {"settings": ["zsl"], "grid": "quick", "say": said.append}
    (path,) = run_benchmark(tiny, "ESZSL", tmp_path, **options)
    assert json.loads(path.read_text())["versions"]["zslearn source"] == source_digest()[:12]
    monkeypatch.setattr("zslearn.experiments._runs.source_digest", lambda: "another")
    run_benchmark(tiny, "ESZSL", tmp_path, **options)
    assert said == ["ESZSL, zsl: tuning"] * 2


def test_other_grids_and_names_have_files_of_their_own():
    slugs = {slug("my data", "x"), slug("my-data", "x"), slug("日本"), slug("中国")}
    assert len(slugs) == 4
    assert all(name.isascii() and "/" not in name for name in slugs)


def test_wrong_names(tiny, tmp_path):
    with pytest.raises(ValueError, match="Unknown method: 'ESZL'. Did you mean 'ESZSL'"):
        run_benchmark(tiny, ["ESZL"], tmp_path)
    with pytest.raises(ValueError, match="Unknown settings: 'both'"):
        run_benchmark(tiny, ["ESZSL"], tmp_path, settings=["both"])
    with pytest.raises(ValueError, match="Unknown grid 'slow'"):
        run_benchmark(tiny, ["ESZSL"], tmp_path, grid="slow")
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("name", METHODS)
def test_fast_grids_are_small(name):
    estimator = METHODS[name].make()
    inner = getattr(estimator, "estimator", None) or estimator
    # Settings of these have most of their work in common.
    fast, paper = (len(ParameterGrid(named_grid(inner, grid))) for grid in ("fast", "paper"))
    assert 1 <= fast <= {"Gaussian EXEM": 280, "GDA": 72}.get(name, 60)
    # The authors of GDA search its weight alone.
    if name != "GDA":
        assert paper >= fast / 2


def _refuse(error, *settings):
    """A way of tuning that fails in some settings."""

    def tune(estimator, data, options):
        if options.setting in settings:
            raise error
        return Method.tune(estimator, data, options)

    return tune


def _breaking(monkeypatch, name, error, *settings):
    monkeypatch.setitem(METHODS, name, replace(METHODS[name], tune=_refuse(error, *settings)))


def test_a_method_that_fails_does_not_stop_the_others(tiny, tmp_path, monkeypatch):
    error = ValueError("the matrix\nis \x1b[31msingular")
    _breaking(monkeypatch, "ESZSL", error, "zsl")
    said = []
    with pytest.warns(
        FitFailedWarning, match="Runs failed: 'ESZSL, zsl'. Their records give"
    ) as caught:
        paths = run_benchmark(tiny, ["ESZSL", "ConSE"], tmp_path, say=said.append)
    assert len([w for w in caught if w.category is FitFailedWarning]) == 1
    assert caught[0].filename == __file__
    reason = r"the matrix is \x1b[31msingular"
    assert said == [
        "ESZSL, zsl: tuning",
        f"ESZSL, zsl: failed ({reason}); continuing",
        "ConSE, zsl: tuning",
        "ESZSL, gzsl: tuning",
        "ConSE, gzsl: tuning",
    ]
    records = [json.loads(path.read_text()) for path in paths]
    assert ["failed" in record for record in records] == [True, False, False, False]
    failed, whole = records[0], records[1]
    assert failed["metrics"] == {}
    assert failed["failed"]["type"] == "ValueError"
    assert failed["failed"]["reason"] == reason
    assert failed["failed"]["traceback"].startswith("Traceback (most recent call last)")
    assert "in tune" in failed["failed"]["traceback"]
    same = ("schema", "dataset", "split", "split_version", "features", "seed", "grid")
    assert [failed[k] for k in same] == [whole[k] for k in same]
    assert (failed["method"], failed["setting"]) == ("ESZSL", "zsl")
    assert (failed["versions"], failed["machine"]) == (whole["versions"], whole["machine"])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = read_records(tmp_path)
        table = read_failures(tmp_path)
    assert set(read["file"]) == {path.name for path in paths[1:]}
    assert table.drop(columns="traceback").to_dict("records") == [
        {
            "dataset": tiny.name,
            "split": tiny.split,
            "features": tiny.features,
            "method": "ESZSL",
            "setting": "zsl",
            "protocol": "default",
            "seed": 0,
            "type": "ValueError",
            "reason": reason,
            "file": paths[0].name,
        }
    ]
    shown = render(build_table(read, "zsl", only_ours=True))
    assert "ConSE" in shown
    assert "ESZSL" not in shown
    of_paths = read_failures(iter(paths))
    assert of_paths["file"].tolist() == [str(paths[0])]
    assert read_failures(paths[1:]).empty
    assert list(read_failures(paths[1:]).columns) == list(table.columns)


def test_a_failed_run_is_tried_again(tiny, tmp_path, monkeypatch):
    """Also by a version of the program that knows nothing of failed records: they have no key."""
    with monkeypatch.context() as broken:
        _breaking(broken, "ESZSL", ValueError("no"), "zsl", "gzsl")
        with pytest.warns(FitFailedWarning):
            (path,) = run_benchmark(tiny, ["ESZSL"], tmp_path / "runs", settings=["zsl"])
        assert "key" not in json.loads(path.read_text())
        said = []
        with pytest.warns(FitFailedWarning):
            run_benchmark(tiny, ["ESZSL"], tmp_path / "runs", settings=["zsl"], say=said.append)
        assert said[0] == "ESZSL, zsl: tuning"
    said = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitFailedWarning)
        again = run_benchmark(tiny, ["ESZSL"], tmp_path / "runs", settings=["zsl"], say=said.append)
    assert (again, said) == ([path], ["ESZSL, zsl: tuning"])
    run_benchmark(tiny, ["ESZSL"], tmp_path / "whole", settings=["zsl"])
    assert records_in(tmp_path / "runs") == records_in(tmp_path / "whole")
    assert read_failures(tmp_path / "runs").empty


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_stops_a_run_still_does(tiny, tmp_path, monkeypatch, error):
    _breaking(monkeypatch, "ESZSL", error(), "zsl")
    with pytest.raises(error):
        run_benchmark(tiny, ["ConSE", "ESZSL"], tmp_path, settings=["zsl"])
    assert {record["method"] for record in records_in(tmp_path).values()} == {"ConSE"}


# Methods of one's own

OWN_METHOD = """
from zslearn.baselines import ESZSL, GFZSL

class Own(ESZSL):
    "A method that lives outside the library."
    grids = {"fast": {"alpha_features": [1.0, 100.0]}}

number = 3
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_zero_shot.py").write_text(OWN_METHOD)
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_zero_shot"
    sys.modules.pop("own_zero_shot", None)


def test_a_class_of_ones_own_is_run(tiny, own_module, tmp_path):
    (path,) = run_benchmark(tiny, [f"{own_module}:Own"], tmp_path / "runs", settings=["zsl"])
    record = json.loads(path.read_text())
    assert record["method"] == "Own"
    # A grid of 1 and 100 grows by the same steps.
    assert np.log10(record["hyper_parameters"]["alpha_features"]) % 2 == 0
    assert len(record["cross_validation"]["params"]) >= 2


def test_an_installed_package_may_bring_a_method(own_module, monkeypatch):
    entry = EntryPoint("Brought", f"{own_module}:Own", "zslearn.methods")

    def entries(*, group, name=None):
        assert group == "zslearn.methods"
        return [entry] if name in (None, "Brought") else []

    monkeypatch.setattr("zslearn.model_selection._methods.entry_points", entries)
    assert type(find_method("Brought").make()).__name__ == "Own"
    with pytest.raises(ValueError, match="Unknown method: 'Brougt'.*Brought"):
        find_method("Brougt")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Own", "cannot be imported: No module"),
        ("own_zero_shot:Other", "cannot be imported.*Other"),
        ("own_zero_shot:number", "neither a Method nor a class"),
        ("own_zero_shot", "class of your own as module:Class"),
    ],
)
def test_what_is_no_method_is_named(own_module, name, message):
    with pytest.raises(ValueError, match=message):
        find_method(name)


def test_a_folder_and_a_method_as_words(tiny, tmp_path):
    """A method is one and the same however its name is written."""
    paths = run_benchmark(tiny, "ESZSL", str(tmp_path / "runs"), settings=["zsl"])
    assert [path.parent for path in paths] == [tmp_path / "runs"]
    said = []
    again = run_benchmark(
        tiny, ["eszsl", "ESZSL"], tmp_path / "runs", settings=["zsl"], say=said.append
    )
    assert (again, said) == (paths, ["ESZSL, zsl: already finished"])


def test_seeds_may_be_numpy_s(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(ESZSL.grids, "fast", {"alpha_features": [1.0]})
    paths = run_benchmark(tiny, "ESZSL", tmp_path, settings=["zsl"], seeds=np.arange(2))
    assert [json.loads(path.read_text())["seed"] for path in paths] == [0, 1]
    assert len(run_benchmark(tiny, "ESZSL", tmp_path, settings=["zsl"], seeds=np.int64(1))) == 1
    for wrong in ([0.5], [True], [-1], []):
        with pytest.raises(ValueError, match="seeds must be whole numbers"):
            run_benchmark(tiny, "ESZSL", tmp_path, seeds=wrong)


def test_records_of_gaussian_exem_have_what_it_finds(tmp_path, monkeypatch):
    monkeypatch.setattr(GaussianEXEM, "grids", {"fast": {"gamma": [1.0]}})
    data = make_zero_shot(n_seen=8, n_unseen=3, n_features=8, samples_per_class=6, random_state=0)
    options = {"settings": ["zsl"], "n_splits": 2}
    value = read_records(run_benchmark(data, ["Gaussian EXEM"], tmp_path, **options))
    found = value.set_index("metric")["value"]
    assert found["temperature"] > 0
    assert found["unseen_odds"] > 0


# Images of unseen classes.


def test_images_that_are_drawn_are_not_tested(tiny):
    drawn = [draw_unseen(tiny, k, seed=3) for k in (1, 3)]
    for k, (rows, rest) in zip((1, 3), drawn, strict=True):
        labels, counts = np.unique(tiny.y[rows], return_counts=True)
        assert set(labels) == set(tiny.unseen_classes)
        assert set(counts) == {k}
        both = np.concatenate([rows, rest.active_split.test_unseen])
        np.testing.assert_array_equal(np.sort(both), np.sort(tiny.active_split.test_unseen))
    # A larger number holds the smaller one.
    assert set(drawn[0][0]) < set(drawn[1][0])
    assert set(draw_unseen(tiny, 3, seed=4)[0]) != set(drawn[1][0])


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
def test_a_run_with_shots_by_hand(tiny, tmp_path, setting):
    (path,) = run_benchmark(tiny, "ESZSL", tmp_path, settings=[setting], shots=2, seeds=5)
    record = json.loads(path.read_text())
    assert (record["shots"], record["draw"]) == (2, 5)
    assert record["protocol"] == "default, 2 shots"
    splitter = ClassKFold if setting == "zsl" else GeneralizedClassKFold
    folds = splitter(4, shots=2, random_state=5)
    search = ZeroShotSearchCV(METHODS["ESZSL"].make(), "fast", setting=setting, cv=folds)
    search.fit(tiny.X_train, tiny.y_train, signatures=tiny.signatures)
    assert record["hyper_parameters"] == search.best_params_
    drawn, rest = draw_unseen(tiny, 2, 5)
    rows = np.concatenate([tiny.active_split.train, drawn])
    model = clone(search.estimator_).fit(tiny.X[rows], tiny.y[rows], signatures=tiny.signatures)
    if setting == "zsl":
        score = model.score(rest.X_test_unseen, rest.y_test_unseen, classes=rest.unseen_classes)
        assert record["metrics"]["per_class_accuracy"] == pytest.approx(score)
    else:
        X = np.concatenate([rest.X_test_seen, rest.X_test_unseen])
        y = np.concatenate([rest.y_test_seen, rest.y_test_unseen])
        scores = model.decision_function(X)
        # A class of which two images are known is one of the unseen all the same.
        area = ausuc(y, scores, classes=model.classes_, seen_classes=rest.seen_classes)
        assert record["metrics"]["ausuc"] == pytest.approx(area)


def test_runs_with_images_stand_in_columns_of_their_own(tiny, tmp_path):
    options = {"settings": ["zsl"], "grid": "quick"}
    run_benchmark(tiny, "ESZSL", tmp_path, **options)
    run_benchmark(tiny, "ESZSL", tmp_path, shots=[0, 1], **options)
    run_benchmark(tiny, "GFZSL", tmp_path, unlabelled="zsl", **options)
    records = read_records(tmp_path)
    table = build_table(records, only_ours=True)
    variants = [column.keys["variant"] for column in table.columns]
    assert variants == ["", "shots=0", "shots=1", "unlabelled=zsl"]
    assert table.ours.loc["ESZSL"].notna().tolist() == [True, True, True, False]
    # Without any image it is the ordinary run.
    assert table.ours.iloc[0, 0] == table.ours.iloc[0, 1] != table.ours.iloc[0, 2]
    assert summarize_runs(records).mean.index.nlevels == 2
    # Nor beside the paper's numbers on one of its data sets.
    table = build_table(records.assign(dataset="CUB"), only_ours=True)
    papers = [column for column in table.columns if column.published]
    assert [column.keys["variant"] for column in papers] == [""]
    assert len(table.columns) == 4


def test_unlabelled_images_are_given_to_adapt(tiny, tmp_path):
    runs = {
        kind: run_benchmark(tiny, "GFZSL", tmp_path, settings=["zsl"], grid="quick", **options)[0]
        for kind, options in {
            "": {}, "zsl": {"unlabelled": "zsl"}, "gzsl": {"unlabelled": "gzsl"},
        }.items()
    }  # fmt: skip
    records = {kind: json.loads(path.read_text()) for kind, path in runs.items()}
    assert records["zsl"]["unlabelled"] == "zsl"
    both = np.concatenate([tiny.X_test_seen, tiny.X_test_unseen])
    piles = {"zsl": (tiny.X_test_unseen, tiny.unseen_classes), "gzsl": (both, None)}
    for kind, (X, classes) in piles.items():
        # Tuned in folds that give such images, too.
        model = GFZSL(**records[kind]["hyper_parameters"])
        model.fit(tiny.X_train, tiny.y_train, signatures=tiny.signatures)
        adapted = model.adapt(X, classes=classes)
        score = adapted.score(tiny.X_test_unseen, tiny.y_test_unseen, classes=tiny.unseen_classes)
        assert records[kind]["metrics"]["per_class_accuracy"] == pytest.approx(score)


def test_the_trust_in_unlabelled_images_is_tuned_with_them(tmp_path):
    data = make_zero_shot(n_seen=20, n_unseen=6, nonlinearity=1.0, random_state=0)
    options = {"settings": ["zsl"], "grid": "quick", "n_splits": 3, "unlabelled": "zsl"}
    (path,) = run_benchmark(data, "Gaussian EXEM", tmp_path, **options)
    record = json.loads(path.read_text())
    found, chosen = record["adaptation"], record["hyper_parameters"]
    assert found["weight"] == chosen["unlabelled_weight"] > 0
    assert found["accepted"]
    assert found["score_after"] == max(record["cross_validation"]["mean_test_accuracy"])
    assert found["score_after"] > found["score_before"]
    model = GaussianEXEM(**chosen).fit(data.X_train, data.y_train, signatures=data.signatures)
    model = model.adapt(data.X_test_unseen, classes=data.unseen_classes)
    score = model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)
    assert record["metrics"]["per_class_accuracy"] == pytest.approx(score)


def test_a_method_that_cannot_adapt_does_not_end_the_others(tiny, tmp_path):
    with pytest.warns(FitFailedWarning, match="ESZSL, zsl, unlabelled zsl"):
        paths = run_benchmark(
            tiny, ["ESZSL", "GFZSL"], tmp_path, settings=["zsl"], grid="quick", unlabelled="zsl"
        )
    reasons = read_failures(paths)["reason"].tolist()
    assert reasons == ["ESZSL has no adapt: it cannot use unlabelled images."]
    assert set(read_records(paths)["method"]) == {"GFZSL"}


@pytest.fixture(scope="module")
def inflated(tmp_path_factory):
    """Records of results and of test selection in one folder."""
    data = make_zero_shot(n_seen=10, n_unseen=4, n_features=12, random_state=0)
    folder = tmp_path_factory.mktemp("inflated")
    options = {"grid": "quick", "n_splits": 2, "inflation": True}
    return data, folder, run_benchmark(data, ["ESZSL", "generated Gaussians"], folder, **options)


def test_inflation_is_that_of_the_settings_by_hand(inflated):
    data, folder, paths = inflated
    found = read_test_selection(folder)
    assert len(found) == 2 * 3
    assert (found["test"] >= found[["default", "held_out"]].max(axis=1) - 1e-9).all()
    assert (found["test"] > found["held_out"]).any()
    order = ["method", "setting", "metric"]
    same = read_test_selection(paths).sort_values(order, ignore_index=True)
    pd.testing.assert_frame_equal(same, found.sort_values(order, ignore_index=True))
    # What is chosen on held-out classes is the result of the same run.
    results = read_records(folder).set_index(order)["value"]
    names = {"harmonic": "calibrated_harmonic"}
    for row in found.to_dict("records"):
        metric = names.get(row["metric"], row["metric"])
        assert row["held_out"] == pytest.approx(results[row["method"], row["setting"], metric])
    # By hand: each setting that the search tried, and the default.
    train = {"signatures": data.signatures}
    settings = [{}, *json.loads(paths[0].read_text())["cross_validation"]["params"]]
    accuracies = [
        ESZSL(**setting)
        .fit(data.X_train, data.y_train, **train)
        .score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)
        for setting in settings
    ]
    (own,) = found.query("method == 'ESZSL' and setting == 'zsl'").to_dict("records")
    assert own["default"] == pytest.approx(accuracies[0])
    assert own["test"] == pytest.approx(max(accuracies))


def test_no_reader_of_results_accepts_what_was_chosen_on_test_classes(inflated, tmp_path):
    _, folder, paths = inflated
    marked = sorted(folder.glob("*.inflation.json"))
    assert len(marked) == len(paths) == 4
    # Under any name, in a folder or as a file.
    for path in marked:
        (tmp_path / f"{path.name[:-15]}.json").write_bytes(path.read_bytes())
    copies = sorted(tmp_path.glob("*.json"))
    for records in (tmp_path, marked, copies):
        assert read_records(records).empty
        assert read_failures(records).empty
    with pytest.raises(ValueError, match="no numbers for a report"):
        write_report(tmp_path, tmp_path / "report.html")
    with pytest.raises(ValueError, match="no such records"):
        analyze("curves", None, tmp_path, runs=tmp_path)
    with pytest.raises(ValueError, match="numbers chosen on test classes"):
        read_record(copies[0])
    # The mark cannot stand beside metrics, and no result passes for such a record.
    mixed = json.loads(paths[0].read_text()) | {"test_selection": {}}
    with pytest.raises(ValueError, match="'metrics' besides"):
        write_record(mixed, tmp_path / "mixed.json")
    with pytest.raises(ValueError, match="a record of results"):
        read_record(paths[0], test_selected=True)


def test_inflation_is_added_to_finished_runs_once(inflated, tmp_path):
    data = inflated[0]
    options = {"settings": ["zsl"], "grid": "quick", "n_splits": 2}
    run_benchmark(data, ["ESZSL"], tmp_path, **options)
    assert read_test_selection(tmp_path).empty
    said: list[str] = []
    for _ in range(2):
        run_benchmark(data, ["ESZSL"], tmp_path, **options, inflation=True, say=said.append)
    assert said == ["ESZSL, zsl: tuning", "ESZSL, zsl: already finished"]
    assert read_test_selection(tmp_path)["metric"].tolist() == ["per_class_accuracy"]
    with pytest.raises(ValueError, match="without images of unseen classes"):
        run_benchmark(data, ["ESZSL"], tmp_path, inflation=True, shots=1)


def test_the_report_shows_inflation_apart(inflated, tmp_path):
    _, folder, _ = inflated
    page = write_report(folder, tmp_path / "report.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    shown = pd.DataFrame(data["inflation"])
    found = read_test_selection(folder)
    assert shown["test"].tolist() == pytest.approx(found["test"].tolist())
    assert sorted(shown["metric"]) == 2 * ["AUSUC"] + 2 * ["H"] + 2 * ["accuracy"]


def test_settings_that_fail_do_not_end_a_run_with_inflation(inflated, tmp_path, monkeypatch):
    fit_many = ESZSL._fit_many

    def fails(cls, training, variants):
        if any(variant.alpha_features == 0.01 for variant in variants):
            raise RuntimeError("diverged")
        return fit_many(training, variants)

    monkeypatch.setattr(ESZSL, "_fit_many", classmethod(fails))
    options = {"settings": ["zsl"], "grid": "quick", "n_splits": 2, "inflation": True}
    with pytest.warns(FitFailedWarning, match="ESZSL failed at .*0.01"):
        paths = run_benchmark(inflated[0], ["ESZSL"], tmp_path, **options)
    (row,) = read_test_selection(paths).to_dict("records")
    (result,) = read_records(paths).query("metric == 'per_class_accuracy'")["value"]
    assert row["held_out"] == pytest.approx(result)


def test_inflation_of_earlier_runs_is_passed_over(inflated, tmp_path):
    paths = inflated[2]
    for path in (paths[0], selection_file(paths[0])):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert len(read_test_selection(tmp_path)) == 1
    later = json.loads(paths[0].read_text()) | {"key": "of later code"}
    write_record(later, tmp_path / paths[0].name)
    with pytest.warns(UserWarning, match="repeat it with --inflation"):
        assert read_test_selection(tmp_path).empty


def test_inflation_of_several_subsets_is_not_averaged(inflated):
    found = read_test_selection(inflated[1]).query("method == 'ESZSL' and setting == 'zsl'")
    several = pd.concat([found.assign(subset=taxon) for taxon in ("Aves", "Mammalia")])
    assert [row["where"] for row in inflation_of(several)] == ["Aves", "Mammalia"]


def test_bench_prints_inflation_apart_from_the_results(inflated, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("zslearn.cli._bench.load_named", lambda arguments: inflated[0])
    words = ["bench", "glyphs", "--methods", "ESZSL", "--setting", "zsl", "--grid", "quick"]
    assert main([*words, "--inflation", "--jobs", "1", "--out", str(tmp_path)]) == 0
    results, _, apart = capsys.readouterr().out.partition("test: not a result")
    assert "held_out" in apart
    assert "held_out" not in results
