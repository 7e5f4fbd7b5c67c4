"""Small tools that know nothing of zero-shot learning."""

from zslearn.utils._array import (
    Array,
    floating,
    is_foreign,
    move_like,
    plain_tensor,
    take_rows,
    to_numpy,
    unit_rows,
)
from zslearn.utils._files import replacing
from zslearn.utils._optional import import_optional
from zslearn.utils._processes import end_with_parent
from zslearn.utils._text import name_some
from zslearn.utils._warnings import InputWarning, warn_user

__all__ = [
    "Array",
    "InputWarning",
    "end_with_parent",
    "floating",
    "import_optional",
    "is_foreign",
    "move_like",
    "name_some",
    "plain_tensor",
    "replacing",
    "take_rows",
    "to_numpy",
    "unit_rows",
    "warn_user",
]
