"""Locate and read the files of the field's benchmarks.

Indices in these files start at 1; samples and classes are columns.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._messages import did_you_mean, name_some
from zslearn._utils._reading import data_home
from zslearn.datasets._mat import MatFileError, read_mat
from zslearn.datasets._tables import read_own_features
from zslearn.signatures._views import MultiSignatures

SPLIT_FILE = "att_splits.mat"
#: Part of a split → indices of its samples, from 0.
Parts = dict[str, NDArray[np.intp]]
#: Part of a split → variable in the file of splits.
PART_VARIABLES = {
    "train": "trainval_loc",
    "test_seen": "test_seen_loc",
    "test_unseen": "test_unseen_loc",
}


def find_data_set(folder: str | os.PathLike[str] | None, name: str) -> Path:
    """Find the folder of a data set in the usual places under `folder`."""
    root = data_home(folder)
    within = ("", "data", "xlsa17", "xlsa17/data", "cvpr18xian/data", "cvpr18xian")
    for place in within:
        if (root / place / name / SPLIT_FILE).is_file():
            return root / place / name
    archive = "cvpr18xian" if name == "FLO" else "xlsa17"
    raise FileNotFoundError(
        f"There is no {name}/{SPLIT_FILE} in {root}, nor in {', '.join(within[1:])} there. "
        f"Download it with: zslearn data fetch {archive}; or set ZSLEARN_DATA to the folder "
        "that contains xlsa17."
    )


def find_standard_split(folder: str | os.PathLike[str] | None, home: Path, name: str) -> Path:
    """Find the file of the standard split in `folder` or next to the data set."""
    for root in (data_home(folder), *home.resolve().parents[:3], data_home()):
        path = root / "standard_split" / name / SPLIT_FILE
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"There is no standard_split/{name}/{SPLIT_FILE} in or next to {data_home(folder)}. "
        "Download it with: zslearn data fetch standard_split"
    )


@dataclass(frozen=True)
class Classes:
    """Names and signatures of all classes in order of their numbers, by view."""

    names: list[Any]
    views: dict[str, NDArray[np.float64]]
    path: Path

    def signatures(self) -> pd.DataFrame | MultiSignatures:
        """Return one table, or several views as MultiSignatures."""
        index = pd.Index(self.names)
        tables = {name: pd.DataFrame(rows, index=index) for name, rows in self.views.items()}
        return MultiSignatures(tables) if len(tables) > 1 else next(iter(tables.values()))

    def check_labels(self, numbers: NDArray[np.intp], path: Path) -> None:
        """Raise if a label belongs to no class."""
        highest = int(numbers.max(initial=0))
        if highest > len(self.names):
            raise ValueError(
                f"{path}: labels go up to {highest}, but {self.path.name} describes "
                f"{len(self.names)} classes; the two files do not belong together."
            )


def read_classes(home: Path, signatures: str | Sequence[str]) -> Classes:
    """Read class names and one or several kinds of signatures."""
    words = [signatures] if isinstance(signatures, str) else list(signatures)
    if not words or len(set(words)) != len(words):
        raise ValueError(f"signatures={signatures!r}: name one kind, or several, each once.")
    path = home / SPLIT_FILE
    names = _class_names(read_mat(path, {"allclasses_names"}).get("allclasses_names"), home)
    views = {}
    for word in words:
        file, _, variable = word.rpartition(":")
        table = _class_table(home / (file or SPLIT_FILE), variable, names, home)
        names = list(range(1, len(table) + 1)) if names is None else names
        views[Path(file).stem if file else variable] = table
    assert names is not None
    return Classes(names, views, path)


def _class_table(
    path: Path, variable: str, names: list[Any] | None, home: Path
) -> NDArray[np.float64]:
    """Read the signatures of all classes from one variable, one row per class."""
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {path.name} in {home}; give signatures as 'VARIABLE' of {SPLIT_FILE}, "
            "or as 'FILE:VARIABLE'."
        )
    found = read_mat(path, {variable, "allclasses_names"})
    if variable not in found:
        others = [name for name in ("original_att", "att") if name in read_mat(path, {name})]
        prefix = "" if path.name == SPLIT_FILE else f"{path.name}:"
        raise ValueError(
            f"{path}: there is no {variable!r}"
            + (f"; pass signatures={prefix + others[0]!r}, which is there." if others else ".")
        )
    own = found.get("allclasses_names")
    if path.name != SPLIT_FILE and own is not None and _class_names(own, home) != names:
        raise ValueError(f"{path}: its classes or their order differ from {SPLIT_FILE}.")
    values = _matrix(found[variable], variable, path)
    n_classes = values.shape[1] if names is None else len(names)
    if values.shape[1] != n_classes and values.shape[0] == n_classes:
        values = values.T
    if values.shape[1] != n_classes:
        raise ValueError(
            f"{path}: {variable} has shape {values.shape} for {n_classes} classes; there must "
            "be one column per class."
        )
    table = np.ascontiguousarray(values.T, dtype=float)
    if not np.isfinite(table).all():
        rows = np.flatnonzero(~np.isfinite(table).all(axis=1))
        bad = [row + 1 if names is None else names[row] for row in rows]
        raise ValueError(
            f"{path}: {variable} has {int((~np.isfinite(table)).sum())} values that are not "
            f"finite numbers, in classes {name_some(bad)}; download the file again or fill them."
        )
    return table


def _class_names(raw: Any, home: Path) -> list[Any] | None:
    """Return the names in the file of splits, else in ``allclasses.txt``, else None."""
    where = f"{home / SPLIT_FILE}: allclasses_names"
    if raw is None:
        text = home / "allclasses.txt"
        if not text.is_file():
            return None
        where = str(text)
        # Some lists number their lines.
        lines = text.read_text(encoding="utf-8-sig", errors="replace").split("\n")
        raw = [line.split()[-1] for line in lines if line.strip()]
    if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
        raise MatFileError(f"{where} is not a list of strings.")
    names = [name.strip() for name in raw]
    if len(set(names)) != len(names) or not all(names):
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        raise ValueError(f"{where} has empty or repeated names ({name_some(repeated)}).")
    return names


class NoFeaturesError(ValueError):
    """A file holds neither features nor labels."""


def read_features(path: Path) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Read features, one row per sample, and class numbers from 1."""
    found = read_mat(path, {"features", "labels"})
    if not found:
        raise NoFeaturesError(f"{path}: there are no variables 'features' and 'labels'.")
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
    """List the MATLAB files of a data set except the file of splits."""
    return sorted(path.name for path in home.glob("*.mat") if path.name != SPLIT_FILE)


