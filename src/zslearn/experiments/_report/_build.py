"""From records to a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from zslearn.experiments._examples import Images
from zslearn.experiments._methods import METHODS
from zslearn.experiments._names import is_fraction, metric_label
from zslearn.experiments._palette import method_style
from zslearn.experiments._record_checks import (
    checked_edges,
    checked_failure,
    checked_metrics,
    checked_origin,
)
from zslearn.experiments._report._classes import (
    MOST_NUMBERS,
    by_class_of,
    classes_of,
    shown_names,
)
from zslearn.experiments._report._main_table import main_table, signatures_label
from zslearn.experiments._report._model import ByClass, Group, Method, Report, Run, Table
from zslearn.experiments._report._parts import curve_of, landscape_of
from zslearn.experiments._report._rank_parts import ranks_of
from zslearn.experiments._report._reproduce import commands_of, versions_of
from zslearn.experiments._report._values import number, significant, text, written

Record = Mapping[str, Any]
_LEADS = {
    "per_class_accuracy": "Among unseen classes alone",
    "ausuc": "Among seen and unseen classes together",
}
_GROUP = ("dataset", "split", "split_version", "features", "semantic", "protocol", "grid")

#: What all runs have in common: the name above it, and what several are called.
_FACTS = {
    "dataset": ("Data", "data sets"),
    "split": ("Split", "splits"),
    "features": ("Features", "kinds"),
    "semantic": ("Signatures", "kinds"),
    "protocol": ("Protocol", "protocols"),
    "grid": ("Grid", "grids"),
}


def build_report(
    records: Sequence[Record], numbers: pd.DataFrame, images: Images, *, title: str | None = None
) -> Report:
    """Gather what a page shows.

    Parameters
    ----------
    records : sequence of mappings
        Whole and checked; those of failed runs too.
    numbers : DataFrame
        The same as :func:`read_records` gives it.
    images : dict
        Example images by data set and class.
    title : str, optional
        What stands above; by default the data sets.

    Returns
    -------
    Report
        Plain data.
    """
    methods = _in_order({record["method"] for record in records})
    keys = {_key(record): None for record in records}
    members = {key: [r for r in records if _key(r) == key] for key in keys}
    groups = _groups(list(keys))
    runs = [
        _run(record, methods, list(keys).index(_key(record)))
        for record in sorted(records, key=lambda record: methods.index(record["method"]))
    ]
    groups, by_class, pictures = _classes(groups, list(members.values()), methods, images)
    table = main_table(numbers, methods)
    datasets = list(dict.fromkeys(group.dataset for group in groups))
    return Report(
        title=text(title) if title else f"Zero-shot learning on {_joined(datasets)}",
        summary=_summary(table, methods, len(groups)),
        facts=_facts(runs, groups, methods, records),
        methods=[_method(name) for name in methods],
        groups=groups,
        table=table,
        runs=runs,
        by_class=by_class,
        ranks=ranks_of(numbers, methods),
        images=pictures,
        versions=versions_of(records),
        commands=commands_of(records),
    )


def _key(record: Record) -> tuple[str, ...]:
    origin = checked_origin(record)
    return tuple(origin[name] for name in _GROUP)


def _in_order(names: set[str]) -> list[str]:
    """Methods as tables order them, those of one's own last."""
    known = list(METHODS)
    return sorted(
        names, key=lambda name: (known.index(name) if name in known else len(known), name)
    )


def _method(name: str) -> Method:
    style = method_style(name)
    return Method(text(name), style.color, style.line)


def _groups(keys: Sequence[tuple[str, ...]]) -> list[Group]:
    """Groups with a label that says as much as tells them apart."""
    several = [i for i in range(1, len(_GROUP)) if len({key[i] for key in keys}) > 1]
    # A version is long, and mostly goes with the data set and the split.
    place = _GROUP.index("split_version")
    if len({(*key[:place], *key[place + 1 :]) for key in keys}) == len(keys):
        several = [i for i in several if i != place]
    kind = _GROUP.index("semantic")
    groups = []
    for key in keys:
        signatures = f"{signatures_label(key[kind])} signatures"
        shown = [*key[:kind], signatures, *key[kind + 1 :]]
        label = ", ".join(text(shown[i]) for i in [0, *several] if shown[i])
        dataset, split, version, features, semantic, protocol, grid = map(text, key)
        groups.append(Group(label, dataset, split, version, features, semantic, protocol, grid))
    return groups


def _joined(names: Sequence[str], kind: str = "data sets") -> str:
    """Names in words; of more than four how many there are."""
    if len(names) < 3:
        return " and ".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) < 5 else f"{len(names)} {kind}"


