r"""Build signatures from hierarchies: "hie", scaled tree distances, and taxonomic ranks.

Classical scaling (Torgerson) converts the squared distances :math:`D^{(2)}` of n classes to

.. math:: B = -\tfrac12 J D^{(2)} J, \qquad J = I - \tfrac1n 1 1^T, \qquad B = U \Lambda U^T,

and the rows of :math:`U_+ \Lambda_+^{1/2}` for the largest positive eigenvalues are the vectors of
the classes. If there are many classes, only some of them, the landmarks, are scaled. Another class
is placed by its squared distances :math:`\delta` to the landmarks (de Silva and Tenenbaum), where
:math:`\bar\delta` is the column mean of the landmarks' :math:`D^{(2)}`:

.. math:: x = -\tfrac12 \Lambda_+^{-1/2} U_+^T (\delta - \bar\delta).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.csgraph import dijkstra
from sklearn.utils import check_random_state

from zslearn._utils._messages import did_you_mean, name_some
from zslearn._utils._progress import progress_bar
from zslearn.signatures._class_graph import ClassGraph, ClassTree, class_graph, read_pairs
from zslearn.signatures._table import indexed_by_label
from zslearn.signatures._views import MultiSignatures, class_frame
from zslearn.signatures._wordnet import WordNet

#: Above this number of classes, landmarks are used by default.
_EXACT_CLASSES = 3000
_COMPONENTS = 500
_LANDMARKS = 2000
#: Number of rows in a block of distances.
_BLOCK = 128
#: Eigenvalues below this share of the largest count as zero.
_NOISE = 1e-10


def hierarchy_distances(
    graph: ClassGraph,
    labels: Iterable[Any],
    others: Iterable[Any] | None = None,
    *,
    progress: bool = False,
) -> NDArray[np.float32]:
    """Count the links on the shortest path between classes, in either direction.

    Parameters
    ----------
    graph : ClassGraph
        The hierarchy, in which all classes must be connected.
    labels : iterable
        The classes.
    others : iterable or None, default=None
        The classes at the other end of the paths; None: the same classes.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    ndarray of shape (n_labels, n_others)
        Number of links on each shortest path.

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
    ends = list(others) if others is not None else listed
    sources, targets = graph.find(listed), graph.find(ends, "others")
    links = graph.adjacency()
    distances = np.empty((len(sources), len(targets)), dtype=np.float32)
    with progress_bar(progress, len(sources), "classes") as advance:
        for start in range(0, len(sources), _BLOCK):
            block = sources[start : start + _BLOCK]
            paths = dijkstra(links, directed=False, indices=block, unweighted=True)
            distances[start : start + _BLOCK] = paths[:, targets]
            advance(len(block))
    if not np.isfinite(distances).all():
        i, j = np.argwhere(~np.isfinite(distances))[0]
        raise ValueError(
            f"The hierarchy has no path from {name_some([listed[i]])} to {name_some([ends[j]])}. "
            "Give the roots of its parts a common parent."
        )
    return distances


def hierarchy_signatures(
    hierarchy: Any,
    labels: Iterable[Any],
    *,
    n_components: int | None = None,
    n_landmarks: int | None = None,
    random_state: int | np.random.RandomState | None = 0,
    progress: bool = False,
) -> pd.DataFrame:
    """Build signatures from a class hierarchy, the paper's "hie".

    Multidimensional scaling finds vectors whose Euclidean distances approximate the number of links
    between classes.

    Parameters
    ----------
    hierarchy : ClassGraph, WordNet, or child–parent pairs
        The hierarchy; for WordNet, the classes and all their ancestors.
    labels : iterable
        The classes; wnids for WordNet.
    n_components : int or None, default=None
        Dimension of the vectors. None: 500, or the number of positive eigenvalues if smaller.
    n_landmarks : int or None, default=None
        Number of classes to scale; the others are placed by their distances to these. Time grows
        with the cube of this number, memory with its square. None: all of up to 3,000 classes, else
        2,000.
    random_state : int, RandomState or None, default=0
        Seed for the choice of landmarks.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    DataFrame
        One row per class; the index holds the labels.

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
    >>> cdist(signatures, signatures).round(6)
    array([[0., 2., 4.],
           [2., 0., 4.],
           [4., 4., 0.]])
    """
    listed = list(labels)
    n_classes = len(listed)
    if n_classes < 2:
        raise ValueError(f"Distances require at least two classes; got {n_classes}.")
    if repeated := [label for label, count in Counter(listed).items() if count > 1]:
        raise ValueError(f"labels names {name_some(repeated)} more than once.")
    for name, value, least in (("n_components", n_components, 1), ("n_landmarks", n_landmarks, 2)):
        if value is not None and not (isinstance(value, (int, np.integer)) and value >= least):
            raise ValueError(f"{name}={value!r} must be an integer of at least {least}, or None.")
    if isinstance(hierarchy, WordNet):
        graph = class_graph(hierarchy, listed)
    elif isinstance(hierarchy, ClassGraph):
        graph = hierarchy
    else:
        graph = ClassGraph.from_tree(hierarchy)
    width = n_components or _COMPONENTS
    if n_landmarks is None:
        n_landmarks = n_classes if n_classes <= _EXACT_CLASSES else max(_LANDMARKS, 2 * width)
    chosen = np.arange(n_classes)
    if n_landmarks < n_classes:
        chosen = np.sort(check_random_state(random_state).permutation(n_classes)[:n_landmarks])
    # One row per landmark and one column per class.
    distances = hierarchy_distances(graph, [listed[i] for i in chosen], listed, progress=progress)
    vectors = _scale(distances, chosen, width)
    if n_components is not None and vectors.shape[1] < n_components:
        raise ValueError(
            f"n_components={n_components} is too large: the distances of {len(chosen)} classes "
            f"have {vectors.shape[1]} positive eigenvalues."
        )
    return class_frame(vectors, listed, "hie")


