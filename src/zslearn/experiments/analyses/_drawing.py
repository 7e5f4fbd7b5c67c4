"""Lines and bars in the colours of the methods, for the plots of analyses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from zslearn.experiments._names import method_style

ACCURACY = "per_class_accuracy"


def mean_and_deviation(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Mean and standard deviation of `value` in the groups of `by`."""
    groups = frame.groupby(list(by), sort=False, dropna=False)["value"]
    found = groups.agg(["mean", "std", "count"]).reset_index()
    return found.rename(columns={"std": "deviation", "count": "n"})


def error_bars(part: pd.DataFrame, factor: float = 100) -> Any:
    """Deviations for matplotlib; None if all are missing."""
    deviation = part["deviation"]
    return None if deviation.isna().all() else factor * deviation.fillna(0.0)


def draw_lines(
    ax: Any,
    frame: pd.DataFrame,
    *,
    x: str,
    xlabel: str,
    ylabel: str = "accuracy per class (%)",
    metric: str = ACCURACY,
    style: Callable[[str], dict[str, Any]] = lambda method: method_style(method).plot_options,
) -> None:
    """Draw a metric in % against a column, a line per method with standard deviations."""
    stats = mean_and_deviation(frame[frame["metric"] == metric], ["method", x])
    for method, part in stats.groupby("method", sort=False):
        part = part.sort_values(x)
        options = {"marker": "o", "markersize": 4, "capsize": 2, **style(str(method))}
        at, mean = part[x].astype(float), 100 * part["mean"]
        ax.errorbar(at, mean, yerr=error_bars(part), label=str(method), **options)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    plain_legend(ax)


def grouped_bars(
    ax: Any,
    groups: list[Any],
    bars: Sequence[tuple[pd.DataFrame, dict[str, Any]]],
    *,
    horizontal: bool = False,
) -> None:
    """Draw means in % side by side in each group: tables by group, and options of their bars."""
    draw, error = (ax.barh, "xerr") if horizontal else (ax.bar, "yerr")
    width = 0.8 / len(bars)
    for i, (part, options) in enumerate(bars):
        part = part.reindex(groups)
        at = np.arange(len(groups)) + (i - (len(bars) - 1) / 2) * width
        draw(at, 100 * part["mean"], width, **{error: error_bars(part), "capsize": 2, **options})


def bar_options(method: str) -> dict[str, Any]:
    """Colour and hatching of the bars of a method."""
    style = method_style(method)
    hatch = "//" if style.line == "dashed" else ""
    return {"color": style.color, "hatch": hatch, "edgecolor": "white"}


def draw_bars(ax: Any, frame: pd.DataFrame, *, groups: str, xlabel: str = "") -> None:
    """Draw accuracies as bars: a group per value of a column, a bar per method.

    Several kinds of signatures get a bar each, in paler and paler colours.
    """
    frame = frame[frame["metric"] == ACCURACY]
    kinds = [] if groups == "semantic" else list(frame.get("semantic", pd.Series()).unique())
    names = ["method", "semantic"] if len(kinds) > 1 else ["method"]
    stats = mean_and_deviation(frame, [groups, *names])
    places = list(dict.fromkeys(stats[groups]))
    bars = []
    for (method, *kind), part in stats.groupby(names, sort=False):
        options = {**bar_options(str(method)), "label": ", ".join(map(str, [method, *kind]))}
        if kind:
            options["alpha"] = 1 - kinds.index(kind[0]) / (len(kinds) + 1)
        bars.append((part.set_index(groups), options))
    grouped_bars(ax, places, bars)
    ax.set_xticks(range(len(places)), [str(place) for place in places], parse_math=False)
    ax.set(xlabel=xlabel, ylabel="accuracy per class (%)")
    # Many bars leave no space for the legend inside the axes.
    plain_legend(ax, **({"loc": "upper left", "bbox_to_anchor": (1, 1)} if len(bars) > 5 else {}))


def plain_legend(ax: Any, **options: Any) -> None:
    """Add a legend without parsing dollar signs in names as formulas."""
    legend = ax.legend(fontsize=8, **options)
    for text in legend.get_texts():
        text.set_parse_math(False)
