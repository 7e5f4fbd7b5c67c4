"""Checks of an estimator inside others: predicted exemplars, calibration, a search."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from zslearn.base import ZeroShotMetaClassifier
from zslearn.calibration import CalibratedStacking
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.synthesis import EXEM
from zslearn.utils.estimator_checks._problem import (
    ROUNDING,
    fail,
    fit,
    fitted,
    new_class,
    quiet,
    require,
    require_close,
    training_data,
    unused_rows,
)
from zslearn.utils.estimator_checks._variants import grid_settings, other_settings

_LOOK = "A wrapper clones the estimator, fits it on part of the data and reads its class_scorer_."


def check_inside_exem(estimator: Any) -> None:
    """`EXEM(estimator=…)` learns the method from predicted exemplars in place of signatures.

    An estimator that wraps another is refused, and the error says how to nest them instead.
    """
    wrapper = EXEM(n_components=6, estimator=clone(estimator))
    if not isinstance(estimator, ZeroShotMetaClassifier):
        _check_use(estimator, fit(wrapper, training_data("small")))
        return
    name = type(estimator).__name__
    look = f"The error must name the other order: {name}(EXEM(estimator=…))."
    try:
        fit(wrapper, training_data("small"))
    except (TypeError, ValueError) as error:
        require(f"{name}(EXEM(" in str(error), estimator, f"EXEM refuses it with: {error}", look)
    else:
        fail(estimator, "EXEM accepts an estimator that wraps another", look)


def check_inside_calibrated_stacking(estimator: Any) -> None:
    """`CalibratedStacking` lowers the scores of seen classes, and finds by how much.

    It is how a method is used in the generalized setting.
    """
    wrapper = fit(CalibratedStacking(clone(estimator), bias=0.25), training_data("small"))
    model = fitted(estimator, "small")
    lowered = 0.25 * np.isin(model.classes_, model.seen_classes_)
    require_close(
        estimator,
        wrapper.decision_function(unused_rows()),
        model.decision_function(unused_rows()) - lowered,
        "the scores inside CalibratedStacking(bias=0.25)",
        _LOOK,
        ROUNDING,
    )
    _check_use(estimator, wrapper)
    searched = fit(CalibratedStacking(clone(estimator), cv=2), training_data("small"))
    require(bool(np.isfinite(searched.bias_)), estimator, f"the factor is {searched.bias_}", _LOOK)
    _check_use(estimator, searched)


def check_inside_search(estimator: Any) -> None:
    """`ZeroShotSearchCV` searches it in both settings, and predicts as the best setting does.

    In the generalized setting it lowers the scores of the seen classes besides.
    """
    settings = (grid_settings(estimator) or [{}, *other_settings(estimator)])[-2:]
    grid = [{name: [value] for name, value in setting.items()} for setting in settings]
    for setting in ("zsl", "gzsl"):
        search = ZeroShotSearchCV(clone(estimator), grid, setting=setting, cv=2)
        fit(search, training_data("small"))
        alone = fitted(estimator, "small", **search.best_params_)
        seen = np.isin(alone.classes_, alone.seen_classes_)
        require_close(
            estimator,
            search.decision_function(unused_rows()),
            alone.decision_function(unused_rows()) - search.bias_ * seen,
            f"the scores of {search.best_params_}, which a search in setting {setting!r} chose,",
            _LOOK,
            ROUNDING,
        )
        _check_use(estimator, search)


def _check_use(estimator: Any, wrapper: Any) -> None:
    """A fitted wrapper predicts, and describes a class later, which then has scores."""
    name = type(wrapper).__name__
    predicted = wrapper.predict(unused_rows(), classes=wrapper.unseen_classes_)
    require(
        set(predicted.tolist()) <= set(wrapper.unseen_classes_.tolist()),
        estimator,
        f"inside {name}, what is predicted is not among the candidates",
        _LOOK,
    )
    with quiet():
        wrapper.add_classes(new_class())
    require(
        "zz-new" in wrapper.unseen_classes_,
        estimator,
        f"inside {name}, add_classes describes no class",
        _LOOK,
    )
    scores = wrapper.decision_function(unused_rows(), classes=["zz-new"])
    require(
        bool(np.isfinite(scores).all()),
        estimator,
        f"inside {name}, the scores of a class described later are not finite",
        _LOOK,
    )
