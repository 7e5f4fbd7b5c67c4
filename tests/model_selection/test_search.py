from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning

from zslearn.base import InputWarning
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.metrics import ausuc, best_harmonic_mean, per_class_accuracy
from zslearn.model_selection import ClassKFold, GeneralizedClassKFold, ZeroShotSearchCV

GRID = {"alpha_features": [0.1, 10.0, 1000.0], "center": [None, "both"]}


def _fit(search, problem):
    return search.fit(problem.X_train, problem.y_train, signatures=problem.signatures)


class WithArray(ESZSL):
    """A method with a hyper-parameter that is an array."""

    def __init__(
        self, alpha_features=10.0, alpha_signatures=0.1, *, center="both", weights=None,
        feature_norm="l2", signature_scale="seen",
    ):  # fmt: skip
        super().__init__(
            alpha_features,
            alpha_signatures,
            center=center,
            feature_norm=feature_norm,
            signature_scale=signature_scale,
        )
        self.weights = weights


def test_a_grid_with_arrays_grows(problem):
    grid = {"weights": [np.arange(3), np.arange(2)], "alpha_features": [0.001, 0.01, 0.1]}
    search = _fit(ZeroShotSearchCV(WithArray(), grid, extensions=2), problem)
    assert search.n_extensions_ > 0
    assert search.best_params_["weights"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("shots", [0, 2])
def test_conventional_search_by_hand(problem, shots):
    folds = ClassKFold(3, shots=shots)
    search = _fit(ZeroShotSearchCV(ESZSL(), GRID, cv=folds), problem)
    X, y = problem.X_train, problem.y_train
    signatures = problem.signatures.loc[problem.seen_classes]
    for i, (train, test) in enumerate(folds.split(X, y)):
        for j, setting in enumerate(search.cv_results_["params"]):
            model = ESZSL(**setting).fit(X[train], y[train], signatures=signatures)
            held = np.unique(y[test])
            expected = per_class_accuracy(y[test], model.predict(X[test], classes=held))
            assert search.cv_results_[f"split{i}_test_accuracy"][j] == pytest.approx(expected)
    mean = search.cv_results_["mean_test_accuracy"]
    assert search.best_index_ == np.argmax(mean)
    assert search.best_score_ == mean.max()
    assert search.bias_ == 0
    model = ESZSL(**search.best_params_).fit(X, y, signatures=problem.signatures)
    np.testing.assert_array_equal(
        search.decision_function(problem.X_test_unseen),
        model.decision_function(problem.X_test_unseen),
    )


def test_generalized_search_by_hand(problem):
    splitter = GeneralizedClassKFold(3, held_out=0.25, random_state=4)
    search = _fit(
        ZeroShotSearchCV(
            ESZSL(),
            GRID,
            setting="gzsl",
            cv=splitter,
            scoring=["ausuc", "harmonic_mean", "accuracy"],
            rescale_bias=False,
        ),
        problem,
    )
    X, y = problem.X_train, problem.y_train
    signatures = problem.signatures.loc[problem.seen_classes]
    results = search.cv_results_
    for i, (train, test) in enumerate(splitter.split(X, y)):
        for j, setting in enumerate(results["params"]):
            model = ESZSL(**setting).fit(X[train], y[train], signatures=signatures)
            given = {
                "y_true": y[test],
                "scores": model.decision_function(X[test]),
                "classes": model.classes_,
                "seen_classes": model.seen_classes_,
            }
            assert results[f"split{i}_test_ausuc"][j] == pytest.approx(ausuc(**given))
            best, bias = best_harmonic_mean(**given)
            assert results[f"split{i}_test_harmonic_mean"][j] == pytest.approx(best)
            assert results[f"split{i}_bias"][j] == pytest.approx(bias)
    assert search.best_index_ == np.argmax(results["mean_test_ausuc"])
    assert search.bias_ == pytest.approx(results["mean_bias"][search.best_index_])
    # It predicts as calibrated stacking with that factor does.
    stacked = CalibratedStacking(ESZSL(**search.best_params_), bias=search.bias_)
    X = np.concatenate([problem.X_test_seen, problem.X_test_unseen])
    np.testing.assert_array_equal(search.predict(X), _fit(stacked, problem).predict(X))


def test_of_equally_good_settings_the_first_is_taken(problem):
    # The scale of W changes no prediction: all these are equally good.
    grid = {"alpha_signatures": [1e6, 1e7, 1e8], "alpha_features": [1e7, 1e6]}
    search = _fit(ZeroShotSearchCV(ESZSL(), grid), problem)
    mean = search.cv_results_["mean_test_accuracy"]
    ties = np.flatnonzero(mean == mean.max())
    assert len(ties) > 1
    assert search.best_index_ == ties[0]
    # The order of the mapping: its last hyper-parameter changes fastest.
    first, second = search.cv_results_["params"][:2]
    assert first["alpha_signatures"] == second["alpha_signatures"]


class _Silent(ESZSL):
    """Under some penalties every class gets the same classifier."""

    def synthesize(self, signatures, labels=None):
        parameters = super().synthesize(signatures, labels)
        return 0 * parameters if self.alpha_features > 100 else parameters


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
def test_says_where_all_classes_score_alike(problem, setting, tmp_path):
    grid = {"alpha_features": [0.1, 10.0, 1000.0]}
    search = ZeroShotSearchCV(_Silent(), grid, setting=setting, cv=3, checkpoint=tmp_path)
    for _ in range(2):  # the second time from what is on disk
        with pytest.warns(InputWarning, match="all classes have the same score") as caught:
            _fit(search, problem)
        (message,) = [str(w.message) for w in caught if "have the same score" in str(w.message)]
        assert "In fold 0, 1, 2" in message
        assert "1000.0" in message
        assert "10.0}" not in message


def test_says_where_no_setting_is_better(problem):
    # The scale of W changes no prediction.
    grid = {"alpha_signatures": [1e6, 1e7], "alpha_features": [1e7, 1e6]}
    with pytest.warns(InputWarning, match="In fold .*all 4 settings have the same accuracy"):
        _fit(ZeroShotSearchCV(ESZSL(), grid, cv=3), problem)


def test_callables_score_the_classes_left_out(problem):
    seen_by_scorer = []

    def confident(estimator, X, y, classes):
        seen_by_scorer.append((len(X), set(y), set(classes)))
        return float(estimator.alpha_features)

    search = _fit(ZeroShotSearchCV(ESZSL(), GRID, scoring={"mine": confident}, cv=3), problem)
    assert search.best_params_["alpha_features"] == 1000.0
    for n, labels, classes in seen_by_scorer:
        assert n > 0
        assert labels == classes
        assert classes < set(problem.seen_classes)


def test_named_grids(problem):
    assert len(_fit(ZeroShotSearchCV(ESZSL(), "fast", cv=3), problem).cv_results_["params"]) <= 60
    with pytest.raises(ValueError, match="no grid named 'slow'; there are: 'paper', 'fast'"):
        _fit(ZeroShotSearchCV(ESZSL(), "slow"), problem)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": {"gamma": [1.0]}}, "no hyper-parameter 'gamma'"),
        ({"grid": {"center": "both"}}, "must list values for 'center'"),
        ({"grid": {"center": []}}, "must list values for 'center'"),
        ({"grid": []}, "grid is empty"),
        ({"scoring": "ausuc"}, "'ausuc' is not available with setting='zsl'"),
        ({"scoring": []}, "scoring is empty"),
        ({"scoring": lambda *given: np.nan}, "scored NaN"),
        ({"cv": 1}, "cv"),
        ({"setting": "both"}, "setting"),
    ],
)
def test_what_is_refused(problem, options, message):
    with pytest.raises(ValueError, match=message):
        _fit(ZeroShotSearchCV(ESZSL(), **{"grid": GRID, **options}), problem)


