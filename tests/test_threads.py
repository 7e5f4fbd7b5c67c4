from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from zslearn._scoring._blocks import top_k
from zslearn._utils._processes import (
    blas_threads,
    in_threads,
    one_blas_thread,
    threads_for,
)


def test_work_decides_about_threads():
    with threadpool_limits(2, user_api="blas"):
        two = blas_threads()
        with threads_for(1e3):
            assert blas_threads() == 1
        with threads_for(1e12):
            assert blas_threads() == two
        assert blas_threads() == two


def test_items_side_by_side():
    seen, threads, limits = [], set(), set()

    def function(item):
        threads.add(threading.get_ident())
        limits.add(blas_threads())
        seen.append(item)

    in_threads(function, [1, 2, 3])
    assert sorted(seen) == [1, 2, 3]
    assert limits == {1}
    in_threads(function, [4])
    assert seen[-1] == 4


def test_an_error_in_a_thread_comes_back():
    def function(item):
        if item == 2:
            raise ValueError("two")

    with pytest.raises(ValueError, match="two"):
        in_threads(function, [1, 2])


@pytest.mark.parametrize("score", ["dot", "euclidean"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_threads_change_no_list(score, biased, k, monkeypatch):
    """Whatever the threads and tiles, the compiled lists are those of a stable sort."""
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (700, 5)).astype(np.float64)
    P = rng.integers(-3, 4, (64, 5)).astype(np.float64)
    P -= P.mean(axis=0).round()
    bias = rng.integers(-2, 3, 64).astype(float) if biased else None
    monkeypatch.setattr("zslearn._scoring._blocks.WORTH_COMPILED", 1)
    monkeypatch.setattr("zslearn._scoring._blocks._TILE_ROWS", 16)
    monkeypatch.setattr("zslearn._scoring._blocks._TILE_CLASSES", 24)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("zslearn._scoring._blocks.blas_threads", lambda n=threads: n)
        found.append(top_k(X, P, k, score=score, bias=bias))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    if score == "dot":
        full = X @ P.T + (0 if bias is None else bias)
        order = np.argsort(-full, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(found[0][0], order)
    else:
        distances = -np.linalg.norm(X[:, None] - P[None], axis=2) + (0 if bias is None else bias)
        best = -np.sort(-distances, axis=1)[:, :k]
        np.testing.assert_allclose(found[0][1], best, atol=1e-7)


def test_infinite_scores_are_listed(monkeypatch):
    """A bias of −∞ excludes a class until nothing else is left."""
    monkeypatch.setattr("zslearn._scoring._blocks.WORTH_COMPILED", 1)
    bias = np.array([0.0, -np.inf, 0.0, -np.inf])
    with one_blas_thread():
        indices, values = top_k(np.ones((2, 3)), np.ones((4, 3)), 4, bias=bias)
    np.testing.assert_array_equal(indices, [[0, 2, 1, 3]] * 2)
    assert np.isneginf(values[:, 2:]).all()
    with pytest.raises(ValueError, match="Scores are NaN"):
        top_k(np.full((1, 3), np.nan), np.ones((4, 3)), 2)
