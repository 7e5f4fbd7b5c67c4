"""From features to the space of the class parameters, and rows that are embedded once for many.

Estimators of one grid often embed images in the same way: a method says by which of its attributes
`embed` is decided (`embedding_attributes`), and rows are embedded once for all that share them.
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
    scaled_rows,
    take_rows,
    unit_rows,
)
from zslearn._utils._blocks import row_blocks
from zslearn._utils._messages import InputWarning, warn_user

# The largest entry lies between the inverse of this and this: squares of what is in between, times
# a small penalty or a long step, neither overflow nor vanish.
_LARGEST_DOUBLE = 1e100
_LARGEST_SINGLE = 1e15


def refuse_extreme_features(X: Array, *, only_large: bool = False) -> None:
    """Refuse features whose squares overflow or vanish.

    Only features that were not brought to unit norm can be such.
    """
    xp = compat.array_namespace(X)
    largest = max(abs(float(xp.max(X))), abs(float(xp.min(X))))
    limit = _LARGEST_DOUBLE if X.dtype == xp.float64 else _LARGEST_SINGLE
    if largest >= limit or (0 < largest <= 1 / limit and not only_large):
        raise ValueError(
            f"The largest feature is {largest:.0e}: its square cannot be computed with. "
            'Rescale X, or use feature_norm="l2".'
        )


_NOT_REPLACED = (
    "Input X contains NaN or infinity, which feature_norm=None does not replace. "
    'Impute them first, or use feature_norm="l2".'
)


class FeaturePreparation:
    """Features as the authors' program has them: non-finite → 0, each sample to unit ℓ2 norm.

    Blocks are prepared one after another; `warn` then says once how many numbers were replaced.
    With `norm=None` features stay as they are, and a number that is not finite, or too large to be
    computed with, is an error.
    """

    def __init__(self, norm: str | None) -> None:
        self.norm = norm
        self.replaced = 0
        # What is not known of blocks on a device until it is asked.
        self._later: list[tuple[Array, Array | None]] = []

    def __call__(self, rows: Array) -> Array:
        """Prepare a block of rows."""
        if is_symbolic(rows):
            # Nothing can be counted or refused: what l2 replaces is replaced wherever it occurs.
            rows = floating(rows)
            xp = compat.array_namespace(rows)
            return rows if self.norm is None else unit_rows(xp.where(xp.isfinite(rows), rows, 0.0))
        if on_device(rows):
            return self._prepare_unasked(floating(rows))
        rows = self.checked(rows)
        if self.norm is None:
            refuse_extreme_features(rows, only_large=True)
            return rows
        return unit_rows(rows)

    def checked(self, rows: Array) -> Array:
        """A block of rows in floating numbers, those that are not finite replaced or refused."""
        rows = floating(rows)
        xp = compat.array_namespace(rows)
        finite = xp.isfinite(rows)
        if not bool(xp.all(finite)):
            if self.norm is None:
                raise ValueError(_NOT_REPLACED)
            self.replaced += int(xp.sum(xp.astype(~finite, xp.int64)))
            rows = xp.where(finite, rows, xp.zeros_like(rows))
        return rows

    def _prepare_unasked(self, rows: Array) -> Array:
        """The same on a device, which is not waited for: `check` asks it, for all blocks at once.

        Each question would have the host wait for all that is queued, and the device then wait for
        the host.
        """
        xp = compat.array_namespace(rows)
        finite = xp.isfinite(rows)
        bad = xp.sum(xp.astype(~finite, xp.int64))
        if self.norm is None:
            self._later.append((bad, xp.max(xp.abs(rows))))
            return rows
        self._later.append((bad, None))
        return unit_rows(xp.where(finite, rows, xp.zeros_like(rows)))

    def check(self) -> None:
        """Refuse what should have been refused in blocks on a device."""
        later, self._later = self._later, []
        for bad, largest in later:
            number = int(bad)
            if self.norm is not None:
                self.replaced += number
            elif number:
                raise ValueError(_NOT_REPLACED)
            elif largest is not None:
                refuse_extreme_features(largest[None, None], only_large=True)

    def warn(self) -> None:
        """Warn once if anything was replaced."""
        self.check()
        if self.replaced:
            warn_user(
                f"X contains {self.replaced} NaN or infinite numbers; they count as 0. "
                "Impute them to choose otherwise.",
                InputWarning,
            )


@dataclass(frozen=True)
class Embedding:
    """What is done to features before they are scored: preparation, then `embed`.

    Parameters
    ----------
    embed : callable
        Takes prepared rows into the space of the parameters; usually a method of an estimator.
    feature_norms : tuple of ("l2" or None)
        How features are prepared, one step after another.
    depends_on : tuple, optional
        All that decides what `embed` does, besides its code; None where that is not known.
    """

    embed: Callable[[Array], Array]
    feature_norms: tuple[str | None, ...] = ()
    depends_on: tuple[Any, ...] | None = None

    def after(self, feature_norm: str | None) -> Embedding:
        """The same embedding of features that another estimator has prepared before.

        Parameters
        ----------
        feature_norm : {"l2"} or None
            That estimator's preparation.

        Returns
        -------
        Embedding
            With one more step in front.
        """
        return replace(self, feature_norms=(feature_norm, *self.feature_norms))

    @contextmanager
    def over_blocks(self) -> Iterator[Callable[[Array], Array]]:
        """Give a function for blocks of rows; what it replaced is said once, at the end."""
        steps = [FeaturePreparation(norm) for norm in self.feature_norms]

        def embed(rows: Array) -> Array:
            for prepare in steps:
                rows = prepare(rows)
            return self.embed(rows)

        try:
            yield embed
        except ValueError:
            # Scores that are no numbers have their reason in the rows, if it is there.
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
    """Rows for many scorers; what the latest embedding made of them is kept."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.n_embeddings = 0
        # What the latest embedding was decided by, and what it made of the rows.
        self._latest: tuple[tuple[Any, ...], tuple[Any, ...], Array] | None = None

    def embedded_by(self, embedding: Embedding) -> Array:
        """The rows under an embedding, computed anew where it is not the latest one."""
        embed, decided_by = embedding.embed, embedding.depends_on
        if decided_by is None:
            self.n_embeddings += 1
            return embedding(self.X)
        # The function and its class, not the model, which would stay in memory.
        owner = type(getattr(embed, "__self__", None))
        function = getattr(embed, "__func__", embed), owner, embedding.feature_norms
        known = self._latest
        if not (known and known[0] == function and all(map(_is_same, known[1], decided_by))):
            self.n_embeddings += 1
            known = self._latest = function, decided_by, embedding(self.X)
        return known[2]


