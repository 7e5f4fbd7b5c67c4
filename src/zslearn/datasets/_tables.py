"""Load your own data: features, labels and signatures from tables and arrays."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from zslearn._utils._array import take_rows
from zslearn._utils._folds import hold_out_per_class
from zslearn._utils._messages import (
    composed,
    did_you_mean,
    join_spellings,
    name_near_misses,
    name_some,
    plain,
    refuse_equal_labels,
    warn_user,
)
from zslearn._utils._reading import TABLE_ENDINGS, limit_reading, read_lines
from zslearn._utils._validation import (
    as_pandas,
    check_scaling,
    columns_named,
    in_units,
    numeric_columns,
    refuse_text,
    some_rows,
    units_of,
    warn_of_dominating,
)
from zslearn.datasets._array_files import LABELS, read_array, read_member, read_parquet
from zslearn.datasets._dataset import PARTS, ClassSplit, ZeroShotDataset
from zslearn.datasets._preparation import (
    TablePreparation,
    copies_labels,
    counts_rows,
    prepare_classes,
)
from zslearn.datasets._signature_files import (
    TEXT_ENDINGS,
    fits_64_bits,
    is_whole,
    read_signatures,
    read_table,
)
from zslearn.signatures._attributes import scale_signatures

_logger = logging.getLogger("zslearn")

File = str | os.PathLike[str]

#: Files that a folder may hold: stem → endings.
_FOLDER = {
    "features": (".npy", ".npz", *TABLE_ENDINGS),
    "labels": (*TABLE_ENDINGS, ".npy"),
    "signatures": TABLE_ENDINGS,
    "unseen": (".txt",),
    "parts": (*TABLE_ENDINGS, ".npy"),
    "images": (".npy",),
}


def load_table(
    features: File | pd.DataFrame | ArrayLike,
    labels: File | pd.DataFrame | ArrayLike | None = None,
    signatures: File | pd.DataFrame | None = None,
    *,
    label: str | None = None,
    part: str | ArrayLike | Path = "part",
    unseen_classes: File | Iterable[Any] | None = None,
    hold_out: float | None = 0.2,
    random_state: int | np.random.RandomState | None = 0,
    drop: Iterable[str] = (),
    images: File | ArrayLike | None = None,
    signature_scaling: str | None = "auto",
    feature_scaling: str | None = None,
    name: str | None = None,
    version: str | None = None,
    max_bytes: int | None = None,
) -> ZeroShotDataset:
    r"""Load your own data from tables and arrays.

    Features and labels come from one table with a column `label`, or from two sources. The split
    comes from a column `part` ("train", "test_seen", "test_unseen", or empty for unused samples),
    or from `unseen_classes`, where a share `hold_out` of every other class becomes test data. If
    neither is given, the described classes without samples are unseen, and all samples are used
    for training. :ref:`own_data` has examples.

    Parameters
    ----------
    features : path, DataFrame or array-like of shape (n_samples, n_features)
        A DataFrame, or a ``.csv``, ``.tsv``, ``.xlsx`` or ``.parquet`` file, whose columns except
        labels and parts become features by :class:`TablePreparation`; an array, a ``.npy`` file
        (memory-mapped) or a ``.npz`` file with one array or one named "X" or "features", and
        optionally labels "y" or "labels"; or a folder with such files named ``features``,
        ``labels``, ``signatures``, ``unseen.txt``, ``parts`` and ``images.npy``. Other arguments
        replace the files of a folder.
    labels : path, Series, DataFrame or array-like of shape (n_samples,), default=None
        Labels in the order of `features`, if they are not one of its columns: an array, a Series, a
        DataFrame, a table file as for `features` with a column `label`, or a ``.npy`` file.
    signatures : path or DataFrame
        One row per class. A DataFrame has the labels in its index or in a column `label`; a
        ``.csv``, ``.tsv``, ``.xlsx`` or ``.parquet`` file in the column `label` if there is one,
        else in the first.
    label : str or None, default=None
        The column of labels. None: "label", or the only column of a table of labels.
    part : str, path or array-like of shape (n_samples,), default="part"
        The column of parts next to the labels, or the parts themselves.
    unseen_classes : label, iterable of labels, path or None, default=None
        The unseen classes: one label, several, or a text file with one label per line. A string is
        a label unless a file of that name exists. Classes without samples become candidates.
    hold_out : float or None, default=0.2
        With `unseen_classes`: the share of each seen class that becomes ``test_seen``. None: all
        samples of seen classes are used for training.
    random_state : int, RandomState or None, default=0
        Seed of the hold-out.
    drop : iterable of str, default=()
        Columns of either table that are not used.
    images : path to a ``.npy`` file, array-like or None, default=None
        One image per sample.
    signature_scaling : {"auto", "standard", "robust", "range"} or None, default="auto"
        How signature columns in different units are scaled when a method is fitted; see
        :func:`~zslearn.signatures.scale_signatures`.
    feature_scaling : {"auto", "standard", "robust", "range"} or None, default=None
        The same for the features, with statistics of the training samples. `X` holds the scaled
        numbers, and `features_from` scales further samples. None warns if units differ.
    name : str or None, default=None
        Name of the data set; by default that of the folder or file of features, else "table".
    version : str or None, default=None
        Version of the split; by default built from `name` and the kind of split.
    max_bytes : int or None, default=None
        Maximum memory for reading one file, in bytes. None: the environment variable
        ``ZSLEARN_MAX_BYTES``, else 64 times the size of the file plus 64 MiB. Memory maps do not
        count.

    Returns
    -------
    ZeroShotDataset
        With one split, "own". Labels keep their type; labels in text files become integers if all
        of them are, else strings. Yes/no and true/false columns become 1 and 0.

    See Also
    --------
    load_xlsa17 : Load the field's benchmarks.
    """
    if _is_file(features) and Path(features).is_dir():
        name = name if name is not None else Path(features).resolve().name
        found = _find_files(Path(features))
        features = found["features"]
        labels = found.get("labels") if labels is None else labels
        signatures = found.get("signatures") if signatures is None else signatures
        images = found.get("images") if images is None else images
        if unseen_classes is None and "parts" in found and isinstance(part, str):
            part = found["parts"]
        elif unseen_classes is None:
            unseen_classes = found.get("unseen")
    check_scaling(signature_scaling, "signature_scaling", auto=True)
    check_scaling(feature_scaling, "feature_scaling", auto=True)
    if signatures is None:
        raise ValueError(
            "signatures is missing; pass the table that describes the classes, one row per class."
        )
    kind = Path(features).stem if _is_file(features) else "table"
    name = kind if name is None else name
    with limit_reading(max_bytes):
        drop = [drop] if isinstance(drop, str) else list(drop)
        described, index_text = read_signatures(signatures, label, any_columns=True)
        X, y, is_text, parts = _read_samples(features, labels, label, part)
        X, described = _without(drop, X, described, name)
        pictures = None if images is None else _as_array(images)
        if pictures is not None and not pictures.ndim:
            raise ValueError("images holds a single number; give one image per sample.")
        y, described = _match_types(y, is_text, described, index_text)
        if isinstance(described, pd.DataFrame):
            y = join_spellings(y, described.index, name)
        index = described.index.tolist() if isinstance(described, pd.DataFrame) else []
        refuse_equal_labels([*y.tolist(), *index], f"{name}: y or signatures")
        if parts is not None and unseen_classes is not None:
            raise ValueError(
                f"{name}: both parts and unseen_classes define the split; pass one of them."
            )
        unseen: list[Any] = []
        if parts is not None:
            indices, how = _split_by_parts(parts, y, name), "parts"
        else:
            if unseen_classes is None:
                unseen, hold_out = _without_samples(index, y, part, name), None
            else:
                unseen = _read_unseen(unseen_classes, y)
            _check_unseen(unseen, y, index, name)
            indices = _split_by_classes(unseen, y, hold_out, random_state, name)
            how = f"hold-out {hold_out:g}" if hold_out is not None else "conventional"
    train, seen = indices["train"], set(y[indices["train"]].tolist())
    unseen_set = {*y[indices["test_unseen"]].tolist(), *unseen}
    preparation = names = None
    if isinstance(described, pd.DataFrame):
        with _errors_named(name):
            attributes, described = prepare_classes(described, seen, always=False)
        _warn_of_preparation(attributes, f"{name}: signatures")
        described = scale_signatures(described, signature_scaling, seen_classes=seen, where=name)
    if isinstance(X, pd.DataFrame):
        known_names = X.columns
        known = X.set_axis([str(column) for column in X.columns], axis=1)
        # In the training samples alone, the numbers would have gaps.
        numbering = [column for column in known if counts_rows(known[column], str(column))]
        if numbering:
            warn_user(f"{name}: dropped: {name_some(numbering)} (row numbers).")
            known = known.drop(columns=numbering)
        with _errors_named(name):
            preparation = TablePreparation(scaling=None).fit(known.iloc[train], y[train])
        _warn_of_preparation(preparation, name)
        X = preparation.transform(known)
        if all(isinstance(column, str) for column in known_names):
            names = preparation.get_feature_names_out().tolist()
    else:
        _refuse_row_numbers(X, name)
        _warn_of_label_codes(X, y, name)
    if len(X.shape) == 2 and (scaling := _chosen_scaling(X, names, feature_scaling, name, train)):
        if preparation is not None:
            preparation = preparation._changed(scaling=scaling)._set_units(X[train])
            units = preparation._units
        else:
            units = units_of(np.asarray(X[train], np.float64), scaling)
        X = in_units(X, units)

    def in_order(labels: set[Any]) -> NDArray[Any]:
        # In the order of the signatures; ZeroShotDataset reports labels without one.
        known = [label for label in index if label in labels]
        return np.array(known + sorted(labels.difference(known), key=str), dtype=y.dtype)

    split = ClassSplit(
        **indices,
        seen_classes=in_order(seen),
        unseen_classes=in_order(unseen_set),
        version=version or f"{name}/{how}",
    )
    data = ZeroShotDataset(
        X=X,
        y=y,
        signatures=described,
        splits={"own": split},
        split="own",
        name=name,
        features="array" if kind == "table" and names is None else kind,
        images=pictures,
        feature_names=names,
    )
    return data._changed(preparation=preparation)


def _is_file(value: Any) -> TypeGuard[File]:
    return isinstance(value, str | os.PathLike)


def _as_array(source: Any) -> Any:
    """Return an array of any library, or read one from a ``.npy`` or ``.npz`` file."""
    if _is_file(source):
        return read_array(Path(source))
    return source if hasattr(source, "shape") else np.asarray(source)


def _as_frame(source: Any) -> pd.DataFrame | None:
    """Convert a pandas or polars DataFrame to pandas; return None for anything else."""
    return as_pandas(source) if hasattr(source, "columns") else None


def _without(drop: list[str], X: Any, described: Any, where: str) -> tuple[Any, Any]:
    """Drop columns from the table of samples and from that of classes, wherever they are."""
    tables = [table for table in (X, described) if isinstance(table, pd.DataFrame)]
    names = [str(name) for table in tables for name in table.columns]
    if unknown := [name for name in drop if name not in names]:
        near = did_you_mean(unknown[0], names)
        raise ValueError(
            f"{where}: drop= names {name_some(unknown)}; there is no such column among "
            f"{name_some(names)}.{near}"
        )
    left = [table.drop(columns=drop, errors="ignore") for table in tables]
    is_table = [isinstance(table, pd.DataFrame) for table in (X, described)]
    return left[0] if is_table[0] else X, left[-1] if is_table[1] else described


@contextmanager
def _errors_named(where: str) -> Iterator[None]:
    """Say in which table a column is at fault."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _warn_of_preparation(preparation: TablePreparation | None, where: str) -> None:
    """Warn unless every column is a number without missing values, or yes/no."""
    columns = [] if preparation is None else preparation.columns_
    if any(c.kind not in ("number", "yes/no") or c.n_missing for c in columns):
        assert preparation is not None
        warn_user(f"{where}: {preparation.summary()}.")


