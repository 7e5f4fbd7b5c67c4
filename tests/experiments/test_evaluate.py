from __future__ import annotations

import numpy as np
import pytest

from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.experiments import METHODS, evaluate
from zslearn.metrics import ausuc, per_class_accuracy


def test_numbers_of_an_evaluation(problem):
    found = evaluate("mine", ESZSL(), problem)
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    stacked = CalibratedStacking(ESZSL()).fit(
        problem.X_train, problem.y_train, signatures=problem.signatures
    )
    predicted = model.predict(problem.X_test_unseen, classes=problem.unseen_classes)
    assert found.accuracy == per_class_accuracy(problem.y_test_unseen, predicted)
    for part, plain, calibrated in (
        ("seen", found.seen, found.calibrated_seen),
        ("unseen", found.unseen, found.calibrated_unseen),
    ):
        X, y = getattr(problem, f"X_test_{part}"), getattr(problem, f"y_test_{part}")
        assert plain == pytest.approx(per_class_accuracy(y, model.predict(X)))
        assert calibrated == pytest.approx(per_class_accuracy(y, stacked.predict(X)))
    assert found.bias == stacked.bias_
    assert found.harmonic == pytest.approx(
        2 * found.seen * found.unseen / (found.seen + found.unseen)
    )
    X = np.concatenate([problem.X_test_seen, problem.X_test_unseen])
    y = np.concatenate([problem.y_test_seen, problem.y_test_unseen])
    assert found.ausuc == ausuc(
        y, model.decision_function(X), classes=model.classes_, seen_classes=model.seen_classes_
    )
    assert "scores" not in found.row()
    assert found.seconds > 0


def test_methods_make_what_they_name():
    assert "ESZSL" in METHODS
    for make in METHODS.values():
        assert hasattr(make(), "add_classes")
