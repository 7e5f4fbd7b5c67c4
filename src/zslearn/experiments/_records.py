"""Records of runs: one JSON file per run with its checksum, written whole and checked when read.

A checksum tells whether a file is as it was written; the checks of fields tell whether what was
written can be a record. What fails either is never trusted: tables skip it, runs compute it again.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn._utils._files import DamagedFileError, read_checked_json, write_checked_json
from zslearn._utils._fit_cache import fingerprint, source_digest
from zslearn._utils._messages import plain, warn_user
from zslearn._utils._validation import is_share
from zslearn._version import __version__
from zslearn.experiments._names import is_fraction

#: Version of the record files.
RECORD_SCHEMA = 1

REQUIRED = ("dataset", "split", "split_version", "features", "method", "setting")
OPTIONAL = ("subset", "semantic", "variant", "protocol", "grid")
FAILURE = ("type", "reason", "traceback")
#: The protocol of a record that names none.
DEFAULT_PROTOCOL = "default"

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas")
_ORIGIN = (*REQUIRED, *OPTIONAL, "seed")
_COLUMNS = (*_ORIGIN, "metric", "value", "by_class", "file")
_RUN = ("dataset", "split", "features", "method", "setting", "protocol", "seed")
_FAILED_COLUMNS = (*_RUN, *FAILURE, "file")

Rows = list[dict[str, Any]]


def check_record(record: Any) -> None:
    """Refuse what is no record, whole and in range."""
    checked_origin(record)
    checked_metrics(record)
    checked_failure(record)
    checked_edges(record)
    _check_details(record)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"damaged record: {what}")


def checked_origin(record: Any) -> dict[str, Any]:
    """Which run a record is of; ValueError when it is no record."""
    if not isinstance(record, dict) or "schema" not in record:
        raise ValueError("not a record of a run")
    schema = record["schema"]
    if isinstance(schema, bool) or schema != RECORD_SCHEMA:
        raise ValueError(f"a record of schema {schema!r:.60}; this version reads {RECORD_SCHEMA}")
    origin: dict[str, Any] = {}
    for name in (*REQUIRED, *OPTIONAL):
        text: Any = record.get(name, "" if name in OPTIONAL else None)
        # Unprintable text could drive the terminal it is shown on.
        _require(isinstance(text, str) and text.isprintable(), f"{name!r} is {text!r:.60}")
        is_empty = name in ("dataset", "method", "setting") and not text.strip()
        _require(not is_empty, f"{name!r} is empty")
        origin[name] = text
    origin["protocol"] = origin["protocol"] or DEFAULT_PROTOCOL
    seed = record.get("seed")
    is_seed = seed is None or (isinstance(seed, int) and not isinstance(seed, bool))
    _require(is_seed, f"'seed' is {seed!r:.60}")
    return {**origin, "seed": seed}


def checked_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a record, without those that are not measured."""
    metrics = record.get("metrics")
    if not isinstance(metrics, dict):
        raise ValueError("damaged record: 'metrics' is not an object of numbers")
    found: dict[str, float] = {}
    for metric, value in metrics.items():
        if value is None or value != value:
            continue
        named = f"metric {metric!r:.60}"
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        _require(is_number, f"{named} is not a number")
        is_fit = is_share(value) or not is_fraction(metric)
        _require(is_fit, f"{named} is {value!r:.60}, not a fraction")
        _require(metric.isprintable() and _is_finite(value), f"{named} is {value!r:.60}")
        found[metric] = float(value)
    return found


def checked_failure(record: Mapping[str, Any]) -> dict[str, str] | None:
    """What a failed record says of the error; None where the run did not fail."""
    if "failed" not in record:
        return None
    failed = record["failed"]
    if not isinstance(failed, dict):
        raise ValueError("damaged record: 'failed' is not an object")
    failure: dict[str, str] = {}
    for name in FAILURE:
        text: Any = failed.get(name)
        # Only a traceback has lines.
        is_text = isinstance(text, str) and (name == "traceback" or text.isprintable())
        _require(is_text, f"{name!r} of 'failed' is {text!r:.60}")
        failure[name] = text
    return failure


