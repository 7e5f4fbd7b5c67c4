"""Read features that do not fit into memory, one block of rows at a time."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Block, RowsInBlocks, block_length, read_ahead
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import name_some
from zslearn._utils._remote import Location, located
from zslearn.datasets._array_files import ArrayRows, NpyRows, RowFile, TableRows, ZarrRows, is_zarr

_TABLES = (".parquet", ".arrow", ".feather")
_ENDINGS = (".npy", *_TABLES)

_OPENED_AT_ONCE = 16

PathLike = str | os.PathLike[str]


class FeatureBlocks(RowsInBlocks):
    """Features and labels that are read from disk one block at a time.

    Every estimator predicts from it, and methods that learn from class statistics or Gram matrices
    accept it as `X` in `fit` and `partial_fit`. A thread reads the next block during computations.
    :ref:`cluster` has examples.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Any array with `shape`, `dtype` and row slicing: a memory map, an HDF5 data set, a Zarr
        array. Use :meth:`open` for files.
    labels : array of shape (n_samples,), optional
        Labels.
    block_bytes : int, default=2**25
        Size of a block.
    read_ahead : int, default=1
        Number of blocks to read in advance; 0 reads without a thread.
    allow_nan : bool, default=False
        Whether to pass on NaN and infinity. By default they raise an error that names the file and
        the row.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and features.
    dtype : dtype
        Data type of the rows.
    has_labels : bool
        Whether labels are known.
    shard_ends : list of int
        The row after the last one of each file.
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
        # `open` passes a list of files.
        is_opened = isinstance(X, list) and all(isinstance(file, RowFile) for file in X)
        files: list[RowFile] = X if is_opened else [ArrayRows(X)]
        _check_shards(files)
        self._files, self._labels = files, None
        self._label_files = [] if labels is None else _label_files(labels)
        self.shard_ends = list(accumulate(file.shape[0] for file in files))
        self.shape = self.shard_ends[-1], files[0].shape[1]
        self.dtype = np.result_type(*{file.dtype for file in files})
        self.block_bytes, self.read_ahead, self.allow_nan = block_bytes, read_ahead, allow_nan
        if self._label_files:
            n_labels = sum(file.shape[0] for file in self._label_files)
            if any(len(file.shape) != 1 for file in self._label_files) or n_labels != self.shape[0]:
                raise ValueError(
                    f"There are {self.shape[0]} rows of features and {n_labels} labels; give one "
                    "label per row, in one axis."
                )
            parts = [part for file in self._label_files for part, _ in file.read(0, 2**16)]
            self._labels = np.concatenate(parts)
        missing = [file.name for file in files if not file.has_labels]
        if self._labels is None and 0 < len(missing) < len(files):
            raise ValueError(f"Some shards have labels, but not these: {name_some(missing)}.")
        self.has_labels = self._labels is not None or not missing

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
        """Open files of features; only their headers are read.

        Parameters
        ----------
        paths : path, URL, or sequence of these
            A ``.npy``, ``.parquet``, ``.arrow`` or ``.feather`` file; a Zarr array or group; a list
            of such shards; or a folder that holds only shards, which are read in order of name.
            URLs such as ``s3://bucket/folder`` need fsspec and cannot name Zarr arrays, which
            :class:`FeatureBlocks` takes when they are open.
        labels : array-like, path, URL, or sequence of paths, optional
            Labels of all rows as an array, a ``.npy`` file, or a list of such files
            (:class:`pathlib.Path`; a list of strings is a list of labels). Tables and Zarr groups
            can contain labels.
        features : str, default="features"
            The column of a table that holds vectors, or the array of a group. Without such a
            column, every column except the label is a feature.
        label : str, default="label"
            The column or array of labels.
        block_bytes, read_ahead, allow_nan
            See :class:`FeatureBlocks`.

        Returns
        -------
        FeatureBlocks
            The opened files as one array of rows.
        """
        shards = _shards(paths)
        opened = partial(_open, features=features, label=label)
        if all(isinstance(path, Path) for path in shards):
            files = [opened(path) for path in shards]
        else:
            # Reading a header at a URL is mostly waiting. Threads keep the memory limit for files.
            with ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:
                parts = [pool.submit(copy_context().run, opened, path) for path in shards]
                files = [part.result() for part in parts]
        return cls(
            files, labels, block_bytes=block_bytes, read_ahead=read_ahead, allow_nan=allow_nan
        )

    def __repr__(self) -> str:
        n_files = len(self._files)
        of = f"{n_files} shards" if n_files > 1 else self._files[0].name
        labels = "with labels" if self.has_labels else "without labels"
        return f"<FeatureBlocks of {of}: {self.shape[0]} × {self.shape[1]} {self.dtype}, {labels}>"

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Iterate over the rows in blocks.

        Parameters
        ----------
        start : int, default=0
            The first row.

        Yields
        ------
        Block
            Consecutive rows of one shard.
        """
        yield from read_ahead(self._read(start), self.read_ahead)

    def fingerprint(self) -> str:
        """Return a digest of the names, sizes and modification times of the files."""
        return fingerprint([file.identity() for file in (*self._files, *self._label_files)])

    def _read(self, start: int) -> Iterator[Block]:
        n_bytes = self.shape[1] * self.dtype.itemsize
        length = block_length(n_bytes, self.block_bytes)
        at = start
        for number in range(bisect_right(self.shard_ends, start), len(self._files)):
            file = self._files[number]
            before = self.shard_ends[number] - file.shape[0]
            for rows, own in file.read(at - before, length):
                self._check_finite(rows, file, at - before)
                labels = own if self._labels is None else self._labels[at : at + len(rows)]
                yield Block(at, rows.astype(self.dtype, copy=False), labels)
                at += len(rows)

    def _check_finite(self, rows: NDArray[Any], file: RowFile, first: int) -> None:
        if self.allow_nan or rows.dtype.kind != "f" or (finite := np.isfinite(rows)).all():
            return
        row = first + int(np.flatnonzero(~finite.all(axis=1))[0])
        raise ValueError(
            f"{file.name}: row {row} contains NaN or infinity. Repair the file, or pass "
            "allow_nan=True."
        )


def _label_files(labels: Any) -> list[RowFile]:
    """Open labels given as an array, one file, or a list of files."""
    if isinstance(labels, (str, os.PathLike)):
        return [NpyRows(located(labels))]
    if isinstance(labels, (list, tuple)) and all(isinstance(part, os.PathLike) for part in labels):
        return [NpyRows(Path(part)) for part in labels]
    return [ArrayRows(np.asarray(labels), "labels")]


def _shards(paths: PathLike | Sequence[PathLike]) -> list[Location]:
    """List the shards."""
    if not isinstance(paths, (str, os.PathLike)):
        return [located(path) for path in paths]
    path = located(paths)
    if _is_zarr(path) or not path.is_dir():
        return [path]
    inside = sorted((p for p in path.iterdir() if not p.name.startswith(".")), key=str)
    unknown = [p.name for p in inside if p.suffix not in _ENDINGS and not _is_zarr(p)]
    if unknown:
        raise ValueError(
            f"{path}: the folder also holds {name_some(unknown)}. List the shards instead."
        )
    return inside


def _is_zarr(path: Location) -> bool:
    return isinstance(path, Path) and is_zarr(path)


def _open(path: Location, features: str, label: str) -> RowFile:
    if isinstance(path, Path) and is_zarr(path):
        return ZarrRows(path, features, label)
    if path.suffix == ".npy":
        return NpyRows(path)
    if path.suffix in _TABLES:
        return TableRows(path, features, label)
    raise ValueError(f"{path}: features must be in a {', '.join(_ENDINGS)} file or a Zarr array.")


def _check_shards(files: Sequence[RowFile]) -> None:
    if not files:
        raise ValueError("There are no shards: the folder or the list is empty.")
    for file in files:
        if len(file.shape) != 2:
            raise ValueError(
                f"{file.name}: the array has {len(file.shape)} axes; give one row per image."
            )
        if not file.shape[0] or not file.shape[1]:
            raise ValueError(f"{file.name}: the shard is empty, of shape {file.shape}.")
        if file.shape[1] != files[0].shape[1]:
            raise ValueError(
                f"{file.name} has {file.shape[1]} features, but {files[0].name} has "
                f"{files[0].shape[1]}."
            )
        if file.dtype.kind not in "biuf":
            raise ValueError(f"{file.name}: features must be real numbers, not {file.dtype}.")
