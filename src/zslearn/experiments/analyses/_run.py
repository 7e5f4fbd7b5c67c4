"""Run analyses by name, write their tables and plots, and summarise them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from zslearn._utils._files import atomic_write, refuse_unwritable
from zslearn._utils._messages import name_some
from zslearn._utils._optional import import_optional
from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._figures import new_figure, save_figure
from zslearn.experiments._runs import chosen_numbers
from zslearn.experiments.analyses import (
    _classes,
    _exemplars,
    _records,
    _shots,
    _sync,
    _unlabelled,
)
from zslearn.experiments.analyses._drawing import draw_bars, draw_lines, mean_and_deviation
from zslearn.experiments.analyses._jobs import JobRunner, choose_among, chosen_methods, chosen_rows
from zslearn.synthesis import EXEM, SynC

Draw = Callable[[Any, pd.DataFrame], None]
#: Options of every analysis besides `methods` and `seeds`; see JobRunner.
RUN_OPTIONS = ("grid", "n_splits", "resume", "progress", "n_jobs", "say", "command")


@dataclass(frozen=True)
class Analysis:
    """An analysis and its plots.

    `compute` runs jobs, and `read` reads records of runs, which are made first if there is no
    `compute`; both take a :class:`JobRunner` and options and return the table. `panels` maps names
    to functions that plot a table with certain `columns`; the first is the default. `methods` and
    `seeds` are defaults, and `choose` validates names of methods. `size` is that of a saved plot in
    inches. `tables` of the paper are filled by the records.
    """

    title: str
    compute: Callable[..., pd.DataFrame] | None
    columns: tuple[str, ...]
    panels: Mapping[str, Draw]
    methods: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    choose: Callable[[Any], list[str]] = chosen_methods
    size: tuple[float, float] = (6.4, 4.4)
    read: Callable[..., pd.DataFrame] | None = None
    tables: tuple[str, ...] = ()


_VALUES = ("metric", "value")
_THREE = ("ESZSL", "EXEM (1NN)", "Gaussian EXEM")
_SYNC = ("SynC o-vs-o",)
_EXEM = ("EXEM (1NN)",)
_SYNC_METHODS = partial(
    chosen_methods, fits=lambda method: isinstance(method, SynC), needed="SynC methods"
)
_ADAPTING_METHODS = partial(
    chosen_methods, fits=lambda method: hasattr(method, "adapt"), needed="methods with adapt"
)
# Methods that predict exemplars and compare images to them.
_EXEMPLAR_METHODS = partial(
    chosen_methods,
    fits=lambda method: isinstance(method, EXEM) and method.estimator is None,
    needed="EXEM (1NN), EXEM (1NNs) or your own subclass of EXEM",
)

#: Name → analysis.
ANALYSES: dict[str, Analysis] = {
    "curves": Analysis(
        "seen–unseen curves with their areas (AUSUC), and harmonic means",
        None,
        ("run", "method", "seed", "acc_unseen", "acc_seen", "harmonic", "ausuc", "mark"),
        {
            "seen-unseen": partial(
                _records.draw_curves, y="acc_seen", ylabel="accuracy on images of seen classes (%)"
            ),
            "harmonic": partial(_records.draw_curves, y="harmonic", ylabel="harmonic mean (%)"),
        },
        methods=("ESZSL", "Gaussian EXEM"),
        read=_records.collect_curves,
    ),
    "seen-classes": Analysis(
        "accuracy against the number of seen classes",
        _classes.vary_seen_classes,
        ("method", "n_seen", *_VALUES),
        {"": partial(draw_lines, x="n_seen", xlabel="number of seen classes")},
        methods=_THREE,
    ),
    "shots": Analysis(
        "accuracy and H against the number of labelled images of each unseen class",
        _shots.vary_shots,
        ("method", "shots", "seed", *_VALUES),
        {
            "accuracy": _shots.draw_shots,
            "harmonic": partial(_shots.draw_shots, metric="harmonic"),
        },
        methods=_shots.ROWS,
        seeds=(0, 1, 2, 3, 4),
        choose=partial(choose_among, {row: row for row in _shots.ROWS}, own=True),
    ),
    "unlabelled-sets": Analysis(
        "accuracy gained by adapting to unlabelled images, by the kind of the set",
        _unlabelled.compare_sets,
        ("method", "set", "seed", *_VALUES),
        {"": _unlabelled.draw_gains},
        methods=("Gaussian EXEM",),
        seeds=(0, 1, 2, 3, 4),
        choose=_ADAPTING_METHODS,
        size=(7.4, 4.6),
    ),
    "phantoms": Analysis(
        "accuracy against the number of SynC's phantom classes",
        _sync.vary_phantoms,
        ("method", "n_phantoms", "metric", "relative"),
        {"": _sync.draw_phantoms},
        methods=_SYNC,
        choose=_SYNC_METHODS,
    ),
    "components": Analysis(
        "principal components of one-versus-others classifiers",
        _sync.count_components,
        ("method", "alpha", *_VALUES),
        {"": _sync.draw_components},
        methods=_SYNC,
        choose=_SYNC_METHODS,
    ),
    "penalties": Analysis(
        "SynC with the penalty on w or v, with fixed or learned phantoms",
        _sync.compare_forms,
        ("method", "form", *_VALUES),
        {"": partial(draw_bars, groups="form")},
        methods=_SYNC,
        choose=_SYNC_METHODS,
        tables=("regularization", "learned_phantoms"),
    ),
    "exemplars": Analysis(
        "agreement of distances between signatures and exemplars with real exemplars",
        _exemplars.compare_exemplars,
        ("subset", "method", "k", "seed", *_VALUES),
        {
            "overlap": _exemplars.draw_overlaps,
            "difference": _exemplars.draw_overlap_differences,
        },
        methods=_EXEM,
        choose=_EXEMPLAR_METHODS,
        read=_exemplars.read_exemplars,
        tables=("correlation", "knn_overlap"),
    ),
    "exemplar-map": Analysis(
        "images with predicted and real exemplars, by t-SNE",
        _exemplars.map_exemplars,
        ("seed", "class", "kind", "x", "y"),
        {"": _exemplars.draw_map},
        methods=_EXEM,
        choose=_EXEMPLAR_METHODS,
        size=(7.4, 5.4),
    ),
    "regressors": Analysis(
        "regressors of exemplars, by number of dimensions",
        _exemplars.compare_regressors,
        ("method", "regressor", "n_components", *_VALUES),
        {"": _exemplars.draw_regressors},
        methods=("svr", "krr", "gp"),
        choose=partial(choose_among, _exemplars.REGRESSORS),
        tables=("regressor", "pca"),
    ),
    "distance": Analysis(
        "accuracy of unseen classes by their distance from the seen ones",
        _classes.measure_groups,
        ("method", "group", *_VALUES),
        {
            "": partial(
                draw_bars, groups="group", xlabel="unseen classes, by distance from the seen ones"
            )
        },
        methods=_THREE,
        size=(7.4, 4.6),
        read=_classes.read_groups,
    ),
    "ideal": Analysis(
        "the data set's signatures against ideal ones, on half of the test images",
        _classes.compare_ideal,
        ("method", "semantic", *_VALUES),
        {"": partial(draw_bars, groups="semantic", xlabel="signatures")},
        methods=("ESZSL", "EXEM (1NN)"),
    ),
    "protocol": Analysis(
        "effect of the tuning protocol",
        None,
        ("method", "choice", "metric", "difference", "deviation"),
        {metric: partial(_records.draw_differences, metric=metric) for metric in _records.COMPARED},
        methods=("ESZSL",),
        seeds=(0, 1),
        size=(7.4, 4.6),
        read=_records.vary_protocol,
    ),
}


def find_analysis(name: str) -> Analysis:
    """Look up an analysis by name."""
    if name not in ANALYSES:
        raise ValueError(f"Unknown analysis {name!r}; choose from {', '.join(ANALYSES)}.")
    return ANALYSES[name]


def analyze(
    name: str,
    data: ZeroShotDataset | None,
    out: Path | str,
    *,
    methods: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    runs: Path | str | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Compute the table of an analysis for one split; see :func:`run_analysis`."""
    analysis = find_analysis(name)
    common = {key: options.pop(key) for key in RUN_OPTIONS if key in options}
    # By default all methods and seeds of given records are read.
    methods = analysis.methods if methods is None and runs is None else methods
    seeds = analysis.seeds if seeds is None and runs is None else seeds
    # Rows of records may also be kinds of signatures.
    choose = chosen_rows if analysis.compute is not None and runs is not None else analysis.choose
    chosen = [] if methods is None else choose(methods)
    numbers = [] if seeds is None else chosen_numbers(seeds)
    compute = analysis.read if analysis.compute is None or runs is not None else analysis.compute
    if compute is None or (data is None and compute is analysis.compute):
        raise ValueError(f"{name} cannot be computed from records; pass a data set.")
    runner = JobRunner(name, data, Path(out), chosen, numbers, runs, **common)
    frame = compute(runner, **options)
    frame.attrs["analysis"] = name
    return frame


