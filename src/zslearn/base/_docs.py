"""Parts of docstrings that every estimator shares; a line ``<name>`` stands for one of them."""

from __future__ import annotations

_DESCRIBED = """
classes_ : ndarray of shape (n_classes,)
    Every described class, sorted.
seen_classes_ : ndarray of shape (n_seen,)
    The classes of the training data, sorted.
unseen_classes_ : ndarray of shape (n_unseen,)
    The classes known by their signature alone, sorted.
n_features_in_ : int
    Width of `X`.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of the features, where `X` had string names.
class_scorer_ : ClassScorer
    What predictions work on; replaced as a whole when classes are described.
"""

DOC_PARTS: dict[str, str] = {
    "parameters of every method": """
feature_norm : {"l2"} or None, default="l2"
    Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
signature_scale : {"seen", "all"} or float, default="seen"
    What the median distance, in units of which signatures are measured, is taken over.
""",
    "attributes of every method": _DESCRIBED.strip("\n")
    + """
signature_scale_ : tuple of float
    The number that the signatures of each view are divided by.
signature_table_ : SignatureTable
    Signatures of every described class, as given.
""",
    "attributes of every wrapper": _DESCRIBED,
    "parameters of embed": """
Parameters
----------
X : array of shape (n_samples, n_features)
    Prepared features.
""",
    "parameters of synthesize": """
Parameters
----------
signatures : ndarray of shape (n_classes, n_attributes)
    Normalised signatures; SignatureViews where the method keeps views apart.
labels : ndarray of shape (n_classes,), optional
    Names of the classes, for a method to which a name says more than a signature.
""",
}
