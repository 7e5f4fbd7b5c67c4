"""Summed counts give the accuracies of all predictions."""

from __future__ import annotations

import json

import numpy as np
import pytest

from zslearn.metrics import (
    HitCounts,
    flat_hit_at_k,
    harmonic_mean,
    per_class_accuracy,
    per_sample_accuracy,
)


@pytest.fixture(params=[int, str, object])
def problem(request):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 9, 200)
    top = np.argsort(rng.random((200, 9)) + 0.4 * np.eye(9)[y], axis=1)[:, ::-1][:, :4]
    if request.param is object:
        return y.astype(str).astype(object), top.astype(str).astype(object)
    return y.astype(request.param), top.astype(request.param)


def _summed(y, top, parts=7, weights=None):
    total = None
    for rows in np.array_split(np.arange(len(y)), parts):
        part = None if weights is None else weights[rows]
        counts = HitCounts.of(y[rows], top[rows], sample_weight=part)
        total = counts if total is None else total + counts
    return total


def test_summed_blocks_give_the_accuracies_of_all_predictions(problem):
    y, top = problem
    counts = _summed(y, top)
    assert counts.per_class_accuracy() == pytest.approx(per_class_accuracy(y, top[:, 0]))
    assert counts.per_sample_accuracy() == pytest.approx(per_sample_accuracy(y, top[:, 0]))
    for k in (1, 2, 4):
        assert counts.flat_hit_at_k(k) == pytest.approx(flat_hit_at_k(y, top, k))
    seen = counts.classes[:5]
    of_seen = np.isin(y.astype(str), seen.astype(str))
    measured = counts.measure([1, 2], seen)
    accuracies = [per_class_accuracy(y[rows], top[rows, 0]) for rows in (of_seen, ~of_seen)]
    assert [measured["seen"], measured["unseen"]] == pytest.approx(accuracies)
    assert measured["harmonic"] == pytest.approx(harmonic_mean(*accuracies))
    assert "harmonic" not in counts.measure([1], counts.classes)


def test_weights():
    rng = np.random.default_rng(1)
    y, top = rng.integers(0, 4, 50), rng.integers(0, 4, (50, 1))
    weights = rng.integers(0, 3, 50)
    repeated = np.repeat(np.arange(50), weights)
    weighted, expected = _summed(y, top, weights=weights), _summed(y[repeated], top[repeated])
    assert weighted.per_class_accuracy() == pytest.approx(expected.per_class_accuracy())
    assert weighted.per_sample_accuracy() == pytest.approx(expected.per_sample_accuracy())


def test_json_and_back(problem):
    counts = _summed(*problem)
    again = HitCounts.from_dict(json.loads(json.dumps(counts.as_dict())))
    assert again.classes.tolist() == counts.classes.tolist()
    assert np.array_equal((again + counts).hits, 2 * counts.hits)
    with pytest.raises(ValueError, match="one row per class"):
        HitCounts.from_dict(counts.as_dict() | {"n_samples": [1.0]})


def test_bad_input():
    assert HitCounts.of(["a", "b"], ["a", "a"]).hits.tolist() == [[1.0], [0.0]]
    counts = HitCounts.of([1, 2], [[1, 2], [2, 1]])
    with pytest.raises(ValueError, match="Cannot add counts"):
        counts + HitCounts.of([1], [[1]])
    with pytest.raises(ValueError, match="cannot be compared"):
        counts + HitCounts.of(["a"], [["a", "b"]])
    with pytest.raises(ValueError, match="k must be between 1 and 2"):
        counts.flat_hit_at_k(3)
    with pytest.raises(ValueError, match="one entry per sample"):
        HitCounts.of([1, 2], [[1, 2]])
