"""Analyses by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from zslearn.experiments.analyses import (
    _curves,
    _distance,
    _exemplar_map,
    _exemplars,
    _ideal,
    _penalties,
    _per_class,
    _phantoms,
    _protocols,
    _ranking,
    _regressors,
    _seen_classes,
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