def run_analysis(
    analysis: str,
    data: ZeroShotDataset | None,
    out: Path | str,
    *,
    splits: Sequence[str] | None = None,
    **options: Any,
) -> tuple[pd.DataFrame, list[Path]]:
    """Run an analysis, and write its table and plots.

    Finished jobs are kept as records and not repeated, so an interrupted analysis resumes.
    :ref:`analyses` describes the analyses and has an example.

    Parameters
    ----------
    analysis : str
        Name of the analysis, a key of `ANALYSES`.
    data : ZeroShotDataset or None
        The data set, with its active split. None requires `runs`.
    out : path
        Folder for the records, the table ``NAME.csv`` and the plots.
    splits : sequence of str, optional
        Splits to analyse in turn; by default the active one.
    **options
        For every analysis: `methods`, `seeds`, `grid` (by default "quick", which is "fast" with at
        most three values of each hyper-parameter), `n_splits` (folds over the seen classes, by
        default 3), and `resume`, `progress`, `n_jobs`, `say` and `command` as in
        :func:`run_benchmark`. For `curves`, `protocol`, `distance` and `exemplars`: `runs`, a
        folder of records to read. For some: `shares` and `retune` (`seen-classes`, `phantoms`);
        `shots`; `alphas` (`components`); `forms` (`penalties`); `n_classes` and `n_images`
        (`exemplar-map`); `dimensions` (`regressors`).

    Returns
    -------
    frame : DataFrame
        The table, for :class:`AnalysisDisplay` and :func:`summarize_analysis`.
    paths : list of Path
        The files of the table and the plots.
    """
    found = find_analysis(analysis)
    path = Path(out) / f"{analysis}.csv"
    refuse_unwritable(path)
    if data is not None and splits is not None and len(splits) > 1:
        if found.compute is None:
            raise ValueError(
                f"{analysis} takes one split at a time; for several splits, run a benchmark "
                "(zslearn bench) and pass its records (runs=)."
            )
        frames = [analyze(analysis, data.with_split(name), out, **options) for name in splits]
        frame = pd.concat(frames, ignore_index=True)
    else:
        data = data.with_split(splits[0]) if data is not None and splits else data
        frame = analyze(analysis, data, out, **options)
    with atomic_write(path) as temporary:
        frame.to_csv(temporary, index=False)
    return frame, [path, *AnalysisDisplay(frame, analysis).save(out)]


