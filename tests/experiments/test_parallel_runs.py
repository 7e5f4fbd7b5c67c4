from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import joblib
import pytest
from sklearn.exceptions import FitFailedWarning

from report_records import records_in
from zslearn.experiments import run_benchmark
from zslearn.experiments._runs import n_parallel_runs

OWN_METHODS = """
import os
import warnings

from zslearn.baselines import ESZSL

class Warning_(ESZSL):
    grids = {"fast": {"alpha_features": [1.0, 100.0]}}

    @classmethod
    def _fit_many(cls, training, variants):
        warnings.warn("said in a process")
        yield from super()._fit_many(training, variants)

class Failing(ESZSL):
    grids = {"fast": {"alpha_features": [1.0]}}

    @classmethod
    def _fit_many(cls, training, variants):
        raise RuntimeError("not today")

class Dying(ESZSL):
    grids = {"fast": {"alpha_features": [1.0]}}

    @classmethod
    def _fit_many(cls, training, variants):
        if "RUNS_CALLER" in os.environ and os.getpid() != int(os.environ["RUNS_CALLER"]):
            os._exit(9)
        yield from super()._fit_many(training, variants)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_parallel.py").write_text(OWN_METHODS)
    monkeypatch.syspath_prepend(tmp_path)
    # Workers that other tests have started do not know the folder.
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
    yield "own_parallel"
    sys.modules.pop("own_parallel", None)


@pytest.mark.slow
def test_runs_side_by_side_give_the_same_records(tiny, tmp_path):
    methods = ["ESZSL", "CCA", "ConSE", "SAE"]
    said = {jobs: [] for jobs in (1, 2)}
    for jobs, lines in said.items():
        run_benchmark(tiny, methods, tmp_path / str(jobs), n_jobs=jobs, say=lines.append)
    assert records_in(tmp_path / "1") == records_in(tmp_path / "2")
    assert sorted(said[1]) == sorted(said[2])
    assert said[2][0] == "ESZSL, zsl: tuning"
    assert not list((tmp_path / "2").glob(".parts*"))
    # Resumed: what is missing is computed, the rest is not.
    (lost,) = (tmp_path / "2").glob("*_CCA_zsl_*.json")
    lost.unlink()
    lines = []
    run_benchmark(tiny, methods, tmp_path / "2", n_jobs=2, say=lines.append)
    assert lines.count("CCA, zsl: tuning") == 1
    assert sum(line.endswith("already finished") for line in lines) == 7
    assert records_in(tmp_path / "1") == records_in(tmp_path / "2")


@pytest.mark.slow
def test_what_is_said_in_a_process_is_said_here(tiny, own, tmp_path):
    """A run that fails is named, the others go on; warnings come through."""
    methods = ["ESZSL", f"{own}:Failing", "CCA", f"{own}:Warning_"]
    lines = []
    with pytest.warns() as caught:
        run_benchmark(
            tiny, methods, tmp_path / "runs", settings=["zsl"], n_jobs=2, say=lines.append
        )
    assert f"{own}:Failing, zsl: failed (not today); continuing" in lines
    assert len(records_in(tmp_path / "runs")) == 4
    messages = [str(warning.message) for warning in caught]
    assert "said in a process" in messages
    (failed,) = [w for w in caught if issubclass(w.category, FitFailedWarning)]
    assert "Failing, zsl" in str(failed.message)
    failures = [record for record in records_in(tmp_path / "runs").values() if "failed" in record]
    assert [record["failed"]["type"] for record in failures] == ["RuntimeError"]


@pytest.mark.slow
def test_a_process_that_dies_costs_no_run(tiny, own, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNS_CALLER", str(os.getpid()))
    methods = ["ESZSL", f"{own}:Dying", "CCA", "COSTA"]
    with pytest.warns(UserWarning, match="A worker process was killed"):
        # With one setting there are no folds: what is left is fitted in this process.
        paths = run_benchmark(tiny, methods, tmp_path / "runs", settings=["zsl"], n_jobs=2)
    records = [json.loads(path.read_text()) for path in paths]
    assert [record["method"] for record in records] == ["ESZSL", "Dying", "CCA", "COSTA"]
    assert not any("failed" in record for record in records)


SCRIPT = """
import sys, time
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import METHODS
from zslearn.experiments import run_benchmark
from zslearn.model_selection import Method
from zslearn.baselines import ESZSL

def slow(estimator, data, options):
    time.sleep(60)

if __name__ == "__main__":
    for name in "abcd":
        METHODS[name] = Method(name, ESZSL, slow)
    data = make_zero_shot(n_seen=8, n_unseen=3, random_state=1)
    run_benchmark(data, list("abcd"), sys.argv[1], n_jobs=2, say=lambda t: print(t, flush=True))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_an_interrupt_ends_all_processes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "runs")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout.readline() == "a, zsl: tuning\n"
    assert process.stdout.readline() == "b, zsl: tuning\n"
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) != 0
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.2)
    else:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail("a process outlived the run")
    assert not list((tmp_path / "runs").glob("*.json"))


def test_few_runs_are_computed_one_after_another():
    assert n_parallel_runs(100, None) == n_parallel_runs(100, 1) == 1
    assert n_parallel_runs(3, 2) == 1
    assert n_parallel_runs(4, 2) == 2
    with joblib.parallel_config("threading"):
        assert n_parallel_runs(100, 2) == 1
