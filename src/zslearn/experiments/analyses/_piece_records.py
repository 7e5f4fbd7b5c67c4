"""Settings of pieces as records name them, and the numbers of records as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn.experiments._records import read_record


def write_value(value: Any) -> str:
    """A value of a setting as text; numbers as short as they can be."""
    is_float = isinstance(value, float)
    return f"{value:.6g}" if is_float else str(value)


def write_variant(variant: Mapping[str, Any]) -> str:
    """A setting as records name it: ``name=value`` joined by ``;``."""
    return ";".join(f"{name}={write_value(value)}" for name, value in variant.items())


def read_variant(text: str) -> dict[str, Any]:
    """The setting that a record names; numbers as numbers, "None" as None."""
    pairs = [part.partition("=") for part in text.split(";") if part]
    return {name: _read_value(value) for name, _, value in pairs}


def _read_value(text: str) -> Any:
    if text == "None":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def pieces_frame(paths: Iterable[Path | str]) -> pd.DataFrame:
    """Numbers of the records of an analysis.

    Parameters
    ----------
    paths : iterable of path
        The records; those of failed pieces have no row.

    Returns
    -------
    DataFrame
        One row per number: `dataset`, `split`, `semantic`, `method`, a column for each name in the
        settings, `seed`, `metric`, `value`.
    """
    rows = []
    for path in paths:
        record = read_record(Path(path))
        if "failed" in record:
            continue
        origin = {name: record.get(name, "") for name in ("dataset", "split", "semantic", "method")}
        setting = read_variant(record.get("variant", ""))
        rows += [
            {**origin, **setting, "seed": record["seed"], "metric": metric, "value": value}
            for metric, value in record["metrics"].items()
            if value is not None
        ]
    return pd.DataFrame(rows)
