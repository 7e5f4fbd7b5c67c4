r"""GFZSL: Gaussian classes whose parameters are predicted from their signatures.

Class c is :math:`\mathcal N(\mu_c, \mathrm{diag}(\sigma_c^2))`. From the means and log variances of
the seen classes two kernel ridge regressions predict those of any class,

.. math:: \hat\mu(a) = \bar\mu + k(a)^\top (K + \lambda_\mu I)^{-1} (M - \bar\mu), \qquad
          \log \hat\sigma^2(a) = \bar\rho + k(a)^\top (K + \lambda_\sigma I)^{-1} (R - \bar\rho),

with the seen classes' means and log variances as rows of M and R, bars for their means over the
classes, and a centred kernel :math:`k` between signatures, :math:`(1 + a^\top a')^2` in the
original. Alternatively, only the means are predicted, and all classes share one variance. The score
is the log density relative to a Gaussian common to all classes, linear in :math:`(z^2, z, 1)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._probabilities import softmax
from zslearn._scoring._scorer import find_classes
from zslearn._solvers._linalg import eigenbasis
from zslearn._utils._array import Array, Floats, move_like, row_blocks, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import class_means, class_squares
from zslearn.base._classifier import AcceptsSampleWeight, ZeroShotClassifier, group_by_params
from zslearn.base._training import Training
from zslearn.signatures._table import is_among

# Bounds of predicted variances, in units of the pooled variance: a polynomial kernel extrapolates
# log variances without limit.
_VARIANCE_RANGE = (1e-2, 1e2)
# Lower bound of the seen classes' variances, in the same units.
_MIN_VARIANCE = 1e-3
# Lower bounds of a feature's pooled variance, relative to its total variance and to the mean total
# variance over features.
_POOLED_FLOOR = (1e-3, 1e-8)
# Iterations of expectation–maximisation.
_EM_ROUNDS = 20
# Deviations below this share of the mean are rounding errors.
_ROUNDING = 1e-12


@inherit_docs
@saves(
    mean_=Saved("n_features"),
    components_=Saved("n_features", "n_dims", optional=True),
    std_=Saved("n_dims", above=0),
    class_means_=Saved("n_seen", "n_dims"),
    class_log_variances_=Saved("n_seen", "n_dims"),
    mean_coef_=Saved("n_seen", "n_dims"),
    variance_coef_=Saved("n_seen", "n_dims"),
    signatures_=Saved("n_seen", "n_attributes"),
    _kernel_mean=Saved("n_seen"),
    adapted_classes_=Saved("n_adapted", kind="label", optional=True),
    adapted_means_=Saved("n_adapted", "n_dims", optional=True),
    adapted_variances_=Saved("n_adapted", "n_dims", above=0, optional=True),
)
@dataclass(eq=False, repr=False)
class GFZSL(AcceptsSampleWeight, ZeroShotClassifier):
    """Generative framework: class Gaussians whose parameters are regressed on signatures.

    Parameters
    ----------
    alpha_mean : float, default=0.1
        Penalty of the regression of the means, in units of the mean non-zero eigenvalue of the
        centred kernel.
    alpha_variance : float, default=10.0
        Penalty of the regression of the log variances, in the same units; from about 1000 on all
        classes have equal variances.
    kernel : {"quadratic", "linear"}, default="quadratic"
        Kernel between signatures: (1 + aᵀa′)² or aᵀa′.
    covariance : {"class", "isotropic"}, default="isotropic"
        "class": predict the variances of each class. "isotropic": one variance for all classes and
        features, which amounts to the nearest predicted mean.
    variance_prior : float, default=10.0
        Weight of the pooled variance in the variances of each seen class, as a number of samples.
    n_components : int or None, default=None
        Number of principal components of the features; None keeps the features.

    Attributes
    ----------
    mean_ : array of shape (n_features,)
        Mean of the training samples.
    components_ : array of shape (n_features, n_components) or None
        Principal components as columns.
    std_ : ndarray of shape (n_dims,)
        Pooled standard deviation within classes; its root mean square for "isotropic".
    class_means_, class_log_variances_ : ndarray of shape (n_seen, n_dims)
        Means and shrunk log variances of the seen classes, in units of `std_` around `mean_`.
    mean_coef_, variance_coef_ : ndarray of shape (n_seen, n_dims)
        Dual coefficients of the means and of the log variances.
    signatures_ : ndarray of shape (n_seen, n_attributes)
        Normalised signatures of the seen classes.
    adapted_classes_, adapted_means_, adapted_variances_ : ndarray
        After :meth:`adapt`: the candidates and their Gaussians, which replace the predicted ones.

    See Also
    --------
    zslearn.synthesis.EXEM : Predicts only the means, and scores by distance.

    Notes
    -----
    The authors' program for CUB predicts log variances too, but its penalty of 10⁷ shrinks all of
    them to 0, so that every variance is 1.05 and the nearest predicted mean wins. That is
    `covariance="isotropic"`.

    Unlike in the original, the mean over classes is not penalised; measured variances are shrunk
    towards the pooled one, and predicted ones stay within a factor of 100 of it; penalties are
    relative; principal components may be taken first; and the Gaussian of a seen class is predicted
    like any other.

    References
    ----------
    V. K. Verma and P. Rai, "A simple exponential family framework for zero-shot learning",
    ECML-PKDD 2017.
    """

    alpha_mean: float = 0.1
    alpha_variance: float = 10.0
    _: KW_ONLY
    kernel: str = "quadratic"
    covariance: str = "isotropic"
    variance_prior: float = 10.0
    n_components: int | None = None

    embedding_attributes = ("mean_", "components_", "std_")
    synthesizes_independently = True
    _uses_labels = True
    learns_from_sums = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "alpha_mean": [Interval(Real, 0, None, closed="neither")],
        "alpha_variance": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"quadratic", "linear"})],
        "covariance": [StrOptions({"class", "isotropic"})],
        "variance_prior": [Interval(Real, 0, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
    }

    # The penalty of the variances only matters if these are predicted.
    grids: ClassVar[dict[str, list[dict[str, list[Any]]]]] = {
        "paper": [
            {
                "n_components": [None, 50, 100, 200, 400],
                "covariance": ["isotropic"],
                "kernel": ["linear", "quadratic"],
                "alpha_mean": [10.0**k for k in range(-4, 4)],
            },
            {
                "n_components": [None, 50, 100, 200, 400],
                "covariance": ["class"],
                "kernel": ["linear", "quadratic"],
                "variance_prior": [10.0, 100.0],
                "alpha_variance": [10.0**k for k in range(-3, 5)],
                "alpha_mean": [10.0**k for k in range(-4, 4)],
            },
        ],
        "fast": [
            {
                "n_components": [None, 100, 300],
                "covariance": ["isotropic"],
                "alpha_mean": [0.03, 0.1, 0.3, 1.0],
            },
            {
                "n_components": [None, 100, 300],
                "covariance": ["class"],
                "alpha_variance": [0.1, 10.0],
                "alpha_mean": [0.03, 0.1, 0.3, 1.0],
            },
        ],
    }

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Share the statistics of one width, and the eigenvectors of one kernel."""
        widths = [v.n_components for v in variants if v.n_components is not None]
        # The widest projection contains the narrower ones.
        statistics = cache(partial(_class_statistics, training))
        spectrum = cache(partial(_spectrum, training.signatures))
        for same_width in group_by_params(variants, "n_components"):
            n_components = same_width[0].n_components
            seen = statistics(n_components and max(widths)).first(n_components)
            one_unit = seen.in_one_unit()
            # Variants with equal embeddings follow one another and share their arrays.
            for variant in sorted(same_width, key=lambda variant: variant.covariance):
                own = one_unit if variant.covariance == "isotropic" else seen
                variant.mean_, variant.std_ = own.mean, own.std
                variant.components_ = own.components
                variant.signatures_ = training.signatures
                variant._regress(own, training.sizes, spectrum(variant.kernel))
                yield variant

    def _regress(self, seen: _Statistics, sizes: Floats, kernel: _Spectrum) -> None:
        """Fit both regressions."""
        self.class_means_ = seen.means
        self.class_log_variances_ = np.zeros_like(seen.means)
        if self.covariance == "class":
            prior = self.variance_prior
            variances = (seen.squares + prior) / (sizes[:, None] + prior)
            self.class_log_variances_ = np.log(np.maximum(variances, _MIN_VARIANCE))
        self.mean_coef_ = kernel.solve(self.class_means_, self.alpha_mean)
        self.variance_coef_ = kernel.solve(self.class_log_variances_, self.alpha_variance)
        self._kernel_mean = kernel.row_mean

    def embed(self, X: Array) -> Array:
        """Sufficient statistics (z², z, 1) of each row, with z in units of `std_`."""
        xp = compat.array_namespace(X)
        z = X - move_like(self.mean_, X)[None, :]
        if self.components_ is not None:
            z = z @ move_like(self.components_, X)
        z = z / move_like(self.std_, X)[None, :]
        return xp.concat([z * z, z, xp.ones_like(z[:, :1])], axis=1)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Natural parameters of each class's Gaussian, minus those of the standard normal."""
        mean, variance = self._gaussians(signatures)
        if labels is not None and hasattr(self, "adapted_classes_"):
            position = {label: i for i, label in enumerate(self.adapted_classes_.tolist())}
            source = np.asarray([position.get(label, -1) for label in labels.tolist()])
            mean[source >= 0] = self.adapted_means_[source[source >= 0]]
            variance[source >= 0] = self.adapted_variances_[source[source >= 0]]
        return _natural(mean, variance)

    def adapt(self, X: Any, *, classes: Any = None) -> Self:
        """Adapt the Gaussians of classes to unlabelled images (transductive setting).

        Runs expectation–maximisation on a mixture of the candidates. It starts from their predicted
        Gaussians, each of which has the weight of one image throughout.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features of unlabelled images.
        classes : array-like of labels, optional
            Classes that the images may belong to; by default every class in `classes_`.

        Returns
        -------
        GFZSL
            An adapted copy; this model is unchanged.
        """
        check_is_fitted(self)
        X, state = self._check_features(X), self._snapshot()
        scorer = state.class_scorer_
        chosen = find_classes(scorer.labels if classes is None else classes, scorer.labels)
        table: Any = state.signature_table_.normalized(self.signature_scale_, keep_views=False)
        predicted = mixture = *self._gaussians(table[chosen]), np.ones((len(chosen), 1))
        for _ in range(_EM_ROUNDS):
            # log p(c) + log N(z; μ, v), up to a term common to all classes
            logits = _natural(*mixture[:2])
            logits[:, -1:] += np.log(mixture[2])
            sums = np.zeros_like(logits)
            for rows in row_blocks(X.shape[0], 32 * logits.shape[1]):
                embedded = np.asarray(to_numpy(scorer.embedding(X[rows, :])), dtype=np.float64)
                sums += softmax(embedded @ logits.T, 1.0).T @ embedded
            mixture = self._maximize(sums, *predicted)
        adapted = state._copy()
        adapted.adapted_classes_ = scorer.labels[chosen]
        adapted.adapted_means_, adapted.adapted_variances_, _ = mixture
        adapted._describe(state.signature_table_)
        return adapted._as_fitted()

    def _remove(self, labels: NDArray[Any]) -> None:
        if hasattr(self, "adapted_classes_"):
            kept = ~is_among(self.adapted_classes_, labels)
            for name in ("adapted_classes_", "adapted_means_", "adapted_variances_"):
                setattr(self, name, getattr(self, name)[kept])
        super()._remove(labels)

    def _maximize(
        self, sums: Floats, mean: Floats, variance: Floats, size: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """M-step from sums of (z², z, 1) and the predicted Gaussians of weight `size`."""
        n_dims = mean.shape[1]
        sizes = sums[:, -1:] + size
        means = (sums[:, n_dims:-1] + size * mean) / sizes
        squares = sums[:, :n_dims] + size * (mean**2 + variance) - sizes * means**2
        variances = squares / sizes
        if self.covariance == "isotropic":
            variances = (squares.sum(axis=0, keepdims=True) / sizes.sum()).mean(keepdims=True)
        return means, np.clip(np.broadcast_to(variances, means.shape), *_VARIANCE_RANGE), sizes

    def _gaussians(self, signatures: Floats) -> tuple[Floats, Floats]:
        """Predicted mean and variance of each class, in units of `std_` around `mean_`."""
        kernel = _kernel(signatures, self.signatures_, self.kernel) - self._kernel_mean
        means = self.class_means_.mean(axis=0) + kernel @ self.mean_coef_
        log_variances = self.class_log_variances_.mean(axis=0) + kernel @ self.variance_coef_
        return means, np.exp(np.clip(log_variances, *np.log(_VARIANCE_RANGE)))


def _natural(mean: Floats, variance: Floats) -> Floats:
    """Coefficients of (z², z, 1) in the log density relative to the standard normal."""
    # log N(z; μ, v) − log N(z; 0, 1) = ½(1 − 1/v) z² + (μ/v) z − ½(μ²/v + log v)
    linear = mean / variance
    constant = -0.5 * (mean * linear + np.log(variance)).sum(axis=1, keepdims=True)
    return np.concatenate([0.5 * (1 - 1 / variance), linear, constant], axis=1)


class _Statistics(NamedTuple):
    """Means and squared deviations of the seen classes, in units of the pooled deviation."""

    mean: Array  # of all samples
    components: Array | None
    std: Floats
    means: Floats  # relative to `mean`
    squares: Floats

    def first(self, n_components: int | None) -> _Statistics:
        """The same statistics along the first components."""
        if self.components is None:
            return self
        xp = compat.array_namespace(self.components)
        return self._replace(
            components=xp.asarray(self.components[:, :n_components], copy=True),
            std=self.std[:n_components],
            means=self.means[:, :n_components],
            squares=self.squares[:, :n_components],
        )

    def in_one_unit(self) -> _Statistics:
        """The same statistics in units of the root mean square of the pooled deviations."""
        unit = np.full_like(self.std, np.sqrt(np.mean(self.std**2)))
        factor = self.std / unit
        return self._replace(std=unit, means=self.means * factor, squares=self.squares * factor**2)


def _class_statistics(training: Training, n_components: int | None) -> _Statistics:
    """Statistics of the features or of their first principal components."""
    sizes, n_seen = training.sizes, training.n_seen
    n_samples = float(sizes.sum())
    components = mean_variance = None
    if n_components is not None:
        components, mean_variance = _components(training, n_components)
    X, y, weights = training.rows, training.y, training.weights
    means = class_means(X, y, n_seen, sample_weight=weights)
    squares = to_numpy(class_squares(X, y, means, components, sample_weight=weights))
    mean = move_like(sizes / n_samples, means) @ means
    means = means - mean[None, :]
    if components is not None:
        means = means @ components
    means = to_numpy(means)
    pooled = squares.sum(axis=0) / max(n_samples - n_seen, 1)
    total = (squares.sum(axis=0) + sizes @ means**2) / n_samples
    rounding = (_ROUNDING * float(np.abs(to_numpy(mean)).max())) ** 2
    mean_variance = float(total.mean()) if mean_variance is None else mean_variance
    by_feature, by_all = _POOLED_FLOOR
    pooled = np.maximum(pooled, np.maximum(by_feature * total, by_all * mean_variance))
    std = np.sqrt(np.where(pooled > rounding, pooled, 1.0))
    return _Statistics(mean, components, std, means / std, squares / std**2)


def _components(training: Training, n_components: int) -> tuple[Array, float]:
    """Principal components as columns, largest first, and the mean variance over all of them."""
    spectrum = training.spectrum(center=True)
    values, vectors = spectrum.values, spectrum.vectors
    xp = compat.array_namespace(vectors)
    rank = max(1, int(xp.sum(xp.astype(values > 0, xp.int64))))
    mean_variance = float(xp.sum(values)) / rank / float(training.sizes.sum())
    # In the memory layout of a loaded model, which then gives bit-identical scores.
    last = vectors.shape[1] - 1
    order = xp.arange(last, last - min(rank, n_components), -1, device=compat.device(vectors))
    return xp.take(vectors, order, axis=1), mean_variance


class _Spectrum(NamedTuple):
    """The centred kernel between the seen classes and its eigenvectors."""

    row_mean: Floats  # of the uncentred kernel
    values: Floats
    vectors: Floats
    unit: float

    def solve(self, targets: Floats, alpha: float) -> Floats:
        """(K + λI)⁻¹ times the centred targets."""
        rotated = self.vectors.T @ (targets - targets.mean(axis=0))
        return self.vectors @ (rotated / (self.values + alpha * self.unit)[:, None])


def _spectrum(signatures: Floats, kernel: str) -> _Spectrum:
    """Decompose the centred kernel between the seen classes."""
    K = _kernel(signatures, signatures, kernel)
    row_mean = K.mean(axis=0)
    centered = K - row_mean[:, None] - row_mean[None, :] + row_mean.mean()
    return _Spectrum(row_mean, *eigenbasis((centered + centered.T) / 2))


def _kernel(a: Floats, b: Floats, kind: str) -> Floats:
    products = a @ b.T
    return products if kind == "linear" else (1 + products) ** 2
