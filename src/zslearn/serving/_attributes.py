"""The attributes of a model as one list, whatever views its signatures have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zslearn.serving._refusals import Refusal
from zslearn.signatures import SignatureTable
from zslearn.utils import Floats, did_you_mean, plain

#: Larger values are of no use to any method, and their squares are of none to a computer.
LARGEST = 1e15


@dataclass(frozen=True, eq=False)
class Attributes:
    """Names and ranges of what classes are described by.

    Parameters
    ----------
    names : tuple of str
        No two are the same.
    lows, highs : ndarray of shape (n_attributes,)
        The smallest and the largest value of the classes in the model file.
    """

    names: tuple[str, ...]
    lows: Floats
    highs: Floats

    @classmethod
    def of(cls, table: SignatureTable) -> Attributes:
        """The attributes of a table, one view after the other."""
        names: list[str] = []
        for view, columns, array in zip(table.names, table.columns, table.arrays, strict=True):
            plain_names = range(array.shape[1]) if columns is None else columns
            names += [f"{view}: {name}" if view else str(name) for name in plain_names]
        taken: dict[str, int] = {}
        for place, name in enumerate(names):
            taken[name] = count = taken.get(name, 0) + 1
            if count > 1:
                names[place] = f"{name} ({count})"
        values = np.concatenate(table.arrays, axis=1)
        return cls(tuple(names), values.min(axis=0), values.max(axis=0))

    def values(self, given: Mapping[str, float] | Sequence[float], start: Floats | None) -> Floats:
        """One vector of what a request says.

        Parameters
        ----------
        given : mapping of str to float, or sequence of float
            Values by name, or all of them in order.
        start : ndarray or None
            What attributes that are not named have; None asks for all.
        """
        if isinstance(given, Mapping):
            values = np.full(len(self.names), np.nan) if start is None else start.copy()
            places = {name: place for place, name in enumerate(self.names)}
            for name, value in given.items():
                if name not in places:
                    near = did_you_mean(name, self.names)
                    raise Refusal(422, f"There is no attribute {plain(name, 100)!r}.{near}")
                values[places[name]] = value
            if np.isnan(values).any():
                missing = self.names[int(np.flatnonzero(np.isnan(values))[0])]
                raise Refusal(
                    422,
                    f"The attribute {missing!r} has no value: give all {len(self.names)}, or name "
                    "a class to begin with (like).",
                )
        else:
            if len(given) != len(self.names):
                raise Refusal(
                    422, f"{len(given)} attributes were given; there are {len(self.names)}."
                )
            values = np.asarray(given, dtype=np.float64)
        if not np.isfinite(values).all() or np.abs(values).max(initial=0) > LARGEST:
            raise Refusal(422, f"Attributes must be finite and at most {LARGEST:.0e}.")
        if not values.any():
            raise Refusal(422, "Every attribute is 0, which describes nothing.")
        return values


def row_of(table: SignatureTable, label: Any) -> Floats:
    """The attributes of a class, one view after the other."""
    place = table.labels.tolist().index(label)
    return np.concatenate([array[place] for array in table.arrays])


def with_rows(table: SignatureTable, rows: Mapping[Any, Sequence[float]]) -> SignatureTable:
    """A table with further classes.

    Raises
    ------
    ValueError
        A class is there already, or cannot be told from another.
    """
    if not rows:
        return table
    whole = np.asarray(list(rows.values()), dtype=np.float64)
    ends = np.cumsum([array.shape[1] for array in table.arrays])[:-1]
    labels = np.asarray(list(rows), dtype=None if table.labels.dtype.kind in "iu" else object)
    if table.labels.dtype.kind == "U":
        labels = labels.astype(np.str_)
    order = np.argsort(labels, kind="stable")
    arrays = tuple(part[order] for part in np.split(whole, ends, axis=1))
    new = replace(table, labels=labels[order], arrays=arrays)
    return table.union(SignatureTable.from_new(new.as_user(), table))
