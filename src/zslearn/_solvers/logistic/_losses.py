"""The two losses of logistic regression, as Newton's method asks for them.

Scores, targets and weights are tables of one row per sample; what is summed over samples is a row.
A binary loss is one problem per column, the multinomial loss one problem in all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._solvers.svm._rows import TrainingRows
from zslearn._utils._array import Array
from zslearn._utils._blocks import row_blocks
from zslearn._utils._device import block_budget, on_device
from zslearn._utils._processes import one_blas_thread

# The rows of logistic regressions as Newton's method multiplies them: less their mean, rotated.

# Rows that are centred at a time may take so much.
_COPY_BYTES = 1 << 26
# So much of the scatter between classes counts beside that within them. Where a class is in doubt
# rows lie close together: its curvature is that of the scatter within. Where there is little of
# this, as with one row per class, a part of the rest keeps the preconditioner from being blind.
_BETWEEN = 0.1
# A mean of so much, beside the rows, is rounding.
_CENTRED = 1e-6


class CentredRows:
    """Rows less their mean, which the intercepts take up.

    Parameters
    ----------
    rows : TrainingRows
        The rows; where their labels tell classes apart, so does the preconditioner.
    spectrum : (values, vectors), optional
        That of rows like these, to be taken for theirs.
    turned : array of shape (n_samples, n_features), optional
        The rows in these vectors in single precision, all of them less any vector.
    """

    def __init__(
        self,
        rows: TrainingRows,
        spectrum: tuple[Array, Array] | None = None,
        turned: Array | None = None,
    ) -> None:
        self.rows, self.xp, self._given = rows, rows.xp, spectrum
        self._given_rows = None if spectrum is None else turned

    @cached_property
    def mean(self) -> Array:
        """Mean of the rows, as a row."""
        n_samples = self.rows.shape[0]
        return self.rows.combine(self.rows.asarray(self.xp.ones((n_samples, 1)))) / n_samples

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the rows' covariance, most of it within classes.

        In float64, though computed in the precision of the rows: these serve as preconditioner.
        """
        if self._given is not None:
            return self._given
        xp, single = self.xp, self.rows.single
        mean = xp.astype(self.mean, single.dtype)
        gram = 0.0
        for rows in self._blocks(single):
            centered = single[rows, :] - mean
            gram = gram + xp.astype(xp.matrix_transpose(centered) @ centered, xp.float64)
        gram = (gram - (1 - _BETWEEN) * self._between()) / single.shape[0]
        with one_blas_thread():
            values, vectors = xp.linalg.eigh(xp.astype(gram, single.dtype))
        values, vectors = xp.astype(values, xp.float64), xp.astype(vectors, xp.float64)
        return xp.where(values > 0, values, xp.zeros_like(values)), vectors

    def _between(self) -> Array:
        """Scatter of the class means, each as often as it has rows."""
        xp, y = self.xp, self.rows.y
        present, codes = np.unique(y, return_inverse=True)
        counts = self.rows.asarray(np.bincount(codes))[:, None]
        member = self.rows.asarray(np.eye(len(present))[codes])
        means = self.combine(member) / xp.sqrt(counts)
        return xp.matrix_transpose(means) @ means

    @cached_property
    def single(self) -> Array:
        """The rows in the eigenvectors, in single precision unless they are few."""
        given = self._given_rows
        if given is None or given.dtype != self.rows.single.dtype:
            return self._turned(self.rows.single)
        mean = self.xp.sum(given, axis=0, keepdims=True, dtype=self.xp.float64) / given.shape[0]
        # Those of all rows are centred already, but for rounding.
        if float(self.xp.max(self.xp.abs(mean))) <= _CENTRED * self.rows.mean_square**0.5:
            return given
        return given - self.xp.astype(mean, given.dtype)

    @cached_property
    def double(self) -> Array:
        """The rows in the eigenvectors, in double precision."""
        return self._turned(self.rows.double)

    def _turned(self, X: Array) -> Array:
        dtype, astype = X.dtype, self.xp.astype
        mean, vectors = astype(self.mean, dtype), astype(self.spectrum[1], dtype)
        out = self.xp.empty(X.shape, dtype=dtype, device=self.rows.device)
        for rows in self._blocks(X):
            out[rows, :] = (X[rows, :] - mean) @ vectors
        return out

    def _blocks(self, X: Array) -> list[slice]:
        """Rows a few at a time; all at once where they are few."""
        return row_blocks(X.shape[0], 2 * 8 * X.shape[1], max(block_budget(X), _COPY_BYTES))

    def scores(self, coef: Array) -> Array:
        """Inner products of the centred rows with coefficients, in float64."""
        return self.rows.scores(coef) - self.mean @ self.xp.matrix_transpose(coef)

    def combine(self, weights: Array) -> Array:
        """Sums of the centred rows under weights, in float64."""
        total = self.xp.sum(weights, axis=0)[:, None]
        return self.rows.combine(weights) - total * self.mean

    @cached_property
    def rounding(self) -> float:
        """The rounding of a sum of rows under weights that add up to one."""
        return float(np.finfo(np.float64).eps * (self.rows.shape[0] * self.rows.mean_square) ** 0.5)


