"""The paper's analyses: each a table, a picture and a command, on any data set.

A function computes the pieces of an analysis (a method, a setting, a seed), keeps a record of each,
goes on where it was stopped, and returns the table; a Display draws it.
"""

from zslearn.experiments.analyses._display import AnalysisDisplay
from zslearn.experiments.analyses._registry import (
    ANALYSES,
    Analysis,
    run_analysis,
    summarize_analysis,
)

__all__ = ["ANALYSES", "Analysis", "AnalysisDisplay", "run_analysis", "summarize_analysis"]
