"""Estimators that predict through another one: the base of wrappers, and pipelines.

A pipeline of scikit-learn that ends in a zero-shot estimator becomes one itself; its transformers
are also written for arrays of any library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._embedding import Embedding
from zslearn._scoring._scorer import ClassScorer, find_classes
from zslearn._utils._array import (
    Array,
    Floats,
    is_empty,
    is_foreign,
    is_streamed,
    is_symbolic,
    move_like,
    to_numpy,
    unit_rows,
)
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import warn_once
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn._utils._validation import checks_parameters
from zslearn.base._class_statistics import weighted_samples
from zslearn.base._classifier import fit_weighted
from zslearn.base._predictor import FITTED_LOCK, Fitted, ZeroShotPredictor
from zslearn.base._streams import needs_rows
from zslearn.signatures._table import SignatureTable


def inner_has(name: str) -> Any:
    """Decorate a method that a wrapper has where the estimator inside has it."""
    return available_if(lambda wrapper: hasattr(wrapper._inner, name))


@inherit_docs
@saves(
    estimator_=Saved(kind=ZeroShotPredictor),
)
class ZeroShotMetaClassifier(MetaEstimatorMixin, ZeroShotPredictor):
    """Base of estimators that fit another zero-shot estimator and predict through it.

    A subclass defines `_learn(X, y, signatures, weights)`, which leaves the fitted estimator in
    `estimator_` beside what else it finds, and `_wrap`, which makes the scorer from that of the
    inner estimator. `fit` checks its input and calls `_learn` of a copy, whose attributes it takes
    over unless an error ends it.

    Attributes
    ----------
    estimator_ : zero-shot estimator
        The fitted inner estimator.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    estimator: Any
    estimator_: Any

    @property
    def _inner(self) -> Any:
        """The fitted inner estimator."""
        return self.estimator_

    @checks_parameters(also_of_inner=True)
    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Fit the inner estimator, and find what this one adds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Class labels.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; see :meth:`ZeroShotClassifier.fit`.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts in training, for an estimator whose `fit` takes it.

        Returns
        -------
        self
            The fitted estimator. After an error it is as it was.
        """
        fresh = self._fresh_copy()
        X, y = fresh._check_training(X, y)
        X, y, weights = weighted_samples(X, y, sample_weight)
        fresh._learn(X, y, signatures, weights)
        return self._set_fitted(fresh)

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Fit the inner estimator on checked samples; by default nothing is added."""
        self.estimator_ = fit_weighted(as_zero_shot(self.estimator), X, y, signatures, weights)

    @property
    def seen_classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The classes of the training data, sorted."""
        return self._inner.seen_classes_

    def add_classes(self, signatures: Any, *, like: Any = None) -> Self:
        """Describe further classes to the inner estimator.

        Parameters
        ----------
        signatures : DataFrame, mapping or MultiSignatures
            See :meth:`ZeroShotClassifier.add_classes`.
        like : label, optional
            The class that provides attributes which are not named.

        Returns
        -------
        self
            The estimator itself, which now also predicts these classes.
        """
        return self._change_inner(lambda inner: inner.add_classes(signatures, like=like))

    def remove_classes(self, labels: Any) -> Self:
        """Remove classes that are known by their signature alone.

        Parameters
        ----------
        labels : array-like of labels
            See :meth:`ZeroShotClassifier.remove_classes`.

        Returns
        -------
        self
            The estimator itself, which no longer predicts these classes.
        """
        check_is_fitted(self)
        removed = self.classes_[find_classes(labels, self.classes_, "labels")]
        # The inner estimator may hold a class with few images for an unseen one.
        self._refuse_seen(removed)
        return self._change_inner(lambda inner: inner.remove_classes(removed))

    @inner_has("add_examples")
    def add_examples(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Give labelled samples to the inner estimator without another fit.

        Parameters
        ----------
        signatures : DataFrame, mapping or MultiSignatures, optional
            See :meth:`zslearn.synthesis.GaussianEXEM.add_examples`.

        Returns
        -------
        self
            The estimator itself; its hyper-parameters and calibration stay.
        """
        check_is_fitted(self)
        rows = self._inner_features(X)
        return self._change_inner(lambda inner: inner.add_examples(rows, y, signatures=signatures))

    @inner_has("remove_examples")
    def remove_examples(self, X: Any, y: Any) -> Self:
        """Take back labelled samples; see :meth:`zslearn.synthesis.GaussianEXEM.remove_examples`.

        Returns
        -------
        self
            The estimator.
        """
        check_is_fitted(self)
        rows = self._inner_features(X)
        return self._change_inner(lambda inner: inner.remove_examples(rows, y))

    @inner_has("adapt")
    def adapt(self, X: Any, **options: Any) -> Self:
        """Adapt the inner estimator to unlabelled images.

        Parameters
        ----------
        **options : dict
            See :meth:`zslearn.synthesis.GaussianEXEM.adapt`.

        Returns
        -------
        estimator
            A copy around the adapted estimator; this one stays as it is.
        """
        state = self._snapshot()
        return state._with_inner(state._inner.adapt(state._inner_features(X), **options))

    def _inner_features(self, X: Any) -> Any:
        """Features as the inner estimator takes them, after the checks that `predict` makes.

        The inner estimator was fitted on an array and does not know the order of columns.
        """
        if is_streamed(X):
            return self._check_stream(X)
        return X if is_empty(X) else self._check_features(X)

    @property
    def signature_table_(self) -> SignatureTable:
        """Signatures of every described class, as the inner method has them."""
        return self._inner.signature_table_

    def _change_inner(self, change: Callable[[Any], Any]) -> Self:
        """Replace the inner estimator by a changed copy of it."""

        def changed(wrapper: Self) -> None:
            inner = wrapper.estimator_._copy()
            change(inner)
            wrapper.estimator_ = inner

        return self._change(changed)

    def _with_inner(self, inner: Any) -> Self:
        """A copy with another fitted estimator inside."""
        return self._with(estimator_=inner)

    def _snapshot(self) -> Self:
        state = self._copy()
        return state._with_inner(state._inner._snapshot())

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        """Make the scorer of this estimator from that of the inner one; here the same."""
        return scorer

    @property
    def class_scorer_(self) -> ClassScorer:
        """What predictions work on, made from the scorer of the inner estimator."""
        state = self._snapshot()
        return state._wrap(state._inner.class_scorer_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Tags:
        """Take over what the inner estimator says of its input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


def prefixed_grids(method: Any, name: str) -> dict[str, list[dict[str, Sequence[Any]]]]:
    """Grids of a method under the name that it has in a wrapper."""
    grids: dict[str, list[dict[str, Sequence[Any]]]] = {}
    for grid, content in getattr(method, "grids", {}).items():
        parts = [content] if isinstance(content, Mapping) else content
        grids[grid] = [
            {f"{name}__{parameter}": list(values) for parameter, values in part.items()}
            for part in parts
        ]
    return grids


@dataclass(frozen=True)
class SettingGroup:
    """Settings that differ in the hyper-parameters of the last estimator alone.

    `indices` are their positions, `shared` the hyper-parameters that all have in common, `of_last`
    those of the last estimator, without its prefix.
    """

    indices: list[int]
    shared: dict[str, Any]
    of_last: list[dict[str, Any]]


def grouped_settings(settings: Sequence[Mapping[str, Any]], prefix: str) -> list[SettingGroup]:
    """Put settings together that differ in the hyper-parameters of the last estimator alone."""
    groups: dict[str, SettingGroup] = {}
    for index, setting in enumerate(settings):
        shared = {name: value for name, value in setting.items() if not name.startswith(prefix)}
        group = groups.setdefault(fingerprint(shared), SettingGroup([], shared, []))
        group.indices.append(index)
        group.of_last.append(
            {
                name.removeprefix(prefix): value
                for name, value in setting.items()
                if name.startswith(prefix)
            }
        )
    return list(groups.values())


def transform_array(transformer: Any, rows: Array) -> Array:
    """Transform rows of any library as a fitted transformer of scikit-learn would."""
    if transformer is None or transformer == "passthrough":
        return rows
    if hasattr(transformer, "steps"):
        for _, step in transformer.steps:
            rows = transform_array(step, rows)
        return rows
    # Subclasses may do something else.
    name = type(transformer).__name__
    written = _WRITTEN.get(f"{type(transformer).__module__.split('.')[0]}.{name}")
    if written is None:
        known = ", ".join(sorted(key.partition(".")[2] for key in _WRITTEN))
        raise TypeError(
            f"the step {name} of the pipeline is not written for arrays of any library; these are: "
            f"{known}"
        )
    return written(transformer, rows)


def _standard(step: Any, rows: Array) -> Array:
    shift = step.mean_ if step.with_mean else None
    return _affine(rows, shift, None if step.scale_ is None else 1 / step.scale_)


def _robust(step: Any, rows: Array) -> Array:
    return _affine(rows, step.center_, None if step.scale_ is None else 1 / step.scale_)


def _max_abs(step: Any, rows: Array) -> Array:
    return _clipped(step, _affine(rows, None, 1 / step.scale_), (-1.0, 1.0))


def _min_max(step: Any, rows: Array) -> Array:
    scaled = _affine(rows, -step.min_ / step.scale_, step.scale_)
    return _clipped(step, scaled, step.feature_range)


def _normalizer(step: Any, rows: Array) -> Array:
    if step.norm != "l2":
        raise TypeError(f'the step Normalizer of the pipeline has norm={step.norm!r}, not "l2"')
    return unit_rows(rows)


def _pca(step: Any, rows: Array) -> Array:
    projected = _affine(rows, step.mean_, None) @ move_like(step.components_.T, rows)
    if not step.whiten:
        return projected
    deviations = np.sqrt(step.explained_variance_)
    return _affine(projected, None, 1 / np.maximum(deviations, np.finfo(deviations.dtype).eps))


def _truncated_svd(step: Any, rows: Array) -> Array:
    return rows @ move_like(step.components_.T, rows)


def _affine(rows: Array, shift: Any, factor: Any) -> Array:
    """(x − shift) · factor; None for neither."""
    if shift is not None:
        rows = rows - move_like(np.asarray(shift), rows)[None, :]
    return rows if factor is None else rows * move_like(np.asarray(factor), rows)[None, :]


def _clipped(step: Any, rows: Array, bounds: tuple[float, float]) -> Array:
    if not getattr(step, "clip", False):
        return rows
    xp = compat.array_namespace(rows)
    return xp.clip(rows, min=bounds[0], max=bounds[1])


_WRITTEN: dict[str, Callable[[Any, Array], Array]] = {
    "sklearn.StandardScaler": _standard,
    "sklearn.RobustScaler": _robust,
    "sklearn.MaxAbsScaler": _max_abs,
    "sklearn.MinMaxScaler": _min_max,
    "sklearn.Normalizer": _normalizer,
    "sklearn.PCA": _pca,
    "sklearn.TruncatedSVD": _truncated_svd,
}


@inherit_docs
@saved_part
@saves(
    estimator_=Saved(kind=ZeroShotPredictor, optional=True),
    transformers_=Saved(kind=Pipeline, optional=True),
)
class ZeroShotPipeline(ZeroShotMetaClassifier, Pipeline):
    """A pipeline whose last step is a zero-shot estimator, and which is one itself.

    :class:`~zslearn.calibration.CalibratedStacking` and
    :class:`~zslearn.model_selection.ZeroShotSearchCV` make one of the pipeline that they are given;
    it is their `estimator_`. Unlike scikit-learn's it takes `signatures` and `classes` without
    metadata routing, and describes further classes.

    Parameters
    ----------
    steps : list of (name, estimator)
        Transformers, then a zero-shot estimator.
    transform_input : list of str, optional
        See :class:`sklearn.pipeline.Pipeline`.
    memory : str or object, optional
        Where fitted transformers are kept; see :class:`sklearn.pipeline.Pipeline`.
    verbose : bool, default=False
        Whether times of the steps are printed.

    Attributes
    ----------
    transformers_ : Pipeline or None
        The fitted steps before the last; None where there are none.
    named_steps : Bunch
        Steps by name.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.model_selection import ZeroShotPipeline
    >>> data = make_zero_shot(random_state=0)
    >>> model = ZeroShotPipeline([("scale", StandardScaler()), ("method", ESZSL())])
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> labels, scores = model.predict_top_k(data.X_test_unseen, k=3)
    >>> labels.shape
    (150, 3)
    """

    steps: list[tuple[str, Any]]
    transformers_: Pipeline | None

    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Fit the transformers, then the last step on what they make of the images.

        Parameters
        ----------
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts for the last step, where its `fit` takes it. Transformers
            do not see weights.
        """
        grid = self.fit_grid(
            X, y, signatures=signatures, settings=[{}], sample_weight=sample_weight
        )
        fitted = dict(grid)[0]
        self.steps, self._fitted = fitted.steps, fitted._fitted
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
        """Fit once for each setting; those that differ in the last step share the transformers."""
        prefix = f"{self.steps[-1][0]}__"
        for group in grouped_settings(settings, prefix):
            variant = clone(self).set_params(**group.shared)
            transformers, rows = variant._fit_transformers(X, y)
            fitted = variant._last_step().fit_grid(
                rows,
                y,
                signatures=signatures,
                settings=group.of_last,
                **({} if sample_weight is None else {"sample_weight": sample_weight}),
            )
            for position, method in fitted:
                yield group.indices[position], variant._after(transformers, method)
                del method

    @property
    def _inner(self) -> Any:
        return self.steps[-1][1]

    def _change_inner(self, change: Callable[[Any], Any]) -> Self:
        check_is_fitted(self)
        while True:
            steps = self.steps
            name, inner = steps[-1]
            inner = inner._copy()
            change(inner)
            with FITTED_LOCK:
                if self.steps is steps:
                    self.steps = [*steps[:-1], (name, inner)]
                    return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformers_")

    def __sklearn_tags__(self) -> Tags:
        return Pipeline.__sklearn_tags__(self)

    def _with_inner(self, inner: Any) -> Self:
        return self._after(self.transformers_, inner)

    def _inner_features(self, X: Any) -> Any:
        if is_streamed(X):
            raise needs_rows(self, X)
        # The steps were fitted on the same columns, and check names themselves.
        return X if is_empty(X) else self.transform_rows(X)

    def transform_rows(self, X: Any) -> Array:
        """What the transformers make of features.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Image features.

        Returns
        -------
        array of shape (n_samples, n_transformed)
            What the last step gets.
        """
        return X if self.transformers_ is None else _transformed(self.transformers_, X)

    @property
    def class_scorer_(self) -> ClassScorer:
        """What predictions work on: the scorer of the last step, after the transformers."""
        scorer = self.steps[-1][1].class_scorer_
        if self.transformers_ is None:
            return scorer
        return replace(
            scorer, embedding=Embedding(_TransformedEmbedding(self.transformers_, scorer.embedding))
        )

    @property
    def grids(self) -> dict[str, list[dict[str, Sequence[Any]]]]:
        """Grids of the last step by name, with its name before the hyper-parameters."""
        name, method = self.steps[-1]
        return prefixed_grids(method, name)

    def _has_temperature(self) -> bool:
        return hasattr(self.steps[-1][1], "predict_proba")

    def _last_step(self) -> Any:
        method = self.steps[-1][1]
        if not hasattr(method, "fit_grid"):
            raise TypeError(
                f"The last step of the pipeline must be a zero-shot estimator; got {method!r}."
            )
        if said := _rejection_message(method):
            warn_once(said)
        return method

    def _fit_transformers(self, X: Any, y: Any) -> tuple[Pipeline | None, Any]:
        """The steps before the last, fitted anew, and what they make of the samples."""
        before = self.steps[:-1]
        if not before:
            return None, X
        if is_streamed(X):
            raise needs_rows(self, X)
        transformers = clone(Pipeline(before, **_options(self)))
        return transformers, _as_array(transformers.fit_transform(X, y))

    def _after(self, transformers: Pipeline | None, method: Any) -> Self:
        """A fitted pipeline of fitted parts."""
        before = [] if transformers is None else list(transformers.steps)
        name = self.steps[-1][0]
        pipeline = type(self)([*before, (name, method)], **_options(self))
        pipeline._fitted = Fitted({"transformers_": transformers})
        return pipeline


def _options(pipeline: Pipeline) -> dict[str, Any]:
    """The hyper-parameters of a pipeline itself, whatever its steps are."""
    names = ("transform_input", "memory", "verbose")
    return {name: getattr(pipeline, name) for name in names}


def as_zero_shot(estimator: Any) -> Any:
    """A clone of an estimator that wrappers can use: a pipeline becomes a ZeroShotPipeline."""
    if said := _rejection_message(estimator):
        warn_once(said)
    if not isinstance(estimator, Pipeline) or isinstance(estimator, ZeroShotPipeline):
        return clone(estimator)
    pipeline = ZeroShotPipeline(clone(estimator).steps, **_options(estimator))
    pipeline._last_step()
    return pipeline


def _rejection_message(estimator: Any) -> str:
    """What is to be said of an estimator that would reject images, were it not inside another."""
    if not hasattr(estimator, "is_none"):
        return ""
    name = type(estimator).__name__
    return (
        f"{name} rejects nothing inside another estimator, which sees its scores alone: put it "
        f"outside, as {name}(the pipeline or wrapper)."
    )


def fitted_as_zero_shot(model: Any) -> Any:
    """A fitted model as a zero-shot estimator: a fitted pipeline becomes a ZeroShotPipeline.

    Parameters
    ----------
    model : estimator
        A fitted zero-shot estimator, or a fitted pipeline of scikit-learn that ends with one.

    Returns
    -------
    zero-shot estimator
        The model itself, or a pipeline of the same fitted steps.

    Raises
    ------
    TypeError
        It is no zero-shot estimator.
    sklearn.exceptions.NotFittedError
        It is not fitted.
    """
    if isinstance(model, Pipeline) and not isinstance(model, ZeroShotPipeline):
        # Unlike ours, a pipeline of scikit-learn predicts what its last step does.
        if said := _rejection_message(model.steps[-1][1]):
            raise TypeError(said)
        pipeline = ZeroShotPipeline(model.steps, **_options(model))
        pipeline._last_step()
        transformers = model[:-1] if len(model.steps) > 1 else None
        pipeline._fitted = Fitted({"transformers_": transformers})
        model = pipeline
    if not isinstance(model, ZeroShotPredictor):
        raise TypeError(f"The model must be a fitted zero-shot estimator; got {model!r}.")
    check_is_fitted(model)
    return model


@dataclass(frozen=True)
class _TransformedEmbedding:
    """Transformers, then the embedding of the last step."""

    transformers: Pipeline
    embedding: Embedding

    def __call__(self, rows: Array) -> Array:
        if is_symbolic(rows):
            return self.embedding(transform_array(self.transformers, rows))
        return self.embedding(_transformed(self.transformers, rows))


def _transformed(transformers: Pipeline, rows: Array) -> Array:
    """What transformers make of rows, in the library and on the device of these."""
    if not is_foreign(rows) or get_config()["array_api_dispatch"]:
        return _as_array(transformers.transform(rows))
    # Without that setting transformers of scikit-learn compute with NumPy.
    out = _as_array(transformers.transform(to_numpy(rows)))
    return compat.array_namespace(rows).asarray(out, device=compat.device(rows))


def _as_array(rows: Any) -> Any:
    """What transformers gave, which may be a frame (`set_output`), as an array."""
    return rows.to_numpy() if hasattr(rows, "to_numpy") else rows
