"""Class hierarchies as graphs: classes and inner nodes, and links from child to parent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zslearn.signatures._tree import ClassTree, _is_missing, _read_pairs
from zslearn.signatures._wordnet import WordNet
from zslearn.utils import name_some

#: Roots of ImageNet's main branches: plant, geological formation, natural object, sport, artifact,
#: fungus, person, animal. Classes outside them are in a ninth branch, "misc".
IMAGENET_BRANCHES = (
    "n00017222",
    "n09287968",
    "n00019128",
    "n00523513",
    "n00021939",
    "n12992868",
    "n00007846",
    "n00015388",
)
#: So many links below the root of a branch ImageNet's own structure ends.
_IMAGENET_DEPTH = 11


@dataclass(frozen=True)
class ClassGraph:
    """Nodes of a class hierarchy, and its links from child to parent.

    Parameters
    ----------
    nodes : list
        Classes and inner nodes, each once.
    edges : ndarray of shape (n_edges, 2)
        Positions in `nodes` of a child and of its parent, one row per link.

    Attributes
    ----------
    position : dict
        Position of each node.

    Examples
    --------
    >>> from zslearn.signatures import ClassGraph
    >>> graph = ClassGraph.from_tree([("cat", "mammal"), ("dog", "mammal"), ("mammal", "animal")])
    >>> graph.nodes
    ['cat', 'mammal', 'dog', 'animal']
    >>> graph.edges.tolist()
    [[0, 1], [2, 1], [1, 3]]
    """

    nodes: list[Any]
    edges: NDArray[np.intp]
    position: dict[Any, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges, dtype=np.intp).reshape(-1, 2)
        nodes = list(self.nodes)
        position = {node: i for i, node in enumerate(nodes)}
        if len(position) != len(nodes):
            twice = {node: None for i, node in enumerate(nodes) if position[node] != i}
            raise ValueError(f"The graph has the nodes {name_some(twice)} more than once.")
        if edges.size and not (edges.min() >= 0 and edges.max() < len(nodes)):
            raise ValueError(
                f"The graph has {len(nodes)} nodes, and an edge to a node beyond these."
            )
        for name, value in (("nodes", nodes), ("edges", edges), ("position", position)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.nodes)

    @classmethod
    def from_tree(cls, tree: Any) -> ClassGraph:
        """Make a graph of any data set's hierarchy.

        Parameters
        ----------
        tree : ClassTree, mapping, DataFrame or iterable of pairs
            Child–parent pairs, as :class:`~zslearn.baselines.HAT` takes them; a node may have
            several parents. A child whose parent is None or NaN is a node without parent.

        Returns
        -------
        ClassGraph
            Nodes in the order in which they are named first.
        """
        pairs = tree.parents.items() if isinstance(tree, ClassTree) else _read_pairs(tree)
        position: dict[Any, int] = {}
        edges: dict[tuple[int, int], None] = {}
        for child, parent in pairs:
            i = position.setdefault(child, len(position))
            if not _is_missing(parent):
                edges[i, position.setdefault(parent, len(position))] = None
        if not position:
            raise ValueError("The hierarchy is empty: give child–parent pairs.")
        return cls(list(position), np.array(list(edges), dtype=np.intp))

    def find(self, labels: Iterable[Any], what: str = "labels") -> NDArray[np.intp]:
        """Positions of some nodes; those that are not in the graph are an error.

        Parameters
        ----------
        labels : iterable
            Nodes.
        what : str
            What they are, for the error.

        Returns
        -------
        ndarray of shape (n_labels,)
            Their positions in `nodes`.
        """
        listed = list(labels)
        unknown = [label for label in listed if label not in self.position]
        if unknown:
            raise ValueError(
                f"{what}: {len(unknown)} of {len(listed)} are not in the hierarchy: "
                f"{name_some(unknown)}."
            )
        return np.array([self.position[label] for label in listed], dtype=np.intp)

    def adjacency(self) -> sparse.csr_array:
        """The links as a sparse matrix.

        Returns
        -------
        sparse array of shape (n_nodes, n_nodes)
            1 at (child, parent), else 0.
        """
        ones = np.ones(len(self.edges), dtype=np.float64)
        shape = (len(self.nodes), len(self.nodes))
        # SciPy's functions on graphs take no wider indices before version 1.14.
        child, parent = self.edges.T.astype(np.int32)
        links = sparse.csr_array((ones, (child, parent)), shape=shape)
        links.data[:] = 1.0  # a link that is named twice is one link
        return links

    def pairs(self) -> list[tuple[Any, Any]]:
        """The links as (child, parent) pairs of nodes.

        Returns
        -------
        list of pairs
            As :func:`~zslearn.metrics.hierarchical_precision_at_k` and
            :class:`~zslearn.baselines.HAT` take them.
        """
        return [(self.nodes[child], self.nodes[parent]) for child, parent in self.edges.tolist()]

    def ancestors(self, labels: Iterable[Any]) -> ClassGraph:
        """The part of the graph that holds some nodes and all their ancestors.

        Parameters
        ----------
        labels : iterable
            Nodes; they come first in the result.

        Returns
        -------
        ClassGraph
            The other nodes keep their order.
        """
        first = self.find(labels)
        links = self.adjacency()
        inside = np.zeros(len(self.nodes), dtype=bool)
        level = np.unique(first)
        while level.size:
            inside[level] = True
            above = np.unique(links[level].indices).astype(np.intp)
            level = above[~inside[above]]
        inside[first] = False
        order = np.append(first, np.flatnonzero(inside))
        inside[first] = True
        place = np.full(len(self.nodes), -1, dtype=np.intp)
        place[order] = np.arange(len(order))
        kept = inside[self.edges].all(axis=1)
        return ClassGraph([self.nodes[i] for i in order], place[self.edges[kept]])


def class_graph(wordnet: WordNet, wnids: Iterable[str], *, instances: bool = True) -> ClassGraph:
    """The graph of some nouns of WordNet and all their ancestors.

    Parameters
    ----------
    wordnet : WordNet
        The nouns.
    wnids : iterable of str
        Classes.
    instances : bool, default=True
        Whether instance hypernyms are links too.

    Returns
    -------
    ClassGraph
        The classes first, in the order of `wnids`, then the other nodes by wnid; the last of all
        their ancestors is WordNet's root.

    See Also
    --------
    imagenet_graph : The graph that graph methods use on ImageNet.

    Examples
    --------
    >>> from zslearn.signatures import WordNet, class_graph
    >>> graph = class_graph(WordNet(), ["n02391049", "n02389026"])
    >>> len(graph), len(graph.edges)
    (17, 16)
    """
    first = list(dict.fromkeys(wordnet.check(wnids)))
    inside = set(first)
    level = first
    while level:
        above = {
            parent for child in level for parent in wordnet.parents(child, instances=instances)
        }
        level = sorted(above - inside)
        inside.update(level)
    return _induced(wordnet, first, inside, instances)


def imagenet_graph(wordnet: WordNet, wnids: Iterable[str]) -> ClassGraph:
    """The graph of ImageNet's own structure, on which graph methods propagate.

    Its nodes are all hyponyms of the roots of ImageNet's eight main branches, down to eleven links
    below the root, where ImageNet's published structure ends; the classes that are elsewhere in
    WordNet ("misc"), with all their hyponyms; and the classes themselves. Links are hypernyms
    between such nodes, without those of instances. For the 21,841 classes there are 32,324 nodes
    and 32,544 links.

    Parameters
    ----------
    wordnet : WordNet
        The nouns, of version 3.0.
    wnids : iterable of str
        ImageNet's classes.

    Returns
    -------
    ClassGraph
        The classes first, in the order of `wnids`, then the other nodes by wnid.

    See Also
    --------
    class_graph : Only the classes and their ancestors, up to WordNet's root.
    """
    first = list(dict.fromkeys(wordnet.check(wnids)))
    branches = imagenet_branches(wordnet)
    inside = {wnid for wnid, depth in branches.items() if depth <= _IMAGENET_DEPTH}
    misc = below(wordnet, [wnid for wnid in first if wnid not in branches])
    inside.update(misc.keys() - branches.keys())
    inside.update(first)
    return _induced(wordnet, first, inside, instances=False)


def imagenet_branches(wordnet: WordNet) -> dict[str, int]:
    """Nouns in ImageNet's eight main branches, with the number of links below the root."""
    return below(wordnet, wordnet.check(IMAGENET_BRANCHES))


