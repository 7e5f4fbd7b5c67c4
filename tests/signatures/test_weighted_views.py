"""Weights of several views of a class, as hyper-parameters and in benchmark runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zslearn._utils._fit_cache import fingerprint
from zslearn.baselines import ESZSL
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import WeightedViews, ZeroShotSearchCV
from zslearn.signatures import MultiSignatures, SignatureTable, rbf_similarity
from zslearn.synthesis import EXEM, SynC


@pytest.fixture(scope="module")
def problem():
    return make_zero_shot(random_state=0)


@pytest.fixture(scope="module")
def views(problem):
    noise = np.random.default_rng(0).normal(size=problem.signatures.shape)
    return MultiSignatures(
        {"good": problem.signatures, "noise": pd.DataFrame(noise, index=problem.signatures.index)}
    )


def _fit(model, problem, signatures):
    return model.fit(problem.X_train, problem.y_train, signatures=signatures)


@pytest.mark.parametrize("method", [ESZSL(), SynC(), EXEM(n_components=8)], ids=str)
def test_weights_are_those_of_the_signatures(method, problem, views):
    wrapped = _fit(WeightedViews(method, weights=[3, 1]), problem, views)
    by_hand = _fit(method, problem, views.with_weights([3, 1]))
    X = problem.X_test_unseen
    np.testing.assert_allclose(
        wrapped.decision_function(X), by_hand.decision_function(X), rtol=1e-9, atol=1e-12
    )
    alone = _fit(WeightedViews(method, weights={"good": 1, "noise": 0}), problem, views)
    assert np.any(wrapped.decision_function(X) != alone.decision_function(X))


def test_a_search_finds_the_view_that_says_something(problem, views):
    grid = {"weights": [(0, 1), (1, 1), (1, 0)], "estimator__alpha_features": [1.0, 10.0]}
    search = _fit(ZeroShotSearchCV(WeightedViews(ESZSL()), grid), problem, views)
    assert search.best_params_["weights"] == (1, 0)


def test_one_gamma_per_view(problem, views):
    """γ g of a view is what the kernel of that view has."""
    factors = (0.5, 4.0)
    seen = np.unique(problem.y_train)
    table = SignatureTable.from_user(MultiSignatures(views.views, gamma_factors=factors), seen)
    scales = table.scales(table.positions(seen))
    kernel = rbf_similarity(table.normalized(scales, keep_views=True), gamma=0.7)
    plain = SignatureTable.from_user(views, seen).normalized(scales, keep_views=True)
    expected = sum(
        0.5 * rbf_similarity(array, gamma=0.7 * factor)
        for array, factor in zip(plain.arrays, factors, strict=True)
    )
    np.testing.assert_allclose(kernel, expected, rtol=1e-12)
    # Views side by side know no γ.
    beside = table.normalized(scales, keep_views=False)
    np.testing.assert_array_equal(beside, plain.concatenate())
    model = WeightedViews(EXEM(n_components=8), gamma_factors=factors)
    assert np.isfinite(_fit(model, problem, views).decision_function(problem.X_test_unseen)).all()


def test_bad_weights_are_named(problem, views):
    with pytest.raises(ValueError, match="2 views need 2 weights; got 3"):
        _fit(WeightedViews(ESZSL(), weights=[1, 1, 1]), problem, views)
    with pytest.raises(ValueError, match="gamma_factors must be positive"):
        _fit(WeightedViews(ESZSL(), gamma_factors=[1, 0]), problem, views)
    with pytest.raises(ValueError, match="gamma_factors name"):
        _fit(WeightedViews(ESZSL(), gamma_factors={"good": 1, "bad": 1}), problem, views)
    with pytest.raises(ValueError, match="a single view"):
        _fit(WeightedViews(ESZSL(), weights=[1]), problem, problem.signatures)


def test_digests_tell_views_apart(problem, views):
    other = MultiSignatures({**views.views, "noise": -views.views["noise"]})
    assert repr(other) == repr(views)
    assert fingerprint(other) != fingerprint(views)
    assert fingerprint(views) == fingerprint(MultiSignatures(dict(views.views)))


def test_other_signatures_must_describe_the_same_classes(problem):
    with pytest.raises(ValueError, match="describe other classes"):
        problem.with_signatures(problem.signatures.iloc[1:])
    uneven = MultiSignatures({"a": problem.signatures, "b": problem.signatures.iloc[1:]})
    with pytest.raises(ValueError, match="do not describe the same classes"):
        problem.with_signatures(uneven)
