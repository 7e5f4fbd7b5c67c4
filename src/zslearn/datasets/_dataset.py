"""The data set that every loader returns: samples, signatures, and splits that do not leak."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._messages import name_near_misses, name_some
from zslearn._utils._validation import as_pandas, numeric_columns, refuse_text
from zslearn.signatures._table import finite_numbers, indexed_by_label
from zslearn.signatures._views import MultiSignatures, map_views

PARTS = ("train", "test_seen", "test_unseen")


@dataclass(frozen=True, eq=False, repr=False)
class ClassSplit:
    """Training samples, test samples, and which classes are seen.

    The arrays are copied and read-only; a :class:`ZeroShotDataset` checks them against its data.

    Parameters
    ----------
    train : array-like of int
        Indices of the training samples, from 0, all from seen classes.
    test_seen : array-like of int
        Indices of the test samples from seen classes; empty if only the conventional setting is
        evaluated.
    test_unseen : array-like of int
        Indices of the test samples from unseen classes, if any.
    seen_classes : array-like
        Labels of the classes with training samples.
    unseen_classes : array-like
        Labels of the classes without training samples.
    version : str
        Name of the published or generated split, for example ``"glyphs-1/ns"``.

    See Also
    --------
    ZeroShotDataset : Its example builds a split.
    """

    train: Any
    test_seen: Any
    test_unseen: Any
    seen_classes: Any
    unseen_classes: Any
    version: str

    def __post_init__(self) -> None:
        for field in (*PARTS, "seen_classes", "unseen_classes"):
            array = np.array(getattr(self, field))
            if field in PARTS and array.shape == (0,):
                array = np.empty(0, dtype=np.intp)  # an empty list would become floats
            array.flags.writeable = False
            object.__setattr__(self, field, array)

    def __repr__(self) -> str:
        return (
            f"<ClassSplit {self.version}: {self.train.size} train, "
            f"{self.test_seen.size} test seen, {self.test_unseen.size} test unseen; "
            f"{self.seen_classes.size} seen and {self.unseen_classes.size} unseen classes>"
        )


def _name_classes(labels: list[Hashable]) -> str:
    """Describe a list of classes: how many, and some of them."""
    if len(labels) == 1:
        return f"class {labels[0]!r}"
    return f"{len(labels)} classes ({name_some(labels)})"


def _check_split(
    split: ClassSplit,
    codes: NDArray[np.intp],
    labels: list[Hashable],
    described: set[Hashable],
    where: str,
) -> None:
    """Raise if a split leaks or does not fit the samples, where `codes` index `labels`."""
    for part in PARTS:
        if part == "train" or getattr(split, part).size:
            _check_indices(getattr(split, part), len(codes), f"{where}, part {part}")
    for first, second in combinations(PARTS, 2):
        shared = np.intersect1d(getattr(split, first), getattr(split, second))
        if shared.size:
            raise ValueError(
                f"{where}: parts {first} and {second} share {shared.size} samples "
                f"({name_some(shared)}); keep each sample in one part."
            )
    seen, unseen = split.seen_classes.tolist(), split.unseen_classes.tolist()
    listed = {"seen": set(seen), "unseen": set(unseen)}
    for field, names in (("seen_classes", seen), ("unseen_classes", unseen)):
        if repeated := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(
                f"{where}: {field} lists {_name_classes(repeated)} more than once; list each "
                "class once."
            )
    if both := [label for label in seen if label in listed["unseen"]]:
        raise ValueError(
            f"{where}: {_name_classes(both)} listed both as seen and as unseen, so that unseen "
            "classes would be trained on; keep each class in one list."
        )
    if unknown := [label for label in seen + unseen if label not in described]:
        raise ValueError(
            f"{where}: {_name_classes(unknown)} listed without a signature; "
            "add a row to signatures for each."
        )
    for part in PARTS:
        own, other = ("unseen", "seen") if part == "test_unseen" else ("seen", "unseen")
        present = [labels[code] for code in np.unique(codes[getattr(split, part)])]
        if leaked := [label for label in present if label in listed[other]]:
            raise ValueError(
                f"{where}: part {part} holds samples of {_name_classes(leaked)} listed as {other}; "
                f"move these samples to test_{other}, or list the class as {own}."
            )
        if stray := [label for label in present if label not in listed[own]]:
            raise ValueError(
                f"{where}: part {part} holds samples of {_name_classes(stray)} not listed in "
                f"{own}_classes; list the class, or leave out its samples."
            )
    trained = {labels[code] for code in np.unique(codes[split.train])}
    if untrained := [label for label in seen if label not in trained]:
        raise ValueError(
            f"{where}: {_name_classes(untrained)} listed as seen without any training sample; "
            "give the class training samples, or list it as unseen."
        )


def _check_indices(indices: NDArray[Any], n_samples: int, where: str) -> None:
    """Raise unless indices are distinct integers in [0, n_samples)."""
    if indices.size == 0:
        raise ValueError(f"{where}: the part is empty; there is nothing to learn from.")
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(
            f"{where}: indices have dtype {indices.dtype} and shape {indices.shape}; give a "
            "one-dimensional array of integers, for a boolean mask np.flatnonzero(mask)."
        )
    outside = indices[(indices < 0) | (indices >= n_samples)]
    if outside.size:
        is_from_1 = indices.min() >= 1 and indices.max() == n_samples
        raise ValueError(
            f"{where}: {outside.size} indices out of range ({name_some(outside)}); with "
            f"{n_samples} samples they must lie in 0 … {n_samples - 1}."
            + (" If they count from 1, as in MATLAB files, subtract 1." if is_from_1 else "")
        )
    values, counts = np.unique(indices, return_counts=True)
    if (repeated := values[counts > 1]).size:
        raise ValueError(
            f"{where}: {repeated.size} indices occur more than once ({name_some(repeated)}); "
            "keep each once."
        )


@dataclass(frozen=True, eq=False, repr=False)
class ZeroShotDataset:
    """Samples, labels, class signatures, and splits into seen and unseen classes.

    A split that leaks raises an error. `X` is neither copied nor read, so it may be a memory map.
    ``X_train`` and the other parts index it on every access: keep the result if you need it twice.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Image features: a NumPy array, a memory map, or an array of another library that supports
        indexing by rows.
    y : array-like of shape (n_samples,)
        Class labels.
    signatures : DataFrame of shape (n_classes, n_attributes) or MultiSignatures
        One row per described class; the index holds the same labels as `y`.
    splits : mapping of str to ClassSplit
        The splits by name.
    split : str
        Name of the active split.
    name : str
        Name of the data set.
    features : str
        Name of the features.
    images : array of shape (n_samples, height, width) or None, default=None
        The images themselves, if available.
    feature_names : array-like of str of shape (n_features,) or None, default=None
        Names of the columns of `X`; by default those of a DataFrame.
    semantic : str, default=""
        Kind of signatures, for data sets that offer several.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from zslearn.datasets import ClassSplit, ZeroShotDataset
    >>> split = ClassSplit(
    ...     train=[0, 1], test_seen=[2], test_unseen=[3],
    ...     seen_classes=["cat"], unseen_classes=["dog"], version="pets-1")
    >>> data = ZeroShotDataset(
    ...     X=np.eye(4), y=["cat", "cat", "cat", "dog"],
    ...     signatures=pd.DataFrame({"barks": [0, 1]}, index=["cat", "dog"]),
    ...     splits={"ns": split}, split="ns", name="pets", features="identity")
    >>> data
    <ZeroShotDataset pets, split ns, version pets-1>
      samples     4: 2 train, 1 test seen, 1 test unseen
      classes     2: 1 seen, 1 unseen
      features    4 (identity)
      signatures  1
      images      none
      splits      ns
    >>> data.X_test_unseen
    array([[0., 0., 0., 1.]])
    """

    X: Any
    y: Any
    signatures: Any
    splits: Mapping[str, ClassSplit]
    split: str
    name: str
    features: str
    images: Any = None
    feature_names: Any = None
    semantic: str = ""
    # How a loader turned the columns of a table into features, if it did.
    preparation = None

    def __post_init__(self) -> None:
        X, names = self.X, self.feature_names
        if names is None and hasattr(X, "columns"):
            columns = list(X.columns)
            names = columns if all(isinstance(column, str) for column in columns) else None
        if not hasattr(X, "shape") or hasattr(X, "columns"):
            X = np.asarray(X)
        names = None if names is None else np.asarray(names, object)
        converted = {"X": X, "y": np.asarray(self.y), "feature_names": names}
        converted["signatures"] = indexed_by_label(self.signatures)
        for field, value in {**converted, "splits": dict(self.splits)}.items():
            object.__setattr__(self, field, value)
        self._check_shapes()
        self._check_splits()
        self._check_split_name(self.split)

    def with_split(self, name: str) -> ZeroShotDataset:
        """Return the same data with another active split; arrays are shared, not copied.

        Parameters
        ----------
        name : str
            A key of ``splits``.
        """
        self._check_split_name(name)
        return self._changed(split=name)

    def with_splits(self, splits: Sequence[str] | Mapping[str, ClassSplit]) -> ZeroShotDataset:
        """Return the same data with a selection of its splits, or with new splits.

        Parameters
        ----------
        splits : sequence of str or mapping of str to ClassSplit
            Keys of ``splits``, or new splits by name; the first becomes the active one.
        """
        if isinstance(splits, str) or not splits:
            raise ValueError(f"with_splits takes a list of names, at least one; got {splits!r}.")
        if not isinstance(splits, Mapping):
            for name in splits:
                self._check_split_name(name)
            splits = {name: self.splits[name] for name in splits}
        other = self._changed(split=next(iter(splits)), splits=dict(splits))
        other._check_splits()
        return other

    def with_signatures(self, signatures: pd.DataFrame | MultiSignatures) -> ZeroShotDataset:
        """Return the same data with other signatures of the same classes.

        Parameters
        ----------
        signatures : DataFrame or MultiSignatures
            One row for each class described in this data set.
        """
        if _check_signatures(signatures, self.name) != set(self.signatures.index.tolist()):
            raise ValueError(f"{self.name}: these signatures describe other classes.")
        return self._changed(signatures=signatures)

    def with_unseen(self, classes: Sequence[Hashable], name: str) -> ZeroShotDataset:
        """Return the active split restricted to some of its unseen classes.

        Parameters
        ----------
        classes : sequence of labels
            The classes to keep; labels that are not unseen in the active split are ignored.
        name : str
            Name of this group of classes: the split becomes "ns, only NAME".
        """
        split, chosen = self.active_split, set(classes)
        unseen = [label for label in split.unseen_classes.tolist() if label in chosen]
        if len(unseen) < 2:
            raise ValueError(
                f"{self.name}, split {self.split!r}: {len(unseen)} of the unseen classes belong "
                f"to {name}; at least two are needed to choose among."
            )
        kept = [*split.seen_classes.tolist(), *unseen]
        signatures = map_views(self.signatures, lambda view: view[view.index.isin(kept)])
        part = replace(
            split,
            test_unseen=split.test_unseen[pd.Index(self.y[split.test_unseen]).isin(unseen)],
            unseen_classes=unseen,
            version=f"{split.version}, only {name}",
        )
        only = f"{self.split}, only {name}"
        return self._changed(split=only, splits={only: part}, signatures=signatures)

    def with_features(self, X: Any, features: str) -> ZeroShotDataset:
        """Return the same samples with other features, such as their principal components.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            One row per sample, in the same order.
        features : str
            Name of these features.
        """
        return replace(self, X=X, features=features, feature_names=None)

    def features_from(self, table: Any) -> NDArray[Any]:
        """Take the features of further samples from a table, by column name.

        Parameters
        ----------
        table : DataFrame
            A pandas or polars DataFrame with one row per sample. Other columns are ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The columns of ``X_train``, in the same order and units.
        """
        if self.feature_names is None:
            raise ValueError(
                f"{self.name}: the features have no names; load the data set from a table, or "
                "pass feature_names=."
            )
        if self.preparation is not None:
            found: NDArray[Any] = self.preparation.transform(table)
            return found
        names, columns = self.feature_names.tolist(), list(table.columns)
        if missing := [name for name in names if name not in columns]:
            raise ValueError(
                f"{self.name}: the table has no columns {name_some(missing)}; it has "
                f"{name_some(columns)}."
            )
        frame = numeric_columns(as_pandas(table)[names], self.name)
        refuse_text(frame, self.name)
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)

    @property
    def active_split(self) -> ClassSplit:
        """The active split."""
        return self.splits[self.split]

    @property
    def version(self) -> str:
        """Version of the active split."""
        return self.active_split.version

    @property
    def seen_classes(self) -> NDArray[Any]:
        """Labels of the classes with training samples."""
        return _rows(self.active_split.seen_classes, ...)

    @property
    def unseen_classes(self) -> NDArray[Any]:
        """Labels of the classes without training samples."""
        return _rows(self.active_split.unseen_classes, ...)

    @property
    def X_train(self) -> NDArray[Any]:
        """Features of the training samples."""
        return _rows(self.X, self.active_split.train)

    @property
    def y_train(self) -> NDArray[Any]:
        """Labels of the training samples."""
        return _rows(self.y, self.active_split.train)

    @property
    def images_train(self) -> Any:
        """Images of the training samples, or None."""
        return _rows(self.images, self.active_split.train)

    @property
    def X_test_seen(self) -> NDArray[Any]:
        """Features of the test samples from seen classes."""
        return _rows(self.X, self.active_split.test_seen)

    @property
    def y_test_seen(self) -> NDArray[Any]:
        """Labels of the test samples from seen classes."""
        return _rows(self.y, self.active_split.test_seen)

    @property
    def images_test_seen(self) -> Any:
        """Images of the test samples from seen classes, or None."""
        return _rows(self.images, self.active_split.test_seen)

    @property
    def X_test_unseen(self) -> NDArray[Any]:
        """Features of the test samples from unseen classes."""
        return _rows(self.X, self.active_split.test_unseen)

    @property
    def y_test_unseen(self) -> NDArray[Any]:
        """Labels of the test samples from unseen classes."""
        return _rows(self.y, self.active_split.test_unseen)

    @property
    def images_test_unseen(self) -> Any:
        """Images of the test samples from unseen classes, or None."""
        return _rows(self.images, self.active_split.test_unseen)

    def __repr__(self) -> str:
        split = self.active_split
        sizes = split.train.size, split.test_seen.size, split.test_unseen.size
        n_seen, n_unseen = split.seen_classes.size, split.unseen_classes.size
        images = "none" if self.images is None else " × ".join(map(str, self.images.shape[1:]))
        several = isinstance(self.signatures, MultiSignatures)
        views = self.signatures.views.values() if several else [self.signatures]
        widths = " + ".join(str(view.shape[1]) for view in views)
        named = f" ({self.semantic})" if self.semantic else ""
        return "\n".join(
            [
                f"<ZeroShotDataset {self.name}, split {self.split}, version {split.version}>",
                f"  samples     {sum(sizes)}: {sizes[0]} train, {sizes[1]} test seen, "
                f"{sizes[2]} test unseen",
                f"  classes     {n_seen + n_unseen}: {n_seen} seen, {n_unseen} unseen",
                f"  features    {self.X.shape[1]} ({self.features})",
                f"  signatures  {widths}{named}",
                f"  images      {images}",
                f"  splits      {', '.join(self.splits)}",
            ]
        )

    def _changed(self, **values: Any) -> ZeroShotDataset:
        """Copy with other values, which were checked; arrays are shared."""
        other = copy.copy(self)
        for field, value in values.items():
            object.__setattr__(other, field, value)
        return other

    def _check_splits(self) -> None:
        """Raise if a split leaks or does not fit the labels and signatures."""
        described = _check_signatures(self.signatures, self.name)
        codes, labels = self._encode_labels(described)
        for name, split in self.splits.items():
            _check_split(split, codes, labels, described, f"{self.name}, split {name!r}")

    def _check_split_name(self, split: str) -> None:
        if split not in self.splits:
            raise ValueError(
                f"{self.name} has no split {split!r}; choose one of "
                f"{', '.join(map(repr, self.splits)) or '(none given)'}."
            )

    def _check_shapes(self) -> None:
        n_samples = self.X.shape[0] if self.X.shape else 0
        names, images = self.feature_names, self.images
        problem = ""
        if len(self.X.shape) != 2:
            problem = f"X has shape {tuple(self.X.shape)}; give one row of features per sample"
        elif self.y.shape != (n_samples,):
            problem = (
                f"X has {n_samples} rows and y has shape {self.y.shape}; give exactly one label "
                "per row of X"
            )
        elif names is not None and names.shape != (self.X.shape[1],):
            problem = (
                f"there are {names.size} feature_names for {self.X.shape[1]} columns of X; give "
                "one per column"
            )
        elif images is not None and images.shape[0] != n_samples:
            problem = (
                f"there are {images.shape[0]} images for {n_samples} rows of X; give one image "
                "per row, in the same order"
            )
        if problem:
            raise ValueError(f"{self.name}: {problem}.")

    def _encode_labels(self, described: set[Hashable]) -> tuple[NDArray[np.intp], list[Hashable]]:
        """Encode `y` as class numbers; raise if a class has no signature."""
        codes, uniques = pd.factorize(self.y)
        if codes.size and codes.min() < 0:
            raise ValueError(
                f"{self.name}: y has {int((codes < 0).sum())} missing labels, the first at index "
                f"{int(np.argmax(codes < 0))}; remove these samples or label them."
            )
        labels = uniques.tolist()
        if missing := [label for label in labels if label not in described]:
            near = name_near_misses(
                missing, described, unknown_in="y", known_in="the index of signatures"
            )
            if not near and not {type(label) for label in described} & {type(missing[0])}:
                near = (
                    f" Labels are of type {type(missing[0]).__name__}, the index of signatures is "
                    f"of dtype {self.signatures.index.dtype}."
                )
            raise ValueError(
                f"{self.name}: {_name_classes(missing)} of y "
                f"{'has' if len(missing) == 1 else 'have'} no signature; give signatures a row for "
                f"each class, with the same label as in y.{near}"
            )
        return codes, labels


def _rows(values: Any, rows: Any) -> NDArray[Any]:
    """Select rows; None without values."""
    return cast(NDArray[Any], None if values is None else values[rows])


def _check_signatures(signatures: Any, name: str) -> set[Hashable]:
    """Check the signatures, or each view of them; return the labels they describe."""
    if isinstance(signatures, MultiSignatures):
        described = [_check_signatures(view, name) for view in signatures.views.values()]
        if any(labels != described[0] for labels in described):
            raise ValueError(f"{name}: the views of signatures do not describe the same classes.")
        return described[0]
    if not isinstance(signatures, pd.DataFrame):
        raise TypeError(
            f"{name}: signatures must be a pandas DataFrame with one row per class, not "
            f"{type(signatures).__name__}; write pd.DataFrame(values, index=labels)."
        )
    index = signatures.index
    if index.has_duplicates:
        repeated = index[index.duplicated()].unique().tolist()
        raise ValueError(
            f"{name}: signatures describe {_name_classes(repeated)} more than once; "
            "keep one row per class."
        )
    finite_numbers(signatures, f"{name}: signatures")
    return set(index.tolist())
