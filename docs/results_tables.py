"""Tables of the results pages from records: ``python docs/results_tables.py RUNS DEVIATIONS``.

RUNS holds the records of ``zslearn bench CUB …``, ``zslearn bench glyphs …`` and ``zslearn bench
icons …`` (a folder that benchmarks/icons_data.py makes); DEVIATIONS those of runs under
protocols that differ from the default in one part. One file of rows is written to docs/results
for each table, and the picture of accuracy against seconds to docs/images; numbers in sentences are
taken from these tables (docs/numbers_in_prose.py). Methods since the paper come from
benchmarks/results/rivals_cuda.json. Without DEVIATIONS only the table of the icons is written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from beyond_picture import Point, draw

from zslearn.experiments import load_literature, load_published, read_records
from zslearn.experiments._names import method_style
from zslearn.experiments.analyses._records import compare_protocols
from zslearn.model_selection import METHODS

OUT = Path(__file__).parent / "results"
HEAD = ".. csv-table::\n   :header-rows: 1\n   :class: numbers\n   :delim: ;\n\n"
#: Metric, setting, factor and digits of a column.
ACCURACY = ("per_class_accuracy", "zsl", 100, 1)
TOP_5 = ("per_class_hit_at_5", "zsl", 100, 1)
AUSUC = ("ausuc", "gzsl", 1, 3)
PLAIN_H = ("harmonic", "zsl", 1, 3)
OWN_H = ("harmonic", "gzsl", 1, 3)
CALIBRATED = ("calibrated_harmonic", "gzsl", 1, 3)
SEEN = ("calibrated_seen", "gzsl", 1, 3)
UNSEEN = ("calibrated_unseen", "gzsl", 1, 3)
BEST_H = ("harmonic_best", "gzsl", 1, 3)
TEMPERATURE = ("temperature", "gzsl", 1, 1)
ODDS = ("unseen_odds", "gzsl", 1, 1)
#: Kinds of signatures: name in the records → name in the tables.
KINDS = {"": "attributes", "sent_splits": "sentences", "original_att + sent_splits": "both"}


class Results:
    """Numbers of records, by method and column."""

    def __init__(self, records: pd.DataFrame) -> None:
        self.records = records

    def where(self, **wanted: str) -> Results:
        """Those records only whose columns have these values."""
        kept = self.records
        for name, value in wanted.items():
            kept = kept[kept[name] == value]
        return Results(kept)

    def values(self, method: str, column: tuple[str, str, int, int]) -> np.ndarray:
        """What the runs gave, one number each."""
        metric, setting, factor, _ = column
        rows = self.records
        rows = rows[(rows.method == method) & (rows.setting == setting) & (rows.metric == metric)]
        return factor * rows.value.to_numpy(dtype=float)

    def cell(self, method: str, column: tuple[str, str, int, int], *, spread: bool = True) -> str:
        """Mean and, of several runs, standard deviation."""
        values = self.values(method, column)
        return self.shown(values, column[3], spread=spread) if len(values) else "–"

    @staticmethod
    def shown(values: np.ndarray, digits: int, *, spread: bool = True) -> str:
        """Mean and, of several runs, standard deviation."""
        text = f"{values.mean():.{digits}f}"
        return f"{text} ± {values.std(ddof=1):.{digits}f}" if spread and len(values) > 1 else text

    def methods(self) -> list[str]:
        """Methods with a record, in the order of the tables."""
        present = set(self.records.method)
        return [name for name in METHODS if name in present]

    def n_seeds(self, method: str) -> str:
        """How many seeds there are in the conventional and in the generalized setting."""
        counts = [len(self.values(method, column)) for column in (ACCURACY, AUSUC)]
        return str(counts[0]) if counts[0] == counts[1] else f"{counts[0]}, {counts[1]}"


def published(table: str, metric: str) -> dict[str, float]:
    """The paper's own column of CUB."""
    found = load_published()
    rows = found[(found.table == table) & (found.dataset == "CUB") & (found.metric == metric)]
    rows = rows[(rows.split == "ns") & (rows.reported_by != "")]
    return {row.method: float(row.value) for row in rows.itertuples()}


def name(method: str) -> str:
    """A method's name in reStructuredText."""
    return method.replace("*", r"\*")


