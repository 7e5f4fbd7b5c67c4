"""Why a model predicts what it predicts.

`explain` says of a prediction which attributes and seen classes it is made from, by what the
method's own formula adds up, and which training pictures are nearest.
"""

from zslearn.inspection._explain import Explanation, TrainingPictures, explain

__all__ = ["Explanation", "TrainingPictures", "explain"]
