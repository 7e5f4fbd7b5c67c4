"""A check of model files."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

from zslearn import persistence
from zslearn.utils.estimator_checks._problem import (
    fail,
    fitted,
    new_class,
    quiet,
    require,
    require_equal,
    unused_rows,
)


def check_saving(estimator: Any) -> None:
    """A model that is saved by `zslearn.save` and loaded predicts the same, to the last digit.

    So do its probabilities, where it has them, and it is the same after classes are added. A class
    from outside the library is registered first, as its users do.
    """
    look = (
        "Keep what fit learns in attributes that are numbers, texts, arrays, lists, dicts or "
        "estimators; call zslearn.persistence.register with other classes that you keep."
    )
    if not type(estimator).__module__.startswith("zslearn."):
        persistence.register(type(estimator))
    model = fitted(estimator)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.zsl")
        try:
            persistence.save(model, path)
        except persistence.CannotSaveError as error:
            fail(estimator, f"the model cannot be saved: {error}", look)
        try:
            again = persistence.load(path)
        except persistence.ModelFileError as error:
            fail(estimator, f"the model cannot be loaded: {error}", look)
    require(type(again) is type(model), estimator, f"a {type(again).__name__} is loaded", look)
    _require_same(estimator, again, model, "after saving", look)
    added = copy.deepcopy(model)
    with quiet():
        added.add_classes(new_class())
        again.add_classes(new_class())
    _require_same(estimator, again, added, "after saving and add_classes", look)


def _require_same(estimator: Any, again: Any, model: Any, when: str, look: str) -> None:
    """Fail unless two models predict the same."""
    X = unused_rows()
    for name in ("classes_", "seen_classes_", "unseen_classes_"):
        require_equal(estimator, getattr(again, name), getattr(model, name), f"{name} {when}", look)
    for name in ("decision_function", "predict", "predict_proba"):
        if hasattr(model, name):
            actual, expected = getattr(again, name)(X), getattr(model, name)(X)
            require_equal(estimator, actual, expected, f"what {name} gives {when}", look)
    for actual, expected in zip(
        again.predict_top_k(X, k=3), model.predict_top_k(X, k=3), strict=True
    ):
        require_equal(estimator, actual, expected, f"what predict_top_k gives {when}", look)
