"""Splits of the field's benchmarks: which version they are, their classes and their hold-outs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from zslearn.datasets._class_split import ClassSplit
from zslearn.datasets._mat import read_mat
from zslearn.datasets._xlsa17_files import PART_VARIABLES, SPLIT_FILE, check_indices, read_parts
from zslearn.utils import hold_out_per_class, name_some

_FOR_TUNING = ("train_loc", "val_loc")
_CLASS_SPLITS_FILE = "class_splits.json"


def proposed_split(
    home: Path, numbers: NDArray[np.intp], labels: NDArray[Any], version: str | None
) -> ClassSplit:
    """Read the proposed split; refuse a `version` that the file contradicts."""
    path = home / SPLIT_FILE
    parts = read_parts(path, PART_VARIABLES, len(numbers))
    found = found_version(path, parts)
    if version is not None and found not in (version, "unknown"):
        raise ValueError(
            f"{path}: version={version!r} was given, but train_loc and val_loc in the file hold "
            f"test images of seen classes, as only {found} has them; pass version={found!r}."
        )
    return _class_split(parts, numbers, labels, f"xlsa17/ns/{version or found}", str(path))


def found_version(path: Path, parts: Mapping[str, NDArray[np.intp]]) -> str:
    """The publication of the proposed split, where the file tells it for certain."""
    return "PS1" if tuning_leak(path, parts) == len(parts["test_seen"]) else "unknown"


def tuning_leak(path: Path, parts: Mapping[str, NDArray[np.intp]]) -> int:
    """How many test images of seen classes the parts for tuning hold: all of them in PS1."""
    found = read_mat(path, set(_FOR_TUNING))
    if set(found) != set(_FOR_TUNING):
        return 0
    tuning = np.concatenate([check_indices(found[name], name, path, None) for name in _FOR_TUNING])
    return int(np.isin(parts["test_seen"], tuning).sum())


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
    test_seen = parts.get("test_seen", np.empty(0, dtype=np.intp))
    digest = hashlib.sha256()
    for part in (parts["train"], test_seen, parts["test_unseen"]):
        digest.update(np.sort(part).astype("<i8").tobytes() + b"\n")
    return ClassSplit(
        train=parts["train"],
        test_seen=test_seen,
        test_unseen=parts["test_unseen"],
        seen_classes=labels[seen - 1],
        unseen_classes=labels[unseen - 1],
        version=f"{version}/{digest.hexdigest()[:8]}",
    )


def parts_of_classes(
    numbers: NDArray[np.intp], unseen: NDArray[np.intp]
) -> dict[str, NDArray[np.intp]]:
    """All samples of the other classes train, those of the unseen classes test."""
    is_unseen = np.isin(numbers, unseen)
    return {"train": np.flatnonzero(~is_unseen), "test_unseen": np.flatnonzero(is_unseen)}


def read_unseen_classes(
    class_splits: Any, home: Path, split: str, names: list[Any]
) -> NDArray[np.intp]:
    """Numbers of the unseen classes of a class split.

    Parameters
    ----------
    class_splits : mapping, path or None
        Unseen classes of each class split, or the JSON file with them; by default the file in the
        data set's folder.
    home : Path
        The data set's folder.
    split : str
        Name of the class split.
    names : list
        Names of all classes in the order of their numbers.

    Returns
    -------
    ndarray of int
        From 1, in the order in which the split lists them.
    """
    if class_splits is None:
        class_splits = home / _CLASS_SPLITS_FILE
        if not class_splits.is_file():
            raise FileNotFoundError(
                f"The class split {split!r} is not part of xlsa17: pass class_splits="
                f"{{{split!r}: [unseen classes], …}} or put this as JSON into {class_splits}."
            )
    if not isinstance(class_splits, Mapping):
        class_splits = _read_json(Path(class_splits))
    if split not in class_splits:
        raise ValueError(f"class_splits has no {split!r}, only {name_some(class_splits)}.")
    number_of = {name: number for number, name in enumerate(names, start=1)}
    unseen = []
    for label in class_splits[split]:
        number = number_of.get(label) if isinstance(label, str) else label
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise ValueError(f"class split {split!r}: there is no class {label!r}.")
        if not 1 <= number <= len(names):
            raise ValueError(f"class split {split!r}: class number {number} is out of range.")
        unseen.append(int(number))
    if len(set(unseen)) != len(unseen) or not 0 < len(unseen) < len(names):
        raise ValueError(
            f"class split {split!r}: {len(unseen)} unseen classes out of {len(names)}, some of "
            "them twice or none left; list each unseen class once."
        )
    return np.array(unseen, dtype=np.intp)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: this is no JSON ({error}).") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: there must be an object, split name → list of classes.")
    return content


# ---------------------------------------------------------------------------------- hold-outs


def with_hold_out(
    split: str,
    parts: dict[str, NDArray[np.intp]],
    numbers: NDArray[np.intp],
    labels: NDArray[Any],
    hold_out: float | str | os.PathLike[str] | None,
    random_state: Any,
) -> ClassSplit:
    """Take some of the training samples of each class as test samples of seen classes."""
    version = f"xlsa17/{split}"
    train = parts["train"]
    if hold_out is not None:
        if isinstance(hold_out, str | os.PathLike):
            held = _authors_hold_out(Path(hold_out), split, numbers[train])
            version += f"/{Path(hold_out).stem}"
        else:
            if not 0 < hold_out < 1:
                raise ValueError(f"hold_out={hold_out}; give a share between 0 and 1.")
            codes = np.unique(numbers[train], return_inverse=True)[1]
            held = hold_out_per_class(codes, float(hold_out), check_random_state(random_state))
            version += f"/hold-out {float(hold_out):g}"
        parts = {**parts, "train": train[~held], "test_seen": train[held]}
    return _class_split(parts, numbers, labels, version, version)


def _authors_hold_out(path: Path, split: str, train_numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
    """The authors' hold-out: positions, from 1, within the training samples of the split."""
    found = read_mat(path, {"tr_hold_ind", "CV_hold_loc"})
    if "tr_hold_ind" not in found:
        raise ValueError(
            f"{path}: there is no tr_hold_ind; the authors' files for the standard splits "
            "(NAME_SS_GZSL_inform.mat) have it."
        )
    raw, classes = found["tr_hold_ind"], found.get("CV_hold_loc")
    if isinstance(raw, list):  # one entry per class split
        k = int(split.partition("-")[2] or 0)
        if not 1 <= k <= len(raw):
            raise ValueError(f"{path}: the file is for {len(raw)} class splits, not for {split!r}.")
        raw, classes = raw[k - 1], None
    held = np.zeros(len(train_numbers), dtype=bool)
    held[check_indices(raw, "tr_hold_ind", path, len(train_numbers))] = True
    _check_authors_order(path, train_numbers, held, classes)
    return held


def _check_authors_order(
    path: Path, numbers: NDArray[np.intp], held: NDArray[np.bool_], classes: Any
) -> None:
    """Refuse positions that were made for samples in another order.

    The file tells whether it fits: about a fifth of each class is held out, and ``CV_hold_loc``
    lists positions class by class.
    """
    count = np.bincount(numbers)
    share = np.bincount(numbers[held], minlength=len(count))[count > 0] / count[count > 0]
    fits = bool((np.abs(share - 0.2) <= 0.5 / count[count > 0] + 0.05).all())
    rest = numbers[~held]
    if fits and isinstance(classes, list):
        for member in classes:
            positions = check_indices(member, "CV_hold_loc", path, len(rest))
            fits &= len(np.unique(rest[positions])) == 1
    if not fits:
        raise ValueError(
            f"{path}: these hold-outs are not a fifth of each class here; they were made for "
            "samples in another order. Pass hold_out=0.2 instead."
        )
