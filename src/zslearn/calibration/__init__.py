"""Calibration on held-out seen classes.

Calibrated stacking lowers the scores of seen classes in the generalized setting, and estimates the
temperature of probabilities. Other wrappers reject images that no class fits, predict the deepest
node of a hierarchy that is probable enough, or predict sets of classes with guaranteed coverage.
"""

from zslearn.calibration._none_of_these import NoneOfThese
from zslearn.calibration._ranks import RankPrediction, RankPredictor
from zslearn.calibration._sets import PredictionSets
from zslearn.calibration._stacking import CalibratedStacking

__all__ = [
    "CalibratedStacking",
    "NoneOfThese",
    "PredictionSets",
    "RankPrediction",
    "RankPredictor",
]
