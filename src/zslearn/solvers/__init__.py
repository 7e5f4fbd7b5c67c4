"""Numerical cores that know nothing of zero-shot learning."""

from zslearn.solvers._logistic import LogisticResult, logistic_path, softmax_path
from zslearn.solvers._multiclass_svm import (
    SVMResult,
    multiclass_svm,
    multiclass_svm_objective,
    multiclass_svm_path,
)
from zslearn.solvers._nu_svr import NuSVRResult, nu_svr, nu_svr_path
from zslearn.solvers._sammon import PlacementResult, place_by_distances
from zslearn.solvers._simplex import SimplexResult, project_to_simplex, simplex_least_squares

__all__ = [
    "LogisticResult",
    "NuSVRResult",
    "PlacementResult",
    "SVMResult",
    "SimplexResult",
    "logistic_path",
    "multiclass_svm",
    "multiclass_svm_objective",
    "multiclass_svm_path",
    "nu_svr",
    "nu_svr_path",
    "place_by_distances",
    "project_to_simplex",
    "simplex_least_squares",
    "softmax_path",
]
