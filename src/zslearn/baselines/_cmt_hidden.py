"""The hidden layer of CMT's network, read twice: for the objective and for its slope."""

from __future__ import annotations

from collections.abc import Callable

import array_api_compat as compat

from zslearn.utils import Array, block_budget

# Where samples are few the hidden layer of all of them is held, up to so many blocks of memory.
# Else what enters it is, up to this share of the features; or it is computed again.
_HELD_BLOCKS = 2
_HELD_SHARE = 1 / 8


def held_bytes(like: Array) -> int:
    """How large a hidden layer may be to be held whole, on the device of an array."""
    return _HELD_BLOCKS * block_budget(like)


class HiddenLayer:
    """H for one first layer: held whole where it is small, else as much of it as is worth it.

    Parameters
    ----------
    features : callable
        Gives the features of a slice of the samples, in the dtype of products.
    n_samples : int
        Number of samples.
    first : array of shape (n_hidden, n_features)
        Weights, in the dtype of products.
    offset : array of shape (n_hidden,)
        Intercepts, in float64.
    are_few : bool
        Whether a copy of the samples may be held.
    """

    def __init__(
        self,
        features: Callable[[slice], Array],
        n_samples: int,
        first: Array,
        offset: Array,
        *,
        are_few: bool,
    ) -> None:
        self.features, self.first, self.offset = features, first, offset
        n_hidden, n_features = first.shape
        size = 8 * n_samples * n_hidden
        self._holds_output = are_few and size <= held_bytes(first)
        self._holds_input = n_hidden <= _HELD_SHARE * n_features
        self._held: dict[int, Array] = {}

    def computed(self, rows: slice) -> Array:
        """A block of H, of which what is wanted again is held."""
        inner = self._inner(self.features(rows))
        if self._holds_input and not self._holds_output:
            self._held[rows.start] = inner
        block = self._tanh(inner)
        if self._holds_output:
            self._held[rows.start] = block
        return block

    def read(self, rows: slice) -> tuple[Array, Array]:
        """A block of H and its features, once more."""
        features = self.features(rows)
        held = self._held.get(rows.start)
        if held is not None and self._holds_output:
            return held, features
        return self._tanh(self._inner(features) if held is None else held), features

    def _inner(self, features: Array) -> Array:
        return features @ compat.array_namespace(features).matrix_transpose(self.first)

    def _tanh(self, inner: Array) -> Array:
        xp = compat.array_namespace(inner)
        inner = xp.astype(inner, xp.float64, copy=False)
        return xp.tanh(inner + self.offset[None, :])
