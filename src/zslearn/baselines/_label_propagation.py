r"""Label propagation: labels spread from predicted class parameters over images without labels.

Nodes of a graph are what a zero-shot method makes of the candidates, their labelled images, and the
images without labels, all of unit norm and joined to their nearest ones. Scikit-learn's
`LabelSpreading` finds :math:`F = (1 - \alpha) \sum_t (\alpha S)^t Y`, with S the normalised graph
and Y the labels that are known; a sample has the mean of F over its nearest nodes.
"""

from __future__ import annotations

import copy
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline
from sklearn.semi_supervised import LabelSpreading
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._embedding import Embedding
from zslearn._scoring._scorer import ClassScorer, find_classes
from zslearn._utils._array import Array, move_like, take_rows, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._validation import checks_parameters
from zslearn.base._pipeline import as_zero_shot
from zslearn.base._predictor import ZeroShotMetaClassifier
from zslearn.base._weights import fit_weighted, weighted_samples


# Defaults: by leaving out seen classes of CUB, with EXEM.
@inherit_docs
class LabelPropagation(ZeroShotMetaClassifier):
    """Spread labels over images without labels; until `adapt` it predicts as the method inside.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        What makes points of classes: best a method that predicts class means, such as
        :class:`~zslearn.synthesis.EXEM`.
    n_neighbors : int, default=30
        To how many nodes each is joined.
    alpha : float, default=0.8
        Share of a node's label that comes from its neighbours, also where it has one of its own.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        The fitted method.
    X_, y_ : array of shape (n_samples, n_features), and ndarray of shape (n_samples,)
        Training images and their labels.
    adapted_classes_ : ndarray of shape (n_candidates,)
        After :meth:`adapt`: the classes that labels were spread of. Others score 0.
    nodes_, shares_ : ndarray of shape (n_nodes, n_dims) and (n_nodes, n_candidates)
        After :meth:`adapt`: the nodes, and how much each is of each class.

    References
    ----------
    D. Zhou, O. Bousquet, T. N. Lal, J. Weston and B. Schölkopf, "Learning with local and global
    consistency", NIPS 2003.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "decision_function", "add_classes"]), Pipeline],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(self, estimator: Any, *, n_neighbors: int = 30, alpha: float = 0.8) -> None:
        self.estimator = estimator
        self.n_neighbors = n_neighbors
        self.alpha = alpha

    @checks_parameters(also_of_inner=True)
    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Fit the method, and keep the images."""
        with self._anew() as fresh:
            X, y = fresh._check_training(X, y)
            X, y, weights = weighted_samples(X, y, sample_weight)
            fresh.estimator_ = fit_weighted(as_zero_shot(self.estimator), X, y, signatures, weights)
            fresh.X_, fresh.y_ = X, y
        return self

    def adapt(self, X: Any, *, classes: Any = None) -> Self:
        """Spread labels over images without labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features of images.
        classes : array-like of labels, optional
            Classes that the images may be of; by default every class in `classes_`.

        Returns
        -------
        LabelPropagation
            An adapted copy; this model stays as it is.
        """
        check_is_fitted(self, "estimator_")
        X, scorer = self._check_features(X), self.estimator_.class_scorer_
        chosen = find_classes(scorer.labels if classes is None else classes, scorer.labels)
        adapted = copy.copy(self)
        adapted.adapted_classes_ = scorer.labels[chosen]
        place = {label: i for i, label in enumerate(adapted.adapted_classes_.tolist())}
        codes = np.asarray([place.get(label, -1) for label in self.y_.tolist()])
        labelled = np.flatnonzero(codes >= 0)
        # A class of several maps has a node for each.
        made = to_numpy(scorer.parameters)[chosen]
        nodes = [unit_rows(made.reshape(-1, made.shape[-1]))]
        for rows in [take_rows(self.X_, labelled), X] if len(labelled) else [X]:
            nodes.append(to_numpy(unit_rows(scorer.embedding(rows))))
        of_classes = np.repeat(np.arange(len(made)), len(nodes[0]) // len(made))
        known = [of_classes, codes[labelled], np.full(X.shape[0], -1)]
        adapted.nodes_ = np.concatenate(nodes)
        spreading = LabelSpreading(
            kernel="knn", n_neighbors=adapted._n_joined(), alpha=self.alpha, max_iter=300
        )
        adapted.shares_ = spreading.fit(adapted.nodes_, np.concatenate(known)).label_distributions_
        return adapted

    def _n_joined(self) -> int:
        """To how many nodes each is joined: all, where there are fewer than are asked for."""
        return min(self.n_neighbors, len(self.nodes_))

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        if not hasattr(self, "adapted_classes_"):
            return scorer
        columns = scorer.labels[:, None] == self.adapted_classes_[None, :]
        embedding = Embedding(self._shares_near, scorer.embedding.feature_norms)
        return ClassScorer(scorer.labels, columns.astype(np.float64), embedding)

    def _shares_near(self, rows: Array) -> Array:
        """How much the nearest nodes of prepared rows are of each candidate."""
        points = unit_rows(self.estimator_.class_scorer_.embedding.embed(rows))
        nearest = NearestNeighbors(n_neighbors=self._n_joined()).fit(self.nodes_)
        found = nearest.kneighbors(to_numpy(points), return_distance=False)
        return move_like(self.shares_[found].mean(axis=1), rows)
