"""Signature tables, texts of classes and hierarchies: how they are read from files and written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zslearn._utils._columns import holds_numbers, not_numbers, numeric_columns, refuse_text
from zslearn._utils._files import replacing
from zslearn._utils._messages import composed, did_you_mean, name_some, plain
from zslearn._utils._reading import limit_reading, read_csv, read_json, read_lines, separator_hint
from zslearn.datasets._array_files import read_parquet
from zslearn.signatures import filled_ranks

#: Names that pandas gives to an index that was saved with a table.
SAVED_INDEX = re.compile(r"Unnamed: \d+|__index_level_\d+__")
#: A whole number as str() writes it, with no more digits than one of 64 bits has.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")


def read_table(
    path: Path, options: Callable[[list[str]], dict[str, Any]] = lambda first: {"dtype": str}
) -> pd.DataFrame:
    """A table from a text or Parquet file; `options` take the first row of text into arguments."""
    if path.suffix == ".csv":
        return read_csv(path, options)
    if path.suffix == ".parquet":
        return read_parquet(path)
    raise ValueError(f"{path}: files of kind {path.suffix!r} are not read; use .csv or .parquet.")


def read_signatures(source: Any, label: str | None) -> tuple[Any, bool]:
    """The table of signatures, and whether its labels were read from text."""
    if not isinstance(source, str | os.PathLike):
        if isinstance(source, pd.DataFrame):
            source = source.set_index(label) if label in source.columns else source
            source = numeric_columns(source, "signatures")
        return source, False
    path = Path(source)
    table = read_table(path, lambda row: {"dtype": {label if label in row else 0: str}})
    # A parquet file may keep the labels as an index; one with a name was meant.
    if isinstance(table.index, pd.RangeIndex) and table.index.name is None:
        if table.shape[1] < 2:
            raise ValueError(
                f"{path}: there are {table.shape[1]} columns; the first holds the labels, the "
                f"others describe the classes.{separator_hint([str(n) for n in table.columns])}"
            )
        table = table.set_index(label if label in table.columns else table.columns[0])
    if table.index.hasnans:
        raise ValueError(f"{path}: the first column, of labels, has empty cells.")
    table = numeric_columns(table, plain(path))
    if not_numbers(table):
        counts = [str(i) for i in range(len(table))]
        hint = " Texts of classes become numbers by zslearn signatures text, or fit --describe."
        if SAVED_INDEX.fullmatch(str(table.index.name)) or list(map(str, table.index)) == counts:
            hint = (
                " The first column, which holds the labels, counts the rows: write the table with "
                "index=False."
            )
        refuse_text(table, plain(path), hint)
    return table, path.suffix == ".csv"


def is_whole(names: Iterable[Any]) -> bool:
    """Whether all names are whole numbers of 64 bits, written as such."""
    return all(
        isinstance(name, str) and _WHOLE.fullmatch(name) is not None and fits_64_bits(int(name))
        for name in names
    )


def fits_64_bits(number: int) -> bool:
    """Whether an integer is one of NumPy's."""
    return -(2**63) <= number < 2**63


