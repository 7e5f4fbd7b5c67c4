"""Class hierarchies: read from child–parent pairs, or built by clustering signatures."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from zslearn.utils import name_some, unit_rows

_FORMS = (
    "a mapping child → parent, a DataFrame with the columns 'child' and 'parent', "
    "or a list of (child, parent) pairs"
)


class ClassTree:
    """A forest of classes: every node has one parent, or none.

    Parameters
    ----------
    pairs : mapping, DataFrame or iterable of pairs
        Child–parent pairs. Children that are class labels are leaves or inner nodes; a parent may
        have any name. A child whose parent is None or NaN is a root.

    Attributes
    ----------
    parents : dict
        Parent of each child.
    """

    def __init__(self, pairs: Any) -> None:
        self.parents: dict[Hashable, Hashable] = {}
        self._nodes: set[Hashable] = set()
        torn: list[Hashable] = []
        for child, parent in _read_pairs(pairs):
            self._nodes.add(child)
            if _is_missing(parent):
                continue
            self._nodes.add(parent)
            if self.parents.setdefault(child, parent) != parent:
                torn.append(child)
        if torn:
            raise ValueError(
                f"The hierarchy gives more than one parent to {name_some(dict.fromkeys(torn))}. "
                "Keep one pair a child."
            )
        if not self.parents:
            raise ValueError(f"The hierarchy is empty: give {_FORMS}.")
        self._refuse_cycles()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state from elsewhere, if parents lead to a root."""
        self.parents, self._nodes = dict(state["parents"]), set(state["_nodes"])
        if not self._nodes >= {*self.parents, *self.parents.values()}:
            raise ValueError("a hierarchy has parents that are none of its nodes")
        self._refuse_cycles()

    def _refuse_cycles(self) -> None:
        safe: set[Hashable] = set()
        for child in self.parents:
            path: dict[Hashable, None] = {}
            node = child
            while node in self.parents and node not in safe:
                if node in path:
                    raise ValueError(
                        f"The hierarchy has a cycle through {name_some([node])}: following its "
                        "parents leads back to it."
                    )
                path[node] = None
                node = self.parents[node]
            safe.update(path)

    def __contains__(self, node: Hashable) -> bool:
        return node in self._nodes

    def ancestors(self, node: Hashable) -> list[Hashable]:
        """The parent of a node, the parent's parent, and so on up to a root.

        Parameters
        ----------
        node : hashable
            A class label or the name of an inner node.

        Returns
        -------
        list
            Nearest first; empty for a root.
        """
        path = []
        while node in self.parents:
            node = self.parents[node]
            path.append(node)
        return path


def cluster_hierarchy(
    signatures: pd.DataFrame | Mapping[Any, ArrayLike], *, n_levels: int = 3
) -> pd.DataFrame:
    """Build a class hierarchy by agglomerative clustering of signatures (Ward's criterion).

    Below the root, level l of L has about S^(l/L) clusters of the S classes, so that nodes of all
    levels have about as many children.

    Parameters
    ----------
    signatures : DataFrame or mapping
        Label → signature. Only their directions count, as in the methods.
    n_levels : int, default=3
        Levels of inner nodes, the root among them.

    Returns
    -------
    DataFrame
        Child–parent pairs, in columns of these names. Inner nodes have the names "root" and
        "cluster <level>.<number>".

    See Also
    --------
    zslearn.baselines.HAT : Takes such a hierarchy.

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
            f"Two nodes of the hierarchy would be named {name_some(twice)}: describe each class "
            "once, and by another name than those of the inner nodes."
        )
    pairs = dict(zip(labels, inner[-1], strict=True))
    for depth in range(len(levels) - 1, 0, -1):
        pairs.update(zip(inner[depth], inner[depth - 1], strict=True))
    return pd.DataFrame({"child": list(pairs), "parent": list(pairs.values())})


def cluster_levels(rows: NDArray[np.float64], n_levels: int) -> list[NDArray[np.intp]]:
    """Nested clusters of classes, from the root down.

    Parameters
    ----------
    rows : ndarray of shape (n_classes, n_attributes)
        Signatures.
    n_levels : int
        Levels, the root among them.

    Returns
    -------
    list of ndarray of shape (n_classes,)
        Cluster of each class, one array a level. Clusters are numbered by their first class.
    """
    from scipy.cluster.hierarchy import cut_tree, linkage

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


def _read_pairs(pairs: Any) -> Iterable[tuple[Hashable, Hashable]]:
    """Child–parent pairs, whatever they came as."""
    if isinstance(pairs, pd.DataFrame):
        if {"child", "parent"} <= set(pairs.columns):
            pairs = pairs[["child", "parent"]]
        if pairs.shape[1] != 2:
            raise ValueError(
                f"The hierarchy is a DataFrame of the columns {name_some(pairs.columns)}: name "
                "two of them 'child' and 'parent'."
            )
        pairs = list(pairs.itertuples(index=False, name=None))
    elif isinstance(pairs, Mapping):
        pairs = list(pairs.items())
    elif isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise ValueError(f"The hierarchy must be {_FORMS}; got {pairs!r}.")
    return [_pair(pair) for pair in pairs]


def _pair(pair: Any) -> tuple[Hashable, Hashable]:
    items = None if isinstance(pair, str) or not isinstance(pair, Iterable) else list(pair)
    if items is None or len(items) != 2:
        raise ValueError(f"The hierarchy must be {_FORMS}; {pair!r} is not a pair.")
    child, parent = (item.item() if isinstance(item, np.generic) else item for item in items)
    if not isinstance(child, Hashable) or not isinstance(parent, Hashable) or _is_missing(child):
        raise ValueError(f"The pair {pair!r} of the hierarchy does not name two classes.")
    return child, parent


def _is_missing(node: Any) -> bool:
    return node is None or node is pd.NA or (isinstance(node, float) and np.isnan(node))
