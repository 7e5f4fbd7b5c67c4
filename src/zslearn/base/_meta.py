"""Meta-estimators: the base of wrappers, and pipelines.

A scikit-learn pipeline that ends with a zero-shot estimator is converted to a
:class:`ZeroShotPipeline`.
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
    to_numpy,
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
from zslearn.base._symbolic import transform_array
from zslearn.signatures._table import SignatureTable


def inner_has(name: str) -> Any:
    """Make a method of a wrapper available only if the inner estimator has it."""
    return available_if(lambda wrapper: hasattr(wrapper._inner, name))


@inherit_docs
@saves(estimator_=Saved(kind=ZeroShotPredictor))
class ZeroShotMetaClassifier(MetaEstimatorMixin, ZeroShotPredictor):
    """Base of estimators that fit another zero-shot estimator and predict with it.

    A subclass defines `_learn(X, y, signatures, weights)`, which sets `estimator_` and further
    fitted attributes, and `_wrap(scorer)`, which transforms the scorer of the inner estimator.
    `fit` validates its input and calls `_learn` on a working copy, so that an error changes
    nothing.

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
        """Fit the inner estimator and the parameters that this one adds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Class labels.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            Descriptions of the classes; see :meth:`ZeroShotClassifier.fit`.
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights for training, if `fit` of the inner estimator accepts them.

        Returns
        -------
        self
            The fitted estimator, unchanged if an error is raised.
        """
        fresh = self._fresh_copy()
        X, y = fresh._check_training(X, y)
        X, y, weights = weighted_samples(X, y, sample_weight)
        fresh._learn(X, y, signatures, weights)
        return self._set_fitted(fresh)

    def _learn(self, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None) -> None:
        """Fit the inner estimator on validated samples; subclasses add to this."""
        self.estimator_ = fit_weighted(as_zero_shot(self.estimator), X, y, signatures, weights)

    @property
    def seen_classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The classes of the training data, sorted."""
        return self._inner.seen_classes_

    def add_classes(self, signatures: Any, *, like: Any = None) -> Self:
        """Describe further classes; see :meth:`ZeroShotClassifier.add_classes`.

        Parameters
        ----------
        signatures : DataFrame, mapping or MultiSignatures
            Signatures of classes that are not in `classes_`.
        like : label, optional
            A described class that provides the values of attributes that are not named.

        Returns
        -------
        self
            The same estimator, which now also predicts these classes.
        """
        return self._change_inner(lambda inner: inner.add_classes(signatures, like=like))

    def remove_classes(self, labels: Any) -> Self:
        """Remove unseen classes; see :meth:`ZeroShotClassifier.remove_classes`.

        Parameters
        ----------
        labels : array-like of labels
            Classes in `unseen_classes_`.

        Returns
        -------
        self
            The same estimator, which no longer predicts these classes.
        """
        check_is_fitted(self)
        removed = self.classes_[find_classes(labels, self.classes_, "labels")]
        # For the inner estimator, a class with a few labelled images may be an unseen one.
        self._refuse_seen(removed)
        return self._change_inner(lambda inner: inner.remove_classes(removed))

    @inner_has("add_examples")
    def add_examples(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Add labelled samples without refitting; the calibration does not change.

        Parameters
        ----------
        signatures : DataFrame, mapping or MultiSignatures, optional
            See :meth:`zslearn.synthesis.GaussianEXEM.add_examples`.

        Returns
        -------
        self
            The same estimator.
        """
        check_is_fitted(self)
        rows = self._inner_features(X)
        return self._change_inner(lambda inner: inner.add_examples(rows, y, signatures=signatures))

    @inner_has("remove_examples")
    def remove_examples(self, X: Any, y: Any) -> Self:
        """Remove labelled samples; see :meth:`zslearn.synthesis.GaussianEXEM.remove_examples`.

        Returns
        -------
        self
            The same estimator.
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
            A copy with the adapted inner estimator; this one does not change.
        """
        state = self._snapshot()
        return state._with_inner(state._inner.adapt(state._inner_features(X), **options))

    @inner_has("suggest")
    def suggest(self, X_pool: Any, n: int = 10, *, classes: Any = None) -> Any:
        """Suggest which unlabelled images to label next.

        Parameters
        ----------
        X_pool : array-like of shape (n_samples, n_features)
            Features of unlabelled images.
        n, classes
            See :meth:`zslearn.synthesis.GaussianEXEM.suggest`.

        Returns
        -------
        Suggestions
            Rows of `X_pool` in order of their value, and a table of the classes.
        """
        state = self._snapshot()
        return state._suggest(X_pool, n, classes, state.class_scorer_)

    def _suggest(self, X: Any, n: int, classes: Any, scorer: ClassScorer) -> Any:
        """Let the inner estimator suggest images, with the calibration of a wrapper."""
        return self._inner._suggest(self._inner_features(X), n, classes, scorer)

    def _inner_features(self, X: Any) -> Any:
        """Validated features for the inner estimator, which was fitted without column names."""
        if is_streamed(X):
            return self._check_stream(X)
        return X if is_empty(X) else self._check_features(X)

    @property
    def signature_table_(self) -> SignatureTable:
        """Signatures of all described classes, as given."""
        return self._inner.signature_table_

    def _change_inner(self, change: Callable[[Any], Any]) -> Self:
        """Replace the inner estimator by a changed copy of it."""

        def change_wrapper(wrapper: Self) -> None:
            wrapper.estimator_ = wrapper.estimator_._copy()
            change(wrapper.estimator_)

        return self._change(change_wrapper)

    def _with_inner(self, inner: Any) -> Self:
        """A copy with another fitted inner estimator."""
        return self._with(estimator_=inner)

    def _snapshot(self) -> Self:
        state = self._copy()
        return state._with_inner(state._inner._snapshot())

    def _wrap(self, scorer: ClassScorer) -> ClassScorer:
        """Transform the scorer of the inner estimator; by default the identity."""
        return scorer

    @property
    def class_scorer_(self) -> ClassScorer:
        """The scorer behind all predictions, built from that of the inner estimator."""
        state = self._snapshot()
        return state._wrap(state._inner.class_scorer_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Tags:
        """Use the input tags of the inner estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


def grid_parts(grid: Any) -> list[dict[str, Sequence[Any]]]:
    """The mappings of a grid, which may be a single one."""
    return [dict(part) for part in ([grid] if isinstance(grid, Mapping) else grid)]


def prefixed_grids(method: Any, name: str) -> dict[str, list[dict[str, Sequence[Any]]]]:
    """Grids of a method, with the prefix that its hyper-parameters have in a wrapper."""
    return {
        grid: [{f"{name}__{n}": list(v) for n, v in part.items()} for part in grid_parts(content)]
        for grid, content in getattr(method, "grids", {}).items()
    }


@dataclass(frozen=True)
class SettingGroup:
    """Settings that differ only in hyper-parameters of the last estimator."""

    indices: list[int]
    shared: dict[str, Any]
    of_last: list[dict[str, Any]]  # without the prefix


def grouped_settings(settings: Sequence[Mapping[str, Any]], prefix: str) -> list[SettingGroup]:
    """Group settings that differ only in hyper-parameters of the last estimator."""
    groups: dict[str, SettingGroup] = {}
    for index, setting in enumerate(settings):
        of_last = {n.removeprefix(prefix): v for n, v in setting.items() if n.startswith(prefix)}
        shared = {name: v for name, v in setting.items() if not name.startswith(prefix)}
        group = groups.setdefault(fingerprint(shared), SettingGroup([], shared, []))
        group.indices.append(index)
        group.of_last.append(of_last)
    return list(groups.values())


@inherit_docs
@saved_part
@saves(
    estimator_=Saved(kind=ZeroShotPredictor, optional=True),
    transformers_=Saved(kind=Pipeline, optional=True),
)
class ZeroShotPipeline(ZeroShotMetaClassifier, Pipeline):
    """A pipeline whose last step is a zero-shot estimator, and which is one itself.

    Unlike a scikit-learn pipeline it accepts `signatures` and `classes` without metadata routing
    and can describe further classes. :class:`~zslearn.calibration.CalibratedStacking` and
    :class:`~zslearn.model_selection.ZeroShotSearchCV` convert pipelines to this class.

    Parameters
    ----------
    steps : list of (name, estimator)
        Transformers, then a zero-shot estimator.
    transform_input : list of str, optional
        See :class:`sklearn.pipeline.Pipeline`.
    memory : str or object, optional
        Cache for fitted transformers; see :class:`sklearn.pipeline.Pipeline`.
    verbose : bool, default=False
        Whether to print the time taken by each step.

    Attributes
    ----------
    transformers_ : Pipeline or None
        The fitted steps before the last; None if there are none.
    named_steps : Bunch
        The steps by name.

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
        """Fit the transformers, then the last step on the transformed features.

        Parameters
        ----------
        sample_weight : array-like of shape (n_samples,), optional
            Sample weights for the last step, if its `fit` accepts them. Transformers do not use
            them.
        """
        grid = self.fit_grid(
            X, y, signatures=signatures, settings=[{}], sample_weight=sample_weight
        )
        fitted = dict(grid)[0]
        # Both at once, for readers in other threads.
        self.__dict__.update(steps=fitted.steps, _fitted=fitted._fitted)
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
        """Fit one pipeline per setting; settings of the last step share the transformers."""
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
        # The steps were fitted with the column names and check them themselves.
        return X if is_empty(X) else self.transform_rows(X)

    def _check_features(self, X: Any, *, reset: bool = False) -> Any:
        """Validated features for the scorer; those of a table are transformed, text included."""
        if reset or self.transformers_ is None or not hasattr(X, "columns"):
            return super()._check_features(X, reset=reset)
        return np.asarray(self.transform_rows(X)).view(TransformedRows)

    def transform_rows(self, X: Any) -> Array:
        """Apply the transformers.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Image features.

        Returns
        -------
        array of shape (n_samples, n_transformed)
            The input of the last step.
        """
        return X if self.transformers_ is None else transformed(self.transformers_, X)

    @property
    def class_scorer_(self) -> ClassScorer:
        """The scorer of the last step, applied after the transformers."""
        state = self._copy()
        scorer, transformers = state._inner.class_scorer_, state.transformers_
        if transformers is None:
            return scorer
        embed = TransformedEmbedding(transformers, scorer.embedding)
        return replace(scorer, embedding=Embedding(embed))

    @property
    def grids(self) -> dict[str, list[dict[str, Sequence[Any]]]]:
        """Grids of the last step, whose hyper-parameters have its name as a prefix."""
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
        if message := _rejection_message(method):
            warn_once(message)
        return method

    def _fit_transformers(self, X: Any, y: Any) -> tuple[Pipeline | None, Any]:
        """Clone and fit the steps before the last; return them and the transformed samples."""
        before = self.steps[:-1]
        if not before:
            return None, X
        if is_streamed(X):
            raise needs_rows(self, X)
        transformers = clone(Pipeline(before, **_options(self)))
        return transformers, _as_array(transformers.fit_transform(X, y))

    def _after(self, transformers: Pipeline | None, method: Any) -> Self:
        """A fitted pipeline of fitted steps."""
        before = [] if transformers is None else list(transformers.steps)
        name = self.steps[-1][0]
        pipeline = type(self)([*before, (name, method)], **_options(self))
        pipeline._fitted = Fitted({"transformers_": transformers})
        return pipeline


def _options(pipeline: Pipeline) -> dict[str, Any]:
    """The hyper-parameters of a pipeline except its steps."""
    names = ("transform_input", "memory", "verbose")
    return {name: getattr(pipeline, name) for name in names}


def as_zero_shot(estimator: Any) -> Any:
    """Clone an estimator for use in a wrapper; a pipeline becomes a ZeroShotPipeline."""
    if message := _rejection_message(estimator):
        warn_once(message)
    if not isinstance(estimator, Pipeline) or isinstance(estimator, ZeroShotPipeline):
        return clone(estimator)
    pipeline = ZeroShotPipeline(clone(estimator).steps, **_options(estimator))
    pipeline._last_step()
    return pipeline


def _rejection_message(estimator: Any) -> str:
    """The warning for an estimator whose rejection has no effect inside another; may be empty."""
    if not hasattr(estimator, "is_none"):
        return ""
    name = type(estimator).__name__
    return (
        f"{name} cannot reject images inside another estimator, which uses only its scores: make "
        f"it the outermost estimator, as {name}(the pipeline or wrapper)."
    )


def fitted_as_zero_shot(model: Any) -> Any:
    """Convert a fitted scikit-learn pipeline to a ZeroShotPipeline; return other models as is.

    Parameters
    ----------
    model : estimator
        A fitted zero-shot estimator, or a fitted scikit-learn pipeline that ends with one.

    Returns
    -------
    zero-shot estimator
        The model itself, or a pipeline of the same fitted steps.

    Raises
    ------
    TypeError
        If the model is not a zero-shot estimator.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.
    """
    if isinstance(model, Pipeline) and not isinstance(model, ZeroShotPipeline):
        # A scikit-learn pipeline calls `predict` of its last step, which would reject images.
        if message := _rejection_message(model.steps[-1][1]):
            raise TypeError(message)
        pipeline = ZeroShotPipeline(model.steps, **_options(model))
        pipeline._last_step()
        transformers = model[:-1] if len(model.steps) > 1 else None
        pipeline._fitted = Fitted({"transformers_": transformers})
        model = pipeline
    if not isinstance(model, ZeroShotPredictor):
        raise TypeError(f"The model must be a fitted zero-shot estimator; got {model!r}.")
    check_is_fitted(model)
    return model


class TransformedRows(np.ndarray):
    """Rows that the transformers of a pipeline have been applied to."""


@dataclass(frozen=True)
class TransformedEmbedding:
    """Transformers followed by the embedding of the last step."""

    transformers: Pipeline
    embedding: Embedding

    def __call__(self, rows: Array) -> Array:
        if isinstance(rows, TransformedRows):
            return self.embedding(rows.view(np.ndarray))
        return self.embedding(transformed(self.transformers, rows))


def transformed(transformers: Any, rows: Array) -> Array:
    """Apply transformers; the result is of the library and on the device of the rows."""
    if is_symbolic(rows):
        return transform_array(transformers, rows)
    if not is_foreign(rows) or get_config()["array_api_dispatch"]:
        return _as_array(transformers.transform(rows))
    # Without array API dispatch, scikit-learn's transformers compute with NumPy.
    out = _as_array(transformers.transform(to_numpy(rows)))
    return compat.array_namespace(rows).asarray(out, device=compat.device(rows))


def _as_array(rows: Any) -> Any:
    """The output of transformers as an array; with `set_output` it is a DataFrame."""
    return rows.to_numpy() if hasattr(rows, "to_numpy") else rows
