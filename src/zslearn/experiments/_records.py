"""Records of runs: one checksummed JSON file per run, written atomically and validated when read.

The checksum detects a file that was changed; the validation of fields detects a file that was
never a record. Tables skip a record that fails either, and runs recompute it.
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
from zslearn.experiments._names import AT_K, METRIC_LABELS, RANK_ACCURACY

#: Version of the record files.
RECORD_SCHEMA = 1

REQUIRED = ("dataset", "split", "split_version", "features", "method", "setting")
OPTIONAL = ("subset", "semantic", "variant", "protocol", "grid", "analysis")
FAILURE = ("type", "reason", "traceback")
#: Field of a record with numbers chosen on test classes, which marks it: no reader of results
#: accepts it.
TEST_SELECTION = "test_selection"
SELECTION_SUFFIX = ".inflation.json"
#: How hyper-parameters were chosen, from the method's defaults to the best on the test images.
CHOICES = ("default", "held_out", "test")
#: The protocol of a record that names none.
DEFAULT_PROTOCOL = "default"

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas")
_COLUMNS = (*REQUIRED, *OPTIONAL, "seed", "metric", "value", "by_class", "file")
_RUN = ("dataset", "split", "features", "method", "setting", "protocol", "seed")

Rows = list[dict[str, Any]]
Test = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    # Unprintable text could drive the terminal that shows it.
    return isinstance(value, str) and value.isprintable()


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number that fits in a float."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _list_of(is_valid: Test) -> Test:
    return lambda found: isinstance(found, list) and all(map(is_valid, found))


def _object_of(is_valid: Test) -> Test:
    return lambda found: isinstance(found, dict) and all(map(is_valid, found.values()))


def _is_confusion(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and _is_name(pair[0]) and is_share(pair[1])


def _is_failure(failed: Any) -> bool:
    if not isinstance(failed, dict) or not _is_name(failed.get("traceback")):
        return False
    return _is_text(failed.get("type")) and _is_text(failed.get("reason"))


def _is_curve(curve: Any) -> bool:
    if not isinstance(curve, dict):
        return False
    columns: list[Any] = [curve.get("acc_unseen"), curve.get("acc_seen")]
    if not all(map(_list_of(is_share), columns)):
        return False
    # null stands for −∞, the first factor.
    bias = curve.get("bias") or [None] * len(columns[0])
    is_bias = _list_of(lambda factor: factor is None or _is_number(factor))
    return is_bias(bias) and len({len(column) for column in (*columns, bias)}) == 1


def _is_table(table: Any) -> bool:
    return _object_of(_list_of(lambda cell: True))(table) and len(set(map(len, table.values()))) < 2


def _is_selection(found: Any) -> bool:
    is_choice = _object_of(is_share)
    return _object_of(lambda part: is_choice(part) and set(part) == set(CHOICES))(found)


class SelectedOnTestError(ValueError):
    """A record has numbers that were chosen on test classes, or has results where none may be."""


#: Optional field → test of its value, and what the value should be.
_FIELDS: dict[str, tuple[Test, str]] = {
    "failed": (_is_failure, f"an object with the texts {', '.join(FAILURE)}"),
    "hyper_parameters": (lambda found: isinstance(found, dict), "an object"),
    "edges": (_object_of(lambda edge: edge in ("smallest", "largest")), "an object of edges"),
    "per_class": (_object_of(is_share), "an object of fractions"),
    "groups": (_object_of(_list_of(_is_name)), "an object of lists of classes"),
    "unseen_classes": (_list_of(_is_name), "a list of classes"),
    "overlaps": (_list_of(is_share), "a list of fractions"),
    "confused_with": (_object_of(_list_of(_is_confusion)), "lists of classes and shares"),
    "command": (_is_text, "printable text"),
    "curve": (_is_curve, "lists of fractions and factors of the same length"),
    "cross_validation": (_is_table, "an object of lists of the same length"),
    TEST_SELECTION: (_is_selection, f"an object of shares by choice ({', '.join(CHOICES)})"),
}


def check_record(record: Any) -> None:
    """Raise an error unless an object is a valid record."""
    checked_origin(record)
    measured = checked_metrics(record)
    is_mixed = TEST_SELECTION in record and measured
    _require(not is_mixed, f"'metrics' besides {TEST_SELECTION!r}")
    for name, (is_valid, expected) in _FIELDS.items():
        _require(name not in record or is_valid(record[name]), f"{name!r} is not {expected}")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"damaged record: {what}")


def checked_origin(record: Any) -> dict[str, Any]:
    """Validate and return the fields that identify a run."""
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


def is_class_split(split: str) -> bool:
    """Whether a split is one of the class splits "ss-1", "ss-2", …."""
    return re.fullmatch(r"ss-\d+", split) is not None


def is_fraction(metric: str) -> bool:
    """Whether a metric is known to lie between 0 and 1."""
    return metric in METRIC_LABELS or metric.startswith((RANK_ACCURACY, *AT_K))


def checked_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Validate and return the measured metrics of a record."""
    metrics: Any = record.get("metrics")
    _require(isinstance(metrics, dict), "'metrics' is not an object of numbers")
    measured = {n: v for n, v in metrics.items() if v is not None and v == v}
    for name, value in measured.items():
        expected = "fraction" if is_fraction(name) else "number"
        is_valid = is_share(value) if is_fraction(name) else _is_number(value)
        _require(
            is_valid and name.isprintable(),
            f"metric {name!r:.60} is {value!r:.60}, not a {expected}",
        )
    return {name: float(value) for name, value in measured.items()}


