"""Splits of a person's own data: by parts, or by the unseen classes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from zslearn.datasets._class_split import PARTS, ClassSplit
from zslearn.datasets._table_reading import is_whole
from zslearn.datasets._text_tables import read_lines
from zslearn.utils import did_you_mean, hold_out_per_class, name_some


def read_unseen(source: Any, y: NDArray[Any]) -> list[Any]:
    """The unseen classes, as they stand in y: one label, several, or a file with one per line."""
    if isinstance(source, os.PathLike) or (isinstance(source, str) and Path(source).is_file()):
        names = list(read_lines(Path(source)))
    elif isinstance(source, str) or not hasattr(source, "__iter__"):
        names = [source]
    else:
        names = list(source)
    return [int(name) for name in names] if y.dtype.kind in "iu" and is_whole(names) else names


def split_by_parts(
    parts: Any, y: NDArray[Any], signatures: pd.DataFrame, version: str, where: str
) -> ClassSplit:
    """The split that says of each sample where it belongs."""
    parts = np.asarray(parts, dtype=object)
    if parts.shape != y.shape:
        shape = "" if parts.ndim == 1 else f", in an array of shape {parts.shape},"
        raise ValueError(
            f"{where}: part has {parts.size} entries{shape} for {y.size} labels; give one per "
            "sample."
        )
    used = ~pd.isna(parts) & (parts != "")
    unknown = sorted({str(part) for part in parts[used]} - set(PARTS))
    if unknown:
        raise ValueError(
            f"{where}: part holds {name_some(unknown)}; it may be train, test_seen, test_unseen or "
            "empty."
        )
    indices = {part: np.flatnonzero(used & (parts == part)) for part in PARTS}
    seen, unseen = (set(y[indices[part]].tolist()) for part in ("train", "test_unseen"))
    return ClassSplit(
        **indices,
        seen_classes=_in_order(seen, signatures, y),
        unseen_classes=_in_order(unseen, signatures, y),
        version=version,
    )


def split_by_classes(
    unseen: list[Any],
    y: NDArray[Any],
    signatures: pd.DataFrame,
    hold_out: float | None,
    random_state: Any,
    version: str,
    where: str,
) -> ClassSplit:
    """The split with these unseen classes, and a share of each other one held out."""
    present = set(y.tolist())
    if missing := [label for label in unseen if label not in present]:
        kind = type(next(iter(present), None)).__name__
        raise ValueError(
            f"{where}: unseen_classes names {name_some(missing)}, of which there are no samples; "
            f"labels are of type {kind}.{did_you_mean(missing[0], present)}"
        )
    is_unseen = np.isin(y, np.asarray(unseen))
    train = np.flatnonzero(~is_unseen)
    test_seen = np.empty(0, dtype=np.intp)
    if hold_out is not None:
        if not 0 < hold_out < 1:
            raise ValueError(
                f"{where}: hold_out={hold_out}; give a share between 0 and 1, or None."
            )
        codes = pd.factorize(y[train])[0]
        held = hold_out_per_class(codes, float(hold_out), check_random_state(random_state))
        train, test_seen = train[~held], train[held]
    return ClassSplit(
        train=train,
        test_seen=test_seen,
        test_unseen=np.flatnonzero(is_unseen),
        seen_classes=_in_order(present - set(unseen), signatures, y),
        unseen_classes=_in_order(set(unseen), signatures, y),
        version=version,
    )


def _in_order(labels: set[Any], signatures: pd.DataFrame, y: NDArray[Any]) -> NDArray[Any]:
    """Labels in the order of the signatures; those without one are left to the checks."""
    index = signatures.index.tolist() if isinstance(signatures, pd.DataFrame) else []
    known = [label for label in index if label in labels]
    known += sorted(labels.difference(known), key=str)
    return np.array(known, dtype=y.dtype)