def read_any_features(
    home: Path, features: Any, classes: Classes
) -> tuple[NDArray[Any], NDArray[np.intp], str]:
    """Read features and class numbers from any file or array; also return a name."""
    path = None
    if isinstance(features, str | os.PathLike):
        path = next((p for p in (home / features, Path(features)) if p.is_file()), None)
    if path is not None and path.suffix == ".mat" and path.parent == home:
        X, numbers = read_features(path)
        classes.check_labels(numbers, path)
        return X, numbers, path.stem
    labelled: dict[str, NDArray[np.intp]] = {}
    for file in feature_files(home):
        with contextlib.suppress(ValueError):  # damaged, or not a file of features
            raw = read_mat(home / file, {"labels"}).get("labels")
            labelled[file] = _whole_numbers(raw, "labels", home / file)
    labels, where, name = None, "features", "array"
    if not isinstance(features, str | os.PathLike):
        X = features if hasattr(features, "shape") else np.asarray(features)
    elif path is None:
        advice = "download it with: zslearn data fetch xlsa17, or put a file of features there."
        if labelled:
            advice = f"features= can be one of {', '.join(labelled)}."
        raise FileNotFoundError(f"There is no {features} in {home}, nor in {Path.cwd()}; {advice}")
    else:
        is_mat = path.suffix not in (".npy", ".npz", ".parquet")
        X, labels = read_features(path) if is_mat else read_own_features(path)
        where, name = str(path), path.stem
    return X, _class_numbers(X, labels, labelled, classes, where), name


def _class_numbers(
    X: Any, labels: Any, labelled: dict[str, NDArray[np.intp]], classes: Classes, where: str
) -> NDArray[np.intp]:
    """Return the class numbers of your own features, checked against the data set's files."""
    other, known = next(iter(labelled.items()), ("", None))
    if known is None and labels is None:
        raise ValueError(
            f"{where}: there are no labels, and {classes.path.parent} has no file of features to "
            "take them from; give a .npz file with the arrays X and y."
        )
    if len(X.shape) != 2:
        raise ValueError(f"{where}: features have shape {tuple(X.shape)}; give one row per image.")
    numbers = known if labels is None else _numbers_of(np.asarray(labels), classes, where)
    for what, found in ((f"images in {other}", known), ("labels", numbers)):
        if found is not None and len(found) != len(X):
            raise ValueError(
                f"{where}: there are {len(X)} rows, but {len(found)} {what}; give one row per "
                "image, in the order of the published files."
            )
    assert numbers is not None
    if known is not None and not np.array_equal(numbers, known):
        row = int(np.argmax(numbers != known))
        raise ValueError(
            f"{where}: row {row + 1} is labelled {classes.names[numbers[row] - 1]!r}, but "
            f"{other} has {classes.names[known[row] - 1]!r} there: the images or their order "
            "differ."
        )
    return numbers


