"""The container every loader returns."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from zslearn.datasets._class_split import ClassSplit, check_split, name_classes
from zslearn.signatures import MultiSignatures
from zslearn.utils import Array, name_some


@dataclass(frozen=True, eq=False, init=False, repr=False)
class ZeroShotDataset:
    """Samples, labels, class signatures, and splits into seen and unseen classes.

    Every split is checked when the data set is made; one that leaks is refused. `X` is neither
    copied nor read then, so that it may be a memory map. ``X_train`` and its like index the
    data each time they are asked for: keep the result if it is needed twice.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Image features: a NumPy array or memory map, as every loader gives it. An array of another
        library is kept as it is if integers index its rows; type hints speak of NumPy's.
    y : array-like of shape (n_samples,)
        Class labels.
    signatures : DataFrame of shape (n_classes, n_attributes) or MultiSignatures
        One row per described class; the index holds the labels as they stand in `y`. Several views
        of a class are DataFrames in MultiSignatures.
    splits : mapping of str to ClassSplit
        The splits by name.
    split : str
        Name of the active split.
    name : str
        Name of the data set.
    features : str
        Name of the features.
    images : array of shape (n_samples, height, width) or None, default=None
        The images themselves, where the data set has them.
    feature_names : array-like of str of shape (n_features,) or None, default=None
        Names of the columns of `X`; by default those of a DataFrame. :meth:`features_from` finds
        them in another table.
    semantic : str, default=""
        Name of the kind of signatures, where there are several to choose from.

    Raises
    ------
    ValueError
        When the parts do not fit together or a split leaks.

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

    X: NDArray[Any]
    y: NDArray[Any]
    signatures: Any
    splits: Mapping[str, ClassSplit]
    split: str
    name: str
    features: str
    images: Any = None
    feature_names: NDArray[Any] | None = None
    semantic: str = ""

    def __init__(
        self,
        X: ArrayLike | Array,
        y: ArrayLike,
        signatures: pd.DataFrame | MultiSignatures,
        splits: Mapping[str, ClassSplit],
        split: str,
        name: str,
        features: str,
        images: Any = None,
        feature_names: ArrayLike | None = None,
        semantic: str = "",
    ) -> None:
        if feature_names is None and isinstance(X, pd.DataFrame):
            columns = X.columns.tolist()
            feature_names = columns if all(isinstance(c, str) for c in columns) else None
        if not hasattr(X, "shape") or isinstance(X, pd.DataFrame):
            X = np.asarray(X)
        values = {
            "X": X,
            "y": np.asarray(y),
            "signatures": signatures,
            "splits": dict(splits),
            "split": split,
            "name": name,
            "features": features,
            "images": images,
            "feature_names": _as_names(feature_names),
            "semantic": semantic,
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)
        self._check_shapes()
        described = _check_signatures(self.signatures, self.name)
        codes, labels = self._encode_labels(described)
        for split_name, class_split in self.splits.items():
            where = f"{self.name}, split {split_name!r}"
            check_split(class_split, codes, labels, described, where)
        self._check_split_name(split)

    def with_split(self, name: str) -> ZeroShotDataset:
        """Return the same data with another active split.

        Parameters
        ----------
        name : str
            A key of ``splits``.

        Returns
        -------
        ZeroShotDataset
            It shares every array with this one.
        """
        self._check_split_name(name)
        other = copy.copy(self)
        object.__setattr__(other, "split", name)
        return other

    def with_splits(self, names: Sequence[str]) -> ZeroShotDataset:
        """Return the same data with some of its splits only.

        Parameters
        ----------
        names : sequence of str
            Keys of ``splits``; the first becomes the active one.

        Returns
        -------
        ZeroShotDataset
            It shares every array with this one.
        """
        if isinstance(names, str) or not names:
            raise ValueError(f"with_splits takes a list of names, at least one; got {names!r}.")
        for name in names:
            self._check_split_name(name)
        other = self.with_split(names[0])
        object.__setattr__(other, "splits", {name: self.splits[name] for name in names})
        return other

    def with_signatures(self, signatures: pd.DataFrame | MultiSignatures) -> ZeroShotDataset:
        """Return the same data with other signatures of the same classes.

        Parameters
        ----------
        signatures : DataFrame or MultiSignatures
            One row for each class that is described here.

        Returns
        -------
        ZeroShotDataset
            It shares every other array with this one.
        """
        if _check_signatures(signatures, self.name) != set(self.signatures.index.tolist()):
            raise ValueError(f"{self.name}: these signatures describe other classes.")
        other = copy.copy(self)
        object.__setattr__(other, "signatures", signatures)
        return other

    def with_features(self, X: ArrayLike | Array, features: str) -> ZeroShotDataset:
        """Return the same samples with other features, such as their principal components.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            One row for each sample here, in the same order.
        features : str
            Name of these features.

        Returns
        -------
        ZeroShotDataset
            It shares every other array with this one.

        Examples
        --------
        >>> from zslearn.datasets import make_zero_shot
        >>> data = make_zero_shot(random_state=0)
        >>> data.with_features(data.X[:, :5], "the first five").X_train.shape[1]
        5
        """
        return ZeroShotDataset(
            X,
            self.y,
            self.signatures,
            self.splits,
            self.split,
            self.name,
            features,
            images=self.images,
            semantic=self.semantic,
        )

    def features_from(self, table: Any) -> NDArray[Any]:
        """Take the features of further samples from a table, by the names of its columns.

        What comes back has the columns of ``X_train``, in their order, so that a model fitted on
        ``X_train`` takes it without a warning. Other columns are passed over.

        Parameters
        ----------
        table : DataFrame
            Of pandas or polars, with one row per sample.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The features.

        Raises
        ------
        ValueError
            A column is missing or holds no numbers, or the data set has no names of features.
        """
        if self.feature_names is None:
            raise ValueError(
                f"{self.name}: the features have no names; make the data set from a table, or give "
                "feature_names=."
            )
        columns = list(table.columns)
        if missing := [name for name in self.feature_names.tolist() if name not in columns]:
            raise ValueError(
                f"{self.name}: the table has no columns {name_some(missing)}; it has "
                f"{name_some(columns)}."
            )
        try:
            values = [np.asarray(table[name], dtype=float) for name in self.feature_names]
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{self.name}: the features in the table are not all numbers ({error})."
            ) from error
        return np.column_stack(values)

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
        return self.active_split.seen_classes

    @property
    def unseen_classes(self) -> NDArray[Any]:
        """Labels of the classes that are only described."""
        return self.active_split.unseen_classes

    @property
    def X_train(self) -> NDArray[Any]:
        """Features of the training samples."""
        return self.X[self.active_split.train]

    @property
    def y_train(self) -> NDArray[Any]:
        """Labels of the training samples."""
        return self.y[self.active_split.train]

    @property
    def images_train(self) -> Any:
        """Images of the training samples, or None."""
        return self._images_of(self.active_split.train)

    @property
    def X_test_seen(self) -> NDArray[Any]:
        """Features of the test samples of seen classes."""
        return self.X[self.active_split.test_seen]

    @property
    def y_test_seen(self) -> NDArray[Any]:
        """Labels of the test samples of seen classes."""
        return self.y[self.active_split.test_seen]

    @property
    def images_test_seen(self) -> Any:
        """Images of the test samples of seen classes, or None."""
        return self._images_of(self.active_split.test_seen)

    @property
    def X_test_unseen(self) -> NDArray[Any]:
        """Features of the test samples of unseen classes."""
        return self.X[self.active_split.test_unseen]

    @property
    def y_test_unseen(self) -> NDArray[Any]:
        """Labels of the test samples of unseen classes."""
        return self.y[self.active_split.test_unseen]

    @property
    def images_test_unseen(self) -> Any:
        """Images of the test samples of unseen classes, or None."""
        return self._images_of(self.active_split.test_unseen)

    def __repr__(self) -> str:
        split = self.active_split
        sizes = split.train.size, split.test_seen.size, split.test_unseen.size
        n_seen, n_unseen = split.seen_classes.size, split.unseen_classes.size
        if self.images is None:
            images = "none"
        else:
            images = " × ".join(str(side) for side in self.images.shape[1:])
        named = f" ({self.semantic})" if self.semantic else ""
        return "\n".join(
            [
                f"<ZeroShotDataset {self.name}, split {self.split}, version {split.version}>",
                f"  samples     {sum(sizes)}: {sizes[0]} train, {sizes[1]} test seen, "
                f"{sizes[2]} test unseen",
                f"  classes     {n_seen + n_unseen}: {n_seen} seen, {n_unseen} unseen",
                f"  features    {self.X.shape[1]} ({self.features})",
                f"  signatures  {' + '.join(map(str, self._widths()))}{named}",
                f"  images      {images}",
                f"  splits      {', '.join(self.splits)}",
            ]
        )

    def _widths(self) -> list[int]:
        """How many attributes each view of a class has."""
        several = isinstance(self.signatures, MultiSignatures)
        views = self.signatures.views.values() if several else [self.signatures]
        return [view.shape[1] for view in views]

    def _images_of(self, part: NDArray[Any]) -> Any:
        return None if self.images is None else self.images[part]

    def _check_split_name(self, split: str) -> None:
        if split not in self.splits:
            raise ValueError(
                f"{self.name} has no split {split!r}; choose one of "
                f"{', '.join(map(repr, self.splits)) or '(none given)'}."
            )

    def _check_shapes(self) -> None:
        if len(self.X.shape) != 2:
            raise ValueError(
                f"{self.name}: X has shape {tuple(self.X.shape)}; "
                "give one row of features per sample."
            )
        n_samples = self.X.shape[0]
        if self.y.shape != (n_samples,):
            raise ValueError(
                f"{self.name}: X has {n_samples} rows and y has shape {self.y.shape}; "
                "give exactly one label per row of X."
            )
        names = self.feature_names
        if names is not None and names.shape != (self.X.shape[1],):
            raise ValueError(
                f"{self.name}: there are {names.size} feature_names for {self.X.shape[1]} columns "
                "of X; give one per column."
            )
        if self.images is not None and self.images.shape[0] != n_samples:
            raise ValueError(
                f"{self.name}: there are {self.images.shape[0]} images for {n_samples} rows of X; "
                "give one image per row, in the same order."
            )

    def _encode_labels(self, described: set[Hashable]) -> tuple[NDArray[np.intp], list[Hashable]]:
        """Give each class of y a number; refuse a class that no signature describes."""
        codes, uniques = pd.factorize(self.y)
        if codes.size and codes.min() < 0:
            raise ValueError(
                f"{self.name}: y has {int((codes < 0).sum())} missing labels, the first at index "
                f"{int(np.argmax(codes < 0))}; remove these samples or label them."
            )
        labels = uniques.tolist()
        missing = [label for label in labels if label not in described]
        if missing:
            raise ValueError(
                f"{self.name}: {name_classes(missing)} of y "
                f"{'has' if len(missing) == 1 else 'have'} no signature; give signatures a row for "
                "each class, with the label as it stands in y (labels are of type "
                f"{type(missing[0]).__name__}, the index of signatures is of dtype "
                f"{self.signatures.index.dtype})."
            )
        return codes, labels


def _as_names(names: ArrayLike | None) -> NDArray[Any] | None:
    """Names of features as scikit-learn keeps them."""
    return None if names is None else np.asarray(names, dtype=object)


def _check_signatures(signatures: Any, name: str) -> set[Hashable]:
    """Check the table of signatures, or each of several; return the labels they describe."""
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
            f"{name}: signatures describe {name_classes(repeated)} more than once; "
            "keep one row per class."
        )
    numeric = all(pd.api.types.is_numeric_dtype(dtype) for dtype in signatures.dtypes)
    if not numeric or not np.isfinite(signatures.to_numpy(dtype=float, na_value=np.nan)).all():
        raise ValueError(
            f"{name}: signatures hold values that are not finite numbers; fill or drop them."
        )
    return set(index.tolist())
