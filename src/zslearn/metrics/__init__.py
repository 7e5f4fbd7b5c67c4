"""Metrics for conventional and generalized zero-shot recognition, and plots of them.

As in scikit-learn, metrics are functions of labels or scores: per-class and per-sample accuracy,
F@K and HP@K, the seen–unseen curve with its AUSUC, and the calibration error. `HitCounts`
accumulates accuracies over blocks. Only the Display classes accept estimators.
"""

from zslearn.metrics._accuracy import (
    class_accuracies,
    flat_hit_at_k,
    harmonic_mean,
    per_class_accuracy,
    per_sample_accuracy,
    rank_accuracy,
)
from zslearn.metrics._counts import HitCounts
from zslearn.metrics._curve import (
    ausuc,
    best_harmonic_mean,
    generalized_accuracy,
    seen_unseen_curve,
)
from zslearn.metrics._hierarchical import hierarchical_correct_set, hierarchical_precision_at_k
from zslearn.metrics._plot_confusion import ConfusedPair, UnseenConfusionDisplay
from zslearn.metrics._plot_curves import ReliabilityDisplay, SeenUnseenCurveDisplay, VarianceDisplay
from zslearn.metrics._plot_distance import ClassDistanceDisplay
from zslearn.metrics._reliability import expected_calibration_error, reliability_curve

__all__ = [
    "ClassDistanceDisplay",
    "ConfusedPair",
    "HitCounts",
    "ReliabilityDisplay",
    "SeenUnseenCurveDisplay",
    "UnseenConfusionDisplay",
    "VarianceDisplay",
    "ausuc",
    "best_harmonic_mean",
    "class_accuracies",
    "expected_calibration_error",
    "flat_hit_at_k",
    "generalized_accuracy",
    "harmonic_mean",
    "hierarchical_correct_set",
    "hierarchical_precision_at_k",
    "per_class_accuracy",
    "per_sample_accuracy",
    "rank_accuracy",
    "reliability_curve",
    "seen_unseen_curve",
]
