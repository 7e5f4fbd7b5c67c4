"""What the last solve over some rows knew where it ended, for the next one to start with.

Scores and the pull of the rows do not depend on the penalty: a path over several penalties need not
compute them again at each start.
"""

from __future__ import annotations

from typing import NamedTuple

from zslearn.solvers._svm_rows import TrainingRows
from zslearn.utils import Array

# A table of all rows by all classes that is larger is not kept.
_KEPT_BYTES = 1 << 25


class KnownPoint(NamedTuple):
    """Coefficients, the scores they give, and how the violating rows pull at them."""

    base: Array
    scores: Array
    pull: Array


def remember(rows: TrainingRows, point: KnownPoint) -> None:
    """Keep a point beside the rows, if it is of all classes and not too large."""
    n_rows, n_classes = point.scores.shape
    if n_classes == rows.n_classes and 8 * n_rows * n_classes <= _KEPT_BYTES:
        rows.known_point = point


def recall(rows: TrainingRows, base: Array) -> KnownPoint | None:
    """The point that was kept, if it is this one; it is then no longer kept."""
    known, rows.known_point = rows.known_point, None
    if known is None or known.base.shape != base.shape:
        return None
    return known if bool(rows.xp.all(known.base == base)) else None
