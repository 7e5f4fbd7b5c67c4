"""Class signatures: vectors that describe classes, their normalisation and their kernels.

Functions build signatures from attributes, texts, word vectors, hierarchies and WordNet;
:class:`MultiSignatures` combines several kinds. Estimators convert signatures to a
:class:`SignatureTable`, which validates them once.
"""

from zslearn.signatures._attributes import (
    IndistinctPair,
    attribute_report,
    attribute_signatures,
    binarize_signatures,
    indistinct_pairs,
    scale_signatures,
)
from zslearn.signatures._class_graph import (
    ClassGraph,
    class_graph,
    cluster_hierarchy,
    imagenet_graph,
)
from zslearn.signatures._encoders import ENCODER_NAMES, encoder_name
from zslearn.signatures._hierarchy import (
    classes_below,
    classes_by_node,
    filled_ranks,
    hierarchy_distances,
    hierarchy_signatures,
    taxonomy_hierarchy,
    taxonomy_signatures,
)
from zslearn.signatures._kernels import (
    combine_signatures,
    median_distance,
    normalize_signatures,
    normalized_similarity,
    rbf_similarity,
)
from zslearn.signatures._table import SignatureTable
from zslearn.signatures._text import SentenceKinds, description_report, encode_text, text_signatures
from zslearn.signatures._views import MultiSignatures, SignatureViews
from zslearn.signatures._wordnet import WordNet
from zslearn.signatures._words import train_word_vectors, word_signatures

__all__ = [
    "ENCODER_NAMES",
    "ClassGraph",
    "IndistinctPair",
    "MultiSignatures",
    "SentenceKinds",
    "SignatureTable",
    "SignatureViews",
    "WordNet",
    "attribute_report",
    "attribute_signatures",
    "binarize_signatures",
    "class_graph",
    "classes_below",
    "classes_by_node",
    "cluster_hierarchy",
    "combine_signatures",
    "description_report",
    "encode_text",
    "encoder_name",
    "filled_ranks",
    "hierarchy_distances",
    "hierarchy_signatures",
    "imagenet_graph",
    "indistinct_pairs",
    "median_distance",
    "normalize_signatures",
    "normalized_similarity",
    "rbf_similarity",
    "scale_signatures",
    "taxonomy_hierarchy",
    "taxonomy_signatures",
    "text_signatures",
    "train_word_vectors",
    "word_signatures",
]
