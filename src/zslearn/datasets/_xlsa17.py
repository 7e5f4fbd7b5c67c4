"""The field's benchmarks, in the layout of Xian, Lampert, Schiele and Akata.

Each data set is a folder with ``att_splits.mat`` (attributes, class names, the proposed split) and
one or more files of features (``res101.mat`` or any other name: features, labels). Indices in these
files count from 1, samples and classes are columns.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pandas as pd

from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._xlsa17_files import (
    find_data_set,
    find_standard_split,
    read_classes,
    read_features,
    read_parts,
)
from zslearn.datasets._xlsa17_splits import (
    parts_of_classes,
    proposed_split,
    read_unseen_classes,
    with_hold_out,
)
from zslearn.utils import did_you_mean, warn_user

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Name → what it is.
XLSA17 = {
    "AWA1": "Animals with Attributes: 30,475 images, 50 classes, 85 attributes",
    "AWA2": "Animals with Attributes 2: 37,322 images, 50 classes, 85 attributes",
    "CUB": "Caltech-UCSD Birds 200-2011: 11,788 images, 200 classes, 312 attributes",
    "SUN": "SUN attributes: 14,340 images, 717 classes, 102 attributes",
    "APY": "aPascal and aYahoo: 15,339 images, 32 classes, 64 attributes",
    "FLO": "Oxford Flowers: 8,189 images, 102 classes, sentences instead of attributes",
}
#: How many class splits "ss-1", "ss-2", … the field averages over.
N_CLASS_SPLITS = {"CUB": 4, "SUN": 10}
#: Published sizes of trainval, test_seen and test_unseen; PS1 and PS2 do not differ in them.
PUBLISHED_SIZES = {
    "AWA1": (19832, 4958, 5685),
    "AWA2": (23527, 5882, 7913),
    "CUB": (7057, 1764, 2967),
    "SUN": (10320, 2580, 1440),
    "APY": (5932, 1483, 7924),
    "FLO": (5631, 1403, 1155),
}


def unknown_data_set(name: str, known: Iterable[str]) -> str:
    """Say that there is no such data set, which one was perhaps meant, and which there are."""
    known = list(known)
    question = did_you_mean(name, known)
    return f"There is no data set {name!r}.{question} There are: {', '.join(known)}"


def _name_first(load: Callable[_P, _R]) -> Callable[_P, _R]:
    """Take the arguments in their former order, folder and name, as well; with a warning."""

    @functools.wraps(load)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if len(args) == 2 or (len(args) == 1 and "name" in kwargs):
            folder, name = args if len(args) == 2 else (args[0], kwargs.pop("name"))
            if folder in XLSA17 and name not in XLSA17:
                raise TypeError(f"folder is a keyword: write load_xlsa17({folder!r}, folder=…).")
            place = "" if folder is None else ", folder=…"
            warn_user(
                f"load_xlsa17(folder, name) is now load_xlsa17({name!r}{place}): the name comes "
                "first, and folder is a keyword. The former order ends with version 0.3.",
                FutureWarning,
            )
            return load(name, folder=folder, **kwargs)  # type: ignore[arg-type]
        return load(*args, **kwargs)

    return wrapper


@_name_first
def load_xlsa17(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    features: str = "res101.mat",
    split: str | Sequence[str] = "ns",
    signatures: str = "original_att",
    version: str | None = None,
    class_splits: Mapping[str, Iterable[Any]] | str | os.PathLike[str] | None = None,
    hold_out: float | str | os.PathLike[str] | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> ZeroShotDataset:
    """Load one of the field's benchmarks from files in the layout of Xian et al.

    Parameters
    ----------
    name : {"AWA1", "AWA2", "CUB", "SUN", "APY", "FLO"}
        The data set.
    folder : str, path or None, default=None
        The folder that holds the folder `name`, or that holds ``data/``, ``xlsa17/`` or
        ``xlsa17/data/`` with it. None means the folder named by the environment variable
        ``ZSLEARN_DATA``, else the user's data folder, where ``zslearn data fetch`` puts things.
    features : str, default="res101.mat"
        File of features and labels in the data set's folder.
    split : str or sequence of str, default="ns"
        The active split, or several of which the first is active:

        - "ns": the proposed split, with its own test images of seen classes.
        - "ss" (AWA1, AWA2, APY) or "ss0" (CUB, SUN): the standard split, read from
          ``standard_split/NAME/att_splits.mat`` in or beside `folder`.
        - "ss-1", "ss-2", …: class splits as given by `class_splits`. Results of the four of CUB
          and of the ten of SUN are to be averaged.
    signatures : str, default="original_att"
        The variable of ``att_splits.mat`` that describes the classes: "original_att" (raw),
        "att" (each class divided by its norm), or another one of your own. FLO has "att" only.
    version : {"PS1", "PS2"} or None, default=None
        Which publication of the proposed split the file holds. With None it is found from the
        file where that is certain, and recorded as "unknown" where it is not; see Notes.
    class_splits : mapping, path or None, default=None
        Unseen classes of each class split, by name or by number from 1:
        ``{"ss-1": ["cat", …], …}``; or a JSON file with the same. By default the file
        ``class_splits.json`` in the data set's folder.
    hold_out : float, path or None, default=None
        Test images of seen classes for the splits that have none of their own: a share of each
        class, drawn with `random_state` (the field takes 0.2), or the authors' file
        (``NAME_SS_GZSL_inform.mat``). None: all images of seen classes train, and ``X_test_seen``
        is empty, which is the conventional setting.
    random_state : int, RandomState or None, default=0
        Seed of the hold-out.

    Returns
    -------
    ZeroShotDataset
        Classes are labelled by their names as they stand in the file, or numbered from 1 where
        the file has no names. Rows of ``signatures``, ``seen_classes`` and ``unseen_classes`` are
        in the order of the class numbers, ``active_split.train`` in the order of the file, so
        that the authors' class orders and hold-outs apply.

    Raises
    ------
    FileNotFoundError
        A file is not there.
    ValueError
        A file is damaged, foreign, or holds more than plain arrays; files do not fit together;
        parts overlap, unseen classes are trained on, or classes lack attributes.

    Notes
    -----
    The proposed split was published twice: PS1 (2017) and PS2 (2020), where test images of seen
    classes changed. Their sizes agree, so that sizes cannot tell them apart. What can: files of
    PS1 carry ``train_loc`` and ``val_loc``, which together hold the test images of seen classes
    as well (never tune on these). Such a file is PS1 for certain, and is refused as PS2. Any other
    is "unknown" unless `version` says what it is. The version also holds the first digits of the
    split's checksum, so that two runs can always tell whether they used the same split.

    Missing attribute values of AWA are −1 in the files and stay so, as in the authors' program.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from zslearn.datasets import load_xlsa17
    >>> files = tempfile.TemporaryDirectory()
    >>> cub = Path(files.name) / "CUB"
    >>> cub.mkdir()
    >>> savemat(cub / "res101.mat", {"features": np.eye(3, 6), "labels": [[1, 1, 1, 2, 2, 2]]})
    >>> savemat(cub / "att_splits.mat", {
    ...     "original_att": np.eye(2),
    ...     "allclasses_names": np.array(["wren", "gull"], dtype=object),
    ...     "trainval_loc": [[1, 2]], "test_seen_loc": [[3]], "test_unseen_loc": [[4, 5, 6]]})
    >>> data = load_xlsa17("CUB", folder=files.name, version="PS2")
    >>> data
    <ZeroShotDataset CUB, split ns, version xlsa17/ns/PS2/...>
      samples     6: 2 train, 1 test seen, 3 test unseen
      classes     2: 1 seen, 1 unseen
      features    3 (res101)
      signatures  2
      images      none
      splits      ns
    >>> data.y_test_unseen.tolist()
    ['gull', 'gull', 'gull']
    >>> files.cleanup()
    """
    if name not in XLSA17:
        raise ValueError(f"{unknown_data_set(name, XLSA17)}.")
    names = (split,) if isinstance(split, str) else tuple(split)
    _check_splits(names, name, hold_out)
    if version not in (None, "PS1", "PS2"):
        raise ValueError(f"version={version!r}; give 'PS1', 'PS2' or None.")
    home = find_data_set(folder, name)
    classes = read_classes(home, signatures)
    X, numbers = read_features(home, features)
    classes.check_labels(numbers, home / features)
    labels = np.asarray(classes.names)
    splits = {}
    for split_name in names:
        if split_name == "ns":
            splits[split_name] = proposed_split(home, numbers, labels, version)
            continue
        if split_name in ("ss", "ss0"):
            file = find_standard_split(folder, home, name)
            parts = read_parts(file, ("train", "test_unseen"), len(numbers))
        else:
            unseen = read_unseen_classes(class_splits, home, split_name, classes.names)
            parts = parts_of_classes(numbers, unseen)
        splits[split_name] = with_hold_out(
            split_name, parts, numbers, labels, hold_out, random_state
        )
    return ZeroShotDataset(
        X=X,
        y=labels[numbers - 1],
        signatures=pd.DataFrame(classes.signatures, index=pd.Index(classes.names)),
        splits=splits,
        split=names[0],
        name=name,
        features=Path(features).stem,
    )


def _check_splits(splits: Sequence[str], name: str, hold_out: Any) -> None:
    """Refuse splits that the data set does not have, and a hold-out for one that has its own."""
    if not splits:
        raise ValueError("split is empty; name at least one split, for example 'ns'.")
    known = _split_names(name)
    for split in splits:
        if split not in known:
            raise ValueError(f"{name} has no split {split!r}; choose one of {', '.join(known)}.")
    if "ns" in splits and hold_out is not None:
        raise ValueError(
            "hold_out is for the splits without test images of seen classes; 'ns' has its own. "
            "Leave it None."
        )


def _split_names(name: str) -> list[str]:
    """The splits a data set can have."""
    if name in N_CLASS_SPLITS:
        return ["ns", "ss0", *(f"ss-{k}" for k in range(1, N_CLASS_SPLITS[name] + 1))]
    return ["ns"] if name == "FLO" else ["ns", "ss"]
