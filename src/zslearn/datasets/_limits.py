"""What all readers of files from outside share: how much memory reading one may take.

A few bytes can claim to be gigabytes: compressed zeros, one huge chunk, a million empty members.
Readers look at the sizes that a file declares before they take memory for them, and draw all of
it from one :class:`Budget` per file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from zslearn.utils import plain

#: Without another limit a file may take this multiple of its size, and this much beside.
MULTIPLE = 64
BESIDE = 64 * 2**20
#: The environment variable that sets another limit, in bytes.
VARIABLE = "ZSLEARN_MAX_BYTES"

_chosen: ContextVar[int | None] = ContextVar("max_bytes", default=None)


class FileLimitError(ValueError):
    """Reading a file would take more memory than is allowed."""


@contextmanager
def limit_reading(max_bytes: int | None) -> Iterator[None]:
    """Set the most memory that reading a file may take, for every file read within.

    Parameters
    ----------
    max_bytes : int or None
        The limit per file in bytes; None leaves it as it is.

    Yields
    ------
    None
    """
    if max_bytes is None:
        yield
        return
    token = _chosen.set(_checked(max_bytes, "max_bytes"))
    try:
        yield
    finally:
        _chosen.reset(token)


def _checked(value: int | str, name: str) -> int:
    if isinstance(value, bool | float) or not str(value).isdecimal() or int(value) < 1:
        raise ValueError(f"{name}={value!r}; give a number of bytes, for example {8 * 2**30}.")
    return int(value)


class Budget:
    """The memory that reading one file may take.

    Parameters
    ----------
    path : Path
        The file.
    max_bytes : int or None, default=None
        The limit in bytes. None: what :func:`limit_reading` set, else the environment variable
        ``ZSLEARN_MAX_BYTES``, else 64 times the size of the file and 64 MiB.
    file_size : int or None, default=None
        The size of all files of a store; None is that of the one file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from zslearn.datasets._limits import Budget
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     Budget(Path(file.name)).limit // 2**20
    64
    """

    def __init__(
        self, path: Path, max_bytes: int | None = None, *, file_size: int | None = None
    ) -> None:
        self.path = path
        self.file_size = path.stat().st_size if file_size is None else file_size
        self._taken = 0
        chosen = _checked(max_bytes, "max_bytes") if max_bytes is not None else _chosen.get()
        if chosen is None and (value := os.environ.get(VARIABLE, "").strip()):
            chosen = _checked(value, VARIABLE)
        self._is_chosen = chosen is not None
        self.limit = chosen if chosen is not None else MULTIPLE * self.file_size + BESIDE

    @property
    def left(self) -> int:
        """What may still be taken, in bytes."""
        return self.limit - self._taken

    def take(self, n_bytes: int) -> None:
        """Count memory that stays taken; refuse it before it is, if it is too much."""
        self.check(n_bytes)
        self._taken += n_bytes

    def check(self, n_bytes: int) -> None:
        """Refuse memory that is needed for a while, if it is too much."""
        if n_bytes <= self.left:
            return
        allowed = _amount(self.limit)
        if not self._is_chosen:
            allowed += f" allowed for a file of {_amount(self.file_size)}"
        raise FileLimitError(
            f"{self.path}: reading it takes about {_amount(self._taken + n_bytes)} of memory, more "
            f"than the {allowed}; the file is damaged or made to do harm. If you trust it, allow "
            f"more: max_bytes={self._taken + n_bytes}, or the environment variable {VARIABLE}."
        )


def _amount(n_bytes: int) -> str:
    """A number of bytes in words."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if n_bytes >= 2**power:
            return f"{n_bytes / 2**power:.3g} {unit}"
    return f"{n_bytes} bytes"


def reason(error: Exception) -> str:
    """What another library says of a file, in one line that is not too long."""
    return plain(str(error).partition("\n")[0].rstrip("."), 300) or type(error).__name__
