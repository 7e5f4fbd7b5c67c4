"""CMT*: the gate that detects novel images."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.preprocessing import normalize

from zslearn.baselines import CMT, CMTStar
from zslearn.datasets import make_zero_shot
from zslearn.signatures import normalize_signatures


@pytest.mark.parametrize("share", [0.0, 0.4, 0.9, 1.0])
def test_gate_is_the_rule_written_out(problem, share):
    """Not novel: nearest seen signature. Novel: nearest unseen one."""
    model = CMTStar(seen_share=share, alpha=1e-2)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    A = pd.DataFrame(
        normalize_signatures(problem.signatures, scale=model.signature_scale_[0]),
        index=problem.signatures.index,
    )
    seen, unseen = A.loc[model.seen_classes_], A.loc[model.unseen_classes_]

    def mapped(X):
        X = normalize(X)
        hidden = np.tanh(X @ model.coefs_[0] + model.intercepts_[0])
        return hidden @ model.coefs_[1] + model.intercepts_[1]

    train = mapped(problem.X_train)
    for label, radius in zip(model.seen_classes_, model.radii_, strict=True):
        own = np.linalg.norm(train[problem.y_train == label] - A.loc[label].to_numpy(), axis=1)
        assert (own <= radius).mean() >= share
        assert (own <= radius).sum() <= np.ceil(share * (len(own) - 1)) + 1
    X = np.concatenate([problem.X_test_seen, problem.X_test_unseen])
    novel = model.is_novel(X)
    predicted = model.predict(X)
    for i, point in enumerate(mapped(X)):
        apart = np.linalg.norm(seen.to_numpy() - point, axis=1)
        assert novel[i] == np.all(apart > model.radii_)
        among = unseen if novel[i] else seen
        nearest = among.index[np.linalg.norm(among.to_numpy() - point, axis=1).argmin()]
        assert predicted[i] == nearest


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_common_cutoff_is_that_of_a_mixture_of_gaussians(problem, share):
    rows = np.r_[0:70, 90:144]  # classes of unequal size
    X, y = problem.X_train[rows], problem.y_train[rows]
    model = CMTStar(seen_share=share, threshold="common", alpha=1e-2)
    model.fit(X, y, signatures=problem.signatures)
    A = normalize_signatures(
        problem.signatures.loc[model.seen_classes_], scale=model.signature_scale_[0]
    )

    def mapped(X):
        return CMT.embed(model, normalize(X))

    own = A[np.searchsorted(model.seen_classes_, y)]
    apart = np.mean((mapped(X) - own) ** 2, axis=1)
    variances = [apart[y == label].mean() for label in model.seen_classes_]

    def density(X):
        parts = [
            np.mean(y == label) * multivariate_normal(a, v * np.eye(len(a))).pdf(mapped(X))
            for label, a, v in zip(model.seen_classes_, A, variances, strict=True)
        ]
        return np.sum(parts, axis=0)

    np.testing.assert_allclose(model.variances_, variances)
    train, test = density(X), density(np.r_[problem.X_test_seen, problem.X_test_unseen])
    passed = ~model.is_novel(X)
    assert share <= passed.mean() <= share + 1.5 / len(X)
    # Images that pass the cutoff have a higher density than the others.
    novel = model.is_novel(np.r_[problem.X_test_seen, problem.X_test_unseen])
    least = train[passed].min()
    assert not (train[~passed] > least).any()
    assert not (test[novel] > least).any()
    if share:
        assert (test[~novel] > train[~passed].max(initial=0)).all()


def test_gate_leaves_each_side_as_it_is(problem):
    data = (problem.X_train, problem.y_train)
    plain = CMT().fit(*data, signatures=problem.signatures)
    gated = CMTStar().fit(*data, signatures=problem.signatures)
    for X in (problem.X_test_seen, problem.X_test_unseen):
        for classes in (problem.seen_classes, problem.unseen_classes):
            np.testing.assert_array_equal(
                plain.predict(X, classes=classes), gated.predict(X, classes=classes)
            )


def test_no_image_passes_the_gate_by_its_score(problem):
    model = CMTStar(alpha=1e-6).fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X = 100 * np.random.default_rng(0).standard_normal((500, problem.X_train.shape[1]))
    novel = model.is_novel(X)
    assert novel.any()
    assert set(model.predict(X)[novel]) <= set(model.unseen_classes_)
    assert set(model.predict(X)[~novel]) <= set(model.seen_classes_)


def test_gate_knows_classes_by_name(problem):
    """An unseen copy of a seen class is on the other side of the gate."""
    copy = problem.signatures.loc[[problem.seen_classes[0]]].set_axis(["copy"])
    model = CMTStar().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    with pytest.warns(match="cannot be distinguished"):
        model.add_classes(copy)
    novel = model.is_novel(problem.X_test_unseen)
    scores = model.decision_function(
        problem.X_test_unseen, classes=["copy", problem.seen_classes[0]]
    )
    np.testing.assert_allclose(scores[:, 0] - scores[:, 1], np.where(novel, 1.0, -1.0))


def test_the_gate_finds_unseen_classes_that_the_nearest_signature_misses():
    crowd = make_zero_shot(
        n_seen=30, n_unseen=10, n_features=40, n_attributes=12, noise=0.2, random_state=0
    )
    data = (crowd.X_train, crowd.y_train)
    plain = CMT(alpha=1e-2).fit(*data, signatures=crowd.signatures)
    gated = CMTStar(alpha=1e-2, seen_share=0.5).fit(*data, signatures=crowd.signatures)

    def harmonic(model):
        seen = model.score(crowd.X_test_seen, crowd.y_test_seen)
        unseen = model.score(crowd.X_test_unseen, crowd.y_test_unseen)
        return 2 * seen * unseen / (seen + unseen)

    assert harmonic(gated) > harmonic(plain) + 0.1
