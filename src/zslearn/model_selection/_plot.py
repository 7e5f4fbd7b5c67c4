"""Plot of a search: scores over one or two hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np

from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import name_some
from zslearn._utils._optional import import_optional
from zslearn.metrics._display import (
    BLUE,
    VERMILION,
    Display,
    frame_cell,
    plain_texts,
    short_name,
    write_cell,
)
from zslearn.model_selection._grids import find_edges


def read_landscape(search: Any, x: str | None, y: str | None, score: str | None) -> dict[str, Any]:
    """Scores of a fitted search over some hyper-parameters, with the others at their best.

    Parameters
    ----------
    search : ZeroShotSearchCV
        A fitted search, also of scikit-learn.
    x, y : str or None
        Hyper-parameters of the horizontal and the vertical axis. If both are None, those that the
        grid varies, at most two.
    score : str or None
        Name of the score; by default the first, which is maximised.

    Returns
    -------
    dict
        The parameters of :class:`SearchLandscapeDisplay` by name.
    """
    results: Mapping[str, Any] | None = getattr(search, "cv_results_", None)
    if results is None:
        raise ValueError(f"This {type(search).__name__} is not fitted: call fit first.")
    prefix = "mean_test_"
    scores = [key.removeprefix(prefix) for key in results if key.startswith(prefix)]
    if not scores:
        raise ValueError(
            "The search compared no settings, because it had no signatures, too few seen classes, "
            "or only one setting."
        )
    name = scores[0] if score is None else score
    if name not in scores:
        raise ValueError(f"The search has no score {score!r}; it has {name_some(scores)}.")
    settings: list[Mapping[str, Any]] = list(results["params"])
    x, y = _check_names(settings, x, y)
    mean = np.asarray(results[f"mean_test_{name}"], dtype=np.float64)
    std = np.asarray(results[f"std_test_{name}"], dtype=np.float64)

    axes = [axis for axis in (y, x) if axis is not None]
    values = [_values(settings, axis) for axis in axes]
    keys = [[_key(value) for value in axis_values] for axis_values in values]
    # The best setting of each cell, the first of equal ones; −1 if none has a score.
    cells: list[tuple[int, ...] | None] = []
    best = np.full([len(axis_values) for axis_values in values], -1, dtype=np.intp)
    for index, setting in enumerate(settings):
        cell = None
        if all(axis in setting for axis in axes):
            pairs = zip(axes, keys, strict=True)
            cell = tuple(key.index(_key(setting[axis])) for axis, key in pairs)
            is_better = best[cell] < 0 or mean[index] > mean[best[cell]]
            if is_better and not np.isnan(mean[index]):
                best[cell] = index
        cells.append(cell)
    edges = getattr(search, "edges_", None)
    if edges is None:
        edges = find_edges(search.estimator, settings, search.best_index_, mean)
    return {
        "x_name": x,
        "x_values": values[-1],
        "mean": np.where(best < 0, np.nan, mean[best]),
        "std": np.where(best < 0, np.nan, std[best]),
        "y_name": y,
        "y_values": values[0] if y is not None else None,
        "chosen": cells[search.best_index_],
        "chosen_score": float(mean[search.best_index_]),
        "edges": {axis: edge for axis, edge in edges.items() if axis in axes},
        "others": [axis for axis in _varied(settings) if axis not in axes],
        "score_name": name,
    }


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, not a bool."""
    return (
        isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
    )


