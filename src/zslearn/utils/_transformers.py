"""What transformers of scikit-learn do to rows, written for arrays of any library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat as compat
import numpy as np

from zslearn.utils._array import Array, move_like, unit_rows


def transform_array(transformer: Any, rows: Array) -> Array:
    """Transform rows of any library as a fitted transformer of scikit-learn would.

    Parameters
    ----------
    transformer : fitted transformer
        A pipeline of, or one of, StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler,
        Normalizer, PCA, TruncatedSVD, or "passthrough".
    rows : array of shape (n_samples, n_features)
        Features, also of a graph that is being written.

    Returns
    -------
    array of shape (n_samples, n_transformed)
        In the namespace of the rows.

    Raises
    ------
    TypeError
        For any other transformer, with its name.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from zslearn.utils import transform_array
    >>> X = np.array([[1.0, 2.0], [3.0, 6.0]])
    >>> transform_array(StandardScaler().fit(X), X)
    array([[-1., -1.],
           [ 1.,  1.]])
    """
    if transformer is None or transformer == "passthrough":
        return rows
    if hasattr(transformer, "steps"):
        for _, step in transformer.steps:
            rows = transform_array(step, rows)
        return rows
    # Subclasses may do something else.
    written = _WRITTEN.get(f"{type(transformer).__module__.split('.')[0]}.{_name(transformer)}")
    if written is None:
        known = ", ".join(sorted(name.partition(".")[2] for name in _WRITTEN))
        raise TypeError(
            f"the step {_name(transformer)} of the pipeline is not written for arrays of any "
            f"library; these are: {known}"
        )
    return written(transformer, rows)


def _name(transformer: Any) -> str:
    return type(transformer).__name__


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
