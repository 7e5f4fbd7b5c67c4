"""Hierarchical precision: predictions near the true class in a class hierarchy count as well."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from zslearn.metrics._validation import (
    check_classes,
    check_k,
    check_known,
    check_labels,
    check_same_length,
    check_top,
    positions,
    unique,
)
from zslearn.utils import name_some

#: (child, parent) pairs.
Pairs = Iterable[tuple[Hashable, Hashable]] | pd.DataFrame | NDArray[Any]


@overload
def hierarchical_precision_at_k(
    y_true: ArrayLike, y_top: ArrayLike, k: int, *, hierarchy: Pairs, classes: ArrayLike
) -> float: ...


@overload
def hierarchical_precision_at_k(
    y_true: ArrayLike,
    y_top: ArrayLike,
    k: Sequence[int] | NDArray[Any],
    *,
    hierarchy: Pairs,
    classes: ArrayLike,
) -> NDArray[np.float64]: ...


def hierarchical_precision_at_k(
    y_true: ArrayLike,
    y_top: ArrayLike,
    k: int | Sequence[int] | NDArray[Any],
    *,
    hierarchy: Pairs,
    classes: ArrayLike,
) -> float | NDArray[np.float64]:
    r"""Share of the first K predictions that are near the true label in a hierarchy (HP@K).

    .. math::

        \frac{1}{N} \sum_n \frac{1}{K}
        \left| \text{top}_K(x_n) \cap hCorrectSet_K(y_n) \right|

    where :math:`hCorrectSet_K(c)` grows around class c until it holds at least K labels of the
    label space (algorithm aHCorrect; see `hierarchical_correct_set`).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels; each must be in the hierarchy.
    y_top : array-like of shape (n_samples, n_top)
        Predicted labels out of `classes`, best first, different ones in a row; n_top is at least
        the largest K.
    k : int or sequence of int
        How many predictions count.
    hierarchy : iterable of (child, parent) pairs, DataFrame or array with two columns
        The links between classes and inner nodes. They are followed both ways; several parents and
        cycles are allowed.
    classes : array-like of shape (n_classes,)
        The label space: the labels that can be predicted. Each must be in the hierarchy.

    Returns
    -------
    precision : float or ndarray of shape (n_k,)
        A number for an int, an array for a sequence.

    See Also
    --------
    hierarchical_correct_set : The labels that count as correct.
    flat_hit_at_k : Counts the true label only.

    References
    ----------
    A. Frome, G. Corrado, J. Shlens, S. Bengio, J. Dean, M. Ranzato, T. Mikolov. "DeViSE: A Deep
    Visual-Semantic Embedding Model". NIPS, 2013, appendix.

    Examples
    --------
    >>> from zslearn.metrics import hierarchical_precision_at_k
    >>> hierarchy = [("cat", "mammal"), ("dog", "mammal"), ("owl", "bird"), ("emu", "bird"),
    ...              ("mammal", "animal"), ("bird", "animal")]
    >>> y_true = ["cat", "owl"]
    >>> y_top = [["dog", "cat"], ["owl", "dog"]]
    >>> hierarchical_precision_at_k(
    ...     y_true, y_top, [1, 2], hierarchy=hierarchy, classes=["cat", "dog", "owl", "emu"]
    ... )
    array([0.5 , 0.75])
    """
    true = check_labels(y_true, "y_true")
    labels = check_classes(classes)
    ks, distinct, codes = check_top(y_top, k)
    check_same_length("y_true", true, "y_top", codes)
    graph = _Graph.from_pairs(hierarchy)
    label_nodes = graph.nodes(labels, "classes")

    predicted = distinct.to_numpy()
    top_nodes = label_nodes[check_known(predicted, labels, "y_top")][codes]

    true_classes = unique(true)
    true_nodes = graph.nodes(true_classes, "y_true")
    true_code = positions(true, true_classes)
    by_class = np.split(
        np.argsort(true_code, kind="stable"), np.cumsum(np.bincount(true_code))[:-1]
    )

    n_hits = np.zeros(len(ks))
    for label, node, rows in zip(true_classes.tolist(), true_nodes, by_class, strict=True):
        hops, radii = _grow(graph, node, label_nodes, ks, label)
        distance = hops[top_nodes[rows]]
        for i, (n_top, radius) in enumerate(zip(ks, radii, strict=True)):
            n_hits[i] += np.count_nonzero(distance[:, :n_top] <= radius)
    precision = n_hits / (ks * len(true))
    return float(precision[0]) if np.ndim(k) == 0 else precision


def hierarchical_correct_set(
    label: Hashable, k: int, *, hierarchy: Pairs, classes: ArrayLike
) -> NDArray[Any]:
    """Labels that hierarchical precision counts as correct for a class (hCorrectSet).

    Algorithm aHCorrect: the radius around the class, counted in hops along the hierarchy's links,
    grows from 0 until at least K labels of the label space are inside.

    Parameters
    ----------
    label : hashable
        The true class; it must be in the hierarchy. It belongs to the set where it is in `classes`.
    k : int
        The least number of labels in the set.
    hierarchy : iterable of (child, parent) pairs, DataFrame or array with two columns
        The links between classes and inner nodes. They are followed both ways; several parents and
        cycles are allowed.
    classes : array-like of shape (n_classes,)
        The label space: the labels that can be predicted. Each must be in the hierarchy.

    Returns
    -------
    labels : ndarray of shape (at least k,)
        Nearest first; labels at the same distance in the order of `classes`. More than K labels
        where the last radius brings more.

    See Also
    --------
    hierarchical_precision_at_k : The metric that uses it.

    References
    ----------
    A. Frome, G. Corrado, J. Shlens, S. Bengio, J. Dean, M. Ranzato, T. Mikolov. "DeViSE: A Deep
    Visual-Semantic Embedding Model". NIPS, 2013, appendix.

    Examples
    --------
    >>> from zslearn.metrics import hierarchical_correct_set
    >>> hierarchy = [("cat", "mammal"), ("dog", "mammal"), ("owl", "bird"), ("emu", "bird"),
    ...              ("mammal", "animal"), ("bird", "animal")]
    >>> classes = ["cat", "dog", "owl", "emu"]
    >>> hierarchical_correct_set("cat", 2, hierarchy=hierarchy, classes=classes).tolist()
    ['cat', 'dog']
    >>> hierarchical_correct_set("cat", 3, hierarchy=hierarchy, classes=classes).tolist()
    ['cat', 'dog', 'owl', 'emu']
    """
    if np.ndim(k) != 0:
        raise ValueError(f"k must be a whole number, got {k!r}.")
    ks = check_k(k)
    labels = check_classes(classes)
    graph = _Graph.from_pairs(hierarchy)
    label_nodes = graph.nodes(labels, "classes")
    (node,) = graph.nodes([label], "label")
    hops, radii = _grow(graph, node, label_nodes, ks, label)
    distance = hops[label_nodes]
    inside = np.flatnonzero(distance <= radii[0])
    return labels[inside[np.argsort(distance[inside], kind="stable")]]


class _Graph(NamedTuple):
    """An undirected graph: neighbours of node i are `neighbours[start[i]:start[i + 1]]`."""

    node_of: dict[Hashable, int]
    start: NDArray[np.intp]
    neighbours: NDArray[np.intp]

    @classmethod
    def from_pairs(cls, hierarchy: Any) -> _Graph:
        pairs = _check_pairs(hierarchy)
        node_of: dict[Hashable, int] = {}
        flat = (label for pair in pairs for label in pair)
        links = np.array([node_of.setdefault(label, len(node_of)) for label in flat], dtype=np.intp)
        child, parent = links.reshape(-1, 2).T
        source, target = np.append(child, parent), np.append(parent, child)
        degree = np.bincount(source, minlength=len(node_of))
        return cls(
            node_of=node_of,
            start=np.append(0, np.cumsum(degree)),
            neighbours=target[np.argsort(source, kind="stable")],
        )

    def nodes(self, labels: Any, name: str) -> NDArray[np.intp]:
        """Nodes of some labels; an error naming those that are not in the hierarchy."""
        labels = labels.tolist() if isinstance(labels, np.ndarray) else labels
        unknown = [label for label in labels if label not in self.node_of]
        if unknown:
            raise ValueError(
                f"{name} holds labels that are not in the hierarchy: {name_some(unknown)}."
            )
        return np.array([self.node_of[label] for label in labels], dtype=np.intp)

    def around(self, nodes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Neighbours of some nodes, each once."""
        first, degree = self.start[nodes], self.start[nodes + 1] - self.start[nodes]
        # Concatenates the ranges first[i] .. first[i] + degree[i] without a loop.
        shift = np.repeat(first - np.cumsum(degree) + degree, degree)
        return np.unique(self.neighbours[shift + np.arange(len(shift))])


