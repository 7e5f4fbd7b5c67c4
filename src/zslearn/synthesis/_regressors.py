r"""From signatures to exemplars: the regressors that EXEM can use.

A regressor has `fit(signatures, exemplars)` and `predict(signatures)`. Those over the RBF kernel
take signatures of several views and combine their kernels; the others see the views side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from zslearn._solvers.nu_svr._path import NuSVRResult, nu_svr
from zslearn._utils._array import Array, Floats, is_foreign, move_like, to_numpy
from zslearn._utils._files import saved_part
from zslearn._utils._optional import import_optional
from zslearn._utils._validation import checks_parameters
from zslearn.signatures._kernels import rbf_similarity
from zslearn.signatures._views import side_by_side

if TYPE_CHECKING:
    from sklearn.gaussian_process import GaussianProcessRegressor

# What a solution has for each target, along its last axis.
_OF_TARGETS = ("coef", "intercept", "epsilon", "violation", "n_iter")


@saved_part
class SharedKernel:
    """RBF kernel between any classes and the seen ones; the last two that were made are kept.

    Settings of a grid that share it ask in turns for the seen classes and for all described ones.

    Parameters
    ----------
    seen : ndarray or SignatureViews
        Normalised signatures of the seen classes.
    gamma : float
        1/σ².
    """

    def __init__(self, seen: Any, gamma: float) -> None:
        self.seen = seen
        self.gamma = gamma
        self._last: tuple[tuple[Floats, Floats], ...] | None = None
        self._moved: tuple[Floats, Array] | None = None

    def beside(self, signatures: Any, like: Array) -> Array:
        """Kernel of shape (n_classes, n_seen), where another array is."""
        kernel = self(signatures)
        if not is_foreign(like):
            return kernel
        latest = self._moved
        if latest is None or latest[0] is not kernel:
            self._moved = latest = kernel, move_like(kernel, like)
        return latest[1]

    def __call__(self, signatures: Any) -> Floats:
        """Kernel of shape (n_classes, n_seen), on the host."""
        rows = side_by_side(signatures)
        latest = self._last or ()  # read once: another thread may replace it
        for known, kernel in latest:
            if known is rows or np.array_equal(known, rows):
                return kernel
        kernel = rbf_similarity(signatures, self.seen, gamma=self.gamma)
        self._last = (*latest[-1:], (rows, kernel))
        return kernel

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None, "_moved": None}


@saved_part
class KernelNuSVR:
    """One ν-SVR per dimension over the RBF kernel of the signatures (the paper's eEXEMlearn).

    Parameters
    ----------
    C, nu, gamma : float
        Penalty, ν, and 1/σ² of the kernel.
    tol : float
        Largest violation of the optimality conditions.
    max_iter : int
        Steps per dimension at most.
    n_jobs : int or None
        Threads.
    """

    def __init__(
        self, C: float, nu: float, gamma: float, tol: float, max_iter: int, n_jobs: int | None
    ) -> None:
        self.C = C
        self.nu = nu
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    def fit(self, signatures: Any, exemplars: Floats) -> Self:
        """Learn from the seen classes."""
        self.kernel = SharedKernel(signatures, self.gamma)
        self.result: NuSVRResult = nu_svr(
            rbf_similarity(signatures, gamma=self.gamma),
            exemplars,
            C=self.C,
            nu=self.nu,
            tol=self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
        )
        return self

    def take(self, kernel: SharedKernel, result: NuSVRResult, n_dims: int) -> None:
        """Take over the first dimensions of a solution for this setting."""
        self.kernel = kernel
        parts = {name: getattr(result, name)[..., :n_dims] for name in _OF_TARGETS}
        self.result = replace(result, **parts)

    def predict(self, signatures: Any) -> Array:
        """Predict exemplars, where the coefficients are."""
        return self.result.predict(self.kernel.beside(signatures, self.result.coef))

    def __getstate__(self) -> dict[str, Any]:
        # A file or another process knows nothing of this one's device.
        parts: Any = {name: to_numpy(getattr(self.result, name)) for name in _OF_TARGETS}
        return {**self.__dict__, "result": replace(self.result, **parts)}

    def seen_weights(self, signatures: Any) -> Floats:
        """How much each seen class counts: k(a, a_c) ‖β_c‖."""
        return self.kernel(signatures) * np.linalg.norm(to_numpy(self.result.coef), axis=1)


@saved_part
class KernelRidge:
    r"""Kernel ridge regression around the mean exemplar, :math:`\alpha = 1/(2C)`.

    Parameters
    ----------
    C, gamma : float
        Penalty in the units of the ν-SVR, and 1/σ² of the kernel.
    """

    def __init__(self, C: float, gamma: float) -> None:
        self.C = C
        self.gamma = gamma

    def fit(self, signatures: Any, exemplars: Floats) -> Self:
        """Learn from the seen classes."""
        self.signatures = signatures
        self.mean = exemplars.mean(axis=0)
        kernel = rbf_similarity(signatures, gamma=self.gamma)
        kernel[np.diag_indices_from(kernel)] += 1 / (2 * self.C)
        self.coef = scipy.linalg.solve(kernel, exemplars - self.mean, assume_a="pos")
        return self

    def predict(self, signatures: Any) -> Floats:
        """Predict exemplars."""
        return rbf_similarity(signatures, self.signatures, gamma=self.gamma) @ self.coef + self.mean

    def seen_weights(self, signatures: Any) -> Floats:
        """How much each seen class counts: k(a, a_c) ‖β_c‖."""
        kernel = rbf_similarity(signatures, self.signatures, gamma=self.gamma)
        return kernel * np.linalg.norm(self.coef, axis=1)


@saved_part
class SignatureRegressor:
    """Any regressor of scikit-learn's manners, over signatures or over their kernel.

    Parameters
    ----------
    estimator : regressor
        With several outputs. One whose parameter `kernel` is "precomputed" gets the RBF kernel.
    gamma : float
        1/σ² of that kernel.
    """

    def __init__(self, estimator: Any, gamma: float) -> None:
        self.estimator = clone(estimator)
        self.gamma = gamma
        params = self.estimator.get_params() if hasattr(self.estimator, "get_params") else {}
        self.over_kernel = params.get("kernel") == "precomputed"

    def fit(self, signatures: Any, exemplars: Floats) -> Self:
        """Learn from the seen classes."""
        if self.over_kernel:
            self.signatures = signatures
            self.estimator.fit(rbf_similarity(signatures, gamma=self.gamma), exemplars)
        else:
            self.estimator.fit(side_by_side(signatures), exemplars)
        self.shape = exemplars.shape
        return self

    def predict(self, signatures: Any) -> Floats:
        """Predict exemplars."""
        if self.over_kernel:
            rows = rbf_similarity(signatures, self.signatures, gamma=self.gamma)
        else:
            rows = side_by_side(signatures)
        # A single output may come back without its axis.
        return np.asarray(self.estimator.predict(rows), float).reshape(len(rows), self.shape[1])


def gaussian_process(gamma: float, random_state: Any) -> GaussianProcessRegressor:
    """Gaussian process whose amplitude, width and noise are found by marginal likelihood."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    width = 1 / np.sqrt(2 * gamma)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(width, (0.05 * width, 20 * width))
    kernel = kernel + WhiteKernel(0.1, (1e-5, 1e2))
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=random_state)


