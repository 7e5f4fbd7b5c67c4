r"""Zero-shot learning as ordinary classification, on features generated for the unseen classes.

A generator learns, from the seen classes, which features a signature leads to. For each unseen
class it draws some; a classifier then learns from the real features of the seen classes and the
generated ones of the unseen classes.

The simplest generator has a Gaussian for each class. With the class means :math:`m_c` of the seen
classes, their mean :math:`\bar m`, and the RBF kernel K between their signatures,

.. math:: m(a) = \bar m + k(a)^\top (K + \lambda I)^{-1} (M - \bar m), \qquad
          x \mid a \sim \mathcal N\bigl(m(a), \Sigma\bigr),

where :math:`\Sigma` is the covariance within classes, pooled over the seen ones and shrunk towards
its mean variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


# Defaults: by leaving out seen classes of CUB, `gamma` and `alpha` with the nearest mean; any
# `shrinkage` from 0.03 to 0.3 gives the same there.
@saves(
    mean_=Saved("n_features"),
    coef_=Saved("n_seen", "n_features"),
    root_=Saved("n_features", "n_features"),
    signatures_=Saved("n_seen", "n_attributes"),
)
class GaussianGenerator(BaseEstimator):
    """Draw features from a Gaussian whose mean is regressed on the signature.

    The simplest generator there is: kernel ridge for the means, one covariance for all classes.

    Parameters
    ----------
    gamma : float, default=0.25
        Width of the RBF kernel between signatures, in units of their median distance.
    alpha : float, default=0.03
        Ridge λ of the means.
    shrinkage : float, default=0.1
        Share of the mean variance in the covariance, between 0 and 1.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the class means.
    coef_ : ndarray of shape (n_seen, n_features)
        What the kernel with the seen signatures is multiplied by.
    signatures_ : ndarray of shape (n_seen, n_attributes)
        Signatures of the seen classes.
    root_ : ndarray of shape (n_features, n_features)
        A square root of the covariance: standard normal rows times it have that covariance.

    See Also
    --------
    GeneratedFeatures : Trains a classifier on what it generates.
    zslearn.baselines.GFZSL : Scores with such densities, without drawing from them.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "shrinkage": [Interval(Real, 0, 1, closed="both")],
    }

    #: Values to search, by name.
    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "gamma": [2.0**k for k in range(-5, 3)],
            "alpha": [10.0 ** (k / 2) for k in range(-6, 1)],
        },
        "fast": {
            "gamma": [2.0**k for k in range(-4, 1)],
            "alpha": [0.01, 0.03, 0.1, 0.3],
        },
    }

    def __init__(self, gamma: float = 0.25, alpha: float = 0.03, *, shrinkage: float = 0.1) -> None:
        self.gamma = gamma
        self.alpha = alpha
        self.shrinkage = shrinkage

    @checks_parameters()
    def fit(self, X: Array, y: NDArray[np.intp], signatures: Floats) -> Self:
        """Learn from features of the seen classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Features, of any library of the array API standard.
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
        """Means of classes, of shape (n_classes, n_features)."""
        check_is_fitted(self)
        kernel = rbf_similarity(signatures, self.signatures_, gamma=self.gamma)
        return self.mean_ + kernel @ self.coef_

    def sample(self, signatures: Floats, n_samples: int, random_state: Any = None) -> Floats:
        """Draw features of classes, of shape (n_classes, n_samples, n_features).

        All classes share the noise, so that the features of a class do not depend on which others
        are asked for.
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
class GeneratedFeatures(ZeroShotClassifier):
    """Generate features for the unseen classes, then train a classifier on all classes.

    `fit` trains the generator on the seen classes. Describing classes, at `fit` or later, draws
    features of the unseen ones and trains the classifier; the generator stays as it is.

    Parameters
    ----------
    generator : generator, optional
        What generates features: :class:`GaussianGenerator` by default, :class:`WGANGenerator`
        (f-CLSWGAN), :class:`VAEGANGenerator` (f-VAEGAN-D2), or any object with
        `fit(X, y, signatures)` and `sample(signatures, n_samples, random_state)`.
    estimator : "mean" or classifier, optional
        What learns from the features: by default a softmax regression; "mean" for the nearest class
        mean; or a classifier of scikit-learn with `coef_` and `intercept_`.
    n_generated : int, default=300
        Features drawn for each unseen class.
    alpha : float, default=1e-4
        Penalty of the softmax regression, in units of the features' variance. Not used with
        `estimator`.
    balanced : bool, default=False
        Whether every class counts the same in the softmax regression. By default every row does, so
        that `n_generated` decides how much unseen classes count. Not used with `estimator`.
    tol : float, default=1e-3
        Gap at which the softmax regression stops, as a share of its objective.
    random_state : int, RandomState or None, default=0
        Decides the noise, and the training of a generator whose own `random_state` is None.

    Attributes
    ----------
    generator_ : generator
        Fitted on the seen classes.
    X_ : array of shape (n_samples, n_features)
        Prepared features of the seen classes, which the classifier learns from.
    y_ : ndarray of shape (n_samples,)
        Position of each row's class in `seen_classes_`.
    seed_ : int
        Seed of the noise.

    Notes
    -----
    Scores of the conventional setting are those of the classifier over all classes, restricted to
    the candidates. Published programs train a second classifier on the unseen classes alone, which
    `synthesize` does with their signatures and labels.

    Zero-shot logit adjustment (ZLA) adds log priors of classes, and of seen and unseen ones, to the
    logits in training and not in prediction. Intercepts are not penalised here, so that this equals
    subtracting them from the intercepts afterwards; the seen–unseen prior is then the factor of
    :class:`~zslearn.calibration.CalibratedStacking`.

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

    _synthesis_trains: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "generator": [HasMethods(["fit", "sample"]), None],
        "estimator": [StrOptions({"mean"}), HasMethods(["fit", "predict"]), None],
        "n_generated": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "balanced": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {"alpha": [10.0**k for k in range(-6, 0)]},
        "fast": {"alpha": [1e-5, 1e-4, 1e-3]},
    }

    def __init__(
        self,
        generator: Any = None,
        estimator: Any = None,
        *,
        n_generated: int = 300,
        alpha: float = 1e-4,
        balanced: bool = False,
        tol: float = 1e-3,
        random_state: Any = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.generator = generator
        self.estimator = estimator
        self.n_generated = n_generated
        self.alpha = alpha
        self.balanced = balanced
        self.tol = tol
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """A generator serves every variant that has it and its seed; a run, all its epochs."""
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
        """Features that are drawn to describe a class."""
        return int(self.n_generated)

    def generate(self, signatures: Floats) -> Array:
        """Draw prepared features of classes, `n_generated` each, class by class.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes)
            Normalised signatures, as :meth:`synthesize` takes them.
        """
        drawn = self.generator_.sample(signatures, int(self.n_generated), random_state=self.seed_)
        rows = move_like(drawn.reshape(-1, drawn.shape[-1]), self.X_)
        return rows if self.feature_norm is None else unit_rows(rows)

    def _samples(
        self, signatures: Floats, labels: NDArray[Any] | None
    ) -> tuple[Array, NDArray[np.intp]]:
        """Features of classes, real or generated, and the position of the class of each."""
        n_classes = len(signatures)
        names = {} if labels is None else {label: i for i, label in enumerate(labels.tolist())}
        # Where each seen class stands among those given; −1 for one that is not among them.
        place = np.asarray([names.get(label, -1) for label in self.seen_classes_.tolist()])
        kept = np.flatnonzero(place[self.y_] >= 0)
        rows = self.X_ if len(kept) == len(self.y_) else take_rows(self.X_, kept)
        y = place[self.y_[kept]]
        unseen = np.setdiff1d(np.arange(n_classes), place)
        if not len(unseen):
            return rows, y
        generated = self.generate(signatures[unseen])
        xp = compat.array_namespace(rows)
        both = xp.concat([rows, generated], axis=0)
        return both, np.concatenate([y, np.repeat(unseen, self.n_generated)])

    def embed(self, X: Array) -> Array:
        """Rows with a 1 behind, for the intercepts."""
        return with_intercept(X)

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Generate features of the unseen classes, and train the classifier over all classes given.

        Without `labels` all count as unseen.
        """
        X, y = self._samples(signatures, labels)
        n_classes, xp = len(signatures), compat.array_namespace(X)
        if self.estimator is None:
            weights = (1.0 / np.bincount(y))[y] if self.balanced else None
            alphas = [self.alpha * (mean_square_distance(X) or 1.0)]
            (found,) = softmax_path(
                X, y, n_classes, alphas=alphas, tol=self.tol, sample_weight=weights
            )
            coef, intercept = found.coef, found.intercept
        elif isinstance(self.estimator, str):
            # The nearest class mean: −½‖x − m‖² = mᵀx − ½‖m‖² − ½‖x‖².
            coef = class_means(X, y, n_classes)
            intercept = -0.5 * xp.sum(coef * coef, axis=1)
        else:
            found = clone(self.estimator).fit(to_numpy(X), y)
            coef, intercept = (move_like(part, X) for part in _linear_part(found, n_classes))
        return xp.concat([coef, intercept[:, None]], axis=1)


