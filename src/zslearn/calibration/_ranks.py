"""The estimator that names the deepest node of a hierarchy that is sure enough.

An image goes down the hierarchy by the most probable child, as far as a node is sure enough.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import name_some
from zslearn._utils._saved import Saved, saves
from zslearn.calibration._folds import FoldScores
from zslearn.calibration._sets import PredictsSets
from zslearn.calibration._thresholds import (
    HeldOut,
    HeldOutCalibration,
    cross_fitted,
    fold_probabilities,
    joined,
    rate_and_interval,
    share_outside,
    thresholds_at,
)
from zslearn.signatures._class_graph import ClassTree, cluster_hierarchy
from zslearn.signatures._table import SignatureTable
from zslearn.signatures._views import side_by_side

#: The node above everything, where a hierarchy has several roots.
TOP = "(all classes)"


@dataclass(frozen=True, eq=False)
class Descent:
    """The path of each image from the root down."""

    nodes: NDArray[np.intp]  # positions in `Ladder.nodes` by image and level; −1 below the end
    probabilities: Floats  # of the nodes, never rising; 0 below the end

    @property
    def ends(self) -> NDArray[np.intp]:
        """The last node of each path."""
        length = (self.nodes >= 0).sum(axis=1)
        return self.nodes[np.arange(len(self.nodes)), length - 1]

    def above(self, thresholds: Floats) -> tuple[NDArray[np.intp], Floats]:
        """How deep each image goes where every node must be more probable than a threshold."""
        enough = (self.nodes >= 0) & (self.probabilities > thresholds[:, None])
        depths = np.maximum(enough.sum(axis=1) - 1, 0)
        return depths, self.probabilities[np.arange(len(depths)), depths]


class Ladder:
    """Nodes of a hierarchy over some classes; a class that it does not have hangs at the root."""

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
        """Follow the most probable child from the root to an end."""
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
        """
        on_path = self.below[true[:, None], np.maximum(descent.nodes, 0)]
        wrong = (descent.nodes >= 0) & ~on_path
        return np.where(wrong, descent.probabilities, 0.0).max(axis=1)


