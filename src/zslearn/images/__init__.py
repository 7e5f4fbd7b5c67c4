"""Pictures to features to answers: networks, extraction, own classes, recognition."""

from zslearn.images._backbones import Backbone, Preprocessing, load_backbone
from zslearn.images._decoding import ImageList, UnreadableImageError, list_images, read_image
from zslearn.images._describing import (
    Description,
    backbone_for_model,
    describe_in_text,
    describe_in_words,
    encoder_for_model,
    features_for_model,
    read_class_table,
    read_features,
)
from zslearn.images._extract import extract_features
from zslearn.images._feature_files import ImageFeatures, load_features
from zslearn.images._fitting import add_classes_to_file, fit_images, save_image_model
from zslearn.images._predicting import (
    RankedClasses,
    candidate_classes,
    evaluate_images,
    explain_predictions,
    prediction_table,
    rank_classes,
)
from zslearn.images._prompts import PromptClassifier, text_features

__all__ = [
    "Backbone",
    "Description",
    "ImageFeatures",
    "ImageList",
    "Preprocessing",
    "PromptClassifier",
    "RankedClasses",
    "UnreadableImageError",
    "add_classes_to_file",
    "backbone_for_model",
    "candidate_classes",
    "describe_in_text",
    "describe_in_words",
    "encoder_for_model",
    "evaluate_images",
    "explain_predictions",
    "extract_features",
    "features_for_model",
    "fit_images",
    "list_images",
    "load_backbone",
    "load_features",
    "prediction_table",
    "rank_classes",
    "read_class_table",
    "read_features",
    "read_image",
    "save_image_model",
    "text_features",
]
