"""A person's own data: features, labels and signatures from tables and arrays."""

from __future__ import annotations

import csv
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from zslearn.datasets._class_split import PARTS, ClassSplit
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.utils import hold_out_per_class, name_some

_File = str | os.PathLike[str]


def load_table(
    features: _File | ArrayLike,
    labels: _File | ArrayLike,
    signatures: _File | pd.DataFrame,
    *,
    label: str = "label",
    part: str | ArrayLike = "part",
    unseen_classes: _File | Iterable[Any] | None = None,
    hold_out: float | None = 0.2,
    random_state: int | np.random.RandomState | None = 0,
    images: _File | ArrayLike | None = None,
    name: str = "table",
    version: str | None = None,
) -> ZeroShotDataset:
    r"""Load a person's own data from tables and arrays.

    The split is given in one of two ways: by a column `part` in the table of labels, which says
    of each sample whether it is of "train", "test_seen", "test_unseen" or of none (empty); or by
    `unseen_classes`. Then `hold_out` of each other class is for testing.

    Parameters
    ----------
    features : path or array-like of shape (n_samples, n_features)
        A file ``.npy`` (it is memory-mapped), ``.npz``, ``.csv`` or ``.parquet`` with one row per
        sample, in the order of `labels`. An ``.npz`` file holds one array, or one named "X" or
        "features". All columns of a table are features.
    labels : path or array-like of shape (n_samples,)
        A file ``.csv`` or ``.parquet`` with a column `label`, or ``.npy``.
    signatures : path or DataFrame
        A file ``.csv`` or ``.parquet`` with one row per class; the first column holds the labels,
        the others what is known of the class, in numbers.
    label : str, default="label"
        The column of labels in the table of labels.
    part : str or array-like of shape (n_samples,), default="part"
        The column of parts in the table of labels, or the parts themselves.
    unseen_classes : path, iterable or None, default=None
        The unseen classes, if there is no `part`: their labels, or a text file with one label per
        line.
    hold_out : float or None, default=0.2
        With `unseen_classes`: the share of each seen class that becomes ``test_seen``. None: all
        of it trains.
    random_state : int, RandomState or None, default=0
        Seed of the hold-out.
    images : path to a ``.npy`` file, array-like or None, default=None
        One image per sample.
    name : str, default="table"
        Name of the data set.
    version : str or None, default=None
        Version of the split; by default made of `name` and the way the split is given.

    Returns
    -------
    ZeroShotDataset
        With one split, "own". Labels of text files are whole numbers if all of them are written as
        such, else strings.

    Raises
    ------
    ValueError
        A file is damaged or of an unknown kind, or the parts do not fit together.
    ImportError
        A parquet file is given and pyarrow is not installed.

    See Also
    --------
    load_xlsa17 : The field's benchmarks.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> from zslearn.datasets import load_table
    >>> files = tempfile.TemporaryDirectory()
    >>> folder = Path(files.name)
    >>> np.save(folder / "X.npy", np.eye(6, 3))
    >>> _ = (folder / "y.csv").write_text("label\n" + "cat\n" * 4 + "dog\n" * 2)
    >>> _ = (folder / "classes.csv").write_text("class,barks,purrs\ncat,0,1\ndog,1,0\n")
    >>> data = load_table(
    ...     folder / "X.npy", folder / "y.csv", folder / "classes.csv",
    ...     unseen_classes=["dog"], hold_out=0.25, name="pets")
    >>> data
    <ZeroShotDataset pets, split own, version pets/hold-out 0.25>
      samples     6: 3 train, 1 test seen, 2 test unseen
      classes     2: 1 seen, 1 unseen
      features    3 (X)
      signatures  2
      images      none
      splits      own
    >>> del data; files.cleanup()
    """
    X = _read_features(features)
    y, parts = _read_labels(labels, label, part)
    described = _read_signatures(signatures)
    y, described = _same_labels(y, described, labels, signatures)
    if parts is not None and unseen_classes is not None:
        raise ValueError(
            f"{name}: the split is given twice, by parts and by unseen_classes; leave out one."
        )
    if parts is not None:
        split = _split_by_parts(parts, y, described, version or f"{name}/parts")
    elif unseen_classes is not None:
        unseen = _read_classes(unseen_classes, y)
        how = f"hold-out {hold_out:g}" if hold_out is not None else "conventional"
        split = _split_by_classes(
            unseen, y, described, hold_out, random_state, version or f"{name}/{how}"
        )
    else:
        raise ValueError(
            f"{name}: no split is given; add a column {part!r} to the labels (train, test_seen, "
            "test_unseen), or name the unseen_classes."
        )
    return ZeroShotDataset(
        X=X,
        y=y,
        signatures=described,
        splits={"own": split},
        split="own",
        name=name,
        features=Path(features).stem if _is_file(features) else "array",
        images=_read_array(Path(images)) if _is_file(images) else _maybe_array(images),
    )