def _check_pairs(hierarchy: Any) -> list[Sequence[Hashable]]:
    if isinstance(hierarchy, Mapping):
        raise ValueError(
            "hierarchy must be (child, parent) pairs, not a mapping: pass its items()."
        )
    if isinstance(hierarchy, pd.DataFrame):
        hierarchy = hierarchy.to_numpy(dtype=object)
    pairs = hierarchy.tolist() if isinstance(hierarchy, np.ndarray) else list(hierarchy)
    if not pairs:
        raise ValueError("hierarchy is empty: at least one (child, parent) pair is needed.")
    for pair in pairs:
        if not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
            raise ValueError(f"hierarchy must be (child, parent) pairs, got {pair!r}.")
        # A tuple is a label like any other; only a scalar can be missing.
        if any(pd.api.types.is_scalar(label) and pd.isna(label) for label in pair):
            raise ValueError(
                f"hierarchy holds a missing label in the pair {pair!r}: leave the pair out."
            )
    return pairs


def _grow(
    graph: _Graph,
    node: np.intp,
    label_nodes: NDArray[np.intp],
    ks: NDArray[np.intp],
    label: Hashable,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Grow a radius around a node until it holds the largest K of the labels.

    Returns
    -------
    hops : ndarray of shape (n_nodes,)
        Distance of each node; larger than every radius where it was not reached.
    radii : ndarray of shape (n_k,)
        The radius for each K.
    """
    n_nodes = len(graph.node_of)
    is_label = np.zeros(n_nodes, dtype=bool)
    is_label[label_nodes] = True
    hops = np.full(n_nodes, n_nodes, dtype=np.intp)
    hops[node] = 0
    frontier = np.array([node])
    n_inside = [int(is_label[node])]  # by radius
    while n_inside[-1] < ks.max() and len(frontier):
        frontier = graph.around(frontier)
        frontier = frontier[hops[frontier] == n_nodes]
        hops[frontier] = len(n_inside)
        n_inside.append(n_inside[-1] + int(np.count_nonzero(is_label[frontier])))
    if n_inside[-1] < ks.max():
        raise ValueError(
            f"k={ks.max()} is too large for the class {name_some([label])}: the hierarchy leads "
            f"from it to {n_inside[-1]} label(s) of classes."
        )
    return hops, np.searchsorted(n_inside, ks)
