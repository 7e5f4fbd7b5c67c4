"""Data sets for zero-shot learning, with splits that are checked for leaks."""

from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset
from zslearn.datasets._glyphs import load_glyphs
from zslearn.datasets._synthetic import make_zero_shot

__all__ = ["ClassSplit", "ZeroShotDataset", "load_glyphs", "make_zero_shot"]
