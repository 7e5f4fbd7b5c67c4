"""What several softmax regressions of the same rows share; see `_logistic`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from zslearn._solvers.logistic._losses import CentredRows
from zslearn._solvers.svm._rows import TrainingRows
from zslearn._utils._array import Array, to_numpy
from zslearn._utils._device import block_budget, on_device

# Tables of rows by classes that a softmax regression holds at a time, and what they may take on the
# host before it does without.
_SOFTMAX_TABLES = 12
_SOFTMAX_BYTES = 1 << 31
# Rows in the vectors of a spectrum are held for several regressions where they take no more.
_TURNED_BYTES = 1 << 28


def softmax_spectrum(X: Any, y: Any, n_classes: int | None = None) -> tuple[Array, Array] | None:
    """What several softmax regressions of the same rows, or of many of them, can share."""
    rows = TrainingRows(X, np.asarray(to_numpy(y)), n_classes)
    if rows.basis is not None or too_large(rows):
        return None
    return CentredRows(rows).spectrum


def turned_rows(X: Any, spectrum: tuple[Array, Array] | None) -> Array | None:
    """Rows in the vectors of a spectrum, which regressions of them, or of some of them, can share."""
    if spectrum is None:
        return None
    # Labels play no part in it.
    rows = TrainingRows(X, np.zeros(X.shape[0], dtype=np.intp), 2)
    if rows.lazy or rows.basis is not None or 4 * math.prod(rows.shape) > _TURNED_BYTES:
        return None
    return CentredRows(rows, spectrum).single


def too_large(rows: TrainingRows) -> bool:
    """Whether tables of rows by classes are beyond what memory should hold.

    So they are where not even the rows are to be held.
    """
    if rows.lazy:
        return True
    tables = _SOFTMAX_TABLES * 8 * rows.shape[0] * rows.n_classes
    return tables > (2 * block_budget(rows.X) if on_device(rows.X) else _SOFTMAX_BYTES)