def test_without_signatures_the_first_setting_is_taken(problem):
    with pytest.warns(InputWarning, match="first setting"):
        search = ZeroShotSearchCV(ESZSL(), GRID).fit(problem.X_train, problem.y_train)
    assert search.best_params_ == search.cv_results_["params"][0]


# Stopping and going on


def test_another_search_does_not_read_what_is_kept(problem, tmp_path):
    search = ZeroShotSearchCV(ESZSL(), GRID, cv=3, checkpoint=tmp_path)
    _fit(clone(search), problem)
    files = len(list(tmp_path.iterdir()))
    other = clone(search).fit(problem.X_train * 2, problem.y_train, signatures=problem.signatures)
    assert len(list(tmp_path.iterdir())) == 2 * files
    assert other.n_splits_ == 3


KILLED = """
import sys, time
from zslearn.baselines import ESZSL
from zslearn.datasets import make_zero_shot
from zslearn._utils import _files
from zslearn.model_selection import ZeroShotSearchCV

class Slow(ESZSL):
    def fit_grid(self, X, y, **given):
        for found in super().fit_grid(X, y, **given):
            time.sleep(0.01)
            yield found

_files._CHECKPOINT_SECONDS = 0.0
data = make_zero_shot(n_seen=9, n_unseen=3, n_features=8, samples_per_class=6, random_state=0)
search = ZeroShotSearchCV(Slow(), "fast", cv=3, checkpoint=sys.argv[1])
print("start", flush=True)
search.fit(data.X_train, data.y_train, signatures=data.signatures)
print(search.cv_results_["mean_test_accuracy"].tolist(), flush=True)
"""


