from __future__ import annotations

import numpy as np
import pytest

from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.experiments import evaluate
from zslearn.experiments._methods import METHODS
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


def test_methods_make_what_they_name():
    assert "ESZSL" in METHODS
    for name, method in METHODS.items():
        assert method.name == name
        assert hasattr(method.make(), "add_classes")


def test_the_name_may_still_come_first(problem):
    wanted = evaluate(ESZSL(), problem, name="mine")
    assert wanted.method == "mine"
    with pytest.warns(FutureWarning, match=r"is now evaluate\(estimator, data\)") as caught:
        found = evaluate("mine", ESZSL(), problem)
    assert caught[0].filename == __file__
    assert (found.method, found.metrics) == ("mine", wanted.metrics)
    with pytest.warns(FutureWarning, match=r"name='mine'"):
        found = evaluate(method="mine", estimator=ESZSL(), data=problem, cv=3)
    assert found.metrics["seen"] == wanted.metrics["seen"]


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
