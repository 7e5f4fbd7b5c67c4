"""Helpers of the tests of faults: processes that can be killed, and a server for them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from loopback import CERTIFICATE, Server


@pytest.fixture
def server():
    """A server on loopback, with https."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def open_folder():
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


class Job:
    """A process that does one thing of ``jobs.py`` or another such program."""

    def __init__(self, pid: int, result: Path):
        self.pid, self._result = pid, result

    def is_running(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """Kill it at once, and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._wait(30)

    def result(self) -> str:
        """Wait for its end: "done", or the error."""
        self._wait(60)
        return self._result.read_text()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self.is_running():
            assert time.monotonic() < end, "the process does not end"
            time.sleep(0.002)


@pytest.fixture(scope="module")
def workshop(request):
    """The program that forks the jobs; it imports the library once.

    A test module with jobs of its own names their program as `JOBS`.
    """
    environment = {
        **os.environ,
        "NO_PROXY": "127.0.0.1",
        "REQUESTS_CA_BUNDLE": str(CERTIFICATE),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(getattr(request.module, "JOBS", "jobs.py")))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def start(workshop, tmp_path_factory):
    """Start a job: `start("fetch", url, …)`; what still runs at the end of the test is killed."""
    results = tmp_path_factory.mktemp("results")
    numbers, jobs = itertools.count(), []

    def starting(name: str, *arguments: object, **options: object) -> Job:
        result = results / str(next(numbers))
        line = json.dumps([name, str(result), options, arguments], default=str)
        workshop.stdin.write(f"{line}\n")
        workshop.stdin.flush()
        jobs.append(Job(int(workshop.stdout.readline()), result))
        return jobs[-1]

    yield starting
    for job in jobs:
        if job.is_running():
            job.kill()
