import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zslearn.metrics import (
    ausuc,
    best_harmonic_mean,
    generalized_accuracy,
    harmonic_mean,
    per_class_accuracy,
    seen_unseen_curve,
)

NAMES = np.array(["ant", "bee", "cat", "dog", "emu", "fox"])


@st.composite
def problems(draw, step=1.0, every_class=False):
    """Scores on a grid, which produces ties, labels of both kinds, and shuffled columns."""
    n_seen, n_unseen = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n_classes = n_seen + n_unseen
    columns = draw(st.permutations(range(n_classes)))
    least = list(range(n_classes)) if every_class else [0, n_classes - 1]
    more = draw(st.lists(st.integers(0, n_classes - 1), max_size=15))
    y_true = np.array(draw(st.permutations(least + more)))
    seed = draw(st.integers(0, 2**32 - 1))
    scores = np.random.default_rng(seed).integers(-3, 4, (len(y_true), n_classes)) * step
    return y_true, scores, np.array(columns), np.arange(n_seen)


def predict(scores, classes, seen_classes, bias):
    """Calibrated stacking, sample by sample; the unseen class wins ties."""
    predicted = []
    for row in scores:
        value = {c: f - bias * (c in seen_classes) for c, f in zip(classes, row, strict=True)}
        best = max(value.values())
        winners = [c for c in classes if value[c] == best]
        predicted.append(next((c for c in winners if c not in seen_classes), winners[0]))
    return np.array(predicted)


def sweep(y_true, scores, classes, seen_classes, missing):
    """Accuracies at a factor below, at and above every distinct difference of two scores."""
    seen = np.isin(classes, seen_classes)
    margins = np.unique(scores[:, seen].max(axis=1) - scores[:, ~seen].max(axis=1))
    points = []
    for bias in (margins[0] - 1, *margins):
        y_pred = predict(scores, classes, seen_classes, bias)
        points.append([])
        for side in (seen, ~seen):
            rows = np.isin(y_true, classes[side])
            points[-1].append(
                per_class_accuracy(
                    y_true[rows], y_pred[rows], classes=classes[side], missing=missing
                )
            )
    return np.array(points), margins


@pytest.mark.parametrize("missing", ["ignore", "zero"])
@settings(max_examples=100, deadline=None)
@given(problem=problems())
@pytest.mark.slow
def test_brute_force_sweep(missing, problem):
    y_true, scores, classes, seen_classes = problem
    space = {"classes": classes, "seen_classes": seen_classes, "missing": missing}
    points, margins = sweep(*problem, missing)

    acc_unseen, acc_seen, bias = seen_unseen_curve(y_true, scores, **space)
    np.testing.assert_allclose(acc_seen, points[:, 0], atol=1e-12)
    np.testing.assert_allclose(acc_unseen, points[:, 1], atol=1e-12)
    assert bias[0] == -np.inf
    np.testing.assert_array_equal(bias[1:], margins)

    area = sum((x1 - x0) * (y0 + y1) / 2 for (y0, x0), (y1, x1) in pairwise(points))
    assert ausuc(y_true, scores, **space) == pytest.approx(area, abs=1e-12)
    best, factor = best_harmonic_mean(y_true, scores, **space)
    means = harmonic_mean(points[:, 0], points[:, 1])
    assert best == pytest.approx(means.max(), abs=1e-12)
    # The smallest of the factors that give it.
    assert factor == margins[np.flatnonzero(means[1:] > means.max() - 1e-12)[0]]


@settings(max_examples=100, deadline=None)
@given(problem=problems(step=0.1), shift=st.floats(0.01, 0.99))
@pytest.mark.slow
def test_each_point_is_attained_at_its_bias(problem, shift):
    # Multiples of 0.1 are not exact in binary.
    y_true, scores, classes, seen_classes = problem
    space = {"classes": classes, "seen_classes": seen_classes, "missing": "ignore"}
    acc_unseen, acc_seen, bias = seen_unseen_curve(y_true, scores, **space)
    upper = np.append(bias[1:], np.inf)
    for i in range(len(bias)):
        expected = (acc_seen[i], acc_unseen[i])
        assert generalized_accuracy(y_true, scores, bias=bias[i], **space) == expected
        if np.isfinite(bias[i]) and np.isfinite(upper[i]):
            between = bias[i] + shift * (upper[i] - bias[i])
            if bias[i] <= between < upper[i]:
                assert generalized_accuracy(y_true, scores, bias=between, **space) == expected
    assert generalized_accuracy(y_true, scores, bias=np.inf, **space) == (0, acc_unseen[-1])


@settings(max_examples=60, deadline=None)
@given(problem=problems(every_class=True), bias=st.integers(-7, 7))
def test_generalized_accuracy_is_calibrated_stacking(problem, bias):
    y_true, scores, classes, seen_classes = problem
    y_pred = predict(scores, classes, seen_classes, bias)
    rows = np.isin(y_true, seen_classes)
    expected = [per_class_accuracy(y_true[r], y_pred[r]) for r in (rows, ~rows)]
    got = generalized_accuracy(
        y_true, scores, classes=classes, seen_classes=seen_classes, bias=bias
    )
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "bool", "object", "torch"])
def test_dtypes_of_scores(dtype):
    rng = np.random.default_rng(0)
    scores, y = rng.integers(0, 2, (30, 4)), np.arange(30) % 4
    space = {"classes": range(4), "seen_classes": [0, 1]}
    expected = seen_unseen_curve(y, scores.astype(float), **space)
    if dtype == "torch":
        given = pytest.importorskip("torch").tensor(scores.astype(float), requires_grad=True)
    else:
        given = scores.astype(dtype)
    for a, b in zip(expected, seen_unseen_curve(y, given, **space), strict=True):
        np.testing.assert_array_equal(a, b)


