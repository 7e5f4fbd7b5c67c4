"""Predictions for shards of images or features: webdataset archives and Parquet files."""

from __future__ import annotations

import os
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn._utils._files import regular_size
from zslearn._utils._fit_cache import fingerprint, source_digest
from zslearn._utils._messages import name_some, plain
from zslearn._utils._progress import progress_bar
from zslearn._utils._reading import reading, reason
from zslearn._utils._remote import (
    Location,
    file_state,
    located,
    n_rows_written,
    open_parquet,
    shards_failed,
    write_parquet,
)
from zslearn.images._batches import BatchPredictor

#: The column of the name of a sample in a webdataset archive.
_KEY = "__key__"
_BLOCK = 512  # bytes of which an archive is made


def predict_shards(
    predictor: BatchPredictor,
    shards: Sequence[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    batch_size: int = 256,
    resume: bool = True,
    progress: bool = False,
) -> Path | str:
    """Predict shards of images or features one by one, each to a Parquet file of its own.

    The predictions of ``x/0001.tar`` are in the file ``0001.parquet``, which has its name only when
    it is whole, so that an interrupted call resumes, and several machines can share the work. A
    shard that cannot be read does not stop the others; the error at the end names it. Needs
    pyarrow.

    Parameters
    ----------
    predictor : BatchPredictor
        The model, and the columns to read and to keep. Columns of a webdataset archive are the
        endings of its files, such as "jpg" or "jpg;png" (the first that a sample has), and
        "__key__", the name of a sample. Kept files are text in UTF-8.
    shards : sequence of paths or URLs
        Webdataset archives (``.tar``, not compressed) or tables (``.parquet``).
    folder : path or URL
        Folder for the files; created if needed. Tables of other programs are not replaced.
    batch_size : int, default=256
        Number of rows in memory.
    resume : bool, default=True
        Whether to keep finished files of the same model, columns and shard.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    Path or str
        The folder; a URL as a string.

    See Also
    --------
    zslearn.experiments.write_top_k : The same for features and a model in memory.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from zslearn import EXEM, BatchPredictor, save
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.images import predict_shards
    >>> data = make_zero_shot(random_state=0)
    >>> folder = Path(tempfile.mkdtemp())
    >>> save(EXEM().fit(data.X_train, data.y_train, signatures=data.signatures), folder / "m.zsl")
    >>> X = list(data.X_test_unseen)
    >>> pd.DataFrame({"id": range(len(X)), "features": X}).to_parquet(folder / "0.parquet")
    >>> predictor = BatchPredictor(folder / "m.zsl", k=1, keep=["id"])
    >>> out = predict_shards(predictor, [folder / "0.parquet"], folder / "out")
    >>> pd.read_parquet(out).shape
    (150, 3)
    """
    sources, place = [located(shard) for shard in shards], located(folder)
    counts = Counter(source.stem for source in sources)
    if twice := [stem for stem, count in counts.items() if count > 1]:
        raise ValueError(f"Several shards are named {name_some(twice)}; write them to two folders.")
    if unknown := [str(s) for s in sources if s.suffix not in (".tar", ".parquet")]:
        raise ValueError(f"{plain(unknown[0])}: a shard must be a .tar or a .parquet file.")
    # Raises for a model that cannot be loaded, which is not the fault of a shard.
    predictor({name: [] for name in (*predictor.keep, predictor.column)})
    failed: list[Exception] = []
    with progress_bar(progress, len(sources), "shards") as advance:
        for source in sources:
            advance(1)
            name = f"{source.stem}.parquet"
            try:
                regular_size(source)  # a pipe would be waited for
                state = file_state(source)
                key = fingerprint(vars(predictor), str(source), state, source_digest())
                done = n_rows_written(place / name, key)
                if resume and done is not None:
                    continue
                found, types = _predicted(predictor, source, batch_size)
                if file_state(source) != state:
                    raise ValueError("the file changed while it was being read")
            except FileExistsError:  # no fault of this shard
                raise
            except (OSError, ValueError, KeyError) as error:
                text = error.args[0] if isinstance(error, KeyError) else reason(error)
                named = text if str(source) in text else f"{plain(source)}: {text}"
                failed.append(ValueError(named))
            else:
                write_parquet(found, place, name, key, types)
    if failed:
        raise shards_failed(failed, place)
    return place if isinstance(place, Path) else str(folder)


def _predicted(
    predictor: BatchPredictor, source: Location, batch_size: int
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The predictions of one shard, and the Arrow types of kept columns that have one."""
    read = _read_archive if source.suffix == ".tar" else _read_table
    parts, types = [], {}
    for batch, kept in read(source, predictor, batch_size):
        parts.append(pd.DataFrame(predictor(batch)))
        types = kept
    if not parts:
        raise ValueError("the shard is empty")
    # Labels have the same type in every shard, even in one whose images are all unreadable.
    kind = {"string": "string", "long": "Int64"}[predictor._label_type]
    labels = {f"label_{rank + 1}": kind for rank in range(predictor.k)}
    return pd.concat(parts, ignore_index=True).astype(labels), types


def _read_table(
    source: Location, predictor: BatchPredictor, batch_size: int
) -> Iterator[tuple[pd.DataFrame, dict[str, Any]]]:
    with reading(source, "the rows"):
        for batch in open_parquet(source).iter_batches(batch_size):
            # Kept columns have the same type in every shard, even where values are missing.
            schema = batch.schema
            kept = [schema.field(name) for name in predictor.keep if name in schema.names]
            types = {field.name: field.type for field in kept}
            yield batch.to_pandas(integer_object_nulls=True), types


def _read_archive(
    source: Location, predictor: BatchPredictor, batch_size: int
) -> Iterator[tuple[dict[str, list[Any]], dict[str, Any]]]:
    """Read the samples of a webdataset archive; each is a run of files that differ in the ending.

    A sample without the file of a column has None there. Of several endings of images, the first
    that a sample has counts.
    """
    images = predictor.column.split(";")
    endings = {**{name: [name] for name in predictor.keep}, predictor.column: images}
    wanted = {ending for several in endings.values() for ending in several}
    found = {_KEY}
    samples: list[dict[str, Any]] = []

    def columns() -> dict[str, list[Any]]:
        return {
            name: [next((s[e] for e in several if e in s), None) for s in samples]
            for name, several in endings.items()
        }

    with reading(source, "the archive"), source.open("rb") as file:
        end = 0
        with tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                end = member.offset_data + -(-member.size // _BLOCK) * _BLOCK
                parent, slash, base = member.name.rpartition("/")
                stem, _, ending = base.partition(".")
                key, ending = parent + slash + stem, ending.lower()
                # Names that begin with a point are of hidden files, such as those of macOS.
                if not member.isreg() or member.issparse() or not (stem and ending):
                    continue
                if not samples or samples[-1][_KEY] != key:
                    if len(samples) == batch_size:
                        yield columns(), {}
                        samples.clear()
                    samples.append({_KEY: key})
                if ending in samples[-1]:
                    raise ValueError(f"it has {member.name!r} twice")
                found.add(ending)
                content: Any = None
                if ending in wanted:
                    content = archive.extractfile(member).read()  # type: ignore[union-attr]
                    content = content if ending in images else content.decode()
                samples[-1][ending] = content
        # A reader of archives takes damage between two files for the end.
        file.seek(end)
        mark = file.read(_BLOCK)
        if len(mark) < _BLOCK or any(mark):
            raise ValueError("it does not end with the mark of its end: it is incomplete")
        if unknown := [name for name, several in endings.items() if found.isdisjoint(several)]:
            ends = name_some(sorted(found - {_KEY}))
            raise ValueError(f"no sample has {unknown[0]!r}; the files end in {ends}")
    if samples:
        yield columns(), {}
