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
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.csgraph import dijkstra
from sklearn.utils import check_random_state

from zslearn._utils._messages import did_you_mean, name_some
from zslearn._utils._progress import progress_bar
from zslearn.signatures._class_graph import (
    ClassGraph,
    ClassPaths,
    ClassTree,
    check_parents,
    class_graph,
    object_array,
    read_pairs,
)
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
    taxonomy = _Taxonomy.of(table)
    names = object_array([*taxonomy.names, None])
    return pd.DataFrame(names[taxonomy.taxa], taxonomy.labels, taxonomy.ranks)


class _Taxonomy(NamedTuple):
    """A table of ranks as numbers, so that no step needs a Python object per class."""

    labels: pd.Index
    ranks: pd.Index
    taxa: NDArray[np.int32]  # (n_classes, n_ranks): number of the taxon, −1 if there is none
    names: NDArray[np.object_]  # of the taxa; a name that two ranks share is one taxon

    @classmethod
    def of(cls, table: pd.DataFrame) -> _Taxonomy:
        """Read a table of ranks and fill in missing ones."""
        table = indexed_by_label(table)
        if not isinstance(table, pd.DataFrame) or not table.shape[1] or not len(table):
            raise ValueError(
                "A taxonomy is a DataFrame with one row per class and one column per rank, from "
                "the highest rank to the lowest; the index holds the labels."
            )
        for axis, repeated in (("row of", table.index), ("column", table.columns)):
            if repeated.has_duplicates:
                twice = repeated[repeated.duplicated()].unique()
                raise ValueError(f"The taxonomy has more than one {axis} {name_some(twice)}.")
        numbers: dict[Hashable, int] = {}
        taxa = np.empty(table.shape, dtype=np.int32)
        for rank in range(table.shape[1]):
            codes, found = pd.factorize(table.iloc[:, rank])
            of_code = []
            for name in pd.Series(found, dtype=object).tolist():
                taxon = name.strip() if isinstance(name, str) else name
                of_code.append(-1 if taxon == "" else numbers.setdefault(taxon, len(numbers)))
            # The code of a missing value is −1, the last position.
            taxa[:, rank] = np.asarray([*of_code, -1], dtype=np.int32)[codes]
        taxonomy = cls(table.index, table.columns, taxa, object_array(numbers))
        for low in reversed(range(1, table.shape[1])):
            for high in reversed(range(low)):
                taxonomy._fill_from_below(low, high)
        (empty,) = np.nonzero(taxa.max(axis=1) < 0)
        if len(empty):
            raise ValueError(f"The taxonomy has no rank of {name_some(table.index[empty])}.")
        return taxonomy

    def _fill_from_below(self, low: int, high: int) -> None:
        """Fill in a rank from classes of the same lower taxon; raise if a taxon is in two."""
        lower, higher = self.taxa[:, low], self.taxa[:, high]
        is_known = (lower >= 0) & (higher >= 0)
        known = pd.DataFrame({"taxon": lower[is_known], "above": higher[is_known]})
        above = np.full(len(self.names) + 1, -1, dtype=np.int32)  # the last is for missing taxa
        above[known["taxon"]] = known["above"]
        if (above[known["taxon"]] != known["above"]).any():
            known = known.drop_duplicates()
            taxon = known["taxon"][known["taxon"].duplicated(keep=False)].iloc[0]
            names = self.names[known["above"][known["taxon"] == taxon]]
            raise ValueError(
                f"The {self.ranks[low]} {name_some([self.names[taxon]])} is in more than one "
                f"{self.ranks[high]}: {name_some(names)}. Correct the table."
            )
        missing = higher < 0
        higher[missing] = above[lower[missing]]

    def links(self) -> tuple[NDArray[np.object_], NDArray[np.intp], NDArray[np.intp]]:
        """All nodes, and the numbers of the child and parent of each link, highest links first.

        A class that is in no link has the parent −1. A taxon below itself raises an error.
        """
        # A class may have the name of a taxon, which then is the same node.
        own = pd.Index(self.names, dtype=object).get_indexer(self.labels.astype(object))
        is_other = own < 0
        nodes = np.append(self.names, object_array(self.labels[is_other]))
        own[is_other] = np.arange(len(self.names), len(nodes))
        above, depth = np.full(len(own), -1), np.zeros(len(own), dtype=np.intp)
        rows, parts = np.arange(len(own)), []
        for step in (*self.taxa.T, own):
            # A name that two ranks share, such as a genus and its subgenus, is one node.
            is_next = (step >= 0) & (step != above)
            linked = is_next & (above >= 0)
            part = np.stack([depth[linked], rows[linked], step[linked], above[linked]])
            parts.append(part[:, ~_is_repeated(part[[0, 2, 3]], len(nodes))])
            above = np.where(is_next, step, above)
            depth += is_next
        links = np.hstack(parts)
        _, _, child, parent = links[:, np.lexsort((links[1], links[0]))]
        is_new = ~_is_repeated(np.stack([child, parent]), len(nodes))
        child, parent = child[is_new], parent[is_new]
        check_parents(nodes, child, parent)
        # A class that is its own only taxon would otherwise be in no pair.
        is_linked = np.zeros(len(nodes), dtype=bool)
        is_linked[child] = is_linked[parent] = True
        alone = pd.unique(above[(depth == 1) & ~is_linked[above]])
        return nodes, np.append(child, alone), np.append(parent, np.full(len(alone), -1))


