"""Tables 14 to 18 on CUB from records: ``python docs/analyses_tables.py RECORDS``.

RECORDS holds those of ``zslearn analyze penalties``, ``exemplars`` and ``regressors``. The numbers
are those of ``zslearn table RECORDS --like learned_phantoms`` and so on; here settings are rows,
and the paper's numbers for CUB stand beside ours. One file of rows is written to docs/results for
each.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from zslearn.experiments import build_table, load_published, read_records

OUT = Path(__file__).parent / "results"
HEAD = ".. csv-table::\n   :header-rows: 1\n   :class: numbers\n   :delim: ;\n\n"
#: Settings of records in words.
WORDS = {
    "learn_phantoms=False": "fixed phantoms",
    "learn_phantoms=True": "learned phantoms",
    "n_components=None": "no projection",
}


def rows(records: pd.DataFrame, like: str) -> list[str]:
    """A line per row and setting: our mean and deviation, the seeds, and the paper's number."""
    table = build_table(records, like, only_ours=True)
    published = load_published()
    published = published[(published.table == like) & (published.dataset == "CUB")]
    lines = []
    for label in table.ours.index:
        for column in table.columns:
            value = table.ours.loc[label, column.name]
            if pd.isna(value):
                continue
            keys = dict(column.keys)
            method = keys.get("method", str(label).rpartition(" · ")[2])
            variant = keys.get("variant", "")
            std, digits = table.deviation.loc[label, column.name], column.decimals
            ours = f"{value:.{digits}f}" + ("" if pd.isna(std) else f" ± {std:.{digits}f}")
            theirs = published[(published.method == method) & (published.variant == variant)]
            paper = f"{theirs.value.iloc[0]:.{digits}f}" if len(theirs) else "–"
            setting = WORDS.get(variant.replace(";", ","), variant.replace("n_components=", ""))
            seeds = int(table.n_seeds.loc[label, column.name])
            lines.append(f"{method}; {setting}; {ours}; {seeds}; {paper}")
    return lines


def main() -> None:
    """Write every table."""
    records = read_records(sys.argv[1])
    for like in ("learned_phantoms", "correlation", "knn_overlap", "regressor", "pca"):
        found = rows(records, like)
        head = "method; setting; ours, ns; seeds; the paper, SS"
        lines = "".join(f"   {line}\n" for line in [head, *found])
        (OUT / f"analyses_{like}.inc").write_text(HEAD + lines, encoding="utf-8")


if __name__ == "__main__":
    main()
