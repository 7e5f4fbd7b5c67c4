r"""Exemplars of the seen classes, and regressors that predict those of any class (Eq. 12).

The exemplar of a class is the mean of its projected samples; one regressor per dimension learns
:math:`\psi(a_c) \approx z_c`. Kernel regressors combine the kernels of several signature views;
others get the concatenated views. Settings of a grid share class statistics, the widest projection,
of which narrower ones are the first dimensions, and one path of ν-SVRs per kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

import array_api_compat as compat
import numpy as np
import scipy.linalg
from sklearn.base import clone

from zslearn._solvers.nu_svr._path import NuSVRResult, nu_svr_path, nu_svr_paths
from zslearn._utils._array import Array, Floats, move_like, on_device, to_numpy
from zslearn._utils._fit_cache import cached_results, caches_fits
from zslearn._utils._messages import InputWarning, warn_user
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.base._class_statistics import ClassStatistics, class_squares
from zslearn.base._classifier import group_by_params
from zslearn.base._training import Training
from zslearn.signatures._kernels import rbf_similarity
from zslearn.signatures._views import Signatures, side_by_side
from zslearn.synthesis._exemplar_mlp import ExemplarMLP

if TYPE_CHECKING:
    from zslearn.synthesis._exem import EXEM

#: Only this number of components is clipped to the rank of the samples without a warning.
DEFAULT_COMPONENTS = 500
# With rows on a device, ν-SVRs are also solved there from this number of settings on and down to
# this tolerance: fewer leave the device idle, and its solver converges slowly near the optimum.
_DEVICE_SETTINGS = 16
_DEVICE_TOLERANCE = 1e-4
# Paths are cached for other searches if solving them (problems × classes² × dimensions) takes
# longer than reading them, and if the coefficients are not too large for the cache.
_MIN_CACHED_WORK = 2e7
_MAX_CACHED_BYTES = 1 << 26
# Hyper-parameters that predicted exemplars depend on.
_EXEMPLAR_PARAMS = (
    "n_components", "C", "nu", "gamma", "regressor", "tol", "max_iter", "n_jobs",
    "random_state",
)  # fmt: skip


@saved_part
@dataclass(frozen=True, eq=False)
@saves(
    mean=Saved("n_features"),
    components=Saved("n_dims", "n_features", optional=True),
    exemplars=Saved("n_seen", "n_dims"),
)
class Projection:
    """Principal components of the samples, and the projected class means."""

    mean: Floats  # of the samples; zeros without components
    components: Floats | None  # rows are directions; None leaves samples as they are
    exemplars: Floats  # means of the projected samples of each class

    def __call__(self, X: Array) -> Array:
        """Project rows of any array library."""
        if self.components is None:
            return X
        centered = X - move_like(self.mean, X)[None, :]
        return centered @ move_like(self.components.T, X)


class ExemplarSpaces:
    """Projections of one training set and the deviations along them, each computed once.

    `training` has no rows if only the statistics are known; `widths` are the values of
    `n_components`.
    """

    def __init__(
        self, training: Training, statistics: ClassStatistics, widths: Sequence[int | None]
    ) -> None:
        self.training = training
        self.whole = Projection(np.zeros(statistics.n_features), None, statistics.means)
        numbers = [width for width in widths if width is not None]
        if numbers:
            components, _ = statistics.principal_components(
                max(numbers),
                like=getattr(training.rows, "source", None),
                spectrum=training.spectrum(center=True) if training.keeps_sums else None,
            )
            mean = statistics.mean
            self.widest = Projection(mean, components, (statistics.means - mean) @ components.T)
        # Only the projections need the scatter.
        self.statistics = replace(statistics, scatter=np.empty((0, 0)))
        self._projections: dict[int | None, Projection] = {None: self.whole}
        self._within_std: dict[int | None, Floats] = {}

    def projection(self, width: int | None) -> Projection:
        """The first components of the widest projection, as the same object for each width."""
        if width in self._projections:
            return self._projections[width]
        assert width is not None
        assert self.widest.components is not None
        components = self.widest.components[:width]
        if len(components) < width != DEFAULT_COMPONENTS:
            warn_user(
                f"n_components={width} exceeds the rank of the training samples; "
                f"{len(components)} components are used.",
                InputWarning,
            )
        projection = Projection(self.widest.mean, components, self.widest.exemplars[:, :width])
        self._projections[width] = projection
        return projection

    def within_std(self, width: int | None) -> Floats:
        """Standard deviations within classes, averaged over those with at least two samples."""
        if width not in self._within_std:
            self._within_std[width] = self._find_within_std(width)
        return self._within_std[width]

    def _find_within_std(self, width: int | None) -> Floats:
        components, training = self.projection(width).components, self.training
        if components is None or not training.rows.shape[0]:
            by_class = self.statistics.standard_deviations(components)
        else:
            means, sizes = self.statistics.means, self.statistics.sizes
            squares = class_squares(
                training.rows, training.y, means, components.T, sample_weight=training.weights
            )
            by_class = np.sqrt(to_numpy(squares) / np.where(sizes > 1, sizes - 1, np.nan)[:, None])
        counted = by_class[~np.isnan(by_class).any(axis=1)]
        if not len(counted):
            warn_user(
                'distance="standardized" equals "euclidean", because no seen class has two samples '
                "to estimate standard deviations from.",
                InputWarning,
            )
            return np.ones(by_class.shape[1])
        std = counted.mean(axis=0)
        # Constant dimensions have tiny deviations from rounding.
        return np.where(std > 1e-12 * max(std.max(), 1e-300), std, 1.0)


# Regressors from signatures to exemplars


@saved_part
@saves(
    seen=Saved("n_seen", kind="signatures"),
    gamma=Saved(above=0),
    _latest=Saved(kind=object, each=True),
)
class SharedKernel:
    """RBF kernel between any classes and the seen ones, which caches the last two results."""

    def __init__(self, seen: Signatures, gamma: float) -> None:
        self.seen = seen
        self.gamma = gamma
        self._latest: tuple[tuple[Signatures, Floats], ...] = ()

    def __call__(self, signatures: Signatures) -> Floats:
        """Kernel of shape (n_classes, n_seen), on the host."""
        latest = self._latest  # read once, as another thread may replace it
        for known, kernel in latest:
            if known is signatures:
                return kernel
        kernel = rbf_similarity(signatures, self.seen, gamma=self.gamma)
        self._latest = (*latest[-1:], (signatures, kernel))
        return kernel

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_latest": ()}


@saved_part
@saves(
    {"kernel.seen": Saved("n_seen", kind="signatures")},
    kernel=Saved(kind=SharedKernel),
    coef=Saved("n_seen", "n_dims"),
    intercept=Saved("n_dims"),
    violation=Saved("n_dims", optional=True),
    n_iter=Saved("n_dims", kind="int", optional=True),
)
class KernelRegressor:
    """k(a)ᵀβ + b per dimension, by ν-SVR or kernel ridge, on the device that solved it."""

    def __init__(
        self,
        kernel: SharedKernel,
        coef: Array,
        intercept: Array,
        violation: Array | None = None,
        n_iter: Array | None = None,
    ) -> None:
        self.kernel, self.coef, self.intercept = kernel, coef, intercept
        self.violation, self.n_iter = violation, n_iter

    @property
    def signatures(self) -> Signatures:
        """Signatures of the seen classes."""
        return self.kernel.seen

    def predict(self, signatures: Signatures) -> Array:
        """Predict exemplars on the device of the coefficients."""
        return move_like(self.kernel(signatures), self.coef) @ self.coef + self.intercept

    def __getstate__(self) -> dict[str, Any]:
        # A file or another process cannot hold device arrays.
        arrays = {name: value for name, value in vars(self).items() if name != "kernel"}
        moved = {name: None if x is None else to_numpy(x) for name, x in arrays.items()}
        return {"kernel": self.kernel, **moved}


@saved_part
@saves(
    estimator=Saved(kind=object),
    gamma=Saved(above=0, optional=True),
    signatures=Saved("n_seen", kind="signatures"),
    n_dims=Saved(kind="int", least=1),
)
class SignatureRegressor:
    """A scikit-learn regressor on signatures, or on their kernel if that is "precomputed"."""

    def __init__(self, estimator: Any, gamma: float) -> None:
        self.estimator = clone(estimator)
        params = self.estimator.get_params() if hasattr(self.estimator, "get_params") else {}
        self.gamma = gamma if params.get("kernel") == "precomputed" else None

    def fit(self, signatures: Signatures, exemplars: Floats) -> Self:
        """Fit the regressor to the seen classes."""
        self.signatures = signatures
        self.estimator.fit(self._rows(signatures), exemplars)
        self.n_dims = exemplars.shape[1]
        return self

    def predict(self, signatures: Signatures) -> Floats:
        """Predict exemplars."""
        rows = self._rows(signatures)
        # Predictions of a single output may be one-dimensional.
        return np.asarray(self.estimator.predict(rows), float).reshape(len(rows), self.n_dims)

    def _rows(self, signatures: Signatures) -> Floats:
        if self.gamma is None:
            return side_by_side(signatures)
        return rbf_similarity(signatures, self.signatures, gamma=self.gamma)


def _fit_regressor(model: EXEM, signatures: Signatures, exemplars: Floats) -> Any:
    """Fit the regressor of an estimator, unless it is a ν-SVR."""
    regressor = model.regressor
    if regressor == "krr":
        # Around the mean exemplar, with the ridge 1/(2C).
        mean = exemplars.mean(axis=0)
        K = rbf_similarity(signatures, gamma=model.gamma)
        K[np.diag_indices_from(K)] += 1 / (2 * model.C)
        coef = scipy.linalg.solve(K, exemplars - mean, assume_a="pos")
        return KernelRegressor(SharedKernel(signatures, model.gamma), coef, mean)
    if regressor == "gp":
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        # Amplitude, width and noise maximise the marginal likelihood.
        width = 1 / np.sqrt(2 * model.gamma)
        kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(width, (0.05 * width, 20 * width))
        kernel = kernel + WhiteKernel(0.1, (1e-5, 1e2))
        random_state = model.random_state
        regressor = GaussianProcessRegressor(kernel, normalize_y=True, random_state=random_state)
    elif regressor == "mlp":
        regressor = ExemplarMLP(random_state=model.random_state)
    return SignatureRegressor(regressor, model.gamma).fit(signatures, exemplars)


#: Real exemplars of the seen classes, a fitted regressor, and the estimators that share both.
Learned = tuple[Projection, Any, list["EXEM"]]


def learn_exemplars(spaces: ExemplarSpaces, models: Sequence[EXEM]) -> Iterator[Learned]:
    """Learn the exemplars for estimators that differ in hyper-parameters."""
    signatures = spaces.training.signatures
    for group in group_by_params(models, "regressor", "tol", "max_iter", "n_jobs"):
        if group[0].regressor == "svr":
            yield from _learn_by_paths(spaces, group)
            continue
        for same in group_by_params(group, *_EXEMPLAR_PARAMS):
            projection = spaces.projection(same[0].n_components)
            regressor = _fit_regressor(same[0], signatures, projection.exemplars)
            yield projection, regressor, same


def _learn_by_paths(spaces: ExemplarSpaces, models: Sequence[EXEM]) -> Iterator[Learned]:
    """Solve one path of ν-SVRs per kernel, then yield models that share an embedding together."""
    signatures = spaces.training.signatures
    # Models with and without a projection have different targets. Kernels with the same grid of C
    # and ν are solved together.
    together: dict[Any, list[list[EXEM]]] = {}
    for of_kernel in group_by_params(models, "gamma"):
        for is_whole in (True, False):
            group = [model for model in of_kernel if (model.n_components is None) == is_whole]
            if group:
                grid = frozenset(m.C for m in group), frozenset(m.nu for m in group)
                together.setdefault((is_whole, grid), []).append(group)
    for (is_whole, (C, nu)), groups in together.items():
        first = groups[0][0]
        targets = (spaces.whole if is_whole else spaces.widest).exemplars
        n_problems = sum(len(group_by_params(group, "C", "nu")) for group in groups)
        if first.tol >= _DEVICE_TOLERANCE and n_problems >= _DEVICE_SETTINGS:
            targets = _on_device_of(spaces.training.rows, targets)
        gammas = [group[0].gamma for group in groups]
        solved = _solve_paths(
            signatures, gammas, targets, C=sorted(C), nu=sorted(nu),
            tol=first.tol, max_iter=first.max_iter, n_jobs=first.n_jobs,
        )  # fmt: skip
        for number, found in groupby(solved, key=itemgetter(0)):
            results = {(result.C, result.nu): result for _, result in found}
            group = groups[number]
            kernel = SharedKernel(signatures, group[0].gamma)
            group.sort(key=lambda model: (model.n_components or 0, model.distance))
            for same in group_by_params(group, "n_components", "distance", "C", "nu"):
                projection = spaces.projection(same[0].n_components)
                n_dims = projection.exemplars.shape[1]
                result = results[same[0].C, same[0].nu]
                coef, *numbers = result.coef, result.intercept, result.violation, result.n_iter
                of_dims = (values[:n_dims] for values in numbers)
                yield projection, KernelRegressor(kernel, coef[:, :n_dims], *of_dims), same


def _solve_paths(
    signatures: Signatures,
    gammas: Sequence[float],
    targets: Array,
    *,
    n_jobs: int | None,
    **options: Any,
) -> Iterator[tuple[int, NuSVRResult]]:
    """Solve paths of ν-SVRs, or read them: searches of EXEM (1NN), (1NNs) and (M) share them."""
    n_problems, (n_seen, n_dims) = len(options["C"]) * len(options["nu"]), targets.shape
    is_large = n_problems * n_seen**2 * n_dims >= _MIN_CACHED_WORK
    is_small_enough = 8 * n_problems * n_seen * n_dims <= _MAX_CACHED_BYTES
    is_cached = caches_fits(targets) and is_large and is_small_enough
    kernels = (_on_device_of(targets, rbf_similarity(signatures, gamma=gamma)) for gamma in gammas)
    if not is_cached:
        yield from nu_svr_paths(kernels, targets, n_jobs=n_jobs, **options)
        return
    for number, K in enumerate(kernels):
        results = cached_results(
            ("nu_svr_path", K, targets, options),
            partial(nu_svr_path, K, targets, n_jobs=n_jobs, **options),
            [field.name for field in fields(NuSVRResult)],
            # Solve again, with a warning, if the tolerance was not reached.
            lambda arrays: bool((arrays["violation"] <= options["tol"]).all()),
        )
        yield from ((number, NuSVRResult(**values)) for values in results)


def _on_device_of(rows: Any, array: Floats) -> Array:
    """A host array, moved to the device of `rows` if they are on one."""
    rows = getattr(rows, "source", rows)
    if not on_device(rows):
        return array
    return compat.array_namespace(rows).asarray(array, device=compat.device(rows))
