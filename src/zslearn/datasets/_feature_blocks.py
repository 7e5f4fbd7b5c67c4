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

from zslearn._utils._blocks import Block, RowsInBlocks, block_length, read_ahead
from zslearn._utils._files import regular_size
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import name_some
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import Budget, reading
from zslearn.datasets._array_files import (
    ArrayRows,
    NpyRows,
    RowFile,
    RowsAndLabels,
    ZarrRows,
    is_zarr,
    open_parquet,
)


class TableRows(RowFile):
    """Rows of a Parquet file, or of ``.arrow`` or ``.feather`` in Arrow's format.

    `features` is a column of vectors; where there is none, every column of numbers but `label`,
    which may be absent, is a feature.
    """

    def __init__(self, path: Path, features: str, label: str) -> None:
        self.path, self.name, self._label = path, str(path), label
        self._state = regular_size(path), path.stat().st_mtime_ns
        self._table = _ParquetFile(path) if path.suffix == ".parquet" else _ArrowFile(path)
        schema = self._table.schema
        self.has_labels = label in schema.names
        self._is_vector = features in schema.names
        self._columns = [features] if self._is_vector else _numbers(schema, label, path)
        self.shape = self._table.n_rows, self._width()

    def _width(self) -> int:
        """Number of features; of a column of vectors it is that of the first."""
        types = [self._table.schema.field(name).type for name in self._columns]
        if not self._is_vector:
            self.dtype = np.result_type(*[kind.to_pandas_dtype() for kind in types])
            return len(types)
        try:
            self.dtype = np.dtype(types[0].value_type.to_pandas_dtype())
        except (AttributeError, TypeError, NotImplementedError):
            raise ValueError(
                f"{self.path}: column {self._columns[0]!r} holds {types[0]}, not lists of numbers."
            ) from None
        if hasattr(types[0], "list_size"):
            return int(types[0].list_size)
        for rows, _ in self.read(0, 1):
            return rows.shape[1]
        return 0

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        """Read batches of the table, cut to at most `length` rows."""
        wanted = [*self._columns, *([self._label] if self.has_labels else [])]
        at = 0
        for batch in self._batches(start, length, wanted):
            at += len(batch)
            features = self._features(batch, start + at)
            labels = self._labels(batch.column(self._label)) if self.has_labels else None
            yield features, labels
        if start + at != self._table.n_rows:
            raise ValueError(
                f"{self.path}: {start + at} rows came of the {self._table.n_rows} that the file "
                "announces; it is damaged."
            )

    def _batches(self, start: int, length: int, columns: list[str]) -> Iterator[Any]:
        with reading(self.path, "the rows"):
            status = self.path.stat()
            if (status.st_size, status.st_mtime_ns) != self._state:
                raise ValueError("the file changed after it was opened")
            for batch in self._table.batches(start, length, columns):
                for first in range(0, len(batch), length):
                    yield batch.slice(first, length)

    def _features(self, batch: Any, stop: int) -> NDArray[Any]:
        if not self._is_vector:
            columns = [_plain(batch.column(name)) for name in self._columns]
            return np.stack(columns, axis=1).astype(self.dtype, copy=False)
        vectors = batch.column(self._columns[0])
        where = f"{self.path}: among the rows before {stop},"
        if vectors.null_count:
            raise ValueError(f"{where} {vectors.null_count} have no features.")
        flat = _plain(vectors.flatten())
        if not len(batch) or len(flat) % len(batch):
            raise ValueError(f"{where} vectors in {self._columns[0]!r} differ in length.")
        if not hasattr(vectors.type, "list_size"):
            lengths = np.diff(np.asarray(vectors.offsets))
            if (lengths != lengths[0]).any():
                raise ValueError(f"{where} vectors in {self._columns[0]!r} differ in length.")
        return flat.reshape(len(batch), -1).astype(self.dtype, copy=False)

    def _labels(self, column: Any) -> NDArray[Any]:
        if column.null_count:
            raise ValueError(f"{self.path}: {column.null_count} rows of a block have no label.")
        if hasattr(column, "dictionary_decode"):
            column = column.dictionary_decode()
        values = column.to_numpy(zero_copy_only=False)
        return values.astype(str) if values.dtype.kind == "O" else values

    def identity(self) -> list[Any]:
        """Also the size of the file and when it was written."""
        return [*super().identity(), *self._state]


