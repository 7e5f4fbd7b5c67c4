"""SynC against the authors' program, the plain multi-class SVM, and its own objective."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.preprocessing import normalize

from golden_problem import GoldenProblem
from svm_objective import multiclass_svm_objective
from zslearn._solvers.svm._multiclass import loss_and_slope
from zslearn.datasets import make_zero_shot
from zslearn.metrics import ausuc, best_harmonic_mean, per_class_accuracy
from zslearn.model_selection import ClassKFold, GeneralizedClassKFold, ZeroShotSearchCV
from zslearn.signatures import MultiSignatures, normalized_similarity
from zslearn.solvers import multiclass_svm
from zslearn.synthesis import SynC
from zslearn.synthesis._sync import Synthesis

LOSSES = ["ovo", "cs", "struct"]
GOLDEN = {"ovo": "OVO", "cs": "CS", "struct": "struct"}
every_loss = pytest.mark.parametrize("loss", LOSSES)


def fit(problem, *args, **changes):
    changes = {"random_state": 0, **changes}
    signatures = changes.pop("signatures", problem.signatures)
    return SynC(*args, **changes).fit(problem.X_train, problem.y_train, signatures=signatures)


# The authors' program.


class Golden(GoldenProblem):
    """Estimators under the program's conditions."""

    def estimator(self, loss, **params):
        params = {"max_iter": 20_000, "random_state": 0, **params}
        return SynC(loss, signature_scale=self.median, **params)

    def with_classifiers(self, loss, W, *, rows=None, gamma):
        """A fitted SynC whose W is replaced by the given one."""
        rows = self.train if rows is None else rows
        model = self.estimator(loss, tol=1.0, alpha=100.0, gamma=gamma)
        model.fit(self.X[rows], self.Y[rows], signatures=self.signatures)
        synthesis = Synthesis(model.similarities(model.phantoms_), "w", True)
        model.base_classifiers_ = synthesis.back @ W
        model._describe(model._described.table)
        return model


@pytest.mark.parametrize(
    ("loss", "scale"),
    [("ovo", 1e12), ("cs", 1e12), ("cs", 1e-12), ("struct", 1e12), ("struct", 1e-12)],
)
def test_features_of_a_scale_at_which_nothing_is_learned_are_refused(problem, loss, scale):
    given = (scale * problem.X_train, problem.y_train)
    message = "rows of X have a length of about .* Divide X by that length"
    with pytest.raises(ValueError, match=message):
        SynC(loss=loss, feature_norm=None).fit(*given, signatures=problem.signatures)
    X, y = scale * problem.X_test_unseen, problem.y_test_unseen
    model = SynC(loss=loss, tol=1e-3).fit(*given, signatures=problem.signatures)
    assert model.score(X, y, classes=problem.unseen_classes) > 0.5


def test_one_against_the_others_learns_from_features_of_almost_any_scale(problem):
    for scale in (1e-12, 1.0, 1e9):
        model = SynC(loss="ovo", feature_norm=None)
        model.fit(scale * problem.X_train, problem.y_train, signatures=problem.signatures)
        X, y = scale * problem.X_test_unseen, problem.y_test_unseen
        assert model.score(X, y, classes=problem.unseen_classes) > 0.5


@pytest.fixture(scope="module")
def golden(golden_arrays):
    return Golden(golden_arrays)


@every_loss
@pytest.mark.parametrize("kind", ["fixed", "cv"])
def test_golden_results_given_golden_classifiers(golden, loss, kind):
    expected = golden.load("tiny_ps_sync")
    prefix = f"{GOLDEN[loss]}_{kind}_"
    model = golden.with_classifiers(
        loss, expected[prefix + "W"], gamma=float(expected[prefix + "Sim_scale"])
    )
    np.testing.assert_allclose(
        model.similarities(model.phantoms_), expected[prefix + "Sim_tr"], atol=1e-14
    )
    V = expected[prefix + "V"]
    np.testing.assert_allclose(model.base_classifiers_, V, atol=1e-12 * np.abs(V).max())
    unseen = golden.signatures.index.isin(model.unseen_classes_)
    normalized = golden.sig["Sig_Y_L2"][unseen]
    np.testing.assert_allclose(
        model.similarities(normalized), expected[prefix + "Sim_te"], atol=1e-14
    )
    predicted = model.predict(golden.X[golden.unseen], classes=model.unseen_classes_)
    np.testing.assert_array_equal(predicted, expected[prefix + "Ypred_te"])
    accuracy = per_class_accuracy(golden.Y[golden.unseen], predicted)
    assert accuracy == pytest.approx(float(expected[prefix + "acc_te"]), abs=1e-14)


