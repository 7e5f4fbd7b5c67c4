"""Searches and benchmarks on a dask cluster."""

from __future__ import annotations

import os

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from dying import Dying
from zslearn.baselines import ESZSL
from zslearn.datasets import make_zero_shot
from zslearn.experiments import read_records, run_benchmark
from zslearn.model_selection import ZeroShotSearchCV, _fold_tasks, on_cluster

distributed = pytest.importorskip("distributed", reason="needs the extra dask")

GRID = {"alpha_features": [0.1, 1.0, 100.0]}


@pytest.fixture(scope="module")
def threads():
    """A cluster in this process."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(n_seen=10, n_unseen=3, random_state=0)


def _fit(search, data):
    return search.fit(data.X_train, data.y_train, signatures=data.signatures)


def _equal(a, b):
    for name, values in a.cv_results_.items():
        if not name.endswith("_time"):
            assert np.array_equal(values, b.cv_results_[name]), name


@pytest.mark.slow
def test_rows_are_sent_once(threads, data, monkeypatch):
    sent = []
    scatter = distributed.Client.scatter

    def counted(client, rows, **options):
        sent.append(options)
        return scatter(client, rows, **options)

    monkeypatch.setattr(distributed.Client, "scatter", counted)
    search = ZeroShotSearchCV(ESZSL(), GRID, cv=3)
    with on_cluster(threads):
        first = _fit(clone(search), data)
        # The same rows in another array are not sent again.
        second = clone(search).fit(data.X_train.copy(), data.y_train, signatures=data.signatures)
        assert len(sent) == 1
        assert sent[0]["broadcast"]
        clone(search).fit(data.X_train + 1, data.y_train, signatures=data.signatures)
        assert len(sent) == 2
    for found in (first, second):
        _equal(found, _fit(clone(search), data))


@pytest.mark.slow
def test_one_job_stays_here(threads, data, monkeypatch):
    monkeypatch.setattr(_fold_tasks, "_run_on_cluster", lambda *a: pytest.fail("sent away"))
    with on_cluster(threads):
        _fit(ZeroShotSearchCV(ESZSL(), GRID, cv=3, n_jobs=1), data)


@pytest.mark.slow
def test_a_benchmark_on_a_cluster(threads, data, tmp_path):
    with on_cluster(threads):
        run_benchmark(data, ["ESZSL"], tmp_path / "cluster", settings=["zsl"], n_splits=3)
    run_benchmark(data, ["ESZSL"], tmp_path / "here", settings=["zsl"], n_splits=3)
    there, here = (read_records(tmp_path / name) for name in ("cluster", "here"))
    assert len(there) > 1
    assert there["metric"].tolist() == here["metric"].tolist()
    np.testing.assert_allclose(there["value"], here["value"], rtol=1e-9)


@pytest.mark.slow
def test_an_error_of_a_fold_is_raised_here(threads, data):
    search = ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0, -1.0]}, cv=3, error_score="raise")
    with on_cluster(threads), pytest.raises(ValueError, match="alpha_features"):
        _fit(search, data)


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [2, 1], ids=["rows are elsewhere too", "rows are lost"])
def test_a_worker_that_dies_changes_nothing(data, n_workers, tmp_path):
    expected = _fit(ZeroShotSearchCV(Dying(), GRID, cv=3), data)
    marker = tmp_path / "died"
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        on_cluster(cluster) as client,
    ):
        pids = set(client.run(os.getpid).values())
        search = ZeroShotSearchCV(
            Dying(str(marker)), GRID, cv=3, checkpoint=tmp_path / "parts", error_score="raise"
        )
        found = _fit(search, data)
        assert marker.exists(), "no worker died"
        client.wait_for_workers(n_workers, timeout=60)
        assert set(client.run(os.getpid).values()) != pids
    _equal(found, expected)
    assert np.array_equal(
        found.decision_function(data.X_test_unseen), expected.decision_function(data.X_test_unseen)
    )


@pytest.mark.slow
def test_the_command_computes_on_the_cluster(threads, monkeypatch, tmp_path):
    from zslearn import experiments
    from zslearn.cli import _bench, main

    seen = {}

    def run_benchmark(data, methods, out, **options):
        backend, _ = joblib.parallel.get_active_backend()
        seen["address"] = backend.client.scheduler.address
        seen["n_jobs"] = options["n_jobs"]
        raise ValueError("enough")

    monkeypatch.setattr(experiments, "run_benchmark", run_benchmark)
    monkeypatch.setattr(_bench, "load_named", lambda arguments: None)
    command = ["bench", "glyphs", "--jobs", "1", "--cluster", threads.scheduler_address]
    assert main([*command, "--out", str(tmp_path)]) != 0
    assert seen == {"address": threads.scheduler_address, "n_jobs": -1}
    assert not hasattr(joblib.parallel.get_active_backend()[0], "client")