def _numbers_of(labels: NDArray[Any], classes: Classes, where: str) -> NDArray[np.intp]:
    """Convert class names or numbers to class numbers from 1."""
    if labels.dtype.kind in "iuf":
        numbers = _whole_numbers(labels, "labels", Path(where))
        if numbers.size and not 1 <= numbers.min() <= numbers.max() <= len(classes.names):
            raise ValueError(
                f"{where}: labels go from {numbers.min()} to {numbers.max()}; classes are numbered "
                f"from 1 to {len(classes.names)}."
            )
        return numbers
    names = pd.Index([str(label).strip() for label in labels.ravel().tolist()])
    numbers = pd.Index(classes.names).get_indexer(names) + 1
    if not numbers.all():
        unknown = names[numbers == 0].unique().sort_values()
        raise ValueError(
            f"{where}: labels such as {name_some(unknown, 3)} are not classes of this data set."
            f"{did_you_mean(unknown[0], classes.names)}"
        )
    return numbers


def read_parts(path: Path, parts: Iterable[str], n_samples: int | None) -> Parts:
    """Read parts of a split as indices from 0, in the order of the file."""
    variables = {part: PART_VARIABLES[part] for part in parts}
    found = read_mat(path, set(variables.values()))
    indices = {}
    for part, variable in variables.items():
        if variable not in found:
            raise ValueError(f"{path}: there is no variable {variable!r}.")
        indices[part] = check_indices(found[variable], variable, path, n_samples)
    return indices


def check_indices(raw: Any, variable: str, path: Path, n_samples: int | None) -> NDArray[np.intp]:
    """Check indices that start at 1; return them from 0."""
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
    """Convert a vector of any MATLAB number class to integers."""
    if not isinstance(raw, np.ndarray) or (raw.size and raw.size != max(raw.shape)):
        raise ValueError(f"{path}: {variable} is not a vector of numbers.")
    vector = raw.reshape(-1)
    # Doubles cannot represent all integers beyond 2**53.
    with np.errstate(invalid="ignore"):
        whole = np.abs(vector.astype(float)) < 2**53
        whole &= vector == np.floor(vector)
    if not whole.all():
        raise ValueError(f"{path}: {variable} holds values that are not whole numbers.")
    return vector.astype(np.intp)


# Checksums of published splits (CUB, SUN, FLO), to recognise a file without train_loc and val_loc.
# The splits of AWA1 and AWA2 are the same in files of both versions.
_KNOWN_SPLITS = {
    "49132e4ab2b08fccb65b6b3b878ccf604a5c5f899d9347da9a2dcf3950896625": "PS1",
    "6fa9c8939286a2c8b03d8c45df114263577e2448abfbce89456c5c8ee9ba25d8": "PS1",
    "47d3bf046aaa3c7c1d39d42dec238bceddddd2f4c60e0b95601759b947c31033": "PS1",
}


def parts_checksum(parts: Parts) -> str:
    """SHA-256 of the parts of a split, independent of the order of their samples."""
    digest = hashlib.sha256()
    for part in PART_VARIABLES:
        indices = parts.get(part, np.empty(0, dtype=np.intp))
        digest.update(np.sort(indices).astype("<i8").tobytes() + b"\n")
    return digest.hexdigest()


def found_version(path: Path, parts: Parts) -> tuple[str, str]:
    """Return the publication of the proposed split ("PS1", "PS2" or "unknown") and the evidence."""
    # The versions differ in the test samples of seen classes; without these it is neither.
    tuning = _tuning_samples(path) if len(parts["test_seen"]) else None
    if tuning is not None and np.isin(parts["test_seen"], tuning).all():
        return "PS1", "train_loc and val_loc hold all test images of seen classes"
    if tuning is not None and np.array_equal(tuning, np.unique(parts["train"])):
        return "PS2", "train_loc and val_loc together are trainval_loc"
    version = _KNOWN_SPLITS.get(parts_checksum(parts))
    if version is not None:
        return version, "its parts are those of a published file of this version"
    return "unknown", "neither train_loc and val_loc nor its parts identify the version"


def checked_version(path: Path, parts: Parts, version: str | None) -> str:
    """Return the detected publication, else `version`; raise if they contradict each other."""
    found, reason = found_version(path, parts)
    if version is not None and found not in (version, "unknown"):
        raise ValueError(
            f"{path}: version={version!r} was given, but this is {found}: {reason}. "
            f"Give {found!r}, or no version."
        )
    return version or found


def tuning_leak(path: Path, parts: Parts) -> int:
    """Count the test samples of seen classes in the tuning parts: all of them in PS1."""
    tuning = _tuning_samples(path)
    return 0 if tuning is None else int(np.isin(parts["test_seen"], tuning).sum())


def _tuning_samples(path: Path) -> NDArray[np.intp] | None:
    """Return the sorted samples of ``train_loc`` and ``val_loc``; None if one is missing."""
    found = read_mat(path, {"train_loc", "val_loc"})
    if len(found) < 2:
        return None
    indices = [check_indices(raw, name, path, None) for name, raw in found.items()]
    return np.unique(np.concatenate(indices))
