from __future__ import annotations

import hashlib
import io
import shutil
import stat
import threading
import warnings
import zipfile

import pytest

from loopback import CERTIFICATE, NOISE, PAYLOAD, Server, assert_whole, left, zipped
from xlsa17_files import write_data_set
from zslearn.base import InputWarning
from zslearn.datasets import ARCHIVES, Archive, fetch_archive, load_xlsa17


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
    server = Server()
    yield server
    server.close()


@pytest.fixture
def plain_server():
    server = Server(encrypted=False)
    yield server
    server.close()


@pytest.fixture
def bring(monkeypatch, tmp_path):
    """Fetch an archive to a folder."""

    def bringing(archive, folder=tmp_path):
        monkeypatch.setitem(ARCHIVES, "xlsa17", archive)
        said = []
        assert fetch_archive("xlsa17", folder, say=said.append) == folder / "xlsa17"
        return said

    return bringing


# -------------------------------------------------------------------------------- the transfer


def test_fetch(server, tmp_path, bring):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = bring(server.archive(), tmp_path / "new")
    assert_whole(tmp_path / "new")
    assert [text.split()[0] for text in said] == ["downloading", "unpacking"]
    assert bring(server.archive(), tmp_path / "new")[0].startswith("already there")
    assert len(server.asked) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_transfer_continues_at_the_next_call(server, tmp_path, bring, ranges):
    server.redirects = {"/old": server.url("/middle"), "/middle": "/xlsa17.zip"}
    server.cuts, server.ranges = [40_000], ranges
    archive = server.archive(url=server.url("/old"))
    with pytest.raises(OSError, match=r"32768 bytes are kept; run it .* put xlsa17.zip into"):
        bring(archive)
    assert left(tmp_path) == []
    bring(archive)
    assert server.asked[-1] == ("/xlsa17.zip", "bytes=32768-")
    assert server.answered == [200, 206 if ranges else 200]
    assert_whole(tmp_path)


def test_a_file_that_changed_meanwhile_starts_anew(server, tmp_path, bring):
    unknown = server.archive(sha256=None)
    server.cuts = [100_000]
    with pytest.raises(OSError, match="bytes are kept"):
        bring(unknown)
    server.payload = zipped([("other.txt", NOISE)])
    # The parts of two files are no archive, and are removed.
    with pytest.raises(ValueError, match="The download was removed"):
        bring(unknown)
    with pytest.warns(InputWarning, match="it is unverified"):
        bring(unknown)
    assert (tmp_path / "xlsa17" / "other.txt").read_bytes() == NOISE


def test_a_part_that_is_too_long_is_dropped(server, tmp_path, bring):
    (tmp_path / ".xlsa17.download").mkdir()
    (tmp_path / ".xlsa17.download" / "xlsa17.part").write_bytes(PAYLOAD + b"more")
    with pytest.raises(OSError, match="416"):
        bring(server.archive())
    bring(server.archive())
    assert_whole(tmp_path)


def test_an_archive_brought_by_other_means_is_not_downloaded(server, tmp_path, bring):
    path = tmp_path / "xlsa17.zip"
    path.write_bytes(PAYLOAD[:-1])
    with pytest.raises(ValueError, match=r"sha256 .* instead of .* Delete .*xlsa17\.zip to down"):
        bring(server.archive())
    assert path.exists()
    path.write_bytes(PAYLOAD)
    assert bring(server.archive())[0].startswith("found")
    assert server.asked == []
    assert_whole(tmp_path)


def test_no_plain_address_is_asked(server, plain_server, tmp_path, bring):
    server.redirects = {"/old": plain_server.url()}
    for url in (plain_server.url(), server.url("/old")):
        with pytest.raises(OSError, match=r"is not encrypted \(https\)"):
            bring(server.archive(url=url))
    assert [path for path, _ in server.asked] == ["/old"]
    assert plain_server.asked == []


def test_certificates_are_checked(server, monkeypatch, bring):
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with pytest.raises(OSError, match="certificate"):
        bring(server.archive())
    assert server.asked == []


# ------------------------------------------------------------------------------------- proof


def test_wrong_checksum(server, tmp_path, bring):
    with pytest.raises(ValueError, match=r"does not match .*0000.* The download was removed"):
        bring(server.archive(sha256="0" * 64))
    assert left(tmp_path) == []


def test_first_use_is_remembered(server, tmp_path, bring):
    """The first download is required ever after, even if the folder was moved."""
    unknown = server.archive(sha256=None)
    digest = hashlib.sha256(PAYLOAD).hexdigest()
    with pytest.warns(InputWarning, match=rf"it is unverified. Its sha256 is {digest}"):
        bring(unknown)
    assert_whole(tmp_path, "xlsa17.fetched.json")
    shutil.rmtree(tmp_path / "xlsa17")
    with pytest.warns(InputWarning, match="equals that of the first"):
        bring(unknown)
    shutil.rmtree(tmp_path / "xlsa17")
    server.payload = zipped([("other.txt", NOISE)])
    advice = r"Delete .*xlsa17\.fetched\.json if you know of a new version"
    with pytest.raises(ValueError, match=advice):
        bring(unknown)
    assert left(tmp_path) == ["xlsa17.fetched.json"]
    # An archive brought by other means must be the same, too.
    (tmp_path / "xlsa17.zip").write_bytes(server.payload)
    with pytest.raises(ValueError, match=advice):
        bring(unknown)
    (tmp_path / "xlsa17.zip").unlink()
    # A record that is damaged is not the same as none.
    memory = tmp_path / "xlsa17.fetched.json"
    memory.write_text(memory.read_text().replace('"size": 3', '"size": 4'))
    with pytest.raises(ValueError, match=r"is damaged .*Delete it if you trust"):
        bring(unknown)
    memory.unlink()
    with pytest.warns(InputWarning, match="it is unverified"):
        bring(unknown)
    assert (tmp_path / "xlsa17" / "other.txt").read_bytes() == NOISE


