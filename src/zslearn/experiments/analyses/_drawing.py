"""Lines and bars that the pictures of analyses are made of, in the methods' colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from zslearn.experiments._names import method_style

ACCURACY = "per_class_accuracy"


def mean_and_deviation(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Mean and standard deviation of `value` over what `by` does not name, such as seeds."""
    groups = frame.groupby(list(by), sort=False, dropna=False)["value"]
    found = groups.agg(["mean", "std", "count"]).reset_index()
    return found.rename(columns={"std": "deviation", "count": "n"})


def error_bars(part: pd.DataFrame, factor: float = 100) -> Any:
    """Deviations for matplotlib; None where there is none at all."""
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
) -> None:
    """A line per method over the numbers of a column, in %, with one standard deviation."""
    stats = mean_and_deviation(frame[frame["metric"] == metric], ["method", x])
    for method, part in stats.groupby("method", sort=False):
        part = part.sort_values(x)
        ax.errorbar(
            part[x].astype(float),
            100 * part["mean"],
            yerr=error_bars(part),
            marker="o",
            markersize=4,
            capsize=2,
            label=str(method),
            **method_style(str(method)).plot_options,
        )
    ax.set(xlabel=xlabel, ylabel=ylabel)
    plain_legend(ax)


def draw_bars(ax: Any, frame: pd.DataFrame, *, groups: str, xlabel: str = "") -> None:
    """Accuracy as bars side by side: a group per value of a column, a bar per method.

    Of several kinds of signatures each has a bar, the paler the later it comes.
    """
    frame = frame[frame["metric"] == ACCURACY]
    kinds = [] if groups == "semantic" else list(frame.get("semantic", pd.Series()).unique())
    bars = ["method", "semantic"] if len(kinds) > 1 else ["method"]
    stats = mean_and_deviation(frame, [groups, *bars])
    places = list(dict.fromkeys(stats[groups]))
    parts = list(stats.groupby(bars, sort=False))
    width = 0.8 / len(parts)
    for i, ((method, *kind), part) in enumerate(parts):
        part = part.set_index(groups).reindex(places)
        style = method_style(str(method))
        ax.bar(
            np.arange(len(places)) + (i - (len(parts) - 1) / 2) * width,
            100 * part["mean"],
            width,
            yerr=error_bars(part),
            capsize=2,
            color=style.color,
            hatch="//" if style.line == "dashed" else "",
            edgecolor="white",
            alpha=1 - kinds.index(kind[0]) / (len(kinds) + 1) if kind else 1,
            label=", ".join(map(str, [method, *kind])),
        )
    ax.set_xticks(range(len(places)), [str(place) for place in places], parse_math=False)
    ax.set(xlabel=xlabel, ylabel="accuracy per class (%)")
    # Beside the bars where it would hide some.
    plain_legend(ax, **({"loc": "upper left", "bbox_to_anchor": (1, 1)} if len(parts) > 5 else {}))


def plain_legend(ax: Any, **options: Any) -> None:
    """A legend whose names are shown as they are: a dollar sign in one is no formula."""
    legend = ax.legend(fontsize=8, **options)
    for text in legend.get_texts():
        text.set_parse_math(False)
