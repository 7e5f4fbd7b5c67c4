"""Neighbourhoods in a class hierarchy, of many classes at a time and never of all pairs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from zslearn.utils import name_some


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
    """Grow a radius around each of some nodes until it holds the largest K of the labels.

    Parameters
    ----------
    graph : HierarchyGraph
        The hierarchy.
    starts : ndarray of shape (n_starts,)
        The nodes in the middle.
    label_nodes : ndarray of shape (n_labels,)
        The nodes of the label space.
    ks : ndarray of shape (n_k,)
        How many labels must be inside.
    names : sequence of shape (n_starts,)
        What the starts are called, for errors.

    Returns
    -------
    Neighbourhoods
        Distances and radii.
    """
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