# Tables of rows by classes are gone through in blocks that stay in the cache, so many bytes each.
_CACHE_BYTES = 1 << 18
# Up to so many classes the Hessian in the intercepts is inverted, which takes their third power.
_INVERTED = 1000
# Beyond, conjugate gradients reduce the residual to this share and end here at the latest: Newton's
# method and its line search make up for what is left.
_RESIDUAL = 1e-5
_MAX_CG = 100


def take_columns(x: Array, columns: NDArray[np.intp]) -> Array:
    """Columns of an array of any library, by position."""
    xp = compat.array_namespace(x)
    return xp.take(x, xp.asarray(columns, device=compat.device(x)), axis=1)


class Loss(ABC):
    """Targets of all columns, and the weights of the samples.

    Parameters
    ----------
    targets : array of shape (n_samples, n_columns)
        Probabilities to reach, float64.
    weights : array of shape (n_samples, 1) or (n_samples, n_columns)
        Non-negative; each column sums to one.
    """

    #: Whether each column is a problem of its own.
    separate: bool

    def __init__(self, targets: Array, weights: Array) -> None:
        self.targets, self.weights = targets, weights
        self.xp = compat.array_namespace(targets)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.targets.shape[1]

    def take(self, columns: NDArray[np.intp]) -> Self:
        """The loss of some columns, which must be problems of their own."""
        shared = self.weights.shape[1] == 1
        weights = self.weights if shared else take_columns(self.weights, columns)
        return type(self)(take_columns(self.targets, columns), weights)

    def over_samples(self, products: Array) -> Array:
        """Sums of a table (n_samples, n_columns) for each problem, as a row."""
        if self.separate:
            return self.xp.sum(products, axis=0, keepdims=True)
        return self.xp.reshape(self.xp.sum(products), (1, 1))

    def over_features(self, products: Array) -> Array:
        """Sums of a table (n_columns, n_features) for each problem, as a column."""
        if self.separate:
            return self.xp.sum(products, axis=1, keepdims=True)
        return self.xp.reshape(self.xp.sum(products), (1, 1))

    def residual(self, probabilities: Array) -> Array:
        """Derivative of the loss in the scores."""
        return self.weights * (probabilities - self.targets)

    def intercept_slope(self, probabilities: Array) -> Array:
        """Derivative of the loss in the intercepts, as a row."""
        return self.xp.sum(self.residual(probabilities), axis=0, keepdims=True)

    @abstractmethod
    def line(self, scores: Array, moved: Array) -> Callable[[Array], tuple[Array, Array]]:
        """First and second derivative of the loss along a change of the scores, by its length."""

    def blocks(self) -> list[slice]:
        """Rows of which tables stay in the cache."""
        n_samples, n_columns = self.targets.shape
        if on_device(self.targets):
            return [slice(0, n_samples)]
        return row_blocks(n_samples, 8 * n_columns, _CACHE_BYTES)

    @abstractmethod
    def start(self) -> Array:
        """The best intercepts where all coefficients are zero, as a row."""

    @cached_property
    def at_zero(self) -> Array:
        """The loss of each problem at zero coefficients with the best intercepts, as a row."""
        xp, intercept = self.xp, self.start()
        share = xp.sum(self.weights * self.targets, axis=0, keepdims=True)
        return self._mean_loss(intercept, share)

    @abstractmethod
    def _mean_loss(self, intercept: Array, share: Array) -> Array:
        """The loss where all rows score alike, of which these shares belong to the columns."""

    @abstractmethod
    def values(self, scores: Array) -> tuple[Array, Array]:
        """The loss of each problem, as a row, and the probabilities."""

    @abstractmethod
    def hessian(self, probabilities: Array, dtype: object = None) -> Hessian:
        """Second derivatives in the scores, in float64 or another dtype."""

    def level(self, probabilities: Array) -> Array:
        """Mean curvature of each column, as a row."""
        diagonal = self.weights * probabilities * (1 - probabilities)
        return self.xp.sum(diagonal, axis=0, keepdims=True)


class Hessian(ABC):
    """Second derivatives of a loss in the scores, at one point."""

    @abstractmethod
    def times(self, moved: Array) -> Array:
        """Product with a change of the scores, (n_samples, n_columns)."""

    @abstractmethod
    def intercept_solve(self, slope: Array) -> Array:
        """The Hessian in the intercepts, inverted, times a row."""

    @abstractmethod
    def take(self, columns: NDArray[np.intp]) -> Hessian:
        """That of some columns, which must be problems of their own."""