def conventional(results: Results) -> Iterator[str]:
    """Accuracy beside the published one."""
    yield "method; accuracy; published; difference; seeds"
    paper = published("main", "per_class_accuracy")
    for method in results.methods():
        values = results.values(method, ACCURACY)
        if not len(values):
            continue
        theirs = paper.get(method)
        beside = (
            "–; –" if theirs is None else f"{theirs:.1f}; {values.mean() - theirs:+.1f}"
        ).replace("-", "−")
        yield f"{name(method)}; {results.cell(method, ACCURACY)}; {beside}; {len(values)}"


def generalized(results: Results) -> Iterator[str]:
    """AUSUC beside the published one, and harmonic means."""
    yield "method; AUSUC; published; H without calibration; H calibrated; S; U; seeds"
    paper = published("main", "ausuc")
    for method in results.methods():
        if not len(results.values(method, AUSUC)):
            continue
        theirs = f"{paper[method]:.3f}" if method in paper else "–"
        cells = [results.cell(method, AUSUC), theirs, results.cell(method, PLAIN_H)]
        cells += [results.cell(method, CALIBRATED)]
        cells += [results.cell(method, column, spread=False) for column in (SEEN, UNSEEN)]
        yield "; ".join([name(method), *cells, results.n_seeds(method)])


def authors(results: Results) -> Iterator[str]:
    """The authors' protocol beside the default one, each with the grid of the row."""
    columns = {"accuracy": ACCURACY, "AUSUC": AUSUC, "H calibrated": CALIBRATED}
    protocols = ("default", "authors")
    heads = [f"{column}, {protocol}" for column in columns for protocol in protocols]
    yield "; ".join(["method", "grid", *heads])
    for grid in ("fast", "paper"):
        parts = [results.where(grid=grid, protocol=protocol) for protocol in protocols]
        for method in parts[1].methods():
            cells = [part.cell(method, column) for column in columns.values() for part in parts]
            yield "; ".join([name(method), grid, *cells])


def deviations(results: Results) -> Iterator[str]:
    """What each part of the protocol is worth: differences from the default, same seeds."""
    yield "method; protocol; accuracy; AUSUC; H calibrated; seeds"
    columns = (ACCURACY, AUSUC, CALIBRATED)
    found = compare_protocols(results.records).set_index(["method", "choice", "metric"])
    default = results.where(protocol="default")
    for method in results.methods():
        cells = [default.cell(method, column) for column in columns]
        yield "; ".join([name(method), "default", *cells, default.n_seeds(method)])
        for protocol in sorted(set(results.records.protocol) - {"default"}):
            keys = [(method, protocol, column[0]) for column in columns]
            rows = [found.loc[key] if key in found.index else None for key in keys]
            if rows[0] is not None:
                cells = [
                    _difference(row, column) for row, column in zip(rows, columns, strict=True)
                ]
                counts = [0 if row is None else int(row.n_seeds) for row in rows[:2]]
                seeds = ", ".join(map(str, dict.fromkeys(counts)))
                yield "; ".join(["", protocol, *cells, seeds])


def _difference(row: pd.Series | None, column: tuple[str, str, int, int]) -> str:
    """Mean difference over the seeds that both have, with its spread."""
    if row is None:
        return "–"
    factor, digits = column[2:]
    text = f"{factor * row.difference:+.{digits}f}"
    spread = "" if np.isnan(row.deviation) else f" ± {factor * row.deviation:.{digits}f}"
    return (text + spread).replace("-", "−")


def class_splits(results: Results) -> Iterator[str]:
    """Means over the class splits."""
    yield "method; accuracy; AUSUC; H calibrated; splits"
    for method in results.methods():
        cells = [results.cell(method, column) for column in (ACCURACY, AUSUC, CALIBRATED)]
        yield "; ".join([name(method), *cells, results.n_seeds(method)])


def signatures(results: Results) -> Iterator[str]:
    """Attributes, sentences, and both."""
    yield "method; signatures; accuracy; AUSUC; H without a factor; H calibrated; seeds"
    several = set(results.where(semantic="sent_splits").records.method)
    for method in results.methods():
        for semantic, label in KINDS.items():
            part = results.where(semantic=semantic)
            if method in several and len(part.values(method, ACCURACY)):
                columns = (ACCURACY, AUSUC, OWN_H, CALIBRATED)
                cells = [part.cell(method, column) for column in columns]
                yield "; ".join([name(method), label, *cells, part.n_seeds(method)])


