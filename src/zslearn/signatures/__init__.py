"""What is known of a class: signatures, their normalisation and their kernels."""

from zslearn.signatures._kernels import normalized_similarity, rbf_similarity, squared_distances
from zslearn.signatures._normalize import median_distance, normalize_signatures
from zslearn.signatures._views import MultiSignatures, SignatureViews

__all__ = [
    "MultiSignatures",
    "SignatureViews",
    "median_distance",
    "normalize_signatures",
    "normalized_similarity",
    "rbf_similarity",
    "squared_distances",
]
