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
    row_lengths,
    take_rows,
    unit_rows,
)

# Rows that are gone through twice are so few at a time that they stay in cache.
_CACHED_BYTES = 1 << 18


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
    positions : ndarray of int, optional
        Which rows of the source these are; by default all.

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

    def __init__(
        self, source: Array, norm: str | None, positions: NDArray[np.intp] | None = None
    ) -> None:
        self.source, self.norm, self.positions = source, norm, positions
        n_rows = source.shape[0] if positions is None else len(positions)
        self.shape: tuple[int, ...] = (n_rows, *source.shape[1:])
        self.ndim = len(self.shape)
        self.dtype = floating(source[0:0, :]).dtype
        self.device = compat.device(source)
        # Whether every number was seen to be finite, so that none is looked for again.
        self.is_clean = False
        # What rows of the source are divided by, one after the other, once that is measured.
        self._lengths: tuple[Array, Array] | None = None

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """The library of the features."""
        return compat.array_namespace(self.source)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        rows = key[0] if isinstance(key, tuple) else key
        if not isinstance(rows, slice):
            raise TypeError("Prepared rows are read in slices; take the whole array for more.")
        block = self._prepared(rows if self.positions is None else self.positions[rows])
        return block[(slice(None), *key[1:])] if isinstance(key, tuple) else block

    def _prepared(self, which: slice | NDArray[np.intp]) -> Array:
        """Some rows of the source."""
        if self._lengths is not None:
            return self._divided(which, *self._lengths)
        if isinstance(which, slice):
            block = self.source[which, :]
        else:
            block = take_rows(self.source, which)
        if self.is_clean and self.norm == "l2":
            return unit_rows(floating(block))
        return FeaturePreparation(self.norm)(block)

    def _divided(
        self, which: slice | NDArray[np.intp], largest: Array, norm: Array
    ) -> NDArray[Any]:
        """The same of rows that were measured: divided twice while they are in cache."""
        largest, norm, source = largest[which], norm[which], self.source
        if isinstance(which, slice):
            source = source[which]
        n_rows = len(largest)
        out = np.empty((n_rows, *self.shape[1:]), dtype=self.dtype)
        for part in row_blocks(n_rows, self.shape[1] * self.dtype.itemsize, _CACHED_BYTES):
            rows = source[part] if isinstance(which, slice) else take_rows(source, which[part])
            np.divide(floating(rows), largest[part], out=out[part])
            out[part] /= norm[part]
        return out

    def measure(self) -> None:
        """Measure the rows once, for those who read them again and again."""
        if self.norm == "l2" and self.is_clean and isinstance(self.source, np.ndarray):
            parts = [row_lengths(floating(self.source[rows, :])) for rows in self._source_blocks()]
            largest, norm = zip(*parts, strict=True)
            self._lengths = np.concatenate(largest), np.concatenate(norm)

    @property
    def divisors(self) -> NDArray[np.float64] | None:
        """What each row of the source is divided by, once that is measured; None where it is not.

        Where a row of floats is divided by this number, nothing else is to be done to it.
        """
        if self._lengths is None or self.source.dtype.kind != "f":
            return None
        largest, norm = (np.asarray(part, dtype=np.float64) for part in self._lengths)
        return (largest * norm)[:, 0]

    def chosen(self, positions: NDArray[np.intp]) -> PreparedRows:
        """Some of the rows, not read yet.

        Parameters
        ----------
        positions : ndarray of int
            Which rows.

        Returns
        -------
        PreparedRows
            They hold no copy.
        """
        if self.positions is not None:
            positions = self.positions[positions]
        rows = PreparedRows(self.source, self.norm, positions)
        rows.is_clean, rows._lengths = self.is_clean, self._lengths
        return rows

    def take(self, positions: NDArray[np.intp]) -> Array:
        """Some of the rows.

        Parameters
        ----------
        positions : ndarray of int
            Which rows.

        Returns
        -------
        array of shape (n_positions, n_features)
            Prepared.
        """
        return self._prepared(positions if self.positions is None else self.positions[positions])

    def check(self) -> None:
        """Say once what is replaced; refuse what cannot be prepared."""
        prepare = FeaturePreparation(self.norm)
        for rows in self._source_blocks():
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
            chosen = self.positions
            return floating(self.source if chosen is None else take_rows(self.source, chosen))
        xp = compat.array_namespace(self.source)
        blocks = self._blocks(self.shape[0])
        if len(blocks) == 1:
            return self[blocks[0], :]
        out = xp.empty(self.shape, dtype=self.dtype, device=self.device)
        for rows in blocks:
            out[rows, :] = self[rows, :]
        return out

    def _source_blocks(self) -> list[slice]:
        return self._blocks(self.source.shape[0])

    def _blocks(self, n_rows: int) -> list[slice]:
        width = 8 if not on_device(self.source) else 4
        row_bytes = 4 * width * self.shape[1]
        return row_blocks(n_rows, row_bytes, block_budget(self.source))