def by_class_of(
    record: Mapping[str, Any], metrics: Mapping[str, float]
) -> dict[str, tuple[tuple[str, float], ...]]:
    """Metric → accuracies of the single classes that it is the mean of."""
    per_class, unseen = record.get("per_class", {}), set(record.get("unseen_classes", ()))
    found = {
        "per_class_accuracy": tuple(per_class.items()),
        "calibrated_unseen": tuple(pair for pair in per_class.items() if pair[0] in unseen),
        "calibrated_seen": tuple(pair for pair in per_class.items() if pair[0] not in unseen),
    }

    def mean(pairs: tuple[tuple[str, float], ...]) -> float:
        return math.fsum(value for _, value in pairs) / len(pairs)

    # Accuracies with another mean belong to another metric or other classes.
    return {
        metric: pairs
        for metric, pairs in found.items()
        if pairs and metric in metrics and abs(mean(pairs) - metrics[metric]) < 1e-9
    }


def read_records(folder: Path | str | Iterable[Path | str]) -> pd.DataFrame:
    """Read the records of runs, one JSON file per run.

    A record is an object with

    - ``"schema"``: 1;
    - text: ``"dataset"``, ``"split"``, ``"split_version"``, ``"features"``, ``"method"`` and
      ``"setting"`` (what the hyper-parameters were tuned for, ``"zsl"`` or ``"gzsl"``);
    - optional text: ``"subset"`` (of the unseen classes), ``"semantic"`` (kind of signatures),
      ``"variant"`` (``name=value`` joined by ``;``), ``"protocol"`` (by default ``"default"``),
      ``"grid"`` and ``"analysis"`` (the name of the analysis that varied a setting);
    - ``"seed"``: whole number or null;
    - ``"metrics"``: name → number, accuracies as fractions, null and NaN if not measured. Names
      are those of the published numbers: ``per_class_accuracy``, ``per_sample_accuracy``,
      ``ausuc``, ``unseen``, ``seen``, ``harmonic`` (at factor 0), ``calibrated_unseen``,
      ``calibrated_seen``, ``calibrated_harmonic``, ``flat_hit_at_5``,
      ``hierarchical_precision_at_5``. Other names are allowed;
    - if the run failed, ``"failed"``: the ``"type"`` of the error, its ``"reason"`` in one line and
      its ``"traceback"``. Such a record contributes no rows;
    - ``"checksum"``: SHA-256 of the other fields as JSON with sorted keys and no spaces, as
      :func:`write_record` computes it;
    - optional, for significance: ``"per_class"``: class → accuracy, calibrated in the setting
      ``"gzsl"``, where ``"unseen_classes"`` lists the unseen classes; ``"groups"``: name → classes;
    - optional, for the report: ``"confused_with"``: class → pairs of another class and the share of
      images taken for it; ``"curve"``: lists ``"acc_unseen"``, ``"acc_seen"`` and ``"bias"``;
      ``"calibration_factor"``; ``"hyper_parameters"``, ``"edges"`` and ``"cross_validation"`` of
      the search; ``"times"`` in seconds; ``"versions"``, ``"machine"``, ``"command"``;
    - ``"key"``: digest of everything that the results depend on, including the source of zslearn.
      A run with another key is recomputed.

    A record with the field ``"test_selection"`` has numbers that were chosen on test classes. It is
    passed over here, and has no metrics; see :func:`read_test_selection`.

    Records with the splits ``"ss-1"``, ``"ss-2"``, … are class splits, of which tables show the
    mean. Hidden files and folders are ignored. Files that are not records, were changed after they
    were written or lack a checksum are skipped with a warning; :func:`run_benchmark` recomputes
    such records.

    Parameters
    ----------
    folder : path or iterable of paths
        Folder to search, with its subfolders, or the files of records, as returned by
        :func:`run_benchmark`.

    Returns
    -------
    DataFrame
        One row per number, with the columns `dataset`, `split`, `split_version`, `features`,
        `method`, `setting`, `subset`, `semantic`, `variant`, `protocol`, `grid`, `analysis`,
        `seed`, `metric`, `value`, `by_class`, `file`. `by_class` is a tuple of (class, accuracy)
        pairs if the record has the accuracies that the number is the mean of, and None otherwise.

    See Also
    --------
    run_benchmark : Run methods and write records.
    write_record : Write a record of your own.
    """
    return numbers_of(whole_records(folder))


