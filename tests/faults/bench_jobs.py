"""Benchmarks that run in separate processes; see ``jobs.py``."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace

from zslearn._utils import _files
from zslearn.baselines import ESZSL
from zslearn.datasets import make_zero_shot
from zslearn.experiments import run_benchmark
from zslearn.model_selection import METHODS
from zslearn.synthesis import EXEM, _exemplars

DATA = make_zero_shot(
    n_seen=8, n_unseen=3, n_features=6, n_attributes=5, samples_per_class=6, random_state=1
)
GRIDS = {
    ESZSL: {"alpha_features": [0.1, 1.0, 10.0], "alpha_signatures": [0.1, 1.0]},
    EXEM: {"gamma": [0.5, 1.0], "nu": [1.0, 0.25], "C": [1.0, 0.25]},
}


def tuned(*_):
    """A run that must not start; a benchmark does not catch this error."""
    raise SystemExit


def bench(folder, methods, pause, may_tune=True):
    """Run methods on small grids; finished runs are written at once, to a slow disk."""
    if not may_tune:
        METHODS["ESZSL"] = replace(METHODS["ESZSL"], tune=tuned)
    for method, grid in GRIDS.items():
        method.grids["fast"] = grid
    fsync = _files.os.fsync

    def slow_fsync(descriptor):
        time.sleep(pause)
        fsync(descriptor)

    _files._CHECKPOINT_SECONDS = 0.0
    _exemplars._MIN_CACHED_WORK = 0  # small fits are read, too
    _files.os.fsync = slow_fsync
    warnings.simplefilter("ignore")
    run_benchmark(DATA, methods, folder, n_splits=2)


if __name__ == "__main__":
    # Beside this program; who only imports it does not find it.
    import jobs

    jobs.JOBS["bench"] = bench
    jobs.main()
