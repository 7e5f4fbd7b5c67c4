"""Hierarchical precision: predictions near the true class in a class hierarchy count as well."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from zslearn._utils._messages import name_some
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

# Neighbourhoods in a class hierarchy, of many classes at a time and never of all pairs.


class HierarchyGraph(NamedTuple):
    """An undirected graph: 1 where two nodes are linked, by their positions."""

    node_of: dict[Hashable, int]
    links: sparse.csr_array

    @classmethod
    def from_pairs(cls, hierarchy: Any) -> HierarchyGraph:
        pairs = _check_pairs(hierarchy)
        node_of: dict[Hashable, int] = {}
        flat = (label for pair in pairs for label in pair)
        links = np.array([node_of.setdefault(label, len(node_of)) for label in flat], dtype=np.intp)
        child, parent = links.reshape(-1, 2).T
        source, target = np.append(child, parent), np.append(parent, child)
        ones = np.ones(len(source), dtype=np.float32)
        shape = (len(node_of), len(node_of))
        linked = sparse.csr_array((ones, (source, target)), shape=shape)
        linked.data[:] = 1.0  # also where a link is named twice
        return cls(node_of=node_of, links=linked)

    def nodes(self, labels: Any, name: str) -> NDArray[np.intp]:
        """Nodes of some labels; an error naming those that are not in the hierarchy."""
        labels = labels.tolist() if isinstance(labels, np.ndarray) else labels
        unknown = [label for label in labels if label not in self.node_of]
        if unknown:
            raise ValueError(
                f"{name} holds labels that are not in the hierarchy: {name_some(unknown)}."
            )
        return np.array([self.node_of[label] for label in labels], dtype=np.intp)


class Neighbourhoods(NamedTuple):
    """What lies around some nodes, as far as the radius of each grew.

    Parameters
    ----------
    reached : sparse array of shape (n_starts, n_nodes)
        One more than the hops from a start to each node that was reached, else 0.
    radii : ndarray of shape (n_starts, n_k)
        The radius at which at least K labels are inside, by start and K.
    """

    reached: sparse.csr_array
    radii: NDArray[np.intp]

    def hops_to(self, start: NDArray[np.intp], nodes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Hops from the start of each row to its nodes; more than all nodes where none lead."""
        rows = np.repeat(start, nodes.shape[1])
        found = self.reached[rows, nodes.ravel()]
        found = np.asarray(found if isinstance(found, np.ndarray) else found.todense()).ravel()
        hops = found.astype(np.intp) - 1
        return np.where(hops < 0, self.reached.shape[1] + 1, hops).reshape(nodes.shape)


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


def grow(
    graph: HierarchyGraph,
    starts: NDArray[np.intp],
    label_nodes: NDArray[np.intp],
    ks: NDArray[np.intp],
    names: Sequence[Hashable],
) -> Neighbourhoods:
    """Grow a radius around each of some nodes until it holds the largest K of the labels."""
    n_starts, n_nodes = len(starts), len(graph.node_of)
    is_label = np.zeros(n_nodes, dtype=np.float32)
    is_label[label_nodes] = 1.0
    growing = np.arange(n_starts)
    ones = np.ones(n_starts, dtype=np.float32)
    # Rows of `frontier` and `before` are those of the starts that still grow.
    frontier = sparse.csr_array((ones, (growing, starts)), shape=(n_starts, n_nodes))
    before = sparse.csr_array((n_starts, n_nodes), dtype=np.float32)
    inside = [np.rint(frontier @ is_label).astype(np.intp)]  # labels, by radius and start
    rows, columns = [growing], [starts]
    while (keep := inside[-1][growing] < ks.max()).any():
        growing, frontier, before = growing[keep], frontier[keep], before[keep]
        _refuse_dead_ends(frontier, growing, inside[-1], ks, names)
        ring = frontier @ graph.links
        ring.data[:] = 1.0
        # A neighbour of a node at distance d is at d − 1, d or d + 1.
        ring = sparse.csr_array(ring - ring.multiply(frontier) - ring.multiply(before))
        ring.eliminate_zeros()
        before, frontier = frontier, ring
        row, column = ring.tocoo().coords
        rows.append(growing[row])
        columns.append(column.astype(np.intp))
        counts = inside[-1].copy()
        counts[growing] += np.rint(ring @ is_label).astype(np.intp)
        inside.append(counts)
    hops = np.repeat(np.arange(len(rows)), [len(row) for row in rows]).astype(np.float32)
    places = (np.concatenate(rows), np.concatenate(columns))
    reached = sparse.csr_array((hops + 1, places), shape=(n_starts, n_nodes))
    reached.sort_indices()
    enough = np.stack(inside)[:, :, None] >= ks  # radius × start × K
    return Neighbourhoods(reached, enough.argmax(axis=0))


def _refuse_dead_ends(
    frontier: sparse.csr_array,
    growing: NDArray[np.intp],
    inside: NDArray[np.intp],
    ks: NDArray[np.intp],
    names: Sequence[Hashable],
) -> None:
    """Refuse a start from which nothing more is reached, though labels are still wanted."""
    dead = np.flatnonzero(np.diff(frontier.indptr) == 0)
    if dead.size:
        start = growing[dead[0]]
        raise ValueError(
            f"k={ks.max()} is too large for the class {name_some([names[start]])}: the hierarchy "
            f"leads from it to {inside[start]} label(s) of classes."
        )


#: (child, parent) pairs.
Pairs = Iterable[tuple[Hashable, Hashable]] | pd.DataFrame | NDArray[Any]
#: The most distances, from some classes to all nodes, that are in memory at a time.
_BLOCK_CELLS = 1 << 23


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
    graph = HierarchyGraph.from_pairs(hierarchy)
    label_nodes = graph.nodes(labels, "classes")

    predicted = distinct.to_numpy()
    top_nodes = label_nodes[check_known(predicted, labels, "y_top")][codes]

    true_classes = unique(true)
    true_nodes = graph.nodes(true_classes, "y_true")
    true_code = positions(true, true_classes)
    by_class = np.argsort(true_code, kind="stable")
    start = np.append(0, np.cumsum(np.bincount(true_code)))

    n_hits = np.zeros(len(ks))
    n_rows = max(1, _BLOCK_CELLS // len(graph.node_of))
    for first in range(0, len(true_nodes), n_rows):
        some = slice(first, first + n_rows)
        near = grow(graph, true_nodes[some], label_nodes, ks, true_classes[some].tolist())
        samples = by_class[start[first] : start[min(first + n_rows, len(true_nodes))]]
        distance = near.hops_to(true_code[samples] - first, top_nodes[samples])
        radius = near.radii[true_code[samples] - first]
        for i, n_top in enumerate(ks):
            n_hits[i] += np.count_nonzero(distance[:, :n_top] <= radius[:, [i]])
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
    graph = HierarchyGraph.from_pairs(hierarchy)
    label_nodes = graph.nodes(labels, "classes")
    (node,) = graph.nodes([label], "label")
    near = grow(graph, np.array([node]), label_nodes, ks, [label])
    distance = near.hops_to(np.zeros(1, dtype=np.intp), label_nodes[None])[0]
    inside = np.flatnonzero(distance <= near.radii[0, 0])
    return labels[inside[np.argsort(distance[inside], kind="stable")]]