def _chosen_scaling(
    X: Any, names: Any, scaling: str | None, where: str, rows: NDArray[np.intp]
) -> str | None:
    """Resolve the scaling of features, for "auto" from `rows`; warn if some columns dominate."""
    if scaling not in (None, "auto"):
        return scaling
    remedy = (
        "Standardise the features with feature_scaling='standard' (in Python: or with "
        "StandardScaler in a pipeline)."
    )
    if scaling == "auto":
        remedy = (
            "All features are standardised over the training samples; use feature_scaling=None to "
            "keep them as they are."
        )
    is_large = warn_of_dominating(some_rows(X, rows), names, where, "samples", remedy)
    return "standard" if is_large and scaling == "auto" else None


def _find_files(folder: Path) -> dict[str, Path]:
    """Find the files of a folder by stem; raise if there are no features."""
    found: dict[str, Path] = {}
    for stem, endings in _FOLDER.items():
        paths = [folder / f"{stem}{ending}" for ending in endings]
        present = [path for path in paths if path.is_file()]
        if len(present) > 1:
            raise ValueError(
                f"{folder}: there are {' and '.join(path.name for path in present)}; keep one."
            )
        found.update(zip([stem], present, strict=False))
    if "features" not in found:
        names = sorted(path.name for path in folder.iterdir())
        wanted = ", ".join(f"features{ending}" for ending in _FOLDER["features"])
        raise ValueError(
            f"{folder}: there is no features file ({wanted}); the folder holds "
            f"{name_some(names) if names else 'nothing'}."
        )
    return found


