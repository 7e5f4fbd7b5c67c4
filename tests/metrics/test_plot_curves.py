import numpy as np
import pytest

from zslearn.metrics import (
    SeenUnseenCurveDisplay,
    UnseenConfusionDisplay,
    ausuc,
    generalized_accuracy,
    per_class_accuracy,
    seen_unseen_curve,
)

SPACE = {"classes": np.array(["a", "b", "c", "d"]), "seen_classes": np.array(["a", "c"])}


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


class Calibrated(Model):
    """Lowers the scores of seen classes; on a tie it predicts the unseen class."""

    def __init__(self, bias):
        self.bias_ = bias

    def decision_function(self, X, *, classes):
        scores = super().decision_function(X, classes=classes)
        lowered = np.where(np.isin(classes, self.seen_classes_), self.bias_, 0.0)
        return scores - lowered.astype(scores.dtype)

    def predict(self, X):
        unseen_first = np.array(["b", "d", "a", "c"])
        return unseen_first[self.decision_function(X, classes=unseen_first).argmax(axis=1)]


def _accuracies(point):
    """Of a marker: on seen classes, on unseen classes."""
    return (*point.get_ydata(), *point.get_xdata())


def _predicted_accuracies(y_true, predicted, seen_classes):
    seen = np.isin(y_true, seen_classes)
    return tuple(float(per_class_accuracy(y_true[s], predicted[s])) for s in (seen, ~seen))


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
    assert display.calibration_factor is display.calibrated_point_ is None
    assert _accuracies(display.point_) == generalized_accuracy(y_true, scores, **SPACE)

    ax = display.ax_
    assert display.figure_ is ax.figure
    assert ax.get_xlabel() == "Accuracy on unseen classes (A_U→T)"
    assert ax.get_ylabel() == "Accuracy on seen classes (A_S→T)"
    assert ax.get_xlim()[0] == ax.get_ylim()[0] == 0
    assert ax.get_xlim()[1] > display.acc_unseen.max()
    assert ax.get_ylim()[1] > display.acc_seen.max()
    (entry,) = ax.get_legend().get_texts()
    assert entry.get_text() == f"Model (AUSUC = {area:.2f})"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("factor", [0.5, 0.3, 1.7, -0.7, 1e-17, np.float64(1.0)])
def test_calibrated_estimator(plt, data, factor, dtype):
    """Both points are right although margins are tied and lowering scores rounds them."""
    y_true, scores = data[0], data[1].astype(dtype)
    model = Calibrated(factor)
    display = SeenUnseenCurveDisplay.from_estimator(model, scores, y_true, color="red")
    assert _accuracies(display.point_) == generalized_accuracy(y_true, scores, **SPACE)
    predicted = _predicted_accuracies(y_true, model.predict(scores), SPACE["seen_classes"])
    assert _accuracies(display.calibrated_point_) == pytest.approx(predicted, abs=1e-12)
    assert display.calibration_factor == factor

    # Rounding parts samples of equal margins, which then cross one after the other.
    assert display.ausuc == pytest.approx(ausuc(y_true, scores, **SPACE), abs=0.02)
    assert (display.point_.get_marker(), display.calibrated_point_.get_marker()) == ("o", "D")
    assert display.calibrated_point_.get_color() == "red"
    assert len(display.ax_.get_legend().get_texts()) == 1


@pytest.mark.parametrize("factor", [-9, 0, 0.5, 1.25, 9])
def test_factor_of_predictions(plt, data, factor):
    y_true, scores = data
    display = SeenUnseenCurveDisplay.from_predictions(
        y_true, scores, **SPACE, calibration_factor=factor
    )
    expected = generalized_accuracy(y_true, scores, **SPACE, bias=factor)
    assert _accuracies(display.calibrated_point_) == expected
    assert _accuracies(display.point_) == generalized_accuracy(y_true, scores, **SPACE)
    display.calibration_factor = None
    assert display.plot().calibrated_point_ is None


def test_two_curves_on_the_same_axes(plt, data):
    y_true, scores = data
    short = SeenUnseenCurveDisplay(
        acc_unseen=np.array([0, 0.1]),
        acc_seen=np.array([0.1, 0]),
        bias=np.array([-np.inf, 1]),
        ausuc=0.005,
    )
    first = short.plot(name="first")
    assert first is short
    second = SeenUnseenCurveDisplay.from_predictions(y_true, scores, **SPACE, ax=first.ax_)
    assert second.ax_ is first.ax_
    assert first.ax_.get_xlim()[0] == first.ax_.get_ylim()[0] == 0
    assert first.ax_.get_xlim()[1] > second.acc_unseen.max()
    assert first.ax_.get_ylim()[1] > second.acc_seen.max()
    texts = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert texts == ["first (AUSUC = 0.01)", f"AUSUC = {second.ausuc:.2f}"]
    assert first.line_.get_color() != second.line_.get_color()
    assert second.line_.get_color() == second.point_.get_color()


@pytest.mark.parametrize("kind", [SeenUnseenCurveDisplay, UnseenConfusionDisplay])
def test_without_matplotlib(no_matplotlib, data, kind):
    y_true, scores = data
    given = (y_true, y_true) if kind is UnseenConfusionDisplay else (y_true, scores)
    options = {} if kind is UnseenConfusionDisplay else SPACE
    message = rf"{kind.__name__} needs matplotlib.*pip install 'zslearn\[plot\]'"
    with pytest.raises(ImportError, match=message):
        kind.from_predictions(*given, **options)