@every_loss
@pytest.mark.parametrize("kind", ["fixed", "cv"])
@pytest.mark.slow
def test_golden_results_end_to_end(golden, loss, kind):
    expected = golden.load("tiny_ps_sync")
    prefix = f"{GOLDEN[loss]}_{kind}_"
    model = golden.estimator(
        loss,
        alpha=float(expected[prefix + "lambda"]),
        gamma=float(expected[prefix + "Sim_scale"]),
        tol=1e-8,
    )
    X, Y = golden.X[golden.train], golden.Y[golden.train]
    model.fit(X, Y, signatures=golden.signatures)
    theirs = multiclass_svm_objective(
        normalize(X),
        np.unique(Y, return_inverse=True)[1],
        expected[prefix + "W"],
        alpha=model.alpha,
        loss="squared_hinge" if loss == "ovo" else "crammer_singer",
        margins=cdist(model.phantoms_, model.phantoms_) if loss == "struct" else None,
    )
    assert model.objective_ <= theirs + 1e-9
    predicted = model.predict(golden.X[golden.unseen], classes=model.unseen_classes_)
    accuracy = per_class_accuracy(golden.Y[golden.unseen], predicted)
    assert accuracy == pytest.approx(
        float(expected[prefix + "acc_te"]), abs=1e-12 if loss == "ovo" else 0.05
    )
    if loss == "ovo":
        np.testing.assert_array_equal(predicted, expected[prefix + "Ypred_te"])


@every_loss
@pytest.mark.parametrize("kind", ["fixed", "cv"])
def test_golden_generalized_scores(golden, loss, kind):
    expected = golden.load("tiny_ps_sync_gzsl")
    prefix = f"{GOLDEN[loss]}_{kind}_"
    model = golden.with_classifiers(
        loss, expected[prefix + "W"], gamma=float(expected[prefix + "Sim_scale"])
    )
    rows = np.concatenate([golden.test_seen, golden.unseen])
    for classes, name in ((model.seen_classes_, "score_S"), (model.unseen_classes_, "score_U")):
        scores = model.decision_function(golden.X[rows], classes=classes)
        np.testing.assert_allclose(scores, expected[prefix + name], atol=1e-12)
    area = ausuc(
        golden.Y[rows],
        model.decision_function(golden.X[rows]),
        classes=model.classes_,
        seen_classes=model.seen_classes_,
    )
    assert area == pytest.approx(float(expected[prefix + "acc_te"]), abs=1e-12)


@every_loss
@pytest.mark.parametrize("own", [False, True], ids=["golden W", "own W"])
@pytest.mark.slow
def test_golden_cross_validation_grid(golden, loss, own):
    expected, stored = golden.load("tiny_ps_sync"), golden.load("tiny_ps_sync_cvW")
    seen = np.unique(golden.Y[golden.train])
    gammas = expected["grid_opt_Sim_scale"]
    powers = (-16, -12, -8)
    grid = np.zeros((5, 3, 3))
    # Classes of the five folds, as positions among the seen labels.
    for f, positions in enumerate(golden.class_order.reshape(5, 3)):
        held = seen[positions]
        is_held = np.isin(golden.Y[golden.train], held)
        rows, validation = golden.train[~is_held], golden.train[is_held]
        if own:
            path = golden.estimator(loss, tol=1e-5).fit_grid(
                golden.X[rows],
                golden.Y[rows],
                signatures=golden.signatures,
                settings=[{"alpha": 2.0**p, "gamma": gamma} for p in powers for gamma in gammas],
            )
            models = {(model.alpha, model.gamma): model for _, model in path}
        for i, power in enumerate(powers):
            for j, gamma in enumerate(gammas):
                if own:
                    model = models[2.0**power, gamma]
                else:
                    W = stored[f"zsl_{GOLDEN[loss]}_lam2^{power}"][f]
                    model = golden.with_classifiers(loss, W, rows=rows, gamma=float(gamma))
                predicted = model.predict(golden.X[validation], classes=held)
                grid[f, i, j] = per_class_accuracy(golden.Y[validation], predicted)
    # At 2^−16 the program stopped cs and struct 14 to 28 % above the minimum.
    early, rest = ((0.01, 0.01) if loss == "ovo" else (0.06, 0.05)) if own else (1e-13, 1e-13)
    tolerance = np.array([[early], [rest], [rest]])
    distance = np.abs(grid.mean(axis=0) - expected[f"{GOLDEN[loss]}_grid_acc_val"])
    assert np.all(distance <= tolerance), distance


