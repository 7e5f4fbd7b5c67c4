"""Checks of weighted samples, and of classes that several threads describe."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from zslearn.base import AcceptsSampleWeight
from zslearn.utils.estimator_checks._problem import (
    SOLVER_TOLERANCE,
    fitted,
    problem,
    quiet,
    require,
    require_close,
    training_data,
    unused_rows,
)
from zslearn.utils.estimator_checks._variants import solved

#: Threads that describe classes, and how many each describes.
_THREADS, _CLASSES = 4, 5


def check_sample_weight(estimator: Any) -> None:
    """Where `fit` takes `sample_weight`, a weight of 2 is a sample that is there twice.

    And a sample of weight 0 is not there. Of a method without the parameter nothing is asked, nor
    of wrappers, whose folds deal samples.
    """
    if not isinstance(estimator, AcceptsSampleWeight):
        return
    data = training_data("small")
    weights = np.random.default_rng(0).integers(0, 4, len(data.y))
    plain = clone(estimator).set_params(**solved(estimator))
    repeated = np.repeat(np.arange(len(data.y)), weights)
    with quiet():
        weighted = clone(plain).fit(
            data.X, data.y, signatures=data.signatures, sample_weight=weights
        )
        there_often = clone(plain).fit(
            data.X[repeated], data.y[repeated], signatures=data.signatures
        )
    require_close(
        estimator,
        weighted.decision_function(unused_rows()),
        there_often.decision_function(unused_rows()),
        "the scores of a fit with whole weights, compared with samples repeated so often,",
        "Read training.weights wherever samples are counted or summed; training.sizes for counts.",
        SOLVER_TOLERANCE,
    )


def check_classes_from_threads(estimator: Any) -> None:
    """Threads that describe classes at the same time lose none of them.

    A service describes classes while it predicts, each request in a thread of its own.
    """
    model = copy.deepcopy(fitted(estimator))
    known = problem().signatures
    rng = np.random.default_rng(0)
    tables = [
        pd.DataFrame(
            rng.dirichlet(np.ones(len(known)), _CLASSES) @ known.to_numpy(),
            index=[f"zz-{thread}-{i}" for i in range(_CLASSES)],
            columns=known.columns,
        )
        for thread in range(_THREADS)
    ]

    def describe(table: pd.DataFrame) -> None:
        for label in table.index:
            model.add_classes(table.loc[[label]])

    with quiet(), ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(describe, tables))
    lost = set().union(*(table.index for table in tables)) - set(model.classes_.tolist())
    require(
        not lost,
        estimator,
        f"of {_THREADS * _CLASSES} classes that {_THREADS} threads described, {len(lost)} are lost",
        "add_classes of the base holds a lock; describe classes through it.",
    )
