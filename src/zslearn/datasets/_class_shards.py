"""Features of many classes, one shard each, read when they are asked for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.datasets._shard_files import find_layout
from zslearn.utils import block_length, name_some, warn_user


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
        self._layout = find_layout(self.path)
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
