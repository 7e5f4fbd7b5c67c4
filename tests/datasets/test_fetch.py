from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import unicodedata
import warnings
import zipfile

import numpy as np
import pytest

from loopback import CERTIFICATE, NOISE, PAYLOAD, Server, assert_whole, left, zipped
from zslearn._utils._files import locked
from zslearn._utils._messages import InputWarning
from zslearn.datasets import _fetch as _download
from zslearn.datasets import fetch_archive
from zslearn.datasets._fetch import (
    ARCHIVES,
    ArchiveError,
    FetchError,
    Provenance,
    fetch,
    find_archive,
    provenance_of,
    unpack,
    write_record,
)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    monkeypatch.setattr(_download, "_WAIT", 0.01)
    server = Server()
    yield server
    server.close()


def bring(archive, folder):
    said = []
    target = fetch(archive, folder, progress=False, say=said.append)
    return target, said


# -------------------------------------------------------------------------------- the transfer


def test_fetch(server, tmp_path):
    target, said = bring(server.archive(), tmp_path / "new")
    assert target == tmp_path / "new" / "xlsa17"
    assert_whole(tmp_path / "new")
    assert [text.split()[0] for text in said] == ["downloading", "checking", "unpacking"]
    target, said = bring(server.archive(), tmp_path / "new")
    assert said[0].startswith("already there")
    assert len(server.asked) == 1


def test_an_interrupted_transfer_continues_by_itself(server, tmp_path):
    server.cuts = [100_000, 50_000]
    bring(server.archive(), tmp_path)
    assert_whole(tmp_path)
    assert [asked for _, asked in server.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert server.answered == [200, 206, 206]


def test_a_failed_transfer_continues_at_the_next_call(server, tmp_path):
    server.cuts = [40_000] * 4
    with pytest.raises(FetchError, match=r"160000 of \d+ bytes\). 160000 bytes are kept; run it"):
        bring(server.archive(), tmp_path)
    assert (tmp_path / "xlsa17.zip.part").read_bytes() == PAYLOAD[:160_000]
    server.asked.clear()
    bring(server.archive(), tmp_path)
    assert server.asked == [("/xlsa17.zip", "bytes=160000-")]
    assert_whole(tmp_path)


def test_a_server_that_cannot_continue_starts_anew(server, tmp_path):
    server.ranges = False
    server.cuts = [100_000]
    bring(server.archive(), tmp_path)
    assert server.answered == [200, 200]
    assert_whole(tmp_path)


def test_a_file_that_changed_meanwhile_starts_anew(server, tmp_path):
    server.cuts = [100_000, 0, 0, 0]
    with pytest.raises(FetchError):
        bring(server.archive(sha256=None, size=None), tmp_path)
    server.payload = zipped([("other.txt", NOISE)])
    server.etag = '"two"'
    # The parts of two files are no archive, and are removed.
    with pytest.raises(ArchiveError, match=r"The download was removed"):
        bring(server.archive(sha256=None, size=None), tmp_path)
    with pytest.warns(InputWarning, match="it is unverified"):
        bring(server.archive(sha256=None, size=None), tmp_path)
    assert (tmp_path / "xlsa17" / "other.txt").read_bytes() == NOISE


def test_everything_was_there_already(server, tmp_path):
    (tmp_path / "xlsa17.zip.part").write_bytes(PAYLOAD)
    bring(server.archive(), tmp_path)
    assert_whole(tmp_path)


def test_a_part_that_is_too_long_is_dropped(server, tmp_path):
    (tmp_path / "xlsa17.zip.part").write_bytes(PAYLOAD + b"more")
    bring(server.archive(), tmp_path)
    assert_whole(tmp_path)


def test_unknown_length(server, tmp_path):
    server.length = False
    bring(server.archive(), tmp_path)
    assert_whole(tmp_path)


def test_an_archive_brought_by_other_means_is_not_downloaded(server, tmp_path):
    (tmp_path / "xlsa17.zip").write_bytes(PAYLOAD)
    _, said = bring(server.archive(), tmp_path)
    assert server.asked == []
    assert said[0].startswith("found")
    assert_whole(tmp_path)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "xlsa17.zip").write_bytes(PAYLOAD[:-1])
    with pytest.raises(ValueError, match=r"bytes instead of"):
        bring(server.archive(), tmp_path / "b")
    assert (tmp_path / "b" / "xlsa17.zip").exists()


