"""Read and write signature tables, class descriptions, hierarchies, ranks and odds."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zslearn._utils._files import atomic_write
from zslearn._utils._messages import composed, did_you_mean, name_some, plain
from zslearn._utils._reading import (
    TABLE_ENDINGS,
    limit_reading,
    line_numbers,
    read_csv,
    read_json,
    read_lines,
)
from zslearn._utils._validation import (
    holds_numbers,
    is_missing,
    not_numbers,
    numeric_columns,
    refuse_text,
)
from zslearn.datasets._array_files import read_excel, read_parquet
from zslearn.signatures import filled_ranks
from zslearn.signatures._table import indexed_by_label

#: An integer as str() writes it, with at most the digits of a 64-bit integer.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
#: Endings of tables that do not distinguish numbers from text.
TEXT_ENDINGS = (".csv", ".tsv", ".xlsx")


def read_table(
    path: Path, options: Callable[[list[str]], dict[str, Any]] = lambda first: {"dtype": str}
) -> pd.DataFrame:
    """Read a table from a file; `options` maps the first row to arguments of `read_csv`."""
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        return read_csv(path, options)
    if ending == ".parquet":
        return read_parquet(path)
    if ending == ".xlsx":
        table = read_excel(path)
        arguments = options([str(name) for name in table.columns])
        if "header" in arguments:
            return read_excel(path, header=arguments["header"])
        types = arguments.get("dtype")
        names = list(table.columns) if types is str else list(types or ())
        for name in (table.columns[n] if isinstance(n, int) else n for n in names):
            if name in table:
                table[name] = [None if is_missing(v) else str(v) for v in table[name]]
        return table
    raise ValueError(
        f"{path}: cannot read {path.suffix!r} files; use {', '.join(TABLE_ENDINGS[:-1])} or "
        f"{TABLE_ENDINGS[-1]}."
    )


def read_signatures(
    source: Any, label: str | None, *, any_columns: bool = False
) -> tuple[Any, bool]:
    """Return the table of signatures, and whether its labels were read from text.

    With `any_columns`, columns of text and missing values are kept.
    """
    if not isinstance(source, str | os.PathLike):
        source = indexed_by_label(source, label)
        if isinstance(source, pd.DataFrame) and not any_columns:
            source = numeric_columns(source, "signatures")
        return source, False
    path = Path(source)
    table = read_table(path, lambda row: {"dtype": {label if label in row else 0: str}})
    # A Parquet file may store the labels as a named index.
    if isinstance(table.index, pd.RangeIndex) and table.index.name is None:
        if table.shape[1] < 2:
            raise ValueError(
                f"{path}: there are {table.shape[1]} columns; the first holds the labels, the "
                "others describe the classes."
            )
        table = table.set_index(label if label in table.columns else table.columns[0])
    if table.index.hasnans:
        raise ValueError(f"{path}: the first column, which holds the labels, has empty cells.")
    is_text = path.suffix.lower() in TEXT_ENDINGS
    if is_text:
        table.index = pd.Index([str(name).strip() for name in table.index], name=table.index.name)
    _refuse_repeated(table.index, path)
    if not any_columns:
        table = numeric_columns(table, plain(path))
    counts = [str(i) for i in range(len(table))]
    if not_numbers(table) and list(map(str, table.index)) == counts:
        refuse_text(
            table,
            plain(path),
            " The first column should hold the labels, but numbers the rows: write the table "
            "without its index.",
        )
    if not any_columns:
        refuse_text(table, plain(path), " Drop them, or use zslearn fit, which encodes categories.")
    return table, is_text


def _refuse_repeated(labels: pd.Index, path: Path) -> None:
    """Refuse a class that is described twice; the error has its lines and a remedy."""
    twice = labels[labels.duplicated()].unique().tolist()
    if not twice:
        return
    where = [place for place, label in enumerate(labels) if label == twice[0]]
    places = [f"row {place + 1}" for place in where]
    if path.suffix.lower() in (".csv", ".tsv"):
        lines = line_numbers(path)
        places = [f"line {lines[place + 1]}" for place in where]
    if len(places) > 3:
        places = [*places[:2], f"{len(places) - 2} more"]
    listed = f"{twice[0]!r} in {', '.join(places[:-1])} and {places[-1]}"
    raise ValueError(
        f"{plain(path)}: {name_some(twice)} {'is' if len(twice) == 1 else 'are'} described more "
        f"than once ({listed}). Keep one row per class, or give the classes different names."
    )


def is_whole(names: Iterable[Any]) -> bool:
    """Whether all names are 64-bit integers, written as such."""
    return all(
        isinstance(name, str) and _WHOLE.fullmatch(name) is not None and fits_64_bits(int(name))
        for name in names
    )


def fits_64_bits(number: int) -> bool:
    """Whether an integer fits into 64 bits."""
    return -(2**63) <= number < 2**63


def read_signature_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    max_bytes: int | None = None,
    text_labels: bool = False,
    any_columns: bool = False,
) -> pd.DataFrame:
    """Read a table of signatures from a file.

    Parameters
    ----------
    path : path
        A ``.csv``, ``.tsv``, ``.xlsx`` or ``.parquet`` file with one row per class. The labels are
        in the column `label`, else in the first; all other columns must be numbers.
    label : str or None, default=None
        The column of labels.
    max_bytes : int or None, default=None
        Maximum memory for reading; see :func:`load_table`.
    text_labels : bool, default=False
        Whether to keep labels as text even if all of them are integers.
    any_columns : bool, default=False
        Whether to keep columns of text, for :class:`TablePreparation` to encode.

    Returns
    -------
    DataFrame
        The index holds the labels: integers if all of them are written as such, else text.

    See Also
    --------
    save_signature_table : Write such a file.
    load_table : Read signatures together with features and labels.
    """
    with limit_reading(max_bytes):
        table, is_text = read_signatures(Path(path), label, any_columns=any_columns)
    if label is not None and table.index.name != label:
        columns = [name for name in (table.index.name, *table.columns) if name is not None]
        raise ValueError(
            f"{plain(path)}: there is no column {label!r}; the columns are {name_some(columns)}."
            f"{did_you_mean(label, columns)}"
        )
    if text_labels:
        table = table.set_axis([str(name) for name in table.index], axis=0)
    elif is_text and is_whole(table.index):
        table = table.set_axis(table.index.astype(np.int64), axis=0)
    return table


def save_signature_table(signatures: pd.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write a table of signatures; an error leaves no partial file.

    Parameters
    ----------
    signatures : DataFrame
        One row per class; the index holds the labels.
    path : path
        The ``.csv`` or ``.parquet`` file to write.

    Returns
    -------
    Path
        The file.

    See Also
    --------
    read_signature_table : Read it.
    """
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"{plain(path)}: the file name must end in .csv or .parquet.")
    signatures = indexed_by_label(signatures)
    columns = [str(column) for column in signatures.columns]
    name = str(signatures.index.names[0] or "class")
    while name in columns:  # duplicate names could not be read back
        name += " label"
    table = signatures.rename_axis(index=name).set_axis(columns, axis=1)
    with atomic_write(path) as temporary:
        if path.suffix == ".csv":
            table.to_csv(temporary)
        else:
            table.to_parquet(temporary)
    return path


