from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize
from sklearn.svm import NuSVR

from golden_problem import GoldenProblem
from zslearn.base import InputWarning
from zslearn.baselines import ESZSL, HAT, CMTStar
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import load_xlsa17
from zslearn.metrics import ausuc
from zslearn.model_selection import ClassKFold, ZeroShotSearchCV
from zslearn.signatures import MultiSignatures, normalize_signatures, rbf_similarity
from zslearn.synthesis import (
    EXEM,
    ClassStatistics,
    ExemplarMLP,
    SynC,
    exemplar_distance_score,
    ideal_signatures,
)


def _fit(problem, signatures=None, **params):
    signatures = problem.signatures if signatures is None else signatures
    return EXEM(**params).fit(problem.X_train, problem.y_train, signatures=signatures)


def _accuracy(model, X, y, classes=None):
    return model.score(X, y, classes=np.unique(y) if classes is None else classes)


def _scores(model, problem):
    X = np.concatenate([problem.X_test_seen, problem.X_test_unseen])
    return model.decision_function(X)


# The model against plain formulas.


@pytest.mark.parametrize("n_components", [5, None])
@pytest.mark.parametrize("distance", ["euclidean", "standardized"])
def test_equations_of_the_paper(problem, n_components, distance):
    model = _fit(problem, n_components=n_components, distance=distance, C=0.5, nu=0.4, gamma=0.8)
    X, y = normalize(problem.X_train), problem.y_train
    test = normalize(problem.X_test_unseen)
    if n_components is not None:
        pca = PCA(n_components, svd_solver="full").fit(X)
        signs = np.sign((pca.components_ * model.components_).sum(axis=1))
        np.testing.assert_allclose(pca.components_ * signs[:, None], model.components_, atol=1e-10)
        np.testing.assert_allclose(pca.mean_, model.mean_, atol=1e-14)
        X, test = pca.transform(X) * signs, pca.transform(test) * signs
    seen = np.sort(problem.seen_classes)
    exemplars = np.stack([X[y == c].mean(axis=0) for c in seen])
    np.testing.assert_allclose(model.exemplars_, exemplars, atol=1e-12)
    rows = problem.signatures.loc[seen].to_numpy()
    every = problem.signatures.loc[model.classes_].to_numpy()
    scale = model.signature_scale_[0]
    seen_rows = normalize_signatures(rows, scale=scale)
    np.testing.assert_allclose(seen_rows, normalize_signatures(rows), atol=1e-14)
    every_rows = normalize_signatures(every, scale=scale)
    K, K_all = (
        rbf_similarity(seen_rows, gamma=0.8),
        rbf_similarity(every_rows, seen_rows, gamma=0.8),
    )
    predicted = np.stack(
        [
            NuSVR(kernel="precomputed", C=0.5, nu=0.4, tol=1e-9).fit(K, z).predict(K_all)
            for z in exemplars.T
        ],
        axis=1,
    )
    np.testing.assert_allclose(model.predict_exemplars(every_rows), predicted, atol=1e-5)
    np.testing.assert_allclose(
        model.predict_exemplars(problem.signatures.loc[model.classes_]), predicted, atol=1e-5
    )
    unit = 1.0
    if distance == "standardized":
        unit = np.stack([X[y == c].std(axis=0, ddof=1) for c in seen]).mean(axis=0)
        np.testing.assert_allclose(model.within_std_, unit, atol=1e-12)
    else:
        assert not hasattr(model, "within_std_")
    distances = np.linalg.norm((test[:, None] - predicted[None]) / unit, axis=2)
    np.testing.assert_allclose(
        model.decision_function(problem.X_test_unseen), -distances, atol=2e-4 / np.min(unit)
    )
    assert model.support_.shape == model.violation_.shape == (exemplars.shape[1],)
    assert model.violation_.max() <= 1e-8


def test_components_beyond_the_rank_are_clipped(problem):
    width = problem.X_train.shape[1]
    with pytest.warns(InputWarning, match=f"n_components=90 .* {width} components"):
        model = _fit(problem, n_components=90)
    assert model.components_.shape == (width, width)
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        default = _fit(problem)
    assert default.components_.shape == (width, width)
    narrow = EXEM().fit([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]], [0, 1, 0])
    assert narrow.components_.shape[0] <= 2


