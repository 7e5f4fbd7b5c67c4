"""Protocols: how a run tunes a method on a split of a data set.

The default protocol uses random folds over all seen classes and takes the median distance of
signatures over the seen classes. "authors" follows the authors' program: their orders of classes
and held-out images, folds of equal size (leftover classes are never validated), median distances
over all classes, calibration factors without rescaling, and the grids of the paper.
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

#: Conventional and generalized.
SETTINGS = ("zsl", "gzsl")
#: Protocols known by name.
PROTOCOLS = ("default", "authors")


@dataclass(frozen=True, eq=False)
class Protocol:
    """How methods are tuned on one split of a data set.

    Parameters
    ----------
    name : str
        Name in records and tables, which never mix the records of two protocols.
    n_splits : int, default=5
        Folds over the seen classes, at most half as many as there are classes.
    remainder, class_order
        See :class:`~zslearn.model_selection.ClassKFold`. By default the order is random.
    held_out : float, int or array-like of int, default=0.2
        Images to hold out in the generalized setting; see
        :class:`~zslearn.model_selection.GeneralizedClassKFold`.
    signature_scale : "seen", "all", float or None, default=None
        Passed to every method, and to the method inside EXEM; None keeps the method's default.
    grid : str, default="fast"
        Grid of hyper-parameters, unless a run names another.
    rescale_bias : bool, default=True
        Whether to rescale the calibration factors of the folds to the final scores; see
        :class:`~zslearn.calibration.CalibratedStacking`.
    shots : int, optional
        Number of labelled test images of each unseen class that are added to training after tuning
        and removed from the test. During tuning, validation classes get as many.
    unlabelled : {"zsl", "gzsl"}, optional
        Pass the unlabelled test images of the unseen classes ("zsl") or of all classes ("gzsl") to
        the method's `adapt`, in folds as well (the transductive protocol).

    See Also
    --------
    authors_protocol : The protocol of the authors' program.

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
    #: Set by :func:`authors_protocol`; a modified copy is no longer the authors' protocol.
    is_authors: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.strip() and self.name.isprintable()):
            raise ValueError(f"A protocol needs a printable name; got {self.name!r}.")
        if self.n_splits < 2:
            raise ValueError(f"n_splits={self.n_splits} must be at least 2.")
        if self.unlabelled not in (None, *SETTINGS):
            raise ValueError(f"unlabelled={self.unlabelled!r} is not one of {', '.join(SETTINGS)}.")
        is_number = isinstance(self.shots, Integral) and not isinstance(self.shots, bool)
        if self.shots is not None and not (is_number and self.shots >= 0):
            raise ValueError(f"shots must be a whole number >= 0; got {self.shots!r}.")

    @property
    def is_for_one_split(self) -> bool:
        """Whether it refers to classes or images by position, which is specific to one split."""
        return self.class_order is not None or np.ndim(self.held_out) > 0

    def folds(self, setting: str, n_seen: int, seed: int) -> ClassKFold:
        """Make the folds over the seen classes.

        Parameters
        ----------
        setting : {"zsl", "gzsl"}
            Conventional or generalized.
        n_seen, seed : int
            Number of seen classes, and the random state.

        Returns
        -------
        ClassKFold
            A GeneralizedClassKFold if images of seen classes are scored or used unlabelled.
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
        """Create a method with this random state and scale of signatures.

        Parameters
        ----------
        method : Method
            From :func:`~zslearn.model_selection.find_method`.
        seed : int
            Random state of the method.

        Returns
        -------
        zero-shot estimator
            Not fitted. An inner method gets the same parameters.
        """
        # Without unlabelled images their weight has no effect, and estimating it costs fits.
        weight = 0.1 if self.unlabelled is None else "cv"
        scale = {} if self.signature_scale is None else {"signature_scale": self.signature_scale}
        return method.make_with(random_state=seed, unlabelled_weight=weight, **scale)

    def definition(self, setting: str) -> list[Any]:
        """Everything that a result in a setting depends on, for a fingerprint."""
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
    """Load the protocol of the authors' program for the active split of a data set.

    Parameters
    ----------
    data : ZeroShotDataset
        One of the paper's data sets.
    folder : str or path, optional
        Folder of the authors' files; see :func:`~zslearn.datasets.load_authors_protocol`.
    hold_out : bool, default=True
        Whether to read the held-out images, which only the generalized setting needs.

    Returns
    -------
    Protocol
        With the authors' class order and held-out images, and the grids of the paper.
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
