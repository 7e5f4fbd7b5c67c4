r"""HAT: hierarchical transfer of semantic attributes.

The seen classes are the leaves of a hierarchy. At each inner node k, every attribute m that varies
among the classes below has a classifier :math:`f_{km}`, trained on the images below the node only.
A class inherits the classifiers of the nodes on its path from the root. Each node below the root
also has a category classifier :math:`g_k` against its siblings. With the attributes
:math:`b_{cm} = \pm 1` of a class,

.. math:: s_c(x) = \frac{1}{M} \sum_m b_{cm} \sum_{k \in \mathrm{path}(c)} \omega_{km} f_{km}(x)
          + \frac{\beta}{|\mathrm{path}(c)| - 1} \sum_{k \in \mathrm{path}(c)} g_k(x),

where the weights :math:`\omega_{km} \propto \delta^{\mathrm{depth}(k)}` of an attribute sum to one
over the nodes of the path where it varies.

At a node with n images of mean :math:`\bar x`, each classifier
:math:`f(x) = w^\top (x - \bar x)` is a regularised least-squares fit,

.. math:: \min_w \frac{1}{n} \sum_i \left(w^\top (x_i - \bar x) - (b_{y_i} - \bar b)\right)^2
          + \alpha s^2 \|w\|^2,

with the mean square distance :math:`s^2` of all training images from their mean. The solution is
linear in the targets: all classifiers of a node are combinations of the solutions for the
indicators of its classes. The scores of these, :math:`z_k(x)`, are the embedding, and the class
parameters combine them: :math:`f_{km} = \sum_y b_{ym} z_{ky}` and
:math:`g_k = \sum_y \pm z_{\mathrm{parent}(k), y}`, positive for y below k.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._utils._array import Array, Floats, move_like
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.base._class_statistics import mean_square_distance
from zslearn.base._classifier import ZeroShotClassifier, group_by_params
from zslearn.base._training import Training
from zslearn.baselines._spectra import ClassRidge, solve_shifted
from zslearn.signatures._attributes import binary_kind, refuse_mixed_signatures
from zslearn.signatures._class_graph import (
    ClassTree,
    cluster_levels,
    refuse_unplaced_classes,
    warn_of_missing_hierarchy,
)
from zslearn.signatures._kernels import squared_distances


@saved_part
@saves(
    members=Saved(None, kind="int", least=0, each=True),
    parents=Saved("n_nodes", kind="int"),
    by_name=Saved(kind=dict),
    of_class=Saved("n_seen", kind="int", least=0),
)
class Nodes:
    """Inner nodes with at least two seen classes below, from the root down.

    Nodes with the same seen classes below are merged. `memberships` names the nodes above each seen
    class, nearest first; `n_levels` is the number of levels including the root. `members` lists the
    positions of the seen classes below each node, `parents` the position of its parent (−1 for the
    root); `by_name` and `of_class` map names and seen classes to the position of the nearest node.
    """

    def __init__(self, memberships: Sequence[Sequence[Hashable]], n_levels: int | None) -> None:
        under: dict[Hashable, list[int]] = {}
        for position, names in enumerate(memberships):
            for name in names:
                under.setdefault(name, []).append(position)
        everything = tuple(range(len(memberships)))
        index: dict[tuple[int, ...], int] = {everything: 0}
        self.members = [np.arange(len(memberships))]
        parents, depths = [-1], [0]
        above = np.zeros(len(memberships), dtype=np.intp)
        # Larger sets first, so that a node comes after all nodes above it.
        for group in sorted({tuple(g) for g in under.values()}, key=lambda g: (-len(g), g)):
            parent = int(above[group[0]])
            too_deep = n_levels is not None and depths[parent] + 1 >= n_levels
            if group in index or len(group) < 2 or too_deep:
                index.setdefault(group, parent)
                continue
            index[group] = len(self.members)
            above[list(group)] = index[group]
            self.members.append(np.asarray(group, dtype=np.intp))
            parents.append(parent)
            depths.append(depths[parent] + 1)
        self.parents = np.asarray(parents, dtype=np.intp)
        self.by_name = {name: index[tuple(group)] for name, group in under.items()}
        self.of_class = above

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a state from a file, in which nodes must come after their parents."""
        parents = np.asarray(state["parents"])
        positions = np.arange(len(parents))
        if parents.dtype.kind != "i" or (parents >= positions).any() or (parents < -1).any():
            raise ValueError("nodes of a hierarchy do not come after their parents")
        places = [np.asarray(state["of_class"]), np.asarray(list(state["by_name"].values()))]
        if any(((place < 0) | (place >= len(parents))).any() for place in places):
            raise ValueError("a hierarchy places classes under nodes that it does not have")
        self.__dict__.update(state)

    def path(self, node: int) -> list[int]:
        """Nodes from the root to this one."""
        path = [node]
        while self.parents[path[-1]] >= 0:
            path.append(int(self.parents[path[-1]]))
        return path[::-1]