def test_components_do_not_depend_on_signs_of_features(problem):
    model = _fit(problem, n_components=4)
    largest = np.abs(model.components_).argmax(axis=1)
    assert (model.components_[np.arange(4), largest] > 0).all()


def test_inverse_transform(problem):
    model = _fit(problem)
    means = np.stack(
        [normalize(problem.X_train)[problem.y_train == c].mean(axis=0) for c in model.seen_classes_]
    )
    np.testing.assert_allclose(model.inverse_transform(model.exemplars_), means, atol=1e-12)


# Unusual samples.


def test_a_class_of_one_sample_does_not_enter_the_average(problem):
    first = np.sort(problem.seen_classes)[0]
    keep = problem.y_train != first
    keep[np.flatnonzero(~keep)[0]] = True
    X, y = problem.X_train[keep], problem.y_train[keep]
    model = EXEM(distance="standardized", n_components=None)
    model.fit(X, y, signatures=problem.signatures)
    rest = [c for c in np.sort(problem.seen_classes) if c != first]
    expected = np.stack([normalize(X)[y == c].std(axis=0, ddof=1) for c in rest]).mean(axis=0)
    np.testing.assert_allclose(model.within_std_, expected, atol=1e-13)


def test_no_class_with_two_samples():
    X, y = np.eye(4), list("abcd")
    with pytest.warns(InputWarning, match="no seen class has two samples"):
        model = EXEM(distance="standardized").fit(X, y)
    np.testing.assert_array_equal(model.within_std_, 1.0)


def test_a_dimension_without_variance(problem):
    X = np.hstack([problem.X_train, np.zeros((len(problem.X_train), 1))])
    test = np.hstack([problem.X_test_unseen, np.zeros((len(problem.X_test_unseen), 1))])
    model = EXEM(distance="standardized", n_components=None)
    model.fit(X, problem.y_train, signatures=problem.signatures)
    assert model.within_std_[-1] == 1.0
    assert np.isfinite(model.decision_function(test)).all()


# The other regressors.


@pytest.mark.parametrize(
    "regressor",
    [
        KernelRidge(kernel="precomputed", alpha=0.1),
        KernelRidge(kernel="rbf", alpha=0.1),
        Ridge(),
        GaussianProcessRegressor(RBF(1.0), alpha=0.1),
    ],
    ids=str,
)
def test_other_regressors(problem, regressor):
    model = _fit(problem, regressor=regressor)
    unseen = problem.unseen_classes
    assert model.score(problem.X_test_unseen, problem.y_test_unseen, classes=unseen) > 0.4
    assert not hasattr(model, "support_")


def test_kernel_ridge_is_that_of_scikit_learn(problem):
    ours = _fit(problem, regressor="krr", C=2.0, gamma=0.7)
    seen = ours.seen_classes_
    rows = normalize_signatures(problem.signatures.loc[seen], scale=ours.signature_scale_[0])
    theirs = KernelRidge(kernel="rbf", gamma=0.7, alpha=1 / 4)
    mean = ours.exemplars_.mean(axis=0)
    expected = theirs.fit(rows, ours.exemplars_ - mean).predict(rows) + mean
    np.testing.assert_allclose(ours.predicted_exemplars_, expected, atol=1e-10)


@pytest.mark.slow
def test_perceptron(problem):
    pytest.importorskip("torch")
    model = _fit(problem, regressor=ExemplarMLP(hidden_size=50))
    again = _fit(problem, regressor=ExemplarMLP(hidden_size=50))
    other = _fit(problem, regressor=ExemplarMLP(hidden_size=50, random_state=1))
    np.testing.assert_array_equal(_scores(model, problem), _scores(again, problem))
    assert not np.allclose(_scores(model, problem), _scores(other, problem))
    losses = model.regressor_.estimator.loss_curve_
    assert losses[-1] < 0.2 * losses[0]
    unseen = problem.unseen_classes
    assert model.score(problem.X_test_unseen, problem.y_test_unseen, classes=unseen) > 0.5
    named = _fit(problem, regressor="mlp", n_components=5)
    assert named.regressor_.estimator.coefs_[0].shape == (problem.signatures.shape[1], 700)


def test_perceptron_objective():
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(7, 4)), rng.normal(size=(7, 3))
    mlp = ExemplarMLP(hidden_size=5, alpha=0.01, max_iter=2, learning_rate=1e-9).fit(X, Y)
    error = mlp.predict(X) - Y
    penalty = sum((w**2).sum() for w in mlp.coefs_)
    expected = (error**2).sum(axis=1).mean() + 0.01 * penalty
    np.testing.assert_allclose(mlp.loss_curve_, expected, rtol=1e-6)


