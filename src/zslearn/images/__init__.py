"""From a user's images or tables to features, models and predictions.

`load_backbone` and `extract_features` compute image features; `read_samples` reads images, feature
files and tables as :class:`Samples`. `read_class_table` reads signatures; `read_class_texts` and
`describe_in_text` make them from texts. `fit_samples` fits a model and `prediction_table` tabulates
its predictions; `BatchPredictor` and `predict_shards` predict more than fits in memory. Model files
record how their features were made, so that `features_for_model` and `describe_for_model` process
new samples and classes alike.
"""

from zslearn.images._backbones import BACKBONES, Backbone, Preprocessing, load_backbone
from zslearn.images._batches import BatchPredictor
from zslearn.images._decoding import (
    ImageList,
    UnreadableImageError,
    list_images,
    read_image,
)
from zslearn.images._describing import (
    Description,
    describe_in_text,
    read_class_table,
    read_class_texts,
    text_features,
)
from zslearn.images._features import extract_features, read_samples
from zslearn.images._fitting import adaptation_of, fit_samples, fitted_method
from zslearn.images._model_files import (
    adapt_file,
    add_classes_to_file,
    add_examples_to_file,
    backbone_for_model,
    check_can_learn,
    describe_for_model,
    encoder_for_model,
    features_for_model,
    remove_classes_from_file,
    save_fitted,
    summarize_model,
)
from zslearn.images._predicting import (
    DESCRIBED,
    SEEN,
    PromptClassifier,
    RankedClasses,
    explain_predictions,
    prediction_table,
    rank_classes,
)
from zslearn.images._samples import Samples, is_feature_table, load_features
from zslearn.images._shards import predict_shards

__all__ = [
    "BACKBONES",
    "DESCRIBED",
    "SEEN",
    "Backbone",
    "BatchPredictor",
    "Description",
    "ImageList",
    "Preprocessing",
    "PromptClassifier",
    "RankedClasses",
    "Samples",
    "UnreadableImageError",
    "adapt_file",
    "adaptation_of",
    "add_classes_to_file",
    "add_examples_to_file",
    "backbone_for_model",
    "check_can_learn",
    "describe_for_model",
    "describe_in_text",
    "encoder_for_model",
    "explain_predictions",
    "extract_features",
    "features_for_model",
    "fit_samples",
    "fitted_method",
    "is_feature_table",
    "list_images",
    "load_backbone",
    "load_features",
    "predict_shards",
    "prediction_table",
    "rank_classes",
    "read_class_table",
    "read_class_texts",
    "read_image",
    "read_samples",
    "remove_classes_from_file",
    "save_fitted",
    "summarize_model",
    "text_features",
]