class AnalysisDisplay:
    """Plots of an analysis.

    Parameters
    ----------
    frame : DataFrame
        Table from :func:`run_analysis`.
    analysis : str, optional
        Name of the analysis; by default taken from the table.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the latest plot.
    figure_ : matplotlib Figure
        Figure of the latest plot.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.experiments.analyses import AnalysisDisplay
    >>> rows = [("ESZSL", 10, "per_class_accuracy", 0.4), ("ESZSL", 20, "per_class_accuracy", 0.5)]
    >>> frame = pd.DataFrame(rows, columns=["method", "n_seen", "metric", "value"])
    >>> AnalysisDisplay(frame, "seen-classes").plot().ax_.get_xlabel()
    'number of seen classes'
    """

    ax_: Any
    figure_: Any

    def __init__(self, frame: pd.DataFrame, analysis: str | None = None) -> None:
        self.analysis = str(frame.attrs.get("analysis")) if analysis is None else analysis
        found = find_analysis(self.analysis)
        missing = [name for name in found.columns if name not in frame.columns]
        if missing:
            raise ValueError(
                f"{self.analysis} needs the columns {name_some(found.columns, 9)}; the table "
                f"lacks {name_some(missing)}."
            )
        if frame.empty:
            raise ValueError("There is nothing to plot: the table has no rows.")
        self.frame = frame

    @property
    def panels(self) -> tuple[str, ...]:
        """Names of the available plots; the first is the default."""
        return tuple(ANALYSES[self.analysis].panels)

    def plot(self, ax: Any = None, *, panel: str | None = None) -> Self:
        """Plot into axes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot into; by default those of a new figure.
        panel : str, default=None
            Name of the plot; by default the first of `panels`.

        Returns
        -------
        display
            This object.
        """
        panel = self.panels[0] if panel is None else panel
        if panel not in self.panels:
            raise ValueError(f"Unknown panel {panel!r}; choose from {self.panels}.")
        if ax is None:
            pyplot = import_optional("matplotlib.pyplot", type(self).__name__)
            _, ax = pyplot.subplots(figsize=ANALYSES[self.analysis].size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        ANALYSES[self.analysis].panels[panel](ax, self.frame)
        return self

    def save(self, folder: Path | str) -> list[Path]:
        """Save every plot as SVG and PNG.

        Parameters
        ----------
        folder : path
            Folder for the files; created if needed.

        Returns
        -------
        list of Path
            The files, named after the analysis.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for panel in self.panels:
            figure = new_figure(figsize=ANALYSES[self.analysis].size)
            self.plot(figure.subplots(), panel=panel)
            for kind in ("svg", "png"):
                name = "-".join(part for part in (self.analysis, panel) if part)
                paths.append(folder / f"{name}.{kind}")
                save_figure(figure, paths[-1])
        return paths


#: Columns with the origin of numbers, shown if they have several values.
_ORIGIN = ("dataset", "split", "subset", "features", "semantic")
_MAIN = (
    "per_class_accuracy", "components_share", "distance_correlation", "knn_overlap", "harmonic",
    "calibrated_harmonic", _shots.WORTH, "AUSUC", "H without a factor", "H calibrated",
    "gain", "gain_present", "gain_absent",
)  # fmt: skip


def summarize_analysis(frame: pd.DataFrame, *, as_text: bool = True) -> pd.DataFrame:
    """Summarise the table of an analysis by means over seeds.

    Parameters
    ----------
    frame : DataFrame
        Table from :func:`run_analysis`.
    as_text : bool, default=True
        Whether to return text with one column per metric, or numbers with one row per metric.

    Returns
    -------
    DataFrame
        One row per method and setting. Numbers have the columns "mean", "deviation" and "n_runs".
        Without metrics, the rows of the table.
    """
    if "kind" in frame.columns:
        counts = frame.groupby(["class", "kind"]).size().unstack()
        return counts.astype(str) if as_text else counts
    if "bias" in frame.columns:
        frame = _curve_numbers(frame)
    if not {"metric", "value"} <= set(frame.columns):
        shown = frame.drop(columns=["features", "semantic"], errors="ignore")
        return shown.set_index(shown.columns[0]).map(_cell) if as_text else shown
    main = frame[frame["metric"].isin(_MAIN)]
    kept = main.drop(columns=["seed", "value", "relative", "regressor"], errors="ignore")
    names = [n for n in kept.columns if n not in _ORIGIN or kept[n].nunique() > 1]
    names = [
        "method",
        *(n for n in names if n not in ("method", "metric") and kept[n].notna().any()),
    ]
    if not as_text:
        numbers = mean_and_deviation(main, [*names, "metric"])
        return numbers.rename(columns={"n": "n_runs"})
    main = main.assign(**{n: main[n].map(_cell) for n in names})
    groups = main.groupby([*names, "metric"], sort=False)["value"]
    cells = groups.agg(_mean_cell).unstack("metric", sort=False)
    return cells.reset_index().set_index("method").fillna("–")


def _curve_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """The areas and harmonic means of curves as numbers, the best method first."""
    areas = frame.drop_duplicates("run").assign(metric="AUSUC", value=lambda runs: runs["ausuc"])
    parts = [areas]
    for mark, title in (("without", "H without a factor"), ("calibrated", "H calibrated")):
        at = frame[frame["mark"].str.contains(mark)]
        parts.append(at.assign(metric=title, value=at["harmonic"]))
    numbers = pd.concat(parts, ignore_index=True)
    best = areas.groupby("method")["ausuc"].mean()
    order = numbers["method"].map(best).sort_values(ascending=False, kind="stable").index
    return numbers.loc[order, ["dataset", "split", "method", "seed", "metric", "value"]]


def _mean_cell(values: pd.Series) -> str:
    deviation = f" ± {values.std():.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{deviation}"


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "none"
    if isinstance(value, float):
        return f"{value:.0f}" if value == round(value) else f"{value:.4g}"
    return str(value)
