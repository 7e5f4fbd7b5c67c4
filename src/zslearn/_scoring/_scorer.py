"""The scorer of described classes: all that a prediction needs, in one frozen object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._scoring._blocks import ScoreFunction, check_k, class_scores, top_k
from zslearn._scoring._embedding import EmbeddedRows, Embedding
from zslearn._scoring._probabilities import softmax
from zslearn._utils._array import (
    Array,
    Floats,
    Latest,
    block_budget,
    is_foreign,
    on_device,
    take_rows,
    to_numpy,
)
from zslearn._utils._blocks import row_blocks
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import name_near_misses, name_some
from zslearn.signatures._table import label_array, label_kind


@inherit_docs
@dataclass(frozen=True, eq=False)
class ClassScorer:
    """Classes, their parameters, and how features are scored against them.

    An estimator makes one whenever classes are described and replaces it as a whole, so that a
    prediction reads it once and another thread may add classes meanwhile. A wrapper makes its own
    from that of the estimator inside.

    Parameters
    ----------
    labels : ndarray of shape (n_classes,)
        Every described class, sorted.
    parameters : array of shape (n_classes, n_dims) or (n_classes, n_maps, n_dims)
        What `synthesize` made of them.
    embedding : Embedding
        Takes features into the space of the parameters.
    score : {"dot", "euclidean", "cosine", "max_dot"}, default="dot"
        The score function of embedded features and parameters.
    bias : ndarray of shape (n_classes,), optional
        What is added to the scores of each class.
    precedence : ndarray of int of shape (n_classes,), optional
        Of classes with equal scores the one with the smaller number wins, of these the first in
        `labels`. By default the first in `labels`.
    temperature : float, optional
        What scores are divided by to become logarithms of probabilities; None where it is
        not known.
    same_as : ndarray of int of shape (n_classes,), optional
        For each class the position of the first class with identical parameters, as
        :func:`identical_rows` finds it. Identical classes are scored once, so that they tie on
        every machine. None where all classes differ.

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
            Features, checked but not prepared.
        classes : array-like of labels, optional
            The candidates; by default all.

        Returns
        -------
        array of shape (n_samples, n_candidates)
            Columns follow `classes`, or `labels`.
        """
        positions = None if classes is None else find_classes(classes, self.labels)
        ties = self._ties(positions)
        if ties is None:
            return self._score_in_blocks(class_scores, X, positions)
        scores = self._score_in_blocks(class_scores, X, ties.representatives)
        xp = compat.array_namespace(scores)
        return xp.take(scores, xp.asarray(ties.group, device=compat.device(scores)), axis=1)

    def top_k(
        self, X: Array | EmbeddedRows, k: int, classes: Any = None, *, proba: bool = False
    ) -> tuple[NDArray[Any], Array]:
        """Name the `k` best classes of each row, best first.

        Parameters
        ----------
        k : int
            How many classes.
        proba : bool, default=False
            Whether probabilities are given instead of scores.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Class labels.
        scores : array of shape (n_samples, k)
            Their scores, or their probabilities among all candidates, descending.
        """
        labels, positions = self.labels, None
        if classes is not None:
            # In the order of the labels: ties do not depend on the order of the candidates.
            positions = np.sort(find_classes(classes, labels))
        if self.precedence is not None:
            positions = np.arange(len(labels)) if positions is None else positions
            positions = positions[np.argsort(self.precedence[positions], kind="stable")]
        check_k(k, len(labels if positions is None else positions))
        ties = self._ties(positions)
        if ties is None:
            indices, scores = self._score_in_blocks(top_k, X, positions, k)
        else:
            n_groups = min(k, len(ties.representatives))
            groups, scores = self._score_in_blocks(top_k, X, ties.representatives, n_groups)
            indices, scores = ties.expanded(groups, scores, k)
        labels = labels if positions is None else labels[positions]
        if proba:
            scores = self._chances(X, scores, classes)
        return labels[to_numpy(indices)], scores

    def _ties(self, positions: NDArray[np.intp] | None) -> _Ties | None:
        """Candidates that are scored once as they cannot differ; None where all are scored."""
        if self.same_as is None:
            return None
        positions = np.arange(len(self.labels)) if positions is None else positions
        keys = self.same_as[positions]
        if self.bias is not None:
            # Only classes with the same bias have the same score.
            keys = np.unique(
                np.column_stack([keys, self.bias[positions]]), axis=0, return_inverse=True
            )[1].ravel()
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        if len(first) == len(positions):
            return None
        # Groups in the order of their first members, which is the order of ties.
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return _Ties(positions[first[order]], rank[group])

    def with_class_bias(self, classes: Any, factor: float) -> ClassScorer:
        """Lower the scores of some classes; on a tie the others win (calibrated stacking).

        Parameters
        ----------
        classes : array-like of labels
            The classes to lower, usually the seen ones.
        factor : float
            What is taken from their scores.

        Returns
        -------
        ClassScorer
            A new scorer.
        """
        lowered = is_among(self.labels, classes)
        bias = np.where(lowered, -factor, 0.0)
        precedence = lowered.astype(np.intp)
        if self.precedence is not None:
            precedence = precedence * (1 + int(self.precedence.max())) + self.precedence
        return replace(
            self,
            bias=bias if self.bias is None else bias + self.bias,
            precedence=precedence,
        )

    def with_prior(self, prior: Any = None) -> ClassScorer:
        """Weigh classes by what is known before the image: place, season, how common each is.

        Parameters
        ----------
        prior : mapping of label to float, or None, default=None
            Odds of classes, positive, up to a common factor; those that are not named have 1.

        Returns
        -------
        ClassScorer
            A new scorer: its scores have temperature × log odds added, so that probabilities are
            multiplied by the odds and brought to the sum 1.
        """
        if prior is None:
            return self
        if not isinstance(prior, Mapping) or not prior:
            raise ValueError(f"prior must map classes to their odds; got {prior!r}.")
        if self.temperature is None:
            raise ValueError(
                "prior= needs probabilities, and these scores have no temperature. Use "
                "CalibratedStacking(…, temperature='cv'), ZeroShotSearchCV(…, temperature='cv'), "
                "or GaussianEXEM."
            )
        positions = find_classes(list(prior), self.labels, "prior")
        odds = np.asarray([_odds_of(label, given) for label, given in prior.items()])
        bias = np.zeros(len(self.labels)) if self.bias is None else self.bias.copy()
        bias[positions] += self.temperature * np.log(odds)
        return replace(self, bias=bias)

    def at_temperature(self, temperature: float) -> ClassScorer:
        """The same scorer with a temperature, so that it has probabilities.

        Parameters
        ----------
        temperature : float
            What scores are divided by.

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
        return softmax(self.scores(X, classes), self._known_temperature())

    def _chances(self, X: Array | EmbeddedRows, best: Array, classes: Any) -> Array:
        """Probabilities of the best classes, with one block of all scores at a time."""
        temperature, xp = self._known_temperature(), compat.array_namespace(best)
        out = xp.empty_like(best)
        blocks = [slice(0, best.shape[0])]
        if not isinstance(X, EmbeddedRows):  # such rows are a block already
            n_classes = len(self.labels if classes is None else classes)
            blocks = list(row_blocks(X.shape[0], 8 * (3 * n_classes + X.shape[1]), block_budget(X)))
        for rows in blocks:
            part = X if isinstance(X, EmbeddedRows) else X[rows, :]
            scores = self.scores(part, classes)
            largest = xp.max(scores, axis=1, keepdims=True)
            total = xp.sum(xp.exp((scores - largest) / temperature), axis=1, keepdims=True)
            out[rows, :] = xp.exp((best[rows, :] - largest) / temperature) / total
        return out

    def _known_temperature(self) -> float:
        if self.temperature is None:
            raise ValueError("This scorer has no temperature: make one by at_temperature.")
        return self.temperature

    def _score_in_blocks(
        self, function: Any, X: Array | EmbeddedRows, positions: NDArray[np.intp] | None, *args: Any
    ) -> Any:
        """Call `class_scores` or `top_k` on rows and the candidates' parameters."""
        parameters, bias = self.parameters, self.bias
        if positions is not None:
            if on_device(X) and isinstance(parameters, np.ndarray):
                # The very same array lets what the device holds of it be used again.
                key, known = positions.tobytes(), parameters
                parameters = _chosen.get(known, key, lambda: known[positions])
            else:
                parameters = take_rows(parameters, positions)
            bias = None if bias is None else bias[positions]
        options = {"score": self.score, "bias": bias}
        if isinstance(X, EmbeddedRows):
            return function(X.embedded_by(self.embedding), parameters, *args, **options)
        with self.embedding.over_blocks() as embed:
            return function(X, parameters, *args, embed=embed, **options)


