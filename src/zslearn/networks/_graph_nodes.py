"""The graph that graph methods work on: classes, with all that lies above them in a hierarchy."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from zslearn.signatures import ClassGraph, ClassTree, ancestor_pairs, cluster_levels
from zslearn.utils import Floats, name_some

#: Parents of each node, by name: what a hierarchy is, whatever it came as.
Parents = Mapping[Hashable, Sequence[Hashable]]


def read_hierarchy(hierarchy: Any) -> Parents:
    """Parents by name, of any form of hierarchy.

    Parameters
    ----------
    hierarchy : ClassGraph, ClassTree, mapping, DataFrame or list of pairs
        A class graph, whose nodes may have several parents; or what
        :class:`~zslearn.signatures.ClassTree` takes.

    Returns
    -------
    mapping
        Parents of each node that has any, and an empty sequence for those that have none.
    """
    parents: dict[Hashable, list[Hashable]] = {}
    if isinstance(hierarchy, ClassGraph):
        parents = {name: [] for name in hierarchy.nodes}
        for child, parent in hierarchy.edges.tolist():
            parents[hierarchy.nodes[child]].append(hierarchy.nodes[parent])
        return parents
    tree = hierarchy if isinstance(hierarchy, ClassTree) else ClassTree(hierarchy)
    for child, parent in tree.parents.items():
        parents.setdefault(child, []).append(parent)
        parents.setdefault(parent, [])
    return parents


def clustered_hierarchy(labels: Iterable[Hashable], signatures: Floats) -> Parents:
    """A hierarchy of three levels over classes, by clustering their signatures.

    Parameters
    ----------
    labels : iterable
        Names of the classes.
    signatures : ndarray of shape (n_classes, n_attributes)
        Their signatures.

    Returns
    -------
    mapping
        Parents by name; inner nodes have names that no class has.
    """
    levels = cluster_levels(signatures, 3)
    parents: dict[Hashable, list[Hashable]] = {("cluster", 0, 0): []}
    for depth in range(1, len(levels)):
        for code, above in zip(levels[depth].tolist(), levels[depth - 1].tolist(), strict=True):
            parents[("cluster", depth, code)] = [("cluster", depth - 1, above)]
    for label, code in zip(labels, levels[-1].tolist(), strict=True):
        parents[label] = [("cluster", len(levels) - 1, code)]
    return parents


def refuse_unplaced(parents: Parents, seen: Sequence[Hashable]) -> None:
    """Refuse a hierarchy that lacks seen classes."""
    lost = [label for label in seen if label not in parents]
    if lost:
        raise ValueError(
            f"The hierarchy does not place {len(lost)} of the {len(seen)} seen classes: "
            f"{name_some(lost)}. Add a (child, parent) pair for each, with the labels of y, or use "
            'hierarchy="cluster".'
        )


def described_graph(
    names: Sequence[Hashable],
    parents: Parents,
    beside: Mapping[Hashable, Hashable] | None = None,
) -> ClassGraph:
    """Described classes and all that lies above them.

    Parameters
    ----------
    names : sequence
        Names of the described classes, each once.
    parents : mapping
        Parents of each node, by name.
    beside : mapping, optional
        For classes that the hierarchy does not have: a class that it has, whose parents they get.

    Returns
    -------
    ClassGraph
        The first nodes are the described classes, in their order.
    """
    beside = beside or {}
    position = {name: i for i, name in enumerate(names)}
    edges: list[tuple[int, int]] = []
    waiting = list(names)
    # Breadth first, so that the nodes come in one order whatever the hierarchy's own is.
    for name in waiting:
        for parent in parents[beside.get(name, name)]:
            if parent not in position:
                position[parent] = len(position)
                waiting.append(parent)
            edges.append((position[name], position[parent]))
    return ClassGraph(list(position), np.asarray(edges, dtype=np.intp).reshape(-1, 2))


def node_inputs(graph: ClassGraph, signatures: Floats) -> Floats:
    """What the network is given of each node.

    Parameters
    ----------
    graph : ClassGraph
        Its first nodes are the described classes.
    signatures : ndarray of shape (n_described, n_attributes)
        Signatures of the described classes.

    Returns
    -------
    ndarray of shape (n_nodes, n_attributes)
        The signature of a described class; of another node the mean over the described classes
        below it.
    """
    n_described = len(signatures)
    node, ancestor, _ = ancestor_pairs(graph).T
    below = (node < n_described) & ((ancestor >= n_described) | (node == ancestor))
    members = sp.csr_array(
        (np.ones(int(below.sum())), (ancestor[below], node[below])),
        shape=(len(graph), n_described),
    )
    return np.asarray(row_normalized(members) @ signatures)


def row_normalized(matrix: sp.csr_array) -> sp.csr_array:
    """Rows divided by their sum; an empty row stays empty."""
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return sp.csr_array(sp.diags_array(scale) @ matrix)


def neighbour_matrix(graph: ClassGraph) -> sp.csr_array:
    """A + Aᵀ + I: 1 between child and parent, either way, and of each node with itself."""
    up = graph.adjacency()
    matrix = sp.csr_array(up + up.T + sp.eye_array(len(graph)))
    # Two nodes that are each above the other have one link.
    matrix.data[:] = 1.0
    return matrix


def ancestor_groups(graph: ClassGraph, n_groups: int) -> list[sp.csr_array]:
    """Which nodes lie above which, by distance.

    Parameters
    ----------
    graph : ClassGraph
        Classes and what lies above them.
    n_groups : int
        Distances 0, 1, …; the last group holds all that are at least as far.

    Returns
    -------
    list of csr_array of shape (n_nodes, n_nodes)
        1 where the column lies above the row, at the distance of the group.
    """
    node, ancestor, distance = ancestor_pairs(graph).T
    group = np.minimum(distance, n_groups - 1)
    matrices = []
    for number in range(n_groups):
        chosen = group == number
        places = (node[chosen], ancestor[chosen])
        ones = np.ones(int(chosen.sum()))
        matrices.append(sp.csr_array((ones, places), shape=(len(graph), len(graph))))
    return matrices
