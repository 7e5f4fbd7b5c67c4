"""Records of runs, read from their files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn.experiments._names import is_fraction, metric_label
from zslearn.utils import warn_user

#: Version of the record files.
RECORD_SCHEMA = 1

REQUIRED = ("dataset", "split", "split_version", "features", "method", "setting")
OPTIONAL = ("subset", "semantic", "variant")
_COLUMNS = (*REQUIRED, *OPTIONAL, "seed", "metric", "value", "file")

#: The metrics of a summary, in its order.
SUMMARY = (
    "per_class_accuracy",
    "harmonic",
    "calibrated_seen",
    "calibrated_unseen",
    "calibrated_harmonic",
    "ausuc",
)

_FAILURE = ("type", "reason", "traceback")
_FAILED_COLUMNS = ("dataset", "split", "features", "method", "setting", "seed", *_FAILURE, "file")

Rows = list[dict[str, Any]]


def read_records(folder: Path | str | Iterable[Path | str]) -> pd.DataFrame:
    """Read the records of runs, one JSON file per run.

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
    - only where the run failed, ``"failed"``: an object with the ``"type"`` of the error, its
      ``"reason"`` in one line and its ``"traceback"``. Such a record has no rows here;
      :func:`failed_runs` lists it;
    - whatever else the run wants to keep: ``"hyper_parameters"``, ``"times"``, … Tables do not
      look at it.

    Class splits are records with the splits ``"ss-1"``, ``"ss-2"``, …; tables show their mean.

    Files and folders whose name begins with a dot are passed over, so a record that is just being
    written is not seen. A file that is no record is skipped with a warning that names it.

    Parameters
    ----------
    folder : path or iterable of paths
        Where the records are; folders inside it are searched too. Or the files of records, as
        :func:`run_benchmark` returns them.

    Returns
    -------
    DataFrame
        One row per number, with the columns `dataset`, `split`, `split_version`, `features`,
        `method`, `setting`, `subset`, `semantic`, `variant`, `seed`, `metric`, `value`, `file`.

    See Also
    --------
    run_benchmark : Writes records.
    failed_runs : What failed.
    """
    return pd.DataFrame(_read(_files(folder), _metric_rows), columns=list(_COLUMNS))


def summarize_runs(records: pd.DataFrame) -> pd.DataFrame:
    """Put the main numbers of records into one table: a row per method, a column per metric.

    Parameters
    ----------
    records : DataFrame
        As :func:`read_records` gives it. Several data sets, splits or seeds are not mixed: each
        is a row of its own.

    Returns
    -------
    DataFrame
        Fractions, NaN where there is none. "accuracy" is that of the conventional setting, per
        class; "H" the harmonic mean without calibration, of a method tuned for the conventional
        setting where there is one; "S cal.", "U cal." and "H cal." the accuracies on images of
        seen and unseen classes and their harmonic mean, with calibration; and "AUSUC".

    See Also
    --------
    build_table : Records in the layout of the paper's tables.
    """
    origin = ["dataset", "split", "features", "method", "seed"]
    # The first of two that give the same number: conventional before generalized.
    ordered = records.sort_values("setting", ascending=False, kind="stable")
    several = [name for name in origin if name == "method" or records[name].nunique() > 1]
    wide = ordered.drop_duplicates([*origin, "metric"]).pivot(
        index=several, columns="metric", values="value"
    )
    order = list(dict.fromkeys(records[several].itertuples(index=False, name=None)))
    rows = [key if len(several) > 1 else key[0] for key in order]
    wide = wide.loc[rows]
    shown = [name for name in SUMMARY if name in wide.columns]
    return wide[shown].rename(columns=metric_label).rename_axis(columns=None)


def failed_runs(records: Path | str | Iterable[Path | str]) -> pd.DataFrame:
    """List the runs that failed, from their records.

    Running :func:`run_benchmark` again with `resume` tries them again; a record of success takes
    the place of the failed one.

    Parameters
    ----------
    records : path or iterable of paths
        A folder, which is searched as by :func:`read_records`; or the files of records, as
        :func:`run_benchmark` returns them. A file that is no record is skipped with a warning.

    Returns
    -------
    DataFrame
        One row per failed run, with the columns `dataset`, `split`, `features`, `method`,
        `setting`, `seed`, `type` (of the error), `reason` (one line), `traceback`, `file`.

    See Also
    --------
    read_records : The numbers of the runs that did not fail.
    """
    return pd.DataFrame(_read(_files(records), _failed_rows), columns=list(_FAILED_COLUMNS))


def _files(records: Path | str | Iterable[Path | str]) -> list[tuple[Path, str]]:
    """Files that may be records, those of a folder with their names inside it."""
    if not isinstance(records, (str, Path)):
        return [(Path(path), str(path)) for path in records]
    folder = Path(records)
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to read records from.")
    inside = [(path, path.relative_to(folder)) for path in sorted(folder.rglob("*.json"))]
    return [
        (path, str(name))
        for path, name in inside
        if not any(part.startswith(".") for part in name.parts) and path.is_file()
    ]


def _read(files: list[tuple[Path, str]], rows_of: Callable[[Any, str], Rows]) -> Rows:
    """Rows of all records; a file that is none is skipped with a warning."""
    rows: Rows = []
    for path, name in files:
        try:
            rows += rows_of(json.loads(path.read_bytes()), name)
        except (ValueError, OSError, OverflowError, RecursionError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            warn_user(f"Skipped {path}: {reason}")
    return rows


def _metric_rows(record: Any, file: str) -> Rows:
    """One row per number of a record; none where the run failed."""
    origin = _checked_origin(record)
    metrics = record.get("metrics")
    if not isinstance(metrics, dict):
        raise ValueError("damaged record: 'metrics' is not an object of numbers")
    if _failure(record) is not None:
        return []
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
            rows.append({**origin, "metric": metric, "value": float(value), "file": file})
    return rows


def _failed_rows(record: Any, file: str) -> Rows:
    """One row where the run failed, else none."""
    origin = _checked_origin(record)
    failure = _failure(record)
    return [] if failure is None else [{**origin, **failure, "file": file}]


def _checked_origin(record: Any) -> dict[str, Any]:
    """Which run a record is of; ValueError when it is no record."""
    if not isinstance(record, dict) or "schema" not in record:
        raise ValueError("not a record of a run")
    schema = record["schema"]
    if isinstance(schema, bool) or schema != RECORD_SCHEMA:
        raise ValueError(f"a record of schema {schema!r}; this version reads {RECORD_SCHEMA}")
    origin: dict[str, Any] = {}
    for name in (*REQUIRED, *OPTIONAL):
        text = record.get(name, "" if name in OPTIONAL else None)
        # Unprintable text could drive the terminal it is shown on.
        if not isinstance(text, str) or not text.isprintable():
            raise ValueError(f"damaged record: {name!r} is {text!r}")
        if name in ("dataset", "method", "setting") and not text.strip():
            raise ValueError(f"damaged record: {name!r} is empty")
        origin[name] = text
    seed = record.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise ValueError(f"damaged record: 'seed' is {seed!r}")
    return {**origin, "seed": seed}


def _failure(record: dict[str, Any]) -> dict[str, str] | None:
    """What a failed record says of the error; None where the run did not fail."""
    if "failed" not in record:
        return None
    failed = record["failed"]
    if not isinstance(failed, dict):
        raise ValueError("damaged record: 'failed' is not an object")
    failure: dict[str, str] = {}
    for name in _FAILURE:
        text = failed.get(name)
        # Only a traceback has lines.
        if not isinstance(text, str) or not (name == "traceback" or text.isprintable()):
            raise ValueError(f"damaged record: {name!r} of 'failed' is {text!r}")
        failure[name] = text
    return failure