class ExemplarMLP(RegressorMixin, BaseEstimator):
    r"""Two-layer perceptron from signatures to exemplars (the paper's eqMLP).

    .. math:: \min_{W_1, W_2} \frac{1}{S} \sum_c \|v_c - W_2 \, \mathrm{ReLU}(W_1 a_c)\|_2^2
              + \lambda \left(\|W_1\|_F^2 + \|W_2\|_F^2\right),

    by Adam on all classes at once. Needs the `torch` extra to fit; a fitted one does not.

    Parameters
    ----------
    hidden_size : int, default=700
        Hidden units; the paper takes 300 for AwA and 700 for CUB.
    alpha : float, default=1e-4
        λ, the weight of the ℓ2 penalty.
    learning_rate : float, default=1e-4
        Step of Adam, the paper's.
    max_iter : int, default=3000
        Steps; the paper does not say how many.
    device : {"cpu", "cuda"} or None, default=None
        Where it is trained. None is a GPU where torch finds one, else the CPU. The first weights do
        not depend on it; later ones do by rounding. A fitted one is on no device.
    random_state : int, RandomState or None, default=0
        Decides the first weights.

    Attributes
    ----------
    coefs_ : list of two ndarrays
        W₁ᵀ and W₂ᵀ.
    loss_curve_ : ndarray of shape (max_iter,)
        The objective before each step.
    n_features_in_ : int
        Length of a signature.

    See Also
    --------
    EXEM : Takes it as `regressor`.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import EXEM, ExemplarMLP
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM(regressor=ExemplarMLP(hidden_size=300))
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "device": [StrOptions({"cpu", "cuda"}), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        hidden_size: int = 700,
        *,
        alpha: float = 1e-4,
        learning_rate: float = 1e-4,
        max_iter: int = 3000,
        device: str | None = None,
        random_state: Any = 0,
    ) -> None:
        self.hidden_size = hidden_size
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.device = device
        self.random_state = random_state

    @checks_parameters()
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array-like of shape (n_classes, n_attributes)
            Signatures.
        y : array-like of shape (n_classes, n_dims)
            Exemplars.

        Returns
        -------
        self
            The fitted perceptron.
        """
        torch = import_optional("torch", 'regressor="mlp"')
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        targets = y.reshape(len(X), -1)
        self._one_output = y.ndim == 1
        rng = check_random_state(self.random_state)
        sizes = [(X.shape[1], self.hidden_size), (self.hidden_size, targets.shape[1])]
        # The first outputs are small beside exemplars, which lie within the unit ball. By leaving
        # out seen classes of CUB: 0.01 to 0.3 give 0.678 to 0.686 (± 0.04 over folds), 1 0.661.
        scales = [np.sqrt(2 / X.shape[1]), 0.1 / np.sqrt(self.hidden_size)]
        place = _training_device(torch, self.device)
        weights = [
            torch.tensor(rng.normal(size=size) * scale, requires_grad=True, device=place)
            for size, scale in zip(sizes, scales, strict=True)
        ]
        signatures = torch.tensor(X, device=place)
        exemplars = torch.tensor(targets, device=place)
        optimizer = torch.optim.Adam(weights, lr=self.learning_rate)
        # Kept beside the weights: a GPU would wait for each number that is read.
        losses = torch.empty(self.max_iter, dtype=torch.float64, device=place)
        with _threads_for(torch, len(X) * sum(a * b for a, b in sizes)):
            for step in range(self.max_iter):
                optimizer.zero_grad()
                error = torch.relu(signatures @ weights[0]) @ weights[1] - exemplars
                penalty = (weights[0] ** 2).sum() + (weights[1] ** 2).sum()
                loss = (error**2).sum(dim=1).mean() + self.alpha * penalty
                loss.backward()
                optimizer.step()
                losses[step] = loss.detach()
        self.coefs_ = [weight.detach().cpu().numpy() for weight in weights]
        self.loss_curve_ = losses.cpu().numpy()
        return self

    def predict(self, X: Any) -> Floats:
        """Predict exemplars.

        Parameters
        ----------
        X : array-like of shape (n_classes, n_attributes)
            Signatures.

        Returns
        -------
        ndarray of shape (n_classes, n_dims)
            Exemplars.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        out = np.maximum(X @ self.coefs_[0], 0) @ self.coefs_[1]
        return out[:, 0] if self._one_output else out


def _training_device(torch: ModuleType, device: str | None) -> str:
    """Where the perceptron is trained."""
    found = torch.cuda.is_available()
    if device == "cuda" and not found:
        raise ValueError('device="cuda", but torch finds no GPU. Take "cpu" or None.')
    return device or ("cuda" if found else "cpu")


@contextmanager
def _threads_for(torch: ModuleType, work: int) -> Iterator[None]:
    """One thread for products so small that starting a second costs more than it saves."""
    before = torch.get_num_threads()
    try:
        if work < 1_000_000:
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)
