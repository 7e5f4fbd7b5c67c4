"""Generate zero-shot problems of adjustable difficulty."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, overload

import numpy as np
import pandas as pd
import scipy.special
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._utils._array import row_blocks
from zslearn._utils._validation import checks_arguments
from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset
from zslearn.metrics import per_class_accuracy


@dataclass(frozen=True, eq=False)
class _Truth:
    """Bayes' rule for classes that are mixtures of `n_modes` equally likely normal distributions.

    `means` has shape (n_classes, n_modes, n_features), `scales` (n_classes, n_features).
    """

    classes: NDArray[Any]
    means: NDArray[np.float64]
    scales: NDArray[np.float64]

    def log_density(self, X: ArrayLike, classes: ArrayLike) -> NDArray[np.float64]:
        """Log-densities of shape (n_samples, n_classes), up to a common constant."""
        X = np.asarray(X, dtype=np.float64)
        positions = pd.Index(self.classes).get_indexer(pd.Index(np.asarray(classes)))
        densities = np.empty((len(X), len(positions)))
        for column, position in enumerate(positions):
            scale = np.maximum(self.scales[position], np.finfo(float).tiny ** 0.25)
            by_mode = [
                -0.5 * np.sum(((X - mean) / scale) ** 2, axis=1) for mean in self.means[position]
            ]
            densities[:, column] = scipy.special.logsumexp(by_mode, axis=0) - np.log(scale).sum()
        return densities

    def score(self, X: ArrayLike, y: ArrayLike, *, classes: ArrayLike) -> float:
        """Per-class accuracy of Bayes' rule among `classes`."""
        densest = self.log_density(X, classes).argmax(axis=1)
        return per_class_accuracy(np.asarray(y), np.asarray(classes)[densest])


# Increase whenever the same parameters give other data.
_VERSION = "make_zero_shot-1"
#: Share of each seen class that are test samples; at least one is, and one is for training.
_TEST_SHARE = 0.2


@overload
def make_zero_shot(
    n_seen: int = ..., n_unseen: int = ..., *, return_truth: Literal[True], **options: Any
) -> tuple[ZeroShotDataset, _Truth]: ...


@overload
def make_zero_shot(n_seen: int = ..., n_unseen: int = ..., **options: Any) -> ZeroShotDataset: ...