#: Methods of the table beside the rivals.
BESIDE = [
    "ESZSL",
    "SAE",
    "GFZSL",
    "SynC o-vs-o",
    "EXEM (ESZSL)",
    "EXEM (ESZSL, whitened)",
    "EXEM (SynC struct)",
    "EXEM (SynC struct, whitened)",
    "EXEM (1NN)",
    "EXEM (1NNs)",
    "EXEM (1NN, whitened)",
    "Gaussian EXEM",
]


def rivals() -> pd.DataFrame:
    """Methods since the paper, one row per method, classifier and seed."""
    path = OUT.parent.parent / "benchmarks" / "results" / "rivals_cuda.json"
    frame = pd.DataFrame(json.loads(path.read_text(encoding="utf-8"))["rows"])
    named = frame.classifier.replace("softmax", "").replace(
        "softmax, classes balanced", "classes balanced"
    )
    frame["name"] = [f"{m} ({c})" if c else m for m, c in zip(frame.method, named, strict=True)]
    # Only CUB has several kinds of signatures.
    frame["on"] = frame.data.where(frame.data != "CUB", "CUB, " + frame.signatures)
    return frame


#: A column that is not there.
NONE = pd.Series([np.nan])
COLUMNS = "accuracy; U; S; H; H calibrated; best H; AUSUC; seconds; seeds"


def beyond(results: Results, found: pd.DataFrame, *, of_concepts: bool = False) -> Iterator[str]:
    """Ours, then the rivals: accuracy, U, S and H without a factor, H with one, AUSUC, seconds.

    `of_concepts`: all methods, with the interval over unseen classes and the first five, without
    seconds, which are of several machines.
    """
    extra = ["interval", "top 5"] if of_concepts else []
    first, _, rest = COLUMNS.partition("; ")
    yield "; ".join(
        ["method", first, *extra, rest.replace("seconds; ", "" if extra else "seconds; ")]
    )
    for method in results.methods() if of_concepts else BESIDE:
        seconds = _seconds(results, method)
        if not len(results.values(method, AUSUC)) and np.isnan(seconds):
            continue
        cells = [results.cell(method, ACCURACY)]
        if of_concepts:
            widths = [_half_width(record["per_class"]) for record in _of_unseen(results, method)]
            cells += [f"± {100 * np.mean(widths):.1f}" if widths else "–"]
            cells += [results.cell(method, TOP_5)]
        cells += [results.cell(method, (n, "gzsl", 1, 3), spread=False) for n in ("unseen", "seen")]
        cells += [results.cell(method, column) for column in (OWN_H, CALIBRATED)]
        cells += [results.cell(method, BEST_H, spread=False), results.cell(method, AUSUC)]
        if not of_concepts:
            cells += ["–" if np.isnan(seconds) else f"{seconds:.0f}"]
        cells += [results.n_seeds(method)]
        yield "; ".join([name(method), *cells])
    for method, rows in found.groupby("name", sort=False):
        cells = _rival_cells(rows)
        if of_concepts:
            top_5 = Results.shown(100 * rows["T5"].to_numpy(), 1)
            cells[1:1] = [f"± {100 * rows['T1 interval'].mean():.1f}", top_5]
            del cells[-2]
        yield "; ".join([str(method), *cells])


def _half_width(accuracies: dict[str, float]) -> float:
    """Half of a 95 % interval of the mean over classes."""
    values = np.array(list(accuracies.values()))
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))


#: Methods of this library on CUB, split ns, as the authors report them: accuracy, U, S, H in %.
REPORTED = {
    "Class-Norm": (None, 49.9, 50.7, 50.3),
    "CADA-VAE": (61.8, 51.6, 53.5, 52.4),
    "f-CLSWGAN": (57.3, 43.7, 57.7, 49.7),
    "f-VAEGAN-D2": (61.0, 48.4, 60.1, 53.6),
}


