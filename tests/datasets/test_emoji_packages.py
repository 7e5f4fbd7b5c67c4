"""Fetching the packages of emoji: from npm, from a folder, and when something is wrong."""

from __future__ import annotations

import hashlib
import os

import pytest

import emoji_packages as made
from zslearn.cli import main
from zslearn.datasets import _emoji as packages
from zslearn.datasets import fetch_emoji, load_emoji
from zslearn.datasets._fetch import RECORD, ArchiveError, provenance_of


@pytest.fixture
def archives(tmp_path):
    with made.made_packages(tmp_path / "npm") as folder:
        yield folder


@pytest.fixture
def npm(monkeypatch, tmp_path, archives):
    """A program npm that knows the made-up packages; it notes what it was asked for."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "npm"
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/asked\n'
        'name=$(echo "$2" | sed "s/^@//; s,/,-,; s/@/-/").tgz\n'
        f'cp {archives}/"$name" "$4" || {{ echo "npm error 404" >&2; exit 1; }}\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return tmp_path / "asked"


def test_from_a_folder(archives, tmp_path):
    said = []
    folder = fetch_emoji(tmp_path / "data", source=archives, say=said.append)
    assert folder == tmp_path / "data" / "emoji"
    assert sorted(p.name for p in folder.iterdir()) == ["emojibase", *sorted(made.STYLES)]
    for name, source in packages.sources().items():
        known = provenance_of(folder / name)
        assert known.is_verified
        assert known.sha256 == source.package.sha256
    assert (folder / "round" / "icons.json").is_file()
    assert len(list(archives.iterdir())) == 4  # what a person brought stays
    said.clear()
    assert fetch_emoji(tmp_path / "data", source=archives, say=said.append) == folder
    assert all("already there" in line for line in said)


def test_through_npm(npm, tmp_path):
    folder = fetch_emoji(tmp_path / "data")
    asked = npm.read_text().splitlines()
    assert [line.split()[:2] for line in asked] == [
        ["pack", "@made-up/round@1.0.0"],
        ["pack", "@made-up/square@1.0.0"],
        ["pack", "@made-up/thin@1.0.0"],
        ["pack", "emojibase-data@17.0.0"],
    ]
    # The archives are gone, and nothing else is left.
    assert sorted(p.name for p in folder.iterdir()) == ["emojibase", *sorted(made.STYLES)]


def test_an_interrupted_fetch_goes_on(npm, archives, tmp_path):
    missing = archives / "made-up-thin-1.0.0.tgz"
    kept = missing.read_bytes()
    missing.unlink()
    with pytest.raises(OSError, match=r"npm could not fetch @made-up/thin 1\.0\.0: npm error 404"):
        fetch_emoji(tmp_path / "data")
    missing.write_bytes(kept)
    npm.unlink()
    fetch_emoji(tmp_path / "data")
    assert [line.split()[1] for line in npm.read_text().splitlines()] == [
        "@made-up/thin@1.0.0",
        "emojibase-data@17.0.0",
    ]


def test_without_npm(archives, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="npm, which is not installed"):
        fetch_emoji(tmp_path / "data")


def test_a_damaged_archive_is_refused(archives, tmp_path):
    path = archives / "made-up-square-1.0.0.tgz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"is not @made-up/square 1\.0\.0: its SHA-256"):
        fetch_emoji(tmp_path / "data", source=archives)
    assert not (tmp_path / "data" / "emoji" / "square").exists()


def test_a_truncated_archive_is_refused_even_with_its_checksum(archives, tmp_path):
    made.set_package(archives, "round", {"icons.json": os.urandom(5000)})
    path = archives / "made-up-round-1.0.0.tgz"
    path.write_bytes(path.read_bytes()[:-2000])
    made.expect("round", hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(ArchiveError, match="damaged"):
        fetch_emoji(tmp_path / "data", source=archives)


@pytest.mark.parametrize(
    ("files", "links", "message"),
    [
        ({"../../evil": b"x", "icons.json": {}}, (), "leads out of the folder"),
        ({"icons.json": {}}, [("link", "/etc/passwd")], "is a link"),
        ({RECORD: {}, "icons.json": {}}, (), "which only zslearn writes"),
        ({"readme.md": b"x"}, (), "it has no icons.json"),
        ({}, (), "no files in it"),
    ],
    ids=["out of the folder", "a link", "a record", "no icons", "empty"],
)
def test_tricks_in_an_archive(archives, tmp_path, files, links, message):
    made.set_package(archives, "square", files, links)
    with pytest.raises(ArchiveError, match=message):
        fetch_emoji(tmp_path / "data", source=archives)
    folder = tmp_path / "data" / "emoji"
    assert [p.name for p in folder.iterdir()] == ["round"]
    assert not list(tmp_path.rglob("evil"))


def test_a_style_that_is_not_in_the_folder(archives, tmp_path):
    (archives / "made-up-thin-1.0.0.tgz").unlink()
    with pytest.raises(FileNotFoundError, match=r"npm pack @made-up/thin@1\.0\.0"):
        fetch_emoji(tmp_path / "data", source=archives)
    with pytest.raises(FileNotFoundError, match="no folder"):
        fetch_emoji(tmp_path / "data", source=tmp_path / "nowhere")


def test_loading_names_what_is_missing(archives, tmp_path):
    with pytest.raises(FileNotFoundError, match="lacks 'round', 'square'.*data fetch emoji"):
        load_emoji(folder=tmp_path / "data")
    folder = fetch_emoji(tmp_path / "data", source=archives)
    (folder / "thin" / "icons.json").unlink()
    with pytest.raises(FileNotFoundError, match="lacks 'thin'"):
        load_emoji(folder=tmp_path / "data")


def test_what_is_there_without_its_files_is_not_overwritten(archives, tmp_path):
    target = tmp_path / "data" / "emoji" / "round"
    target.mkdir(parents=True)
    (target / "mine.txt").write_text("mine")
    with pytest.raises(OSError, match="move it away"):
        fetch_emoji(tmp_path / "data", source=archives)
    assert (target / "mine.txt").read_text() == "mine"


def test_command_line(archives, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ZSLEARN_DATA", str(tmp_path / "data"))
    assert main(["data", "fetch", "emoji", "--from", str(archives)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "data" / "emoji")
    assert main(["data", "list"]) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("emoji")]
    assert line.endswith("yes")
    assert main(["data", "fetch", "CUB", "--from", str(archives)]) == 1
    assert "--from is for emoji" in capsys.readouterr().err
    (archives / "made-up-thin-1.0.0.tgz").write_bytes(b"")
    words = ["data", "fetch", "emoji", "--to", str(tmp_path / "b"), "--from", str(archives)]
    assert main(words) == 1
    err = capsys.readouterr().err.splitlines()
    assert "its SHA-256 is" in err[-1]


def test_real_packages_are_pinned():
    assert len(packages.STYLES) == 7
    for source in packages.sources().values():
        assert len(source.package.sha256) == 64
        assert source.licence in {"Apache-2.0", "MIT", "CC-BY-4.0", "CC-BY-SA-4.0"}
    assert packages.STYLES["noto"].package.file_name == "iconify-json-noto-1.2.9.tgz"
    names = "noto noto-v1 openmoji twemoji fluent-emoji fluent-emoji-flat emojione"
    assert list(packages.STYLES) == names.split()