def _read_samples(
    features: Any, labels: Any, label: str | None, part: Any
) -> tuple[Any, NDArray[Any], bool, Any]:
    """Read features (a table or an array), labels, whether those are text, and parts or None."""
    part_column = part if isinstance(part, str) else None
    own_label = label or "label"
    where = str(features) if _is_file(features) else "features"
    table = _features_table(features, own_label, part_column)
    is_text = _is_file(features) and Path(features).suffix.lower() in TEXT_ENDINGS
    parts = None
    if labels is not None:
        _refuse_other_order(features, labels)
        y, parts = _read_labels(labels, label, part_column)
        is_text = _is_file(labels) and Path(labels).suffix.lower() in TEXT_ENDINGS
        columns: Any = () if table is None else table.columns
        if twice := [c for c in (own_label, part_column) if c is not None and c in columns]:
            raise ValueError(
                f"{where}: the column {twice[0]!r} is among the features although labels= is "
                "given, so it would be used as a feature. Leave out labels=, or drop the column."
            )
    elif table is not None:
        y, parts = _label_column(table, own_label, part_column, where)
        table = table.drop(columns=[own_label, *([part_column] if parts is not None else [])])
    else:
        is_npz = _is_file(features) and Path(features).suffix == ".npz"
        found = read_member(Path(features), LABELS) if is_npz else None
        if found is None:
            raise ValueError(
                f"{where}: an array has no column of labels; pass labels=, or a table."
            )
        y = _check_labels(found, where)
    if part_column is None:
        parts = _read_parts(part)
    return (_features_array(features) if table is None else table), y, is_text, parts


