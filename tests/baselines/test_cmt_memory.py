"""CMT and CMT* train the same networks: once, where searches keep their fits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone

from zslearn._utils._fit_cache import keeping_fits
from zslearn.baselines import CMT, CMTStar
from zslearn.baselines import _cmt as _cmt_path
from zslearn.experiments import run_benchmark


@pytest.fixture
def descents(monkeypatch):
    """The stops of each path that was trained."""
    found = []
    descend = _cmt_path.descend_together

    def counted(problems, start, stops, *args):
        found.extend([sorted(stops)] * len(problems))
        return descend(problems, start, stops, *args)

    monkeypatch.setattr(_cmt_path, "descend_together", counted)
    return found


def _fit(model, problem, **changes):
    data = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    return model.fit(**(data | changes))


def _grid(model, problem, *steps):
    """Models after some numbers of steps."""
    found = model.fit_grid(
        problem.X_train, problem.y_train, signatures=problem.signatures,
        settings=[{"max_iter": n} for n in steps],
    )  # fmt: skip
    return [fitted for _, fitted in found]


def test_cmt_and_cmt_star_train_the_same_network_once(problem, tmp_path, descents):
    with keeping_fits(tmp_path) as kept:
        plain = _grid(CMT(8), problem, 3, 9)
        assert (descents, kept.n_read, kept.seconds) == ([[1, 2, 3, 4, 9]], 0, 0)
        gated = _grid(CMTStar(8), problem, 3, 9)
        common = _grid(CMTStar(8, threshold="common"), problem, 9, 3)
        assert (len(descents), kept.n_read) == (1, 2)
        assert kept.seconds > 0
    for models in (gated, common[::-1]):
        for model, expected in zip(models, plain, strict=True):
            np.testing.assert_array_equal(model.coefs_[0], expected.coefs_[0])
            np.testing.assert_array_equal(model.coefs_[1], expected.coefs_[1])
            assert model.n_iter_ == expected.n_iter_
    alone = _grid(CMTStar(8), problem, 3, 9)
    assert len(descents) == 2
    np.testing.assert_array_equal(alone[0].radii_, gated[0].radii_)


@pytest.mark.parametrize(
    "changes",
    [{"alpha": 0.5}, {"hidden_size": 7}, {"fit_intercept": True}, {"tol": 1e-3}, {"max_iter": 5},
     {"random_state": 1}, {"feature_norm": None}, {"signature_scale": 2.0}],
)  # fmt: skip
def test_another_network_is_not_taken_for_it(problem, tmp_path, descents, changes):
    model = CMT(6, max_iter=4)
    with keeping_fits(tmp_path):
        _fit(model, problem)
        other = _fit(clone(model).set_params(**changes), problem)
    assert len(descents) == 2
    expected = _fit(clone(other), problem)
    np.testing.assert_array_equal(other.coefs_[0], expected.coefs_[0])


def test_other_samples_or_labels_are_not_taken_for_them(problem, tmp_path, descents):
    model = CMT(6, max_iter=4)
    y = problem.y_train.copy()
    y[[0, -1]] = y[[-1, 0]]
    with keeping_fits(tmp_path):
        _fit(model, problem)
        _fit(model, problem, X=problem.X_train[1:], y=problem.y_train[1:])
        _fit(model, problem, y=y)
    assert len(descents) == 3


def test_a_path_that_ended_by_itself_comes_back(problem, tmp_path, descents):
    model = CMT(6, max_iter=90, tol=1e-2)
    with keeping_fits(tmp_path):
        first = _fit(model, problem)
        again = _fit(clone(model), problem)
    assert len(descents) == 1
    assert first.n_iter_ == again.n_iter_ < 90
    np.testing.assert_array_equal(again.coefs_[0], first.coefs_[0])


def test_early_stopping_reads_the_final_path(problem, tmp_path, descents):
    model = CMT(6, max_iter=5, early_stopping=True)
    with keeping_fits(tmp_path):
        _fit(model, problem)
        _fit(model, problem)
    # That with classes held out is watched, and so trained again.
    assert len(descents) == 3


@pytest.mark.parametrize("tol", [1e-6, 1e-2])
def test_a_part_of_a_longer_path_is_read(problem, tmp_path, descents, tol):
    stops = 24, 12, 6, 3
    models = [CMT(6, max_iter=stop, tol=tol) for stop in stops]
    with keeping_fits(tmp_path) as kept:
        _fit(clone(models[0]), problem)
        read = [_fit(clone(model), problem) for model in models]
        assert (len(descents), kept.n_read) == (1, 4)
    for model, found in zip(models, read, strict=True):
        alone = _fit(model, problem)
        np.testing.assert_array_equal(found.coefs_[0], alone.coefs_[0])
        np.testing.assert_array_equal(found.coefs_[1], alone.coefs_[1])
        assert found.n_iter_ == alone.n_iter_


def test_a_longer_path_takes_the_place_of_a_shorter_one(problem, tmp_path, descents):
    with keeping_fits(tmp_path) as kept:
        for stop, n_read in ((6, 0), (12, 0), (6, 1), (5, 1), (12, 1)):
            model = _fit(CMT(6, max_iter=stop), problem)
            assert (model.n_iter_, kept.n_read) == (stop, n_read)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
def test_a_benchmark_trains_the_networks_of_both_once_and_says_so(problem, tmp_path):
    def run(methods, folder):
        paths = run_benchmark(
            problem, methods, tmp_path / folder, settings=["zsl", "gzsl"], grid="fast",
            n_splits=2, n_jobs=2,
        )  # fmt: skip
        return [json.loads(path.read_text()) for path in paths]

    n_alphas = len(CMT.grids["fast"]["alpha"])
    plain, gated, *generalized = run(["CMT", "CMT*"], "both")
    expected = run(["CMT*"], "alone")
    assert "reused" not in plain["times"]
    # Two folds, each with a path for every penalty, and perhaps the last fit.
    for record in (gated, generalized[1]):
        assert record["shared_fits"] in {2 * n_alphas, 2 * n_alphas + 1}
        assert record["times"]["reused"] > 0
    assert expected[0]["shared_fits"] == 0
    for found, alone in zip((gated, generalized[1]), expected, strict=True):
        for name in ("metrics", "hyper_parameters", "cross_validation"):
            assert found[name] == alone[name]
    # Nothing is left behind.
    assert {path.suffix for path in (tmp_path / "both").iterdir()} == {".json"}