@every_loss
@pytest.mark.slow
def test_golden_generalized_grid(golden, loss):
    """AUSUC, harmonic mean and factor of every fold, from the classifiers the program trained."""
    expected, stored = golden.load("tiny_ps_sync_gzsl"), golden.load("tiny_ps_sync_cvW")
    gammas = golden.load("tiny_ps_sync")["grid_opt_Sim_scale"]
    splitter = GeneralizedClassKFold(
        5,
        held_out=golden.held_out,
        class_order=golden.class_order,
        remainder="drop",
    )
    y = golden.Y[golden.train]
    found = {name: np.zeros((5, 3, 3)) for name in ("acc", "HM", "fixed_bias")}
    for f, (train, test) in enumerate(splitter.split(None, y)):
        rows, validation = golden.train[train], golden.train[test]
        for i, power in enumerate((-16, -12, -8)):
            for j, gamma in enumerate(gammas):
                W = stored[f"gzsl_{GOLDEN[loss]}_lam2^{power}"][f]
                model = golden.with_classifiers(loss, W, rows=rows, gamma=float(gamma))
                classes = np.unique(y)
                given = {
                    "y_true": golden.Y[validation],
                    "scores": model.decision_function(golden.X[validation], classes=classes),
                    "classes": classes,
                    "seen_classes": model.seen_classes_,
                }
                found["acc"][f, i, j] = ausuc(**given)
                found["HM"][f, i, j], found["fixed_bias"][f, i, j] = best_harmonic_mean(**given)
    for name, values in found.items():
        key = f"{GOLDEN[loss]}_grid_{name}_val"
        np.testing.assert_allclose(values.mean(axis=0), expected[key], atol=1e-12)


# The objective.


VARIANTS = [
    {},
    {"penalize": "v"},
    {"n_phantoms": 5},
    {"n_phantoms": 5, "phantom_init": "seen"},
    {"n_phantoms": 5, "penalize": "v"},
    {"n_phantoms": 17},
    {"n_phantoms": 17, "penalize": "v"},
    {"phantom_init": "random", "n_phantoms": 8},
    {"metric": "diag", "n_phantoms": 5},
    {"learn_phantoms": True, "n_phantoms": 5},
    {"learn_phantoms": True, "penalize": "v"},
    {"learn_phantoms": True, "penalize": "v", "metric": "diag"},
]


def total_objective(model, problem, V):
    """eSynCSemObj written out from the fitted attributes, at any base classifiers."""
    y = np.unique(problem.y_train, return_inverse=True)[1]
    seen = problem.signatures.loc[model.seen_classes_].to_numpy()
    A = normalize(seen) / model.signature_scale_[0]
    W = model.similarities(A) @ V
    loss = "squared_hinge" if model.loss == "ovo" else "crammer_singer"
    margins = None
    if model.loss == "struct":
        margins = np.sqrt(((A[:, None] - A[None]) ** 2).sum(axis=2))
    value = loss_and_slope(normalize(problem.X_train) @ W.T, y, loss, margins)[0]
    value += 0.5 * model.alpha * np.sum((W if model.penalize == "w" else V) ** 2)
    if model.learn_phantoms:
        value += model.eta * np.abs(model.combinations_[0]).sum()
        norms = np.sum(model.phantoms_**2, axis=1) - 1 / model.signature_scale_[0] ** 2
        value += 0.5 * model.norm_penalty * np.sum(norms**2)
    return value


@every_loss
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.slow
def test_objective_is_certified(problem, loss, variant):
    model = fit(problem, loss, alpha=2.0**-8, tol=1e-5, **variant)
    V = model.base_classifiers_
    value = total_objective(model, problem, V)
    assert model.objective_ == pytest.approx(value, rel=1e-8)
    assert 0 <= model.dual_gap_ <= 1e-5 * model.objective_
    assert model.history_[-1] == model.objective_
    # No direction decreases the objective by more than the certificate allows.
    rng = np.random.default_rng(0)
    for size in (1e-4, 1e-2, 1.0):
        step = size * np.abs(V).mean() * rng.standard_normal(V.shape)
        assert total_objective(model, problem, V + step) >= value - model.dual_gap_ - 1e-12
    # Seen classes have the trained classifiers.
    seen = problem.signatures.loc[model.seen_classes_].to_numpy()
    W = model.similarities(normalize(seen) / model.signature_scale_[0]) @ V
    np.testing.assert_allclose(W, model.coef_, atol=1e-7 * np.abs(W).max())


