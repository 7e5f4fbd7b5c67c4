"""Tables of the note on test selection: ``python docs/test_selection_table.py FOLDER…``.

A folder holds the records of ``zslearn bench DATA --inflation``, and its name stands for the data.
docs/results/test_selection.inc gets a row per data set, method and measure, and
docs/results/test_selection_means.inc the means that the note registers. Numbers are in points.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from scipy.stats import kendalltau

from zslearn.experiments import read_test_selection

OUT = Path(__file__).parent / "results"
HEAD = ".. csv-table::\n   :header-rows: 1\n   :class: numbers\n   :delim: ;\n\n"
NETWORKS = ("Class-Norm", "CADA-VAE", "f-CLSWGAN", "f-VAEGAN-D2")
MEASURES = {"per_class_accuracy": "accuracy", "ausuc": "AUSUC", "harmonic": "H"}
CHOICES = ["default", "held_out", "test"]
KEYS = ["data", "method", "metric"]


def read(folders: list[Path]) -> pd.DataFrame:
    """The numbers of all folders, and the inflation of each run."""
    parts = [read_test_selection(folder).assign(data=folder.name) for folder in folders]
    found = pd.concat(parts, ignore_index=True)
    found[CHOICES] *= 100
    return found.assign(inflation=found["test"] - found["held_out"])


def by_method(found: pd.DataFrame) -> Iterator[str]:
    """Means over seeds; established inflation is above two standard deviations, in bold."""
    yield "data; method; measure; default; held-out classes; test classes; inflation; seeds"
    for (data, method, metric), part in found.groupby(KEYS, sort=False):
        means = [f"{mean:.1f}" for mean in part[CHOICES].mean()]
        mean, deviation = part["inflation"].mean(), part["inflation"].std()
        cell = f"{mean:.1f}" if len(part) < 2 else f"{mean:.1f} ± {deviation:.1f}"
        cell = f"**{cell}**" if len(part) > 1 and mean > max(2 * deviation, 0.05) else cell
        name = str(method).replace("*", r"\*")
        yield "; ".join([data, name, MEASURES[metric], *means, cell, str(len(part))])


def of_data(found: pd.DataFrame) -> Iterator[str]:
    """Means over methods, and the agreement of their orders by both choices."""
    yield "data; measure; inflation, networks; inflation, others; Kendall's τ; methods"
    means = found.groupby(KEYS, sort=False)[[*CHOICES, "inflation"]].mean().reset_index()
    for (data, metric), part in means.groupby(["data", "metric"], sort=False):
        is_network = part["method"].isin(NETWORKS)
        of_kind = [part.loc[kind, "inflation"].mean() for kind in (is_network, ~is_network)]
        cells = ["–" if mean != mean else f"{mean:.1f}" for mean in of_kind]
        tau = kendalltau(part["held_out"], part["test"]).statistic
        cells += ["–" if tau != tau else f"{tau:.2f}", str(len(part))]
        yield "; ".join([data, MEASURES[metric], *cells])


if __name__ == "__main__":
    numbers = read([Path(folder) for folder in sys.argv[1:]])
    for name, rows in (("", by_method(numbers)), ("_means", of_data(numbers))):
        text = HEAD + "".join(f"   {row}\n" for row in rows)
        (OUT / f"test_selection{name}.inc").write_text(text, encoding="utf-8")
