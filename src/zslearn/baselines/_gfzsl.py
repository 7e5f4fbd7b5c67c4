r"""GFZSL: each class a Gaussian whose parameters its signature predicts.

Samples of class c are taken as :math:`\mathcal N(\mu_c, \mathrm{diag}(\sigma_c^2))`. From the means
and log variances of the seen classes two kernel ridge regressions learn those of any class,

.. math:: \hat\mu(a) = \bar\mu + k(a)^\top (K + \lambda_\mu I)^{-1} (M - \bar\mu), \qquad
          \log \hat\sigma^2(a) = \bar\rho + k(a)^\top (K + \lambda_\sigma I)^{-1} (R - \bar\rho),

with the rows of M and R the seen classes' means and log variances, bars their means over the
classes, and :math:`k` a kernel between signatures, centred in its own space:
:math:`(1 + a^\top a')^2` in the original. The score is the log density of a class over that of a
Gaussian that stands for all classes, which is linear in :math:`(z^2, z, 1)`.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn.baselines._closed_form import (
    ClosedForm,
    Floats,
    class_moments,
    eigenbasis,
    row_blocks,
)
from zslearn.signatures import rbf_similarity
from zslearn.utils import Array, move_like, to_numpy

# A predicted variance stays within these bounds, in units of the pooled variance: a polynomial
# kernel may extrapolate a log variance to any number.
_VARIANCE_RANGE = (1e-2, 1e2)
# Log variances of seen classes that a regression learns from are at least this of the pooled one.
_FLOOR = 1e-3
# The pooled variance of a feature is at least this share of its variance over all classes, and the
# second number of the mean of these over the features.
_POOLED_FLOOR = (1e-3, 1e-8)


class _Factors:
    """Means and variances of the seen classes in standard units, and kernels in eigenvectors."""

    def __init__(self, X: Array, y: NDArray[np.intp], signatures: Floats, *, pca: bool) -> None:
        n_samples, n_classes = X.shape[0], len(signatures)
        self.counts = np.bincount(y, minlength=n_classes)
        xp = compat.array_namespace(X)
        self.components: Array | None = None
        if pca:
            moments = class_moments(X, y, n_classes, center=True)
            values, vectors, _ = eigenbasis(moments.gram)
            rank = max(1, int(xp.sum(xp.astype(values > 0, xp.int64))))
            # Largest variance first.
            self.components = xp.flip(vectors[:, -rank:], axis=1)
        means, squares, center = _class_spread(X, y, self.counts, self.components)
        self.mean = center
        pooled = squares.sum(axis=0) / max(n_samples - n_classes, 1)
        total = (squares.sum(axis=0) + self.counts @ means**2) / n_samples
        self.std = np.sqrt(_floored(pooled, total))
        self.means, self.variances = means / self.std, squares / self.std**2
        self._signatures = signatures
        self._spectra: dict[tuple[str, float], tuple[Floats, Floats, Floats, float]] = {}

    def spectrum(self, kernel: str, gamma: float) -> tuple[Floats, Floats, Floats, float]:
        """Row means of the kernel; eigenvalues and eigenvectors of the centred one; its unit."""
        key = kernel, gamma
        if key not in self._spectra:
            K = _kernel(self._signatures, self._signatures, kernel, gamma)
            row_mean = K.mean(axis=0)
            centered = K - row_mean[:, None] - row_mean[None, :] + row_mean.mean()
            self._spectra[key] = row_mean, *eigenbasis((centered + centered.T) / 2)
        return self._spectra[key]


class GFZSL(ClosedForm):
    """Gaussian class densities whose means and variances are regressed from signatures.

    Parameters
    ----------
    alpha_mean : float, default=0.1
        Penalty of the regression of the means, in units of the mean of the eigenvalues of the
        centred kernel that are not zero.
    alpha_variance : float, default=10.0
        Penalty of the regression of the log variances, in the same unit. From about 1000 on all
        classes have the same variances.
    kernel : {"quadratic", "linear", "rbf"}, default="quadratic"
        Between signatures: (1 + aᵀa′)², aᵀa′ or exp(−gamma ‖a − a′‖²).
    gamma : float, default=0.5
        For "rbf", in units of the median distance of signatures.
    variance_prior : float, default=10.0
        How many samples the pooled variance of all classes counts for in that of each class.
    n_components : int or None, default=None
        Principal components that are taken for features; fewer where the samples have a lower rank.
        None takes the features as they are.
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over.

    Attributes
    ----------
    mean_ : array of shape (n_features,)
        Mean of the training samples.
    components_ : array of shape (n_features, n_components) or None
        Principal components, one a column.
    std_ : ndarray of shape (n_features or n_components,)
        Pooled standard deviation within the classes.
    class_means_ : ndarray of shape (n_seen, n_features or n_components)
        Means of the seen classes: what the regression learns from. Here and below in units of
        `std_` around `mean_`.
    class_log_variances_ : ndarray of shape (n_seen, n_features or n_components)
        Log variances of the seen classes, shrunk towards 0, the pooled one.
    mean_coef_ : ndarray of shape (n_seen, n_features or n_components)
        Dual coefficients of the means.
    variance_coef_ : ndarray of shape (n_seen, n_features or n_components)
        Dual coefficients of the log variances.
    signatures_ : ndarray of shape (n_seen, n_attributes)
        Normalised signatures of the seen classes.
    classes_ : ndarray of shape (n_classes,)
        Every described class, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        The classes of the training data, sorted.
    unseen_classes_ : ndarray of shape (n_unseen,)
        The classes known by their signature alone, sorted.
    n_features_in_ : int
        Width of `X`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` had string names.
    signature_scale_ : tuple of float
        The number that the signatures of each view are divided by.

    See Also
    --------
    zslearn.synthesis.EXEM : Predicts the means alone, and compares by distance.

    Notes
    -----
    What differs from the original: the mean over the classes is not penalised; variances of the
    classes are shrunk towards the pooled one, and predicted ones stay within a hundredfold of it;
    penalties are relative; principal components may be taken first; and the Gaussian of a seen
    class is predicted as that of any other, so that what a class is predicted by depends on its
    signature alone. One eigendecomposition of the kernel serves both regressions and every penalty
    of a grid.

    References
    ----------
    V. K. Verma and P. Rai, "A simple exponential family framework for zero-shot learning",
    ECML-PKDD 2017.

    Examples
    --------
    >>> from zslearn.baselines import GFZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = GFZSL().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ClosedForm._parameter_constraints,
        "alpha_mean": [Interval(Real, 0, None, closed="neither")],
        "alpha_variance": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"quadratic", "linear", "rbf"})],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "variance_prior": [Interval(Real, 0, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "kernel": ["linear", "quadratic"],
            "n_components": [None, 50, 100, 200, 400],
            "variance_prior": [10.0, 100.0],
            "alpha_mean": [10.0**k for k in range(-4, 4)],
            "alpha_variance": [10.0**k for k in range(-3, 5)],
        },
        "fast": {
            "n_components": [None, 100, 300],
            "alpha_variance": [10.0**k for k in range(-2, 3)],
            "alpha_mean": [0.03, 0.1, 0.3, 1.0],
        },
    }
    grid_order: ClassVar[tuple[str, ...]] = (
        "n_components",
        "kernel",
        "gamma",
        "variance_prior",
        "alpha_variance",
        "alpha_mean",
    )

    def __init__(
        self,
        alpha_mean: float = 0.1,
        alpha_variance: float = 10.0,
        *,
        kernel: str = "quadratic",
        gamma: float = 0.5,
        variance_prior: float = 10.0,
        n_components: int | None = None,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.alpha_mean = alpha_mean
        self.alpha_variance = alpha_variance
        self.kernel = kernel
        self.gamma = gamma
        self.variance_prior = variance_prior
        self.n_components = n_components
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _factor(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> _Factors:
        return _Factors(X, y, signatures, pca=self.n_components is not None)

    def _factor_key(self) -> bool:
        return self.n_components is not None

    def _solve(self, factors: _Factors, signatures: Floats) -> None:
        dims = slice(0, self.n_components)
        self.mean_, self.std_ = factors.mean, factors.std[dims]
        self.components_ = None if factors.components is None else factors.components[:, dims]
        self.class_means_ = factors.means[:, dims]
        variances = (factors.variances[:, dims] + self.variance_prior) / (
            factors.counts[:, None] + self.variance_prior
        )
        self.class_log_variances_ = np.log(np.maximum(variances, _FLOOR))
        self.signatures_ = signatures
        self._kernel_mean, values, vectors, unit = factors.spectrum(self.kernel, self.gamma)
        for name, alpha, targets in (
            ("mean_coef_", self.alpha_mean, self.class_means_),
            ("variance_coef_", self.alpha_variance, self.class_log_variances_),
        ):
            # (K + λI)⁻¹ in the eigenvectors of K
            rotated = vectors.T @ (targets - targets.mean(axis=0))
            setattr(self, name, vectors @ (rotated / (values + alpha * unit)[:, None]))

    def embedding_key(self) -> tuple[int | None]:
        """The number of components: nothing else changes the embedding."""
        return (self.n_components,)

    def embed(self, X: Array) -> Array:
        """Sufficient statistics (z², z, 1) of each row, z in units of the pooled deviation.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Prepared features.

        Returns
        -------
        array of shape (n_samples, 2 * n_dims + 1)
            One row a sample.
        """
        xp = compat.array_namespace(X)
        z = X - move_like(self.mean_, X)[None, :]
        if self.components_ is not None:
            z = z @ move_like(self.components_, X)
        z = z / move_like(self.std_, X)[None, :]
        one = xp.ones((z.shape[0], 1), dtype=z.dtype, device=compat.device(z))
        return xp.concat([z * z, z, one], axis=1)

    def synthesize(self, signatures: Floats) -> Array:
        """Natural parameters of each class's Gaussian, less those of the standard normal.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            Normalised signatures.

        Returns
        -------
        ndarray of shape (n_classes, 2 * n_dims + 1)
            One row a class.
        """
        mean, variance = self._gaussians(signatures)
        # log N(z; μ, v) − log N(z; 0, 1) = ½(1 − 1/v) z² + (μ/v) z − ½(μ²/v + log v)
        linear = mean / variance
        constant = -0.5 * (mean * linear + np.log(variance)).sum(axis=1, keepdims=True)
        return np.concatenate([0.5 * (1 - 1 / variance), linear, constant], axis=1)

    def _gaussians(self, signatures: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each class, in units of `std_` around `mean_`."""
        kernel = _kernel(signatures, self.signatures_, self.kernel, self.gamma) - self._kernel_mean
        means = self.class_means_.mean(axis=0) + kernel @ self.mean_coef_
        log_variances = self.class_log_variances_.mean(axis=0) + kernel @ self.variance_coef_
        return means, np.exp(np.clip(log_variances, *np.log(_VARIANCE_RANGE)))


def _kernel(a: Floats, b: Floats, kind: str, gamma: float) -> Floats:
    if kind == "rbf":
        return np.asarray(rbf_similarity(a, b, gamma=gamma))
    products = a @ b.T
    return products if kind == "linear" else (1 + products) ** 2


def _floored(pooled: Floats, total: Floats) -> Floats:
    """Pooled variances, none of them zero."""
    typical = float(total.mean())
    of_feature, of_all = _POOLED_FLOOR
    floored = np.maximum(pooled, np.maximum(of_feature * total, of_all * typical))
    return np.where(floored > 0, floored, 1.0)


def _class_spread(
    X: Array, y: NDArray[np.intp], counts: NDArray[np.intp], components: Array | None
) -> tuple[Floats, Floats, Array]:
    """Class means, sums of squared deviations from these, and the mean of all samples.

    In two passes over blocks of rows, around the means, so that nothing cancels. Means are around
    that of all samples; with components, means and deviations are along these.
    """
    xp = compat.array_namespace(X)
    device = compat.device(X)
    classes = xp.arange(len(counts), device=device)
    labels = xp.asarray(y, device=device)
    center = xp.sum(X, axis=0, dtype=xp.float64) / X.shape[0]
    share = xp.asarray(1.0 / counts, dtype=xp.float64, device=device)[:, None]
    means = xp.zeros((len(counts), X.shape[1]), dtype=xp.float64, device=device)

    def block(rows: slice) -> tuple[Array, Array]:
        member = xp.astype(labels[rows][None, :] == classes[:, None], xp.float64)
        return member, xp.astype(X[rows, :], xp.float64) - center[None, :]

    for rows in row_blocks(X.shape[0]):
        member, centered = block(rows)
        means = means + member @ centered
    means = means * share
    squares: Array = 0.0
    for rows in row_blocks(X.shape[0]):
        member, centered = block(rows)
        deviation = centered - xp.take(means, labels[rows], axis=0)
        if components is not None:
            deviation = deviation @ components
        squares = squares + member @ (deviation * deviation)
    if components is not None:
        means = means @ components
    return to_numpy(means), to_numpy(squares), center
