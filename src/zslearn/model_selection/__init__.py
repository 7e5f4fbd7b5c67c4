"""Tuning on held-out classes: folds over classes, the search, named methods, weights of views.

:class:`ZeroShotSearchCV` fits a grid in each fold with the method's `fit_grid`, which shares work
between settings; inside `on_cluster`, dask computes the folds.
"""

from zslearn.base._meta import ZeroShotPipeline, fitted_as_zero_shot
from zslearn.calibration._folds import ClassKFold, GeneralizedClassKFold
from zslearn.model_selection._fold_tasks import on_cluster
from zslearn.model_selection._grids import GRIDS, GridEdgeWarning, named_grid
from zslearn.model_selection._methods import (
    LEADING_METHODS,
    METHODS,
    Method,
    default_methods,
    find_method,
)
from zslearn.model_selection._plot import SearchLandscapeDisplay, read_landscape
from zslearn.model_selection._search import ZeroShotSearchCV, unseen_accuracy_scorer
from zslearn.model_selection._table_classifier import TableChoice, TableChoices, TableClassifier
from zslearn.model_selection._tuning import TuningOptions, best_search
from zslearn.model_selection._weighted_views import WeightedViews

__all__ = [
    "GRIDS",
    "LEADING_METHODS",
    "METHODS",
    "ClassKFold",
    "GeneralizedClassKFold",
    "GridEdgeWarning",
    "Method",
    "SearchLandscapeDisplay",
    "TableChoice",
    "TableChoices",
    "TableClassifier",
    "TuningOptions",
    "WeightedViews",
    "ZeroShotPipeline",
    "ZeroShotSearchCV",
    "best_search",
    "default_methods",
    "find_method",
    "fitted_as_zero_shot",
    "named_grid",
    "on_cluster",
    "read_landscape",
    "unseen_accuracy_scorer",
]
