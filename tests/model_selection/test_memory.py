"""Fits that searches have in common: read where the same fit was computed, and only there."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from zslearn._utils import _fit_cache
from zslearn._utils._fit_cache import FitCache, cached_fit
from zslearn.baselines import ESZSL
from zslearn.datasets import make_zero_shot
from zslearn.experiments import run_benchmark
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.synthesis import EXEM, SynC

ALPHAS = [1e-4, 1e-3]


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(random_state=0)


def _search(data, estimator, memory, **options):
    name = "alpha_features" if isinstance(estimator, ESZSL) else "alpha"
    name = "estimator__alpha" if isinstance(estimator, EXEM) else name
    grid = {name: ALPHAS}
    search = ZeroShotSearchCV(estimator, grid, memory=memory, cv=3, **options)
    return search.fit(data.X_train, data.y_train, signatures=data.signatures)


def _equal(one, other):
    scores = "mean_test_accuracy"
    np.testing.assert_array_equal(one.cv_results_[scores], other.cv_results_[scores])
    assert one.best_params_ == other.best_params_


@pytest.mark.parametrize("loss", ["ovo", pytest.param("cs", marks=pytest.mark.slow)])
def test_classifiers_that_no_description_changes_are_shared(data, tmp_path, loss):
    first = _search(data, SynC(loss), tmp_path)
    assert first.n_read_fits_ == 0
    _equal(first, _search(data, SynC(loss), None))
    under = EXEM(estimator=SynC(loss, gamma=2.0))
    inner, alone = _search(data, under, tmp_path), _search(data, under, None)
    _equal(inner, alone)
    assert inner.n_read_fits_ >= 3
    read, computed = inner.best_estimator_.estimator_, alone.best_estimator_.estimator_
    np.testing.assert_allclose(read.coef_, computed.coef_, rtol=0, atol=1e-10)
    assert (read.objective_, read.dual_gap_, read.n_iter_) == pytest.approx(
        (computed.objective_, computed.dual_gap_, computed.n_iter_)
    )


@pytest.mark.slow
def test_classifiers_that_depend_on_descriptions_are_not_shared(data, tmp_path):
    for loss, options in (
        ("struct", {}),
        ("ovo", {"penalize": "v"}),
        ("ovo", {"n_phantoms": 10}),
    ):
        sync = SynC(loss, **options)
        _search(data, sync, tmp_path)
        assert _search(data, EXEM(estimator=sync), tmp_path).n_read_fits_ == 0


def test_a_damaged_fit_is_computed_again(data, tmp_path):
    first = _search(data, SynC("ovo"), tmp_path)
    files = sorted(tmp_path.glob("fit-*.npz"))
    assert len(files) >= 3
    for path in files:
        path.write_bytes(path.read_bytes()[:-100] + bytes(100))
    again = _search(data, SynC("ovo"), tmp_path)
    assert again.n_read_fits_ == 0
    _equal(first, again)
    assert _search(data, SynC("ovo"), tmp_path).n_read_fits_ == len(files)


def test_a_folder_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(_fit_cache, "MAX_FIT_BYTES", 4000)
    with FitCache(tmp_path):
        for number in range(9):
            cached_fit((number,), lambda: {"x": np.zeros(100)})
        kept = sorted(tmp_path.iterdir())
        assert 1 <= len(kept) <= 4
        # The last ones are there; one that was read lately outlives one that was not.
        for path in kept:
            os.utime(path, (1, 1))
        os.utime(kept[0], (2, 2))
        cached_fit((9,), lambda: {"x": np.zeros(100)})
        assert kept[0].exists()
        assert not all(path.exists() for path in kept)
        # A result that would evict most others is not written.
        before = sorted(tmp_path.iterdir())
        cached_fit((10,), lambda: {"x": np.zeros(250)})
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_that_cannot_be_written_changes_nothing(data, tmp_path):
    (tmp_path / "file").write_text("")
    _equal(_search(data, ESZSL(), tmp_path / "file"), _search(data, ESZSL(), None))


@pytest.mark.slow
def test_a_record_says_what_was_shared(data, tmp_path):
    def run(methods, out):
        paths = run_benchmark(data, methods, out, settings=["zsl"], grid="quick", n_splits=3)
        return [json.loads(path.read_text()) for path in paths]

    outer, inner = run(["SynC o-vs-o", "EXEM (SynC o-vs-o)"], tmp_path / "both")
    (alone,) = run(["EXEM (SynC o-vs-o)"], tmp_path / "alone")
    assert outer["shared_fits"] == alone["shared_fits"] == 0
    assert inner["shared_fits"] >= 3
    assert inner["metrics"] == alone["metrics"]
    assert inner["hyper_parameters"] == alone["hyper_parameters"]
    assert not list((tmp_path / "both").glob(".parts-*"))
