"""The largest scores of each row, the first of equals first.

A library's own selection says nothing of equals. On a device that works apart from the host one
number more than wanted is selected, and rows in which two of them are equal are marked; these few
are settled at the end, when the host asks for the first time.
"""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np

from zslearn.utils import Array

Best = tuple[Array, Array]

# Selection in two steps pays where there are this many classes for each one wanted.
_GROUPED = 16


def largest(block: Array, k: int) -> Best:
    """Columns and values of the `k` largest of each row, descending; the first of equals wins."""
    xp = compat.array_namespace(block)
    if k == 1:
        return xp.argmax(block, axis=1, keepdims=True), xp.max(block, axis=1, keepdims=True)
    n_rows = block.shape[0]
    threshold = _kth_largest(block, k)
    columns = xp.nonzero(block >= threshold)[1]
    if columns.shape[0] < n_rows * k:
        raise ValueError(NOT_A_NUMBER)
    if columns.shape[0] > n_rows * k:
        # More than one class has the k-th largest score: the first of them have room.
        above = block > threshold
        equal = block == threshold
        room = k - xp.sum(xp.astype(above, xp.int64), axis=1, keepdims=True)
        first = xp.cumulative_sum(xp.astype(equal, xp.int64), axis=1) <= room
        columns = xp.nonzero(above | (equal & first))[1]
    # Exactly k per row, in the order of the columns: a stable sort then keeps the first of equals.
    indices = xp.reshape(columns, (n_rows, k))
    values = xp.take_along_axis(block, indices, axis=1)
    return _ordered(indices, values)


NOT_A_NUMBER = "Scores are NaN: look for NaN in the embedded rows or the parameters."


def _kth_largest(block: Array, k: int) -> Array:
    """The `k`-th largest value of each row, as a column; a selection where the library has one."""
    if compat.is_numpy_array(block):
        at = block.shape[1] - k
        return np.partition(block, at, axis=1)[:, at : at + 1]
    if compat.is_torch_array(block):
        return block.topk(k, dim=1).values[:, -1:]
    xp = compat.array_namespace(block)
    return xp.sort(block, axis=1)[:, -k][:, None]


def merged(first: Best, second: Best, k: int) -> Best:
    """The best `k` of two lists, the first of which holds the earlier classes."""
    xp = compat.array_namespace(first[1])
    indices = xp.concat([first[0], second[0]], axis=1)
    values = xp.concat([first[1], second[1]], axis=1)
    order = xp.argsort(values, axis=1, descending=True, stable=True)
    order = order[:, : min(k, order.shape[1])]
    return xp.take_along_axis(indices, order, axis=1), xp.take_along_axis(values, order, axis=1)


def in_order(best: Best) -> Best:
    """Lists in descending order; of equal values the smaller index comes first."""
    xp = compat.array_namespace(best[1])
    order = xp.argsort(best[0], axis=1)
    return _ordered(*(xp.take_along_axis(part, order, axis=1) for part in best))


def _ordered(indices: Array, values: Array) -> Best:
    """Lists in descending order of the values; equals stay as they are."""
    xp = compat.array_namespace(values)
    order = xp.argsort(values, axis=1, descending=True, stable=True)
    return xp.take_along_axis(indices, order, axis=1), xp.take_along_axis(values, order, axis=1)


def torch_largest(block: Any, k: int) -> Best:
    """Columns and values of the `k` largest of each row of a tensor, descending, equals anyhow.

    With many classes the columns fall into groups. The `k` largest numbers lie in the `k` groups of
    the largest maxima, or are equal to some that do: only these groups are looked through.
    """
    import torch

    n_rows, n_columns = block.shape
    if n_columns < _GROUPED * k:
        values, indices = block.topk(k, dim=1)
        return indices, values
    size = max(2, round((n_columns / k) ** 0.5))
    n_groups = n_columns // size
    whole = size * n_groups
    maxima = block[:, :whole].unflatten(1, (size, n_groups)).amax(dim=1)
    groups = maxima.topk(k, dim=1, sorted=False).indices
    steps = torch.arange(0, whole, n_groups, device=block.device)
    columns = (groups[:, None, :] + steps[None, :, None]).flatten(1)
    if whole < n_columns:
        rest = torch.arange(whole, n_columns, device=block.device)
        columns = torch.cat([columns, rest.expand(n_rows, -1)], dim=1)
    values, at = block.gather(1, columns).topk(k, dim=1)
    return columns.gather(1, at), values


def torch_merged(first: Best, second: Best, k: int) -> Best:
    """The best `k` of two lists of tensors, or all where there are fewer; equals anyhow."""
    import torch

    indices = torch.cat([first[0], second[0]], dim=1)
    values, at = torch.cat([first[1], second[1]], dim=1).topk(min(k, indices.shape[1]), dim=1)
    return indices.gather(1, at), values
