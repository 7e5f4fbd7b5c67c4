"""First waiting times: the import, `zslearn --version`, the first fits.

Every figure is the CPU time and the peak memory of a new process, the least of several; first fits
run with an empty cache of Numba, and again with the cache that this left. `import sklearn.svm` is
the peer of the import.

    python benchmarks/bench_import.py                      # this tree
    python benchmarks/bench_import.py --before OLD_TREE    # and an older one, in the same run
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _common import Report

TREE = Path(__file__).parents[1]

MEASURE = """
import json, resource, sys
{setup}
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
before = used() if {setup!r} else 0.0
{code}
# `ru_maxrss` is that of the process that started this one, if that is larger.
with open("/proc/self/status", encoding="ascii") as file:
    peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
print(json.dumps([used() - before, peak]), file=sys.stderr)
"""
SETUP = """from zslearn.{home} import {name}
from zslearn.datasets import load_glyphs
data = load_glyphs()
X, y, signatures = data.X_train, data.y_train, data.signatures"""

IMPORTS = {
    "import sklearn.svm": "import sklearn.svm",
    "import zslearn": "import zslearn",
    "from zslearn import EXEM, SynC": "from zslearn import EXEM, SynC",
    "zslearn --version": "from zslearn.cli import main; main(['--version'])",
}
FITS = {
    "EXEM().fit, glyphs": ("synthesis", "EXEM", "EXEM().fit(X, y, signatures=signatures)"),
    # Here the constraints bind, so that the solver is compiled.
    "EXEM(C=0.01).fit, glyphs": (
        "synthesis",
        "EXEM",
        "EXEM(C=0.01).fit(X, y, signatures=signatures)",
    ),
    "SSE().fit, every tenth glyph": (
        "baselines",
        "SSE",
        "SSE().fit(X[::10], y[::10], signatures=signatures)",
    ),
}


def measure(code: str, tree: Path, cache: str, setup: str = "") -> tuple[float, float]:
    """CPU seconds and peak megabytes of code in a new process."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "NUMBA_CACHE_DIR": cache,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", MEASURE.format(code=code, setup=setup)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds, megabytes = json.loads(run.stderr.splitlines()[-1])
    return seconds, megabytes


def least(pairs: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "cpu_s": round(min(pair[0] for pair in pairs), 3),
        "peak_mb": round(min(pair[1] for pair in pairs), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path, help="a tree of the project to compare with")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="imports alone, each once")
    options = parser.parse_args()
    if options.quick:
        options.repeats = 1
    trees = {"now": TREE} | ({"before": options.before} if options.before else {})
    report = Report("import", "Import and first fits, CPU seconds of one process, one thread")
    with tempfile.TemporaryDirectory() as kept:
        for what, code in IMPORTS.items():
            # The first run may have to write bytecode.
            runs: dict[str, list[tuple[float, float]]] = {tree: [] for tree in trees}
            for repeat in range(options.repeats + 1):
                for name, tree in trees.items():
                    pair = measure(code, tree, kept)
                    if repeat:
                        runs[name].append(pair)
            for name in trees:
                report.add(what=what, tree=name, cache="", **least(runs[name]))
    for what, (home, name, code) in ({} if options.quick else FITS).items():
        setup = SETUP.format(home=home, name=name)
        for label, tree in trees.items():
            first, later = [], []
            for _ in range(max(1, options.repeats // 2)):
                with tempfile.TemporaryDirectory() as cache:
                    first.append(measure(code, tree, cache, setup))
                    later.append(measure(code, tree, cache, setup))
            report.add(what=what, tree=label, cache="empty", **least(first))
            report.add(what=what, tree=label, cache="filled", **least(later))
    print(report.save())


if __name__ == "__main__":
    main()
