"""Features that are prepared when they are read, so that no prepared copy of them is held."""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn.scoring._embedding import FeaturePreparation
from zslearn.scoring._feature_range import refuse_extreme_features
from zslearn.utils import (
    Array,
    block_budget,
    floating,
    on_device,
    row_blocks,
    take_rows,
    unit_rows,
)


class PreparedRows:
    """Prepared features as an array to be read in slices of rows; each is prepared anew.

    It has the shape, dtype, namespace and device of an array, so that code that goes through an
    array in blocks `X[rows, :]` takes it for one.

    Parameters
    ----------
    source : array of shape (n_samples, n_features)
        Features as given, of any library of the array API standard.
    norm : {"l2"} or None
        An estimator's `feature_norm`.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.scoring import PreparedRows
    >>> rows = PreparedRows(np.array([[3.0, 4.0], [0.0, 2.0]]), "l2")
    >>> rows[0:1, :]
    array([[0.6, 0.8]])
    >>> rows.whole()
    array([[0.6, 0.8],
           [0. , 1. ]])
    """

    def __init__(self, source: Array, norm: str | None) -> None:
        self.source, self.norm = source, norm
        self.shape: tuple[int, ...] = source.shape
        self.ndim = len(self.shape)
        self.dtype = floating(source[0:0, :]).dtype
        self.device = compat.device(source)
        # Whether every number was seen to be finite, so that none is looked for again.
        self.is_clean = False

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """The library of the features."""
        return compat.array_namespace(self.source)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        rows = key[0] if isinstance(key, tuple) else key
        if not isinstance(rows, slice):
            raise TypeError("Prepared rows are read in slices; take the whole array for more.")
        block = self._prepared(self.source[rows, :])
        return block[(slice(None), *key[1:])] if isinstance(key, tuple) else block

    def _prepared(self, block: Array) -> Array:
        if self.is_clean and self.norm == "l2":
            return unit_rows(floating(block))
        return FeaturePreparation(self.norm)(block)

    def take(self, positions: NDArray[np.intp]) -> Array:
        """Some rows, by position.

        Parameters
        ----------
        positions : ndarray of int
            Which rows.

        Returns
        -------
        array of shape (n_positions, n_features)
            Prepared.
        """
        chosen = PreparedRows(take_rows(self.source, positions), self.norm)
        chosen.is_clean = self.is_clean
        return chosen.whole()

    def check(self) -> None:
        """Say once what is replaced; refuse what cannot be prepared."""
        prepare = FeaturePreparation(self.norm)
        for rows in self._blocks():
            block = prepare.checked(self.source[rows, :])
            if self.norm is None:
                refuse_extreme_features(block, only_large=True)
        prepare.warn()
        self.is_clean = prepare.replaced == 0 and not on_device(self.source)
        if self.norm is None:
            refuse_extreme_features(floating(self.source))

    def whole(self) -> Array:
        """All rows in one array; the features themselves where nothing is to be prepared."""
        if self.norm is None:
            return floating(self.source)
        xp = compat.array_namespace(self.source)
        blocks = self._blocks()
        if len(blocks) == 1:
            return self[blocks[0], :]
        out = xp.empty(self.shape, dtype=self.dtype, device=self.device)
        for rows in blocks:
            out[rows, :] = self[rows, :]
        return out

    def _blocks(self) -> list[slice]:
        width = 8 if not on_device(self.source) else 4
        row_bytes = 4 * width * self.shape[1]
        return row_blocks(self.shape[0], row_bytes, block_budget(self.source))
