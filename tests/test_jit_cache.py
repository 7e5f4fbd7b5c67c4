"""The cache of compiled functions: damage is forgiven, folders of others are not used."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from zslearn._utils._jit import distrust

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of folders are POSIX's")

PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
import compiled
print(compiled.double(21.0))
print("hits", sum(compiled.double.dispatcher.stats.cache_hits.values()))
"""

MODULE = """
from zslearn._utils._jit import jit

@jit("a test")
def double(x):
    return 2 * x
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "compiled.py").write_text(MODULE)
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path


def run(folder: Path) -> str:
    """What a new process prints that calls the compiled function."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def cache_files(folder: Path, suffix: str) -> list[Path]:
    found = list((folder / "cache").rglob(f"*{suffix}"))
    assert found
    return found


def test_damaged_files_are_compiled_again(folder):
    assert "Compiling a test: some seconds, once on this machine." in run(folder)
    assert run(folder) == "42.0\nhits 1\n"
    damages = [
        (".nbi", lambda content: b""),
        (".nbi", lambda content: b"\x80\x05nonsense"),
        (".nbc", lambda content: content[:-7]),
        # Machine code that unpickles and would run.
        (".nbc", lambda content: content[:-999] + bytes([content[-999] ^ 1]) + content[-998:]),
    ]
    for suffix, damage in damages:
        for file in cache_files(folder, suffix):
            file.write_bytes(damage(file.read_bytes()))
        said = run(folder)
        assert "a file of the cache is damaged" in said
        assert "42.0\nhits 0\n" in said
    assert run(folder) == "42.0\nhits 1\n"


class _Planted:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def test_what_others_can_write_is_not_read(folder):
    run(folder)
    marker = folder / "ran"
    for file in cache_files(folder, ".nbi"):
        file.write_bytes(pickle.dumps(_Planted(marker)))
        file.parent.chmod(0o777)
    said = run(folder)
    assert "others can write to" in said
    assert "42.0\nhits 0\n" in said
    assert not marker.exists()


def test_folders_that_are_trusted(tmp_path):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    assert distrust(folder) is None
    folder.chmod(0o777)
    assert "others can write to" in distrust(folder)
    folder.chmod(0o1777)
    assert "others can write to" in distrust(folder)
    folder.chmod(0o700)
    folder.parent.chmod(0o777)
    assert str(folder.parent) in distrust(folder)
    # As /tmp is.
    folder.parent.chmod(0o1777)
    assert distrust(folder) is None


def test_a_group_counts_as_others_unless_it_is_ones_own(tmp_path, monkeypatch):
    tmp_path.chmod(0o775)
    monkeypatch.setattr("zslearn._utils._jit._is_private", lambda group: False)
    assert "others can write to" in distrust(tmp_path)
    monkeypatch.setattr("zslearn._utils._jit._is_private", lambda group: True)
    assert distrust(tmp_path) is None


@pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="only root can give a link")
def test_a_link_of_another_user(tmp_path):
    (tmp_path / "mine").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "mine")
    assert distrust(link) is None
    os.chown(link, 12345, 0, follow_symlinks=False)
    assert "belongs to another user" in distrust(link)


@pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="only root can give a folder")
def test_a_folder_of_another_user(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 12345, 0)
    assert "belongs to another user" in distrust(folder)
