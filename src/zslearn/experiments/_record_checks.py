"""What a record must be: which fields, of which kind, in which range.

A checksum tells whether a file is as it was written; these checks tell whether what was written can
be a record. What fails either is never trusted: tables skip it, and runs compute it again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from zslearn.experiments._names import is_fraction
from zslearn.utils import is_share

#: Version of the record files.
RECORD_SCHEMA = 1

REQUIRED = ("dataset", "split", "split_version", "features", "method", "setting")
OPTIONAL = ("subset", "semantic", "variant", "protocol", "grid")
FAILURE = ("type", "reason", "traceback")
#: The protocol of a record that names none.
DEFAULT_PROTOCOL = "default"


def check_record(record: Any) -> None:
    """Refuse what is no record, whole and in range.

    Parameters
    ----------
    record : object
        The content of a file.

    Raises
    ------
    ValueError
        What is wrong.
    """
    checked_origin(record)
    checked_metrics(record)
    checked_failure(record)
    checked_edges(record)
    _check_details(record)


def checked_origin(record: Any) -> dict[str, Any]:
    """Which run a record is of; ValueError when it is no record."""
    if not isinstance(record, dict) or "schema" not in record:
        raise ValueError("not a record of a run")
    schema = record["schema"]
    if isinstance(schema, bool) or schema != RECORD_SCHEMA:
        raise ValueError(f"a record of schema {schema!r:.60}; this version reads {RECORD_SCHEMA}")
    origin: dict[str, Any] = {}
    for name in (*REQUIRED, *OPTIONAL):
        text = record.get(name, "" if name in OPTIONAL else None)
        # Unprintable text could drive the terminal it is shown on.
        if not isinstance(text, str) or not text.isprintable():
            raise ValueError(f"damaged record: {name!r} is {text!r:.60}")
        if name in ("dataset", "method", "setting") and not text.strip():
            raise ValueError(f"damaged record: {name!r} is empty")
        origin[name] = text
    origin["protocol"] = origin["protocol"] or DEFAULT_PROTOCOL
    seed = record.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise ValueError(f"damaged record: 'seed' is {seed!r:.60}")
    return {**origin, "seed": seed}


def checked_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a record, without those that are not measured."""
    metrics = record.get("metrics")
    if not isinstance(metrics, dict):
        raise ValueError("damaged record: 'metrics' is not an object of numbers")
    found: dict[str, float] = {}
    for metric, value in metrics.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"damaged record: metric {metric!r:.60} is not a number")
        try:
            number = float(value)
        except OverflowError:
            raise ValueError(
                f"damaged record: metric {metric!r:.60} is too large a number"
            ) from None
        if math.isnan(number):
            continue
        if is_fraction(metric) and not is_share(value):
            raise ValueError(
                f"damaged record: metric {metric!r:.60} is {value!r:.60}, not a fraction"
            )
        if not metric.isprintable() or math.isinf(number):
            raise ValueError(f"damaged record: metric {metric!r:.60} is {value!r:.60}")
        found[metric] = number
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
        text = failed.get(name)
        # Only a traceback has lines.
        if not isinstance(text, str) or not (name == "traceback" or text.isprintable()):
            raise ValueError(f"damaged record: {name!r} of 'failed' is {text!r:.60}")
        failure[name] = text
    return failure


def checked_edges(record: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """Hyper-parameters at the edge of a grid: the chosen value and which edge."""
    edges, chosen = record.get("edges", {}), record.get("hyper_parameters", {})
    if not isinstance(edges, dict) or not isinstance(chosen, dict):
        raise ValueError("damaged record: 'edges' or 'hyper_parameters' is not an object")
    found: dict[str, tuple[Any, str]] = {}
    for name, edge in edges.items():
        if edge not in ("smallest", "largest") or not name.isprintable():
            raise ValueError(f"damaged record: the edge of {name!r:.60} is {edge!r:.60}")
        value = chosen.get(name)
        if isinstance(value, str) and not value.isprintable():
            raise ValueError(f"damaged record: hyper-parameter {name!r:.60} is {value!r:.60}")
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
    # Of another metric of that name, or of other classes, they would not be the parts.
    return {
        metric: pairs
        for metric, pairs in found.items()
        if pairs and metric in metrics and abs(_mean(pairs) - metrics[metric]) < 1e-9
    }


def _mean(pairs: tuple[tuple[str, float], ...]) -> float:
    return math.fsum(value for _, value in pairs) / len(pairs)


def _check_details(record: Mapping[str, Any]) -> None:
    """Accuracies by class, the curve and the whole grid, where a record has them."""
    per_class = record.get("per_class", {})
    if not isinstance(per_class, dict) or not all(map(is_share, per_class.values())):
        raise ValueError("damaged record: 'per_class' is not an object of fractions")
    unseen = record.get("unseen_classes", [])
    if not isinstance(unseen, list) or not all(isinstance(name, str) for name in unseen):
        raise ValueError("damaged record: 'unseen_classes' is not a list of text")
    curve = record.get("curve", {"acc_unseen": [], "acc_seen": []})
    sides = [curve.get(n) for n in ("acc_unseen", "acc_seen")] if isinstance(curve, dict) else []
    lists = [side for side in sides if isinstance(side, list) and all(map(is_share, side))]
    if len(lists) != 2 or len(lists[0]) != len(lists[1]):
        raise ValueError("damaged record: 'curve' is not two lists of fractions of one length")
    _check_factors(curve.get("bias"), len(lists[0]))
    _check_confused(record.get("confused_with", {}))
    command = record.get("command", "")
    if not isinstance(command, str) or not command.isprintable():
        raise ValueError(f"damaged record: 'command' is {command!r:.60}")
    table = record.get("cross_validation", {})
    if not isinstance(table, dict):
        raise ValueError("damaged record: 'cross_validation' is not an object")
    sizes = {len(column) if isinstance(column, list) else -1 for column in table.values()}
    if len(sizes) > 1 or -1 in sizes:
        raise ValueError("damaged record: 'cross_validation' is not lists of one length")


def _check_factors(factors: Any, n_points: int) -> None:
    """Calibration factors of a curve, which records of former versions lack."""
    if factors is None:
        return
    if not isinstance(factors, list) or len(factors) != n_points:
        raise ValueError("damaged record: 'bias' of 'curve' has not the length of the accuracies")
    if not all(factor is None or _is_finite(factor) for factor in factors):
        raise ValueError("damaged record: 'bias' of 'curve' holds what is no number")


def _check_confused(confused: Any) -> None:
    """Of each class the classes that it was taken for, with shares."""
    rows = confused.values() if isinstance(confused, dict) else [None]
    pairs = [pair for row in rows for pair in (row if isinstance(row, list) else [None])]
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError("damaged record: 'confused_with' is not lists of classes and shares")
        if not isinstance(pair[0], str) or not is_share(pair[1]):
            raise ValueError(f"damaged record: 'confused_with' holds {pair!r:.60}")


def _is_finite(number: Any) -> bool:
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    return is_number and math.isfinite(number)
