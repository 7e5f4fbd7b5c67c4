"""The best classes of rows of torch: no answer from the device is waited for until the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zslearn.scoring._class_side import ClassSide
from zslearn.scoring._selection import (
    NOT_A_NUMBER,
    Best,
    in_order,
    torch_largest,
    torch_merged,
)
from zslearn.utils import Array

# What is known of a row whose list is found.
_TIED, _OPEN, _NAN = 1, 2, 4


class TorchLists:
    """Lists of the best classes, filled block by block, settled where scores are equal.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    k : int
        Length of the lists.
    """

    def __init__(self, n_rows: int, k: int) -> None:
        self.n_rows, self.k = n_rows, k
        self.indices: Any = None

    def add(self, rows: slice, row_side: Array, side: ClassSide, class_block: int) -> None:
        """Find the lists of a block of rows."""
        import torch

        n_classes, squares = side.n_classes, side.squares(row_side)
        wanted = min(self.k + 1, n_classes)
        best: Best | None = None
        for first in range(0, n_classes, class_block):
            classes = slice(first, min(first + class_block, n_classes))
            block = side.raw(row_side, squares, classes)
            found = torch_largest(block, min(wanted, block.shape[1]))
            del block
            found = found[0] + first, found[1]
            best = found if best is None else torch_merged(best, found, wanted)
        assert best is not None
        indices, values = best
        if side.finished_later:
            values = side.finish(values, squares)
        if self.indices is None:
            self.indices = torch.empty(
                (self.n_rows, self.k), dtype=torch.int64, device=values.device
            )
            self.values = values.new_empty((self.n_rows, self.k))
            self.marks = torch.empty(self.n_rows, dtype=torch.uint8, device=values.device)
        self.indices[rows] = indices[:, : self.k]
        self.values[rows] = values[:, : self.k]
        equal = values[:, 1:] == values[:, :-1]
        marks = _TIED * equal.any(dim=1) + _NAN * values.isnan().any(dim=1)
        if wanted > self.k:
            marks = marks + _OPEN * equal[:, -1]
        self.marks[rows] = marks.to(torch.uint8)

    def settled(self, settle: Callable[[Any], Best]) -> Best:
        """The lists; those of rows in which scores are equal are put right.

        Parameters
        ----------
        settle : callable
            Finds the lists of some rows, given by position, by comparing all classes.

        Returns
        -------
        tuple of tensors
            Indices and scores.
        """
        marked = self.marks.nonzero()[:, 0]
        if marked.shape[0]:
            kinds = self.marks[marked]
            if bool((kinds >= _NAN).any()):
                raise ValueError(NOT_A_NUMBER)
            open_ = (kinds & _OPEN) > 0
            # The equals are all in the list: they only need their order.
            inside = marked[~open_]
            self._put(inside, in_order((self.indices[inside], self.values[inside])))
            beyond = marked[open_]
            if beyond.shape[0]:
                self._put(beyond, settle(beyond))
        return self.indices, self.values

    def _put(self, rows: Any, best: Best) -> None:
        self.indices[rows], self.values[rows] = best
