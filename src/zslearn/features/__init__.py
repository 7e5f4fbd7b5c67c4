"""From images to features: lists of images, networks, and files of features."""

from zslearn.features._backbones import BACKBONES, Backbone, load_backbone
from zslearn.features._decoding import UnreadableImageError, read_image
from zslearn.features._extract import extract_features
from zslearn.features._feature_files import ImageFeatures, load_features
from zslearn.features._feature_files import refuse_other_features as refuse_other_features
from zslearn.features._image_lists import ImageList, list_images
from zslearn.features._preprocessing import Preprocessing
from zslearn.features._prompts import PromptClassifier, text_features

# Names with "as" are for other rooms of the library, not for users.

__all__ = [
    "BACKBONES",
    "Backbone",
    "ImageFeatures",
    "ImageList",
    "Preprocessing",
    "PromptClassifier",
    "UnreadableImageError",
    "extract_features",
    "list_images",
    "load_backbone",
    "load_features",
    "read_image",
    "text_features",
]
