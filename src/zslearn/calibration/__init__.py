"""Calibrated stacking: how far seen classes are held back in the generalized setting.

The folds that find the factor also find the temperature of probabilities.
"""

from zslearn.calibration._folds import FEWEST_CLASSES, Fold, checked_folds
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
    "checked_folds",
    "chosen_temperature",
    "mean_factor",
    "rescaled",
    "score_spread",
    "some_rows",
    "spread",
]