def _features_table(
    source: Any, label: str, part: str | None = None, decimal_commas: Iterable[str] = ()
) -> pd.DataFrame | None:
    """Read the table of features; return None if the features are an array."""
    if not _is_file(source) or Path(source).suffix in (".npy", ".npz"):
        return _as_frame(source)
    text = dict.fromkeys([label, *([part] if part else [])], str)
    named = {"dtype": text, "decimal_commas": decimal_commas}
    table = read_table(Path(source), lambda row: {"header": None} if _is_data(row) else named)
    if not len(table):
        raise ValueError(f"{plain(source)}: the table has no rows below its header.")
    return table


def _is_data(first: list[str]) -> bool:
    """Whether the first row of a table of features is data, not a header."""
    try:
        return all(np.isfinite(float(cell)) for cell in first)
    except ValueError:
        return False


def _features_array(source: Any) -> Any:
    """Return features that are an array."""
    X = _as_array(source)
    if _is_file(source) and (X.ndim != 2 or X.dtype.kind not in "fiub"):
        raise ValueError(
            f"{source}: the array has shape {X.shape} and dtype {X.dtype}; features must be "
            "numbers, one row per sample."
        )
    return X


def _refuse_row_numbers(X: Any, where: str) -> None:
    """Raise if a column of an array only numbers the rows, and so describes no sample."""
    if len(X.shape) != 2 or not X.shape[0]:
        return
    # The first rows rule out almost every column before a whole one is read.
    first = np.stack([np.asarray(X[row], dtype=float) for row in range(min(5, X.shape[0]))])
    counting = np.isin(first[0], (0, 1)) & (np.diff(first, axis=0) == 1).all(axis=0)
    for position in np.flatnonzero(counting).tolist():
        column = np.asarray(X[:, position], dtype=float)
        if counts_rows(pd.Series(column), ""):
            raise ValueError(
                f"{where}: column {position} counts the rows from {column[0]:g} to "
                f"{column[-1]:g}; it is not a feature. Leave it out, for example with np.delete."
            )


