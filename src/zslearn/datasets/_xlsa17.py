"""The field's benchmarks, in the layout of Xian, Lampert, Schiele and Akata.

Each data set is a folder with ``att_splits.mat`` (attributes, class names, the proposed split) and
one or more files of features (``res101.mat`` or any other name: features, labels). Indices in these
files count from 1, samples and classes are columns.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset
from zslearn.datasets._home import data_home
from zslearn.datasets._mat import MatFileError, read_mat
from zslearn.utils import name_some
from zslearn.utils._folds import hold_out_per_class

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
SPLIT_FILE = "att_splits.mat"
PARTS = {"train": "trainval_loc", "test_seen": "test_seen_loc", "test_unseen": "test_unseen_loc"}
_FOR_TUNING = ("train_loc", "val_loc")
_CLASS_SPLITS_FILE = "class_splits.json"


def load_xlsa17(
    folder: str | os.PathLike[str] | None,
    name: str,
    *,
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
    folder : str, path or None
        The folder that holds the folder `name`, or that holds ``data/``, ``xlsa17/`` or
        ``xlsa17/data/`` with it. None means the folder named by the environment variable
        ``ZSLEARN_DATA``, else the user's data folder, where ``zslearn data fetch`` puts things.
    name : {"AWA1", "AWA2", "CUB", "SUN", "APY", "FLO"}
        The data set.
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
    >>> data = load_xlsa17(files.name, "CUB", version="PS2")
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
    _check_name(name)
    splits = (split,) if isinstance(split, str) else tuple(split)
    if not splits:
        raise ValueError("split is empty; name at least one split, for example 'ns'.")
    for one in splits:
        _check_split_name(one, name)
    if version not in (None, "PS1", "PS2"):
        raise ValueError(f"version={version!r}; give 'PS1', 'PS2' or None.")
    if "ns" in splits and hold_out is not None:
        raise ValueError(
            "hold_out is for the splits without test images of seen classes; 'ns' has its own. "
            "Leave it None."
        )
    home = find_data_set(folder, name)
    classes = read_classes(home, signatures)
    X, numbers = read_features(home, features)
    classes.check_labels(numbers, home / features)
    labels = np.asarray(classes.names)
    made = {}
    for one in splits:
        if one == "ns":
            made[one] = _proposed_split(home, numbers, labels, version)
        else:
            if one in ("ss", "ss0"):
                found = _standard_split_file(folder, home, name)
                parts = read_parts(found, ("train", "test_unseen"), len(numbers))
            else:
                unseen = _unseen_classes(class_splits, home, one, classes.names)
                parts = _parts_of_classes(numbers, unseen)
            made[one] = _with_hold_out(one, parts, numbers, labels, hold_out, random_state)
    return ZeroShotDataset(
        X=X,
        y=labels[numbers - 1],
        signatures=pd.DataFrame(classes.signatures, index=pd.Index(classes.names)),
        splits=made,
        split=splits[0],
        name=name,
        features=Path(features).stem,
    )


def _check_name(name: str) -> None:
    if name not in XLSA17:
        raise ValueError(f"There is no data set {name!r}; choose one of {', '.join(XLSA17)}.")


def _check_split_name(split: str, name: str) -> None:
    """Refuse a split that this data set does not have."""
    known = split_names(name)
    if split not in known:
        raise ValueError(f"{name} has no split {split!r}; choose one of {', '.join(known)}.")


def split_names(name: str) -> list[str]:
    """The splits a data set can have."""
    if name in N_CLASS_SPLITS:
        return ["ns", "ss0", *(f"ss-{k}" for k in range(1, N_CLASS_SPLITS[name] + 1))]
    return ["ns"] if name == "FLO" else ["ns", "ss"]


# ------------------------------------------------------------------------------------ places


def find_data_set(folder: str | os.PathLike[str] | None, name: str) -> Path:
    """The folder of a data set, in any of the usual places under `folder`."""
    root = data_home(folder)
    within = ("", "data", "xlsa17", "xlsa17/data", "cvpr18xian/data", "cvpr18xian")
    for place in within:
        if (root / place / name / SPLIT_FILE).is_file():
            return root / place / name
    archive = "cvpr18xian" if name == "FLO" else "xlsa17"
    raise FileNotFoundError(
        f"There is no {name}/{SPLIT_FILE} in {root}, nor in {', '.join(within[1:])} there. "
        f"Download it with: zslearn data fetch {archive}; or set ZSLEARN_DATA to the folder "
        "that holds xlsa17."
    )


def _standard_split_file(folder: str | os.PathLike[str] | None, home: Path, name: str) -> Path:
    """The file of the standard split: in the folder that was given, or beside the data set."""
    above = home.resolve().parents
    for root in (data_home(folder), *above[:3], data_home()):
        path = root / "standard_split" / name / SPLIT_FILE
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"There is no standard_split/{name}/{SPLIT_FILE} in or beside {data_home(folder)}. "
        "Download it with: zslearn data fetch standard_split"
    )


# ------------------------------------------------------------------------------------- files


@dataclass(frozen=True)
class Classes:
    """Names and signatures of all classes, in the order of their numbers."""

    names: list[Any]
    signatures: NDArray[np.float64]
    path: Path

    def check_labels(self, numbers: NDArray[np.intp], path: Path) -> None:
        """Refuse a label that no class has."""
        highest = int(numbers.max(initial=0))
        if highest > len(self.names):
            raise ValueError(
                f"{path}: labels go up to {highest}, but {self.path.name} describes "
                f"{len(self.names)} classes; labels without attributes cannot be used. The two "
                "files do not belong together."
            )


def read_classes(home: Path, signatures: str) -> Classes:
    """Read class names and signatures of a data set."""
    path = home / SPLIT_FILE
    found = read_mat(path, {signatures, "allclasses_names"})
    if signatures not in found:
        others = [name for name in ("original_att", "att") if name in read_mat(path, {name})]
        raise ValueError(
            f"{path}: there is no {signatures!r}"
            + (f"; pass signatures={others[0]!r} to use what there is." if others else ".")
        )
    names = _class_names(found.get("allclasses_names"), home)
    values = _matrix(found[signatures], signatures, path)
    if names is None:
        names = list(range(1, values.shape[1] + 1))
    if values.shape[1] != len(names) and values.shape[0] == len(names):
        values = values.T
    if values.shape[1] != len(names):
        raise ValueError(
            f"{path}: {signatures} has shape {values.shape} for {len(names)} classes; there must "
            "be one column per class."
        )
    table = np.ascontiguousarray(values.T, dtype=float)
    if not np.isfinite(table).all():
        bad = [names[row] for row in np.flatnonzero(~np.isfinite(table).all(axis=1))]
        raise ValueError(
            f"{path}: {signatures} has {int((~np.isfinite(table)).sum())} values that are not "
            f"finite numbers, in classes {name_some(bad)}; get the file again or fill them."
        )
    return Classes(names, table, path)


def _class_names(raw: Any, home: Path) -> list[Any] | None:
    """Names from the file of splits, else from ``allclasses.txt``, else none."""
    where = f"{home / SPLIT_FILE}: allclasses_names"
    if raw is None:
        text = home / "allclasses.txt"
        if not text.is_file():
            return None
        where = str(text)
        # Some lists number their lines.
        lines = text.read_text(encoding="utf-8", errors="replace").split("\n")
        raw = [line.split()[-1] for line in lines if line.strip()]
    if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
        raise MatFileError(f"{where} is not a list of strings.")
    names = [name.strip() for name in raw]
    if len(set(names)) != len(names) or not all(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{where} has empty or repeated names ({name_some(repeated)}).")
    return names


class NoFeaturesError(ValueError):
    """A file holds something else than features."""


def read_features(home: Path, features: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Read features, one row a sample, and class numbers from 1."""
    path = home / features
    if not path.is_file():
        others = feature_files(home)
        raise FileNotFoundError(
            f"There is no {features} in {home}; "
            + (
                f"pass features= one of {', '.join(others)}."
                if others
                else "get it with: zslearn data fetch xlsa17, or put a file of features there."
            )
        )
    found = read_mat(path, {"features", "labels"})
    if not found:
        raise NoFeaturesError(f"{path}: there are neither features nor labels in it.")
    for variable in ("features", "labels"):
        if variable not in found:
            raise ValueError(f"{path}: there is no variable {variable!r}.")
    X = _matrix(found["features"], "features", path).T
    numbers = _whole_numbers(found["labels"], "labels", path)
    if len(numbers) != len(X):
        raise ValueError(
            f"{path}: features has {len(X)} columns and labels {len(numbers)} entries; there must "
            "be one label per column."
        )
    if numbers.size and numbers.min() < 1:
        raise ValueError(f"{path}: labels go down to {numbers.min()}; classes count from 1.")
    return X, numbers


