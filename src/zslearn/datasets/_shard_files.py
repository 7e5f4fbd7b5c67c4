"""Where the rows of each class lie: a file per class, or one store with all of them.

A layout knows the names of its shards, the shape and dtype of each, and reads some rows of one.
Nothing is read before it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zslearn.datasets._array_files import read_array
from zslearn.datasets._limits import Budget, FileLimitError, reason
from zslearn.datasets._mat_hdf5 import reserve_data_set
from zslearn.datasets._mat_values import MatFileError
from zslearn.datasets._parquet_files import reserve_table
from zslearn.datasets._row_files import NpyRows
from zslearn.datasets._zarr_rows import array_names, open_array
from zslearn.utils import import_optional, name_some

#: Columns of a table that may hold the class of a row.
_LABEL_COLUMNS = ("wnid", "class", "label")
#: The array that is taken out of an HDF5 file of several.
_DATA_SET = "features"
#: A file of NumPy that is no longer may hold a header and nothing else.
_HEADER_BYTES = 128


class _ShardError(ValueError):
    """What is wrong with a shard, without its name."""


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Say which shard an error is about, whatever library raised it."""
    try:
        yield
    except (FileLimitError, ImportError):
        raise
    except (MatFileError, _ShardError) as error:
        raise ValueError(f"{where}: {error}") from error
    # The libraries have errors of their own, and a damaged file can raise nearly any other.
    except Exception as error:
        raise ValueError(f"{where}: it cannot be read ({reason(error)}).") from error


class Layout(Protocol):
    """How shards are stored."""

    def names(self) -> list[str]:
        """Names of the shards."""

    def shape(self, name: str) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype of a shard."""

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Some rows of a shard."""

    def where(self, name: str) -> str:
        """What to call a shard in a message."""


class NpyFiles:
    """A file ``<class>.npy`` per class, memory-mapped."""

    suffix = ".npy"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        """Names of the files, without their ending."""
        return sorted(path.stem for path in self._folder.glob(f"*{self.suffix}"))

    def shape(self, name: str) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype by the header."""
        array = self._open(name)
        return array.shape, array.dtype

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Some rows, in memory."""
        return np.array(self._open(name)[start:stop])

    def where(self, name: str) -> str:
        """The path of the file."""
        return str(self._folder / f"{name}{self.suffix}")

    def _open(self, name: str) -> NDArray[Any]:
        path = Path(self.where(name))
        # An array of no rows cannot be mapped; it is a header alone.
        if path.stat().st_size <= _HEADER_BYTES and 0 in NpyRows(path).shape:
            return np.empty((0, 0), dtype=np.float32)
        return read_array(path)


class HDF5Files:
    """A file ``<class>.h5`` per class, with one array, or one that is called "features"."""

    suffix = ".h5"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._h5py = import_optional("h5py", "Reading .h5 shards")

    def names(self) -> list[str]:
        """Names of the files, without their ending."""
        return sorted(path.stem for path in self._folder.glob(f"*{self.suffix}"))

    def shape(self, name: str) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype as the file declares them."""
        with self._reading(name), self._file(name) as file:
            data = self._data(file, name)
            reserve_data_set(data, _DATA_SET, Budget(Path(self.where(name))))
            return tuple(data.shape), data.dtype

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Some rows, in memory."""
        with self._reading(name), self._file(name) as file:
            return np.asarray(self._data(file, name)[start:stop])

    def where(self, name: str) -> str:
        """The path of the file."""
        return str(self._folder / f"{name}{self.suffix}")

    def _file(self, name: str) -> Any:
        return self._h5py.File(self.where(name), "r")

    def _reading(self, name: str) -> AbstractContextManager[None]:
        return _reading(self.where(name))

    def _data(self, file: Any, name: str) -> Any:
        # A link to another file is not followed.
        hard = [n for n in file if isinstance(file.get(n, getlink=True), self._h5py.HardLink)]
        arrays = [n for n in hard if isinstance(file[n], self._h5py.Dataset)]
        chosen = _DATA_SET if _DATA_SET in arrays else arrays[0] if len(arrays) == 1 else None
        if chosen is None:
            raise _ShardError(f"it holds {len(arrays)} arrays; name one of them {_DATA_SET!r}.")
        return file[chosen]


class ZarrStore:
    """One Zarr group with an array per class."""

    def __init__(self, path: Path) -> None:
        self._path = path
        import_optional("zarr", "Reading a Zarr store")
        self._arrays: dict[str, Any] = {}

    def names(self) -> list[str]:
        """Names of the arrays."""
        return array_names(self._path)

    def shape(self, name: str) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype as the store declares them."""
        array = self._arrays[name] = open_array(self._path / name)
        return tuple(array.shape), array.dtype

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Some rows, in memory."""
        with _reading(self.where(name)):
            return np.asarray(self._arrays[name][start:stop])

    def where(self, name: str) -> str:
        """The store and the array."""
        return f"{self._path}, array {name}"


