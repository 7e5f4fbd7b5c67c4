"""What a generated problem was generated from, as a classifier to measure methods against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from zslearn.metrics import per_class_accuracy
from zslearn.utils import name_some, row_blocks


@dataclass(frozen=True, eq=False)
class GeneratingModel:
    """The parameters that :func:`make_zero_shot` drew, and Bayes' rule under them.

    A class is a mixture, in equal parts, of normal distributions with independent features.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Every class, seen and unseen.
    means : ndarray of shape (n_classes, n_modes, n_features)
        Where the samples of a class and mode scatter round.
    scales : ndarray of shape (n_classes, n_features)
        Standard deviation of each feature within a class and mode.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> data, truth = make_zero_shot(noise=0.5, return_truth=True, random_state=0)
    >>> round(truth.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes), 2)
    0.66
    """

    classes: NDArray[Any]
    means: NDArray[np.float64]
    scales: NDArray[np.float64]

    def log_density(self, X: ArrayLike, *, classes: ArrayLike | None = None) -> NDArray[np.float64]:
        """Logarithm of the density of each sample under each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        classes : array-like of labels, optional
            The candidates; by default every class.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Up to a constant that all classes share; columns follow `classes`.
        """
        X = np.asarray(X, dtype=np.float64)
        columns = self._positions(classes)
        result = np.empty((len(X), len(columns)))
        n_modes, n_features = self.means.shape[1:]
        for rows in row_blocks(len(X), X.itemsize * n_modes * n_features):
            for column, position in enumerate(columns):
                scale = np.maximum(self.scales[position], np.finfo(float).tiny ** 0.25)
                deviation = X[rows, None, :] - self.means[position][None]
                deviation /= scale
                np.square(deviation, out=deviation)
                by_mode = -0.5 * np.sum(deviation, axis=2)
                log_scale = np.sum(np.log(scale))
                result[rows, column] = scipy.special.logsumexp(by_mode, axis=1) - log_scale
        return result

    def predict(self, X: ArrayLike, *, classes: ArrayLike | None = None) -> NDArray[Any]:
        """Name the class under which a sample is densest.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        classes : array-like of labels, optional
            The candidates; by default every class.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        densest = self.log_density(X, classes=classes).argmax(axis=1)
        return self.classes[self._positions(classes)[densest]]

    def score(self, X: ArrayLike, y: ArrayLike, *, classes: ArrayLike | None = None) -> float:
        """Per-class accuracy of Bayes' rule, which no method passes but by luck.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            True labels.
        classes : array-like of labels, optional
            The candidates; by default every class.

        Returns
        -------
        float
            Between 0 and 1.
        """
        return per_class_accuracy(np.asarray(y), self.predict(X, classes=classes))

    def _positions(self, classes: ArrayLike | None) -> NDArray[np.intp]:
        if classes is None:
            return np.arange(len(self.classes))
        where = {label: i for i, label in enumerate(self.classes.tolist())}
        labels = np.asarray(classes).tolist()
        unknown = [label for label in labels if label not in where]
        if unknown:
            raise ValueError(f"There are no such classes: {name_some(unknown)}.")
        return np.asarray([where[label] for label in labels], dtype=np.intp)
