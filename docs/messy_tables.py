"""Tables of research_notes/tables.rst from benchmarks/results: ``python docs/messy_tables.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RECORDS = DOCS.parent / "benchmarks" / "results"


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a record."""
    rows: list[dict[str, Any]] = json.loads((RECORDS / f"{name}.json").read_text())["rows"]
    return rows


def write(name: str, rows: list[list[Any]]) -> None:
    """Write rows, the first of them the header, as a table."""
    head = [".. csv-table::", "   :header-rows: 1", "   :class: numbers", "   :delim: ;", ""]
    lines = ["   " + "; ".join(map(str, row)) for row in rows]
    (DOCS / "results" / f"{name}.inc").write_text("\n".join([*head, *lines, ""]), encoding="utf-8")


def main() -> None:
    """Write the tables."""
    rows = rows_of("tables")
    kinds = list(dict.fromkeys(row["kind"] for row in rows if "table" in row))
    messy = {(row["table"], row["kind"]): row for row in rows if "lost" in row}
    names = list(dict.fromkeys(table for table, _ in messy))

    def accuracies(row: dict[str, Any]) -> str:
        return f"{row['seen']:.3f} / {row['unseen']:.3f}"

    cells = [[name, *(accuracies(messy[name, kind]) for kind in kinds)] for name in names]
    # Messes that change nothing share a line.
    same = [row[0] for row in cells[1:] if row[1:] == cells[0][1:]]
    cells = [row for row in cells if row[0] not in same]
    cells.insert(1, [f"{len(same)} others", *cells[0][1:]])
    write("messy_tables", [["table", *kinds], *cells])
    peers = {
        (row["method"], row["table"], row["kind"]): row
        for row in rows
        if "seen" in row and "method" in row
    }
    lines = list(dict.fromkeys((method, table) for method, table, _ in peers))
    write(
        "messy_tables_peers",
        [["method", "table", *kinds]]
        + [[*line, *(f"{peers[*line, kind]['seen']:.3f}" for kind in kinds)] for line in lines],
    )
    examples = [
        [row["data"], row["examples"], *(f"{row[key]:.3f}" for key in ("before", "after"))]
        + [f"{100 * row[key]:.0f} %" for key in ("harmed", "helped")]
        for row in rows_of("one_example")
        if row["among"] == "all classes"
    ]
    write("one_example", [["data", "examples", "before", "after", "harmed", "helped"], *examples])


if __name__ == "__main__":
    main()
