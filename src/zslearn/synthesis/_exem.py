r"""EXEM: classes by the exemplars that their signatures predict.

The exemplar of a class is the mean of its projected samples, :math:`z_c = \frac{1}{|I_c|}
\sum_{n \in I_c} M x_n` with M the principal components of the training samples. One regressor per
dimension learns :math:`\psi(a_c) \approx z_c` from the seen classes (the paper's eEXEMlearn). Then
either the nearest predicted exemplar names a sample (eExemPredict),

.. math:: \hat y = \arg\min_u \; \mathrm{dis}(M x, \psi(a_u)),

or the predicted exemplars take the place of the signatures in another method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from zslearn.base import AcceptsSampleWeight, Training, ZeroShotClassifier, alike
from zslearn.scoring import ClassScorer, ScoreFunction
from zslearn.signatures import Signatures, SignatureTable, SignatureViews, labels_in_order
from zslearn.solvers import NuSVRResult
from zslearn.synthesis._exem_chunks import LearnsFromChunks
from zslearn.synthesis._exem_parts import InnerMethod, NearestExemplar
from zslearn.synthesis._exemplars import (
    DEFAULT_COMPONENTS,
    Exemplars,
    ExemplarSpaces,
    learn_exemplars,
)
from zslearn.synthesis._regressors import KernelNuSVR
from zslearn.synthesis._statistics import ClassStatistics
from zslearn.synthesis._whitening import Whitening
from zslearn.utils import Array, Floats, to_numpy


class EXEM(AcceptsSampleWeight, LearnsFromChunks):
    """Predict the exemplar of each class from its signature; compare samples with it.

    `EXEM()` is the paper's EXEM (1NN), `EXEM(distance="standardized")` its EXEM (1NNs), and
    `EXEM(estimator=M)` its EXEM (M): M on the original features, with the predicted exemplars as
    signatures. Learning costs the number of seen classes, not of samples.

    Parameters
    ----------
    n_components : int or None, default=500
        Dimensions of the projection. More than the samples have are clipped, with a warning unless
        it is the default; None means no projection.
    C : float, default=1.0
        Penalty of the ν-SVR, λ/S of the paper; for "krr" the ridge is 1/(2C).
    nu : float, default=0.5
        ν of the ν-SVR, in (0, 1].
    gamma : float, default=1.0
        Width of the RBF kernel between signatures, 1/σ².
    distance : {"euclidean", "standardized"}, default="euclidean"
        How samples and exemplars are compared. "standardized" divides each dimension by
        `within_std_`. Not used with `estimator`.
    regressor : {"svr", "krr", "gp", "mlp"} or regressor, default="svr"
        What predicts exemplars: one ν-SVR per dimension, kernel ridge, a Gaussian process, the
        two-layer perceptron of the paper's appendix (:class:`ExemplarMLP`, needs the `torch`
        extra), or any regressor of several outputs in scikit-learn's manners. It is fitted on
        the signatures, or on their RBF kernel where its `kernel` is "precomputed".
    estimator : zero-shot estimator, optional
        The method whose signatures the predicted exemplars become, those of seen classes too.
    whiten : float, optional
        Whiten features by the covariance within the seen classes, shrunk to its mean variance by
        this share ρ in (0, 1], and bring them to unit norm again, before all else. The method in
        `estimator` then learns from whitened features, too. Not in the paper; see
        :class:`GaussianEXEM`, which always does so.
    nested : bool, default=False
        Whether the exemplars of seen classes are predicted by regressors that did not see them, in
        five folds. The paper's program does not do so. Seen classes are recognised by their label.
    tol : float, default=1e-8
        Largest violation of the optimality conditions of the ν-SVR, in units of the projected
        features. LIBSVM's 1e-3 is faster and leaves exemplars that depend on the rounding.
    max_iter : int, default=1_000_000
        Steps per ν-SVR at most.
    n_jobs : int, optional
        Threads of the ν-SVR. By default all cores, unlike scikit-learn's one: threads change no
        digit.
    random_state : int, RandomState or None, default=0
        Decides the folds of `nested`, and the first weights of "mlp".
    <parameters of every method>

    Attributes
    ----------
    exemplars_ : ndarray of shape (n_seen, n_dims)
        Real exemplars of the seen classes: means of their projected samples.
    predicted_exemplars_ : ndarray of shape (n_seen, n_dims)
        What the regressors say of the same classes.
    components_ : ndarray of shape (n_dims, n_features) or None
        The projection; None without one.
    mean_ : ndarray of shape (n_features,)
        What is taken from samples before they are projected; zeros without a projection.
    within_std_ : ndarray of shape (n_dims,)
        With distance="standardized" only: the standard deviation (ddof=1) within a class, averaged
        over the seen classes that have at least two samples. A dimension without any is not
        scaled: its entry is 1.
    support_ : ndarray of shape (n_dims,)
        With "svr" only: number of support classes of each dimension.
    violation_ : ndarray of shape (n_dims,)
        With "svr" only: largest violation of the optimality conditions.
    n_iter_ : int
        Steps of the ν-SVR that took the most; 1 for other regressors.
    regressor_ : object
        The fitted regressor.
    estimator_ : zero-shot estimator
        With `estimator` only: that method, fitted on features and predicted exemplars.
    statistics_ : ClassStatistics
        After `partial_fit` or `fit_statistics`: what is known of the samples so far.
    <attributes of every method>

    See Also
    --------
    ClassStatistics : What is kept of the samples.
    ideal_signatures : Real exemplars as signatures.
    zslearn.solvers.nu_svr : The regressors.

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

    keep_views: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "C": [Interval(Real, 0, None, closed="neither")],
        "nu": [Interval(Real, 0, 1, closed="right")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "distance": [StrOptions({"euclidean", "standardized"})],
        "regressor": [
            StrOptions({"svr", "krr", "gp", "mlp"}),
            HasMethods(["fit", "predict"]),
        ],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "whiten": [Interval(Real, 0, 1, closed="right"), None],
        "nested": ["boolean"],
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

    # Of models without `whiten`, those of older files too.
    _whitening: Whitening | None = None
    # Model files of earlier versions hold them.
    _computed_attributes = frozenset({"predicted_exemplars_", "n_iter_", "support_", "violation_"})

    def __init__(
        self,
        n_components: int | None = DEFAULT_COMPONENTS,
        C: float = 1.0,
        nu: float = 0.5,
        gamma: float = 1.0,
        *,
        distance: str = "euclidean",
        regressor: Any = "svr",
        estimator: Any = None,
        whiten: float | None = None,
        nested: bool = False,
        tol: float = 1e-8,
        max_iter: int = 1_000_000,
        n_jobs: int | None = None,
        random_state: Any = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.n_components = n_components
        self.C = C
        self.nu = nu
        self.gamma = gamma
        self.distance = distance
        self.regressor = regressor
        self.estimator = estimator
        self.whiten = whiten
        self.nested = nested
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    # Learning.

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Statistics, projection, kernels and starts of the ν-SVR are shared; then exemplars."""
        # Not named here, so that they are gone when they have served.
        yield from cls._learn(training, ClassStatistics.of_sums(training.sums), variants)

    @classmethod
    def _learn(
        cls, training: Training, statistics: ClassStatistics, variants: Sequence[Self]
    ) -> Iterator[Self]:
        """Learn exemplars from statistics of the samples, then what is made of them."""
        groups = alike(variants, "whiten")
        while groups:
            group = groups.pop(0)
            whitening, learned_from = None, (training, statistics)
            if group[0].whiten is not None:
                whitening = Whitening.of(statistics, group[0].whiten)
                learned_from = whitening.training(training)
            spaces = ExemplarSpaces(*learned_from, [model.n_components for model in group])
            for rows in {training, learned_from[0]}:
                rows.release_sums()
            del learned_from  # tables of features by features: an inner method has its own
            if not groups:
                del statistics
            for exemplars, models in learn_exemplars(spaces, group):
                for part in (NearestExemplar, InnerMethod):
                    own = [model for model in models if model._part_class() is part]
                    for model in part.fit_many(spaces, exemplars, own) if own else ():
                        model._whitening = whitening
                        model._take(exemplars)
                        yield model

    def _take(self, exemplars: Exemplars) -> None:
        """Take over what predicts exemplars."""
        self._exemplars = exemplars
        self.mean_ = exemplars.projection.mean
        self.components_ = exemplars.projection.components
        self.exemplars_ = exemplars.projection.exemplars
        self.regressor_ = exemplars.regressor

    # What takes time, or waits for a device, is computed when it is asked for.

    @property
    def predicted_exemplars_(self) -> Floats:
        """What the regressors say of the seen classes."""
        return self._exemplars.of_seen()

    @property
    def n_iter_(self) -> int:
        """Steps of the ν-SVR that took the most; 1 for other regressors."""
        if not isinstance(self.regressor_, KernelNuSVR):
            return 1
        return max(1, int(self.regressor_.result.n_iter.max()))

    @property
    def support_(self) -> NDArray[np.intp]:
        """Number of support classes of each dimension."""
        return self._nu_svr().n_support

    @property
    def violation_(self) -> Floats:
        """Largest violation of the optimality conditions in each dimension."""
        return to_numpy(self._nu_svr().violation)

    def _nu_svr(self) -> NuSVRResult:
        if not isinstance(self.regressor_, KernelNuSVR):
            raise AttributeError('Only regressor="svr" has support classes and violations.')
        return self.regressor_.result

    # The three verbs.

    def _part_class(self) -> type[NearestExemplar] | type[InnerMethod]:
        return NearestExemplar if self.estimator is None else InnerMethod

    @property
    def _part(self) -> NearestExemplar | InnerMethod:
        """What becomes of the exemplars."""
        return self._part_class()(self)

    @property
    def learns_from_sums(self) -> bool:  # type: ignore[override]
        """Whether statistics of the samples are enough: an inner method learns from the samples."""
        return self.estimator is None and self.whiten is None

    @property
    def describes_each_alone(self) -> bool:  # type: ignore[override]
        """Whether the exemplar of a class is all that is made of it."""
        return self.estimator is None

    @property
    def score_function(self) -> ScoreFunction:  # type: ignore[override]
        """The negative distance, or the score of the inner method."""
        return self.class_scorer_.score

    def embed(self, X: Array) -> Array:
        """Project samples; with the standardised distance also divide by the deviations.

        <parameters of embed>

        Returns
        -------
        array of shape (n_samples, n_dims)
            Points beside the exemplars, or what the inner method makes of the features.
        """
        return self._part.embed(X if self._whitening is None else self._whitening(X))

    def synthesize(self, signatures: Signatures, labels: NDArray[Any] | None = None) -> Array:
        """Predict exemplars; with an inner method, make its parameters from them.

        <parameters of synthesize>

        Returns
        -------
        array of shape (n_classes, n_dims)
            One row per class.
        """
        return self._part.parameters(self._exemplars.predict(signatures, labels), labels)

    def _scorer(self, labels: NDArray[Any], parameters: Array) -> ClassScorer:
        return self._part.scorer(labels, parameters)

    def predict_exemplars(self, signatures: Any, labels: NDArray[Any] | None = None) -> Floats:
        """Predict exemplars in the projected space, without any scaling.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews, or DataFrame
            Normalised signatures, as :meth:`synthesize` takes them; or, as a DataFrame or mapping,
            signatures as `fit` takes them, of any classes.
        labels : ndarray of shape (n_classes,), optional
            Names of the classes, which a DataFrame or mapping has already. With `nested` the
            exemplars of seen classes go by them.

        Returns
        -------
        ndarray of shape (n_classes, n_dims)
            One row per class, in the order of the rows given.
        """
        check_is_fitted(self, "regressor_")
        if not isinstance(signatures, (np.ndarray, SignatureViews)):
            labels = labels_in_order(signatures)
            table = SignatureTable.read(signatures, None).aligned_with(self._described.table)
            described = table.normalized(self.signature_scale_, keep_views=True)
            signatures = described[table.positions(labels)]
        return to_numpy(self._exemplars.predict(signatures, labels))

    def seen_shares(self, signatures: Signatures) -> Floats | None:
        """Kernel to each seen class times the length of its coefficients in the regressors.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
            Normalised signatures.

        Returns
        -------
        ndarray of shape (n_classes, n_seen) or None
            None for regressors that have no coefficient for each seen class.
        """
        weights = getattr(self.regressor_, "seen_weights", None)
        return None if weights is None else weights(signatures)

    def inverse_transform(self, exemplars: Floats) -> Floats:
        """Take exemplars back into the space of the prepared features.

        Parameters
        ----------
        exemplars : ndarray of shape (n_classes, n_dims)
            Points in the projected space.

        Returns
        -------
        ndarray of shape (n_classes, n_features)
            The features they stand for; with `whiten`, whitened ones.
        """
        check_is_fitted(self)
        if self.components_ is None:
            return exemplars
        return exemplars @ self.components_ + self.mean_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_described")
