r"""Ranking losses of a table of scores, with their slopes.

A sample of class y with the scores :math:`F_c` violates its ranking by
:math:`h_c = 1 + F_c - F_y` in every other class c where that is positive. The losses here differ in
what they make of the violators; each function gives the loss of every sample and its slope with
respect to the scores. The slopes of a sample add up to zero, so that nothing changes when one
number is added to all of its scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Floats
from zslearn._utils._blocks import row_blocks
from zslearn._utils._jit import jit, jit_inner
from zslearn._utils._processes import one_blas_thread

# LatEm's descent, compiled: an epoch of batches, each scored under all maps.
#
# Only two things are asked of the scores: which map wins, and whether the margin is violated.
# They
# come from inner products in whatever order is fastest, with a bound on their rounding; where the
# bound leaves an answer open, the inner products are computed again in one fixed order. So the
# descent is that of the fixed order, bit for bit.
#
# This module is compiled, and imported where it is first needed.


@jit("the descent of several maps")
def latent_epoch(
    X: Any,
    order: Any,
    own: Any,
    other: Any,
    winner: Any,
    P: Any,
    V: Any,
    gram: Any,
    step: float,
    batch_size: int,
    change: Any,
    touched: Any,
) -> None:
    """Visit the rows in some order, a batch at a time.

    `own` and `other` hold the class of each row visited and its negative, `winner` a map that may
    win for the own class, and afterwards one that did. `P` holds the classifiers (n_maps,
    n_classes, n_features), `V` one row for each map and class; both are brought up to date after
    each batch. `change` and `touched` are room to work in: `touched` for two numbers for each row
    of V, `change` for as many rows as a batch can change.
    """
    room = np.zeros((3, P.shape[2]), dtype=P.dtype)
    for start in range(0, order.shape[0], batch_size):
        stop = min(start + batch_size, order.shape[0])
        count = _visit(
            X, order[start:stop], own[start:stop], other[start:stop], winner[start:stop],
            P, V, step, change, touched,
        )  # fmt: skip
        _bring_up_to_date(P, gram, change, touched, count, room)


@jit_inner()
def _visit(
    X: Any,
    rows: Any,
    own: Any,
    other: Any,
    winner: Any,
    P: Any,
    V: Any,
    step: float,
    change: Any,
    touched: Any,
) -> int:
    """Take the rows of a batch down their loss; returns how many rows of V changed.

    `touched` gets the rows of V that changed, ascending, and `change` what was added to each.
    """
    _, n_classes, n_features = P.shape
    length = X.dtype.type(step)
    at = touched[V.shape[0] :]  # where a row of V stands among those that changed, plus one
    for t in range(V.shape[0]):
        at[t] = 0
    up, down = other.copy(), other.copy()
    for i in range(rows.shape[0]):
        own_map, other_map, winner[i] = _violation(P, own[i], other[i], winner[i], X[rows[i]])
        up[i] = -1
        if own_map >= 0:
            up[i] = own_map * n_classes + own[i]
            down[i] = other_map * n_classes + other[i]
            at[up[i]] = 1
            at[down[i]] = 1
    count = 0
    for t in range(V.shape[0]):
        if at[t]:
            touched[count] = t
            count += 1
            at[t] = count
            for d in range(n_features):
                change[count - 1, d] = 0
    for i in range(rows.shape[0]):
        if up[i] >= 0:
            _add(change[at[up[i]] - 1], X[rows[i]], length)
            _add(change[at[down[i]] - 1], X[rows[i]], -length)
    for t in range(count):
        for d in range(n_features):
            V[touched[t], d] += change[t, d]
    return count


@jit_inner()
def _violation(P: Any, own: int, other: int, winner: int, row: Any) -> Any:
    """The maps that win for the own class and the negative, −1 where there is no violation.

    And a map that wins for the own class, for the next time: its score alone shows, as a rule, that
    nothing is violated.
    """
    other_score, other_map, other_error, other_is_sure = _fast_best(P, other, row)
    own_score, own_error = _fast_score(P[winner, own], row)
    if 1 + other_score - own_score < -(own_error + other_error):
        return -1, -1, winner
    own_score, own_map, own_error, own_is_sure = _fast_best(P, own, row)
    excess = 1 + other_score - own_score
    error = own_error + other_error
    if excess < -error:
        return -1, -1, own_map
    if not (excess > error and own_is_sure and other_is_sure):
        own_score, own_map = _best(P, own, row)
        other_score, other_map = _best(P, other, row)
        if not 1 + other_score - own_score > 0:
            return -1, -1, own_map
    return own_map, other_map, own_map


@jit_inner()
def _fast_best(P: Any, of_class: int, row: Any) -> Any:
    """The largest score and its map, how wrong a score can be, and whether the map is sure."""
    best, second, which, error = -np.inf, -np.inf, 0, 0.0
    for k in range(P.shape[0]):
        score, its_error = _fast_score(P[k, of_class], row)
        error = max(error, its_error)
        if score > best:
            best, second, which = score, best, k
        else:
            second = max(second, score)
    return best, which, error, best - second > 2 * error


@jit_inner()
def _fast_score(classifier: Any, row: Any) -> Any:
    """A score, and how wrong it can be."""
    dot, size = _fast_dot(classifier, row)
    # n + n/4 roundings at most, of half an epsilon each, in this order and in the fixed one.
    epsilon = (row.shape[0] + 8) * (2.0**-52 if row.itemsize == 8 else 2.0**-23)
    # Numbers that are not finite leave everything open.
    return float(dot), epsilon * size if size < np.inf else np.inf


@jit_inner(fast={"contract", "reassoc"})
def _fast_dot(a: Any, b: Any) -> Any:
    """An inner product in any order, and that of the absolute values."""
    total = a.dtype.type(0)
    size = a.dtype.type(0)
    for d in range(a.shape[0]):
        total += a[d] * b[d]
        size += abs(a[d] * b[d])
    return total, size


@jit_inner()
def _best(P: Any, of_class: int, row: Any) -> Any:
    """The largest score of a class under any map, and the first map that gives it."""
    best, which = _dot(P[0, of_class], row), 0
    for k in range(1, P.shape[0]):
        score = _dot(P[k, of_class], row)
        if score > best:
            best, which = score, k
    return best, which


@jit_inner()
def _dot(a: Any, b: Any) -> Any:
    """Inner product in four sums, in the order of NumPy's: long descents amplify any other."""
    n = a.shape[0]
    zero = a.dtype.type(0)
    sum0, sum1, sum2, sum3 = zero, zero, zero, zero
    if a.itemsize == 8:
        whole = n // 8 * 8
        for d in range(0, whole, 8):
            for back in range(6, -1, -2):
                sum0 = a[d + back] * b[d + back] + sum0
                sum1 = a[d + back + 1] * b[d + back + 1] + sum1
        for d in range(whole, n):
            if (d - whole) % 2 == 0:
                sum0 = a[d] * b[d] + sum0
            else:
                sum1 = a[d] * b[d] + sum1
        return sum0 + sum1
    whole = n // 16 * 16
    for d in range(0, whole, 16):
        for back in range(12, -1, -4):
            sum0 = a[d + back] * b[d + back] + sum0
            sum1 = a[d + back + 1] * b[d + back + 1] + sum1
            sum2 = a[d + back + 2] * b[d + back + 2] + sum2
            sum3 = a[d + back + 3] * b[d + back + 3] + sum3
    for d in range(whole, n):
        lane = (d - whole) % 4
        if lane == 0:
            sum0 = a[d] * b[d] + sum0
        elif lane == 1:
            sum1 = a[d] * b[d] + sum1
        elif lane == 2:
            sum2 = a[d] * b[d] + sum2
        else:
            sum3 = a[d] * b[d] + sum3
    return (sum0 + sum1) + (sum2 + sum3)


