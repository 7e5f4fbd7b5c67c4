"""The order of the examples: the first steps, then the others by name."""

from __future__ import annotations

from typing import Any


class FirstStepsFirst:
    """A key to sort file names by."""

    def __init__(self, *arguments: Any) -> None:
        """Take the folder of the examples, which does not matter."""

    def __call__(self, name: str) -> tuple[bool, str]:
        return name != "plot_first_steps.py", name
