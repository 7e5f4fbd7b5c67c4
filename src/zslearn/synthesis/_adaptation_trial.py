"""Choose the weight of unlabelled images for Gaussian EXEM on held-out seen classes.

The first :meth:`GaussianEXEM.adapt` does so, with features of training images that `fit` keeps.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from zslearn._utils._array import Floats, row_blocks, to_numpy
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.base._training import Training, chosen_samples
from zslearn.calibration._unlabelled import AdaptedScores, HeldOutFold, WeightChoice, choose_weight
from zslearn.signatures._table import SignatureTable
from zslearn.signatures._views import Signatures
from zslearn.synthesis._class_posterior import ClassPosterior
from zslearn.synthesis._temperature import FEWEST_CLASSES, N_GROUPS

if TYPE_CHECKING:
    from zslearn.synthesis._gaussian import GaussianEXEM

# About this many training images are kept, and one in so many of them is a test image.
_MOST_IMAGES = 10_000
_TEST_EVERY = 5
# Groups of seen classes, of `N_GROUPS`, that are held out in turn.
_N_FOLDS = 3


@saved_part
@saves(
    scaled=Saved("n_images", "n_features"),
    units=Saved("n_images", 1, above=0),
    y=Saved("n_images", kind="int", least=0),
    weights=Saved("n_images", above=0, optional=True),
    choices=Saved(kind=WeightChoice, some_keys=("alone", "all"), optional=True),
)
@dataclass(eq=False)
class TrialImages:
    """Prepared features of training images, ordered by class and content.

    They are not whitened: the covariance and class means must be learned without an image, or it
    would appear closer to its class than a new image. Copies of a model share this object and thus
    the result of the trial.
    """

    scaled: NDArray[np.float16]  # each row divided by its largest absolute value
    units: Floats
    y: NDArray[np.intp]
    weights: Floats | None
    choices: dict[str, WeightChoice] | None = None  # None before the trial

    @classmethod
    def of(cls, training: Training) -> TrialImages:
        """Select about 10,000 images, evenly from all classes."""
        most = max(_MOST_IMAGES, 2 * training.n_seen)
        rows = chosen_samples(training.keys(), training.y, most)
        scaled = np.empty((len(rows), training.rows.shape[1]), dtype=np.float16)
        units = np.empty((len(rows), 1))
        for part in row_blocks(len(rows), 16 * scaled.shape[1]):
            X = to_numpy(training.take(rows[part]))
            largest = np.abs(X).max(axis=1, keepdims=True)
            units[part] = np.where(largest > 0, largest, 1.0)
            scaled[part] = X / units[part]
        weights = None if training.weights is None else training.weights[rows]
        return cls(scaled, units, training.y[rows], weights)

    def choose(self, model: GaussianEXEM, table: SignatureTable) -> dict[str, WeightChoice]:
        """Weights chosen on held-out classes; empty if there are too few classes."""
        if self.choices is None:
            self.choices = choose_weight(self._folds(model, table))
        return self.choices

    def _folds(
        self, model: GaussianEXEM, table: SignatureTable
    ) -> Iterator[tuple[HeldOutFold, AdaptedScores]]:
        """Fit models without some seen classes, and embed images of all classes."""
        posterior = model.posterior_
        many = np.flatnonzero(~posterior.few_shot)
        if len(many) < FEWEST_CLASSES:
            return
        training = self._training(table, model.seen_classes_, model.signature_scale_)
        y = training.y
        rank = np.arange(len(y)) - np.searchsorted(y, y)  # images are ordered by class
        is_test = rank % _TEST_EVERY == _TEST_EVERY - 1
        order = many[np.argsort(posterior.exemplars[many, 0], kind="stable")]
        for k in range(_N_FOLDS):
            held_out = np.sort(order[k::N_GROUPS])
            trained = np.setdiff1d(np.arange(len(posterior.classes)), held_out)
            is_held_out = np.isin(y, held_out)
            part = training.subset(trained, np.flatnonzero(~is_held_out & ~is_test))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                (fitted,) = type(model)._learn(part, part.sums, [clone(model)])
            rows = [np.flatnonzero(own) for own in (is_held_out, ~is_held_out & is_test)]
            images, others = (fitted.posterior_.embed(training.take(own)) for own in rows)
            fold = HeldOutFold(held_out, trained, images, y[rows[0]], others, y[rows[1]])
            scores = partial(
                _adapted_scores, fitted.posterior_, training.signatures, training.classes
            )
            yield fold, scores

    def _training(
        self, table: SignatureTable, classes: NDArray[Any], scale: tuple[float, ...]
    ) -> Training:
        """The images with the signatures of their classes, as in `fit`."""
        table = table.subset(table.positions(classes))
        signatures = table.normalized(scale, keep_views=True)
        rows = self.scaled.astype(np.float64) * self.units
        return Training(
            rows, self.y, signatures, classes, table, scale, keep_views=True, weights=self.weights
        )


def _adapted_scores(
    posterior: ClassPosterior,
    signatures: Signatures,
    labels: NDArray[Any],
    images: Floats,
    candidates: NDArray[np.intp],
    weight: float,
) -> Floats:
    """Scores of embedded images for some classes, after adapting to these images."""
    signatures, labels = signatures[candidates], labels[candidates]
    if weight:
        z = images[:, : posterior.n_dims]
        sums = posterior.unlabelled_sums(lambda: [z], signatures, labels, weight)
        posterior = posterior.with_unlabelled(labels, sums, weight)
    return np.asarray(images @ posterior.parameters(signatures, labels).T)