def selection_file(path: Path) -> Path:
    """The file of numbers chosen on test classes beside that of results, or the same file."""
    return path if path.name.endswith(SELECTION_SUFFIX) else path.with_suffix(SELECTION_SUFFIX)


def read_test_selection(records: Path | str | Iterable[Path | str]) -> pd.DataFrame:
    """Read the numbers of ``zslearn bench --inflation``, some of which were chosen on test classes.

    They show by how much choosing on test classes raises numbers, and are no results: no other
    function reads these records.

    Parameters
    ----------
    records : path or iterable of paths
        Folder to search, or files of records; those of results stand for the ones beside them.

    Returns
    -------
    DataFrame
        One row per run and metric: the columns of :func:`read_records` that identify the run, the
        `metric`, and its value with the "default" hyper-parameters (for a network, after the last
        epoch), with those chosen on "held_out" seen classes, and with those that are best on the
        "test" images.
    """
    rows: Rows = []
    for path in dict.fromkeys(selection_file(path) for path, _ in _files(records)):
        try:
            record = read_record(path, test_selected=True) if path.is_file() else {}
            results = path.with_name(f"{path.name.removesuffix(SELECTION_SUFFIX)}.json")
            if (
                record
                and results.is_file()
                and read_record(results).get("key") != record.get("key")
            ):
                raise ValueError("the run was repeated without it; repeat it with --inflation")
        except (ValueError, OSError) as error:
            warn_user(f"Skipped {plain(path)}: {one_line(error)}.")
            continue
        for metric, values in record.get(TEST_SELECTION, {}).items():
            rows.append({**checked_origin(record), "metric": metric, **values, "file": str(path)})
    columns = (*REQUIRED, *OPTIONAL, "seed", "metric", *CHOICES, "file")
    return pd.DataFrame(rows, columns=list(columns))


def whole_records(records: Path | str | Iterable[Path | str]) -> Rows:
    """Read whole records, including those of failed runs; see :func:`read_records`."""
    found: Rows = []
    for path, name in _files(records):
        try:
            found.append({**read_record(path), "file": name})
        except SelectedOnTestError:
            continue
        except (ValueError, OSError) as error:
            reason = one_line(error)
            warn_user(
                f"Skipped {plain(path)}: {reason}. If it is a record, run it again (zslearn bench)."
            )
    return found


