"""Versions of the format, and of the library that wrote a file.

The format has a number of its own. It rises when a reader of the last number could not read a file,
or would read it wrongly: when the file is laid out in another way, when an estimator learns other
attributes than before. It does not rise for a new hyper-parameter, or a new field of a part, whose
default means what was before: a file without it gets the default. A reader reads its own number and
every smaller one, by the steps in `_STEPS`; of a larger one it says that zslearn must be updated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sklearn

from zslearn._version import __version__
from zslearn.persistence._errors import BadContentError
from zslearn.utils import InputWarning, plain, warn_user

#: How a version is written.
_VERSION = r"\d{1,9}(\.\d{1,9}){0,3}((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9.]{1,40})?"

#: What this version writes.
FORMAT_VERSION = 1

#: Number of a format → what makes its description one of the next number.
_STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}


def checked_versions(content: Any) -> dict[str, Any]:
    """The description of a file in the format of this version.

    Parameters
    ----------
    content : object
        What the file says.

    Returns
    -------
    dict
        The same, or brought up step by step.

    Raises
    ------
    BadContentError
        It is of a newer format, or of none.
    """
    if not isinstance(content, dict):
        raise BadContentError("its description is no object of JSON")
    number, library = content.get("format_version"), content.get("library_version")
    is_version = isinstance(library, str) and re.fullmatch(_VERSION, library)
    if type(number) is not int or number < 1 or not is_version:
        raise BadContentError("its description names no version")
    if number > FORMAT_VERSION:
        raise BadContentError(
            f"it was saved by zslearn {plain(library, 40)} in version {number} of the format, and "
            f"this is zslearn {__version__}, which reads up to {FORMAT_VERSION}. Update zslearn"
        )
    while number < FORMAT_VERSION:
        if number not in _STEPS:
            raise BadContentError(
                f"version {number} of the format is no longer read; load it with zslearn "
                f"{plain(library, 40)} and save it again with a version in between"
            )
        content = _STEPS[number](content)
        number += 1
    return content


@contextmanager
def say_of_versions(content: dict[str, Any], path: str | os.PathLike[str]) -> Iterator[None]:
    """Warn of a file of a newer library, or of parts of another scikit-learn; blame it for errors.

    Parameters
    ----------
    content : dict
        What the file says.
    path : path
        Its name.

    Yields
    ------
    None
    """
    remarks = _remarks(content)
    try:
        yield
    except Exception as error:
        if remarks and not isinstance(error, (OSError, ImportError)):
            kind = "" if isinstance(error, BadContentError) else f"{type(error).__name__}: "
            reason = f"{kind}{plain(error, 300)}"
            raise BadContentError(f"{reason}. ({' '.join(remarks)})") from error
        raise
    for remark in remarks:
        warn_user(f"{plain(path)}: {remark}", InputWarning)


def _remarks(content: dict[str, Any]) -> list[str]:
    remarks = []
    library, learn = content["library_version"], content.get("scikit_learn_version")
    if _numbers(library) > _numbers(__version__):
        remarks.append(
            f"It was saved by zslearn {plain(library, 40)}, which is newer than this zslearn "
            f"{__version__}; update zslearn if its predictions matter."
        )
    if isinstance(learn, str) and _numbers(learn)[:2] != _numbers(sklearn.__version__)[:2]:
        remarks.append(
            f"Parts of it were fitted by scikit-learn {plain(learn, 40)}, and this is "
            f"{sklearn.__version__}; scikit-learn does not say that they predict alike."
        )
    return remarks


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a release: 1.2.0.dev3 is 1, 2, 0."""
    found = re.match(r"\d{1,9}(\.\d{1,9}){0,3}", version)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)
