"""Put parts of records, which may come from another machine, into `benchmarks/results`.

A script that is asked for a part writes `results/parts/NAME-PART.json`: `bench_sync.py --only cs`
writes `sync-cs.json`. Rows of the parts of one record are joined; date and machine must be the same
in all of them. A file `NAME.json` is a whole record and is copied.

    python benchmarks/gather.py            # parts that were measured here
    python benchmarks/gather.py FOLDER     # all records below a folder
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from _common import RESULTS, write

# Parts in the order of their rows; those of other records come by name.
ORDER = {"nu_svr": ("one", "grids", "paper"), "sync": ("cs", "struct", "ovo")}


def joined(records: list[dict[str, Any]]) -> dict[str, Any]:
    """One record of several parts."""
    first = records[0]
    for record in records[1:]:
        for key in ("title", "machine"):
            if record[key] != first[key]:
                raise SystemExit(
                    f"{first['command']} and {record['command']} have different {key}s: "
                    f"{first[key]} and {record[key]}. Measure the parts on one machine."
                )
    dates = sorted({record["date"] for record in records})
    return {
        **first,
        "date": dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
        "command": "; ".join(record["command"] for record in records),
        "seconds": round(sum(record["seconds"] for record in records), 1),
        "rows": [row for record in records for row in record["rows"]],
    }


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
    parser.add_argument("folder", type=Path, nargs="?", default=RESULTS / "parts")
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for path in sorted(parser.parse_args().folder.rglob("*.json")):
        name, _, part = path.stem.partition("-")
        found.setdefault(name, {})[part] = json.loads(path.read_text())
    for name, parts in found.items():
        known = ORDER.get(name, ())
        missing = [part for part in known if part not in parts] if "" not in parts else []
        if missing:
            print(f"{name}: left as it is, as {', '.join(missing)} is missing")
            continue
        order = [part for part in known if part in parts]
        order += [part for part in parts if part not in known]
        whole = parts[""] if "" in parts else joined([parts[part] for part in order])
        if name == "search" and len(parts) > 1:
            whole = with_sum(whole)
        write(RESULTS / f"{name}.json", whole)
        print(f"{name}: {len(whole['rows'])} rows of {len(parts)} parts")


if __name__ == "__main__":
    main()