def test_views_combine_kernels(problem):
    views = {"a": problem.signatures.iloc[:, :4], "b": problem.signatures.iloc[:, 4:]}
    model = _fit(problem, MultiSignatures(views, [3, 1]), gamma=0.9)
    seen = model.seen_classes_
    kernels = []
    for (_, view), scale in zip(views.items(), model.signature_scale_, strict=True):
        kernels.append(rbf_similarity(normalize_signatures(view.loc[seen], scale=scale), gamma=0.9))
    K = 0.75 * kernels[0] + 0.25 * kernels[1]
    z = model.exemplars_[:, 0]
    expected = NuSVR(kernel="precomputed", tol=1e-9).fit(K, z).predict(K)
    np.testing.assert_allclose(model.predicted_exemplars_[:, 0], expected, atol=1e-5)
    assert np.isfinite(
        _scores(_fit(problem, MultiSignatures(views), regressor="krr"), problem)
    ).all()
    side_by_side = _fit(problem, MultiSignatures(views), regressor=Ridge())
    assert side_by_side.regressor_.estimator.n_features_in_ == problem.signatures.shape[1]


# Exemplars as signatures of another method.


@pytest.mark.parametrize(
    "inner", [ESZSL(), ESZSL(signature_scale="all"), SynC(), EXEM(n_components=6)], ids=str
)
def test_predicted_exemplars_become_signatures(problem, inner):
    model = _fit(problem, estimator=inner, n_components=10)
    exemplars = pd.DataFrame(
        model.predict_exemplars(problem.signatures), index=problem.signatures.index
    )
    by_hand = clone(inner).fit(normalize(problem.X_train), problem.y_train, signatures=exemplars)
    assert model.score_function == by_hand.score_function
    np.testing.assert_allclose(model.estimator_.signature_scale_, by_hand.signature_scale_)
    np.testing.assert_allclose(_scores(model, problem), _scores(by_hand, problem), atol=1e-8)


def test_the_inner_method_knows_the_names_of_classes(problem):
    model = _fit(problem, estimator=CMTStar())
    assert model.estimator_.seen_classes_.tolist() == model.seen_classes_.tolist()
    # The last parameter of CMT* marks the seen classes.
    is_seen = np.isin(model.classes_, model.seen_classes_)
    *_, last = model.class_scorer_.parameters.T
    assert len(np.unique(last)) == 2
    assert np.array_equal(last > last.min(), is_seen)

    # Integers that are not 0 … S − 1, in a separate tree.
    names = {label: 100 - i for i, label in enumerate(sorted(problem.signatures.index))}
    y = np.array([names[label] for label in problem.y_train])
    signatures = problem.signatures.rename(index=names)
    tree = {label: f"branch {label % 3}" for label in names.values()}
    model = EXEM(estimator=HAT(tree)).fit(problem.X_train, y, signatures=signatures)
    exemplars = pd.DataFrame(
        model.predict_exemplars(normalize_signatures(signatures, scale=model.signature_scale_[0])),
        index=signatures.index,
    )
    seen = exemplars.loc[model.seen_classes_]
    by_hand = HAT(tree).fit(normalize(problem.X_train), y, signatures=seen)
    by_hand.add_classes(exemplars.drop(index=model.seen_classes_))
    np.testing.assert_allclose(
        model.decision_function(problem.X_test_unseen),
        by_hand.decision_function(normalize(problem.X_test_unseen)),
        atol=1e-8,
    )


def test_a_wrapping_estimator_is_refused(problem):
    with pytest.raises(TypeError, match=r"CalibratedStacking\(EXEM\(estimator=…\)\)"):
        _fit(problem, estimator=CalibratedStacking(ESZSL()))
    CalibratedStacking(EXEM(estimator=ESZSL())).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )


# Statistics and chunks.


def _chunks(n, pieces, seed):
    order = np.random.default_rng(seed).permutation(n)
    return [np.sort(part) for part in np.array_split(order, pieces)]