@jit_inner()
def _add(to: Any, row: Any, weight: Any) -> None:
    for d in range(to.shape[0]):
        to[d] += weight * row[d]


@jit_inner()
def _bring_up_to_date(P: Any, gram: Any, change: Any, touched: Any, count: int, room: Any) -> None:
    """Add to the classifiers of each map what its rows of V changed by: gram @ change.

    Two classes at a time: each change is read once for both.
    """
    n_classes = P.shape[1]
    first = 0
    while first < count:
        k = touched[first] // n_classes
        last = first + 1
        while last < count and touched[last] // n_classes == k:
            last += 1
        which = touched[first:last] - k * n_classes
        for c in range(0, n_classes - 1, 2):
            _add_combinations(
                P[k, c], P[k, c + 1], gram[c], gram[c + 1], change[first:last], which, room
            )
        if n_classes % 2:
            # Beside the last class, a row that nobody reads.
            c = n_classes - 1
            _add_combinations(P[k, c], room[2], gram[c], gram[c], change[first:last], which, room)
        first = last


@jit_inner(fast={"contract"})
def _add_combinations(
    p: Any, q: Any, p_weights: Any, q_weights: Any, change: Any, which: Any, room: Any
) -> None:
    """Add Σ_t w_t change_t to two rows: the sum first, in its order, as a matrix product does.

    Eight terms at a time, of which those that are missing weigh nothing; the few that most batches
    have, without these. The first rows of `room` hold the sums so far.
    """
    n, end = p.shape[0], which.shape[0] - 1
    a, b = room[0], room[1]
    none = p_weights[0] - p_weights[0]
    for t in range(0, end + 1, 8):
        w0, w1, w2, w3, w4, w5, w6, w7 = _eight(p_weights, which, t)
        v0, v1, v2, v3, v4, v5, v6, v7 = _eight(q_weights, which, t)
        c0, c1, c2 = change[t], change[min(t + 1, end)], change[min(t + 2, end)]
        c3, c4, c5 = change[min(t + 3, end)], change[min(t + 4, end)], change[min(t + 5, end)]
        c6, c7 = change[min(t + 6, end)], change[min(t + 7, end)]
        if end == 0:
            for d in range(n):
                p[d] += none + w0 * c0[d]
                q[d] += none + v0 * c0[d]
        elif end == 1:
            for d in range(n):
                p[d] += (none + w0 * c0[d]) + w1 * c1[d]
                q[d] += (none + v0 * c0[d]) + v1 * c1[d]
        elif end < 4:
            for d in range(n):
                p[d] += (((none + w0 * c0[d]) + w1 * c1[d]) + w2 * c2[d]) + w3 * c3[d]
                q[d] += (((none + v0 * c0[d]) + v1 * c1[d]) + v2 * c2[d]) + v3 * c3[d]
        elif t == 0:
            for d in range(n):
                half = (((none + w0 * c0[d]) + w1 * c1[d]) + w2 * c2[d]) + w3 * c3[d]
                a[d] = (((half + w4 * c4[d]) + w5 * c5[d]) + w6 * c6[d]) + w7 * c7[d]
                half = (((none + v0 * c0[d]) + v1 * c1[d]) + v2 * c2[d]) + v3 * c3[d]
                b[d] = (((half + v4 * c4[d]) + v5 * c5[d]) + v6 * c6[d]) + v7 * c7[d]
        else:
            for d in range(n):
                half = (((a[d] + w0 * c0[d]) + w1 * c1[d]) + w2 * c2[d]) + w3 * c3[d]
                a[d] = (((half + w4 * c4[d]) + w5 * c5[d]) + w6 * c6[d]) + w7 * c7[d]
                half = (((b[d] + v0 * c0[d]) + v1 * c1[d]) + v2 * c2[d]) + v3 * c3[d]
                b[d] = (((half + v4 * c4[d]) + v5 * c5[d]) + v6 * c6[d]) + v7 * c7[d]
    if end >= 4:
        for d in range(n):
            p[d] += a[d]
            q[d] += b[d]


