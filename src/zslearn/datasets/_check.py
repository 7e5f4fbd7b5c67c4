"""What a folder of data sets holds, and what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._messages import name_some
from zslearn.datasets._files import data_home
from zslearn.datasets._mat import read_mat
from zslearn.datasets._xlsa17 import (
    DEFAULT_FEATURES,
    DEFAULT_SIGNATURES,
    PUBLISHED_SIZES,
    NoClassListError,
    SplitReader,
    data_set,
    split_names,
)
from zslearn.datasets._xlsa17_files import (
    PART_VARIABLES,
    SPLIT_FILE,
    Classes,
    NoFeaturesError,
    feature_files,
    found_version,
    read_classes,
    read_features,
    read_parts,
    tuning_leak,
)

_DEPTH = 3
_COLUMNS = [
    "version", "samples", "train", "test seen", "test unseen", "classes", "seen", "unseen",
    "attributes", "features", "NaN",
]  # fmt: skip


@dataclass(frozen=True)
class FolderReport:
    """What :func:`check_data` found.

    Attributes
    ----------
    table : DataFrame
        One row per data set and file of features, in words.
    problems : list of str
        What is wrong: a data set with a problem must not be used.
    notes : list of str
        What is worth knowing.
    """

    table: pd.DataFrame
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_data(folder: str | os.PathLike[str] | None = None) -> FolderReport:
    """Say which data sets a folder holds, with which split, and what is wrong with them.

    Every ``att_splits.mat`` in the folder or up to three levels below it is read, with the files
    of features beside it. Checked are: that the files can be read, that parts do not overlap and
    fit the labels, that no unseen class is trained on, that every class is described; and that
    :func:`load_xlsa17` with its defaults takes the data set, with each split whose files are there.

    Parameters
    ----------
    folder : str, path or None, default=None
        By default the folder named by ``ZSLEARN_DATA``, else the user's data folder.

    Returns
    -------
    FolderReport
        With a table, problems and notes.

    Raises
    ------
    FileNotFoundError
        The folder is not there or holds no data set.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from zslearn.datasets import check_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "CUB").mkdir()
    ...     savemat(Path(folder) / "CUB" / "att_splits.mat", {
    ...         "original_att": np.eye(2),
    ...         "trainval_loc": [[1, 2]], "test_seen_loc": [[2]], "test_unseen_loc": [[3]]})
    ...     report = check_data(folder)
    >>> report.problems
    ['CUB: trainval_loc and test_seen_loc share 1 samples.']
    """
    root = data_home(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"There is no folder {root}.")
    homes = _data_sets(root)
    if not homes:
        raise FileNotFoundError(f"There is no data set ({SPLIT_FILE}) in {root}.")
    report = FolderReport(pd.DataFrame(columns=_COLUMNS))
    rows: dict[str, dict[str, Any]] = {}
    for home in homes:
        relative = home.relative_to(root).as_posix()
        title = home.name if relative == "." else relative
        rows.update(_check_data_set(home, root, title, report))
    cells = [[str(row.get(column, "-")) for column in _COLUMNS] for row in rows.values()]
    table = pd.DataFrame(cells, index=pd.Index(list(rows), name="data set"), columns=_COLUMNS)
    return FolderReport(table, report.problems, report.notes)


def _data_sets(root: Path) -> list[Path]:
    """The folders with a file of splits; links to folders are not followed."""
    found = []
    for place, folders, files in os.walk(root):
        if SPLIT_FILE in files:
            found.append(Path(place))
        if len(Path(place).relative_to(root).parts) >= _DEPTH:
            folders.clear()
        folders.sort()
    return found


def _check_data_set(
    home: Path, root: Path, title: str, report: FolderReport
) -> dict[str, dict[str, Any]]:
    """The rows of one data set; what is wrong goes into the report."""

    def tried(read: Callable[[], Any]) -> Any:
        try:
            return read()
        except NoFeaturesError as error:
            report.notes.append(f"{title}: {error}")
            return None
        except (ValueError, OSError, ImportError) as error:
            report.problems.append(f"{title}: {error}")
            return None

    path = home / SPLIT_FILE
    standard = "standard_split" in path.parts  # which may come without attributes
    classes = tried(lambda: _classes(home, needed=not standard))
    parts = tried(lambda: read_parts(path, _parts_in(path), None))
    row: dict[str, Any] = {"version": "-"}
    if classes is not None:
        row["classes"], row["attributes"] = next(iter(classes.views.values())).shape
    if parts is not None:
        row |= _describe_parts(title, parts, report)
        needed = ("train", "test_unseen") if standard else tuple(PART_VARIABLES)
        for part in needed:
            if part not in parts:
                report.problems.append(f"{title}: there is no {PART_VARIABLES[part]}.")
        if standard:
            row["version"] = "SS"
        elif set(parts) == set(PART_VARIABLES):
            version = tried(lambda: found_version(path, parts))
            row["version"] = "?" if version is None else version[0]
            _note_version(home, title, parts, report)
    rows = {}
    for file in feature_files(home):
        features = tried(partial(_features, home, file))
        if features is not None:
            X, numbers = features
            where = f"{title} {file}"
            before = len(report.problems)
            rows[where] = row | _describe_features(
                title, home / file, X, numbers, classes, parts, report
            )
            if len(report.problems) == before and classes is not None and not standard:
                reader = SplitReader(home.name, home, root, numbers, classes.names)
                refusals = _refusals(reader, X, classes, file)
                report.problems.extend(f"{where}: {message}" for message in refusals)
    if not rows and not standard:
        report.notes.append(f"{title}: there is no file of features; it cannot be loaded yet.")
    return rows or {title: row}


def _features(home: Path, file: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Features and class numbers; the file that is loaded by default must hold them."""
    try:
        return read_features(home, file)
    except NoFeaturesError as error:
        if file == DEFAULT_FEATURES:
            raise ValueError(str(error)) from error
        raise


