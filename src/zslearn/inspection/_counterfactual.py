"""What would be if a class had another attribute: it is described so, and made anew."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.signatures import SignatureTable
from zslearn.utils import Array, Floats, take_rows, to_numpy

# Where a class cannot be made apart from the others, each attribute needs a description of all of
# them: so many attributes are tried, those that differ most.
_MOST_APART = 12
# Parameters of a class made alone, and made with all others, that agree to this share are the same.
_SAME = 1e-5


@dataclass(frozen=True, eq=False)
class Change:
    """Attributes of a class that differ from another's, and what each of them does to its scores.

    Parameters
    ----------
    names : list of str
        The attributes.
    values, other_values : ndarray of shape (n_attributes,)
        Of the class and of the other, as they were described.
    effects : ndarray of shape (n_samples, n_attributes)
        How much the score of the class falls if it has the other's value.
    """

    names: list[str]
    values: Floats
    other_values: Floats
    effects: Floats


def attribute_changes(method: Any, rows: Array, label: Any, other: Any) -> Change:
    """Give a class the attributes of another, one at a time, and score it again.

    Parameters
    ----------
    method : ZeroShotClassifier
        Fitted.
    rows : array of shape (n_samples, n_features)
        Features of the images that are scored, as the method takes them.
    label, other : label
        The class, and the one that it takes attributes from.

    Returns
    -------
    Change
        One entry for each attribute in which they differ.
    """
    table: SignatureTable = method.signature_table_
    row, other_row = table.positions(np.asarray([label, other], dtype=table.labels.dtype))
    places = [
        (view, int(column))
        for view, array in enumerate(table.arrays)
        for column in np.flatnonzero(array[row] != array[other_row])
    ]
    effects = _made_alone(method, table, rows, row, other_row, places)
    if effects is None:
        places = _most_different(table, row, other_row, places)
        effects = _made_together(method, table, rows, row, other_row, places)
    return Change(
        [_name(table, view, column) for view, column in places],
        np.asarray([table.arrays[view][row, column] for view, column in places]),
        np.asarray([table.arrays[view][other_row, column] for view, column in places]),
        effects,
    )


def _made_alone(
    method: Any,
    table: SignatureTable,
    rows: Array,
    row: int,
    other_row: int,
    places: list[tuple[int, int]],
) -> Floats | None:
    """All variants of the class in one call; None where a class depends on the others beside it."""
    arrays = [np.repeat(array[[row]], 1 + len(places), axis=0) for array in table.arrays]
    for number, (view, column) in enumerate(places, start=1):
        arrays[view][number, column] = table.arrays[view][other_row, column]
    labels = np.repeat(table.labels[[row]], 1 + len(places))
    variants = replace(table, labels=labels, arrays=tuple(arrays))
    described = variants.normalized(method.signature_scale_, keep_views=method.keep_views)
    scorer = method.class_scorer_
    try:
        parameters = method.synthesize(described, labels)
    except TypeError:
        return None
    known = to_numpy(take_rows(scorer.parameters, np.asarray([row])))[0]
    first = to_numpy(take_rows(parameters, np.asarray([0])))[0]
    if known.shape != first.shape or not np.allclose(
        known, first, rtol=0, atol=_SAME * np.abs(known).max()
    ):
        return None
    numbers = np.arange(1 + len(places))
    alone = replace(
        scorer, labels=numbers, parameters=parameters, bias=None, precedence=None, temperature=None
    )
    scores = np.asarray(to_numpy(alone.scores(rows)), dtype=np.float64)
    return scores[:, :1] - scores[:, 1:]


def _made_together(
    method: Any,
    table: SignatureTable,
    rows: Array,
    row: int,
    other_row: int,
    places: list[tuple[int, int]],
) -> Floats:
    """Every class is described anew for each attribute."""
    label = table.labels[[row]]
    before = to_numpy(method.class_scorer_.scores(rows, label))[:, 0]
    effects = np.empty((len(before), len(places)))
    for number, (view, column) in enumerate(places):
        arrays = [array.copy() for array in table.arrays]
        arrays[view][row, column] = arrays[view][other_row, column]
        with warnings.catch_warnings():
            # That the class now equals another is what was asked for.
            warnings.simplefilter("ignore")
            variant = method.describing(replace(table, arrays=tuple(arrays)))
        effects[:, number] = before - to_numpy(variant.class_scorer_.scores(rows, label))[:, 0]
    return effects


def _most_different(
    table: SignatureTable, row: int, other_row: int, places: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The attributes that differ most, in units of their spread over the classes."""

    def distance(place: tuple[int, int]) -> float:
        view, column = place
        values: NDArray[np.float64] = table.arrays[view][:, column]
        return float(abs(values[row] - values[other_row]) / max(values.std(), 1e-300))

    return sorted(sorted(places, key=distance, reverse=True)[:_MOST_APART])


def _name(table: SignatureTable, view: int, column: int) -> str:
    """The name of an attribute, with its view where there are several."""
    columns = table.columns[view]
    name = f"attribute {column}" if columns is None else str(columns[column])
    return f"{table.names[view]}: {name}" if table.names[view] else name
