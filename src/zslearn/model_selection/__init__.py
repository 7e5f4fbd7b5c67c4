"""Tuning by leaving out classes: folds over classes, and the search."""

from zslearn.model_selection._cluster import on_cluster
from zslearn.model_selection._edges import GridEdgeWarning
from zslearn.model_selection._landscape import read_landscape
from zslearn.model_selection._plot import SearchLandscapeDisplay
from zslearn.model_selection._scorers import unseen_accuracy_scorer
from zslearn.model_selection._search import ZeroShotSearchCV
from zslearn.utils import ClassKFold, GeneralizedClassKFold

__all__ = [
    "ClassKFold",
    "GeneralizedClassKFold",
    "GridEdgeWarning",
    "SearchLandscapeDisplay",
    "ZeroShotSearchCV",
    "on_cluster",
    "read_landscape",
    "unseen_accuracy_scorer",
]
