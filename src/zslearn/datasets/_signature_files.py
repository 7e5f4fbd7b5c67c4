"""Tables of signatures in files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from zslearn.datasets._limits import limit_reading
from zslearn.datasets._table_reading import is_whole, read_signatures
from zslearn.utils import name_some, plain, replacing

_ENDINGS = (".csv", ".parquet")


def read_signature_table(
    path: str | os.PathLike[str], *, label: str | None = None, max_bytes: int | None = None
) -> pd.DataFrame:
    """Read a table of signatures from a file.

    Parameters
    ----------
    path : path
        A file ``.csv`` or ``.parquet`` with one row per class. The labels are in the column
        `label`, else in the first; all other columns are numbers.
    label : str or None, default=None
        The column of labels.
    max_bytes : int or None, default=None
        The most memory that reading may take, as of :func:`load_table`.

    Returns
    -------
    DataFrame
        The index holds the labels: whole numbers if all of them are written as such, else text.

    See Also
    --------
    save_signature_table : Writes such a file.
    load_table : Reads it together with features and labels.
    """
    with limit_reading(max_bytes):
        table, is_text = read_signatures(Path(path), label)
    if is_text and is_whole(table.index):
        table = table.set_axis(table.index.astype(np.int64), axis=0)
    if not table.index.is_unique:
        twice = table.index[table.index.duplicated()].unique()
        raise ValueError(f"{plain(path)}: {name_some(twice)} are described more than once.")
    return table


def save_signature_table(signatures: pd.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write a table of signatures, whole or not at all.

    Parameters
    ----------
    signatures : DataFrame
        One row per class; the index holds the labels.
    path : path
        The file, ``.csv`` or ``.parquet``.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        The path ends otherwise.
    ImportError
        Parquet is asked for and pyarrow is not installed.

    See Also
    --------
    read_signature_table : Reads it.
    """
    path = check_signature_path(path)
    name = signatures.index.name or "class"
    # A column of the same name would be taken for the labels.
    table = signatures.rename_axis(index="class" if name in signatures.columns else name)
    table = table.set_axis([str(column) for column in table.columns], axis=1)
    with replacing(path) as temporary:
        if path.suffix == ".csv":
            table.to_csv(temporary)
        else:
            table.to_parquet(temporary)
    return path


def check_signature_path(path: str | os.PathLike[str]) -> Path:
    """Refuse a file of another kind, before anything is computed for it."""
    if Path(path).suffix not in _ENDINGS:
        raise ValueError(f"{plain(path)}: tables are written as .csv or .parquet.")
    return Path(path)
