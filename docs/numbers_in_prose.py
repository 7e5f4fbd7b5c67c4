"""Substitutions for measured numbers in the documentation, which conf.py defines.

- ``|TABLE > ROW > COLUMN|`` is a cell of docs/results/TABLE.inc, which is rendered from records. A
  row is identified by its first cell, by its first two joined by ", ", or as "1st in COLUMN", "2nd
  in COLUMN", … from the largest. ``> mean`` at the end omits the deviation, and ``> hit@5`` selects
  a part of a cell such as "hit@1 / hit@5".
- ``|NAME.json > KEY > … > FORMAT|`` is a rounded value of benchmarks/results/NAME.json; a row of
  "rows" is identified by one of its values, which is omitted if there is only one row.
- Any other name is one of `DERIVED`, or "settings of METHOD".

``python docs/numbers_in_prose.py`` prints the substitutions that the pages use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from sklearn.model_selection import ParameterGrid

from zslearn.experiments import load_published
from zslearn.model_selection import METHODS, named_grid

DOCS = Path(__file__).parent
RECORDS = DOCS.parent / "benchmarks" / "results"
Row = dict[str, str]


@cache
def table(name: str) -> list[Row]:
    """Rows of a table by their heads; an empty first cell is that of the row above."""
    lines = (DOCS / "results" / f"{name}.inc").read_text(encoding="utf-8").split("\n\n", 1)[1]
    head, *rows = (
        [cell.strip() for cell in line.split(";")] for line in lines.splitlines() if line
    )
    found: list[Row] = []
    for row in rows:
        cells = [cell.replace("**", "") for cell in row]
        cells[0] = cells[0] or found[-1][head[0]]
        found.append(dict(zip(head, cells, strict=True)))
    return found


def number(cell: str) -> float:
    """The first number of a cell; NaN where there is none."""
    match = re.match(r"[+−-]?[\d,]*\.?\d+", cell)
    return float(match[0].replace("−", "-").replace(",", "")) if match else float("nan")


def find_row(name: str, row: str) -> Row:
    """A row of a table by its name, or by its place in the order of a column."""
    rows = table(name)
    if place := re.fullmatch(r"(\d+)(?:st|nd|rd|th) in (.*)", row):
        known = [r for r in rows if number(r[place[2]]) == number(r[place[2]])]
        return sorted(known, key=lambda r: -number(r[place[2]]))[int(place[1]) - 1]
    for found in rows:
        cells = [cell.replace("\\", "") for cell in found.values()]
        if row in (cells[0], ", ".join(cells[:2])):
            return found
    raise LookupError(f"{name} has no row {row!r}.")


def cell(name: str, row: str, column: str, part: str = "") -> str:
    """A cell of a table, or a part of it."""
    found = find_row(name, row)
    text = found[column]
    if part.startswith("hit@"):
        kinds = (column if "hit@" in column else next(iter(found))).split(" / ")
        text = text.split(" / ")[kinds.index(part)]
    text = re.sub("^-", "−", text)
    return text if not part else text.split(" ± ")[0]


def value(name: str, *keys: str) -> str:
    """A value of a record of the benchmarks, in the format that comes last."""
    found: Any = json.loads((RECORDS / name).read_text(encoding="utf-8"))["rows"]
    found = found[0] if len(found) == 1 else found
    for key in keys[:-1]:
        if isinstance(found, list):
            found = next(row for row in found if key in row.values())
        else:
            found = found[key]
    return format(found, keys[-1]).replace("%", " %")


# What follows from several cells.


def mean(name: str, row: str, column: str, part: str = "mean") -> float:
    """The number of a cell."""
    return number(cell(name, row, column, part))


def span(values: Iterator[float], digits: int = 1) -> str:
    """From the smallest to the largest."""
    found = sorted(values)
    return f"{found[0]:.{digits}f} to {found[-1]:.{digits}f}".replace("-", "−")


def signed(difference: float, digits: int = 1) -> str:
    """A difference with its sign."""
    return f"{difference:+.{digits}f}".replace("-", "−")


def apart(column: str, digits: int) -> str:
    """The largest difference between the default and the authors' protocol with one grid."""
    rows = [
        (number(r[f"{column}, default"]), number(r[f"{column}, authors"])) for r in table("authors")
    ]
    return f"{max(abs(a - b) for a, b in rows if a == a and b == b):.{digits}f}"


def gained(name: str, column: str) -> dict[str, float]:
    """Methods with a published number beside ours, and how much higher ours is."""
    gains = {r["method"]: number(r[column]) - number(r["published"]) for r in table(name)}
    return {method: gain for method, gain in gains.items() if gain == gain}


