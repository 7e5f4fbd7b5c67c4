r"""The nodes of HAT's hierarchy, and the class scores that are learned at each of them.

At a node with n images, of which :math:`\bar x` is the mean, each attribute has a classifier
:math:`f(x) = w^\top (x - \bar x)` by regularised least squares,

.. math:: \min_w \frac{1}{n} \sum_i \left(w^\top (x_i - \bar x) - (b_{y_i} - \bar b)\right)^2
          + \alpha s^2 \|w\|^2,

with the attribute :math:`b = \pm 1` of each image's class and the mean square distance
:math:`s^2` of all training images from their mean. The solution is linear in the targets: with P
the solutions for the indicators of the node's classes and B their attributes, the classifiers of
all attributes are the columns of P B. So P, one column per class, is all that is kept of a node.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import array_api_compat as compat
import numpy as np

from zslearn.base import Training
from zslearn.baselines._spectra import ClassRidge, solve_shifted
from zslearn.signatures import ClassTree, cluster_levels
from zslearn.solvers import mean_square_distance
from zslearn.utils import Array, Floats, name_some, saved_part


@saved_part
class Nodes:
    """Inner nodes under which at least two seen classes lie, from the root down.

    Nodes under which the same seen classes lie are one.

    Parameters
    ----------
    memberships : sequence of sequences
        Names of the nodes above each seen class, nearest first.
    n_levels : int or None
        Levels that are kept, the root among them; None keeps all.

    Attributes
    ----------
    members : list of ndarray
        Positions of the seen classes under each node; the root is the first.
    parents : ndarray of shape (n_nodes,)
        Position of each node's parent; −1 for the root.
    by_name : dict
        Position of the nearest node that is kept, for each name.
    of_class : ndarray of shape (n_seen,)
        Position of the nearest node above each seen class.
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
        # Larger sets first: a node comes after all that it lies under.
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

    @classmethod
    def from_tree(cls, tree: ClassTree, seen: list[Hashable], n_levels: int | None) -> Nodes:
        """Nodes of a hierarchy that a user gave."""
        lost = [label for label in seen if label not in tree]
        if lost:
            raise ValueError(
                f"The hierarchy does not place {len(lost)} of the {len(seen)} seen classes: "
                f"{name_some(lost)}. Add a (child, parent) pair for each, with the labels of y, or "
                'use hierarchy="cluster".'
            )
        return cls([[label, *tree.ancestors(label)] for label in seen], n_levels)

    @classmethod
    def from_signatures(cls, signatures: Floats, n_levels: int | None) -> Nodes:
        """Nodes by clustering; see :func:`zslearn.signatures.cluster_hierarchy`."""
        levels = cluster_levels(signatures, 3 if n_levels is None else n_levels)
        memberships = [list(enumerate(codes))[::-1] for codes in np.stack(levels, axis=1).tolist()]
        return cls(memberships, n_levels)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state from elsewhere, if every node comes after its parent."""
        parents = np.asarray(state["parents"])
        numbers = np.arange(len(parents))
        if parents.dtype.kind != "i" or (parents >= numbers).any() or (parents < -1).any():
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
    """Least squares classifiers of the classes under each node, for several penalties.

    The images of a node are reduced once for all penalties, and forgotten before the next node's.

    Parameters
    ----------
    training : Training
        Images of the seen classes.
    nodes : Nodes
        The hierarchy.
    alphas : sequence of float
        Penalties in units of the features' spread.

    Returns
    -------
    list of (coefficients, intercepts)
        For each penalty, of shapes (n_features, Σ classes of the nodes) and
        (Σ classes of the nodes,).
    """
    # The unit of the penalty; 1 where all images are equal.
    square = mean_square_distance(training.rows) or 1.0
    parts: list[list[tuple[Array, Array]]] = [[] for _ in alphas]
    for members in nodes.members:
        # The root needs no choice of rows.
        own = training if len(members) == training.n_seen else training.only(members)
        few = len(own.y) < own.rows.shape[1]
        node = _FewRows(own) if few else ClassRidge(own, center=True)
        for alpha, found in zip(alphas, parts, strict=True):
            coef = node.solve(alpha * square * len(own.y))
            found.append((coef, -node.mean @ coef))
    xp = compat.array_namespace(parts[0][0][0])
    return [
        (xp.concat([coef for coef, _ in found], axis=1), xp.concat([b for _, b in found], axis=0))
        for found in parts
    ]


class _FewRows:
    """The same as :class:`ClassRidge` of fewer images than features: X̃ᵀ (X̃X̃ᵀ + γI)⁻¹ Y."""

    def __init__(self, training: Training) -> None:
        xp = compat.array_namespace(training.rows)
        X = xp.astype(training.X, xp.float64)
        self.mean = xp.sum(X, axis=0) / X.shape[0]
        self._centered = X - self.mean[None, :]
        self._kernel = self._centered @ xp.matrix_transpose(self._centered)
        indicators = (training.y[:, None] == np.arange(training.n_seen)).astype(np.float64)
        self._targets = xp.asarray(indicators, device=compat.device(X))

    def solve(self, alpha: float) -> Array:
        """The least squares solutions, of shape (n_features, n_classes)."""
        xp = compat.array_namespace(self._kernel)
        solved = solve_shifted(self._kernel, alpha, self._targets)
        return xp.matrix_transpose(self._centered) @ solved
