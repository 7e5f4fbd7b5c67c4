"""Pipelines of scikit-learn that end in a zero-shot estimator, as zero-shot estimators.

With them what wrappers need: settings of an estimator inside another one, grouped by the prefix of
their names, and scikit-learn's transformers written for arrays of any library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import array_api_compat as compat
import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._embedding import Embedding
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Array, is_foreign, is_symbolic, move_like, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._files import saved_part
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import warn_once
from zslearn._utils._saved import Saved, saves
from zslearn.base._predictor import WrapsAnother, ZeroShotPredictor
from zslearn.base._streams import is_streamed, needs_rows


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
    transformers_=Saved(kind=Pipeline, optional=True),
)
class ZeroShotPipeline(WrapsAnother, Pipeline):
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
        self.steps, self.transformers_ = fitted.steps, fitted.transformers_
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

    def _around(self, inner: Any) -> Self:
        return self._after(self.transformers_, inner)

    def _rows_inside(self, X: Any) -> Any:
        if is_streamed(X):
            raise needs_rows(self, X)
        # The steps were fitted on the same columns, and check names themselves.
        return self.transform_rows(X)

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
        pipeline.transformers_ = transformers
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
    """A fitted model as a zero-shot estimator: a fitted pipeline becomes a ZeroShotPipeline."""
    if isinstance(model, Pipeline) and not isinstance(model, ZeroShotPipeline):
        # Unlike ours, a pipeline of scikit-learn predicts what its last step does.
        if said := _rejection_message(model.steps[-1][1]):
            raise TypeError(said)
        pipeline = ZeroShotPipeline(model.steps, **_options(model))
        pipeline._last_step()
        pipeline.transformers_ = model[:-1] if len(model.steps) > 1 else None
        model = pipeline
    if not isinstance(model, ZeroShotPredictor):
        raise TypeError(f"The model must be a fitted zero-shot estimator; got {model!r}.")
    check_is_fitted(model, "class_scorer_")
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
