"""Why a model predicts what it predicts."""

from zslearn.inspection._explain import TrainingPictures, explain
from zslearn.inspection._explanation import (
    AttributeEffect,
    Explanation,
    NearPicture,
    Prediction,
    SeenShare,
)

__all__ = [
    "AttributeEffect",
    "Explanation",
    "NearPicture",
    "Prediction",
    "SeenShare",
    "TrainingPictures",
    "explain",
]
