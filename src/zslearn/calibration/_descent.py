"""Down a hierarchy by the most probable child, and how sure each step is."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.signatures import ClassTree
from zslearn.utils import Floats

#: The node above everything, where a hierarchy has several roots.
TOP = "(all classes)"


@dataclass(frozen=True, eq=False)
class Descent:
    """The path of each image from the root down.

    Parameters
    ----------
    nodes : ndarray of int of shape (n_samples, n_levels)
        Positions in `Ladder.nodes`; −1 below the end of a path.
    probabilities : ndarray of shape (n_samples, n_levels)
        Of the nodes, never rising; 0 below the end.
    """

    nodes: NDArray[np.intp]
    probabilities: Floats

    @property
    def ends(self) -> NDArray[np.intp]:
        """The last node of each path."""
        length = (self.nodes >= 0).sum(axis=1)
        return self.nodes[np.arange(len(self.nodes)), length - 1]

    def above(self, thresholds: Floats) -> tuple[NDArray[np.intp], Floats]:
        """How deep each image goes where every node must be more probable than a threshold.

        Parameters
        ----------
        thresholds : ndarray of shape (n_samples,)
            One for each image.

        Returns
        -------
        depths : ndarray of int of shape (n_samples,)
            0 is the root, which needs no probability.
        probabilities : ndarray of shape (n_samples,)
            Of the nodes there.
        """
        enough = (self.nodes >= 0) & (self.probabilities > thresholds[:, None])
        depths = np.maximum(enough.sum(axis=1) - 1, 0)
        return depths, self.probabilities[np.arange(len(depths)), depths]


class Ladder:
    """Nodes of a hierarchy over some classes.

    Parameters
    ----------
    tree : ClassTree
        The hierarchy.
    labels : ndarray of shape (n_classes,)
        Classes; one that the hierarchy does not have hangs at the root.
    """

    def __init__(self, tree: ClassTree, labels: NDArray[Any]) -> None:
        paths = [[*reversed(tree.ancestors(label)), label] for label in labels.tolist()]
        roots = {path[0] for path in paths if len(path) > 1 or path[0] in tree}
        top: Hashable = next(iter(roots)) if len(roots) == 1 else TOP
        paths = [path if path[0] == top else [top, *path] for path in paths]
        positions: dict[Hashable, int] = {}
        for path in paths:
            for node in path:
                positions.setdefault(node, len(positions))
        self.nodes = np.empty(len(positions), dtype=object)
        self.nodes[:] = list(positions)
        self.children: list[list[int]] = [[] for _ in positions]
        #: Which nodes each class lies at or below.
        self.below = np.zeros((len(labels), len(positions)), dtype=bool)
        for row, path in enumerate(paths):
            places = [positions[node] for node in path]
            self.below[row, places] = True
            for parent, child in itertools.pairwise(places):
                if child not in self.children[parent]:
                    self.children[parent].append(child)
        self.n_levels = max(map(len, paths))
        # The class of a node, where it is one.
        self.class_of = {positions[label]: row for row, label in enumerate(labels.tolist())}

    def descend(self, probabilities: Floats) -> Descent:
        """Follow the most probable child from the root to an end.

        Parameters
        ----------
        probabilities : ndarray of shape (n_samples, n_classes)
            Of the classes; rows sum to 1.

        Returns
        -------
        Descent
            A path for each row. It ends at a class: at an inner node that is a class itself, too,
            where that is more probable than all below it.
        """
        of_nodes = probabilities @ self.below
        n_samples = len(probabilities)
        nodes = np.full((n_samples, self.n_levels), -1, dtype=np.intp)
        nodes[:, 0] = 0
        for level in range(1, self.n_levels):
            for parent in np.unique(nodes[:, level - 1]):
                children = self.children[parent] if parent >= 0 else []
                if not children:
                    continue
                here = np.flatnonzero(nodes[:, level - 1] == parent)
                best = np.asarray(children)[of_nodes[np.ix_(here, children)].argmax(axis=1)]
                if parent in self.class_of:
                    stays = probabilities[here, self.class_of[parent]] > of_nodes[here, best]
                    best = np.where(stays, -1, best)
                nodes[here, level] = best
        taken = np.take_along_axis(of_nodes, np.maximum(nodes, 0), axis=1)
        return Descent(nodes, np.where(nodes >= 0, taken, 0.0))

    def wrong_from(self, descent: Descent, true: NDArray[np.intp]) -> Floats:
        """The probability of the first node on each path that is wrong; 0 where none is.

        A threshold is right for an image just if it is not below this number.

        Parameters
        ----------
        descent : Descent
            Paths.
        true : ndarray of int of shape (n_samples,)
            The class of each image.

        Returns
        -------
        ndarray of shape (n_samples,)
            Between 0 and 1.
        """
        on_path = self.below[true[:, None], np.maximum(descent.nodes, 0)]
        wrong = (descent.nodes >= 0) & ~on_path
        return np.where(wrong, descent.probabilities, 0.0).max(axis=1)
