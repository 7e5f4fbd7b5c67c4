"""Features of many classes, one shard each, read when they are asked for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._blocks import block_length
from zslearn._utils._messages import name_some, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import Budget, reading
from zslearn.datasets._array_files import (
    ArrayRows,
    NpyRows,
    RowFile,
    is_zarr,
    open_parquet,
    open_zarr_array,
)
from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset
from zslearn.datasets._imagenet_classes import imagenet_classes
from zslearn.datasets._mat import check_hdf5_size

#: Columns of a table that may hold the class of a row.
_LABEL_COLUMNS = ("wnid", "class", "label")
#: The array that is taken out of an HDF5 file of several.
_DATA_SET = "features"


class _NpyFiles:
    """A file ``<class>.npy`` per class; the base of the other layouts.

    A layout knows the names of its shards, the shape and dtype of each, and reads rows of one.
    """

    suffix = ".npy"

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._path.glob(f"*{self.suffix}"))

    def where(self, name: str) -> str:
        return str(self._path / f"{name}{self.suffix}")

    def shape(self, name: str) -> tuple[tuple[int, ...], Any]:
        rows = self._open(name)
        return rows.shape, rows.dtype

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        with reading(self.where(name)):
            return next(self._open(name).read(start, stop - start))[0]

    def _open(self, name: str) -> RowFile:
        return NpyRows(Path(self.where(name)))


class _HDF5Files(_NpyFiles):
    """A file ``<class>.h5`` per class, with one array, or one that is called "features"."""

    suffix = ".h5"

    def shape(self, name: str) -> tuple[tuple[int, ...], Any]:
        budget = Budget(Path(self.where(name)))
        with self._data(name) as data:
            check_hdf5_size(data, _DATA_SET, budget)
            return tuple(data.shape), data.dtype

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        with self._data(name) as data:
            return np.asarray(data[start:stop])

    @contextmanager
    def _data(self, name: str) -> Iterator[Any]:
        h5py = import_optional("h5py", "Reading .h5 shards")
        with reading(self.where(name)), h5py.File(self.where(name), "r") as file:
            # A link to another file is not followed.
            hard = [n for n in file if isinstance(file.get(n, getlink=True), h5py.HardLink)]
            arrays = [n for n in hard if isinstance(file[n], h5py.Dataset)]
            chosen = [_DATA_SET] if _DATA_SET in arrays else arrays
            if len(chosen) != 1:
                raise ValueError(f"it holds {len(arrays)} arrays; name one of them {_DATA_SET!r}")
            yield file[chosen[0]]


class _ZarrStore(_NpyFiles):
    """One Zarr group with an array per class."""

    def names(self) -> list[str]:
        return sorted(folder.name for folder in self._path.iterdir() if folder.is_dir())

    def where(self, name: str) -> str:
        return f"{self._path}, array {name}"

    def _open(self, name: str) -> RowFile:
        return ArrayRows(open_zarr_array(self._path / name))


class _ParquetStore(_NpyFiles):
    """One Parquet file: a column of classes, whose rows stand together, and one per feature."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_parquet(path, Budget(path))
        columns = list(self._file.schema_arrow.names)
        labels = [name for name in _LABEL_COLUMNS if name in columns]
        if len(labels) != 1:
            raise ValueError(
                f"{path}: one column must hold the class of each row and be called 'wnid', "
                f"'class' or 'label'; there are {name_some(columns)}."
            )
        self._features = [name for name in columns if name != labels[0]]
        groups = range(self._file.num_row_groups)
        sizes = [self._file.metadata.row_group(i).num_rows for i in groups]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        with reading(str(path)):
            self._ranges = self._find_ranges(labels[0])

    def _find_ranges(self, label: str) -> dict[str, tuple[int, int]]:
        """First row of each class, and the row behind its last."""
        values = self._file.read(columns=[label]).column(0).to_pandas().to_numpy(dtype=object)
        begins = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()][: len(values)]
        names = [str(values[begin]) for begin in begins]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(
                f"the rows of {twice[0]!r} do not stand together; sort the table by {label!r}"
            )
        return dict(zip(names, pairwise([*begins, len(values)]), strict=True))

    def names(self) -> list[str]:
        return sorted(self._ranges)

    def where(self, name: str) -> str:
        return f"{self._path}, class {name}"

    def shape(self, name: str) -> tuple[tuple[int, ...], Any]:
        begin, end = self._ranges[name]
        types = {str(self._file.schema_arrow.field(n).type) for n in self._features}
        kinds = {"halffloat": "f2", "float": "f4", "double": "f8"}
        dtype = np.result_type(*(kinds[t] for t in types)) if types <= kinds.keys() else object
        return (end - begin, len(self._features)), np.dtype(dtype)

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        begin, end = self._ranges[name]
        start, stop = begin + start, min(begin + stop, end)
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        with reading(self.where(name)):
            table = self._file.read_row_groups(list(range(first, last)), columns=self._features)
            part = table.slice(start - int(self._starts[first]), stop - start)
            return np.column_stack([part.column(n).to_numpy() for n in self._features])


