"""Runs of methods on data sets: protocols, records, published numbers, tables and figures."""

from zslearn.experiments._demo import Demo, run_demo
from zslearn.experiments._evaluate import (
    Evaluation,
    GeneralizedScores,
    evaluate,
    measure_conventional,
)
from zslearn.experiments._figures import save_curves, save_predictions
from zslearn.experiments._methods import (
    METHODS,
    Method,
    TuningOptions,
    find_method,
    tune_at_once,
    tune_on_exemplars,
)
from zslearn.experiments._published import TABLES, load_published, published_value
from zslearn.experiments._ranks import (
    Ranking,
    critical_difference,
    rank_methods,
    save_critical_difference,
    save_rank_counts,
)
from zslearn.experiments._records import failed_runs, read_records, summarize_runs
from zslearn.experiments._render import render, save_table_plot
from zslearn.experiments._runs import run_benchmark
from zslearn.experiments._tables import ResultTable, build_table

__all__ = [
    "METHODS",
    "TABLES",
    "Demo",
    "Evaluation",
    "GeneralizedScores",
    "Method",
    "Ranking",
    "ResultTable",
    "TuningOptions",
    "build_table",
    "critical_difference",
    "evaluate",
    "failed_runs",
    "find_method",
    "load_published",
    "measure_conventional",
    "published_value",
    "rank_methods",
    "read_records",
    "render",
    "run_benchmark",
    "run_demo",
    "save_critical_difference",
    "save_curves",
    "save_predictions",
    "save_rank_counts",
    "save_table_plot",
    "summarize_runs",
    "tune_at_once",
    "tune_on_exemplars",
]
