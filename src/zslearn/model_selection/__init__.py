"""Tuning by leaving out classes."""

from zslearn.model_selection._search import ZeroShotSearchCV
from zslearn.model_selection._split import ClassKFold, GeneralizedClassKFold

__all__ = ["ClassKFold", "GeneralizedClassKFold", "ZeroShotSearchCV"]