def checked_edges(record: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """Hyper-parameters at the edge of a grid: the chosen value and which edge."""
    edges, chosen = record.get("edges", {}), record.get("hyper_parameters", {})
    if not isinstance(edges, dict) or not isinstance(chosen, dict):
        raise ValueError("damaged record: 'edges' or 'hyper_parameters' is not an object")
    found: dict[str, tuple[Any, str]] = {}
    for name, edge in edges.items():
        is_edge = edge in ("smallest", "largest") and name.isprintable()
        _require(is_edge, f"the edge of {name!r:.60} is {edge!r:.60}")
        value = chosen.get(name)
        is_shown = not isinstance(value, str) or value.isprintable()
        _require(is_shown, f"hyper-parameter {name!r:.60} is {value!r:.60}")
        found[name] = (value, edge)
    return found


def by_class_of(
    record: Mapping[str, Any], metrics: Mapping[str, float]
) -> dict[str, tuple[tuple[str, float], ...]]:
    """Accuracies of single classes, by the metric that is their mean."""
    per_class, unseen = record.get("per_class", {}), set(record.get("unseen_classes", ()))
    found = {
        "per_class_accuracy": tuple(per_class.items()),
        "calibrated_unseen": tuple(pair for pair in per_class.items() if pair[0] in unseen),
        "calibrated_seen": tuple(pair for pair in per_class.items() if pair[0] not in unseen),
    }

    def mean(pairs: tuple[tuple[str, float], ...]) -> float:
        return math.fsum(value for _, value in pairs) / len(pairs)

    # Of another metric of that name, or of other classes, they would not be the parts.
    return {
        metric: pairs
        for metric, pairs in found.items()
        if pairs and metric in metrics and abs(mean(pairs) - metrics[metric]) < 1e-9
    }


def _check_details(record: Mapping[str, Any]) -> None:
    """Accuracies by class, the curve and the whole grid, where a record has them."""
    per_class = record.get("per_class", {})
    is_shares = isinstance(per_class, dict) and all(map(is_share, per_class.values()))
    _require(is_shares, "'per_class' is not an object of fractions")
    _require(_are_names(record.get("unseen_classes", [])), "'unseen_classes' is not a list of text")
    groups = record.get("groups", {})
    is_groups = isinstance(groups, dict) and all(map(_are_names, groups.values()))
    _require(is_groups, "'groups' is not lists of classes")
    overlaps = record.get("overlaps", [])
    is_overlaps = isinstance(overlaps, list) and all(map(is_share, overlaps))
    _require(is_overlaps, "'overlaps' is not a list of fractions")
    curve = record.get("curve", {"acc_unseen": [], "acc_seen": []})
    sides = [curve.get(n) for n in ("acc_unseen", "acc_seen")] if isinstance(curve, dict) else []
    lists = [side for side in sides if isinstance(side, list) and all(map(is_share, side))]
    is_curve = len(lists) == 2 and len(lists[0]) == len(lists[1])
    _require(is_curve, "'curve' is not two lists of fractions of one length")
    # None stands for −∞, the first factor.
    factors = [None] * len(lists[0]) if curve.get("bias") is None else curve["bias"]
    is_long = isinstance(factors, list) and len(factors) == len(lists[0])
    _require(is_long, "'bias' of 'curve' has not the length of the accuracies")
    are_numbers = all(factor is None or _is_finite(factor) for factor in factors)
    _require(are_numbers, "'bias' of 'curve' holds what is no number")
    confused = record.get("confused_with", {})
    rows: Any = confused.values() if isinstance(confused, dict) else [None]
    pairs: list[Any] = [p for row in rows for p in (row if isinstance(row, list) else [None])]
    for pair in pairs:
        is_pair = isinstance(pair, list) and len(pair) == 2
        _require(is_pair, "'confused_with' is not lists of classes and shares")
        is_named = isinstance(pair[0], str) and is_share(pair[1])
        _require(is_named, f"'confused_with' holds {pair!r:.60}")
    command = record.get("command", "")
    is_line = isinstance(command, str) and command.isprintable()
    _require(is_line, f"'command' is {command!r:.60}")
    table = record.get("cross_validation", {})
    _require(isinstance(table, dict), "'cross_validation' is not an object")
    sizes = {len(column) if isinstance(column, list) else -1 for column in table.values()}
    _require(len(sizes) < 2 and -1 not in sizes, "'cross_validation' is not lists of one length")


def _are_names(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _is_finite(number: Any) -> bool:
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        return False
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def read_records(folder: Path | str | Iterable[Path | str]) -> pd.DataFrame:
    """Read the records of runs, one JSON file per run.

    A record is an object with

    - ``"schema"``: 1;
    - ``"dataset"``, ``"split"``, ``"split_version"``, ``"features"``, ``"method"``,
      ``"setting"`` (``"zsl"`` or ``"gzsl"``: what the hyper-parameters were tuned for): text;
    - optionally ``"subset"`` (part of the unseen classes), ``"semantic"`` (kind of signatures),
      ``"variant"`` (``name=value`` joined by ``;``), ``"protocol"`` (how it was tuned; without it
      ``"default"``) and ``"grid"`` (which of the method's grids): text;
    - ``"seed"``: whole number or null;
    - ``"metrics"``: name → number. All numbers are fractions between 0 and 1. Names are those of
      the published numbers: ``per_class_accuracy``, ``per_sample_accuracy``, ``ausuc``,
      ``unseen``, ``seen``, ``harmonic`` (at factor 0), ``calibrated_unseen``,
      ``calibrated_seen``, ``calibrated_harmonic`` (at the factor from the training data),
      ``flat_hit_at_5``, ``hierarchical_precision_at_5``; others may be there. null and NaN mean
      not measured;
    - only where the run failed, ``"failed"``: an object with the ``"type"`` of the error, its
      ``"reason"`` in one line and its ``"traceback"``. Such a record has no rows here;
    - ``"checksum"``: SHA-256 of the rest as JSON with sorted keys and without spaces.
      :func:`write_record` computes it;
    - optionally ``"per_class"``: class → accuracy. In the setting ``"zsl"`` these are the
      accuracies behind ``per_class_accuracy``, in ``"gzsl"`` those behind ``calibrated_seen`` and
      ``calibrated_unseen``; ``"unseen_classes"`` then lists the unseen ones. Whether two methods
      differ is judged by these;
    - optionally ``"groups"``: name of a group of classes → its classes (ImageNet's by hops);
    - optionally, for the report: ``"confused_with"``: class → pairs of another class and the share
      of images that were taken for it; ``"curve"``: lists ``"acc_unseen"``, ``"acc_seen"`` and
      ``"bias"`` of one length; ``"calibration_factor"``; ``"hyper_parameters"``, ``"edges"`` and
      ``"cross_validation"`` of the search; ``"times"`` in seconds, of which ``"reused"`` are those
      of training that another method's search had done; ``"versions"``, ``"machine"``,
      ``"command"``;
    - ``"key"``: a digest of all that the results depend on, the source of zslearn included; a run
      with another key is computed again;
    - whatever else the run wants to keep.

    Class splits are records with the splits ``"ss-1"``, ``"ss-2"``, …; tables show their mean.

    Files and folders whose name begins with a dot are passed over, so a record that is just being
    written is not seen. A file that is no record, that was changed after it was written, or that
    has no checksum is skipped with a warning that names it; :func:`run_benchmark` computes such a
    record again.

    Parameters
    ----------
    folder : path or iterable of paths
        Where the records are; folders inside it are searched too. Or the files of records, as
        :func:`run_benchmark` returns them.

    Returns
    -------
    DataFrame
        One row per number, with the columns `dataset`, `split`, `split_version`, `features`,
        `method`, `setting`, `subset`, `semantic`, `variant`, `protocol`, `grid`, `seed`, `metric`,
        `value`, `by_class`, `file`. `by_class` is a tuple of pairs, class and accuracy, where the
        number is their mean and the record has them; else None.

    See Also
    --------
    run_benchmark : Writes records.
    write_record : Writes a record of one's own.
    """
    return numbers_of(whole_records(folder))


def whole_records(records: Path | str | Iterable[Path | str]) -> Rows:
    """Read records with all that they hold, those of failed runs too; see :func:`read_records`."""
    found: Rows = []
    for path, name in _files(records):
        try:
            found.append({**read_record(path), "file": name})
        except (ValueError, OSError) as error:
            # Whatever it is, no table shows a number that nothing vouches for.
            reason = one_line(error)
            warn_user(
                f"Skipped {plain(path)}: {reason}. If it is a record, run it again (zslearn bench)."
            )
    return found


def numbers_of(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """What :func:`read_records` gives, from records that are read already."""
    rows: Rows = []
    for record in records:
        if "failed" in record:
            continue
        metrics = checked_metrics(record)
        origin, by_class = checked_origin(record), by_class_of(record, metrics)
        rows += [
            {
                **origin,
                "metric": metric,
                "value": value,
                "by_class": by_class.get(metric),
                "file": record["file"],
            }
            for metric, value in metrics.items()
        ]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def write_record(record: Mapping[str, Any], path: Path | str) -> None:
    """Write a record of a run of one's own, with its checksum.

    Parameters
    ----------
    record : mapping
        As :func:`read_records` describes it. A checksum that it has is replaced.
    path : Path or str
        The file; it is written whole or not at all. Its folder is made.

    Raises
    ------
    ValueError
        It is no record; the message says why.
    """
    check_record(dict(record))
    write_checked_json(Path(path), record, indent=1)


def read_record(path: Path) -> dict[str, Any]:
    """Read one record, whole and checked."""
    try:
        record = read_checked_json(path)
        check_record(record)
    except OverflowError as error:
        raise DamagedFileError(f"damaged record: a number is too large ({error})") from None
    return record


def slug(*parts: Any) -> str:
    """A file name that tells the parts and differs when they do."""
    safe = [re.sub(r"[^A-Za-z0-9.-]+", "-", str(part)).strip("-.") for part in parts]
    name = "_".join(safe)
    return name if name == "_".join(map(str, parts)) else f"{name}_{fingerprint(*parts)[:6]}"


def is_finished(path: Path, key: Callable[[], str]) -> bool:
    """Whether there is a record of the run with this key; a damaged one is named."""
    if not path.exists():
        return False
    try:
        record = read_record(path)
    except (ValueError, OSError) as error:
        warn_user(f"The record {path} is computed again: {one_line(error)}.")
        return False
    return "failed" not in record and record.get("key") == key()


def is_record(path: Path) -> bool:
    """Whether a file is a record."""
    try:
        read_record(path)
    except (OSError, ValueError):
        return False
    return True


def write_computed(
    path: Path, origin: Mapping[str, Any], compute: Callable[[], Mapping[str, Any]]
) -> str | None:
    """Compute a run and write its record; the reason where it failed.

    A record of a failure has no key: no run can take it for a finished one.
    """
    try:
        record = json.loads(json.dumps({**origin, **compute(), **circumstances()}))
        check_record(record)
    except Exception as error:
        return write_failure(path, origin, error)
    write_checked_json(path, record, indent=1)
    return None


def write_failure(path: Path, origin: Mapping[str, Any], error: Exception) -> str:
    """Write the record of a run that failed; why, in one line."""
    reason = one_line(error)
    failure = {
        "type": type(error).__name__,
        "reason": reason,
        "traceback": "".join(traceback.format_exception(error)),
    }
    write_record({**origin, "metrics": {}, "failed": failure, **circumstances()}, path)
    return reason


def one_line(error: Exception) -> str:
    """What an error says, in one line that is safe to show on a terminal."""
    return plain(" ".join(str(error).split())) or type(error).__name__


def circumstances() -> dict[str, Any]:
    """When, with what and where a record was made."""
    own = {"zslearn": __version__, "zslearn source": source_digest()[:12]}
    return {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {**own, **{name: version(name) for name in _PACKAGES}},
        "machine": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "cores": os.cpu_count(),
        },
    }


def read_failures(folder: Path | str | Iterable[Path | str]) -> pd.DataFrame:
    """Read which runs failed.

    Parameters
    ----------
    folder : path or iterable of paths
        As :func:`read_records` takes it.

    Returns
    -------
    DataFrame
        One row per failed run: its dataset, split, features, method, setting, protocol and seed;
        the type, reason and traceback of the error; and the file.
    """
    rows = [
        {**checked_origin(record), **record["failed"], "file": record["file"]}
        for record in whole_records(folder)
        if "failed" in record
    ]
    return pd.DataFrame(rows, columns=list(_FAILED_COLUMNS))


def _files(records: Path | str | Iterable[Path | str]) -> list[tuple[Path, str]]:
    """Files that may be records, those of a folder with their names inside it."""
    if not isinstance(records, (str, Path)):
        return [(Path(path), str(path)) for path in records]
    folder = Path(records)
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to read records from.")
    found: list[Path] = []
    # A folder that a run removes meanwhile is passed over by os.walk, and not by Path.rglob.
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            Path(place, name)
            for name in names
            if name.endswith(".json") and not name.startswith(".")
        ]
    return [(path, str(path.relative_to(folder))) for path in sorted(found) if path.is_file()]