@jit_inner()
def _eight(weights: Any, which: Any, t: int) -> Any:
    """The weights of eight terms; 0 for those that are missing."""
    none, n = weights[0] - weights[0], which.shape[0]
    return (
        weights[which[t]],
        weights[which[t + 1]] if t + 1 < n else none,
        weights[which[t + 2]] if t + 2 < n else none,
        weights[which[t + 3]] if t + 3 < n else none,
        weights[which[t + 4]] if t + 4 < n else none,
        weights[which[t + 5]] if t + 5 < n else none,
        weights[which[t + 6]] if t + 6 < n else none,
        weights[which[t + 7]] if t + 7 < n else none,
    )


#: An array of NumPy in any floating dtype, on the host: descents run in that of their rows.
AnyFloats = NDArray[np.floating[Any]]


def rank_weights(n_classes: int) -> Floats:
    r"""What each of k violators weighs in the rank-weighted loss: :math:`\beta_k / k`."""
    k = np.arange(1, n_classes)
    return np.concatenate([[0.0], np.cumsum(1 / k) / k])


def hinge_of_all(
    scores: AnyFloats, y: NDArray[np.intp], weights: Floats | None = None
) -> tuple[AnyFloats, AnyFloats]:
    r"""All violators: :math:`w_k \sum_c \max(0, 1 + F_c - F_y)`, where k of them violate.

    The number of violators changes by jumps, so that the slope takes it as given.
    """
    slope = slopes_of_all(scores, y, weights)
    others = slope.copy()
    others[np.arange(len(y)), y] = 0
    return np.sum(others * _excess(scores, y), axis=1, where=others > 0), slope


