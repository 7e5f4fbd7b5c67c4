"""Archives and servers that are damaged or mean harm.

What must hold in every case: an archive is unpacked exactly, or there is one error, no target, and
nothing left beside it. A download ends whole, or in one error, after which the next fetch from an
honest server succeeds.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import struct
import tarfile
import tracemalloc
import unicodedata
import warnings
import zipfile

import numpy as np
import pytest

from loopback import CERTIFICATE, PAYLOAD, Server, left
from zslearn.datasets import ARCHIVES, Archive, fetch_archive

FORMATS = ("zip", "zip-stored")


def pack(tree, kind, folders=()):
    file = io.BytesIO()
    method = zipfile.ZIP_STORED if kind == "zip-stored" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "w", method) as archive:
        for name in folders:
            archive.writestr(f"{name}/", b"")
        for name, content in tree.items():
            archive.writestr(name, content)
    return file.getvalue()


def read_tree(folder):
    """Every file and folder below, without following links."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in folders:
            path = os.path.join(place, name)
            found[os.path.relpath(path, folder)] = None
            assert not os.path.islink(path)
        for name in files:
            path = os.path.join(place, name)
            assert stat.S_ISREG(os.lstat(path).st_mode)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def is_plain(text):
    """Whether a text cannot steer a terminal."""
    return not any(unicodedata.category(letter) == "Cc" for letter in text)


def fetched(archive, home):
    """Fetch an archive; None, or the message of the one error."""
    ARCHIVES["xlsa17"] = archive
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fetch_archive("xlsa17", home)
        except (ValueError, OSError) as error:
            refusal = str(error)
        else:
            return None
    assert is_plain(refusal)
    assert not (home / "xlsa17").exists()
    return refusal


@pytest.fixture(autouse=True)
def published():
    """The list of archives as it was."""
    before = dict(ARCHIVES)
    yield
    ARCHIVES.update(before)


def unpacked(data, folder):
    """The tree of an unpacked archive, or None if it is refused with the right error."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "xlsa17.zip").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    if fetched(Archive("xlsa17", "https://127.0.0.1/", sha256=digest), home) is not None:
        assert left(home) == ["xlsa17.zip"]
        return None
    assert left(home) == ["xlsa17"]
    tree = read_tree(home / "xlsa17")
    shutil.rmtree(home / "xlsa17")
    assert os.listdir(folder) == ["home"]
    return tree


def check_flipped(seed, folder):
    """One bit, in the part of an archive that says what the rest means."""
    rng = np.random.default_rng(seed)
    tree, kind = {"a.mat": rng.bytes(3000), "b": bytes(1000)}, FORMATS[seed % len(FORMATS)]
    data = bytearray(pack(tree, kind, folders=["empty"]))
    expected = {"empty": None, **tree}
    edge = 120 if rng.random() < 0.7 else len(data)
    position = int(rng.integers(edge)) if rng.random() < 0.5 else -int(rng.integers(1, edge + 1))
    data[position] ^= 1 << rng.integers(8)
    result = unpacked(bytes(data), folder)
    assert result is None or result == expected


def test_flipped(cases, tmp_path):
    for seed in cases(250):
        check_flipped(seed, tmp_path)


# ---------------------------------------------------------------------------------- the corpus


def overlapping_zip():
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")
        archive.writestr("a", bytes(1_000_000))
        archive.filelist.extend([archive.filelist[0]] * 50)
    return file.getvalue()


def zip_with_one_swallowed():
    """The comment of the first entry grows by exactly the second entry."""
    data = bytearray(pack({"a": b"1", "b": b"2", "c": b"3"}, "zip-stored"))
    first = data.index(b"PK\1\2")
    second = data.index(b"PK\1\2", first + 1)
    third = data.index(b"PK\1\2", second + 1)
    struct.pack_into("<H", data, first + 32, third - second)
    return bytes(data)


def tar():
    """Other files than zip archives are refused, whatever they contain."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../evil"))
    return file.getvalue()


