"""Convert records into the data of a report.

A report is JSON data: numbers are finite or None, texts are printable, and methods, groups and
classes are referred to by their positions in the lists.

- `methods`: name, colour and line style. `groups`: comparable runs (same data set, split, features,
  signatures, protocol and grid) with their classes, the unseen ones first.
- `table`: the main numbers, a row per method and group. A cell has the mean over seeds and class
  splits and its standard deviation over seeds, whether it is the best or does not differ from it,
  and the published number, with the difference if features and split are the same. The page rounds.
- `runs`: one per record, with its hyper-parameters, seen–unseen curve and search scores.
- `by_class`: accuracies of classes in millionths, and the most frequent confusion of each.
- `inflation`: for each method and metric, means with default hyper-parameters, with those chosen on
  held-out classes, and with those chosen on the test images, which are not results.
- `ranks`: mean ranks by metric, with the ranges of methods that do not differ.
- `images`, `answers`, `versions`, `commands`, `facts`, `title` and `summary`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from zslearn._utils._array import Floats
from zslearn._utils._messages import plain
from zslearn.experiments._examples import Images, data_uri
from zslearn.experiments._names import (
    PUBLISHED_SPLIT_VERSION,
    canonical_dataset,
    canonical_method,
    is_published_split,
    measure_meaning,
    method_style,
    metric_label,
    same_features,
    short_version,
)
from zslearn.experiments._published import load_published
from zslearn.experiments._ranks import ranges_within, rank_methods
from zslearn.experiments._records import CHOICES, checked_metrics, checked_origin
from zslearn.experiments._summary import (
    NOT_DIFFERENT,
    ORIGIN,
    RunSummary,
    summarize_runs,
    summary_metrics,
)
from zslearn.model_selection import METHODS, read_landscape

Record = Mapping[str, Any]
Part = dict[str, Any]
Rows = list[dict[Any, Any]]

#: Most accuracies of classes in a report, over all methods and settings.
MOST_NUMBERS = 120_000
#: Most points of a curve and values of a hyper-parameter.
_MOST_POINTS, _MOST_VALUES = 160, 40
_LONGEST = 120
#: Longest side of an image with its answer, in pixels.
_SIDE = 48
#: A number in front of a class name, and separators between its words.
_NUMBERED = re.compile(r"^\d+[._]+(?=[^\W\d_])")
_JOINED = re.compile(r"(?<=[^\W_])[_+]+(?=[^\W_])")

_LEADS = {
    "per_class_accuracy": "In the conventional setting (unseen classes only)",
    "ausuc": "In the generalized setting (seen and unseen classes)",
}
#: Tables of the paper with one number per method, data set and split.
_TABLES = ("zsl", "gzsl", "harmonic", "main")
_PLACE = ("method", "dataset", "split", "metric")
_RANKED = ("per_class_accuracy", "ausuc", "calibrated_harmonic")
_SEEDS = (
    "With one data set and split, the ranks are means over seeds. They show how much chance in "
    "tuning changes the order, but do not generalise to other data."
)
_GROUP = ("dataset", "split", "split_version", "features", "semantic", "protocol", "grid")
#: Properties of all runs: the label, and the plural for several values.
_FACTS = {
    "dataset": ("Data", "data sets"),
    "split": ("Split", "splits"),
    "features": ("Features", "kinds"),
    "semantic": ("Signatures", "kinds"),
    "protocol": ("Protocol", "protocols"),
    "grid": ("Grid", "grids"),
}


def number(value: Any, digits: int | None = None) -> float | None:
    """A finite number, optionally rounded to some digits after the point; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value) if digits is None else round(float(value), digits)


def significant(value: Any, digits: int = 4) -> float | None:
    """A finite number rounded to some significant digits; None otherwise."""
    found = number(value)
    return None if found is None else float(f"{found:.{digits}g}")


def text(value: Any) -> str:
    """Printable text, truncated if too long for the page."""
    return plain(value, _LONGEST)


def written(value: Any) -> str:
    """A value of a hyper-parameter as short text."""
    is_number = isinstance(value, float) and math.isfinite(value)
    return f"{value:.4g}" if is_number else text(value)


def signatures_label(semantic: str) -> str:
    """Name of a kind of signatures; the data set's own signatures have none in records."""
    return semantic or "own"


