"""Tuning by leaving out classes: folds over classes, and the search."""

from zslearn.model_selection._search import ZeroShotSearchCV
from zslearn.utils import ClassKFold, GeneralizedClassKFold

__all__ = ["ClassKFold", "GeneralizedClassKFold", "ZeroShotSearchCV"]