def _is_same(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (str, int, float)) and a == b)


# Rows that are gone through twice are so few at a time that they stay in cache.
_CACHED_BYTES = 1 << 18


class PreparedRows:
    """Prepared features, read in slices of rows, of which no prepared copy is held.

    It has the shape, dtype, namespace and device of an array, so that code which goes through an
    array in blocks `X[rows, :]` takes it for one. `positions` are the rows of the source that these
    are, by default all. `dense` is one array of all rows, made once.
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

    @classmethod
    def of_prepared(cls, rows: Array) -> PreparedRows:
        """Rows that are prepared already."""
        prepared = cls(rows, None)
        prepared.is_clean = True
        return prepared

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """The library of the features."""
        return compat.array_namespace(self.source)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        rows = key[0] if isinstance(key, tuple) else key
        if not isinstance(rows, slice):
            raise TypeError("Prepared rows are read in slices; take the dense array for more.")
        block = self._prepared(rows if self.positions is None else self.positions[rows])
        return block[(slice(None), *key[1:])] if isinstance(key, tuple) else block

    def _prepared(self, which: slice | NDArray[np.intp]) -> Array:
        """Some rows of the source, prepared anew."""
        if self._lengths is not None:
            return self._divided(which, *self._lengths)
        if isinstance(which, slice):
            block = self.source[which, :]
        else:
            block = take_rows(self.source, which)
        if self.is_clean:
            return floating(block) if self.norm is None else unit_rows(floating(block))
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
        may_be = self.norm == "l2" and self.is_clean and isinstance(self.source, np.ndarray)
        if may_be and self._lengths is None:
            blocks = (floating(self.source[rows, :]) for rows in self._blocks(self.source.shape[0]))
            largest, norm = zip(*(scaled_rows(block)[1:] for block in blocks), strict=True)
            self._lengths = np.concatenate(largest), np.concatenate(norm)

    def chosen(self, positions: NDArray[np.intp]) -> PreparedRows:
        """Some of the rows, not read yet."""
        if "dense" in vars(self):
            return PreparedRows.of_prepared(take_rows(self.dense, positions))
        if self.positions is not None:
            positions = self.positions[positions]
        rows = PreparedRows(self.source, self.norm, positions)
        rows.is_clean, rows._lengths = self.is_clean, self._lengths
        return rows

    def take(self, positions: NDArray[np.intp]) -> Array:
        """Some of the rows."""
        if "dense" in vars(self):
            return take_rows(self.dense, positions)
        return self._prepared(positions if self.positions is None else self.positions[positions])

    def check(self) -> None:
        """Say once what is replaced; refuse what cannot be prepared."""
        prepare = FeaturePreparation(self.norm)
        for rows in self._blocks(self.source.shape[0]):
            prepare.checked(self.source[rows, :])
        prepare.warn()
        self.is_clean = prepare.replaced == 0 and not on_device(self.source)
        if self.norm is None:
            refuse_extreme_features(floating(self.source))

    @cached_property
    def dense(self) -> Array:
        """All rows in one array, made once."""
        return self.whole()

    def whole(self) -> Array:
        """All rows in one array; the features themselves where nothing is to be prepared."""
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
        width = 8 if not on_device(self.source) else 4
        row_bytes = 4 * width * self.shape[1]
        return row_blocks(n_rows, row_bytes, block_budget(self.source))


#: Rows of so many blocks, and no more, are prepared once for code that reads them many times.
COPIED_BLOCKS = 2


def for_many_passes(rows: Any) -> Any:
    """Rows for a solver that goes through them again and again: one array, or lazy ones, measured.

    Lazy are those of which no copy is to be held as there are too many. On a device, and where
    nothing is divided, there is one array.
    """
    if not isinstance(rows, PreparedRows):
        return rows
    if "dense" not in vars(rows) and rows.norm and isinstance(rows.source, np.ndarray):
        copy = math.prod(rows.shape) * np.dtype(rows.dtype).itemsize
        if copy > COPIED_BLOCKS * block_budget(rows.source):
            rows.measure()
            return rows
    return rows.dense
