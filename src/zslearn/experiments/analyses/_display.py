"""What the pictures of analyses have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from zslearn._utils._messages import name_some
from zslearn._utils._optional import import_optional
from zslearn.experiments._figures import new_figure, save_figure
from zslearn.experiments._names import method_style


class AnalysisDisplay:
    """Picture of an analysis, made from its table.

    Parameters
    ----------
    frame : DataFrame
        What the function of the analysis returns.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes that were drawn in last.
    figure_ : matplotlib Figure
        The figure that holds them.
    """

    #: Columns that the table must have.
    columns: ClassVar[tuple[str, ...]] = ("method", "metric", "value")
    #: Names of the pictures there are; the first is drawn by default.
    panels: ClassVar[tuple[str, ...]] = ("",)
    #: Inches of a saved picture.
    size: ClassVar[tuple[float, float]] = (6.4, 4.4)

    ax_: Any
    figure_: Any

    def __init__(self, frame: pd.DataFrame) -> None:
        missing = [name for name in self.columns if name not in frame.columns]
        if missing:
            raise ValueError(
                f"{type(self).__name__} needs the columns {name_some(self.columns, 9)}; the table "
                f"lacks {name_some(missing)}."
            )
        if frame.empty:
            raise ValueError("There is nothing to draw: the table has no rows.")
        self.frame = frame

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, *, ax: Any = None, panel: str | None = None) -> Self:
        """Draw the table of an analysis.

        Parameters
        ----------
        frame : DataFrame
            What the function of the analysis returns.
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        panel : str, default=None
            Which of `panels`. None: the first.

        Returns
        -------
        display
        """
        return cls(frame).plot(ax=ax, panel=panel)

    def plot(self, ax: Any = None, *, panel: str | None = None) -> Self:
        """Draw into axes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        panel : str, default=None
            Which of `panels`. None: the first.

        Returns
        -------
        display
            This object.
        """
        panel = self.panels[0] if panel is None else panel
        if panel not in self.panels:
            raise ValueError(f"There is no picture {panel!r}; there are: {self.panels}.")
        if ax is None:
            pyplot = import_optional("matplotlib.pyplot", type(self).__name__)
            _, ax = pyplot.subplots(figsize=self._size(), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax, panel)
        return self

    def _draw(self, ax: Any, panel: str) -> None:
        """Draw one of `panels`; each kind of picture has its own."""
        raise NotImplementedError

    def _size(self) -> tuple[float, float]:
        return self.size

    def save(self, folder: Path | str, name: str) -> list[Path]:
        """Write every picture as SVG and as PNG.

        Parameters
        ----------
        folder : path
            Where; it is made.
        name : str
            What the files are called.

        Returns
        -------
        list of Path
            The files.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for panel in self.panels:
            figure = new_figure(figsize=self._size())
            self.plot(figure.subplots(), panel=panel)
            for kind in ("svg", "png"):
                path = folder / f"{'-'.join(part for part in (name, panel) if part)}.{kind}"
                save_figure(figure, path)
                paths.append(path)
        return paths


def mean_and_spread(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Mean and standard deviation of `value` over what `by` does not name, such as seeds."""
    groups = frame.groupby(list(by), sort=False, dropna=False)["value"]
    found = groups.agg(["mean", "std", "count"]).reset_index()
    return found.rename(columns={"std": "spread", "count": "n"})


def draw_lines(
    ax: Any, frame: pd.DataFrame, x: str, *, xlabel: str, ylabel: str, factor: float = 1.0
) -> None:
    """A line per method over the numbers of a column, with bars of one standard deviation."""
    stats = mean_and_spread(frame, ["method", x])
    for method, part in stats.groupby("method", sort=False):
        part = part.sort_values(x)
        style = method_style(str(method)).plot_options
        spread = None if part["spread"].isna().all() else factor * part["spread"].fillna(0.0)
        ax.errorbar(
            part[x].astype(float),
            factor * part["mean"],
            yerr=spread,
            marker="o",
            markersize=4,
            capsize=2,
            label=str(method),
            **style,
        )
    ax.set(xlabel=xlabel, ylabel=ylabel)
    plain_legend(ax)


def draw_bars(
    ax: Any,
    frame: pd.DataFrame,
    groups: str,
    bars: str,
    *,
    ylabel: str,
    factor: float = 1.0,
    colors: dict[str, str] | None = None,
) -> None:
    """Bars side by side: a group per value of one column, a bar per value of another."""
    stats = mean_and_spread(frame, [groups, bars])
    places = list(dict.fromkeys(stats[groups]))
    kinds = list(dict.fromkeys(stats[bars]))
    width = 0.8 / len(kinds)
    hatches = ("", "//", "..", "xx", "\\\\", "++")
    for i, kind in enumerate(kinds):
        part = stats[stats[bars] == kind].set_index(groups).reindex(places)
        style = method_style(str(kind))
        ax.bar(
            np.arange(len(places)) + (i - (len(kinds) - 1) / 2) * width,
            factor * part["mean"],
            width,
            yerr=None if part["spread"].isna().all() else factor * part["spread"].fillna(0.0),
            capsize=2,
            color=(colors or {}).get(str(kind), style.color),
            hatch=hatches[i % len(hatches)] if colors else ("//" if style.line == "dashed" else ""),
            edgecolor="white",
            label=str(kind),
        )
    ax.set_xticks(range(len(places)), [str(place) for place in places], parse_math=False)
    ax.set_ylabel(ylabel)
    plain_legend(ax)


def plain_legend(ax: Any, **options: Any) -> None:
    """A legend whose names are shown as they are: a dollar sign in one is no formula."""
    legend = ax.legend(fontsize=8, **options)
    for text in legend.get_texts():
        text.set_parse_math(False)
