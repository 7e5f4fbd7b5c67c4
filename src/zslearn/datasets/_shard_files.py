"""Where the rows of each class lie: a file per class, or one store with all of them.

A layout knows the names of its shards, the shape and dtype of each, and reads some rows of one.
Nothing is read before it is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zslearn.datasets._array_files import read_array
from zslearn.datasets._limits import reason
from zslearn.utils import import_optional, name_some

#: Columns of a table that may hold the class of a row.
_LABEL_COLUMNS = ("wnid", "class", "label")
#: The array that is taken out of an HDF5 file of several.
_DATA_SET = "features"
#: A file of NumPy that is no longer may hold a header and nothing else.
_HEADER_BYTES = 128


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
        if 0 < path.stat().st_size <= _HEADER_BYTES and not np.load(path, allow_pickle=False).size:
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
        with self._file(name) as file:
            data = self._data(file, name)
            return tuple(data.shape), data.dtype

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Some rows, in memory."""
        with self._file(name) as file:
            return np.asarray(self._data(file, name)[start:stop])

    def where(self, name: str) -> str:
        """The path of the file."""
        return str(self._folder / f"{name}{self.suffix}")

    def _file(self, name: str) -> Any:
        try:
            return self._h5py.File(self.where(name), "r")
        except OSError as error:
            raise ValueError(f"{self.where(name)}: it cannot be read ({reason(error)}).") from error

    def _data(self, file: Any, name: str) -> Any:
        # A link to another file is not followed.
        hard = [n for n in file if isinstance(file.get(n, getlink=True), self._h5py.HardLink)]
        arrays = [n for n in hard if isinstance(file[n], self._h5py.Dataset)]
        chosen = _DATA_SET if _DATA_SET in arrays else arrays[0] if len(arrays) == 1 else None
        if chosen is None:
            raise ValueError(
                f"{self.where(name)}: it holds {len(arrays)} arrays; name one of them "
                f"{_DATA_SET!r}."
            )
        return file[chosen]


class ZarrStore:
    """One Zarr group with an array per class."""

    def __init__(self, path: Path) -> None:
        self._path = path
        zarr = import_optional("zarr", "Reading a Zarr store")
        try:
            self._group = zarr.open_group(str(path), mode="r")
            self._arrays = dict(self._group.arrays())
        # Zarr has errors of its own, and a damaged store can raise nearly any other.
        except Exception as error:
            raise ValueError(f"{path}: it is no Zarr group ({reason(error)}).") from error

    def names(self) -> list[str]:
        """Names of the arrays."""
        return sorted(self._arrays)

    def shape(self, name: str) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype as the store declares them."""
        array = self._arrays[name]
        return tuple(array.shape), array.dtype

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Some rows, in memory."""
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
        try:
            self._file = parquet.ParquetFile(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: it cannot be read ({reason(error)}).") from error
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
                    raise ValueError(
                        f"{self._path}: the rows of {name!r} do not stand together; sort the "
                        f"table by {self._label!r}."
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
