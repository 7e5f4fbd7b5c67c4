"""Draw what the benchmarks have measured: tables and pictures for the documentation.

Reads `benchmarks/results/*.json` and writes `docs/benchmarks_results.inc`,
`docs/suggest_results.inc`, `docs/results/adapt_sets.inc` and `docs/images/benchmarks.png`; with
--quick it reads and writes in `benchmarks/results/quick`.

    python benchmarks/draw.py
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from _common import RESULTS

DOCS = Path(__file__).parent.parent / "docs"
# In this order on the page; what is not named comes after.
ORDER = [
    "scoring", "nu_svr", "sync", "exem", "search", "curve", "classes", "memory", "import",
]  # fmt: skip

# Records that pages describe in words or show in tables of their own.
ELSEWHERE = (
    "imagenet_cuda", "rivals_cuda", "suggest", "tables", "one_example", "adapt_sets", "adapt_tuned",
    "adapt_calibration",
)  # fmt: skip
# Records whose "ratio" is a peer's time by ours; that of others is another one.
DRAWN = {
    "scoring": "scoring",
    "nu_svr": "ν-SVR",
    "sync": "SynC",
    "exem": "EXEM",
    "curve": "AUSUC, sweep over 200 factors",
}


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Records by name, in the order of the page."""
    paths = [path for path in sorted(folder.glob("*.json")) if path.stem not in ELSEWHERE]
    found = {path.stem: json.loads(path.read_text()) for path in paths}
    names = [name for name in ORDER if name in found]
    return {name: found[name] for name in [*names, *(n for n in found if n not in names)]}


def shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value)
    if isinstance(value, list):
        return ", ".join(shown(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(item)}" for key, item in value.items())
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def minutes(seconds: float) -> str:
    """A duration to read."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def table(record: dict[str, Any]) -> list[str]:
    """A record as reStructuredText."""
    machine = record.get("machine", {})
    where = machine.get("device") or machine.get("processor", "")
    lines = [record["title"], "-" * len(record["title"]), ""]
    lines += [
        f"{record['date']}, {machine.get('cores', '?')} cores"
        + (f", {machine['blas_threads']} BLAS threads" if "blas_threads" in machine else "")
        + f", {where}, Python "
        f"{machine.get('python', '?')}: "
        + ", ".join(f"``{command}``" for command in record["command"].split("; "))
        + (f", {minutes(record['seconds'])}" if "seconds" in record else ""),
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "",
    ]
    columns = list(dict.fromkeys(key for row in record["rows"] for key in row))
    for cells in (
        [name.replace("_", " ") for name in columns],
        *([shown(row.get(name)) for name in columns] for row in record["rows"]),
    ):
        lines += [f"   {'*' if i == 0 else ' '} - {cell}".rstrip() for i, cell in enumerate(cells)]
    return [*lines, ""]


def suggestions(record: dict[str, Any]) -> list[str]:
    """The curves of `bench_suggest.py` as a table."""
    rows = [row for row in record["rows"] if "mean" in row]
    steps = [name for name in rows[0] if name.replace(".", "").isdigit()]
    lines = [".. csv-table::", "   :header-rows: 1", "   :class: numbers", "   :delim: ;", ""]
    for cells in (
        ["data", "choice", *steps, "mean", "over random"],
        *(
            [
                *row["what"].rsplit(", ", 1),
                *(f"{row[name]:.1f}" for name in (*steps, "mean")),
                f"{row['over_random']:+.1f} ± {row['error']:.1f}".replace("-", "−")
                if "over_random" in row
                else "–",
            ]
            for row in rows
        ),
    ):
        lines.append(f"   {'; '.join(cells)}")
    return [*lines, ""]


def adaptations(record: dict[str, Any]) -> list[str]:
    """The gains by kinds of unlabelled sets of `bench_adapt.py --sets` as a table."""
    # Rows without "accepted" measure something else than an adaptation.
    kinds = list(dict.fromkeys(row["kind"] for row in record["rows"] if "accepted" in row))
    lines = [
        ".. csv-table::", "   :header-rows: 1", "   :class: numbers", "   :delim: ;", "",
        f"   {'; '.join(['data', 'without', *kinds])}",
    ]  # fmt: skip
    for name in dict.fromkeys(row["data"] for row in record["rows"]):
        rows = {row["kind"]: row for row in record["rows"] if row["data"] == name}
        cells = [f"{rows[kind]['gain']:+.1f}".replace("-", "−") for kind in kinds]
        before = f"{rows[kinds[0]]['before']:.1f}"
        lines.append(f"   {'; '.join([name, before, *cells])}")
    return [*lines, ""]


def label(row: dict[str, Any]) -> str:
    """The fields that distinguish a row from the others of its record."""
    words = [v for v in row.values() if isinstance(v, str) and v][:2]
    sizes = ("rows", "classes", "dims", "k", "gamma")
    numbers = [f"{key} {shown(row[key])}" for key in sizes if isinstance(row.get(key), int | float)]
    return ", ".join([*words, *numbers])


def draw(records: dict[str, dict[str, Any]], path: Path) -> None:
    """A bar for each ratio against a peer; right of the line we are faster.

    A pale bar is the least that the ratio can be: the peer was stopped before it was done.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    bars = [
        (f"{DRAWN[name]}: {label(row)}", float(row["ratio"]), row.get("reached") is not False)
        for name, record in records.items()
        for row in record["rows"]
        if name in DRAWN and isinstance(row.get("ratio"), int | float)
    ]
    if not bars:
        return
    figure, axes = plt.subplots(figsize=(8, 0.22 * len(bars) + 1), layout="constrained")
    names, ratios, ended = zip(*reversed(bars), strict=True)
    colors = [
        "#c0504d" if r < 1 else "#3b6ea5" if e else "#9dbbdb"
        for r, e in zip(ratios, ended, strict=True)
    ]
    axes.barh(range(len(bars)), [ratio - 1 for ratio in ratios], left=1, color=colors)
    for place, (ratio, end) in enumerate(zip(ratios, ended, strict=True)):
        text = f" {shown(ratio)}" if end else f" {shown(ratio)} or more"
        axes.text(max(ratio, 1), place, text, va="center", fontsize=5)
    axes.set(xscale="log", yticks=range(len(bars)), xlabel="peer's time by ours")
    axes.set_xlim(min(0.8, *ratios), 2 * max(ratios))
    axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}×"))
    axes.set_yticklabels(names, fontsize=6)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.margins(y=0.01)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="what --quick has measured")
    quick = parser.parse_args().quick
    folder = RESULTS / "quick" if quick else RESULTS
    records = {name: r for name, r in read(folder).items() if "rows" in r}
    lines = [line for record in records.values() for line in table(record)]
    results = folder / "results.inc" if quick else DOCS / "benchmarks_results.inc"
    picture = folder / "benchmarks.png" if quick else DOCS / "images" / "benchmarks.png"
    draw(records, picture)
    texts = {results: lines}
    if not quick and (sets := folder / "adapt_sets.json").exists():
        texts[DOCS / "results" / "adapt_sets.inc"] = adaptations(json.loads(sets.read_text()))
    if (curves := folder / "suggest.json").exists():
        texts[(folder if quick else DOCS) / "suggest_results.inc"] = suggestions(
            json.loads(curves.read_text())
        )
    for path, written in texts.items():
        path.write_text("\n".join(written), encoding="utf-8")
    print(*texts, picture, sep="\n")


if __name__ == "__main__":
    main()