def _linear_part(fitted: Any, n_classes: int) -> tuple[Floats, Floats]:
    """Coefficients and intercepts of a linear classifier of scikit-learn, one row per class."""
    if not hasattr(fitted, "coef_"):
        raise TypeError(
            f"estimator={type(fitted).__name__}(…) has no coef_ after fit. Take a linear "
            "classifier, such as LogisticRegression."
        )
    coef = np.atleast_2d(np.asarray(fitted.coef_, dtype=np.float64))
    intercept = np.ravel(np.asarray(getattr(fitted, "intercept_", 0.0), dtype=np.float64))
    if n_classes == 2 and len(coef) == 1:
        # scikit-learn has one row for two classes, positive for the second.
        coef, intercept = np.concatenate([-coef, coef]), np.concatenate([-intercept, intercept])
    if len(coef) != n_classes:
        raise TypeError(
            f"estimator={type(fitted).__name__}(…) has {len(coef)} rows of coefficients for "
            f"{n_classes} classes. Take one that has a row per class."
        )
    return coef, np.array(np.broadcast_to(intercept, (n_classes,)))


def _same_runs(variants: Sequence[GeneratedFeatures]) -> list[list[list[GeneratedFeatures]]]:
    """Variants of one generator; and such groups that differ in its number of epochs alone."""
    runs: dict[Any, list[list[GeneratedFeatures]]] = {}
    for group in group_by_params(variants, "generator", "seed_"):
        generator = group[0].generator
        if not hasattr(generator, "fit_stages"):
            runs[id(group)] = [group]
            continue
        run = fingerprint(clone(generator).set_params(n_epochs=1)), group[0].seed_
        runs.setdefault(run, []).append(group)
    return list(runs.values())


def _fit_generators(generators: Sequence[Any], seed: int, training: Training) -> list[Any]:
    """Copies of generators that differ in the number of epochs, fitted in one run."""
    first = GaussianGenerator() if generators[0] is None else clone(generators[0])
    if "random_state" in first.get_params(deep=False) and first.random_state is None:
        first.set_params(random_state=seed)
    samples = training.X, training.y, training.signatures
    if len(generators) == 1:
        return [first.fit(*samples)]
    fitted: list[Any] = first.fit_stages(*samples, [each.n_epochs for each in generators])
    return fitted