def _run(record: Record, methods: Sequence[str], group: int) -> Run:
    failure = checked_failure(record)
    metrics = {} if failure else checked_metrics(record)
    chosen = record.get("hyper_parameters", {})
    times = record.get("times", {})
    times = times if isinstance(times, dict) else {}
    return Run(
        method=methods.index(record["method"]),
        group=group,
        setting=text(record["setting"]),
        seed=record.get("seed"),
        metrics={
            text(metric_label(name)): round(value, 4)
            for name, value in metrics.items()
            if is_fraction(name)
        },
        hyper_parameters={text(name): written(value) for name, value in chosen.items()},
        edges={text(name): edge for name, (_, edge) in checked_edges(record).items()},
        factor=significant(record.get("calibration_factor")),
        tuning=number(times.get("tune_and_fit"), 2),
        measuring=number(times.get("measure"), 2),
        failed=f"{failure['type']}: {failure['reason']}" if failure else "",
        curve=None if failure else curve_of(record),
        landscape=None if failure else landscape_of(record),
    )


def _classes(
    groups: Sequence[Group],
    members: Sequence[Sequence[Record]],
    methods: Sequence[str],
    images: Images,
) -> tuple[list[Group], list[ByClass], Images]:
    """Groups with their classes, what each method makes of them, and their pictures."""
    named, found = [], []
    pictures: Images = {}
    # Each group gets its share of the room.
    room = MOST_NUMBERS // max(1, len(groups))
    for position, (group, records) in enumerate(zip(groups, members, strict=True)):
        parts: dict[tuple[int, str], list[Record]] = {}
        for record in records:
            key = methods.index(record["method"]), record["setting"]
            parts.setdefault(key, []).append(record)
        classes, n_unseen = classes_of(records)
        kept = classes[: max(1, room // len(parts))]
        names = shown_names(kept)
        named.append(
            replace(
                group,
                classes=names,
                n_unseen=min(n_unseen, len(kept)),
                left_out=len(classes) - len(kept),
            )
        )
        for (method, setting), of_part in parts.items():
            by_class = by_class_of(position, method, setting, of_part, kept)
            if by_class is not None:
                found.append(by_class)
        of_data = images.get(str(records[0]["dataset"]), {})
        shown = {n: of_data[c] for n, c in zip(names, kept, strict=True) if c in of_data}
        pictures.setdefault(group.dataset, {}).update(shown)
    return named, found, {name: shown for name, shown in pictures.items() if shown}


def _summary(table: Table, methods: Sequence[str], n_groups: int) -> str:
    """Who leads, in words; nothing where there are several data sets or one method."""
    if n_groups > 1 or len(methods) < 2:
        return ""
    sentences = []
    for metric, words in _LEADS.items():
        names = [column.name for column in table.metrics]
        if metric not in names:
            continue
        cells = [(row.cells[names.index(metric)].mean, row.method) for row in table.rows]
        value, method = max((mean, method) for mean, method in cells if mean is not None)
        best = text(methods[method])
        sentences.append(f"{words}, {best} leads: {metric_label(metric)} {value:.3f}.")
    return " ".join(sentences)


def _facts(
    runs: Sequence[Run], groups: Sequence[Group], methods: Sequence[str], records: Sequence[Record]
) -> list[list[str]]:
    """What was run, by name and value."""
    n_failed = sum(bool(run.failed) for run in runs)
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    seconds = sum((run.tuning or 0) + (run.measuring or 0) for run in runs)
    written_at = sorted(text(r["written"]) for r in records if isinstance(r.get("written"), str))
    settings = {"zsl": "conventional", "gzsl": "generalized"}
    facts = [
        ["Methods", str(len(methods))],
        ["Runs", f"{len(runs)}, {n_failed} failed" if n_failed else str(len(runs))],
        [
            "Settings",
            _joined([settings.get(s, s) for s in sorted({r.setting for r in runs})[::-1]]),
        ],
    ]
    if len(groups) == 1 and groups[0].classes:
        group = groups[0]
        n_seen = len(group.classes) + group.left_out - group.n_unseen
        seen = f"{n_seen} seen, " if n_seen else ""
        facts.append(["Classes", f"{seen}{group.n_unseen} unseen"])
    for name, (label, kind) in _FACTS.items():
        found = list(dict.fromkeys(getattr(group, name) for group in groups))
        if name == "semantic" and any(found):
            found = [signatures_label(value) for value in found]
        if any(found):
            facts.append([label, _joined([value for value in found if value], kind)])
    if seeds:
        facts.append(["Seeds", ", ".join(map(str, seeds)) if len(seeds) < 7 else str(len(seeds))])
    facts.append(["Computed in", duration(seconds)])
    if written_at:
        facts.append(["Written", written_at[-1][:16].replace("T", " ") + " UTC"])
    return facts


def duration(seconds: float) -> str:
    """A time as a person says it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
