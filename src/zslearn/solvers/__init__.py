"""Numerical cores that know nothing of zero-shot learning."""

from zslearn.solvers._block_sums import sum_block
from zslearn.solvers._class_moments import (
    Moments,
    class_means,
    class_moments,
    class_squares,
    class_sums,
    deviation_blocks,
    mean_square_distance,
)
from zslearn.solvers._class_sums import ClassSums, SummedRows, merge_deviations
from zslearn.solvers._eigenbasis import eigenbasis
from zslearn.solvers._lbfgs import Evaluation, lbfgs
from zslearn.solvers._logistic import (
    LogisticResult,
    logistic_path,
    softmax_path,
)
from zslearn.solvers._multiclass_svm import (
    SVMResult,
    multiclass_svm,
    multiclass_svm_objective,
    multiclass_svm_path,
    train_multiclass_svm,
)
from zslearn.solvers._nu_svr import NuSVRResult, nu_svr, nu_svr_path
from zslearn.solvers._nu_svr_paths import nu_svr_paths
from zslearn.solvers._platt import platt_scaling, platt_targets
from zslearn.solvers._pseudo_inverse import pseudo_inverse
from zslearn.solvers._ranking import (
    AnyFloats,
    hinge_of_all,
    rank_weights,
    slopes_of_all,
    slopes_of_worst,
)
from zslearn.solvers._ranking_descent import BilinearDescent, LatentDescent
from zslearn.solvers._sammon import PlacementResult, place_by_distances
from zslearn.solvers._simplex import SimplexResult, project_to_simplex, simplex_least_squares
from zslearn.solvers._softmax_sharing import softmax_spectrum, turned_rows
from zslearn.solvers._svm_losses import SVMLoss, loss_and_slope
from zslearn.solvers._svm_rows import TrainingRows

__all__ = [
    "AnyFloats",
    "BilinearDescent",
    "ClassSums",
    "Evaluation",
    "LatentDescent",
    "LogisticResult",
    "Moments",
    "NuSVRResult",
    "PlacementResult",
    "SVMLoss",
    "SVMResult",
    "SimplexResult",
    "SummedRows",
    "TrainingRows",
    "class_means",
    "class_moments",
    "class_squares",
    "class_sums",
    "deviation_blocks",
    "eigenbasis",
    "hinge_of_all",
    "lbfgs",
    "logistic_path",
    "loss_and_slope",
    "mean_square_distance",
    "merge_deviations",
    "multiclass_svm",
    "multiclass_svm_objective",
    "multiclass_svm_path",
    "nu_svr",
    "nu_svr_path",
    "nu_svr_paths",
    "place_by_distances",
    "platt_scaling",
    "platt_targets",
    "project_to_simplex",
    "pseudo_inverse",
    "rank_weights",
    "simplex_least_squares",
    "slopes_of_all",
    "slopes_of_worst",
    "softmax_path",
    "softmax_spectrum",
    "sum_block",
    "train_multiclass_svm",
    "turned_rows",
]