def solve_nodes(
    training: Training, nodes: Nodes, alphas: Sequence[float]
) -> list[tuple[Array, Array]]:
    """Least-squares classifiers of the classes below each node, for several penalties."""
    unit = mean_square_distance(training.rows) or 1.0
    coefs: list[list[Array]] = [[] for _ in alphas]
    intercepts: list[list[Array]] = [[] for _ in alphas]
    for members in nodes.members:
        # The root needs no copy of the rows.
        own = training if len(members) == training.n_seen else training.subset(members)
        penalties = [alpha * unit * len(own.y) for alpha in alphas]
        for number, (coef, intercept) in enumerate(_solve_node(own, penalties)):
            coefs[number].append(coef)
            intercepts[number].append(intercept)
    xp = compat.array_namespace(coefs[0][0])
    return [
        (xp.concat(coef, axis=1), xp.concat(intercept, axis=0))
        for coef, intercept in zip(coefs, intercepts, strict=True)
    ]


def _solve_node(training: Training, penalties: list[float]) -> Iterator[tuple[Array, Array]]:
    """Least squares for the class indicators, on centred images."""
    if len(training.y) >= training.rows.shape[1]:
        ridge = ClassRidge(training.moments(center=True))
        for penalty in penalties:
            coef = ridge.solve(penalty)
            yield coef, -ridge.mean @ coef
        return
    # With fewer images than features: X̃ᵀ (X̃X̃ᵀ + γI)⁻¹ Y.
    xp = compat.array_namespace(training.rows)
    X = xp.astype(training.X, xp.float64)
    mean = xp.sum(X, axis=0) / X.shape[0]
    centred = X - mean[None, :]
    kernel = centred @ xp.matrix_transpose(centred)
    indicators = (training.y[:, None] == np.arange(training.n_seen)).astype(np.float64)
    targets = xp.asarray(indicators, device=compat.device(X))
    for penalty in penalties:
        coef = xp.matrix_transpose(centred) @ solve_shifted(kernel, penalty, targets)
        yield coef, -mean @ coef