def _refusals(reader: SplitReader, X: NDArray[Any], classes: Classes, file: str) -> list[str]:
    """Why loading would refuse this file of features: each split that has its files is made."""
    messages = []
    for split in split_names(reader.name):
        try:
            data_set(reader.name, X, reader.numbers, classes, {split: reader.read(split)}, file)
        except (FileNotFoundError, NoClassListError):
            continue  # the standard split and the lists of class splits need not be there
        except (ValueError, OSError, ImportError) as error:
            messages.append(str(error))
    return messages


def _classes(home: Path, *, needed: bool) -> Classes | None:
    """Classes by the signatures that are loaded by default, or for FLO by those it has."""
    signatures = "att" if home.name == "FLO" else DEFAULT_SIGNATURES
    if not needed and not read_mat(home / SPLIT_FILE, {signatures}):
        return None
    return read_classes(home, signatures)


def _parts_in(path: Path) -> list[str]:
    """The parts of a split that a file holds."""
    found = read_mat(path, set(PART_VARIABLES.values()))
    return [part for part, variable in PART_VARIABLES.items() if variable in found]


def _describe_parts(
    title: str, parts: dict[str, NDArray[np.intp]], report: FolderReport
) -> dict[str, Any]:
    """Sizes of the parts; overlaps are problems."""
    names = list(parts)
    for position, first in enumerate(names):
        for second in names[position + 1 :]:
            if shared := len(np.intersect1d(parts[first], parts[second])):
                report.problems.append(
                    f"{title}: {PART_VARIABLES[first]} and {PART_VARIABLES[second]} share "
                    f"{shared} samples."
                )
    return {part.replace("_", " "): len(indices) for part, indices in parts.items()}


def _note_version(
    home: Path, title: str, parts: dict[str, NDArray[np.intp]], report: FolderReport
) -> None:
    sizes = tuple(len(parts[part]) for part in PART_VARIABLES)
    published = PUBLISHED_SIZES.get(home.name)
    if published is not None and sizes != published:
        report.notes.append(f"{title}: the parts have sizes {sizes}, published are {published}.")
    try:
        leak = tuning_leak(home / SPLIT_FILE, parts)
    except (ValueError, OSError):
        return  # `found_version` has reported it
    if leak:
        report.notes.append(
            f"{title}: train_loc and val_loc hold {leak} samples of test_seen_loc, as published "
            "in PS1; never tune on them."
        )


def _describe_features(
    title: str,
    path: Path,
    X: NDArray[Any],
    numbers: NDArray[np.intp],
    classes: Classes | None,
    parts: dict[str, NDArray[np.intp]] | None,
    report: FolderReport,
) -> dict[str, Any]:
    """Size of the features; labels that do not fit, and unseen classes in training."""
    bad = int(X.size - np.isfinite(X).sum())
    where = f"{title} {path.name}"
    if bad:
        report.notes.append(f"{where}: {bad} values are not finite; methods read them as 0.")
    row: dict[str, Any] = {"samples": len(X), "features": X.shape[1], "NaN": bad}
    if classes is not None:
        try:
            classes.check_labels(numbers, path)
        except ValueError as error:
            report.problems.append(f"{title}: {error}")
            return row
    if parts is None:
        return row
    for part, indices in parts.items():
        if indices.max() >= len(numbers):
            report.problems.append(
                f"{where}: {PART_VARIABLES[part]} has index {indices.max() + 1} for "
                f"{len(numbers)} labels."
            )
            return row
    of_part = {part: set(numbers[indices].tolist()) for part, indices in parts.items()}
    seen, unseen = of_part.get("train", set()), of_part.get("test_unseen", set())
    row |= {"seen": len(seen), "unseen": len(unseen)}

    def named(found: set[int]) -> str:
        names = classes.names if classes is not None else range(1, int(numbers.max()) + 1)
        return name_some(names[number - 1] for number in sorted(found))

    if leaked := seen & unseen:
        report.problems.append(
            f"{where}: unseen classes in training: {len(leaked)} ({named(leaked)})."
        )
    if stray := of_part.get("test_seen", set()) - seen:
        report.problems.append(
            f"{where}: test_seen_loc has classes without training samples: {named(stray)}."
        )
    return row
