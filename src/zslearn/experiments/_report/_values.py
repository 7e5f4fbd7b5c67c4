"""Numbers and texts as a report holds them."""

from __future__ import annotations

import math
from typing import Any

from zslearn.utils import plain

_LONGEST = 120


def number(value: Any, digits: int = 5) -> float | None:
    """A number with so many digits after the point; None where there is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return round(float(value), digits) if math.isfinite(value) else None


def significant(value: Any, digits: int = 4) -> float | None:
    """A number of any size with so many digits; None where there is none."""
    found = number(value, 300)
    return None if found is None else float(f"{found:.{digits}g}")


def text(value: Any) -> str:
    """Printable text of a length that a page can show."""
    return plain(value, _LONGEST)


def written(value: Any) -> str:
    """A value of a hyper-parameter, numbers short."""
    is_number = isinstance(value, float) and math.isfinite(value)
    return f"{value:.4g}" if is_number else text(value)
