from __future__ import annotations

import copy
import json
import os
import random
import signal
import time

import numpy as np
import pytest

from zslearn.baselines import ESZSL
from zslearn.datasets import make_zero_shot
from zslearn.experiments import METHODS, run_benchmark
from zslearn.experiments._runs import _slug
from zslearn.metrics import ausuc
from zslearn.model_selection import GeneralizedClassKFold, ZeroShotSearchCV
from zslearn.model_selection._grid import expand
from zslearn.synthesis import exemplar_distance_score

# What differs from run to run of the same thing.
CHANGING = ("times", "written")


@pytest.fixture(scope="module")
def tiny():
    return make_zero_shot(
        n_seen=8, n_unseen=3, n_features=6, n_attributes=5, samples_per_class=6, random_state=1
    )


def _records(folder):
    found = {}
    # A hidden file was being written when its run was killed; readers pass over it.
    for path in folder.glob("[!.]*.json"):
        record = json.loads(path.read_text())
        found[path.name] = {k: v for k, v in record.items() if k not in CHANGING}
    return found


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


def test_the_generalized_record_is_the_searchs(tiny, tmp_path):
    path = run_benchmark(tiny, ["ESZSL"], tmp_path, settings=["gzsl"], seed=3)[0]
    record = json.loads(path.read_text())
    search = ZeroShotSearchCV(
        METHODS["ESZSL"].make(),
        "fast",
        setting="gzsl",
        cv=GeneralizedClassKFold(4, random_state=3),
    ).fit(tiny.X_train, tiny.y_train, signatures=tiny.signatures)
    assert record["calibration_factor"] == search.bias_
    X = np.concatenate([tiny.X_test_seen, tiny.X_test_unseen])
    y = np.concatenate([tiny.y_test_seen, tiny.y_test_unseen])
    # A constant taken from all seen classes does not change the area.
    area = ausuc(
        y, search.decision_function(X), classes=search.classes_, seen_classes=search.seen_classes_
    )
    assert record["metrics"]["ausuc"] == pytest.approx(area)


def test_finished_runs_are_kept_unless_told_otherwise(tiny, tmp_path):
    def run(**options):
        said = []
        path = run_benchmark(
            tiny, ["ESZSL"], tmp_path, settings=["zsl"], say=said.append, **options
        )[0]
        return path.stat().st_mtime_ns, said

    first, _ = run()
    assert run() == (first, ["ESZSL, zsl: finished before"])
    assert run(resume=False)[0] > first
    second, _ = run()
    assert run(n_splits=3)[0] > second  # another run under the same name
    path = next(tmp_path.glob("*.json"))
    path.write_text(path.read_text()[:100])
    assert run(n_splits=3)[1] == ["ESZSL, zsl: tuning"]
    json.loads(path.read_text())


def test_other_grids_and_names_have_files_of_their_own():
    slugs = {_slug("my data", "x"), _slug("my-data", "x"), _slug("日本"), _slug("中国")}
    assert len(slugs) == 4
    assert all(slug.isascii() and "/" not in slug for slug in slugs)


def test_wrong_names(tiny, tmp_path):
    with pytest.raises(ValueError, match="Unknown methods: 'ESZL'. There are: .*ESZSL"):
        run_benchmark(tiny, ["ESZL"], tmp_path)
    with pytest.raises(ValueError, match="Unknown settings: 'both'"):
        run_benchmark(tiny, ["ESZSL"], tmp_path, settings=["both"])
    with pytest.raises(ValueError, match="no grid named 'slow'"):
        run_benchmark(tiny, ["ESZSL"], tmp_path, grid="slow")
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_fifty_times_and_resumed(tiny, tmp_path, monkeypatch):
    """kill -9 at fifty random moments, then a last run: the records of one uninterrupted run."""
    monkeypatch.setattr("zslearn.model_selection._checkpoint._SECONDS", 0.0)
    start = time.perf_counter()
    run_benchmark(tiny, ["ESZSL"], tmp_path / "whole", grid="fast")
    duration = time.perf_counter() - start
    whole = _records(tmp_path / "whole")
    assert len(whole) == 2
    rng = random.Random(0)
    killed = completed = 0
    folder = tmp_path / "0"
    while killed < 50:
        child = os.fork()
        if child == 0:
            try:
                run_benchmark(tiny, ["ESZSL"], folder, grid="fast")
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0, duration / 3))
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        # Whatever is there at any moment is whole and right.
        found = _records(folder)
        assert found.items() <= whole.items()
        if len(found) == 2:
            completed += 1
            folder = tmp_path / str(completed)
    run_benchmark(tiny, ["ESZSL"], folder, grid="fast")
    assert _records(folder) == whole
    assert completed > 0


def test_another_grid_is_another_run(tiny, tmp_path, monkeypatch):
    said = []
    (path,) = run_benchmark(tiny, ["ESZSL"], tmp_path, settings=["zsl"], say=said.append)
    monkeypatch.setitem(ESZSL.grids, "fast", {"alpha_features": [3.0]})
    run_benchmark(tiny, ["ESZSL"], tmp_path, settings=["zsl"], say=said.append)
    assert said == ["ESZSL, zsl: tuning"] * 2
    assert json.loads(path.read_text())["hyper_parameters"] == {"alpha_features": 3.0}


def test_the_seed_is_that_of_an_inner_method_too(tiny, tmp_path):
    """SynC under EXEM visits samples in random order."""
    for folder in ("1", "2"):
        run_benchmark(tiny, ["EXEM (SynC cs)"], tmp_path / folder, settings=["gzsl"])
    assert _records(tmp_path / "1") == _records(tmp_path / "2")


def test_folds_in_processes_give_the_same_record(tiny, tmp_path):
    for jobs in (None, 2):
        run_benchmark(tiny, ["SynC struct"], tmp_path / str(jobs), n_jobs=jobs)
    assert _records(tmp_path / "None") == _records(tmp_path / "2")


@pytest.mark.parametrize("name", METHODS)
def test_fast_grids_are_small(name):
    estimator = METHODS[name].make()
    inner = getattr(estimator, "estimator", None) or estimator
    assert 1 <= len(expand(inner, "fast")) <= 60
    assert len(expand(inner, "paper")) >= len(expand(inner, "fast")) / 2


def test_swapped_labels_of_signatures_are_other_data(tiny, tmp_path):
    said = []
    run_benchmark(tiny, ["ESZSL"], tmp_path, settings=["zsl"], say=said.append)
    labels = tiny.signatures.index.tolist()
    labels[0], labels[1] = labels[1], labels[0]
    other = copy.copy(tiny)
    object.__setattr__(other, "signatures", tiny.signatures.set_axis(labels, axis=0))
    run_benchmark(other, ["ESZSL"], tmp_path, settings=["zsl"], say=said.append)
    assert said == ["ESZSL, zsl: tuning"] * 2


def test_methods_on_exemplars_share_the_search_for_regressors(tiny, tmp_path, monkeypatch):
    class Counted:
        calls = 0

        def __call__(self, *given):
            Counted.calls += 1
            return exemplar_distance_score(*given)

        def __repr__(self):  # what a checkpoint is known by
            return "counted"

    monkeypatch.setattr("zslearn.experiments._methods.exemplar_distance_score", Counted())
    run_benchmark(tiny, ["EXEM (ESZSL)", "EXEM (ConSE)"], tmp_path)
    n_settings = len(expand(METHODS["EXEM (ESZSL)"].make().set_params(estimator=None), "fast"))
    assert Counted.calls == 4 * n_settings  # four folds, once for two methods and two settings
    assert not list(tmp_path.glob(".parts*"))
