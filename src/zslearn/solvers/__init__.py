"""Numerical cores that know nothing of zero-shot learning."""

from zslearn.solvers._multiclass_svm import (
    SVMResult,
    multiclass_svm,
    multiclass_svm_objective,
    multiclass_svm_path,
)
from zslearn.solvers._nu_svr import NuSVRResult, nu_svr, nu_svr_path

__all__ = [
    "NuSVRResult",
    "SVMResult",
    "multiclass_svm",
    "multiclass_svm_objective",
    "multiclass_svm_path",
    "nu_svr",
    "nu_svr_path",
]
