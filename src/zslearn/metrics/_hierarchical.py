"""Hierarchical precision: predictions near the true class in a class hierarchy count as well."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from zslearn.metrics._hierarchy_graph import HierarchyGraph, grow
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
