from __future__ import annotations

import numpy as np
import pytest

from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.experiments import evaluate
from zslearn.experiments._evaluate import GeneralizedScores, by_class
from zslearn.metrics import ausuc, per_class_accuracy


def test_numbers_of_an_evaluation(problem):
    found = evaluate(ESZSL(), problem)
    assert found.method == "ESZSL"
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    stacked = CalibratedStacking(ESZSL()).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )
    predicted = model.predict(problem.X_test_unseen, classes=problem.unseen_classes)
    assert found.metrics["per_class_accuracy"] == per_class_accuracy(
        problem.y_test_unseen, predicted
    )
    assert found.metrics["per_sample_accuracy"] == np.mean(predicted == problem.y_test_unseen)
    for part in ("seen", "unseen"):
        X, y = getattr(problem, f"X_test_{part}"), getattr(problem, f"y_test_{part}")
        plain = per_class_accuracy(y, model.predict(X))
        calibrated = per_class_accuracy(y, stacked.predict(X))
        assert found.metrics[part] == pytest.approx(plain)
        assert found.metrics[f"calibrated_{part}"] == pytest.approx(calibrated)
    assert found.bias == stacked.bias_
    seen, unseen = found.metrics["seen"], found.metrics["unseen"]
    assert found.metrics["harmonic"] == pytest.approx(2 * seen * unseen / (seen + unseen))
    assert found.metrics["harmonic_best"] >= found.metrics["calibrated_harmonic"]
    X = np.concatenate([problem.X_test_seen, problem.X_test_unseen])
    y = np.concatenate([problem.y_test_seen, problem.y_test_unseen])
    assert found.metrics["ausuc"] == ausuc(
        y, model.decision_function(X), classes=model.classes_, seen_classes=model.seen_classes_
    )
    assert found.seconds > 0


def test_a_fitted_model_is_measured_as_it_is(problem):
    fitted = ESZSL(alpha_features=100.0)
    fitted.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    found = evaluate(fitted, problem)
    assert found.model is fitted
    assert found.bias is found.seconds is None
    wanted = evaluate(ESZSL(alpha_features=100.0), problem)
    shared = {n: v for n, v in wanted.metrics.items() if "calibra" not in n}
    assert found.metrics == shared
    assert "calibrat" not in str(found).replace("without calibration", "")


def test_on_a_tie_with_the_factor_the_unseen_class_wins():
    """The records of an evaluation agree with the curve and with the calibrated accuracies."""
    scores = GeneralizedScores(
        y_true=np.array(["a", "a", "u", "u"]),
        # Binary fractions: differences and sums are exact.
        scores=np.array([[2.0, 1.0], [1.5, 1.0], [1.5, 1.0], [1.25, 1.0]]),
        classes=np.array(["a", "u"]),
        seen_classes=np.array(["a"]),
    )
    for bias in (0.0, 0.25, 0.5, 1.0):
        found = scores.measure(bias)
        of_class = by_class(scores.y_true, scores.predict(bias), scores.classes)["per_class"]
        assert of_class["a"] == found["calibrated_seen"]
        assert of_class["u"] == found["calibrated_unseen"]
    assert scores.predict(0.5).tolist() == ["a", "u", "u", "u"]


def test_a_printout_fits_a_screen(problem):
    found = evaluate(ESZSL(), problem, name="a name " * 20)
    for text in (str(found), repr(found)):
        lines = text.splitlines()
        assert len(lines) < 24
        assert max(map(len, lines)) <= 80
        assert lines[0].endswith("…>")
    assert f"{found.metrics['ausuc']:.3f}" in text
    assert f"{found.metrics['calibrated_harmonic']:.3f}" in text


def test_an_inner_method_is_named(problem):
    found = evaluate(CalibratedStacking(ESZSL(), bias=0.1), problem)
    assert found.method == "CalibratedStacking (ESZSL)"
