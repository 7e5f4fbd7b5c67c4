"""Fitted transformers of scikit-learn, applied to symbolic arrays, which they refuse themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat as compat
import numpy as np

from zslearn._utils._array import Array, move_like, unit_rows
from zslearn._utils._messages import name_some


def transform_array(transformer: Any, rows: Array) -> Array:
    """Apply a fitted scikit-learn transformer to rows of any library."""
    if transformer is None or transformer == "passthrough":
        return rows
    if hasattr(transformer, "steps"):
        for _, step in transformer.steps:
            rows = transform_array(step, rows)
        return rows
    # Subclasses may override `transform`, so only the classes themselves are supported.
    name = f"{type(transformer).__module__.split('.')[0]}.{type(transformer).__name__}"
    if name not in _ARRAY_TRANSFORMS:
        known = ", ".join(sorted(key.partition(".")[2] for key in _ARRAY_TRANSFORMS))
        raise TypeError(
            f"the pipeline step {type(transformer).__name__} is not supported for symbolic arrays; "
            f"supported are {known}"
        )
    return _ARRAY_TRANSFORMS[name](transformer, rows)


def _affine(rows: Array, shift: Any = None, scale: Any = None) -> Array:
    """(x − shift) / scale."""
    if shift is not None:
        rows = rows - move_like(np.asarray(shift), rows)[None, :]
    return rows if scale is None else rows * move_like(np.asarray(1 / scale), rows)[None, :]


def _clipped(step: Any, rows: Array, bounds: tuple[float, float]) -> Array:
    if not getattr(step, "clip", False):
        return rows
    return compat.array_namespace(rows).clip(rows, min=bounds[0], max=bounds[1])


def _normalizer(step: Any, rows: Array) -> Array:
    if step.norm != "l2":
        raise TypeError(f'the pipeline step Normalizer has norm={step.norm!r}, not "l2"')
    return unit_rows(rows)


def _pca(step: Any, rows: Array) -> Array:
    projected = _affine(rows, step.mean_) @ move_like(step.components_.T, rows)
    if not step.whiten:
        return projected
    deviations = np.sqrt(step.explained_variance_)
    return _affine(projected, None, np.maximum(deviations, np.finfo(deviations.dtype).eps))


def _table_of_numbers(step: Any, rows: Array) -> Array:
    used = [(place, column) for place, column in enumerate(step.columns_) if column.outputs]
    if others := [c.name for _, c in used if c.kind != "number" or c.indicates_missing]:
        raise TypeError(f"the columns {name_some(others)} are not plain numbers")
    xp = compat.array_namespace(rows)
    rows = xp.stack([rows[:, place] for place, _ in used], axis=1)
    fill = move_like(np.array([column.fill for _, column in used]), rows)
    rows = xp.where(xp.isfinite(rows), rows, fill[None, :])
    return _affine(rows, step.shift_, step.scale_)


_ARRAY_TRANSFORMS: dict[str, Callable[[Any, Array], Array]] = {
    "sklearn.StandardScaler": lambda step, rows: _affine(
        rows, step.mean_ if step.with_mean else None, step.scale_
    ),
    "sklearn.RobustScaler": lambda step, rows: _affine(rows, step.center_, step.scale_),
    "sklearn.MaxAbsScaler": lambda step, rows: _clipped(
        step, _affine(rows, None, step.scale_), (-1.0, 1.0)
    ),
    "sklearn.MinMaxScaler": lambda step, rows: _clipped(
        step, _affine(rows, -step.min_ / step.scale_, 1 / step.scale_), step.feature_range
    ),
    "sklearn.Normalizer": _normalizer,
    "sklearn.PCA": _pca,
    "sklearn.TruncatedSVD": lambda step, rows: rows @ move_like(step.components_.T, rows),
    "zslearn.TablePreparation": _table_of_numbers,
}
