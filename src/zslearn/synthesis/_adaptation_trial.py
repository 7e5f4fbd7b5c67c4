"""Whether unlabelled images pay: a trial of Gaussian exemplars on held-out seen classes.

The first :meth:`GaussianEXEM.adapt` makes it, on features of training images that `fit` keeps.
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
from zslearn.calibration._unlabelled import LeftOut, Scored, WeightChoice, choose_weight
from zslearn.signatures._table import SignatureTable
from zslearn.signatures._views import Signatures
from zslearn.synthesis._class_posterior import ClassPosterior
from zslearn.synthesis._temperature import FEWEST_CLASSES, N_GROUPS

if TYPE_CHECKING:
    from zslearn.synthesis._gaussian import GaussianEXEM

# About so many training images are kept, and one of so many of these is for testing.
_MOST_IMAGES = 10_000
_TESTED_EVERY = 5
# Groups of seen classes, of five, that are held out.
_N_TRIALS = 3


@saved_part
@saves(
    scaled=Saved("n_images", "n_features"),
    units=Saved("n_images", 1, above=0),
    y=Saved("n_images", kind="int", least=0),
    weights=Saved("n_images", above=0, optional=True),
    choices=Saved(kind=WeightChoice, some_keys=("alone", "all"), optional=True),
)
@dataclass(eq=False)
class KeptImages:
    """Prepared features of training images, ordered by class and content.

    Features rather than whitened images: the covariance and the class means that whiten an image
    have to be learned without it, or it looks nearer to its class than a new image would. Copies of
    a model share this object, so that the trial is made once for all of them.
    """

    scaled: NDArray[np.float16]  # at most 1 in each row
    units: Floats
    y: NDArray[np.intp]
    weights: Floats | None
    choices: dict[str, WeightChoice] | None = None  # what the trial led to, once it was made

    @classmethod
    def of(cls, training: Training) -> KeptImages:
        """About 10,000 images of all classes."""
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

    def trial(self, model: GaussianEXEM, table: SignatureTable) -> dict[str, WeightChoice]:
        """The weights that held-out classes choose; empty where none can be held out."""
        if self.choices is None:
            self.choices = choose_weight(self._trials(model, table))
        return self.choices

    def _trials(
        self, model: GaussianEXEM, table: SignatureTable
    ) -> Iterator[tuple[LeftOut, Scored]]:
        """Models of the same setting without some of the seen classes, and images of these."""
        known = model.posterior_
        many = np.flatnonzero(~known.few)
        if len(many) < FEWEST_CLASSES:
            return
        training = self._training(table, model.seen_classes_, model.signature_scale_)
        y = training.y
        # Images are ordered by class: one of so many is for testing.
        rank = np.arange(len(y)) - np.searchsorted(y, y)
        is_tested = rank % _TESTED_EVERY == _TESTED_EVERY - 1
        order = many[np.argsort(known.exemplars[many, 0], kind="stable")]
        for k in range(_N_TRIALS):
            described = np.sort(order[k::N_GROUPS])
            trained = np.setdiff1d(np.arange(len(known.few)), described)
            left = np.isin(y, described)
            part = training.subset(trained, np.flatnonzero(~left & ~is_tested))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                (fitted,) = type(model)._learn(part, part.sums, [clone(model)])
            posterior = fitted.posterior_
            rows = [np.flatnonzero(which) for which in (left, ~left & is_tested)]
            images, others = (posterior.embed(training.take(part)) for part in rows)
            scored = partial(_scores_after, posterior, training.signatures, training.classes)
            yield LeftOut(described, trained, images, y[rows[0]], others, y[rows[1]]), scored

    def _training(
        self, table: SignatureTable, classes: NDArray[Any], scale: tuple[float, ...]
    ) -> Training:
        """The images beside the signatures of their classes, as `fit` has them."""
        table = table.subset(table.positions(classes))
        signatures = table.normalized(scale, keep_views=True)
        rows = self.scaled.astype(np.float64) * self.units
        return Training(
            rows, self.y, signatures, classes, table, scale, keep_views=True, weights=self.weights
        )


def _scores_after(
    posterior: ClassPosterior,
    signatures: Signatures,
    labels: NDArray[Any],
    images: Floats,
    candidates: NDArray[np.intp],
    weight: float,
) -> Floats:
    """Scores of embedded images for some classes, after adapting to them."""
    signatures, labels = signatures[candidates], labels[candidates]
    if weight:
        z = images[:, : posterior.n_dims]
        sums = posterior.unlabelled_sums(lambda: [z], signatures, labels, weight)
        posterior = posterior.with_unlabelled(labels, sums, weight)
    return np.asarray(images @ posterior.parameters(signatures, labels).T)
