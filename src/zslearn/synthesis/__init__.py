"""SynC and EXEM, the two frameworks of the paper, and Gaussian EXEM.

SynC synthesises classifiers of unseen classes from those of phantom classes (``_sync.py``,
``_phantoms.py``). EXEM predicts the exemplars of classes from their signatures (``_exem.py``,
``_exemplars.py``); Gaussian EXEM also estimates their uncertainty (``_gaussian.py``). Tests compare
the results with golden files of the authors' program.
"""

from zslearn.base._class_statistics import ClassStatistics
from zslearn.synthesis._adaptation_trial import Adaptation
from zslearn.synthesis._exem import EXEM, exemplar_distance_score, ideal_signatures
from zslearn.synthesis._exemplar_mlp import ExemplarMLP
from zslearn.synthesis._gaussian import GaussianEXEM
from zslearn.synthesis._suggestions import Suggestions
from zslearn.synthesis._sync import SynC

__all__ = [
    "EXEM",
    "Adaptation",
    "ClassStatistics",
    "ExemplarMLP",
    "GaussianEXEM",
    "Suggestions",
    "SynC",
    "exemplar_distance_score",
    "ideal_signatures",
]
