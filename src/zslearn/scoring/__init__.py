"""How images and classes meet: embedding, scores in blocks, and the scorer of described classes."""

from zslearn.scoring._blocks import class_scores, top_k
from zslearn.scoring._class_side import ScoreFunction
from zslearn.scoring._embedding import EmbeddedRows, Embedding, FeaturePreparation
from zslearn.scoring._feature_range import refuse_extreme_features
from zslearn.scoring._precision import score_precision
from zslearn.scoring._prepared import PreparedRows
from zslearn.scoring._probabilities import best_temperature, mean_temperature, softmax
from zslearn.scoring._scorer import ClassScorer, find_classes

__all__ = [
    "ClassScorer",
    "EmbeddedRows",
    "Embedding",
    "FeaturePreparation",
    "PreparedRows",
    "ScoreFunction",
    "best_temperature",
    "class_scores",
    "find_classes",
    "mean_temperature",
    "refuse_extreme_features",
    "score_precision",
    "softmax",
    "top_k",
]