def test_redirect(server, tmp_path):
    server.redirects = {"/old": server.url("/middle"), "/middle": "/xlsa17.zip"}
    bring(server.archive(url=server.url("/old")), tmp_path)
    assert_whole(tmp_path)
    assert [path for path, _ in server.asked] == ["/old", "/middle", "/xlsa17.zip"]


def test_redirect_keeps_the_range(server, tmp_path):
    server.redirects = {"/old": "/xlsa17.zip"}
    server.cuts = [100_000]
    bring(server.archive(url=server.url("/old")), tmp_path)
    assert server.answered == [200, 206]
    assert_whole(tmp_path)


@pytest.mark.parametrize("where", ["/loop", "file:///etc/hostname", "ftp://127.0.0.1/x"])
def test_redirects_that_lead_nowhere(server, tmp_path, where):
    server.redirects = {"/loop": where}
    with pytest.raises(FetchError, match="Could not download"):
        bring(server.archive(url=server.url("/loop")), tmp_path)
    assert left(tmp_path) == []


@pytest.fixture
def plain_server():
    server = Server(encrypted=False)
    yield server
    server.close()


def test_no_plain_address_is_asked(plain_server, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(FetchError, match=r"is not encrypted \(https\)"):
        bring(plain_server.archive(), tmp_path)
    assert plain_server.asked == []
    assert left(tmp_path) == []


def test_no_redirect_from_encrypted_to_plain(server, plain_server, tmp_path):
    server.redirects = {"/old": plain_server.url()}
    with pytest.raises(FetchError, match=r"is not encrypted \(https\)"):
        bring(server.archive(url=server.url("/old")), tmp_path)
    assert [path for path, _ in server.asked] == ["/old"]
    assert plain_server.asked == []


def test_certificates_are_checked(server, tmp_path, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(FetchError, match="certificate"):
        bring(server.archive(), tmp_path)
    assert server.asked == []


ESCAPE = "\x1b]0;gotcha\x07\x1b[2J\x9b31m"


@pytest.mark.parametrize(
    "behaviour",
    [
        {"status": 404, "reason": ESCAPE},
        {"status": 500, "reason": ESCAPE},
        {"redirects": {"/xlsa17.zip": f"https://{ESCAPE}/"}},
        {"redirects": {"/xlsa17.zip": f"http://127.0.0.1/{ESCAPE}"}},
        {"redirects": {"/xlsa17.zip": f"gopher:{ESCAPE}"}},
        {"redirects": {"/xlsa17.zip": "https://[::1"}},
        {"headers": {"Content-Length": "9" * 5000}, "payload": b"x"},
        {"headers": {"Content-Length": ESCAPE}, "payload": b"x"},
    ],
)
def test_what_a_server_says_is_written_plainly(server, tmp_path, behaviour, capfd):
    vars(server).update(behaviour)
    said = []
    with pytest.raises((FetchError, ArchiveError)) as caught:
        fetch(server.archive(size=None), tmp_path, progress=True, say=said.append)
    printed = capfd.readouterr()
    for text in (str(caught.value), *said, printed.out, printed.err):
        assert not any(unicodedata.category(letter) == "Cc" for letter in text)
    assert len(str(caught.value)) < 1000
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    "behaviour",
    [{"piece": 1, "pause": 0.05}, pytest.param({"header_pause": 0.05}, marks=pytest.mark.slow)],
)
def test_a_server_that_trickles_meets_the_deadline(server, tmp_path, behaviour):
    """Each byte is in time, but all of them would take hours."""
    vars(server).update(behaviour)
    with pytest.raises(FetchError, match="the limit of 1 seconds is over") as caught:
        fetch(server.archive(), tmp_path, progress=False, say=lambda text: None, deadline=1)
    kept = [path for path in tmp_path.iterdir() if path.name.endswith(".part")]
    assert ("run it again to continue" in str(caught.value)) == bool(kept)


def test_not_found(server, tmp_path):
    server.status = 404
    with pytest.raises(FetchError, match=r"the server answers 404 Not Found"):
        bring(server.archive(), tmp_path)
    assert len(server.asked) == 1
    assert left(tmp_path) == []


def test_a_server_in_trouble_is_asked_again(server, tmp_path):
    server.status = 503
    with pytest.raises(FetchError, match=r"503"):
        bring(server.archive(), tmp_path)
    assert len(server.asked) == 4


def test_nobody_there(server, tmp_path):
    url = server.url()
    server.close()
    with pytest.raises(FetchError, match=r"Could not download .*refused"):
        bring(server.archive(url=url), tmp_path)


# ------------------------------------------------------------------------------------- proof


def test_wrong_checksum(server, tmp_path):
    with pytest.raises(ValueError, match=r"sha256 [0-9a-f]{64} instead of 0000"):
        bring(server.archive(sha256="0" * 64), tmp_path)
    # Nothing that could be taken for it is left.
    assert left(tmp_path) == []


def test_wrong_size(server, tmp_path):
    with pytest.raises(ValueError, match=rf"has {len(PAYLOAD)} bytes instead of 7"):
        bring(server.archive(size=7), tmp_path)
    assert left(tmp_path) == []


def test_more_than_announced(server, tmp_path):
    server.length = False
    with pytest.raises(ValueError, match=r"longer than the 1000 bytes"):
        bring(server.archive(size=1000), tmp_path)
    assert left(tmp_path) == []


def test_unknown_checksum_is_computed_and_told(server, tmp_path):
    digest = hashlib.sha256(PAYLOAD).hexdigest()
    with pytest.warns(InputWarning, match=rf"it is unverified. Its sha256 is {digest}"):
        bring(server.archive(sha256=None), tmp_path)
    assert_whole(tmp_path, "xlsa17.fetched.json")
    expected = Provenance(server.url(), digest, len(PAYLOAD), "first use")
    assert provenance_of(tmp_path / "xlsa17") == expected
    assert provenance_of(tmp_path / "xlsa17" / "data" / "CUB") == expected
    _, said = bring(server.archive(sha256=None), tmp_path)
    assert f"unverified, sha256 {digest}" in said[0]


def test_first_use_is_remembered(server, tmp_path):
    """What came first is what comes ever after, also when the folder was moved away."""
    with pytest.warns(InputWarning, match="it is unverified"):
        bring(server.archive(sha256=None, size=None), tmp_path)
    shutil.rmtree(tmp_path / "xlsa17")
    with pytest.warns(InputWarning, match="the same as at the first time"):
        bring(server.archive(sha256=None, size=None), tmp_path)
    shutil.rmtree(tmp_path / "xlsa17")
    server.payload = zipped([("other.txt", NOISE)])
    with pytest.raises(ArchiveError, match=r"but had [0-9a-f]{64} when it was first") as caught:
        bring(server.archive(sha256=None, size=None), tmp_path)
    assert "The download was removed." in str(caught.value)
    memory = tmp_path / "xlsa17.fetched.json"
    assert left(tmp_path) == [memory.name]
    # An archive brought by other means must be the same, too.
    (tmp_path / "xlsa17.zip").write_bytes(server.payload)
    with pytest.raises(ArchiveError, match=r"when it was first fetched"):
        bring(server.archive(sha256=None, size=None), tmp_path)
    (tmp_path / "xlsa17.zip").unlink()
    # A memory that is damaged is not the same as none.
    text = memory.read_text()
    memory.write_text(text.replace('"size": 3', '"size": 4'))
    with pytest.raises(ArchiveError, match=r"is damaged .*Delete it if you trust"):
        bring(server.archive(sha256=None, size=None), tmp_path)
    memory.unlink()
    with pytest.warns(InputWarning, match="it is unverified"):
        bring(server.archive(sha256=None, size=None), tmp_path)
    assert (tmp_path / "xlsa17" / "other.txt").read_bytes() == NOISE


def test_verified_is_recorded_as_such(server, tmp_path):
    bring(server.archive(), tmp_path)
    provenance = provenance_of(tmp_path / "xlsa17" / "data")
    assert provenance.is_verified
    assert provenance.source == server.url()


def test_what_an_archive_says_of_itself_does_not_count(server, tmp_path):
    lie = Provenance("https://example.org", "0" * 64, 1, "verified")
    write_record(tmp_path / "lie.json", lie)
    text = (tmp_path / "lie.json").read_bytes()
    server.payload = zipped([("a.mat", b"a"), ("zslearn-fetched.json", text)])
    names = ("zslearn-fetched.json", "data/CUB/zslearn-fetched.json", "data/ZSLEARN-fetched.json/x")
    for number, name in enumerate(names):
        server.payload = zipped([("a.mat", b"a"), (name, text)])
        with pytest.raises(ArchiveError, match=r"holds zslearn-fetched\.json, which only zslearn"):
            bring(server.archive(sha256=None), tmp_path / str(number))
        assert left(tmp_path / str(number)) == []


@pytest.mark.parametrize("content", ["", "[" * 200_000, "{}", '{"trust": "verified"}', "x" * 10**6])
def test_records_that_are_damaged_are_not_verified(tmp_path, content):
    assert provenance_of(tmp_path) is None
    (tmp_path / "zslearn-fetched.json").write_text(content)
    assert provenance_of(tmp_path).mark == "/unknown-origin"


def test_known_checksum_gives_no_warning(server, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bring(server.archive(), tmp_path)


def test_a_page_instead_of_an_archive(server, tmp_path):
    """It is removed, so that the next fetch can succeed."""
    server.payload = b"<html>please log in</html>"
    with pytest.raises(ArchiveError, match=r"no zip archive.*download was removed"):
        bring(server.archive(size=None, sha256=None), tmp_path)
    assert left(tmp_path) == []
    server.payload = PAYLOAD
    with pytest.warns(InputWarning):
        bring(server.archive(size=None, sha256=None), tmp_path)
    assert_whole(tmp_path, "xlsa17.fetched.json")


SCRIPT = """
import sys
from zslearn.datasets import _fetch
archive = _fetch.Archive("xlsa17", "xlsa17.zip", sys.argv[1], None, sys.argv[3], ())
_fetch.ARCHIVES["xlsa17"] = archive
from zslearn.cli import main
sys.exit(main(["data", "fetch", "xlsa17", "--to", sys.argv[2]]))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.slow
def test_ctrl_c_leaves_a_part_that_continues(server, tmp_path):
    server.pause = 0.05
    digest = hashlib.sha256(PAYLOAD).hexdigest()
    words = [sys.executable, "-c", SCRIPT, server.url(), str(tmp_path), digest]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    part = tmp_path / "xlsa17.zip.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "zslearn: stopped" in err
    kept = part.stat().st_size
    assert 0 < kept < len(PAYLOAD)
    assert not (tmp_path / "xlsa17").exists()
    server.pause = 0
    bring(server.archive(), tmp_path)
    assert server.asked[-1] == ("/xlsa17.zip", f"bytes={kept}-")
    assert_whole(tmp_path)


# --------------------------------------------------------------------------- several processes


def test_two_fetches_at_once(server, tmp_path):
    """One downloads, the other waits and finds it there."""
    server.pause = 0.02
    said, failures = [], []

    def work():
        try:
            fetch(server.archive(), tmp_path, progress=False, say=said.append)
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


def test_waiting_has_an_end(server, tmp_path):
    with (
        locked(tmp_path / "xlsa17"),
        pytest.raises(FetchError, match=r"xlsa17 is in use by another process; try again"),
    ):
        fetch(server.archive(), tmp_path, progress=False, say=lambda text: None, deadline=0.3)
    assert server.asked == []
    bring(server.archive(), tmp_path)
    assert_whole(tmp_path)


def test_a_lock_is_held_by_one_at_a_time(tmp_path):
    inside, overlaps = [], []

    def work():
        for _ in range(20):
            with locked(tmp_path / "file", limit=60) as is_held:
                inside.append(1)
                if len(inside) > 1 or not is_held:
                    overlaps.append(1)
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == []


def test_leftovers_are_removed(server, tmp_path):
    folder = tmp_path / ".xlsa17.123-abcd.tmp"
    (folder / "data").mkdir(parents=True)
    (tmp_path / ".xlsa17.fetched.12-ab.tmp.json").write_text("half")
    (tmp_path / ".xlsa17.lock").write_text("")
    other = tmp_path / ".standard_split.123-abcd.tmp"
    other.mkdir()
    bring(server.archive(), tmp_path)
    assert_whole(tmp_path, other.name)
    # What is left by one that was killed in its last step.
    folder.mkdir()
    (tmp_path / "xlsa17.zip.part").write_bytes(PAYLOAD)
    bring(server.archive(), tmp_path)
    assert_whole(tmp_path, other.name)


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


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (zip_with("../evil"), "leads out of the folder"),
        (zip_with("a/../../evil"), "leads out of the folder"),
        (zip_with("/tmp/evil"), "absolute or foreign name"),
        (zip_with("C:/evil"), "absolute or foreign name"),
        (zip_with("..\\evil"), "absolute or foreign name"),
        (zip_with("link", b"/etc/passwd", stat.S_IFLNK | 0o777), "a link or a device"),
        (zip_with("pipe", b"", stat.S_IFIFO | 0o666), "a link or a device"),
        (zip_with("device", b"", stat.S_IFCHR | 0o666), "a link or a device"),
        (zip_with("good.txt"), "occurs twice"),
        (zip_with("good.txt/below"), "occurs twice"),
    ],
)
def test_hostile_archives(server, tmp_path, payload, message):
    server.payload = payload
    with pytest.raises(ArchiveError, match=message):
        bring(server.archive(), tmp_path / "in")
    # Nothing of it is left, inside or outside.
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert left(tmp_path / "in") == []


def test_bombs(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(2_000_000))
    honest = file.getvalue()
    path = tmp_path / "bomb.zip"
    path.write_bytes(honest)
    with pytest.raises(ArchiveError, match=r"2000000 bytes, more than the 1000000 expected"):
        unpack(path, tmp_path / "out", max_bytes=1_000_000)
    # One that lies about its size.
    lie = honest.replace((2_000_000).to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    assert lie != honest
    path.write_bytes(lie)
    with pytest.raises(ArchiveError, match=r"Nothing was unpacked"):
        unpack(path, tmp_path / "out", max_bytes=1_000_000)
    assert [one.name for one in tmp_path.iterdir()] == ["bomb.zip"]


def test_damaged_archives(tmp_path):
    path = tmp_path / "x.zip"
    rng = np.random.default_rng(1)
    whole = zipped([("a.txt", NOISE[:3000])])
    for round_ in range(60):
        data = bytearray(whole)
        if round_ % 2:
            data = data[: rng.integers(len(data))]
        else:
            for at in rng.integers(0, len(data), 4):
                data[at] = rng.integers(256)
        path.write_bytes(bytes(data))
        target = tmp_path / "out"
        try:
            unpack(path, target)
        except (ArchiveError, OSError):
            assert not target.exists()
        else:
            shutil.rmtree(target)
        assert [one.name for one in tmp_path.iterdir()] == ["x.zip"]


def test_what_systems_leave_is_skipped(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("top/a.txt", b"a")
        archive.writestr("top/.DS_Store", b"x")
        archive.writestr("__MACOSX/top/._a.txt", b"x")
    unpack(path, tmp_path / "out")
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["a.txt"]
    with pytest.raises(FileExistsError, match="exists already"):
        unpack(path, tmp_path / "out")


# ---------------------------------------------------------------------------------- the list


def test_the_list_of_archives():
    for name, archive in ARCHIVES.items():
        assert archive.file == f"{name}.zip"
        assert archive.url.startswith("https://")
        assert archive.sha256 is None or len(archive.sha256) == 64
    assert find_archive("CUB").name == "xlsa17"
    assert find_archive("FLO").name == "cvpr18xian"
    with pytest.raises(ValueError, match=r"nothing to fetch under 'MNIST'; choose one of xlsa17"):
        fetch_archive("MNIST")


def test_the_folder_of_the_environment_comes_first(tmp_path, monkeypatch):
    (tmp_path / "xlsa17" / "CUB").mkdir(parents=True)
    monkeypatch.setenv("ZSLEARN_DATA", str(tmp_path))
    said = []
    assert fetch_archive("CUB", say=said.append) == tmp_path / "xlsa17"
    assert "already there" in said[0]
