"""What scores are worth: held-back seen classes, probabilities, "none of these", sure ancestors.

All of it is found by leaving out seen classes. Calibrated stacking holds seen classes back in the
generalized setting, and finds the temperature of probabilities; other wrappers reject images that
no class fits, or name the deepest node of a hierarchy that is sure enough.
"""

from zslearn.calibration._folds import FEWEST_CLASSES, Fold, checked_folds
from zslearn.calibration._none_of_these import NoneOfThese, probability_among
from zslearn.calibration._ranks import RankPrediction, RankPredictor
from zslearn.calibration._stacking import CalibratedStacking
from zslearn.calibration._units import (
    chosen_temperature,
    mean_factor,
    rescaled,
    score_spread,
    some_rows,
    spread,
)

__all__ = [
    "FEWEST_CLASSES",
    "CalibratedStacking",
    "Fold",
    "NoneOfThese",
    "RankPrediction",
    "RankPredictor",
    "checked_folds",
    "chosen_temperature",
    "mean_factor",
    "probability_among",
    "rescaled",
    "score_spread",
    "some_rows",
    "spread",
]
