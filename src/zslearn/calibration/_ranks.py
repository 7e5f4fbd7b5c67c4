"""Predict the deepest node of a class hierarchy that is probable enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._scoring._probabilities import softmax
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Floats, IdentityCache, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import name_some
from zslearn._utils._saved import Saved, saves
from zslearn.calibration._folds import FoldScores
from zslearn.calibration._sets import BaseSetPredictor
from zslearn.calibration._thresholds import (
    HeldOut,
    HeldOutCalibration,
    fold_temperatures,
    is_below,
    rate_and_interval,
    share_outside,
    thresholds_at,
)
from zslearn.signatures._class_graph import ClassPaths, ClassTree, cluster_hierarchy
from zslearn.signatures._table import SignatureTable, find_sorted
from zslearn.signatures._views import side_by_side

# Hierarchies of the latest estimators, and candidates of the latest predictions.
_trees, _candidate_trees = IdentityCache(4), IdentityCache(4)

#: The root that joins several roots of a hierarchy.
TOP = "(all classes)"


@dataclass(frozen=True, eq=False)
class Paths:
    """The most probable path of each image from the root down."""

    nodes: NDArray[np.intp]  # position of the node by image and level; −1 below the end
    probabilities: Floats  # of these nodes, never rising; 0 below the end

    @property
    def ends(self) -> NDArray[np.intp]:
        """The last node of each path."""
        length = (self.nodes >= 0).sum(axis=1)
        return self.nodes[np.arange(len(self.nodes)), length - 1]

    def depths_above(self, thresholds: Floats) -> tuple[NDArray[np.intp], Floats]:
        """Depth and probability of each path's last node that is above the image's threshold."""
        enough = (self.nodes >= 0) & (self.probabilities > thresholds[:, None])
        depths = np.maximum(enough.sum(axis=1) - 1, 0)
        return depths, self.probabilities[np.arange(len(depths)), depths]


class CandidateTree(ClassPaths):
    """The nodes of a hierarchy above some classes; a class that it lacks is a child of the root."""

    def __init__(self, tree: ClassTree, labels: NDArray[Any]) -> None:
        super().__init__(tree, labels, top=TOP)
        #: Number of the first child of each node; its last child is before that of the next node.
        self._children = np.searchsorted(self.parents[1:], np.arange(len(self.nodes) + 1)) + 1
        #: The row of the class that a node is; −1 for other nodes.
        self.class_of = np.full(len(self.nodes), -1)
        self.class_of[self.ends] = np.arange(len(labels))

    def descend(self, probabilities: Floats, column: NDArray[np.intp] | None = None) -> Paths:
        """Follow the most probable child from the root to a leaf or a more probable inner class.

        `column` is that of each class in `probabilities`; by default they follow the labels.
        """
        padded = np.column_stack([probabilities, np.zeros(len(probabilities))])
        column = np.arange(len(self.ends)) if column is None else column
        # Nodes that are no class have a probability of their own of 0.
        own = np.append(column, padded.shape[1] - 1)[self.class_of]
        of_nodes = padded[:, own]
        for level in reversed(range(1, len(self.levels))):
            start, stop = self.starts[level : level + 2]
            above = slice(*self.starts[level - 1 : level + 1])
            first = self._children[above]
            is_parent = first < self._children[above.start + 1 : above.stop + 1]
            sums = np.add.reduceat(of_nodes[:, start:stop], first[is_parent] - start, axis=1)
            of_nodes[:, above.start + np.flatnonzero(is_parent)] += sums
        nodes = np.full((len(probabilities), len(self.levels)), -1, dtype=np.intp)
        nodes[:, 0] = 0
        for level in range(1, len(self.levels)):
            for parent in np.unique(nodes[:, level - 1]):
                start, stop = self._children[parent : parent + 2] if parent >= 0 else (0, 0)
                if start == stop:
                    continue
                here = np.flatnonzero(nodes[:, level - 1] == parent)
                best = start + of_nodes[here, start:stop].argmax(axis=1)
                stays = padded[here, own[parent]] > of_nodes[here, best]
                nodes[here, level] = np.where(stays, -1, best)
        taken = np.take_along_axis(of_nodes, np.maximum(nodes, 0), axis=1)
        return Paths(nodes, np.where(nodes >= 0, taken, 0.0))

    def lowest_correct(self, paths: Paths, true: NDArray[np.intp]) -> Floats:
        """The lowest threshold of each image under which its node is correct; 0 if all are.

        That is the probability of the first wrong node on its path.
        """
        is_wrong = (paths.nodes >= 0) & (paths.nodes != self.levels[:, true].T)
        return np.where(is_wrong, paths.probabilities, 0.0).max(axis=1)


class RankPrediction(NamedTuple):
    """Nodes of a hierarchy, one for each sample.

    Parameters
    ----------
    nodes : ndarray of object of shape (n_samples,)
        Names of the nodes: class labels, or names of inner nodes.
    depths : ndarray of int of shape (n_samples,)
        Depth of the node; 0 is the root, which holds every described class.
    probabilities : ndarray of shape (n_samples,)
        Sum of the probabilities of the described classes below the node.
    """

    nodes: NDArray[Any]
    depths: NDArray[np.intp]
    probabilities: Floats


@inherit_docs
@saves(
    {"held_out_.classes": Saved(None, kind="int", into="n_seen")},
    temperature_=Saved(above=0),
    parents_=Saved(kind=dict),
    threshold_=Saved(keys=("seen", "described"), finite=False),
    accuracy_=Saved(finite=False),
    accuracy_interval_=Saved(each=True, finite=False),
    mean_depth_=Saved(finite=False),
    held_out_=Saved(kind=HeldOut),
)
@dataclass(eq=False, repr=False)
class RankPredictor(BaseSetPredictor):
    r"""Predict the deepest node of a class hierarchy that is probable enough.

    The probability of a node is the sum over the described classes below it. The path of an image
    follows the most probable child from the root; the prediction is the last node on the path whose
    probability exceeds a threshold. Since probabilities of zero-shot methods are not calibrated for
    every class, the threshold is not the confidence itself but the lowest value for which the
    required share of held-out images lie at or below their predicted node. It is estimated on the
    training data, as in :class:`NoneOfThese`: in each fold some classes are held out and described
    by their signatures only. Images whose path ends at a seen class and at a described one have
    separate thresholds. All classes have the same weight, and seen classes together have the same
    weight as described ones.

    Parameters
    ----------
    hierarchy : "cluster", mapping, DataFrame or list of pairs, default="cluster"
        Child → parent, for every described class. "cluster" applies
        :func:`~zslearn.signatures.cluster_hierarchy` to the signatures given to `fit`.
    confidence : float, default=0.9
        Share of images whose class lies at or below the predicted node.

    Attributes
    ----------
    parents_ : dict
        Parent of each node; None for a class with neither parent nor children.
    threshold_ : dict of str to float
        Threshold for images whose path ends at a "seen" class, and at a "described" one. The
        confidence itself if no class can be held out.
    accuracy_ : float
        Cross-fitted share of held-out images whose class lies at or below the predicted node, by
        thresholds found without their class; NaN if nothing was held out.
    accuracy_interval_ : tuple of float
        Its 95 % interval, with the class as the unit.
    mean_depth_ : float
        Mean depth of their predicted nodes.
    held_out_ : HeldOut
        For each held-out image: minus the probability of the first wrong node on its path, its
        class, whether that class was held out, and whether the class at the end of the path was.

    See Also
    --------
    NoneOfThese : Rejects images that no described class fits.
    zslearn.signatures.cluster_hierarchy : Builds a hierarchy from signatures.

    References
    ----------
    J. Deng, J. Krause, A. C. Berg and L. Fei-Fei, "Hedging your bets: optimizing
    accuracy-specificity trade-offs in large scale visual recognition", CVPR 2012.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.calibration import RankPredictor
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.signatures import cluster_hierarchy
    >>> data = make_zero_shot(random_state=0)
    >>> model = RankPredictor(ESZSL(), cluster_hierarchy(data.signatures), confidence=0.9)
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> nodes, depths, _ = model.predict_rank(data.X_test_unseen)
    >>> nodes.shape, int(depths.max())
    ((150,), 3)
    """

    hierarchy: Any = "cluster"
    _: KW_ONLY
    confidence: float = 0.9

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HeldOutCalibration._parameter_constraints,
        "hierarchy": [StrOptions({"cluster"}), Mapping, pd.DataFrame, list],
        "confidence": [Interval(Real, 0, 1, closed="neither")],
    }

    def predict_rank(
        self, X: Any, *, classes: Any = None, confidence: float | None = None
    ) -> RankPrediction:
        """Predict the deepest node that is probable enough.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            The candidates; by default all of `classes_`, for which the thresholds were estimated.
        confidence : float, optional
            Replaces the confidence of the estimator, without a refit.

        Returns
        -------
        RankPrediction
            Nodes, their depths and probabilities. A class that was described after `fit`, and that
            the hierarchy lacks, is a child of the root.
        """
        state = self._snapshot()
        labels = state._candidates(classes)
        parts = [
            (tree.nodes[nodes], depths, probabilities)
            for *_, tree, nodes, depths, probabilities in state._predicted_nodes(
                X, labels, confidence
            )
        ]
        return RankPrediction(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _set_members(
        self, X: Any, labels: NDArray[Any], coverage: float | None
    ) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
        """Every candidate below the predicted node; the coverage is the confidence."""
        blocks = self._predicted_nodes(X, labels, coverage)
        for of_groups, group, tree, nodes, depths, _ in blocks:
            yield of_groups[:, group], tree.levels[depths] == nodes[:, None]

    def _predicted_nodes(
        self, X: Any, labels: NDArray[Any], confidence: float | None
    ) -> Iterator[tuple[Floats, NDArray[np.intp], CandidateTree, NDArray[Any], Any, Floats]]:
        """Yield the nodes of blocks of rows, with their depths and probabilities.

        They are preceded by the probabilities of classes, with the column of each class, and by the
        tree.
        """
        scorer = self.class_scorer_
        thresholds = self._thresholds(self.confidence if confidence is None else confidence)
        tree = self._candidate_tree(labels)
        described = np.ones(len(labels), dtype=bool)
        seen = find_sorted(self.seen_classes_, labels)
        described[seen[seen >= 0]] = False
        distinct, group, counts = _distinct_classes(scorer, labels)
        for rows in self._checked_blocks(X):
            found = scorer.probabilities(rows, labels[distinct])
            of_groups = np.asarray(to_numpy(found), dtype=np.float64)
            of_groups /= (of_groups @ counts)[:, None]
            paths = tree.descend(of_groups, group)
            as_described = described[tree.class_of[paths.ends]]
            own = np.where(as_described, thresholds[1], thresholds[0])
            depths, probabilities = paths.depths_above(own)
            nodes = paths.nodes[np.arange(len(depths)), depths]
            yield of_groups, group, tree, nodes, depths, probabilities

    def _candidate_tree(self, labels: NDArray[Any]) -> CandidateTree:
        """The tree of some candidates, which is kept for the latest ones."""
        tree = _trees.get(self.held_out_, None, lambda: ClassTree(self.parents_))
        return _candidate_trees.get(labels, tree, lambda: CandidateTree(tree, labels))

    def _begin_calibration(self, table: SignatureTable) -> None:
        pairs, classes = self.hierarchy, table.labels
        if isinstance(pairs, str):
            table.check_complete('hierarchy="cluster"')
            rows = side_by_side(table.normalized(table.scales(slice(None)), keep_views=True))
            pairs = cluster_hierarchy(pd.DataFrame(rows, index=classes))
        tree = ClassTree(pairs)
        missing = [label for label in classes.tolist() if label not in tree]
        if missing:
            raise ValueError(
                f"{len(missing)} of the {len(classes)} described classes are not in the "
                f"hierarchy: {name_some(missing)}. Add a pair (class, parent) for each."
            )
        self.parents_ = dict(tree.parents)
        # Classes with neither parent nor children are roots, unlike classes described later.
        linked = {*tree.parents, *tree.parents.values()}
        self.parents_ |= {label: None for label in classes.tolist() if label not in linked}

    def _calibrate(self, folds: list[FoldScores], scale: float) -> None:
        tree = CandidateTree(ClassTree(self.parents_), self.seen_classes_)
        parts, fold_paths = [], []
        for fold, temperature in zip(folds, fold_temperatures(folds), strict=True):
            paths = tree.descend(softmax(fold.scores, temperature))
            ends = tree.class_of[paths.ends]
            # Negative, so that errors lie below the threshold as in NoneOfThese.
            values = -tree.lowest_correct(paths, fold.true)
            parts.append(HeldOut(values, fold.true, fold.held_out[fold.true], fold.held_out[ends]))
            fold_paths.append(paths)
        self.held_out_ = images = HeldOut.concatenate(parts)
        thresholds = self._thresholds(self.confidence)
        self.threshold_ = {"seen": thresholds[0], "described": thresholds[1]}
        wrong = is_below(images, images, 1 - self.confidence)
        self.accuracy_, self.accuracy_interval_ = rate_and_interval(~wrong, images)
        depths = []
        for part, paths in zip(parts, fold_paths, strict=True):
            own = np.where(part.as_described, thresholds[1], thresholds[0])
            depths.append(paths.depths_above(own)[0])
        self.mean_depth_ = float(images.weights @ np.concatenate(depths)) if folds else float("nan")

    def _thresholds(self, confidence: float) -> tuple[float, float]:
        """The thresholds (seen, described) at a confidence."""
        share = share_outside(confidence, "confidence")
        if not len(self.held_out_.values):
            return float(confidence), float(confidence)
        seen, described = thresholds_at(self.held_out_, share)
        return -seen, -described


def _distinct_classes(
    scorer: ClassScorer, labels: NDArray[Any]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """The first class of each group of equal scores, the group of each class, and group sizes."""
    every = np.arange(len(labels))
    if scorer.same_as is None:
        return every, every, np.ones(len(labels), dtype=np.intp)
    positions = every if labels is scorer.labels else find_sorted(labels, scorer.labels)
    keys = scorer.same_as[positions]
    if scorer.bias is not None:
        keys = keys + len(scorer.labels) * pd.factorize(scorer.bias[positions])[0]
    group = pd.factorize(keys)[0]
    _, first, counts = np.unique(group, return_index=True, return_counts=True)
    return first, group, counts
