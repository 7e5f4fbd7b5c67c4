"""Our numbers of a table compared: the best and second best, and what does not differ from it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from zslearn.experiments._spread import Measured, Verdict, on_common_runs, verdicts
from zslearn.experiments._table_layouts import Column, Key, Layout

Place = tuple[Key, Key]


@dataclass(frozen=True)
class Comparison:
    """Our numbers as they are compared: those of a column and block, or of a row.

    Parameters
    ----------
    compared : dict of (row, column) to Measured
        In the runs that all have which are compared.
    verdicts : dict of (row, column) to str
        Whether a number differs from the best.
    unequal, apart : dict
        Rows or columns where some have more runs than all have, and where no run is common to all.
    """

    compared: dict[Place, Measured]
    verdicts: dict[Place, Verdict]
    unequal: dict[Key, None]
    apart: dict[Key, None]

    @classmethod
    def of(
        cls,
        layout: Layout,
        rows: Iterable[Key],
        columns: Mapping[Key, Column],
        ours: Mapping[Place, Measured],
    ) -> Comparison:
        """Compare as the layout does."""
        groups: dict[Hashable, list[Place]] = {}
        for row in rows:
            block = row[layout.rows.index(layout.block)] if layout.block else ""
            for column in columns:
                group = row if layout.best == "row" else (block, column)
                groups.setdefault(group, []).append((row, column))
        made = cls({}, {}, {}, {})
        for places in groups.values():
            cells = [ours.get(place, Measured()) for place in places]
            common = on_common_runs(cells)
            made.compared.update(zip(places, common, strict=True))
            made.verdicts.update(zip(places, verdicts(cells), strict=True))
            where = places[0][0 if layout.best == "row" else 1]
            if any(len(a.runs) != len(b.runs) for a, b in zip(cells, common, strict=True)):
                made.unequal[where] = None
            elif len({frozenset(cell.runs) for cell in cells if cell.runs}) > 1:
                made.apart[where] = None
        return made

    def notes(self, rows: Mapping[Key, str], columns: Mapping[Key, str]) -> list[str]:
        """Say where the compared numbers are not those shown; rows and columns with their names."""
        names = {**rows, **columns}
        notes = []
        if self.unequal:
            where = ", ".join(names[key] for key in self.unequal)
            notes.append(
                f"Unequal runs – {where}: the best, the second and ranks are by the means over the "
                "runs that all have, not over all that are shown."
            )
        if self.apart:
            where = ", ".join(names[key] for key in self.apart)
            notes.append(f"No common runs – {where}: means over different runs are compared.")
        return notes


def best_marks(layout: Layout, rows: Iterable[Key], values: pd.DataFrame) -> pd.DataFrame:
    """Mark the best and second best, by row or by column.

    Parameters
    ----------
    layout : Layout
        Which says what is compared.
    rows : iterable of keys
        Those of the rows.
    values : DataFrame
        The numbers.

    Returns
    -------
    DataFrame
        "best", "second" or nothing.
    """
    if layout.best == "row":
        return _best(values.T, [""] * values.shape[1]).T
    block = layout.block
    return _best(values, [row[layout.rows.index(block)] if block else "" for row in rows])


def _best(values: pd.DataFrame, blocks: list[str]) -> pd.DataFrame:
    """Mark the best and the second best of each column among the rows of a block."""
    places = values.groupby(np.asarray(blocks, dtype=object)).rank(ascending=False, method="min")
    marks = pd.DataFrame("", index=values.index, columns=values.columns, dtype=object)
    return marks.mask(places == 1, "best").mask(places == 2, "second")
