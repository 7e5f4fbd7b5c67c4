"""What scores are worth: held-back seen classes, probabilities, "none of these", ranks and sets.

All of it is found by leaving out seen classes. Calibrated stacking holds seen classes back in the
generalized setting, and finds the temperature of probabilities; other wrappers reject images that
no class fits, name the deepest node of a hierarchy that is sure enough, or name a set of classes.
Images without labels are used where left-out classes gain by theirs.
"""

from zslearn.calibration._none_of_these import NoneOfThese
from zslearn.calibration._ranks import RankPrediction, RankPredictor
from zslearn.calibration._sets import PredictionSets
from zslearn.calibration._stacking import CalibratedStacking
from zslearn.calibration._unlabelled import Adaptation, Adapted

__all__ = [
    "Adaptation",
    "Adapted",
    "CalibratedStacking",
    "NoneOfThese",
    "PredictionSets",
    "RankPrediction",
    "RankPredictor",
]
