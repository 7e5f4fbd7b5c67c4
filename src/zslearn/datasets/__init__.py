"""Data sets for zero-shot learning, with splits that are checked for leaks."""

from zslearn.datasets._authors import AuthorsProtocol, load_authors_protocol
from zslearn.datasets._check import FolderReport, check_data
from zslearn.datasets._class_split import ClassSplit
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._feature_blocks import FeatureBlocks
from zslearn.datasets._fetch import fetch_archive
from zslearn.datasets._fetch import fetchable_names as fetchable_names
from zslearn.datasets._glyphs import load_glyphs
from zslearn.datasets._synthetic import make_zero_shot
from zslearn.datasets._synthetic_truth import GeneratingModel
from zslearn.datasets._table_files import load_table
from zslearn.datasets._xlsa17 import N_CLASS_SPLITS as N_CLASS_SPLITS
from zslearn.datasets._xlsa17 import XLSA17 as XLSA17
from zslearn.datasets._xlsa17 import load_xlsa17
from zslearn.datasets._xlsa17 import unknown_data_set as unknown_data_set
from zslearn.datasets._xlsa17_files import feature_files as feature_files
from zslearn.datasets._xlsa17_files import find_data_set as find_data_set

# Names with "as" are for other rooms of the library, not for users.

__all__ = [
    "AuthorsProtocol",
    "ClassSplit",
    "FeatureBlocks",
    "FolderReport",
    "GeneratingModel",
    "ZeroShotDataset",
    "check_data",
    "fetch_archive",
    "load_authors_protocol",
    "load_glyphs",
    "load_table",
    "load_xlsa17",
    "make_zero_shot",
]