def _scale(
    distances: NDArray[np.float32], chosen: NDArray[np.intp], width: int
) -> NDArray[np.float64]:
    """Compute the vectors of all classes from their distances to the `chosen` landmarks."""
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
    kept = values > _NOISE * values[0]
    values, vectors = values[kept], vectors[:, kept]
    # The sign of an eigenvector is arbitrary; make its largest entry positive.
    size = np.abs(vectors)
    largest = (size > (1 - 1e-6) * size.max(axis=0)).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(len(values))])
    if n == distances.shape[1]:
        return vectors * np.sqrt(values)
    projection = -0.5 * vectors / np.sqrt(values)
    placed = np.empty((distances.shape[1], len(values)))
    for start in range(0, distances.shape[1], 1024):
        block = np.square(distances[:, start : start + 1024].astype(np.float64))
        placed[start : start + 1024] = (block - mean[:, None]).T @ projection
    return placed


def filled_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Fill in missing ranks from other classes of the same taxon.

    Parameters
    ----------
    table : DataFrame
        See :func:`taxonomy_hierarchy`. Repeated classes or ranks, classes without any rank, and
        taxa that belong to two higher ones raise an error.

    Returns
    -------
    DataFrame
        The same table; ranks that cannot be inferred are None.
    """
    table = indexed_by_label(table)
    if not isinstance(table, pd.DataFrame) or not table.shape[1] or not len(table):
        raise ValueError(
            "A taxonomy is a DataFrame with one row per class and one column per rank, from the "
            "highest rank to the lowest; the index holds the labels."
        )
    for axis, repeated in (("row of", table.index), ("column", table.columns)):
        if repeated.has_duplicates:
            names = repeated[repeated.duplicated()].unique()
            raise ValueError(f"The taxonomy has more than one {axis} {name_some(names)}.")
    stripped = table.map(lambda taxon: taxon.strip() if isinstance(taxon, str) else taxon)
    filled = stripped.astype(object).where(stripped.notna() & (stripped != ""), None)
    for low in reversed(range(1, filled.shape[1])):
        for high in reversed(range(low)):
            _fill_from_below(filled, low, high)
    is_empty = filled.isna().all(axis=1)
    if is_empty.any():
        raise ValueError(f"The taxonomy has no rank of {name_some(filled.index[is_empty])}.")
    return filled


def _fill_from_below(table: pd.DataFrame, low: int, high: int) -> None:
    """Fill in a rank from classes of the same lower taxon; raise if a taxon is in two others."""
    known = table.iloc[:, [low, high]].dropna().drop_duplicates()
    ambiguous = known[known.iloc[:, 0].duplicated(keep=False)]
    if len(ambiguous):
        taxon = ambiguous.iloc[0, 0]
        above = ambiguous[ambiguous.iloc[:, 0] == taxon].iloc[:, 1]
        raise ValueError(
            f"The {table.columns[low]} {name_some([taxon])} is in more than one "
            f"{table.columns[high]}: {name_some(above)}. Correct the table."
        )
    above_of: dict[Any, Any] = dict(known.itertuples(index=False))
    higher = table.iloc[:, high]
    filled = higher.where(higher.notna(), table.iloc[:, low].map(above_of))
    table.isetitem(high, filled.to_numpy())


def taxonomy_hierarchy(table: pd.DataFrame) -> pd.DataFrame:
    """Convert a table of taxonomic ranks to child–parent pairs.

    Parameters
    ----------
    table : DataFrame
        One row per class and one column per rank, from the highest to the lowest (order, family,
        genus); the index holds the labels. Missing ranks are filled in from other classes of the
        same lower taxon, else skipped. A taxon that is in two others, or below itself, raises an
        error.

    Returns
    -------
    DataFrame
        The columns "child" and "parent", for :class:`~zslearn.calibration.RankPredictor` and the
        hierarchical metrics. The highest taxa have no parent. A class that is the only member of a
        taxon of the same name, without higher ranks, has a row without a parent.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.signatures import taxonomy_hierarchy
    >>> ranks = pd.DataFrame({"family": ["Laridae", None], "genus": ["Larus", "Larus"]},
    ...                      index=["Herring Gull", "Ring-billed Gull"])
    >>> taxonomy_hierarchy(ranks)
                  child   parent
    0             Larus  Laridae
    1      Herring Gull    Larus
    2  Ring-billed Gull    Larus
    """
    filled = filled_ranks(table)
    paths = [
        # A name that two ranks share, such as a genus and its subgenus, is one node.
        [name for name, _ in groupby([*(taxon for taxon in ranks if pd.notna(taxon)), label])]
        for label, *ranks in filled.itertuples()
    ]
    pairs: dict[tuple[Hashable, Hashable], None] = {}
    for depth in range(1, filled.shape[1] + 1):
        pairs |= {(path[depth], path[depth - 1]): None for path in paths if depth < len(path)}
    if pairs:
        ClassTree(list(pairs))  # raises if a taxon is below itself
    # A class that is its own only taxon would otherwise be in no pair.
    linked = {node for pair in pairs for node in pair}
    pairs |= {(path[0], None): None for path in paths if path[0] not in linked}
    return pd.DataFrame(list(pairs), columns=["child", "parent"])


def taxonomy_signatures(table: pd.DataFrame) -> MultiSignatures:
    """Build signatures from a table of ranks: one view per rank, one column per taxon.

    The views have equal weights; :class:`~zslearn.model_selection.WeightedViews` or
    ``GaussianEXEM(gamma="learned")`` can learn others.

    Parameters
    ----------
    table : DataFrame
        See :func:`taxonomy_hierarchy`. The row of a missing rank is zero.

    Returns
    -------
    MultiSignatures
        One view per rank, named after its column.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.signatures import MultiSignatures, taxonomy_signatures
    >>> ranks = pd.DataFrame({"family": ["Laridae", "Laridae", "Alcidae"],
    ...                       "genus": ["Larus", "Rissa", "Aethia"]},
    ...                      index=["Herring Gull", "Kittiwake", "Crested Auklet"])
    >>> taxonomy_signatures(ranks)
    MultiSignatures(family × 0.5, genus × 0.5)
    """
    filled = filled_ranks(table)
    taxonomy_hierarchy(filled)  # raises if a taxon is below itself
    views = {}
    for rank in filled.columns:
        taxa = pd.Index(filled[rank].dropna().unique())
        rows = filled[rank].to_numpy()[:, None] == taxa.to_numpy()
        views[rank] = pd.DataFrame(rows.astype(np.float64), index=filled.index, columns=taxa)
    return MultiSignatures({rank: view for rank, view in views.items() if view.shape[1]})


def classes_below(
    hierarchy: Any,
    taxa: Hashable | Iterable[Hashable],
    *,
    classes: Iterable[Hashable] | None = None,
) -> list[Any]:
    """List the classes below some nodes of a hierarchy, for example as candidates of a prediction.

    Parameters
    ----------
    hierarchy : DataFrame, mapping or list of pairs
        Child–parent pairs, for example from :func:`taxonomy_hierarchy`.
    taxa : str or iterable
        One or several nodes, such as "Passeriformes". A class counts as below itself.
    classes : iterable of labels, optional
        The nodes that are classes, such as the index of the table of ranks; by default the nodes
        without children. Needed if a class is also a taxon.

    Returns
    -------
    list
        Classes at or below the nodes, in the order of the pairs.

    Examples
    --------
    >>> from zslearn.signatures import classes_below
    >>> pairs = [("Herring Gull", "Laridae"), ("Kittiwake", "Laridae"), ("Auk", "Alcidae")]
    >>> classes_below(pairs, "Laridae")
    ['Herring Gull', 'Kittiwake']
    """
    of_node = classes_by_node(hierarchy, classes)
    wanted = [taxa] if isinstance(taxa, str) or not isinstance(taxa, Iterable) else list(taxa)
    for taxon in wanted:
        if taxon not in of_node:
            near = did_you_mean(taxon, of_node)
            raise ValueError(f"The hierarchy has no {name_some([taxon])}.{near}")
    chosen = {label for taxon in wanted for label in of_node[taxon]}
    return [node for node in of_node if node in chosen]


def classes_by_node(
    hierarchy: Any, classes: Iterable[Hashable] | None = None
) -> dict[Hashable, list[Hashable]]:
    """List the classes at or below each node of a hierarchy.

    Parameters
    ----------
    hierarchy, classes
        See :func:`classes_below`.

    Returns
    -------
    dict of node to list
        Nodes in the order of the pairs, each with its classes.
    """
    pairs = read_pairs(hierarchy)
    tree = ClassTree(pairs)
    nodes = dict.fromkeys([child for child, _ in pairs]) | dict.fromkeys(tree.parents.values())
    leaves = set(nodes).difference(tree.parents.values())
    labels = leaves if classes is None else set(classes)
    below: dict[Hashable, list[Hashable]] = {node: [] for node in nodes}
    for label in nodes:
        if label in labels:
            for node in [label, *tree.ancestors(label)]:
                below[node].append(label)
    return below
