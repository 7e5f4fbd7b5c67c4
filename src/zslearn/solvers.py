"""Solvers with certificates: ν-SVR, multi-class SVM, softmax and logistic, simplex."""

from zslearn._solvers._logistic import LogisticResult, logistic_path, softmax_path
from zslearn._solvers._simplex import SimplexResult, simplex_least_squares
from zslearn._solvers.nu_svr._path import NuSVRResult, nu_svr, nu_svr_path
from zslearn._solvers.svm._multiclass import SVMResult, multiclass_svm, multiclass_svm_path

__all__ = [
    "LogisticResult",
    "NuSVRResult",
    "SVMResult",
    "SimplexResult",
    "logistic_path",
    "multiclass_svm",
    "multiclass_svm_path",
    "nu_svr",
    "nu_svr_path",
    "simplex_least_squares",
    "softmax_path",
]