@every_loss
def test_more_phantoms_than_classes_do_not_change_the_training(problem, loss):
    """W is unconstrained; with the penalty on w the solution does not change."""
    plain = fit(problem, loss, tol=1e-7)
    more = fit(problem, loss, n_phantoms=30, tol=1e-7)
    assert more.base_classifiers_.shape == (30, 20)
    assert more.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    fewer = fit(problem, loss, n_phantoms=4, tol=1e-7)
    assert fewer.objective_ > plain.objective_ * (1 + 1e-3)


# Properties.


def test_margins_of_unit_signatures_are_another_scale(problem):
    """With margins m times as large, classifiers are m times those of m times the penalty."""
    scaled = fit(problem, "struct", tol=1e-8)
    (m,) = scaled.signature_scale_
    alpha = scaled.alpha / m
    on_unit = fit(problem, "struct", tol=1e-8, alpha=alpha, margin="unit")
    np.testing.assert_allclose(on_unit.coef_, m * scaled.coef_, rtol=1e-3, atol=1e-5)
    # The other losses have fixed margins.
    for loss in ("ovo", "cs"):
        same = [fit(problem, loss, margin=margin).coef_ for margin in ("scaled", "unit")]
        np.testing.assert_array_equal(*same)


@every_loss
def test_indicators_and_a_narrow_kernel_are_the_plain_svm(problem, loss):
    model = SynC(loss, gamma=2.0**10, tol=1e-8, max_iter=20_000, random_state=0)
    model.fit(problem.X_train, problem.y_train)
    seen, y = np.unique(problem.y_train, return_inverse=True)
    plain = multiclass_svm(
        normalize(problem.X_train),
        y,
        alpha=model.alpha,
        loss="squared_hinge" if loss == "ovo" else "crammer_singer",
        margins=1 - np.eye(len(seen)),
        tol=1e-8,
        max_iter=20_000,
        random_state=0,
    )
    scores = normalize(problem.X_test_seen) @ plain.coef.T
    expected = seen[np.argmax(scores, axis=1)]
    np.testing.assert_array_equal(model.predict(problem.X_test_seen), expected)
    np.testing.assert_allclose(model.decision_function(problem.X_test_seen), scores, atol=1e-2)


@every_loss
@pytest.mark.parametrize("penalize", ["w", "v"])
def test_a_very_narrow_kernel_is_stable(problem, loss, penalize):
    """At γ = 2¹⁰ all similarities of an unseen class would underflow without normalisation."""
    far = problem.signatures.copy()
    far.loc[problem.unseen_classes] *= -1
    model = fit(problem, loss, gamma=2.0**10, penalize=penalize, signatures=far)
    similarities = model.similarities(
        normalize(far.loc[problem.unseen_classes].to_numpy()) / model.signature_scale_[0]
    )
    np.testing.assert_allclose(similarities.sum(axis=1), 1)
    assert np.isfinite(model.decision_function(problem.X_test_unseen)).all()


@pytest.mark.filterwarnings("ignore::zslearn.base.InputWarning")
@every_loss
def test_twins_share_a_classifier(problem, loss):
    """Two seen classes of one signature make S singular; the pseudo-inverse takes the mean."""
    twins = problem.signatures.copy()
    a, b = problem.seen_classes[:2]
    twins.loc[b] = twins.loc[a]
    model = fit(problem, loss, signatures=twins)
    scores = model.decision_function(problem.X_test_seen, classes=[a, b])
    np.testing.assert_allclose(scores[:, 0], scores[:, 1], atol=1e-9)


