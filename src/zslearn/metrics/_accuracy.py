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
    r"""Mean over classes of the accuracy within each class.

    .. math::

        A^{pc} = \frac{1}{|\mathcal{C}|} \sum_{c \in \mathcal{C}}
        \frac{\#\,\text{correct predictions in } c}{\#\,\text{test images in } c}

    (Eq. 16). Every class has the same weight, however many samples it has.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels. Labels outside `classes` count as errors.
    classes : array-like of shape (n_classes,), default=None
        Classes to average over; they must include every label of `y_true`. By default the sorted
        labels of `y_true`.
    missing : {"error", "ignore", "zero"}, default="error"
        How to treat a class without samples in `y_true`: raise an error, exclude it from the mean,
        or count its accuracy as 0.
    average : {"macro", None}, default="macro"
        With None, return one accuracy per class in the order of `classes`, NaN for ignored ones.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample within its class. A class of total weight 0 has no samples.

    Returns
    -------
    accuracy : float or ndarray of shape (n_classes,)
        The mean accuracy, or the accuracy of each class.

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
    r"""Share of samples whose predicted label is correct.

    .. math::

        A^{ps} = \frac{\sum_c \#\,\text{correct predictions in } c}
        {\sum_c \#\,\text{test images in } c}

    (Eq. 15). It equals F@1.

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
    """Share of samples whose true label is among the K best predictions (flat hit, F@K).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_top : array-like of shape (n_samples, n_top)
        Predicted labels, best first and distinct within a row; n_top is at least the largest K.
    k : int or sequence of int
        Number of predictions to consider.

    Returns
    -------
    hit : float or ndarray of shape (n_k,)
        A float for an int, an array for a sequence.

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
    """Accuracy at each rank of a taxonomy, such as genus, family and order.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True and predicted classes.
    ranks : DataFrame
        One row per class, one column per rank, indexed by class label. Samples whose class has no
        taxon at a rank are ignored at that rank.

    Returns
    -------
    Series
        Per-class accuracy for each rank, and last for "class" itself; NaN for a rank without taxa.

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
        raise ValueError(f"ranks has no row for {name_some(missing)}.")
    columns = pd.Index([*ranks.columns, "class"])
    if columns.has_duplicates:
        duplicated = name_some(columns[columns.duplicated()].unique())
        raise ValueError(
            f"ranks has more than one column {duplicated}: rename it. The name 'class' is reserved "
            "for the accuracy of the classes themselves."
        )
    correct = {}
    for rank in ranks.columns:
        true_taxon, predicted_taxon = (ranks[rank].reindex(y).to_numpy() for y in (true, pred))
        equal = (true_taxon == predicted_taxon).astype(np.float64)
        correct[rank] = np.where(pd.notna(true_taxon), equal, np.nan)
    correct["class"] = (true == pred).astype(np.float64)
    return pd.DataFrame(correct).groupby(true).mean().mean()


def class_accuracies(y_true: ArrayLike, y_pred: ArrayLike) -> pd.DataFrame:
    """Accuracy of each class, and the class that it is most often taken for.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True and predicted labels.

    Returns
    -------
    DataFrame
        A row per class of `y_true`: "n_samples", "accuracy", and the most frequent wrong prediction
        ("taken_for") with its "share" of the samples, both missing if there is none.

    See Also
    --------
    per_class_accuracy : The mean over classes.
    UnseenConfusionDisplay : All confusions among unseen classes.

    Examples
    --------
    >>> from zslearn.metrics import class_accuracies
    >>> found = class_accuracies(["cat", "cat", "owl"], ["cat", "dog", "owl"])
    >>> found[["n_samples", "accuracy", "share"]].loc["cat"].tolist()
    [2.0, 0.5, 0.5]
    """
    true, pred = check_pair(y_true, y_pred, "y_pred")
    samples = pd.DataFrame({"class": true, "taken_for": pred, "right": true == pred})
    by_class = samples.groupby("class")["right"]
    found = pd.DataFrame({"n_samples": by_class.size(), "accuracy": by_class.mean()})
    counts = samples[~samples["right"]].groupby(["class", "taken_for"]).size()
    wrong = counts.sort_values(ascending=False, kind="stable").reset_index(name="count")
    worst = wrong.drop_duplicates("class").set_index("class")
    found["taken_for"] = worst["taken_for"].reindex(found.index)
    found["share"] = worst["count"].reindex(found.index) / found["n_samples"]
    return found


def harmonic_mean(acc_seen: ArrayLike, acc_unseen: ArrayLike) -> Any:
    r"""Harmonic mean of the accuracies on seen and unseen classes.

    .. math::

        H = \frac{2 A_{S \to T} A_{U \to T}}{A_{S \to T} + A_{U \to T}}

    (Eq. 18), defined as 0 if both are 0, where the authors' program returns NaN.

    Parameters
    ----------
    acc_seen, acc_unseen : float or array-like
        Accuracies between 0 and 1. Arrays are broadcast.

    Returns
    -------
    mean : float or ndarray
        A float for two floats, otherwise an array.

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
