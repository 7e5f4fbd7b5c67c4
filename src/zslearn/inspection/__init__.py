"""Explanations of predictions.

`explain` reports the attributes and the seen classes behind a prediction, computed exactly by the
method's own formula, and the nearest training pictures.
"""

from zslearn.inspection._explain import Explanation, TrainingPictures, explain

__all__ = ["Explanation", "TrainingPictures", "explain"]
