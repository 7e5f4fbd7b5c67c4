"""Small tools that know nothing of zero-shot learning."""

from zslearn.utils._array import (
    Array,
    floating,
    is_foreign,
    move_like,
    take_rows,
    to_numpy,
    unit_rows,
)
from zslearn.utils._optional import import_optional
from zslearn.utils._warnings import InputWarning

__all__ = [
    "Array",
    "InputWarning",
    "floating",
    "import_optional",
    "is_foreign",
    "move_like",
    "take_rows",
    "to_numpy",
    "unit_rows",
]
