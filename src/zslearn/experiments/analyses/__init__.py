"""The paper's analyses: each a table, pictures and a command, on any data set.

:func:`run_analysis` computes the jobs of an analysis (a method, a setting, a seed), keeps a record
of each, goes on where it was stopped, and writes the table and pictures; :class:`AnalysisDisplay`
draws a table. Inside, an analysis is a function that gives a table, drawing functions, and a row of
`ANALYSES`.
"""

from zslearn.experiments.analyses._run import (
    ANALYSES,
    AnalysisDisplay,
    run_analysis,
    summarize_analysis,
)
from zslearn.experiments.analyses._sync import SYNC_FORMS

__all__ = ["ANALYSES", "SYNC_FORMS", "AnalysisDisplay", "run_analysis", "summarize_analysis"]
