import contextlib
import os
import time
import zipfile

import numpy as np
import pytest

from zslearn._utils._files import DamagedCacheError, read_arrays, write_arrays
from zslearn.datasets import _glyphs

ARRAYS = {"images": np.arange(300, dtype=np.uint8).reshape(3, 10, 10), "other": np.eye(2)}


def same(arrays):
    return arrays.keys() == ARRAYS.keys() and all(
        arrays[key].dtype == ARRAYS[key].dtype and np.array_equal(arrays[key], ARRAYS[key])
        for key in ARRAYS
    )


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "deep" / "er" / "data-1.npz"
    write_arrays(path, ARRAYS)
    return path


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "none.npz")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "file" / "none.npz")


def test_every_truncation_is_noticed(path):
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 37), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(DamagedCacheError):
            read_arrays(path)


@pytest.mark.slow
@pytest.mark.parametrize("flipped", [1, 2, 46, 51, 128, 255])
def test_flipped_bytes_never_give_other_arrays(path, flipped):
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= flipped
        path.write_bytes(damaged)
        # A time in the archive means nothing; whatever is read is what was written.
        with contextlib.suppress(DamagedCacheError):
            assert same(read_arrays(path)), position


def test_the_file_is_an_ordinary_npz(path):
    with np.load(path) as archive:
        assert same(dict(archive))


@pytest.mark.parametrize(
    "arrays",
    [
        {"other": np.zeros(3)},
        {"images": np.zeros((10800, 32, 32), bool)},
        {"images": np.zeros((10799, 32, 32), np.uint8)},
        {"images": np.zeros((10800, 32, 64), np.uint8)},
    ],
    ids=["name", "kind", "shape", "size"],
)
def test_other_arrays_are_no_glyphs(path, arrays):
    write_arrays(path, arrays)
    with pytest.raises(DamagedCacheError, match=r"unexpected arrays|it has \d+ bytes"):
        _glyphs._read_images(path)


@pytest.mark.parametrize("kind", ["npy", "zip", "text", "pickle", "empty"])
def test_foreign_files(path, kind):
    with open(path, "wb") as file:
        if kind == "npy":
            np.save(file, np.zeros(3))
        elif kind == "zip":
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("hello", "world")
        elif kind == "text":
            file.write(b"hello")
        elif kind == "pickle":
            np.savez(file, sha256=np.array("0"), images=np.array([{}], dtype=object))
    with pytest.raises(DamagedCacheError):
        read_arrays(path)


def test_folder_in_place_of_the_file(path):
    path.unlink()
    path.mkdir()
    with pytest.raises(DamagedCacheError):
        read_arrays(path)
    with pytest.raises(OSError, match="data-1"):
        write_arrays(path, ARRAYS)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("failing", ["replace", "fsync"])
def test_interrupted_write_keeps_the_old_file(path, monkeypatch, failing):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, failing, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_arrays(path, {"images": np.zeros(3)})
    monkeypatch.undo()
    assert same(read_arrays(path))
    assert os.listdir(path.parent) == [path.name]


def test_leftover_temporary_files(path):
    old = path.with_name(f".{path.stem}.1-dead.tmp.npz")
    young = path.with_name(f".{path.stem}.2-live.tmp.npz")
    for left in (old, young):
        left.write_bytes(b"half a file")
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    assert same(read_arrays(path))
    write_arrays(path, ARRAYS)
    assert same(read_arrays(path))
    assert not old.exists()
    assert young.exists()
