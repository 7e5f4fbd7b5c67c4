"""Tables and picture of the page on a few images: ``python docs/few_images_tables.py FOLDER …``.

A FOLDER holds records of ``zslearn analyze shots`` on one or more data sets. Written are
docs/results/few_images_….inc and docs/images/shots.png. Nothing is computed anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from zslearn.experiments._figures import new_figure, save_figure
from zslearn.experiments._records import whole_records
from zslearn.experiments.analyses import AnalysisDisplay
from zslearn.experiments.analyses._jobs import numbers_frame
from zslearn.experiments.analyses._shots import (
    ALONE,
    DESCRIBED,
    ROWS,
    worth_in_words,
    worth_rows,
)

DOCS = Path(__file__).parent
HEAD = ".. csv-table::\n   :header-rows: 1\n   :class: numbers\n   :delim: ;\n\n"
#: Data sets in the order of the page: what records call them, and what the page does.
NAMES = {"CUB": "CUB", "glyphs": "glyphs", "symbols1": "icons"}
ACCURACY, HARMONIC = "per_class_accuracy", "harmonic"


def read(folders: list[str]) -> pd.DataFrame:
    """The numbers of all records, with what a description is worth."""
    records = [record for folder in folders for record in whole_records(folder)]
    shots = [r for r in records if r.get("analysis") == "shots" and "failed" not in r]
    frame = numbers_frame(shots)
    frame = frame.assign(dataset=frame["dataset"].map(NAMES))
    worth = [worth_rows(part) for _, part in frame.groupby("dataset", sort=False)]
    return pd.concat([frame, *worth], ignore_index=True)


def cell(values: pd.Series, factor: float, digits: int) -> str:
    """Mean and standard deviation over draws."""
    if values.empty:
        return "–"
    spread = f" ± {factor * values.std():.{digits}f}" if values.nunique() > 1 else ""
    return f"{factor * values.mean():.{digits}f}{spread}"


def rows(frame: pd.DataFrame, metrics: dict[str, str], factor: float, digits: int) -> list[str]:
    """A line per data set, method and metric; of the metrics the words behind the method."""
    numbers = sorted(frame["shots"].unique())
    lines = [f"data; method; {'; '.join(f'{k:.0f}' for k in numbers)}"]
    for data, method in [(data, method) for data in NAMES.values() for method in ROWS]:
        own = frame[(frame["dataset"] == data) & (frame["method"] == method)]
        for metric, words in metrics.items():
            found = own[own["metric"] == metric]
            if len(found):
                by_number = [found.loc[found["shots"] == k, "value"] for k in numbers]
                cells = [cell(values, factor, digits) for values in by_number]
                lines.append(f"{data}; {method}{words}; {'; '.join(cells)}")
    return lines


def worth(frame: pd.DataFrame) -> list[str]:
    """A line per data set: how many images a description is worth."""
    lines = ["data; accuracy by description; a description is worth; draws"]
    for data in NAMES.values():
        own = frame[frame["dataset"] == data]
        if words := worth_in_words(own):
            described = own[(own["method"] == DESCRIBED) & (own["shots"] == 0)]
            accuracy = described.loc[described["metric"] == ACCURACY, "value"]
            lines.append(f"{data}; {cell(accuracy, 100, 1)}; {words}; {len(accuracy)}")
    return lines


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Accuracy against images per class, a panel per data set on which one image is not all."""
    order = [DESCRIBED, "GDA", "Tip-Adapter", *ALONE]
    shown = frame[frame["method"].isin(order)]
    shown = shown.sort_values("method", key=lambda names: names.map(order.index), kind="stable")
    parts = {data: shown[shown["dataset"] == data] for data in NAMES.values()}
    panels = [data for data in parts if worth_in_words(parts[data])[:5] not in ("", "fewer")]
    figure = new_figure(figsize=(3.4 * len(panels) + 0.2, 3.7))
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, data in zip(axes, panels, strict=True):
        AnalysisDisplay(parts[data], "shots").plot(ax)
        ax.get_legend().remove()
        ax.set_title(data, fontsize=10)
        ax.set_ylabel("accuracy among unseen classes (%)" if ax is axes[0] else "")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=8)
    save_figure(figure, path)


def main() -> None:
    """Write every table, and the picture."""
    frame = read(sys.argv[1:])
    tables = {
        "accuracy": rows(frame, {ACCURACY: ""}, 100, 1),
        "harmonic": rows(frame, {HARMONIC: "", f"calibrated_{HARMONIC}": ", calibrated"}, 1, 3),
        "worth": worth(frame),
    }
    for name, lines in tables.items():
        text = HEAD + "".join(f"   {line}\n" for line in lines)
        (DOCS / "results" / f"few_images_{name}.inc").write_text(text, encoding="utf-8")
    draw(frame, DOCS / "images" / "shots.png")


if __name__ == "__main__":
    main()
