r"""EXEM: predict the exemplar of each class from its signature.

The exemplar of a class is the mean of its projected samples, :math:`z_c = \frac{1}{|I_c|}
\sum_{n \in I_c} M x_n`, where M are the principal components of the training samples. One regressor
per dimension learns :math:`\psi(a_c) \approx z_c` from the seen classes (Eq. 12). A sample is then
classified by the nearest predicted exemplar (Eq. 13),

.. math:: \hat y = \arg\min_u \; \mathrm{dis}(M x, \psi(a_u)),

or the predicted exemplars replace the signatures in another method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._blocks import ScoreFunction
from zslearn._scoring._embedding import FeaturePreparation
from zslearn._scoring._scorer import ClassScorer, find_classes
from zslearn._utils._array import Array, Floats, move_like, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.base._class_statistics import ClassStatistics, class_means
from zslearn.base._classifier import ZeroShotClassifier, fit_variants, group_by_params
from zslearn.base._training import Training
from zslearn.signatures._table import SignatureTable, label_array, labels_in_order
from zslearn.signatures._views import Signatures, SignatureViews
from zslearn.synthesis._exemplars import (
    DEFAULT_COMPONENTS,
    ExemplarSpaces,
    KernelRegressor,
    Projection,
    learn_exemplars,
)
from zslearn.synthesis._from_statistics import LearnsFromStatistics

# Variances below this share of the mean are rounding error.
_ROUNDING = 1e-12


@saved_part
@dataclass(frozen=True, eq=False)
@saves(matrix=Saved("n_features", "n_dims"), offset=Saved("n_dims"))
class Whitening:
    r"""A map from features to whitened features of unit length.

    With :math:`\Sigma = V \mathrm{diag}(e) V^\top` the pooled covariance within the seen classes
    and :math:`\bar\sigma^2` the mean of its eigenvalues, features become

    .. math:: z = \mathrm{diag}\bigl((1 - \rho) e + \rho \bar\sigma^2\bigr)^{-1/2}
              V^\top (x - \bar x)

    and are normalised to unit length; :math:`\bar x` is the mean of the class means.
    """

    matrix: Floats
    offset: Floats  # subtracted from the product

    @classmethod
    def of(cls, statistics: ClassStatistics, shrinkage: float) -> Whitening:
        """Compute the map from statistics of the seen classes."""
        values, vectors = statistics.within_spectrum()
        # Without any variance all directions count the same.
        mean = float(values.mean()) or 1.0
        shrunk = (1 - shrinkage) * values + shrinkage * mean
        matrix = vectors / np.sqrt(np.maximum(shrunk, _ROUNDING * mean))
        return cls(matrix, statistics.means.mean(axis=0) @ matrix)

    def __call__(self, X: Array) -> Array:
        """Whiten rows of any array library, in their precision."""
        return unit_rows(X @ move_like(self.matrix, X) - move_like(self.offset, X)[None, :])


@inherit_docs
@saves(
    {
        "_projection.exemplars": Saved("n_seen", "n_dims"),
        "regressor_.signatures": Saved("n_seen", kind="signatures"),
        "_whitening.matrix": Saved("n_features", "n_projected"),
    },
    mean_=Saved("n_projected"),
    components_=Saved("n_dims", "n_projected", optional=True),
    exemplars_=Saved("n_seen", "n_dims"),
    within_std_=Saved("n_dims", above=0, optional=True),
    regressor_=Saved(kind=object),
    estimator_=Saved(kind=ZeroShotClassifier, optional=True),
    _projection=Saved(kind=Projection),
    _whitening=Saved(kind=Whitening, optional=True),
)
@dataclass(eq=False, repr=False)
class EXEM(LearnsFromStatistics):
    """Predict the exemplar of each class from its signature, and classify by the nearest one.

    `EXEM()` is EXEM (1NN) of the paper, `EXEM(distance="standardized")` EXEM (1NNs), and
    `EXEM(estimator=M)` EXEM (M), where M is fitted on the original features with predicted
    exemplars as signatures. The cost of fitting grows with the number of seen classes, not of
    samples.

    Parameters
    ----------
    n_components : int or None, default=500
        Dimensions of the projection; None means no projection. More than the rank of the samples
        are clipped, with a warning unless it is the default.
    C : float, default=1.0
        Penalty of the ν-SVR, λ/S in the paper. For "krr" the ridge is 1/(2C).
    nu : float, default=0.5
        ν of the ν-SVR, in (0, 1].
    gamma : float, default=1.0
        Width of the RBF kernel between signatures, 1/σ².
    distance : {"euclidean", "standardized"}, default="euclidean"
        Distance between samples and exemplars. "standardized" divides each dimension by
        `within_std_`. Ignored with `estimator`.
    regressor : {"svr", "krr", "gp", "mlp"} or regressor, default="svr"
        Predicts exemplars: one ν-SVR per dimension, kernel ridge, a Gaussian process, the two-layer
        perceptron of the paper's appendix (:class:`ExemplarMLP`, needs the `torch` extra), or any
        multi-output regressor with scikit-learn's interface. It is fitted on the signatures, or on
        their RBF kernel if its `kernel` is "precomputed".
    estimator : zero-shot estimator, optional
        The method that uses the predicted exemplars as signatures, also of the seen classes.
    whiten : float, optional
        Whiten the features first, by the covariance within the seen classes, shrunk to its mean
        variance by the share ρ in (0, 1], and normalise them to unit length again. The method in
        `estimator` is also fitted on whitened features. Not in the paper; :class:`GaussianEXEM`
        always whitens.
    tol : float, default=1e-8
        Largest violation of the optimality conditions of the ν-SVR, in units of the projected
        features. LIBSVM's 1e-3 is faster, but the exemplars then depend on rounding.
    max_iter : int, default=1_000_000
        Largest number of steps per ν-SVR.
    n_jobs : int, optional
        Number of threads of the ν-SVR. By default all cores, unlike scikit-learn's default of one;
        the result does not depend on it.
    random_state : int, RandomState or None, default=0
        Seed of the initial weights of "mlp" and of the restarts of "gp".

    Attributes
    ----------
    exemplars_ : ndarray of shape (n_seen, n_dims)
        Real exemplars of the seen classes: means of their projected samples.
    predicted_exemplars_ : ndarray of shape (n_seen, n_dims)
        Predicted exemplars of the same classes.
    components_ : ndarray of shape (n_dims, n_features) or None
        The projection; None without one.
    mean_ : ndarray of shape (n_features,)
        Subtracted from samples before the projection; zeros without one.
    within_std_ : ndarray of shape (n_dims,)
        With distance="standardized" only: the standard deviation (ddof=1) within a class, averaged
        over the seen classes that have at least two samples; 1 for constant dimensions.
    support_ : ndarray of shape (n_dims,)
        With "svr" only: number of support classes of each dimension.
    violation_ : ndarray of shape (n_dims,)
        With "svr" only: largest violation of the optimality conditions.
    n_iter_ : int
        Largest number of steps of a ν-SVR; 1 for other regressors.
    regressor_ : object
        The fitted regressor.
    estimator_ : zero-shot estimator
        With `estimator` only: that method, fitted on features and predicted exemplars.
    statistics_ : ClassStatistics
        After `partial_fit` or `fit_statistics`: statistics of all samples so far.

    See Also
    --------
    ideal_signatures : Computes real exemplars to use as signatures.
    zslearn.solvers.nu_svr : Solves the ν-SVR.

    References
    ----------
    S. Changpinyo, W.-L. Chao, B. Gong and F. Sha, "Classifier and exemplar synthesis for zero-shot
    learning", International Journal of Computer Vision, 2020.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import EXEM
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    n_components: int | None = DEFAULT_COMPONENTS
    C: float = 1.0
    nu: float = 0.5
    gamma: float = 1.0
    _: KW_ONLY
    distance: str = "euclidean"
    regressor: Any = "svr"
    estimator: Any = None
    whiten: float | None = None
    tol: float = 1e-8
    max_iter: int = 1_000_000
    n_jobs: int | None = None
    random_state: Any = 0

    embedding_attributes = ("_projection", "distance", "within_std_", "_whitening", "estimator_")
    keep_views: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "C": [Interval(Real, 0, None, closed="neither")],
        "nu": [Interval(Real, 0, 1, closed="right")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "distance": [StrOptions({"euclidean", "standardized"})],
        "regressor": [StrOptions({"svr", "krr", "gp", "mlp"}), HasMethods(["fit", "predict"])],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "whiten": [Interval(Real, 0, 1, closed="right"), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "n_components": [500, 1000],
            "gamma": [2.0**k for k in range(-4, 5)],
            "nu": [2.0**k for k in range(-8, 1)],
            "C": [2.0**k for k in range(-5, 6)],
        },
        "fast": {
            "gamma": [2.0**k for k in range(-3, 2)],
            "nu": [2.0**k for k in range(-4, 1, 2)],
            "C": [2.0**k for k in range(-4, 3, 2)],
        },
    }

    path_parameters: ClassVar[tuple[str, ...]] = ("n_components", "distance", "C", "nu")

    def _needs_samples(self) -> str | None:
        if self.estimator is not None:
            return (
                f"with estimator={type(self.estimator).__name__}(…), which learns from samples. "
                "Call fit, or remove estimator."
            )
        if self.whiten is not None:
            return (
                f"with whiten={self.whiten}, because it then normalises each sample to unit "
                "length. Call fit, or remove whiten. GaussianEXEM whitens and learns from "
                "statistics."
            )
        return None

    def _needs_factors(self) -> bool:
        return self.distance == "standardized" and self.n_components is not None

    @classmethod
    def _learn(
        cls, training: Training, statistics: ClassStatistics, variants: Sequence[Self]
    ) -> Iterator[Self]:
        """Learn exemplars from class statistics, then fit inner methods to them."""
        for group in group_by_params(variants, "whiten"):
            whitening, learned_from, sums = None, training, statistics
            if group[0].whiten is not None:
                whitening = Whitening.of(statistics, group[0].whiten)
                learned_from = replace(training, rows=whitening(training.X))
                sums = learned_from.sums
            spaces = ExemplarSpaces(learned_from, sums, [model.n_components for model in group])
            for projection, regressor, models in learn_exemplars(spaces, group):
                for model in models:
                    model._whitening, model._projection = whitening, projection
                    model.mean_, model.components_ = projection.mean, projection.components
                    model.exemplars_, model.regressor_ = projection.exemplars, regressor
                nearest = [model for model in models if model.estimator is None]
                for model in sorted(nearest, key=lambda model: model.distance):
                    if model.distance == "standardized":
                        model.within_std_ = spaces.within_std(model.n_components)
                    yield model
                inner = [model for model in models if model.estimator is not None]
                if inner:
                    yield from _fit_inner(spaces.training, regressor, inner)

    # Computed on demand, as it takes time or waits for a device.

    @property
    def predicted_exemplars_(self) -> Floats:
        """Predicted exemplars of the seen classes."""
        return to_numpy(self.regressor_.predict(self.regressor_.signatures))

    @property
    def n_iter_(self) -> int:
        """Largest number of steps of a ν-SVR; 1 for other regressors."""
        n_iter = getattr(self.regressor_, "n_iter", None)
        return 1 if n_iter is None else max(1, int(n_iter.max()))

    @property
    def support_(self) -> NDArray[np.intp]:
        """Number of support classes of each dimension."""
        return np.count_nonzero(to_numpy(self._nu_svr().coef), axis=0)

    @property
    def violation_(self) -> Floats:
        """Largest violation of the optimality conditions in each dimension."""
        return to_numpy(self._nu_svr().violation)

    def _nu_svr(self) -> KernelRegressor:
        if getattr(self.regressor_, "violation", None) is None:
            raise AttributeError('support_ and violation_ are available with regressor="svr" only.')
        return self.regressor_

    @property
    def learns_from_sums(self) -> bool:  # type: ignore[override]
        """Whether class statistics suffice, as without an inner method."""
        return self._needs_samples() is None

    @property
    def synthesizes_independently(self) -> bool:  # type: ignore[override]
        """Whether the parameters of a class are its exemplar, as without an inner method."""
        return self.estimator is None

    @property
    def score_function(self) -> ScoreFunction:  # type: ignore[override]
        """The negative distance, or the score of the inner method."""
        return self.class_scorer_.score

    def embed(self, X: Array) -> Array:
        """Project samples; with distance="standardized" also divide by the deviations."""
        if self._whitening is not None:
            X = self._whitening(X)
        if self.estimator is not None:
            return self.estimator_.class_scorer_.embedding(X)
        projected = self._projection(X)
        if self.distance == "standardized":
            projected = projected / move_like(self.within_std_, X)
        return projected

    def synthesize(self, signatures: Signatures, labels: NDArray[Any] | None = None) -> Array:
        """Predict exemplars; with an inner method, compute its parameters from them."""
        exemplars: Array = self.regressor_.predict(signatures)
        if self.estimator is not None:
            # Normalised in the same way as the signatures of the inner method.
            (scale,) = self.estimator_.signature_scale_
            return self.estimator_.synthesize(unit_rows(to_numpy(exemplars)) / scale, labels)
        if self.distance == "standardized":
            return exemplars / move_like(self.within_std_, exemplars)
        return exemplars

    def _scorer(self, labels: NDArray[Any], parameters: Array) -> ClassScorer:
        """The scorer of distances, or that of the inner method on prepared features."""
        embedding = self._embedding()
        if self.estimator is None:
            return ClassScorer(labels, parameters, embedding, "euclidean")
        inner = self.estimator_.class_scorer_
        if self._whitening is None:
            embedding = inner.embedding.after(self.feature_norm)
        return replace(inner, labels=labels, parameters=parameters, embedding=embedding)

    def predict_exemplars(self, signatures: Any) -> Floats:
        """Predict exemplars in the projected space, without scaling.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews, or DataFrame
            Normalised signatures, as for :meth:`synthesize`; or a DataFrame or mapping of
            signatures of any classes, as for `fit`.

        Returns
        -------
        ndarray of shape (n_classes, n_dims)
            One row per class, in the given order.
        """
        check_is_fitted(self, "regressor_")
        if not isinstance(signatures, (np.ndarray, SignatureViews)):
            labels = labels_in_order(signatures)
            table = SignatureTable.read(signatures, None).aligned_with(self._described.table)
            signatures = self._normalized(table)[table.positions(labels)]
        return to_numpy(self.regressor_.predict(signatures))

    def seen_shares(self, signatures: Signatures) -> Floats | None:
        """Kernel of each seen class times the norm of its coefficients, if these exist."""
        regressor = self.regressor_
        if not isinstance(regressor, KernelRegressor):
            return None
        return regressor.kernel(signatures) * np.linalg.norm(to_numpy(regressor.coef), axis=1)

    def inverse_transform(self, exemplars: Floats) -> Floats:
        """Transform exemplars back to the space of the prepared features.

        Parameters
        ----------
        exemplars : ndarray of shape (n_classes, n_dims)
            Points in the projected space.

        Returns
        -------
        ndarray of shape (n_classes, n_features)
            Prepared features; with `whiten`, whitened ones.
        """
        check_is_fitted(self)
        if self.components_ is None:
            return exemplars
        return exemplars @ self.components_ + self.mean_


