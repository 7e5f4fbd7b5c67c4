"""EXEM on whitened features, against whitening by hand."""

from __future__ import annotations

import numpy as np
import pytest

from zslearn.baselines import ESZSL
from zslearn.datasets import make_zero_shot
from zslearn.synthesis import EXEM, ClassStatistics, SynC, exemplar_distance_score


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(random_state=0)


def _unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def by_hand(data):
    """Whitening with a shrinkage of 0.3, by the root of the shrunk covariance."""
    X, y = _unit(data.X_train), np.asarray(data.y_train)
    classes = np.unique(y)
    means = np.stack([X[y == label].mean(axis=0) for label in classes])
    deviations = X - means[np.searchsorted(classes, y)]
    within = deviations.T @ deviations / (len(X) - len(classes))
    shrunk = 0.7 * within + 0.3 * np.trace(within) / len(within) * np.eye(len(within))
    # Another root than that of the eigenvectors: what follows depends on distances alone.
    root = np.linalg.cholesky(np.linalg.inv(shrunk))
    return lambda rows: (_unit(rows) - means.mean(axis=0)) @ root


@pytest.mark.parametrize("estimator", [None, ESZSL(), SynC()], ids=str)
def test_whitening_is_that_of_features_made_by_hand(data, by_hand, estimator):
    model = EXEM(estimator=estimator, whiten=0.3)
    model.fit(data.X_train, data.y_train, signatures=data.signatures)
    other = EXEM(estimator=estimator)
    other.fit(by_hand(data.X_train), data.y_train, signatures=data.signatures)
    X = data.X_test_unseen
    np.testing.assert_allclose(
        model.decision_function(X), other.decision_function(by_hand(X)), atol=2e-5
    )
    if estimator is None:
        y = data.y_test_unseen
        found, expected = (
            exemplar_distance_score(model, X, y),
            exemplar_distance_score(other, by_hand(X), y),
        )
        assert found == pytest.approx(expected, abs=1e-5)


def test_statistics_are_not_enough(data):
    model = EXEM(whiten=0.3)
    statistics = ClassStatistics.from_samples(data.X_train, data.y_train)
    with pytest.raises(AttributeError) as info:
        model.fit_statistics(statistics, signatures=data.signatures)
    assert "whiten=0.3" in str(info.value.__cause__)
    assert not model.learns_from_sums


def test_no_deviation_within_classes(data):
    rows = np.unique(data.y_train, return_index=True)[1]
    model = EXEM(whiten=0.5)
    model.fit(data.X_train[rows], data.y_train[rows], signatures=data.signatures)
    plain = EXEM().fit(data.X_train[rows], data.y_train[rows], signatures=data.signatures)
    assert np.isfinite(model.decision_function(data.X_test_unseen)).all()
    among = {"classes": data.unseen_classes}
    found, usual = (
        m.score(data.X_test_unseen, data.y_test_unseen, **among) for m in (model, plain)
    )
    assert found > usual - 0.2