def _is_file(value: Any) -> TypeGuard[_File]:
    return isinstance(value, str | os.PathLike)


def _maybe_array(value: Any) -> Any:
    return None if value is None else np.asarray(value)


# ------------------------------------------------------------------------------------- files


def _read_features(source: Any) -> Any:
    if not _is_file(source):
        return source if hasattr(source, "shape") else np.asarray(source)
    path = Path(source)
    if path.suffix in (".npy", ".npz"):
        X = _read_array(path)
    else:
        table = _read_table(path, header=None if _headless(path) else 0)
        if others := _non_numeric(table):
            raise ValueError(
                f"{path}: columns {name_some(others)} are not numbers; leave only features in it."
            )
        X = table.to_numpy(dtype=float, na_value=np.nan)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(
            f"{path}: the array has shape {X.shape} and dtype {X.dtype}; features are numbers, one "
            "row per sample."
        )
    return X


def _read_array(path: Path) -> NDArray[Any]:
    """An array from a NumPy file; Python objects are never loaded."""
    if path.suffix not in (".npy", ".npz"):
        raise ValueError(f"{path}: images are given as a .npy file.")
    try:
        if path.suffix == ".npy":
            return np.load(path, mmap_mode="r", allow_pickle=False)
        with np.load(path, allow_pickle=False) as archive:
            names = archive.files
            wanted = names if len(names) == 1 else [n for n in ("X", "features") if n in names]
            if len(wanted) != 1:
                raise ValueError(
                    f"it holds {len(names)} arrays ({name_some(names)}); name one of them X"
                )
            return archive[wanted[0]]
    except FileNotFoundError:
        raise
    except (ValueError, OSError, EOFError, SyntaxError, KeyError, zipfile.BadZipFile) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path}: the array cannot be read ({reason}).") from error


def _read_table(path: Path, **options: Any) -> pd.DataFrame:
    try:
        if path.suffix == ".csv":
            # "NA" and "nan" may be names of classes; only what is empty is missing.
            return pd.read_csv(path, keep_default_na=False, na_values=[""], **options)
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
    except ImportError as error:
        raise ImportError(
            f"Reading {path.name} needs pyarrow, which is not installed. "
            "Install it with: pip install pyarrow"
        ) from error
    except FileNotFoundError:
        raise
    # Each parser has its own errors; all of them mean that it is not such a table.
    except Exception as error:
        raise ValueError(f"{path}: the table cannot be read ({error}).") from error
    raise ValueError(f"{path}: files of kind {path.suffix!r} are not read; use .csv or .parquet.")


def _headless(path: Path) -> bool:
    """Whether the first line of a table of features is data already."""
    if path.suffix != ".csv":
        return False
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        try:
            first = next(csv.reader(file), [])
        except csv.Error:
            return False
    try:
        return bool(first) and all(np.isfinite(float(cell)) for cell in first)
    except ValueError:
        return False


def _non_numeric(table: pd.DataFrame) -> list[str]:
    """The columns that do not hold numbers."""
    numeric = pd.api.types.is_numeric_dtype
    return [str(column) for column in table if not numeric(table[column].dtype)]


def _read_labels(source: Any, label: str, part: Any) -> tuple[Any, Any]:
    """Labels, and parts where they are given."""
    parts = None if isinstance(part, str) else np.asarray(part)
    if not _is_file(source):
        return np.asarray(source), parts
    path = Path(source)
    if path.suffix == ".npy":
        return np.array(_read_array(path)), parts
    table = _read_table(path, dtype=str)
    if label not in table:
        raise ValueError(
            f"{path}: there is no column {label!r}; it has {name_some(map(str, table.columns))}. "
            "Name the column of labels with label=."
        )
    if parts is None and part in table:
        parts = table[part].to_numpy(dtype=object)
    return table[label].to_numpy(dtype=object), parts


def _read_signatures(source: Any) -> pd.DataFrame:
    if not _is_file(source):
        return source
    path = Path(source)
    table = _read_table(path, dtype={0: str})
    if table.shape[1] < 2:
        raise ValueError(
            f"{path}: there are {table.shape[1]} columns; the first holds the labels, the others "
            "describe the classes."
        )
    table = table.set_index(table.columns[0])
    if table.index.hasnans:
        raise ValueError(f"{path}: the first column, of labels, has empty cells.")
    if others := _non_numeric(table):
        raise ValueError(f"{path}: columns {name_some(others)} are not numbers.")
    return table


