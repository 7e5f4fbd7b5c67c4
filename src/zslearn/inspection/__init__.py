"""Why a model predicts what it predicts."""

from zslearn.inspection._explain import Explanation, TrainingPictures, explain

__all__ = ["Explanation", "TrainingPictures", "explain"]