def build_report(
    records: Sequence[Record],
    numbers: pd.DataFrame,
    images: Images,
    *,
    title: str | None = None,
    answers: tuple[str, Iterable[tuple[Any, str, str]]] | None = None,
) -> Part:
    """Collect the data of the page."""
    known = list(METHODS)
    # In the order of tables, unknown methods last.
    methods = sorted(
        {record["method"] for record in records},
        key=lambda name: (known.index(name) if name in known else len(known), name),
    )
    members: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        origin = checked_origin(record)
        members.setdefault(tuple(origin[name] for name in _GROUP), []).append(record)
    group_of = {id(r): i for i, found in enumerate(members.values()) for r in found}
    in_order = sorted(records, key=lambda record: methods.index(record["method"]))
    runs = [
        {"method": methods.index(record["method"]), "group": group_of[id(record)], **_run(record)}
        for record in in_order
    ]
    groups = _groups(list(members))
    by_class, pictures = _classes(groups, list(members.values()), methods, images)
    table = main_table(numbers, methods)
    datasets = list(dict.fromkeys(group["dataset"] for group in groups))
    styles = [(name, method_style(name)) for name in methods]
    return {
        "title": text(title) if title else f"Zero-shot learning on {_names_in_words(datasets)}",
        "summary": _summary(table, methods, len(groups)),
        "answers": None if answers is None else _answers(*answers),
        "facts": _facts(runs, groups, methods, records),
        "methods": [{"name": text(n), "color": s.color, "line": s.line} for n, s in styles],
        "groups": groups,
        "table": table,
        "runs": runs,
        "by_class": by_class,
        "ranks": ranks_of(numbers, methods),
        "images": pictures,
        "versions": versions_of(records),
        "commands": list(dict.fromkeys(r["command"] for r in records if r.get("command"))),
    }


def inflation_of(selection: pd.DataFrame) -> list[Part]:
    """Means over seeds of the numbers that :func:`read_test_selection` returns."""
    where = [name for name in ORIGIN if selection[name].nunique() > 1]
    means = selection.groupby(["method", *where, "metric"], sort=False)[[*CHOICES]].mean()
    return [
        {
            "method": text(row["method"]),
            "where": ", ".join(text(row[name]) for name in where if row[name]),
            "metric": metric_label(row["metric"]),
            **{choice: number(row[choice]) for choice in CHOICES},
        }
        for row in means.reset_index().to_dict("records")
    ]


def _answers(caption: str, images: Iterable[tuple[Any, str, str]]) -> Part:
    """Images with their answers and the truth."""
    shown = [
        {"source": data_uri(image, _SIDE), "answer": text(answer), "truth": text(truth)}
        for image, answer, truth in images
    ]
    return {"caption": text(caption), "images": shown}


def _groups(keys: Sequence[tuple[str, ...]]) -> list[Part]:
    """Groups with the shortest distinct labels."""
    several = [i for i in range(1, len(_GROUP)) if len({key[i] for key in keys}) > 1]
    # A split version is long, and usually determined by the data set and split.
    place = _GROUP.index("split_version")
    if len({(*key[:place], *key[place + 1 :]) for key in keys}) == len(keys):
        several = [i for i in several if i != place]
    kind = _GROUP.index("semantic")
    names = ("dataset", "split", "version", "features", "semantic", "protocol", "grid")
    groups = []
    for key in keys:
        shown = [*key[:kind], f"{signatures_label(key[kind])} signatures", *key[kind + 1 :]]
        label = ", ".join(text(shown[i]) for i in [0, *several] if shown[i])
        groups.append({"label": label, **dict(zip(names, map(text, key), strict=True))})
    return groups


def _names_in_words(names: Sequence[str], kind: str = "data sets") -> str:
    """Join names in words; more than four are counted."""
    if len(names) < 3:
        return " and ".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) < 5 else f"{len(names)} {kind}"


def _summary(table: Part, methods: Sequence[str], n_groups: int) -> str:
    """The leading methods in words; empty for several groups or a single method."""
    if n_groups > 1 or len(methods) < 2:
        return ""
    names = [column["name"] for column in table["metrics"]]
    sentences = []
    for metric in [metric for metric in _LEADS if metric in names]:
        cells = [
            (row["cells"][names.index(metric)]["mean"], row["method"]) for row in table["rows"]
        ]
        value, method = max((mean, method) for mean, method in cells if mean is not None)
        leads = f"{_LEADS[metric]}, {text(methods[method])} is best"
        sentences.append(f"{leads}: {metric_label(metric)} {value:.3f}.")
    return " ".join(sentences)


