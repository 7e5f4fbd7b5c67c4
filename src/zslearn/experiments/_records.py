"""Records of runs, read from their files."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn.experiments._names import is_fraction
from zslearn.utils import InputWarning

#: Version of the record files.
RECORD_SCHEMA = 1

REQUIRED = ("dataset", "split", "split_version", "features", "method", "setting")
OPTIONAL = ("subset", "semantic", "variant")
_COLUMNS = (*REQUIRED, *OPTIONAL, "seed", "metric", "value", "file")


def read_records(folder: Path | str) -> pd.DataFrame:
    """Read the records of runs, one JSON file a run.

    A record is an object with

    - ``"schema"``: 1;
    - ``"dataset"``, ``"split"``, ``"split_version"``, ``"features"``, ``"method"``,
      ``"setting"`` (``"zsl"`` or ``"gzsl"``: what the hyper-parameters were tuned for): text;
    - optionally ``"subset"`` (part of the unseen classes), ``"semantic"`` (kind of signatures),
      ``"variant"`` (``name=value`` joined by ``;``): text;
    - ``"seed"``: whole number or null;
    - ``"metrics"``: name → number. All numbers are fractions between 0 and 1. Names are those of
      the published numbers: ``per_class_accuracy``, ``per_sample_accuracy``, ``ausuc``,
      ``unseen``, ``seen``, ``harmonic`` (without calibration), ``calibrated_unseen``,
      ``calibrated_seen``, ``calibrated_harmonic`` (at the factor from the training data),
      ``flat_hit_at_5``, ``hierarchical_precision_at_5``; others may be there. null and NaN mean
      not measured;
    - whatever else the run wants to keep: ``"hyper_parameters"``, ``"times"``, … Tables do not
      look at it.

    Class splits are records with the splits ``"ss-1"``, ``"ss-2"``, …; tables show their mean.

    Files and folders whose name begins with a dot are passed over, so a record that is just being
    written is not seen. A file that is no record is skipped with a warning that names it.

    Parameters
    ----------
    folder : path
        Where the records are; folders inside it are searched too.

    Returns
    -------
    DataFrame
        One row a number, with the columns `dataset`, `split`, `split_version`, `features`,
        `method`, `setting`, `subset`, `semantic`, `variant`, `seed`, `metric`, `value`, `file`.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to read records from.")
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.rglob("*.json")):
        inside = path.relative_to(folder)
        if any(part.startswith(".") for part in inside.parts) or not path.is_file():
            continue
        try:
            rows += _record_rows(json.loads(path.read_bytes()), str(inside))
        except (ValueError, OSError, OverflowError, RecursionError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            warnings.warn(f"Skipped {path}: {reason}", InputWarning, stacklevel=2)
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _record_rows(record: Any, file: str) -> list[dict[str, Any]]:
    """Rows of one record; ValueError when it is none."""
    if not isinstance(record, dict) or "schema" not in record:
        raise ValueError("not a record of a run")
    schema = record["schema"]
    if isinstance(schema, bool) or schema != RECORD_SCHEMA:
        raise ValueError(f"a record of schema {schema!r}; this version reads {RECORD_SCHEMA}")
    keys: dict[str, Any] = {}
    for name in (*REQUIRED, *OPTIONAL):
        text = record.get(name, "" if name in OPTIONAL else None)
        # Unprintable text could drive the terminal it is shown on.
        if not isinstance(text, str) or not text.isprintable():
            raise ValueError(f"damaged record: {name!r} is {text!r}")
        if name in ("dataset", "method", "setting") and not text.strip():
            raise ValueError(f"damaged record: {name!r} is empty")
        keys[name] = text
    seed = record.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise ValueError(f"damaged record: 'seed' is {seed!r}")
    metrics = record.get("metrics")
    if not isinstance(metrics, dict):
        raise ValueError("damaged record: 'metrics' is not an object of numbers")
    rows = []
    for metric, value in metrics.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"damaged record: metric {metric!r} is not a number")
        if is_fraction(metric) and not (math.isnan(value) or 0 <= value <= 1):
            raise ValueError(f"damaged record: metric {metric!r} is {value!r}, not a fraction")
        if not metric.isprintable() or math.isinf(value):
            raise ValueError(f"damaged record: metric {metric!r} is {value!r}")
        if not math.isnan(value):
            rows.append(
                {**keys, "seed": seed, "metric": metric, "value": float(value), "file": file}
            )
    return rows
