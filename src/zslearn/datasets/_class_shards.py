"""Features of many classes, stored as one shard per class and read on demand."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import block_length
from zslearn._utils._files import regular_size
from zslearn._utils._messages import name_some, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import Budget, reading
from zslearn._utils._remote import open_parquet
from zslearn.datasets._array_files import (
    ArrayRows,
    NpyRows,
    RowFile,
    RowsAndLabels,
    RowSlice,
    TableRows,
    is_zarr,
    open_zarr_array,
)
from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset
from zslearn.datasets._imagenet_classes import imagenet_classes
from zslearn.datasets._mat import check_hdf5_size

#: Columns of a table that may hold the class of a row.
_LABEL_COLUMNS = ("wnid", "class", "label")
#: Name of the features in an HDF5 file or a table.
_FEATURES = "features"


class _HDF5Rows(RowFile):
    """Rows of an HDF5 file with one array, or with one named "features"."""

    def __init__(self, path: Path) -> None:
        self._path, self.name = path, str(path)
        budget = Budget(path)
        with self._data() as data:
            check_hdf5_size(data, _FEATURES, budget)
            self.shape, self.dtype = tuple(data.shape), data.dtype

    def read(self, start: int, length: int) -> Iterator[RowsAndLabels]:
        with self._data() as data:
            for first in range(start, self.shape[0], length):
                yield np.asarray(data[first : first + length]), None

    @contextmanager
    def _data(self) -> Iterator[Any]:
        h5py = import_optional("h5py", "Reading .h5 shards")
        regular_size(self._path)  # HDF5 would wait for a pipe
        with reading(self.name), h5py.File(self._path, "r") as file:
            # Links to other files are not followed.
            hard = [n for n in file if isinstance(file.get(n, getlink=True), h5py.HardLink)]
            arrays = [n for n in hard if isinstance(file[n], h5py.Dataset)]
            chosen = [_FEATURES] if _FEATURES in arrays else arrays
            if len(chosen) != 1:
                raise ValueError(f"it holds {len(arrays)} arrays; name one of them {_FEATURES!r}")
            yield file[chosen[0]]


#: Name of a shard → function that opens it.
_Shards = dict[str, Callable[[], RowFile]]


def _parquet_shards(path: Path) -> _Shards:
    """Shards of one Parquet file that is sorted by class."""
    columns = list(open_parquet(path).schema_arrow.names)
    labels = [name for name in _LABEL_COLUMNS if name in columns]
    if len(labels) != 1:
        raise ValueError(
            f"{path}: one column must hold the class of each row and be called 'wnid', "
            f"'class' or 'label'; there are {name_some(columns)}."
        )
    file = TableRows(path, _FEATURES, labels[0])
    values = file.read_column(labels[0])
    begins = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()][: len(values)]
    names = [str(values[begin]) for begin in begins]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(
            f"{path}: the rows of {twice[0]!r} are not contiguous; sort the table by {labels[0]!r}."
        )
    return {
        name: partial(RowSlice, f"{path}, class {name}", file, range(*ends))
        for name, ends in zip(names, pairwise([*begins, len(values)]), strict=True)
    }


def _zarr_shard(folder: Path) -> RowFile:
    return ArrayRows(open_zarr_array(folder), str(folder))


def _find_shards(path: Path) -> _Shards:
    """Find the shards in a folder or store."""
    if not path.exists():
        raise FileNotFoundError(f"There is no folder or store {path}.")
    if path.is_file():
        if path.suffix == ".parquet":
            return _parquet_shards(path)
        raise ValueError(f"{path}: give a folder of shards, a Zarr group or a .parquet file.")
    if path.suffix == ".zarr" or is_zarr(path):
        import_optional("zarr", "Reading a Zarr store")
        return {p.name: partial(_zarr_shard, p) for p in path.iterdir() if p.is_dir()}
    found: dict[str, _Shards] = {
        f"*{suffix}": {file.stem: partial(kind, file) for file in path.glob(f"*{suffix}")}
        for suffix, kind in ((".npy", NpyRows), (".h5", _HDF5Rows))
    }
    found = {form: shards for form, shards in found.items() if shards}
    stores = sorted([*path.glob("*.zarr"), *path.glob("*.parquet")])
    if len(found) + len(stores) > 1:
        names = [*found, *(store.name for store in stores)]
        raise ValueError(f"{path} holds shards in several forms: {', '.join(names)}. Keep one.")
    if stores:
        return _find_shards(stores[0])
    if not found:
        raise ValueError(
            f"{path} holds no features: expected files <wnid>.npy or <wnid>.h5, a .zarr folder "
            "with one array per wnid, or a .parquet file with a column 'wnid'."
        )
    return next(iter(found.values()))


class ClassShards:
    """Features stored by class, none of which is in memory until it is read.

    Parameters
    ----------
    folder : path
        A folder with a file ``<class>.npy`` or ``<class>.h5`` per class, or a store: a Zarr group
        with one array per class, or a Parquet file sorted by class, with a column "wnid" ("class",
        "label") and one column per feature. Each array has one row per image.
    known : container of str, optional
        Accepted class names, such as the wnids of a hierarchy. Other shards are skipped with a
        warning and listed in `skipped`.

    Attributes
    ----------
    classes : list of str
        Classes with at least one row, sorted.
    counts : Series
        Number of rows per class.
    n_features : int
        Number of columns of every shard.
    skipped : dict
        Name of a skipped shard → reason: it has no rows, or its class is not known.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> from zslearn.datasets import ClassShards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for wnid, n_rows in (("n02084071", 3), ("n02121808", 2)):
    ...         np.save(Path(folder, f"{wnid}.npy"), np.ones((n_rows, 4), dtype=np.float32))
    ...     shards = ClassShards(folder)
    ...     shards.counts.to_dict(), shards.rows("n02121808").shape
    ({'n02084071': 3, 'n02121808': 2}, (2, 4))
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, known: Container[str] | None = None
    ) -> None:
        self.path = Path(folder)
        self.skipped: dict[str, str] = {}
        self._files: dict[str, RowFile] = {}
        for name, open_shard in sorted(_find_shards(self.path).items()):
            if known is not None and name not in known:
                self.skipped[name] = "unknown to the hierarchy"
                continue
            file = open_shard()
            if 0 in file.shape:
                self.skipped[name] = "without rows"
                continue
            if len(file.shape) != 2 or file.dtype.kind != "f":
                raise ValueError(
                    f"{file.name}: expected floating-point numbers with one row per image; it has "
                    f"shape {file.shape} and dtype {file.dtype}."
                )
            self._files[name] = file
        if not self._files:
            raise ValueError(f"{self.path} has no shard with rows of a known class.")
        widths = {name: file.shape[1] for name, file in self._files.items()}
        self.n_features = Counter(widths.values()).most_common(1)[0][0]
        if other := [name for name, width in widths.items() if width != self.n_features]:
            raise ValueError(
                f"{self._files[other[0]].name} has {widths[other[0]]} columns, but "
                f"{len(widths) - len(other)} of {len(widths)} shards have {self.n_features}; all "
                "shards must come from one network."
            )
        self.classes = list(self._files)
        counts = [file.shape[0] for file in self._files.values()]
        self.counts = pd.Series(counts, index=self.classes, name="rows", dtype=np.int64)
        for why in dict.fromkeys(self.skipped.values()):
            names = [name for name, reason in self.skipped.items() if reason == why]
            plural = "s" if len(names) > 1 else ""
            warn_user(f"{self.path}: {len(names)} shard{plural} {why}: {name_some(names)}.")

    def __contains__(self, label: object) -> bool:
        return label in self._files

    def __len__(self) -> int:
        return len(self.classes)

    def rows(self, label: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Read rows of a class.

        Parameters
        ----------
        label : str
            The class.
        start, stop : int, optional
            First row, and the row after the last; by default all rows.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            Features in float32, or float64 if the shard stores that.
        """
        if label not in self:
            raise ValueError(f"{self.path} has no rows of {label!r}.")
        end = int(self.counts[label])
        stop = end if stop is None else min(stop, end)
        if start >= stop:
            return np.empty((0, self.n_features), dtype=np.float32)
        part = RowSlice(self._files[label].name, self._files[label], range(start, stop))
        with reading(part.name):
            rows = np.concatenate([rows for rows, _ in part.read(0, stop - start)])
        return rows.astype(np.promote_types(rows.dtype, np.float32), copy=False)

    def blocks(
        self, labels: Sequence[str] | None = None, *, n_rows: int | None = None
    ) -> Iterator[tuple[NDArray[Any], NDArray[np.str_]]]:
        """Iterate over the rows of some classes in blocks.

        Parameters
        ----------
        labels : sequence of str, optional
            The classes, in order; by default all.
        n_rows : int, optional
            Rows per block; by default as many as fit into 32 MiB.

        Yields
        ------
        X : ndarray of shape (n_rows, n_features)
            Features.
        y : ndarray of shape (n_rows,)
            Class of each row.
        """
        length = block_length(8 * self.n_features) if n_rows is None else n_rows
        rows = _ShardedRows(self, self.classes if labels is None else labels)
        for start in range(0, len(rows), length):
            stop = min(start + length, len(rows))
            yield rows[start:stop], rows.labels_of(np.arange(start, stop))

    def sample(
        self, labels: Sequence[str], n_per_class: int | None, random_state: int = 0
    ) -> tuple[NDArray[Any], NDArray[np.str_]]:
        """Read a random sample of the rows of some classes.

        Parameters
        ----------
        labels : sequence of str
            The classes.
        n_per_class : int or None
            Maximum number of rows per class; None reads all.
        random_state : int, default=0
            Seed. The sample of a class does not depend on the other classes.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)
            Features, in the order of `labels`.
        y : ndarray of shape (n_rows,)
            Class of each row.
        """
        rows = _ShardedRows(self, labels)
        if not len(rows):
            raise ValueError(f"{self.path} has no rows of {name_some(labels)}.")
        chosen = []
        for label, start, end in zip(rows.labels, rows.starts, rows.starts[1:], strict=False):
            order = _generator(label, random_state).permutation(int(end - start))
            chosen.append(start + np.sort(order[:n_per_class]))
        positions = np.concatenate(chosen)
        return rows[positions], rows.labels_of(positions)

    def halves(
        self, label: str, random_state: int = 0
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Split the rows of a class at random into two halves.

        Parameters
        ----------
        label : str
            The class.
        random_state : int, default=0
            Seed. The split does not depend on other classes.

        Returns
        -------
        first, second : ndarray of int
            Sorted row numbers. The second half has the additional row of an odd number.
        """
        order = _generator(label, random_state).permutation(int(self.counts[label]))
        middle = len(order) // 2
        return np.sort(order[:middle]), np.sort(order[middle:])