def _is_repeated(columns: NDArray[np.intp], base: int) -> NDArray[np.bool_]:
    """Whether a column of numbers below `base` equals an earlier one."""
    keys = np.zeros(columns.shape[1], dtype=np.int64)
    for row in columns:
        keys = keys * base + row
    return pd.Series(keys).duplicated().to_numpy()


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
    nodes, child, parent = _Taxonomy.of(table).links()
    names = object_array([*nodes, None])
    return pd.DataFrame({"child": names[child], "parent": names[parent]}).infer_objects()


#: Largest table of taxonomy_signatures with a column per taxon: 512 MiB.
_MAX_COLUMN_CELLS = 1 << 27


def taxonomy_signatures(table: pd.DataFrame, *, categorical: bool | None = None) -> MultiSignatures:
    """Build signatures from a table of ranks: one view per rank, one attribute per taxon.

    The views have equal weights; :class:`~zslearn.model_selection.WeightedViews` or
    ``GaussianEXEM(gamma="learned")`` can learn others.

    Parameters
    ----------
    table : DataFrame
        See :func:`taxonomy_hierarchy`. The row of a missing rank is zero.
    categorical : bool or None, default=None
        Whether a view has a single column of categories, the names of the taxa, instead of a column
        of zeros and ones per taxon. Methods that compare classes with the seen classes only predict
        the same from both: `fit` gives every taxon of a seen class an attribute of its own, and all
        other taxa of the rank a common one. Classes with equal ranks then share one row of
        parameters. None: if the columns would take more than 512 MiB.

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
    >>> taxonomy_signatures(ranks, categorical=True).views["genus"]
                     genus
    Herring Gull     Larus
    Kittiwake       Rissa
    Crested Auklet  Aethia
    """
    taxonomy = _Taxonomy.of(table)
    taxonomy.links()  # raises if a taxon is below itself
    n_taxa = sum(len(np.unique(taxa[taxa >= 0])) for taxa in taxonomy.taxa.T)
    is_large = len(taxonomy.labels) * n_taxa > _MAX_COLUMN_CELLS
    views = {}
    for rank, taxa in zip(taxonomy.ranks, taxonomy.taxa.T, strict=True):
        (placed,) = np.nonzero(taxa >= 0)
        codes, found = pd.factorize(taxa[placed])
        names = taxonomy.names[found]
        if not len(names):
            continue
        if is_large if categorical is None else categorical:
            of_class = np.full(len(taxa), -1, dtype=np.int32)
            of_class[placed] = codes
            column = pd.Categorical.from_codes(of_class, pd.Index(list(map(_taxon_name, names))))
            views[rank] = pd.DataFrame({rank: column}, index=taxonomy.labels)
        else:
            rows = np.zeros((len(taxa), len(names)), dtype=np.float32)
            rows[placed, codes] = 1
            views[rank] = pd.DataFrame(rows, index=taxonomy.labels, columns=pd.Index(names))
    return MultiSignatures(views)


def _taxon_name(taxon: Any) -> str:
    """The name of a taxon; numbers are floats in columns with missing values."""
    return str(int(taxon) if isinstance(taxon, float) and taxon.is_integer() else taxon)


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
) -> Mapping[Hashable, list[Hashable]]:
    """List the classes at or below each node of a hierarchy.

    Parameters
    ----------
    hierarchy, classes
        See :func:`classes_below`.

    Returns
    -------
    mapping of node to list
        Nodes in the order of the pairs, each with its classes. The lists are built when they are
        read.
    """
    pairs = read_pairs(hierarchy)
    tree = ClassTree(pairs)
    nodes = dict.fromkeys([child for child, _ in pairs]) | dict.fromkeys(tree.parents.values())
    leaves = set(nodes).difference(tree.parents.values()) if classes is None else set(classes)
    return _ClassesByNode(nodes, tree, object_array(node for node in nodes if node in leaves))


class _ClassesByNode(Mapping[Hashable, list[Hashable]]):
    """Classes in an order in which those below a node are adjacent."""

    def __init__(
        self, nodes: Mapping[Hashable, None], tree: ClassTree, labels: NDArray[np.object_]
    ) -> None:
        self._nodes, self._labels, self._spans = nodes, labels, dict[Hashable, tuple[int, int]]()
        if not len(labels):
            return
        paths = ClassPaths(tree, labels)
        self._order = np.lexsort(paths.levels[::-1])
        counts = np.bincount(paths.levels[paths.levels >= 0])
        first = np.empty_like(counts)
        for level in paths.levels[:, self._order]:
            (at,) = np.nonzero(level >= 0)
            first[level[at[::-1]]] = at[::-1]
        spans = zip(first.tolist(), (first + counts).tolist(), strict=True)
        self._spans = dict(zip(paths.nodes.tolist(), spans, strict=True))

    def __getitem__(self, node: Hashable) -> list[Hashable]:
        if node not in self._spans:
            self._nodes[node]  # raises if there is no such node
            return []
        rows = np.sort(self._order[slice(*self._spans[node])])
        below: list[Hashable] = self._labels[rows].tolist()
        return below

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
