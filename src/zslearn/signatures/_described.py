"""The signatures of described classes in several tables, so that a change costs what it changes.

As in a log-structured table, new classes form a table of their own, a removed class is only marked,
and small tables are merged: the cost of adding a class does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import RowChunks
from zslearn._utils._messages import look_alikes, name_pairs, refuse_equal_labels, warn_user
from zslearn.signatures._table import (
    SignatureTable,
    find_sorted,
    form_keys,
    label_kind,
    warn_of_equal,
)

_Chunk = TypeVar("_Chunk")
_NONE: NDArray[np.intp] = np.empty(0, dtype=np.intp)

#: Tables with fewer rows are merged at every change.
_SMALL = 256
#: A table is rewritten when more than one in this many of its rows is removed.
_MAX_REMOVED = 10


class DescribedTables:
    """Tables of different classes, of which some rows may be removed.

    Parameters
    ----------
    tables : tuple of SignatureTable
        Non-empty, with the same attributes.
    removed : tuple of ndarray of int, optional
        Sorted positions of the removed rows of each table.
    """

    def __init__(
        self,
        tables: tuple[SignatureTable, ...],
        removed: tuple[NDArray[np.intp], ...] | None = None,
    ) -> None:
        self.tables = tables
        self.removed = removed or (_NONE,) * len(tables)
        #: Number of the first row of each table among all stored rows, and of the last one plus 1.
        self.bounds = tuple(accumulate((len(t.labels) for t in tables), initial=0))

    @property
    def first(self) -> SignatureTable:
        """A table with the attributes, views and units of all."""
        return self.tables[0]

    def kept(self, number: int) -> NDArray[np.intp]:
        """Positions of the rows of a table that are not removed."""
        n_rows, removed = len(self.tables[number].labels), self.removed[number]
        return np.delete(np.arange(n_rows), removed) if len(removed) else np.arange(n_rows)

    def find(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Number of the stored row of each label, −1 for labels that are not described."""
        found = np.full(len(labels), -1)
        for start, table, removed in zip(self.bounds, self.tables, self.removed, strict=False):
            at = find_sorted(labels, table.labels)
            is_here = (at >= 0) & (find_sorted(at, removed) < 0)
            found[is_here] = start + at[is_here]
        return found

    def labels_at(self, stored: NDArray[np.intp]) -> NDArray[Any]:
        """Labels of stored rows."""
        labels: NDArray[Any] = RowChunks(tuple(t.labels for t in self.tables), stored)[:]
        return labels

    def rows(self, label: Any) -> list[NDArray[Any]] | None:
        """The signature of a class in each view; None if it is not described."""
        wanted = np.asarray([label])
        position = (
            int(self.find(wanted)[0]) if label_kind(wanted) == label_kind(self.first.labels) else -1
        )
        if position < 0:
            return None
        number = int(np.searchsorted(self.bounds, position, side="right")) - 1
        return [array[position - self.bounds[number]] for array in self.tables[number].arrays]

    @cached_property
    def _sorted(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """All labels in ascending order, and the number of the stored row of each."""
        labels = [t.labels[self.kept(i)] for i, t in enumerate(self.tables)]
        stored = [start + self.kept(i) for i, start in enumerate(self.bounds[:-1])]
        few, few_stored = (np.concatenate([first[:0], *more]) for first, *more in (labels, stored))
        order = np.argsort(few, kind="stable")
        few, few_stored = few[order], few_stored[order]
        every = labels[0].astype(np.result_type(labels[0], few), copy=False)
        at = np.searchsorted(every, few)
        return np.insert(every, at, few), np.insert(stored[0], at, few_stored)

    @property
    def labels(self) -> NDArray[Any]:
        """Labels of all classes, sorted."""
        return self.first.labels if self.is_one_table else self._sorted[0]

    @property
    def order(self) -> NDArray[np.intp]:
        """Number of the stored row of each class, in the order of the labels."""
        return self._sorted[1]

    @property
    def is_one_table(self) -> bool:
        """Whether there is only one table, without removed rows."""
        return len(self.tables) == 1 and not len(self.removed[0])

    @cached_property
    def table(self) -> SignatureTable:
        """All classes in one table."""
        return self.first if self.is_one_table else self.subset(self.order)

    def subset(self, stored: NDArray[np.intp]) -> SignatureTable:
        """A table of some stored rows, in the order of their labels."""
        views = zip(*(table.arrays for table in self.tables), strict=True)
        arrays = tuple(RowChunks(view, stored)[:] for view in views)
        return replace(self.first, labels=self.labels_at(stored), arrays=arrays)

    def added(self, new: SignatureTable) -> DescribedTables:
        """The same classes and those of another table."""
        return DescribedTables((*self.tables, new), (*self.removed, _NONE))

    def without(self, stored: NDArray[np.intp]) -> DescribedTables:
        """All classes except some, by the numbers of their stored rows."""
        removed = [
            np.union1d(before, stored[(start <= stored) & (stored < stop)] - start)
            for (start, stop), before in zip(pairwise(self.bounds), self.removed, strict=True)
        ]
        return DescribedTables(self.tables, tuple(removed))

    def merged(
        self, chunks: tuple[_Chunk, ...], gather: Callable[[NDArray[np.intp]], _Chunk]
    ) -> tuple[DescribedTables, tuple[_Chunk, ...]]:
        """Merge small tables with those before them, and rewrite those with many removed rows.

        `chunks` are further data of each table, and `gather` collects those of stored rows. Each
        table is at least twice as large as the next one.
        """
        groups: list[list[int]] = []
        sizes: list[int] = []
        for number, (table, removed) in enumerate(zip(self.tables, self.removed, strict=True)):
            if len(table.labels) > len(removed):
                groups.append([number])
                sizes.append(len(table.labels) - len(removed))
            while len(sizes) > 1 and sizes[-2] <= max(2 * sizes[-1], _SMALL):
                groups[-2:], sizes[-2:] = [groups[-2] + groups[-1]], [sizes[-2] + sizes[-1]]
        tables: list[SignatureTable] = []
        removed_rows: list[NDArray[np.intp]] = []
        data: list[_Chunk] = []
        for group in groups:
            first, *others = group
            if not others and _MAX_REMOVED * len(self.removed[first]) <= sizes[len(tables)]:
                tables.append(self.tables[first])
                removed_rows.append(self.removed[first])
                data.append(chunks[first])
                continue
            part = DescribedTables(
                tuple(self.tables[i] for i in group), tuple(self.removed[i] for i in group)
            )
            tables.append(part.table)
            removed_rows.append(_NONE)
            # Tables of a group are adjacent, except for empty ones.
            starts = np.repeat([self.bounds[i] for i in group], np.diff(part.bounds))
            offsets = np.repeat(part.bounds[:-1], np.diff(part.bounds))
            data.append(gather(part.order + (starts - offsets)[part.order]))
        return DescribedTables(tuple(tables), tuple(removed_rows)), tuple(data)

    def check_labels(self, new: NDArray[Any], what: str) -> None:
        """Refuse labels that are known in another Unicode form; warn of others that look alike."""
        if new.dtype.kind != "U":
            return
        keys = form_keys(new)
        alike = sum(_counts(keys, table.form_keys) for table in self.tables)
        if not np.any(alike):
            return
        for table, removed in zip(self.tables, self.removed, strict=True):
            alike = alike - _counts(keys, np.sort(form_keys(table.labels[removed])))
        if not np.any(alike):
            return
        known_labels = self.labels.tolist()
        refuse_equal_labels([*known_labels, *new.tolist()], "signatures, with the fitted classes,")
        if pairs := look_alikes(new.tolist(), known_labels):
            warn_user(
                f"{what} classes that look like existing ones but differ: {name_pairs(pairs)}."
            )

    def warn_equal_signatures(self, new: SignatureTable) -> None:
        """Warn of new classes whose normalised signatures are equal to those of other classes."""
        pairs = new.equal_pairs()
        for table, removed in zip(self.tables, self.removed, strict=True):
            gone = set(table.labels[removed].tolist())
            pairs += [pair for pair in table.equal_pairs(new) if pair[0] not in gone]
        warn_of_equal(pairs)


def _counts(keys: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.intp]:
    """How often each key occurs in a sorted array."""
    return np.searchsorted(known, keys, side="right") - np.searchsorted(known, keys)
