import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    top_k_accuracy_score,
)

from zslearn.metrics import (
    class_accuracies,
    flat_hit_at_k,
    harmonic_mean,
    per_class_accuracy,
    per_sample_accuracy,
)

pairs_of_labels = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40
).map(lambda pairs: tuple(np.array(pairs).T))

NAMES = np.array(["ant", "bee", "cat", "dog", "emu"])


def test_golden(golden_arrays):
    golden = golden_arrays("misc")
    classes = np.unique(golden["Yq"])
    each = per_class_accuracy(golden["Yq"], golden["Ypq"], classes=classes, average=None)
    np.testing.assert_allclose(each, golden["conf"], atol=1e-12)
    assert per_class_accuracy(golden["Yq"], golden["Ypq"]) == pytest.approx(
        float(golden["a1"]), abs=1e-12
    )
    assert per_sample_accuracy(golden["Yq"], golden["Ypq"]) == pytest.approx(
        float(golden["a2"]), abs=1e-12
    )


@settings(deadline=None)
@given(pairs_of_labels)
@pytest.mark.filterwarnings("ignore:y_pred contains classes", "ignore:A single label was found")
def test_same_as_scikit_learn(labels):
    y_true, y_pred = labels
    assert per_class_accuracy(y_true, y_pred) == pytest.approx(
        balanced_accuracy_score(y_true, y_pred), abs=1e-12
    )
    assert per_sample_accuracy(y_true, y_pred) == pytest.approx(
        accuracy_score(y_true, y_pred), abs=1e-12
    )


@settings(deadline=None)
@given(pairs_of_labels, st.permutations(range(5)))
def test_missing_classes(labels, order):
    y_true, y_pred = labels
    present = np.isin(order, y_true)
    each = [
        np.mean(y_pred[y_true == c] == c) if p else 0 for c, p in zip(order, present, strict=True)
    ]

    ignored = per_class_accuracy(y_true, y_pred, classes=order, missing="ignore")
    assert ignored == pytest.approx(sum(each) / present.sum(), abs=1e-12)
    zero = per_class_accuracy(y_true, y_pred, classes=order, missing="zero")
    assert zero == pytest.approx(sum(each) / 5, abs=1e-12)

    vector = per_class_accuracy(y_true, y_pred, classes=order, missing="ignore", average=None)
    np.testing.assert_allclose(vector, np.where(present, each, np.nan), atol=1e-12)
    vector = per_class_accuracy(y_true, y_pred, classes=order, missing="zero", average=None)
    np.testing.assert_allclose(vector, each, atol=1e-12)


@pytest.mark.parametrize("kind", ["str", "object", "series", "categorical", "bytes", "list"])
@settings(deadline=None)
@given(labels=pairs_of_labels)
def test_kinds_of_labels(kind, labels):
    convert = {
        "str": lambda y: NAMES[y],
        "object": lambda y: NAMES[y].astype(object),
        "series": lambda y: pd.Series(NAMES[y]),
        "categorical": lambda y: pd.Categorical(NAMES[y]),
        "bytes": lambda y: NAMES[y].astype("S"),
        "list": lambda y: NAMES[y].tolist(),
    }[kind]
    y_true, y_pred = labels
    assert per_class_accuracy(convert(y_true), convert(y_pred)) == per_class_accuracy(*labels)
    assert per_sample_accuracy(convert(y_true), convert(y_pred)) == per_sample_accuracy(*labels)


def test_boolean_and_mixed_labels():
    y_true, y_pred = np.array([True, True, True, False]), np.array([True, False, True, False])
    assert per_class_accuracy(y_true, y_pred) == pytest.approx((2 / 3 + 1) / 2)
    assert per_class_accuracy(y_true, y_pred, classes=[False, True], average=None)[0] == 1.0
    # NumPy would turn the numbers of such a list into strings.
    assert per_sample_accuracy([1, "a", "1"], [1, "a", 1]) == pytest.approx(2 / 3)
    assert per_class_accuracy([1, "a", "1"], [1, "a", 1]) == pytest.approx(2 / 3)
    assert per_sample_accuracy([1, 2], [1.0, 2.5]) == 0.5


