"""Baseline for joint models of images and text: predict the class with the nearest text."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray

from zslearn._utils._array import Floats
from zslearn._utils._docstrings import inherit_docs
from zslearn.base import Training, ZeroShotClassifier


@inherit_docs
class PromptsOnly(ZeroShotClassifier):
    """Predict the class whose signature has the largest cosine similarity with the features.

    For features and signatures of one model, such as image and text features of open_clip. This
    measures what the model knows without training images. On the command line it is the method
    ``zslearn.experiments:PromptsOnly`` of ``zslearn bench``.

    See Also
    --------
    zslearn.images.PromptClassifier : Classify pictures without training images.

    References
    ----------
    A. Radford et al., "Learning transferable visual models from natural language supervision",
    ICML 2021.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from zslearn.experiments import PromptsOnly
    >>> texts = pd.DataFrame(np.eye(3), index=["cat", "dog", "owl"])
    >>> model = PromptsOnly().fit(np.eye(3)[:2], ["cat", "dog"], signatures=texts)
    >>> model.predict([[0.1, 0.2, 0.9]]).tolist()
    ['owl']
    """

    score_function = "cosine"

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {"paper": {}, "fast": {}}

    def __init__(
        self, *, feature_norm: str | None = "l2", signature_scale: str | float = "seen"
    ) -> None:
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _fit(self, training: Training) -> None:
        """Learn nothing, but check that features and signatures can be compared."""
        n_attributes, n_features = training.signatures.shape[1], training.X.shape[1]
        if n_attributes != n_features:
            raise ValueError(
                f"The features have {n_features} columns and the signatures {n_attributes}: "
                "PromptsOnly compares image and text features of the same model, such as open_clip."
            )

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Floats:
        """Return the signatures.

        Returns
        -------
        ndarray of shape (n_classes, n_features)
            One point per class.
        """
        return signatures
