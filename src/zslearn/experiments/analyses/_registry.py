"""Analyses by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zslearn._utils._files import replacing
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.experiments.analyses import (
    _classes as _distance,
)
from zslearn.experiments.analyses import (
    _classes as _per_class,
)
from zslearn.experiments.analyses import (
    _classes as _seen_classes,
)
from zslearn.experiments.analyses import (
    _exemplars,
    _ideal,
)
from zslearn.experiments.analyses import (
    _exemplars as _exemplar_map,
)
from zslearn.experiments.analyses import (
    _exemplars as _regressors,
)
from zslearn.experiments.analyses import (
    _records as _curves,
)
from zslearn.experiments.analyses import (
    _records as _protocols,
)
from zslearn.experiments.analyses import (
    _records as _ranking,
)
from zslearn.experiments.analyses import (
    _sync as _penalties,
)
from zslearn.experiments.analyses import (
    _sync as _phantoms,
)
from zslearn.experiments.analyses._display import AnalysisDisplay


@dataclass(frozen=True)
class Analysis:
    """An analysis under its name.

    Parameters
    ----------
    name : str
        What the command line calls it.
    title : str
        What it shows, in a line.
    run : callable
        Takes the data set, the folder of the records and options; gives the table.
    display : type of AnalysisDisplay
        Draws the table.
    from_records : bool, default=False
        Whether records of runs are enough (`runs=`).
    tables : tuple of str
        Tables of the paper that its records fill.
    """

    name: str
    title: str
    run: Callable[..., pd.DataFrame]
    display: type[AnalysisDisplay]
    from_records: bool = False
    tables: tuple[str, ...] = ()


_ALL = (
    Analysis(
        "curves",
        "seen–unseen curves with their areas, and harmonic means",
        _curves.analyze_curves,
        _curves.CurvesDisplay,
        from_records=True,
    ),
    Analysis(
        "seen-classes",
        "accuracy against the number of seen classes",
        _seen_classes.analyze_seen_classes,
        _seen_classes.SeenClassesDisplay,
    ),
    Analysis(
        "phantoms",
        "accuracy against the number of SynC's phantom classes",
        _phantoms.analyze_phantoms,
        _phantoms.PhantomsDisplay,
    ),
    Analysis(
        "components",
        "principal components of one-versus-others classifiers",
        _phantoms.analyze_components,
        _phantoms.ComponentsDisplay,
    ),
    Analysis(
        "penalties",
        "SynC with the penalty on w or v, with fixed or learned phantoms",
        _penalties.analyze_penalties,
        _penalties.PenaltiesDisplay,
        tables=("regularization", "learned_phantoms"),
    ),
    Analysis(
        "exemplars",
        "how well predicted exemplars order the unseen classes",
        _exemplars.analyze_exemplars,
        _exemplars.ExemplarsDisplay,
        tables=("correlation", "knn_overlap"),
    ),
    Analysis(
        "exemplar-map",
        "images with predicted and real exemplars, by t-SNE",
        _exemplar_map.analyze_exemplar_map,
        _exemplar_map.ExemplarMapDisplay,
    ),
    Analysis(
        "regressors",
        "what predicts exemplars, in how many dimensions",
        _regressors.analyze_regressors,
        _regressors.RegressorsDisplay,
        tables=("regressor", "pca"),
    ),
    Analysis(
        "distance",
        "accuracy of unseen classes by their distance from the seen ones",
        _distance.analyze_distance,
        _distance.DistanceDisplay,
    ),
    Analysis(
        "ideal",
        "the data set's signatures against ideal ones, on half of the test images",
        _ideal.analyze_ideal,
        _ideal.IdealDisplay,
    ),
    Analysis(
        "ranks",
        "mean ranks with the Friedman test and critical differences",
        _ranking.analyze_ranks,
        _ranking.RanksDisplay,
        from_records=True,
    ),
    Analysis(
        "per-class",
        "single unseen classes: accuracy, confusions, distance",
        _per_class.analyze_per_class,
        _per_class.PerClassDisplay,
    ),
    Analysis(
        "protocol",
        "what a choice of protocol is worth",
        _protocols.analyze_protocol,
        _protocols.ProtocolDisplay,
        from_records=True,
    ),
)

#: Name → analysis.
ANALYSES: dict[str, Analysis] = {analysis.name: analysis for analysis in _ALL}


def run_analysis(
    analysis: str | Analysis,
    data: ZeroShotDataset | None,
    out: Path | str,
    *,
    splits: Sequence[str] | None = None,
    **options: Any,
) -> tuple[pd.DataFrame, list[Path]]:
    """Compute an analysis and write its table and pictures.

    Parameters
    ----------
    analysis : str or Analysis
        Which; a key of `ANALYSES`.
    data : ZeroShotDataset or None
        What is analysed, with its active split. None only where `runs` has records.
    out : path
        Folder of the records, the table ``NAME.csv`` and the pictures.
    splits : sequence of str, optional
        Splits of the data set that are analysed one after the other; by default the active one.
    **options
        Those of the analysis.

    Returns
    -------
    frame : DataFrame
        The table.
    paths : list of Path
        The table and the pictures.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.experiments.analyses import run_analysis
    >>> data = make_zero_shot(random_state=0)
    >>> frame, paths = run_analysis("components", data, mkdtemp(), alphas=[2**-16, 2**-10])
    >>> [path.name for path in paths]
    ['components.csv', 'components.svg', 'components.png']
    """
    if isinstance(analysis, str):
        if analysis not in ANALYSES:
            raise ValueError(
                f"There is no analysis {analysis!r}; there are: {', '.join(ANALYSES)}."
            )
        analysis = ANALYSES[analysis]
    if data is not None and splits is not None and len(splits) > 1:
        if analysis.from_records:
            raise ValueError(
                f"{analysis.name} takes one split at a time; for several run the benchmark "
                "(zslearn bench) and name its records (runs=, --runs)."
            )
        frame = pd.concat(
            [analysis.run(data.with_split(name), out, **options) for name in splits],
            ignore_index=True,
        )
    else:
        data = data.with_split(splits[0]) if data is not None and splits else data
        frame = analysis.run(data, out, **options)
    path = Path(out) / f"{analysis.name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        frame.to_csv(temporary, index=False)
    return frame, [path, *analysis.display(frame).save(out, analysis.name)]


#: Columns that say where numbers come from; shown where they differ.
_ORIGIN = ("dataset", "split", "features", "semantic")
_MAIN = ("per_class_accuracy", "components_share", "distance_correlation", "knn_overlap")


def summarize_analysis(frame: pd.DataFrame) -> pd.DataFrame:
    """The table of an analysis for a person: means over seeds, as text.

    Parameters
    ----------
    frame : DataFrame
        What the function of an analysis returns.

    Returns
    -------
    DataFrame of str
        One row per method and setting, one column per metric; or the table itself with rounded
        numbers where it has no such.
    """
    if "bias" in frame.columns:
        return _curve_summary(frame)
    if "kind" in frame.columns:
        return frame.groupby(["class", "kind"]).size().unstack().astype(str)
    if not {"metric", "value"} <= set(frame.columns):
        shown = frame.drop(columns=["confusion", "features", "semantic"], errors="ignore")
        return shown.set_index(shown.columns[0]).map(_cell)
    main = frame[frame["metric"].isin(_MAIN)]
    kept = main.drop(columns=["seed", "value", "relative", "regressor"], errors="ignore")
    names = [n for n in kept.columns if n not in _ORIGIN or kept[n].nunique() > 1]
    names = [
        "method",
        *(n for n in names if n not in ("method", "metric") and kept[n].notna().any()),
    ]
    main = main.assign(**{n: main[n].map(_cell) for n in names})
    groups = main.groupby([*names, "metric"], sort=False)["value"]
    cells = groups.agg(_mean_cell).unstack("metric")
    return cells.reset_index().set_index("method").fillna("–")


def _curve_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Areas and harmonic means of curves, a row per method."""
    runs = frame.drop_duplicates("run").groupby("method")["ausuc"]
    table = pd.DataFrame({"AUSUC": runs.agg(_mean_cell)})
    for mark, title in (("without", "H without a factor"), ("calibrated", "H calibrated")):
        at = frame[frame["mark"].str.contains(mark)].groupby("method")["harmonic"]
        table[title] = at.agg(_mean_cell)
    order = runs.mean().sort_values(ascending=False, kind="stable").index
    return table.loc[order].fillna("–")


def _mean_cell(values: pd.Series) -> str:
    spread = f" ± {values.std():.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{spread}"


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "none"
    if isinstance(value, float):
        return f"{value:.0f}" if value == round(value) else f"{value:.4g}"
    return str(value)
