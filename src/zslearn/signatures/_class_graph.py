"""Represent class hierarchies as graphs whose links lead from child to parent."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.cluster.hierarchy import cut_tree, linkage
from sklearn.utils.validation import check_array

from zslearn._utils._array import unit_rows
from zslearn._utils._messages import InputWarning, name_some, warn_user
from zslearn._utils._saved import saved_part
from zslearn._utils._validation import as_pandas, is_missing
from zslearn.signatures._wordnet import WordNet

_ACCEPTED = (
    "a mapping child → parent, a DataFrame with the columns 'child' and 'parent', "
    "or a list of (child, parent) pairs"
)


@saved_part
class ClassTree:
    """A forest of classes, in which every node has at most one parent."""

    def __init__(self, pairs: Any) -> None:
        given = read_pairs(pairs)
        linked = [pair for pair in given if not is_missing(pair[1])]
        self.parents: dict[Hashable, Hashable] = dict(linked)
        self._nodes = {*(child for child, _ in given), *self.parents.values()}
        if ambiguous := {child: None for child, p in linked if self.parents[child] != p}:
            raise ValueError(
                f"The hierarchy gives more than one parent to {name_some(ambiguous)}; keep one "
                "pair per child."
            )
        if not self.parents:
            raise ValueError(f"The hierarchy is empty; give {_ACCEPTED}.")
        self._number_nodes()

    def __getstate__(self) -> dict[str, Any]:
        return {"parents": self.parents, "_nodes": self._nodes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore and validate a saved state."""
        self.parents, self._nodes = dict(state["parents"]), set(state["_nodes"])
        if not self._nodes >= {*self.parents, *self.parents.values()}:
            raise ValueError("a hierarchy has parents that are not among its nodes")
        self._number_nodes()

    def _number_nodes(self) -> None:
        """Number the nodes, and refuse cycles."""
        linked = dict.fromkeys([*self.parents, *self.parents.values()])
        self.names = object_array(linked | dict.fromkeys(self._nodes))
        self.numbers = {node: number for number, node in enumerate(self.names.tolist())}
        parents = [self.numbers[parent] for parent in self.parents.values()]
        child, parent = np.arange(len(parents)), np.asarray(parents, dtype=np.intp)
        #: Number of the parent of each node; −1 for roots.
        self.parent_of = check_parents(self.names, child, parent)

    def __contains__(self, node: Hashable) -> bool:
        return node in self._nodes

    def ancestors(self, node: Hashable) -> list[Hashable]:
        """Return the ancestors of a node, from its parent to a root."""
        path = []
        while node in self.parents:
            node = self.parents[node]
            path.append(node)
        return path


