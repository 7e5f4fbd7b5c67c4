"""The graph that graph methods work on: classes, with all that lies above them in a hierarchy."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from zslearn.signatures import ClassTree, cluster_levels
from zslearn.utils import Floats, name_some

#: Parents of each node, by name: what a hierarchy is, whatever it came as.
Parents = Mapping[Hashable, Sequence[Hashable]]


def read_hierarchy(hierarchy: Any) -> Parents:
    """Parents by name, of any form of hierarchy.

    Parameters
    ----------
    hierarchy : object with `nodes` and `edges`, ClassTree, mapping, DataFrame or list of pairs
        A class graph, whose nodes may have several parents; or what
        :class:`~zslearn.signatures.ClassTree` takes.

    Returns
    -------
    mapping
        Parents of each node that has any, and an empty sequence for those that have none.
    """
    parents: dict[Hashable, list[Hashable]] = {}
    if hasattr(hierarchy, "nodes") and hasattr(hierarchy, "edges"):
        names = [_plain(name) for name in hierarchy.nodes]
        parents = {name: [] for name in names}
        for child, parent in np.asarray(hierarchy.edges, dtype=np.intp).reshape(-1, 2).tolist():
            parents[names[child]].append(names[parent])
        return parents
    tree = hierarchy if isinstance(hierarchy, ClassTree) else ClassTree(hierarchy)
    for child, parent in tree.parents.items():
        parents.setdefault(child, []).append(parent)
        parents.setdefault(parent, [])
    return parents


def _plain(name: Any) -> Hashable:
    """A name as labels have it once they are in a list."""
    return name.item() if isinstance(name, np.generic) else name


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


class AncestorPairs(NamedTuple):
    """Pairs of nodes, the second above the first, with the length of the shortest way up."""

    node: NDArray[np.intp]
    ancestor: NDArray[np.intp]
    distance: NDArray[np.intp]


class NodeGraph:
    """Described classes and their ancestors.

    Parameters
    ----------
    names : sequence
        Names of the described classes, each once. Those that `parents` lacks need `beside`.
    parents : mapping
        Parents of each node, by name.
    beside : mapping, optional
        For classes that the hierarchy does not have: a class that it has, whose parents they get.

    Attributes
    ----------
    n_described : int
        The first nodes are the described classes, in their order; the others lie above them.
    edges : ndarray of shape (n_edges, 2)
        Positions of child and parent.
    """

    def __init__(
        self,
        names: Sequence[Hashable],
        parents: Parents,
        beside: Mapping[Hashable, Hashable] | None = None,
    ) -> None:
        beside = beside or {}
        index = {name: position for position, name in enumerate(names)}
        self.n_described = len(index)
        edges: list[tuple[int, int]] = []
        waiting = list(names)
        # Breadth first, so that the nodes come in one order whatever the hierarchy's own is.
        for name in waiting:
            above = parents.get(name)
            if above is None:
                above = parents[beside[name]] if name in beside else ()
            for parent in above:
                if parent not in index:
                    index[parent] = len(index)
                    waiting.append(parent)
                edges.append((index[name], index[parent]))
        self.n_nodes = len(index)
        self.edges = np.asarray(edges, dtype=np.intp).reshape(-1, 2)

    def ancestor_pairs(self) -> AncestorPairs:
        """Every node with itself and all that lies above it, by shortest distance.

        Returns
        -------
        AncestorPairs
            Sorted by node, then by distance.
        """
        above: list[list[int]] = [[] for _ in range(self.n_nodes)]
        for child, parent in self.edges.tolist():
            above[child].append(parent)
        rows: list[tuple[int, int, int]] = []
        for node in range(self.n_nodes):
            reached = {node}
            front, distance = [node], 0
            while front:
                rows.extend((node, ancestor, distance) for ancestor in front)
                step = dict.fromkeys(p for n in front for p in above[n] if p not in reached)
                reached.update(step)
                front, distance = list(step), distance + 1
        return AncestorPairs(*np.asarray(rows, dtype=np.intp).reshape(-1, 3).T)

    def inputs(self, signatures: Floats) -> Floats:
        """What the network is given of each node.

        Parameters
        ----------
        signatures : ndarray of shape (n_described, n_attributes)
            Signatures of the described classes.

        Returns
        -------
        ndarray of shape (n_nodes, n_attributes)
            The signature of a described class; of another node the mean over the described classes
            below it.
        """
        pairs = self.ancestor_pairs()
        below = pairs.node < self.n_described
        below &= (pairs.ancestor >= self.n_described) | (pairs.node == pairs.ancestor)
        shape = (self.n_nodes, self.n_described)
        ones = np.ones(int(below.sum()))
        members = sp.csr_array((ones, (pairs.ancestor[below], pairs.node[below])), shape=shape)
        return np.asarray(row_normalized(members) @ signatures)


def row_normalized(matrix: sp.csr_array) -> sp.csr_array:
    """Rows divided by their sum; an empty row stays empty."""
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return sp.csr_array(sp.diags_array(scale) @ matrix)


def neighbour_matrix(graph: NodeGraph) -> sp.csr_array:
    """A + Aᵀ + I: 1 between child and parent, either way, and of each node with itself."""
    child, parent = graph.edges.T
    own = np.arange(graph.n_nodes)
    rows = np.concatenate([child, parent, own])
    columns = np.concatenate([parent, child, own])
    matrix = sp.csr_array(
        (np.ones(len(rows)), (rows, columns)), shape=(graph.n_nodes, graph.n_nodes)
    )
    # A pair that the hierarchy names twice is one edge.
    matrix.data[:] = 1.0
    return matrix


def ancestor_groups(graph: NodeGraph, n_groups: int) -> list[sp.csr_array]:
    """Which nodes lie above which, by distance.

    Parameters
    ----------
    graph : NodeGraph
        Classes and what lies above them.
    n_groups : int
        Distances 0, 1, …; the last group holds all that are at least as far.

    Returns
    -------
    list of csr_array of shape (n_nodes, n_nodes)
        1 where the column lies above the row, at the distance of the group.
    """
    pairs = graph.ancestor_pairs()
    group = np.minimum(pairs.distance, n_groups - 1)
    shape = (graph.n_nodes, graph.n_nodes)
    matrices = []
    for number in range(n_groups):
        chosen = group == number
        ones = np.ones(int(chosen.sum()))
        matrices.append(
            sp.csr_array((ones, (pairs.node[chosen], pairs.ancestor[chosen])), shape=shape)
        )
    return matrices
