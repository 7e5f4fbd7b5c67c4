"""Base of methods that add a score by labelled images of a class to the score by its description.

The score of a class is description / u_d + weight · images / u_i, each in units of its standard
deviation over the seen classes, so that a weight means the same beside every method that scores
descriptions. A class without images has the first term only.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, Interval

from zslearn._scoring._embedding import Embedding, PreparedRows
from zslearn._scoring._scorer import ClassScorer, identical_rows
from zslearn._utils._array import Array, Floats, move_like, take_rows, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._saved import Saved, saves
from zslearn._utils._validation import checks_parameters
from zslearn.base._class_statistics import class_means
from zslearn.base._pipeline import as_zero_shot
from zslearn.base._predictor import ZeroShotMetaClassifier
from zslearn.base._variants import with_setting
from zslearn.base._weights import fit_weighted, weighted_samples
from zslearn.baselines._eszsl import ESZSL
from zslearn.calibration._folds import score_scale
from zslearn.signatures._table import SignatureTable

# Hyper-parameters on which the fit of what scores descriptions depends.
_OF_DESCRIPTIONS = {"estimator", "min_images"}


@inherit_docs
@saves(
    _seen=Saved("n_seen", kind="label"),
    class_means_=Saved("n_seen", "n_features"),
    coef_=Saved("n_seen", "n_columns"),
    intercept_=Saved("n_seen"),
    units_=Saved(above=0, each=True),
)
class FewImages(ZeroShotMetaClassifier):
    """Base of methods that score by a few labelled images of a class, and by its description.

    Parameters
    ----------
    estimator : zero-shot estimator or Pipeline, optional
        What scores descriptions; :class:`ESZSL` by default.
    min_images : int, default=1
        How many images a class needs for `estimator` to learn from it; to `estimator` the others
        are described only. Where fewer than two classes have so many, it learns from all.
    weight : float, default=1.0
        What the score by images is multiplied by, α of the paper that introduced the method. Both
        scores are in units of their standard deviation over the seen classes.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        Fitted on features of unit norm.
    class_means_ : ndarray of shape (n_seen, n_features)
        Means of these features of the seen classes.
    coef_, intercept_ : ndarray of shape (n_seen, n_dims) and (n_seen,)
        By which the images of each seen class score.
    units_ : tuple of float
        Standard deviation over the seen classes of the score by descriptions, and of that by
        images: the median over `class_means_`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "decision_function", "add_classes"]), Pipeline, None],
        "min_images": [Interval(Integral, 1, None, closed="left")],
        "weight": [Interval(Real, 0, None, closed="left")],
    }
    #: Attributes that decide what `_embed_images` does.
    _image_attributes: ClassVar[tuple[str, ...]] = ()

    min_images: int
    weight: float
    coef_: Floats
    intercept_: Floats

    # What a method writes.

    def _sum_images(self, X: Array, codes: NDArray[np.intp], weights: Floats | None) -> Any:
        """What is needed of prepared features, whatever the method's own hyper-parameters are."""
        raise NotImplementedError

    def _learn_images(self, sums: Any) -> None:
        """Make `coef_` and `intercept_` of that."""
        raise NotImplementedError

    def _embed_images(self, rows: Array) -> Array:
        """What the score by images is linear in."""
        return rows

    # How it is done.

    @checks_parameters(also_of_inner=True)
    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Fit what scores descriptions, and learn from the images of each class.

        A class with few images is one of `y` as any other; one without is described only.
        """
        with self._anew() as fresh:
            fresh._finish(fresh._begin(X, y, signatures, sample_weight))
        return self

    def fit_grid(
        self,
        X: Any,
        y: Any,
        *,
        signatures: Any = None,
        settings: Sequence[Mapping[str, Any]],
        sample_weight: Any = None,
    ) -> Iterator[tuple[int, Self]]:
        """Fit once for each setting; those of the same `estimator` share its fit."""
        groups: dict[str, list[int]] = {}
        for index, setting in enumerate(settings):
            shared = {n: v for n, v in setting.items() if n.split("__")[0] in _OF_DESCRIPTIONS}
            groups.setdefault(fingerprint(shared), []).append(index)
        for group in groups.values():
            learned = with_setting(self, settings[group[0]])
            learned._validate_params()
            sums = learned._begin(X, y, signatures, sample_weight)
            for index in group:
                model = copy.copy(learned)
                model.__dict__.update(with_setting(self, settings[index]).get_params(deep=False))
                model._validate_params()
                model.estimator_ = learned.estimator_.describing(learned.signature_table_)
                model._finish(sums)
                yield index, model
                del model

    def _begin(self, X: Any, y: Any, signatures: Any, sample_weight: Any) -> Any:
        """Fit what scores descriptions; what is needed of the images."""
        X, y = self._check_training(X, y)
        X, y, weights = weighted_samples(X, y, sample_weight)
        rows = PreparedRows(X, "l2")
        rows.check()
        X = rows.held
        self._seen, codes = np.unique(y, return_inverse=True)
        sizes = np.bincount(codes, weights=weights)
        self.class_means_ = to_numpy(class_means(X, codes, len(sizes), sample_weight=weights))
        sums = self._sum_images(X, codes, weights)
        many = sizes >= self.min_images
        if many.sum() >= 2 and not many.all():
            signatures = SignatureTable.from_user(signatures, self._seen)
            learned = np.flatnonzero(many[codes])
            X, y = take_rows(X, learned), y[learned]
            weights = None if weights is None else weights[learned]
        inner = as_zero_shot(ESZSL() if self.estimator is None else self.estimator)
        self.estimator_ = fit_weighted(inner, X, y, signatures, weights)
        return sums

    def _finish(self, sums: Any) -> None:
        """Learn from the images; then the scales of both scores, of which `weight` is a ratio."""
        self._learn_images(sums)
        scorer = self.estimator_.class_scorer_
        description, images = (
            score_scale(self._mixed(scorer, *factors).scores(self.class_means_, self._seen))
            for factors in ((1.0, 0.0), (0.0, 1.0))
        )
        self.units_ = description or 1.0, images or 1.0

    @property
    def seen_classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The classes of the training data, sorted."""
        return self._seen

    def __sklearn_tags__(self) -> Tags:
        """Non-finite features are replaced, whatever the estimator inside does."""
        tags = super(ZeroShotMetaClassifier, self).__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        description, images = self.units_
        return self._mixed(scorer, 1.0 / description, self.weight / images)

    def _mixed(self, scorer: ClassScorer, description: float, images: float) -> ClassScorer:
        """Both scores times their factors, as one inner product."""
        coef, intercept = _as_products(scorer)
        place = {label: i for i, label in enumerate(self._seen.tolist())}
        # The row behind those of the seen classes is that of classes without images.
        which = [place.get(label, len(place)) for label in scorer.labels.tolist()]
        added = images * np.column_stack([self.coef_, self.intercept_])
        added = np.concatenate([added, np.zeros_like(added[:1])])[which]
        added[:, -1] += description * intercept
        if coef.ndim == 3:
            # One row for each map of a class: all have the same images.
            added = np.repeat(added[:, None, :], coef.shape[1], axis=1)
        xp, inner = compat.array_namespace(coef), scorer.embedding
        parameters = xp.concat([description * coef, move_like(added, coef)], axis=-1)
        decided_by = None
        if inner.depends_on is not None:
            own = (getattr(self, name) for name in self._image_attributes)
            decided_by = (*inner.depends_on, *inner.feature_norms, scorer.score, *own)
        return replace(
            scorer,
            parameters=parameters,
            # Classes that the descriptions do not tell apart may differ by their images.
            same_as=None if scorer.same_as is None else identical_rows(parameters),
            embedding=Embedding(self._embed, ("l2",), decided_by),
            score="max_dot" if scorer.score == "max_dot" else "dot",
            bias=None,
            temperature=None,
        )

    def _embed(self, rows: Array) -> Array:
        """Rows as the estimator embeds them, what images are scored by, and a one."""
        scorer = self.estimator_.class_scorer_
        embedded = scorer.embedding(rows)
        xp = compat.array_namespace(embedded)
        if scorer.score == "cosine":
            embedded = unit_rows(embedded)
        return xp.concat([embedded, self._embed_images(rows), xp.ones_like(rows[:, :1])], axis=1)


def _as_products(scorer: ClassScorer) -> tuple[Array, Floats]:
    """Coefficients and intercepts by which classes rank as they do by the scorer."""
    coef = scorer.parameters
    intercept = np.zeros(len(scorer.labels)) if scorer.bias is None else scorer.bias
    if scorer.score == "cosine":
        coef = unit_rows(coef)
    elif scorer.score == "euclidean":
        # −‖e − p‖² = 2eᵀp − ‖p‖² − ‖e‖², the last of which is the same for all classes.
        intercept = intercept - (to_numpy(coef).astype(np.float64) ** 2).sum(axis=1)
        coef = 2.0 * coef
    return coef, intercept
