r"""GDA and Tip-Adapter: a score from a few labelled images of a class, added to a zero-shot score.

The score of a class is :math:`f / u_f + \alpha \, g / u_g`, with the zero-shot score f of its
description, the score g of its images and their standard deviations over the seen classes, so that
a weight α means the same for every zero-shot method. For a class without images g is 0.

GDA, Gaussian discriminant analysis, models all classes with one covariance. Let :math:`\mu_c` be
the means of the classes that have images and :math:`\Sigma` their pooled covariance, of n images in
d dimensions. With the shrunk inverse

.. math:: P = d \, \bigl((n - 1) \Sigma + \rho \, \mathrm{tr}(\Sigma) I\bigr)^{-1},

the score of class c is its log density relative to a Gaussian at the mean of the means,
:math:`\bar\mu`, which represents classes without images:

.. math:: g_c(x) = (\mu_c - \bar\mu)^\top P (x - \bar\mu)
          - \tfrac12 (\mu_c - \bar\mu)^\top P (\mu_c - \bar\mu).

Tip-Adapter, a cache of labelled images, scores a class by the similarity of a sample to its images,

.. math:: g_c(x) = \frac{1}{|I_c|} \sum_{i \in I_c} \exp\bigl(-\beta (1 - \cos(x, x_i))\bigr).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, Interval

from zslearn._scoring._embedding import Embedding, PreparedRows
from zslearn._scoring._scorer import ClassScorer, identical_rows
from zslearn._utils._array import (
    Array,
    Floats,
    block_budget,
    move_like,
    row_blocks,
    take_rows,
    to_numpy,
    unit_rows,
)
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import ClassStatistics, class_means, weighted_samples
from zslearn.base._classifier import fit_weighted
from zslearn.base._meta import ZeroShotMetaClassifier, as_zero_shot
from zslearn.base._predictor import clone_with
from zslearn.baselines._eszsl import ESZSL
from zslearn.calibration._folds import score_scale
from zslearn.signatures._table import SignatureTable

# Hyper-parameters that the fitted zero-shot estimator depends on.
_ESTIMATOR_PARAMETERS = {"estimator", "min_images"}


@inherit_docs
@saves(
    _seen=Saved("n_seen", kind="label"),
    class_means_=Saved("n_seen", "n_features"),
    coef_=Saved("n_seen", "n_columns"),
    intercept_=Saved("n_seen"),
    units_=Saved(above=0, each=True),
)
@dataclass(eq=False, repr=False)
class FewImages(ZeroShotMetaClassifier):
    """Base of methods that combine a few labelled images of a class with its description.

    A subclass defines `_image_sums`, `_fit_images` and, if the score is not linear in the
    prepared features, `_embed_images`.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline, optional
        Method that scores descriptions; :class:`ESZSL` by default.
    min_images : int, default=1
        Minimum number of images of the classes that `estimator` is trained on; it treats other
        classes as unseen. If fewer than two classes have enough images, it is trained on all.
    weight : float, default=1.0
        Factor α of the score from images, relative to that from descriptions.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        The fitted `estimator`, on features of unit length.
    class_means_ : ndarray of shape (n_seen, n_features)
        Mean of the normalised features of each seen class.
    coef_, intercept_ : ndarray of shape (n_seen, n_dims) and (n_seen,)
        Linear score from the images of each seen class.
    units_ : tuple of float
        Median standard deviations over `class_means_` of the scores from descriptions and images.
    """

    estimator: Any = None
    _: KW_ONLY
    min_images: int = 1
    weight: float = 1.0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "decision_function", "add_classes"]), Pipeline, None],
        "min_images": [Interval(Integral, 1, None, closed="left")],
        "weight": [Interval(Real, 0, None, closed="left")],
    }
    #: Attributes that `_embed_images` depends on.
    _image_attributes: ClassVar[tuple[str, ...]] = ()

    def _image_sums(self, X: Array, codes: NDArray[np.intp], weights: Floats | None) -> Any:
        """Statistics of prepared features that do not depend on hyper-parameters."""
        raise NotImplementedError

    def _fit_images(self, sums: Any) -> tuple[Floats, Floats]:
        """Compute `coef_` and `intercept_`."""
        raise NotImplementedError

    def _embed_images(self, rows: Array) -> Array:
        """Features in which the score from images is linear."""
        return rows

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Fit the zero-shot estimator, and learn from the images of each class."""
        self._fit_score(self._fit_estimator(X, y, signatures, weights))

    def fit_grid(
        self,
        X: Any,
        y: Any,
        *,
        signatures: Any = None,
        settings: Sequence[Mapping[str, Any]],
        sample_weight: Any = None,
    ) -> Iterator[tuple[int, Self]]:
        """Fit once for each setting; settings with the same `estimator` share its fit."""
        groups: dict[str, list[int]] = {}
        for index, setting in enumerate(settings):
            shared = {n: v for n, v in setting.items() if n.split("__")[0] in _ESTIMATOR_PARAMETERS}
            groups.setdefault(fingerprint(shared), []).append(index)
        for group in groups.values():
            learned = clone_with(self, settings[group[0]])
            learned._validate_params()
            X_checked, y_checked = learned._check_training(X, y)
            rows, labels, weights = weighted_samples(X_checked, y_checked, sample_weight)
            sums = learned._fit_estimator(rows, labels, signatures, weights)
            for index in group:
                model = learned._copy().set_params(**settings[index])
                model._validate_params()
                model.estimator_ = learned.estimator_._copy()
                model._fit_score(sums)
                yield index, model._as_fitted()
                del model

    def _fit_estimator(
        self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None
    ) -> Any:
        """Fit the zero-shot estimator; return the statistics of the images."""
        rows = PreparedRows(X, "l2")
        rows.check()
        X = rows.dense
        self._seen, codes = np.unique(y, return_inverse=True)
        sizes = np.bincount(codes, weights=weights)
        self.class_means_ = to_numpy(class_means(X, codes, len(sizes), sample_weight=weights))
        sums = self._image_sums(X, codes, weights)
        is_large = sizes >= self.min_images
        if is_large.sum() >= 2 and not is_large.all():
            signatures = SignatureTable.from_user(signatures, self._seen)
            kept = np.flatnonzero(is_large[codes])
            X, y = take_rows(X, kept), y[kept]
            weights = None if weights is None else weights[kept]
        inner = as_zero_shot(ESZSL() if self.estimator is None else self.estimator)
        self.estimator_ = fit_weighted(inner, X, y, signatures, weights)
        return sums

    def _fit_score(self, sums: Any) -> None:
        """Learn the score from images and measure the scales of both scores."""
        self.coef_, self.intercept_ = self._fit_images(sums)
        scorer = self.estimator_.class_scorer_
        description, images = (
            score_scale(self._mixed(scorer, *factors).scores(self.class_means_, self._seen))
            for factors in ((1.0, 0.0), (0.0, 1.0))
        )
        self.units_ = description or 1.0, images or 1.0

    @property
    def seen_classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The classes of the training data, sorted."""
        return self._seen

    def __sklearn_tags__(self) -> Tags:
        """Declare that non-finite features are replaced, regardless of the inner estimator."""
        tags = super(ZeroShotMetaClassifier, self).__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        description, images = self.units_
        return self._mixed(scorer, 1.0 / description, self.weight / images)

    def _mixed(self, scorer: ClassScorer, description: float, images: float) -> ClassScorer:
        """Both scores, multiplied by factors, as one inner product."""
        coef, intercept = _as_products(scorer)
        from_images = np.zeros((len(scorer.labels), self.coef_.shape[1] + 1))
        seen, rows = np.isin(self._seen, scorer.labels), np.isin(scorer.labels, self._seen)
        from_images[rows] = images * np.column_stack([self.coef_, self.intercept_])[seen]
        from_images[:, -1] += description * intercept
        if coef.ndim == 3:
            # Every map of a class gets the same score from images.
            from_images = np.repeat(from_images[:, None, :], coef.shape[1], axis=1)
        xp, inner = compat.array_namespace(coef), scorer.embedding
        parameters = xp.concat([description * coef, move_like(from_images, coef)], axis=-1)
        depends_on = None
        if inner.depends_on is not None:
            own = (getattr(self, name) for name in self._image_attributes)
            depends_on = (*inner.depends_on, *inner.feature_norms, scorer.score, *own)
        return replace(
            scorer,
            parameters=parameters,
            # Classes with equal descriptions may have different images.
            same_as=None if scorer.same_as is None else identical_rows(parameters),
            embedding=Embedding(self._embed, ("l2",), depends_on),
            score="max_dot" if scorer.score == "max_dot" else "dot",
            bias=None,
            temperature=None,
        )

    def _embed(self, rows: Array) -> Array:
        """Concatenate the embeddings of the estimator and of `_embed_images`, and a 1."""
        scorer = self.estimator_.class_scorer_
        embedded = scorer.embedding(rows)
        xp = compat.array_namespace(embedded)
        if scorer.score == "cosine":
            embedded = unit_rows(embedded)
        return xp.concat([embedded, self._embed_images(rows), xp.ones_like(rows[:, :1])], axis=1)


def _as_products(scorer: ClassScorer) -> tuple[Array, Floats]:
    """Coefficients and intercepts that rank classes as the scorer does."""
    coef: Any = scorer.parameters
    coef = getattr(coef, "whole", coef)  # classes may be stored in chunks or groups
    intercept = np.zeros(len(scorer.labels)) if scorer.bias is None else scorer.bias
    if scorer.score == "cosine":
        coef = unit_rows(coef)
    elif scorer.score == "euclidean":
        # −‖e − p‖² = 2eᵀp − ‖p‖² − ‖e‖², whose last term is common to all classes.
        intercept = intercept - (to_numpy(coef).astype(np.float64) ** 2).sum(axis=1)
        coef = 2.0 * coef
    return coef, intercept


@inherit_docs
@dataclass(eq=False, repr=False)
class GDA(FewImages):
    """Gaussian discriminant analysis of a few images, added to a zero-shot score.

    Parameters
    ----------
    shrinkage : float, default=1.0
        ρ of the shrunk inverse covariance. The original has 1, for a few images of every class;
        with thousands of images of other classes, the shrinkage of 1 has hardly any effect.

    See Also
    --------
    TipAdapter : Compares samples with the images themselves.

    Notes
    -----
    Unlike in the original, any zero-shot method replaces CLIP's text encoder; the covariance is
    pooled over all classes of the training data; scores are relative to the mean of the class
    means, so that they are comparable with those of classes without images; and both scores are
    standardised.

    Tune the weight on held-out classes with k images each in the training data:
    ``ZeroShotSearchCV(GDA(method), "fast", cv=ClassKFold(5, shots=k))``.

    References
    ----------
    Z. Wang, J. Liang, L. Sheng, R. He, Z. Wang and T. Tan, "A hard-to-beat baseline for
    training-free CLIP-based adaptation", ICLR 2024.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL, GDA
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = GDA(ESZSL()).fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_seen, data.y_test_seen, classes=data.seen_classes) > 0.5
    True
    """

    _: KW_ONLY
    shrinkage: float = 1.0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FewImages._parameter_constraints,
        "shrinkage": [Interval(Real, 0, None, closed="neither")],
    }
    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {"weight": [2.0**k for k in range(-8, 9)]},
        "fast": {
            "min_images": [1, 20],
            "shrinkage": [1.0, 10.0, 100.0, 1000.0],
            "weight": [2.0**k for k in range(-4, 5)],
        },
    }

    def _image_sums(self, X: Array, codes: NDArray[np.intp], weights: Floats | None) -> Any:
        sums = ClassStatistics.of_rows(X, codes, self._seen, weights=weights)
        return cache(partial(_discriminant, sums))

    def _fit_images(self, sums: Any) -> tuple[Floats, Floats]:
        coef, intercept = sums(self.shrinkage)
        return coef, intercept


def _discriminant(sums: ClassStatistics, shrinkage: float) -> tuple[Floats, Floats]:
    """Coefficients and intercept of each class."""
    center, scatter = sums.means.mean(axis=0), sums.scatter  # the scatter is (n − 1) Σ
    trace = float(np.trace(scatter)) / max(float(sums.sizes.sum()) - 1, 1)
    # If all deviations are zero, all directions count equally.
    shrunk = scatter + (shrinkage * trace or 1.0) * np.eye(len(scatter))
    solved = scipy.linalg.solve(shrunk, (sums.means - center).T, assume_a="pos")
    coef = len(scatter) * np.ascontiguousarray(solved.T)
    # −½ (μ − μ̄)ᵀP(μ − μ̄) − (μ − μ̄)ᵀP μ̄ = −½ (μ − μ̄)ᵀP(μ + μ̄)
    return coef, -0.5 * (coef * (sums.means + center)).sum(axis=1)


@inherit_docs
@saves(cache_=Saved("n_images", "n_features"), shares_=Saved("n_images", "n_columns"))
@dataclass(eq=False, repr=False)
class TipAdapter(FewImages):
    """Similarity to the images of a class, added to a zero-shot score.

    Parameters
    ----------
    beta : float, default=5.5
        Sharpness β of the similarity.

    Attributes
    ----------
    cache_ : array of shape (n_samples, n_features)
        Normalised features of the training images.
    shares_ : ndarray of shape (n_samples, n_seen)
        Weight of each image in the score of each seen class.

    Notes
    -----
    Tune it like :class:`GDA`. Unlike in the original, any zero-shot method replaces CLIP's text
    encoder; similarities to the images of a class are averaged, since classes have different
    numbers of images here; both scores are standardised; and the cache is not trained
    (Tip-Adapter-F).

    References
    ----------
    R. Zhang, W. Zhang, R. Fang, P. Gao, K. Li, J. Dai, Y. Qiao and H. Li, "Tip-Adapter:
    training-free adaption of CLIP for few-shot classification", ECCV 2022.
    """

    _: KW_ONLY
    beta: float = 5.5

    _image_attributes = ("cache_", "beta")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FewImages._parameter_constraints,
        "beta": [Interval(Real, 0, None, closed="neither")],
    }
    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "beta": [1.0, 2.0, 5.5, 16.0, 50.0, 150.0],
            "weight": [2.0**k for k in range(-8, 9)],
        },
        "fast": {
            "min_images": [1, 20],
            "beta": [5.5, 16.0, 50.0],
            "weight": [2.0**k for k in range(-4, 5)],
        },
    }

    def _image_sums(self, X: Array, codes: NDArray[np.intp], weights: Floats | None) -> Any:
        shares = np.zeros((len(codes), len(self._seen)))
        weights = np.ones(len(codes)) if weights is None else weights
        shares[np.arange(len(codes)), codes] = weights / np.bincount(codes, weights=weights)[codes]
        return X, shares

    def _fit_images(self, sums: Any) -> tuple[Floats, Floats]:
        self.cache_, self.shares_ = sums
        return np.eye(len(self._seen)), np.zeros(len(self._seen))

    def _embed_images(self, rows: Array) -> Array:
        xp = compat.array_namespace(rows)
        cache, shares = move_like(self.cache_, rows), move_like(self.shares_, rows)
        # The number of rows is unknown during export to ONNX.
        n_rows = rows.shape[0]
        parts = [slice(None)]
        if n_rows is not None:
            parts = row_blocks(n_rows, 24 * cache.shape[0], block_budget(rows))
        scores = [
            xp.exp(-self.beta * (1.0 - rows[part, :] @ xp.matrix_transpose(cache))) @ shares
            for part in parts
        ]
        return xp.concat(scores, axis=0)