@pytest.mark.parametrize("distance", ["euclidean", "standardized"])
@pytest.mark.parametrize("n_components", [6, None])
def test_chunks_give_the_same_model(problem, distance, n_components):
    params = {"distance": distance, "n_components": n_components}
    whole = _fit(problem, **params)
    chunked = EXEM(**params)
    parts = _chunks(len(problem.X_train), 7, 0)
    for number, rows in enumerate(parts):
        chunked.partial_fit(
            problem.X_train[rows],
            problem.y_train[rows],
            signatures=problem.signatures if number == 0 else None,
        )
    added = sum(
        ClassStatistics.from_samples(
            problem.X_train[rows], problem.y_train[rows], factors=distance == "standardized"
        )
        for rows in parts
    )
    from_statistics = EXEM(**params).fit_statistics(added, signatures=problem.signatures)
    for model in (chunked, from_statistics):
        np.testing.assert_array_equal(model.classes_, whole.classes_)
        np.testing.assert_allclose(model.exemplars_, whole.exemplars_, atol=1e-10)
        np.testing.assert_allclose(_scores(model, problem), _scores(whole, problem), atol=1e-6)


def test_chunks_may_describe_their_classes(problem):
    model = EXEM()
    seen = np.unique(problem.y_train)
    for labels in (seen[:5], seen[5:]):
        rows = np.isin(problem.y_train, labels)
        model.partial_fit(
            problem.X_train[rows], problem.y_train[rows], signatures=problem.signatures.loc[labels]
        )
    model.add_classes(problem.signatures.loc[problem.unseen_classes])
    np.testing.assert_allclose(_scores(model, problem), _scores(_fit(problem), problem), atol=1e-6)


def test_a_failed_chunk_loses_nothing(problem):
    seen = np.unique(problem.y_train)
    known = problem.signatures.drop(index=seen[-1])
    rows = problem.y_train != seen[-1]
    model = EXEM().partial_fit(problem.X_train[rows], problem.y_train[rows], signatures=known)
    before = pickle.dumps(model)
    scores = _scores(model, problem)
    last = problem.X_train[~rows], problem.y_train[~rows]
    changed = known + 1.0
    attempts = [
        ("has no signature", lambda: model.partial_fit(*last)),
        ("features", lambda: model.partial_fit(last[0][:, 1:], last[1])),
        (
            "differs from the one given earlier",
            lambda: model.partial_fit(*last, signatures=changed),
        ),
        ("inconsistent numbers", lambda: model.partial_fit(last[0], last[1][:-1])),
        ("NaN", lambda: model.partial_fit(last[0], np.full(len(last[1]), np.nan))),
    ]
    for message, attempt in attempts:
        with pytest.raises(ValueError, match=message):
            attempt()
        np.testing.assert_array_equal(_scores(model, problem), scores)
    assert pickle.loads(before).statistics_.n_samples == model.statistics_.n_samples
    model.partial_fit(*last, signatures=problem.signatures.loc[[seen[-1]]])
    np.testing.assert_allclose(_scores(model, problem), _scores(_fit(problem), problem), atol=1e-6)


def test_methods_that_need_samples_refuse_statistics(problem):
    with pytest.raises(AttributeError) as raised:
        EXEM(estimator=ESZSL()).partial_fit(problem.X_train, problem.y_train)
    assert "learns from samples" in str(raised.value.__cause__)
    with pytest.warns(InputWarning, match="starts again from this batch"):
        model = _fit(problem).partial_fit(problem.X_train[:30], problem.y_train[:30])
    assert model.statistics_.n_samples == 30
    plain = ClassStatistics.from_samples(problem.X_train, problem.y_train)
    with pytest.raises(ValueError, match="factors=True"):
        EXEM(distance="standardized").fit_statistics(plain, signatures=problem.signatures)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(3, 40),
    pieces=st.integers(1, 5),
    offset=st.sampled_from([0.0, 1e6]),
)
def test_statistics_add_up(seed, n, pieces, offset):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + offset
    y = rng.integers(0, 4, n)
    whole = ClassStatistics.from_samples(X, y, feature_norm=None, factors=True)
    parts = [
        ClassStatistics.from_samples(X[rows], y[rows], feature_norm=None, factors=True)
        for rows in _chunks(n, min(pieces, n), seed)
    ]
    for total in (sum(parts), sum(reversed(parts))):
        np.testing.assert_array_equal(total.classes, np.unique(y))
        np.testing.assert_array_equal(total.counts, whole.counts)
        for name in ("means", "squares", "scatter"):
            np.testing.assert_allclose(
                getattr(total, name), getattr(whole, name), rtol=1e-9, atol=1e-7
            )
        np.testing.assert_allclose(total.means, whole.means, rtol=1e-13, atol=1e-13)
    centered = X - X.mean(axis=0)
    np.testing.assert_allclose(
        whole.moments(center=True).gram, centered.T @ centered, rtol=1e-7, atol=1e-7
    )
    directions = np.linalg.qr(rng.normal(size=(4, 4)))[0][:2]
    found = sum(parts).standard_deviations(directions)
    for row, label in zip(found, whole.classes, strict=True):
        samples = (X[y == label] - offset) @ directions.T
        if len(samples) < 2:
            assert np.isnan(row).all()
        else:
            np.testing.assert_allclose(row, samples.std(axis=0, ddof=1), rtol=1e-6, atol=1e-8)