def lower() -> str:
    """Methods whose accuracy is not above the published one."""
    gains = gained("conventional", "accuracy")
    return ", ".join(f"{method} ({signed(gain)})" for method, gain in gains.items() if gain <= 0)


def ahead(method: str) -> int:
    """How many methods are ahead of one in the paper's accuracy on CUB."""
    found = load_published("main").query("dataset == 'CUB' and setting == 'zsl'")
    return int((found["value"] > found.set_index("method")["value"][method]).sum())


def of_kinds(first: str, second: str, methods: tuple[str, ...] = ()) -> Iterator[float]:
    """How much more accuracy methods have with one kind of signatures than with another."""
    both = {r["method"] for r in table("signatures") if r["signatures"] == first}
    for method in methods or sorted(both):
        a, b = (mean("signatures", f"{method}, {kind}", "accuracy") for kind in (first, second))
        if a == a and b == b:
            yield a - b


def over_neighbours(method: str) -> str:
    """Points of hit@1 of a method over the mean of neighbours, on the whole graph."""
    column = "hit@1 / hit@5"
    gain = mean("imagenet_whole", method, column, "hit@1")
    return f"{100 * (gain - mean('imagenet_whole', 'mean of neighbours', column, 'hit@1')):.1f}"


def gains(kind: str, k: int) -> str:
    """What three tuned methods gain from combined signatures."""
    methods = ("ESZSL", "SynC o-vs-o", "EXEM (1NN)")
    return span(mean("imagenet_combined", m, f"{kind}: hit@{k}") for m in methods)


def settings(method: str) -> int:
    """How many settings the fast grid of a method has."""
    return len(ParameterGrid(named_grid(METHODS[method].make(), "fast")))


def records(name: str) -> list[dict[str, Any]]:
    """The rows of a record."""
    found: list[dict[str, Any]] = json.loads((RECORDS / f"{name}.json").read_text())["rows"]
    return found


def largest(name: str, column: str) -> float:
    """The largest value of a column of a record."""
    return max(row[column] for row in records(name))


def record(name: str, **wanted: Any) -> dict[str, Any]:
    """The row of a record with these values."""
    return next(row for row in records(name) if wanted.items() <= row.items())


def rounded(value: float) -> str:
    """A number with two digits."""
    return f"{value:.2g}" if value < 10 else f"{float(f'{value:.2g}'):,.0f}"


def hours(*parts: str, cores: int = 1) -> float:
    """Hours of 10⁹ images and 10⁶ classes.

    Rates are measured; scores take as many times longer as there are more classes.
    """
    return 1e9 * sum(_SECONDS_PER_IMAGE[part]() for part in parts) / 3600 / cores


def terabytes(what: str) -> float:
    """Size of 10⁹ images, or of their features."""
    return record("shards", job="read")["bytes_per_image"] / 1e3 if what == "images" else 2.048


def _of_classes(rows: float, seconds: float, classes: float) -> float:
    return seconds / rows * 1e6 / classes


def _described(method: str) -> float:
    row = record("classes", method=f"{method}, described", work="top 5, rows: 1024")
    return _of_classes(1024, row["seconds"], row["classes"])


def _all_scores() -> float:
    row = record("scoring", classes=20_000, k=5)
    return _of_classes(row["rows"], row["dot_s"], row["classes"])


def _on_a_gpu() -> float:
    row = record("imagenet_cuda", part="millions")
    return _of_classes(row["rows"], row["score_all_s"], row["classes"])


#: Step of the plan for many images → core seconds per image, or seconds of a GPU.
_SECONDS_PER_IMAGE: dict[str, Callable[[], float]] = {
    "images": lambda: 1 / record("shards", job="read")["images_per_core_second"],
    "network": lambda: 1 / record("shards", job="network")["images_per_core_second"],
    "npy": lambda: 1 / record("streaming", job="npy")["rows_per_core_second"],
    "features": lambda: 1 / record("streaming", job="parquet")["rows_per_core_second"],
    "ESZSL": lambda: _described("ESZSL"),
    "EXEM": lambda: _described("EXEM"),
    "all scores": _all_scores,
    "GPU": _on_a_gpu,
}