def slopes_of_all(
    scores: AnyFloats, y: NDArray[np.intp], weights: Floats | None = None
) -> AnyFloats:
    """The slopes of :func:`hinge_of_all`, without the loss."""
    rows = np.arange(len(y))
    violates = scores > (scores[rows, y] - 1)[:, None]
    violates[rows, y] = False
    slope = violates.astype(scores.dtype)
    n_violators = slope.sum(axis=1)
    if weights is not None:
        weight = weights.astype(scores.dtype)[n_violators.astype(np.intp)]
        slope *= weight[:, None]
        n_violators *= weight
    slope[rows, y] = -n_violators
    return slope


def hinge_of_worst(scores: AnyFloats, y: NDArray[np.intp]) -> tuple[AnyFloats, AnyFloats]:
    r"""The worst violator: :math:`\max(0, \max_{c \ne y} 1 + F_c - F_y)`."""
    loss, worst = worst_violator(scores, y)
    slope = np.zeros_like(scores)
    rows = np.flatnonzero(loss > 0)
    slope[rows, worst[rows]] = 1
    slope[rows, y[rows]] = -1
    return loss, slope


def slopes_of_worst(scores: AnyFloats, y: NDArray[np.intp]) -> AnyFloats:
    """The slopes of :func:`hinge_of_worst`, without the loss."""
    return hinge_of_worst(scores, y)[1]


def worst_violator(scores: AnyFloats, y: NDArray[np.intp]) -> tuple[AnyFloats, NDArray[np.intp]]:
    """Loss of each sample, and the class besides its own that scores highest."""
    excess = _excess(scores, y)
    rows = np.arange(len(y))
    excess[rows, y] = -np.inf
    worst = excess.argmax(axis=1)
    return np.maximum(excess[rows, worst], 0), worst


def latent_hinge(
    own: AnyFloats, other: AnyFloats
) -> tuple[AnyFloats, NDArray[np.intp], NDArray[np.intp]]:
    r"""One negative under several maps: :math:`\max(0, 1 + \max_k F_{kc} - \max_k F_{ky})`.

    Where the loss is positive, its slope is −1 at the winning map of the own class and 1 at the
    winning map of the negative.
    """
    own_map, other_map = own.argmax(axis=1), other.argmax(axis=1)
    rows = np.arange(len(own))
    return np.maximum(1 + other[rows, other_map] - own[rows, own_map], 0), own_map, other_map


def _excess(scores: AnyFloats, y: NDArray[np.intp]) -> AnyFloats:
    """1 + F_c − F_y; 1 for the own class."""
    return 1 + scores - scores[np.arange(len(y)), y][:, None]


# Stochastic descent on ranking losses of bilinear scores.
#
# With :math:`F_c = x^\top W a_c` each step adds to W columns in the span of the signatures. So
# :math:`W = U^\top Q^\top` with an orthonormal basis Q of that span, in which the signatures
# have the
# coordinates :math:`B = A Q`, and a step costs two products with a table U of as many rows as the
# signatures have dimensions, or, for several maps, :math:`W = W_0 + V^\top A` with one row of V
# for
# each class. Descents that differ in the length of their steps alone visit the same rows: they
# are
# made side by side, as one product with the tables of all.

# Rows that are made as they are read stay in cache from one pass over them to the next.
_CACHED_BYTES = 1 << 19