def test_ends_are_exact_for_many_samples():
    rng = np.random.default_rng(0)
    classes = np.arange(100)
    y = np.append(classes, rng.zipf(1.3, 50_000) % 100)
    # The best class of each side is the true one, or the one 50 labels on.
    scores = np.full((len(y), 100), -1.0)
    scores[np.arange(len(y)), y] = rng.random(len(y))
    scores[np.arange(len(y)), (y + 50) % 100] = -0.5
    acc_unseen, acc_seen, _ = seen_unseen_curve(y, scores, classes=classes, seen_classes=range(50))
    assert acc_seen[0] == pytest.approx(1, abs=1e-12)
    assert acc_seen[-1] == 0
    assert acc_unseen[0] == 0
    assert acc_unseen[-1] == pytest.approx(1, abs=1e-12)


def golden_case(golden, i):
    part = {k: golden[f"{i}_{k}"] for k in ("score_S", "score_U", "Y", "label_S", "label_U")}
    return (part["Y"], np.hstack([part["score_S"], part["score_U"]])), {
        "classes": np.append(part["label_S"], part["label_U"]),
        "seen_classes": part["label_S"],
        # Cases 9 and 10 lack classes, which the authors' program counts as 0.
        "missing": "zero" if i in (9, 10) else "error",
    }


@pytest.mark.parametrize("i", range(16))
def test_golden_curve(golden_arrays, i):
    golden = golden_arrays("ausuc")
    args, space = golden_case(golden, i)
    acc_unseen, acc_seen, _ = seen_unseen_curve(*args, **space)
    np.testing.assert_allclose(
        np.column_stack([acc_seen, acc_unseen]), golden[f"{i}_AUC_record"], rtol=0, atol=1e-12
    )
    assert ausuc(*args, **space) == pytest.approx(float(golden[f"{i}_AUC_val"]), abs=1e-12)
    np.testing.assert_allclose(
        generalized_accuracy(*args, **space), golden[f"{i}_acc_noBias"], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("i", range(16))
def test_golden_harmonic_mean(golden_arrays, i):
    golden = golden_arrays("ausuc")
    args, space = golden_case(golden, i)
    given_bias = golden[f"{i}_fixed_bias_in"]
    if given_bias.size:
        bias = float(given_bias[0])
        mean = harmonic_mean(*generalized_accuracy(*args, bias=bias, **space))
    else:
        mean, bias = best_harmonic_mean(*args, **space)
    expected = float(golden[f"{i}_HM"])
    assert np.isnan(expected) == (i == 13)  # every accuracy is 0: NaN there, 0 here
    assert mean == pytest.approx(0.0 if i == 13 else expected, abs=1e-12)
    assert bias == float(golden[f"{i}_fixed_bias_out"])


def test_golden_cases_with_missing_classes(golden_arrays):
    golden = golden_arrays("ausuc")
    for i in (9, 10):
        args, space = golden_case(golden, i)
        with pytest.raises(ValueError, match="have no samples in y_true"):
            ausuc(*args, **{**space, "missing": "error"})
        assert ausuc(*args, **{**space, "missing": "ignore"}) > ausuc(*args, **space) + 0.01


GOOD = {
    "y_true": ["a", "b", "c"],
    "scores": np.eye(3),
    "classes": ["a", "b", "c"],
    "seen_classes": ["a", "b"],
}


@pytest.mark.parametrize("metric", [seen_unseen_curve, generalized_accuracy])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.zeros(3)}, "expected shape (3, 3), got (3,)."),
        ({"scores": np.diag([1, np.nan, 1])}, "scores must be finite"),
        ({"scores": [["x"] * 3] * 3}, "scores must be numbers"),
        ({"scores": np.array([[1, 1, -1]] * 3) * 1.7e308}, "scores are too large"),
        ({"y_true": []}, "y_true is empty"),
        ({"y_true": ["a", "b", None]}, "missing label"),
        ({"y_true": ["a", "z", "c"]}, "y_true contains labels that are not in classes: 'z'."),
        ({"y_true": ["a", "b", "b"]}, "no samples of unseen classes"),
        ({"y_true": ["c", "c", "c"]}, "no samples of seen classes"),
        ({"y_true": ["a", "a", "c"]}, "no samples in y_true: 'b'. Pass missing="),
        ({"classes": ["a", "b", "b"]}, "duplicate labels: 'b'."),
        ({"seen_classes": ["a", "b", "c"]}, "seen_classes contains every class"),
        ({"seen_classes": ["a", "z"]}, "seen_classes contains labels that are not in classes"),
        ({"missing": "no"}, "missing must be one of"),
    ],
)
def test_errors(metric, change, message):
    assert metric(**GOOD) is not None
    with pytest.raises(ValueError, match=re.escape(message)):
        metric(**(GOOD | change))


@pytest.mark.parametrize(("bias", "got"), [(np.nan, "NaN"), ("much", "'much'"), (None, "None")])
def test_errors_of_bias(bias, got):
    with pytest.raises(ValueError, match=f"bias must be a number, got {got}."):
        generalized_accuracy(**GOOD, bias=bias)
