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


def _is_text(value: Any) -> bool:
    # Unprintable text could drive the terminal it is shown on.
    return isinstance(value, str) and value.isprintable()


def _is_number(value: Any) -> bool:
    """Whether a value is a number that a float can hold, NaN and infinite ones aside."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


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
        _require(_is_text(text), f"{name!r} is {text!r:.60}")
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
    metrics: Any = record.get("metrics")
    _require(isinstance(metrics, dict), "'metrics' is not an object of numbers")
    found: dict[str, float] = {}
    for metric, value in metrics.items():
        if value is None or value != value:
            continue
        named = f"metric {metric!r:.60}"
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        _require(is_number, f"{named} is not a number")
        is_fit = is_share(value) or not is_fraction(metric)
        _require(is_fit, f"{named} is {value!r:.60}, not a fraction")
        _require(metric.isprintable() and _is_number(value), f"{named} is {value!r:.60}")
        found[metric] = float(value)
    return found


def checked_failure(record: Mapping[str, Any]) -> dict[str, str] | None:
    """What a failed record says of the error; None where the run did not fail."""
    if "failed" not in record:
        return None
    failed: Any = record["failed"]
    _require(isinstance(failed, dict), "'failed' is not an object")
    for name in FAILURE:
        # Only a traceback has lines.
        is_text = isinstance(failed.get(name), str) and name == "traceback"
        _require(
            is_text or _is_text(failed.get(name)),
            f"{name!r} of 'failed' is {failed.get(name)!r:.60}",
        )
    return {name: failed[name] for name in FAILURE}


def checked_edges(record: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """Hyper-parameters at the edge of a grid: the chosen value and which edge."""
    edges, chosen = record.get("edges", {}), record.get("hyper_parameters", {})
    are_objects = isinstance(edges, dict) and isinstance(chosen, dict)
    _require(are_objects, "'edges' or 'hyper_parameters' is not an object")
    for name, edge in edges.items():
        is_edge = edge in ("smallest", "largest") and name.isprintable()
        _require(is_edge, f"the edge of {name!r:.60} is {edge!r:.60}")
        value = chosen.get(name)
        is_shown = not isinstance(value, str) or value.isprintable()
        _require(is_shown, f"hyper-parameter {name!r:.60} is {value!r:.60}")
    return {name: (chosen.get(name), edge) for name, edge in edges.items()}


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

    def is_list(values: Any, is_one: Callable[[Any], bool]) -> bool:
        return isinstance(values, list) and all(map(is_one, values))

    def is_name(value: Any) -> bool:
        return isinstance(value, str)

    def has(name: str, is_one: Callable[[Any], bool], what: str) -> None:
        """Whether a field is an object whose values are all right."""
        found = record.get(name, {})
        _require(isinstance(found, dict) and all(map(is_one, found.values())), f"{name!r} {what}")

    has("per_class", is_share, "is not an object of fractions")
    has("groups", lambda names: is_list(names, is_name), "is not lists of classes")
    _require(is_list(record.get("unseen_classes", []), is_name), "'unseen_classes' is no list")
    _require(is_list(record.get("overlaps", []), is_share), "'overlaps' is not a list of fractions")

    def are_pairs(pairs: Any) -> bool:
        return isinstance(pairs, list) and all(
            isinstance(p, list) and len(p) == 2 and is_name(p[0]) and is_share(p[1]) for p in pairs
        )

    has("confused_with", are_pairs, "is not lists of classes and shares")
    _require(_is_text(record.get("command", "")), f"'command' is {record.get('command')!r:.60}")
    curve = record.get("curve", {"acc_unseen": [], "acc_seen": []})
    curve = curve if isinstance(curve, dict) else {}
    sides: list[Any] = [curve.get(name) for name in ("acc_unseen", "acc_seen")]
    is_curve = all(is_list(side, is_share) for side in sides) and len(sides[0]) == len(sides[1])
    _require(is_curve, "'curve' is not two lists of fractions of one length")
    # None stands for −∞, the first factor.
    factors = curve.get("bias") or [None] * len(sides[0])
    is_long = is_list(factors, lambda factor: factor is None or _is_number(factor))
    is_long = is_long and len(factors) == len(sides[0])
    _require(is_long, "'bias' of 'curve' is not one number for each accuracy")
    table = record.get("cross_validation", {})
    _require(isinstance(table, dict), "'cross_validation' is not an object")
    sizes = {len(column) if isinstance(column, list) else -1 for column in table.values()}
    _require(len(sizes) < 2 and -1 not in sizes, "'cross_validation' is not lists of one length")


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
    - ``"metrics"``: name → number, accuracies as fractions. Names are those of the published
      numbers: ``per_class_accuracy``, ``per_sample_accuracy``, ``ausuc``, ``unseen``, ``seen``,
      ``harmonic`` (at factor 0), ``calibrated_unseen``, ``calibrated_seen``,
      ``calibrated_harmonic``, ``flat_hit_at_5``, ``hierarchical_precision_at_5``; others may be
      there. null and NaN mean not measured;
    - only where the run failed, ``"failed"``: the ``"type"`` of the error, its ``"reason"`` in one
      line and its ``"traceback"``. Such a record has no rows here;
    - ``"checksum"``: SHA-256 of the rest as JSON with sorted keys and without spaces.
      :func:`write_record` computes it;
    - optionally ``"per_class"``: class → accuracy, in the setting ``"gzsl"`` with calibration;
      ``"unseen_classes"`` then lists the unseen ones. Whether two methods differ is judged by
      these; ``"groups"``: name → classes (ImageNet's by hops);
    - optionally, for the report: ``"confused_with"``: class → pairs of another class and the share
      of images that were taken for it; ``"curve"``: lists ``"acc_unseen"``, ``"acc_seen"`` and
      ``"bias"``; ``"calibration_factor"``; ``"hyper_parameters"``, ``"edges"`` and
      ``"cross_validation"`` of the search; ``"times"`` in seconds; ``"versions"``, ``"machine"``,
      ``"command"``;
    - ``"key"``: a digest of all that the results depend on, the source of zslearn included; a run
      with another key is computed again; and further fields.

    Class splits are records with the splits ``"ss-1"``, ``"ss-2"``, …; tables show their mean.
    Files and folders whose name begins with a dot are passed over. A file that is no record, that
    was changed after it was written, or that has no checksum is skipped with a warning;
    :func:`run_benchmark` computes such a record again.

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
    write_record : Writes a record of your own.
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
    plain = {name: value for name, value in record.items() if name != "checksum"}
    check_record(plain)
    write_checked_json(Path(path), plain, indent=1)


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
