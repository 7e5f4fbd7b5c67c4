r"""Signatures from a class hierarchy: "hie", multidimensional scaling of distances in the tree.

Classical scaling (Torgerson) takes the squared distances :math:`D^{(2)}` of n classes into

.. math:: B = -\tfrac12 J D^{(2)} J, \qquad J = I - \tfrac1n 1 1^T, \qquad B = U \Lambda U^T,

and the rows of :math:`U_+ \Lambda_+^{1/2}`, of the largest positive eigenvalues, are the vectors of
the classes. Where there are too many classes for this, it is done with some of them, the landmarks,
and any class is placed by its squared distances :math:`\delta` to these (de Silva and Tenenbaum):

.. math:: x = -\tfrac12 \Lambda_+^{-1/2} U_+^T (\delta - \bar\delta),

where :math:`\bar\delta` is the mean of the columns of the landmarks' :math:`D^{(2)}`. A landmark is
placed where scaling put it: this is Nyström's extension of the eigenvectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.csgraph import dijkstra
from sklearn.utils import check_random_state

from zslearn._utils._messages import name_some
from zslearn._utils._progress import progress_bar
from zslearn.signatures._class_graph import ClassGraph, class_graph
from zslearn.signatures._text import column_names
from zslearn.signatures._wordnet import WordNet

Method = Literal["auto", "exact", "landmark"]
#: Of more classes than this, "auto" takes landmarks.
_EXACT_CLASSES = 3000
_COMPONENTS = 500
_LANDMARKS = 2000
#: Sources of one search, so that a block of distances stays small.
_SOURCES = 128
#: Eigenvalues below this share of the largest are noise.
_NOISE = 1e-10


def hierarchy_distances(
    graph: ClassGraph,
    labels: Iterable[Any],
    others: Iterable[Any] | None = None,
    *,
    progress: bool = False,
) -> NDArray[np.float32]:
    """Links on the shortest way between classes, up and down the hierarchy.

    Parameters
    ----------
    graph : ClassGraph
        The hierarchy.
    labels : iterable
        Classes.
    others : iterable or None, default=None
        Classes to which the ways lead; None: the same classes.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    ndarray of shape (n_labels, n_others)
        Numbers of links.

    Raises
    ------
    ValueError
        A class is not in the hierarchy, or nothing leads from one to another.

    Examples
    --------
    >>> from zslearn.signatures import ClassGraph, hierarchy_distances
    >>> graph = ClassGraph.from_tree([("cat", "mammal"), ("dog", "mammal"), ("owl", "bird"),
    ...                               ("mammal", "animal"), ("bird", "animal")])
    >>> hierarchy_distances(graph, ["cat", "dog", "owl"])
    array([[0., 2., 4.],
           [2., 0., 4.],
           [4., 4., 0.]], dtype=float32)
    """
    listed = list(labels)
    sources = graph.find(listed)
    to = list(others) if others is not None else listed
    targets = graph.find(to, "others")
    links = graph.adjacency()
    found = np.empty((len(sources), len(targets)), dtype=np.float32)
    with progress_bar(progress, len(sources), "classes") as advance:
        for start in range(0, len(sources), _SOURCES):
            some = sources[start : start + _SOURCES]
            ways = dijkstra(links, directed=False, indices=some, unweighted=True)
            found[start : start + _SOURCES] = ways[:, targets]
            advance(len(some))
    if not np.isfinite(found).all():
        i, j = np.argwhere(~np.isfinite(found))[0]
        raise ValueError(
            f"Nothing in the hierarchy leads from {name_some([listed[i]])} to "
            f"{name_some([to[j]])}: it has several parts. Give the roots of the parts a common "
            "parent."
        )
    return found


def hierarchy_signatures(
    hierarchy: Any,
    labels: Iterable[Any],
    *,
    n_components: int | None = None,
    method: Method = "auto",
    n_landmarks: int | None = None,
    random_state: int | np.random.RandomState | None = 0,
    progress: bool = False,
) -> pd.DataFrame:
    """Make signatures of classes from their places in a hierarchy.

    Distances are the links on the shortest way between two classes; multidimensional scaling takes
    them into vectors whose Euclidean distances agree with these. They are the paper's "hie".

    Parameters
    ----------
    hierarchy : ClassGraph, WordNet, or child–parent pairs
        The hierarchy: a graph, WordNet (then the classes with all their ancestors), or pairs as
        :class:`~zslearn.baselines.HAT` takes them.
    labels : iterable
        The classes; wnids for WordNet.
    n_components : int or None, default=None
        Width of the vectors. None: 500, or as many as there are positive eigenvalues.
    method : {"auto", "exact", "landmark"}, default="auto"
        "exact" scales all distances: time grows with the cube of the number of classes, memory
        with the square. "landmark" scales those of some classes and places the others by their
        distances to these. "auto" is exact up to 3,000 classes.
    n_landmarks : int or None, default=None
        How many landmarks. None: 2,000, but no more than classes.
    random_state : int, RandomState or None, default=0
        Seed of the choice of landmarks.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    DataFrame
        One row per class; the index holds the labels.

    Raises
    ------
    ValueError
        A class is not in the hierarchy, or nothing leads from one class to another.

    See Also
    --------
    hierarchy_distances : The distances alone.

    References
    ----------
    V. de Silva, J. Tenenbaum. "Sparse multidimensional scaling using landmark points". Stanford
    University, 2004.

    Examples
    --------
    >>> from scipy.spatial.distance import cdist
    >>> from zslearn.signatures import hierarchy_signatures
    >>> tree = {"cat": "mammal", "dog": "mammal", "owl": "bird", "mammal": "animal",
    ...         "bird": "animal"}
    >>> signatures = hierarchy_signatures(tree, ["cat", "dog", "owl"])
    >>> signatures.shape
    (3, 2)
    >>> cdist(signatures, signatures).round(6)
    array([[0., 2., 4.],
           [2., 0., 4.],
           [4., 4., 0.]])
    """
    listed = [labels] if isinstance(labels, str) else list(labels)
    _check(listed, n_components, n_landmarks, method)
    if isinstance(hierarchy, WordNet):
        graph = class_graph(hierarchy, listed)
    elif isinstance(hierarchy, ClassGraph):
        graph = hierarchy
    else:
        graph = ClassGraph.from_tree(hierarchy)
    graph.find(listed)
    width = n_components or _COMPONENTS
    is_exact = method == "exact" or (method == "auto" and len(listed) <= _EXACT_CLASSES)
    if is_exact:
        chosen = np.arange(len(listed))
    else:
        size = min(len(listed), n_landmarks or max(_LANDMARKS, 2 * width))
        chosen = np.sort(check_random_state(random_state).permutation(len(listed))[:size])
    landmarks = [listed[i] for i in chosen]
    # One column per class, so that the distances of a class are together.
    distances = hierarchy_distances(graph, landmarks, listed, progress=progress)
    vectors = _scale(distances, chosen, width, is_exact)
    if n_components is not None and vectors.shape[1] < n_components:
        raise ValueError(
            f"n_components={n_components} is too many: the distances of {len(chosen)} classes have "
            f"{vectors.shape[1]} positive eigenvalues."
        )
    index = pd.Index(listed, name="class", tupleize_cols=False)
    return pd.DataFrame(vectors, index=index, columns=column_names("hie", vectors.shape[1]))


def _check(
    labels: list[Any], n_components: int | None, n_landmarks: int | None, method: str
) -> None:
    """Refuse labels and sizes that cannot be scaled."""
    n_classes = len(labels)
    if n_classes < 2:
        raise ValueError(f"labels holds {n_classes} classes; distances need at least two.")
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise ValueError(f"labels names {name_some(twice)} more than once.")
    if method not in ("auto", "exact", "landmark"):
        raise ValueError(f"method={method!r}; there are 'auto', 'exact' and 'landmark'.")
    for name, value in (("n_components", n_components), ("n_landmarks", n_landmarks)):
        if value is not None and not (isinstance(value, (int, np.integer)) and value >= 1):
            raise ValueError(f"{name}={value!r} must be a whole number of at least 1, or None.")
    if n_components is not None and n_components >= n_classes:
        raise ValueError(
            f"n_components={n_components} is too many: {n_classes} classes have at most "
            f"{n_classes - 1} dimensions."
        )
    if n_landmarks == 1:
        raise ValueError("n_landmarks=1 is too few: distances need at least two.")


def _scale(
    distances: NDArray[np.float32], chosen: NDArray[np.intp], width: int, is_exact: bool
) -> NDArray[np.float64]:
    """Vectors of all classes from the distances between `chosen` ones and all of them."""
    squares = np.square(distances[:, chosen].astype(np.float64))
    mean = squares.mean(axis=0)
    squares -= mean
    squares -= squares.mean(axis=1, keepdims=True)
    squares *= -0.5  # B = −½ J D² J
    n = len(chosen)
    last = [max(0, n - width), n - 1]
    values, vectors = eigh(squares, subset_by_index=last, overwrite_a=True, check_finite=False)
    del squares
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > _NOISE * max(values[0], 0.0)
    if not kept.any():
        raise ValueError("All classes are at one place of the hierarchy: no distances to scale.")
    values, vectors = values[kept], vectors[:, kept]
    # An eigenvector has no sign of its own: its largest entry is positive.
    size = np.abs(vectors)
    largest = (size > (1 - 1e-6) * size.max(axis=0)).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(len(values))])
    if is_exact:
        return vectors * np.sqrt(values)
    placing = -0.5 * vectors / np.sqrt(values)
    found = np.empty((distances.shape[1], len(values)))
    for start in range(0, distances.shape[1], 1024):
        some = np.square(distances[:, start : start + 1024].astype(np.float64))
        found[start : start + 1024] = (some - mean[:, None]).T @ placing
    return found
