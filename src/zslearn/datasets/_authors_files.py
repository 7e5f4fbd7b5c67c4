"""The authors' files of class orders and hold-outs: where they lie, and what they hold.

Their program numbers classes as xlsa17 does. ``class_order`` counts in the sorted numbers of the
seen classes, ``tr_hold_ind`` in the training samples as the split lists them, and ``CV_hold_ind``
and ``CV_hold_loc`` (one cell per seen class) in what is left of them. All count from 1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.datasets._home import data_home
from zslearn.datasets._mat import read_mat
from zslearn.datasets._xlsa17_files import check_indices

AUTHORS = "authors"
# Kind of file → the folder it lies in as released.
_RELEASED_IN = {"class_info": "class_info", "GZSL_inform": "GZSL_info"}


def authors_file(
    name: str, split: str, kind: str, folders: Sequence[str | os.PathLike[str] | None]
) -> Path:
    """Find one of the authors' files.

    Parameters
    ----------
    name : str
        The data set.
    split : str
        Name of the split.
    kind : {"class_info", "GZSL_inform"}
        Which file.
    folders : sequence of str, path or None
        Where to look, in turn; None means the folder ``authors`` among the data.

    Returns
    -------
    Path
        The file.
    """
    series = "_PS" if split == "ns" else "" if split.startswith("ss-") else "_SS"
    file = f"{name}{series}_{kind}.mat"
    roots = [data_home() / AUTHORS if folder is None else Path(folder) for folder in folders]
    for root in roots:
        for place in (root, root / _RELEASED_IN[kind]):
            if (place / file).is_file():
                return place / file
    raise FileNotFoundError(
        f"There is no {file} in {' or '.join(map(str, dict.fromkeys(roots)))}. It comes with the "
        "authors' program: put its folders class_info and GZSL_info there, or the files in them."
    )


@dataclass(frozen=True)
class HoldOuts:
    """Positions from 0 that a file of hold-outs gives, as far as it gives them.

    Parameters
    ----------
    path : Path
        The file.
    test_seen : ndarray or None
        Test samples of seen classes, among the training samples of the split.
    tuning : ndarray or None
        Samples held aside while tuning, among the training samples that are left.
    by_class : list of ndarray or None
        The same, class by class.
    """

    path: Path
    test_seen: NDArray[np.intp] | None
    tuning: NDArray[np.intp] | None
    by_class: list[NDArray[np.intp]] | None

    def fit_test_seen(self, codes: NDArray[np.intp]) -> bool:
        """Whether about a fifth of each class is held out as test samples of seen classes."""
        return self.test_seen is not None and _a_fifth_of_each(codes, self.test_seen)

    def fit_tuning(self, codes: NDArray[np.intp]) -> bool:
        """Whether what is held aside while tuning is of the classes that the file says."""
        if self.by_class is None:
            return self.tuning is None or _a_fifth_of_each(codes, self.tuning)
        return len(self.by_class) == len(np.unique(codes)) and all(
            positions.max() < len(codes) and (codes[positions] == code).all()
            for code, positions in enumerate(self.by_class)
        )


def _a_fifth_of_each(codes: NDArray[np.intp], positions: NDArray[np.intp]) -> bool:
    """Whether about a fifth of each class is held out; positions in another order mix classes."""
    if positions.max() >= len(codes):
        return False
    count = np.bincount(codes)
    share = np.bincount(codes[positions], minlength=len(count)) / count
    return bool((np.abs(share - 0.2) <= 0.5 / count + 0.05).all())


def read_hold_outs(path: Path, split: str) -> HoldOuts:
    """Read a file of hold-outs.

    Parameters
    ----------
    path : Path
        ``NAME_PS_GZSL_inform.mat`` or its like.
    split : str
        Name of the split; some files hold one entry per class split.

    Returns
    -------
    HoldOuts
        Its positions.
    """
    names = ("tr_hold_ind", "CV_hold_ind", "CV_hold_loc")
    found = read_mat(path, set(names))
    if not found:
        raise ValueError(
            f"{path}: there is none of {', '.join(names)} in it; this is no file of the authors' "
            "hold-outs (NAME_PS_GZSL_inform.mat, NAME_SS_GZSL_inform.mat)."
        )
    several = [found[name] for name in names[:2] if isinstance(found.get(name), list)]
    if several:
        found = _of_class_split(found, len(several[0]), split, path)

    def positions(name: str) -> NDArray[np.intp] | None:
        return check_indices(found[name], name, path, None) if name in found else None

    by_class = None
    if "CV_hold_loc" in found:
        cells = found["CV_hold_loc"]
        if not isinstance(cells, list):
            raise ValueError(f"{path}: CV_hold_loc is no cell array with one entry per class.")
        by_class = [check_indices(cell, "CV_hold_loc", path, None) for cell in cells]
    return HoldOuts(path, positions("tr_hold_ind"), positions("CV_hold_ind"), by_class)


def _of_class_split(found: dict[str, Any], n_splits: int, split: str, path: Path) -> dict[str, Any]:
    """The entries of one class split, from cell arrays with one row per class split."""
    word = split.partition("-")[2]
    k = int(word) if word.isdigit() else 0
    if not 1 <= k <= n_splits:
        raise ValueError(f"{path}: the file is for {n_splits} class splits, not for {split!r}.")
    chosen: dict[str, Any] = {}
    for name, cells in found.items():
        # Cells are read column by column, so that every n-th is of the same row.
        entries = cells[k - 1 :: n_splits] if isinstance(cells, list) else cells
        if name == "CV_hold_loc":
            # Rows of splits with fewer classes are filled up with empty cells.
            chosen[name] = [cell for cell in entries if np.size(cell)]
        elif len(entries) == 1:
            chosen[name] = entries[0]
        else:
            raise ValueError(f"{path}: {name} does not hold one entry per class split.")
    return chosen
