from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from zslearn.baselines import DAP
from zslearn.datasets import make_zero_shot
from zslearn.signatures import MultiSignatures, binarize_signatures, normalize_signatures


def _fit(model, problem, **changes):
    options = {"signatures": problem.signatures, **changes}
    return model.fit(problem.X_train, problem.y_train, **options)


def _unit(problem):
    return normalize(problem.X_train), normalize(problem.X_test_unseen)


def _binary(problem):
    """Attributes that are present: above the mean over the seen classes, found by loops."""
    rows = normalize(problem.signatures.to_numpy())
    seen = problem.signatures.index.isin(problem.seen_classes)
    return pd.DataFrame(rows > rows[seen].mean(axis=0), index=problem.signatures.index)


def _regressions(X, Y, alpha):
    penalty = alpha * ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    return [
        LogisticRegression(C=1 / (penalty * len(X)), tol=1e-9, max_iter=10_000).fit(X, column)
        for column in Y.T
    ]


def test_is_the_product_of_probabilities(problem):
    model = _fit(DAP(0.01, calibration=None, tol=1e-10), problem)
    X, rows = _unit(problem)
    attributes = _binary(problem)
    seen = attributes.loc[problem.seen_classes].to_numpy()
    Y = attributes.loc[problem.y_train].to_numpy()
    p = np.stack([m.predict_proba(rows)[:, 1] for m in _regressions(X, Y, 0.01)], axis=1)
    prior = seen.mean(axis=0)
    products = np.array(
        [
            [
                math.prod(
                    (q if a else 1 - q) / (pi if a else 1 - pi)
                    for q, a, pi in zip(row, attributes.loc[c], prior, strict=True)
                )
                for c in model.classes_
            ]
            for row in p
        ]
    )
    found = softmax(model.decision_function(problem.X_test_unseen), axis=1)
    np.testing.assert_allclose(found, products / products.sum(axis=1, keepdims=True), atol=1e-5)


def test_platts_targets_replace_one_and_zero(problem):
    model = _fit(DAP(0.01, calibration="targets", tol=1e-10), problem)
    X, _ = _unit(problem)
    Y = _binary(problem).loc[problem.y_train].to_numpy()
    penalty = 0.01 * ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    for m, column in enumerate(Y.T):
        positive, negative = column.sum(), (~column).sum()
        target = np.where(column, (positive + 1) / (positive + 2), 1 / (negative + 2))
        # A target t is a sample of 1 with weight t and one of 0 with weight 1 − t.
        reference = LogisticRegression(C=1 / (penalty * len(X)), tol=1e-9, max_iter=10_000).fit(
            np.tile(X, (2, 1)),
            np.repeat([1, 0], len(X)),
            sample_weight=np.concatenate([target, 1 - target]),
        )
        scale = np.abs(reference.coef_).max()
        np.testing.assert_allclose(model.coef_[m], reference.coef_[0], atol=1e-3 * scale)


def test_sigmoids_come_from_classes_held_out(problem):
    model = _fit(DAP(0.01, calibration="classes", tol=1e-10), problem)
    X, _ = _unit(problem)
    seen, y = np.unique(problem.y_train, return_inverse=True)
    binary = _binary(problem).loc[seen].to_numpy()
    order = np.random.RandomState(0).permutation(len(seen))
    scores, known = np.zeros((len(X), 8)), np.zeros((len(X), 8), dtype=bool)
    for fold in np.array_split(order, 3):
        held = np.isin(y, fold)
        for m in range(8):
            target = binary[y[~held], m]
            if target.any() and not target.all():
                (regression,) = _regressions(X[~held], target[:, None], 0.01)
                scores[held, m] = regression.decision_function(X[held])
                # Relative to the frequency of the attribute among the samples.
                scores[held, m] += logit(binary[y, m].mean()) - logit(target.mean())
                known[held, m] = True
    for m in range(8):
        rows = known[:, m]
        f, target = scores[rows, m], binary[y[rows], m]
        t = np.where(target, (target.sum() + 1) / (target.sum() + 2), 1 / ((~target).sum() + 2))
        z = model.slope_[m] * f + model.offset_[m]
        residual = 1 / (1 + np.exp(-z)) - t
        assert abs(residual.mean()) < 1e-4
        # At the minimum; where the slope is clipped at zero, a larger one has a larger loss.
        slope = (residual * (f - f.mean())).mean() / f.std()
        assert abs(slope) < 1e-3 or (model.slope_[m] == 0 and slope > 0)


@pytest.mark.parametrize("calibration", ["classes", "targets", None])
@pytest.mark.slow
def test_thousands_of_attributes_do_not_underflow(calibration):
    """The product of 2,000 probabilities is 0 in floating point, the sum of logarithms is not."""
    data = make_zero_shot(
        n_seen=15,
        n_unseen=4,
        n_attributes=2000,
        n_features=20,
        samples_per_class=8,
        noise=0.05,
        signature_kind="binary",
        random_state=0,
    )
    model = DAP(1e-3, calibration=calibration).fit(
        data.X_train, data.y_train, signatures=data.signatures
    )
    scores = model.decision_function(data.X_test_unseen)
    assert np.isfinite(scores).all()
    embedded = model.embed(normalize(data.X_test_unseen))
    p = 1 / (1 + np.exp(-embedded))
    assert np.prod(np.minimum(p, 1 - p), axis=1).max() == 0
    assert model.score(data.X_test_seen, data.y_test_seen, classes=data.seen_classes) > 0.9


