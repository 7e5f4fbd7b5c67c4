"""Jobs that the tests of faults run in separate processes.

Run as a program it imports the library once, and forks a process for each line that it reads: a
JSON list of the job's name, a file for its result, its options and its arguments.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np

from zslearn._utils._files import write_arrays
from zslearn.datasets import ARCHIVES, Archive, fetch_archive


def fetch(url, folder, sha256, pause):
    """Fetch an archive; its members are written slowly, so that a kill can meet that part, too."""

    def slow_copy(source, target, length=0):
        while data := source.read(4096):
            time.sleep(pause)
            target.write(data)

    shutil.copyfileobj = slow_copy
    ARCHIVES["xlsa17"] = Archive("xlsa17", url, sha256=sha256)
    fetch_archive("xlsa17", folder)


def cache(path, n_writes):
    """Write a cache file again and again, each time with another content."""
    for number in range(n_writes):
        write_arrays(Path(path), {"images": np.full(3_000_000, number % 251, np.uint8)})


JOBS = {"fetch": fetch, "cache": cache}


def run(name, result, options, arguments):
    """Do one job, and write "done" or the error to a file."""
    # Opened now, for the options may forbid it later.
    with open(result, "w") as file:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (options.get("file_size", most), most))
        if "user" in options:
            os.setuid(options["user"])
        text = "done"
        try:
            JOBS[name](*arguments)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        file.write(text)


def main():
    """Fork for every line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the ended leave nothing to wait for
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            run(*json.loads(line))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
