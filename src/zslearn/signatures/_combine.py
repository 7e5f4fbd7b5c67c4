"""Signatures of several sources in one table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from zslearn.signatures._normalize import normalize_signatures
from zslearn.signatures._views import SignatureViews, _convex
from zslearn.utils import name_some, warn_user


def combine_signatures(
    tables: Sequence[pd.DataFrame], weights: Sequence[float] | None = None
) -> pd.DataFrame:
    """Put signatures of several sources side by side, as one table.

    Each table is normalised by itself, over all classes that are kept, and multiplied by the
    square root of its weight, so that inner products are the convex combination of those of the
    sources. This is what a method that needs vectors makes of :class:`MultiSignatures`; a method
    that combines kernels, as the paper's do, is better given these.

    Parameters
    ----------
    tables : sequence of DataFrame
        One row per class; the index holds the labels. Classes that a table lacks are left out, and
        a warning names them.
    weights : sequence of float or None, default=None
        Non-negative weights, divided by their sum; None: equal ones.

    Returns
    -------
    DataFrame
        One row per class that all tables describe, in the order of the first.

    See Also
    --------
    MultiSignatures : Keeps the sources apart.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.signatures import combine_signatures
    >>> words = pd.DataFrame({"w": [1.0, -1.0]}, index=["cat", "dog"])
    >>> tree = pd.DataFrame({"a": [3.0, 0.0], "b": [0.0, 3.0]}, index=["dog", "cat"])
    >>> combine_signatures([words, tree], weights=[1, 3]).round(3)
         1: w   2: a   2: b
    cat  0.25  0.000  0.612
    dog -0.25  0.612  0.000
    """
    listed = list(tables)
    if not listed:
        raise ValueError("There is no table to combine.")
    shares = tuple(_convex(weights, [str(i) for i in range(len(listed))]).values())
    for number, table in enumerate(listed, 1):
        if not table.index.is_unique:
            twice = table.index[table.index.duplicated()].unique()
            raise ValueError(f"Table {number} describes {name_some(twice)} more than once.")
    common = listed[0].index
    for table in listed[1:]:
        common = common[common.isin(table.index)]
    if not len(common):
        raise ValueError("The tables have no class in common.")
    every = dict.fromkeys(label for table in listed for label in table.index)
    if len(every) > len(common):
        lost = [label for label in every if label not in common]
        warn_user(
            f"{len(lost)} of {len(every)} classes are not in every table and are left out: "
            f"{name_some(lost)}."
        )
    arrays = tuple(
        normalize_signatures(table.loc[common].to_numpy(dtype=np.float64)) for table in listed
    )
    columns = [
        f"{number}: {column}" for number, table in enumerate(listed, 1) for column in table.columns
    ]
    rows = SignatureViews(arrays, shares).concatenate()
    return pd.DataFrame(rows, index=common, columns=columns)