@pytest.mark.slow
def test_killed_by_force_and_resumed(tmp_path):
    """kill -9 at several moments; what comes out is what one uninterrupted run gives."""

    def start(folder):
        return subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True
        )

    whole = start(tmp_path / "whole").communicate(timeout=120)[0].splitlines()[1]
    for wait in (0.1, 0.25, 0.4):
        process = start(tmp_path / "killed")
        assert process.stdout.readline() == "start\n"
        time.sleep(wait)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert list((tmp_path / "killed").glob("fold-*.json"))
    assert start(tmp_path / "killed").communicate(timeout=120)[0].splitlines()[1] == whole


WORKERS = """
import os, sys, time
from pathlib import Path
from zslearn.baselines import ESZSL
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ZeroShotSearchCV

def slow(estimator, X, y, classes):
    Path(sys.argv[1], str(os.getpid())).touch()
    time.sleep(1)
    return 0.0

data = make_zero_shot(n_seen=9, n_unseen=3, n_features=8, samples_per_class=6, random_state=0)
search = ZeroShotSearchCV(ESZSL(), "paper", cv=3, n_jobs=2, scoring=slow)
search.fit(data.X_train, data.y_train, signatures=data.signatures)
"""


def _is_running(pid):
    try:
        # A child that is not waited for remains as a zombie.
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks /proc for processes")
@pytest.mark.slow
def test_workers_end_with_the_run_that_was_killed(tmp_path):
    script = WORKERS.replace("sys.argv[1]", repr(str(tmp_path)))
    process = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 60
    while len(workers := [int(path.name) for path in tmp_path.iterdir()]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert process.pid not in workers
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 20
    while any(map(_is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_is_running, workers))


# Found in a review


def test_folds_leave_at_least_two_classes_out(problem):
    few = np.isin(problem.y_train, problem.seen_classes[:5])
    X, y = problem.X_train[few], problem.y_train[few]
    signatures = problem.signatures.loc[problem.seen_classes[:5]]
    search = ZeroShotSearchCV(ESZSL(), GRID).fit(X, y, signatures=signatures)
    assert search.n_splits_ == 2
    with pytest.warns(InputWarning, match="holds out a single class"):
        ZeroShotSearchCV(ESZSL(), GRID, cv=ClassKFold(5)).fit(X, y, signatures=signatures)


def test_folds_that_leave_out_no_class_are_refused(problem):
    from sklearn.model_selection import StratifiedKFold

    with pytest.raises(ValueError, match="hold out at least one. Use ClassKFold"):
        _fit(ZeroShotSearchCV(ESZSL(), GRID, cv=StratifiedKFold(3)), problem)
    with pytest.raises(ValueError, match="Use GeneralizedClassKFold"):
        _fit(ZeroShotSearchCV(ESZSL(), GRID, cv=ClassKFold(3), setting="gzsl"), problem)


def test_folds_as_a_list(problem):
    folds = list(ClassKFold(3).split(None, problem.y_train))
    listed = _fit(ZeroShotSearchCV(ESZSL(), GRID, cv=folds), problem)
    split = _fit(ZeroShotSearchCV(ESZSL(), GRID, cv=ClassKFold(3)), problem)
    np.testing.assert_array_equal(
        listed.cv_results_["mean_test_accuracy"], split.cv_results_["mean_test_accuracy"]
    )


def test_checkpoints_tell_scorers_and_long_parameters_apart(problem, tmp_path):
    def best(sign):
        def score(estimator, X, y, classes):
            return sign * estimator.alpha_features

        search = ZeroShotSearchCV(
            ESZSL(), {"alpha_features": [1.0, 5.0]}, scoring={"mine": score}, checkpoint=tmp_path
        )
        return _fit(search, problem).best_params_["alpha_features"]

    assert best(1) == 5.0
    assert best(-1) == 1.0

    from zslearn._utils._fit_cache import fingerprint

    long = np.arange(5000.0)
    other = long.copy()
    other[2500] = 0
    a, b = (ZeroShotSearchCV(ESZSL(), {"alpha_features": list(v)}) for v in (long, other))
    assert fingerprint(a) != fingerprint(b)
    assert fingerprint(a) == fingerprint(clone(a))


def test_fit_and_fit_grid_survive_what_is_singular(problem):
    X = np.hstack([problem.X_train] * 2) * 1e10
    search = ZeroShotSearchCV(ESZSL(feature_norm=None), {"alpha_features": [1.0, 10.0]}, cv=3)
    search.fit(X, problem.y_train, signatures=problem.signatures)
    assert np.isfinite(search.decision_function(X)).all()


@pytest.mark.slow
def test_fingerprints_are_the_same_in_every_process():
    """Sets have another order there, and functions another address."""
    program = """
from functools import partial
from zslearn._utils._fit_cache import fingerprint

def scorer(x, y=0):
    return x in {"a", "b", "c", "d"}

print(fingerprint(scorer, {"a", "b", "c", "d"}, partial(scorer, y=1)))
"""
    found = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]


