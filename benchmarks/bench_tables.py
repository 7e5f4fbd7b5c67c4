"""Accuracy on messy tables beside that on clean ones, and beside scikit-learn's classifiers.

For each kind of table: each mess as `zslearn fit --method "Gaussian EXEM" --tune none` sees it,
with the larger loss of accuracy on seen and unseen classes; then the accuracy of `zslearn fit` on
seen classes, beside scaled logistic regression and histogram boosting. Last the processor time of
`zslearn fit` with 61 classes.

    python benchmarks/bench_tables.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import messy_data
import numpy as np
import pandas as pd
from _common import Report
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

#: As for a first model; all choices are made on held-out classes.
OPTIONS = {"method": "Gaussian EXEM", "tune": None}


def accuracy(kind: str, mess: str, seed: int) -> dict[str, float]:
    """Accuracies on the new samples of a table with a mess."""
    tables = messy_data.clean(kind, seed)
    tables = messy_data.MESSES[mess](tables, np.random.default_rng([seed, 99]))
    return messy_data.accuracies(tables, **OPTIONS)


def rivals(kind: str, seed: int) -> dict[str, float]:
    """Accuracy on new samples of seen classes, among these."""
    tables = messy_data.clean(kind, seed)
    X, y = tables.samples.drop(columns="mineral"), tables.samples["mineral"]
    new = tables.new[~tables.new["mineral"].isin(tables.unseen)]
    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            make_column_selector(dtype_exclude="number"),
        ),
    )
    found = {"zslearn fit": messy_data.accuracies(tables, method="auto")["seen"]}
    for name, rival in (
        ("scaled logistic regression", LogisticRegression(max_iter=5000)),
        ("histogram boosting", HistGradientBoostingClassifier(random_state=0)),
    ):
        model = make_pipeline(columns, rival).fit(X, y)
        found[name] = model.score(new[X.columns], new["mineral"])
    return found


def processor_time() -> float:
    """Seconds of `zslearn fit` on 61 classes, with imports and compiled code in the cache."""
    messy_data.N_SEEN, messy_data.N_UNSEEN = 61, 12
    tables = messy_data.clean("numbers", 0)
    words = ["fit", "samples.csv", "--label", "mineral", "--signatures", "classes.csv"]
    program = (
        "import sys, time; from zslearn.cli import main; main(sys.argv[1:]);"
        "print('seconds', time.process_time())"
    )
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        tables.write(Path(folder))
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", program, *words, "--jobs", "1"],
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            )
            best = min(best, float(done.stdout.split()[-1]))
    return best


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one seed")
    options = parser.parse_args()
    seeds = range(1 if options.quick else options.seeds)
    warnings.simplefilter("ignore")
    report = Report("tables", "Messy tables beside clean ones: accuracy, mean over the seeds")
    for kind in messy_data.KINDS:
        for mess in messy_data.MESSES:
            found = pd.DataFrame([accuracy(kind, mess, seed) for seed in seeds]).mean()
            if mess == "clean":
                clean = found
            lost = float((clean - found)[["seen", "unseen"]].max())
            report.add(kind=kind, table=mess, **found.round(3).to_dict(), lost=round(lost, 3))
        for name, value in pd.DataFrame([rivals(kind, seed) for seed in seeds]).mean().items():
            report.add(kind=kind, table="clean", method=name, seen=round(value, 3))
    report.add(kind="61 classes, 732 rows, 32 columns", cpu_s=round(processor_time(), 1))
    print(report.save())


if __name__ == "__main__":
    main()
