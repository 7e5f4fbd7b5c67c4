"""Data sets for zero-shot learning, with splits that are checked for leaks."""

from zslearn.datasets._authors import AuthorsProtocol, load_authors_protocol
from zslearn.datasets._check import FolderReport, check_data
from zslearn.datasets._class_shards import ClassShards
from zslearn.datasets._class_split import ClassSplit
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._emoji import load_emoji
from zslearn.datasets._emoji_images import save_emoji_images
from zslearn.datasets._emoji_packages import fetch_emoji
from zslearn.datasets._emoji_packages import find_emoji as find_emoji
from zslearn.datasets._feature_blocks import FeatureBlocks
from zslearn.datasets._fetch import fetch_archive
from zslearn.datasets._fetch import fetchable_names as fetchable_names
from zslearn.datasets._glyphs import load_glyphs
from zslearn.datasets._imagenet_classes import (
    imagenet_classes,
    imagenet_hop_set,
    imagenet_tree,
    named_wnids,
    near_classes,
    populated_classes,
)
from zslearn.datasets._imagenet_features import load_imagenet
from zslearn.datasets._last_layers import NETWORKS as NETWORKS
from zslearn.datasets._last_layers import load_glove, load_last_layer
from zslearn.datasets._limits import Budget as Budget
from zslearn.datasets._limits import FileLimitError as FileLimitError
from zslearn.datasets._signature_files import (
    check_signature_path as check_signature_path,
)
from zslearn.datasets._signature_files import (
    read_child_parent_pairs,
    read_descriptions,
    read_signature_table,
    save_signature_table,
)
from zslearn.datasets._synthetic import make_zero_shot
from zslearn.datasets._synthetic_truth import GeneratingModel
from zslearn.datasets._table_files import load_table
from zslearn.datasets._text_tables import read_lines as read_lines
from zslearn.datasets._xlsa17 import N_CLASS_SPLITS as N_CLASS_SPLITS
from zslearn.datasets._xlsa17 import XLSA17 as XLSA17
from zslearn.datasets._xlsa17 import load_xlsa17
from zslearn.datasets._xlsa17 import unknown_data_set as unknown_data_set
from zslearn.datasets._xlsa17_files import feature_files as feature_files
from zslearn.datasets._xlsa17_files import find_data_set as find_data_set

# Names with "as" are for other rooms of the library, not for users.

__all__ = [
    "AuthorsProtocol",
    "ClassShards",
    "ClassSplit",
    "FeatureBlocks",
    "FolderReport",
    "GeneratingModel",
    "ZeroShotDataset",
    "check_data",
    "fetch_archive",
    "fetch_emoji",
    "imagenet_classes",
    "imagenet_hop_set",
    "imagenet_tree",
    "load_authors_protocol",
    "load_emoji",
    "load_glove",
    "load_glyphs",
    "load_imagenet",
    "load_last_layer",
    "load_table",
    "load_xlsa17",
    "make_zero_shot",
    "named_wnids",
    "near_classes",
    "populated_classes",
    "read_child_parent_pairs",
    "read_descriptions",
    "read_signature_table",
    "save_emoji_images",
    "save_signature_table",
]
