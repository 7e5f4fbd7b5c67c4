"""Checks of what a fitted estimator predicts."""

from __future__ import annotations

import importlib
import pickle
import tempfile
from pathlib import Path
from typing import Any
from unittest import SkipTest
from unittest.mock import patch

import numpy as np
from sklearn.base import clone

from zslearn.utils import to_numpy
from zslearn.utils.estimator_checks._problem import (
    ROUNDING,
    SOLVER_TOLERANCE,
    fail,
    fit,
    fitted,
    new_class,
    problem,
    quiet,
    require,
    require_close,
    require_equal,
    training_data,
    unused_rows,
)


def check_repeatable(estimator: Any) -> None:
    """A second fit gives the same scores, to the last digit.

    Chance comes from `random_state` alone, whose default is a number.
    """
    again = fit(clone(estimator), training_data())
    require_equal(
        estimator,
        again.decision_function(unused_rows()),
        fitted(estimator).decision_function(unused_rows()),
        "the scores of a second fit",
        "Draw random numbers from check_random_state(self.random_state) only.",
    )


def check_better_than_chance(estimator: Any) -> None:
    """On an easy problem, unseen and seen classes are recognised more often than by guessing.

    A sign that is wrong somewhere passes every other check.
    """
    model, data = fitted(estimator), problem()
    for kind, X, y, classes, factor in (
        ("unseen", data.X_test_unseen, data.y_test_unseen, data.unseen_classes, 1.5),
        ("seen", data.X_test_seen, data.y_test_seen, data.seen_classes, 3.0),
    ):
        accuracy = model.score(X, y, classes=classes)
        require(
            accuracy > factor / len(classes),
            estimator,
            f"the accuracy among {len(classes)} {kind} classes is {accuracy:.3f}",
            "Look at the signs of the scores, and whether embed and synthesize lead to one space.",
        )