def reported(found: pd.DataFrame) -> Iterator[str]:
    """What the authors of the rivals report, and what was measured here."""
    yield "method; whose; features; split; accuracy; U; S; H"
    since = load_literature().query("needs == 'fixed features' and semantic == 'attributes'")
    later = since.set_index("method")[["accuracy", "unseen", "seen", "harmonic"]].T
    for method, numbers in (REPORTED | later.to_dict("list")).items():
        cells = ["–" if pd.isna(number) else f"{number:.1f}" for number in numbers]
        yield "; ".join([method, "published", "ResNet-101", "ns, PS1 or PS2", *cells])
        for label in (method, f"{method} (classes balanced)", f"{method}, epochs tuned"):
            rows = found[found["name"] == label]
            if len(rows):
                cells = [f"{100 * rows[column].mean():.1f}" for column in ("T1", "U", "S", "H")]
                whose = "here" + label.removeprefix(method).replace(" (", ", ").removesuffix(")")
                yield "; ".join(["", whose, "EfficientNet-Lite0", "ns, PS1", *cells])


def gaussian(results: dict[str, Results]) -> Iterator[str]:
    """The library's own method on each data set, with the share of the best H that it comes to."""
    yield "data; accuracy; AUSUC; U; S; H; best H; ratio; T; odds; search and fit, s; seeds"
    method = "Gaussian EXEM"
    for label, part in results.items():
        if not len(part.values(method, AUSUC)):
            continue
        cells = [part.cell(method, column) for column in (ACCURACY, AUSUC)]
        cells += [part.cell(method, (n, "gzsl", 1, 3), spread=False) for n in ("unseen", "seen")]
        cells += [part.cell(method, column) for column in (OWN_H, BEST_H)]
        ratio = min(part.values(method, OWN_H) / part.values(method, BEST_H))
        cells += [f"{100 * ratio:.1f} %"]
        cells += [part.cell(method, column) for column in (TEMPERATURE, ODDS)]
        cells += [f"{_seconds(part, method):.0f}", part.n_seeds(method)]
        yield "; ".join([label, *cells])


def with_largest(rows: Iterator[str]) -> Iterator[str]:
    """The same rows; of accuracy, H and AUSUC the largest of the table in bold."""
    head, *table = ([cell.strip() for cell in row.split(";")] for row in rows)
    for at, column in enumerate(head):
        if column.split(",")[0] in ("accuracy", "top 5", "H", "H calibrated", "best H", "AUSUC"):
            means = [row[at].split(" ")[0] for row in table]
            largest = max((mean for mean in means if mean != "–"), key=float, default="")
            for row, mean in zip(table, means, strict=True):
                row[at] = f"**{row[at]}**" if mean == largest else row[at]
    yield from ("; ".join(row) for row in (head, *table))


#: Methods in the table of the guide.
IN_GUIDE = (
    *("Gaussian EXEM", "EXEM (SynC struct)", "EXEM (1NN)", "SynC o-vs-o"),
    *("ESZSL", "CADA-VAE", "Class-Norm"),
)


def guide(rows: Iterator[str]) -> Iterator[str]:
    """Accuracy, H and seconds of a few rows of `beyond`."""
    head, *table = (row.split("; ") for row in rows)
    kept = {row[0]: row for row in table if row[0] in IN_GUIDE}
    for row in (head, *(kept[method] for method in IN_GUIDE)):
        cells = (row[head.index(column)] for column in ("method", "accuracy", "H", "seconds"))
        yield "; ".join(cells)


def _rival_cells(rows: pd.DataFrame) -> list[str]:
    def cell(column: str, factor: int = 1, digits: int = 3, *, spread: bool = True) -> str:
        return Results.shown(factor * rows[column].to_numpy(), digits, spread=spread)

    return [
        cell("T1", 100, 1),
        cell("U", spread=False),
        cell("S", spread=False),
        cell("H"),
        # Only the folds of a search give a factor.
        cell("H calibrated") if rows.get("H calibrated", NONE).notna().all() else "–",
        cell("largest H of any factor", spread=False),
        cell("AUSUC"),
        # Further classifiers learn from what the generator of the first made.
        f"{rows.fit_seconds.mean():.0f} (GPU)"
        if rows.classifier.isin(["", "softmax"]).all()
        else "with it",
        str(len(rows)),
    ]


def _of_unseen(results: Results, method: str) -> list[Any]:
    """Whole records of a method in the conventional setting."""
    rows = results.records
    files = rows[(rows.method == method) & (rows.setting == "zsl")].file.unique()
    return [json.loads(Path(sys.argv[1], file).read_text(encoding="utf-8")) for file in files]


