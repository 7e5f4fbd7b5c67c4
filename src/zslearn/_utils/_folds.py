"""Splitting classes, and samples within classes, at random."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import column_or_1d

from zslearn._utils._array import to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import saved_part


def class_folds(
    order: NDArray[np.intp], n_splits: int, *, drop_remainder: bool = False
) -> list[NDArray[np.intp]]:
    """Cut an order of classes into consecutive folds."""
    if not drop_remainder:
        return np.array_split(order, n_splits)
    size = len(order) // n_splits
    return [order[i * size : (i + 1) * size] for i in range(n_splits)]


def hold_out_per_class(
    codes: NDArray[np.intp], amount: float | int, rng: np.random.RandomState
) -> NDArray[np.bool_]:
    """Mark some samples of each class at random, at least one where a class has two."""
    held = np.zeros(len(codes), dtype=bool)
    shuffled = rng.permutation(len(codes))
    # Samples class by class, shuffled within each class.
    order = shuffled[np.argsort(codes[shuffled], kind="stable")]
    counts = np.bincount(codes)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_count = isinstance(amount, Integral)
    wanted = np.full(len(counts), amount) if is_count else float(amount) * counts
    n_held = np.clip(np.round(wanted).astype(int), 1, np.maximum(counts - 1, 0))
    held[order[rank < np.repeat(n_held, counts)]] = True
    return held


# Folds over classes: a method that is tested on classes it never saw is tuned on such, too.

Remainder = Literal["spread", "drop"]


@saved_part
class ClassKFold:
    """Leave out whole classes, a fold of them at a time.

    A fold trains on the samples of all other classes and validates on the samples of its own.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shots : int, default=0
        How many samples of each held-out class are given back to training, as of a class that is
        described and has a few labelled images; a fold validates on the others. Classes with no
        more samples than that are trained on in every fold. :class:`ZeroShotSearchCV` takes a
        class of which some were given back for held out all the same.
    unlabelled : {"zsl", "gzsl"}, optional
        Unlabelled images that the method's `adapt` is given before a fold is scored: those that the
        fold validates of the held-out classes, which are the candidates ("zsl"), or all that it
        validates, with all classes as candidates ("gzsl").
    remainder : {"spread", "drop"}, default="spread"
        What becomes of classes that do not fill a fold evenly: "spread" makes some folds larger by
        one; "drop" never validates them, as the authors' program does.
    class_order : array-like of int, optional
        Positions in the sorted labels, in the order in which classes are dealt to the folds; by
        default a random permutation.
    random_state : int, RandomState or None, default=0
        Decides the permutation.

    Examples
    --------
    >>> from zslearn.model_selection import ClassKFold
    >>> y = ["ant", "bee", "cat", "ant", "cat", "dog"]
    >>> for train, test in ClassKFold(2, random_state=1).split(None, y):
    ...     print(train, test)
    [0 1 3] [2 4 5]
    [2 4 5] [0 1 3]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shots: int = 0,
        unlabelled: Literal["zsl", "gzsl"] | None = None,
        remainder: Remainder = "spread",
        class_order: ArrayLike | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_splits = n_splits
        self.shots = shots
        self.unlabelled = unlabelled
        self.remainder = remainder
        self.class_order = class_order
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds; the arguments are those that scikit-learn passes."""
        return self.n_splits

    def split(
        self, X: Any, y: Any, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Give the rows to train on and those to validate on, fold by fold.

        Parameters
        ----------
        X, groups : object
            Not used; scikit-learn passes them.
        y : array-like of shape (n_samples,)
            Class labels.

        Yields
        ------
        train, test : ndarray of int
            Ascending row numbers.
        """
        codes, rng = self._codes(y), check_random_state(self.random_state)
        held = self._held(codes, rng)
        shots = self.shots
        if isinstance(shots, bool) or not isinstance(shots, Integral) or shots < 0:
            raise ValueError(f"shots must be a number of samples, 0 or more; got {shots!r}.")
        if self.unlabelled not in (None, "zsl", "gzsl"):
            raise ValueError(f"unlabelled must be 'zsl', 'gzsl' or None; got {self.unlabelled!r}.")
        many = np.flatnonzero(np.bincount(codes[~held], minlength=codes.max() + 1) > shots)
        # A class too small for the shots is trained on by as few images as one that is left out. If
        # some of them validated as well, every fold would take it for left out.
        held &= np.isin(codes, many)
        folds = self._folds(len(many), rng)
        # Once the classes are dealt, which is then the same for any number of shots.
        given = hold_out_per_class(codes, shots, rng) if shots else np.zeros_like(held)
        for fold in folds:
            inside = np.isin(codes, many[fold])
            back = inside & given
            yield np.flatnonzero(~inside & ~held | back), np.flatnonzero((inside ^ held) & ~back)

    def _held(self, codes: NDArray[np.intp], rng: np.random.RandomState) -> NDArray[np.bool_]:
        """Rows of every class that are never trained on; of a class left out, not validated on."""
        return np.zeros(len(codes), dtype=bool)

    def __repr__(self) -> str:
        names = inspect.signature(type(self)).parameters
        options = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({options})"

    def _codes(self, y: Any) -> NDArray[np.intp]:
        return np.unique(column_or_1d(to_numpy(y)), return_inverse=True)[1]

    def _folds(self, n_classes: int, rng: np.random.RandomState) -> list[NDArray[np.intp]]:
        if self.remainder not in ("spread", "drop"):
            raise ValueError(f"remainder must be 'spread' or 'drop'; got {self.remainder!r}.")
        if not 2 <= self.n_splits <= n_classes:
            raise ValueError(
                f"n_splits must be between 2 and the number of classes, {n_classes}; "
                f"got {self.n_splits}."
            )
        if self.class_order is None:
            order = rng.permutation(n_classes)
        else:
            order = np.asarray(self.class_order)
            if not np.array_equal(np.sort(order), np.arange(n_classes)):
                raise ValueError(
                    f"class_order must hold each of 0 … {n_classes - 1} once: positions in the "
                    f"sorted labels of y; got {order.size} numbers."
                )
        return class_folds(order, self.n_splits, drop_remainder=self.remainder == "drop")


