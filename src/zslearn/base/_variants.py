"""Fit many settings of a method at once, in groups that share work."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.linalg import LinAlgError
from sklearn.base import clone

from zslearn._utils._fit_cache import fingerprint

if TYPE_CHECKING:
    from zslearn.base._classifier import ZeroShotClassifier

# What is not larger can be a number of float32, and its square one of float64.
_LARGEST = 1e30


def refuse_extreme_parameters(estimator: Any) -> None:
    """Refuse hyper-parameters so large that nothing can be computed with them.

    Small ones pass: a penalty below rounding is none.
    """
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, Real) and _LARGEST < abs(float(value)) < math.inf:
            raise ValueError(
                f"{name}={value:.0e} of {type(estimator).__name__} is too large to be computed "
                f"with. Take a number that is not beyond {_LARGEST:.0e}."
            )


@contextmanager
def numerical_failures_named(method: type) -> Iterator[None]:
    """Say which method could not learn where its arithmetic fails."""
    try:
        yield
    except (LinAlgError, ArithmeticError) as error:
        raise ValueError(
            f"{method.__name__} cannot learn from this: {str(error).rstrip('.')}. Regularise more, "
            "or look at the scale of X and of the signatures."
        ) from error


def fit_variants(
    variants: Sequence[ZeroShotClassifier],
    X: Any,
    y: Any,
    *,
    signatures: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
) -> Iterator[tuple[int, Any]]:
    """Fit estimators on the same data; those of one class share what their method can share."""
    # Preparation depends on these; nothing else that is shared does.
    groups: dict[tuple[Any, ...], dict[int, ZeroShotClassifier]] = {}
    for index, variant in enumerate(variants):
        variant._validate_params()
        key = type(variant), variant.feature_norm, variant.signature_scale
        groups.setdefault(key, {})[index] = variant
    for group in groups.values():
        yield from _fit_group(group, X, y, signatures, sample_weight, classes)


def _fit_group(
    group: dict[int, ZeroShotClassifier],
    X: Any,
    y: Any,
    signatures: Any,
    sample_weight: Any,
    classes: Any,
) -> Iterator[tuple[int, Any]]:
    """Fit estimators of one class that need the same preparation."""
    first = next(iter(group.values()))
    training = first._make_training(X, y, signatures, sample_weight)
    for variant in group.values():
        variant._take_training(training)
    # The same for all of them.
    table, described = training.table, training.every_signature()
    table.warn_equal_signatures(described)
    if classes is not None and all(v.describes_each_alone for v in group.values()):
        rows = np.sort(table.positions(np.asarray(classes)))
        table, described = table.subset(rows), described[rows]
    positions = {id(variant): index for index, variant in group.items()}
    blank = {id(variant): dict(vars(variant)) for variant in group.values()}
    with numerical_failures_named(type(first)):
        for variant in type(first)._fit_many(training, list(group.values())):
            if id(variant) not in positions:
                raise not_each_once(type(first))
            model = copy.copy(variant)
            # What was learned goes with the copy: whoever holds the variant holds no model.
            variant.__dict__ = blank[id(variant)]
            model._describe(table, described)
            yield positions.pop(id(variant)), model
            del model
    if positions:
        raise not_each_once(type(first))


def not_each_once(cls: type) -> TypeError:
    """The error of a method that breaks the rule of `_fit_many`."""
    return TypeError(f"{cls.__name__}._fit_many must yield each variant once.")


_Variant = TypeVar("_Variant")


def with_setting(estimator: _Variant, setting: Mapping[str, Any]) -> _Variant:
    """A clone of an estimator under other hyper-parameters.

    Values are cloned, too, as in scikit-learn: estimators in a grid are shared by no two settings,
    and the grid stays as it was.
    """
    values = {name: clone(value, safe=False) for name, value in setting.items()}
    variant: _Variant = clone(estimator).set_params(**values)
    return variant


def group_by_params(variants: Sequence[_Variant], *names: str) -> list[list[_Variant]]:
    """Group estimators that agree on some hyper-parameters."""
    groups: dict[tuple[Any, ...], list[_Variant]] = {}
    for variant in variants:
        key = tuple(_comparable(getattr(variant, name)) for name in names)
        groups.setdefault(key, []).append(variant)
    return list(groups.values())


def group_by_params_except(variants: Sequence[_Variant], *names: str) -> list[list[_Variant]]:
    """Group estimators that agree on all hyper-parameters except some."""
    if not variants:
        return []
    every = variants[0].get_params(deep=False)  # type: ignore[attr-defined]
    return group_by_params(variants, *(name for name in every if name not in names))


def _comparable(value: Any) -> Any:
    """A key that is equal for equal values: arrays and estimators count by what they hold."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return type(value), value
    return fingerprint(value)