class ParquetStore:
    """One parquet file: a column with the class of each row, and a column per feature.

    The rows of a class stand together, so that a shard is a range of rows.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        parquet = import_optional("pyarrow.parquet", f"Reading {path.name}")
        with _reading(str(path)), open(path, "rb") as file:
            reserve_table(parquet.ParquetFile(file).metadata, file, Budget(path))
            self._file = parquet.ParquetFile(path, page_checksum_verification=True)
        columns = list(self._file.schema_arrow.names)
        labels = [name for name in _LABEL_COLUMNS if name in columns]
        if len(labels) != 1:
            raise ValueError(
                f"{path}: one column must hold the class of each row and be called 'wnid', "
                f"'class' or 'label'; there are {name_some(columns)}."
            )
        self._label = labels[0]
        self._features = [name for name in columns if name != self._label]
        sizes = [
            self._file.metadata.row_group(i).num_rows for i in range(self._file.num_row_groups)
        ]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        with _reading(str(path)):
            self._ranges = self._find_ranges()

    def _find_ranges(self) -> dict[str, tuple[int, int]]:
        """First row and row behind the last of each class."""
        ranges: dict[str, tuple[int, int]] = {}
        last = None
        for group in range(self._file.num_row_groups):
            column = self._file.read_row_group(group, columns=[self._label]).column(0)
            values = np.asarray(column.to_pylist(), dtype=object)
            if not len(values):
                continue
            cuts = np.flatnonzero(values[1:] != values[:-1]) + 1
            begins = np.concatenate([[0], cuts]) + self._starts[group]
            ends = np.concatenate([cuts, [len(values)]]) + self._starts[group]
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                name = str(values[begin - self._starts[group]])
                if name in ranges and name != last:
                    raise _ShardError(
                        f"the rows of {name!r} do not stand together; sort the table by "
                        f"{self._label!r}."
                    )
                ranges[name] = (ranges[name][0] if name in ranges else begin, end)
                last = name
        return ranges

    def names(self) -> list[str]:
        """Classes of the rows."""
        return sorted(self._ranges)

    def shape(self, name: str) -> tuple[tuple[int, ...], Any]:
        """Rows of a class and the number of features."""
        begin, end = self._ranges[name]
        types = {str(self._file.schema_arrow.field(n).type) for n in self._features}
        kinds = {"halffloat": "f2", "float": "f4", "double": "f8"}
        dtype = np.result_type(*(kinds[t] for t in types)) if types <= kinds.keys() else object
        return (end - begin, len(self._features)), np.dtype(dtype)

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Some rows, by the row groups that hold them."""
        begin, end = self._ranges[name]
        start, stop = begin + start, min(begin + stop, end)
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        with _reading(self.where(name)):
            table = self._file.read_row_groups(list(range(first, last)), columns=self._features)
            offset = int(self._starts[first])
            part = table.slice(start - offset, stop - start)
            return np.column_stack([part.column(n).to_numpy() for n in self._features])

    def where(self, name: str) -> str:
        """The file and the class."""
        return f"{self._path}, class {name}"


def find_layout(path: Path) -> Layout:
    """How the shards in a folder, or in a store, are kept.

    Parameters
    ----------
    path : Path
        A folder of files ``.npy`` or ``.h5``; a Zarr group; a parquet file; or a folder that holds
        one Zarr group (a folder ending in .zarr) or one parquet file.

    Returns
    -------
    Layout
        Reads it.
    """
    if not path.exists():
        raise FileNotFoundError(f"There is no folder or store {path}.")
    if path.is_file():
        if path.suffix == ".parquet":
            return ParquetStore(path)
        raise ValueError(f"{path}: give a folder of shards, a Zarr group or a .parquet file.")
    if path.suffix == ".zarr" or (path / "zarr.json").exists() or (path / ".zgroup").exists():
        return ZarrStore(path)
    kinds: dict[str, Any] = {".npy": NpyFiles, ".h5": HDF5Files}
    found = [suffix for suffix in kinds if next(path.glob(f"*{suffix}"), None) is not None]
    stores = sorted([*path.glob("*.zarr"), *path.glob("*.parquet")])
    if len(found) + len(stores) > 1:
        names = [*(f"*{suffix}" for suffix in found), *(store.name for store in stores)]
        raise ValueError(f"{path} holds shards in several forms: {', '.join(names)}. Keep one.")
    if found:
        layout: Layout = kinds[found[0]](path)
        return layout
    if stores:
        return find_layout(stores[0])
    raise ValueError(
        f"{path} holds no features: expected files <wnid>.npy or <wnid>.h5, one folder .zarr with "
        "an array per wnid, or one .parquet file with a column 'wnid'."
    )
