import importlib

import numpy as np
import pytest

from zslearn.metrics import SeenUnseenCurveDisplay, ausuc, generalized_accuracy, seen_unseen_curve

SPACE = {"classes": np.array(["a", "b", "c", "d"]), "seen_classes": np.array(["a", "c"])}


@pytest.fixture
def plt():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    yield pyplot
    pyplot.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y_true = np.repeat(SPACE["classes"], 10)
    scores = rng.normal(size=(40, 4)) + 1.5 * (y_true[:, None] == SPACE["classes"])
    scores += 0.5 * np.isin(SPACE["classes"], SPACE["seen_classes"])
    return y_true, np.round(2 * scores) / 2  # ties, also at the factor 0


class Model:
    """The part of a zero-shot estimator that the display asks for: X is the scores."""

    classes_ = SPACE["classes"]
    seen_classes_ = SPACE["seen_classes"]

    def decision_function(self, X, *, classes):
        return X[:, [list(self.classes_).index(c) for c in classes]]


@pytest.mark.parametrize("source", ["estimator", "predictions"])
def test_display(plt, data, source):
    y_true, scores = data
    if source == "estimator":
        display = SeenUnseenCurveDisplay.from_estimator(Model(), scores, y_true, color="red")
    else:
        display = SeenUnseenCurveDisplay.from_predictions(
            y_true, scores, **SPACE, name="Model", color="red"
        )
    for got, expected in zip(
        (display.acc_unseen, display.acc_seen, display.bias),
        seen_unseen_curve(y_true, scores, **SPACE),
        strict=True,
    ):
        np.testing.assert_array_equal(got, expected)
    area = ausuc(y_true, scores, **SPACE)
    assert display.ausuc == area
    assert display.estimator_name == "Model"

    np.testing.assert_array_equal(display.line_.get_xdata(), display.acc_unseen)
    np.testing.assert_array_equal(display.line_.get_ydata(), display.acc_seen)
    assert display.line_.get_color() == display.point_.get_color() == "red"
    assert display.point_.get_marker() == "o"
    assert 0 in display.bias
    uncalibrated = (*display.point_.get_ydata(), *display.point_.get_xdata())
    assert uncalibrated == generalized_accuracy(y_true, scores, **SPACE)

    ax = display.ax_
    assert display.figure_ is ax.figure
    assert ax.get_xlabel() == "Accuracy on unseen classes (A_U→T)"
    assert ax.get_ylabel() == "Accuracy on seen classes (A_S→T)"
    assert ax.get_xlim()[0] == ax.get_ylim()[0] == 0
    assert ax.get_xlim()[1] > display.acc_unseen.max()
    assert ax.get_ylim()[1] > display.acc_seen.max()
    (entry,) = ax.get_legend().get_texts()
    assert entry.get_text() == f"Model (AUSUC = {area:.2f})"


def test_two_curves_on_the_same_axes(plt, data):
    y_true, scores = data
    short = SeenUnseenCurveDisplay(
        acc_unseen=np.array([0, 0.1]), acc_seen=np.array([0.1, 0]), bias=np.array([-np.inf, 1])
    )
    first = short.plot(name="first")
    assert first is short
    second = SeenUnseenCurveDisplay.from_predictions(y_true, scores, **SPACE, ax=first.ax_)
    assert second.ax_ is first.ax_
    assert first.ax_.get_xlim()[0] == first.ax_.get_ylim()[0] == 0
    assert first.ax_.get_xlim()[1] > second.acc_unseen.max()
    assert first.ax_.get_ylim()[1] > second.acc_seen.max()
    texts = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert texts == ["first", f"AUSUC = {second.ausuc:.2f}"]
    assert first.line_.get_color() != second.line_.get_color()
    assert second.line_.get_color() == second.point_.get_color()


def test_names(plt, data):
    y_true, scores = data
    display = SeenUnseenCurveDisplay.from_estimator(Model(), scores, y_true, name="mine")
    assert display.line_.get_label() == f"mine (AUSUC = {display.ausuc:.2f})"
    assert display.plot(name="other").line_.get_label() == f"other (AUSUC = {display.ausuc:.2f})"
    assert display.plot(label="as given").line_.get_label() == "as given"
    display.ausuc = display.estimator_name = None
    assert display.plot().ax_.get_legend() is None


def test_missing_is_passed_on(plt, data):
    y_true, scores = data
    some = y_true != "d"
    with pytest.raises(ValueError, match="These classes have no sample in y_true: 'd'"):
        SeenUnseenCurveDisplay.from_estimator(Model(), scores[some], y_true[some])
    areas = [
        SeenUnseenCurveDisplay.from_estimator(
            Model(), scores[some], y_true[some], missing=missing
        ).ausuc
        for missing in ("ignore", "zero")
    ]
    assert areas[0] == pytest.approx(2 * areas[1])


def test_without_matplotlib(monkeypatch, data):
    load = importlib.import_module

    def refuse(name, *args):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return load(name, *args)

    monkeypatch.setattr(importlib, "import_module", refuse)
    message = r"SeenUnseenCurveDisplay needs matplotlib.*pip install 'zslearn\[plot\]'"
    with pytest.raises(ImportError, match=message):
        SeenUnseenCurveDisplay.from_predictions(*data, **SPACE)