@pytest.mark.parametrize("absent", [0.0, -1.0], ids=["0 and 1", "−1 and 1"])
def test_binary_signatures_are_taken_as_they_are(problem, absent):
    rng = np.random.default_rng(0)
    binary = rng.random((16, 10)) < 0.3
    binary[0] = True
    frame = pd.DataFrame(np.where(binary, 1.0, absent), index=problem.signatures.index)
    model = _fit(DAP(), problem, signatures=frame)
    np.testing.assert_array_equal(model.thresholds_, 0)
    order = np.argsort(problem.signatures.index)
    np.testing.assert_array_equal(
        model.synthesize(normalize_signatures(frame.to_numpy()[order])),
        binary[order][:, model.attributes_],
    )
    scaled = _fit(DAP(), problem, signatures=frame * 1000)
    X = problem.X_test_unseen
    np.testing.assert_allclose(
        scaled.decision_function(X), model.decision_function(X), rtol=1e-9, atol=1e-12
    )


def test_constant_attributes_are_dropped(problem):
    binary = binarize_signatures(problem.signatures)
    expected = _fit(DAP(), problem, signatures=binary)
    wider = binary.assign(all=1, none=0)
    # It varies among unseen classes only, so that it cannot be learned.
    wider["unseen only"] = (~wider.index.isin(problem.seen_classes)).astype(int)
    model = _fit(DAP(), problem, signatures=wider)
    np.testing.assert_array_equal(model.attributes_, expected.attributes_)
    X = problem.X_test_unseen
    np.testing.assert_allclose(
        model.decision_function(X), expected.decision_function(X), rtol=1e-9, atol=1e-12
    )


def test_rounding_errors_are_no_attribute(problem):
    """Rows have the same length up to rounding: the last column is constant."""
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(20):
        values = rng.random(9)
        rows = [[*rng.permutation(values), 0.37] for _ in range(16)]
        frame = pd.DataFrame(rows, index=problem.signatures.index)
        kept.append(_fit(DAP(tol=0.1), problem, signatures=frame).attributes_)
    assert all(9 not in attributes for attributes in kept)


def test_tiny_values_in_binary_signatures_mean_absent(problem):
    binary = binarize_signatures(problem.signatures).astype(float)
    binary["all"] = 1.0  # a class of noise alone would have every attribute
    noisy = binary.where(binary > 0, 1e-13)
    expected = _fit(DAP(), problem, signatures=binary)
    model = _fit(DAP(), problem, signatures=noisy)
    np.testing.assert_array_equal(model.attributes_, expected.attributes_)
    np.testing.assert_array_equal(model.prior_, expected.prior_)


def test_features_that_are_constant_but_for_rounding(problem):
    X = np.full((len(problem.X_train), 5), 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = DAP(feature_norm=None).fit(X, problem.y_train, signatures=problem.signatures)
    np.testing.assert_allclose(model.coef_, 0, atol=1e-9)


def test_views_are_binarised_each_on_its_own(problem):
    binary = binarize_signatures(problem.signatures.iloc[:, :4])
    words = problem.signatures.iloc[:, 4:]
    model = _fit(DAP(), problem, signatures=MultiSignatures({"a": binary, "b": words}))
    np.testing.assert_array_equal(model.thresholds_[:4], 0)
    assert (model.thresholds_[4:] != 0).all()
    assert model.coef_.shape == (8, 20)


def test_no_attribute_left(problem):
    same = pd.DataFrame(1.0, index=problem.signatures.index, columns=["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"DAP needs attributes.*binarize_signatures"):
            _fit(DAP(), problem, signatures=same)


def test_a_new_class_must_be_binary_where_the_others_are(problem):
    binary = binarize_signatures(problem.signatures)
    model = _fit(DAP(), problem, signatures=binary)
    before = model.classes_
    half = pd.DataFrame([np.linspace(0.1, 1, 8)], index=["unsure"], columns=binary.columns)
    with pytest.raises(ValueError, match=r"unsure.*DAP needs either all or none"):
        model.add_classes(half)
    np.testing.assert_array_equal(model.classes_, before)
    assert "unsure" in model.add_classes(binarize_signatures(half, threshold=0.5)).classes_


@pytest.mark.parametrize("calibration", ["classes", "targets", None])
def test_two_classes_of_one_attribute(calibration):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-1, 1, (20, 3)), rng.normal(1, 1, (20, 3))])
    y = np.repeat(["a", "b"], 20)
    model = DAP(calibration=calibration).fit(X, y, signatures={"a": [-1.0], "b": [1.0]})
    assert model.score(X, y) > 0.8
