"""Pictures → features → answers: a person's own images and classes.

`load_backbone` and `extract_features` turn pictures into features; `read_class_table` reads
signatures, `read_class_texts` and `describe_in_text` make them of texts; `fit_images` fits a method
and `prediction_table` names the classes of images. Model files keep how their features were made.
"""

from zslearn.images._backbones import Backbone, Preprocessing, load_backbone
from zslearn.images._decoding import ImageList, UnreadableImageError, list_images, read_image
from zslearn.images._describing import (
    Description,
    describe_in_text,
    features_for_model,
    read_class_table,
    read_class_texts,
    text_features,
)
from zslearn.images._features import ImageFeatures, extract_features, load_features
from zslearn.images._fitting import add_classes_to_file, fit_images, save_image_model
from zslearn.images._predicting import PromptClassifier, prediction_table

__all__ = [
    "Backbone",
    "Description",
    "ImageFeatures",
    "ImageList",
    "Preprocessing",
    "PromptClassifier",
    "UnreadableImageError",
    "add_classes_to_file",
    "describe_in_text",
    "extract_features",
    "features_for_model",
    "fit_images",
    "list_images",
    "load_backbone",
    "load_features",
    "prediction_table",
    "read_class_table",
    "read_class_texts",
    "read_image",
    "save_image_model",
    "text_features",
]
