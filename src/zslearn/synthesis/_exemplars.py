r"""Exemplars of the seen classes, and regressors that predict those of any class (eEXEMlearn).

The exemplar of a class is the mean of its projected samples; one regressor per dimension learns
:math:`\psi(a_c) \approx z_c`. Settings of a grid share the samples' statistics, the widest
projection, of which narrower ones are the first dimensions, and for each kernel one path of ν-SVRs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from zslearn._solvers._class_sums import class_squares
from zslearn._solvers.nu_svr._path import NuSVRResult, nu_svr_path, nu_svr_paths
from zslearn._utils._array import Array, Floats, move_like, to_numpy
from zslearn._utils._device import on_device
from zslearn._utils._files import saved_part
from zslearn._utils._fit_cache import keeps_fits, kept_fit
from zslearn._utils._folds import class_folds
from zslearn._utils._messages import InputWarning, warn_user
from zslearn._version import __version__
from zslearn.base._training import RowSpectrum, Training
from zslearn.base._variants import group_by_params
from zslearn.signatures._kernels import rbf_similarity
from zslearn.signatures._views import Signatures
from zslearn.synthesis._regressors import (
    ExemplarMLP,
    KernelNuSVR,
    KernelRidge,
    SharedKernel,
    SignatureRegressor,
    gaussian_process,
)
from zslearn.synthesis._statistics import ClassStatistics

if TYPE_CHECKING:
    from zslearn.synthesis._exem import EXEM

# ν-SVRs that several searches have in common.
#
# EXEM (1NN), EXEM (1NNs) and the first step of EXEM under another method solve the same problems
# in
# the same folds: exemplars and signatures are the same, and only what becomes of them differs.

# A path is kept if it has so many problems times squared classes times dimensions, which takes
# longer than to read it, and if its coefficients take no more bytes: they would push others out.
_WORTH_KEEPING = 2e7
_MAX_BYTES = 1 << 26
_FIELDS = tuple(field.name for field in fields(NuSVRResult))


def shared_nu_svr_paths(
    kernels: Iterable[Array],
    targets: Array,
    *,
    C: Sequence[float],
    nu: Sequence[float],
    tol: float,
    **options: Any,
) -> Iterator[tuple[int, NuSVRResult]]:
    """:func:`~zslearn._solvers.nu_svr._path.nu_svr_paths`, whose results other searches may read."""
    n_problems = len(set(C)) * len(set(nu))
    n_seen, n_dims = targets.shape
    is_large = n_problems * n_seen**2 * n_dims >= _WORTH_KEEPING
    if not (keeps_fits(targets) and is_large and 8 * n_problems * targets.size <= _MAX_BYTES):
        yield from nu_svr_paths(kernels, targets, C=C, nu=nu, tol=tol, **options)
        return
    for number, K in enumerate(kernels):
        for result in _kept_path(
            K, targets, C=sorted(set(C)), nu=sorted(set(nu)), tol=tol, **options
        ):
            yield number, result


def _kept_path(
    K: Floats, targets: Floats, *, n_jobs: int | None = None, **settings: Any
) -> Iterator[NuSVRResult]:
    arrays = kept_fit(
        ("nu_svr_path", __version__, K, targets, settings),
        lambda: _as_arrays(list(nu_svr_path(K, targets, n_jobs=n_jobs, **settings))),
        # Solving once more says what did not reach the tolerance.
        lambda arrays: bool((arrays["violation"] <= settings["tol"]).all()),
    )
    for values in zip(*(arrays[name] for name in _FIELDS), strict=True):
        yield NuSVRResult(*(value.item() if value.ndim == 0 else value for value in values))


def _as_arrays(results: list[NuSVRResult]) -> dict[str, NDArray[Any]]:
    """Results as arrays, one of each field."""
    return {
        name: np.stack([np.asarray(getattr(result, name)) for result in results])
        for name in _FIELDS
    }


#: More components than the samples have are clipped without a word only for this number.
DEFAULT_COMPONENTS = 500
_NESTED_FOLDS = 5
# Rows on a device have their ν-SVRs solved there from so many settings on, down to this tolerance:
# fewer leave the device idle, and its method takes long to come nearer to the optimum.
_DEVICE_SETTINGS = 16
_DEVICE_TOLERANCE = 1e-4
# What predicted exemplars depend on.
_OF_EXEMPLARS = (
    "n_components",
    "C",
    "nu",
    "gamma",
    "regressor",
    "nested",
    "tol",
    "max_iter",
    "n_jobs",
    "random_state",
)


@saved_part
@dataclass(frozen=True, eq=False)
class Projection:
    """Principal components of the samples, and the real exemplars along them.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        What is taken from samples; zeros without components.
    components : ndarray of shape (n_dims, n_features) or None
        Directions; None leaves samples as they are.
    exemplars : ndarray of shape (n_seen, n_dims)
        Means of the projected samples of each class.
    """

    mean: Floats
    components: Floats | None
    exemplars: Floats

    @classmethod
    def of(
        cls,
        statistics: ClassStatistics,
        n_components: int | None,
        like: Array = None,
        spectrum: RowSpectrum | None = None,
    ) -> Projection:
        """Learn from statistics of the samples; beside `like` where it lies on a device."""
        if n_components is None:
            return cls(np.zeros(statistics.n_features), None, statistics.means)
        components, _ = statistics.principal_components(n_components, like=like, spectrum=spectrum)
        mean = statistics.mean
        return cls(mean, components, (statistics.means - mean) @ components.T)

    def first(self, n_components: int | None) -> Projection:
        """The first dimensions alone."""
        if self.components is None or n_components is None:
            return self
        return Projection(
            self.mean, self.components[:n_components], self.exemplars[:, :n_components]
        )

    def __call__(self, X: Array) -> Array:
        """Project rows of any library."""
        if self.components is None:
            return X
        centered = X - move_like(self.mean, X)[None, :]
        return centered @ move_like(self.components.T, X)


class ExemplarSpaces:
    """Projections of one set of samples and the deviations along them, each computed once.

    Parameters
    ----------
    training : Training
        Samples and signatures; it has no rows where the statistics are all that is known.
    statistics : ClassStatistics
        Of the samples.
    widths : sequence of (int or None)
        Values of `n_components`.
    """

    def __init__(
        self,
        training: Training,
        statistics: ClassStatistics,
        widths: Sequence[int | None],
    ) -> None:
        self.training = training
        numbers = [width for width in widths if width is not None]
        # The first components of a wider projection are the narrower one: the widest serves all.
        rows = getattr(training.rows, "source", None)
        self._widest = None
        if numbers:
            spectrum = training.spectrum(center=True) if training.keeps_sums else None
            self._widest = Projection.of(statistics, max(numbers), rows, spectrum)
        self._whole = Projection.of(statistics, None)
        #: Without the scatter, which projections alone are made of.
        self.statistics = replace(statistics, scatter=np.empty((0, 0)))
        # Methods that are called with few arguments; the same object comes for the same width.
        self.projection = cache(self._projection)
        self.within_std = cache(self._within_std)

    def widest(self, width: int | None) -> Projection:
        """The projection that the one of this width is a part of."""
        return self._whole if width is None or self._widest is None else self._widest

    def _projection(self, width: int | None) -> Projection:
        projection = self.widest(width).first(width)
        if width is not None and projection.exemplars.shape[1] < width != DEFAULT_COMPONENTS:
            warn_user(
                f"n_components={width} is more than the rank of the training samples; "
                f"{projection.exemplars.shape[1]} are used.",
                InputWarning,
            )
        return projection

    def _within_std(self, width: int | None) -> Floats:
        """Deviations within classes, averaged over those with at least two samples."""
        by_class = self._deviations(self.projection(width).components)
        counted = by_class[~np.isnan(by_class).any(axis=1)]
        if not len(counted):
            warn_user(
                "No seen class has two samples, so that there is no deviation within classes to "
                'standardise by; distance="standardized" is then the Euclidean one.',
                InputWarning,
            )
            return np.ones(by_class.shape[1])
        std = counted.mean(axis=0)
        # Rounding leaves a little where there is nothing.
        return np.where(std > 1e-12 * max(std.max(), 1e-300), std, 1.0)

    def _deviations(self, components: Floats | None) -> Floats:
        """Standard deviations (ddof=1) of each class; NaN for a class of one sample."""
        if components is None or not self.training.rows.shape[0]:
            return self.statistics.standard_deviations(components)
        squares = class_squares(
            self.training.rows,
            self.training.y,
            self.statistics.means,
            components.T,
            sample_weight=self.training.weights,
        )
        sizes = self.statistics.sizes
        return np.sqrt(to_numpy(squares) / np.where(sizes > 1, sizes - 1, np.nan)[:, None])


@saved_part
@dataclass(frozen=True, eq=False)
class Exemplars:
    """Real exemplars of the seen classes, and what predicts those of any class.

    Parameters
    ----------
    projection : Projection
        The space they lie in.
    regressor : object
        Fitted, with `predict`.
    held_out : tuple or None
        Labels of the seen classes, and exemplars by regressors that did not see each of them.
    predicted : ndarray of shape (n_seen, n_dims), optional
        Predicted exemplars of the seen classes; None where nobody has asked for them: most models
        of a search are never asked.
    """

    projection: Projection
    regressor: Any
    held_out: tuple[NDArray[Any], Floats] | None
    predicted: Floats | None = None

    def of_seen(self) -> Floats:
        """Predicted exemplars of the seen classes."""
        if self.predicted is not None:
            return self.predicted
        return to_numpy(self.regressor.predict(self.regressor.kernel.seen))

    def predict(self, signatures: Signatures, labels: NDArray[Any] | None) -> Array:
        """Predict exemplars; those held out go by the names of classes."""
        exemplars = self.regressor.predict(signatures)
        if self.held_out is not None and labels is not None:
            rows = {label: row for row, label in enumerate(self.held_out[0].tolist())}
            for position, label in enumerate(labels.tolist()):
                if label in rows:
                    exemplars[position] = self.held_out[1][rows[label]]
        return exemplars


def learn_exemplars(
    spaces: ExemplarSpaces, models: Sequence[EXEM]
) -> Iterator[tuple[Exemplars, list[EXEM]]]:
    """Learn the exemplars of estimators that differ in hyper-parameters."""
    training = spaces.training
    for group in group_by_params(models, "regressor", "nested", "tol", "max_iter", "n_jobs"):
        first = group[0]
        if isinstance(first.regressor, str) and first.regressor == "svr" and not first.nested:
            yield from _paths(spaces, group)
            continue
        for same in group_by_params(group, *_OF_EXEMPLARS):
            projection = spaces.projection(same[0].n_components)
            regressor = new_regressor(same[0]).fit(training.signatures, projection.exemplars)
            held_out = None
            predicted = regressor.predict(training.signatures)
            if same[0].nested:
                predicted = _predict_out_of_fold(same[0], training.signatures, projection.exemplars)
                held_out = training.classes, predicted
            yield Exemplars(projection, regressor, held_out, predicted), same


def _paths(
    spaces: ExemplarSpaces, models: Sequence[EXEM]
) -> Iterator[tuple[Exemplars, list[EXEM]]]:
    """Models that are solved together: in one space, for the same settings, over some kernels."""
    together: dict[Any, list[list[EXEM]]] = {}
    for of_kernel in group_by_params(models, "gamma"):
        projected = [model for model in of_kernel if model.n_components is not None]
        whole = [model for model in of_kernel if model.n_components is None]
        for part in filter(None, (whole, projected)):
            settings = frozenset(m.C for m in part), frozenset(m.nu for m in part)
            together.setdefault((part is whole, settings), []).append(part)
    for groups in together.values():
        yield from _path(spaces, groups)


def _path(
    spaces: ExemplarSpaces, groups: Sequence[list[EXEM]]
) -> Iterator[tuple[Exemplars, list[EXEM]]]:
    """Settings of each kernel: one path of ν-SVRs, then a width and a distance at a time.

    Embeddings, which depend on these, change as seldom as possible.
    """
    signatures = spaces.training.signatures
    first = groups[0][0]
    settings = {"C": [model.C for model in groups[0]], "nu": [model.nu for model in groups[0]]}
    n_problems = sum(len(group_by_params(group, "C", "nu")) for group in groups)
    targets = spaces.widest(first.n_components).exemplars
    if first.tol >= _DEVICE_TOLERANCE and n_problems >= _DEVICE_SETTINGS:
        targets = _beside(spaces.training.rows, targets)
    kernels = (rbf_similarity(signatures, gamma=group[0].gamma) for group in groups)
    solved = shared_nu_svr_paths(
        (_beside(targets, K) for K in kernels),
        targets,
        **settings,
        tol=first.tol,
        max_iter=first.max_iter,
        n_jobs=first.n_jobs,
    )
    for number, found in groupby(solved, key=itemgetter(0)):
        results = {(result.C, result.nu): result for _, result in found}
        group = groups[number]
        kernel = SharedKernel(signatures, group[0].gamma)
        group.sort(key=lambda model: (model.n_components or 0, model.distance))
        for same in group_by_params(group, "n_components", "distance", "C", "nu"):
            projection = spaces.projection(same[0].n_components)
            regressor = new_regressor(same[0])
            n_dims = projection.exemplars.shape[1]
            regressor.take(kernel, results[same[0].C, same[0].nu], n_dims)
            yield Exemplars(projection, regressor, None), same


def _beside(rows: Any, array: Floats) -> Array:
    """An array of the host where rows are, if that is a device."""
    rows = getattr(rows, "source", rows)
    if not on_device(rows):
        return array
    return compat.array_namespace(rows).asarray(array, device=compat.device(rows))


def new_regressor(model: EXEM) -> Any:
    """The regressor that an estimator names, not fitted."""
    if not isinstance(model.regressor, str):
        return SignatureRegressor(model.regressor, model.gamma)
    if model.regressor == "svr":
        return KernelNuSVR(model.C, model.nu, model.gamma, model.tol, model.max_iter, model.n_jobs)
    if model.regressor == "krr":
        return KernelRidge(model.C, model.gamma)
    if model.regressor == "gp":
        return SignatureRegressor(gaussian_process(model.gamma, model.random_state), model.gamma)
    return SignatureRegressor(ExemplarMLP(random_state=model.random_state), model.gamma)


def _predict_out_of_fold(model: EXEM, signatures: Signatures, exemplars: Floats) -> Floats:
    """Exemplars of the seen classes, each by regressors that saw the other folds only."""
    n_seen = len(signatures)
    rng = check_random_state(model.random_state)
    out = np.empty_like(exemplars)
    for fold in class_folds(rng.permutation(n_seen), min(_NESTED_FOLDS, n_seen)):
        rest = np.setdiff1d(np.arange(n_seen), fold)
        regressor = new_regressor(model).fit(signatures[rest], exemplars[rest])
        out[fold] = regressor.predict(signatures[fold])
    return out