def _read_classes(source: Any, y: NDArray[Any]) -> list[Any]:
    """The unseen classes, as they stand in y."""
    if not _is_file(source):
        return list(source)
    lines = Path(source).read_text(encoding="utf-8").split("\n")
    names = [line.strip() for line in lines if line.strip()]
    return [int(name) for name in names] if y.dtype.kind in "iu" and _whole(names) else names


def _whole(names: Iterable[Any]) -> bool:
    """Whether all names are whole numbers, written as such."""
    return all(
        isinstance(name, str) and name.lstrip("-").isdecimal() and str(int(name)) == name
        for name in names
    )


def _same_labels(
    y: NDArray[Any], signatures: pd.DataFrame, labels_from: Any, signatures_from: Any
) -> tuple[NDArray[Any], pd.DataFrame]:
    """Give labels that were read from text the type of the others.

    In text a label 3 and a label "3" look alike. They become numbers if everything agrees to it.
    """
    if not isinstance(signatures, pd.DataFrame):
        return y, signatures  # the data set refuses it, and says why
    y_text = _is_file(labels_from) and y.dtype == object
    index_text = _is_file(signatures_from)
    y_whole = _whole(y) if y_text else y.dtype.kind in "iu"
    index_whole = (
        _whole(signatures.index) if index_text else pd.api.types.is_integer_dtype(signatures.index)
    )
    if y_text and not pd.isna(y).any():
        y = y.astype(np.int64) if y_whole and index_whole else y.astype(str)
    if index_text and y_whole and index_whole:
        signatures = signatures.set_axis(signatures.index.astype(np.int64), axis=0)
    return y, signatures


# ------------------------------------------------------------------------------------ splits


def _split_by_parts(
    parts: Any, y: NDArray[Any], signatures: pd.DataFrame, version: str
) -> ClassSplit:
    parts = np.asarray(parts, dtype=object)
    if parts.shape != y.shape:
        raise ValueError(f"part has {parts.size} entries for {y.size} labels; give one per sample.")
    used = ~pd.isna(parts) & (parts != "")
    unknown = sorted({str(part) for part in parts[used]} - set(PARTS))
    if unknown:
        raise ValueError(
            f"part holds {name_some(unknown)}; it may be train, test_seen, test_unseen or empty."
        )
    indices = {part: np.flatnonzero(used & (parts == part)) for part in PARTS}
    seen, unseen = (set(y[indices[part]].tolist()) for part in ("train", "test_unseen"))
    return ClassSplit(
        **indices,
        seen_classes=_in_order(seen, signatures, y),
        unseen_classes=_in_order(unseen, signatures, y),
        version=version,
    )


def _split_by_classes(
    unseen: list[Any],
    y: NDArray[Any],
    signatures: pd.DataFrame,
    hold_out: float | None,
    random_state: Any,
    version: str,
) -> ClassSplit:
    present = set(y.tolist())
    if missing := [label for label in unseen if label not in present]:
        raise ValueError(
            f"unseen_classes names {name_some(missing)}, of which there are no samples; labels are "
            f"of type {type(next(iter(present), None)).__name__}."
        )
    is_unseen = np.isin(y, np.asarray(unseen))
    train = np.flatnonzero(~is_unseen)
    test_seen = np.empty(0, dtype=np.intp)
    if hold_out is not None:
        if not 0 < hold_out < 1:
            raise ValueError(f"hold_out={hold_out}; give a share between 0 and 1, or None.")
        codes = pd.factorize(y[train])[0]
        held = hold_out_per_class(codes, float(hold_out), check_random_state(random_state))
        train, test_seen = train[~held], train[held]
    return ClassSplit(
        train=train,
        test_seen=test_seen,
        test_unseen=np.flatnonzero(is_unseen),
        seen_classes=_in_order(present - set(unseen), signatures, y),
        unseen_classes=_in_order(set(unseen), signatures, y),
        version=version,
    )


def _in_order(labels: set[Any], signatures: pd.DataFrame, y: NDArray[Any]) -> NDArray[Any]:
    """Labels in the order of the signatures; those without one are left to the checks."""
    index = signatures.index.tolist() if isinstance(signatures, pd.DataFrame) else []
    known = [label for label in index if label in labels]
    known += sorted(labels.difference(known), key=str)
    return np.array(known, dtype=y.dtype)
