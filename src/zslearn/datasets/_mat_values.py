"""What both formats of MATLAB files share: what is read of them, and how the rest is refused."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

#: A variable: an array of numbers, a string, or a list of such for a cell array.
Value = NDArray[Any] | str | list[Any]

#: Deflate cannot shrink data further than about 1 : 1032.
LARGEST_RATIO = 1100
MAX_DIMENSIONS = 8
#: What a member of a cell array takes besides its data, and a row of characters: Python objects.
MEMBER_BYTES = 640
ROW_BYTES = 160


class MatFileError(ValueError):
    """A file is no MATLAB file, is damaged, or holds what is not read."""


def refusal(name: str, what: str, inside_cell: bool) -> MatFileError:
    """The error for a variable of a kind that is not read."""
    where = "holds a member that is" if inside_cell else "is"
    return MatFileError(
        f"variable {name!r} {where} {what}; only arrays of real numbers, strings and cell arrays "
        "of those are read."
    )
