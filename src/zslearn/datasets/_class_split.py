"""A split into seen and unseen classes, and the checks that keep it honest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn.utils import name_some

#: The parts of a split.
PARTS = ("train", "test_seen", "test_unseen")


@dataclass(frozen=True, eq=False, init=False, repr=False)
class ClassSplit:
    """Which samples train, which test, and which classes are seen.

    The arrays are copied and made read-only. They are checked against the data when a
    :class:`ZeroShotDataset` is made of them.

    Parameters
    ----------
    train : array-like of int
        Indices of the training samples, from 0. All of seen classes.
    test_seen : array-like of int
        Indices of the test samples of seen classes. Empty for a split that is only meant for the
        conventional setting.
    test_unseen : array-like of int
        Indices of the test samples of unseen classes.
    seen_classes : array-like
        Labels of the classes with training samples.
    unseen_classes : array-like
        Labels of the classes that are only described.
    version : str
        Which published or generated split this is, for example ``"glyphs-1/ns"``.

    Examples
    --------
    >>> from zslearn.datasets import ClassSplit
    >>> split = ClassSplit(
    ...     train=[0, 1], test_seen=[2], test_unseen=[3],
    ...     seen_classes=["cat"], unseen_classes=["dog"], version="pets-1")
    >>> split.train
    array([0, 1])
    """

    train: NDArray[Any]
    test_seen: NDArray[Any]
    test_unseen: NDArray[Any]
    seen_classes: NDArray[Any]
    unseen_classes: NDArray[Any]
    version: str

    def __init__(
        self,
        train: ArrayLike,
        test_seen: ArrayLike,
        test_unseen: ArrayLike,
        seen_classes: ArrayLike,
        unseen_classes: ArrayLike,
        version: str,
    ) -> None:
        arrays = {
            "train": train,
            "test_seen": test_seen,
            "test_unseen": test_unseen,
            "seen_classes": seen_classes,
            "unseen_classes": unseen_classes,
        }
        for field, values in arrays.items():
            array = np.array(values)
            if field == "test_seen" and array.shape == (0,):
                array = np.empty(0, dtype=np.intp)  # an empty list would index as floats
            array.flags.writeable = False
            object.__setattr__(self, field, array)
        object.__setattr__(self, "version", version)

    def __repr__(self) -> str:
        return (
            f"<ClassSplit {self.version}: {self.train.size} train, "
            f"{self.test_seen.size} test seen, {self.test_unseen.size} test unseen; "
            f"{self.seen_classes.size} seen and {self.unseen_classes.size} unseen classes>"
        )


def name_classes(labels: list[Hashable]) -> str:
    """Write how many classes there are, and some of them."""
    if len(labels) == 1:
        return f"class {labels[0]!r}"
    return f"{len(labels)} classes ({name_some(labels)})"


def check_split(
    split: ClassSplit,
    codes: NDArray[np.intp],
    labels: list[Hashable],
    described: set[Hashable],
    where: str,
) -> None:
    """Refuse a split that leaks or does not fit the data.

    Parameters
    ----------
    split : ClassSplit
        The split.
    codes : ndarray of shape (n_samples,)
        Positions in `labels` of the classes of all samples.
    labels : list
        The classes that have samples.
    described : set
        The classes that have a signature.
    where : str
        What the split is called in an error.
    """
    for part in PARTS:
        indices = getattr(split, part)
        if part != "test_seen" or indices.size:
            _check_indices(indices, len(codes), f"{where}, part {part}")
    _check_disjoint(split, where)
    _check_class_lists(split, described, where)
    _check_classes_of_parts(split, codes, labels, where)


def _check_classes_of_parts(
    split: ClassSplit, codes: NDArray[np.intp], labels: list[Hashable], where: str
) -> None:
    """Refuse samples in a part that their class does not belong to, and seen classes without."""
    listed = {
        "seen": set(split.seen_classes.tolist()),
        "unseen": set(split.unseen_classes.tolist()),
    }
    trained: set[Hashable] = set()
    for part, own, other in (
        ("train", "seen", "unseen"),
        ("test_seen", "seen", "unseen"),
        ("test_unseen", "unseen", "seen"),
    ):
        # In the order in which the classes occur in y.
        present = [labels[code] for code in np.unique(codes[getattr(split, part)])]
        if leaked := [label for label in present if label in listed[other]]:
            advice = (
                "move these samples to test_unseen, or list the class as seen"
                if other == "unseen"
                else "move these samples to test_seen"
            )
            raise ValueError(
                f"{where}: part {part} holds samples of {name_classes(leaked)} listed as {other}; "
                f"{advice}."
            )
        if stray := [label for label in present if label not in listed[own]]:
            raise ValueError(
                f"{where}: part {part} holds samples of {name_classes(stray)} not listed in "
                f"{own}_classes; list the class, or leave its samples out."
            )
        if part == "train":
            trained = set(present)
    if untrained := [label for label in split.seen_classes.tolist() if label not in trained]:
        raise ValueError(
            f"{where}: {name_classes(untrained)} listed as seen without any training sample; "
            "give the class training samples, or list it as unseen."
        )


def _check_indices(indices: NDArray[Any], n_samples: int, where: str) -> None:
    """Refuse indices that are not distinct integers in [0, n_samples)."""
    if indices.size == 0:
        raise ValueError(f"{where}: the part is empty; only test_seen may be.")
    if indices.dtype == bool:
        raise ValueError(
            f"{where}: indices are a boolean mask; convert it with np.flatnonzero(mask)."
        )
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(
            f"{where}: indices have dtype {indices.dtype} and shape {indices.shape}; "
            "give a one-dimensional array of integers."
        )
    low, high = int(indices.min()), int(indices.max())
    if low >= 1 and high == n_samples:
        raise ValueError(
            f"{where}: index {high} for {n_samples} samples looks 1-based, as in MATLAB files; "
            "subtract 1 from all indices."
        )
    if low < 0 or high >= n_samples:
        outside = indices[(indices < 0) | (indices >= n_samples)]
        raise ValueError(
            f"{where}: {outside.size} indices out of range ({name_some(outside)}); with "
            f"{n_samples} samples they must lie in 0 … {n_samples - 1}."
        )
    values, counts = np.unique(indices, return_counts=True)
    if values.size != indices.size:
        repeated = values[counts > 1]
        raise ValueError(
            f"{where}: {repeated.size} indices occur more than once ({name_some(repeated)}); "
            "keep each once."
        )


def _check_disjoint(split: ClassSplit, where: str) -> None:
    """Refuse parts that share samples."""
    for position, first in enumerate(PARTS):
        for second in PARTS[position + 1 :]:
            shared = np.intersect1d(getattr(split, first), getattr(split, second))
            if shared.size:
                raise ValueError(
                    f"{where}: parts {first} and {second} share {shared.size} samples "
                    f"({name_some(shared)}); keep each sample in one part."
                )


def _check_class_lists(split: ClassSplit, described: set[Hashable], where: str) -> None:
    """Refuse class lists that overlap, repeat a class or name one without a signature."""
    seen, unseen = split.seen_classes.tolist(), split.unseen_classes.tolist()
    for field, labels in (("seen_classes", seen), ("unseen_classes", unseen)):
        if len(set(labels)) != len(labels):
            repeated = [label for label, count in Counter(labels).items() if count > 1]
            raise ValueError(
                f"{where}: {field} lists {name_classes(repeated)} more than once; keep each once."
            )
    unseen_set = set(unseen)
    if both := [label for label in seen if label in unseen_set]:
        raise ValueError(
            f"{where}: {name_classes(both)} listed both as seen and as unseen; "
            "keep each class in one list."
        )
    if unknown := [label for label in seen + unseen if label not in described]:
        raise ValueError(
            f"{where}: {name_classes(unknown)} listed without a signature; "
            "give signatures a row for each."
        )
