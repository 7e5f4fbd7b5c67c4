r"""Label propagation: labels spread from predicted class means over images without labels.

Nodes of a graph are the points at which a zero-shot method places the candidates, their labelled
images, and the images without labels, each joined to its nearest ones. Scikit-learn's
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
from zslearn._utils._array import Array, Floats, move_like, take_rows, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._validation import checks_parameters
from zslearn.base._pipeline import as_zero_shot
from zslearn.base._predictor import ZeroShotMetaClassifier
from zslearn.base._weights import fit_weighted, weighted_samples


@inherit_docs
class LabelPropagation(ZeroShotMetaClassifier):
    """Spread labels over images without labels, from class means that descriptions predict.

    `fit` fits the method and keeps the images, and the model predicts as the method does; `adapt`
    returns one that has spread labels.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline
        What places classes among images: a method that scores by a distance or a cosine, such as
        :class:`~zslearn.synthesis.EXEM` or :class:`SAE`.
    n_neighbors : int, default=10
        To how many nodes each is joined.
    alpha : float, default=0.2
        Share of a node's label that comes from its neighbours, also where it has one of its own.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        The fitted method.
    X_, y_ : array of shape (n_samples, n_features), and ndarray of shape (n_samples,)
        Training images and their labels.
    adapted_classes_ : ndarray of shape (n_candidates,)
        After :meth:`adapt`: the classes that labels were spread of.
    nodes_, shares_ : ndarray of shape (n_nodes, n_dims) and (n_nodes, n_candidates)
        After :meth:`adapt`: the nodes, and how much each is of each class.

    Notes
    -----
    After :meth:`adapt` the score of a class is its share among the nearest nodes; classes that were
    no candidates score 0. A search leaves out classes and gives no images without labels, so that
    `n_neighbors` and `alpha` cannot be searched.

    References
    ----------
    D. Zhou, O. Bousquet, T. N. Lal, J. Weston and B. Schölkopf, "Learning with local and global
    consistency", NIPS 2003.

    Examples
    --------
    >>> from zslearn.baselines import SAE, LabelPropagation
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = LabelPropagation(SAE())
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> adapted = model.adapt(data.X_test_unseen, classes=data.unseen_classes)
    >>> adapted.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "decision_function", "add_classes"]), Pipeline],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(self, estimator: Any, *, n_neighbors: int = 10, alpha: float = 0.2) -> None:
        self.estimator = estimator
        self.n_neighbors = n_neighbors
        self.alpha = alpha

    @checks_parameters(also_of_inner=True)
    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Fit the method, and keep the images.

        Returns
        -------
        self
            The fitted estimator. After an error it is as it was.
        """
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
        candidates = find_classes(scorer.labels if classes is None else classes, scorer.labels)
        labels = scorer.labels[candidates]
        place = {label: i for i, label in enumerate(labels.tolist())}
        codes = np.asarray([place.get(label, -1) for label in self.y_.tolist()])
        labelled = np.flatnonzero(codes >= 0)
        images = [take_rows(self.X_, labelled), X] if len(labelled) else [X]
        adapted = copy.copy(self)
        adapted.adapted_classes_ = labels
        means = _points(scorer, scorer.parameters)[candidates]
        points = [_points(scorer, scorer.embedding(rows)) for rows in images]
        adapted.nodes_ = np.concatenate([means, *points])
        known = [np.arange(len(labels)), codes[labelled], np.full(X.shape[0], -1)]
        spreading = LabelSpreading(
            kernel="knn", n_neighbors=self.n_neighbors, alpha=self.alpha, max_iter=100
        )
        spreading.fit(adapted.nodes_, np.concatenate(known))
        adapted.shares_ = spreading.label_distributions_
        return adapted

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        if not hasattr(self, "adapted_classes_"):
            return scorer
        columns = scorer.labels[:, None] == self.adapted_classes_[None, :]
        embedding = Embedding(self._shares_near, scorer.embedding.feature_norms)
        return ClassScorer(scorer.labels, columns.astype(np.float64), embedding)

    def _shares_near(self, rows: Array) -> Array:
        """How much the nearest nodes of prepared rows are of each candidate."""
        scorer = self.estimator_.class_scorer_
        points = _points(scorer, scorer.embedding.embed(rows))
        n_neighbors = min(self.n_neighbors, len(self.nodes_))
        nearest = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(self.nodes_)
        return move_like(self.shares_[nearest.kneighbors(points)[1]].mean(axis=1), rows)


def _points(scorer: ClassScorer, embedded: Array) -> Floats:
    """Embedded images, or parameters of classes, as points of which near ones score high."""
    if scorer.score not in ("euclidean", "cosine"):
        raise TypeError(
            "LabelPropagation needs a method that places classes among images, by a distance or a "
            f"cosine; this one scores by {scorer.score!r}. Take EXEM, SAE, CCA or BiDiLEL."
        )
    points = unit_rows(embedded) if scorer.score == "cosine" else embedded
    return np.asarray(to_numpy(points), dtype=np.float64)