@pytest.mark.parametrize("content", ["", "[" * 200_000, "{}", '{"trust": "verified"}'])
def test_versions_say_what_was_not_verified(server, tmp_path, bring, content):
    write_data_set(tmp_path / "made" / "xlsa17" / "data", "CUB")
    path = shutil.make_archive(str(tmp_path / "made"), "zip", tmp_path / "made")
    with open(path, "rb") as file:
        server.payload = file.read()
    bring(server.archive())
    assert "unverified" not in load_xlsa17("CUB", folder=tmp_path).version
    shutil.rmtree(tmp_path / "xlsa17")
    with pytest.warns(InputWarning, match="unverified"):
        bring(server.archive(sha256=None))
    digest = hashlib.sha256(server.payload).hexdigest()
    assert load_xlsa17("CUB", folder=tmp_path).version.endswith(f"/unverified-{digest[:8]}")
    (tmp_path / "xlsa17.fetched.json").write_text(content)
    assert load_xlsa17("CUB", folder=tmp_path).version.endswith("/unknown-origin")


def test_several_fetches_at_once(server, tmp_path, monkeypatch):
    """One downloads, the others wait and find it there."""
    server.pause = 0.02
    monkeypatch.setitem(ARCHIVES, "xlsa17", server.archive())
    said, failures = [], []

    def work():
        try:
            fetch_archive("xlsa17", tmp_path, say=said.append)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(server.asked) == 1
    assert sum(text.startswith("another process is fetching xlsa17") for text in said) == 2
    assert sum(text.startswith("already there") for text in said) == 2
    assert_whole(tmp_path)


# ----------------------------------------------------------------------------- what is hostile


def zip_with(name, content=b"x", mode=None):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name that occurs twice, which is meant
        archive.writestr("good.txt", b"good")
        info = zipfile.ZipInfo("x")
        info.filename = info.orig_filename = name
        if mode is not None:
            info.external_attr = mode << 16
        archive.writestr(info, content)
    return file.getvalue()


def bomb(claimed):
    """A small archive that holds, or claims to hold, many bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(2_000_000))
    size = (2_000_000).to_bytes(4, "little")
    return file.getvalue().replace(size, claimed.to_bytes(4, "little"))


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (zip_with("../evil"), "leads out of the folder"),
        (zip_with("a/../../evil"), "leads out of the folder"),
        (zip_with("/tmp/evil"), "leads out of the folder"),
        (zip_with("C:/evil"), "leads out of the folder"),
        (zip_with("..\\evil"), "leads out of the folder"),
        (zip_with("link", b"/etc/passwd", stat.S_IFLNK | 0o777), "a link or a device"),
        (zip_with("pipe", b"", stat.S_IFIFO | 0o666), "a link or a device"),
        (zip_with("device", b"", stat.S_IFCHR | 0o666), "a link or a device"),
        (zip_with("Good.txt"), "occurs twice"),
        (zip_with("good.txt/below"), "xlsa17"),
        (bomb(1000), "CRC"),
    ],
)
def test_hostile_archives(tmp_path, bring, payload, message):
    home = tmp_path / "in"
    home.mkdir()
    (home / "xlsa17.zip").write_bytes(payload)
    with pytest.raises((ValueError, OSError), match=message):
        bring(Archive("xlsa17", "https://127.0.0.1/"), home)
    # Nothing of it is left, inside or outside.
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert left(home) == ["xlsa17.zip"]


def test_claims_of_more_than_any_archive_has(tmp_path, bring):
    # As a 64-bit archive says it; the members need not be there.
    with zipfile.ZipFile(tmp_path / "xlsa17.zip", "w") as archive:
        for name in "abcdefghi":
            archive.writestr(name, b"x")
        for member in archive.filelist:
            member.file_size = 2**32 - 2
    with pytest.raises(ValueError, match="which is too much"):
        bring(Archive("xlsa17", "https://127.0.0.1/"))


# ---------------------------------------------------------------------------------- the list


def test_the_list_of_archives(tmp_path, monkeypatch):
    for name, archive in ARCHIVES.items():
        assert archive.name == name
        assert archive.url == f"https://datasets.d2.mpi-inf.mpg.de/xian/{name}.zip"
    with pytest.raises(ValueError, match=r"nothing to fetch under 'MNIST'\. There are: xlsa17"):
        fetch_archive("MNIST")
    (tmp_path / "xlsa17" / "CUB").mkdir(parents=True)
    monkeypatch.setenv("ZSLEARN_DATA", str(tmp_path))
    said = []
    assert fetch_archive("CUB", say=said.append) == tmp_path / "xlsa17"
    assert "already there" in said[0]
