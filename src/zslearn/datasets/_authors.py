"""Read the class orders and hold-outs of the paper's own experiments from the authors' files.

The authors number classes as xlsa17 does. ``class_order`` indexes the sorted numbers of the seen
classes, ``tr_hold_ind`` the training samples in the order of the split, and ``CV_hold_ind`` and
``CV_hold_loc`` (one cell per seen class) the remaining training samples; all start at 1.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._reading import data_home
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._mat import read_mat
from zslearn.datasets._xlsa17_files import (
    PART_VARIABLES,
    SPLIT_FILE,
    check_indices,
    feature_files,
    find_data_set,
)

AUTHORS = "authors"
# Kind of file → its folder in the release.
_RELEASED_IN = {"class_info": "class_info", "GZSL_inform": "GZSL_info"}


def authors_file(
    name: str, split: str, kind: str, folders: Sequence[str | os.PathLike[str] | None]
) -> Path:
    """Find one of the authors' files."""
    file = f"{name}_{'PS' if split == 'ns' else 'SS'}_{kind}.mat"
    roots = [data_home() / AUTHORS if folder is None else Path(folder) for folder in folders]
    for root in roots:
        for place in (root, root / _RELEASED_IN[kind]):
            if (place / file).is_file():
                return place / file
    raise FileNotFoundError(
        f"There is no {file} in {' or '.join(map(str, dict.fromkeys(roots)))}. It comes with the "
        "authors' program: copy its folders class_info and GZSL_info there, or their files."
    )


@dataclass(frozen=True)
class HoldOuts:
    """Positions from 0 that a file of hold-outs gives; None for variables it lacks.

    `test_seen`: test samples of seen classes among the training samples of the split. `tuning`:
    samples held out while tuning, among the remaining ones; `by_class`: the same by class.
    """

    path: Path
    test_seen: NDArray[np.intp] | None
    tuning: NDArray[np.intp] | None
    by_class: list[NDArray[np.intp]] | None

    def fit_tuning(self, codes: NDArray[np.intp]) -> bool:
        """Whether the samples held out while tuning belong to the classes stated in the file."""
        if self.by_class is None:
            return self.tuning is None or is_a_fifth_of_each(codes, self.tuning)
        return len(self.by_class) == len(np.unique(codes)) and all(
            positions.max() < len(codes) and (codes[positions] == code).all()
            for code, positions in enumerate(self.by_class)
        )


def is_a_fifth_of_each(codes: NDArray[np.intp], positions: NDArray[np.intp]) -> bool:
    """Whether about a fifth of each class is held out, as it is if the order of samples fits."""
    if positions.max() >= len(codes):
        return False
    count = np.bincount(codes)
    share = np.bincount(codes[positions], minlength=len(count)) / count
    return bool((np.abs(share - 0.2) <= 0.5 / count + 0.05).all())


def read_hold_outs(path: Path) -> HoldOuts:
    """Read a file of hold-outs."""
    names = ("tr_hold_ind", "CV_hold_ind", "CV_hold_loc")
    found: dict[str, Any] = dict(read_mat(path, names))
    if not found:
        raise ValueError(
            f"{path}: it has none of {', '.join(names)}; give a file of the authors' hold-outs "
            "(NAME_PS_GZSL_inform.mat, NAME_SS_GZSL_inform.mat)."
        )
    test_seen, tuning = (
        check_indices(found[name], name, path, None) if name in found else None
        for name in names[:2]
    )
    by_class = found.get("CV_hold_loc")
    if by_class is not None:
        if not isinstance(by_class, list):
            raise ValueError(f"{path}: CV_hold_loc is not a cell array with one entry per class.")
        by_class = [check_indices(cell, "CV_hold_loc", path, None) for cell in by_class]
    return HoldOuts(path, test_seen, tuning, by_class)


@dataclass(frozen=True, eq=False)
class AuthorsProtocol:
    """Folds of the authors' experiments on one split, read by :func:`load_authors_protocol`.

    Attributes
    ----------
    class_order : ndarray of int of shape (n_seen,)
        Positions in the sorted labels of ``y_train``: `class_order` of
        :class:`~zslearn.model_selection.ClassKFold`.
    held_out : ndarray of int or None
        Rows of ``X_train`` held out while tuning for the generalized setting: `held_out` of
        :class:`~zslearn.model_selection.GeneralizedClassKFold`. None if not requested.
    files : tuple of str
        Names of the files that were read.
    remainder : str
        "drop": the authors' folds have equal size, and remaining classes are never validated.
    """

    class_order: NDArray[np.intp]
    held_out: NDArray[np.intp] | None
    files: tuple[str, ...]
    remainder: str = field(default="drop", init=False)


