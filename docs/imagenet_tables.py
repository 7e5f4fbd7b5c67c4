"""Tables of the ImageNet page from records: ``python docs/imagenet_tables.py FOLDER``.

FOLDER holds the records of ``zslearn demo imagenet --recipe published`` in ``track``, of the same
with ``--graph whole`` in ``whole``, of ``zslearn bench
imagenet`` over the generated store in ``bench``, and of ``zslearn bench CUB`` and ``zslearn bench
glyphs`` with graph methods in ``cub`` and ``glyphs``; and what training over the whole graph took,
in ``whole_cost`` and ``cpu_memory``. What is not there is left as it is. One file of rows is
written to docs/results for each table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from zslearn.experiments import TRACK_METHODS, TRACK_SIGNATURES, read_records

OUT = Path(__file__).parent / "results"
HEAD = ".. csv-table::\n   :header-rows: 1\n   :class: numbers\n   :delim: ;\n\n"
BASELINE = "mean of neighbours"
GRAPH_METHODS = ("GCNZ", "SGCN", "DGP")
SETS = ("2-hop", "3-hop", "most-500", "most-1K", "least-500", "least-1K", "all")


def write(name: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write one table."""
    lines = [f"   {'; '.join(row)}\n" for row in (header, *rows)]
    (OUT / f"imagenet_{name}.inc").write_text(HEAD + "".join(lines), encoding="utf-8")


def mean_and_spread(values: np.ndarray, digits: int = 3) -> str:
    """Mean and standard deviation of some numbers; a dash where there are none."""
    if not len(values):
        return "–"
    text = f"{values.mean():.{digits}f}"
    return f"{text} ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else text


class Hits:
    """hit@1 and hit@5 by method, kind of signatures and split."""

    def __init__(self, folder: Path) -> None:
        records = read_records(sorted(folder.rglob("*.json")))
        records = records.drop_duplicates(["method", "semantic", "seed", "metric"])
        self.values = records.set_index(["method", "semantic", "metric", "seed"])["value"]

    def of(self, method: str, kind: str, k: int) -> pd.Series:
        """One number per split, by seed."""
        key = (method, kind, f"flat_hit_at_{k}")
        if key not in self.values.index:
            return pd.Series(dtype=float)
        return self.values.loc[key].sort_index()

    def cell(self, method: str, kind: str) -> str:
        """Both, as mean and spread."""
        both = [mean_and_spread(self.of(method, kind, k).to_numpy()) for k in (1, 5)]
        return " / ".join(both) if both[0] != "–" else "–"


def track(folder: Path, suffix: str = "") -> None:
    """Methods by kinds of signatures, and what combining gains, of one network."""
    hits = Hits(folder)
    rows = [[BASELINE, "–", "–", hits.cell(BASELINE, "hie"), "–", "–"]]
    methods = [
        m for m in TRACK_METHODS if any(len(hits.of(m, kind, 1)) for kind in TRACK_SIGNATURES)
    ]
    rows += [
        [method, *(hits.cell(method, kind) for kind in TRACK_SIGNATURES)] for method in methods
    ]
    write(f"track{suffix}", ["hit@1 / hit@5", *TRACK_SIGNATURES], rows)
    combined = {kind: parts for kind, parts in TRACK_SIGNATURES.items() if len(parts) > 1}
    gains = [
        [method, *(gain(hits, method, kind, k) for kind in combined for k in (1, 5))]
        for method in methods
    ]
    heads = [f"{kind}: hit@{k}" for kind in combined for k in (1, 5)]
    write(f"combined{suffix}", ["gain in points", *heads], gains)
    if not suffix:
        losses(folder)


def gain(hits: Hits, method: str, kind: str, k: int) -> str:
    """What a combined kind has over the best of its parts, split by split."""
    single = pd.DataFrame({part: hits.of(method, part, k) for part in TRACK_SIGNATURES[kind]})
    if not len(single) or single.isna().any(axis=None):
        return "–"
    # The part that is best on average, not on each split.
    best = single[single.mean().idxmax()]
    points = 100 * (hits.of(method, kind, k) - best).dropna().to_numpy(dtype=float)
    if not len(points):
        return "–"
    return f"{mean_and_spread(points, 1)} ({(points > 0).sum()} of {len(points)})"