def _generator(label: str, seed: int) -> np.random.Generator:
    """Random numbers for one class, independent of other classes."""
    return np.random.default_rng([seed, *label.encode()])


class _ShardedRows:
    """The rows of some classes, concatenated into an array that is read when it is indexed."""

    ndim = 2

    def __init__(self, shards: ClassShards, labels: Iterable[str]) -> None:
        self._shards = shards
        self.labels = [label for label in dict.fromkeys(labels) if label in shards]
        counts = shards.counts.loc[self.labels].to_numpy()
        self.starts = np.concatenate([[0], np.cumsum(counts)])
        self.shape = (int(self.starts[-1]), shards.n_features)
        self.dtype = np.result_type(np.float32, *{shards._files[n].dtype for n in self.labels})

    def __len__(self) -> int:
        return self.shape[0]

    def _shard_of(self, positions: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.searchsorted(self.starts, positions, side="right") - 1

    def labels_of(self, positions: NDArray[np.intp]) -> NDArray[np.str_]:
        """Return the classes of rows."""
        return np.asarray(self.labels)[self._shard_of(positions)]

    def __getitem__(self, index: Any) -> NDArray[Any]:
        """Read rows by position; a second index selects columns."""
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        if isinstance(rows, slice):
            wanted = np.arange(*rows.indices(len(self)))
        else:
            wanted = np.arange(len(self))[rows]
        flat = np.atleast_1d(wanted)
        out = np.empty((len(flat), self.shape[1]), dtype=self.dtype)
        shard = self._shard_of(flat)
        for number in np.unique(shard).tolist():
            here = np.flatnonzero(shard == number)
            local = flat[here] - self.starts[number]
            first = int(local.min())
            part = self._shards.rows(self.labels[number], first, int(local.max()) + 1)
            out[here] = part[local - first]
        return out[0, columns] if wanted.ndim == 0 else out[:, columns]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        whole = self[:]
        return whole if dtype is None else whole.astype(dtype, copy=False)


def load_imagenet(
    folder: str | os.PathLike[str],
    signatures: pd.DataFrame,
    *,
    seen_classes: Sequence[str] | None = None,
    test_seen: float = 0.0,
    random_state: int = 0,
) -> ZeroShotDataset:
    """Load your own ImageNet features, stored as one shard per class, without reading them.

    ``X_train`` and the other parts read all their rows at once. For the whole of ImageNet use
    :class:`ClassShards`, which iterates in blocks, or ``zslearn bench imagenet``.

    Parameters
    ----------
    folder : path
        See :class:`ClassShards`.
    signatures : DataFrame
        One row per class, indexed by wnid. Classes with rows but without a signature are dropped
        with a warning; a seen class must have both.
    seen_classes : sequence of str, optional
        Classes to train on; by default those of the 1,000 of ILSVRC 2012 that have rows.
    test_seen : float, default=0
        Share of each seen class that is held out for the generalized setting.
    random_state : int, default=0
        Seed of the hold-out.

    Returns
    -------
    ZeroShotDataset
        With the split "ss", in which all other classes are unseen.

    See Also
    --------
    ClassShards : Its example creates such a folder.
    """
    shards = ClassShards(folder)
    if seen_classes is None:
        seen = [label for label in imagenet_classes("1k") if label in shards]
    else:
        seen = list(seen_classes)
    described = set(signatures.index)
    for source, known in ((str(shards.path), shards), ("The table of signatures", described)):
        if (missing := [label for label in seen if label not in known]) or not seen:
            raise ValueError(
                f"{source} has no rows of {len(missing)} of {len(seen)} seen classes: "
                f"{name_some(missing)}."
            )
    if not 0 <= test_seen < 1:
        raise ValueError(f"test_seen must be at least 0 and below 1; got {test_seen!r}.")
    if bare := [label for label in shards.classes if label not in described]:
        warn_user(
            f"{shards.path}: dropped {len(bare)} classes that have rows but no signature: "
            f"{name_some(bare)}."
        )
    seen_set = set(seen)
    unseen = [label for label in shards.classes if label in described and label not in seen_set]
    labels = [*seen, *unseen]
    # Rows of the seen classes come first, then those of the unseen ones.
    counts = shards.counts.loc[labels].to_numpy()
    ends = np.cumsum(counts)
    train, held_out = [], []
    for label, count, end in zip(seen, counts, ends, strict=False):
        order = end - count + _generator(label, random_state).permutation(count)
        cut = int(test_seen * count)
        held_out.append(np.sort(order[:cut]))
        train.append(np.sort(order[cut:]))
    split = ClassSplit(
        train=np.concatenate(train),
        test_seen=np.concatenate(held_out),
        test_unseen=np.arange(ends[len(seen) - 1], ends[-1]),
        seen_classes=seen,
        unseen_classes=unseen,
        version="imagenet",
    )
    return ZeroShotDataset(
        X=_ShardedRows(shards, labels),
        y=np.repeat(np.asarray(labels), counts),
        signatures=signatures.loc[labels],
        splits={"ss": split},
        split="ss",
        name="ImageNet",
        features="own",
    )