def _warn_of_label_codes(X: Any, y: NDArray[Any], where: str) -> None:
    """Warn if a column of an array is constant within each class and unique to it."""
    codes, classes = pd.factorize(y)
    first = np.unique(codes, return_index=True)[1]
    if len(X.shape) != 2 or len(codes) != X.shape[0] or not 2 <= len(classes) < len(y):
        return
    values = np.asarray(take_rows(X, first), dtype=np.float64)
    ordered = np.sort(values, axis=0)
    distinct = (ordered[1:] != ordered[:-1]).all(axis=0)
    found = [
        place
        for place in np.flatnonzero(distinct).tolist()
        if copies_labels(np.asarray(X[:, place], dtype=np.float64), codes)
    ]
    if found:
        verb, it = ("encode", "them") if len(found) > 1 else ("encodes", "it")
        warn_user(
            f"{where}: {columns_named(found, None)} {verb} the class of every sample; new samples "
            f"will not have {it}. Leave {it} out."
        )


def read_own_features(path: Path) -> tuple[Any, NDArray[Any] | None]:
    """Read features from a .npy, .npz or .parquet file, and their labels if present."""
    if path.suffix != ".parquet":
        labels = read_member(path, LABELS) if path.suffix == ".npz" else None
        return _features_array(path), labels
    table = read_parquet(path)
    found = table.pop("label").to_numpy() if "label" in table else None
    numbers = numeric_columns(table, str(path))
    refuse_text(numbers, str(path), " Leave them out, or convert them to numbers.")
    is_plain = all(isinstance(dtype, np.dtype) for dtype in numbers.dtypes)
    X = numbers.to_numpy() if is_plain else numbers.to_numpy(dtype=float, na_value=np.nan)
    return X, found


class SampleTable(NamedTuple):
    """Columns of features, labels and names of the rows, if present, and columns left out."""

    X: pd.DataFrame
    y: NDArray[np.str_] | None
    names: list[str] | None
    dropped: list[str]


def read_sample_table(
    path: Path,
    *,
    label: str | None = None,
    drop: Iterable[str] = (),
    columns: Sequence[str] | None = None,
    decimal_commas: Iterable[str] = (),
    id_column: str | None = None,
) -> SampleTable:
    """Read a table of features and labels.

    Parameters
    ----------
    path : Path
        A ``.csv``, ``.tsv``, ``.xlsx`` or ``.parquet`` file with one row per sample.
    label : str or None, default=None
        The column of labels; None: "label".
    drop : iterable of str, default=()
        Columns that are not features; those that the table does not have are ignored.
    columns : sequence of str or None, default=None
        The features of a model: only these columns are read, and labels may be missing.
    decimal_commas : iterable of str, default=()
        Columns whose numbers usually have decimal commas. In a text file, "1.234" is a thousand
        there, unless other numbers of the column have decimal points.
    id_column : str or None, default=None
        The column that names the rows, which is no feature. Without it, rows for a model are
        numbered.

    Returns
    -------
    SampleTable
        The columns of features, labels as text, and the names of the rows.
    """
    own_label = label or "label"
    table = _features_table(path, own_label, decimal_commas=decimal_commas)
    assert table is not None
    where, has_labels = plain(path), columns is None or own_label in table
    if isinstance(table.columns, pd.RangeIndex):
        raise ValueError(f"{where}: the columns need names; put them into the first line.")
    names = None
    if id_column is not None and id_column not in table:
        near = did_you_mean(id_column, map(str, table.columns))
        if columns is None:
            raise ValueError(f"{where}: there is no column {id_column!r}.{near}")
        _logger.info("%s: there is no column %r: rows are numbered.%s", where, id_column, near)
    elif id_column is not None:
        names = [str(value) for value in table[id_column].tolist()]
    y = None
    if has_labels:
        y = _label_column(table, own_label, None, where)[0]
    labels = None if y is None else np.asarray([composed(str(n)).strip() for n in y.tolist()])
    if columns is None:
        dropped = [name for name in table if name in set(drop)]
        ignored = {own_label, id_column, *dropped}
        return SampleTable(table[[c for c in table if c not in ignored]], labels, names, dropped)
    if own_label in columns:
        raise ValueError(
            f"{where}: label={own_label!r} is a feature of the model; name the column that "
            "holds the labels."
        )
    if missing := [name for name in columns if name not in table.columns]:
        near = name_near_misses(
            missing, table.columns, unknown_in="the model", known_in="the table"
        )
        raise ValueError(f"{where}: there are no columns {name_some(missing, len(missing))}.{near}")
    extra = [name for name in table if name not in {*columns, own_label, id_column}]
    if extra:
        _logger.info("%s: columns that the model does not use: %s", where, name_some(extra))
    return SampleTable(table[list(columns)], labels, names, [])


