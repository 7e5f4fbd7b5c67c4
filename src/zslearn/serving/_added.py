"""Classes that were added while a model was served, in a file beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zslearn.utils import DamagedFileError, plain, read_checked_json, write_checked_json

_FORMAT = 1


@dataclass(frozen=True)
class AddedClass:
    """A class that was described to a running service.

    Parameters
    ----------
    name : str
        What it is called.
    values : tuple of float
        Its attributes, in the order of the model.
    texts : tuple of str
        What was said of it, where it was described in words.
    """

    name: str
    values: tuple[float, ...]
    texts: tuple[str, ...] = ()


class AddedFileError(ValueError):
    """A file of added classes cannot be used: its text says why."""


class AddedFile:
    """The file that keeps added classes: whole or not there, and never another process's.

    Parameters
    ----------
    path : Path
        Where it is, or will be.
    attributes : sequence of str
        Names of the model's attributes: classes that are described by others are refused.
    encoder : str or None
        What makes attributes of text.
    """

    def __init__(self, path: Path, attributes: Sequence[str], encoder: str | None) -> None:
        self.path = path
        self._attributes = list(attributes)
        self._encoder = encoder
        self._last: bytes | None = None

    def read(self) -> list[AddedClass]:
        """The classes of the file; none where there is no file.

        Raises
        ------
        AddedFileError
            It is damaged, or belongs to another model.
        """
        if not self.path.exists():
            return []
        try:
            content = read_checked_json(self.path)
            self._last = self.path.read_bytes()
            return self._classes(content)
        except (DamagedFileError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise AddedFileError(
                f"The added classes in {plain(self.path)} cannot be read: {plain(reason)}. Put the "
                "file right, or move it away to begin without them."
            ) from error

    def write(self, classes: Iterable[AddedClass]) -> None:
        """Replace what the file holds.

        Raises
        ------
        AddedFileError
            Another process has written the file since.
        OSError
            It cannot be written.
        """
        if self._bytes() != self._last:
            raise AddedFileError(
                f"{self.path.name} was changed by another process; start this one again."
            )
        content = {
            "format": _FORMAT,
            "attributes": self._attributes,
            "encoder": self._encoder,
            "classes": [
                {"name": c.name, "values": list(c.values), "texts": list(c.texts)} for c in classes
            ],
        }
        write_checked_json(self.path, content)
        self._last = self._bytes()

    def _bytes(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def _classes(self, content: dict[str, Any]) -> list[AddedClass]:
        if content.get("format") != _FORMAT:
            raise DamagedFileError("it is of another version of the library")
        if content.get("attributes") != self._attributes or content.get("encoder") != self._encoder:
            raise DamagedFileError(
                "its classes are described by other attributes than those of this model"
            )
        entries = content.get("classes")
        if not isinstance(entries, list):
            raise DamagedFileError("it lists no classes")
        return [self._class(entry) for entry in entries]

    def _class(self, entry: Any) -> AddedClass:
        match entry:
            case {"name": str(name), "values": list(values), "texts": list(texts)} if (
                len(values) == len(self._attributes)
                and all(_is_number(value) for value in values)
                and all(isinstance(text, str) for text in texts)
            ):
                return AddedClass(name, tuple(map(float, values)), tuple(texts))
        raise DamagedFileError("one of its classes is not described as those of the model are")


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)
