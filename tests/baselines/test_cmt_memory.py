from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from zslearn.baselines import CMT, CMTStar, _cmt_memory, _cmt_network
from zslearn.experiments import run_benchmark


@pytest.fixture
def descents(monkeypatch):
    """The stops of each path that was trained."""
    found = []
    descend = _cmt_network._descend
    monkeypatch.setattr(
        _cmt_network, "_descend", lambda *args: found.append(sorted(args[2])) or descend(*args)
    )
    return found


def _fit(model, problem, **changes):
    data = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    return model.fit(**(data | changes))


def _file(folder):
    (found,) = folder.glob("*.npz")
    return found


def test_cmt_and_cmt_star_train_the_same_network_once(problem, tmp_path, descents):
    folder = str(tmp_path / "networks")
    models = list(
        CMT(8, memory=folder).fit_grid(
            problem.X_train, problem.y_train, signatures=problem.signatures,
            settings=[{"max_iter": 3}, {"max_iter": 9}],
        )
    )  # fmt: skip
    assert descents == [[3, 9]]
    star = CMTStar(8, max_iter=3, memory=folder)
    assert star.seconds_saved() == 0
    common = CMTStar(8, max_iter=9, threshold="common", memory=folder)
    for model, (_, expected) in zip((star, common), models, strict=True):
        _fit(model, problem)
        np.testing.assert_array_equal(model.coefs_[0], expected.coefs_[0])
        np.testing.assert_array_equal(model.coefs_[1], expected.coefs_[1])
        assert model.n_iter_ == expected.n_iter_
    assert descents == [[3, 9]]
    saved = common.seconds_saved()
    assert saved > 0
    # Told once.
    assert star.seconds_saved() == 0
    alone = _fit(clone(star).set_params(memory=None), problem)
    np.testing.assert_array_equal(alone.radii_, star.radii_)
    assert descents[1:] == [[3]]
    assert alone.seconds_saved() == 0


@pytest.mark.parametrize(
    "changes",
    [{"alpha": 0.5}, {"hidden_size": 7}, {"fit_intercept": True}, {"tol": 1e-3},
     {"random_state": 1}, {"feature_norm": None}, {"signature_scale": 2.0}],
)  # fmt: skip
def test_another_network_is_not_taken_for_it(problem, tmp_path, descents, changes):
    model = CMT(6, max_iter=4, memory=str(tmp_path))
    _fit(model, problem)
    other = _fit(clone(model).set_params(**changes), problem)
    assert len(descents) == 2
    expected = _fit(clone(other).set_params(memory=None), problem)
    np.testing.assert_array_equal(other.coefs_[0], expected.coefs_[0])


def test_other_samples_or_labels_are_not_taken_for_them(problem, tmp_path, descents):
    model = CMT(6, max_iter=4, memory=str(tmp_path))
    _fit(model, problem)
    _fit(model, problem, X=problem.X_train[1:], y=problem.y_train[1:])
    y = problem.y_train.copy()
    y[[0, -1]] = y[[-1, 0]]
    _fit(model, problem, y=y)
    assert len(descents) == 3


def test_steps_that_are_not_kept_are_trained(problem, tmp_path, descents):
    model = CMT(6, max_iter=4, memory=str(tmp_path))
    _fit(model, problem)
    later = _fit(clone(model).set_params(max_iter=7), problem)
    assert descents == [[4], [7]]
    assert later.n_iter_ == 7
    # The longer path has taken its place.
    _fit(clone(model).set_params(max_iter=7), problem)
    assert len(descents) == 2


def test_a_path_that_ended_by_itself_serves_any_later_step(problem, tmp_path, descents):
    model = CMT(6, max_iter=90, tol=1e-2, memory=str(tmp_path))
    first = _fit(model, problem)
    assert first.n_iter_ < 90
    later = _fit(clone(model).set_params(max_iter=300), problem)
    assert len(descents) == 1
    assert later.n_iter_ == first.n_iter_
    np.testing.assert_array_equal(later.coefs_[0], first.coefs_[0])


class _Harm:
    def __reduce__(self):
        return os.mkdir, ("harm",)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "pickle", "other arrays"])
def test_a_damaged_file_is_as_if_it_were_not_there(
    problem, tmp_path, descents, damage, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "networks"
    model = CMT(6, max_iter=4, memory=str(folder))
    expected = _fit(clone(model), problem)
    file = _file(folder)
    content = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "pickle":
        file.write_bytes(pickle.dumps(_Harm()))
    else:
        np.savez(file, steps=np.arange(3))
    again = _fit(model, problem)
    assert len(descents) == 2
    np.testing.assert_array_equal(again.coefs_[0], expected.coefs_[0])
    assert not (tmp_path / "harm").exists()
    _fit(clone(model), problem)
    assert len(descents) == 2


def test_a_full_folder_takes_no_more(problem, tmp_path, descents, monkeypatch):
    monkeypatch.setattr(_cmt_memory, "_LARGEST", 100)
    model = CMT(6, max_iter=4, memory=str(tmp_path))
    _fit(model, problem)
    _fit(model, problem)
    assert len(descents) == 2
    assert not list(tmp_path.glob("*.npz"))


def test_early_stopping_takes_the_final_path_from_the_folder(problem, tmp_path, descents):
    model = CMT(6, max_iter=5, early_stopping=True, memory=str(tmp_path))
    _fit(model, problem)
    _fit(model, problem)
    # That with classes held out is watched, and so trained again.
    assert len(descents) == 3


@pytest.mark.slow
def test_a_benchmark_trains_the_networks_of_both_once_and_says_so(problem, tmp_path, descents):
    paths = run_benchmark(
        problem, ["CMT", "CMT*"], tmp_path / "both", settings=["zsl"], grid="quick", n_splits=2
    )
    n_trained = len(descents)
    alone = run_benchmark(
        problem, ["CMT*"], tmp_path / "alone", settings=["zsl"], grid="quick", n_splits=2
    )
    first, second, expected = (json.loads(path.read_text()) for path in (*paths, *alone))
    assert "reused" not in first["times"]
    assert second["times"]["reused"] > 0
    assert "reused" not in expected["times"]
    for name in ("metrics", "hyper_parameters", "cross_validation"):
        assert second[name] == expected[name]
    assert len(descents) > n_trained
    # Nothing is left behind.
    assert sorted(path.suffix for path in (tmp_path / "both").iterdir()) == [".json", ".json"]
