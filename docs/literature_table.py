"""Table of results published since 2020 beside ours: ``python docs/literature_table.py``.

Published rows are those of `load_literature`. Ours are cells of tables that are rendered from
records; see numbers_in_prose.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from numbers_in_prose import mean, value

from zslearn.experiments import load_literature

OUT = Path(__file__).parent / "results" / "literature.inc"
HEAD = ".. csv-table::\n   :header-rows: 1\n   :class: numbers\n   :delim: ;\n\n"
TRANSDUCTIVE = "transductive with known prior"


def ours(semantic: str, needs: str) -> str:
    """Accuracy and H of Gaussian EXEM with these signatures; adapted where others are, too."""
    if semantic not in ("attributes", "sentences"):
        return "–"
    if needs == TRANSDUCTIVE:
        return f"{value('adapt_tuned.json', f'CUB, {semantic}', 'after', '.1f')} / –"
    row = f"beyond_{semantic}", "Gaussian EXEM"
    return f"{mean(*row, 'accuracy'):.1f} / {100 * mean(*row, 'H calibrated'):.1f}"


def rows() -> Iterator[str]:
    """A row per published result."""
    yield "method; needs; features; signatures; accuracy / H; ours; source"
    for row in load_literature().to_dict("records"):
        theirs = [row["accuracy"], row["harmonic"]]
        cells = [f"{row['method']} ({row['year']})", row["needs"]]
        cells += [row[name] or "not stated" for name in ("features", "semantic")]
        cells += [" / ".join("–" if v != v else f"{v:.1f}" for v in theirs)]
        source = row["source"].split(";")[0]
        yield "; ".join([*cells, ours(row["semantic"], row["needs"]), source])


def text() -> str:
    """The whole table."""
    return HEAD + "".join(f"   {row}\n" for row in rows())


if __name__ == "__main__":
    OUT.write_text(text(), encoding="utf-8")