def load_authors_protocol(
    data: ZeroShotDataset,
    folder: str | os.PathLike[str] | None = None,
    *,
    hold_out: bool = True,
    data_folder: str | os.PathLike[str] | None = None,
) -> AuthorsProtocol:
    """Read the authors' class order and hold-out for the active split of a data set.

    The files come with the authors' program: ``NAME_PS_class_info.mat`` and
    ``NAME_PS_GZSL_inform.mat`` for the split "ns", and SS instead of PS for "ss" and "ss0".
    :ref:`datasets` has an example.

    Parameters
    ----------
    data : ZeroShotDataset
        AWA1, AWA2, CUB or SUN from :func:`load_xlsa17`. For the generalized setting on "ss" or
        "ss0", load it with ``hold_out="authors"``.
    folder : str, path or None, default=None
        The folder of the authors' files, or the one with ``class_info/`` and ``GZSL_info/``. None:
        the folder ``authors`` in the data folder (``ZSLEARN_DATA``).
    hold_out : bool, default=True
        Whether to read the hold-out, which the conventional setting does not need.
    data_folder : str, path or None, default=None
        `folder` of :func:`load_xlsa17`. If training samples are in another order, a MATLAB file
        there with the published order is used.

    Returns
    -------
    AuthorsProtocol
        Class order and hold-out for the labels and training samples of `data`.
    """
    if data.split.startswith("ss-"):
        raise ValueError(
            f"The authors' class orders for {data.name} {data.split!r} are in their files of "
            "GoogLeNet features, which cannot be read; choose 'ns', 'ss' or 'ss0'."
        )
    path = authors_file(data.name, data.split, "class_info", [folder])
    # Sort the seen classes by number, like the rows of the signatures.
    places = data.signatures.index.get_indexer(pd.Index(data.seen_classes))
    numbered = data.seen_classes[np.argsort(places)]
    found = read_mat(path, {"class_order"})
    if "class_order" not in found:
        raise ValueError(f"{path}: there is no variable 'class_order'.")
    order = check_indices(found["class_order"], "class_order", path, None)
    if len(order) != len(numbered) or order.max() >= len(numbered):
        raise ValueError(
            f"{path}: class_order has {len(order)} entries up to {order.max() + 1} for "
            f"{len(numbered)} seen classes; it belongs to another split."
        )
    class_order = np.searchsorted(np.unique(data.y_train), numbered[order])
    if not hold_out:
        return AuthorsProtocol(class_order, None, (path.name,))
    hold_outs = read_hold_outs(authors_file(data.name, data.split, "GZSL_inform", [folder]))
    rows, source = _held_out_rows(data, numbered, hold_outs, data_folder)
    return AuthorsProtocol(class_order, rows, (path.name, hold_outs.path.name, *source))


def _held_out_rows(
    data: ZeroShotDataset,
    numbered: NDArray[Any],
    hold_outs: HoldOuts,
    data_folder: str | os.PathLike[str] | None,
) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Return the held-out rows of ``X_train``, and the file whose order they refer to, if any."""
    if hold_outs.tuning is None:
        raise ValueError(f"{hold_outs.path}: there is no variable 'CV_hold_ind'.")
    code_of = {label: code for code, label in enumerate(numbered.tolist())}
    row_of = {sample: row for row, sample in enumerate(data.active_split.train.tolist())}
    for order, source in _orders(data, data_folder):
        codes = np.array([code_of[label] for label in data.y[order].tolist()])
        if hold_outs.tuning.max() < len(order) and hold_outs.fit_tuning(codes):
            rows = np.sort([row_of[sample] for sample in order[hold_outs.tuning].tolist()])
            return rows, source
    advice = (
        f"put a MATLAB file with trainval_loc in the published order next to {SPLIT_FILE}"
        if data.split == "ns"
        else "load the data with hold_out='authors'"
    )
    raise ValueError(
        f"{hold_outs.path}: these hold-outs do not belong to the classes stated in the file; the "
        f"training samples differ or are in another order. For {data.name} {data.split!r}, "
        f"{advice}; or pass hold_out=False for the conventional setting."
    )


def _orders(
    data: ZeroShotDataset, data_folder: str | os.PathLike[str] | None
) -> Iterator[tuple[NDArray[np.intp], tuple[str, ...]]]:
    """Yield orders of the training samples: as loaded, then those of the data set's other files."""
    train, variable = data.active_split.train, PART_VARIABLES["train"]
    yield train, ()
    if data.split != "ns":
        return
    try:
        home = find_data_set(data_folder, data.name)
    except FileNotFoundError:
        return
    for file in feature_files(home):
        # Damage in files that were not requested does not matter.
        with contextlib.suppress(ValueError, OSError, ImportError, KeyError):
            order = check_indices(
                read_mat(home / file, {variable})[variable], variable, home / file, None
            )
            if np.array_equal(np.sort(order), np.sort(train)):
                yield order, (file,)
