"""Accuracies of predicted labels, and the harmonic mean of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight

from zslearn._utils._messages import name_some
from zslearn.metrics._validation import (
    Missing,
    check_classes,
    check_known,
    check_missing,
    check_pair,
    check_present,
    check_top,
    positions,
    unique,
)


def per_class_accuracy(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    missing: Missing = "error",
    average: Literal["macro"] | None = "macro",
    sample_weight: ArrayLike | None = None,
) -> Any:
    r"""Mean over classes of the accuracy in the class.

    .. math::

        A^{pc} = \frac{1}{|\mathcal{C}|} \sum_{c \in \mathcal{C}}
        \frac{\#\,\text{correct predictions in } c}{\#\,\text{test images in } c}

    (Eq. 16). Every class has the same weight, however many samples it has.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels. A label outside `classes` is allowed and wrong.
    classes : array-like of shape (n_classes,), default=None
        The classes of the mean, among them every label of `y_true`. None: the sorted labels of
        `y_true`.
    missing : {"error", "ignore", "zero"}, default="error"
        What to do with a class that never occurs in `y_true`: refuse, leave it out of the mean, or
        count its accuracy as 0.
    average : {"macro", None}, default="macro"
        None gives one accuracy per class, in the order of `classes`; NaN for one that is left out.
    sample_weight : array-like of shape (n_samples,), default=None
        How much each sample counts within its class. A class whose weights are all zero counts as
        one that does not occur.

    Returns
    -------
    accuracy : float or ndarray of shape (n_classes,)
        The mean, or the accuracies it is taken over.

    Examples
    --------
    >>> from zslearn.metrics import per_class_accuracy
    >>> y_true = ["cat", "cat", "cat", "owl"]
    >>> y_pred = ["cat", "cat", "owl", "owl"]
    >>> round(per_class_accuracy(y_true, y_pred), 4)
    0.8333
    >>> per_class_accuracy(y_true, y_pred, classes=["owl", "cat"], average=None).round(4)
    array([1.    , 0.6667])
    """
    check_missing(missing)
    if average not in ("macro", None):
        raise ValueError(f'average must be "macro" or None, got {average!r}.')
    true, pred = check_pair(y_true, y_pred, "y_pred")
    labels = unique(true) if classes is None else check_classes(classes)

    true_code, pred_code = check_known(true, labels), positions(pred, labels)
    weight = _check_sample_weight(sample_weight, np.empty((len(true), 1)), ensure_non_negative=True)
    n_samples = np.bincount(true_code, weights=weight, minlength=len(labels))
    n_correct = np.bincount(
        true_code, weights=weight * (true_code == pred_code), minlength=len(labels)
    )
    present = check_present(n_samples, labels, missing)

    accuracy = np.full(len(labels), 0.0 if missing == "zero" else np.nan)
    accuracy[present] = n_correct[present] / n_samples[present]
    if average is None:
        return accuracy
    return float(accuracy.mean() if missing == "zero" else accuracy[present].mean())


def per_sample_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    r"""Share of samples whose predicted label is the true one.

    .. math::

        A^{ps} = \frac{\sum_c \#\,\text{correct predictions in } c}
        {\sum_c \#\,\text{test images in } c}

    (Eq. 15). It equals flat hit@1.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.

    Returns
    -------
    accuracy : float

    Examples
    --------
    >>> from zslearn.metrics import per_sample_accuracy
    >>> per_sample_accuracy(["cat", "cat", "cat", "owl"], ["cat", "cat", "owl", "owl"])
    0.75
    """
    true, pred = check_pair(y_true, y_pred, "y_pred")
    labels = unique(true)
    return float(np.mean(positions(true, labels) == positions(pred, labels)))


def flat_hit_at_k(
    y_true: ArrayLike, y_top: ArrayLike, k: int | Sequence[int] | NDArray[Any]
) -> Any:
    """Share of samples whose true label is among the first K predictions (F@K).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_top : array-like of shape (n_samples, n_top)
        Predicted labels, best first, different ones in a row; n_top is at least the largest K.
    k : int or sequence of int
        How many predictions count.

    Returns
    -------
    hit : float or ndarray of shape (n_k,)
        A number for an int, an array for a sequence.

    Examples
    --------
    >>> from zslearn.metrics import flat_hit_at_k
    >>> y_true = ["cat", "owl", "emu"]
    >>> y_top = [["cat", "dog"], ["emu", "owl"], ["dog", "cat"]]
    >>> flat_hit_at_k(y_true, y_top, [1, 2]).round(4)
    array([0.3333, 0.6667])
    """
    true, ks, distinct, codes = check_top(y_true, y_top, k)
    hit = codes == positions(true, distinct)[:, None]
    shares = np.array([hit[:, :n_top].any(axis=1).mean() for n_top in ks])
    return float(shares[0]) if np.ndim(k) == 0 else shares


def rank_accuracy(y_true: ArrayLike, y_pred: ArrayLike, ranks: pd.DataFrame) -> pd.Series:
    """Accuracy at each rank of a taxonomy: how often the right genus, family or order is named.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True and predicted classes.
    ranks : DataFrame
        One row per class, one column per rank; the index holds the labels. Samples whose class has
        no taxon at a rank do not count there.

    Returns
    -------
    Series
        Mean over the true classes of the share of their samples, by rank, and at last by "class";
        NaN where no class has a taxon.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.metrics import rank_accuracy
    >>> ranks = pd.DataFrame({"family": ["cats", "cats", "dogs"]}, index=["lion", "lynx", "fox"])
    >>> rank_accuracy(["lion", "lion", "fox"], ["lynx", "lion", "fox"], ranks).to_dict()
    {'family': 1.0, 'class': 0.75}
    """
    true, pred = check_pair(y_true, y_pred, "y_pred")
    missing = [label for label in unique(np.concatenate([true, pred])) if label not in ranks.index]
    if missing:
        raise ValueError(f"The table of ranks has no row of {name_some(missing)}.")
    columns = pd.Index([*ranks.columns, "class"])
    if columns.has_duplicates:
        twice = name_some(columns[columns.duplicated()].unique())
        raise ValueError(
            f"The table of ranks has more than one column {twice}; rename it. 'class' is the name "
            "of the accuracy of the classes themselves."
        )
    right = pd.DataFrame({"class": true == pred})
    for rank in reversed(ranks.columns):
        of_true, of_pred = (ranks[rank].reindex(labels).to_numpy() for labels in (true, pred))
        same = pd.Series(of_true == of_pred, dtype=object)
        right.insert(0, rank, same.where(pd.notna(of_true), np.nan).astype(np.float64))
    return right.groupby(true).mean().mean()


def harmonic_mean(acc_seen: ArrayLike, acc_unseen: ArrayLike) -> Any:
    r"""Harmonic mean of the accuracies on seen and unseen classes.

    .. math::

        H = \frac{2 A_{S \to T} A_{U \to T}}{A_{S \to T} + A_{U \to T}}

    (Eq. 18), and 0 where both are 0; the authors' program gives NaN there.

    Parameters
    ----------
    acc_seen, acc_unseen : float or array-like
        Accuracies between 0 and 1. Arrays broadcast.

    Returns
    -------
    mean : float or ndarray
        A number for two numbers, else an array.

    References
    ----------
    Y. Xian, B. Schiele, Z. Akata. "Zero-Shot Learning: The Good, the Bad and the Ugly". CVPR, 2017.

    Examples
    --------
    >>> from zslearn.metrics import harmonic_mean
    >>> harmonic_mean(0.75, 0.25)
    0.375
    >>> harmonic_mean([1.0, 0.0], [0.5, 0.0]).round(4)
    array([0.6667, 0.    ])
    """
    seen = _check_unit_interval(acc_seen, "acc_seen")
    unseen = _check_unit_interval(acc_unseen, "acc_unseen")
    total = seen + unseen
    mean = np.asarray(2 * seen * unseen / np.where(total > 0, total, 1.0))
    return float(mean) if mean.ndim == 0 else mean


def _check_unit_interval(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    outside = array[~((array >= 0) & (array <= 1))]
    if outside.size:
        raise ValueError(f"{name} must be between 0 and 1, got {outside[0]}.")
    return array
