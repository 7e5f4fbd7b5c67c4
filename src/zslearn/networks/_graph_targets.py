"""Classifier rows of the seen classes, which graph methods learn to make of the class graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from zslearn.base import Training
from zslearn.solvers import SVMLoss, TrainingRows, class_means, train_multiclass_svm
from zslearn.utils import Floats, name_some, to_numpy, unit_rows

_LOSSES: dict[str, SVMLoss] = {
    "ovo": "squared_hinge",
    "cs": "crammer_singer",
    "struct": "crammer_singer",
}
# Gap of the classifiers, as a share of their objective: below what their directions can tell.
_TOLERANCE = 1e-3


def target_rows(training: Training, targets: Any, alpha: float) -> Floats:
    """Rows of unit norm, one per seen class.

    Parameters
    ----------
    training : Training
        What is known of the seen classes.
    targets : {"ovo", "cs", "struct", "mean"}, DataFrame, mapping or array
        As the hyper-parameter of graph methods.
    alpha : float
        Penalty of classifiers that are trained here.

    Returns
    -------
    ndarray of shape (n_seen, n_features) or (n_seen, n_features + 1)
        The wider form has intercepts in its last column.
    """
    if isinstance(targets, str):
        rows = _learned_rows(training, targets, alpha)
    else:
        rows = _user_rows(training, targets)
    return unit_rows(rows)


def _learned_rows(training: Training, kind: str, alpha: float) -> Floats:
    """Class means, or the W of SynC's objectives, which need no signatures but for "struct"."""
    if kind == "mean":
        return to_numpy(class_means(training.X, training.y, training.n_seen))
    margins = cdist(training.signatures, training.signatures) if kind == "struct" else None
    found = train_multiclass_svm(
        TrainingRows(training.X, training.y, training.n_seen),
        alpha=alpha,
        loss=_LOSSES[kind],
        margins=margins,
        tol=_TOLERANCE,
        random_state=0,
    )
    return np.asarray(to_numpy(found.coef), dtype=np.float64)


def _user_rows(training: Training, targets: Any) -> Floats:
    """Rows that a user gave, in the order of the seen classes."""
    labels = training.classes.tolist()
    if isinstance(targets, Mapping):
        targets = pd.DataFrame.from_dict(dict(targets), orient="index")
    if isinstance(targets, pd.DataFrame):
        if not targets.index.is_unique:
            twice = targets.index[targets.index.duplicated()].unique().tolist()
            raise ValueError(f"targets has more than one row for {name_some(twice)}: keep one.")
        lost = [label for label in labels if label not in targets.index]
        if lost:
            raise ValueError(
                f"targets lacks rows for {len(lost)} of the {len(labels)} seen classes: "
                f"{name_some(lost)}. Its index must hold the labels of y."
            )
        targets = targets.loc[labels]
    rows = np.asarray(to_numpy(targets), dtype=np.float64)
    n_features = training.X.shape[1]
    if rows.ndim != 2 or len(rows) != len(labels):
        raise ValueError(
            f"targets must have one row for each of the {len(labels)} seen classes, in the order "
            f"of np.unique(y); got shape {rows.shape}. A DataFrame whose index holds the labels "
            "may have rows of further classes."
        )
    if rows.shape[1] not in (n_features, n_features + 1):
        raise ValueError(
            f"targets has {rows.shape[1]} columns: give {n_features}, one per feature, or "
            f"{n_features + 1}, with the intercepts behind them."
        )
    if not np.isfinite(rows).all():
        bad = training.classes[~np.isfinite(rows).all(axis=1)]
        raise ValueError(f"targets holds NaN or infinity in the rows of {name_some(bad.tolist())}.")
    return rows
