from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import make_zero_shot
from zslearn.metrics import (
    ReliabilityDisplay,
    VarianceDisplay,
    expected_calibration_error,
    reliability_curve,
)
from zslearn.synthesis import GaussianEXEM

CLASSES = np.array(["a", "b", "c"])


def _drawn(n, sharpness=1.0):
    """Labels drawn from calibrated probabilities, and powers of these probabilities."""
    rng = np.random.default_rng(0)
    calibrated = rng.dirichlet(np.ones(3), size=n)
    y = CLASSES[(rng.random(n)[:, None] > calibrated.cumsum(axis=1)).sum(axis=1)]
    powered = calibrated**sharpness
    return y, powered / powered.sum(axis=1, keepdims=True)


def test_by_hand():
    y = ["a", "b", "c", "c"]
    probabilities = [[0.5, 0.3, 0.2], [0.1, 0.9, 0.0], [0.05, 0.95, 0.0], [0.0, 0.0, 1.0]]
    confidence, accuracy, counts = reliability_curve(y, probabilities, classes=CLASSES, n_bins=2)
    np.testing.assert_allclose(confidence, [0.5, 0.95])
    np.testing.assert_allclose(accuracy, [1.0, 2 / 3])
    assert counts.tolist() == [1, 3]
    error = expected_calibration_error(y, probabilities, classes=CLASSES, n_bins=2)
    assert error == pytest.approx(0.25 * 0.5 + 0.75 * (0.95 - 2 / 3))


def test_calibrated_probabilities_have_a_small_error():
    y, probabilities = _drawn(20000)
    assert expected_calibration_error(y, probabilities, classes=CLASSES) < 0.02
    for sharpness in (0.3, 3.0):
        y, probabilities = _drawn(20000, sharpness)
        assert expected_calibration_error(y, probabilities, classes=CLASSES) > 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probabilities": [[0.5, 0.6, 0.2]]}, "sum to 1"),
        ({"probabilities": [[np.nan, 0.6, 0.4]]}, "sum to 1"),
        ({"probabilities": [[0.5, 0.5]]}, "one column per class, 3"),
        ({"probabilities": [[0.2, 0.5, 0.3]] * 2}, "one entry per sample"),
        ({"y_true": ["d"]}, "not in classes"),
        ({"n_bins": 0}, "n_bins must be at least 1"),
    ],
)
def test_errors(options, message):
    given = {"y_true": ["a"], "probabilities": [[0.2, 0.5, 0.3]], "classes": CLASSES}
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(**{**given, **options})


def test_display_from_predictions(plt):
    y, probabilities = _drawn(300, 2.0)
    display = ReliabilityDisplay.from_predictions(y, probabilities, classes=CLASSES, name="mine")
    confidence, accuracy, counts = reliability_curve(y, probabilities, classes=CLASSES)
    np.testing.assert_array_equal(display.line_.get_xdata(), confidence)
    np.testing.assert_array_equal(display.line_.get_ydata(), accuracy)
    sizes = display.markers_.get_sizes()
    np.testing.assert_allclose(sizes / sizes.sum(), counts / counts.sum())
    error = expected_calibration_error(y, probabilities, classes=CLASSES)
    assert display.line_.get_label() == f"mine (ECE = {error:.2f})"
    again = ReliabilityDisplay.from_predictions(
        y, probabilities, classes=CLASSES, ax=display.ax_, color="red", n_bins=5
    )
    assert again.ax_ is display.ax_
    assert again.line_.get_color() == "red"
    assert again.line_.get_label().startswith("ECE")
    assert len(again.confidence) <= 5


def test_display_from_estimator(plt, problem):
    model = CalibratedStacking(ESZSL(), temperature="cv").fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )
    X, y, unseen = problem.X_test_unseen, problem.y_test_unseen, problem.unseen_classes
    display = ReliabilityDisplay.from_estimator(model, X, y, classes=unseen)
    expected = reliability_curve(y, model.predict_proba(X, classes=unseen), classes=unseen)
    np.testing.assert_array_equal(display.accuracy, expected[1])
    assert display.line_.get_label().startswith("CalibratedStacking (ECE")
    whole = ReliabilityDisplay.from_estimator(model, X, y)
    assert whole.counts.sum() == len(y)


def test_variances(plt):
    data = make_zero_shot(random_state=0)
    model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    display = VarianceDisplay.from_estimator(model, color="red")
    points = np.asarray(display.points_.get_offsets())
    np.testing.assert_allclose(
        points, np.column_stack([model.predicted_variances_, model.observed_variances_])
    )
    low, high = (np.asarray(data) for data in display.diagonal_.get_data())
    np.testing.assert_array_equal(low, high)
    ratio = model.observed_variances_.sum() / model.predicted_variances_.sum()
    assert display.points_.get_label() == f"GaussianEXEM (observed / predicted = {ratio:.2f})"
    with pytest.raises(NotFittedError):
        VarianceDisplay.from_estimator(GaussianEXEM())