def _fit_inner(training: Training, regressor: Any, models: Sequence[EXEM]) -> Iterator[EXEM]:
    """Fit the inner methods of estimators that share the same exemplars."""
    inner = [_checked_inner(model.estimator) for model in models]
    rows, labels = models[0].predicted_exemplars_, training.classes
    # Exemplars of unseen classes only matter for a scale over all classes.
    if any(method.signature_scale == "all" for method in inner):
        every = to_numpy(regressor.predict(training.all_signatures()))
        every[training.table.positions(labels)] = rows
        rows, labels = every, training.table.labels
    # Features that are normalised again need no prepared copy. A search of the inner method alone
    # has the same rows, so that both share fits.
    given, norms = training.rows, {method.feature_norm for method in inner}
    is_same = given.is_clean and given.positions is None and norms == {given.norm}
    fitted = fit_variants(
        inner,
        given.source if is_same else training.X,
        training.labels,
        signatures=SignatureTable(labels, (rows,), (None,)),
        sample_weight=training.weights,
    )
    for index, method in fitted:
        models[index].estimator_ = method
        yield models[index]


def _checked_inner(estimator: Any) -> ZeroShotClassifier:
    """A clone of the inner method; raise if it is not a method."""
    if isinstance(estimator, ZeroShotClassifier):
        return clone(estimator)
    name = type(estimator).__name__
    if hasattr(estimator, "estimator"):
        raise TypeError(
            f"estimator={name}(…) is a wrapper. Wrap EXEM instead: {name}(EXEM(estimator=…))."
        )
    raise TypeError(
        f"estimator must be a zero-shot method, derived from ZeroShotClassifier; got {name}."
    )


