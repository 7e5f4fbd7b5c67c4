"""Damaged and hostile files: what is read is right, and what is not is refused in one sentence.

Files are read in another process, under a limit, many in each: a crash, an endless loop or too
much memory is a failure of the test and not of the machine.
"""

from __future__ import annotations

import importlib.util
import json
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.other_files import DAMAGED, HOSTILE
from fuzz.reader_corpus import CASES
from fuzz.reader_worker import FORMATS

FOLDER = Path(__file__).parent
NEEDED = {
    "v7.3": "h5py", "v73": "h5py", "h5": "h5py", "shards-h5": "h5py",
    "parquet": "pyarrow", "shards-parquet": "pyarrow", "zarr": "zarr", "shards-zarr": "zarr",
    "words": "gensim",
}  # fmt: skip
SECONDS = 60
#: What the libraries accept (docs/explanation/trust.rst): damaged files that may end the process,
LETS_DIE = {"v5", "v7"}  # SciPy, where the type of a number is damaged and no checksum covers it
#: and hostile ones that take more memory than the limit, or are read.
LETS_THROUGH = {
    "v7_zeros",
    "v73_chunk_longer_than_declared",
    "v73_tiny_chunks",
    "parquet_long_string",
    "zarr_chunk_that_swells",
}

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is read from Linux"
)


CORPUS = [*CASES, *HOSTILE]


class Worker:
    """The process that reads; a new one takes its place when it dies."""

    def __init__(self):
        self.process = None

    def ask(self, kind, seed=0):
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", FOLDER / "reader_worker.py"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        self.process.stdin.write(f"{kind} {seed}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            if not ready:
                self.process.kill()
            code = self.stop()
            how = f"died with {code}" if ready else f"took more than {SECONDS} s"
            return "fault", f"the reader {how}"
        answer = json.loads(line)
        return answer["outcome"], answer["detail"]

    def stop(self):
        process, self.process = self.process, None
        if process is None:
            return 0
        process.stdin.close()
        code = process.wait(SECONDS)
        process.stdout.close()
        return code


@pytest.fixture(scope="module")
def worker():
    worker = Worker()
    yield worker
    worker.stop()


def need(kind):
    module = NEEDED.get(kind) or NEEDED.get(re.split("[-_]", kind)[0])
    if module and importlib.util.find_spec(module) is None:
        pytest.skip(f"there is no {module}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*FORMATS, *DAMAGED])
def test_damaged_files(worker, cases, kind):
    need(kind)
    outcomes = {"read": 0, "refused": 0}
    for seed in cases(80):
        outcome, detail = worker.ask(kind, seed)
        if kind in LETS_DIE and "the reader died with -11" in detail:
            outcome = "refused"
        assert outcome in outcomes, f"{kind}, seed {seed}: {detail}"
        outcomes[outcome] += 1
    # Damage that is never noticed, or always, would test nothing.
    assert sum(outcomes.values()) < 50 or min(outcomes.values()) > 0, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("kind", CORPUS)
def test_hostile_files(worker, kind):
    need(kind)
    outcome, detail = worker.ask(kind)
    assert outcome == "refused" or (kind in LETS_THROUGH and "died" not in detail), detail
