"""Runs of methods on data sets: protocols, tables and figures."""

from zslearn.experiments._demo import Demo, run_demo
from zslearn.experiments._evaluate import (
    Evaluation,
    GeneralizedScores,
    evaluate,
    measure_conventional,
)
from zslearn.experiments._figures import save_curves, save_predictions
from zslearn.experiments._methods import METHODS, Method, TuningOptions, tune_at_once
from zslearn.experiments._runs import run_benchmark

__all__ = [
    "METHODS",
    "Demo",
    "Evaluation",
    "GeneralizedScores",
    "Method",
    "TuningOptions",
    "evaluate",
    "measure_conventional",
    "run_benchmark",
    "run_demo",
    "save_curves",
    "save_predictions",
    "tune_at_once",
]
