"""How images and classes meet: embedding, scores in blocks, and the scorer of described classes."""

from zslearn.scoring._blocks import ScoreFunction, class_scores, top_k
from zslearn.scoring._embedding import EmbeddedRows, Embedding, FeaturePreparation
from zslearn.scoring._scorer import ClassScorer, find_classes

__all__ = [
    "ClassScorer",
    "EmbeddedRows",
    "Embedding",
    "FeaturePreparation",
    "ScoreFunction",
    "class_scores",
    "find_classes",
    "top_k",
]