class BinaryLoss(Loss):
    """Σ κ (log(1 + eᶠ) − y f) of each column."""

    separate = True

    def start(self) -> Array:
        """Log-odds of the mean targets."""
        mean = self.xp.sum(self.weights * self.targets, axis=0, keepdims=True)
        return self.xp.log(mean) - self.xp.log1p(-mean)

    def _mean_loss(self, intercept: Array, share: Array) -> Array:
        xp = self.xp
        softplus = xp.log1p(xp.exp(-xp.abs(intercept))) + xp.clip(intercept, min=0.0)
        return softplus - share * intercept

    def values(self, scores: Array) -> tuple[Array, Array]:
        """See :meth:`Loss.values`."""
        xp, value = self.xp, 0.0
        probabilities = xp.empty_like(scores)
        for rows in self.blocks():
            block = scores[rows, :]
            small = xp.exp(-xp.abs(block))  # e^−|f| neither overflows nor loses what log1p needs
            softplus = xp.log1p(small) + xp.clip(block, min=0.0)
            share = small / (1 + small)
            probabilities[rows, :] = xp.where(block < 0, share, 1 - share)
            losses = softplus - self.targets[rows, :] * block
            value = value + self.over_samples(self.weights[rows, :] * losses)
        return value, probabilities

    def line(self, scores: Array, moved: Array) -> Callable[[Array], tuple[Array, Array]]:
        """See :meth:`Loss.line`: Σκ(p − y)m and Σκ p(1 − p)m²."""

        def derivatives(length: Array) -> tuple[Array, Array]:
            first, second = 0.0, 0.0
            for rows in self.blocks():
                change = moved[rows, :]
                block = scores[rows, :] + length * change
                small = self.xp.exp(-self.xp.abs(block))
                share = small / (1 + small)
                probabilities = self.xp.where(block < 0, share, 1 - share)
                weighted = self.weights[rows, :] * change
                first = first + self.over_samples(
                    weighted * (probabilities - self.targets[rows, :])
                )
                curved = probabilities * (1 - probabilities) * change
                second = second + self.over_samples(weighted * curved)
            return first, second

        return derivatives

    def hessian(self, probabilities: Array, dtype: object = None) -> Hessian:
        """See :meth:`Loss.hessian`."""
        return _BinaryHessian(_cast(self.weights * probabilities * (1 - probabilities), dtype))


class _BinaryHessian(Hessian):
    """Diagonal, κ p (1 − p)."""

    def __init__(self, diagonal: Array) -> None:
        self.diagonal = diagonal

    def times(self, moved: Array) -> Array:
        return self.diagonal * moved

    def intercept_solve(self, slope: Array) -> Array:
        xp = compat.array_namespace(slope)
        return slope / nonzero(xp.sum(self.diagonal, axis=0, keepdims=True))

    def take(self, columns: NDArray[np.intp]) -> Hessian:
        return _BinaryHessian(take_columns(self.diagonal, columns))


class SoftmaxLoss(Loss):
    """Σ κ (log Σ_c exp f_c − f_y)."""

    separate = False
    _last: tuple[Array, object, Hessian] | None = None

    def start(self) -> Array:
        """Logarithms of the classes' shares, centred."""
        share = self.xp.sum(self.weights * self.targets, axis=0, keepdims=True)
        logs = self.xp.log(share)
        return logs - self.xp.mean(logs)

    def _mean_loss(self, intercept: Array, share: Array) -> Array:
        xp = self.xp
        top = xp.max(intercept)
        total = xp.log(xp.sum(xp.exp(intercept - top))) + top
        return xp.reshape(total - xp.sum(share * intercept), (1, 1))

    def values(self, scores: Array) -> tuple[Array, Array]:
        """See :meth:`Loss.values`."""
        xp, value = self.xp, 0.0
        probabilities = xp.empty_like(scores)
        for rows in self.blocks():
            block = scores[rows, :]
            top = xp.max(block, axis=1, keepdims=True)
            powers = xp.exp(block - top)
            total = xp.sum(powers, axis=1, keepdims=True)
            probabilities[rows, :] = powers / total
            wanted = xp.vecdot(self.targets[rows, :], block)[:, None]
            value = value + self.over_samples(
                self.weights[rows, :] * (xp.log(total) + top - wanted)
            )
        return value, probabilities

    def intercept_slope(self, probabilities: Array) -> Array:
        """See :meth:`Loss.intercept_slope`."""
        return self.xp.matrix_transpose(self.weights) @ probabilities - self._mass

    @cached_property
    def _mass(self) -> Array:
        """The weighted sum of the targets, as a row."""
        return self.xp.matrix_transpose(self.weights) @ self.targets

    def line(self, scores: Array, moved: Array) -> Callable[[Array], tuple[Array, Array]]:
        """See :meth:`Loss.line`: Σκ(Σ_c p m − Σ_c y m), and Σκ times the variance of m under p."""
        xp = self.xp
        wanted = self.over_samples(self.weights * xp.vecdot(self.targets, moved)[:, None])

        def derivatives(length: Array) -> tuple[Array, Array]:
            first, second = -wanted, 0 * wanted
            for rows in self.blocks():
                change, weights = moved[rows, :], self.weights[rows, :]
                block = scores[rows, :] + length * change
                powers = xp.exp(block - xp.max(block, axis=1, keepdims=True))
                total = xp.sum(powers, axis=1, keepdims=True)
                mean = xp.vecdot(powers, change)[:, None] / total
                apart = change - mean
                variance = xp.vecdot(powers, apart * apart)[:, None] / total
                first = first + self.over_samples(weights * mean)
                second = second + self.over_samples(weights * variance)
            return first, second

        return derivatives

    def hessian(self, probabilities: Array, dtype: object = None) -> Hessian:
        """See :meth:`Loss.hessian`; that of the last probabilities is kept."""
        if self._last is None or self._last[0] is not probabilities or self._last[1] != dtype:
            hessian = _SoftmaxHessian(_cast(probabilities, dtype), _cast(self.weights, dtype))
            self._last = probabilities, dtype, hessian
        return self._last[2]


