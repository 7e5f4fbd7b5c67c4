"""Data sets for zero-shot learning, with splits that are checked for leaks."""

from zslearn.datasets._check import FolderReport, check_data
from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset
from zslearn.datasets._fetch import fetch_archive
from zslearn.datasets._glyphs import load_glyphs
from zslearn.datasets._synthetic import make_zero_shot
from zslearn.datasets._synthetic_truth import GeneratingModel
from zslearn.datasets._table_files import load_table
from zslearn.datasets._xlsa17 import load_xlsa17

__all__ = [
    "ClassSplit",
    "FolderReport",
    "GeneratingModel",
    "ZeroShotDataset",
    "check_data",
    "fetch_archive",
    "load_glyphs",
    "load_table",
    "load_xlsa17",
    "make_zero_shot",
]
