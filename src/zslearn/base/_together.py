"""One training for many settings of the hyper-parameters."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zslearn.base._extremes import numerical_failures_named

if TYPE_CHECKING:
    from zslearn.base._classifier import ZeroShotClassifier


def fit_together(
    variants: Sequence[ZeroShotClassifier],
    X: Any,
    y: Any,
    *,
    signatures: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
) -> Iterator[tuple[int, Any]]:
    """Fit estimators on the same data; those of one class share what their method can share.

    Parameters
    ----------
    variants : sequence of estimators
        Not fitted. They are used up.
    X : array-like of shape (n_samples, n_features)
        Image features.
    y : array-like of shape (n_samples,)
        Class labels.
    signatures : DataFrame, mapping, array or MultiSignatures, optional
        What is known of each class; see :meth:`ZeroShotClassifier.fit`.
    sample_weight : array-like of shape (n_samples,), optional
        How much each sample counts, for methods whose `fit` takes it.
    classes : array-like of labels, optional
        Classes that need be described, by default all with a signature; a method that does not make
        each class alone describes all.

    Yields
    ------
    index : int
        Position in `variants`; the order is free, every one comes once.
    estimator : zero-shot estimator
        Fitted. It is no longer held here once the next is asked for.
    """
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
    """Fit estimators of one class that are prepared for alike."""
    first = next(iter(group.values()))
    training = first._begin(X, y, signatures, sample_weight)
    for variant in group.values():
        variant._begin_with(training)
    # The same for all of them.
    table, described = training.table, training.every_signature()
    table.warn_of_twins(described)
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
