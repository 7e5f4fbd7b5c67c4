"""Features on disk: rows a second and peak memory of reading, fitting and scoring, block by block.

Every line is a process of its own with one thread beside the reader's, so that peak memory and core
seconds are its own. The features are synthetic:
`--rows` rows of `--features` numbers in float32, in shards of a folder that is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from _common import Report

SEEN = 1_000
ROWS, FEATURES = 1_000_000, 512
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SHARD = 50_000
# Kinds of files → the package that writes them.
STORES = {"zarr": "zarr", "parquet": "pyarrow"}


def make(folder: Path, n_rows: int, n_features: int) -> None:
    """Shards of clustered rows, with their labels; one of them also as Zarr and as Parquet."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((SEEN, n_features)).astype(np.float32)
    for number, first in enumerate(range(0, n_rows, SHARD)):
        y = rng.integers(0, SEEN, min(SHARD, n_rows - first)).astype(np.int32)
        X = centers[y] + rng.standard_normal((len(y), n_features), dtype=np.float32)
        np.save(folder / f"features-{number:04}.npy", X)
        np.save(folder / f"labels-{number:04}.npy", y)
    if "zarr" in stores():
        import zarr

        array = zarr.create_array(
            str(folder / "one.zarr"), shape=X.shape, chunks=(8192, n_features), dtype="f4"
        )
        array[:] = X
    if "parquet" in stores():
        import pyarrow as pa
        import pyarrow.parquet

        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), n_features)
        table = pa.table({"features": vectors, "label": y})
        pa.parquet.write_table(table, folder / "one.parquet", row_group_size=16_384)


def stores() -> list[str]:
    """Kinds of files that can be written here."""
    return [kind for kind, package in STORES.items() if find_spec(package) is not None]


def peak_mebibytes() -> float:
    """Most memory that this process has held."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**10


def blocks_of(folder: Path):
    from zslearn.datasets import FeatureBlocks

    shards = sorted(folder.glob("features-*.npy"))
    return FeatureBlocks.open(shards, labels=sorted(folder.glob("labels-*.npy")))


def fitted(name: str, X, n_classes: int = SEEN):
    import pandas as pd

    from zslearn import EXEM
    from zslearn.baselines import ESZSL

    rng = np.random.default_rng(1)
    signatures = pd.DataFrame(rng.standard_normal((n_classes, 100)))
    model = ESZSL() if name == "ESZSL" else EXEM(n_components=100, tol=1e-3)
    return model.fit(X, None, signatures=signatures)


def one(job: str, folder: Path) -> dict[str, float]:
    """One measurement, in this process."""
    from zslearn.datasets import FeatureBlocks
    from zslearn.experiments import evaluate, write_top_k

    X = blocks_of(folder)
    kind, _, rest = job.partition(" ")
    n_rows = len(X)
    model = None
    if kind in ("top-5", "evaluate"):
        few = FeatureBlocks.open(
            sorted(folder.glob("features-*.npy"))[:1], labels=sorted(folder.glob("labels-*.npy"))[0]
        )
        model = fitted("ESZSL", few, int(rest))
        # Against many classes one shard tells the rate.
        X = few if int(rest) > SEEN else X
        n_rows = len(X)
    if kind in ("zarr", "parquet"):
        X = FeatureBlocks.open(folder / f"one.{kind}")
        n_rows = len(X)
    start, start_cpu = time.perf_counter(), time.process_time()
    if kind in ("npy", "zarr", "parquet"):
        for _ in X:
            pass
    elif kind == "fit":
        fitted(rest, X)
    elif kind == "top-5":
        write_top_k(model, X, folder / f"top-{rest}", k=5)
    else:
        evaluate(model, X, k=[1, 5])
    seconds = time.perf_counter() - start
    core_seconds = time.process_time() - start_cpu
    return {
        "rows": n_rows,
        "seconds": seconds,
        "core_seconds": core_seconds,
        "rows_per_core_second": n_rows / core_seconds,
        "peak_mib": peak_mebibytes(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--features", type=int, default=FEATURES)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the rows")
    parser.add_argument("--one", nargs=2, metavar=("JOB", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one[0], Path(arguments.one[1]))))
        return
    n_rows = arguments.rows // 50 if arguments.quick else arguments.rows
    whole = (arguments.rows, arguments.features) == (ROWS, FEATURES)
    part = None if whole else f"{arguments.rows}x{arguments.features}"
    report = Report("streaming", "Features on disk, float32, block by block", part)
    for kind in STORES.keys() - set(stores()):
        print(f"{kind}: left out. The package {STORES[kind]} is not installed.")
    with tempfile.TemporaryDirectory() as name:
        make(Path(name), n_rows, arguments.features)
        jobs = ["npy", *stores(), "fit ESZSL", "fit EXEM", "top-5 1000", "top-5 20000"]
        jobs += ["evaluate 1000"]
        if arguments.quick:
            jobs = ["npy", "fit EXEM", "top-5 1000"]
        for job in jobs:
            command = [sys.executable, __file__, "--one", job, name]
            # One thread, so that core seconds say how many cores do how much.
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, env=os.environ | THREADS
            )
            found = json.loads(done.stdout.splitlines()[-1])
            report.add(job=job, features=arguments.features, **found)
    report.save()


if __name__ == "__main__":
    main()