CORPUS = {
    "a tar": tar,
    "a member swallowed": zip_with_one_swallowed,
    "members that overlap": overlapping_zip,
    "zip by lzma": lambda: by_method(zipfile.ZIP_LZMA),
    "zip by bzip2": lambda: by_method(zipfile.ZIP_BZIP2),
    "empty zip": lambda: pack({}, "zip"),
    "folders only, zip": lambda: pack({}, "zip", ["a", "b"]),
    "rubbish only": lambda: pack({"__MACOSX/a": b"x", "a/.DS_Store": b"x"}, "zip"),
    "nothing": lambda: b"",
    "one byte": lambda: b"P",
}


def by_method(method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("a", bytes(1000))
    return file.getvalue()


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(tmp_path, name):
    """Each is refused, in little memory."""
    data = CORPUS[name]()
    tracemalloc.start()
    try:
        assert unpacked(data, tmp_path) is None
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data) + 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", FORMATS)
def test_members_of_the_folder_itself(tmp_path, kind):
    """As `tar czf a.tar.gz -C folder .` makes them."""
    tree = {"./a.txt": b"a", "./sub/b.txt": b"b"}
    data = pack(tree, kind, folders=[".", "./sub"])
    assert unpacked(data, tmp_path) == {"a.txt": b"a", "sub": None, "sub/b.txt": b"b"}


# --------------------------------------------------------------------------------- downloads


HEADERS = {
    "Content-Length": ["-1", "9" * 5000, "12", "1e6", "²", ""],
    "Content-Range": ["bytes 0-1/2", "bytes */*", "bytes 5-4/" + "9" * 5000, "x"],
    "Transfer-Encoding": ["chunked"],
    "Content-Encoding": ["gzip"],
    "ETag": ['W/"x"', "\x1b[2J", "x" * 60_000],
    "X": ["y" * 70_000],
}


def rude(server, rng):
    """Make a server misbehave."""
    payloads = [PAYLOAD, PAYLOAD[:1000], b"", b"<html>", PAYLOAD + b"x", rng.bytes(5000)]
    server.payload = payloads[rng.choice(6, p=[0.6, 0.08, 0.08, 0.08, 0.08, 0.08])]
    server.cuts = [int(cut) for cut in rng.integers(0, 300_000, rng.integers(0, 6))]
    server.ranges, server.length = bool(rng.integers(2)), bool(rng.integers(2))
    server.etag = [None, '"one"', '"two"', 'W/"one"'][rng.integers(4)]
    server.status = [None, 404, 500, 301, 206, 204, 599][rng.choice(7, p=[0.7, *[0.05] * 6])]
    server.reason = [None, "\x1b[2J\x9b1m"][rng.integers(2)]
    if rng.random() < 0.4:
        name = str(rng.choice(list(HEADERS)))
        server.headers = {name: str(rng.choice(HEADERS[name]))}
    if rng.random() < 0.15:
        where = ["/xlsa17.zip", "http://127.0.0.1/", "file:///etc/passwd", "//", "https://[", "\0"]
        server.redirects = {"/xlsa17.zip": str(rng.choice(where))}


def check_download(seed, folder):
    """Two fetches from a rude server, then from an honest server, which must succeed."""
    rng = np.random.default_rng(seed)
    folder = folder / str(seed)
    known = {} if rng.random() < 0.5 else {"sha256": None}
    server, honest = Server(), Server()
    try:
        archive = server.archive(**known)
        for _ in range(2):
            rude(server, rng)
            fetched(archive, folder)
        # A partial download that does not belong to the honest file is discarded.
        if fetched(honest.archive(**known), folder) is not None:
            assert fetched(honest.archive(**known), folder) is None
    finally:
        server.close()
        honest.close()
    tree = read_tree(folder / "xlsa17")
    assert tree == {"data": None, "data/CUB": None, **EXPECTED}
    assert set(left(folder)) - {"xlsa17.fetched.json"} == {"xlsa17"}
    shutil.rmtree(folder)


with zipfile.ZipFile(io.BytesIO(PAYLOAD)) as _archive:
    EXPECTED = {name.removeprefix("top/"): _archive.read(name) for name in _archive.namelist()}


@pytest.fixture
def trusting(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))


def test_downloads(cases, tmp_path, trusting):
    for seed in cases(30):
        check_download(seed, tmp_path)
