"""Runs of methods on data sets: protocols, tables and figures."""

from zslearn.experiments._demo import Demo, run_demo
from zslearn.experiments._evaluate import Evaluation, evaluate
from zslearn.experiments._figures import save_curves, save_predictions
from zslearn.experiments._methods import METHODS

__all__ = [
    "METHODS",
    "Demo",
    "Evaluation",
    "evaluate",
    "run_demo",
    "save_curves",
    "save_predictions",
]
