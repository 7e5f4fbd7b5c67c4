"""Files on disk or at URLs such as s3://bucket/x.npy, and Parquet files in either place.

Readers and writers of features and predictions take a :data:`Location`. fsspec opens the URLs; its
file systems of object stores come from packages such as s3fs and gcsfs.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from zslearn._utils._files import atomic_write
from zslearn._utils._messages import plain
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import Budget, reading, reason, without_secrets

# What file systems call the version of a file, the most reliable first.
_VERSIONS = (
    *("ETag", "etag", "generation", "mtime", "LastModified", "Last-Modified"),
    *("last_modified", "updated", "modified", "created"),
)


# Number of errors that one message quotes.
_MAX_SHOWN = 10


class _Status(NamedTuple):
    """The entries of `os.stat` that readers use."""

    st_mode: int
    st_size: int
    st_mtime_ns: int  # a digest of the version of the file


class RemotePath:
    """A file or folder at a URL, with the methods of Path that readers and writers use."""

    def __init__(self, url: str) -> None:
        url = url.rstrip("/")
        self.url = f"{url}//" if url.endswith(":") else url  # the root, such as memory://
        fsspec = import_optional("fsspec", f"Opening {plain(self)}")
        with self.accessed():
            self._fs, self._path = fsspec.core.url_to_fs(self.url)

    @property
    def _pure_path(self) -> PurePosixPath:
        """The path without the query of a request."""
        is_request = re.match("https?://", self._path) is not None
        return PurePosixPath(self._path.partition("?")[0] if is_request else self._path)

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self._pure_path.name

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self._pure_path.stem

    @property
    def suffix(self) -> str:
        """The ending of the name."""
        return self._pure_path.suffix

    def __str__(self) -> str:
        return without_secrets(self.url)

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.url}/{name}")

    def open(self, mode: str = "rb") -> Any:
        """Open the file for reading."""
        with self.accessed():
            return self._fs.open(self._path, mode)

    def stat(self) -> _Status:
        """Kind, size and version of what is there now."""
        with self.accessed():
            self._fs.invalidate_cache(self._path)
            about = self._fs.info(self._path)
        version = next((about[name] for name in _VERSIONS if about.get(name) is not None), "")
        digest = hashlib.sha256(str(version).encode()).digest()
        mode = stat.S_IFDIR if about["type"] == "directory" else stat.S_IFREG
        return _Status(mode, int(about["size"] or 0), int.from_bytes(digest[:8]))

    def is_dir(self) -> bool:
        """Whether there are files below this URL."""
        with self.accessed():
            return bool(self._fs.isdir(self._path))

    def iterdir(self) -> Iterator[RemotePath]:
        """The files and folders in a folder; none if there is no folder."""
        with self.accessed(), suppress(FileNotFoundError):
            self._fs.invalidate_cache(self._path)
            names = self._fs.ls(self._path, detail=False)
            # Object stores may list an empty object that stands for the folder itself.
            inside = [name for name in names if name.rstrip("/") != self._path]
            yield from (self / PurePosixPath(name).name for name in inside)

    def unlink(self) -> None:
        """Remove the file."""
        with self.accessed():
            self._fs.rm_file(self._path)

    @contextmanager
    def written(self, name: str) -> Iterator[Any]:
        """Yield a file of this folder that appears at the end, and not at all after an error.

        In a transaction, file systems with a cheap rename write a temporary file. Object stores,
        where renaming is copying, get an upload that is completed at the end or abandoned: until
        then nobody sees it, so that it counts as a file that is renamed.
        """
        with self.accessed():
            fs, target = self._own_fs, f"{self._path}/{name}"
            arrow = import_optional("fsspec.implementations.arrow", "Writing")
            if not isinstance(fs, arrow.ArrowFSWrapper):
                with fs.transaction, fs.open(target, "wb") as file:
                    yield file
                return
            # Arrow's file systems, such as HDFS, have no transactions.
            temporary = f"{self._path}/.{name}.{secrets.token_hex(4)}.tmp"
            try:
                with fs.open(temporary, "wb") as file:
                    yield file
            except BaseException:
                with suppress(Exception):
                    fs.rm_file(temporary)
                raise
            with suppress(FileNotFoundError):
                fs.rm_file(target)
            fs.mv(temporary, target)

    @cached_property
    def _own_fs(self) -> Any:
        """A file system of this folder alone: a transaction is one of all users of the object."""
        url_to_fs = import_optional("fsspec", "Writing").core.url_to_fs
        fs = url_to_fs(self.url, skip_instance_cache=True)[0]
        # Object stores have no folders; if one is needed and missing, opening a file fails.
        with suppress(OSError):
            fs.mkdir(self._path, create_parents=False)
        return fs

    @contextmanager
    def accessed(self) -> Iterator[None]:
        """Name the URL in the errors of file systems, which are of any type."""
        try:
            yield
        except ImportError:  # names the package of the file system
            raise
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), plain(self)) from None
        except Exception as error:
            raise OSError(f"{plain(self)} cannot be accessed ({reason(error)}).") from error


Location = Path | RemotePath


def located(path: str | os.PathLike[str]) -> Location:
    """The place that a path or URL names."""
    if not isinstance(path, str) or "://" not in path:
        if re.match(r"[\w.+-]{2,}:[/\\]", os.fspath(path)):
            raise ValueError(
                f"{plain(path)}: pass a URL as text, since a Path changes its slashes."
            )
        return Path(path)
    fsspec = import_optional("fsspec.core", f"Opening {plain(without_secrets(path))}")
    # fsspec writes a local file in another folder first, perhaps of another disk.
    if fsspec.split_protocol(path)[0] in (None, "file", "local") and "::" not in path:
        return Path(fsspec.strip_protocol(path))
    return RemotePath(path)


def file_state(path: Location) -> tuple[int, int]:
    """Two numbers that change when the file does."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


