"""Data sets for zero-shot learning, with splits that are checked for leaks.

All loaders return a :class:`ZeroShotDataset`: the benchmarks of Xian et al., tables, glyphs,
synthetic problems and ImageNet. :class:`FeatureBlocks` reads features that do not fit into memory,
and `fetch_archive` downloads data.
"""

from zslearn.datasets._authors import AuthorsProtocol, load_authors_protocol
from zslearn.datasets._check import FolderReport, check_data
from zslearn.datasets._class_shards import ClassShards, load_imagenet
from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset
from zslearn.datasets._examples import write_example
from zslearn.datasets._feature_blocks import FeatureBlocks
from zslearn.datasets._fetch import ARCHIVES, Archive, fetch_archive
from zslearn.datasets._glyphs import load_glyphs
from zslearn.datasets._imagenet_classes import imagenet_classes, populated_classes
from zslearn.datasets._last_layers import LAST_LAYERS, load_glove, load_last_layer
from zslearn.datasets._preparation import PreparedColumn, TablePreparation
from zslearn.datasets._signature_files import (
    read_child_parent_pairs,
    read_descriptions,
    read_odds,
    read_ranks,
    read_signature_table,
    save_signature_table,
)
from zslearn.datasets._synthetic import make_zero_shot
from zslearn.datasets._tables import SampleTable, load_table, read_sample_table
from zslearn.datasets._xlsa17 import XLSA17, Benchmark, load_xlsa17

__all__ = [
    "ARCHIVES",
    "LAST_LAYERS",
    "XLSA17",
    "Archive",
    "AuthorsProtocol",
    "Benchmark",
    "ClassShards",
    "ClassSplit",
    "FeatureBlocks",
    "FolderReport",
    "PreparedColumn",
    "SampleTable",
    "TablePreparation",
    "ZeroShotDataset",
    "check_data",
    "fetch_archive",
    "imagenet_classes",
    "load_authors_protocol",
    "load_glove",
    "load_glyphs",
    "load_imagenet",
    "load_last_layer",
    "load_table",
    "load_xlsa17",
    "make_zero_shot",
    "populated_classes",
    "read_child_parent_pairs",
    "read_descriptions",
    "read_odds",
    "read_ranks",
    "read_sample_table",
    "read_signature_table",
    "save_signature_table",
    "write_example",
]