def read_signature_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    max_bytes: int | None = None,
    text_labels: bool = False,
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
    text_labels : bool, default=False
        Whether labels are text even if all of them are whole numbers.

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
    if label is not None and table.index.name != label:
        columns = [name for name in (table.index.name, *table.columns) if name is not None]
        raise ValueError(
            f"{plain(path)}: there is no column {label!r}; there are {name_some(columns)}."
            f"{did_you_mean(label, columns)}"
        )
    if text_labels:
        table = table.set_axis([str(name) for name in table.index], axis=0)
    elif is_text and is_whole(table.index):
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

    See Also
    --------
    read_signature_table : Reads it.
    """
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"{plain(path)}: tables are written as .csv or .parquet.")
    columns = [str(column) for column in signatures.columns]
    name = str(signatures.index.names[0] or "class")
    while name in columns:  # two columns of one name could not be read
        name += " label"
    table = signatures.rename_axis(index=name).set_axis(columns, axis=1)
    with replacing(path) as temporary:
        if path.suffix == ".csv":
            table.to_csv(temporary)
        else:
            table.to_parquet(temporary)
    return path


def read_descriptions(
    path: str | os.PathLike[str], *, keep_empty: bool = False
) -> dict[str, list[str]]:
    """Read what is said of classes in words.

    Parameters
    ----------
    path : path
        A table ``.csv`` or ``.parquet`` with the labels in its first column and texts in the
        others, or with columns "class" and "text" among others; a class may have several texts, in
        several columns or rows, and empty cells are passed over. Or a file ``.json`` that maps each
        label to a text or a list of texts. Or a file ``.txt`` with one class per line, described by
        its own name.
    keep_empty : bool, default=False
        Whether a class may have no text, and a table only the column "class"; otherwise that is an
        error.

    Returns
    -------
    dict of str to list of str
        The texts of each class, in the order of the file.

    See Also
    --------
    zslearn.signatures.text_signatures : Signatures from such texts.
    zslearn.signatures.word_signatures : Signatures from such names.
    """
    path = Path(path)
    found: dict[str, list[str]] = {}
    if path.suffix == ".txt":
        found = {line: [line] for line in read_lines(path)}
    elif path.suffix == ".json":
        found = _described_by_json(path)
    else:
        table = read_table(path)
        names = [str(name).strip().casefold() for name in table.columns]
        if {"class", "text"} <= set(names):
            table = table.iloc[:, [names.index("class"), names.index("text")]]
        elif len(names) < 2 and not (keep_empty and names == ["class"]):
            raise ValueError(
                f"{plain(path)}: there are {table.shape[1]} columns; the first holds the labels, "
                f"the others texts.{separator_hint([str(name) for name in table.columns])}"
            )
        for place, row in enumerate(table.itertuples(index=False, name=None), 2):
            texts = [text for text in row[1:] if isinstance(text, str) and text.strip()]
            if not isinstance(row[0], str):
                raise ValueError(f"{plain(path)}: row {place} names no class.")
            found.setdefault(row[0], []).extend(texts)
        columns = (table.iloc[:, place].dropna() for place in range(1, table.shape[1]))
        if any(len(said) and holds_numbers(said) for said in columns):
            raise ValueError(
                f"{plain(path)}: a column holds numbers, or yes and no. This is a table of "
                "attributes, not of texts (zslearn fit reads one by --signatures)."
            )
    silent = [label for label, texts in found.items() if not texts and not keep_empty]
    if silent or not found:
        raise ValueError(
            f"{plain(path)}: {len(silent)} classes have no text: {name_some(silent)}."
            if found
            else f"{plain(path)} describes no class."
        )
    return found


def read_child_parent_pairs(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a class hierarchy from a table.

    Parameters
    ----------
    path : path
        A file ``.csv`` or ``.parquet`` with the columns "child" and "parent", or with two columns.
        A child whose parent is empty is a root.

    Returns
    -------
    DataFrame
        The columns "child" and "parent", as :class:`~zslearn.baselines.HAT` and
        :meth:`zslearn.signatures.ClassGraph.from_tree` take them.
    """
    table = read_table(Path(path))
    if {"child", "parent"} <= set(table.columns):
        table = table[["child", "parent"]]
    if table.shape[1] != 2:
        raise ValueError(
            f"{plain(path)}: the columns are {name_some(table.columns)}; name two of them 'child' "
            "and 'parent'."
        )
    table = table.set_axis(["child", "parent"], axis=1)
    if table["child"].isna().any():
        row = int(table["child"].isna().argmax()) + 1
        raise ValueError(f"{plain(path)}: row {row} names no child.")
    return table


def read_ranks(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read the ranks of classes, from the highest to the lowest.

    Parameters
    ----------
    path : path
        A table ``.csv`` with the classes in its first column and a column per rank.

    Returns
    -------
    DataFrame
        The ranks; the index holds the classes as text, as
        :func:`~zslearn.signatures.taxonomy_signatures` takes them.
    """
    table = read_csv(Path(path), lambda _: {"dtype": str})
    labels = [composed(name) for name in table.iloc[:, 0].fillna("")]
    if "" in labels:
        raise ValueError(f"{plain(path)}: row {labels.index('') + 2} names no class.")
    if table.shape[1] < 2 or not len(table):
        raise ValueError(
            f"{plain(path)}: there are {len(table)} rows and {table.shape[1]} columns; the first "
            "column holds the classes, the others their ranks, from the highest to the lowest."
        )
    try:
        return filled_ranks(table.iloc[:, 1:].set_axis(labels, axis=0))
    except ValueError as error:
        raise ValueError(f"{plain(path)}: {error}") from error


def read_odds(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the odds of classes.

    Parameters
    ----------
    path : path
        A file ``.json`` that maps classes to their odds; predictions check the numbers.

    Returns
    -------
    dict
        Class → odds.
    """
    odds = read_json(Path(path))
    if not isinstance(odds, dict):
        raise ValueError(f"{plain(path)} must map classes to their odds.")
    return odds


def _described_by_json(path: Path) -> dict[str, list[str]]:
    content = read_json(path)
    wanted = "a text or a list of texts"
    if not isinstance(content, dict):
        raise ValueError(f"{plain(path)} is no JSON object; it must map each label to {wanted}.")
    found = {}
    for label, said in content.items():
        texts = said if isinstance(said, list) else [said]
        wrong = [text for text in texts if not isinstance(text, str)]
        if wrong:
            raise ValueError(
                f"{plain(path)}: {name_some([label])} is described by {plain(wrong[0], 40)!r}, "
                f"which is no text; the file must map each label to {wanted}."
            )
        found[label] = [text for text in texts if text.strip()]
    return found
