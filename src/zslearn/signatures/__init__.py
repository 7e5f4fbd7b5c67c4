"""What is known of a class: signatures, their normalisation and their kernels."""

from zslearn.signatures._attributes import (
    AttributeReport,
    attribute_report,
    attribute_signatures,
)
from zslearn.signatures._binary import (
    BinaryKind,
    binarize_signatures,
    binary_kind,
    binary_rows,
    mean_levels,
    refuse_mixed_signatures,
    without_noise,
)
from zslearn.signatures._class_graph import (
    ClassGraph,
    ancestor_pairs,
    class_graph,
    imagenet_branches,
    imagenet_graph,
)
from zslearn.signatures._combine import combine_signatures
from zslearn.signatures._encoders import ENCODER_NAMES, encoder_name
from zslearn.signatures._hierarchy import hierarchy_distances, hierarchy_signatures
from zslearn.signatures._kernels import normalized_similarity, rbf_similarity, squared_distances
from zslearn.signatures._normalize import median_distance, normalize_signatures
from zslearn.signatures._reading import label_array, label_kind, labels_in_order
from zslearn.signatures._table import SignatureTable
from zslearn.signatures._text import encode_text, text_signatures
from zslearn.signatures._tree import ClassTree, cluster_hierarchy, cluster_levels
from zslearn.signatures._views import (
    MultiSignatures,
    Signatures,
    SignatureViews,
    side_by_side,
    view_arrays,
    with_arrays,
)
from zslearn.signatures._word_files import WordVectors, read_word_vectors, save_word_vectors
from zslearn.signatures._word_training import train_word_vectors
from zslearn.signatures._wordnet import WordNet
from zslearn.signatures._words import WordSignatures, word_signatures

__all__ = [
    "ENCODER_NAMES",
    "AttributeReport",
    "BinaryKind",
    "ClassGraph",
    "ClassTree",
    "MultiSignatures",
    "SignatureTable",
    "SignatureViews",
    "Signatures",
    "WordNet",
    "WordSignatures",
    "WordVectors",
    "ancestor_pairs",
    "attribute_report",
    "attribute_signatures",
    "binarize_signatures",
    "binary_kind",
    "binary_rows",
    "class_graph",
    "cluster_hierarchy",
    "cluster_levels",
    "combine_signatures",
    "encode_text",
    "encoder_name",
    "hierarchy_distances",
    "hierarchy_signatures",
    "imagenet_branches",
    "imagenet_graph",
    "label_array",
    "label_kind",
    "labels_in_order",
    "mean_levels",
    "median_distance",
    "normalize_signatures",
    "normalized_similarity",
    "rbf_similarity",
    "read_word_vectors",
    "refuse_mixed_signatures",
    "save_word_vectors",
    "side_by_side",
    "squared_distances",
    "text_signatures",
    "train_word_vectors",
    "view_arrays",
    "with_arrays",
    "without_noise",
    "word_signatures",
]
