"""The methods that runs know by name, in the order of tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zslearn.baselines import ESZSL

#: Name in tables → makes the method with its defaults.
METHODS: dict[str, Callable[[], Any]] = {
    "ESZSL": ESZSL,
}
