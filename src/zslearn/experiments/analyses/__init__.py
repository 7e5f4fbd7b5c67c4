"""The paper's analyses, each with a table, plots and a command, for any data set.

:func:`run_analysis` computes the jobs of an analysis (method, setting, seed), keeps a record of
each so that it can resume, and writes the table and the plots; :class:`AnalysisDisplay` plots a
table. An analysis is a function that computes a table, drawing functions, and an entry of
`ANALYSES`.
"""

from zslearn.experiments.analyses._classes import with_fewer_seen
from zslearn.experiments.analyses._run import (
    ANALYSES,
    AnalysisDisplay,
    run_analysis,
    summarize_analysis,
)
from zslearn.experiments.analyses._sync import SYNC_FORMS

__all__ = [
    "ANALYSES",
    "SYNC_FORMS",
    "AnalysisDisplay",
    "run_analysis",
    "summarize_analysis",
    "with_fewer_seen",
]