def read_descriptions(
    path: str | os.PathLike[str], *, keep_empty: bool = False
) -> dict[str, list[str]]:
    """Read descriptions of classes in words.

    Parameters
    ----------
    path : path
        A ``.csv`` or ``.parquet`` table with labels in the first column and texts in the others,
        or with columns "class" and "text" among others. A class may have several texts, in several
        columns or rows; empty cells are ignored. Or a ``.json`` file that maps each label to a text
        or a list of texts, or a ``.txt`` file with one class per line, described by its name.
    keep_empty : bool, default=False
        Whether to accept classes without a text, and a table with only the column "class".

    Returns
    -------
    dict of str to list of str
        The texts of each class, in the order of the file.

    See Also
    --------
    zslearn.signatures.text_signatures : Signatures from descriptions.
    zslearn.signatures.word_signatures : Signatures from class names.
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
                f"{plain(path)}: there are {table.shape[1]} columns; give the labels in the first "
                "and texts in the others."
            )
        for place, row in enumerate(table.itertuples(index=False, name=None), 2):
            texts = [text for text in row[1:] if isinstance(text, str) and text.strip()]
            if not isinstance(row[0], str):
                raise ValueError(f"{plain(path)}: row {place} has no class name.")
            found.setdefault(row[0], []).extend(texts)
        columns = (table.iloc[:, place].dropna() for place in range(1, table.shape[1]))
        if any(len(said) and holds_numbers(said) for said in columns):
            raise ValueError(
                f"{plain(path)}: a column holds numbers, or yes and no, so this is a table of "
                "attributes, not of texts (pass it to zslearn fit --signatures)."
            )
    if not found:
        raise ValueError(f"{plain(path)} describes no class.")
    empty = [label for label, texts in found.items() if not texts]
    if empty and not keep_empty:
        raise ValueError(f"{plain(path)}: {len(empty)} classes have no text: {name_some(empty)}.")
    return found


def read_child_parent_pairs(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a class hierarchy from a table.

    Parameters
    ----------
    path : path
        A ``.csv`` or ``.parquet`` file with the columns "child" and "parent", or with two columns.
        A child without a parent is a root.

    Returns
    -------
    DataFrame
        The columns "child" and "parent", as expected by :class:`~zslearn.baselines.HAT` and
        :meth:`zslearn.signatures.ClassGraph.from_tree`.
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
        raise ValueError(f"{plain(path)}: row {row} has no child.")
    return table


def read_ranks(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read the taxonomic ranks of classes.

    Parameters
    ----------
    path : path
        A ``.csv`` table with the classes in the first column and one column per rank, from the
        highest to the lowest.

    Returns
    -------
    DataFrame
        The ranks, indexed by the class names as text, as expected by
        :func:`~zslearn.signatures.taxonomy_signatures`.
    """
    table = read_csv(Path(path), lambda _: {"dtype": str})
    labels = [composed(name) for name in table.iloc[:, 0].fillna("")]
    if "" in labels:
        raise ValueError(f"{plain(path)}: row {labels.index('') + 2} has no class name.")
    if table.shape[1] < 2 or not len(table):
        raise ValueError(
            f"{plain(path)}: there are {len(table)} rows and {table.shape[1]} columns; give the "
            "classes in the first column and their ranks in the others, from the highest down."
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
        A ``.json`` file that maps classes to odds, which are validated at prediction.

    Returns
    -------
    dict
        Class → odds.
    """
    odds = read_json(Path(path))
    if not isinstance(odds, dict):
        raise ValueError(f"{plain(path)} must map classes to odds.")
    return odds


def _described_by_json(path: Path) -> dict[str, list[str]]:
    content = read_json(path)
    wanted = "a text or a list of texts"
    if not isinstance(content, dict):
        raise ValueError(f"{plain(path)} is not a JSON object; it must map each label to {wanted}.")
    found = {}
    for label, value in content.items():
        texts = value if isinstance(value, list) else [value]
        wrong = [text for text in texts if not isinstance(text, str)]
        if wrong:
            raise ValueError(
                f"{plain(path)}: {name_some([label])} is described by {plain(wrong[0], 40)!r}, "
                f"which is not text; the file must map each label to {wanted}."
            )
        found[label] = [text for text in texts if text.strip()]
    return found
