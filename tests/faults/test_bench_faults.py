"""Benchmarks under faults: killed processes, full disks, folders that go away, several writers.

Whatever is in the folder at any moment is whole and right, and one more run completes it.
"""

from __future__ import annotations

import json
import os
import time
import warnings

import numpy as np
import pytest

from report_records import records_in
from zslearn.experiments import read_failures, read_records

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="signals and limits of POSIX"),
    pytest.mark.slow,
]

JOBS = "bench_jobs.py"
# Both settings of the second have one search in common, and the third reads its regressors.
METHODS = ["ESZSL", "EXEM (ESZSL)", "EXEM (1NN)"]


def contents(folder):
    return records_in(folder, without=["shared_fits"])


@pytest.fixture(scope="module")
def kept():
    """Results that are computed once for all tests."""
    return {}


@pytest.fixture
def whole(start, kept, tmp_path_factory):
    """The records of an undisturbed run, by method."""

    def records(methods):
        if str(methods) not in kept:
            folder = tmp_path_factory.mktemp("whole")
            assert start("bench", folder, methods, 0).result() == "done"
            assert read_failures(folder).empty
            kept[str(methods)] = contents(folder)
        return kept[str(methods)]

    return records


def test_kills_where_methods_share_a_search(start, whole, tmp_path):
    """Nothing is left behind but what was being written when the process was killed."""
    begin = time.monotonic()
    expected = whole(METHODS)
    duration = time.monotonic() - begin
    assert len(expected) == 2 * len(METHODS)
    rng = np.random.default_rng(3)
    for _ in range(6):
        job = start("bench", tmp_path, METHODS, 0.001)
        time.sleep(rng.uniform(0, duration / 3))
        job.kill()
        assert contents(tmp_path).items() <= expected.items()
    assert start("bench", tmp_path, METHODS, 0).result() == "done"
    assert contents(tmp_path) == expected
    assert not list(tmp_path.glob(".parts*"))


def test_parts_of_a_finished_run_are_removed(start, whole, tmp_path):
    """As they are left by a kill between the record and their removal."""
    expected = whole(["ESZSL"])
    for _ in range(2):
        assert start("bench", tmp_path, ["ESZSL"], 0).result() == "done"
        assert sorted(os.listdir(tmp_path)) == sorted(expected)
        for name in expected:
            (tmp_path / f".parts-{name.removesuffix('.json')}").mkdir()


@pytest.mark.parametrize("size", [0, 250, 600, 3000, None])
def test_no_space(start, whole, tmp_path, size):
    """No file may grow beyond a size: checkpoints meet it, or small records, or large ones."""
    expected = whole(["ESZSL"])
    if size is None:
        size = max(len(json.dumps(record, indent=1)) for record in expected.values())
    text = start("bench", tmp_path, ["ESZSL"], 0, file_size=size).result()
    if text != "done":
        assert text.startswith(f"OSError: [Errno 27] File too large: '{tmp_path}/")
    reasons = read_failures(tmp_path)["reason"]
    assert reasons.str.contains(f"File too large: '{tmp_path}").all()
    sound = {n: r for n, r in contents(tmp_path).items() if "failed" not in r}
    assert sound.items() <= expected.items()
    assert len(sound) < len(expected)
    assert not list(tmp_path.rglob("*.tmp.json"))
    assert start("bench", tmp_path, ["ESZSL"], 0).result() == "done"
    assert contents(tmp_path) == expected
    assert sorted(os.listdir(tmp_path)) == sorted(expected)


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_that_is_read_only(start, open_folder, there):
    folder = open_folder if there else open_folder / "new"
    open_folder.chmod(0o555)
    # No mode stops root.
    options = {"user": 65534} if os.getuid() == 0 else {}
    text = start("bench", folder, ["ESZSL"], 0, False, **options).result()
    assert text.startswith("PermissionError: [Errno 13] Permission denied: ")
    assert str(folder) in text
    assert not list(open_folder.iterdir())


def test_a_folder_that_vanishes(start, whole, tmp_path):
    """Once and again while it is written to: what is missing is computed by the next run."""
    expected = whole(METHODS)
    folder = tmp_path / "runs"
    job = start("bench", folder, METHODS, 0.02)
    for number in range(5):
        wait_for(lambda: folder.exists() or not job.is_running())
        if folder.exists():
            folder.rename(tmp_path / f"away-{number}")
    assert job.result() == "done"
    assert read_failures(folder).empty
    assert contents(folder).items() <= expected.items()
    assert start("bench", folder, METHODS, 0).result() == "done"
    assert contents(folder) == expected


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_several_writers(start, whole, tmp_path):
    """Each removes what it no longer needs, also from under the others; a reader never warns."""
    expected = whole(METHODS)
    jobs = []
    for _ in range(3):
        jobs.append(start("bench", tmp_path, METHODS, 0.005))
        time.sleep(0.15)
    while any(job.is_running() for job in jobs):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_records(tmp_path)
        assert contents(tmp_path).items() <= expected.items()
    assert [job.result() for job in jobs] == ["done"] * 3
    assert contents(tmp_path) == expected
    assert sorted(os.listdir(tmp_path)) == sorted(expected)
