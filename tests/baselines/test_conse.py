from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from zslearn.baselines import ConSE
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.signatures import normalize_signatures
from zslearn.synthesis import EXEM
from zslearn.utils import unit_rows


def _fit(model, problem, **changes):
    given = {"signatures": problem.signatures, **changes}
    return model.fit(problem.X_train, problem.y_train, **given)


@pytest.mark.parametrize("n_top", [1, 3, 12, 50])
def test_is_the_loop_over_the_most_probable_classes(problem, n_top):
    model = _fit(ConSE(n_top, 0.01, tol=1e-10), problem)
    X, rows = unit_rows(problem.X_train), unit_rows(problem.X_test_unseen)
    penalty = 0.01 * ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    classifier = LogisticRegression(C=1 / (penalty * len(X)), tol=1e-9, max_iter=10_000)
    probabilities = classifier.fit(X, problem.y_train).predict_proba(rows)
    A = normalize_signatures(problem.signatures.loc[classifier.classes_])
    candidates = normalize_signatures(problem.signatures.loc[model.classes_], scale=1.0)
    expected = np.zeros((len(rows), len(candidates)))
    for n, row in enumerate(probabilities):
        best = sorted(range(len(row)), key=lambda c, row=row: -row[c])[:n_top]
        point = sum(row[c] * A[c] for c in best) / sum(row[c] for c in best)
        np.testing.assert_allclose(model.embed(rows[n : n + 1])[0], point, atol=1e-4)
        for c, candidate in enumerate(candidates):
            expected[n, c] = point @ candidate / np.linalg.norm(point) / np.linalg.norm(candidate)
    np.testing.assert_allclose(model.decision_function(problem.X_test_unseen), expected, atol=1e-4)


def test_one_class_at_the_top_is_its_signature(problem):
    model = _fit(ConSE(1), problem)
    rows = unit_rows(problem.X_test_unseen)
    for point in model.embed(rows):
        assert np.isclose(model.seen_signatures_, point).all(axis=1).any()


def test_far_rows_do_not_overflow(problem):
    model = ConSE(feature_norm=None).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )
    scores = model.decision_function(1e6 * problem.X_test_unseen)
    assert np.isfinite(scores).all()


def test_scale_of_signatures_and_features_changes_nothing(problem):
    X, rows = problem.X_train, problem.X_test_unseen
    model = _fit(ConSE(feature_norm=None), problem)
    scaled = clone(model).fit(1000 * X, problem.y_train, signatures=1000 * problem.signatures)
    np.testing.assert_allclose(
        scaled.decision_function(1000 * rows), model.decision_function(rows), atol=1e-3
    )
    np.testing.assert_array_equal(scaled.predict(1000 * rows), model.predict(rows))


def test_fit_grid_is_as_if_alone(problem):
    settings = [{"alpha": a, "n_top": t} for t in (1, 5) for a in (1e-1, 1e-4, 1e-2)]
    model = ConSE(tol=1e-9)
    given = {"signatures": problem.signatures, "settings": settings}
    found = dict(model.fit_grid(problem.X_train, problem.y_train, **given))
    assert sorted(found) == list(range(6))
    for i, setting in enumerate(settings):
        alone = _fit(clone(model).set_params(**setting), problem)
        assert found[i].get_params() == alone.get_params()
        np.testing.assert_allclose(
            found[i].decision_function(problem.X_test_unseen),
            alone.decision_function(problem.X_test_unseen),
            atol=1e-3,
        )


def test_estimators_of_a_grid_share_no_learned_array(problem):
    settings = [{"n_top": 3}, {"n_top": 5}]
    given = {"signatures": problem.signatures, "settings": settings}
    found = dict(ConSE().fit_grid(problem.X_train, problem.y_train, **given))
    before = found[1].decision_function(problem.X_test_unseen)
    for name in ("coef_", "intercept_", "seen_signatures_"):
        getattr(found[0], name)[...] = 7.0
    np.testing.assert_array_equal(found[1].decision_function(problem.X_test_unseen), before)


def test_all_that_tie_for_the_last_place_count(problem):
    model = _fit(ConSE(2), problem)
    model.coef_[...] = 0.0
    model.intercept_[...] = 0.0
    model.intercept_[3] = 5.0
    shares = np.full(12, 1.0)
    shares[3] = np.exp(5.0)
    np.testing.assert_allclose(
        model.embed(unit_rows(problem.X_test_unseen))[0],
        shares / shares.sum() @ model.seen_signatures_,
    )


def test_settings_that_share_nothing(problem):
    settings = [{"feature_norm": None}, {"feature_norm": "l2", "n_top": 2}]
    given = {"signatures": problem.signatures, "settings": settings}
    found = dict(ConSE().fit_grid(problem.X_train, problem.y_train, **given))
    assert found[0].feature_norm is None
    assert found[1].n_top == 2


@pytest.mark.parametrize(("name", "value"), [("n_top", 0), ("alpha", 0.0), ("tol", -1.0)])
def test_bad_parameters(problem, name, value):
    with pytest.raises(ValueError, match=name):
        _fit(ConSE(**{name: value}), problem)


def test_inside_exem(problem):
    model = _fit(EXEM(n_components=10, estimator=ConSE()), problem)
    accuracy = model.score(
        problem.X_test_unseen, problem.y_test_unseen, classes=problem.unseen_classes
    )
    assert accuracy > 0.3


def test_recovers_what_follows_its_assumption():
    """An unseen class is a convex combination of a few seen ones, in features as in signatures.

    As many attributes as seen classes, so that shares can be read off a signature, and enough
    samples that the probabilities are good ones. Three draws; the search sees seen classes only.
    """
    best, found = [], []
    for seed in range(3):
        data, truth = make_zero_shot(
            n_seen=40,
            n_unseen=6,
            n_attributes=40,
            n_features=60,
            samples_per_class=100,
            noise=0.15,
            nonlinearity=0.0,
            signature_kind="mixture",
            return_truth=True,
            random_state=seed,
        )
        search = ZeroShotSearchCV(ConSE(), "fast", cv=3)
        search.fit(data.X_train, data.y_train, signatures=data.signatures)
        unseen = data.X_test_unseen, data.y_test_unseen
        best.append(truth.score(*unseen, classes=data.unseen_classes))
        found.append(search.score(*unseen, classes=data.unseen_classes))
    assert max(best) < 0.99
    assert np.mean(found) >= 0.9 * np.mean(best)