def below(wordnet: WordNet, roots: Iterable[str]) -> dict[str, int]:
    """Nouns and all their hyponyms, with the number of links below the nearest of the roots."""
    depth = dict.fromkeys(roots, 0)
    level = list(depth)
    while level:
        next_depth = depth[level[0]] + 1
        found = (child for wnid in level for child in wordnet.children(wnid, instances=False))
        level = [child for child in dict.fromkeys(found) if child not in depth]
        depth.update(dict.fromkeys(level, next_depth))
    return depth


def _induced(wordnet: WordNet, first: list[str], inside: set[str], instances: bool) -> ClassGraph:
    """The graph of some nouns and the hypernyms between them."""
    nodes = [*first, *sorted(inside.difference(first))]
    position = {wnid: i for i, wnid in enumerate(nodes)}
    edges = [
        (i, position[parent])
        for i, child in enumerate(nodes)
        for parent in wordnet.parents(child, instances=instances)
        if parent in inside
    ]
    return ClassGraph(nodes, np.array(edges, dtype=np.intp))


def ancestor_pairs(graph: ClassGraph, max_distance: int | None = None) -> NDArray[np.intp]:
    """All pairs of a node and one of its ancestors, with the links between them.

    Parameters
    ----------
    graph : ClassGraph
        The hierarchy.
    max_distance : int or None, default=None
        Ancestors farther than this are left out; None takes all.

    Returns
    -------
    ndarray of shape (n_pairs, 3)
        Position of the node, position of the ancestor, and the least number of links from one up
        to the other. A node is an ancestor of itself at distance 0. Sorted by distance, then by
        node and ancestor.

    Examples
    --------
    >>> from zslearn.signatures import ClassGraph, ancestor_pairs
    >>> graph = ClassGraph.from_tree([("cat", "mammal"), ("mammal", "animal")])
    >>> ancestor_pairs(graph).tolist()
    [[0, 0, 0], [1, 1, 0], [2, 2, 0], [0, 1, 1], [1, 2, 1], [0, 2, 2]]
    """
    links = graph.adjacency()
    n_nodes = len(graph)
    reached = sparse.eye_array(n_nodes, format="csr")
    seen = reached
    pairs = []
    distance = 0
    while reached.nnz and (max_distance is None or distance <= max_distance):
        node, ancestor = reached.tocoo().coords
        order = np.lexsort((ancestor, node))
        pairs.append(np.column_stack([node[order], ancestor[order], np.full(len(node), distance)]))
        reached = reached @ links
        reached.data[:] = 1.0
        # Pairs that were met at a shorter distance stay there.
        reached = reached - reached.multiply(seen)
        reached.eliminate_zeros()
        reached = sparse.csr_array(reached)
        seen = seen + reached
        distance += 1
    return np.vstack(pairs).astype(np.intp) if pairs else np.empty((0, 3), dtype=np.intp)