def exemplar_distance_score(
    estimator: EXEM, X: Any, y: Any, classes: Any = None, *, distance: str | None = None
) -> float:
    """Negative distance between predicted and real exemplars of held-out classes (CV-distance).

    Parameters
    ----------
    estimator : EXEM
        Fitted without samples of the held-out classes, but with their signatures.
    X : array-like of shape (n_samples, n_features)
        Samples of the held-out classes.
    y : array-like of shape (n_samples,)
        Their labels.
    classes : array-like of labels, optional
        Ignored; present because scorers of a search are called with it.
    distance : {"euclidean", "standardized"}, optional
        By default that of the estimator. "standardized" divides by the deviations within each
        held-out class, as the authors' program does.

    Returns
    -------
    float
        The negative distance, averaged over the classes in `y`; higher is better.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import EXEM, exemplar_distance_score
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> exemplar_distance_score(model, data.X_test_unseen, data.y_test_unseen) < 0
    True
    """
    check_is_fitted(estimator)
    X = estimator._check_features(X)
    labels = label_array(to_numpy(y), "y")
    distance = estimator.distance if distance is None else distance
    if distance not in ("euclidean", "standardized"):
        raise ValueError(f"distance must be 'euclidean' or 'standardized'; got {distance!r}.")
    prepared = FeaturePreparation(estimator.feature_norm)(X)
    if estimator._whitening is not None:
        prepared = estimator._whitening(prepared)
    held_out, codes = np.unique(labels, return_inverse=True)
    positions = find_classes(held_out, estimator.classes_)
    described = estimator._normalized(estimator.signature_table_)
    predicted = estimator.predict_exemplars(described)[positions]
    project = estimator._projection
    if distance == "euclidean":
        # The projection is affine, so that it suffices to project class means.
        means = to_numpy(class_means(prepared, codes, len(held_out)))
        difference = project(means) - predicted
    else:
        xp = compat.array_namespace(prepared)
        projected = project(xp.astype(prepared, xp.float64))
        statistics = ClassStatistics.of_rows(projected, codes, held_out)
        difference = statistics.means - predicted
        std = statistics.standard_deviations()
        # A single sample or a constant dimension has no deviation to divide by.
        with np.errstate(invalid="ignore"):
            usable = std > 0
        difference = difference / np.where(usable, std, 1.0)
    return -float(np.linalg.norm(difference, axis=1).mean())


def ideal_signatures(X: Any, y: Any, *, feature_norm: str | None = "l2") -> pd.DataFrame:
    """Class means of real features as signatures, an upper bound in the paper.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Image features of all classes, including unseen ones.
    y : array-like of shape (n_samples,)
        Class labels.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is first normalised to unit length.

    Returns
    -------
    DataFrame of shape (n_classes, n_features)
        One row per class; the index contains the class labels.

    Examples
    --------
    >>> from zslearn.synthesis import ideal_signatures
    >>> ideal_signatures([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]], ["a", "a", "b"])
         0    1
    a  0.5  0.5
    b  0.0  1.0
    """
    statistics = ClassStatistics.from_samples(X, y, feature_norm=feature_norm)
    return pd.DataFrame(statistics.means, index=statistics.classes)
