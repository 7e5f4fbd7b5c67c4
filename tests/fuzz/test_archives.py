"""Archives and servers that are damaged or mean harm.

What must hold in every case: an archive is unpacked exactly, or there is one ArchiveError, no
target, and nothing left beside it. A download ends whole, or in one error of ours, after which the
next fetch from an honest server succeeds.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import shutil
import stat
import struct
import tarfile
import tracemalloc
import unicodedata
import warnings
import zipfile
import zlib

import numpy as np
import pytest

from loopback import CERTIFICATE, PAYLOAD, Server
from zslearn.datasets import _fetch as _download
from zslearn.datasets._fetch import ArchiveError, FetchError, fetch, unpack

FORMATS = ("tar.gz", "tar.xz", "tar.bz2", "zip", "zip-stored")


def random_tree(rng):
    """Files by name, few and small, so that damage often meets what holds them together."""
    tree = {}
    for number in range(rng.integers(1, 6)):
        folders = "/".join(rng.choice(["a", "bb", "data", "CUB"], rng.integers(0, 3)))
        length = int(rng.choice([0, 1, 511, 512, 513, 3000]))
        content = rng.bytes(length) if rng.random() < 0.5 else bytes(length)
        tree[f"{folders}/file{number}.mat".lstrip("/")] = content
    return tree


def pack(tree, kind, folders=()):
    file = io.BytesIO()
    if kind.startswith("zip"):
        method = zipfile.ZIP_STORED if kind == "zip-stored" else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(file, "w", method) as archive:
            for name in folders:
                archive.writestr(f"{name}/", b"")
            for name, content in tree.items():
                archive.writestr(name, content)
        return file.getvalue()
    mode = {"tar": "w", "tar.gz": "w:gz", "tar.xz": "w:xz", "tar.bz2": "w:bz2"}[kind]
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name in folders:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
        for name, content in tree.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
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


def unpacked(data, folder):
    """What an archive gives: its tree, or None where it is refused in the right manner."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    path, target = home / "x.archive", home / "target"
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refusal = None
        try:
            unpack(path, target)
        except ArchiveError as error:
            refusal = str(error)
    if refusal is not None:
        assert is_plain(refusal)
        assert os.listdir(home) == ["x.archive"]
        return None
    assert sorted(os.listdir(home)) == ["target", "x.archive"]
    tree = read_tree(target)
    shutil.rmtree(target)
    assert os.listdir(folder) == ["home"]
    return tree


