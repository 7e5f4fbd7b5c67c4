r"""Penalised logistic regression, binary and multinomial, each solution with a certificate.

With weights :math:`\kappa_n` of the samples that sum to one (1/N by default), scores
:math:`f_{nm} = w_m^\top x_n + b_m`, and intercepts that are not penalised:

- :func:`logistic_path`: M problems that share X, with targets :math:`y_{nm} \in [0, 1]`,
  :math:`\sum_n \kappa_n (\log(1 + e^{f_{nm}}) - y_{nm} f_{nm}) + \frac{\alpha}{2} \|w_m\|^2`;
- :func:`softmax_path`: one problem of C classes,
  :math:`\sum_n \kappa_n (\log \sum_c e^{f_{nc}} - f_{n y_n}) + \frac{\alpha}{2} \|W\|_F^2`.

The intercepts are eliminated: what is minimised is :math:`F(W) = \min_b f(W, b)`, whose gradient is
that of f in W at the best b, and whose Hessian is a Schur complement. Newton directions come from
conjugate gradients in the eigenvectors of the rows' covariance, for a softmax mostly of that within
classes, where a model of the Hessian is diagonal and serves as preconditioner; all problems share
each product with the rows. F is :math:`\alpha`-strongly convex, so that
:math:`F - \min F \le \|\nabla F\|^2 / 2\alpha`: this gap is the certificate, always from the rows
in double precision. It is measured against the objective and against what training gains; see
`_gain`. Under a smaller penalty a solution starts on the line or plane through those before, which
takes tables of scores and no product with the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from zslearn._solvers.logistic._losses import BinaryLoss, CentredRows, SoftmaxLoss
from zslearn._solvers.logistic._newton import Newton, Solution, side_by_side
from zslearn._solvers.logistic._sharing import too_large
from zslearn._solvers.logistic._streamed import SoftLabels, StreamedBinary, StreamedSoftmax
from zslearn._solvers.svm._rows import TrainingRows
from zslearn._utils._array import Array, Floats, to_numpy
from zslearn._utils._blocks import row_blocks
from zslearn._utils._messages import name_some

# What logistic regressions are given, checked.


def checked_targets(Y: Any, n_samples: int, codes: Any) -> tuple[Floats, NDArray[np.intp]]:
    """Targets in double precision, and which row of them each sample has."""
    targets = np.asarray(to_numpy(Y), dtype=np.float64)
    places = np.arange(n_samples) if codes is None else np.asarray(to_numpy(codes))
    n_rows = n_samples if codes is None else len(targets)
    if targets.ndim != 2 or len(targets) != n_rows or targets.shape[1] == 0:
        raise ValueError(
            f"Y must have one row per sample, {n_samples} in all, and one column per problem; "
            f"got shape {targets.shape}."
        )
    if places.shape != (n_samples,) or places.dtype.kind not in "iu":
        raise ValueError(f"codes must hold one integer per sample, {n_samples} in all.")
    if not (places.min() >= 0 and places.max() < n_rows):
        raise ValueError(f"codes must be rows of Y, 0 … {n_rows - 1}.")
    if not ((targets >= 0) & (targets <= 1)).all():
        raise ValueError("Y must hold 0 and 1, or probabilities between them.")
    return targets, places


def checked_shares(y: NDArray[Any]) -> Floats:
    """Probabilities of classes in double precision."""
    shares = y.astype(np.float64)
    if not ((shares >= 0).all() and np.allclose(shares.sum(axis=1), 1)):
        raise ValueError("The rows of y must be probabilities: non-negative, with a sum of one.")
    return shares


def checked_weights(sample_weight: Any, shape: tuple[int, int]) -> Floats:
    """Weights as columns that sum to one: a single one where all problems share them."""
    if sample_weight is None:
        return np.full((shape[0], 1), 1 / shape[0])
    weights = np.asarray(to_numpy(sample_weight), dtype=np.float64)
    weights = weights[:, None] if weights.ndim == 1 else weights
    if weights.shape not in {shape, (shape[0], 1)}:
        raise ValueError(
            f"sample_weight must have one number per sample, {shape[0]} in all; "
            f"got shape {weights.shape}."
        )
    total = weights.sum(axis=0)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (total > 0).all()):
        raise ValueError("sample_weight must be non-negative, with a positive sum.")
    return weights / total


def refuse_one_sided(targets: Floats, places: NDArray[np.intp], weights: Floats) -> None:
    """Refuse problems whose samples, as far as they count, have one outcome."""
    mass = np.zeros((len(targets), weights.shape[1]))
    np.add.at(mass, places, weights)
    ones, zeros = (mass * targets).sum(axis=0), (mass * (1 - targets)).sum(axis=0)
    constant = np.flatnonzero((ones <= 0) | (zeros <= 0))
    if constant.size:
        raise ValueError(
            f"Column {name_some(constant.tolist())} of Y has one outcome only: its intercept has "
            "no minimum. Leave constant columns out."
        )


# What the scores of all rows may take for the columns that are solved side by side: the more of
# them, the fewer products with the rows.
_SCORE_BYTES = 1 << 27


@dataclass(frozen=True)
class LogisticResult:
    """A logistic regression and the certificate of its optimality.

    Attributes
    ----------
    coef : array of shape (n_problems or n_classes, n_features)
        Coefficients, float64, beside the training rows.
    intercept : array of shape (n_problems or n_classes,)
        Intercepts; those of the multinomial model sum to zero.
    alpha : float
        Weight of the penalty.
    objective : ndarray of shape (n_problems,)
        Value of the objective of each problem; the multinomial model is one.
    gap : ndarray of shape (n_problems,)
        The objective is at most this far above its minimum.
    n_iter : int
        Newton steps.
    converged : bool
        Whether every gap is within `tol`, or nothing but rounding.
    gain : ndarray of shape (n_problems,)
        The minimum is at least this far below the objective at zero coefficients.
    """

    coef: Array = field(repr=False)
    intercept: Array = field(repr=False)
    alpha: float
    objective: Floats = field(repr=False)
    gap: Floats = field(repr=False)
    n_iter: int
    converged: bool
    gain: Floats = field(repr=False)


def logistic_path(
    X: Any,
    Y: Any,
    *,
    alphas: Sequence[float],
    tol: float = 1e-6,
    max_iter: int = 100,
    sample_weight: Any = None,
    codes: Any = None,
) -> list[LogisticResult]:
    """Fit binary logistic regressions that share their rows, for several penalties.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Rows, float32 or float64; an array of torch or CuPy is computed with on its own device.
    Y : array-like of shape (n_samples, n_problems)
        Targets: 0 or 1, or probabilities between them. Each column needs both outcomes.
    alphas : sequence of float
        Weights of the penalty ½‖w‖², in any order; the largest is solved first, and each solution
        starts from the one before.
    tol : float, default=1e-6
        Gap to reach, as a share of the objective of each problem and of what training gains: of
        the objective at zero coefficients, with the best intercept, less the minimum.
    max_iter : int, default=100
        Largest number of Newton steps for each penalty.
    sample_weight : array-like of shape (n_samples,) or (n_samples, n_problems), optional
        How much each sample counts; the weights of a problem are divided by their sum.
    codes : array-like of int of shape (n_samples,), optional
        Which row of Y has the targets of each sample, where samples share rows; by default row n of
        Y is that of sample n.

    Returns
    -------
    list of LogisticResult
        In the order of `alphas`.

    Warns
    -----
    ConvergenceWarning
        When a gap is not within `tol` after `max_iter`.

    See Also
    --------
    softmax_path : One problem of several classes.

    Notes
    -----
    scikit-learn's `LogisticRegression(C=C)` has the same minimum at α = 1 / (C · n_samples).

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import logistic_path
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> (result,) = logistic_path(X, [[0], [0], [1], [1]], alphas=[0.1])
    >>> float((-result.intercept / result.coef[:, 0])[0].round(6))
    1.5
    """
    X = X if compat.is_array_api_obj(X) else np.asarray(X)
    n_samples = X.shape[0] if len(X.shape) else 0
    rows = TrainingRows(X, np.zeros(n_samples, dtype=np.intp), 2)  # its labels are not used
    targets, places = checked_targets(Y, n_samples, codes)
    weights = checked_weights(sample_weight, (n_samples, targets.shape[1]))
    refuse_one_sided(targets, places, weights)
    if rows.lazy:
        streamed = StreamedBinary(rows, targets, places, weights, tol, max_iter)
        start = np.zeros((targets.shape[1], rows.shape[1])), streamed.start[None, :]
        found = _in_order(partial(_warm_path, streamed.solve, *start), alphas)
        return _with_warning([_result(streamed, solution) for solution in found])
    targets = targets if codes is None else targets[places]
    newton, blocks = Newton(CentredRows(rows), tol, max_iter), []
    for columns in row_blocks(targets.shape[1], row_bytes=8 * len(targets), budget=_SCORE_BYTES):
        weight = weights if weights.shape[1] == 1 else weights[:, columns]
        loss = BinaryLoss(rows.asarray(targets[:, columns]), rows.asarray(weight))
        blocks.append(_in_order(partial(newton.path, loss), alphas))
    solutions = [side_by_side(parts) for parts in zip(*blocks, strict=True)]
    return _with_warning([_result(newton, solution) for solution in solutions])


def softmax_path(
    X: Any,
    y: Any,
    n_classes: int | None = None,
    *,
    alphas: Sequence[float],
    tol: float = 1e-6,
    max_iter: int = 100,
    sample_weight: Any = None,
    pseudo_counts: float = 0.0,
    spectrum: tuple[Array, Array] | None = None,
    turned: Array | None = None,
    guides: Sequence[LogisticResult] | None = None,
) -> list[LogisticResult]:
    """Fit multinomial logistic regressions for several penalties.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Rows, float32 or float64; an array of torch or CuPy is computed with on its own device.
    y : array-like of int of shape (n_samples,), or of float of shape (n_samples, n_classes)
        Class of each row, from 0 to n_classes − 1, or the probabilities of all classes; every
        class needs a row.
    n_classes : int, optional
        By default the largest label plus one.
    alphas : sequence of float
        Weights of the penalty ½‖W‖², in any order; see :func:`logistic_path`.
    tol : float, default=1e-6
        Gap to reach, as a share of the objective and of what training gains; see
        :func:`logistic_path`.
    max_iter : int, default=100
        Largest number of Newton steps for each penalty.
    sample_weight : array-like of shape (n_samples,), optional
        How much each sample counts.
    pseudo_counts : float, default=0.0
        Softens the labels: a class of n samples counts as if so many more, m, were spread evenly
        over all C classes, and its samples' targets are (n + m/C)/(n + m) and (m/C)/(n + m). Not
        with probabilities in `y`.
    spectrum : (values, vectors), optional
        What :func:`softmax_spectrum` gave for these rows, or for rows like these, such as those of
        more classes; it serves as preconditioner. By default it is computed.
    turned : array of shape (n_samples, n_features), optional
        What :func:`turned_rows` gave for these rows and this `spectrum`, or those of its rows that
        belong to these. By default they are computed.
    guides : sequence of LogisticResult, optional
        Regressions like these, such as those of softened labels or of more classes without the
        others, under about the same penalties in the same order: where these lead from one penalty
        to the next is tried here, too. Results are the same within `tol`.

    Returns
    -------
    list of LogisticResult
        In the order of `alphas`.

    Warns
    -----
    ConvergenceWarning
        When the gap is not within `tol` after `max_iter`.

    See Also
    --------
    logistic_path : Many binary problems.

    Notes
    -----
    With labels, and more rows times classes than memory should hold, no table of these is made:
    scores are computed again in every pass over the rows, for half as much time again.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.solvers import softmax_path
    >>> X = np.array([[0.0], [1.0], [2.0], [5.0]])
    >>> strong, weak = softmax_path(X, [0, 0, 1, 1], alphas=[1.0, 0.01])
    >>> bool(abs(weak.coef).max() > abs(strong.coef).max())
    True
    """
    labels = np.asarray(to_numpy(y))
    if labels.ndim == 2:
        if pseudo_counts:
            raise ValueError("pseudo_counts softens labels; y holds probabilities already.")
        rows = TrainingRows(X, labels.argmax(axis=1), labels.shape[1])
        shares: Floats | None = checked_shares(labels)
    else:
        rows = TrainingRows(X, labels, n_classes)
        shares = None
    weights = checked_weights(sample_weight, (len(rows.y), 1))
    soft = SoftLabels.of(rows.y, rows.n_classes, pseudo_counts)
    mass = soft.mass(weights[:, 0]) if shares is None else (weights * shares).sum(axis=0)
    # Softened labels give every class some mass, whether it has rows or not.
    missing = mass == 0
    if shares is None:
        missing = missing | (np.bincount(rows.y, minlength=rows.n_classes) == 0)
    if missing.any():
        raise ValueError(
            f"No row of y belongs to class {name_some(np.flatnonzero(missing).tolist())}: "
            "its intercept has no minimum. Number only the classes that have rows."
        )
    if shares is None and too_large(rows):
        streamed = StreamedSoftmax(rows, soft, weights[:, 0], tol, max_iter)
        coef = rows.asarray(rows.xp.zeros((rows.n_classes, rows.shape[1])))
        start = coef, rows.asarray(streamed.start)[None, :]
        solutions = _in_order(partial(_warm_path, streamed.solve, *start), alphas)
        return _with_warning([_result(streamed, solution) for solution in solutions])
    targets = soft.table() if shares is None else shares
    loss = SoftmaxLoss(rows.asarray(targets), rows.asarray(weights))
    # The smaller space of few rows is their own.
    known = (spectrum, turned) if rows.basis is None else (None, None)
    newton = Newton(CentredRows(rows, *known), tol, max_iter)
    leads = None if guides is None else _leads(guides, alphas)
    solutions = _in_order(partial(newton.path, loss, guides=leads), alphas)
    return _with_warning([_result(newton, solution) for solution in solutions])


def _in_order(
    path: Callable[[Sequence[float]], list[Solution]], alphas: Sequence[float]
) -> list[Solution]:
    """Solutions in the order of `alphas`, found from the largest to the smallest."""
    values = np.asarray(alphas, dtype=np.float64)
    if values.ndim != 1 or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"alphas must be positive numbers; got {alphas!r}.")
    order = np.argsort(values, kind="stable")[::-1]
    solutions = path(values[order].tolist()) if len(order) else []
    return [solutions[position] for position in np.argsort(order).tolist()]


def _leads(guides: Sequence[LogisticResult], alphas: Sequence[float]) -> list[tuple[Array, Array]]:
    """Coefficients and intercepts of guides, from the largest penalty to the smallest."""
    if len(guides) != len(alphas):
        raise ValueError(
            f"There must be one guide for each of the {len(alphas)} alphas; got {len(guides)}."
        )
    order = np.argsort(np.asarray(alphas, dtype=np.float64), kind="stable")[::-1]
    return [(guides[i].coef, guides[i].intercept) for i in order.tolist()]


def _warm_path(
    solve: Callable[[float, Array, Array], Solution],
    coef: Array,
    intercept: Array,
    alphas: Sequence[float],
) -> list[Solution]:
    """Each solution from the one before."""
    solutions: list[Solution] = []
    for alpha in alphas:
        solutions.append(solve(alpha, coef, intercept))
        coef, intercept = solutions[-1].coef, solutions[-1].intercept
    return solutions


def _result(
    newton: Newton | StreamedSoftmax | StreamedBinary, solution: Solution
) -> LogisticResult:
    """A solution in the original features, which are not centred.

    Its arrays are its own: a start that needs no step is the solution of two penalties.
    """
    rows, coef = newton.rows, solution.coef
    intercept = solution.intercept - newton.mean @ rows.xp.matrix_transpose(coef)
    if solution.objective.shape != intercept.shape:  # the classes of one problem
        intercept = intercept - rows.xp.mean(intercept)
    objective, gap, gain, wanted = (
        to_numpy(x)[0] for x in (solution.objective, solution.gap, solution.gain, solution.wanted)
    )
    return LogisticResult(
        rows.xp.asarray(rows.full(coef), copy=True),
        intercept[0, :],
        solution.alpha,
        objective,
        gap,
        solution.n_iter,
        bool((gap <= wanted).all()),
        gain,
    )


def _with_warning(results: list[LogisticResult]) -> list[LogisticResult]:
    """The results; one warning for all that did not converge."""
    loose = [result for result in results if not result.converged]
    if loose:
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = [result.gap / np.minimum(result.objective, result.gain) for result in loose]
        worst = max(float(np.nanmax(share)) for share in shares)
        warnings.warn(
            f"Logistic regression did not converge for alpha in "
            f"{name_some([result.alpha for result in loose])}: the gap is up to {worst:.1e} of the "
            "objective, or of what training gains. "
            "Use a larger alpha, a larger tol or more iterations.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return results
