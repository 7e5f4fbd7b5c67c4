"""The objective of the multi-class SVM, to compare solutions by."""

from __future__ import annotations

from zslearn._solvers.svm._multiclass import loss_and_slope
from zslearn._solvers.svm._rows import TrainingRows
from zslearn._utils._array import to_numpy


def multiclass_svm_objective(
    X, y, coef, *, alpha, loss="squared_hinge", margins=None, sample_weight=None
):
    """The objective of `multiclass_svm`, without mixing."""
    rows = TrainingRows(X, y, coef.shape[0], sample_weight=sample_weight)
    coef = rows.asarray(coef)
    penalty = 0.5 * alpha * float(rows.xp.sum(coef * coef))
    scores = to_numpy(rows.scores(rows.rotated(coef)))
    weights = rows.sample_weight
    return loss_and_slope(scores, rows.y, loss, margins, sample_weight=weights)[0] + penalty
