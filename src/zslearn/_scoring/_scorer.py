"""The immutable scorer of described classes, which makes all predictions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import array_api_compat as compat
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._scoring._blocks import ScoreFunction, check_k, class_scores, top_k
from zslearn._scoring._embedding import EmbeddedRows, Embedding
from zslearn._scoring._probabilities import softmax
from zslearn._utils._array import (
    Array,
    Floats,
    IdentityCache,
    block_budget,
    is_foreign,
    row_blocks,
    take_rows,
    to_numpy,
)
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import name_near_misses, name_some
from zslearn.signatures._described import DescribedTables
from zslearn.signatures._table import find_sorted, label_array, label_kind


@inherit_docs
@dataclass(frozen=True, eq=False)
class ClassScorer:
    """Classes, their parameters, and the score function.

    A prediction reads the scorer of its estimator once, so that other threads can add classes
    meanwhile. A wrapper derives its scorer from that of the inner estimator.

    Parameters
    ----------
    labels : ndarray of shape (n_classes,)
        All described classes, sorted.
    parameters : array of shape (n_classes, n_dims) or (n_classes, n_maps, n_dims)
        Parameters of the classes, from `synthesize`. They may be stored in chunks, after classes
        were added, or once for classes of equal categories; both support positions and
        `numpy.asarray`.
    embedding : Embedding
        Maps features to the space of the parameters.
    score : {"dot", "euclidean", "cosine", "max_dot"}, default="dot"
        Score function of embedded features and parameters.
    bias : ndarray of shape (n_classes,), optional
        Added to the scores of each class.
    precedence : ndarray of int of shape (n_classes,), optional
        Order of preference among equal scores, smallest first; then the order of `labels`.
    temperature : float, optional
        Divisor that converts scores to unnormalised log-probabilities, if known.
    same_as : ndarray of int of shape (n_classes,), optional
        For each class, the position of the first class with identical parameters. Identical classes
        are scored once, so that they tie on every machine. None if all classes differ.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.base import ClassScorer, Embedding
    >>> scorer = ClassScorer(np.array(["ant", "bee"]), np.eye(2), Embedding(lambda rows: rows))
    >>> scorer.top_k(np.array([[1.0, 3.0]]), k=1)[0].tolist()
    [['bee']]
    >>> calibrated = scorer.with_class_bias(["bee"], 2.5)
    >>> calibrated.scores(np.array([[1.0, 3.0]]))
    array([[1. , 0.5]])
    """

    labels: NDArray[Any]
    parameters: Array
    embedding: Embedding
    score: ScoreFunction = "dot"
    bias: Floats | None = None
    precedence: NDArray[np.intp] | None = None
    temperature: float | None = None
    same_as: NDArray[np.intp] | None = None

    def scores(self, X: Array | EmbeddedRows, classes: Any = None) -> Array:
        """Score rows against classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features) or EmbeddedRows
            Features, validated but not prepared.
        classes : array-like of labels, optional
            Candidate classes; by default all classes.

        Returns
        -------
        array of shape (n_samples, n_candidates)
            Columns follow `classes`, or `labels`.
        """
        positions = None if classes is None else find_classes(classes, self.labels)
        ties = self._ties(positions)
        with self._against(X, positions if ties is None else ties.representatives) as options:
            scores = class_scores(**options)
        if ties is None:
            return scores
        xp = compat.array_namespace(scores)
        return xp.take(scores, xp.asarray(ties.group, device=compat.device(scores)), axis=1)

    def top_k(
        self, X: Array | EmbeddedRows, k: int, classes: Any = None, *, proba: bool = False
    ) -> tuple[NDArray[Any], Array]:
        """Find the `k` best classes of each row, best first.

        Parameters
        ----------
        k : int
            Number of best classes.
        proba : bool, default=False
            Whether to return probabilities instead of scores.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Class labels.
        scores : array of shape (n_samples, k)
            Scores, or probabilities among all candidates, in descending order.
        """
        labels, positions = self.labels, None
        if classes is not None:
            # Sorting makes ties independent of the order of the candidates.
            positions = np.sort(find_classes(classes, labels))
        if self.precedence is not None:
            positions = np.arange(len(labels)) if positions is None else positions
            positions = positions[np.argsort(self.precedence[positions], kind="stable")]
        check_k(k, len(labels if positions is None else positions))
        ties = self._ties(positions)
        chosen = positions if ties is None else ties.representatives
        n_best = k if ties is None else min(k, len(ties.representatives))
        with self._against(X, chosen) as options:
            indices, scores = top_k(**options, k=n_best)
        if ties is not None:
            indices, scores = ties.expanded(indices, scores, k)
        labels = labels if positions is None else labels[positions]
        if proba:
            scores = self._probabilities_of(X, scores, classes)
        return labels[to_numpy(indices)], scores

    def _ties(self, positions: NDArray[np.intp] | None) -> _Ties | None:
        """Groups of identical candidates; None if all candidates differ."""
        if self.same_as is None:
            return None
        if positions is None and self.bias is None:
            same_as: NDArray[np.intp] = self.same_as
            ties: _Ties = _latest_ties.get(same_as, "all", lambda: _Ties.of_all(same_as))
            return ties
        positions = np.arange(len(self.labels)) if positions is None else positions
        keys = self.same_as[positions]
        if self.bias is not None:
            # Identical classes with different biases have different scores.
            values, which = np.unique(self.bias[positions], return_inverse=True)
            keys = keys * len(values) + which
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        if len(first) == len(positions):
            return None
        # Ties follow the order of the first members.
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return _Ties(positions[first[order]], rank[group])

    def with_class_bias(self, classes: Any, factor: float) -> ClassScorer:
        """Lower the scores of some classes (calibrated stacking); other classes win ties.

        Parameters
        ----------
        classes : array-like of labels
            Classes whose scores are lowered, usually the seen classes.
        factor : float
            Calibration factor to subtract from their scores.

        Returns
        -------
        ClassScorer
            A new scorer.
        """
        lowered = np.zeros(len(self.labels), dtype=bool)
        members = to_numpy(classes)
        if len(members) and label_kind(members) == label_kind(self.labels):
            at = find_sorted(members, self.labels)
            lowered[at[at >= 0]] = True
        bias = np.where(lowered, -factor, 0.0)
        precedence = lowered.astype(np.intp)
        if self.precedence is not None:
            precedence = precedence * (1 + int(self.precedence.max())) + self.precedence
        return replace(
            self, bias=bias if self.bias is None else bias + self.bias, precedence=precedence
        )

    def with_prior(self, prior: Any = None) -> ClassScorer:
        """Weight classes by their prior odds.

        Parameters
        ----------
        prior : mapping of label to float, Series or None, default=None
            Positive odds of classes, up to a common factor; 1 for all other classes.

        Returns
        -------
        ClassScorer
            A new scorer that adds temperature × log odds to the scores, which multiplies the
            probabilities by the odds and renormalises them.
        """
        if prior is None:
            return self
        if not isinstance(prior, (Mapping, pd.Series)) or not len(prior):
            raise ValueError(f"prior must map classes to their odds; got {prior!r}.")
        if self.temperature is None:
            raise ValueError(
                "prior requires probabilities, and these scores have no temperature. Use "
                "CalibratedStacking(…, temperature='cv'), ZeroShotSearchCV(…, temperature='cv'), "
                "or GaussianEXEM."
            )
        # A Series may have a label twice, which a mapping cannot.
        positions = find_classes([label for label, _ in prior.items()], self.labels, "prior")
        odds = np.asarray([_check_odds(label, odds) for label, odds in prior.items()])
        bias = np.zeros(len(self.labels)) if self.bias is None else self.bias.copy()
        bias[positions] += self.temperature * np.log(odds)
        return replace(self, bias=bias)

    def at_temperature(self, temperature: float) -> ClassScorer:
        """Set the temperature of probabilities.

        Parameters
        ----------
        temperature : float
            Divisor of the scores.

        Returns
        -------
        ClassScorer
            A new scorer.
        """
        return replace(self, temperature=temperature)

    def probabilities(self, X: Array | EmbeddedRows, classes: Any = None) -> Array:
        """Probabilities of classes: softmax(scores / temperature).

        Returns
        -------
        array of shape (n_samples, n_candidates)
            Columns follow `classes`, or `labels`; rows sum to 1.
        """
        return softmax(self.scores(X, classes), self._temperature())

    def _probabilities_of(self, X: Array | EmbeddedRows, best: Array, classes: Any) -> Array:
        """Probabilities of the best scores, normalised over all candidates block by block."""
        temperature, xp = self._temperature(), compat.array_namespace(best)
        out = xp.empty_like(best)
        blocks = [slice(0, best.shape[0])]
        if not isinstance(X, EmbeddedRows):
            n_classes = len(self.labels if classes is None else classes)
            blocks = list(row_blocks(X.shape[0], 8 * (3 * n_classes + X.shape[1]), block_budget(X)))
        for rows in blocks:
            part = X if isinstance(X, EmbeddedRows) else X[rows, :]
            scores = self.scores(part, classes)
            largest = xp.max(scores, axis=1, keepdims=True)
            total = xp.sum(xp.exp((scores - largest) / temperature), axis=1, keepdims=True)
            out[rows, :] = xp.exp((best[rows, :] - largest) / temperature) / total
        return out

    def _temperature(self) -> float:
        if self.temperature is None:
            raise ValueError("This scorer has no temperature; set one with at_temperature.")
        return self.temperature

    @contextmanager
    def _against(
        self, X: Array | EmbeddedRows, positions: NDArray[np.intp] | None
    ) -> Iterator[dict[str, Any]]:
        """Yield the arguments of `class_scores` and `top_k` for some candidates."""
        options = {
            "parameters": self.parameters,
            "score": self.score,
            "bias": self.bias,
            "positions": positions,
        }
        if isinstance(X, EmbeddedRows):
            yield {"X": X.embedded_by(self.embedding), **options}
        else:
            with self.embedding.over_blocks() as embed:
                yield {"X": X, "embed": embed, **options}


@dataclass(frozen=True, eq=False)
class _Ties:
    """Groups of identical candidates."""

    representatives: NDArray[np.intp]  # position of the first member of each group
    group: NDArray[np.intp]  # group of each candidate

    @classmethod
    def of_all(cls, same_as: NDArray[np.intp]) -> Self:
        """Groups of all classes, given the first class that is identical to each."""
        is_first = same_as == np.arange(len(same_as))
        return cls(np.flatnonzero(is_first), (np.cumsum(is_first) - 1)[same_as])

    @cached_property
    def members(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """The candidates of all groups, and where each group begins and how many it has."""
        sizes = np.bincount(self.group)
        # Integers of 16 bits are sorted in linear time.
        narrow = self.group.astype(np.min_scalar_type(len(sizes)))
        return np.argsort(narrow, kind="stable"), np.cumsum(sizes) - sizes, sizes

    def expanded(self, best: Array, scores: Array, k: int) -> tuple[NDArray[np.intp], Array]:
        """Columns and scores of the `k` best candidates, from the best groups of each row."""
        groups, (members, starts, sizes) = to_numpy(best), self.members
        n_rows = len(groups)
        # A flat list of the members of the groups of all rows, k per row.
        counts = sizes[groups]
        before = np.cumsum(counts, axis=1) - counts
        counts = np.clip(k - before, 0, counts)
        source = np.repeat(np.arange(groups.size), counts.ravel())
        member = np.arange(len(source)) - np.repeat(
            np.cumsum(counts) - counts.ravel(), counts.ravel()
        )
        columns = np.reshape(members[starts[groups.ravel()[source]] + member], (n_rows, k))
        places = np.reshape(source, (n_rows, k))
        # The order of the members of different groups with equal scores.
        values = to_numpy(scores)
        for row in np.flatnonzero((values[:, 1:] == values[:, :-1]).any(axis=1)):
            own = [members[starts[g] : starts[g] + min(sizes[g], k)] for g in groups[row]]
            at = np.repeat(np.arange(len(own)), [len(part) for part in own])
            every = np.concatenate(own)
            order = np.lexsort((every, -values[row, at]))[:k]
            columns[row], places[row] = every[order], row * groups.shape[1] + at[order]
        xp = compat.array_namespace(scores)
        flat, at = (
            xp.reshape(scores, (-1,)),
            xp.asarray(places.ravel(), device=compat.device(scores)),
        )
        found = xp.take(flat, at)
        return columns, xp.reshape(found, (n_rows, k))


_latest_ties = IdentityCache(8)


def row_keys(parameters: Array) -> NDArray[np.uint64]:
    """Hash every row; equal rows have equal hashes."""
    n_rows, width = parameters.shape[0], math.prod(parameters.shape[1:])
    factors = np.random.default_rng(0).integers(1 << 63, size=width, dtype=np.uint64)
    keys = np.empty(n_rows, dtype=np.uint64)
    for part in row_blocks(n_rows, 24 * width):
        block = to_numpy(parameters[part, ...]).reshape(-1, width).astype(np.float64)
        block += 0.0  # −0 becomes 0
        words = block.view(np.uint64)
        # Round numbers have zeros in the lower half, which determines the low bits of the product.
        words ^= words >> np.uint64(32)
        # Integer sums are exact in any order.
        keys[part] = words @ (2 * factors + 1)
    return keys


def identical_rows(
    parameters: Array, keys: NDArray[np.uint64] | None = None
) -> NDArray[np.intp] | None:
    """For each row, the position of the first equal row; None if all rows differ."""
    keys = row_keys(parameters) if keys is None else keys
    order = np.argsort(keys, kind="stable")
    equal = keys[order[1:]] == keys[order[:-1]]
    if not equal.any():
        return None
    same = np.arange(len(keys))
    starts = np.flatnonzero(np.diff(equal, prepend=False, append=False).astype(bool)).tolist()
    for start, stop in zip(starts[::2], starts[1::2], strict=True):
        run = order[start : stop + 1]
        rows = to_numpy(take_rows(parameters, run)).reshape(len(run), -1)
        while len(run) > 1:
            alike = (rows == rows[0]).all(axis=1)
            same[run[alike]] = run[0]
            run, rows = run[~alike], rows[~alike]
    return same if (same != np.arange(len(same))).any() else None


def _check_odds(label: Any, value: Any) -> float:
    """Validate the odds of a class."""
    try:
        odds, shown = float(value), repr(value)
    except OverflowError:
        odds, shown = np.inf, "too large for a float"
    except (TypeError, ValueError):
        odds, shown = np.nan, repr(value)
    if not 0 < odds < np.inf:
        raise ValueError(
            f"prior: the odds of {name_some([label])} are {shown}; odds must be finite and "
            "positive. To exclude a class, omit it from classes=."
        )
    return odds


def find_classes(
    classes: Any, known: NDArray[Any] | DescribedTables, where: str = "classes"
) -> NDArray[np.intp]:
    """Positions of labels, the value of the parameter `where`, among sorted known labels."""
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise ValueError(f"{where} must be a list of labels; got {classes!r}.")
    labels = label_array(to_numpy(classes) if is_foreign(classes) else classes, where)
    if labels.size == 0:
        raise ValueError(f"{where} is empty: name at least one class, or omit {where}=.")
    some = known if isinstance(known, np.ndarray) else known.first.labels
    kinds = label_kind(labels), label_kind(some)
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"{where} names unknown classes: {name_some(labels.tolist())}. Its labels are "
            f"{kinds[0]}s, but those of classes_ are {kinds[1]}s."
        )
    found = find_sorted(labels, known) if isinstance(known, np.ndarray) else known.find(labels)
    if (found < 0).any():
        unknown = labels[found < 0].tolist()
        described = (known if isinstance(known, np.ndarray) else known.labels).tolist()
        near = name_near_misses(unknown, described, unknown_in=where, known_in="classes_")
        raise ValueError(
            f"{where} names unknown classes: {name_some(unknown)}."
            f"{near or ' See classes_, or describe them with add_classes.'}"
        )
    values, counts = np.unique(labels, return_counts=True)
    if len(values) < len(labels):
        raise ValueError(f"{where} repeats {name_some(values[counts > 1].tolist())}.")
    return found