class Descent:
    """Epochs of stochastic descent over shuffled batches.

    A step is taken down the sum of a batch's slopes, not their mean: what an epoch achieves then
    hardly depends on the size of the batches.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, of which each epoch visits every one; or rows that are made as they are read, with the
        shape and the dtype of an array, by positions.
    y : ndarray of int of shape (n_samples,)
        The class of each row.
    power_t : float
        Epoch t takes steps that are shorter than those of the first by t^power_t.
    batch_size : int
        Rows that share a step.
    rng : numpy.random.RandomState
        Shuffles the rows.
    """

    def __init__(
        self,
        X: AnyFloats,
        y: NDArray[np.intp],
        power_t: float,
        batch_size: int,
        rng: np.random.RandomState,
    ) -> None:
        self.X, self.y = X, y
        self.power_t, self.batch_size, self.rng = power_t, batch_size, rng
        self.n_epochs = 0

    def epoch(self) -> None:
        """Visit every row once."""
        self.n_epochs += 1
        self._visit_all(self.rng.permutation(len(self.y)), self.n_epochs**self.power_t)

    @property
    def coef(self) -> AnyFloats:
        """What was learned; of several descents by the first."""
        return self.coef_of(0)

    def coef_of(self, path: int) -> AnyFloats:
        """What one of the descents has learned, by its number; it must still be followed."""
        raise NotImplementedError

    def follow(self, paths: Sequence[int]) -> None:
        """Go on with some of the descents only, by their numbers."""

    def _visit_all(self, order: NDArray[np.intp], shorter: float) -> None:
        """Visit rows in some order, a batch at a time, in steps shorter by a factor."""
        with one_blas_thread():
            for start in range(0, len(order), self.batch_size):
                rows = order[start : start + self.batch_size]
                self._descend(self.X[rows], self.y[rows], shorter)

    def _descend(self, X: AnyFloats, y: NDArray[np.intp], shorter: float) -> None:
        """Take one step down the loss of a batch."""
        raise NotImplementedError


class BilinearDescent(Descent):
    r"""Descents on a loss of the scores :math:`X W A^\top`, from W = 0, side by side.

    Slopes add up to zero over the classes, and so W is the same whatever is added to all
    signatures: they are centred, for the sake of rounding.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    y : ndarray of int of shape (n_samples,)
        The class of each row.
    signatures : ndarray of shape (n_classes, n_attributes)
        Signatures A.
    slopes : callable
        Takes scores and classes; gives the slopes of the loss.
    step : float or sequence of float
        Length of the steps of the first epoch, of each descent.
    **options : object
        See :class:`Descent`.
    """

    def __init__(
        self,
        X: AnyFloats,
        y: NDArray[np.intp],
        signatures: Floats,
        slopes: Callable[[AnyFloats, NDArray[np.intp]], AnyFloats],
        step: float | Sequence[float],
        **options: Any,
    ) -> None:
        super().__init__(X, y, **options)
        self.slopes = slopes
        self.steps: Floats = np.atleast_1d(np.asarray(step, dtype=np.float64))
        self.paths = list(range(len(self.steps)))
        coordinates, self.basis = _in_their_span(signatures - signatures.mean(axis=0), X.dtype)
        self.coordinates = coordinates
        self.U = np.zeros((len(self.steps) * coordinates.shape[1], X.shape[1]), dtype=X.dtype)

    def coef_of(self, path: int) -> AnyFloats:
        """W of one of the descents, of shape (n_features, n_attributes)."""
        return self._tables()[self.paths.index(path)].T @ self.basis

    def follow(self, paths: Sequence[int]) -> None:
        """Go on with some of the descents only, by their numbers."""
        if list(paths) != self.paths:
            kept = [self.paths.index(path) for path in paths]
            self.U = self._tables()[kept].reshape(-1, self.U.shape[1])
            self.steps, self.paths = self.steps[kept], list(paths)

    def _tables(self) -> AnyFloats:
        return self.U.reshape(len(self.paths), -1, self.U.shape[1])

    def _descend(self, X: AnyFloats, y: NDArray[np.intp], shorter: float) -> None:
        # One row for each sample and descent.
        scores = (X @ self.U.T).reshape(-1, self.coordinates.shape[1]) @ self.coordinates.T
        slope = self.slopes(scores, np.repeat(y, len(self.paths)))
        steps = np.tile((self.steps / shorter).astype(X.dtype), len(X))
        change = ((slope @ self.coordinates) * steps[:, None]).reshape(len(X), -1)
        # Rows that violate nothing would add zeros.
        active = change.any(axis=1)
        if not active.all():
            change, X = change[active], X[active]
        self.U -= change.T @ X