class _SoftmaxHessian(Hessian):
    """κ (diag(p) − p pᵀ) of each sample."""

    def __init__(self, probabilities: Array, weights: Array) -> None:
        self.probabilities, self.weights = probabilities, weights
        self.xp = compat.array_namespace(probabilities)

    def times(self, moved: Array) -> Array:
        product = moved - self.xp.vecdot(self.probabilities, moved)[:, None]
        product *= self._weighted
        return product

    @cached_property
    def _weighted(self) -> Array:
        return self.weights * self.probabilities

    def intercept_solve(self, slope: Array) -> Array:
        xp = self.xp
        if slope.shape[1] > _INVERTED:
            solution = self._by_gradients(slope)
        else:
            solution = xp.matrix_transpose(self._inverse @ xp.matrix_transpose(slope))
        return solution - xp.mean(solution)

    def take(self, columns: NDArray[np.intp]) -> Hessian:
        raise TypeError("The classes of a softmax regression are one problem.")

    def _by_gradients(self, slope: Array) -> Array:
        """The same by conjugate gradients, with the diagonal Σκp as preconditioner.

        The matrix does not see a shift of all intercepts, and a slope has no part along it.
        """
        xp, probabilities = self.xp, self.probabilities
        ridge = 1e-7 / slope.shape[1]
        diagonal = self._diagonal + ridge
        residual = slope - xp.mean(slope)
        solution, guided = xp.zeros_like(residual), residual / diagonal
        search = guided
        power = first = float(xp.sum(residual * guided))
        for _ in range(_MAX_CG):
            if power <= _RESIDUAL**2 * first:
                break
            mean = self.weights * (probabilities @ xp.matrix_transpose(search))
            product = diagonal * search - xp.matrix_transpose(mean) @ probabilities
            curved = float(xp.sum(search * product))
            if curved <= 0:
                break
            length = power / curved
            solution = solution + length * search
            residual = residual - length * product
            guided = residual / diagonal
            renewed = float(xp.sum(residual * guided))
            search = guided + (renewed / power) * search
            power = renewed
        return solution

    @cached_property
    def _diagonal(self) -> Array:
        """Σκp of each class, as a row."""
        return self.xp.matrix_transpose(self.weights) @ self.probabilities

    @cached_property
    def _inverse(self) -> Array:
        """Inverse of diag(Σκp) − Σκppᵀ, which by itself does not see a shift of all intercepts."""
        xp = self.xp
        weighted = self._weighted
        diagonal = xp.astype(xp.sum(weighted, axis=0), xp.float64)
        outer = xp.astype(xp.matrix_transpose(weighted) @ self.probabilities, xp.float64)
        n = outer.shape[0]
        eye = xp.eye(n, dtype=xp.float64, device=compat.device(outer))
        # The first term added fixes the shift, the second keeps separated classes regular.
        fixed = eye * diagonal[None, :] - outer + 1 / n**2 + (1e-7 / n) * eye
        return xp.astype(xp.linalg.inv(fixed), weighted.dtype)


def _cast(x: Array, dtype: object) -> Array:
    xp = compat.array_namespace(x)
    return x if dtype is None else xp.astype(x, dtype, copy=False)


def nonzero(x: Array) -> Array:
    """`x` with ones in the place of zeros, to divide by."""
    xp = compat.array_namespace(x)
    return xp.where(x != 0, x, xp.ones_like(x))