def _find_layout(path: Path) -> _NpyFiles:
    """How the shards in a folder, or in a store, are kept."""
    if not path.exists():
        raise FileNotFoundError(f"There is no folder or store {path}.")
    if path.is_file():
        if path.suffix == ".parquet":
            return _ParquetStore(path)
        raise ValueError(f"{path}: give a folder of shards, a Zarr group or a .parquet file.")
    if path.suffix == ".zarr" or is_zarr(path):
        import_optional("zarr", "Reading a Zarr store")
        return _ZarrStore(path)
    found = [kind for kind in (_NpyFiles, _HDF5Files) if kind(path).names()]
    stores = sorted([*path.glob("*.zarr"), *path.glob("*.parquet")])
    if len(found) + len(stores) > 1:
        names = [*(f"*{kind.suffix}" for kind in found), *(store.name for store in stores)]
        raise ValueError(f"{path} holds shards in several forms: {', '.join(names)}. Keep one.")
    if found:
        return found[0](path)
    if stores:
        return _find_layout(stores[0])
    raise ValueError(
        f"{path} holds no features: expected files <wnid>.npy or <wnid>.h5, one folder .zarr with "
        "an array per wnid, or one .parquet file with a column 'wnid'."
    )


class ClassShards:
    """Rows of features by class, of which none is in memory until it is read.

    Parameters
    ----------
    folder : path
        A folder with a file ``<class>.npy`` or ``<class>.h5`` per class, or a store: a Zarr group
        with an array per class, or a parquet file with a column "wnid" ("class", "label") and a
        column per feature, sorted by class. Every array has one row per image.
    known : container of str, optional
        Classes that a shard may be of, such as the wnids of a hierarchy. Shards of others are
        skipped, and named in a warning and in `skipped`.

    Attributes
    ----------
    classes : list of str
        Classes with at least one row, sorted.
    counts : Series
        Rows of each class.
    n_features : int
        Columns of every shard.
    skipped : dict
        Shard → why it is not used: it has no rows, or its class is not known.

    Raises
    ------
    ValueError
        A shard is damaged, holds no floating-point numbers, or is of another width than most;
        there are no shards at all.

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
        self._layout = _find_layout(self.path)
        self.skipped: dict[str, str] = {}
        widths: dict[str, int] = {}
        counts: dict[str, int] = {}
        for name in self._layout.names():
            if known is not None and name not in known:
                self.skipped[name] = "unknown to the hierarchy"
                continue
            shape, dtype = self._layout.shape(name)
            if 0 in shape:
                self.skipped[name] = "without rows"
                continue
            if len(shape) != 2 or np.dtype(dtype).kind != "f":
                raise ValueError(
                    f"{self._layout.where(name)}: expected floating-point numbers with one row per "
                    f"image; it has shape {shape} and dtype {dtype}."
                )
            counts[name], widths[name] = int(shape[0]), int(shape[1])
        if not counts:
            raise ValueError(f"{self.path} has no shard with rows of a known class.")
        self._refuse_other_widths(widths)
        self.classes = sorted(counts)
        self.counts = pd.Series(counts, name="rows", dtype=np.int64).sort_index()
        self.n_features = next(iter(widths.values()))
        self._name_skipped()

    def _refuse_other_widths(self, widths: dict[str, int]) -> None:
        usual = Counter(widths.values()).most_common(1)[0][0]
        other = [name for name, width in widths.items() if width != usual]
        if other:
            first = other[0]
            raise ValueError(
                f"{self._layout.where(first)} has {widths[first]} columns, and "
                f"{len(widths) - len(other)} of {len(widths)} shards have {usual}"
                + (f"; so it is with {name_some(other[1:])}" if len(other) > 1 else "")
                + ". Shards of one store must come from one network."
            )

    def _name_skipped(self) -> None:
        for why in dict.fromkeys(self.skipped.values()):
            names = [name for name, reason in self.skipped.items() if reason == why]
            plural = "s" if len(names) > 1 else ""
            warn_user(f"{self.path}: {len(names)} shard{plural} {why}: {name_some(names)}.")

    def __contains__(self, label: object) -> bool:
        return label in self.counts.index

    def __len__(self) -> int:
        return len(self.classes)

    def rows(self, label: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Read rows of a class.

        Parameters
        ----------
        label : str
            The class.
        start, stop : int, optional
            First row, and the row behind the last; by default all.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            In float32, or float64 where the shard is stored so.
        """
        if label not in self:
            raise ValueError(f"{self.path} has no rows of {label!r}.")
        end = int(self.counts[label])
        stop = end if stop is None else min(stop, end)
        if start >= stop:
            return np.empty((0, self.n_features), dtype=np.float32)
        part = self._layout.read(label, start, stop)
        return part.astype(np.promote_types(part.dtype, np.float32), copy=False)

    def blocks(
        self, labels: Sequence[str] | None = None, *, n_rows: int | None = None
    ) -> Iterator[tuple[NDArray[Any], NDArray[np.str_]]]:
        """Go through the rows of some classes, a block at a time.

        Parameters
        ----------
        labels : sequence of str, optional
            Which classes, in this order; by default all.
        n_rows : int, optional
            Rows of a block; by default what fits into 32 MiB.

        Yields
        ------
        X : ndarray of shape (n_rows, n_features)
            Features.
        y : ndarray of shape (n_rows,)
            The class of each row.
        """
        length = block_length(8 * self.n_features) if n_rows is None else n_rows
        parts: list[NDArray[Any]] = []
        names: list[str] = []
        held = 0
        for label in self.classes if labels is None else labels:
            at, end = 0, int(self.counts[label]) if label in self else 0
            while at < end:
                part = self.rows(label, at, at + length - held)
                parts.append(part)
                names += [label] * len(part)
                at, held = at + len(part), held + len(part)
                if held >= length:
                    yield np.concatenate(parts), np.asarray(names)
                    parts, names, held = [], [], 0
        if parts:
            yield np.concatenate(parts), np.asarray(names)

    def sample(
        self, labels: Sequence[str], n_per_class: int | None, random_state: int = 0
    ) -> tuple[NDArray[Any], NDArray[np.str_]]:
        """Read some rows of each of some classes.

        Parameters
        ----------
        labels : sequence of str
            Which classes.
        n_per_class : int or None
            Most rows of a class, drawn at random; None reads all.
        random_state : int, default=0
            Decides which; those of a class do not depend on the other classes.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)
            Features, in the order of `labels`.
        y : ndarray of shape (n_rows,)
            The class of each row.
        """
        parts, names = [], []
        for label in labels:
            count = int(self.counts[label]) if label in self else 0
            if not count:
                continue
            rows = self.rows(label)
            if n_per_class is not None and n_per_class < count:
                chosen = np.sort(_draw(label, random_state).permutation(count)[:n_per_class])
                rows = rows[chosen]
            parts.append(rows)
            names += [label] * len(rows)
        if not parts:
            raise ValueError(f"{self.path} has no rows of {name_some(labels)}.")
        return np.concatenate(parts), np.asarray(names)

    def halves(
        self, label: str, random_state: int = 0
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Split the rows of a class at random into two halves.

        Parameters
        ----------
        label : str
            The class.
        random_state : int, default=0
            Decides the split, which does not depend on other classes.

        Returns
        -------
        first, second : ndarray of int
            Positions of rows, ascending. Of an odd number the second half has one more, so that a
            class of one row has it there.
        """
        order = _draw(label, random_state).permutation(int(self.counts[label]))
        middle = len(order) // 2
        return np.sort(order[:middle]), np.sort(order[middle:])


def _draw(label: str, seed: int) -> np.random.Generator:
    """A source of random numbers for one class, the same whatever other classes there are."""
    return np.random.default_rng([seed, *label.encode()])


class ShardedRows:
    """The rows of some classes one after another as one array, read where it is indexed."""

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(self, shards: ClassShards, labels: Sequence[str]) -> None:
        self._shards = shards
        self._labels = list(labels)
        counts = shards.counts.loc[self._labels].to_numpy()
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        self.shape = (int(self._starts[-1]), shards.n_features)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        """Rows at some positions, in memory; a second index chooses columns."""
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        wanted = np.arange(len(self))[rows]
        flat = np.atleast_1d(wanted)
        out = np.empty((len(flat), self.shape[1]), dtype=self.dtype)
        shard = np.searchsorted(self._starts, flat, side="right") - 1
        for number in np.unique(shard).tolist():
            here = np.flatnonzero(shard == number)
            local = flat[here] - self._starts[number]
            first = int(local.min())
            part = self._shards.rows(self._labels[number], first, int(local.max()) + 1)
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
    known: Container[str] | None = None,
    test_seen: float = 0.0,
    features: str = "own",
    random_state: int = 0,
) -> ZeroShotDataset:
    """Load ImageNet's features from one's own shards, one per class, without reading them.

    ImageNet's images cannot be had without asking for them; this reads features that were computed
    elsewhere. `X_train` and its like read the rows of their part: for ImageNet whole, use
    :class:`ClassShards`, which goes through them in blocks, or ``zslearn bench imagenet``.

    Parameters
    ----------
    folder, known
        See :class:`ClassShards`. A :class:`~zslearn.signatures.WordNet` has its nouns in `wnids`.
    signatures : DataFrame
        One row per class, with the wnid as index. Classes with rows but without a signature are
        left out, with a warning; a seen class must have both.
    seen_classes : sequence of str, optional
        Classes that are trained on; by default the 1,000 of ILSVRC 2012 that have rows.
    test_seen : float, default=0
        Share of each seen class that is kept for the generalized setting.
    features : str, default="own"
        Name of the features.
    random_state : int, default=0
        Decides which rows are kept.

    Returns
    -------
    ZeroShotDataset
        With the split "ss": all other classes are unseen.

    Raises
    ------
    ValueError
        A shard is damaged or of another width; a seen class has no rows or no signature.

    See Also
    --------
    ClassShards : Its example makes such a folder.
    """
    shards = ClassShards(folder, known=known)
    if seen_classes is None:
        seen = [label for label in imagenet_classes("1k") if label in shards]
    else:
        seen = list(seen_classes)
    _refuse_missing(shards, signatures, seen)
    described = set(signatures.index)
    bare = [label for label in shards.classes if label not in described]
    if bare:
        warn_user(
            f"{shards.path}: {len(bare)} classes have rows and no signature and are left out: "
            f"{name_some(bare)}."
        )
    seen_set = set(seen)
    unseen = [label for label in shards.classes if label in described and label not in seen_set]
    labels = [*seen, *unseen]
    split = _split(shards, seen, unseen, test_seen, random_state)
    counts = shards.counts.loc[labels].to_numpy()
    return ZeroShotDataset(
        X=ShardedRows(shards, labels),
        y=np.repeat(np.asarray(labels), counts),
        signatures=signatures.loc[labels],
        splits={"ss": split},
        split="ss",
        name="ImageNet",
        features=features,
    )


def _refuse_missing(shards: ClassShards, signatures: pd.DataFrame, seen: list[str]) -> None:
    empty = [label for label in seen if label not in shards]
    if empty or not seen:
        why = [f"{name} ({shards.skipped[name]})" for name in empty if name in shards.skipped]
        raise ValueError(
            f"{shards.path} has no rows of {len(empty)} of {len(seen)} seen classes: "
            f"{name_some(empty)}." + (f" Skipped: {name_some(why)}." if why else "")
        )
    undescribed = [label for label in seen if label not in signatures.index]
    if undescribed:
        raise ValueError(
            f"signatures lack {len(undescribed)} of {len(seen)} seen classes: "
            f"{name_some(undescribed)}."
        )


def _split(
    shards: ClassShards, seen: list[str], unseen: list[str], share: float, seed: int
) -> ClassSplit:
    """Rows of seen classes, of which a share is kept for testing, then those of unseen ones."""
    if not 0 <= share < 1:
        raise ValueError(f"test_seen must be at least 0 and below 1; got {share!r}.")
    train: list[NDArray[np.intp]] = []
    kept: list[NDArray[np.intp]] = []
    at = 0
    for label in seen:
        count = int(shards.counts[label])
        order = at + _draw(label, seed).permutation(count)
        cut = int(share * count)
        kept.append(np.sort(order[:cut]))
        train.append(np.sort(order[cut:]))
        at += count
    n_unseen = int(shards.counts.loc[unseen].sum())
    return ClassSplit(
        train=np.concatenate(train),
        test_seen=np.concatenate(kept),
        test_unseen=np.arange(at, at + n_unseen),
        seen_classes=seen,
        unseen_classes=unseen,
        version="imagenet",
    )
