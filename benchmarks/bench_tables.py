"""Accuracy on messy tables beside that on clean ones, and beside scikit-learn's classifiers.

For each kind of table: each mess as `zslearn fit --method "Gaussian EXEM" --tune none` sees it,
with the larger loss of accuracy on seen and unseen classes; then the accuracy of `zslearn fit` on
seen classes, beside scaled logistic regression and histogram boosting. Last the processor time of
`zslearn fit` with 61 classes.

    python benchmarks/bench_tables.py
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import messy_data
import numpy as np
import pandas as pd
from _common import Report
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from zslearn.datasets import TablePreparation

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


def preparations(kind: str, seed: int) -> dict[str, dict[str, float]]:
    """Accuracy on seen classes of a messy table, and seconds, of two preparations of columns.

    Logistic regression follows each. skrub is measured where it is installed.
    """
    tables = messy_data.clean(kind, seed)
    y, new = tables.samples["mineral"], ~tables.new["mineral"].isin(tables.unseen)
    truth = tables.new.loc[new, "mineral"]
    tables = messy_data.MESSES["all"](tables, np.random.default_rng([seed, 99]))
    X, X_new = (t.drop(columns="mineral") for t in (tables.samples, tables.new[new]))
    candidates = {"TablePreparation": TablePreparation()}
    if find_spec("skrub") is not None:
        from skrub import TableVectorizer

        scaled = (SimpleImputer(strategy="median"), StandardScaler())
        candidates["skrub.TableVectorizer"] = make_pipeline(TableVectorizer(), *scaled)
    found = {}
    for name, preparation in candidates.items():
        start = time.process_time()
        rows = preparation.fit_transform(X, y)
        rows_new = preparation.transform(X_new)
        seconds = time.process_time() - start
        model = LogisticRegression(max_iter=5000).fit(rows, y)
        found[name] = {"seen": model.score(rows_new, truth), "cpu_s": seconds}
    return found


def processor_time(**environment: str) -> float:
    """User and system seconds of `zslearn fit` on 61 classes, as `time` measures them.

    The first of two calls compiles code for the cache.
    """
    tables = messy_data.clean("numbers", 0, n_seen=61, n_unseen=12)
    words = ["fit", "samples.csv", "--label", "mineral", "--signatures", "classes.csv"]
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    others = {name: value for name, value in os.environ.items() if name not in threads}
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        tables.write(Path(folder))
        for _ in range(2):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, "-m", "zslearn", *words, "--quiet"],
                cwd=folder,
                env=others | environment,
                check=True,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            best = min(best, seconds)
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
        of_seeds = [preparations(kind, seed) for seed in seeds]
        for name in of_seeds[0]:
            mean = pd.DataFrame([found[name] for found in of_seeds]).mean().round(3).to_dict()
            report.add(kind=kind, table="all", method=f"{name}, logistic regression", **mean)
    size = "61 classes, 732 rows, 32 columns"
    report.add(kind=size, cpu_s=round(processor_time(), 1))
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    report.add(kind=f"{size}, OMP=1", cpu_s=round(processor_time(**one), 1))
    print(report.save())


if __name__ == "__main__":
    main()
