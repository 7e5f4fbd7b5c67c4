"""Values of a hyper-parameter on an axis: its scale, the cells around them and their labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from zslearn.model_selection._landscape import is_number
from zslearn.utils import Floats

_LONGEST_NAME = 24

AxisKind = Literal["log", "linear", "category"]


def axis_kind(values: Sequence[Any]) -> AxisKind:
    """How values of a hyper-parameter are laid out on an axis.

    Parameters
    ----------
    values : sequence
        Distinct; numbers in ascending order.

    Returns
    -------
    {"log", "linear", "category"}
        "log" where numbers grow by about the same factor, and more evenly so than by equal steps;
        "linear" where their steps do not differ by more than a factor of 5; else "category".
    """
    if not all(is_number(value) for value in values):
        return "category"
    numbers = np.array([float(value) for value in values])
    if len(numbers) < 2:
        return "linear"
    linear = _unevenness(numbers)
    if numbers[0] > 0:
        logarithmic = _unevenness(np.log(numbers))
        # Two values have one step, which is even in both ways.
        far_apart = len(numbers) > 2 or numbers[1] >= 10 * numbers[0]
        if far_apart and logarithmic <= 1.6 and (logarithmic < linear or len(numbers) == 2):
            return "log"
    return "linear" if linear <= 5 else "category"


def _unevenness(numbers: Floats) -> float:
    """The largest step divided by the smallest."""
    steps = np.diff(numbers)
    # Even steps differ by rounding.
    return float(np.round(steps.max() / steps.min(), 9))


def positions(values: Sequence[Any], kind: AxisKind) -> Floats:
    """Places of values on their axis: numbers at themselves, categories at equal distances."""
    if kind == "category":
        return np.arange(len(values), dtype=np.float64)
    return np.array([float(value) for value in values])


def cell_borders(centres: Floats, kind: AxisKind) -> Floats:
    """Borders between cells: halfway between neighbours, on the scale of the axis."""
    if kind == "log":
        return np.exp(cell_borders(np.log(centres), "linear"))
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    between = (centres[1:] + centres[:-1]) / 2
    first, last = 2 * centres[0] - between[0], 2 * centres[-1] - between[-1]
    return np.array([first, *between, last])


def middle(low: float, high: float, scale: str) -> float:
    """The middle of two places on an axis."""
    return float(np.sqrt(low * high) if scale == "log" else (low + high) / 2)


def set_axis(axis: Any, set_scale: Any, name: str, values: Sequence[Any], kind: AxisKind) -> None:
    """Scale, name and one tick per value, every second or third where there are many."""
    if kind == "log":
        set_scale("log")
    ticks = positions(values, kind)
    step = -(-len(values) // 12)
    names = [written(value) for value in values]
    turned = axis.axis_name == "x" and sum(map(len, names[::step])) > 50
    rotation = {"rotation": 30, "ha": "right"} if turned else {}
    axis.set_ticks(ticks[::step], names[::step], parse_math=False, **rotation)
    axis.set_ticks([], minor=True)
    axis.set_label_text(short(name), parse_math=False)


def written(value: Any) -> str:
    """A value as a label."""
    if is_number(value):
        return f"{float(value):.4g}".replace("e-0", "e-").replace("e+0", "e")
    return short(value)


def short(value: Any) -> str:
    """Text on one line, cut where it is long."""
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1].rstrip() + "…"
