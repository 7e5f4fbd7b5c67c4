"""Run all benchmarks of the processor one after the other, and draw what they have measured.

Each script writes its record when it ends: a run that is stopped, or a script that fails, loses no
record of those before it. At the end stands how long each took, and the command for what is left.
A quick run also reports costs that exceed those of the committed records by more than 1.3 times.

    python benchmarks/run.py                       # an estimated 50 minutes on two cores
    python benchmarks/run.py --quick               # under two minutes, one thread each
    python benchmarks/run.py --only sync nu_svr    # some
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
# Scripts that count processor seconds, of which threads that wait for each other take some too.
COUNTING = (
    "batches", "classes", "curve", "defaults", "exem", "scoring", "shards", "taxonomy", "words",
)  # fmt: skip
# A cost that exceeds the committed one by this factor is reported.
TOLERATED = 1.3
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def scripts() -> dict[str, Path]:
    """Scripts by name; those for a GPU are called by hand."""
    paths = sorted(FOLDER.glob("bench_*.py"))
    return {p.stem.removeprefix("bench_"): p for p in paths if not p.stem.endswith("_cuda")}


def run(path: Path, *, one_thread: bool, quick: bool) -> tuple[int, float]:
    """Exit status and seconds of one script."""
    command = [sys.executable, str(path), *(["--quick"] if quick else [])]
    start = time.perf_counter()
    # Variables that are already set are kept.
    environment = {**(ONE_THREAD if one_thread else {}), **os.environ}
    status = subprocess.run(command, env=environment, check=False).returncode
    return status, time.perf_counter() - start


def _costs(path: Path) -> dict[str, float]:
    """The cost of the rows of a record, if they have one."""
    rows = json.loads(path.read_text())["rows"]
    return {row["what"]: row["cost"] for row in rows if "cost" in row}


def slower(results: Path) -> list[str]:
    """Rows of quick records with a higher "cost" than the same rows of the committed records."""
    found = []
    for path in sorted((results / "quick").glob("*.json")):
        committed = results / path.name
        now = _costs(path)
        if now and not committed.exists():
            found.append(f"{path.stem}: there is no committed record to compare with")
            continue
        before = _costs(committed) if now else {}
        for what, cost in now.items():
            if what in before and cost > TOLERATED * before[what]:
                found.append(
                    f"slower: {what}: {cost:.3g} times its peer, {before[what]:.3g} when recorded"
                )
    return found


def main() -> int:
    every = scripts()
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to results/quick")
    parser.add_argument("--only", nargs="+", choices=list(every), help="some of the scripts")
    options = parser.parse_args()
    left = list(options.only or every)
    failed, took = [], {}
    try:
        while left:
            name = left[0]
            print(f"== {name}", flush=True)
            one_thread = options.quick or name in COUNTING
            status, took[name] = run(every[name], one_thread=one_thread, quick=options.quick)
            if status:
                failed.append(name)
            left.pop(0)
    except KeyboardInterrupt:
        print("\nStopped.")
    draw = [sys.executable, str(FOLDER / "draw.py"), *(["--quick"] if options.quick else [])]
    drawn = subprocess.run(draw, check=False).returncode
    for name, seconds in took.items():
        print(f"{name:<12} {seconds:7.1f} s{'  failed' if name in failed else ''}")
    print(f"{'all':<12} {sum(took.values()):7.1f} s")
    if options.quick and "defaults" in took:
        print(*(slower(FOLDER / "results") or ["No default became slower."]), sep="\n")
    if failed or left:
        quick = " --quick" if options.quick else ""
        names = " ".join(dict.fromkeys([*failed, *left]))
        print(f"What is left: python benchmarks/run.py{quick} --only {names}")
    return 1 if failed or left or drawn else 0


if __name__ == "__main__":
    sys.exit(main())
