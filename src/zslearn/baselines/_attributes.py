r"""What DAP and IAP share: binary attributes, their calibration, and the score of a class.

With binary signatures :math:`a^c`, attributes taken as independent given the image, and classes
taken as equally probable,

.. math:: \log p(c | x) = \sum_m \log p(a_m^c | x) - \log p(a_m^c) + \text{const}
          = \sum_m a_m^c \left(\operatorname{logit} p(a_m | x) - \operatorname{logit} p(a_m)\right)
          + \text{const}(x).

What is dropped on the right, :math:`\sum_m \log(1 - p(a_m | x)) - \log(1 - p(a_m))`, depends on the
image alone and moves all its scores alike. So `embed` gives the log-odds of the attributes less
those of the prior, `synthesize` the binary signature, and the score is their inner product; no
product of hundreds of probabilities, which would underflow, is ever formed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn.base import Training, ZeroShotClassifier
from zslearn.signatures import SignatureViews
from zslearn.signatures._binary import (
    BinaryKind,
    binary_kind,
    binary_rows,
    mean_levels,
    without_noise,
)
from zslearn.solvers import LogisticResult
from zslearn.solvers._platt import platt_scaling
from zslearn.utils import Array, move_like, name_some, take_rows, to_numpy
from zslearn.utils._folds import class_folds

# Folds over the seen classes by which log-odds are calibrated.
_FOLDS = 3


class AttributeClassifier(ZeroShotClassifier):
    """Base of methods that predict binary attributes.

    A subclass defines `_path`, logistic regressions for several penalties, and `_log_odds`.
    """

    keep_views: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "calibration": [StrOptions({"classes", "targets"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }
    grid_order: ClassVar[tuple[str, ...]] = ("calibration", "alpha")

    alpha: float
    calibration: str | None
    tol: float
    random_state: Any

    @abstractmethod
    def _path(
        self,
        X: Array,
        y: NDArray[np.intp],
        binary: NDArray[np.bool_],
        alphas: Sequence[float],
        *,
        soften: bool,
    ) -> list[LogisticResult]:
        """Train for several penalties; `soften` asks for Platt's targets."""

    @abstractmethod
    def _log_odds(
        self, X: Array, coef: Array, intercept: Array, binary: NDArray[np.bool_]
    ) -> Array:
        """Log-odds of each attribute before calibration."""

    def _fit(self, X: Array, y: NDArray[np.intp], signatures: Any) -> None:
        for _ in self._fit_all([self], X, y, signatures):
            pass

    def _fit_settings(
        self, training: Training, settings: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Self]]:
        """The penalties share one path of warm starts."""
        variants = self._variants(settings)
        for calibration in dict.fromkeys(one.calibration for one in variants):
            group = [i for i, one in enumerate(variants) if one.calibration == calibration]
            models = [variants[i] for i in group]
            fitted = self._fit_all(models, training.X, training.y, training.signatures)
            yield from zip(group, fitted, strict=True)

    def _fit_all(
        self, models: Sequence[Self], X: Array, y: NDArray[np.intp], signatures: Any
    ) -> Iterator[Self]:
        """Fit estimators that differ in `alpha` alone."""
        first = models[0]
        for one in models:
            binary = one._learn_attributes(signatures)
        alphas = [one.alpha for one in models]
        soften = first.calibration == "targets"
        results = first._path(X, y, binary, alphas, soften=soften)
        sigmoids = [(np.ones(binary.shape[1]), np.zeros(binary.shape[1])) for _ in models]
        if first.calibration == "classes":
            sigmoids = first._calibrated(X, y, binary, alphas)
        for one, result, (slope, offset) in zip(models, results, sigmoids, strict=True):
            one._seen_binary = binary.copy()
            one.coef_, one.intercept_ = result.coef, result.intercept
            one.slope_, one.offset_ = slope, offset
            yield one

    def _calibrated(
        self,
        X: Array,
        y: NDArray[np.intp],
        binary: NDArray[np.bool_],
        alphas: Sequence[float],
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Sigmoids, one list a penalty, from the log-odds of classes that were held out."""
        shape = (len(y), binary.shape[1])
        known = np.zeros(shape, dtype=bool)
        scores = [np.zeros(shape, dtype=np.float32) for _ in alphas]
        rng = check_random_state(self.random_state)
        n_classes = len(binary)
        for fold in class_folds(rng.permutation(n_classes), min(_FOLDS, n_classes)):
            rest = np.setdiff1d(np.arange(n_classes), fold)
            part = binary[rest]
            # What does not vary among the other classes cannot be learned from them.
            columns = np.flatnonzero(part.any(axis=0) & ~part.all(axis=0))
            if not len(columns):
                continue
            held = np.isin(y, fold)
            trained = np.flatnonzero(~held)
            part = part[:, columns]
            codes = np.searchsorted(rest, y[trained])
            # Classes left out change how frequent an attribute is, against themselves: evidence is
            # counted from there.
            shift = _logit(binary[y][:, columns]) - _logit(part[codes])
            results = self._path(take_rows(X, trained), codes, part, alphas, soften=False)
            out = np.ix_(held, columns)
            known[out] = True
            rows = take_rows(X, np.flatnonzero(held))
            for table, result in zip(scores, results, strict=True):
                odds = self._log_odds(rows, result.coef, result.intercept, part)
                table[out] = to_numpy(odds) + shift
        return [platt_scaling(table.astype(np.float64), binary[y], known) for table in scores]

    def _learn_attributes(self, signatures: Any) -> NDArray[np.bool_]:
        """Which attributes the seen classes have, without those that all or none of them have."""
        self._kinds: list[BinaryKind | None] = [binary_kind(view) for view in _views(signatures)]
        self.thresholds_ = np.concatenate(
            [
                mean_levels(view) if kind is None else np.zeros(view.shape[1])
                for view, kind in zip(_views(signatures), self._kinds, strict=True)
            ]
        )
        self.attributes_ = np.arange(len(self.thresholds_))
        binary = self._binary(signatures)
        self.attributes_ = np.flatnonzero(binary.any(axis=0) & ~binary.all(axis=0))
        if not len(self.attributes_):
            raise ValueError(
                f"{type(self).__name__} needs attributes that some seen classes have and others "
                f"lack; all {len(self.thresholds_)} attributes are the same for all of them. "
                "Describe the classes by attributes that differ, or set the thresholds with "
                "zslearn.signatures.binarize_signatures."
            )
        binary = binary[:, self.attributes_]
        self.prior_ = binary.mean(axis=0)
        return binary

    def _binary(self, signatures: Any) -> NDArray[np.bool_]:
        views = [
            view if kind is None else without_noise(view)
            for view, kind in zip(_views(signatures), self._kinds, strict=True)
        ]
        return (np.concatenate(views, axis=1) > self.thresholds_)[:, self.attributes_]

    def embed(self, X: Array) -> Array:
        """Give the log-odds of each attribute, less those of its prior.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Prepared features.

        Returns
        -------
        array of shape (n_samples, n_attributes)
            For the attributes in `attributes_`.
        """
        odds = self._log_odds(X, self.coef_, self.intercept_, self._seen_binary)
        prior = np.log(self.prior_) - np.log1p(-self.prior_)
        return odds * move_like(self.slope_, odds) + move_like(self.offset_ - prior, odds)

    def synthesize(self, signatures: Any) -> NDArray[np.float64]:
        """Say which attributes a class has.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
            Normalised signatures.

        Returns
        -------
        ndarray of shape (n_classes, n_attributes)
            0 and 1 for the attributes in `attributes_`.
        """
        return self._binary(signatures).astype(np.float64)

    def _synthesize_named(self, signatures: Any, labels: NDArray[Any]) -> Array:
        for view, kind in zip(_views(signatures), self._kinds, strict=True):
            odd = np.zeros(len(view), dtype=bool) if kind is None else ~binary_rows(view, kind)
            if odd.any():
                raise ValueError(
                    f"The seen classes have binary signatures, but these classes do not: "
                    f"{name_some(labels[odd].tolist())}. {type(self).__name__} needs binary "
                    "attributes: make them with zslearn.signatures.binarize_signatures."
                )
        return self.synthesize(signatures)


def _logit(binary: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Log-odds of the columns' shares."""
    share = binary.mean(axis=0)
    return np.log(share) - np.log1p(-share)


def _views(signatures: Any) -> tuple[NDArray[np.float64], ...]:
    return signatures.arrays if isinstance(signatures, SignatureViews) else (signatures,)