class _ParquetFile:
    """Batches of a Parquet file; groups of rows before the first that is wanted are passed over."""

    def __init__(self, path: Path) -> None:
        self._file = open_parquet(path, Budget(path))
        self.schema = self._file.schema_arrow
        self.n_rows = self._file.metadata.num_rows

    def batches(self, start: int, length: int, columns: list[str]) -> Iterator[Any]:
        sizes = [
            self._file.metadata.row_group(i).num_rows for i in range(self._file.num_row_groups)
        ]
        first, skip = 0, start
        while first < len(sizes) and sizes[first] <= skip:
            skip -= sizes[first]
            first += 1
        wanted = list(range(first, len(sizes)))
        for batch in self._file.iter_batches(length, row_groups=wanted, columns=columns):
            if skip < len(batch):
                yield batch.slice(skip)
            skip = max(0, skip - len(batch))


class _ArrowFile:
    """Batches of a file in Arrow's own format."""

    def __init__(self, path: Path) -> None:
        arrow = _pyarrow("pyarrow", path)
        with reading(path, "the table"):
            # Not mapped: a map of a file that is cut off would end the process.
            self._reader = _pyarrow("pyarrow.ipc", path).open_file(arrow.OSFile(str(path)))
            self.schema = self._reader.schema
            sizes = [len(self._reader.get_batch(i)) for i in range(self._reader.num_record_batches)]
        self._sizes, self.n_rows = sizes, sum(sizes)

    def batches(self, start: int, length: int, columns: list[str]) -> Iterator[Any]:
        before = 0
        for number, size in enumerate(self._sizes):
            if before + size > start:
                batch = self._reader.get_batch(number).select(columns)
                yield batch.slice(max(0, start - before))
            before += size


def _pyarrow(module: str, path: Path) -> Any:
    return import_optional(module, f"Reading {path.name}")


def _numbers(schema: Any, label: str, path: Path) -> list[str]:
    """Columns that are features, in the order of the table; all but the label must be numbers."""
    names = [name for name in schema.names if name != label]
    types = _pyarrow("pyarrow.types", path)
    kinds = {name: schema.field(name).type for name in names}
    other = [n for n, t in kinds.items() if not (types.is_floating(t) or types.is_integer(t))]
    if other or not names:
        raise ValueError(
            f"{path}: these columns are not numbers: {name_some(other)}. Name the column of "
            "vectors with features=…, and that of the labels with label=…"
        )
    return names


def _plain(column: Any) -> NDArray[Any]:
    """Numbers of a column; what is missing is NaN."""
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(np.float64) if values.dtype.kind == "O" else values


_TABLES = (".parquet", ".arrow", ".feather")
_ENDINGS = (".npy", *_TABLES)

PathLike = str | os.PathLike[str]


class FeatureBlocks(RowsInBlocks):
    """Rows of features that are read from disk a block at a time.

    It stands in the place of `X`: `fit` and `partial_fit` of methods that learn from class
    statistics or Gram matrices, and what every estimator predicts. The next block is read by a
    thread while one is computed with. :ref:`cluster` has examples.

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
        self._begin([ArrayRows(X)], labels, block_bytes, read_ahead, allow_nan)

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
        blocks = cls.__new__(cls)
        blocks._begin(files, labels, block_bytes, read_ahead, allow_nan)
        return blocks

    def _begin(
        self,
        files: Sequence[RowFile],
        labels: Any,
        block_bytes: int,
        depth: int,
        allow_nan: bool,
    ) -> None:
        _check_shards(files)
        self._files, self._labels = files, None
        self._label_files = [] if labels is None else _label_files(labels)
        self._ends = list(accumulate(file.shape[0] for file in files))
        self.shape = self._ends[-1], files[0].shape[1]
        self.dtype = np.result_type(*[file.dtype for file in files])
        self.block_bytes, self.read_ahead, self.allow_nan = block_bytes, depth, allow_nan
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
        return fingerprint([file.identity() for file in (*self._files, *self._label_files)])

    def _read(self, start: int) -> Iterator[Block]:
        n_bytes = self.shape[1] * self.dtype.itemsize
        length = block_length(n_bytes, self.block_bytes)
        at = start
        for number in range(bisect_right(self._ends, start), len(self._files)):
            file = self._files[number]
            before = self._ends[number] - file.shape[0]
            for rows, own in file.read(at - before, length):
                self._check(rows, file, at - before)
                labels = own if self._labels is None else self._labels[at : at + len(rows)]
                yield Block(at, rows.astype(self.dtype, copy=False), labels)
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


def _label_files(labels: Any) -> list[RowFile]:
    """Labels as an array, one file, or a list of files; a list of strings is a list of labels."""
    if isinstance(labels, (str, os.PathLike)):
        return [NpyRows(Path(labels))]
    if isinstance(labels, (list, tuple)) and all(isinstance(part, os.PathLike) for part in labels):
        return [NpyRows(Path(part)) for part in labels]
    return [ArrayRows(np.asarray(labels), "labels")]


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
