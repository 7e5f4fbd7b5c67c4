"""Where a report comes from: versions, machines, and the command that makes it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from zslearn.datasets import XLSA17
from zslearn.experiments._names import is_drawn
from zslearn.experiments._report._values import text

Record = Mapping[str, Any]
#: Data sets whose files and splits are fixed.
_FIXED = ("glyphs", "emoji")
#: Data sets that the command line knows, by their names in records.
_NAMED = {name.casefold(): name for name in (*_FIXED, *XLSA17)}
_DEFAULT_FEATURES = "res101"


def versions_of(records: Sequence[Record]) -> list[list[str]]:
    """Packages and machines of all records, with every version that occurs."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for part in ("versions", "machine"):
            values = record.get(part, {})
            for name, value in values.items() if isinstance(values, dict) else ():
                found.setdefault(text(name), {}).setdefault(text(value))
    return [[name, ", ".join(versions)] for name, versions in found.items()]


def commands_of(records: Sequence[Record]) -> list[str]:
    """The commands that make the records again.

    Parameters
    ----------
    records : sequence of mappings
        Checked. One that does not keep its command gets one that follows from what it says.

    Returns
    -------
    list of str
        Each once.
    """
    kept = dict.fromkeys(record["command"] for record in records if record.get("command"))
    others: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        if not record.get("command"):
            names = ("dataset", "features", "protocol", "grid", "split_version")
            key = tuple(str(record.get(name) or "") for name in names[:4])
            # The class splits of one data set are one command.
            drawn = "random" if is_drawn(str(record["split_version"])) else ""
            others.setdefault((*key, drawn), []).append(record)
    return [*kept, *(_command(key, group) for key, group in others.items())]


def _command(key: tuple[str, ...], records: Sequence[Record]) -> str:
    dataset, features, protocol, grid, drawn = key

    def several(name: str) -> list[str]:
        return [str(v) for v in dict.fromkeys(r[name] for r in records if r.get(name) is not None)]

    methods, settings, splits, seeds = map(several, ("method", "setting", "split", "seed"))
    name = None if "own" in splits else _NAMED.get(dataset.casefold())
    if name is None:
        options = [f"{methods!r}", '"runs"', f"settings={settings!r}"]
        options += [f"splits={splits!r}"] if splits else []
        options += [f"seeds=[{', '.join(seeds)}]"] if seeds else []
        options += [f"protocol={protocol!r}"] if protocol not in ("", "default") else []
        options += [f"grid={grid!r}"] if grid else []
        return _printable(f"run_benchmark(data, {', '.join(options)})")
    words = ["zslearn", "bench", name, "--methods", *methods, "--setting", *settings]
    words += ["--split", *splits] if splits else []
    words += ["--seeds", *seeds] if seeds else []
    if name not in _FIXED and features not in ("", _DEFAULT_FEATURES):
        words += ["--features", f"{features}.mat"]
    words += ["--class-splits", "random"] if drawn else []
    words += ["--protocol", protocol] if protocol not in ("", "default") else []
    words += ["--grid", grid] if grid else []
    return _printable(shlex.join(words))


def _printable(line: str) -> str:
    """A command on one line that is safe to show."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)
