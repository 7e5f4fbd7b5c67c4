"""Samples: image features or rows of a table, with their labels and where they come from."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._files import atomic_write, regular_size
from zslearn._utils._messages import (
    did_you_mean,
    join_spellings,
    name_near_misses,
    name_some,
    plain,
)
from zslearn._utils._reading import (
    SIZE_ALLOWANCE,
    SIZE_MULTIPLE,
    TABLE_ENDINGS,
    first_row,
    reading,
)
from zslearn.datasets import read_sample_table


@dataclass(frozen=True, eq=False)
class Samples:
    """Image features or rows of a table, with a record of how they were made.

    Parameters
    ----------
    X : ndarray or DataFrame of shape (n_samples, n_features)
        One row per readable image; for a table, its columns as they are.
    y : ndarray of str of shape (n_samples,) or None
        Class labels, if known.
    names : tuple of str
        Name of each sample.
    digests : tuple of str
        First 32 digits of the SHA-256 of each image file or row; empty if unknown.
    about : dict
        How the features were made; empty for features of another program. For images: "backbone",
        "weights_sha256", "n_features", "preprocessing", "boxes" (whether images were cropped to
        bounding boxes), "skipped" (unreadable images, with the reason) and "versions". For a
        table: "columns" and "label".
    row_noun : str, default="image"
        What messages call a sample.
    """

    X: Any
    y: NDArray[Any] | None
    names: tuple[str, ...]
    digests: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)
    row_noun: str = "image"

    def __len__(self) -> int:
        return len(self.X)

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Unreadable images, each with the reason."""
        found = self.about.get("skipped")
        # Another program may have written anything here.
        pairs = found if isinstance(found, list) else []
        pairs = [pair for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]
        return [(str(name), str(reason)) for name, reason in pairs]

    def take(self, rows: Any) -> Samples:
        """Select samples by position or by a boolean mask; the record stays the same."""
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
        return replace(
            self,
            X=self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows],
            y=None if self.y is None else self.y[rows],
            names=tuple(self.names[row] for row in rows),
            digests=tuple(self.digests[row] for row in rows) if self.digests else (),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the samples to a ``.npz`` file without pickles.

        Its arrays are "X", "y", "images" (names), "digests" and "about" (JSON in UTF-8).
        """
        arrays: dict[str, NDArray[Any]] = {
            "X": self.X,
            "images": np.asarray(self.names, dtype=np.str_),
            "digests": np.asarray(self.digests, dtype=np.str_),
            "about": np.frombuffer(json.dumps(self.about).encode(), dtype=np.uint8),
        }
        if self.y is not None:
            arrays["y"] = self.y.astype(np.str_)
        with atomic_write(npz_path(path)) as temporary, open(temporary, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)


def load_features(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    drop: Collection[str] = (),
    columns: Sequence[str] | None = None,
    decimal_commas: Iterable[str] = (),
    id_column: str | None = None,
) -> Samples:
    """Load features and labels from a file.

    Parameters
    ----------
    path : path
        A ``.npz`` file, from :func:`extract_features` or another program, with an array "X" or
        "features" and optionally "y" or "labels"; or a table (``.csv``, ``.tsv``, ``.xlsx`` or
        ``.parquet``) with one row per sample.
    label : str, optional
        The label column of the table, by default "label".
    drop : sequence of str, default=()
        Columns of the table that are not features.
    columns : sequence of str, optional
        The feature columns, by default all others; labels may then be missing.
    decimal_commas : iterable of str, default=()
        Columns of the table whose numbers usually have decimal commas; see
        :func:`~zslearn.datasets.read_sample_table`.
    id_column : str, optional
        The column of the table that names its rows; it is not a feature.

    Returns
    -------
    Samples
        The features, with labels and provenance where known.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from zslearn.images import load_features
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.npz")
    ...     np.savez(path, X=np.eye(2), y=["cat", "dog"])
    ...     samples = load_features(path)
    >>> samples.X.shape, samples.y.tolist(), samples.names
    ((2, 2), ['cat', 'dog'], ('0', '1'))
    """
    path = Path(path)
    if path.suffix.lower() in TABLE_ENDINGS:
        table = read_sample_table(
            path,
            label=label,
            drop=drop,
            columns=columns,
            decimal_commas=decimal_commas,
            id_column=id_column,
        )
        names = tuple(table.names or map(str, range(1, len(table.X) + 1)))
        own = [str(name) for name in table.X.columns]
        about = {"columns": own, "label": label or "label", "n_features": len(own)}
        about |= {"dropped": table.dropped} if drop else {}
        about |= {} if table.names is None else {"id": id_column}
        return Samples(table.X, table.y, names, row_digests(table.X), about, "sample")
    arrays = _read_arrays(npz_path(path))
    X = arrays.get("X", arrays.get("features"))
    if X is None or X.ndim != 2 or X.dtype.kind not in "fiub" or not X.size:
        raise ValueError(f"{plain(path)}: no numeric array 'X' with one row per image.")
    try:
        about = _parse_json(arrays["about"]) if "about" in arrays else {}
        if not isinstance(about, dict):
            raise ValueError("'about' is not a JSON object")
        texts = {}
        for name in ("images", "digests"):
            array = arrays.get(name, np.empty(0, dtype=np.str_))
            if array.size and (array.shape != (len(X),) or array.dtype.kind != "U"):
                raise ValueError(f"{name!r} has shape {array.shape} and dtype {array.dtype}")
            texts[name] = tuple(array.ravel().tolist())
        y = arrays.get("y", arrays.get("labels"))
        if y is not None and (y.shape != (len(X),) or y.dtype.kind not in "Uiu"):
            raise ValueError(f"'y' has shape {y.shape} and dtype {y.dtype}, not a label per image")
    except ValueError as error:
        raise ValueError(f"{plain(path)} is not a file of features: {error}.") from error
    names = texts["images"] or tuple(map(str, range(len(X))))
    return Samples(X, None if y is None else y.astype(np.str_), names, texts["digests"], about)


def row_digests(table: pd.DataFrame) -> tuple[str, ...]:
    """The first 32 digits of the SHA-256 of each row of a table."""
    rows = table.astype(object).itertuples(index=False, name=None)
    return tuple(hashlib.sha256(repr(row).encode()).hexdigest()[:32] for row in rows)


def _parse_json(array: NDArray[Any]) -> Any:
    """Parse the JSON in an array of bytes."""
    try:
        return json.loads(array.tobytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'about' is not valid JSON ({plain(error, 100)})") from error


def npz_path(path: str | os.PathLike[str]) -> Path:
    """Check that the path of a feature file ends in .npz."""
    file = Path(path)
    if file.suffix != ".npz":
        raise ValueError(f"{plain(file)}: the name of a feature file ends in .npz.")
    return file


def is_feature_table(path: Path) -> bool:
    """Return whether a path is a table of features rather than a list of image files."""
    ending = path.suffix.lower()
    if ending == ".csv" and path.is_file():
        return "path" not in [cell.strip().casefold() for cell in first_row(path)]
    return ending in TABLE_ENDINGS and ending != ".csv"


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read arrays by name; Python objects and decompression bombs are refused."""
    size = regular_size(path)
    # zipfile, zlib and NumPy's header parser each raise errors of their own.
    with open(path, "rb") as file, reading(path, "the arrays"):
        with zipfile.ZipFile(file) as archive:
            declared = sum(member.file_size for member in archive.infolist())
        if declared > SIZE_MULTIPLE * size + SIZE_ALLOWANCE:
            raise ValueError("its declared content is far larger than the file")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def check_labels(
    labels: NDArray[Any] | None,
    described: Iterable[Any] | None,
    *,
    row_noun: str = "image",
    described_in: str = "the description",
    leave_out: Sequence[str] = (),
) -> NDArray[Any]:
    """Check that labels are given and described; `described=None` accepts any label.

    The result has the spelling of the description.
    """
    if labels is None:
        advice = "Name the label column with label=."
        if row_noun == "image":
            advice = "Put each image into the folder of its class, or give a table (.csv) with the "
            advice += "columns path and label."
        raise ValueError(f"The {row_noun}s have no labels. {advice}")
    if described is not None:
        described = list(described)
        labels = join_spellings(labels, described, f"labels of the {row_noun}s")
    present = list(dict.fromkeys(labels.tolist()))
    if unknown := [label for label in leave_out if label not in present]:
        near = did_you_mean(unknown[0], present)
        raise ValueError(f"There are no {row_noun}s of {name_some(unknown)} to leave out.{near}")
    described = present if described is None else list(described)
    known = set(described)
    if missing := [label for label in present if label not in known]:
        source = f"the list of {row_noun}s"
        near = name_near_misses(missing, described, unknown_in=source, known_in=described_in)
        if len(missing) == len(present) and not near:
            near = " None of the labels matches: is this the right folder or table?"
        advice = f"Describe every class that has {row_noun}s."
        if described_in != "the description":
            advice = "Add these classes first (zslearn add-class), or leave them out."
        raise ValueError(
            f"Classes with {row_noun}s are missing from {described_in}: {name_some(missing)}. "
            f"{advice}{near}"
        )
    return labels