def _varied(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Hyper-parameters with more than one value, in the order of the grid."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    return [name for name in names if len(_values(settings, name)) > 1]


def _check_names(
    settings: Sequence[Mapping[str, Any]], x: str | None, y: str | None
) -> tuple[str, str | None]:
    known = list(dict.fromkeys(name for setting in settings for name in setting))
    if x is None and y is None:
        varied = _varied(settings) or known[:1]
        if not 1 <= len(varied) <= 2:
            raise ValueError(
                f"The search varied {len(varied)} hyper-parameters: choose x= and y= among "
                f"{name_some(varied, limit=20)}."
            )
        return varied[0], varied[1] if len(varied) == 2 else None
    if x is None:
        raise ValueError("y= needs x=, the hyper-parameter of the horizontal axis.")
    for name in (x, y):
        if name is not None and name not in known:
            raise ValueError(
                f"The search has no hyper-parameter {name!r}; it has {name_some(known, limit=20)}."
            )
    if x == y:
        raise ValueError(f"x and y are both {x!r}: choose two hyper-parameters, or x= alone.")
    return x, y


def _key(value: Any) -> tuple[str, Any]:
    """A key that distinguishes values, also those that cannot be compared or hashed."""
    return ("number", float(value)) if is_number(value) else ("other", repr(value))


def _values(settings: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """Distinct values of a hyper-parameter: numbers sorted, others in the order of the grid."""
    found = {_key(setting[name]): setting[name] for setting in settings if name in setting}
    values = list(found.values())
    return sorted(values) if all(map(is_number, values)) else values


def _set_axis(axis: Any, name: str, values: Sequence[Any]) -> None:
    """Label an axis, with one tick per value, or fewer if there are many."""
    ticks = np.arange(len(values))
    step = -(-len(values) // 12)
    names = [_written(value) for value in values]
    turned = axis.axis_name == "x" and sum(map(len, names[::step])) > 50
    rotation = {"rotation": 30, "ha": "right"} if turned else {}
    axis.set_ticks(ticks[::step], names[::step], parse_math=False, **rotation)
    axis.set_ticks([], minor=True)
    axis.set_label_text(short_name(name), parse_math=False)


def _written(value: Any) -> str:
    """A value as a label."""
    if is_number(value):
        return f"{float(value):.4g}".replace("e-0", "e-").replace("e+0", "e")
    return short_name(value)


# Maximum number of cells of a heat map into which scores are written.
_MAX_WRITTEN = 100


@inherit_docs
@dataclass(kw_only=True, eq=False, repr=False)
class SearchLandscapeDisplay(Display):
    """Plot of the mean validation score over one or two hyper-parameters of a search.

    One hyper-parameter gives a line with a band of one standard deviation over the folds, two give
    a heat map. Other hyper-parameters are at their best for each value. The chosen setting is
    marked; if it is on an edge of the grid, the legend names the direction to search further.

    Use `from_search` to create a display; parameters are stored as attributes.

    Parameters
    ----------
    x_name, y_name : str
        Hyper-parameters of the axes; `y_name` is None for a line.
    x_values, y_values : sequence
        Their values: numbers sorted, others in the order of the grid.
    mean, std : ndarray of shape (n_x,) or (n_y, n_x)
        Mean score and its standard deviation over the folds; NaN where no setting has a score.
    chosen : tuple of int, default=None
        Position of the chosen setting, (x,) or (y, x); None if it is not in the plot.
    chosen_score : float, default=None
        Score of the chosen setting; by default that in `mean`.
    edges : mapping of str to {"smallest", "largest"}, default=None
        Hyper-parameters whose chosen value is on an edge of the grid.
    others : sequence of str, default=()
        The other hyper-parameters.
    score_name : str, default="score"
        Name of the score.

    Attributes
    ----------
    line_ : matplotlib Line2D or None
        The mean score over one hyper-parameter.
    band_ : matplotlib PolyCollection, LineCollection or None
        One standard deviation around it: a band, or separate lines if values have no order.
    mesh_ : matplotlib QuadMesh or None
        The mean score over two hyper-parameters.
    text_ : list of matplotlib Text
        Scores in the cells of the heat map.
    chosen_ : matplotlib Line2D or None
        The mark of the chosen setting: a diamond on the line, or a frame around the cell.

    See Also
    --------
    ZeroShotSearchCV : Searches.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.model_selection import SearchLandscapeDisplay, ZeroShotSearchCV
    >>> data = make_zero_shot(random_state=0)
    >>> grid = {"alpha_features": [1, 10, 100, 1000], "alpha_signatures": [0.01, 0.1, 1]}
    >>> search = ZeroShotSearchCV(ESZSL(), grid)
    >>> search = search.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> display = SearchLandscapeDisplay.from_search(search, x="alpha_features")
    >>> display.x_values
    [1, 10, 100, 1000]
    >>> display.mean.shape
    (4,)
    """

    x_name: str
    x_values: Sequence[Any]
    mean: Any
    std: Any
    y_name: str | None = None
    y_values: Sequence[Any] | None = None
    chosen: tuple[int, ...] | None = None
    chosen_score: float | None = None
    edges: Mapping[str, str] | None = None
    others: Sequence[str] = ()
    score_name: str = "score"

    def __post_init__(self) -> None:
        self.mean = np.asarray(self.mean, dtype=np.float64)
        self.std = np.asarray(self.std, dtype=np.float64)
        n_x = len(self.x_values)
        shape = (n_x,) if self.y_values is None else (len(self.y_values), n_x)
        if self.mean.shape != shape or self.std.shape != shape:
            raise ValueError(
                f"mean and std must have one entry per value: expected the shape {shape}, got "
                f"{self.mean.shape} and {self.std.shape}."
            )

    @classmethod
    def from_search(
        cls,
        search: Any,
        x: str | None = None,
        y: str | None = None,
        *,
        score: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the scores of a fitted search.

        Parameters
        ----------
        search, x, y, score
            See :func:`read_landscape`. With `x` alone the plot is a line.
        ax : matplotlib Axes, default=None
            Axes to draw into; by default those of a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for a line, `pcolormesh` for a heat map.

        Returns
        -------
        display : SearchLandscapeDisplay
        """
        display = cls(**read_landscape(search, x, y, score))
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the scores and the chosen setting.

        Parameters
        ----------
        **kwargs : dict
            Passed to matplotlib's `plot` for a line, `pcolormesh` for a heat map.
        """
        ax = self._begin(ax, layout="constrained")
        nothing: Any = None
        self.line_ = self.band_ = self.mesh_ = self.chosen_ = nothing
        self.text_: list[Any] = []
        _set_axis(ax.xaxis, self.x_name, self.x_values)
        if self.y_values is None:
            self._draw_line(kwargs)
            if self.chosen is not None:
                (self.chosen_,) = ax.plot(
                    self.chosen[0], self._score_of_chosen(), color=VERMILION, marker="D",
                    markersize=8, linestyle="none", zorder=3,
                )  # fmt: skip
        else:
            _set_axis(ax.yaxis, str(self.y_name), self.y_values)
            self._draw_mesh(kwargs)
            if self.mean.size <= _MAX_WRITTEN:
                self._write_values()
            if self.chosen is not None:
                y, x = ((place - 0.5, place + 0.5) for place in self.chosen)
                self.chosen_ = frame_cell(ax, x, y, linewidth=3)
        self._explain()
        return self

    def _draw_line(self, kwargs: dict[str, Any]) -> None:
        """Mean and standard deviation over the folds; values without an order are not joined."""
        x = np.arange(len(self.x_values))
        options: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 4}
        options["label"] = "mean over the folds ± 1 standard deviation"
        if {"c", "color"} & set(kwargs):
            del options["color"]
        ordered = all(map(is_number, self.x_values))
        if not ordered:
            options["linestyle"] = "none"
        (self.line_,) = self.ax_.plot(x, self.mean, **(options | kwargs))
        color, span = self.line_.get_color(), (self.mean - self.std, self.mean + self.std)
        if ordered:
            self.band_ = self.ax_.fill_between(x, *span, color=color, alpha=0.2, linewidth=0)
        else:
            self.band_ = self.ax_.vlines(x, *span, color=color, alpha=0.4, linewidth=3)
        self.ax_.set_ylabel(f"Validation {short_name(self.score_name)}", parse_math=False)

    def _draw_mesh(self, kwargs: dict[str, Any]) -> None:
        """Cells around the values; those without a score are grey."""
        options = {"cmap": "cividis", "edgecolors": "white", "linewidth": 0.5}
        scores = np.ma.masked_invalid(self.mean)
        y, x = (np.arange(n + 1) - 0.5 for n in self.mean.shape)
        self.mesh_ = self.ax_.pcolormesh(x, y, scores, **(options | kwargs))
        self.ax_.set_facecolor("0.85")
        bar = self.figure_.colorbar(self.mesh_, ax=self.ax_)
        bar.set_label(f"Mean validation {short_name(self.score_name)}", parse_math=False)

    def _write_values(self) -> None:
        """Write scores into the cells."""
        size = 9 if self.mean.shape[1] <= 8 else 7
        for (row, column), value in np.ndenumerate(self.mean):
            text = "no score" if np.isnan(value) else f"{value:.3f}"
            self.text_.append(write_cell(self.mesh_, column, row, float(value), text, size))

    def _score_of_chosen(self) -> float:
        return float(self.mean[self.chosen] if self.chosen_score is None else self.chosen_score)

    def _explain(self) -> None:
        """Add a legend above the axes, where it covers nothing."""
        lines = import_optional("matplotlib.lines", "SearchLandscapeDisplay")
        entries = [] if self.line_ is None else [((self.line_, self.band_), self.line_.get_label())]
        marks = {"color": VERMILION, "linestyle": "none", "markersize": 7}
        if self.chosen is not None:
            values = [f"{short_name(self.x_name)} = {_written(self.x_values[self.chosen[-1]])}"]
            frame: dict[str, Any] = {"marker": "D"}
            if self.y_values is not None:
                values.append(
                    f"{short_name(self.y_name)} = {_written(self.y_values[self.chosen[0]])}"
                )
                frame = {"marker": "s", "markerfacecolor": "none", "markeredgewidth": 2}
            handle = lines.Line2D([], [], **(marks | frame))
            label = f"chosen: {', '.join(values)} ({self._score_of_chosen():.3f})"
            for name, edge in (self.edges or {}).items():
                further = "smaller" if edge == "smallest" else "larger"
                label += f"\non the edge of the grid: try {further} {short_name(name)}"
            entries.append((handle, label))
        best = f"best over {', '.join(map(short_name, self.others))}" if self.others else None
        if not entries:
            self.ax_.set_title(best or "", fontsize=9, parse_math=False)
            return
        legend = self.ax_.legend(
            *zip(*entries, strict=True), title=best, title_fontsize=9, alignment="left",
            loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=9,
        )  # fmt: skip
        plain_texts(legend)
