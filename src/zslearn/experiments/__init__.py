"""Benchmarks: protocols, runs, records, published numbers, tables, analyses and the report.

`evaluate` measures one method; `run_benchmark` tunes and measures several and writes a record of
each. Tables, analyses and the report only read records. To add a published number, append it with
its source to ``published.csv``.
"""

from zslearn.experiments._demo import run_demo
from zslearn.experiments._evaluate import Evaluation, evaluate, write_top_k
from zslearn.experiments._imagenet import (
    IMAGENET_METHODS,
    IMAGENET_TABLES,
    ImageNetBench,
    read_image_counts,
)
from zslearn.experiments._last_layers import (
    TRACK_GRAPHS,
    TRACK_METHODS,
    TRACK_RECIPES,
    TRACK_SIGNATURES,
    run_last_layers,
)
from zslearn.experiments._names import explain_measures
from zslearn.experiments._prompts_only import PromptsOnly
from zslearn.experiments._protocol import PROTOCOLS, SETTINGS, Protocol, authors_protocol
from zslearn.experiments._published import dataset_table, load_literature, load_published
from zslearn.experiments._ranks import Ranking, rank_methods
from zslearn.experiments._records import (
    read_failures,
    read_records,
    read_test_selection,
    write_record,
)
from zslearn.experiments._render import FORMATS, render
from zslearn.experiments._report._write import write_report
from zslearn.experiments._runs import run_benchmark
from zslearn.experiments._summary import RunSummary, summarize_runs
from zslearn.experiments._tables import LAYOUTS, ResultTable, build_table

__all__ = [
    "FORMATS",
    "IMAGENET_METHODS",
    "IMAGENET_TABLES",
    "LAYOUTS",
    "PROTOCOLS",
    "SETTINGS",
    "TRACK_GRAPHS",
    "TRACK_METHODS",
    "TRACK_RECIPES",
    "TRACK_SIGNATURES",
    "Evaluation",
    "ImageNetBench",
    "PromptsOnly",
    "Protocol",
    "Ranking",
    "ResultTable",
    "RunSummary",
    "authors_protocol",
    "build_table",
    "dataset_table",
    "evaluate",
    "explain_measures",
    "load_literature",
    "load_published",
    "rank_methods",
    "read_failures",
    "read_image_counts",
    "read_records",
    "read_test_selection",
    "render",
    "run_benchmark",
    "run_demo",
    "run_last_layers",
    "summarize_runs",
    "write_record",
    "write_report",
    "write_top_k",
]
