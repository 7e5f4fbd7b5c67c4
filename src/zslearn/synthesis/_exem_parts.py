"""What becomes of predicted exemplars: samples meet them, or another method learns from them.

Both parts answer the same questions of an :class:`EXEM` estimator: what is still to be learned,
how samples are embedded, what a class's parameters are, and how the two meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from zslearn.base import Training, ZeroShotClassifier, fit_together
from zslearn.scoring import ClassScorer, Embedding
from zslearn.synthesis._exemplars import Exemplars, ExemplarSpaces, Projection
from zslearn.utils import Array, move_like, to_numpy, unit_rows

if TYPE_CHECKING:
    from zslearn.synthesis._exem import EXEM


class NearestExemplar:
    """The nearest predicted exemplar names a sample (eExemPredict).

    Parameters
    ----------
    model : EXEM
        Without an inner method.
    """

    def __init__(self, model: EXEM) -> None:
        self.model = model

    @staticmethod
    def fit_many(
        spaces: ExemplarSpaces, exemplars: Exemplars, models: Sequence[EXEM]
    ) -> Iterator[EXEM]:
        """Nothing is left to learn but the deviations within classes."""
        for model in sorted(models, key=lambda model: model.distance):
            if model.distance == "standardized":
                model.within_std_ = spaces.within_std(model.n_components)
            yield model

    def embed(self, X: Array) -> Array:
        """Project samples; the standardised distance also divides by the deviations."""
        model = self.model
        projected = Projection(model.mean_, model.components_, model.exemplars_)(X)
        if model.distance == "standardized":
            projected = projected / move_like(model.within_std_, X)
        return projected

    def parameters(self, exemplars: Array, labels: NDArray[Any] | None) -> Array:
        """Exemplars, in the units of the distance."""
        model = self.model
        if model.distance == "standardized":
            return exemplars / move_like(model.within_std_, exemplars)
        return exemplars

    def scorer(self, labels: NDArray[Any], parameters: Array) -> ClassScorer:
        """The score is the negative distance."""
        embedding = Embedding(self.model.embed, (self.model.feature_norm,))
        return ClassScorer(labels, parameters, embedding, "euclidean")


class InnerMethod:
    """Predicted exemplars take the place of the signatures in another method.

    Parameters
    ----------
    model : EXEM
        With an inner method.
    """

    def __init__(self, model: EXEM) -> None:
        self.model = model

    @staticmethod
    def fit_many(
        spaces: ExemplarSpaces, exemplars: Exemplars, models: Sequence[EXEM]
    ) -> Iterator[EXEM]:
        """Fit the inner methods of estimators that have the same exemplars."""
        inner = [_checked(model.estimator) for model in models]
        training = spaces.training
        # Exemplars of unseen classes count for a scale over all classes, and for nothing else.
        every = any(method.signature_scale == "all" for method in inner)
        described = _as_table(exemplars, training, every=every)
        norms = {method.feature_norm for method in inner}
        fitted = fit_together(
            inner,
            # Features of unit length are scaled to unit length again: that needs no copy of them,
            # and a search of the inner method alone has the same rows, and shares its fits.
            training.rows.source if training.is_prepared_by(norms) else training.X,
            training.labels,
            signatures=described,
            sample_weight=training.weights,
        )
        for index, method in fitted:
            models[index].estimator_ = method
            yield models[index]

    def embed(self, X: Array) -> Array:
        """What the inner method makes of the features."""
        return self.model.estimator_.class_scorer_.embedding(X)

    def parameters(self, exemplars: Array, labels: NDArray[Any] | None) -> Array:
        """Parameters of the inner method, from exemplars as it sees signatures."""
        inner = self.model.estimator_
        (scale,) = inner.signature_scale_
        return inner.synthesize(unit_rows(to_numpy(exemplars)) / scale, labels)

    def scorer(self, labels: NDArray[Any], parameters: Array) -> ClassScorer:
        """The inner method's scorer, for these classes and for features prepared before."""
        inner = self.model.estimator_.class_scorer_
        if self.model._whitening is None:
            embedding = inner.embedding.after(self.model.feature_norm)
        else:
            embedding = Embedding(self.model.embed, (self.model.feature_norm,))
        return replace(inner, labels=labels, parameters=parameters, embedding=embedding)


def _checked(estimator: Any) -> ZeroShotClassifier:
    """A copy of the inner method; refuse what cannot be one."""
    if isinstance(estimator, ZeroShotClassifier):
        return clone(estimator)
    name = type(estimator).__name__
    if hasattr(estimator, "estimator"):
        raise TypeError(
            f"estimator={name}(…) wraps another estimator; wrap EXEM the other way round: "
            f"{name}(EXEM(estimator=…))."
        )
    raise TypeError(
        f"estimator must be a zero-shot method, derived from ZeroShotClassifier; got {name}."
    )


def _as_table(exemplars: Exemplars, training: Training, *, every: bool) -> pd.DataFrame:
    """Predicted exemplars as signatures; the seen classes come first."""
    rows, labels = exemplars.of_seen(), training.classes.tolist()
    if every:
        unseen = ~np.isin(training.table.labels, training.classes)
        predicted = to_numpy(exemplars.predict(training.every_signature(), training.table.labels))
        rows = np.concatenate([rows, predicted[unseen]])
        labels += training.table.labels[unseen].tolist()
    return pd.DataFrame(rows, index=labels)