def close_signatures(spread, n_groups=24, n_members=3, n_unseen=8):
    """Groups of seen classes with nearly equal signatures, and unseen classes far from these."""
    rng = np.random.default_rng(0)
    known = np.repeat(rng.standard_normal((n_groups, 6)), n_members, axis=0)
    known += spread * rng.standard_normal(known.shape)
    known = np.vstack([known, rng.standard_normal((n_unseen, 6))])
    # Each class also has an offset that its signature does not determine.
    centers = known @ rng.standard_normal((6, 20)) + 0.5 * rng.standard_normal((len(known), 20))
    y = np.repeat(np.arange(len(known)), 12)
    X = centers[y] + 0.3 * rng.standard_normal((len(y), 20))
    return X, y, pd.DataFrame(known), np.arange(len(known) - n_unseen, len(known))


@pytest.mark.parametrize(("loss", "spread"), [("ovo", 1e-4), ("ovo", 1e-2), ("struct", 1e-2)])
def test_a_ridge_serves_signatures_that_lie_close_together(loss, spread):
    """S is nearly singular, so that S⁺W gives noise as classifiers of unseen classes."""
    X, y, signatures, unseen = close_signatures(spread)
    learned = ~np.isin(y, unseen)

    def accuracy(ridge):
        model = SynC(loss, alpha=2.0**-8, tol=1e-2, ridge=ridge)
        model.fit(X[learned], y[learned], signatures=signatures)
        return model.score(X[~learned], y[~learned], classes=unseen), model

    rough, huge = accuracy(0.0)
    smooth, model = accuracy(1e-6)
    assert rough < 0.3  # chance is 0.125
    assert smooth > 0.8
    assert np.linalg.norm(huge.base_classifiers_) > 100 * np.linalg.norm(model.base_classifiers_)


@pytest.mark.parametrize("variant", [{}, {"n_phantoms": 5}, {"n_phantoms": 20}], ids=str)
def test_ridge_by_its_definition(problem, variant):
    plain = fit(problem, **variant)
    model = fit(problem, ridge=0.03, **variant)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    known = problem.signatures.loc[model.seen_classes_].to_numpy()
    seen = model.similarities(normalize(known) / model.signature_scale_[0])
    stacked = np.vstack([seen, np.sqrt(0.03) * np.eye(seen.shape[1])])
    wanted = np.vstack([model.coef_, np.zeros_like(model.base_classifiers_)])
    expected = np.linalg.lstsq(stacked, wanted, rcond=None)[0]
    np.testing.assert_allclose(model.base_classifiers_, expected, atol=1e-8)
    # A small ridge has no effect if S is well conditioned.
    near = fit(problem, ridge=1e-12, **variant)
    np.testing.assert_allclose(
        near.decision_function(problem.X_test_unseen),
        plain.decision_function(problem.X_test_unseen),
        atol=1e-4,
    )


# Several views, metrics, other libraries.


def two_views(problem, weights=(0.7, 0.3)):
    other = problem.signatures.iloc[:, :3] ** 2 + 0.1
    return MultiSignatures({"a": problem.signatures, "b": other}, weights)


@every_loss
@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"penalize": "v"},
        {"n_phantoms": 5},
        {"n_phantoms": 17, "penalize": "v"},
        {"metric": "diag"},
        {"learn_phantoms": True, "penalize": "v"},
    ],
    ids=str,
)
def test_several_views(problem, loss, variant):
    model = fit(problem, loss, signatures=two_views(problem), **variant)
    assert model.dual_gap_ <= 1e-4 * model.objective_
    assert np.all(np.diff(model.history_) <= 0)
    unseen = problem.unseen_classes
    assert model.score(problem.X_test_unseen, problem.y_test_unseen, classes=unseen) > 0.3
    assert len(model.phantoms_.arrays) == 2


def test_all_weight_on_one_view_is_that_view(problem):
    both = fit(problem, signatures=two_views(problem, (1.0, 0.0)), penalize="v")
    one = fit(problem, penalize="v")
    np.testing.assert_allclose(
        both.decision_function(problem.X_test_unseen),
        one.decision_function(problem.X_test_unseen),
        atol=1e-9,
    )


def test_metric_is_in_the_similarities(problem):
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((8, 8))
    model = fit(problem, metric=factor @ factor.T, gamma=0.5)
    A = model.phantoms_
    np.testing.assert_allclose(
        model.similarities(A), normalized_similarity(A @ factor, gamma=0.5), atol=1e-12
    )
    identity = fit(problem, metric=np.eye(8))
    plain = fit(problem)
    np.testing.assert_allclose(
        identity.decision_function(problem.X_test_unseen),
        plain.decision_function(problem.X_test_unseen),
        atol=1e-10,
    )