@inherit_docs
@saved_part
class GeneralizedClassKFold(ClassKFold):
    """Leave out whole classes, and hold aside some images of every class.

    First a share of the images of each class is held aside. A fold trains on the other images of
    all classes but its own. It validates on those other images of its own classes, which play the
    unseen ones, and on the images held aside of the classes that it trained on, the seen ones:
    without `shots` a validation row is of a seen class just if its class is in the training rows.

    Parameters
    ----------
    held_out : float, int or array-like of int, default=0.2
        Share of each class that is held aside, or number of images of each class, or the row
        numbers themselves.
    random_state : int, RandomState or None, default=0
        Decides what is held aside, and the permutation.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.model_selection import GeneralizedClassKFold
    >>> y = np.repeat(["ant", "bee"], 5)
    >>> for train, test in GeneralizedClassKFold(2).split(None, y):
    ...     print(y[train].tolist(), y[test].tolist())
    ['ant', 'ant', 'ant', 'ant'] ['ant', 'bee', 'bee', 'bee', 'bee']
    ['bee', 'bee', 'bee', 'bee'] ['ant', 'ant', 'ant', 'ant', 'bee']
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shots: int = 0,
        unlabelled: Literal["zsl", "gzsl"] | None = None,
        held_out: float | int | ArrayLike = 0.2,
        remainder: Remainder = "spread",
        class_order: ArrayLike | None = None,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            n_splits,
            shots=shots,
            unlabelled=unlabelled,
            remainder=remainder,
            class_order=class_order,
            random_state=random_state,
        )
        self.held_out = held_out

    def _held(self, codes: NDArray[np.intp], rng: np.random.RandomState) -> NDArray[np.bool_]:
        amount = self.held_out
        if isinstance(amount, Real) and not isinstance(amount, bool):
            if amount <= 0 or (not isinstance(amount, Integral) and amount >= 1):
                raise ValueError(
                    f"held_out must be a share between 0 and 1, or a positive number of images; "
                    f"got {amount!r}."
                )
            return hold_out_per_class(codes, amount, rng)
        rows = np.asarray(amount)
        if (
            rows.dtype.kind not in "iu"
            or rows.size == 0
            or rows.min() < 0
            or rows.max() >= len(codes)
        ):
            raise ValueError(f"held_out must hold row numbers from 0 to {len(codes) - 1}.")
        held = np.zeros(len(codes), dtype=bool)
        held[rows] = True
        emptied = np.setdiff1d(codes, codes[~held])
        if emptied.size:
            raise ValueError(f"held_out leaves no image to train on of {emptied.size} classes.")
        return held
