"""Runs of methods on data sets: protocols, records, published numbers, tables and figures."""

from zslearn.experiments._demo import Demo, run_demo
from zslearn.experiments._evaluate import (
    Evaluation,
    GeneralizedScores,
    evaluate,
    measure_conventional,
)
from zslearn.experiments._examples import save_examples
from zslearn.experiments._figures import save_curves, save_predictions
from zslearn.experiments._methods import METHODS, Method, default_methods, find_method
from zslearn.experiments._palette import MethodStyle, method_style
from zslearn.experiments._prompts_only import PromptsOnly
from zslearn.experiments._protocol import GRIDS, PROTOCOLS, Protocol, authors_protocol
from zslearn.experiments._published import TABLES, load_published, published_value
from zslearn.experiments._ranks import (
    Ranking,
    critical_difference,
    rank_methods,
    save_critical_difference,
    save_rank_counts,
)
from zslearn.experiments._records import failed_runs, grid_edges, read_records, write_record
from zslearn.experiments._render import FORMATS, render, save_table_plot
from zslearn.experiments._report import write_report
from zslearn.experiments._runs import run_benchmark
from zslearn.experiments._streams import (
    Predictions,
    evaluate_stream,
    read_top_k,
    write_top_k,
)
from zslearn.experiments._summary import RunSummary, compare_runs, summarize_runs
from zslearn.experiments._tables import ResultTable, build_table
from zslearn.experiments._tuning import (
    TuningOptions,
    simplex_lattice,
    tune_at_once,
    tune_in_two_steps,
    tune_on_exemplars,
)

__all__ = [
    "FORMATS",
    "GRIDS",
    "METHODS",
    "PROTOCOLS",
    "TABLES",
    "Demo",
    "Evaluation",
    "GeneralizedScores",
    "Method",
    "MethodStyle",
    "Predictions",
    "PromptsOnly",
    "Protocol",
    "Ranking",
    "ResultTable",
    "RunSummary",
    "TuningOptions",
    "authors_protocol",
    "build_table",
    "compare_runs",
    "critical_difference",
    "default_methods",
    "evaluate",
    "evaluate_stream",
    "failed_runs",
    "find_method",
    "grid_edges",
    "load_published",
    "measure_conventional",
    "method_style",
    "published_value",
    "rank_methods",
    "read_records",
    "read_top_k",
    "render",
    "run_benchmark",
    "run_demo",
    "save_critical_difference",
    "save_curves",
    "save_examples",
    "save_predictions",
    "save_rank_counts",
    "save_table_plot",
    "simplex_lattice",
    "summarize_runs",
    "tune_at_once",
    "tune_in_two_steps",
    "tune_on_exemplars",
    "write_record",
    "write_report",
    "write_top_k",
]