# Settings that fail


class Fragile(ESZSL):
    """Fails where alpha_features is 13, or in all settings that share its training."""

    @classmethod
    def _fit_many(cls, training, variants):
        for model in super()._fit_many(training, variants):
            if model.alpha_features == 13:
                raise RuntimeError("thirteen brings\nbad luck")
            yield model


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_a_setting_that_fails_does_not_end_the_search(problem, n_jobs):
    grid = {"alpha_features": [1.0, 13.0, 10.0, 100.0]}
    plain = _fit(ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0, 10.0, 100.0]}), problem)
    search = ZeroShotSearchCV(Fragile(), grid, n_jobs=n_jobs)
    with pytest.warns(FitFailedWarning, match=r"13.0.*fold 0, 1, 2, 3, 4.*thirteen brings bad"):
        _fit(search, problem)
    mean = search.cv_results_["mean_test_accuracy"]
    assert np.isnan(mean[1])
    np.testing.assert_allclose(mean[[0, 2, 3]], plain.cv_results_["mean_test_accuracy"])
    assert search.best_params_ == plain.best_params_


def test_one_warning_for_one_reason_of_failures(problem):
    grid = {"alpha_features": [13.0, 10.0], "alpha_signatures": [0.1, 1.0, 10.0]}
    with pytest.warns(FitFailedWarning) as caught:
        _fit(ZeroShotSearchCV(Fragile(), grid, cv=3), problem)
    (failed,) = [w for w in caught if w.category is FitFailedWarning]
    assert str(failed.message).count("'alpha_features': 13.0") == 3
    assert failed.filename == __file__


def test_a_setting_that_cannot_be_set_is_named_and_passed_over(problem):
    with pytest.warns(FitFailedWarning, match="'alpha_features' parameter"):
        search = _fit(ZeroShotSearchCV(ESZSL(), {"alpha_features": [-1.0, 10.0]}), problem)
    assert search.best_params_ == {"alpha_features": 10.0}


def test_a_failed_setting_is_tried_again(problem, tmp_path, monkeypatch):
    grid = {"alpha_features": [13.0, 10.0]}
    search = ZeroShotSearchCV(Fragile(), grid, checkpoint=tmp_path)
    with pytest.warns(FitFailedWarning):
        _fit(search, problem)
    monkeypatch.setattr(Fragile, "_fit_many", ESZSL._fit_many)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _fit(search, problem)
    assert np.isfinite(search.cv_results_["mean_test_accuracy"]).all()


def test_a_generalized_search_with_failures(problem):
    grid = {"alpha_features": [13.0, 10.0]}
    with pytest.warns(FitFailedWarning):
        search = _fit(ZeroShotSearchCV(Fragile(), grid, setting="gzsl"), problem)
    alone = _fit(ZeroShotSearchCV(ESZSL(), {"alpha_features": [10.0]}, setting="gzsl"), problem)
    assert search.bias_ == pytest.approx(alone.bias_)


def test_a_method_that_always_fails_ends_soon(problem):
    calls = []

    class Hopeless(ESZSL):
        def synthesize(self, signatures, labels=None):
            calls.append(1)
            raise RuntimeError("never")

    grid = {"alpha_features": np.linspace(1, 50, 40).tolist()}
    search = ZeroShotSearchCV(Hopeless(), grid, cv=ClassKFold(2))
    with pytest.warns(FitFailedWarning), pytest.raises(ValueError, match="Every setting.*never"):
        _fit(search, problem)
    assert len(calls) < 2 * 20


def test_what_a_search_says(problem, capsys, caplog):
    search = ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0, 10.0, 100.0]}, cv=2)
    with caplog.at_level("DEBUG", "zslearn"):
        _fit(search, problem)
    assert capsys.readouterr().out == ""
    choice = next(r for r in caplog.records if "chose" in r.getMessage())
    assert choice.levelname == "INFO"
    assert re.fullmatch(
        r"ESZSL: chose alpha_features=\d+\.0; score 0\.\d{3} in 2 folds; "
        r"search \d+\.\d s, refit \d+\.\d s",
        choice.getMessage(),
    )
    assert search.refit_time_ > 0
    _fit(clone(search).set_params(verbose=1), problem)
    assert len(capsys.readouterr().out.splitlines()) == 1
    _fit(clone(search).set_params(verbose=2), problem)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 3 + 1
    assert re.fullmatch(
        r"\[fold 1/2\] alpha_features=1\.0: accuracy=\d\.\d{3}, \d+\.\d\d s", lines[0]
    )