def _read_labels(source: Any, label: str | None, part: str | None) -> tuple[NDArray[Any], Any]:
    """Read labels, and parts if the same table has them."""
    where = str(source) if _is_file(source) else "labels"
    frame = _as_frame(source)
    if _is_file(source) and Path(source).suffix != ".npy":
        frame = read_table(Path(source))
    if frame is not None:
        return _label_column(frame, label, part, where)
    return _check_labels(np.array(_as_array(source)), where), None


def _label_column(
    table: pd.DataFrame, label: str | None, part: str | None, where: str
) -> tuple[NDArray[Any], Any]:
    """Return the column of labels, by default the only one or "label", and the parts or None."""
    if label is None:
        others = [column for column in table.columns if column != part]
        label = others[0] if len(others) == 1 else "label"
    if label not in table.columns:
        names = list(map(str, table.columns))
        advice = did_you_mean(label, names) or " Name the column of labels with label=."
        raise ValueError(
            f"{where}: there is no column {label!r}; the columns are {name_some(table.columns)}."
            f"{advice}"
        )
    parts = table[part].to_numpy(dtype=object) if part in table.columns else None
    return _check_labels(table[label], where), parts


def _check_labels(labels: Any, where: str) -> NDArray[Any]:
    """Return labels as an array of text or integers."""
    y = np.asarray(labels)
    if y.ndim != 1:
        raise ValueError(
            f"{where}: the labels have shape {y.shape}; give one label per sample, in a "
            "one-dimensional array."
        )
    if y.dtype.kind not in "biufUO":
        raise ValueError(f"{where}: the labels have dtype {y.dtype}; give text or integers.")
    if (missing := pd.isna(y)).any():
        raise ValueError(
            f"{where}: there are {int(missing.sum())} missing labels, the first in row "
            f"{int(np.argmax(missing)) + 1}; remove these samples or label them."
        )
    if y.dtype != object or not y.size:
        return y
    kind = pd.api.types.infer_dtype(y, skipna=False)
    if kind == "integer" and not all(map(fits_64_bits, y.tolist())):
        raise ValueError(
            f"{where}: labels such as {max(y.tolist(), key=abs)} do not fit into 64 bits; give "
            "them as text."
        )
    return y.astype({"string": str, "integer": np.int64}.get(kind, object))


def _refuse_other_order(features: Any, labels: Any) -> None:
    """Raise if the index of pandas labels has the rows of the features in another order."""
    if not isinstance(features, pd.DataFrame) or not isinstance(labels, pd.Series | pd.DataFrame):
        return
    ours, theirs = features.index, labels.index
    if (
        len(ours) == len(theirs)
        and not ours.equals(theirs)
        and ours.sort_values().equals(theirs.sort_values())
    ):
        raise ValueError(
            "labels and features have the same index in another order. Rows are matched by "
            "position: write labels.loc[features.index]."
        )


def _read_parts(source: Any) -> Any:
    """Read parts that are not a column next to the labels."""
    if not isinstance(source, os.PathLike) or Path(source).suffix == ".npy":
        return np.array(_as_array(source))
    table = read_table(Path(source))
    column = "part" if "part" in table or table.shape[1] != 1 else table.columns[0]
    if column not in table:
        raise ValueError(
            f"{source}: there is no column 'part'; the columns are {name_some(table.columns)}."
        )
    return table[column].to_numpy(dtype=object)


