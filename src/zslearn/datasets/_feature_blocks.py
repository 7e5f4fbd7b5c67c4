"""Features on disk, larger than memory: rows and labels a block at a time."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zslearn.datasets._row_files import ArrayRows, NpyRows, RowFile
from zslearn.datasets._table_rows import TableRows
from zslearn.datasets._zarr_rows import ZarrRows, is_zarr
from zslearn.utils import (
    Block,
    RowsInBlocks,
    block_length,
    fingerprint,
    name_some,
    read_ahead,
)

_TABLES = (".parquet", ".arrow", ".feather")
_ENDINGS = (".npy", *_TABLES)

PathLike = str | os.PathLike[str]


class FeatureBlocks(RowsInBlocks):
    """Rows of features that are read from disk a block at a time.

    It stands in the place of `X`: `fit` and `partial_fit` of methods that learn from class
    statistics or Gram matrices, and what every estimator predicts. The next block is read by a
    thread while one is computed with.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Anything with `shape`, `dtype` and slices of rows: a memory map, an HDF5 data set, a Zarr
        array. Files are opened by :meth:`open`.
    labels : array of shape (n_samples,), optional
        Labels, likewise.
    block_bytes : int, default=2**25
        Size of a block.
    read_ahead : int, default=1
        Blocks that may wait; 0 reads without a thread.
    allow_nan : bool, default=False
        Whether NaN and infinity are passed on, to be treated as in an array in memory. By default
        they are an error that names the file and the row.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of features.
    dtype : dtype
        Of the rows.
    has_labels : bool
        Whether labels are known.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import FeatureBlocks, make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "features.npy"), data.X_train)
    ...     blocks = FeatureBlocks.open(Path(folder, "features.npy"), labels=data.y_train)
    ...     model = ESZSL().fit(blocks, None, signatures=data.signatures)
    >>> blocks.shape == data.X_train.shape
    True
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    def __init__(
        self,
        X: Any,
        labels: Any = None,
        *,
        block_bytes: int = 2**25,
        read_ahead: int = 1,
        allow_nan: bool = False,
    ) -> None:
        label_files = None if labels is None else [ArrayRows(np.asarray(labels), "labels")]
        self._begin([ArrayRows(X)], label_files, block_bytes, read_ahead, allow_nan)

    @classmethod
    def open(
        cls,
        paths: PathLike | Sequence[PathLike],
        *,
        labels: Any = None,
        features: str = "features",
        label: str = "label",
        block_bytes: int = 2**25,
        read_ahead: int = 1,
        allow_nan: bool = False,
    ) -> Self:
        """Open files of features.

        Parameters
        ----------
        paths : path or sequence of paths
            A file ``.npy``, ``.parquet``, ``.arrow`` or ``.feather``; a Zarr array or group;
            several such shards, one after another; or a folder that holds nothing else, in the
            order of their names.
        labels : array-like, path or sequence of paths, optional
            Labels of all rows as an array or as one file ``.npy``, or as a list of such files
            (:class:`pathlib.Path`; a list of strings is a list of labels). Tables and Zarr groups
            may hold their own.
        features : str, default="features"
            The column of a table that holds vectors, or the array of a group. Without such a
            column every other one than the label is a feature.
        label : str, default="label"
            The column or the array of the labels.
        block_bytes, read_ahead, allow_nan
            See :class:`FeatureBlocks`.

        Returns
        -------
        FeatureBlocks
            Nothing of the rows is read yet, but their number and width.

        Raises
        ------
        ValueError
            A shard is damaged, empty, of another width than the first, or of an unknown kind.
        OSError
            A file cannot be opened.
        """
        files = [_open(path, features, label) for path in _shards(paths)]
        label_files: list[RowFile] | None = None
        if isinstance(labels, (str, os.PathLike)):
            label_files = [NpyRows(Path(labels))]
        elif isinstance(labels, (list, tuple)) and all(
            isinstance(part, os.PathLike) for part in labels
        ):
            label_files = [NpyRows(Path(part)) for part in labels]
        elif labels is not None:
            label_files = [ArrayRows(np.asarray(labels), "labels")]
        blocks = cls.__new__(cls)
        blocks._begin(files, label_files, block_bytes, read_ahead, allow_nan)
        return blocks

    def _begin(
        self,
        files: Sequence[RowFile],
        label_files: Sequence[RowFile] | None,
        block_bytes: int,
        depth: int,
        allow_nan: bool,
    ) -> None:
        _check_shards(files)
        self._files, self._label_files = files, label_files
        self._ends = list(accumulate(file.shape[0] for file in files))
        self.shape = self._ends[-1], files[0].shape[1]
        self.dtype = np.result_type(*[file.dtype for file in files])
        self.block_bytes, self.read_ahead, self.allow_nan = block_bytes, depth, allow_nan
        if label_files is not None:
            n_labels = sum(file.shape[0] for file in label_files)
            if any(len(file.shape) != 1 for file in label_files) or n_labels != self.shape[0]:
                raise ValueError(
                    f"There are {self.shape[0]} rows of features and {n_labels} labels; give one "
                    "label per row, in one axis."
                )
        with_labels = [file.has_labels for file in files]
        if label_files is None and any(with_labels) != all(with_labels):
            missing = [f.name for f, known in zip(files, with_labels, strict=True) if not known]
            raise ValueError(f"Some shards have labels, but not these: {name_some(missing)}.")
        self.has_labels = label_files is not None or all(with_labels)

    def __repr__(self) -> str:
        n_files = len(self._files)
        of = f"{n_files} shards" if n_files > 1 else self._files[0].name
        labels = "with labels" if self.has_labels else "without labels"
        return f"<FeatureBlocks of {of}: {self.shape[0]} × {self.shape[1]} {self.dtype}, {labels}>"

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Read the rows from some row on.

        Parameters
        ----------
        start : int, default=0
            The first row that is wanted.

        Yields
        ------
        Block
            Rows in their order. Blocks do not reach over the end of a shard.
        """
        yield from read_ahead(self._read(start), self.read_ahead)

    def fingerprint(self) -> str:
        """A digest of which files these are, of what size and when written; not of their rows."""
        files = [*self._files, *(self._label_files or ())]
        return fingerprint([file.identity() for file in files])

    def _read(self, start: int) -> Iterator[Block]:
        n_bytes = self.shape[1] * self.dtype.itemsize
        length = block_length(n_bytes, self.block_bytes)
        labels = None if self._label_files is None else _Run(self._label_files, start)
        at = start
        for number in range(bisect_right(self._ends, start), len(self._files)):
            file = self._files[number]
            before = self._ends[number] - file.shape[0]
            for rows, own in file.read(at - before, length):
                self._check(rows, file, at - before)
                yield Block(
                    at,
                    rows.astype(self.dtype, copy=False),
                    own if labels is None else labels.take(len(rows)),
                )
                at += len(rows)

    def _check(self, rows: NDArray[Any], file: RowFile, first: int) -> None:
        """Refuse rows of another width, and numbers that are not finite."""
        if rows.ndim != 2 or rows.shape[1] != self.shape[1]:
            raise ValueError(
                f"{file.name}: rows from {first} on have {rows.shape[-1]} features, the first "
                f"shard has {self.shape[1]}."
            )
        if self.allow_nan or rows.dtype.kind != "f":
            return
        finite = np.isfinite(rows)
        if not finite.all():
            row = first + int(np.flatnonzero(~finite.all(axis=1))[0])
            raise ValueError(
                f"{file.name}: row {row} holds NaN or infinity. Repair the file, or pass such "
                "numbers on with allow_nan=True."
            )


class _Run:
    """Labels of shards as one run, a few at a time."""

    def __init__(self, files: Sequence[RowFile], start: int) -> None:
        self._parts = self._read(files, start)
        self._rest: NDArray[Any] | None = None

    @staticmethod
    def _read(files: Sequence[RowFile], start: int) -> Iterator[NDArray[Any]]:
        for file in files:
            if start < file.shape[0]:
                for labels, _ in file.read(start, 2**16):
                    yield labels
            start = max(0, start - file.shape[0])

    def take(self, n_labels: int) -> NDArray[Any]:
        """The next labels."""
        parts: list[NDArray[Any]] = []
        while n_labels:
            if self._rest is None or not len(self._rest):
                self._rest = next(self._parts)
            parts.append(self._rest[:n_labels])
            self._rest = self._rest[n_labels:]
            n_labels -= len(parts[-1])
        return np.concatenate(parts)


def _shards(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """The shards that a user named."""
    if not isinstance(paths, (str, os.PathLike)):
        return [Path(path) for path in paths]
    path = Path(paths)
    if not path.is_dir() or is_zarr(path):
        return [path]
    inside = sorted(p for p in path.iterdir() if not p.name.startswith("."))
    unknown = [p.name for p in inside if p.suffix not in _ENDINGS and not is_zarr(p)]
    if unknown:
        raise ValueError(
            f"{path}: the folder also holds {name_some(unknown)}. Name the shards one by one."
        )
    return inside


def _open(path: PathLike, features: str, label: str) -> RowFile:
    path = Path(path)
    if is_zarr(path):
        return ZarrRows(path, features, label)
    if path.suffix == ".npy":
        return NpyRows(path)
    if path.suffix in _TABLES:
        return TableRows(path, features, label)
    raise ValueError(
        f"{path}: neither {', '.join(_ENDINGS)} nor a Zarr array; features are read from these."
    )


def _check_shards(files: Sequence[RowFile]) -> None:
    if not files:
        raise ValueError("There are no shards: the folder or the list is empty.")
    for file in files:
        if len(file.shape) != 2:
            raise ValueError(
                f"{file.name}: an array of {len(file.shape)} axes; one row per image is needed."
            )
        if not file.shape[0] or not file.shape[1]:
            raise ValueError(f"{file.name}: the shard is empty, of shape {file.shape}.")
        if file.shape[1] != files[0].shape[1]:
            raise ValueError(
                f"{file.name}: rows of {file.shape[1]} features, and {files[0].name} has "
                f"{files[0].shape[1]}: every shard needs the same."
            )
        if file.dtype.kind not in "biuf":
            raise ValueError(f"{file.name}: features must be real numbers, not {file.dtype}.")
