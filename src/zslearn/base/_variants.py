"""Groups of variants of a method that can share work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sklearn.base import clone

from zslearn.utils import fingerprint

_Variant = TypeVar("_Variant")


def with_setting(estimator: _Variant, setting: Mapping[str, Any]) -> _Variant:
    """A clone of an estimator under other hyper-parameters.

    Values are cloned, too, as in scikit-learn: estimators in a grid are shared by no two settings,
    and the grid stays as it was.

    Parameters
    ----------
    estimator : estimator
        Not changed.
    setting : mapping of str to object
        Hyper-parameters by name.

    Returns
    -------
    estimator
        Not fitted.
    """
    values = {name: clone(value, safe=False) for name, value in setting.items()}
    variant: _Variant = clone(estimator).set_params(**values)
    return variant


def alike(variants: Sequence[_Variant], *names: str) -> list[list[_Variant]]:
    """Group estimators that agree on some hyper-parameters.

    Parameters
    ----------
    variants : sequence of estimators
        Of one class.
    *names : str
        Hyper-parameters that must be equal within a group.

    Returns
    -------
    list of lists
        In the order in which groups and their members first occur.

    Examples
    --------
    >>> from zslearn.base import alike
    >>> from zslearn.baselines import ESZSL
    >>> variants = [ESZSL(1.0, center=None), ESZSL(1.0), ESZSL(10.0)]
    >>> [len(group) for group in alike(variants, "center")]
    [1, 2]
    """
    groups: dict[tuple[Any, ...], list[_Variant]] = {}
    for variant in variants:
        key = tuple(_comparable(getattr(variant, name)) for name in names)
        groups.setdefault(key, []).append(variant)
    return list(groups.values())


def alike_but_for(variants: Sequence[_Variant], *names: str) -> list[list[_Variant]]:
    """Group estimators that agree on all hyper-parameters except some.

    Parameters
    ----------
    variants : sequence of estimators
        Of one class.
    *names : str
        Hyper-parameters that may differ within a group.

    Returns
    -------
    list of lists
        In the order in which groups and their members first occur.
    """
    if not variants:
        return []
    every = variants[0].get_params(deep=False)  # type: ignore[attr-defined]
    return alike(variants, *(name for name in every if name not in names))


def _comparable(value: Any) -> Any:
    """A key that is equal for equal values: arrays and estimators count by what they hold."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return type(value), value
    return fingerprint(value)
