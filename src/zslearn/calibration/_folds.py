"""Folds over the seen classes by which hyper-parameters, factor and temperature are found."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.utils import ClassKFold, GeneralizedClassKFold, warn_user

#: With fewer seen classes none can be left out: a fold leaves out two and trains on two.
FEWEST_CLASSES = 4

#: Rows to train on and rows to validate on.
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


def checked_folds(
    cv: Any, X: Any, y: NDArray[Any], *, generalized: bool, **options: Any
) -> list[Fold]:
    """The folds over the seen classes by which hyper-parameters and the factor are found.

    Parameters
    ----------
    cv : int, splitter or list of (train, test)
        Number of folds, no more than leaves two classes to each; or a splitter; or the rows.
    X : array of shape (n_samples, n_features)
        Samples, for the splitter.
    y : ndarray of shape (n_samples,)
        Class labels.
    generalized : bool
        Whether images of the classes that a fold trains on are validated, too.
    **options : dict
        Passed to the splitter that a number stands for.

    Returns
    -------
    list of (train, test)
        Each fold leaves out whole classes and trains on two or more.
    """
    splitter = GeneralizedClassKFold if generalized else ClassKFold
    if isinstance(cv, Integral):
        # At least two classes are left out in a fold: among one there is nothing to choose.
        cv = splitter(min(int(cv), len(np.unique(y)) // 2), **options)
    folds = cv.split(X, y) if hasattr(cv, "split") else cv
    checked = [(np.asarray(train), np.asarray(test)) for train, test in folds]
    for number, (train, test) in enumerate(checked):
        kept, tested = np.unique(y[train]), np.unique(y[test])
        left_out = np.setdiff1d(tested, kept)
        if len(kept) < 2 or len(left_out) == 0:
            raise ValueError(
                f"Fold {number} of cv trains on {len(kept)} classes and leaves out "
                f"{len(left_out)}; it must train on two or more and leave out whole classes. "
                f"Use {splitter.__name__}."
            )
        if generalized and len(left_out) == len(tested):
            raise ValueError(
                f"Fold {number} of cv validates no image of a class that it trains on, which "
                f"the generalized setting needs. Use {splitter.__name__}."
            )
        if not generalized and len(left_out) == 1:
            warn_user(f"Fold {number} of cv leaves out one class: it tells nothing.")
    return checked
