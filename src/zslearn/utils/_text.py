"""Words for messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def name_some(labels: Iterable[Any], limit: int = 5) -> str:
    """Write up to `limit` labels, and how many more there are."""
    names = [repr(label.item() if isinstance(label, np.generic) else label) for label in labels]
    shown = ", ".join(names[:limit])
    more = len(names) - limit
    return f"{shown} and {more} more" if more > 0 else shown
