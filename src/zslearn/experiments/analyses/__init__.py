"""The paper's analyses: each a table, a picture and a command, on any data set.

A function computes the pieces of an analysis (a method, a setting, a seed), keeps a record of each,
goes on where it was stopped, and returns the table; a Display draws it.
"""

from zslearn.experiments.analyses._curves import CurvesDisplay, analyze_curves
from zslearn.experiments.analyses._display import AnalysisDisplay
from zslearn.experiments.analyses._distance import (
    DistanceDisplay,
    analyze_distance,
    distance_groups,
)
from zslearn.experiments.analyses._exemplar_map import ExemplarMapDisplay, analyze_exemplar_map
from zslearn.experiments.analyses._exemplars import (
    ExemplarsDisplay,
    analyze_exemplars,
    distance_correlation,
    knn_overlap,
    unseen_exemplars,
)
from zslearn.experiments.analyses._from_records import RecordOptions
from zslearn.experiments.analyses._ideal import IdealDisplay, analyze_ideal, with_ideal_half
from zslearn.experiments.analyses._penalties import (
    SYNC_FORMS,
    PenaltiesDisplay,
    analyze_penalties,
)
from zslearn.experiments.analyses._per_class import PerClassDisplay, analyze_per_class
from zslearn.experiments.analyses._phantoms import (
    ComponentsDisplay,
    PhantomsDisplay,
    analyze_components,
    analyze_phantoms,
    components_for_variance,
)
from zslearn.experiments.analyses._pieces import Piece, PieceRunner, RunOptions
from zslearn.experiments.analyses._protocols import (
    ProtocolDisplay,
    analyze_protocol,
    compare_protocols,
    protocol_choices,
)
from zslearn.experiments.analyses._ranking import RanksDisplay, analyze_ranks
from zslearn.experiments.analyses._registry import (
    ANALYSES,
    Analysis,
    run_analysis,
    summarize_analysis,
)
from zslearn.experiments.analyses._regressors import RegressorsDisplay, analyze_regressors
from zslearn.experiments.analyses._seen_classes import (
    SeenClassesDisplay,
    analyze_seen_classes,
    with_fewer_seen,
)

__all__ = [
    "ANALYSES",
    "SYNC_FORMS",
    "Analysis",
    "AnalysisDisplay",
    "ComponentsDisplay",
    "CurvesDisplay",
    "DistanceDisplay",
    "ExemplarMapDisplay",
    "ExemplarsDisplay",
    "IdealDisplay",
    "PenaltiesDisplay",
    "PerClassDisplay",
    "PhantomsDisplay",
    "Piece",
    "PieceRunner",
    "ProtocolDisplay",
    "RanksDisplay",
    "RecordOptions",
    "RegressorsDisplay",
    "RunOptions",
    "SeenClassesDisplay",
    "analyze_components",
    "analyze_curves",
    "analyze_distance",
    "analyze_exemplar_map",
    "analyze_exemplars",
    "analyze_ideal",
    "analyze_penalties",
    "analyze_per_class",
    "analyze_phantoms",
    "analyze_protocol",
    "analyze_ranks",
    "analyze_regressors",
    "analyze_seen_classes",
    "compare_protocols",
    "components_for_variance",
    "distance_correlation",
    "distance_groups",
    "knn_overlap",
    "protocol_choices",
    "run_analysis",
    "summarize_analysis",
    "unseen_exemplars",
    "with_fewer_seen",
    "with_ideal_half",
]