class RankPrediction(NamedTuple):
    """Nodes of a hierarchy, one for each sample.

    Parameters
    ----------
    nodes : ndarray of object of shape (n_samples,)
        Names of the nodes: class labels, or names of inner nodes.
    depths : ndarray of int of shape (n_samples,)
        How far below the root; 0 says no more than that the sample is of some described class.
    probabilities : ndarray of shape (n_samples,)
        Probabilities of the described classes below each node, summed.
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
    right_rate_=Saved(finite=False),
    right_interval_=Saved(each=True, finite=False),
    mean_depth_=Saved(finite=False),
    held_out_=Saved(kind=HeldOut),
)
class RankPredictor(PredictsSets):
    r"""Name the deepest node of a class hierarchy that is sure enough.

    The probability of a node is the sum over the described classes below it. From the root, the
    path of an image follows the most probable child; the prediction is the last node on it whose
    probability is above a threshold. Probabilities of zero-shot methods are no promise, so that the
    threshold is not the confidence itself: it is the lowest one under which the stated share of
    held-out images lies below the node named for them. It is found on the training data alone, as
    :class:`NoneOfThese` finds its own: in each fold some classes are left out of training and known
    by their description alone. Images whose path ends at a seen class and at a described one have
    thresholds of their own. Every class counts the same, and seen classes together as much as
    described ones.

    Parameters
    ----------
    hierarchy : "cluster", mapping, DataFrame or list of pairs, default="cluster"
        Child → parent, with every described class. "cluster" takes
        :func:`~zslearn.signatures.cluster_hierarchy` of the signatures given to `fit`.
    confidence : float, default=0.9
        The share of images whose class is to lie at or below the node that is named.

    Attributes
    ----------
    parents_ : dict
        Parent of each node of the hierarchy; None for a class that has neither parent nor children.
    threshold_ : dict of str to float
        A node must be more probable: of images whose path ends at a "seen" class, and at a
        "described" one. The confidence itself where no class can be left out.
    right_rate_ : float
        The share of held-out images whose class lies below the node named for them, by thresholds
        in whose making their class had no part; NaN where nothing was held out.
    right_interval_ : tuple of float
        Its 95 % interval. The unit is the class, not the image.
    mean_depth_ : float
        How deep the nodes lie that are named for them.
    held_out_ : HeldOut
        Of each held-out image less the probability of the first wrong node on its path, its class,
        whether that class was left out of training, and whether the class at the end was.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **HeldOutCalibration._parameter_constraints,
        "hierarchy": [StrOptions({"cluster"}), Mapping, pd.DataFrame, list],
        "confidence": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        estimator: Any,
        hierarchy: Any = "cluster",
        *,
        confidence: float = 0.9,
        cv: Any = 5,
        held_out: float = 0.2,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.hierarchy = hierarchy
        self.confidence = confidence
        self.cv = cv
        self.held_out = held_out
        self.n_jobs = n_jobs
        self.random_state = random_state

    def predict_rank(
        self, X: Any, *, classes: Any = None, confidence: float | None = None
    ) -> RankPrediction:
        """Name the deepest node that is sure enough.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            The candidates; by default every class in `classes_`, for which the thresholds are made.
        confidence : float, optional
            Another confidence than that of the estimator; nothing is fitted again.

        Returns
        -------
        RankPrediction
            Nodes, how deep they lie, and their probabilities. A class that the hierarchy does not
            have, since it was described later, hangs at the root.
        """
        state = self._frozen()
        labels = state._candidates(classes)
        parts = [part[2:] for part in state._named(X, labels, confidence)]
        return RankPrediction(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _members(
        self, X: Any, labels: NDArray[Any], coverage: float | None
    ) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
        """Every candidate below the node that is named; the coverage is the confidence."""
        for chances, inside, *_ in self._named(X, labels, coverage):
            yield chances, inside

    def _named(
        self, X: Any, labels: NDArray[Any], confidence: float | None
    ) -> Iterator[tuple[Floats, NDArray[np.bool_], NDArray[Any], NDArray[np.intp], Floats]]:
        """Of each block the candidates' probabilities, and the nodes: what lies below, and where.

        A node comes as the candidates below it, its name, its depth and its probability.
        """
        scorer = self.class_scorer_
        thresholds = self._thresholds(self.confidence if confidence is None else confidence)
        ladder = Ladder(ClassTree(self.parents_), labels)
        described = ~np.isin(labels, self.seen_classes_)
        for rows in self._checked_blocks(X):
            chances = np.asarray(to_numpy(scorer.probabilities(rows, labels)), dtype=np.float64)
            descent = ladder.descend(chances)
            as_described = described[[ladder.class_of[end] for end in descent.ends.tolist()]]
            own = np.where(as_described, thresholds[1], thresholds[0])
            depths, probabilities = descent.above(own)
            places = descent.nodes[np.arange(len(depths)), depths]
            yield chances, ladder.below[:, places].T, ladder.nodes[places], depths, probabilities

    def _begin_calibration(self, table: SignatureTable) -> None:
        pairs, classes = self.hierarchy, table.labels
        if isinstance(pairs, str):
            table.refuse_lacking('hierarchy="cluster"')
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
        # Classes without parent and children are roots, not classes that were described later.
        linked = {*tree.parents, *tree.parents.values()}
        self.parents_ |= {label: None for label in classes.tolist() if label not in linked}

    def _calibrate(self, folds: list[FoldScores], scale: float) -> None:
        ladder = Ladder(ClassTree(self.parents_), self.seen_classes_)
        descents = [ladder.descend(chances) for chances in fold_probabilities(folds)]
        parts = []
        for fold, descent in zip(folds, descents, strict=True):
            ends = [ladder.class_of[end] for end in descent.ends.tolist()]
            # What lies below a threshold is wrong, as in NoneOfThese: hence the sign.
            values = -ladder.wrong_from(descent, fold.true)
            parts.append(HeldOut(values, fold.true, fold.left_out[fold.true], fold.left_out[ends]))
        self.held_out_ = whole = joined(parts)
        thresholds = self._thresholds(self.confidence)
        self.threshold_ = {"seen": thresholds[0], "described": thresholds[1]}
        wrong, _ = cross_fitted(whole, joined([]), 1 - self.confidence)
        self.right_rate_, self.right_interval_ = rate_and_interval(~wrong, whole)
        self.mean_depth_ = float("nan")
        if descents:
            paths = [(descent.nodes, descent.probabilities) for descent in descents]
            together = Descent(*map(np.concatenate, zip(*paths, strict=True)))
            own = np.where(whole.as_described, thresholds[1], thresholds[0])
            self.mean_depth_ = float(whole.weights @ together.above(own)[0])

    def _thresholds(self, confidence: float) -> tuple[float, float]:
        """The thresholds of a confidence."""
        share = share_outside(confidence, "confidence")
        if not len(self.held_out_.values):
            return float(confidence), float(confidence)
        seen, described = thresholds_at(self.held_out_, share)
        return -seen, -described
