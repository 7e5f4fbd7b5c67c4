"""The paper's two frameworks, SynC and EXEM, and Gaussian exemplars."""

from zslearn.synthesis._exem import EXEM, exemplar_distance_score, held_class_accuracy_score
from zslearn.synthesis._gaussian import GaussianEXEM
from zslearn.synthesis._regressors import ExemplarMLP
from zslearn.synthesis._statistics import ClassStatistics, ideal_signatures
from zslearn.synthesis._sync import SynC

__all__ = [
    "EXEM",
    "ClassStatistics",
    "ExemplarMLP",
    "GaussianEXEM",
    "SynC",
    "exemplar_distance_score",
    "held_class_accuracy_score",
    "ideal_signatures",
]
