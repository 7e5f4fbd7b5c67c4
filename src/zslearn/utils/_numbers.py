"""Numbers from files."""

from __future__ import annotations

from typing import Any

# An area by the trapezoid rule may end this far above 1.
_ROUNDING = 1e-9


def is_share(value: Any) -> bool:
    """Whether a value is a number between 0 and 1, up to rounding; a truth value is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -_ROUNDING <= value <= 1 + _ROUNDING
