"""The protocol of the paper's own experiments: its class orders and hold-outs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._mat import read_mat
from zslearn.datasets._xlsa17_files import (
    PART_VARIABLES,
    SPLIT_FILE,
    HoldOuts,
    authors_file,
    check_indices,
    feature_files,
    find_data_set,
    read_hold_outs,
)


@dataclass(frozen=True, eq=False)
class AuthorsProtocol:
    """Folds of the authors' experiments on one split, as :func:`load_authors_protocol` reads them.

    Attributes
    ----------
    class_order : ndarray of int of shape (n_seen,)
        Positions in the sorted labels of ``y_train``, in the order in which classes are dealt to
        the folds: `class_order` of :class:`~zslearn.model_selection.ClassKFold`.
    held_out : ndarray of int or None
        Rows of ``X_train`` that are held aside while tuning for the generalized setting, ascending:
        `held_out` of :class:`~zslearn.model_selection.GeneralizedClassKFold`. None where it was
        not asked for.
    files : tuple of str
        Names of the files that it was read from.
    remainder : str
        "drop": the authors' folds are of equal size, and classes that are left over are never
        validated.
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
    ``NAME_PS_GZSL_inform.mat`` for the split "ns", and with SS instead of PS for "ss" and "ss0".

    Parameters
    ----------
    data : ZeroShotDataset
        AWA1, AWA2, CUB or SUN, as :func:`load_xlsa17` gives it. For the generalized setting on "ss"
        or "ss0" load it with ``hold_out="authors"``.
    folder : str, path or None, default=None
        The folder of the authors' files, or with ``class_info/`` and ``GZSL_info/`` as released.
        None means the folder ``authors`` among the data (``ZSLEARN_DATA``).
    hold_out : bool, default=True
        Whether to read the hold-out, too. The conventional setting does not need it.
    data_folder : str, path or None, default=None
        Where the data set was loaded from: `folder` of :func:`load_xlsa17`. See Notes.

    Returns
    -------
    AuthorsProtocol
        For the labels and training samples of `data`.

    Raises
    ------
    FileNotFoundError
        A file is not there.
    ValueError
        A file is damaged, or was made for other classes or for samples in another order.

    Notes
    -----
    The authors count classes by their numbers, our folds by their sorted labels; the order is
    translated. They count samples in the order in which ``trainval_loc`` was published. A copy of
    the split in another order is the same split, but their positions then mean other images. They
    also say which class each position is of, so that this is noticed; another MATLAB file in the
    data set's folder that has the same ``trainval_loc`` in the published order is then used.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from zslearn.datasets import load_authors_protocol, load_xlsa17
    >>> files = tempfile.TemporaryDirectory()
    >>> cub = Path(files.name) / "CUB"
    >>> cub.mkdir()
    >>> savemat(cub / "res101.mat", {"features": np.eye(3, 6), "labels": [[1, 1, 2, 2, 2, 3]]})
    >>> savemat(cub / "att_splits.mat", {
    ...     "original_att": np.eye(3),
    ...     "allclasses_names": np.array(["wren", "gull", "ibis"], dtype=object),
    ...     "trainval_loc": [[1, 2, 3, 4]], "test_seen_loc": [[5]], "test_unseen_loc": [[6]]})
    >>> savemat(Path(files.name) / "CUB_PS_class_info.mat", {"class_order": [[1, 2]]})
    >>> data = load_xlsa17("CUB", folder=files.name)
    >>> protocol = load_authors_protocol(data, files.name, hold_out=False)
    >>> protocol.class_order  # class 1 is the wren, the second of the sorted labels
    array([1, 0])
    >>> files.cleanup()
    """
    if data.split.startswith("ss-"):
        raise ValueError(
            f"The authors' class orders for {data.name} {data.split!r} lie in their files of "
            "GoogLeNet features, which are not read; there are orders for 'ns', 'ss' and 'ss0'."
        )
    path = authors_file(data.name, data.split, "class_info", [folder])
    numbered = _seen_by_number(data)
    found = read_mat(path, {"class_order"})
    if "class_order" not in found:
        raise ValueError(f"{path}: there is no variable 'class_order'.")
    order = check_indices(found["class_order"], "class_order", path, None)
    if len(order) != len(numbered) or order.max() >= len(numbered):
        raise ValueError(
            f"{path}: class_order has {len(order)} entries up to {order.max() + 1} for "
            f"{len(numbered)} seen classes; it was made for another split."
        )
    class_order = np.searchsorted(np.unique(data.y_train), numbered[order])
    if not hold_out:
        return AuthorsProtocol(class_order, None, (path.name,))
    hold_outs = read_hold_outs(
        authors_file(data.name, data.split, "GZSL_inform", [folder]), data.split
    )
    rows, source = _held_out_rows(data, numbered, hold_outs, data_folder)
    return AuthorsProtocol(class_order, rows, (path.name, hold_outs.path.name, *source))


def _seen_by_number(data: ZeroShotDataset) -> NDArray[Any]:
    """The seen classes in the order of their numbers, as the rows of the signatures are."""
    places = data.signatures.index.get_indexer(pd.Index(data.seen_classes))
    return data.seen_classes[np.argsort(places)]


def _held_out_rows(
    data: ZeroShotDataset,
    numbered: NDArray[Any],
    hold_outs: HoldOuts,
    data_folder: str | os.PathLike[str] | None,
) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Rows of ``X_train`` that are held aside, and the file whose order they count in, if any."""
    if hold_outs.tuning is None:
        raise ValueError(f"{hold_outs.path}: there is no variable 'CV_hold_ind'.")
    train = data.active_split.train
    code_of = {label: code for code, label in enumerate(numbered.tolist())}
    row_of = {sample: row for row, sample in enumerate(train.tolist())}
    for order, source in _orders(data, data_folder):
        codes = np.array([code_of[label] for label in data.y[order].tolist()])
        if hold_outs.tuning.max() < len(order) and hold_outs.fit_tuning(codes):
            rows = np.sort([row_of[sample] for sample in order[hold_outs.tuning].tolist()])
            return rows, source
    advice = (
        f"put a MATLAB file with trainval_loc in the published order beside {SPLIT_FILE}"
        if data.split == "ns"
        else "load the data with hold_out='authors'"
    )
    raise ValueError(
        f"{hold_outs.path}: these hold-outs are not of the classes that the file says; they were "
        f"made for training samples in another order, or for others. For {data.name} "
        f"{data.split!r}, {advice}; or pass hold_out=False, for the conventional setting."
    )


def _orders(
    data: ZeroShotDataset, data_folder: str | os.PathLike[str] | None
) -> Iterator[tuple[NDArray[np.intp], tuple[str, ...]]]:
    """Orders of the training samples: as loaded, then as other files of the data set have it."""
    train = data.active_split.train
    yield train, ()
    if data.split != "ns":
        return
    try:
        home = find_data_set(data_folder, data.name)
    except FileNotFoundError:
        return
    for file in feature_files(home):
        order = _training_samples(home / file)
        if order is not None and np.array_equal(np.sort(order), np.sort(train)):
            yield order, (file,)


def _training_samples(path: Path) -> NDArray[np.intp] | None:
    """What a file lists as training samples; None where it does not, or cannot be read."""
    variable = PART_VARIABLES["train"]
    try:
        found = read_mat(path, {variable})
        return check_indices(found[variable], variable, path, None) if found else None
    except (ValueError, OSError, ImportError):
        return None  # a file that nobody asked for
