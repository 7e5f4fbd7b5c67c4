"""JSON from files that are not trusted: no duplicates, no NaN, of a size that can be."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from zslearn.persistence._errors import BadContentError
from zslearn.utils import plain

#: Values in a text of JSON at most. Each may take some 100 bytes of memory.
MOST_VALUES = 4_000_000


def write_json(value: Any) -> str:
    """Compact JSON in ASCII; NaN and infinity are a ValueError."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def read_json(text: str, what: str) -> Any:
    """Read JSON strictly.

    Parameters
    ----------
    text : str
        The text.
    what : str
        What it is, for the error message.

    Returns
    -------
    object
        Its content.

    Raises
    ------
    BadContentError
        It is no JSON; a key comes twice in an object; it has NaN, infinity or numbers that are too
        large; it is nested too deep, or has too many values.
    """
    if sum(text.count(mark) for mark in ",[{") > MOST_VALUES:
        raise BadContentError(f"{what} has more than {MOST_VALUES:,} values")
    try:
        return json.loads(
            text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
        )
    except BadContentError as error:
        raise BadContentError(f"{what} {error}") from None
    except RecursionError:
        raise BadContentError(f"{what} is nested too deep") from None
    except ValueError as error:
        raise BadContentError(f"{what} is no JSON ({plain(error, 200)})") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise BadContentError(f"has the key {plain(twice, 60)!r} twice")
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise BadContentError(f"has {name}, which is no number of JSON")
