"""Hierarchical precision, which also credits predictions near the true class in a hierarchy."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from zslearn._utils._messages import name_some
from zslearn.metrics._validation import (
    check_classes,
    check_k,
    check_known,
    check_top,
    positions,
    unique,
)
from zslearn.signatures._class_graph import ClassGraph


class _Neighbourhoods:
    """Distances in a class hierarchy, whose links are followed in both directions."""

    def __init__(self, hierarchy: Any) -> None:
        self.graph = ClassGraph.from_tree(hierarchy)
        links = self.graph.adjacency()
        self.links = links + links.T

    def hops(
        self, names: Sequence[Hashable], label_nodes: NDArray[np.intp], ks: NDArray[np.intp]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Hops from classes to all nodes, and for each K the radius that contains K labels.

        The search stops at the largest radius; the distance of nodes beyond it is `_FAR`.
        """
        nodes, n_nodes = self.graph.find(names), len(self.graph)
        hops = np.full((len(nodes), n_nodes), _FAR, dtype=np.int32)
        radius = np.full((len(nodes), len(ks)), _FAR, dtype=np.int32)
        n_inside = np.zeros(len(nodes), dtype=np.intp)
        is_label = np.bincount(label_nodes, minlength=n_nodes)
        rows, hop = np.arange(len(nodes)), 0
        while rows.size:
            hops[rows, nodes] = hop
            n_inside += np.bincount(rows, is_label[nodes], len(n_inside)).astype(np.intp)
            radius[(n_inside[:, None] >= ks) & (radius == _FAR)] = hop
            frontier = sparse.csr_array(
                (np.ones(len(rows)), (rows, nodes)), shape=(len(n_inside), n_nodes)
            )
            rows, nodes = (x.astype(np.intp) for x in (frontier @ self.links).nonzero())
            # Classes that already have K labels are searched no further.
            new = (hops[rows, nodes] == _FAR) & (n_inside[rows] < ks.max())
            rows, nodes, hop = rows[new], nodes[new], hop + 1
        too_few = np.flatnonzero(n_inside < ks.max())
        if too_few.size:
            raise ValueError(
                f"k={ks.max()} is too large for the class {name_some([names[too_few[0]]])}: the "
                f"hierarchy connects it to only {n_inside[too_few[0]]} of the labels in classes."
            )
        return hops, radius


#: (child, parent) pairs.
Pairs = Mapping[Any, Any] | Iterable[tuple[Hashable, Hashable]] | pd.DataFrame | NDArray[Any]
# Number of distances, from some classes to all nodes, in memory at a time.
_BLOCK_CELLS = 1 << 23
# Distance of nodes that were not reached.
_FAR = np.iinfo(np.int32).max


def hierarchical_precision_at_k(
    y_true: ArrayLike,
    y_top: ArrayLike,
    k: int | Sequence[int] | NDArray[Any],
    *,
    hierarchy: Pairs,
    classes: ArrayLike,
) -> Any:
    r"""Share of the K best predictions that are near the true label in a hierarchy (HP@K).

    .. math::

        \frac{1}{N} \sum_n \frac{1}{K}
        \left| \text{top}_K(x_n) \cap hCorrectSet_K(y_n) \right|

    where :math:`hCorrectSet_K(c)` grows around class c until it contains at least K labels of the
    label space (Algorithm 1; see :func:`hierarchical_correct_set`).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, all of which must be in the hierarchy.
    y_top : array-like of shape (n_samples, n_top)
        Predicted labels from `classes`, best first and distinct within a row; n_top is at least
        the largest K.
    k : int or sequence of int
        Number of predictions to consider.
    hierarchy : mapping, DataFrame, array or list of pairs
        Child–parent pairs of classes and inner nodes, whose links are followed in both directions.
        Several parents and cycles are allowed; see :meth:`zslearn.signatures.ClassGraph.from_tree`.
    classes : array-like of shape (n_classes,)
        The label space. Each label must be in the hierarchy.

    Returns
    -------
    precision : float or ndarray of shape (n_k,)
        A float for an int, an array for a sequence.

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
    true, ks, distinct, codes = check_top(y_true, y_top, k)
    labels = check_classes(classes)
    near = _Neighbourhoods(hierarchy)
    label_nodes = near.graph.find(labels.tolist(), "classes")

    predicted = distinct.to_numpy()
    top_nodes = label_nodes[check_known(predicted, labels, "y_top")][codes]

    true_classes = unique(true)
    near.graph.find(true_classes.tolist(), "y_true")
    true_code = positions(true, true_classes)
    by_class = np.argsort(true_code, kind="stable")
    start = np.append(0, np.cumsum(np.bincount(true_code)))

    n_hits = np.zeros(len(ks))
    n_rows = max(1, _BLOCK_CELLS // len(near.graph))
    for first in range(0, len(true_classes), n_rows):
        block = true_classes[first : first + n_rows].tolist()
        hops, radius = near.hops(block, label_nodes, ks)
        samples = by_class[start[first] : start[first + len(block)]]
        row = true_code[samples] - first
        distance = hops[row[:, None], top_nodes[samples]]
        for i, n_top in enumerate(ks):
            n_hits[i] += np.count_nonzero(distance[:, :n_top] <= radius[row, i, None])
    precision = n_hits / (ks * len(true))
    return float(precision[0]) if np.ndim(k) == 0 else precision


def hierarchical_correct_set(
    label: Hashable, k: int, *, hierarchy: Pairs, classes: ArrayLike
) -> NDArray[Any]:
    """Labels that hierarchical precision counts as correct for a class (hCorrectSet).

    Algorithm 1: the radius around the class, in hops along the links of the hierarchy, grows from 0
    until it contains at least K labels of the label space.

    Parameters
    ----------
    label : hashable
        The true class, which must be in the hierarchy.
    k : int
        Minimum number of labels in the set.
    hierarchy, classes
        See :func:`hierarchical_precision_at_k`.

    Returns
    -------
    labels : ndarray of shape (at least k,)
        Nearest first; labels at the same distance follow the order of `classes`.

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
        raise ValueError(f"k must be an integer, got {k!r}.")
    ks = check_k(k)
    labels = check_classes(classes)
    near = _Neighbourhoods(hierarchy)
    label_nodes = near.graph.find(labels.tolist(), "classes")
    near.graph.find([label], "label")
    hops, radius = near.hops([label], label_nodes, ks)
    distance = hops[0, label_nodes]
    inside = np.flatnonzero(distance <= radius[0, 0])
    return labels[inside[np.argsort(distance[inside], kind="stable")]]