def losses(folder: Path) -> None:
    """First and last loss of graph methods, by kind."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for path in folder.rglob("*.json"):
        record = json.loads(path.read_text())
        if "loss" in record:
            curve = {int(epoch): value for epoch, value in record["loss"].items()}
            ends = curve[min(curve)], curve[max(curve)]
            found.setdefault((record["method"], record["semantic"]), []).append(ends)
    rows = []
    for method in GRAPH_METHODS:
        ends = [
            np.array(found.get((method, kind), [(np.nan, np.nan)])) for kind in TRACK_SIGNATURES
        ]
        rows.append([method, *(f"{e[:, 0].mean():.2f} → {e[:, 1].mean():.3f}" for e in ends)])
    write("losses", ["loss", *TRACK_SIGNATURES], rows)


def whole(folder: Path) -> None:
    """Graph methods over all nodes: hits, loss, seconds and memory."""
    hits = Hits(folder / "whole" / "efficientnet_lite0")
    costs = [json.loads(path.read_text()) for path in (folder / "whole_cost").glob("*.json")]
    memory = {
        row["method"]: row
        for row in (json.loads(path.read_text()) for path in (folder / "cpu_memory").glob("*.json"))
    }
    rows = [[BASELINE, hits.cell(BASELINE, "hie"), *["–"] * 5]]
    curves = []
    for method in GRAPH_METHODS:
        runs = [cost for cost in costs if cost["method"] == method]
        if not runs:
            continue
        first, last = (
            np.array([values[pick(values, key=int)] for values in (run["loss"] for run in runs)])
            for pick in (min, max)
        )
        seconds, peak = (
            np.array([run[key] for run in runs]) for key in ("train_s", "gpu_peak_gib")
        )
        cpu = memory.get(method)
        rows.append(
            [
                method,
                hits.cell(method, "words"),
                f"{runs[0]['epochs']:,}",
                f"{first.mean():.3f} → {mean_and_spread(last)}",
                mean_and_spread(seconds, 0),
                f"{peak.max():.2f} GiB",
                f"{cpu['peak_gib']:.2f} GiB" if cpu else "–",
            ]
        )
        epochs = sorted({int(epoch) for run in runs for epoch in run["loss"]})
        means = [np.mean([run["loss"][str(e)] for run in runs]) for e in epochs]
        curves.append([method, *(f"{value:.3f}" for value in means)])
    header = ["method", "hit@1 / hit@5", "epochs", "loss", "GPU, seconds", "GPU memory"]
    write("whole", [*header, "CPU memory"], rows)
    marks = ["1", "10", "30", "100", "300", "1,000", "2,000", "3,000"]
    write("curves", ["epoch", *marks], [[*row, *["–"] * (9 - len(row))] for row in curves])


def bench(folder: Path) -> None:
    """Per-class accuracy on the generated store, by method, kind and test set."""
    for part, name in (("whole", "store"), ("half", "store_ideal")):
        records = read_records(sorted((folder / part).glob("*.json")))
        records = records[records["metric"] == "per_class_accuracy"]
        value = records.set_index(["method", "semantic", "subset"])["value"]
        rows = [
            [f"{method} · {kind}", *(f"{100 * value[method, kind, s]:.1f}" for s in SETS)]
            for method, kind in dict.fromkeys(value.index.droplevel("subset"))
            # A run that was stopped while it wrote its records has no row.
            if all((method, kind, s) in value.index for s in SETS)
        ]
        write(name, ["method · signatures", *SETS], sorted(rows))
    seconds: dict[str, dict[str, float]] = {}
    for path in (folder / "whole").glob("*.json"):
        record = json.loads(path.read_text())
        seconds.setdefault(record["method"], {})[record["semantic"]] = record["times"]["tune"]
    kinds = sorted({kind for of_method in seconds.values() for kind in of_method})
    rows = [
        [method, *(f"{taken[kind]:.0f}" if kind in taken else "–" for kind in kinds)]
        for method, taken in sorted(seconds.items())
    ]
    write("store_seconds", ["seconds", *kinds], rows)


def graph_methods(folder: Path, name: str) -> None:
    """Graph methods on another data set, over seeds of the folds."""
    records = read_records(sorted(folder.rglob("*.json")))
    accuracy = records[records["metric"] == "per_class_accuracy"]
    rows = []
    for start in GRAPH_METHODS:
        for method in sorted(m for m in accuracy["method"].unique() if m.startswith(start)):
            values = 100 * accuracy[accuracy["method"] == method]["value"].to_numpy(dtype=float)
            rows.append([method, str(len(values)), mean_and_spread(values, 1)])
    write(name, ["method", "seeds", "per-class accuracy"], rows)


def main(folder: Path) -> None:
    """Write the tables whose records are there."""
    OUT.mkdir(exist_ok=True)
    tracks = {
        "track/efficientnet_lite0": "",
        "track/resnet50": "_resnet50",
    }
    for place, suffix in tracks.items():
        if (folder / place).is_dir():
            track(folder / place, suffix)
    if (folder / "whole_cost").is_dir():
        whole(folder)
    if (folder / "bench").is_dir():
        bench(folder / "bench")
    for name in ("cub", "glyphs"):
        if (folder / name).is_dir():
            graph_methods(folder / name, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