def feature_files(home: Path) -> list[str]:
    """The MATLAB files of a data set other than that of its splits."""
    return sorted(path.name for path in home.glob("*.mat") if path.name != SPLIT_FILE)


def read_parts(
    path: Path, parts: Iterable[str], n_samples: int | None
) -> dict[str, NDArray[np.intp]]:
    """Read parts of a split as indices from 0, in the order of the file."""
    wanted = {part: PARTS[part] for part in parts}
    found = read_mat(path, set(wanted.values()))
    indices = {}
    for part, variable in wanted.items():
        if variable not in found:
            raise ValueError(f"{path}: there is no variable {variable!r}.")
        indices[part] = _indices(found[variable], variable, path, n_samples)
    return indices


def _indices(raw: Any, variable: str, path: Path, n_samples: int | None) -> NDArray[np.intp]:
    """Check indices that count from 1; return them from 0."""
    indices = _whole_numbers(raw, variable, path)
    if not indices.size:
        raise ValueError(f"{path}: {variable} is empty.")
    if indices.min() < 1:
        raise ValueError(f"{path}: {variable} has index {indices.min()}; indices count from 1.")
    if n_samples is not None and indices.max() > n_samples:
        raise ValueError(
            f"{path}: {variable} has index {indices.max()}, but there are {n_samples} labels; the "
            "splits and the features do not belong together."
        )
    if len(np.unique(indices)) != len(indices):
        raise ValueError(f"{path}: {variable} holds an index more than once.")
    return indices - 1


