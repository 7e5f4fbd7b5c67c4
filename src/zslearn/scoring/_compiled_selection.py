"""The best classes of a block of scores, compiled: one pass over the block while it is in cache.

Most classes of a row are far from the best. Classes are therefore taken in short runs, whose
maximum is found with vector instructions, and only runs that reach a threshold are looked into. The
threshold is the worst of the list so far; of a row without a list yet it is the k-th largest
maximum of the runs, for at least k classes are as good. What reaches it is gathered first, without
a branch for each class, and then sorted into the list.

This module is compiled, and imported where it is first needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zslearn.utils import jit, jit_inner

_RUN = 16
# From so long lists on a threshold is found by halving an interval.
_MANY = 8
_HALVINGS = 8


@jit("the selection of the best classes")
def add_to_lists(
    block: Any, first: int, half: Any, squares: Any, bias: Any, indices: Any, values: Any
) -> None:
    """Take a block of products into lists of the best classes, sorted, the first of equals first.

    Where `half` has a length it is taken from the products, which ranks classes by their distance,
    and the score is the negative distance, with `squares` of the rows; `bias` is added where it has
    a length. Lists begin with indices of −1. The block is written over.
    """
    n_rows, n_classes = block.shape
    k = indices.shape[1]
    halved, biased = half.shape[0] > 0, bias.shape[0] > 0
    finish = halved and not biased
    # Constants of the block's own type: others would make the scores double.
    zero, two = block.dtype.type(0), block.dtype.type(2)
    slack = block.dtype.type(8 * np.finfo(block.dtype).eps)
    lowest = block.dtype.type(-np.inf)
    maxima = np.empty((n_classes + _RUN - 1) // _RUN, block.dtype)
    tops = np.empty(k, block.dtype)
    spots = np.empty(n_classes + 1, np.int32)
    for i in range(n_rows):
        line, best, places = block[i], values[i], indices[i]
        square = zero
        if finish:
            square = squares[i]
            _maxima_less(line, half, maxima)
        else:
            if halved:
                _to_distances(line, half, squares[i])
            if biased:
                _add(line, bias)
            _maxima(line, maxima)
        count = k
        while count > 0 and places[count - 1] < 0:
            count -= 1
        threshold = lowest
        if count == k:
            threshold = best[k - 1]
            if finish:
                threshold = (square - threshold * threshold) / two
        elif maxima.shape[0] >= k:
            threshold = _kth_largest(maxima, tops) if k < _MANY else _at_least(maxima, k)
        if finish:
            # Rounding may make two scores equal whose squares differ by a few units.
            threshold -= slack * (square + abs(threshold))
            found = _gather_less(line, half, maxima, threshold, spots)
        else:
            found = _gather(line, maxima, threshold, spots)
        for spot in range(found):
            c = spots[spot]
            score = line[c]
            if finish:
                distance = square - two * (score - half[c])
                score = -np.sqrt(distance if distance > zero else zero)
            if count < k:
                count += 1
            elif not score > best[k - 1]:
                continue
            at = count - 1
            while at > 0 and best[at - 1] < score:
                best[at] = best[at - 1]
                places[at] = places[at - 1]
                at -= 1
            best[at] = score
            places[at] = first + c


@jit_inner()
def _gather(line: Any, maxima: Any, threshold: Any, spots: Any) -> int:
    """Write down the classes that reach a threshold, ascending; returns how many they are."""
    found = 0
    for run in range(maxima.shape[0]):
        if maxima[run] < threshold:
            continue
        for c in range(run * _RUN, min((run + 1) * _RUN, line.shape[0])):
            spots[found] = c
            found += line[c] >= threshold
    return found


@jit_inner()
def _gather_less(line: Any, half: Any, maxima: Any, threshold: Any, spots: Any) -> int:
    """The same of the scores less `half`."""
    found = 0
    for run in range(maxima.shape[0]):
        if maxima[run] < threshold:
            continue
        for c in range(run * _RUN, min((run + 1) * _RUN, line.shape[0])):
            spots[found] = c
            found += line[c] - half[c] >= threshold
    return found


@jit_inner(fast=True)
def _maxima(line: Any, maxima: Any) -> None:
    """The largest number of each run; where there is NaN, whatever."""
    n = line.shape[0]
    whole = n // _RUN
    for run in range(whole):
        start = run * _RUN
        top = line[start]
        for c in range(1, _RUN):
            top = max(top, line[start + c])
        maxima[run] = top
    if whole < maxima.shape[0]:
        top = line[whole * _RUN]
        for c in range(whole * _RUN + 1, n):
            top = max(top, line[c])
        maxima[whole] = top


@jit_inner(fast=True)
def _maxima_less(line: Any, half: Any, maxima: Any) -> None:
    """The same of the scores less `half`."""
    n = line.shape[0]
    whole = n // _RUN
    for run in range(whole):
        start = run * _RUN
        top = line[start] - half[start]
        for c in range(1, _RUN):
            top = max(top, line[start + c] - half[start + c])
        maxima[run] = top
    if whole < maxima.shape[0]:
        top = line[whole * _RUN] - half[whole * _RUN]
        for c in range(whole * _RUN + 1, n):
            top = max(top, line[c] - half[c])
        maxima[whole] = top


@jit_inner()
def _kth_largest(numbers: Any, tops: Any) -> Any:
    """The smallest of the largest numbers, as many as `tops` has room for."""
    k, count = tops.shape[0], 0
    for number in numbers:
        if count == k and not number > tops[k - 1]:
            continue
        at = min(count, k - 1)
        while at > 0 and tops[at - 1] < number:
            tops[at] = tops[at - 1]
            at -= 1
        tops[at] = number
        count = min(count + 1, k)
    return tops[k - 1]


@jit_inner(fast=True)
def _count(numbers: Any, threshold: Any) -> int:
    """How many numbers reach a threshold."""
    count = 0
    for number in numbers:
        count += number >= threshold
    return count


@jit_inner()
def _at_least(numbers: Any, k: int) -> Any:
    """A threshold that `k` numbers reach, and few others: the interval of all is halved."""
    low, high = numbers[0], numbers[0]
    for number in numbers:
        low, high = min(low, number), max(high, number)
    for _ in range(_HALVINGS):
        middle = numbers.dtype.type((low + high) / 2)
        count = _count(numbers, middle)
        if count >= k:
            low = middle
            if count <= k + 1:
                break
        else:
            high = middle
    return low


@jit_inner()
def _add(line: Any, numbers: Any) -> None:
    for c in range(line.shape[0]):
        line[c] += numbers[c]


@jit_inner()
def _to_distances(line: Any, half: Any, square: Any) -> None:
    two, zero = line.dtype.type(2), line.dtype.type(0)
    for c in range(line.shape[0]):
        distance = square - two * (line[c] - half[c])
        line[c] = -np.sqrt(distance if distance > zero else zero)