def _facts(
    runs: Sequence[Part],
    groups: Sequence[Part],
    methods: Sequence[str],
    records: Sequence[Record],
) -> list[list[str]]:
    """Labels and values of the facts about the runs."""
    n_failed = sum(bool(run["failed"]) for run in runs)
    seeds = sorted({run["seed"] for run in runs if run["seed"] is not None})
    seconds = sum((run["tuning"] or 0) + (run["measuring"] or 0) for run in runs)
    written_at = sorted(text(r["written"]) for r in records if isinstance(r.get("written"), str))
    names = {"zsl": "conventional", "gzsl": "generalized"}
    settings = [names.get(s, s) for s in sorted({run["setting"] for run in runs})[::-1]]
    facts = [
        ["Methods", str(len(methods))],
        ["Runs", f"{len(runs)}, {n_failed} failed" if n_failed else str(len(runs))],
        ["Settings", _names_in_words(settings)],
    ]
    if len(groups) == 1 and groups[0]["classes"]:
        group = groups[0]
        n_seen = len(group["classes"]) + group["left_out"] - group["n_unseen"]
        seen = f"{n_seen} seen, " if n_seen else ""
        facts.append(["Classes", f"{seen}{group['n_unseen']} unseen"])
    for name, (label, kind) in _FACTS.items():
        found = list(dict.fromkeys(group[name] for group in groups))
        if name == "semantic" and any(found):
            found = [signatures_label(value) for value in found]
        if any(found):
            facts.append([label, _names_in_words([value for value in found if value], kind)])
    if seeds:
        facts.append(["Seeds", ", ".join(map(str, seeds)) if len(seeds) < 7 else str(len(seeds))])
    facts.append(["Computed in", duration(seconds)])
    if written_at:
        facts.append(["Written", written_at[-1][:16].replace("T", " ") + " UTC"])
    return facts