@inherit_docs
@saves(
    {"_nodes.of_class": Saved("n_seen", kind="int")},
    coef_=Saved("n_features", "n_outputs"),
    intercept_=Saved("n_outputs"),
    nodes_=Saved(None, kind="label", each=True),
    node_parents_=Saved("n_nodes", kind="int"),
    hierarchy_built_=Saved(kind=bool),
    thresholds_=Saved("n_attributes"),
    _nodes=Saved(kind=Nodes),
    _tree=Saved(kind=ClassTree, optional=True),
    _kind=Saved(kind=str, optional=True),
    _seen_signatures=Saved("n_seen", "n_attributes"),
)
@dataclass(eq=False, repr=False)
class HAT(ZeroShotClassifier):
    """Hierarchical attribute transfer: attribute classifiers at the nodes of a class hierarchy.

    Parameters
    ----------
    hierarchy : "cluster", mapping, DataFrame, list of pairs or None, default=None
        Child–parent pairs over class labels and inner nodes of any names: a mapping child → parent,
        a DataFrame with the columns "child" and "parent", or a list of pairs. It must contain every
        seen class; an unseen class that is missing is placed next to the seen class with the
        nearest signature. "cluster" clusters the signatures of the seen classes, see
        :func:`zslearn.signatures.cluster_hierarchy`; None does the same with a warning.
    alpha : float, default=1e-3
        Penalty of the classifiers, in units of the mean square distance of the training images from
        their mean.
    depth_weight : float, default=0.5
        Weight δ of a node relative to its parent.
    category_weight : float, default=0.1
        Weight β of the category classifiers.
    n_levels : int or None, default=3
        Number of levels with classifiers, from the root down. None uses all levels, or three of a
        clustered hierarchy.

    Attributes
    ----------
    coef_, intercept_ : array of shape (n_features, n_scores) and (n_scores,)
        Classifiers of the classes below each node, node by node.
    nodes_ : list of ndarray
        Seen classes below each node with classifiers, starting with the root.
    node_parents_ : ndarray of shape (n_nodes,)
        Position of each node's parent in `nodes_`; −1 for the root.
    hierarchy_built_ : bool
        Whether the hierarchy was clustered from the signatures.
    thresholds_ : ndarray of shape (n_attributes,)
        An attribute is present above this normalised value: 0 for binary signatures, else the mean
        over the seen classes.

    See Also
    --------
    zslearn.signatures.cluster_hierarchy : Builds a hierarchy.
    zslearn.signatures.binarize_signatures : Binarises signatures with other thresholds.

    Notes
    -----
    The original trains support vector machines, derives the attributes of an inner node from the
    classes below, and selects the level of each attribute. Here the classifiers are regularised
    least squares, in closed form for all attributes of a node, and `depth_weight` weights the
    levels. No program of the authors is available for comparison.

    References
    ----------
    Z. Al-Halah and R. Stiefelhagen, "How to transfer? Zero-shot object recognition via hierarchical
    transfer of semantic attributes", WACV 2015.

    Examples
    --------
    >>> from zslearn.baselines import HAT
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = HAT(hierarchy="cluster")
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    hierarchy: Any = None
    alpha: float = 1e-3
    _: KW_ONLY
    depth_weight: float = 0.5
    category_weight: float = 0.1
    n_levels: int | None = 3

    # Variants with one penalty share these arrays, so that a search embeds their rows once.
    embedding_attributes = ("coef_", "intercept_")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "hierarchy": [StrOptions({"cluster"}), Mapping, pd.DataFrame, list, tuple, None],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "depth_weight": [Interval(Real, 0, None, closed="neither")],
        "category_weight": [Interval(Real, 0, None, closed="left")],
        "n_levels": [Interval(Integral, 1, None, closed="left"), None],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "n_levels": [1, 2, 3, 4],
            "alpha": [10.0 ** (k / 2) for k in range(-10, 1)],
            "depth_weight": [2.0**k for k in range(-4, 3)],
            "category_weight": [0.0, 0.01, 0.03, 0.1, 0.3, 1.0],
        },
        "fast": {
            "alpha": [10.0 ** (k / 2) for k in range(-8, -3)],
            "depth_weight": [2.0**k for k in range(-3, 1)],
            "category_weight": [0.03, 0.1, 0.3],
        },
    }

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Share the nodes of a hierarchy, and the classifiers of one penalty."""
        if any(v.hierarchy is None for v in variants) and not training.table.indicators:
            warn_of_missing_hierarchy(cls.__name__)
        kind, thresholds = binary_kind(training.signatures), training.signatures.mean(axis=0)
        if kind is not None:
            thresholds = np.zeros_like(thresholds)
        for same_nodes in group_by_params(variants, "n_levels", "hierarchy"):
            first, tree = same_nodes[0], None
            if first.hierarchy is None or isinstance(first.hierarchy, str):
                levels = np.stack(cluster_levels(training.signatures, first.n_levels or 3), axis=1)
                above: list[Any] = [list(enumerate(codes))[::-1] for codes in levels.tolist()]
            else:
                tree, seen = ClassTree(first.hierarchy), training.classes.tolist()
                refuse_unplaced_classes(tree, seen)
                above = [[label, *tree.ancestors(label)] for label in seen]
            nodes = Nodes(above, first.n_levels)
            groups = group_by_params(same_nodes, "alpha")
            solved = solve_nodes(training, nodes, [group[0].alpha for group in groups])
            for same_alpha, (coef, intercept) in zip(groups, solved, strict=True):
                for variant in same_alpha:
                    variant._tree, variant._nodes = tree, nodes
                    variant.coef_, variant.intercept_ = coef, intercept
                    variant.nodes_ = [training.classes[members] for members in nodes.members]
                    variant.node_parents_ = nodes.parents
                    variant.hierarchy_built_ = tree is None
                    variant._seen_signatures, variant._kind = training.signatures, kind
                    variant.thresholds_ = thresholds
                    yield variant

    def embed(self, X: Array) -> Array:
        """Score the classes below each node."""
        return X @ move_like(self.coef_, X) + move_like(self.intercept_, X)[None, :]

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Combine the scores of the nodes for each class.

        A class is placed by its name in the hierarchy, or else next to the nearest seen class.
        """
        nearest = squared_distances(signatures, self._seen_signatures).argmin(axis=1)
        places = self._nodes.of_class[nearest]
        if labels is not None:
            refuse_mixed_signatures(signatures, self._kind, labels, type(self).__name__)
            for row, label in enumerate(labels.tolist()):
                if self._tree is not None and label in self._tree:
                    names = [label, *self._tree.ancestors(label)]
                    known = (self._nodes.by_name[n] for n in names if n in self._nodes.by_name)
                    places[row] = next(known, 0)
        attributes = self._binary(signatures)
        seen = self._binary(self._seen_signatures)
        starts = np.concatenate([[0], np.cumsum([len(m) for m in self._nodes.members])])
        out = np.zeros((len(signatures), int(starts[-1])))
        for place in np.unique(places).tolist():
            rows = np.flatnonzero(places == place)
            path = self._nodes.path(place)
            weights = self._path_weights(path, seen)
            for depth, node in enumerate(path):
                members = self._nodes.members[node]
                part = (attributes[rows] * weights[depth]) @ seen[members].T / seen.shape[1]
                if depth + 1 < len(path):
                    below = np.isin(members, self._nodes.members[path[depth + 1]])
                    part += np.where(below, 1.0, -1.0) * self.category_weight / (len(path) - 1)
                out[rows, starts[node] : starts[node + 1]] = part
        return out

    def _path_weights(self, path: list[int], seen: Floats) -> Floats:
        """ω, of shape (n_nodes of the path, n_attributes)."""
        varies = [np.ptp(seen[self._nodes.members[node]], axis=0) > 0 for node in path]
        weights = self.depth_weight ** np.arange(len(path))[:, None] * np.asarray(varies)
        total = weights.sum(axis=0)
        return weights / np.where(total > 0, total, 1.0)

    def _binary(self, signatures: Floats) -> Floats:
        """Attributes of classes as 1 and −1."""
        return np.where(signatures > self.thresholds_, 1.0, -1.0)