def test_statistics_of_float32_do_not_lose_digits():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(20_000, 3)) + 1000).astype(np.float32)
    y = rng.integers(0, 2, 20_000)
    found = ClassStatistics.from_samples(X, y, feature_norm=None)
    exact = np.stack([X[y == c].astype(np.longdouble).mean(axis=0) for c in (0, 1)])
    np.testing.assert_allclose(found.means, exact.astype(float), rtol=1e-13)
    spread = np.stack([X[y == c].astype(np.longdouble).var(axis=0, ddof=1) for c in (0, 1)])
    np.testing.assert_allclose(found.standard_deviations() ** 2, spread.astype(float), rtol=1e-10)


def test_statistics_that_do_not_add_up():
    one = ClassStatistics.from_samples([[1.0, 2.0]], ["a"])
    with pytest.raises(ValueError, match="2 and of 3 features"):
        one + ClassStatistics.from_samples([[1.0, 2.0, 3.0]], ["a"])
    with pytest.raises(ValueError, match="labels of one type"):
        one + ClassStatistics.from_samples([[1.0, 2.0]], [1])
    with pytest.raises(ValueError, match="both or none with factors"):
        one + ClassStatistics.from_samples([[1.0, 2.0]], ["a"], factors=True)
    with pytest.raises(TypeError):
        one + 1


def test_ideal_signatures_bound_the_rest(problem):
    X = np.concatenate([problem.X_train, problem.X_test_unseen])
    y = np.concatenate([problem.y_train, problem.y_test_unseen])
    ideal = ideal_signatures(X, y)
    np.testing.assert_array_equal(ideal.index, np.unique(y))
    unseen = problem.unseen_classes
    scores = [
        ESZSL()
        .fit(problem.X_train, problem.y_train, signatures=signatures)
        .score(problem.X_test_unseen, problem.y_test_unseen, classes=unseen)
        for signatures in (problem.signatures, ideal)
    ]
    assert scores[1] >= scores[0]


# The search.


def test_both_criteria_of_the_paper(problem):
    scoring = {"accuracy": _accuracy, "distance": exemplar_distance_score}
    grid = {"gamma": [0.25, 1.0], "C": [0.01, 1.0]}
    search = ZeroShotSearchCV(EXEM(), grid, scoring=scoring, cv=ClassKFold(3))
    search.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    by_distance = search.cv_results_["mean_test_distance"]
    assert (by_distance < 0).all()
    assert len(set(by_distance)) == 4
    plain = ZeroShotSearchCV(EXEM(), grid, cv=ClassKFold(3))
    plain.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    np.testing.assert_allclose(
        plain.cv_results_["mean_test_accuracy"], search.cv_results_["mean_test_accuracy"]
    )


def test_distance_score_names_what_is_missing(problem):
    model = _fit(problem, problem.signatures.loc[np.unique(problem.y_train)])
    with pytest.raises(ValueError, match="unknown classes"):
        exemplar_distance_score(model, problem.X_test_unseen, problem.y_test_unseen)


# Results of the authors' program.


@pytest.fixture(scope="module")
def golden(golden_arrays):
    return GoldenProblem(golden_arrays)


def _golden_fit(golden, **params):
    model = EXEM(signature_scale=golden.median, **params)
    train = golden.train
    return model.fit(golden.X[train], golden.Y[train], signatures=golden.signatures)


FIXED = {"n_components": 20, "C": 1.0, "nu": 0.5, "gamma": 0.5}


def _chosen_by_distance(golden_arrays):
    chosen = golden_arrays("tiny_ps_exem")
    found = {name: float(chosen[f"cv_dis_seu_{name}"]) for name in ("C", "nu", "gamma")}
    return found | {"n_components": int(chosen["cv_dis_seu_pca_d"])}


