"""Requests that are refused, and what is checked of the words in them."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from numpy.typing import NDArray

from zslearn.utils import composed

MAX_NAME = 200
MAX_TEXT = 2000
MAX_TEXTS = 16


class Refusal(Exception):
    """A request that is answered with a reason.

    Parameters
    ----------
    status : int
        The status of HTTP.
    reason : str
        What is wrong, and what to do.
    retry_after : int, optional
        Seconds after which the same request may go well.
    """

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


def checked_name(name: str) -> str:
    """The name of a new class in its normal form; a Refusal where it cannot be one."""
    normal = composed(name).strip()
    if not normal:
        raise Refusal(422, "The name is empty.")
    if len(normal) > MAX_NAME:
        raise Refusal(422, f"The name is longer than {MAX_NAME} characters.")
    if not normal.isprintable():
        raise Refusal(422, "The name holds characters that cannot be seen; leave them out.")
    # Browsers and other clients take these for folders, so that no address could name the class.
    if normal in (".", ".."):
        raise Refusal(422, "The name is one or two dots, which no address can hold.")
    return normal


def label_for(name: str, labels: NDArray[Any]) -> Any:
    """The label of a new class, of the kind that the model has; a Refusal where there is none."""
    if labels.dtype.kind in "iu":
        if not re.fullmatch(r"-?[0-9]{1,18}", name):
            raise Refusal(422, "The classes of this model are numbers: the name must be one.")
        if labels.dtype.kind == "u" and name.startswith("-"):
            raise Refusal(422, "The classes of this model are numbers that are not negative.")
        return int(name)
    if labels.dtype.kind in "bf":
        raise Refusal(422, "The classes of this model are no names: none can be added.")
    return name


def checked_texts(text: str | list[str]) -> list[str]:
    """What is said of a class, as a list; a Refusal where nothing is, or too much."""
    texts = [text] if isinstance(text, str) else list(text)
    if not texts or any(not words.strip() for words in texts):
        raise Refusal(422, "The text is empty.")
    if len(texts) > MAX_TEXTS or any(len(words) > MAX_TEXT for words in texts):
        raise Refusal(
            422, f"There may be {MAX_TEXTS} texts of {MAX_TEXT} characters each, not more."
        )
    if any(not _is_text(words) for words in texts):
        raise Refusal(422, "The text holds characters that are no text.")
    return texts


def _is_text(words: str) -> bool:
    """Whether text can be written in UTF-8 and has no control characters but ends of line."""
    return all(
        letter in "\n\r\t" or unicodedata.category(letter) not in ("Cc", "Cs") for letter in words
    )
