"""Downloads and caches under faults: killed processes, full disks, folders that go away."""

from __future__ import annotations

import hashlib
import os
import shutil
import time

import numpy as np
import pytest

from loopback import PAYLOAD, assert_whole, left
from zslearn._utils._files import read_arrays, write_arrays
from zslearn.datasets import ARCHIVES, fetch_archive

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="signals and limits of POSIX"),
    pytest.mark.slow,
]

DIGEST = hashlib.sha256(PAYLOAD).hexdigest()


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


# -------------------------------------------------------------------------------------- kills


@pytest.mark.parametrize("digest", [DIGEST, None], ids=["verified", "unverified"])
def test_kills_at_random_moments(start, server, tmp_path, digest):
    """After each there is a whole target or none; one fetch later all is clean."""
    rng = np.random.default_rng(5)
    server.pause = 0.01
    for _ in range(8):
        job = start("fetch", server.url(), tmp_path, digest, 0.004)
        time.sleep(rng.uniform(0, 0.9))
        job.kill()
        target = tmp_path / "xlsa17"
        if target.exists():
            assert (target / "data" / "README.txt").read_bytes() == b"hello"
            shutil.rmtree(target)
    server.pause = 0
    assert start("fetch", server.url(), tmp_path, digest, 0).result() == "done"
    assert_whole(tmp_path, *([] if digest else ["xlsa17.fetched.json"]))


def test_kills_while_a_cache_is_written(start, tmp_path):
    rng = np.random.default_rng(6)
    path = tmp_path / "data-1.npz"
    for _ in range(15):
        job = start("cache", path, 10**6)
        time.sleep(rng.uniform(0, 0.3))
        job.kill()
        if path.exists():
            images = read_arrays(path)["images"]
            assert images.shape == (3_000_000,)
            assert np.all(images == images[0])
    write_arrays(path, {"images": np.zeros(3)})
    assert read_arrays(path)["images"].tolist() == [0, 0, 0]


# ------------------------------------------------------------------------------ two at a time


def test_a_killed_holder_does_not_keep_the_lock(start, server, tmp_path):
    server.pause = 0.1
    first = start("fetch", server.url(), tmp_path, DIGEST, 0)
    wait_for(lambda: server.asked)
    second = start("fetch", server.url(), tmp_path, DIGEST, 0)
    time.sleep(0.3)
    assert second.is_running()
    assert len(server.asked) == 1
    server.pause = 0
    first.kill()
    assert second.result() == "done"
    assert_whole(tmp_path)


def test_two_processes_write_a_cache(start, tmp_path):
    path = tmp_path / "data-1.npz"
    jobs = [start("cache", path, 20) for _ in range(2)]
    wait_for(path.exists)
    while any(job.is_running() for job in jobs):
        images = read_arrays(path)["images"]
        assert images.shape == (3_000_000,)
        assert np.all(images == images[0])
    assert [job.result() for job in jobs] == ["done"] * 2
    assert os.listdir(tmp_path) == [path.name]


# ----------------------------------------------------------------------------------- no space


@pytest.mark.parametrize("size", [100, 50_000, 299_000])
def test_no_room(start, server, tmp_path, size):
    """No file may grow beyond a size, which meets another step each time."""
    text = start("fetch", server.url(), tmp_path, DIGEST, 0, file_size=size).result()
    assert text.startswith("OSError: Could not fetch xlsa17 into")
    assert "File too large" in text
    assert left(tmp_path) == []
    assert start("fetch", server.url(), tmp_path, DIGEST, 0).result() == "done"
    assert_whole(tmp_path)


def test_no_room_for_a_cache(start, tmp_path):
    path = tmp_path / "data-1.npz"
    write_arrays(path, {"images": np.arange(10)})
    assert "File too large" in start("cache", path, 1, file_size=1_000_000).result()
    assert os.listdir(tmp_path) == [path.name]
    assert read_arrays(path)["images"].tolist() == list(range(10))


# ---------------------------------------------------------------- folders that cannot be used


def test_a_folder_that_is_read_only(start, server, open_folder):
    home = open_folder / "home"
    home.mkdir(mode=0o555)
    # No mode stops root.
    options = {"user": 65534} if os.getuid() == 0 else {}
    text = start("fetch", server.url(), home, DIGEST, 0, **options).result()
    assert text.startswith(f"OSError: Could not fetch xlsa17 into {home} (Permission denied")
    assert server.asked == []


@pytest.mark.parametrize("what", ["home", "target", "link"])
def test_something_else_in_the_place(server, tmp_path, monkeypatch, what):
    home = tmp_path / "home"
    if what == "home":
        home.write_text("a file")
    else:
        home.mkdir()
        if what == "target":
            (home / "xlsa17").write_text("a file")
        else:
            (home / "xlsa17").symlink_to("nowhere")
    monkeypatch.setitem(ARCHIVES, "xlsa17", server.archive())
    with pytest.raises(OSError, match="xlsa17"):
        fetch_archive("xlsa17", home)
    assert server.asked == []
