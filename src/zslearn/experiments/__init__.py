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
from zslearn.experiments._imagenet import (
    IMAGENET_METHODS,
    IMAGENET_TABLES,
    ImageNetBench,
    imagenet_test_sets,
    read_image_counts,
)
from zslearn.experiments._last_layer_inputs import GRAPHS as TRACK_GRAPHS
from zslearn.experiments._last_layer_inputs import KINDS as TRACK_KINDS
from zslearn.experiments._last_layer_inputs import LastLayerInputs, last_layer_inputs
from zslearn.experiments._last_layer_parts import RECIPES as TRACK_RECIPES
from zslearn.experiments._last_layer_parts import TRACK_METHODS
from zslearn.experiments._last_layers import LastLayers, run_last_layers
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
    "IMAGENET_METHODS",
    "IMAGENET_TABLES",
    "METHODS",
    "PROTOCOLS",
    "TABLES",
    "TRACK_GRAPHS",
    "TRACK_KINDS",
    "TRACK_METHODS",
    "TRACK_RECIPES",
    "Demo",
    "Evaluation",
    "GeneralizedScores",
    "ImageNetBench",
    "LastLayerInputs",
    "LastLayers",
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
    "imagenet_test_sets",
    "last_layer_inputs",
    "load_published",
    "measure_conventional",
    "method_style",
    "published_value",
    "rank_methods",
    "read_image_counts",
    "read_records",
    "read_top_k",
    "render",
    "run_benchmark",
    "run_demo",
    "run_last_layers",
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