def duration(seconds: float) -> str:
    """A time in readable units."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


# Classes: accuracies and confusions by method, as means over seeds.


def _classes(
    groups: Sequence[Part],
    members: Sequence[Sequence[Record]],
    methods: Sequence[str],
    images: Images,
) -> tuple[list[Part], Images]:
    """Add classes to the groups; also their accuracies by method, and example images."""
    found: list[Part] = []
    pictures: Images = {}
    most = MOST_NUMBERS // max(1, len(groups))
    for position, (group, records) in enumerate(zip(groups, members, strict=True)):
        parts: dict[tuple[int, str], list[Record]] = {}
        for record in records:
            key = methods.index(record["method"]), record["setting"]
            parts.setdefault(key, []).append(record)
        classes, n_unseen = classes_of(records)
        kept = classes[: max(1, most // len(parts))]
        group["classes"] = shown_names(kept)
        group["n_unseen"] = min(n_unseen, len(kept))
        group["left_out"] = len(classes) - len(kept)
        for (method, setting), of_part in parts.items():
            numbers = by_class_of(of_part, kept)
            if numbers is not None:
                where = {"group": position, "method": method, "setting": setting}
                found.append(where | numbers)
        of_data = images.get(str(records[0]["dataset"]), {})
        names = zip(group["classes"], kept, strict=True)
        shown = {name: of_data[label] for name, label in names if label in of_data}
        pictures.setdefault(group["dataset"], {}).update(shown)
    return found, {name: shown for name, shown in pictures.items() if shown}


def classes_of(records: Iterable[Record]) -> tuple[list[str], int]:
    """Classes with accuracies in the records of a group, unseen first, and the number of unseen."""
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


def by_class_of(records: Sequence[Record], classes: Sequence[str]) -> Part | None:
    """Accuracies and confusions of the classes, as means over the records of a method."""
    places = {name: place for place, name in enumerate(classes)}
    accuracies: dict[str, list[float]] = {}
    confused: dict[str, Counter[str]] = {}
    for record in records:
        for name, value in record.get("per_class", {}).items():
            accuracies.setdefault(name, []).append(value)
        for name, pairs in record.get("confused_with", {}).items():
            shares = {other: share for other, share in pairs if other in places}
            confused.setdefault(name, Counter()).update(shares)
    if not accuracies:
        return None
    worst = [
        max(confused.get(name, Counter()).items(), key=lambda pair: pair[1], default=None)
        if name in accuracies
        else None
        for name in classes
    ]
    return {
        "accuracy": [
            _millionths(np.mean(accuracies[name])) if name in accuracies else None
            for name in classes
        ],
        "taken_for": [None if pair is None else places[pair[0]] for pair in worst],
        "share": [
            None if pair is None else _millionths(pair[1] / len(accuracies[name]))
            for name, pair in zip(classes, worst, strict=True)
        ],
    }


def _millionths(share: Any) -> int:
    return round(float(share) * 1_000_000)


def shown_names(classes: Sequence[str]) -> list[str]:
    """Readable, distinct names of classes: "001.Night_Heron" becomes Night Heron."""
    as_words = [_JOINED.sub(" ", _NUMBERED.sub("", text(name))) for name in classes]
    counts = Counter(as_words)
    names: dict[str, None] = {}
    for name, words in zip(classes, as_words, strict=True):
        shown, again = words if counts[words] == 1 else text(name), 1
        while shown in names:
            again += 1
            shown = f"{text(name)} ({again})"
        names[shown] = None
    return list(names)


# The main table: our numbers and the published ones.


def main_table(records: pd.DataFrame, methods: list[str]) -> Part:
    """The main numbers of records with the published ones."""
    summary = summarize_runs(records)
    rows = summary.mean.index.to_frame(index=False)
    where = [str(name) for name in rows.columns if name != "method"]
    # All numbers of these tables use attributes.
    data = load_published()
    of_paper = data[
        data["table"].isin(_TABLES)
        & (data["variant"] == "")
        & (data["subset"] == "")
        & (data["semantic"] == "attributes")
    ]
    published: dict[tuple[str, ...], Rows] = {}
    for row in of_paper.to_dict("records"):
        published.setdefault(tuple(row[name] for name in _PLACE), []).append(row)

    def shown_split(split: str) -> str:
        return "ss" if split in summary.class_splits else split

    # Common values of all records, and splits other than the paper's.
    common = {name: str(records[name].iloc[0] or "") for name in ORIGIN if name in records}
    common = {**dict.fromkeys(ORIGIN, ""), **common, "split": shown_split(common["split"])}
    places = zip(records["dataset"], records["split"], records["split_version"], strict=True)
    others = {
        (dataset, shown_split(split))
        for dataset, split, version in places
        if not is_published_split(split, str(version))
    }
    names = [
        name for name in summary_metrics(records["metric"]) if metric_label(name) in summary.mean
    ]
    found: list[Part] = []
    for position, own in enumerate(rows.to_dict("records")):
        origin = common | {str(name): str(value) for name, value in own.items()}
        is_same_split = (origin["dataset"], origin["split"]) not in others
        split = origin["split"].casefold()
        dataset = canonical_dataset(origin["dataset"], own=split == "own")
        place = canonical_method(origin["method"]), dataset, split
        theirs = published if origin["semantic"] in ("", "attributes") else {}
        labels = [signatures_label(origin[n]) if n == "semantic" else origin[n] for n in where]
        cells = [
            _cell(summary, name, position, theirs.get((*place, name), []), origin, is_same_split)
            for name in names
        ]
        method = methods.index(str(own["method"]))
        found.append({"method": method, "where": [*map(text, labels)], "cells": cells})
    metrics = [
        {
            "name": name,
            "label": metric_label(name),
            "meaning": measure_meaning(name),
            "published": any(row["cells"][i]["published"] is not None for row in found),
        }
        for i, name in enumerate(names)
    ]
    heads = ["signatures" if name == "semantic" else name for name in where]
    notes = _notes(summary, records, found, set(of_paper["dataset"]))
    return {"where": heads, "metrics": metrics, "rows": found, "notes": notes}


def _cell(
    summary: RunSummary,
    name: str,
    position: int,
    published: Rows,
    origin: Mapping[str, str],
    is_same_split: bool,
) -> Part:
    """One of our numbers with the published one, preferably for the same features."""
    label = metric_label(name)
    mean = number(summary.mean[label].iloc[position])
    verdict = str(summary.verdict[label].iloc[position])
    value = difference = None
    theirs = ""
    if mean is not None and published:
        same = [row for row in published if same_features(row["features"], origin["features"])]
        row = (same or published)[0]
        value = row["value"] / (100 if row["unit"] == "%" else 1)
        theirs = "" if same else row["features"]
        difference = mean - value if same and is_same_split else None
    return {
        "mean": mean,
        "deviation": number(summary.deviation[label].iloc[position]),
        "best": mean is not None and verdict == "",
        "not_different": verdict == NOT_DIFFERENT,
        "published": number(value),
        "difference": number(difference),
        "features": theirs,
    }


def _notes(
    summary: RunSummary, records: pd.DataFrame, rows: list[Part], published: set[str]
) -> list[str]:
    notes = [f"Numbers are the {summary.runs}."] if summary.runs else []
    notes += summary.notes
    cells = [cell for row in rows for cell in row["cells"] if cell["published"] is not None]
    if not cells:
        return notes
    of_paper = records[
        (records["split"].str.casefold() != "own")
        & records["dataset"].astype(str).map(canonical_dataset).isin(published)
    ]
    versions = {short_version(str(v)) for v in of_paper["split_version"]}
    if others := sorted(versions - {PUBLISHED_SPLIT_VERSION}):
        notes.append(
            f"Published numbers use version {PUBLISHED_SPLIT_VERSION} of the new splits; runs on "
            f"{', '.join(map(text, others))} show no difference."
        )
    if others := sorted({cell["features"] for cell in cells} - {""}):
        notes.append(
            f"Published numbers for other features ({', '.join(others)}) show no difference."
        )
    return notes


# Single runs: their curves and searches.


def _run(record: Record) -> Part:
    """The data of one record."""
    failure = record.get("failed")
    metrics = {} if failure else checked_metrics(record)
    times = record.get("times", {})
    times = times if isinstance(times, dict) else {}
    chosen = record.get("hyper_parameters", {})
    return {
        "setting": text(record["setting"]),
        "seed": record.get("seed"),
        "ausuc": number(metrics.get("ausuc")),
        "hyper_parameters": {text(name): written(value) for name, value in chosen.items()},
        "edges": {text(name): edge for name, edge in record.get("edges", {}).items()},
        "factor": significant(record.get("calibration_factor")),
        "tuning": number(times.get("tune_and_fit"), 2),
        "measuring": number(times.get("measure"), 2),
        "failed": f"{failure['type']}: {failure['reason']}" if failure else "",
        "curve": None if failure else curve_of(record),
        "landscape": None if failure else landscape_of(record),
    }


def curve_of(record: Record) -> Part | None:
    """The curve of a record, thinned to the resolution of a screen."""
    curve = record.get("curve", {})
    unseen, seen = (np.asarray(curve.get(name, [])) for name in ("acc_unseen", "acc_seen"))
    if unseen.size < 2:
        return None
    bias = curve.get("bias")
    factors = np.array([-np.inf if b is None else b for b in bias or [None] * unseen.size])
    marks = {"plain": 0.0, "calibrated": number(record.get("calibration_factor"), 12)}
    # The point of a factor is the last one whose factor does not exceed it.
    found = {
        name: max(int(np.searchsorted(factors, factor, side="right")) - 1, 0)
        for name, factor in marks.items()
        if bias and factor is not None
    }
    kept = np.unique([*_spaced(unseen, seen), *found.values()])
    places = {name: int(np.searchsorted(kept, place)) for name, place in found.items()}
    return {
        "unseen": unseen[kept].round(9).tolist(),
        "seen": seen[kept].round(9).tolist(),
        "factor": [significant(factor) for factor in factors[kept].tolist()],
        "plain": places.get("plain"),
        "calibrated": places.get("calibrated"),
    }


def _spaced(unseen: Floats, seen: Floats) -> list[int]:
    """Positions of roughly equidistant points along a curve, including both ends."""
    length = np.append(0.0, np.hypot(np.diff(unseen), np.diff(seen)).cumsum())
    steps = np.linspace(0.0, length[-1], _MOST_POINTS)
    found = np.searchsorted(length, steps).clip(0, unseen.size - 1)
    return [0, *found.tolist(), unseen.size - 1]


def landscape_of(record: Record) -> Part | None:
    """Search scores of a record over the two hyper-parameters with most values."""
    table = record.get("cross_validation", {})
    settings = table.get("params", [])
    scores = [name for name in table if name.startswith("mean_test_")]
    if len(settings) < 2 or not scores or not all(isinstance(s, dict) for s in settings):
        return None
    mean = np.array([number(value, 12) for value in table[scores[0]]], dtype=float)
    values: dict[str, set[str]] = {}
    for setting in settings:
        for name, value in setting.items():
            values.setdefault(name, set()).add(repr(value))
    varied = [name for name, found in values.items() if 1 < len(found) <= _MOST_VALUES]
    if np.isnan(mean).all() or not varied:
        return None
    names = sorted(varied, key=lambda name: -len(values[name]))[:2]
    # The record tells the chosen setting; among equal scores the first is the best.
    chosen = record.get("hyper_parameters", {})
    here = [i for i, s in enumerate(settings) if s.items() <= chosen.items()]
    score = scores[0].removeprefix("mean_test_")
    std = np.full(len(mean), np.nan)
    search = SimpleNamespace(
        cv_results_={"params": settings, f"mean_test_{score}": mean, f"std_test_{score}": std},
        best_index_=here[0] if here else int(np.nanargmax(mean)),
        edges_={},
    )
    found = read_landscape(search, names[0], names[1] if len(names) > 1 else None, None)
    place = found["chosen"]
    return {
        "score": text(score),
        "x": text(found["x_name"]),
        "y": text(found["y_name"] or ""),
        "x_values": [written(value) for value in found["x_values"]],
        "y_values": [written(value) for value in found["y_values"] or []],
        "mean": [[number(v, 9) for v in row] for row in np.atleast_2d(found["mean"]).tolist()],
        "chosen": None if place is None else [0, *place][-2:],
        "others": [text(name) for name in found["others"]],
    }


# Ranks of methods.


def ranks_of(records: pd.DataFrame, methods: list[str]) -> list[Part]:
    """Rank the methods by each main metric over data sets and splits, or over seeds of one."""
    found = [_ranks(records[records["metric"] == metric], metric, methods) for metric in _RANKED]
    return [ranks for ranks in found if ranks is not None]


def _ranks(records: pd.DataFrame, metric: str, methods: list[str]) -> Part | None:
    if records.empty:
        return None
    origin = [records[name].astype(str) for name in ORIGIN]
    problems = pd.Series(list(zip(*origin, strict=True)), index=records.index)
    seeds = records["seed"].map(lambda seed: "" if pd.isna(seed) else str(seed))
    by_seed = problems.nunique() == 1
    values = records.assign(column=seeds if by_seed else problems).pivot_table(
        index="method", columns="column", values="value", aggfunc="mean"
    )
    # For an unfinished benchmark: the columns that all methods have, if several.
    common = values.dropna(axis="columns")
    complete = common if common.shape[1] > 1 else values.dropna()
    if min(complete.shape) < 2:
        return None
    over, note = f"{complete.shape[1]} data sets and splits", ""
    if by_seed:
        over, note = f"{complete.shape[1]} seeds", _SEEDS
    if left_out := sorted(set(values.index) - set(complete.index)):
        note += f" Omitted, because some numbers are missing: {', '.join(left_out)}."
    ranking = rank_methods(complete)
    difference = number(ranking.critical_difference)
    ranks = ranking.mean_ranks.to_numpy(dtype=float)
    ranges = [] if difference is None else ranges_within(ranks, difference)
    return {
        "title": f"{metric_label(metric)}, over {over}",
        "methods": [methods.index(str(name)) for name in ranking.mean_ranks.index],
        "mean_ranks": ranks.tolist(),
        "critical_difference": difference,
        "statistic": number(ranking.statistic),
        "pvalue": number(ranking.pvalue),
        "not_different": [list(places) for places in ranges],
        "note": note.strip(),
    }


# Provenance.


def versions_of(records: Sequence[Record]) -> list[list[str]]:
    """All versions of packages and properties of machines in the records."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for part in ("versions", "machine"):
            values = record.get(part, {})
            for name, value in values.items() if isinstance(values, dict) else ():
                found.setdefault(text(name), {}).setdefault(text(value))
    return [[name, ", ".join(versions)] for name, versions in found.items()]