def object_array(items: Iterable[Any]) -> NDArray[np.object_]:
    """Items of any type in an array of objects."""
    listed = list(items)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def check_parents(
    names: NDArray[np.object_], child: NDArray[np.intp], parent: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The parent of each node by number; raise if it has several or is its own ancestor."""
    parent_of = np.full(len(names), -1)
    parent_of[child] = parent
    if (parent_of[child] != parent).any():
        ambiguous = pd.unique(child[pd.Series(child).duplicated()])
        raise ValueError(
            f"The hierarchy gives more than one parent to {name_some(names[ambiguous])}; keep one "
            "pair per child."
        )
    above = parent_of
    for _ in range(len(names).bit_length()):
        above = np.where(above >= 0, above[above], -1)  # the ancestor twice as many links above
        if (above < 0).all():
            return parent_of
    raise ValueError(
        f"The hierarchy has a cycle through {name_some(names[above[above >= 0][:1]])}; a class "
        "cannot be its own ancestor."
    )


class ClassPaths:
    """The paths of some classes in a hierarchy, as arrays.

    Parameters
    ----------
    tree : ClassTree
        The hierarchy; a class that it lacks is a root.
    labels : ndarray of shape (n_classes,)
        The classes.
    top : Hashable, optional
        Name of a root that joins all others, if there are several or a class is not in the tree.

    Attributes
    ----------
    nodes : ndarray of object of shape (n_nodes,)
        Names of the nodes above the classes, level by level. The children of a node are adjacent,
        in the order of their first class.
    levels : ndarray of int of shape (n_levels, n_classes)
        Number of the node of each class at each level; −1 below the class itself.
    ends : ndarray of int of shape (n_classes,)
        Number of the node that is the class.
    starts : ndarray of int of shape (n_levels + 1,)
        Number of the first node of each level.
    parents : ndarray of int of shape (n_nodes,)
        Number of the parent of each node; −1 for roots.
    """

    def __init__(self, tree: ClassTree, labels: NDArray[Any], top: Hashable = None) -> None:
        paths, names = _paths_from_roots(tree, labels.tolist(), top)
        self.levels = np.full(paths.shape, -1)
        self.starts, parts, parents = np.zeros(len(paths) + 1, dtype=np.intp), [], []
        for level, path in enumerate(paths):
            (rows,) = np.nonzero(path >= 0)
            codes, found = pd.factorize(path[rows])
            first = rows[np.unique(codes, return_index=True)[1]]
            # Siblings become adjacent.
            parent = self.levels[level - 1, first] if level else np.full(len(first), -1)
            order = np.argsort(parent, kind="stable")
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            start = self.starts[level]
            self.levels[level, rows] = start + place[codes]
            self.starts[level + 1] = start + len(order)
            parts.append(names[found[order]])
            parents.append(parent[order])
        self.nodes = np.concatenate(parts)
        self.parents = np.concatenate(parents)
        depth = (self.levels >= 0).sum(axis=0) - 1
        self.ends = self.levels[depth, np.arange(len(labels))]


def _paths_from_roots(
    tree: ClassTree, given: list[Any], top: Hashable
) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
    """The nodes of each class (column) at each level (row), −1 below it, and names of all nodes."""
    known = np.asarray([tree.numbers.get(label, -1) for label in given], dtype=np.intp)
    (others,) = np.nonzero(known < 0)
    numbers = known.copy()
    numbers[others] = len(tree.names) + np.arange(len(others))
    names = np.append(tree.names, object_array(given[row] for row in others))
    parent_of = np.append(tree.parent_of, np.full(len(others) + 1, -1))  # the last is of −1
    upwards = [numbers]
    while (upwards[-1] >= 0).any():
        upwards.append(parent_of[upwards[-1]])
    above = np.stack(upwards[:-1])
    depth = (above >= 0).sum(axis=0)
    # Row l of the paths is that many links below the root.
    at = depth - 1 - np.arange(len(above))[:, None]
    paths = np.where(at >= 0, np.take_along_axis(above, np.maximum(at, 0), axis=0), -1)
    if top is None:
        return paths, names
    is_alone = (known < 0) & (depth == 1)
    roots = pd.unique(paths[0, ~is_alone])
    if len(roots) == 1:
        (lower,) = np.nonzero(paths[0] != roots[0])
        if len(paths) == 1 and len(lower):
            paths = np.vstack([paths, np.full(len(given), -1)])
        paths[1:2, lower] = paths[0, lower]
        paths[0] = roots[0]
    else:
        names = np.append(names, object_array([top]))
        paths = np.vstack([np.full(len(given), len(names) - 1), paths])
    return paths, names


def refuse_unplaced_classes(hierarchy: Container[Hashable], seen: Sequence[Hashable]) -> None:
    """Raise if a hierarchy lacks seen classes."""
    missing = [label for label in seen if label not in hierarchy]
    if missing:
        raise ValueError(
            f"The hierarchy lacks {len(missing)} of the {len(seen)} seen classes: "
            f"{name_some(missing)}. Add a (child, parent) pair for each, with the labels of y, or "
            'use hierarchy="cluster".'
        )


def warn_of_missing_hierarchy(method: str) -> None:
    """Warn that a method builds its own hierarchy by clustering the signatures."""
    warn_user(
        f"{method} received no hierarchy and builds one by clustering the signatures. Pass "
        'child–parent pairs, or hierarchy="cluster" if this is intended.',
        InputWarning,
    )


def cluster_hierarchy(
    signatures: pd.DataFrame | Mapping[Any, ArrayLike], *, n_levels: int = 3
) -> pd.DataFrame:
    """Build a class hierarchy by agglomerative clustering of signatures (Ward's criterion).

    Level l of L divides S classes into about S^(l/L) clusters, so that all nodes have about the
    same number of children.

    Parameters
    ----------
    signatures : DataFrame or mapping
        Label → signature, normalised to unit length before clustering.
    n_levels : int, default=3
        Number of levels of inner nodes, including the root.

    Returns
    -------
    DataFrame
        The columns "child" and "parent". Inner nodes are called "root" and
        "cluster <level>.<number>".

    See Also
    --------
    zslearn.baselines.HAT : Uses such a hierarchy.

    Examples
    --------
    >>> from zslearn.signatures import cluster_hierarchy
    >>> signatures = {"cat": [1, 0], "dog": [1, 0.1], "oak": [0, 1], "elm": [0.1, 1]}
    >>> cluster_hierarchy(signatures, n_levels=2).sort_values("parent")
                child         parent
    0             cat    cluster 1.0
    1             dog    cluster 1.0
    2             oak    cluster 1.1
    3             elm    cluster 1.1
    4     cluster 1.0           root
    5     cluster 1.1           root
    """
    if not (isinstance(n_levels, (int, np.integer)) and n_levels >= 1):
        raise ValueError(f"n_levels must be an integer of at least 1; got {n_levels!r}.")
    if not isinstance(signatures, pd.DataFrame):
        signatures = pd.DataFrame.from_dict(dict(signatures), orient="index")
    rows = check_array(signatures, dtype=np.float64, input_name="signatures")
    labels = list(signatures.index)
    levels = cluster_levels(unit_rows(rows), n_levels)
    inner = [
        ["root" if not depth else f"cluster {depth}.{code}" for code in codes]
        for depth, codes in enumerate(levels)
    ]
    counts = Counter([*labels, *dict.fromkeys(itertools.chain(*inner))])
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise ValueError(
            f"Two nodes of the hierarchy would be called {name_some(twice)}. Describe each class "
            "once, under a name that no inner node has."
        )
    pairs = dict(zip(labels, inner[-1], strict=True))
    for depth in range(len(levels) - 1, 0, -1):
        pairs.update(zip(inner[depth], inner[depth - 1], strict=True))
    return pd.DataFrame({"child": list(pairs), "parent": list(pairs.values())})


def cluster_levels(rows: NDArray[np.float64], n_levels: int) -> list[NDArray[np.intp]]:
    """Compute nested clusters of classes, from the root down."""
    n_classes = len(rows)
    levels = [np.zeros(n_classes, dtype=np.intp)]
    if n_classes < 3:
        return levels
    tree = linkage(rows, method="ward")
    for depth in range(1, n_levels):
        n_clusters = round(n_classes ** (depth / n_levels))
        if len(np.unique(levels[-1])) < n_clusters < n_classes:
            codes = cut_tree(tree, n_clusters=n_clusters)[:, 0]
            _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
            levels.append(np.argsort(np.argsort(first))[codes])
    return levels


def read_pairs(pairs: Any) -> list[tuple[Hashable, Hashable]]:
    """Convert a hierarchy in any accepted form to child–parent pairs."""
    columns: list[list[Any]] = []
    if hasattr(pairs, "columns"):
        pairs = as_pandas(pairs)
        if {"child", "parent"} <= set(pairs.columns):
            pairs = pairs[["child", "parent"]]
        if pairs.shape[1] != 2:
            raise ValueError(
                f"The hierarchy is a DataFrame with the columns {name_some(pairs.columns)}; name "
                "two of them 'child' and 'parent'."
            )
        # Lists have Python's own types.
        columns = [pairs.iloc[:, place].astype(object).tolist() for place in (0, 1)]
        columns[1] = [None if is_missing(parent) else parent for parent in columns[1]]
    elif isinstance(pairs, Mapping):
        columns = [list(pairs), list(pairs.values())]
    elif isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise ValueError(f"The hierarchy must be {_ACCEPTED}; got {pairs!r}.")
    if columns:
        pairs = list(zip(*columns, strict=True))
        # Strings and integers need no further check.
        types = [set(map(type, column)) for column in columns]
        if types[0] <= {str, int} and types[1] <= {str, int, type(None)}:
            return pairs
    checked = []
    for pair in pairs:
        items = [] if isinstance(pair, str) or not isinstance(pair, Iterable) else list(pair)
        if len(items) != 2:
            raise ValueError(f"The hierarchy must be {_ACCEPTED}; {pair!r} is not a pair.")
        child, parent = (item.item() if isinstance(item, np.generic) else item for item in items)
        if not isinstance(child, Hashable) or not isinstance(parent, Hashable) or is_missing(child):
            raise ValueError(f"The pair {pair!r} of the hierarchy does not name two classes.")
        checked.append((child, parent))
    return checked


#: Roots of ImageNet's main branches: plant, geological formation, natural object, sport, artifact,
#: fungus, person, animal. Other classes are in a ninth branch, "misc".
IMAGENET_BRANCHES = (
    "n00017222", "n09287968", "n00019128", "n00523513", "n00021939", "n12992868", "n00007846",
    "n00015388",
)  # fmt: skip
#: Links below the root of a branch where ImageNet's own structure ends.
_IMAGENET_DEPTH = 11


@dataclass(frozen=True)
class ClassGraph:
    """A class hierarchy as a graph with links from child to parent.

    Parameters
    ----------
    nodes : list
        Classes and inner nodes, without duplicates.
    edges : ndarray of shape (n_edges, 2)
        One row per link: the positions of child and parent in `nodes`.

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
            raise ValueError(f"The graph has {len(nodes)} nodes, but an edge to another node.")
        for name, value in (("nodes", nodes), ("edges", edges), ("position", position)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.nodes)

    @classmethod
    def from_tree(cls, tree: Any) -> ClassGraph:
        """Build a graph from child–parent pairs.

        Parameters
        ----------
        tree : mapping, DataFrame or iterable of pairs
            As for :class:`~zslearn.baselines.HAT`, except that a node may have several parents.
            A child whose parent is None or NaN is a root.

        Returns
        -------
        ClassGraph
            Nodes are in order of first occurrence.
        """
        pairs = tree.parents.items() if isinstance(tree, ClassTree) else read_pairs(tree)
        position: dict[Any, int] = {}
        edges: dict[tuple[int, int], None] = {}
        for child, parent in pairs:
            i = position.setdefault(child, len(position))
            if not is_missing(parent):
                edges[i, position.setdefault(parent, len(position))] = None
        if not position:
            raise ValueError("The hierarchy is empty; give child–parent pairs.")
        return cls(list(position), np.array(list(edges), dtype=np.intp))

    def find(self, labels: Iterable[Any], what: str = "labels") -> NDArray[np.intp]:
        """Return the positions of nodes; errors about unknown nodes call them `what`."""
        listed = list(labels)
        unknown = [label for label in listed if label not in self.position]
        if unknown:
            raise ValueError(
                f"{what}: {len(unknown)} of {len(listed)} are not in the hierarchy: "
                f"{name_some(unknown)}."
            )
        return np.array([self.position[label] for label in listed], dtype=np.intp)

    def adjacency(self) -> sparse.csr_array:
        """Return the links as a sparse matrix: 1 at (child, parent), else 0."""
        # Before version 1.14, SciPy's graph functions accept only 32-bit indices.
        child, parent = np.unique(self.edges, axis=0).T.astype(np.int32)
        return sparse.csr_array(
            (np.ones(len(child)), (child, parent)), shape=(len(self.nodes), len(self.nodes))
        )

    def pairs(self) -> list[tuple[Any, Any]]:
        """Return the links as (child, parent) pairs, which HAT and hierarchical metrics accept."""
        return [(self.nodes[child], self.nodes[parent]) for child, parent in self.edges.tolist()]


def class_graph(wordnet: WordNet, wnids: Iterable[str]) -> ClassGraph:
    """Build the graph of some WordNet nouns and all their ancestors.

    Parameters
    ----------
    wordnet : WordNet
        The nouns.
    wnids : iterable of str
        The classes.

    Returns
    -------
    ClassGraph
        The classes first, in the order of `wnids`, then the other nodes by wnid.

    See Also
    --------
    imagenet_graph : The graph for graph methods on ImageNet.
    """
    first = list(dict.fromkeys(wordnet.check(wnids)))
    above = map(wordnet.ancestors, first)
    return _induced(wordnet, first, set(first).union(*above), instances=True)


def imagenet_graph(wordnet: WordNet, wnids: Iterable[str]) -> ClassGraph:
    """Build the graph of ImageNet's own structure, on which graph methods propagate.

    The nodes are the classes; all hyponyms of the roots of ImageNet's eight main branches, down to
    eleven links below the root, where ImageNet's published structure ends; and all hyponyms of
    classes outside these branches ("misc"). The links are the hypernyms between these nodes,
    excluding instances: 32,324 nodes and 32,544 links for the 21,841 classes.

    Parameters
    ----------
    wordnet : WordNet
        The nouns of version 3.0.
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
    misc = _below(wordnet, [wnid for wnid in first if wnid not in branches])
    inside.update(misc.keys() - branches.keys())
    inside.update(first)
    return _induced(wordnet, first, inside, instances=False)


def imagenet_branches(wordnet: WordNet) -> dict[str, int]:
    """Return the nouns of ImageNet's eight main branches and their depth below the root."""
    return _below(wordnet, wordnet.check(IMAGENET_BRANCHES))


def _below(wordnet: WordNet, roots: Iterable[str]) -> dict[str, int]:
    """Return nouns and all their hyponyms with their depth below the nearest root."""
    depth = dict.fromkeys(roots, 0)
    queue = list(depth)
    for wnid in queue:
        for child in wordnet.children(wnid, instances=False):
            if child not in depth:
                depth[child] = depth[wnid] + 1
                queue.append(child)
    return depth


def _induced(
    wordnet: WordNet, first: list[str], inside: set[str], *, instances: bool
) -> ClassGraph:
    """Build the graph of some nouns and the hypernyms between them."""
    nodes = [*first, *sorted(inside.difference(first))]
    position = {wnid: i for i, wnid in enumerate(nodes)}
    edges = [
        (i, position[parent])
        for i, child in enumerate(nodes)
        for parent in wordnet.parents(child, instances=instances)
        if parent in inside
    ]
    return ClassGraph(nodes, np.array(edges, dtype=np.intp))


def ancestor_pairs(graph: ClassGraph) -> NDArray[np.intp]:
    """List all rows (node, ancestor, distance), sorted by distance, then by node and ancestor.

    The distance is the smallest number of links; a node is its own ancestor at distance 0.
    """
    links = graph.adjacency().astype(bool)
    reached = seen = sparse.eye_array(len(graph), dtype=bool, format="csr")
    pairs = [np.empty((0, 3), dtype=np.intp)]
    while reached.nnz:
        node, ancestor = reached.nonzero()
        order = np.lexsort((ancestor, node))
        distance = np.full(len(node), len(pairs) - 1)
        pairs.append(np.column_stack([node[order], ancestor[order], distance]))
        # Exclude pairs already found at a shorter distance.
        reached = (reached @ links) > seen
        seen = seen + reached
    return np.vstack(pairs).astype(np.intp)
