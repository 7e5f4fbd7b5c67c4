"""A person's own data: features, labels and signatures from tables and arrays."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from zslearn.datasets._array_files import read_array
from zslearn.datasets._class_split import ClassSplit
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._limits import limit_reading
from zslearn.datasets._table_reading import (
    File,
    Samples,
    find_files,
    is_file,
    match_types,
    read_samples,
    read_signatures,
)
from zslearn.datasets._table_splits import read_unseen, split_by_classes, split_by_parts
from zslearn.utils import refuse_twins


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
    name: str | None = None,
    version: str | None = None,
    max_bytes: int | None = None,
) -> ZeroShotDataset:
    r"""Load a person's own data from tables and arrays.

    Features and labels stand in one table, whose column `label` holds the labels, or in two. The
    split is given in one of two ways: by a column `part` beside the labels, which says of each
    sample whether it is of "train", "test_seen", "test_unseen" or of none (empty); or by
    `unseen_classes`. Then `hold_out` of each other class is for testing.

    Parameters
    ----------
    features : path, DataFrame or array-like of shape (n_samples, n_features)
        A DataFrame, or a file ``.csv`` or ``.parquet``, with one row per sample: all columns but
        those of labels and parts are features. Or an array, or a file ``.npy`` (it is
        memory-mapped) or ``.npz`` with one array, or one named "X" or "features", beside which "y"
        or "labels" may hold the labels, as those of :mod:`zslearn.features` do. Or a folder with
        files ``features``, ``labels``, ``signatures``, ``unseen.txt``, ``parts`` and ``images.npy``
        of such kinds; what is given as an argument takes the place of a file there.
    labels : path, Series, DataFrame or array-like of shape (n_samples,), default=None
        The labels, in the order of `features`, if they are not a column there: a Series or an
        array, a DataFrame with a column `label`, a file ``.csv`` or ``.parquet`` with such a
        column, or ``.npy``.
    signatures : path or DataFrame
        One row per class. A DataFrame has the labels in its index or in a column `label`. In a
        file ``.csv`` or ``.parquet`` they are in the column `label` if there is one, else in the
        first; all other columns say what is known of the class, in numbers.
    label : str or None, default=None
        The column of labels. None: the one named "label", or the only one in a table of labels.
    part : str, path or array-like of shape (n_samples,), default="part"
        The column of parts beside the labels, or the parts themselves.
    unseen_classes : label, iterable of labels, path or None, default=None
        The unseen classes, if there is no `part`: one label, several, or a text file with one
        label per line. A str is a label unless there is such a file.
    hold_out : float or None, default=0.2
        With `unseen_classes`: the share of each seen class that becomes ``test_seen``. None: all
        of it trains.
    random_state : int, RandomState or None, default=0
        Seed of the hold-out.
    drop : iterable of str, default=()
        Columns of `features` that are none: a file name, a number of the row.
    images : path to a ``.npy`` file, array-like or None, default=None
        One image per sample.
    name : str or None, default=None
        Name of the data set; by default that of the folder or file of features, else "table".
    version : str or None, default=None
        Version of the split; by default made of `name` and the way the split is given.
    max_bytes : int or None, default=None
        The most memory that reading one of the files may take, in bytes. None: what the
        environment variable ``ZSLEARN_MAX_BYTES`` says, else 64 times the size of the file and
        64 MiB. What is larger is refused before it is read. A memory map takes none.

    Returns
    -------
    ZeroShotDataset
        With one split, "own". Labels keep their type; those of text files are whole numbers if all
        of them are written as such, else strings. `feature_names` holds the names of the columns.

    Raises
    ------
    ValueError
        A file is damaged or of an unknown kind, would take too much memory or has rows of
        different lengths, the parts do not fit together, or a column is no feature: text, a saved
        pandas index, or a column that counts the rows. Two classes have one name in two Unicode
        forms.
    OSError
        A file cannot be opened.
    ImportError
        A parquet file is given and pyarrow is not installed.

    See Also
    --------
    load_xlsa17 : The field's benchmarks.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.datasets import load_table
    >>> samples = pd.DataFrame({
    ...     "weight": [4.0, 4.2, 3.9, 4.4, 31.0, 28.5],
    ...     "ears": [6.1, 6.3, 5.8, 6.0, 12.2, 11.9],
    ...     "animal": ["cat", "cat", "cat", "cat", "dog", "dog"]})
    >>> classes = pd.DataFrame({"barks": [0, 1], "purrs": [1, 0]}, index=["cat", "dog"])
    >>> data = load_table(
    ...     samples, signatures=classes, label="animal", unseen_classes="dog", hold_out=0.25,
    ...     name="pets")
    >>> data
    <ZeroShotDataset pets, split own, version pets/hold-out 0.25>
      samples     6: 3 train, 1 test seen, 2 test unseen
      classes     2: 1 seen, 1 unseen
      features    2 (table)
      signatures  2
      images      none
      splits      own
    >>> data.feature_names.tolist()
    ['weight', 'ears']
    """
    if is_file(features) and Path(features).is_dir():
        name = name if name is not None else Path(features).resolve().name
        found = find_files(Path(features))
        features = found["features"]
        labels = found.get("labels") if labels is None else labels
        signatures = found.get("signatures") if signatures is None else signatures
        images = found.get("images") if images is None else images
        if unseen_classes is None and "parts" in found and isinstance(part, str):
            part = found["parts"]
        elif unseen_classes is None:
            unseen_classes = found.get("unseen")
    if signatures is None:
        raise ValueError(
            "signatures is missing; give the table that describes the classes, one row per class."
        )
    if name is None:
        name = Path(features).stem if is_file(features) else "table"
    with limit_reading(max_bytes):
        samples = read_samples(features, labels, label, part, drop)
        described, index_text = read_signatures(signatures, label)
        pictures = _read_images(images)
        y, described = match_types(samples.y, samples.is_text, described, index_text)
        refuse_twins([*y.tolist(), *getattr(described, "index", ())], f"{name}: y or signatures")
        split = _split(
            samples, y, described, part, unseen_classes, hold_out, random_state, name, version
        )
    return ZeroShotDataset(
        X=samples.X,
        y=y,
        signatures=described,
        splits={"own": split},
        split="own",
        name=name,
        features=_kind(features, samples),
        images=pictures,
        feature_names=samples.feature_names,
    )


def _split(
    samples: Samples,
    y: Any,
    signatures: pd.DataFrame,
    part: Any,
    unseen_classes: Any,
    hold_out: float | None,
    random_state: Any,
    name: str,
    version: str | None,
) -> ClassSplit:
    """The split, by parts or by unseen classes, whichever is given."""
    if samples.parts is not None and unseen_classes is not None:
        raise ValueError(
            f"{name}: the split is given twice, by parts and by unseen_classes; leave out one."
        )
    if samples.parts is not None:
        return split_by_parts(samples.parts, y, signatures, version or f"{name}/parts", name)
    if unseen_classes is None:
        raise ValueError(
            f"{name}: no split is given; add a column {part!r} to the labels (train, test_seen, "
            "test_unseen), or name the unseen_classes."
        )
    how = f"hold-out {hold_out:g}" if hold_out is not None else "conventional"
    unseen = read_unseen(unseen_classes, y)
    return split_by_classes(
        unseen, y, signatures, hold_out, random_state, version or f"{name}/{how}", name
    )


def _kind(features: Any, samples: Samples) -> str:
    """Name of the features."""
    if is_file(features):
        return Path(features).stem
    return "table" if samples.feature_names is not None else "array"


def _read_images(source: Any) -> Any:
    """Images, from a file or as they are."""
    if source is None:
        return None
    images = read_array(Path(source)) if is_file(source) else np.asarray(source)
    if not images.ndim:
        raise ValueError("images holds a single number; give one image per sample.")
    return images