def _in_their_span(vectors: Floats, dtype: Any) -> tuple[AnyFloats, AnyFloats]:
    """Coordinates of vectors in an orthonormal basis of their span, and its rows."""
    left, sizes, _ = np.linalg.svd(vectors, full_matrices=False)
    rounding = max(vectors.shape) * np.finfo(np.float64).eps * sizes[0]
    rank = max(1, int(np.sum(sizes > rounding)))
    left, sizes = left[:, :rank], sizes[:rank]
    # As combinations of the vectors: where all of these are zero, the basis is exactly so.
    basis = (left / np.where(sizes > 0, sizes, 1.0)).T @ vectors
    return (left * sizes).astype(dtype), basis.astype(dtype)


class LatentDescent(Descent):
    r"""Descent on :func:`latent_hinge` of the scores :math:`X W_k A^\top`, K maps at once.

    The classifiers :math:`P_k = A W_k^\top` of all classes are kept up to date, besides the maps:
    a row then costs no more for the maps that it does not change than their two inner products.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    y : ndarray of int of shape (n_samples,)
        The class of each row.
    signatures : ndarray of shape (n_classes, n_attributes)
        Signatures A.
    start : ndarray of shape (n_maps, n_features, n_attributes)
        The maps to begin with.
    step : float
        Length of the steps of the first epoch.
    **options : object
        See :class:`Descent`. The generator draws the negatives, too.
    """

    def __init__(
        self,
        X: AnyFloats,
        y: NDArray[np.intp],
        signatures: Floats,
        start: AnyFloats,
        step: float,
        **options: Any,
    ) -> None:
        super().__init__(X, y, **options)
        self.step = step
        self.signatures = signatures.astype(X.dtype)
        self.gram = self.signatures @ self.signatures.T
        self.start = start.astype(X.dtype)
        n_maps, self.n_classes = len(start), len(signatures)
        self.P = self.signatures @ np.swapaxes(self.start, 1, 2)
        self.V = np.zeros((n_maps * self.n_classes, X.shape[1]), dtype=X.dtype)
        # What a batch changes: room that is used again and again.
        most = min(2 * self.batch_size, len(self.V))
        self._change = np.empty((most, X.shape[1]), dtype=X.dtype)
        self._touched = np.empty(2 * len(self.V), dtype=np.intp)
        # The map that won for each row's own class when it was last visited.
        self._winners = np.zeros(len(y), dtype=np.intp)

    def coef_of(self, path: int) -> AnyFloats:
        """The maps, of shape (n_maps, n_features, n_attributes)."""
        V = self.V.reshape(len(self.start), self.n_classes, -1)
        return self.start + np.swapaxes(V, 1, 2) @ self.signatures

    def _visit_all(self, order: NDArray[np.intp], shorter: float) -> None:

        y = self.y[order]
        # The same numbers as if they were drawn batch by batch.
        other = self._negatives(y)
        winners = self._winners[order]
        for visited, X, rows in self._in_parts(order):
            latent_epoch(
                X, rows, y[visited], other[visited], winners[visited], self.P, self.V, self.gram,
                self.step / shorter, self.batch_size, self._change, self._touched,
            )  # fmt: skip
        self._winners[order] = winners

    def _in_parts(
        self, order: NDArray[np.intp]
    ) -> Iterator[tuple[slice, AnyFloats, NDArray[np.intp]]]:
        """Which are visited at a time, an array that holds their rows, and where they lie in it.

        All at once where X is an array; else some batches, which are read in the order of visits.
        """
        if isinstance(self.X, np.ndarray):
            yield slice(0, len(order)), self.X, order
            return
        batch_bytes = self.batch_size * self.X.shape[1] * self.X.dtype.itemsize
        for batches in row_blocks(-(-len(order) // self.batch_size), batch_bytes, _CACHED_BYTES):
            visited = slice(batches.start * self.batch_size, batches.stop * self.batch_size)
            X = self.X[order[visited]]
            yield visited, X, np.arange(len(X))

    def _negatives(self, y: NDArray[np.intp]) -> NDArray[np.intp]:
        """Another class for each row, drawn evenly."""
        return (y + self.rng.randint(1, self.n_classes, size=len(y))) % self.n_classes
