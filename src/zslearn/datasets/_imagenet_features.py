"""ImageNet's features from a person's own folder, as a data set that is read when it is used."""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn.datasets._class_shards import ClassShards
from zslearn.datasets._class_split import ClassSplit
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._imagenet_classes import imagenet_classes
from zslearn.utils import name_some, warn_user


class ShardedRows:
    """The rows of all shards in one array, read where it is indexed.

    Parameters
    ----------
    shards : ClassShards
        The features.
    labels : sequence of str
        Classes whose rows follow one another, in this order.

    Attributes
    ----------
    shape : tuple of int
        Rows of all classes, and features.
    dtype : dtype
        float32.
    """

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
    folder : path
        Files ``<wnid>.npy`` or ``<wnid>.h5``, one per class, a Zarr group or a parquet file; see
        :class:`ClassShards`.
    signatures : DataFrame
        One row per class, with the wnid as index. Classes with rows but without a signature are
        left out, with a warning; a seen class must have both.
    seen_classes : sequence of str, optional
        Classes that are trained on; by default the 1,000 of ILSVRC 2012 that have rows.
    known : container of str, optional
        Wnids of the hierarchy; a shard of another class is skipped, with a warning. A
        :class:`~zslearn.signatures.WordNet` has its nouns in `wnids`.
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

    Examples
    --------
    >>> import tempfile, numpy as np, pandas as pd
    >>> from pathlib import Path
    >>> from zslearn.datasets import load_imagenet
    >>> wnids = ["n02084071", "n02121808", "n02503517"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for wnid in wnids:
    ...         np.save(Path(folder, f"{wnid}.npy"), np.ones((3, 4), dtype=np.float32))
    ...     data = load_imagenet(
    ...         folder, pd.DataFrame(np.eye(3), index=wnids), seen_classes=wnids[:2])
    ...     data.X_train.shape, data.unseen_classes.tolist()
    ((6, 4), ['n02503517'])
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
        rng = np.random.default_rng([seed, *label.encode()])
        order = at + rng.permutation(count)
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
