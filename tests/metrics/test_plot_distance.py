import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from zslearn.baselines import ESZSL
from zslearn.metrics import ClassDistanceDisplay, per_class_accuracy
from zslearn.signatures import MultiSignatures

# Angles from the seen class "s": 10, 30, 80 degrees, at different lengths.
ANGLES = {"s": 0, "a": 10, "b": 30, "c": 80, "t": 180}
LENGTHS = {"s": 1, "a": 5, "b": 0.1, "c": 2, "t": 3}
SIGNATURES = {
    label: LENGTHS[label] * np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    for label, angle in ANGLES.items()
}
TRUE = list("aabbbbcc")
PRED = list("aabbbccb")  # accuracies 1, 0.75, 0.5


def _plot(true=TRUE, pred=PRED, signatures=SIGNATURES, seen_classes=("s", "t"), **kwargs):
    return ClassDistanceDisplay.from_predictions(
        list(true), list(pred), signatures=signatures, seen_classes=list(seen_classes), **kwargs
    )


def _legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def _names(display):
    return {label.get_text() for label in display.labels_}


def _chord(degrees):
    return 2 * np.sin(np.radians(degrees) / 2)


def test_points_and_legend(plt):
    display = _plot(name="EXEM")
    np.testing.assert_allclose(display.distance, _chord(np.array([10, 30, 80])))
    np.testing.assert_array_equal(display.accuracy, [1, 0.75, 0.5])
    assert display.nearest.tolist() == ["s", "s", "s"]
    np.testing.assert_allclose(
        display.points_.get_offsets(), np.column_stack([display.distance, display.accuracy])
    )
    assert display.correlation == pytest.approx(-1)
    assert _legend(display) == ["EXEM (rank correlation ρ = −1.00)"]
    assert _names(display) == {"a", "b", "c"}
    assert "nearest seen class" in display.ax_.get_xlabel()
    assert display.figure_ is display.ax_.figure
    np.testing.assert_allclose(_plot(seen_classes="t").distance, _chord(np.array([170, 150, 100])))


def test_from_estimator(plt, problem):
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X, y = problem.X_test_unseen, problem.y_test_unseen
    display = ClassDistanceDisplay.from_estimator(model, X, y, signatures=problem.signatures)
    classes = model.unseen_classes_
    expected = per_class_accuracy(
        y, model.predict(X, classes=classes), classes=classes, average=None
    )
    np.testing.assert_array_equal(display.accuracy, expected)
    unit = problem.signatures.div(np.linalg.norm(problem.signatures, axis=1), axis=0)
    gaps = unit.loc[classes].to_numpy()[:, None] - unit.loc[model.seen_classes_].to_numpy()
    distances = np.linalg.norm(gaps, axis=2)
    np.testing.assert_allclose(display.distance, distances.min(axis=1))
    assert display.nearest.tolist() == model.seen_classes_[distances.argmin(axis=1)].tolist()
    assert display.correlation == pytest.approx(spearmanr(display.distance, expected).statistic)
    assert _legend(display)[0].startswith("ESZSL (rank correlation ρ = ")


@pytest.mark.parametrize("form", ["frame", "views", "polars"])
def test_forms_of_signatures(plt, form):
    frame = pd.DataFrame(SIGNATURES).T
    if form == "views":
        views = {"all": frame, "none": pd.DataFrame({"x": 1.0}, index=frame.index[::-1])}
        signatures, factor = MultiSignatures(views, [1, 3]), 0.5
    elif form == "polars":
        polars = pytest.importorskip("polars")
        columns = {"class": list(frame.index), "x": frame[0].tolist(), "y": frame[1].tolist()}
        signatures, factor = polars.DataFrame(columns), 1
    else:
        signatures, factor = frame, 1
    display = _plot(signatures=signatures)
    np.testing.assert_allclose(display.distance, factor * _chord(np.array([10, 30, 80])))


def test_correlation_is_undefined_for_ties(plt):
    assert np.isnan(_plot("aabbcc", "aabbcc").correlation)  # all accuracies are 1
    equal = SIGNATURES | {label: [3, 4] for label in "abc"}
    display = _plot(signatures=equal, name="x")
    assert np.isnan(display.correlation)
    assert _legend(display) == ["x (rank correlation undefined)"]
    rounded = ClassDistanceDisplay(
        distance=0.5 + np.array([0, 1e-16, 2e-16]) * 4, accuracy=[0, 0.5, 1], classes=list("abc")
    )
    assert np.isnan(rounded.correlation)


def test_a_class_without_samples_has_no_point(plt):
    display = _plot("aacc", "aacb", classes=["c", "b", "a"])
    np.testing.assert_array_equal(display.accuracy, [0.5, np.nan, 1])
    assert len(display.points_.get_offsets()) == 2
    assert _names(display) == {"a", "c"}


def _many(n_classes, seed=0):
    rng = np.random.default_rng(seed)
    classes = [f"a class called {i}" for i in range(n_classes)]
    # Many points close together.
    distance = rng.normal(0.5, 0.02, n_classes)
    return ClassDistanceDisplay(distance=distance, accuracy=rng.random(n_classes), classes=classes)


@pytest.mark.parametrize("n_classes", [5, 60, 300])
def test_names_do_not_overlap(plt, n_classes):
    display = _many(n_classes).plot(n_labels=40)
    display.figure_.canvas.draw()
    boxes = [label.get_window_extent() for label in display.labels_]
    assert len(boxes) >= 5
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    points = display.ax_.transData.transform(display.points_.get_offsets())
    assert not any(box.count_contains(points) for box in boxes)
    frame = display.ax_.get_window_extent()
    assert all(frame.containsx(b.x0) and frame.containsx(b.x1) for b in boxes)


def test_classes_far_from_the_trend_are_labelled(plt):
    distance = np.linspace(0.2, 1, 9)
    accuracy = 1 - 0.8 * distance
    accuracy[3], accuracy[6] = 0.0, 1.0
    display = ClassDistanceDisplay(
        distance=distance, accuracy=accuracy, classes=list("abcdefghi")
    ).plot(n_labels=2)
    assert _names(display) == {"d", "g"}
    assert display.plot(n_labels=0).labels_ == []


def test_two_displays_on_the_same_axes(plt):
    first = _plot(name="first")
    second = _plot(TRUE, TRUE, name="second", ax=first.ax_)
    assert second.ax_ is first.ax_
    assert len(_legend(second)) == 2
    colors = [tuple(d.points_.get_facecolor()[0]) for d in (first, second)]
    assert colors[0] != colors[1]
    assert _plot(color="red").points_.get_facecolor()[0].tolist()[:3] == [1, 0, 0]


@pytest.mark.parametrize(
    ("signatures", "message"),
    [
        ({"s": [1.0], "t": [1.0]}, "do not describe these classes: 'a', 'b', 'c'"),
        (SIGNATURES | {"b": [np.nan, 1]}, "NaN or infinity for 'b'"),
        (SIGNATURES | {"b": [1, 2, 3]}, "vectors of the same length"),
        (np.eye(5), "must name the class of each row"),
        ({i: [1.0] for i in range(5)}, "cannot be compared"),
        (pd.DataFrame([[1], [2]], index=["a", "a"]), "more than once"),
    ],
)
def test_wrong_signatures(signatures, message):
    with pytest.raises(ValueError, match=message):
        _plot(signatures=signatures)


def test_constructor():
    with pytest.raises(ValueError, match="one entry per class"):
        ClassDistanceDisplay(distance=[1.0], accuracy=[1.0, 0.5], classes=["a", "b"])
