"""Phantom classes: how many, where they start, and how they are learned."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

from zslearn._solvers.svm._multiclass import loss_and_slope
from zslearn.base import InputWarning, Training
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ClassKFold, ZeroShotSearchCV
from zslearn.signatures import MultiSignatures, SignatureTable, SignatureViews
from zslearn.solvers import multiclass_svm
from zslearn.synthesis import SynC
from zslearn.synthesis._phantoms import (
    PhantomObjective,
    combine,
    initial_combinations,
    metric_factor,
)
from zslearn.synthesis._sync import SynCProblem, _PhantomLearner

every_loss = pytest.mark.parametrize("loss", ["ovo", "cs", "struct"])
either_penalty = pytest.mark.parametrize("penalize", ["w", "v"])


def signatures(n=9, d=5, seed=0):
    A = np.random.default_rng(seed).standard_normal((n, d))
    return normalize(A) / 0.8


def views(n=9, seed=0):
    return SignatureViews((signatures(n, 5, seed), signatures(n, 3, seed + 1)), (0.6, 0.4))


def fit(problem, *args, **params):
    model = SynC(*args, **{"random_state": 0, **params})
    return model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)


# Initial phantoms.


@pytest.mark.parametrize(
    ("n_phantoms", "init"),
    [(4, "auto"), (4, "kmeans"), (4, "seen"), (4, "random"), (9, "random"), (15, "auto")],
)
@pytest.mark.parametrize("make", [signatures, views], ids=["one view", "two views"])
def test_phantoms_have_the_norm_of_signatures(n_phantoms, init, make):
    A = make()
    betas = initial_combinations(A, n_phantoms, init, np.random.RandomState(0))
    again = initial_combinations(A, n_phantoms, init, np.random.RandomState(0))
    phantoms = combine(betas, A)
    for beta, same in zip(betas, again, strict=True):
        assert beta.shape == (n_phantoms, 9)
        np.testing.assert_array_equal(beta, same)
    arrays = phantoms.arrays if make is views else (phantoms,)
    for array in arrays:
        np.testing.assert_allclose(np.linalg.norm(array, axis=1), 1 / 0.8)


@pytest.mark.parametrize("init", ["auto", "seen", "kmeans"])
def test_as_many_phantoms_as_classes_are_the_classes(init):
    (beta,) = initial_combinations(signatures(), 9, init, np.random.RandomState(0))
    np.testing.assert_array_equal(beta, np.eye(9))


def test_more_phantoms_are_the_seen_classes_and_mixtures_of_two():
    (beta,) = initial_combinations(signatures(), 30, "auto", np.random.RandomState(0))
    np.testing.assert_allclose(beta[:9], np.eye(9), atol=1e-15)
    assert np.all((beta[9:] > 0).sum(axis=1) == 2)
    assert np.all(beta >= 0)
    # Each class is in as many mixtures as any other, up to the last round.
    assert np.ptp((beta[9:27] > 0).sum(axis=0)) == 0


@pytest.mark.parametrize("share", [1.5, 2.0])
def test_more_phantoms_do_not_cluster_around_the_mean(share):
    data = make_zero_shot(n_seen=40, random_state=0)
    model = fit(data, n_phantoms=share)
    seen, more = model.phantoms_[:40], model.phantoms_[40:]
    assert np.median(pdist(more)) > 0.6 * np.median(pdist(seen))
    everyone = np.linalg.norm(model.phantoms_[:, None] - model.phantoms_[None], axis=2)
    np.fill_diagonal(everyone, np.inf)
    nearest = everyone.min(axis=1)
    assert np.median(nearest[40:]) > 0.3 * np.median(nearest[:40])
    assert nearest.min() > 0.05


def test_kmeans_finds_the_clusters():
    centers = np.eye(3)
    rng = np.random.default_rng(0)
    A = np.repeat(centers, 4, axis=0) + 0.01 * rng.standard_normal((12, 3))
    A = normalize(A)
    betas = initial_combinations(A, 3, "auto", np.random.RandomState(0))
    phantoms = combine(betas, A)
    np.testing.assert_allclose(np.sort(phantoms.max(axis=1)), 1, atol=1e-3)
    assert {int(row.argmax()) for row in phantoms} == {0, 1, 2}


# Number of phantoms.


def test_a_share_means_the_same_in_every_fold(problem):
    """With an absolute number, a fold could have more phantoms than classes."""
    counts = []
    for train, _ in ClassKFold(4).split(problem.X_train, problem.y_train):
        model = SynC(n_phantoms=0.5, random_state=0).fit(
            problem.X_train[train], problem.y_train[train], signatures=problem.signatures
        )
        counts.append((len(model.seen_classes_), len(model.phantoms_)))
        assert np.all(model.combinations_[0].max(axis=1) > 0)
    assert counts == [(9, 4)] * 4
    assert len(fit(problem, n_phantoms=0.5).phantoms_) == 6
    search = ZeroShotSearchCV(SynC(random_state=0), {"n_phantoms": [0.25, 1.0]}, cv=ClassKFold(3))
    search.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    assert search.best_params_["n_phantoms"] in (0.25, 1.0)


def test_a_share_of_one_is_the_default(problem):
    default, whole = fit(problem), fit(problem, n_phantoms=1.0)
    np.testing.assert_array_equal(default.base_classifiers_, whole.base_classifiers_)


@pytest.mark.parametrize("n_phantoms", [0.0, -0.5, 18.0, np.nan, "half"])
def test_invalid_numbers_of_phantoms(problem, n_phantoms):
    with pytest.raises(ValueError, match="'n_phantoms' parameter"):
        fit(problem, n_phantoms=n_phantoms)


# Given phantoms.


@pytest.mark.parametrize("form", ["array", "frame", "list"])
def test_given_signatures_of_the_seen_classes_are_the_default(problem, form):
    """Rows are in the units of the signatures; their length does not matter."""
    seen = 3 * problem.signatures.loc[problem.seen_classes]
    rows = {"array": seen.to_numpy(), "frame": seen.iloc[:, ::-1], "list": seen.to_numpy().tolist()}
    given_model = fit(problem, phantom_init=rows[form], tol=1e-8)
    expected = fit(problem, tol=1e-8)
    np.testing.assert_allclose(given_model.phantoms_, expected.phantoms_)
    assert given_model.combinations_ is None
    np.testing.assert_allclose(
        given_model.decision_function(problem.X_test_unseen),
        expected.decision_function(problem.X_test_unseen),
        atol=1e-4,
    )


def test_given_phantoms_stay_in_order_and_serve_a_path(problem):
    rows = np.random.default_rng(0).random((5, 8))
    path = SynC(phantom_init=rows, alpha=2.0**-8, random_state=0).fit_grid(
        problem.X_train,
        problem.y_train,
        signatures=problem.signatures,
        settings=[{"gamma": 0.5}, {"gamma": 2.0}],
    )
    for _, model in path:
        np.testing.assert_allclose(
            normalize(model.phantoms_),
            normalize(rows),
        )
        assert model.base_classifiers_.shape == (5, 20)


def test_given_phantoms_of_two_views(problem):
    other = problem.signatures.iloc[:, :3] ** 2 + 0.1
    both = MultiSignatures({"a": problem.signatures, "b": other}, (0.7, 0.3))
    rng = np.random.default_rng(0)
    rows = {"a": rng.random((5, 8)), "b": rng.random((5, 3))}
    model = SynC(phantom_init=rows, random_state=0)
    model.fit(problem.X_train, problem.y_train, signatures=both)
    assert [array.shape for array in model.phantoms_.arrays] == [(5, 8), (5, 3)]
    with pytest.raises(ValueError, match="map each of them to its rows"):
        SynC(phantom_init=rows["a"]).fit(problem.X_train, problem.y_train, signatures=both)
    with pytest.raises(ValueError, match="one table of rows"):
        fit(problem, phantom_init=rows)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"phantom_init": np.ones((5, 7))}, "7 attributes; those given to fit have 8"),
        ({"phantom_init": np.ones(8)}, "one row per phantom"),
        ({"phantom_init": np.full((5, 8), np.nan)}, "phantom_init cannot be used"),
        ({"phantom_init": np.ones((5, 8)), "n_phantoms": 6}, "has 5 phantoms, but n_phantoms=6"),
        ({"phantom_init": np.ones((5, 8)), "n_phantoms": 0.5}, "Remove n_phantoms"),
        ({"phantom_init": np.eye(8), "learn_phantoms": True}, "cannot start from given phantoms"),
    ],
)
def test_given_phantoms_that_do_not_fit(problem, params, message):
    with pytest.raises(ValueError, match=message):
        fit(problem, **params)


def test_attributes_as_phantoms_make_a_bilinear_model():
    """The paper's footnote on ALE and SJE: one-hot attributes as phantoms, and γ → 0.

    For signatures of one length with one number of attributes, s_cr − 1/R is then γ times a linear
    function of a_cr, and what SynC can make are the classifiers W = A U of a bilinear model.
    """
    rng = np.random.default_rng(0)
    binary = np.zeros((14, 7))
    chosen = [pair for pair in np.ndindex(7, 7) if pair[0] < pair[1]]
    for row, pair in zip(binary, rng.permutation(chosen)[:14], strict=True):
        row[pair] = 1
    table = pd.DataFrame(binary)
    means = binary @ rng.standard_normal((7, 20))
    y = np.repeat(np.arange(10), 12)
    X = means[y] + rng.standard_normal((120, 20))
    model = SynC("cs", alpha=2.0**-6, gamma=1e-5, phantom_init=np.eye(7), tol=1e-8)
    model.fit(X, y, signatures=table)

    A = binary / np.sqrt(2)
    basis = np.linalg.qr(A[:10])[0]
    rows = normalize(X)
    bilinear = multiclass_svm(
        rows, y, alpha=2.0**-6, loss="crammer_singer", mixing=basis, tol=1e-8, random_state=0
    )
    U = np.linalg.lstsq(A[:10], bilinear.coef, rcond=None)[0]
    assert model.objective_ == pytest.approx(bilinear.objective, rel=1e-4)
    unseen = rows @ (A[10:] @ U).T
    np.testing.assert_allclose(
        model.decision_function(X, classes=[10, 11, 12, 13]), unseen, atol=0.02 * np.ptp(unseen)
    )


# The gradient.


def objective(A, *, norm_penalty=0.3, eta=0.01, gamma=0.7, metric=None):
    arrays = A.arrays if isinstance(A, SignatureViews) else (A,)
    factors = tuple(metric_factor(metric, array) for array in arrays)
    return PhantomObjective(A, factors, gamma, eta, norm_penalty)


def differences(along, h=1e-5):
    """Derivative at 0, of fourth order so that the curvature does not hide an error."""
    return (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    gamma=st.sampled_from([0.05, 0.7, 5.0]),
    several=st.booleans(),
    metric=st.sampled_from([None, "diag"]),
)
def test_gradient_against_finite_differences(seed, gamma, several, metric):
    A = views(seed=seed) if several else signatures(seed=seed)
    terms = objective(A, gamma=gamma, metric=metric)
    rng = np.random.default_rng(seed)
    target = rng.random((len(A), 6))
    n_views = 2 if several else 1
    betas = tuple(0.5 * rng.standard_normal((6, 9)) for _ in range(n_views))
    step = tuple(rng.standard_normal((6, 9)) for _ in range(n_views))

    def along(t):
        # Smooth, and not linear in S.
        moved = tuple(b + t * s for b, s in zip(betas, step, strict=True))
        S = terms.similarities(moved)[0]
        return float(np.sum(np.sin(3 * S) * target)) + replace(terms, eta=0.0).penalties(moved)

    slope = 3 * np.cos(3 * terms.similarities(betas)[0]) * target
    gradients = terms.gradients(betas, slope)
    expected = sum(float(np.sum(g * s)) for g, s in zip(gradients, step, strict=True))
    assert differences(along) == pytest.approx(expected, rel=1e-6, abs=1e-7)


def training_of(problem):
    y = np.unique(problem.y_train, return_inverse=True)[1]
    seen = problem.signatures.loc[problem.seen_classes].to_numpy()
    table = SignatureTable.from_user(problem.signatures, np.unique(problem.y_train))
    X = normalize(problem.X_train)
    A = normalize(seen) / 0.8
    return Training(X, y, A, np.unique(problem.y_train), table, (0.8,))


def learner(problem, loss, penalize, **params):
    model = SynC(
        loss,
        2.0**-6,
        n_phantoms=6,
        learn_phantoms=True,
        penalize=penalize,
        tol=1e-11,
        max_iter=100_000,
        random_state=0,
        **params,
    )
    return _PhantomLearner(SynCProblem(training_of(problem), model), model)


# Descent.


# Learning.


@every_loss
@either_penalty
def test_learning_lowers_the_objective_monotonically(problem, loss, penalize):
    changes = {"n_phantoms": 6, "penalize": penalize, "alpha": 2.0**-8}
    model = fit(problem, loss, learn_phantoms=True, **changes)
    assert len(model.history_) >= 3
    assert np.all(np.diff(model.history_) <= 0)
    assert model.history_[-1] == model.objective_
    fixed = fit(problem, loss, **changes)
    penalties = model.eta * np.abs(fixed.combinations_[0]).sum()
    assert model.objective_ < (fixed.objective_ + penalties) * (1 - 5e-3)
    assert 0 <= model.dual_gap_ <= model.tol * model.objective_
    np.testing.assert_allclose(
        model.phantoms_, model.combinations_[0] @ fit(problem).phantoms_, atol=1e-12
    )


def written_out(model, problem, beta, V):
    """eSynCSemObj with a penalty on w, and a subgradient with respect to β and V."""
    training = training_of(problem)
    A = training.signatures * 0.8 / model.signature_scale_[0]
    b = beta @ A
    logits = -model.gamma * ((A[:, None] - b[None]) ** 2).sum(axis=2)
    S = np.exp(logits - logits.max(axis=1, keepdims=True))
    S /= S.sum(axis=1, keepdims=True)
    W = S @ V
    margins = None
    if model.loss == "struct":
        margins = np.sqrt(((A[:, None] - A[None]) ** 2).sum(axis=2))
    value, slope = loss_and_slope(training.X @ W.T, training.y, "crammer_singer", margins)
    excess = (b**2).sum(axis=1) - 1 / model.signature_scale_[0] ** 2
    value += 0.5 * model.alpha * np.sum(W**2) + model.eta * np.abs(beta).sum()
    value += 0.5 * model.norm_penalty * np.sum(excess**2)
    G = slope.T @ training.X + model.alpha * W
    dS = G @ V.T
    flow = S * (dS - (S * dS).sum(axis=1, keepdims=True))
    db = 2 * model.gamma * (flow.T @ A - flow.sum(axis=0)[:, None] * b)
    db += 2 * model.norm_penalty * excess[:, None] * b
    return value, db @ A.T + model.eta * np.sign(beta), S.T @ G


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["cs", "struct"])
def test_learning_does_not_stall_at_kinks(problem, loss):
    """Long runs of plain subgradient steps on β and V end at a higher objective."""
    model = fit(problem, loss, learn_phantoms=True, n_phantoms=6, alpha=2.0**-8)
    fixed = fit(problem, loss, n_phantoms=6, alpha=2.0**-8)
    beta, V = fixed.combinations_[0].copy(), fixed.base_classifiers_.copy()
    start = best = written_out(model, problem, beta, V)[0]
    for step in range(4000):
        value, d_beta, d_V = written_out(model, problem, beta, V)
        best = min(best, value)
        size = 0.3 / np.sqrt(1 + step)
        beta = beta - size * d_beta / np.linalg.norm(d_beta) * np.linalg.norm(beta) * 0.1
        V = V - size * d_V / np.linalg.norm(d_V) * np.linalg.norm(V) * 0.1
    assert best < start - 0.05  # the reference moves
    assert model.objective_ < best


def test_learning_a_tiny_problem_against_a_general_method():
    """Three seen classes and two phantoms: BFGS on numerical derivatives of the best objective."""
    data = make_zero_shot(
        n_seen=3, n_unseen=2, n_features=6, n_attributes=3, samples_per_class=8, random_state=1
    )
    params = {"n_phantoms": 2, "alpha": 2.0**-6, "eta": 0.0, "norm_penalty": 0.05}
    model = fit(data, learn_phantoms=True, tol=1e-9, **params)
    precise = SynC(learn_phantoms=True, tol=1e-10, random_state=0, **params)
    learn = _PhantomLearner(SynCProblem(training_of(data), precise), precise)
    # The tests' own training divides signatures by 0.8; the model takes its own scale.
    own = fit(data, learn_phantoms=True, tol=1e-9, signature_scale=0.8, **params)

    def value(flat):
        return learn._solved((flat.reshape(2, 3),), None).value

    found = minimize(value, learn.start[0].ravel(), method="BFGS", options={"maxiter": 60})
    assert own.objective_ <= found.fun * (1 + 2e-3)
    assert model.objective_ < model.history_[0] * (1 - 1e-3)


# Degenerate solutions.


def test_phantoms_do_not_collapse():
    """The ℓ1 norm outweighs the norm penalty: β → 0, but W remains unconstrained."""
    data = make_zero_shot(random_state=0)
    with pytest.warns(ConvergenceWarning, match="before the phantoms became.*Decrease eta"):
        model = fit(data, learn_phantoms=True, eta=1e-2, norm_penalty=1e-2)
    # The value at β = 0.05 I; at β = 0, where every class has one classifier, it is 0.892.
    assert model.objective_ <= 0.8387
    assert np.abs(model.combinations_[0]).max() > 0
    scores = model.decision_function(data.X_test_unseen, classes=data.unseen_classes)
    assert np.ptp(scores, axis=1).min() > 0
    assert model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.7
    W = model.similarities(fit(data).phantoms_) @ model.base_classifiers_
    np.testing.assert_allclose(W, model.coef_, atol=1e-6 * np.abs(W).max())


@every_loss
@either_penalty
def test_no_weights_make_all_classes_one(problem, loss, penalize):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(
            problem,
            loss,
            learn_phantoms=True,
            eta=0.1,
            norm_penalty=1e-3,
            penalize=penalize,
        )
    assert np.all(np.diff(model.history_) <= 0)
    assert np.isfinite(model.base_classifiers_).all()
    fixed = fit(problem, loss, penalize=penalize)
    assert spread(model, problem) > 0.01 * spread(fixed, problem)
    # Four unseen classes. With a penalty on w, S comes near to singular, and V becomes huge.
    assert accuracy(model, problem) > (0.5 if penalize == "v" else 0.3)
    said = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert any("indistinguishable" in text and "Decrease eta" in text for text in said)


@pytest.mark.parametrize("loss", ["ovo", "cs"])
@pytest.mark.parametrize("n_phantoms", [None, 0.6, 30])
def test_phantoms_do_not_collapse_with_a_penalty_on_v(loss, n_phantoms):
    """β = 0 has the lowest objective, with one classifier for all classes."""
    data = make_zero_shot(random_state=0)
    tol = 1e-4 if loss == "ovo" else 1e-3
    params = {"penalize": "v", "n_phantoms": n_phantoms, "tol": tol}
    with pytest.warns(ConvergenceWarning, match="before the phantoms became.*Decrease eta"):
        model = fit(
            data,
            loss,
            learn_phantoms=True,
            eta=1e-2,
            norm_penalty=1e-2,
            **params,
        )
    assert model.objective_ < model.history_[0] - 0.01
    fixed = fit(data, loss, **params)
    assert spread(model, data) > 0.02 * spread(fixed, data)
    # Five unseen classes.
    assert accuracy(model, data) > max(0.4, 0.8 * accuracy(fixed, data))


def spread(model, data):
    """Median range of the scores of an image."""
    return np.median(np.ptp(model.decision_function(data.X_train), axis=1))


def accuracy(model, data):
    return model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)


def test_small_phantoms_may_be_a_minimum():
    """With a weak penalty on v the data separate the classes: no step is refused."""
    data = make_zero_shot(random_state=0)
    params = {"penalize": "v", "alpha": 2.0**-28}
    with pytest.warns(ConvergenceWarning, match="have shrunk to less than 0.2"):
        model = fit(data, learn_phantoms=True, eta=1e-2, norm_penalty=1e-2, **params)
    assert accuracy(model, data) > 0.8


def test_learning_goes_on_while_it_gains():
    """Decreases are relative to the total decrease, a small share of this objective."""
    data = make_zero_shot(random_state=0)
    model = fit(data, learn_phantoms=True, n_phantoms=0.3)
    # A run with tol=1e-6 until steps lower the objective by 1e-7 of it falls by 0.00328.
    assert model.history_[0] - model.objective_ > 0.93 * 0.00328


def test_warns_when_learning_has_not_converged(problem):
    with pytest.warns(ConvergenceWarning, match="max_iter=8 steps.*Increase max_iter"):
        model = fit(problem, learn_phantoms=True, n_phantoms=6, max_iter=8, tol=0.1)
    assert len(model.history_) == 9


def test_data_do_not_change_as_many_phantoms_as_classes(problem):
    """Every W can be represented: only the penalties move β."""
    still = {"learn_phantoms": True, "eta": 0.0, "norm_penalty": 0.0}
    with pytest.warns(InputWarning, match="follow eta and norm_penalty"):
        exact = fit(problem, **still)
    np.testing.assert_array_equal(exact.combinations_[0], np.eye(12))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fewer = fit(problem, n_phantoms=0.5, **still)
        on_v = fit(problem, penalize="v", **still)
    assert len(fewer.history_) > 2
    assert np.abs(on_v.combinations_[0] - np.eye(12)).max() > 1e-2


def test_sparsity_and_norms_follow_their_weights(problem):
    def learned(**params):
        return fit(problem, learn_phantoms=True, n_phantoms=6, penalize="v", **params)

    sparse, dense = learned(eta=0.003, norm_penalty=0.1), learned(eta=0.0, norm_penalty=0.1)
    assert np.mean(sparse.combinations_[0] == 0) > np.mean(dense.combinations_[0] == 0)
    assert np.abs(sparse.combinations_[0]).sum() < np.abs(dense.combinations_[0]).sum()
    target = 1 / dense.signature_scale_[0]
    norms = [
        np.abs(np.linalg.norm(learned(eta=0.0, norm_penalty=w).phantoms_, axis=1) - target).max()
        for w in (0.0, 10.0)
    ]
    assert norms[1] < 0.5 * norms[0]