def test_golden_intermediate_arrays(golden, golden_arrays):
    want = golden_arrays("tiny_ps_exem")
    model = _golden_fit(golden, distance="standardized", **FIXED)
    np.testing.assert_allclose(model.mean_, want["fixed_mean_Xtr_PCA"], atol=1e-14)
    signs = np.sign((model.components_.T * want["fixed_V"][:, :20]).sum(axis=0))
    np.testing.assert_allclose(model.components_.T * signs, want["fixed_V"][:, :20], atol=1e-11)
    np.testing.assert_allclose(model.exemplars_ * signs, want["fixed_mean_Xtr"], atol=1e-12)
    np.testing.assert_allclose(model.within_std_, want["fixed_avg_std_Xtr"], atol=1e-12)
    train = golden.train
    statistics = ClassStatistics.from_samples(golden.X[train], golden.Y[train], factors=True)
    np.testing.assert_allclose(
        statistics.standard_deviations(model.components_), want["fixed_std_Xtr"], atol=1e-12
    )
    table = normalize_signatures(golden.signatures, scale=golden.median)
    np.testing.assert_allclose(table, want["fixed_Sig_Y"], atol=1e-12)
    seen, unseen = (want[f"fixed_label_{part}"].astype(int) - 1 for part in ("tr", "te"))
    K = rbf_similarity(table[seen], gamma=0.5)
    np.testing.assert_allclose(K, want["fixed_Ker_tr"], atol=1e-12)
    np.testing.assert_allclose(
        rbf_similarity(table[unseen], table[seen], gamma=0.5), want["fixed_Ker_te"], atol=1e-12
    )
    # Exemplars within the tolerance of LIBSVM.
    np.testing.assert_allclose(
        model.predicted_exemplars_ * signs, want["fixed_mean_Xtr_rec"], atol=2e-3
    )
    np.testing.assert_allclose(
        model.predict_exemplars(table[unseen]) * signs, want["fixed_mean_Xte_rec"], atol=2e-3
    )


class _LibSVM(RegressorMixin, BaseEstimator):
    """A loop of scikit-learn's NuSVR, which is LIBSVM, over the dimensions."""

    def __init__(self, tol=1e-3, kernel="precomputed"):
        self.tol = tol
        self.kernel = kernel

    def fit(self, K, Y):
        self.models_ = [NuSVR(kernel="precomputed", C=1.0, nu=0.5, tol=self.tol) for _ in Y.T]
        for model, y in zip(self.models_, Y.T, strict=True):
            model.fit(K, y)
        return self

    def predict(self, K):
        return np.stack([model.predict(K) for model in self.models_], axis=1)


def test_golden_results(golden, golden_arrays):
    want = golden_arrays("tiny_ps_exem")
    X, y = golden.X[golden.unseen], golden.Y[golden.unseen]
    for distance, short in (("euclidean", "eu"), ("standardized", "seu")):
        params = {"distance": distance, **FIXED}
        # With the program's solver and tolerance, the result is the program's.
        theirs = _golden_fit(golden, regressor=_LibSVM(), **params)
        accuracy = _accuracy(theirs, X, y)
        assert accuracy == pytest.approx(float(want[f"fixed_acc_{short}"]), abs=0.015)
        # Our solver reaches the optimum; LIBSVM reaches it, too, with a smaller tolerance.
        ours = _golden_fit(golden, **params)
        exact = _golden_fit(golden, regressor=_LibSVM(tol=1e-9), **params)
        # One image of the smallest class may be equally close to two exemplars.
        one_image = 1 / (len(np.unique(y)) * np.unique(y, return_counts=True)[1].min())
        accuracy = _accuracy(exact, X, y)
        assert _accuracy(ours, X, y) == pytest.approx(accuracy, abs=one_image)
        loose = _golden_fit(golden, tol=1e-3, **params)
        for model in (theirs, exact, ours, loose):
            found = -exemplar_distance_score(model, X, y)
            assert found == pytest.approx(
                float(want[f"fixed_dis_{short}"]), abs=5e-3 * (1 + 4 * (short == "seu"))
            )
            accuracy = _accuracy(model, X, y)
            assert accuracy == pytest.approx(float(want[f"fixed_acc_{short}"]), abs=0.021)


