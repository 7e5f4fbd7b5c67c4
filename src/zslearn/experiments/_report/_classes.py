"""Classes: accuracy and confusions by method, as means over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from zslearn.experiments._report._model import ByClass
from zslearn.experiments._report._values import text

Record = Mapping[str, Any]

#: So many accuracies of classes a report has room for, of all methods and settings together.
MOST_NUMBERS = 120_000


def classes_of(records: Iterable[Record]) -> tuple[list[str], int]:
    """The classes that records of one group have accuracies of.

    Parameters
    ----------
    records : iterable of mappings
        Of one group.

    Returns
    -------
    classes : list of str
        Names as records write them, the unseen ones first.
    n_unseen : int
        How many are unseen.
    """
    unseen: dict[str, None] = {}
    others: dict[str, None] = {}
    for record in records:
        of_record = dict.fromkeys(record.get("per_class", {}))
        if record["setting"] == "zsl":
            unseen |= of_record
        else:
            unseen |= {name: None for name in record.get("unseen_classes", []) if name in of_record}
            others |= of_record
    return [*unseen, *(name for name in others if name not in unseen)], len(unseen)


def by_class_of(
    group: int, method: int, setting: str, records: Sequence[Record], classes: Sequence[str]
) -> ByClass | None:
    """Accuracies of the classes by one method, as means over its records.

    Parameters
    ----------
    group, method : int
        Positions in the report.
    setting : str
        "zsl" or "gzsl".
    records : sequence of mappings
        The records of this group, method and setting.
    classes : sequence of str
        The classes of the group.

    Returns
    -------
    ByClass or None
        None where no record has accuracies of classes.
    """
    places = {name: place for place, name in enumerate(classes)}
    found: dict[str, list[float]] = {}
    confused: dict[str, dict[str, float]] = {}
    for record in records:
        for name, value in record.get("per_class", {}).items():
            found.setdefault(name, []).append(value)
        for name, pairs in record.get("confused_with", {}).items():
            shares = confused.setdefault(name, {})
            for other, share in pairs:
                shares[other] = shares.get(other, 0.0) + share
    if not found:
        return None
    taken_for: list[int | None] = []
    share_of: list[int | None] = []
    for name in classes:
        shares = {
            other: share for other, share in confused.get(name, {}).items() if other in places
        }
        worst = max(shares, key=lambda other: shares[other]) if shares else None
        taken_for.append(None if worst is None else places[worst])
        share_of.append(None if worst is None else _thousandths(shares[worst] / len(found[name])))
    accuracy = [_thousandths(np.mean(found[name])) if name in found else None for name in classes]
    return ByClass(group, method, setting, accuracy, taken_for, share_of)


def _thousandths(share: Any) -> int:
    return round(float(share) * 1000)


def shown_names(classes: Sequence[str]) -> list[str]:
    """Names that a page can show, no two of them alike."""
    names: list[str] = []
    taken: set[str] = set()
    for name in classes:
        shown = text(name)
        again = 1
        while shown in taken:
            again += 1
            shown = f"{text(name)} ({again})"
        taken.add(shown)
        names.append(shown)
    return names
