"""Types that a user's type checker must infer instead of `Any`; `make lint` checks this file."""

from __future__ import annotations

from typing import Any, assert_type

from numpy.typing import NDArray

from zslearn import EXEM
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import load_glyphs
from zslearn.model_selection import ZeroShotSearchCV


def calls() -> None:
    data = load_glyphs()
    X, y, S = data.X_train, data.y_train, data.signatures
    assert_type(X, NDArray[Any])
    assert_type(EXEM().fit(X, y, signatures=S), EXEM)
    model = assert_type(ESZSL().fit(X, y, signatures=S), ESZSL)
    assert_type(model.add_classes(S), ESZSL)
    assert_type(model.predict(X), NDArray[Any])
    assert_type(model.predict_top_k(X, 3)[0], NDArray[Any])
    assert_type(model.score(X, y), float)
    assert_type(model.seen_classes_, NDArray[Any])
    search = ZeroShotSearchCV(ESZSL(), "fast")
    assert_type(search.fit(X, y, signatures=S), ZeroShotSearchCV)
    assert_type(search.score(X, y), float)
    assert_type(CalibratedStacking(ESZSL()).fit(X, y, signatures=S), CalibratedStacking)
    assert_type(next(ESZSL().fit_grid(X, y, signatures=S, settings=[{}]))[1], ESZSL)
