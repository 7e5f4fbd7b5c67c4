"""Unseen classes of the class splits "ss-1", "ss-2", …: published lists, or drawn with a seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from zslearn.utils import name_some

_CLASS_SPLITS_FILE = "class_splits.json"
RANDOM = "random"


class NoClassListError(ValueError):
    """There are lists of unseen classes, but not for this split."""


def random_class_splits(
    n_splits: int, n_classes: int, random_state: Any
) -> dict[str, NDArray[np.intp]]:
    """Deal all classes to the class splits at random; each class is unseen in exactly one.

    So did the paper: 4 disjoint subsets of 50 classes of CUB, 10 of 72 or 71 classes of SUN.

    Parameters
    ----------
    n_splits : int
        Number of class splits.
    n_classes : int
        Number of classes.
    random_state : int, RandomState or None
        Decides which class goes where.

    Returns
    -------
    dict of str to ndarray of int
        Numbers of the unseen classes, from 1 and ascending, of "ss-1", "ss-2", …
    """
    if n_classes < n_splits:
        raise ValueError(
            f"class_splits='random': {n_classes} classes cannot be dealt to {n_splits} class "
            "splits; give the unseen classes of each split."
        )
    dealt = np.array_split(check_random_state(random_state).permutation(n_classes), n_splits)
    return {f"ss-{k}": np.sort(numbers) + 1 for k, numbers in enumerate(dealt, start=1)}


def random_version(random_state: Any) -> str:
    """What the version of a split with drawn classes says, so that it is not taken for published.

    The seed is named where it is a number; the checksum tells other splits apart.
    """
    seed = f"-seed{int(random_state)}" if isinstance(random_state, Integral) else ""
    return f"/{RANDOM}{seed}"


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
        class_splits = class_splits_file(home)
        if not class_splits.is_file():
            raise FileNotFoundError(
                f"The class split {split!r} is not part of xlsa17: pass class_splits="
                f"{{{split!r}: [unseen classes], …}} or put this as JSON into {class_splits}. "
                "class_splits='random' draws some instead, which are not the published ones."
            )
    if not isinstance(class_splits, Mapping):
        class_splits = _read_json(Path(class_splits))
    if split not in class_splits:
        raise NoClassListError(f"class_splits has no {split!r}, only {name_some(class_splits)}.")
    labels = class_splits[split]
    if isinstance(labels, str | Mapping) or not isinstance(labels, Iterable):
        raise ValueError(f"class split {split!r}: there must be a list of classes.")
    unseen = [_class_number(label, split, names) for label in labels]
    if len(set(unseen)) != len(unseen) or not 0 < len(unseen) < len(names):
        raise ValueError(
            f"class split {split!r}: {len(unseen)} unseen classes out of {len(names)}, some of "
            "them twice or none left; list each unseen class once."
        )
    return np.array(unseen, dtype=np.intp)


def class_splits_file(home: Path) -> Path:
    """Where the lists of a data set lie unless others are given."""
    return home / _CLASS_SPLITS_FILE


def _class_number(label: Any, split: str, names: list[Any]) -> int:
    """The number of a class that is named or numbered."""
    number = label
    if isinstance(label, str):
        number = names.index(label) + 1 if label in names else None
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise ValueError(f"class split {split!r}: there is no class {label!r}.")
    if not 1 <= int(number) <= len(names):
        raise ValueError(f"class split {split!r}: class number {number} is out of range.")
    return int(number)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: this is no JSON ({error}).") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: there must be an object, split name → list of classes.")
    return content