_chosen = Latest()


class _Ties(NamedTuple):
    """Candidates in groups of identical ones."""

    representatives: NDArray[np.intp]  # the first position of each group
    group: NDArray[np.intp]  # of each candidate

    def expanded(self, best: Array, scores: Array, k: int) -> tuple[NDArray[np.intp], Array]:
        """Columns of the `k` best candidates, and their scores, from the best groups of each row.

        The members of a group follow each other, in the order of the candidates.
        """
        groups = to_numpy(best)
        n_rows = len(groups)
        members = np.argsort(self.group, kind="stable")
        sizes = np.bincount(self.group)
        starts = np.cumsum(sizes) - sizes
        # Slots of all rows one after another: no group needs more than k of them.
        taken = np.minimum(sizes[groups], k)
        before = np.cumsum(taken, axis=1) - taken
        source = np.repeat(np.arange(groups.size), taken.ravel())
        slot = np.arange(len(source)) - np.repeat(np.cumsum(taken) - taken.ravel(), taken.ravel())
        wanted = before.ravel()[source] + slot < k
        source, slot = source[wanted], slot[wanted]
        columns = members[starts[groups.ravel()[source]] + slot]
        xp = compat.array_namespace(scores)
        flat = xp.reshape(scores, (-1,))
        values = xp.take(flat, xp.asarray(source, device=compat.device(scores)))
        return columns.reshape(n_rows, k), xp.reshape(values, (n_rows, k))


