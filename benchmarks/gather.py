"""Put records that were measured in parts, on another machine, into `benchmarks/results`.

Each folder below FOLDER holds what a job wrote: `sync_cs/sync_cs.json`, `search_0/search.json` and
so on. Rows of parts of one record are joined in the order of the jobs' names; the machine and the
date are those of the first part. A record of a job that was run whole is copied.

    python benchmarks/gather.py FOLDER
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from _common import RESULTS

# Beginnings of records that come in parts → the record.
PARTS = {"sync_": "sync", "search_": "search", "memory_": "memory"}


def record_name(job: str, file: str) -> str:
    """The record that a file of a job belongs to."""
    for beginning, name in PARTS.items():
        if job.startswith(beginning) and "cuda" not in job:
            return name
    return file


def joined(records: list[dict[str, Any]]) -> dict[str, Any]:
    """One record of several parts."""
    whole = {**records[0], "rows": [row for record in records for row in record["rows"]]}
    if len(records) > 1:
        command = " ".join(record["command"] for record in records[:1]).split(" --")[0]
        whole["command"] = f"{command} (in {len(records)} parts)"
    return whole


def with_sum(record: dict[str, Any]) -> dict[str, Any]:
    """Folds of a search that were measured one by one, and what they take together."""
    rows = record["rows"]
    total = {key: sum(row[key] for row in rows) for key in ("wall_s", "processor_s", "fit_s")}
    total |= {"score_s": sum(row["score_s"] for row in rows), "refit_s": rows[0]["refit_s"]}
    # Each part fits the chosen setting on all classes at its end; a whole search does so once.
    total["wall_s"] -= sum(row["refit_s"] for row in rows[1:])
    folds = sorted(fold for row in rows for fold in row["folds"])
    record["rows"] = [*rows, {**rows[0], **total, "folds": folds, "best": "", "accuracy": ""}]
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*/*.json")):
        record = json.loads(path.read_text())
        record["command"] = record["command"].replace("python bench_", "python benchmarks/bench_")
        found.setdefault(record_name(path.parent.name, path.stem), []).append(record)
    for name, records in found.items():
        whole = joined(records)
        if name == "search" and len(records) > 1:
            whole = with_sum(whole)
        (RESULTS / f"{name}.json").write_text(json.dumps(whole, indent=2) + "\n")
        print(f"{name}: {len(whole['rows'])} rows of {len(records)} parts")


if __name__ == "__main__":
    main()