@checks_arguments(  # type: ignore[misc]
    {
        **{
            name: [Interval(Integral, 1, None, closed="left")]
            for name in ("n_seen", "n_unseen", "n_features", "n_attributes", "n_modes")
        },
        "samples_per_class": [Interval(Integral, 2, None, closed="left")],
        "imbalance": [Interval(Real, 0, 1, closed="left")],
        "noise": [Interval(Real, 0, None, closed="left")],
        "nonlinearity": [Interval(Real, 0, 1, closed="both")],
        "signature_kind": [StrOptions({"normal", "binary", "mixture"})],
        "scatter": [StrOptions({"equal", "attributes"})],
        "return_truth": ["boolean"],
        "random_state": ["random_state"],
    }
)
def make_zero_shot(
    n_seen: int = 20,
    n_unseen: int = 5,
    *,
    n_features: int = 64,
    n_attributes: int = 16,
    samples_per_class: int = 30,
    imbalance: float = 0.0,
    noise: float = 0.2,
    nonlinearity: float = 0.5,
    signature_kind: Literal["normal", "binary", "mixture"] = "normal",
    scatter: Literal["equal", "attributes"] = "equal",
    n_modes: int = 1,
    return_truth: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> ZeroShotDataset | tuple[ZeroShotDataset, _Truth]:
    r"""Generate a zero-shot problem with a smooth map from attributes to features.

    The mean of the samples of a class with signature :math:`a` is
    :math:`f(a) = (1 - \eta)\, A a + \eta\, B \tanh(C a + c)` with random
    :math:`A, B, C, c`, :math:`\eta` the `nonlinearity`, and both terms scaled to unit variance.
    Samples scatter around the mean, independently in each feature. A fifth of the samples of each
    seen class are test samples.

    Parameters
    ----------
    n_seen, n_unseen : int, default=20 and 5
        Number of seen and unseen classes.
    n_features, n_attributes : int, default=64 and 16
        Number of features and attributes.
    samples_per_class : int, default=30
        Number of samples of the largest class, at least 2.
    imbalance : float in [0, 1), default=0.0
        Class sizes decrease geometrically, in random order, from `samples_per_class` to
        ``(1 - imbalance) * samples_per_class``, but not below two samples of a seen class and one
        of an unseen class.
    noise : float, default=0.2
        Standard deviation within a class in any direction, in units of the root mean square
        distance of two class means, so that the overlap does not depend on `n_features`.
    nonlinearity : float in [0, 1], default=0.5
        0 gives a linear map, 1 a purely non-linear one.
    signature_kind : {"normal", "binary", "mixture"}, default="normal"
        Distribution of the signatures: standard normal; fair coin flips; or standard normal for
        seen classes and convex combinations of three of these for unseen ones.
    scatter : {"equal", "attributes"}, default="equal"
        Whether all classes and features have the same standard deviation, or its logarithm is a
        linear function of the signature with standard deviation 0.5 over the classes.
    n_modes : int, default=1
        Number of maps :math:`f`; each sample follows a random one.
    return_truth : bool, default=False
        Whether to return Bayes' rule for the generating distributions as well.
    random_state : int, RandomState instance or None, default=None
        Seed. Data sets that differ only in `noise` share everything else.

    Returns
    -------
    ZeroShotDataset
        With one split, "ns". The version lists the parameters that differ from the defaults.
    truth : object
        Only with `return_truth`: ``truth.score(X, y, classes=...)`` is the per-class accuracy of
        Bayes' rule, the best expected accuracy of any method.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(n_seen=10, random_state=0)
    >>> data.X_train.shape, data.signatures.shape, data.version
    ((240, 64), (15, 16), 'make_zero_shot-1(n_seen=10, random_state=0)/ns')
    """
    version = _version(locals())
    seed = check_random_state(random_state).randint(2**31 - 1, size=4)
    rng = np.random.Generator(np.random.PCG64(seed))

    n_classes = n_seen + n_unseen
    width = len(str(n_classes - 1))
    names = np.array([f"class {number:0{width}d}" for number in range(n_classes)])
    is_seen = rng.permutation(n_classes) < n_seen
    signatures = _signatures(signature_kind, is_seen, n_attributes, rng)
    means = _class_means(signatures, n_features, nonlinearity, rng)[:, None]

    shares = (1 - imbalance) ** np.linspace(0, 1, n_classes)
    counts = np.rint(samples_per_class * rng.permutation(shares)).astype(np.intp)
    counts = np.maximum(counts, np.where(is_seen, 2, 1))
    codes = rng.permutation(np.repeat(np.arange(n_classes), counts))
    n_test = np.clip(np.rint(_TEST_SHARE * counts).astype(int), 1, counts - 1)
    # The samples are in random order, so the first ones of each class can be the test samples.
    held_out = pd.Series(codes).groupby(codes).cumcount().to_numpy() < n_test[codes]

    # Drawn last, so that other options do not change the simplest problems.
    further = [
        _class_means(signatures, n_features, nonlinearity, rng)[:, None] for _ in range(1, n_modes)
    ]
    means = np.concatenate([means, *further], axis=1)
    modes = rng.integers(n_modes, size=len(codes)) if n_modes > 1 else np.zeros_like(codes)
    # sqrt(2 n_features) is the root mean square distance of two class means of unit variance.
    scales = np.full((n_classes, n_features), noise * np.sqrt(2 * n_features))
    if scatter == "attributes":
        weights = rng.standard_normal((n_attributes, n_features))
        scales *= np.exp(0.5 * _unit_variance(signatures @ weights))
    X = rng.standard_normal((len(codes), n_features))
    for rows in row_blocks(len(codes), 2 * n_features * X.itemsize):
        X[rows] *= scales[codes[rows]]
        X[rows] += means[codes[rows], modes[rows]]

    seen_sample = is_seen[codes]
    split = ClassSplit(
        train=np.flatnonzero(seen_sample & ~held_out),
        test_seen=np.flatnonzero(seen_sample & held_out),
        test_unseen=np.flatnonzero(~seen_sample),
        seen_classes=names[is_seen],
        unseen_classes=names[~is_seen],
        version=f"{version}/ns",
    )
    data = ZeroShotDataset(
        X=X,
        y=names[codes],
        signatures=pd.DataFrame(
            signatures,
            index=names.tolist(),
            columns=[f"attribute {number}" for number in range(n_attributes)],
        ),
        splits={"ns": split},
        split="ns",
        name="make_zero_shot",
        features="synthetic",
    )
    return (data, _Truth(names, means, scales)) if return_truth else data


def _version(parameters: Mapping[str, Any]) -> str:
    """List the parameters of :func:`make_zero_shot` that differ from the defaults."""
    defaults = inspect.signature(make_zero_shot).parameters
    changed = []
    for name, value in parameters.items():
        if isinstance(value, np.random.RandomState):
            changed.append(f"{name}=RandomState")
        elif name == "random_state" or (name != "return_truth" and value != defaults[name].default):
            changed.append(f"{name}={value}")
    return f"{_VERSION}({', '.join(changed)})"


def _unit_variance(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centre the columns and scale them jointly to a mean variance of one."""
    values = values - values.mean(axis=0)
    return values / max(float(np.sqrt(np.mean(values**2))), np.finfo(float).tiny)


def _class_means(
    signatures: NDArray[np.float64], n_features: int, nonlinearity: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Map signatures to class means: (1 − η) A a + η B tanh(C a + c)."""
    n_attributes = signatures.shape[1]
    n_hidden = 4 * n_attributes
    linear = signatures @ rng.standard_normal((n_attributes, n_features))
    # Inputs of standard deviation 2 reach well into the non-linear part of tanh.
    weights = rng.standard_normal((n_attributes, n_hidden)) * (2 / np.sqrt(n_attributes))
    hidden = np.tanh(signatures @ weights + rng.standard_normal(n_hidden))
    curved = hidden @ rng.standard_normal((n_hidden, n_features))
    mixed = (1 - nonlinearity) * _unit_variance(linear) + nonlinearity * _unit_variance(curved)
    return _unit_variance(mixed)


def _signatures(
    kind: str, is_seen: NDArray[np.bool_], n_attributes: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw the signatures of all classes."""
    n_classes = len(is_seen)
    if kind == "binary":
        return rng.integers(2, size=(n_classes, n_attributes)).astype(np.float64)
    signatures = rng.standard_normal((n_classes, n_attributes))
    if kind == "mixture":
        seen = np.flatnonzero(is_seen)
        for position in np.flatnonzero(~is_seen):
            parents = rng.choice(seen, size=min(3, len(seen)), replace=False)
            signatures[position] = rng.dirichlet(np.ones(len(parents))) @ signatures[parents]
    return signatures