def check_candidates(estimator: Any) -> None:
    """`classes` chooses columns of the scores, and what `predict` may name.

    Scores of a class do not depend on which others are candidates, nor does a prediction on the
    order in which they are named.
    """
    model, X = fitted(estimator), unused_rows()
    positions = [7, 0, 11]
    chosen = model.classes_[positions]
    scores = model.decision_function(X, classes=chosen)
    look = "Leave decision_function and predict to the base class."
    full = model.decision_function(X)[:, positions]
    require_close(estimator, scores, full, "the scores of three candidates", look, ROUNDING)
    predicted = model.predict(X, classes=chosen)
    outside = set(predicted.tolist()) - set(chosen.tolist())
    require(not outside, estimator, f"{sorted(outside)} are named and no candidates", look)
    ordered = np.sort(scores, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > ROUNDING * np.abs(scores).max()
    best = chosen[np.argmax(scores, axis=1)]
    require_equal(estimator, predicted[clear], best[clear], "the best of three candidates", look)
    require_equal(
        estimator,
        model.predict(X, classes=chosen[::-1]),
        predicted,
        "what is predicted with the candidates in the opposite order",
        look,
    )


def check_top_k(estimator: Any) -> None:
    """`predict_top_k` names the classes with the highest scores, best first, each once.

    It never makes the matrix of all scores, and must agree with it.
    """
    model, X = fitted(estimator), unused_rows()
    labels, scores = model.predict_top_k(X, k=3)
    look = "Leave predict_top_k to the base class; embed must treat each row by itself."
    best = -np.sort(-model.decision_function(X), axis=1)[:, :3]
    require_close(estimator, scores, best, "the three best scores", look, ROUNDING)
    require_equal(estimator, labels[:, 0], model.predict(X), "the first of the best", look)
    twice = [row for row in labels.tolist() if len(set(row)) < 3]
    require(not twice, estimator, f"a class is named twice for a sample: {twice[:1]}", look)


def check_float32(estimator: Any) -> None:
    """Features in single precision give scores in single precision that agree with those of double.

    Features are often stored so; a method that turns them into float64 doubles its memory.
    """
    double = fitted(estimator).decision_function(unused_rows())
    model = fitted(estimator, "float32")
    single = model.decision_function(unused_rows().astype(np.float32))
    look = "Make arrays in embed and synthesize in the dtype of X; sum in double precision."
    require(
        single.dtype == np.float32,
        estimator,
        f"features of float32 give scores of {single.dtype}",
        look,
    )
    require_close(estimator, single, double, "the scores of float32", look, 2e-3)


def check_small_blocks(estimator: Any) -> None:
    """Little memory gives the same: rows are taken in blocks, also from a file.

    Predictions are the same; a model that is fitted in blocks may differ by rounding.
    """
    model, X = fitted(estimator), unused_rows()
    data = training_data()
    with tempfile.TemporaryDirectory() as folder:
        mapped = []
        for name, rows in (("train", data.X), ("test", X)):
            np.save(Path(folder, f"{name}.npy"), rows)
            mapped.append(np.load(Path(folder, f"{name}.npy"), mmap_mode="r"))
        with patch("zslearn.utils._blocks.BLOCK_BYTES", 20_000):
            predicted = model.predict(mapped[1])
            in_blocks = fit(clone(estimator), data._replace(X=mapped[0]))
            scores = in_blocks.decision_function(mapped[1])
        del mapped, rows
    require_equal(
        estimator,
        predicted,
        model.predict(X),
        "what is predicted block by block",
        "embed must treat each row by itself.",
    )
    require_close(
        estimator,
        scores,
        model.decision_function(X),
        "the scores of a model that is fitted block by block",
        "Look at what _fit does with zslearn.utils.row_blocks, and at rows that it changes.",
        SOLVER_TOLERANCE,
    )


def check_pickling(estimator: Any) -> None:
    """A pickled model predicts the same, and classes can be added to it alone.

    Models travel to the processes of a search, and to disk.
    """
    model, X = fitted(estimator), unused_rows()
    look = "Keep nothing that cannot be pickled: no lambda, open file or generator."
    try:
        again = pickle.loads(pickle.dumps(model))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        fail(estimator, f"the model cannot be pickled: {error}", look)
    require_equal(
        estimator, again.decision_function(X), model.decision_function(X), "the scores", look
    )
    with quiet():
        again.add_classes(new_class())
    require("zz-new" in again.classes_, estimator, "add_classes after pickling adds none", look)
    require("zz-new" not in model.classes_, estimator, "the copy shares its classes", look)


def check_n_jobs(estimator: Any) -> None:
    """`n_jobs` changes how long it takes, and no number.

    Else results could not be compared between machines.
    """
    if "n_jobs" not in estimator.get_params(deep=False):
        raise SkipTest("has no n_jobs")
    alone = fitted(estimator, n_jobs=1).decision_function(unused_rows())
    require_close(
        estimator,
        fitted(estimator, n_jobs=2).decision_function(unused_rows()),
        alone,
        "the scores with n_jobs=2, compared with n_jobs=1,",
        "Cut the work into pieces that do not depend on n_jobs.",
        1e-12,
    )


def check_torch(estimator: Any) -> None:
    """Tensors of torch go in and come out, with the same numbers as NumPy's arrays.

    Skipped where torch is not installed.
    """
    _check_library(estimator, "torch")


def check_array_api_strict(estimator: Any) -> None:
    """Nothing beyond the array API standard is asked of arrays that are not NumPy's.

    The package `array_api_strict` offers the standard and no more; skipped where it is missing.
    """
    _check_library(estimator, "array_api_strict")


def _check_library(estimator: Any, library: str) -> None:
    try:
        xp = importlib.import_module(library)
    except ImportError as error:
        raise SkipTest(f"needs {library}") from error
    rows = unused_rows()
    foreign = xp.asarray(unused_rows())
    data = training_data()
    expected = fitted(estimator).decision_function(rows)
    model = fit(clone(estimator), data._replace(X=xp.asarray(data.X)))
    scores = model.decision_function(foreign)
    look = (
        "Take functions from array_api_compat.array_namespace(X), bring arrays to X with "
        "zslearn.utils.move_like and to NumPy with zslearn.utils.to_numpy."
    )
    require(
        type(scores) is type(foreign),
        estimator,
        f"X of {type(foreign).__name__} gives scores of {type(scores).__name__}",
        look,
    )
    require_close(estimator, scores, expected, f"the scores with {library}", look, 1e-6)
    require_equal(
        estimator,
        model.predict(foreign),
        fitted(estimator).predict(rows),
        f"what is predicted with {library}",
        look,
    )
    require_close(
        estimator,
        to_numpy(model.decision_function(rows)),
        expected,
        f"the scores of NumPy's rows by a model fitted with {library}",
        look,
        1e-6,
    )