def _match_types(
    y: NDArray[Any], y_text: bool, signatures: Any, index_text: bool
) -> tuple[NDArray[Any], Any]:
    """Convert labels read from text, where 3 and "3" are the same, to the type of the others."""
    if not isinstance(signatures, pd.DataFrame):
        return y, signatures  # ZeroShotDataset raises
    index = signatures.index
    y_whole = is_whole(y) if y_text else y.dtype.kind in "iu"
    index_whole = is_whole(index) if index_text else pd.api.types.is_integer_dtype(index)
    if y_text and not pd.isna(y).any():
        y = y.astype(np.int64) if y_whole and index_whole else y.astype(str)
    if index_text and y_whole and index_whole:
        signatures = signatures.set_axis(index.astype(np.int64), axis=0)
    return y, signatures


def _without_samples(index: list[Any], y: NDArray[Any], part: Any, name: str) -> list[Any]:
    """Return the described classes that have no samples."""
    present = set(y.tolist())
    unseen = [label for label in index if label not in present]
    if not unseen or not present & set(index):
        raise ValueError(
            f"{name}: no split is given, and every described class has samples. To evaluate a "
            f"method, pass unseen_classes, or add a column {part!r} to the labels (train, "
            "test_seen, test_unseen). To train on all samples, fit a method to them (zslearn fit)."
        )
    return unseen


def _read_unseen(source: Any, y: NDArray[Any]) -> list[Any]:
    """Read the unseen classes: one label, several, or a file with one per line."""
    if isinstance(source, os.PathLike) or (isinstance(source, str) and Path(source).is_file()):
        names = list(read_lines(Path(source)))
    elif isinstance(source, str) or not hasattr(source, "__iter__"):
        names = [source]
    else:
        names = list(source)
    return [int(name) for name in names] if y.dtype.kind in "iu" and is_whole(names) else names


def _split_by_parts(parts: Any, y: NDArray[Any], where: str) -> dict[str, NDArray[np.intp]]:
    """Return the indices of each part."""
    parts = np.asarray(parts, dtype=object)
    if parts.shape != y.shape:
        shape = "" if parts.ndim == 1 else f", in an array of shape {parts.shape},"
        raise ValueError(
            f"{where}: part has {parts.size} entries{shape} for {y.size} labels; give one per "
            "sample."
        )
    used = ~pd.isna(parts) & (parts != "")
    unknown = sorted({str(part) for part in parts[used]} - set(PARTS))
    if unknown:
        raise ValueError(
            f"{where}: part holds {name_some(unknown)}; it must be train, test_seen, test_unseen "
            "or empty."
        )
    return {part: np.flatnonzero(used & (parts == part)) for part in PARTS}


def _check_unseen(unseen: list[Any], y: NDArray[Any], index: list[Any], where: str) -> None:
    """Raise if an unseen class has neither signature nor samples; warn if it has no samples."""
    present, described = set(y.tolist()), set(index)
    known = present | described
    if missing := [label for label in unseen if label not in known]:
        near = name_near_misses(missing, known, unknown_in="unseen_classes", known_in="the table")
        if not near:
            near = f" Labels are of type {type(next(iter(present), None)).__name__}."
        raise ValueError(
            f"{where}: unseen_classes names {name_some(missing)}, which have neither samples nor "
            f"signatures.{near}"
        )
    untested = [label for label in unseen if label not in present]
    # Samples without a signature raise later: a misspelt class does have samples.
    if untested and present <= described:
        what = "these" if len(untested) < len(unseen) else "unseen classes"
        warn_user(
            f"{where}: there are no samples of {name_some(untested)}, so the accuracy on {what} "
            "cannot be measured."
        )


def _split_by_classes(
    unseen: list[Any], y: NDArray[Any], hold_out: float | None, random_state: Any, where: str
) -> dict[str, NDArray[np.intp]]:
    """Return the indices of each part, with a share of every seen class held out."""
    is_unseen = np.isin(y, np.asarray(unseen))
    if is_unseen.all():
        raise ValueError(
            f"{where}: every sample belongs to an unseen class; there is nothing to learn from."
        )
    train, test_seen = np.flatnonzero(~is_unseen), np.empty(0, dtype=np.intp)
    if hold_out is not None:
        if not 0 < hold_out < 1:
            raise ValueError(
                f"{where}: hold_out={hold_out}; give a share between 0 and 1, such as 0.2."
            )
        codes = pd.factorize(y[train])[0]
        held = hold_out_per_class(codes, float(hold_out), check_random_state(random_state))
        train, test_seen = train[~held], train[held]
    return {"train": train, "test_seen": test_seen, "test_unseen": np.flatnonzero(is_unseen)}