def numbers_of(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """The result of :func:`read_records` for records that are already in memory."""
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
    """Write a record of your own, with its checksum.

    Parameters
    ----------
    record : mapping
        Fields as described in :func:`read_records`. An existing checksum is replaced.
    path : Path or str
        File to write, atomically. Its folder is created if needed.

    Raises
    ------
    ValueError
        If it is not a valid record; the message gives the reason.
    """
    plain = {name: value for name, value in record.items() if name != "checksum"}
    check_record(plain)
    write_checked_json(Path(path), plain, indent=1)


def read_record(path: Path, *, test_selected: bool = False) -> dict[str, Any]:
    """Read and validate one record of results, or one of numbers chosen on test classes."""
    try:
        record = read_checked_json(path)
        check_record(record)
    except OverflowError as error:
        raise DamagedFileError(f"damaged record: a number is too large ({error})") from None
    if (TEST_SELECTION in record) != test_selected:
        kind = (
            "results" if test_selected else "numbers chosen on test classes, which are no results"
        )
        raise SelectedOnTestError(f"a record of {kind}")
    return record


def slug(*parts: Any) -> str:
    """A readable file name, unique for the parts."""
    safe = [re.sub(r"[^A-Za-z0-9.-]+", "-", str(part)).strip("-.") for part in parts]
    name = "_".join(safe)
    return name if name == "_".join(map(str, parts)) else f"{name}_{fingerprint(*parts)[:6]}"


def is_finished(path: Path, key: Callable[[], str], *, test_selected: bool = False) -> bool:
    """Whether there is a record of the run with this key; warn if it is damaged."""
    if not path.exists():
        return False
    try:
        record = read_record(path, test_selected=test_selected)
    except (ValueError, OSError) as error:
        warn_user(f"The record {path} is damaged and will be recomputed: {one_line(error)}.")
        return False
    return "failed" not in record and record.get("key") == key()


def is_record(path: Path) -> bool:
    """Whether a file is a valid record."""
    try:
        read_record(path)
    except (OSError, ValueError):
        return False
    return True


def write_computed(
    path: Path, origin: Mapping[str, Any], compute: Callable[[], Mapping[str, Any]]
) -> str | None:
    """Compute a run and write its record; return the reason if it failed.

    A record of a failure has no key, so no run mistakes it for a finished one.
    """
    try:
        record = json.loads(json.dumps({**origin, **compute(), **circumstances()}))
        check_record(record)
    except Exception as error:
        return write_failure(path, origin, error)
    write_checked_json(path, record, indent=1)
    return None


def write_failure(path: Path, origin: Mapping[str, Any], error: Exception) -> str:
    """Write the record of a failed run; return the reason in one line."""
    reason = one_line(error)
    failure = {
        "type": type(error).__name__,
        "reason": reason,
        "traceback": "".join(traceback.format_exception(error)),
    }
    write_record({**origin, "metrics": {}, "failed": failure, **circumstances()}, path)
    return reason


def one_line(error: Exception) -> str:
    """The message of an error in one line that is safe to show on a terminal."""
    return plain(" ".join(str(error).split())) or type(error).__name__


def circumstances() -> dict[str, Any]:
    """Date, versions and machine of a run."""
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
    """Read the failed runs.

    Parameters
    ----------
    folder : path or iterable of paths
        See :func:`read_records`.

    Returns
    -------
    DataFrame
        One row per failed run: dataset, split, features, method, setting, protocol and seed; type,
        reason and traceback of the error; and the file.
    """
    rows = [
        {**checked_origin(record), **record["failed"], "file": record["file"]}
        for record in whole_records(folder)
        if "failed" in record
    ]
    return pd.DataFrame(rows, columns=[*_RUN, *FAILURE, "file"])


def _files(records: Path | str | Iterable[Path | str]) -> list[tuple[Path, str]]:
    """Files that may be records, with their names inside the folder."""
    if not isinstance(records, (str, Path)):
        return [(Path(path), str(path)) for path in records]
    folder = Path(records)
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to read records from.")
    found: list[Path] = []
    # Unlike Path.rglob, os.walk tolerates folders that a run removes meanwhile.
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        shown = [name for name in names if name.endswith(".json") and not name.startswith(".")]
        found += [Path(place, name) for name in shown]
    return [(path, str(path.relative_to(folder))) for path in sorted(found) if path.is_file()]
