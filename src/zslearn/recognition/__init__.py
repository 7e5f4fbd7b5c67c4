"""A person's own pictures and classes: from folders and descriptions to model files and answers.

The commands fit, tune, predict, evaluate and add-class do their work here.
"""

from zslearn.recognition._describing import (
    Description,
    describe_in_text,
    describe_in_words,
    read_class_table,
)
from zslearn.recognition._evaluating import RecognitionScores, evaluate_images
from zslearn.recognition._fitting import METHODS_IN_SHORT, fit_images
from zslearn.recognition._predicting import (
    RankedClasses,
    candidate_classes,
    explain_predictions,
    prediction_table,
    rank_classes,
)
from zslearn.recognition._sources import (
    backbone_for_model,
    encoder_for_model,
    features_for_model,
    read_features,
)
from zslearn.recognition._storing import add_classes_to_file, save_image_model

__all__ = [
    "METHODS_IN_SHORT",
    "Description",
    "RankedClasses",
    "RecognitionScores",
    "add_classes_to_file",
    "backbone_for_model",
    "candidate_classes",
    "describe_in_text",
    "describe_in_words",
    "encoder_for_model",
    "evaluate_images",
    "explain_predictions",
    "features_for_model",
    "fit_images",
    "prediction_table",
    "rank_classes",
    "read_class_table",
    "read_features",
    "save_image_model",
]
