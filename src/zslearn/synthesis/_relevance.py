r"""Learn the weights of signature views, and of directions within them, for Gaussian EXEM.

The kernel between two classes is

.. math:: k(a, a') = \sum_v w_v \exp\bigl(-g_v \, (a_v - a'_v)^\top M_v (a_v - a'_v)\bigr), \qquad
          M_v = I + Q_v \, \mathrm{diag}(e^{t_v} - 1) \, Q_v^\top,

with weights w of the views that sum to one, a width :math:`g_v` per view, and a factor
:math:`e^{t_{vi}}` along each principal axis of the seen classes' rows, the columns of :math:`Q_v`;
directions orthogonal to all of them keep a factor of 1. With
:math:`A = K + \alpha I + N^{-1} / s^2` and :math:`P = A^{-1}`, the leave-one-out error of a seen
class mean is :math:`r_c = [P Y]_c / P_{cc}`. The objective to minimise is

.. math:: L = \frac{\sum_c \|r_c\|^2}{\|Y\|^2} + \lambda \sum_v \overline{t_v^2} + \text{small
          penalties on } \log w \text{ and } \log g.

With :math:`q_c = r_c / P_{cc}` as the rows of Q, the gradient with respect to the kernel is

.. math:: \frac{\partial L}{\partial K} = \frac{2}{\|Y\|^2} \left(P \, \mathrm{diag}(q_c^\top r_c)
          \, P - P Q (P Y)^\top\right).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from zslearn._utils._array import Floats
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.signatures._kernels import squared_distances
from zslearn.signatures._views import Signatures, SignatureViews, view_arrays
from zslearn.synthesis._gaussian_process import SignatureKernel

# λ: penalty for a factor of e along every axis of a view, as a share of the variance.
_PENALTY = 0.2
# The same for the weights and widths of the views.
_SMALL_PENALTY = 0.001
_STEPS = 100
# Bounds of the logarithms of factors, widths and weights (±), and of α.
_BOUND = 5.0
_ALPHA = (0.003, 1.0)
# Variances along axes below this share of the largest are rounding error.
_ROUNDING = 1e-12


@saved_part
@saves(
    weights=Saved(least=0, each=True),
    roots=Saved(above=0, each=True),
    axes=Saved(None, None, each=True),
    stretch=Saved(None, each=True),
)
@dataclass(frozen=True, eq=False)
class RelevantKernel(SignatureKernel):
    """RBF kernel under learned weights of views and directions; `seen` is already weighted."""

    weights: tuple[float, ...]
    roots: tuple[float, ...]  # of the widths
    axes: tuple[Floats, ...]
    stretch: tuple[Floats, ...]  # along each axis, in addition to 1

    def __call__(self, signatures: Signatures) -> Floats:
        """Kernel of shape (n_classes, n_seen)."""
        return super().__call__(self.weighted(signatures))

    def weighted(self, signatures: Signatures) -> SignatureViews:
        """Transform signatures so that the kernel is a plain RBF kernel of width 1."""
        parts = zip(view_arrays(signatures), self.roots, self.axes, self.stretch, strict=True)
        arrays = (root * (a + ((a @ axes) * stretch) @ axes.T) for a, root, axes, stretch in parts)
        return SignatureViews(tuple(arrays), self.weights)


class _Objective:
    """The penalised error as a function of one vector of parameters, with its gradient."""

    def __init__(self, signatures: Signatures, means: Floats, sizes: Floats) -> None:
        self.Y, self.total = means, max(float((means**2).sum()), 1e-300)
        self.noise = 1 / (sizes * max(float((means**2).mean()), 1e-300))
        arrays = [_filled(array) for array in view_arrays(signatures)]
        # Principal axes of the rows, as columns.
        spectra = [scipy.linalg.svd(a - a.mean(axis=0), full_matrices=False)[1:] for a in arrays]
        least = np.sqrt(_ROUNDING)
        self.axes = tuple(axes[x > least * max(float(x[0]), 1e-300)].T for x, axes in spectra)
        self.rows = [a @ axes for a, axes in zip(arrays, self.axes, strict=True)]
        weights = signatures.weights if isinstance(signatures, SignatureViews) else (1.0,)
        n_views = len(arrays)
        # log α, logits of the weights, logs of the widths, logs of the factors, view by view.
        self.start = np.zeros(1 + 2 * n_views + sum(axes.shape[1] for axes in self.axes))
        self.start[0] = np.log(0.1)
        self.start[1 : 1 + n_views] = np.log(np.maximum(weights, 1e-3))
        self.bounds = [tuple(np.log(_ALPHA)), *[(-_BOUND, _BOUND)] * (len(self.start) - 1)]

    def split(self, theta: Floats) -> tuple[float, Floats, Floats, list[Floats]]:
        """Split the parameters into α, weights, widths, and the log factors of each view."""
        n_views = len(self.rows)
        logits, log_widths, log_factors = np.split(theta[1:], [n_views, 2 * n_views])
        weights = np.exp(logits - logits.max())
        ends = np.cumsum([axes.shape[1] for axes in self.axes])[:-1]
        widths, factors = np.exp(log_widths), np.split(log_factors, ends)
        return float(np.exp(theta[0])), weights / weights.sum(), widths, factors

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        alpha, weights, widths, factors = self.split(theta)
        distances = [
            np.asarray(squared_distances(rows * np.exp(t / 2)))
            for rows, t in zip(self.rows, factors, strict=True)
        ]
        kernels = [np.exp(-g * d) for g, d in zip(widths, distances, strict=True)]
        kernel = np.tensordot(weights, np.stack(kernels), axes=1)
        loss, slope = leave_one_out_slope(kernel, self.Y, alpha + self.noise)
        loss, slope = loss / self.total, slope / self.total
        n_views = len(kernels)
        gradient = np.empty_like(theta)
        gradient[0] = alpha * np.trace(slope)
        of_weights = np.array([(slope * k).sum() for k in kernels])
        gradient[1 : 1 + n_views] = weights * (of_weights - weights @ of_weights)
        along = []
        for v, (k, d, rows, t) in enumerate(
            zip(kernels, distances, self.rows, factors, strict=True)
        ):
            h = -weights[v] * widths[v] * slope * k
            gradient[1 + n_views + v] = (h * d).sum()
            squares = h.sum(axis=1) @ rows**2 - ((h @ rows) * rows).sum(axis=0)
            along.append(2 * np.exp(t) * squares)
        gradient[1 + 2 * n_views :] = np.concatenate(along)
        few, many = slice(1, 1 + 2 * n_views), slice(1 + 2 * n_views, None)
        away = theta - self.start
        strength = np.repeat([_PENALTY / max(len(t), 1) for t in factors], [*map(len, factors)])
        loss += _SMALL_PENALTY * float(away[few] @ away[few]) + float(strength @ away[many] ** 2)
        gradient[few] += 2 * _SMALL_PENALTY * away[few]
        gradient[many] += 2 * strength * away[many]
        return loss, gradient


def leave_one_out_slope(kernel: Floats, means: Floats, noise: Floats) -> tuple[float, Floats]:
    """Squared leave-one-out error of class means, and its gradient with respect to the kernel."""
    inverse = scipy.linalg.cho_solve(
        scipy.linalg.cho_factor(kernel + np.diag(noise), lower=True), np.eye(len(kernel))
    )
    solved, own = inverse @ means, np.diag(inverse)[:, None]
    errors = solved / own
    shares = errors / own
    slope = (inverse * (shares * errors).sum(axis=1)) @ inverse - (inverse @ shares) @ solved.T
    return float((errors**2).sum()), slope + slope.T


def _filled(rows: Floats) -> Floats:
    """Replace the NaN rows of classes without this view by the mean row."""
    lacking = np.asarray(np.isnan(rows).all(axis=1))
    if not lacking.any():
        return rows
    mean = rows[~lacking].sum(axis=0) / max(int((~lacking).sum()), 1)
    return np.where(lacking[:, None], mean, rows)


def relevant_kernel(
    signatures: Signatures, means: Floats, sizes: Floats
) -> tuple[RelevantKernel, float]:
    """Learn the kernel and α with the smallest penalised error on the seen classes."""
    objective = _Objective(signatures, means, sizes)
    found = minimize(
        objective,
        objective.start,
        jac=True,
        method="L-BFGS-B",
        bounds=objective.bounds,
        options={"maxiter": _STEPS},
    )
    alpha, weights, widths, factors = objective.split(found.x)
    kernel = RelevantKernel(
        signatures,
        1.0,
        tuple(weights.tolist()),
        tuple(np.sqrt(widths).tolist()),
        objective.axes,
        tuple(np.exp(t / 2) - 1 for t in factors),
    )
    return replace(kernel, seen=kernel.weighted(signatures)), alpha
