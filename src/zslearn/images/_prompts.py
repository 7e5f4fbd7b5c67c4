"""Classes by their names alone, where one model knows pictures and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import Floats, unit_rows
from zslearn._utils._messages import name_some
from zslearn.images._backbones import Backbone, load_backbone
from zslearn.images._predicting import candidate_classes

#: What a name is put into where no other prompts are given.
PROMPTS = ("a photo of a {}.",)


def text_features(
    names: Sequence[str] | Mapping[str, str | Sequence[str]],
    prompts: Sequence[str] = PROMPTS,
    *,
    backbone: str | Backbone,
) -> pd.DataFrame:
    """Signatures of classes by the text side of a model that also knows pictures.

    A name is put into every prompt; the vectors of the texts, each of unit length, are averaged,
    and the mean is brought to unit length.

    Parameters
    ----------
    names : sequence of str, or mapping
        Names of classes; or label → what is said of the class, one text or several.
    prompts : sequence of str, default=("a photo of a {}.",)
        Each with "{}" in the place of the text.
    backbone : str or Backbone
        A model of open_clip; see :func:`load_backbone`.

    Returns
    -------
    DataFrame of shape (n_classes, n_features)
        One row per class, in the space of the model's image features.

    Raises
    ------
    ValueError
        The model has no side for text, or a prompt has no place for the name.
    """
    if isinstance(prompts, str):
        prompts = [prompts]
    if not prompts or any("{}" not in prompt for prompt in prompts):
        raise ValueError(f"Prompts need '{{}}' where the name stands; got {name_some(prompts)}.")
    described = names if isinstance(names, Mapping) else {name: name for name in names}
    if not described:
        raise ValueError("There are no names of classes.")
    network = load_backbone(backbone) if isinstance(backbone, str) else backbone
    rows = {}
    for label, said in described.items():
        texts = [said] if isinstance(said, str) else list(said)
        filled = [prompt.replace("{}", text) for text in texts for prompt in prompts]
        rows[label] = unit_rows(network.encode_text(filled).mean(axis=0, keepdims=True))[0]
    columns = [f"text {i}" for i in range(network.n_features)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


class PromptClassifier:
    """Name the class whose text is nearest to the picture; nothing is learned.

    The baseline for models that know pictures and text: what their text side gives without a
    single labelled image. It predicts as a fitted estimator does.

    Parameters
    ----------
    signatures : DataFrame of shape (n_classes, n_features)
        Vectors of the classes in the space of the features, as :func:`text_features` gives them.
    temperature : float, default=0.01
        What cosines are divided by to become logarithms of probabilities; 0.01 is what such models
        are trained to.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, in the order of `signatures`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from zslearn.images import PromptClassifier
    >>> classes = pd.DataFrame(np.eye(2), index=["cat", "dog"])
    >>> PromptClassifier(classes).predict([[0.9, 0.2], [0.1, 3.0]]).tolist()
    ['cat', 'dog']
    """

    def __init__(self, signatures: pd.DataFrame, temperature: float = 0.01) -> None:
        if temperature <= 0:
            raise ValueError(f"temperature={temperature} must be positive.")
        if signatures.index.has_duplicates:
            raise ValueError("A class is described twice.")
        self.signatures = signatures
        self.temperature = temperature
        self.classes_ = signatures.index.to_numpy()

    def decision_function(self, X: Any, *, classes: Any = None) -> Floats:
        """Cosines of pictures and classes.

        Parameters
        ----------
        X : array-like of shape (n_images, n_features)
            Image features of the same model.
        classes : array-like of labels, optional
            The candidates; by default all.

        Returns
        -------
        ndarray of shape (n_images, n_classes)
            Columns follow `classes`.
        """
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != self.signatures.shape[1]:
            raise ValueError(
                f"X has shape {X.shape}; the texts have {self.signatures.shape[1]} numbers each. "
                "Both sides must come from one model."
            )
        labels = candidate_classes(self, classes)
        described = self.signatures.loc[labels].to_numpy(dtype=np.float64)
        return unit_rows(X) @ unit_rows(described).T

    def predict_proba(self, X: Any, *, classes: Any = None) -> Floats:
        """Probabilities: softmax of the cosines at the temperature.

        Parameters
        ----------
        X : array-like of shape (n_images, n_features)
            Image features of the same model.
        classes : array-like of labels, optional
            The candidates; by default all.

        Returns
        -------
        ndarray of shape (n_images, n_classes)
            Columns follow `classes`, rows sum to 1.
        """
        logits = self.decision_function(X, classes=classes) / self.temperature
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def predict_top_k(
        self, X: Any, k: int = 5, *, classes: Any = None
    ) -> tuple[NDArray[Any], Floats]:
        """The `k` best classes of each picture, best first.

        Parameters
        ----------
        X : array-like of shape (n_images, n_features)
            Image features of the same model.
        k : int, default=5
            How many classes.
        classes : array-like of labels, optional
            The candidates; by default all.

        Returns
        -------
        labels : ndarray of shape (n_images, k)
            Class labels.
        scores : ndarray of shape (n_images, k)
            Their cosines, descending.
        """
        labels = candidate_classes(self, classes)
        scores = self.decision_function(X, classes=classes)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return labels[order], np.take_along_axis(scores, order, axis=1)

    def predict(self, X: Any, *, classes: Any = None) -> NDArray[Any]:
        """The best class of each picture.

        Parameters
        ----------
        X : array-like of shape (n_images, n_features)
            Image features of the same model.
        classes : array-like of labels, optional
            The candidates; by default all.

        Returns
        -------
        ndarray of shape (n_images,)
            Class labels.
        """
        return self.predict_top_k(X, 1, classes=classes)[0][:, 0]