def _matrix(raw: Any, variable: str, path: Path) -> NDArray[Any]:
    if not isinstance(raw, np.ndarray) or raw.ndim != 2 or not raw.size:
        raise ValueError(f"{path}: {variable} is not a matrix of numbers.")
    return raw


def _whole_numbers(raw: Any, variable: str, path: Path) -> NDArray[np.intp]:
    """A vector of whole numbers, as MATLAB keeps them in any numeric class."""
    if not isinstance(raw, np.ndarray) or (raw.size and raw.size != max(raw.shape)):
        raise ValueError(f"{path}: {variable} is not a vector of numbers.")
    vector = raw.reshape(-1)
    # Beyond 2**53 a double no longer counts; nothing here is near that.
    with np.errstate(invalid="ignore"):
        whole = np.abs(vector.astype(float)) < 2**53
        whole &= vector == np.floor(vector)
    if not whole.all():
        raise ValueError(f"{path}: {variable} holds values that are not whole numbers.")
    return vector.astype(np.intp)


# ------------------------------------------------------------------------------------ splits


def _proposed_split(
    home: Path, numbers: NDArray[np.intp], labels: NDArray[Any], version: str | None
) -> ClassSplit:
    path = home / SPLIT_FILE
    parts = read_parts(path, PARTS, len(numbers))
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
    tuning = np.concatenate([_indices(found[name], name, path, None) for name in _FOR_TUNING])
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
            f"{PARTS['train']} and in {PARTS['test_unseen']}: unseen classes would be trained on. "
            "The splits and the features do not belong together, or the split leaks."
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


def _parts_of_classes(
    numbers: NDArray[np.intp], unseen: NDArray[np.intp]
) -> dict[str, NDArray[np.intp]]:
    """All samples of the other classes train, those of the unseen classes test."""
    is_unseen = np.isin(numbers, unseen)
    return {"train": np.flatnonzero(~is_unseen), "test_unseen": np.flatnonzero(is_unseen)}


def _unseen_classes(given: Any, home: Path, split: str, names: list[Any]) -> NDArray[np.intp]:
    """Numbers of the unseen classes of a class split."""
    if given is None:
        given = home / _CLASS_SPLITS_FILE
        if not given.is_file():
            raise FileNotFoundError(
                f"The class split {split!r} is not part of xlsa17: pass class_splits="
                f"{{{split!r}: [unseen classes], …}} or put this as JSON into {given}."
            )
    if not isinstance(given, Mapping):
        path = Path(given)
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: this is no JSON ({error}).") from error
        if not isinstance(given, dict):
            raise ValueError(f"{path}: there must be an object, split name → list of classes.")
    if split not in given:
        raise ValueError(f"class_splits has no {split!r}, only {name_some(given)}.")
    position = {name: number for number, name in enumerate(names, start=1)}
    found = []
    for label in given[split]:
        number = position.get(label) if isinstance(label, str) else label
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise ValueError(f"class split {split!r}: there is no class {label!r}.")
        if not 1 <= number <= len(names):
            raise ValueError(f"class split {split!r}: class number {number} is out of range.")
        found.append(int(number))
    if len(set(found)) != len(found) or not 0 < len(found) < len(names):
        raise ValueError(
            f"class split {split!r}: {len(found)} unseen classes out of {len(names)}, some of "
            "them twice or none left; list each unseen class once."
        )
    return np.array(found, dtype=np.intp)


# ---------------------------------------------------------------------------------- hold-outs


def _with_hold_out(
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
    held[_indices(raw, "tr_hold_ind", path, len(train_numbers))] = True
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
            positions = _indices(member, "CV_hold_loc", path, len(rest))
            fits &= len(np.unique(rest[positions])) == 1
    if not fits:
        raise ValueError(
            f"{path}: these hold-outs are not a fifth of each class here; they were made for "
            "samples in another order. Pass hold_out=0.2 instead."
        )
