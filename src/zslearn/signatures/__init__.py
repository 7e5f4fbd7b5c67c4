"""What is known of a class: signatures, their normalisation and their kernels."""

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
    imagenet_graph,
)
from zslearn.signatures._encoders import encoder_name
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
from zslearn.signatures._wordnet import WordNet

__all__ = [
    "BinaryKind",
    "ClassGraph",
    "ClassTree",
    "MultiSignatures",
    "SignatureTable",
    "SignatureViews",
    "Signatures",
    "WordNet",
    "ancestor_pairs",
    "binarize_signatures",
    "binary_kind",
    "binary_rows",
    "class_graph",
    "cluster_hierarchy",
    "cluster_levels",
    "encode_text",
    "encoder_name",
    "imagenet_graph",
    "label_array",
    "label_kind",
    "labels_in_order",
    "mean_levels",
    "median_distance",
    "normalize_signatures",
    "normalized_similarity",
    "rbf_similarity",
    "refuse_mixed_signatures",
    "side_by_side",
    "squared_distances",
    "text_signatures",
    "view_arrays",
    "with_arrays",
    "without_noise",
]
