"""Load the field's benchmarks, in the layout of Xian, Lampert, Schiele and Akata.

Each data set is a folder with ``att_splits.mat`` (attributes, class names, the proposed split) and
one or more files with features and labels, such as ``res101.mat``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from zslearn._utils._folds import hold_out_per_class
from zslearn._utils._messages import did_you_mean, name_some
from zslearn._utils._reading import data_home, limit_reading, read_json
from zslearn._utils._validation import check_scaling
from zslearn.datasets._authors import AUTHORS, authors_file, is_a_fifth_of_each, read_hold_outs
from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset
from zslearn.datasets._fetch import unverified_mark
from zslearn.datasets._xlsa17_files import (
    PART_VARIABLES,
    SPLIT_FILE,
    Classes,
    checked_version,
    feature_files,
    find_data_set,
    find_standard_split,
    parts_checksum,
    read_any_features,
    read_classes,
    read_parts,
)
from zslearn.signatures._table import with_scaling


@dataclass(frozen=True)
class Benchmark:
    """One of the field's benchmarks, as listed in :data:`XLSA17`.

    Attributes
    ----------
    name : str
        Name, as passed to :func:`load_xlsa17`.
    about : str
        Full name and size.
    sizes : tuple of int
        Published numbers of training, test_seen and test_unseen images of the proposed split, the
        same in its two publications.
    n_class_splits : int
        Number of class splits "ss-1", "ss-2", … that the field averages over.
    """

    name: str
    about: str
    sizes: tuple[int, int, int]
    n_class_splits: int = 0

    def status(self) -> str:
        """Check whether the files of the data set are present in the default folder.

        Returns
        -------
        {"yes", "without features", "no"}
            Whether the files are present.
        """
        try:
            home = find_data_set(None, self.name)
        except FileNotFoundError:
            return "no"
        return "yes" if feature_files(home) else "without features"

    @property
    def splits(self) -> list[str]:
        """Names of its splits."""
        if self.n_class_splits:
            return ["ns", "ss0", *(f"ss-{k + 1}" for k in range(self.n_class_splits))]
        return ["ns"] if self.name == "FLO" else ["ns", "ss"]


#: The field's benchmarks by name.
XLSA17 = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            "AWA1",
            "Animals with Attributes: 30,475 images, 50 classes, 85 attributes",
            (19832, 4958, 5685),
        ),
        Benchmark(
            "AWA2",
            "Animals with Attributes 2: 37,322 images, 50 classes, 85 attributes",
            (23527, 5882, 7913),
        ),
        Benchmark(
            "CUB",
            "Caltech-UCSD Birds 200-2011: 11,788 images, 200 classes, 312 attributes",
            (7057, 1764, 2967),
            n_class_splits=4,
        ),
        Benchmark(
            "SUN",
            "SUN attributes: 14,340 images, 717 classes, 102 attributes",
            (10320, 2580, 1440),
            n_class_splits=10,
        ),
        Benchmark(
            "APY",
            "aPascal and aYahoo: 15,339 images, 32 classes, 64 attributes",
            (5932, 1483, 7924),
        ),
        Benchmark(
            "FLO",
            "Oxford Flowers: 8,189 images, 102 classes, sentences instead of attributes",
            (5631, 1403, 1155),
        ),
    )
}
DEFAULT_FEATURES = "res101.mat"
DEFAULT_SIGNATURES = "original_att"


def load_xlsa17(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    features: str | os.PathLike[str] | ArrayLike = DEFAULT_FEATURES,
    split: str | Sequence[str] = "ns",
    signatures: str | Sequence[str] = DEFAULT_SIGNATURES,
    signature_scaling: str | None = None,
    version: str | None = None,
    class_splits: Mapping[str, Iterable[Any]] | str | os.PathLike[str] | None = None,
    hold_out: float | str | os.PathLike[str] | None = None,
    random_state: int | np.random.RandomState | None = 0,
    max_bytes: int | None = None,
) -> ZeroShotDataset:
    """Load one of the field's benchmarks from files in the layout of Xian et al.

    Parameters
    ----------
    name : {"AWA1", "AWA2", "CUB", "SUN", "APY", "FLO"}
        The data set.
    folder : str, path or None, default=None
        The folder that contains the folder `name`, possibly inside ``data/``, ``xlsa17/`` or
        ``xlsa17/data/``. None: the folder named by the environment variable ``ZSLEARN_DATA``, else
        the user's data folder, where ``zslearn data fetch`` stores files.
    features : str, path or array of shape (n_samples, n_features), default="res101.mat"
        A file of features and labels, in the data set's folder or anywhere: ``.mat``, or ``.npy``,
        ``.npz`` or ``.parquet`` with one row per image, as for :func:`load_table`. Or an array.
        Rows follow the order of the published files. Missing labels are taken from those files;
        labels given by name or number must agree with them.
    split : str or sequence of str, default="ns"
        The active split, or several, the first of which is active:

        - "ns": the proposed split, with its own test images of seen classes.
        - "ss" (AWA1, AWA2, APY) or "ss0" (CUB, SUN): the standard split, read from
          ``standard_split/NAME/att_splits.mat`` in or next to `folder`.
        - "ss-1", "ss-2", … (CUB, SUN): the class splits given by `class_splits`, over which results
          are averaged; "ss" means all of them.
    signatures : str or sequence of str, default="original_att"
        The variable of ``att_splits.mat`` with the signatures: "original_att" (raw), "att" (each
        class divided by its norm), or one of your own; FLO has only "att". ``"FILE:VARIABLE"`` is a
        variable of another file in the same folder, such as ``"sent_splits.mat:att"``. Several
        become :class:`~zslearn.signatures.MultiSignatures`.
    signature_scaling : {"standard", "range"} or None, default=None
        How signature columns in different units are scaled when a method is fitted; see
        :func:`~zslearn.signatures.attribute_signatures`. The published ones need no scaling.
    version : {"PS1", "PS2"} or None, default=None
        The publication of the proposed split. None: detected from the file if possible, else
        recorded as "unknown"; see :ref:`datasets`.
    class_splits : mapping, path, "random" or None, default=None
        Unseen classes of each class split, by name or by number from 1: ``{"ss-1": ["cat", …],
        …}``; or a JSON file with the same content, by default ``class_splits.json`` in the data
        set's folder. "random" assigns classes to splits of the published sizes with `random_state`,
        and the version records it.
    hold_out : float, path, "authors" or None, default=None
        Test images of seen classes for splits without their own: a share of each class, drawn with
        `random_state` (0.2 is common), or for "ss" and "ss0" the authors' file
        (``NAME_SS_GZSL_inform.mat``), which "authors" looks for in the folder ``authors`` in
        `folder`. None: all images of seen classes are used for training, as in the conventional
        setting.
    random_state : int, RandomState or None, default=0
        Seed of the hold-out and of random class splits.
    max_bytes : int or None, default=None
        Maximum memory for reading one file; see :func:`load_table`.

    Returns
    -------
    ZeroShotDataset
        Classes are labelled by their names in the file, or by numbers from 1 if it has no names,
        and are in the order of their numbers. Training samples are in the order of the file, so
        that the authors' class orders and hold-outs apply. The version includes the first digits of
        the split's checksum.

    Notes
    -----
    Missing attribute values of AWA are −1 in the files and are kept, as in the authors' program.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> from scipy.io import savemat
    >>> from zslearn.datasets import load_xlsa17
    >>> files = tempfile.TemporaryDirectory()
    >>> cub = Path(files.name) / "CUB"
    >>> cub.mkdir()
    >>> savemat(cub / "res101.mat", {"features": np.eye(3, 6), "labels": [[1, 1, 1, 2, 2, 2]]})
    >>> savemat(cub / "att_splits.mat", {
    ...     "original_att": np.eye(2),
    ...     "allclasses_names": np.array(["wren", "gull"], dtype=object),
    ...     "trainval_loc": [[1, 2]], "test_seen_loc": [[3]], "test_unseen_loc": [[4, 5, 6]]})
    >>> data = load_xlsa17("CUB", folder=files.name, version="PS2")
    >>> data.y_test_unseen.tolist()
    ['gull', 'gull', 'gull']
    >>> files.cleanup()
    """
    if name not in XLSA17:
        raise ValueError(
            f"There is no data set {name!r}.{did_you_mean(name, XLSA17)} There are: "
            f"{', '.join(XLSA17)}."
        )
    names = _chosen_splits((split,) if isinstance(split, str) else tuple(split), name)
    if hold_out is not None and set(names) == {"ns"}:
        raise ValueError(
            "hold_out is for splits without test images of seen classes; 'ns' has its own."
        )
    is_share = isinstance(hold_out, Real) and not isinstance(hold_out, bool) and 0 < hold_out < 1
    if not (is_share or hold_out is None or isinstance(hold_out, str | os.PathLike)):
        raise ValueError(
            f"hold_out={hold_out!r}; give a share between 0 and 1, 'authors', or one of the "
            "authors' files."
        )
    check_scaling(signature_scaling, "signature_scaling")
    if version not in (None, "PS1", "PS2"):
        raise ValueError(f"version={version!r}; give 'PS1', 'PS2' or None.")
    home = find_data_set(folder, name)
    suffix = ""
    with limit_reading(max_bytes):
        classes = read_classes(home, signatures)
        if isinstance(class_splits, str) and class_splits == "random":
            # As in the paper, each class is unseen in one split: 4 × 50 classes of CUB, 71 or 72
            # classes in each of the 10 splits of SUN.
            suffix = "/random"
            if isinstance(random_state, Integral):
                suffix += f"-seed{int(random_state)}"
            order = check_random_state(random_state).permutation(len(classes.names)) + 1
            n_splits = max(1, XLSA17[name].n_class_splits)
            dealt = enumerate(np.array_split(order, n_splits), start=1)
            class_splits = {f"ss-{k}": np.sort(numbers) for k, numbers in dealt}
        reader = SplitReader(
            name, home, folder, classes.names, version, class_splits, hold_out, random_state, suffix
        )
        # Check everything else before reading features, which is slow.
        if version is not None and "ns" in names:
            path = home / SPLIT_FILE
            checked_version(path, read_parts(path, PART_VARIABLES, None), version)
        for one in names:
            if one.startswith("ss-"):
                reader.unseen_classes(one)
        X, numbers, called = read_any_features(home, features, classes)
        splits = {one: reader.read(one, numbers) for one in names}
    semantic = "" if signatures == DEFAULT_SIGNATURES else " + ".join(classes.views)
    data = data_set(name, X, numbers, classes, splits, called, semantic)
    if signature_scaling is None:
        return data
    return data._changed(signatures=with_scaling(data.signatures, signature_scaling))


def data_set(
    name: str,
    X: NDArray[Any],
    numbers: NDArray[np.intp],
    classes: Classes,
    splits: Mapping[str, ClassSplit],
    features: str,
    semantic: str = "",
) -> ZeroShotDataset:
    """Build the data set; the first split is active."""
    return ZeroShotDataset(
        X=X,
        y=np.asarray(classes.names)[numbers - 1],
        signatures=classes.signatures(),
        splits=splits,
        split=next(iter(splits)),
        name=name,
        features=Path(features).stem,
        semantic=semantic,
    )


def _chosen_splits(splits: Sequence[str], name: str) -> list[str]:
    """Expand the requested splits; raise if the data set does not have one."""
    if not splits:
        raise ValueError("split is empty; name at least one split, for example 'ns'.")
    known = XLSA17[name].splits
    class_splits = [split for split in known if split.startswith("ss-")]
    chosen: list[str] = []
    for split in splits:
        if split == "ss" and class_splits:
            chosen += class_splits
        elif split in known:
            chosen.append(split)
        else:
            every = f", or 'ss' for all of ss-1 … {class_splits[-1]}" if class_splits else ""
            raise ValueError(
                f"{name} has no split {split!r}; choose from {', '.join(known)}{every}."
            )
    return list(dict.fromkeys(chosen))


@dataclass(frozen=True)
class SplitReader:
    """Reads or generates the splits of a data set; see :func:`load_xlsa17` for the options."""

    name: str
    home: Path
    folder: str | os.PathLike[str] | None
    class_names: list[Any]
    version: str | None = None
    class_splits: Any = None
    hold_out: Any = None
    random_state: Any = 0
    suffix: str = ""  # of the versions of generated class splits

    def read(self, split: str, numbers: NDArray[np.intp]) -> ClassSplit:
        """Read one split of samples with these class numbers."""
        sources = [self.home]
        if split == "ns":
            path = self.home / SPLIT_FILE
            parts = read_parts(path, PART_VARIABLES, len(numbers))
            label = f"ns/{checked_version(path, parts, self.version)}"
        else:
            label = split
            if split in ("ss", "ss0"):
                path = find_standard_split(self.folder, self.home, self.name)
                sources.append(path.parent)
                parts = read_parts(path, ("train", "test_unseen"), len(numbers))
            else:
                tests = np.isin(numbers, self.unseen_classes(split))
                parts = {"train": np.flatnonzero(~tests), "test_unseen": np.flatnonzero(tests)}
                label += self.suffix
            if self.hold_out is not None:
                train = parts["train"]
                held, how = self._held_out(split, numbers[train])
                parts |= {"train": train[~held], "test_seen": train[held]}
                label += how
        labels = np.asarray(self.class_names)
        seen, unseen = (np.unique(numbers[parts[part]]) for part in ("train", "test_unseen"))
        return ClassSplit(
            train=parts["train"],
            test_seen=parts.get("test_seen", np.empty(0, dtype=np.intp)),
            test_unseen=parts["test_unseen"],
            seen_classes=labels[seen - 1],
            unseen_classes=labels[unseen - 1],
            version=f"xlsa17/{label}/{parts_checksum(parts)[:8]}{unverified_mark(*sources)}",
        )

    def unseen_classes(self, split: str) -> NDArray[np.intp]:
        """Return the numbers of the unseen classes of a class split."""
        class_splits, names = self.class_splits, self.class_names
        if class_splits is None:
            class_splits = self.home / "class_splits.json"
            if not class_splits.is_file():
                raise FileNotFoundError(
                    f"The class split {split!r} is not part of xlsa17: pass class_splits="
                    f"{{{split!r}: [unseen classes], …}} or save this as JSON in {class_splits}. "
                    "class_splits='random' draws splits that differ from the published ones."
                )
        if not isinstance(class_splits, Mapping):
            path = Path(class_splits)
            class_splits = read_json(path)
            if not isinstance(class_splits, dict):
                raise ValueError(f"{path}: the file must map split names to lists of classes.")
        if split not in class_splits:
            raise NoClassListError(
                f"class_splits has no {split!r}, only {name_some(class_splits)}."
            )
        labels = class_splits[split]
        if isinstance(labels, str | Mapping) or not isinstance(labels, Iterable):
            raise ValueError(f"class split {split!r} must be a list of classes.")
        number_of: dict[Any, int] = {n: n for n in range(1, len(names) + 1)}
        number_of |= {name: number for number, name in enumerate(names, 1)}
        unseen = []
        for label in labels:
            is_known = isinstance(label, str | Integral) and label in number_of
            if isinstance(label, bool) or not is_known:
                raise ValueError(f"class split {split!r}: there is no class {label!r}.")
            unseen.append(number_of[label])
        if len(set(unseen)) != len(unseen) or not 0 < len(unseen) < len(names):
            raise ValueError(
                f"class split {split!r} lists {len(unseen)} of {len(names)} classes as unseen; "
                "list each once, and leave at least one seen class."
            )
        return np.array(unseen, dtype=np.intp)

    def _held_out(self, split: str, numbers: NDArray[np.intp]) -> tuple[NDArray[np.bool_], str]:
        """Return which training samples are held out, and a suffix for the version."""
        hold_out, codes = self.hold_out, np.unique(numbers, return_inverse=True)[1]
        if not isinstance(hold_out, str | os.PathLike):
            rng = check_random_state(self.random_state)
            return hold_out_per_class(codes, float(hold_out), rng), f"/hold-out {float(hold_out):g}"
        if hold_out == AUTHORS:
            folders = [data_home(self.folder) / AUTHORS, None]
            path = authors_file(self.name, split, "GZSL_inform", folders)
        elif not (path := Path(hold_out)).is_file():
            raise FileNotFoundError(
                f"hold_out={str(hold_out)!r}: there is no such file. Give a share such as 0.2, "
                "'authors', or one of the authors' files."
            )
        hold_outs = read_hold_outs(path)
        if hold_outs.test_seen is None:
            raise ValueError(
                f"{path}: there is no tr_hold_ind; use the authors' files for the standard splits "
                "(NAME_SS_GZSL_inform.mat)."
            )
        held = np.zeros(len(codes), dtype=bool)
        fits = is_a_fifth_of_each(codes, hold_outs.test_seen)
        if fits:
            held[hold_outs.test_seen] = True
            fits = hold_outs.fit_tuning(codes[~held])
        if not fits:
            raise ValueError(
                f"{path}: these hold-outs are not a fifth of each class of {split!r}; they belong "
                "to samples in another order, or to other classes. Pass hold_out=0.2 instead."
            )
        return held, f"/{path.stem}"


class NoClassListError(ValueError):
    """`class_splits` does not list the unseen classes of this split."""
