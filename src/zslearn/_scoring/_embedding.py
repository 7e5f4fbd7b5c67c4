"""Prepare features and embed them in the space of the class parameters.

Estimators of a grid often share an embedding. A method lists the attributes that determine `embed`
in `embedding_attributes`, and rows are embedded once for all estimators that share these objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import (
    Array,
    block_budget,
    floating,
    is_symbolic,
    on_device,
    row_blocks,
    scaled_rows,
    take_rows,
    unit_rows,
)
from zslearn._utils._messages import InputWarning, warn_user

# Squares of features between the inverse of this limit and the limit neither overflow nor
# underflow, even when multiplied by a small penalty or a long step.
_LARGEST_DOUBLE = 1e100
_LARGEST_SINGLE = 1e15


def refuse_extreme_features(X: Array, *, only_large: bool = False) -> None:
    """Raise an error if squares of features without normalisation overflow or underflow."""
    xp = compat.array_namespace(X)
    largest = max(abs(float(xp.max(X))), abs(float(xp.min(X))))
    limit = _LARGEST_DOUBLE if X.dtype == xp.float64 else _LARGEST_SINGLE
    if largest >= limit or (0 < largest <= 1 / limit and not only_large):
        raise ValueError(
            f"The largest feature is {largest:.0e}, and its square overflows or underflows. "
            'Rescale X, or use feature_norm="l2".'
        )


_NON_FINITE = (
    "Input X contains NaN or infinity, which feature_norm=None does not replace. "
    'Impute them first, or use feature_norm="l2".'
)


class FeaturePreparation:
    """Replace non-finite features by 0 and normalise each sample to unit ℓ2 length.

    It is called for one block at a time; `warn` then reports how many values were replaced. With
    `norm=None`, features are unchanged, and non-finite or very large values raise an error.
    """

    def __init__(self, norm: str | None) -> None:
        self.norm = norm
        self.replaced = 0
        # Number of non-finite values, and largest value, of each block on a device.
        self._pending: list[tuple[Array, Array | None]] = []

    def __call__(self, rows: Array) -> Array:
        """Prepare a block of rows."""
        rows = floating(rows)
        xp = compat.array_namespace(rows)
        if is_symbolic(rows):
            # Symbolic values cannot be counted.
            return rows if self.norm is None else unit_rows(xp.where(xp.isfinite(rows), rows, 0.0))
        if not on_device(rows):
            rows = self.checked(rows)
            if self.norm is None:
                refuse_extreme_features(rows, only_large=True)
                return rows
            return unit_rows(rows)
        # Reading a value would synchronise host and device, which `check` does once for all blocks.
        finite = xp.isfinite(rows)
        bad = xp.sum(xp.astype(~finite, xp.int64))
        if self.norm is None:
            self._pending.append((bad, xp.max(xp.abs(rows))))
            return rows
        self._pending.append((bad, None))
        return unit_rows(xp.where(finite, rows, xp.zeros_like(rows)))

    def checked(self, rows: Array) -> Array:
        """Replace non-finite values of a block, or raise an error without normalisation."""
        xp = compat.array_namespace(rows)
        finite = xp.isfinite(rows)
        if not bool(xp.all(finite)):
            if self.norm is None:
                raise ValueError(_NON_FINITE)
            self.replaced += int(xp.sum(xp.astype(~finite, xp.int64)))
            rows = xp.where(finite, rows, xp.zeros_like(rows))
        return rows

    def check(self) -> None:
        """Check the blocks that were prepared on a device."""
        pending, self._pending = self._pending, []
        for bad, largest in pending:
            number = int(bad)
            if self.norm is not None:
                self.replaced += number
            elif number:
                raise ValueError(_NON_FINITE)
            elif largest is not None:
                refuse_extreme_features(largest[None, None], only_large=True)

    def warn(self) -> None:
        """Warn once if any value was replaced."""
        self.check()
        if self.replaced:
            warn_user(
                f"X contains {self.replaced} NaN or infinite values, which are replaced by 0. "
                "Impute them, or use TableClassifier, which takes the median of each column.",
                InputWarning,
            )


@dataclass(frozen=True)
class Embedding:
    """Preparation of features followed by `embed`.

    Parameters
    ----------
    embed : callable
        Function, usually a bound method, that maps prepared rows to the space of the parameters.
    feature_norms : tuple of ("l2" or None)
        Feature preparations, in order of application.
    depends_on : tuple, optional
        All objects that determine `embed` besides its code; None if unknown.
    """

    embed: Callable[[Array], Array]
    feature_norms: tuple[str | None, ...] = ()
    depends_on: tuple[Any, ...] | None = None

    def after(self, feature_norm: str | None) -> Embedding:
        """Apply another preparation first.

        Parameters
        ----------
        feature_norm : {"l2"} or None
            The preparation to apply first.

        Returns
        -------
        Embedding
            A new embedding.
        """
        return replace(self, feature_norms=(feature_norm, *self.feature_norms))

    @contextmanager
    def over_blocks(self) -> Iterator[Callable[[Array], Array]]:
        """Yield a function that embeds blocks of rows; warn about replaced values at the end."""
        steps = [FeaturePreparation(norm) for norm in self.feature_norms]

        def embed(rows: Array) -> Array:
            for prepare in steps:
                rows = prepare(rows)
            return self.embed(rows)

        try:
            yield embed
        except ValueError:
            # If invalid features caused NaN scores, raise the more helpful error.
            for prepare in steps:
                prepare.check()
            raise
        for prepare in steps:
            prepare.warn()

    def __call__(self, X: Array) -> Array:
        """Embed rows."""
        with self.over_blocks() as embed:
            return embed(X)


class EmbeddedRows:
    """Rows that many scorers use, with the result of the latest embedding."""

    def __init__(self, X: Array) -> None:
        self.X = X
        # The function, its dependencies and its result.
        self._latest: tuple[tuple[Any, ...], tuple[Any, ...], Array] | None = None

    def embedded_by(self, embedding: Embedding) -> Array:
        """The embedded rows, from the cache if the embedding is the latest one."""
        embed, depends_on = embedding.embed, embedding.depends_on
        if depends_on is None:
            return embedding(self.X)
        # A reference to the bound method would keep the model in memory.
        owner = type(getattr(embed, "__self__", None))
        function = getattr(embed, "__func__", embed), owner, embedding.feature_norms
        latest = self._latest
        if not (latest and latest[0] == function and all(map(_is_same, latest[1], depends_on))):
            latest = self._latest = function, depends_on, embedding(self.X)
        return latest[2]


def _is_same(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (str, int, float)) and a == b)


# Bytes of rows that are divided twice while they are in the cache.
_CACHE_BYTES = 1 << 18


class PreparedRows:
    """Features that are prepared when a slice of rows is read, without a prepared copy.

    Code that reads blocks `X[rows, :]` can use it like an array, as it has a shape, dtype,
    namespace and device. `positions` selects rows of the source.
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
        # Whether all values are known to be finite.
        self.is_clean = False
        # Largest value and norm of each row of the source; None until `measure`.
        self._lengths: tuple[Array, Array] | None = None

    @classmethod
    def of_prepared(cls, rows: Array) -> PreparedRows:
        """Wrap rows that are already prepared."""
        prepared = cls(rows, None)
        prepared.is_clean = True
        return prepared

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """The array library of the features."""
        return compat.array_namespace(self.source)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        rows = key[0] if isinstance(key, tuple) else key
        if not isinstance(rows, slice):
            raise TypeError("PreparedRows can only be indexed by slices; use `dense` instead.")
        block = self._prepared(rows if self.positions is None else self.positions[rows])
        return block[(slice(None), *key[1:])] if isinstance(key, tuple) else block

    def _prepared(self, which: slice | NDArray[np.intp]) -> Array:
        """Prepare the selected rows of the source."""
        if self._lengths is not None:
            return self._divided(which, *self._lengths)
        if isinstance(which, slice):
            block = self.source[which, :]
        else:
            block = take_rows(self.source, which)
        if self.is_clean:
            return floating(block) if self.norm is None else scaled_rows(floating(block))[0]
        return FeaturePreparation(self.norm)(block)

    def _divided(
        self, which: slice | NDArray[np.intp], largest: Array, norm: Array
    ) -> NDArray[Any]:
        """Prepare rows whose lengths are known, in parts that fit into the cache."""
        largest, norm = largest[which], norm[which]
        source = self.source[which] if isinstance(which, slice) else self.source
        out = np.empty((len(largest), *self.shape[1:]), dtype=self.dtype)
        for part in row_blocks(len(out), self.shape[1] * self.dtype.itemsize, _CACHE_BYTES):
            rows = source[part] if isinstance(which, slice) else take_rows(source, which[part])
            np.divide(floating(rows), largest[part], out=out[part])
            out[part] /= norm[part]
        return out

    def measure(self) -> None:
        """Compute the lengths of all rows, for solvers that read the rows many times."""
        can_measure = self.norm == "l2" and self.is_clean and isinstance(self.source, np.ndarray)
        if can_measure and self._lengths is None:
            blocks = (floating(self.source[rows, :]) for rows in self._blocks(self.source.shape[0]))
            largest, norm = zip(*(scaled_rows(block)[1:] for block in blocks), strict=True)
            self._lengths = np.concatenate(largest), np.concatenate(norm)

    def chosen(self, positions: NDArray[np.intp]) -> PreparedRows:
        """Select rows without reading them."""
        if "dense" in vars(self):
            return PreparedRows.of_prepared(take_rows(self.dense, positions))
        if self.positions is not None:
            positions = self.positions[positions]
        rows = PreparedRows(self.source, self.norm, positions)
        rows.is_clean, rows._lengths = self.is_clean, self._lengths
        return rows

    def take(self, positions: NDArray[np.intp]) -> Array:
        """Read some rows."""
        if "dense" in vars(self):
            return take_rows(self.dense, positions)
        return self._prepared(positions if self.positions is None else self.positions[positions])

    def check(self) -> None:
        """Warn about values that are replaced; raise an error for invalid features."""
        prepare = FeaturePreparation(self.norm)
        for rows in self._blocks(self.source.shape[0]):
            prepare.checked(floating(self.source[rows, :]))
        prepare.warn()
        self.is_clean = prepare.replaced == 0 and not on_device(self.source)
        if self.norm is None:
            refuse_extreme_features(floating(self.source))

    @cached_property
    def dense(self) -> Array:
        """All prepared rows in one array, which is cached."""
        return self.whole()

    def whole(self) -> Array:
        """All prepared rows in one array, without a copy if features need no preparation."""
        if self.norm is None:
            chosen = self.positions
            return floating(self.source if chosen is None else take_rows(self.source, chosen))
        blocks = self._blocks(self.shape[0])
        if len(blocks) == 1:
            return self[blocks[0], :]
        xp = compat.array_namespace(self.source)
        out = xp.empty(self.shape, dtype=self.dtype, device=self.device)
        for rows in blocks:
            out[rows, :] = self[rows, :]
        return out

    def _blocks(self, n_rows: int) -> list[slice]:
        row_bytes = (16 if on_device(self.source) else 32) * self.shape[1]
        return row_blocks(n_rows, row_bytes, block_budget(self.source))


# Largest size, in blocks, of a dense copy for repeated reading.
_MAX_COPIED_BLOCKS = 2


def for_many_passes(rows: Any) -> Any:
    """Rows for a solver that reads them many times, as a dense array if it fits into memory."""
    if not isinstance(rows, PreparedRows):
        return rows
    if "dense" not in vars(rows) and rows.norm and isinstance(rows.source, np.ndarray):
        copy = math.prod(rows.shape) * np.dtype(rows.dtype).itemsize
        if copy > _MAX_COPIED_BLOCKS * block_budget(rows.source):
            rows.measure()
            return rows
    return rows.dense