def test_diagonal_metric_keeps_the_unit(problem):
    model = fit(problem, metric="diag")
    A = model.phantoms_
    stretched = A @ model._factors[0]
    np.testing.assert_allclose(stretched.var(axis=0), stretched.var(axis=0)[0])
    assert stretched.var(axis=0).sum() == pytest.approx(A.var(axis=0).sum())


def test_diagonal_metric_ignores_a_constant_attribute(problem):
    constant = problem.signatures.assign(same=0.0)
    model = fit(problem, metric="diag", signatures=constant)
    assert np.isfinite(model.base_classifiers_).all()
    assert np.all((model.phantoms_ @ model._factors[0])[:, -1] == 0)


# Bad input.


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_phantoms": 13, "phantom_init": "kmeans"}, 'use phantom_init="random"'),
        ({"n_phantoms": 13, "phantom_init": "seen"}, 'use phantom_init="random"'),
        ({"ridge": 1e-13}, "ridge must be 0 or at least"),
        ({"ridge": 1e-6, "penalize": "v"}, 'ridge needs penalize="w"'),
        ({"ridge": 1e-6, "learn_phantoms": True, "n_phantoms": 0.5}, "learn_phantoms=False"),
        ({"metric": np.eye(3)}, "shape .8, 8."),
        ({"metric": -np.eye(8)}, "positive semi-definite"),
        ({"metric": np.arange(64.0).reshape(8, 8)}, "symmetric"),
    ],
)
def test_bad_parameters(problem, params, message):
    with pytest.raises(ValueError, match=message):
        fit(problem, **params)


def test_matrix_metric_needs_one_view(problem):
    with pytest.raises(ValueError, match="single view"):
        fit(problem, signatures=two_views(problem), metric=np.eye(8))


def test_warns_when_not_converged(problem):
    with pytest.warns(ConvergenceWarning, match="Increase max_iter=1, alph"):
        model = fit(problem, "cs", alpha=1e-6, max_iter=1, tol=1e-9)
    assert model.dual_gap_ > 0


def test_warns_of_a_cached_solution_that_had_not_converged(problem, tmp_path):
    method = SynC(loss="cs", max_iter=1, tol=1e-9)
    search = ZeroShotSearchCV(method, {"alpha": [1e-5]}, cv=2, memory=tmp_path)
    for _ in range(2):
        with pytest.warns(ConvergenceWarning, match="Increase max_iter=1"):
            search.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    assert search.n_read_fits_ > 0


def test_grids_follow_the_loss():
    """The class has the grids of the default loss."""
    assert SynC.grids == SynC().grids
    assert set(SynC.grids) == {"paper", "fast", "phantoms"}
    smallest = {loss: min(SynC(loss).grids["fast"]["alpha"]) for loss in ("ovo", "cs", "struct")}
    assert smallest == {"ovo": 2.0**-20, "cs": 2.0**-14, "struct": 2.0**-14}
    assert "grids" not in SynC().get_params()


@every_loss
def test_grids_follow_the_penalty(loss):
    on_v = SynC(loss, penalize="v").grids
    assert min(on_v["fast"]["alpha"]) == 2.0**-40
    assert max(on_v["fast"]["alpha"]) == 2.0**-8
    assert len(ParameterGrid(on_v["fast"])) <= 60
    assert set(on_v["fast"]["gamma"]) <= set(on_v["paper"]["gamma"])
    assert set(on_v["fast"]["alpha"]) <= set(on_v["paper"]["alpha"])


def test_grid_of_learned_phantoms_is_the_second_step():
    grid = SynC(learn_phantoms=True).grids["phantoms"]
    assert list(grid) == ["eta", "norm_penalty"]
    assert len(ParameterGrid(SynC().grids["phantoms"])) <= 20


@pytest.mark.slow
@pytest.mark.parametrize("random_state", [0, 1])
def test_the_grid_of_v_holds_the_best_alpha(random_state):
    """The best setting for held-out classes lies inside this grid, but outside that of w."""
    data = make_zero_shot(n_seen=30, random_state=random_state)
    search = ZeroShotSearchCV(SynC(penalize="v", tol=1e-3), "fast", cv=ClassKFold(5))
    search.fit(data.X_train, data.y_train, signatures=data.signatures)
    assert 2.0**-40 < search.best_params_["alpha"] < 2.0**-8
