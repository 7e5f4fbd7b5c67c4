"""Report the data sets in a folder and their problems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zslearn._utils._reading import data_home
from zslearn.datasets._xlsa17 import (
    DEFAULT_FEATURES,
    DEFAULT_SIGNATURES,
    XLSA17,
    NoClassListError,
    SplitReader,
    data_set,
)
from zslearn.datasets._xlsa17_files import (
    PART_VARIABLES,
    SPLIT_FILE,
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
    """Result of :func:`check_data`.

    Attributes
    ----------
    table : DataFrame
        One row per data set and file of features, as text.
    problems : list of str
        Errors: a data set with a problem must not be used.
    notes : list of str
        Remarks that do not prevent using a data set.
    """

    table: pd.DataFrame
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_data(folder: str | os.PathLike[str] | None = None) -> FolderReport:
    """Report which data sets and splits a folder contains, and what is wrong with them.

    Every ``att_splits.mat`` in the folder or up to three levels below is read, with the files of
    features next to it. The check covers damaged files, overlapping parts, parts that do not fit
    the labels, unseen classes in the training data, classes without signatures, and whether
    :func:`load_xlsa17` accepts every split whose files are present.

    Parameters
    ----------
    folder : str, path or None, default=None
        By default the folder named by ``ZSLEARN_DATA``, else the user's data folder.

    Returns
    -------
    FolderReport
        A table, problems and notes.

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
    """Find the folders with a file of splits, without following links."""
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
    """Return the rows of one data set; add problems to the report."""
    path = home / SPLIT_FILE
    standard = "standard_split" in path.parts  # may come without attributes
    needed = ("train", "test_unseen") if standard else tuple(PART_VARIABLES)
    known = XLSA17.get(home.name)
    row: dict[str, Any] = {"version": "SS" if standard else "?"}
    classes = None
    with _reported(report, title):
        parts = read_parts(path, needed, None)
        row |= {part.replace("_", " "): len(indices) for part, indices in parts.items()}
        for first, second in combinations(parts, 2):
            if shared := len(np.intersect1d(parts[first], parts[second])):
                report.problems.append(
                    f"{title}: {PART_VARIABLES[first]} and {PART_VARIABLES[second]} share "
                    f"{shared} samples."
                )
        if not standard:
            row["version"] = found_version(path, parts)[0]
            sizes = tuple(len(parts[part]) for part in PART_VARIABLES)
            if known is not None and sizes != known.sizes:
                report.notes.append(
                    f"{title}: the parts have sizes {sizes}; the published ones are {known.sizes}."
                )
            if leak := tuning_leak(path, parts):
                report.notes.append(
                    f"{title}: train_loc and val_loc contain {leak} samples of test_seen_loc, as "
                    "published in PS1; never tune on them."
                )
    with _reported(report, title):
        if not standard:
            classes = read_classes(home, "att" if home.name == "FLO" else DEFAULT_SIGNATURES)
            row["classes"], row["attributes"] = next(iter(classes.views.values())).shape
    rows = {}
    for file in feature_files(home):
        where = f"{title} {file}"
        with _reported(report, title):
            try:
                X, numbers = read_features(home / file)
            except NoFeaturesError as error:
                if file == DEFAULT_FEATURES:  # which must contain features
                    raise
                report.notes.append(f"{title}: {error}")
                continue
            if bad := int(X.size - np.isfinite(X).sum()):
                report.notes.append(
                    f"{where}: {bad} values are not finite; methods replace them by 0."
                )
            rows[where] = row | {"samples": len(X), "features": X.shape[1], "NaN": bad}
            if classes is None:
                continue
            classes.check_labels(numbers, home / file)
            reader = SplitReader(home.name, home, root, classes.names)
            for split in known.splits if known else ["ns", "ss"]:
                with _reported(report, f"{home.name} {file}"):
                    try:
                        made = reader.read(split, numbers)
                    except (FileNotFoundError, NoClassListError):
                        continue
                    data_set(home.name, X, numbers, classes, {split: made}, file)
                    if split == "ns":
                        rows[where]["seen"] = made.seen_classes.size
                        rows[where]["unseen"] = made.unseen_classes.size
    if not rows and not standard:
        report.notes.append(f"{title}: there is no file of features, so it cannot be loaded yet.")
    return rows or {title: row}


@contextmanager
def _reported(report: FolderReport, where: str) -> Iterator[None]:
    """Turn errors of the readers into problems."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        report.problems.append(f"{where}: {error}")
