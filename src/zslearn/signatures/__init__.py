"""What is known of a class: signatures, their normalisation and their kernels."""

from zslearn.signatures._binary import binarize_signatures
from zslearn.signatures._kernels import normalized_similarity, rbf_similarity, squared_distances
from zslearn.signatures._normalize import median_distance, normalize_signatures
from zslearn.signatures._tree import cluster_hierarchy
from zslearn.signatures._views import MultiSignatures, SignatureViews

__all__ = [
    "MultiSignatures",
    "SignatureViews",
    "binarize_signatures",
    "cluster_hierarchy",
    "median_distance",
    "normalize_signatures",
    "normalized_similarity",
    "rbf_similarity",
    "squared_distances",
]