def row_keys(parameters: Array) -> NDArray[np.uint64]:
    """A number for each row; equal rows have equal numbers, wherever they stand."""
    n_rows, width = parameters.shape[0], math.prod(parameters.shape[1:])
    factors = np.random.default_rng(0).integers(1 << 63, size=width, dtype=np.uint64)
    keys = np.empty(n_rows, dtype=np.uint64)
    for part in row_blocks(n_rows, 24 * width):
        block = to_numpy(parameters[part, ...]).reshape(-1, width).astype(np.float64)
        block += 0.0  # −0 becomes 0
        words = block.view(np.uint64)
        # Round numbers have zeros in the lower half, which would decide most of the product.
        words ^= words >> np.uint64(32)
        # Integers, whose sums are exact in any order.
        keys[part] = words @ (2 * factors + 1)
    return keys


def identical_rows(
    parameters: Array, keys: NDArray[np.uint64] | None = None
) -> NDArray[np.intp] | None:
    """For each row the position of the first row that equals it; None where all differ."""
    keys = row_keys(parameters) if keys is None else keys
    order = np.argsort(keys, kind="stable")
    equal = keys[order[1:]] == keys[order[:-1]]
    if not equal.any():
        return None
    rows = to_numpy(parameters).reshape(len(keys), -1)
    same = np.arange(len(rows))
    for run in np.split(order, np.flatnonzero(~equal) + 1):
        while len(run) > 1:
            alike = (rows[run] == rows[run[0]]).all(axis=1)
            same[run[alike]] = run[0]
            run = run[~alike]
    return same if (same != np.arange(len(rows))).any() else None


def is_among(labels: NDArray[Any], classes: Any) -> NDArray[np.bool_]:
    """Which labels are among some classes."""
    wanted = set(to_numpy(classes).tolist())
    return np.asarray([label in wanted for label in labels.tolist()], dtype=bool)


def _odds_of(label: Any, given: Any) -> float:
    """Odds of a class as a number; a ValueError names the class."""
    try:
        odds, shown = float(given), repr(given)
    except OverflowError:
        odds, shown = np.inf, "too large for a float"
    except (TypeError, ValueError):
        odds, shown = np.nan, repr(given)
    if not 0 < odds < np.inf:
        raise ValueError(
            f"prior: the odds of {name_some([label])} are {shown}; odds are finite numbers above "
            "0. What is impossible is left out of the candidates by classes=."
        )
    return odds


def find_classes(classes: Any, known: NDArray[Any], where: str = "classes") -> NDArray[np.intp]:
    """Positions among the known labels of those that a user named in the parameter `where`."""
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise ValueError(f"{where} must be a list of labels; got {classes!r}.")
    labels = label_array(to_numpy(classes) if is_foreign(classes) else classes, where)
    if labels.size == 0:
        raise ValueError(f"{where} is empty: name at least one class, or leave it out.")
    places = {label: i for i, label in enumerate(known.tolist())}
    kinds = label_kind(labels), label_kind(known)
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"{where} names what is not described: {name_some(labels.tolist())}. Its labels are "
            f"{kinds[0]}s, those of classes_ are {kinds[1]}s: they can never be equal."
        )
    unknown = [label for label in labels.tolist() if label not in places]
    if unknown:
        near = name_near_misses(unknown, places, unknown_in=where, known_in="classes_")
        raise ValueError(
            f"{where} names what is not described: {name_some(unknown)}."
            f"{near or ' Describe it with add_classes, or look at classes_.'}"
        )
    if len(np.unique(labels)) < len(labels):
        values, counts = np.unique(labels, return_counts=True)
        raise ValueError(f"{where} names twice: {name_some(values[counts > 1].tolist())}.")
    return np.asarray([places[label] for label in labels.tolist()], dtype=np.intp)
