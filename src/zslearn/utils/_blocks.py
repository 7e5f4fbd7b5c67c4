"""Rows a block at a time, within a budget of memory."""

from __future__ import annotations

#: What the rows of one block and what is computed from them may take, in bytes.
BLOCK_BYTES = 1 << 25


def block_length(row_bytes: int, budget: int | None = None) -> int:
    """How many rows fit a budget of memory, at least one.

    Parameters
    ----------
    row_bytes : int
        What one row takes, with all that is computed from it.
    budget : int, optional
        Bytes of a block; by default `BLOCK_BYTES`.

    Returns
    -------
    int
        Number of rows.

    Examples
    --------
    >>> from zslearn.utils import block_length
    >>> block_length(8 * 2048)
    2048
    """
    return max(1, (BLOCK_BYTES if budget is None else budget) // max(1, row_bytes))


def row_blocks(n_rows: int, row_bytes: int, budget: int | None = None) -> list[slice]:
    """Slices that cover all rows, each within a budget of memory.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    row_bytes : int
        What one row takes, with all that is computed from it.
    budget : int, optional
        Bytes of a block; by default `BLOCK_BYTES`.

    Returns
    -------
    list of slice
        In ascending order.

    Examples
    --------
    >>> from zslearn.utils import row_blocks
    >>> row_blocks(5, row_bytes=8, budget=16)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    length = block_length(row_bytes, budget)
    return [slice(start, min(start + length, n_rows)) for start in range(0, n_rows, length)]
