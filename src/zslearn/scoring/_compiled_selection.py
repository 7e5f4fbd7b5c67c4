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
# Maxima of runs are looked at so many at a time; those that are missing are −∞.
_ROOM = 64
# From so long lists on a threshold is found by halving an interval, and places by counting.
_MANY = 4
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
    n_runs = (n_classes + _RUN - 1) // _RUN
    maxima = np.full((n_runs + _ROOM - 1) // _ROOM * _ROOM, lowest, block.dtype)
    tops, room = np.empty(k, block.dtype), np.empty(_ROOM, block.dtype)
    runs, spots = np.empty(n_runs + 1, np.int64), np.empty(n_classes + 1, np.int64)
    found = np.empty(max(n_classes, _ROOM), block.dtype)
    for i in range(n_rows):
        line, best, places = block[i], values[i], indices[i]
        square = zero
        if finish:
            square = squares[i]
            _find_maxima_less(line, half, maxima, room)
        else:
            if halved:
                _to_distances(line, half, squares[i])
            if biased:
                _add(line, bias)
            _find_maxima(line, maxima, room)
        count = k
        while count > 0 and places[count - 1] < 0:
            count -= 1
        threshold = lowest
        if count == k:
            threshold = best[k - 1]
            if finish:
                threshold = (square - threshold * threshold) / two
        elif n_runs >= k:
            if k < _MANY:
                threshold = _kth_largest(maxima[:n_runs], tops)
            else:
                threshold = _at_least(maxima, n_runs, k, room)
        if finish:
            # Rounding may make two scores equal whose squares differ by a few units.
            threshold -= slack * (square + abs(threshold))
        near = _gather_runs(maxima[:n_runs], threshold, runs)
        if finish:
            n_found = _gather_less(line, half, runs[:near], threshold, spots)
            for at in range(n_found):
                distance = square - two * (line[spots[at]] - half[spots[at]])
                found[at] = -np.sqrt(distance if distance > zero else zero)
        else:
            n_found = _gather(line, runs[:near], threshold, spots)
            for at in range(n_found):
                found[at] = line[spots[at]]
        if count == 0 and _MANY <= n_found <= _ROOM:
            _rank(found, spots, n_found, first, best, places)
        else:
            _insert(found, spots, n_found, first, count, best, places)


@jit_inner()
def _insert(
    found: Any, spots: Any, n_found: int, first: int, count: int, best: Any, places: Any
) -> None:
    """Take what was found into a list of some length, one class after the other."""
    k = best.shape[0]
    for spot in range(n_found):
        score = found[spot]
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
        places[at] = first + spots[spot]


@jit_inner()
def _rank(found: Any, spots: Any, n_found: int, first: int, best: Any, places: Any) -> None:
    """Fill an empty list: the place of a class is the number of larger scores.

    Equals would have the same place; as classes come in their order the next one is free.
    """
    k = best.shape[0]
    for at in range(n_found, _ROOM):
        found[at] = -np.inf
    for spot in range(n_found):
        at = int(_count_above(found, found[spot]))
        while at < k and places[at] >= 0:
            at += 1
        if at < k:
            best[at] = found[spot]
            places[at] = first + spots[spot]


@jit_inner(fast=True)
def _count_above(numbers: Any, threshold: Any) -> Any:
    """How many of the first 64 numbers are above another, in their own type."""
    one, zero = numbers.dtype.type(1), numbers.dtype.type(0)
    total = zero
    for c in range(_ROOM):
        total += one if numbers[c] > threshold else zero
    return total


@jit_inner()
def _gather_runs(maxima: Any, threshold: Any, runs: Any) -> int:
    """Write down the runs that reach a threshold; how many they are.

    Everything is written, and what does not count is written over: branches that nobody can foresee
    cost more.
    """
    n_runs = 0
    for run in range(maxima.shape[0]):
        runs[n_runs] = run
        n_runs += not maxima[run] < threshold
    return n_runs


@jit_inner()
def _gather(line: Any, runs: Any, threshold: Any, spots: Any) -> int:
    """Write down the classes of some runs that reach a threshold, ascending; how many."""
    n_found = 0
    for run in runs:
        start = run * _RUN
        if start + _RUN <= line.shape[0]:
            for c in range(_RUN):
                spots[n_found] = start + c
                n_found += line[start + c] >= threshold
        else:
            for c in range(start, line.shape[0]):
                spots[n_found] = c
                n_found += line[c] >= threshold
    return n_found


@jit_inner()
def _gather_less(line: Any, half: Any, runs: Any, threshold: Any, spots: Any) -> int:
    """The same of the numbers less `half`."""
    n_found = 0
    for run in runs:
        start = run * _RUN
        if start + _RUN <= line.shape[0]:
            for c in range(_RUN):
                spots[n_found] = start + c
                n_found += line[start + c] - half[start + c] >= threshold
        else:
            for c in range(start, line.shape[0]):
                spots[n_found] = c
                n_found += line[c] - half[c] >= threshold
    return n_found


@jit_inner(fast=True)
def _find_maxima(line: Any, maxima: Any, room: Any) -> None:
    """The largest number of each run; where there is NaN, whatever."""
    n = line.shape[0]
    whole = n // _RUN
    for run in range(whole):
        start = run * _RUN
        # Halves of halves: each line is one or two vector instructions.
        for c in range(8):
            room[c] = max(line[start + c], line[start + 8 + c])
        for c in range(4):
            room[c] = max(room[c], room[c + 4])
        maxima[run] = max(max(room[0], room[1]), max(room[2], room[3]))
    if whole * _RUN < n:
        top = line[whole * _RUN]
        for c in range(whole * _RUN + 1, n):
            top = max(top, line[c])
        maxima[whole] = top


@jit_inner(fast=True)
def _find_maxima_less(line: Any, half: Any, maxima: Any, room: Any) -> None:
    """The same of the numbers less `half`."""
    n = line.shape[0]
    whole = n // _RUN
    for run in range(whole):
        start = run * _RUN
        for c in range(8):
            room[c] = max(
                line[start + c] - half[start + c], line[start + 8 + c] - half[start + 8 + c]
            )
        for c in range(4):
            room[c] = max(room[c], room[c + 4])
        maxima[run] = max(max(room[0], room[1]), max(room[2], room[3]))
    if whole * _RUN < n:
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
def _count(numbers: Any, threshold: Any) -> Any:
    """How many numbers reach a threshold, in their own type."""
    one, zero = numbers.dtype.type(1), numbers.dtype.type(0)
    total = zero
    for start in range(0, numbers.shape[0], _ROOM):
        for c in range(_ROOM):
            total += one if numbers[start + c] >= threshold else zero
    return total


@jit_inner()
def _at_least(numbers: Any, n: int, k: int, room: Any) -> Any:
    """A threshold that `k` of the first `n` numbers reach, and few others.

    An interval is halved. Where at most half of 64 are wanted it begins at the least of 32 maxima
    of two numbers each: 32 numbers are no less.
    """
    half = _ROOM // 2
    if numbers.shape[0] == _ROOM and n >= half >= k:
        for c in range(half):
            room[c] = max(numbers[c], numbers[half + c])
        # Halves of halves, the least below and the largest above.
        for c in range(16):
            room[half + c] = max(room[c], room[c + 16])
            room[c] = min(room[c], room[c + 16])
        for c in range(8):
            room[half + c] = max(room[half + c], room[half + 8 + c])
            room[c] = min(room[c], room[c + 8])
        low, high = room[0], room[half]
        for c in range(1, 8):
            low, high = min(low, room[c]), max(high, room[half + c])
    else:
        low, high = numbers[0], numbers[0]
        for c in range(1, n):
            low, high = min(low, numbers[c]), max(high, numbers[c])
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