def test_golden_distance_given_its_exemplars(golden, golden_arrays):
    """With the program's own predictions the distances are exact."""
    want = golden_arrays("tiny_ps_exem")
    model = _golden_fit(golden, **FIXED)
    signs = np.sign((model.components_.T * want["fixed_V"][:, :20]).sum(axis=0))
    rows = {
        label: row
        for part in ("tr", "te")
        for label, row in zip(
            want[f"fixed_label_{part}"], want[f"fixed_mean_X{part}_rec"], strict=True
        )
    }
    exemplars = np.stack([rows[label] for label in model.classes_]) * signs
    model.predict_exemplars = lambda signatures, labels=None: exemplars
    X, y = golden.X[golden.unseen], golden.Y[golden.unseen]
    for distance, short in (("euclidean", "eu"), ("standardized", "seu")):
        found = -exemplar_distance_score(model, X, y, distance=distance)
        assert found == pytest.approx(float(want[f"fixed_dis_{short}"]), abs=1e-10)


def test_golden_generalized(golden, golden_arrays):
    want = golden_arrays("tiny_ps_exem_gzsl")
    rows = np.concatenate([golden.test_seen, golden.unseen])
    X, y = golden.X[rows], golden.Y[rows]
    seen, unseen = (want[f"fixed_label_{part}"].astype(int) for part in "SU")
    for distance, short in (("euclidean", "eu"), ("standardized", "seu")):
        model = _golden_fit(golden, distance=distance, **FIXED)
        for classes, part in ((seen, "S"), (unseen, "U")):
            scores = model.decision_function(X, classes=classes)
            # Exemplars move by 2e-3 at most; standardised ones in units of the deviations.
            atol = 5e-3 if short == "eu" else 5e-3 / model.within_std_.min()
            np.testing.assert_allclose(scores, want[f"fixed_score_{part}_{short}"], atol=atol)
        area = ausuc(y, model.decision_function(X), classes=model.classes_, seen_classes=seen)
        assert area == pytest.approx(float(want[f"fixed_acc_{short}"]), abs=0.02)


def test_golden_exemplars_for_another_method(golden, golden_arrays):
    """EXEM_attr2: exemplars at the setting that CV-distance chose, as signatures."""
    want = golden_arrays("tiny_ps_sig")["EXEM_attr2"]
    model = _golden_fit(
        golden,
        **_chosen_by_distance(golden_arrays),
    )
    found = model.predict_exemplars(golden.signatures)
    signs = np.sign((found * want).sum(axis=0))
    np.testing.assert_allclose(found * signs, want, atol=3e-3)


@pytest.mark.parametrize(
    ("loss", "name", "atol"), [("ovo", "OVO", 0.01), ("cs", "CS", 0.05), ("struct", "struct", 0.05)]
)
def test_golden_exem_sync(golden, golden_arrays, loss, name, atol):
    want, generalized = golden_arrays("tiny_ps_syncexem"), golden_arrays("tiny_ps_syncexem_gzsl")
    inner = SynC(
        loss=loss,
        alpha=float(want[f"{name}_fixed_lambda"]),
        gamma=float(want[f"{name}_fixed_Sim_scale"]),
        signature_scale="all",
    )
    model = _golden_fit(
        golden,
        **_chosen_by_distance(golden_arrays),
        estimator=inner,
    )
    X, y = golden.X[golden.unseen], golden.Y[golden.unseen]
    accuracy = _accuracy(model, X, y)
    assert accuracy == pytest.approx(float(want[f"{name}_fixed_acc_te"]), abs=atol)
    rows = np.concatenate([golden.test_seen, golden.unseen])
    scores = model.decision_function(golden.X[rows])
    area = ausuc(golden.Y[rows], scores, classes=model.classes_, seen_classes=model.seen_classes_)
    assert area == pytest.approx(float(generalized[f"{name}_fixed_acc_te"]), abs=atol)


# Real data.


@pytest.mark.parametrize(("distance", "expected"), [("euclidean", 0.627), ("standardized", 0.636)])
@pytest.mark.slow
def test_cub(data_folder, distance, expected):
    data = load_xlsa17("CUB", folder=data_folder / "xlsa17", features="efficientnet_lite0.mat")
    model = EXEM(distance=distance).fit(data.X_train, data.y_train, signatures=data.signatures)
    assert model.components_.shape == (500, 1280)
    accuracy = model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)
    assert accuracy == pytest.approx(expected, abs=0.01)
