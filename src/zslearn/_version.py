"""The version of zslearn."""

import re

__version__ = "1.0.0"


def version_numbers(version: str) -> tuple[int, ...]:
    """The numbers of a release: (1, 2, 0) for "1.2.0.dev3"."""
    found = re.match(r"\d{1,9}(\.\d{1,9}){0,3}", version)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)