#: Minimum memory for one value in pyarrow and pandas together, in bytes.
VALUE_BYTES = 32


def open_parquet(path: Location) -> Any:
    """Open a Parquet file whose declared row groups fit in memory."""
    budget = Budget(path)
    parquet = import_optional("pyarrow.parquet", f"Reading {path.name}")
    source = path if isinstance(path, Path) else path.open()
    with reading(path, "the table"):
        source = parquet.ParquetFile(source, page_checksum_verification=True, pre_buffer=False)
        metadata = source.metadata
        # Column metadata is not read: pyarrow crashes the process if that part is damaged.
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        if sum(group.num_rows for group in groups) != metadata.num_rows:
            raise ValueError("its row groups do not add up to the rows of the table")
        for group in groups:
            values = VALUE_BYTES * group.num_rows * metadata.num_columns
            budget.check(max(values, group.total_byte_size))
    return source


# Metadata key of a Parquet file: what it was computed from.
_KEY = b"zslearn"


def write_parquet(
    frame: pd.DataFrame,
    folder: Location,
    name: str,
    key: str,
    types: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write a table to a folder, with the key of what it was computed from.

    The file has its name only when it is whole. `types` are Arrow types of columns.
    """
    arrow = import_optional("pyarrow", "Writing predictions")
    parquet = import_optional("pyarrow.parquet", "Writing predictions")
    schema = arrow.Schema.from_pandas(frame)
    for column, kind in types.items():
        schema = schema.set(schema.get_field_index(column), arrow.field(column, kind))
    table = arrow.Table.from_pandas(frame, schema=schema)
    table = table.replace_schema_metadata({**table.schema.metadata, _KEY: key})
    opened = atomic_write(folder / name) if isinstance(folder, Path) else folder.written(name)
    with opened as target:
        parquet.write_table(table, target)


def n_rows_written(path: Location, key: str) -> int | None:
    """Number of rows of a file of :func:`write_parquet`.

    None if it is missing, damaged or of another key. A table of another program is an error, since
    predictions would replace it.
    """
    parquet = import_optional("pyarrow.parquet", "Reading predictions")
    try:
        # Other errors may be temporary, and no reason to compute a file again.
        source = path if isinstance(path, Path) else path.open()
    except FileNotFoundError:
        return None
    try:
        about = parquet.read_metadata(source)
    # ArrowInvalid is a ValueError.
    except (ValueError, OSError):
        return None
    found = (about.metadata or {}).get(_KEY)
    if found is None:
        raise FileExistsError(
            f"{plain(path)} holds no predictions and would be replaced; choose another folder."
        )
    return int(about.num_rows) if found == key.encode() else None


def shards_failed(errors: Sequence[Exception], folder: Location) -> ValueError:
    """The error after all other shards were written."""
    shown = " ".join(f"{str(error).rstrip('.')}." for error in errors[:_MAX_SHOWN])
    more = f" And {len(errors) - _MAX_SHOWN} more." if len(errors) > _MAX_SHOWN else ""
    number = "One shard" if len(errors) == 1 else f"{len(errors)} shards"
    return ValueError(
        f"{number} could not be read; the predictions of all others are in {plain(folder)}, and "
        f"another call will add the missing ones. {shown}{more}"
    )