def test_prediction_outside_classes_is_wrong():
    assert per_class_accuracy([1, 1, 2], [1, 9, 2], classes=[1, 2]) == 0.75


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (([1, 2], [1]), {}, "one entry per sample"),
        (([], []), {}, "y_true is empty"),
        (([[1]], [1]), {}, "with 1 dimension(s)"),
        (([1.0, np.nan], [1, 1]), {}, "y_true contains a missing label"),
        ((["a", None], ["a", "a"]), {}, "y_true contains a missing label"),
        ((["1"], [1]), {}, "y_true and y_pred cannot be compared"),
    ],
)
def test_errors_of_both_accuracies(args, kwargs, message):
    for metric in (per_class_accuracy, per_sample_accuracy):
        with pytest.raises(ValueError, match=re.escape(message)):
            metric(*args, **kwargs)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"classes": range(9)}, "no samples in y_true: 0, 3, 4, 5, 6 and 2 more."),
        ({"classes": [2, 3]}, "not in classes: 1."),
        ({"classes": [1, 2, 2]}, "duplicate labels: 2."),
        ({"missing": "drop"}, "missing must be one of"),
        ({"average": "micro"}, "average must be"),
    ],
)
def test_errors_of_per_class_accuracy(kwargs, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        per_class_accuracy([1, 2, 2], [1, 2, 1], **kwargs)


@pytest.mark.parametrize("convert", [lambda y: y, lambda y: NAMES[y], lambda y: NAMES[y].tolist()])
def test_flat_hit_same_as_scikit_learn(convert):
    rng = np.random.default_rng(0)
    scores, y = rng.random((200, 5)), rng.integers(0, 5, 200)
    y_top = np.argsort(-scores, axis=1)
    hits = flat_hit_at_k(convert(y), convert(y_top), [1, 3, 2, 5])
    expected = [top_k_accuracy_score(y, scores, k=k, labels=range(5)) for k in (1, 3, 2)]
    np.testing.assert_allclose(hits, [*expected, 1.0], atol=1e-12)


def test_flat_hit_number_or_array():
    y_true, y_top = [1, 2], [[1, 2, 3], [3, 1, 2]]
    assert flat_hit_at_k(y_true, y_top, 1) == 0.5
    assert isinstance(flat_hit_at_k(y_true, y_top, np.int64(3)), float)
    one = flat_hit_at_k(y_true, y_top, [1])
    assert one.shape == (1,)
    assert flat_hit_at_k([7, 2], y_top, 3) == 0.5


@pytest.mark.parametrize(
    ("y_top", "k", "message"),
    [
        ([[1, 2]], 1, "one entry per sample"),
        ([1, 2], 1, "with 2 dimension(s)"),
        ([[1, 2], [3, 4]], 3, "k=3 needs as many columns"),
        ([[1, 2], [3, 4]], 0, "k must be at least 1"),
        ([[1, 2], [3, 4]], 1.5, "k must be an integer"),
        ([[1, 2], [3, 4]], True, "k must be an integer"),
        ([[1, 2], [3, 4]], [], "a non-empty sequence"),
        ([[1, 2], [3, 3]], 2, "must be distinct: row 1"),
        ([["1", "2"], ["3", "4"]], 1, "cannot be compared"),
    ],
)
def test_errors_of_flat_hit(y_top, k, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        flat_hit_at_k([1, 2], y_top, k)


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 1))
def test_harmonic_mean_of_numbers(seen, unseen):
    mean = harmonic_mean(seen, unseen)
    assert isinstance(mean, float)
    assert mean == harmonic_mean(unseen, seen)
    assert 0 <= mean <= 2 * min(seen, unseen) + 1e-12
    np.testing.assert_allclose(harmonic_mean([[0.0], [seen]], [0.0, unseen])[1, 1], mean)
    if seen > 1e-9 and unseen > 1e-9:
        assert mean == pytest.approx(1 / ((1 / seen + 1 / unseen) / 2), abs=1e-12)


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan, np.inf])
def test_errors_of_harmonic_mean(bad):
    with pytest.raises(ValueError, match="acc_seen must be between 0 and 1"):
        harmonic_mean(bad, 0.5)
    with pytest.raises(ValueError, match="acc_unseen must be between 0 and 1"):
        harmonic_mean([0.5, 0.5], [0.5, bad])


def test_sample_weights_apply_within_a_class():
    y_true, y_pred = ["a", "a", "a", "b", "c"], ["a", "b", "b", "b", "a"]
    weight = [2.0, 1.0, 1.0, 5.0, 0.0]
    each = per_class_accuracy(y_true, y_pred, sample_weight=weight, average=None, missing="ignore")
    np.testing.assert_allclose(each, [0.5, 1.0, np.nan])
    assert per_class_accuracy(y_true, y_pred, sample_weight=weight, missing="ignore") == 0.75
    with pytest.raises(ValueError, match="no sample"):
        per_class_accuracy(y_true, y_pred, sample_weight=weight)
    with pytest.raises(ValueError, match="egative"):
        per_class_accuracy(y_true, y_pred, sample_weight=[-1.0, 1, 1, 1, 1])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=1))
def test_accuracies_of_classes_are_those_of_the_confusion_matrix(pairs):
    true, pred = map(list, zip(*pairs, strict=True))
    found = class_accuracies(true, pred)
    labels = list("abcd")
    counts = pd.DataFrame(confusion_matrix(true, pred, labels=labels), labels, labels)
    assert found.index.tolist() == sorted(set(true))
    for label, row in found.iterrows():
        assert row["n_samples"] == counts.loc[label].sum()
        assert row["accuracy"] == counts.loc[label, label] / row["n_samples"]
        others = counts.loc[label].drop(label)
        assert (row["taken_for"] != row["taken_for"]) == (others.max() == 0)
        if others.max():
            assert row["taken_for"] == others.idxmax()
            assert row["share"] == others.max() / row["n_samples"]
