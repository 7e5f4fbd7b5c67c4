"""Protocols: how a run tunes a method, beside the data and the seed.

The default is ours: random folds that use every seen class, and median distances of signatures
taken over the seen classes. "authors" is that of the authors' program: their orders of classes and
images held aside, folds of equal size (the classes that are left over are never validated), median
distances over all classes, calibration factors as the folds give them, and the grids of the paper.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from zslearn.datasets import ZeroShotDataset, load_authors_protocol
from zslearn.model_selection import ClassKFold, GeneralizedClassKFold, Method

#: Conventional, and generalized.
SETTINGS = ("zsl", "gzsl")
#: Protocols that runs know by name.
PROTOCOLS = ("default", "authors")


@dataclass(frozen=True, eq=False)
class Protocol:
    """How methods are tuned on one split of a data set.

    Parameters
    ----------
    name : str
        What records and tables call it. Records of two protocols are never mixed.
    n_splits : int, default=5
        Folds over the seen classes, no more than leaves two classes to each.
    remainder, class_order
        See :class:`~zslearn.model_selection.ClassKFold`. By default the seed decides the order.
    held_out : float, int or array-like of int, default=0.2
        What is held out in the generalized setting; see
        :class:`~zslearn.model_selection.GeneralizedClassKFold`.
    signature_scale : "seen", "all", float or None, default=None
        Given to every method, and to the method under EXEM; None leaves the method's own.
    grid : str, default="fast"
        Which of the methods' grids, unless a run names another.
    rescale_bias : bool, default=True
        Whether calibration factors of folds are brought to the scale of the final scores; see
        :class:`~zslearn.calibration.CalibratedStacking`.
    shots : int, optional
        So many labelled images of each unseen class are added to training once the method is tuned,
        and taken from the test; as many of each left-out class are, while it is tuned.
    unlabelled : {"zsl", "gzsl"}, optional
        The test images of the unseen classes ("zsl") or of all ("gzsl") are given to the method's
        `adapt`, without their labels: the transductive protocol. So are those that folds validate.

    See Also
    --------
    authors_protocol : That of the authors' program.

    Examples
    --------
    >>> from zslearn.experiments import Protocol
    >>> Protocol("three folds", n_splits=3).folds("zsl", n_seen=8, seed=1)
    ClassKFold(n_splits=3, shots=0, ..., random_state=1)
    """

    name: str
    n_splits: int = 5
    remainder: Literal["spread", "drop"] = "spread"
    class_order: ArrayLike | None = None
    held_out: float | int | ArrayLike = 0.2
    signature_scale: str | float | None = None
    grid: str = "fast"
    rescale_bias: bool = True
    shots: int | None = None
    unlabelled: Literal["zsl", "gzsl"] | None = None
    #: Set by :func:`authors_protocol` alone; a copy with other values is not the authors'.
    is_authors: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.strip() and self.name.isprintable()):
            raise ValueError(f"A protocol needs a name that can be printed; got {self.name!r}.")
        if self.unlabelled not in (None, *SETTINGS):
            raise ValueError(
                f"unlabelled is one of {', '.join(SETTINGS)}, or None; got {self.unlabelled!r}."
            )
        is_number = isinstance(self.shots, Integral) and not isinstance(self.shots, bool)
        if self.shots is not None and not (is_number and self.shots >= 0):
            raise ValueError(f"shots are numbers of images, 0 or more; got {self.shots!r}.")

    @property
    def is_for_one_split(self) -> bool:
        """Whether it names classes or images by their positions, which are those of one split."""
        return self.class_order is not None or np.ndim(self.held_out) > 0

    def folds(self, setting: str, n_seen: int, seed: int) -> ClassKFold:
        """Folds over the seen classes, their number at most half of `n_seen`.

        Parameters
        ----------
        setting : {"zsl", "gzsl"}
            Conventional or generalized.
        n_seen, seed : int
            Number of seen classes; the seed decides what the protocol leaves open.

        Returns
        -------
        ClassKFold
            A GeneralizedClassKFold where images of seen classes are scored or given unlabelled.
        """
        n_splits = min(self.n_splits, n_seen // 2)
        options: dict[str, Any] = {
            "remainder": self.remainder,
            "class_order": self.class_order,
            "random_state": seed,
            "shots": self.shots or 0,
            "unlabelled": self.unlabelled,
        }
        if "gzsl" not in (setting, self.unlabelled):
            return ClassKFold(n_splits, **options)
        return GeneralizedClassKFold(n_splits, held_out=self.held_out, **options)

    def make(self, method: Method, seed: int) -> Any:
        """Make a method with the seed and the scale of signatures, given to its inner method too.

        Parameters
        ----------
        method : Method
            As :func:`~zslearn.model_selection.find_method` gives it.
        seed : int
            Seed of the method.

        Returns
        -------
        zero-shot estimator
            Not fitted.
        """
        # Finding the weight of unlabelled images takes further fits, so that it is a constant where
        # there are none.
        weight = 0.1 if self.unlabelled is None else "cv"
        scale = {} if self.signature_scale is None else {"signature_scale": self.signature_scale}
        return method.make_with(random_state=seed, unlabelled_weight=weight, **scale)

    def definition(self, setting: str) -> list[Any]:
        """All that a result in a setting depends on, for a fingerprint."""
        # The conventional setting holds nothing aside.
        held_out = None if setting == "zsl" else np.asarray(self.held_out)
        order = None if self.class_order is None else np.asarray(self.class_order)
        rescale = None if setting == "zsl" else self.rescale_bias
        folds = [self.n_splits, self.remainder, order, held_out]
        images = [self.shots, self.unlabelled]
        return [self.name, *folds, self.signature_scale, rescale, *images]


def authors_protocol(
    data: ZeroShotDataset,
    folder: str | os.PathLike[str] | None = None,
    *,
    hold_out: bool = True,
) -> Protocol:
    """The protocol of the authors' program for the active split of a data set.

    Parameters
    ----------
    data : ZeroShotDataset
        One of the paper's; another one is refused.
    folder : str or path, optional
        Where the authors' files are; see :func:`~zslearn.datasets.load_authors_protocol`.
    hold_out : bool, default=True
        Whether the held-out images are read, too, which only the generalized setting needs.

    Returns
    -------
    Protocol
        With the authors' order of classes and held-out images, and the paper's grids.
    """
    found = load_authors_protocol(data, folder, hold_out=hold_out)
    protocol = Protocol(
        "authors",
        remainder="drop",
        class_order=found.class_order,
        held_out=0.2 if found.held_out is None else found.held_out,
        signature_scale="all",
        grid="paper",
        rescale_bias=False,
    )
    object.__setattr__(protocol, "is_authors", True)
    return protocol