def _seconds(results: Results, method: str) -> float:
    """Seconds of search and fit in the conventional setting, one core: the median of the runs."""
    times = [record["times"]["tune_and_fit"] for record in _of_unseen(results, method)]
    return float(np.median(times)) if times else np.nan


def dates(records: pd.DataFrame) -> Iterator[str]:
    """When the runs of each data set were made."""
    yield "data; first; last"
    for dataset, part in records.groupby("dataset"):
        files = [Path(sys.argv[1]) / file for file in part.file.unique()]
        days = [json.loads(file.read_text(encoding="utf-8"))["written"][:10] for file in files]
        yield f"{dataset}; {min(days)}; {max(days)}"


def points(results: Results, found: pd.DataFrame) -> Iterator[Point]:
    """Ours, then the networks as they were published."""
    for method in BESIDE:
        values = results.values(method, ACCURACY)
        if len(values):
            color = method_style(method).color
            yield Point(method, _seconds(results, method), values.mean(), color, False)
    kept = found[found.classifier.isin(["", "softmax"]) & ~found.method.str.endswith("tuned")]
    for method, rows in kept.groupby("method"):
        yield Point(str(method), rows.fit_seconds.mean(), 100 * rows.T1.mean(), "0.35", True)


def main() -> None:
    """Write the table of the icons, and with records of deviations every other one."""
    runs, found = read_records(sys.argv[1]), rivals()
    every = Results(runs).where(protocol="default", grid="fast")
    of_icons = beyond(every.where(dataset="icons"), found[found.on == "icons"], of_concepts=True)
    tables = {"beyond_icons": with_largest(of_icons)}
    if len(sys.argv) > 2:
        tables |= other_tables(runs, read_records(sys.argv[2]), found)
    OUT.mkdir(exist_ok=True)
    for table, rows in tables.items():
        lines = "".join(f"   {row}\n" for row in rows)
        (OUT / f"{table}.inc").write_text(HEAD + lines, encoding="utf-8")


def other_tables(
    runs: pd.DataFrame, varied: pd.DataFrame, found: pd.DataFrame
) -> dict[str, Iterator[str]]:
    """Tables of CUB and glyphs; the picture is drawn."""
    for frame in (runs, varied):
        frame["semantic"] = frame.semantic.fillna("")
    every = Results(runs).where(protocol="default", grid="fast")
    of_glyphs = every.where(dataset="glyphs", split="ns")
    runs = runs[runs.dataset == "CUB"]
    results = Results(runs)
    proposed = results.where(split="ns")
    ours = proposed.where(protocol="default", semantic="", grid="fast")
    # Runs under the default protocol, wherever they were written.
    both = pd.concat([varied, ours.records[ours.records.method.isin(set(varied.method))]])
    with_default = Results(
        both.drop_duplicates(["method", "setting", "metric", "protocol", "seed"])
    )
    of_splits = Results(runs[runs.split.str.startswith("ss-")])
    tables = {
        "runs": dates(every.records),
        "conventional": conventional(ours),
        "generalized": generalized(ours),
        "authors": authors(proposed.where(semantic="")),
        "deviations": deviations(with_default),
        "class_splits": class_splits(of_splits),
        "signatures": signatures(proposed.where(protocol="default", grid="fast")),
    }
    of_kinds = proposed.where(protocol="default", grid="fast")
    ours_by_data = {f"CUB, {label}": of_kinds.where(semantic=kind) for kind, label in KINDS.items()}
    ours_by_data["glyphs"] = of_glyphs
    tables["gaussian"] = gaussian(ours_by_data)
    tables["reported"] = reported(found[found.on == "CUB, attributes"])
    for label, part in ours_by_data.items():
        place = label.removeprefix("CUB, ")
        tables[f"beyond_{place}"] = with_largest(beyond(part, found[found.on == label]))
    on_attributes = ours_by_data["CUB, attributes"], found[found.on == "CUB, attributes"]
    tables["guide"] = with_largest(guide(beyond(*on_attributes)))
    panels = {
        label: list(points(ours_by_data[label], found[found.on == label]))
        for label in ("CUB, attributes", "CUB, sentences")
    }
    draw(panels, OUT.parent / "images" / "beyond.png")
    return tables


if __name__ == "__main__":
    main()