def damage(data, rng):
    """Damage as disks and networks do it."""
    data = bytearray(data)
    at = int(rng.integers(len(data)))
    length = int(rng.integers(1, 600))
    match rng.integers(8):
        case 0:
            del data[at:]
        case 1:
            data[at : at + length] = bytes(len(data[at : at + length]))
        case 2:
            data[at:at] = rng.bytes(length)
        case 3:
            del data[at : at + length]
        case 4:
            data[at:at] = data[at : at + length]
        case _:
            for position in rng.integers(0, 8 * len(data), rng.integers(1, 4)):
                data[position // 8] ^= 1 << position % 8
    return bytes(data)


def check_damaged(seed, folder):
    rng = np.random.default_rng(seed)
    tree, kind = random_tree(rng), FORMATS[seed % len(FORMATS)]
    data = pack(tree, kind, folders=["empty"])
    expected = unpacked(data, folder)
    assert expected is not None
    assert expected["empty"] is None
    assert {name: content for name, content in expected.items() if content is not None} == tree
    result = unpacked(damage(data, rng), folder)
    assert result is None or result == expected


def test_damaged(cases, tmp_path):
    for seed in cases(150):
        check_damaged(seed, tmp_path)


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


def check_plain_tar(seed, folder):
    """Without compression there is no checksum of the content; but no file may be lost."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    data = bytearray(pack(tree, "tar"))
    expected = unpacked(bytes(data), folder)
    if rng.random() < 0.3:
        data = data[: 512 * rng.integers(len(data) // 512)]
    else:
        starts = [at for at in range(0, len(data), 512) if data[at + 257 : at + 262] == b"ustar"]
        data[int(rng.choice(starts)) + rng.integers(512)] ^= 1 << rng.integers(8)
    result = unpacked(bytes(data), folder)
    if result is not None:
        assert {k: v and len(v) for k, v in result.items()} == {
            k: v and len(v) for k, v in expected.items()
        }


def test_plain_tar(cases, tmp_path):
    for seed in cases(60):
        check_plain_tar(seed, tmp_path)


PIECES = [
    *("a", "b", "..", ".", "", "/", "//", "~", "C:", "\\", "...", " ", "con", "nul.txt", "-rf"),
    *("\0", "\n", "\x1b[2J", "\x9b", "\u202e", "\udc80", "é", "e\u0301", "a" * 256, "*", "$HOME"),
]


def check_names(seed, folder):
    rng = np.random.default_rng(seed)
    file = io.BytesIO()
    names = ["/".join(rng.choice(PIECES, rng.integers(1, 5))) for _ in range(rng.integers(1, 4))]
    if rng.random() < 0.05:
        names.append("/".join("d" * rng.integers(1, 1900)))
    kinds = [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE]
    chances = [0.6, 0.25, 0.05, 0.05, 0.05]
    if seed % 2:
        tar_format = int(rng.choice([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
        with tarfile.open(fileobj=file, mode="w:gz", format=tar_format) as archive:
            for name in names:
                info = tarfile.TarInfo(name)
                info.type = kinds[rng.choice(len(kinds), p=chances)]
                info.linkname = str(rng.choice(["../../x", "/etc/passwd", "a"]))
                info.size = 3 if info.isreg() else 0
                archive.addfile(info, io.BytesIO(b"abc"))
    else:
        modes = [stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFIFO, 0]
        with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
            warnings.simplefilter("ignore")
            for name in names:
                info = zipfile.ZipInfo("x")
                name = name.encode("utf-8", "replace").decode()
                info.filename = info.orig_filename = name
                info.external_attr = int(rng.choice(modes)) << 16
                archive.writestr(info, b"abc")
    result = unpacked(file.getvalue(), folder)
    for name in result or ():
        assert name.isprintable()
        assert ".." not in name.split("/")


def test_names(cases, tmp_path):
    for seed in cases(200):
        check_names(seed, tmp_path)


# ---------------------------------------------------------------------------------- the corpus


def tar_header(name, size, kind):
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def gz_of_zeros(head, gigabytes):
    """A small file that unfolds to gigabytes: members of a gzip file may follow one another."""
    zeros = gzip.compress(bytes(1 << 26), 9)
    return gzip.compress(head) + zeros * (16 * gigabytes)


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


def xz_with_huge_dictionary():
    """It asks for 3 GiB of memory to read a few bytes."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
    data = bytearray(lzma.compress(pack({"a": b"abc"}, "tar"), filters=filters))
    # The block header: its size, flags, the filter's id, the size of its properties, the
    # dictionary's size in a code, padding, and a CRC-32.
    at = 12
    length = (data[at] + 1) * 4
    assert data[at + 2 : at + 4] == b"\x21\x01"
    data[at + 4] = 39  # 3 GiB
    struct.pack_into("<I", data, at + length - 4, zlib.crc32(data[at : at + length - 4]))
    return bytes(data)


def deep_tar(levels):
    """Each level is a member of its own, so that they are made one by one."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for level in range(1, levels + 1):
            info = tarfile.TarInfo("/".join("d" * level))
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
        archive.addfile(tarfile.TarInfo("../evil"))
    return file.getvalue()


def sparse_tar():
    """A file of 1 TiB that is one hole."""
    header = bytearray(tar_header("hole", 0, tarfile.GNUTYPE_SPARSE))
    real = (1 << 40).to_bytes(12, "big")
    header[483:495] = bytes([0x80]) + real[1:]
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return gzip.compress(bytes(header) + bytes(1024))


GIB = 1 << 30
CORPUS = {
    "a name of 3 GiB": lambda: gz_of_zeros(tar_header("x", 3 * GIB, tarfile.GNUTYPE_LONGNAME), 1),
    "a link of 3 GiB": lambda: gz_of_zeros(tar_header("x", 3 * GIB, tarfile.GNUTYPE_LONGLINK), 1),
    "a pax header of 3 GiB": lambda: gz_of_zeros(tar_header("x", 3 * GIB, tarfile.XHDTYPE), 1),
    "a file of 8 EiB": lambda: gzip.compress(tar_header("x", 1 << 63, tarfile.REGTYPE)),
    "a file of 3 GiB that ends": lambda: gzip.compress(
        tar_header("x", 3 * GIB, tarfile.REGTYPE) + bytes(1000)
    ),
    "a hole": sparse_tar,
    "1,899 levels": lambda: deep_tar(1899),
    "300 levels": lambda: deep_tar(300),
    "members that overlap": overlapping_zip,
    "a member swallowed": zip_with_one_swallowed,
    "a huge dictionary": xz_with_huge_dictionary,
    "zip by lzma": lambda: by_method(zipfile.ZIP_LZMA),
    "zip by bzip2": lambda: by_method(zipfile.ZIP_BZIP2),
    "empty zip": lambda: pack({}, "zip"),
    "empty tar": lambda: pack({}, "tar"),
    "empty tar.gz": lambda: pack({}, "tar.gz"),
    "folders only": lambda: pack({}, "tar.gz", ["a", "b"]),
    "folders only, zip": lambda: pack({}, "zip", ["a", "b"]),
    "rubbish only": lambda: pack({"__MACOSX/a": b"x", "a/.DS_Store": b"x"}, "zip"),
    "nothing": lambda: b"",
    "one byte": lambda: b"P",
    "gzip of nothing": lambda: gzip.compress(b""),
    "a gzip header": lambda: gzip.compress(b"")[:10],
    "xz of noise": lambda: lzma.compress(PAYLOAD[:5000]),
    "a tar without end": lambda: pack({"a": b"x"}, "tar")[:1024],
    "two tars": lambda: gzip.compress(2 * pack({"a": b"x"}, "tar")),
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


@pytest.mark.parametrize("kind", [*FORMATS, "tar"])
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
    """Give a server bad manners."""
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
    """Two fetches from a rude server, then one from an honest server that must succeed."""
    rng = np.random.default_rng(seed)
    folder = folder / str(seed)
    known = {} if rng.random() < 0.5 else {"sha256": None, "size": None}
    server = Server()
    try:
        archive = server.archive(**known)
        for _ in range(2):
            rude(server, rng)
            failure = None
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fetch(archive, folder, progress=False, say=lambda text: None)
            except (FetchError, ArchiveError) as error:
                failure = str(error)
            if failure is not None:
                assert is_plain(failure)
                assert not (folder / "xlsa17").exists()
        honest = Server()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fetch(honest.archive(**known), folder, progress=False, say=lambda text: None)
        finally:
            honest.close()
    finally:
        server.close()
    tree = read_tree(folder / "xlsa17")
    tree.pop("zslearn-fetched.json", None)
    assert tree == {"data": None, "data/CUB": None, **EXPECTED}
    assert set(os.listdir(folder)) - {"xlsa17.fetched.json"} == {"xlsa17"}
    shutil.rmtree(folder)


with zipfile.ZipFile(io.BytesIO(PAYLOAD)) as _archive:
    EXPECTED = {name.removeprefix("top/"): _archive.read(name) for name in _archive.namelist()}


@pytest.fixture
def trusting(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    monkeypatch.setattr(_download, "_WAIT", 0.001)


def test_downloads(cases, tmp_path, trusting):
    for seed in cases(30):
        check_download(seed, tmp_path)
