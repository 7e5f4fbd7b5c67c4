r"""Zero-shot learning as ordinary classification, with features generated for unseen classes.

A generator learns from the seen classes to draw features given a signature. A classifier is then
trained on the real features of the seen classes and on generated features of the unseen ones.

The simplest generator draws from a Gaussian for each class. With the means :math:`m_c` of the seen
classes, their mean :math:`\bar m`, and the RBF kernel K between their signatures,

.. math:: m(a) = \bar m + k(a)^\top (K + \lambda I)^{-1} (M - \bar m), \qquad
          x \mid a \sim \mathcal N\bigl(m(a), \Sigma\bigr),

where :math:`\Sigma` is the pooled covariance within the seen classes, shrunk towards its mean
variance.

Zero-shot logit adjustment (ZLA) trains the softmax regression with logits to which the log priors
of the training samples are added, and predicts without these,

.. math:: \min_{W, b} \; -\mathbb E\Bigl[\log \frac{\pi_y\, e^{f_y(x)}}
          {\sum_c \pi_c\, e^{f_c(x)}}\Bigr], \qquad
          \pi_c \propto \begin{cases} r\, n_c / \sum_{c' \in S} n_{c'} & c \in S \\
          1 / |U| & c \in U, \end{cases}

where S are the seen classes with :math:`n_c` samples each, U the unseen ones, and r the odds of
seen against unseen classes. Intercepts have no penalty here, so that :math:`b_c = b^0_c - \log
\pi_c` is the minimum if :math:`b^0` are the intercepts without adjustment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from zslearn._solvers._logistic import softmax_path
from zslearn._utils._array import Array, Floats, move_like, take_rows, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._saved import Saved, saves
from zslearn._utils._validation import checks_parameters
from zslearn.base._class_statistics import class_means, deviation_blocks, mean_square_distance
from zslearn.base._classifier import ZeroShotClassifier, group_by_params
from zslearn.base._training import Training
from zslearn.networks._torch_training import with_intercept
from zslearn.signatures._kernels import rbf_similarity


# The defaults were chosen on held-out seen classes of CUB, where any `shrinkage` from 0.03 to 0.3
# gives the same accuracy.
@saves(
    mean_=Saved("n_features"),
    coef_=Saved("n_seen", "n_features"),
    root_=Saved("n_features", "n_features"),
    signatures_=Saved("n_seen", "n_attributes"),
)
@dataclass(eq=False, repr=False)
class GaussianGenerator(BaseEstimator):
    """Draw features from Gaussians with one covariance and means regressed on signatures.

    Parameters
    ----------
    gamma : float, default=0.25
        Width of the RBF kernel between signatures, in units of their median distance.
    alpha : float, default=0.03
        Penalty λ of the kernel ridge regression of the means.
    shrinkage : float, default=0.1
        Shrinkage of the covariance towards its mean variance, between 0 and 1.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the class means.
    coef_ : ndarray of shape (n_seen, n_features)
        Dual coefficients of the means.
    signatures_ : ndarray of shape (n_seen, n_attributes)
        Signatures of the seen classes.
    root_ : ndarray of shape (n_features, n_features)
        Square root of the covariance; multiplies standard normal rows from the right.

    See Also
    --------
    GeneratedFeatures : Trains a classifier on generated features.
    zslearn.baselines.GFZSL : Scores by such densities instead of drawing from them.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.networks import GaussianGenerator
    >>> data = make_zero_shot(random_state=0)
    >>> seen = data.signatures.loc[data.seen_classes]
    >>> y = seen.index.get_indexer(data.y_train)
    >>> generator = GaussianGenerator().fit(data.X_train, y, seen.to_numpy())
    >>> unseen = data.signatures.loc[data.unseen_classes].to_numpy()
    >>> generator.sample(unseen, 5, random_state=0).shape == (len(unseen), 5, data.X_train.shape[1])
    True
    """

    gamma: float = 0.25
    alpha: float = 0.03
    _: KW_ONLY
    shrinkage: float = 0.1

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "shrinkage": [Interval(Real, 0, 1, closed="both")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "gamma": [2.0**k for k in range(-5, 3)],
            "alpha": [10.0 ** (k / 2) for k in range(-6, 1)],
        },
        "fast": {"gamma": [2.0**k for k in range(-4, 1)], "alpha": [0.01, 0.03, 0.1, 0.3]},
    }

    @checks_parameters()
    def fit(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> Self:
        """Learn from features of the seen classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Features in any library of the array API standard.
        y : ndarray of int of shape (n_samples,)
            Position of each sample's class in `signatures`.
        signatures : ndarray of shape (n_seen, n_attributes)
            One row per class.
        """
        y = np.asarray(y)
        means = class_means(X, y, len(signatures))
        covariance: Any = 0.0
        for _, _, deviations in deviation_blocks(X, y, means):
            covariance = covariance + to_numpy(deviations.T @ deviations)
        covariance /= max(len(y) - len(signatures), 1)
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, 0.0)
        shrunk = (1 - self.shrinkage) * values + self.shrinkage * values.mean()
        self.root_ = np.sqrt(shrunk)[:, None] * vectors.T
        targets = to_numpy(means)
        self.mean_ = targets.mean(axis=0)
        self.signatures_ = np.asarray(signatures, dtype=np.float64)
        kernel = rbf_similarity(self.signatures_, gamma=self.gamma)
        ridge = kernel + self.alpha * np.eye(len(kernel))
        self.coef_ = np.linalg.solve(ridge, targets - self.mean_)
        return self

    def predict(self, signatures: Floats) -> Floats:
        """Predict the means of classes, of shape (n_classes, n_features)."""
        check_is_fitted(self)
        kernel = rbf_similarity(signatures, self.signatures_, gamma=self.gamma)
        return self.mean_ + kernel @ self.coef_

    def sample(self, signatures: Floats, n_samples: int, random_state: Any = None) -> Floats:
        """Draw features of classes, of shape (n_classes, n_samples, n_features).

        Classes share the noise, so that the features of a class do not depend on the other classes.
        """
        means = self.predict(signatures)
        noise = check_random_state(random_state).normal(size=(n_samples, len(self.mean_)))
        return means[:, None, :] + noise @ self.root_


@inherit_docs
@saves(
    {
        "generator_.mean_": Saved("n_features", optional=True),
        "generator_.lowest_": Saved("n_features", optional=True),
        "generator_.signatures_": Saved("n_seen", "n_attributes", optional=True),
    },
    generator_=Saved(kind=object),
    X_=Saved("n_samples", "n_features"),
    y_=Saved("n_samples", kind="int", least=0, into="n_seen"),
    seed_=Saved(kind="int", least=0),
)
@dataclass(eq=False, repr=False)
class GeneratedFeatures(ZeroShotClassifier):
    """Generate features for the unseen classes and train a classifier on all classes.

    `fit` trains the generator on the seen classes. Whenever classes are described, features of the
    unseen ones are drawn and the classifier is trained again; the generator does not change.

    Parameters
    ----------
    generator : generator, optional
        :class:`GaussianGenerator` by default, :class:`WGANGenerator` (f-CLSWGAN),
        :class:`VAEGANGenerator` (f-VAEGAN-D2), or any object with `fit(X, y, signatures)` and
        `sample(signatures, n_samples, random_state)`.
    classifier : {"softmax", "mean"}, default="softmax"
        A softmax regression, or the nearest class mean.
    n_generated : int, default=300
        Number of features drawn for each unseen class.
    alpha : float, default=1e-4
        Penalty of the softmax regression, in units of the features' variance.
    balanced : bool, default=False
        Whether all classes have the same total weight in the softmax regression. By default all
        samples have the same weight, so that `n_generated` determines that of unseen classes.
    seen_odds : float, optional
        Prior odds r of seen against unseen classes, for the logit adjustment of the softmax
        regression (ZLA): larger odds favour unseen classes. By default there is no adjustment.
    tol : float, default=1e-3
        Relative optimality gap of the softmax regression.
    random_state : int, RandomState instance or None, default=0
        Seed of the noise, and of a generator whose own `random_state` is None.

    Attributes
    ----------
    generator_ : generator
        Fitted on the seen classes.
    X_ : array of shape (n_samples, n_features)
        Prepared features of the seen classes.
    y_ : ndarray of shape (n_samples,)
        Position of each sample's class in `seen_classes_`.
    seed_ : int
        Seed of the noise.

    Notes
    -----
    In the conventional setting the scores of the classifier over all classes are restricted to the
    candidates. Published programs train a second classifier on the unseen classes alone; call
    `synthesize` with their signatures and labels to do so.

    Zero-shot logit adjustment (ZLA) adds the log prior of each class to the logits in training, but
    not in prediction. The prior is `seen_odds` × the share of the class among the samples of seen
    classes (equal shares if `balanced`), and 1 / the number of unseen classes for each of these. As
    intercepts are not penalised here, this is equivalent to subtracting the log priors from the
    intercepts afterwards.

    AUSUC and the accuracy among unseen classes do not depend on `seen_odds`, so that all values in
    a grid would tie. Held-out classes choose the odds in the form of the calibration factor b of
    :class:`~zslearn.model_selection.ZeroShotSearchCV` or
    :class:`~zslearn.calibration.CalibratedStacking`, which multiplies them by exp(b). ZLAP, the
    authors' whole method, also predicts the classifiers from signatures, by a network.

    References
    ----------
    Y. Xian, T. Lorenz, B. Schiele and Z. Akata, "Feature generating networks for zero-shot
    learning", CVPR 2018.

    D. Chen, Y. Shen, H. Zhang and P. H. S. Torr, "Zero-shot logit adjustment", IJCAI 2022.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.networks import GeneratedFeatures
    >>> data = make_zero_shot(random_state=0)
    >>> model = GeneratedFeatures(n_generated=50)
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    generator: Any = None
    classifier: str = "softmax"
    _: KW_ONLY
    n_generated: int = 300
    alpha: float = 1e-4
    balanced: bool = False
    seen_odds: float | None = None
    tol: float = 1e-3
    random_state: Any = 0

    _synthesis_trains: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "generator": [HasMethods(["fit", "sample"]), None],
        "classifier": [StrOptions({"softmax", "mean"})],
        "n_generated": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "balanced": ["boolean"],
        "seen_odds": [Interval(Real, 0, None, closed="neither"), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {"alpha": [10.0**k for k in range(-6, 0)], "balanced": [False, True]},
        "fast": {"alpha": [1e-5, 1e-4, 1e-3], "balanced": [False, True]},
    }

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Share generators, and one training run among those that differ in `n_epochs` only."""
        for variant in variants:
            variant.seed_ = int(check_random_state(variant.random_state).randint(2**31 - 1))
        for same_run in _same_runs(variants):
            generators = [group[0].generator for group in same_run]
            fitted = _fit_generators(generators, same_run[0][0].seed_, training)
            for group, generator in zip(same_run, fitted, strict=True):
                for variant in group:
                    variant.generator_ = generator
                    variant.X_, variant.y_ = training.X, training.y
                    yield variant

    @property
    def _rows_per_class(self) -> int:
        return int(self.n_generated)

    def generate(self, signatures: Floats) -> Array:
        """Draw `n_generated` prepared features of each class, class by class.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            Normalised signatures, as passed to :meth:`synthesize`.
        """
        drawn = self.generator_.sample(signatures, int(self.n_generated), random_state=self.seed_)
        rows = move_like(drawn.reshape(-1, drawn.shape[-1]), self.X_)
        return rows if self.feature_norm is None else unit_rows(rows)

    def _samples(
        self, signatures: Floats, labels: NDArray[Any] | None
    ) -> tuple[Array, NDArray[np.intp]]:
        """Real and generated features of classes, and the position of each one's class."""
        position = {} if labels is None else {label: i for i, label in enumerate(labels.tolist())}
        # Position of each seen class in `signatures`; −1 if it is not one of these classes.
        of_seen = np.asarray([position.get(label, -1) for label in self.seen_classes_.tolist()])
        y = of_seen[self.y_]
        X = self.X_ if (y >= 0).all() else take_rows(self.X_, np.flatnonzero(y >= 0))
        y = y[y >= 0]
        unseen = np.setdiff1d(np.arange(len(signatures)), of_seen)
        if not len(unseen):
            return X, y
        X = compat.array_namespace(X).concat([X, self.generate(signatures[unseen])], axis=0)
        return X, np.concatenate([y, np.repeat(unseen, self.n_generated)])

    def embed(self, X: Array) -> Array:
        """Append a 1 to each row, for the intercepts."""
        return with_intercept(X)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Generate features of the unseen classes and train the classifier on all given classes.

        Without `labels` all classes count as unseen.
        """
        X, y = self._samples(signatures, labels)
        n_classes, xp = len(signatures), compat.array_namespace(X)
        if self.classifier == "softmax":
            weights = (1.0 / np.bincount(y))[y] if self.balanced else None
            alphas = [self.alpha * (mean_square_distance(X) or 1.0)]
            (result,) = softmax_path(
                X, y, n_classes, alphas=alphas, tol=self.tol, sample_weight=weights
            )
            coef, intercept = result.coef, result.intercept
            if self.seen_odds is not None:
                priors = self._log_priors(np.bincount(y, minlength=n_classes), labels)
                intercept = intercept - move_like(priors, intercept)
        else:
            # The nearest class mean: −½‖x − m‖² = mᵀx − ½‖m‖² − ½‖x‖².
            coef = class_means(X, y, n_classes)
            intercept = -0.5 * xp.sum(coef * coef, axis=1)
        return xp.concat([coef, intercept[:, None]], axis=1)

    def _log_priors(self, counts: NDArray[np.intp], labels: NDArray[Any] | None) -> Floats:
        """Log priors of classes, up to a constant, from the number of samples of each."""
        known = set(self.seen_classes_.tolist())
        given = [None] * len(counts) if labels is None else labels.tolist()
        seen = np.array([label in known for label in given])
        shares = np.where(seen & (not self.balanced), counts, 1.0)
        for group in (seen, ~seen):
            shares[group] /= shares[group].sum()
        log_priors: Floats = np.log(shares)
        log_priors[seen] += math.log(self.seen_odds or 1.0)
        return log_priors


def _same_runs(variants: Sequence[GeneratedFeatures]) -> list[list[list[GeneratedFeatures]]]:
    """Group variants by generator, and these groups by generator up to `n_epochs`."""
    runs: dict[Any, list[list[GeneratedFeatures]]] = {}
    for group in group_by_params(variants, "generator", "seed_"):
        generator, seed = group[0].generator, group[0].seed_
        key: Any = id(group)
        if hasattr(generator, "fit_stages"):
            key = fingerprint(clone(generator).set_params(n_epochs=1)), seed
        runs.setdefault(key, []).append(group)
    return list(runs.values())


def _fit_generators(generators: Sequence[Any], seed: int, training: Training) -> list[Any]:
    """Fit copies of generators that differ in `n_epochs` only in one run."""
    first = GaussianGenerator() if generators[0] is None else clone(generators[0])
    if "random_state" in first.get_params(deep=False) and first.random_state is None:
        first.set_params(random_state=seed)
    samples = training.X, training.y, training.signatures
    if len(generators) == 1:
        return [first.fit(*samples)]
    fitted: list[Any] = first.fit_stages(*samples, [each.n_epochs for each in generators])
    return fitted
