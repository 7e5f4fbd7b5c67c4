"""Splits of the field's benchmarks: their parts, classes and hold-outs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from zslearn.datasets._authors_files import read_hold_outs
from zslearn.datasets._class_split import ClassSplit
from zslearn.datasets._xlsa17_files import PART_VARIABLES, SPLIT_FILE, read_parts
from zslearn.datasets._xlsa17_versions import checked_version, parts_checksum
from zslearn.utils import hold_out_per_class, name_some


def proposed_split(
    home: Path, numbers: NDArray[np.intp], labels: NDArray[Any], version: str | None
) -> ClassSplit:
    """Read the proposed split; refuse a `version` that the file contradicts."""
    path = home / SPLIT_FILE
    parts = read_parts(path, PART_VARIABLES, len(numbers))
    known = checked_version(path, parts, version)
    return _class_split(parts, numbers, labels, f"xlsa17/ns/{known}", str(path))


def _class_split(
    parts: Mapping[str, NDArray[np.intp]],
    numbers: NDArray[np.intp],
    labels: NDArray[Any],
    version: str,
    where: str,
) -> ClassSplit:
    """A split whose seen and unseen classes are those of its parts."""
    seen = np.unique(numbers[parts["train"]])
    unseen = np.unique(numbers[parts["test_unseen"]])
    if (both := np.intersect1d(seen, unseen)).size:
        raise ValueError(
            f"{where}: {both.size} classes ({name_some(labels[both - 1])}) have samples both in "
            f"{PART_VARIABLES['train']} and in {PART_VARIABLES['test_unseen']}: unseen classes "
            "would be trained on. The splits and the features do not belong together, or the split "
            "leaks."
        )
    return ClassSplit(
        train=parts["train"],
        test_seen=parts.get("test_seen", np.empty(0, dtype=np.intp)),
        test_unseen=parts["test_unseen"],
        seen_classes=labels[seen - 1],
        unseen_classes=labels[unseen - 1],
        version=f"{version}/{parts_checksum(parts)[:8]}",
    )


def parts_of_classes(
    numbers: NDArray[np.intp], unseen: NDArray[np.intp]
) -> dict[str, NDArray[np.intp]]:
    """All samples of the other classes train, those of the unseen classes test."""
    is_unseen = np.isin(numbers, unseen)
    return {"train": np.flatnonzero(~is_unseen), "test_unseen": np.flatnonzero(is_unseen)}


@dataclass(frozen=True)
class HoldOut:
    """How test samples of seen classes are chosen where a split has none.

    Parameters
    ----------
    amount : float, Path or None
        A share of each class, the authors' file, or None for no such samples.
    random_state : int, RandomState or None
        Decides a share.
    """

    amount: float | Path | None
    random_state: Any

    def apply(
        self,
        split: str,
        parts: dict[str, NDArray[np.intp]],
        numbers: NDArray[np.intp],
        labels: NDArray[Any],
        *,
        made: str = "",
    ) -> ClassSplit:
        """Take some of the training samples of each class as test samples of seen classes.

        Parameters
        ----------
        split : str
            Name of the split.
        parts : dict
            Its parts "train" and "test_unseen".
        numbers : ndarray of int
            Class numbers of all samples, from 1.
        labels : ndarray
            Labels of all classes.
        made : str, default=""
            What the version says of how the classes were chosen.

        Returns
        -------
        ClassSplit
            Its version names the hold-out.
        """
        version = f"xlsa17/{split}{made}"
        train = parts["train"]
        if self.amount is not None:
            codes = np.unique(numbers[train], return_inverse=True)[1]
            if isinstance(self.amount, Path):
                held = _authors_hold_out(self.amount, split, codes)
                version += f"/{self.amount.stem}"
            else:
                rng = check_random_state(self.random_state)
                held = hold_out_per_class(codes, float(self.amount), rng)
                version += f"/hold-out {float(self.amount):g}"
            parts = {**parts, "train": train[~held], "test_seen": train[held]}
        return _class_split(parts, numbers, labels, version, version)


def _authors_hold_out(path: Path, split: str, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which training samples of a split the authors test on; refused where they do not fit.

    The file tells whether it fits: about a fifth of each class is held out, and the positions held
    aside while tuning are listed class by class.
    """
    hold_outs = read_hold_outs(path, split)
    if hold_outs.test_seen is None:
        raise ValueError(
            f"{path}: there is no tr_hold_ind; the authors' files for the standard splits "
            "(NAME_SS_GZSL_inform.mat) have it."
        )
    held = np.zeros(len(codes), dtype=bool)
    fits = hold_outs.fit_test_seen(codes)
    if fits:
        held[hold_outs.test_seen] = True
        fits = hold_outs.fit_tuning(codes[~held])
    if not fits:
        raise ValueError(
            f"{path}: these hold-outs are not a fifth of each class of {split!r} here; they were "
            "made for samples in another order, or for other classes. Pass hold_out=0.2 instead."
        )
    return held