#: Name → what computes it.
DERIVED: dict[str, Callable[[], Any]] = {
    "accuracies beside published ones": lambda: len(gained("conventional", "accuracy")),
    "accuracies that are not higher": lower,
    "AUSUCs beside published ones": lambda: len(gained("generalized", "AUSUC")),
    "AUSUCs that are higher": lambda: sum(g > 0 for g in gained("generalized", "AUSUC").values()),
    "accuracy between protocols": lambda: apart("accuracy", 1),
    "AUSUC between protocols": lambda: apart("AUSUC", 3),
    "H between protocols": lambda: apart("H calibrated", 3),
    "H with ten folds": lambda: span(
        (-number(r["H calibrated"]) for r in table("deviations") if r["protocol"] == "ten folds"), 3
    ),
    "methods ahead of GFZSL in the paper": lambda: ahead("GFZSL"),
    "methods ahead of GFZSL": lambda: sum(
        number(r["accuracy"]) > mean("conventional", "GFZSL", "accuracy")
        for r in table("conventional")
    ),
    "sentences over attributes": lambda: span(of_kinds("sentences", "attributes")),
    "EXEM over methods": lambda: span(
        mean("conventional", f"EXEM ({m})", "accuracy") - mean("conventional", m, "accuracy")
        for m in ("ESZSL", "SynC o-vs-o", "SynC cs", "SynC struct")
    ),
    "spread over class splits": lambda: span(
        number(r["accuracy"].partition("± ")[2])
        for r in table("class_splits")
        if "±" in r["accuracy"]
    ),
    "most settings": lambda: max(settings(m) for m in METHODS if m != "Gaussian EXEM"),
    "hit@1 from words and hierarchy": lambda: gains("words + hie", 1),
    "hit@1 from all kinds": lambda: gains("words + text + hie", 1),
}
#: Example of machines → the steps, the number of cores, and what they read.
_EXAMPLES: dict[str, tuple[tuple[str, ...], int, str]] = {
    "images": (("images", "network", "EXEM"), 16 * 64, "images"),
    "EXEM on 64 cores": (("features", "EXEM"), 64, "features"),
    "ESZSL on 64 cores": (("features", "ESZSL"), 64, "features"),
    "GPU": (("GPU",), 1, "features"),
}
for part in _SECONDS_PER_IMAGE:
    DERIVED[f"plan: {part}"] = lambda part=part: rounded(hours(part))
    DERIVED[f"plan: {part} per second"] = lambda part=part: rounded(1 / _SECONDS_PER_IMAGE[part]())
for name, (parts, cores, what) in _EXAMPLES.items():
    DERIVED[f"plan: core hours of {name}"] = lambda p=parts: rounded(hours(*p))
    DERIVED[f"plan: hours of {name}"] = lambda p=parts, c=cores: rounded(hours(*p, cores=c))
    DERIVED[f"plan: MB/s of {name}"] = lambda p=parts, c=cores, w=what: rounded(
        terabytes(w) * 1e6 / 3600 / hours(*p, cores=c) / max(1, c // 64)
    )
DERIVED |= {
    "plan: minutes of 10,000 images": lambda: rounded(
        hours("images", "network", "EXEM") * 60 / 1e5
    ),
    "plan: minutes of 10,000 features": lambda: rounded(hours("features", "EXEM") * 60 / 1e5),
    "plan: core hours of a GPU hour": lambda: rounded(hours("EXEM") / hours("GPU")),
    "plan: terabytes of images": lambda: rounded(terabytes("images")),
    # The head in single precision, as in the record, and the signatures.
    "plan: gigabytes of the model": lambda: (
        f"{1e6 * 4 * (512 + 128) / 1e9 * record('classes', work='open')['file_over_held']:.1f}"
    ),
    "batches: most time": lambda: f"{largest('batches', 'cost_of_blocks'):.1f}",
    "batches: changed rows": lambda: span(
        (100 * row["changed_rows"] for row in records("batches")), 0
    ),
    "batches: largest change": lambda: f"{largest('batches', 'largest_change') * 1e6:.1f}",
}
DERIVED |= {
    f"both beside sentences, {m}": lambda m=m: signed(next(of_kinds("both", "sentences", (m,))))
    for m in ("ESZSL", "EXEM (1NN)", "Gaussian EXEM")
}
DERIVED |= {
    f"{m} over the mean of neighbours": lambda m=m: over_neighbours(m) for m in ("SGCN", "DGP")
}


def resolve(name: str) -> str:
    """The text of a number."""
    first, *keys = name.split(" > ")
    if first.endswith(".json"):
        return value(first, *keys)
    if keys:
        return cell(first, *keys)
    if name.startswith("settings of "):
        return str(settings(name.removeprefix("settings of ")))
    return str(DERIVED[name]())


def used() -> set[str]:
    """Names of the numbers in the pages."""
    pages = [*DOCS.glob("*.rst"), *DOCS.glob("*.inc"), *DOCS.glob("[a-z]*/*.rst")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    # Formulas have backslashes between or before their bars.
    names = re.findall(r"(?<!\\)\|(\w[^|\\`]*\s[^|\\`]*)\|", text)
    return {" ".join(name.split()) for name in names}


def substitutions() -> str:
    """Definitions of all numbers, for the end of every page."""
    return "\n".join(f".. |{name}| replace:: {resolve(name)}" for name in sorted(used()))


if __name__ == "__main__":
    print(substitutions())
