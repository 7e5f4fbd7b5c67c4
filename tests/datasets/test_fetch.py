from __future__ import annotations

import functools
import hashlib
import io
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import time
import warnings
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from zslearn.datasets import _fetch, fetch_archive
from zslearn.datasets._fetch import Archive, FetchError, archives, fetch, find_archive
from zslearn.datasets._unpack import ArchiveError, unpack
from zslearn.utils import InputWarning

NOISE = np.random.default_rng(0).bytes(300_000)


def zipped(members=(("data/CUB/res101.mat", NOISE), ("data/README.txt", b"hello"))):
    """A zip archive with one folder that holds everything."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members:
            archive.writestr(f"top/{name}", content)
    return file.getvalue()


PAYLOAD = zipped()


class Server:
    """A server on loopback whose manners can be changed; it remembers what it was asked."""

    def __init__(self):
        self.payload = PAYLOAD
        self.ranges = True  # whether it can continue
        self.length = True  # whether it tells the length
        self.etag = '"one"'
        self.cuts = []  # after how many bytes the next connections break
        self.pause = 0.0  # seconds between pieces
        self.status = None
        self.redirects = {}
        self.asked = []  # (path, Range)
        self.answered = []
        handler = functools.partial(Handler, self)
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def url(self, path="/xlsa17.zip"):
        return f"http://127.0.0.1:{self.http.server_port}{path}"

    def archive(self, **changes):
        values = {
            "name": "xlsa17",
            "file": "xlsa17.zip",
            "urls": (self.url(),),
            "size": len(self.payload),
            "sha256": hashlib.sha256(self.payload).hexdigest(),
            "data_sets": ("CUB",),
        }
        return Archive(**{**values, **changes})

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(5)


class Handler(BaseHTTPRequestHandler):
    def __init__(self, server, *arguments):
        self.manners = server
        super().__init__(*arguments)

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        m = self.manners
        wanted = self.headers.get("Range")
        m.asked.append((self.path, wanted))
        if self.path in m.redirects:
            self.send_response(302)
            self.send_header("Location", m.redirects[self.path])
            self.end_headers()
            return
        if m.status:
            self.send_error(m.status)
            return
        start, status = 0, 200
        same = self.headers.get("If-Range") in (None, m.etag)
        if wanted and m.ranges and same:
            start, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
        if start >= len(m.payload):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(m.payload)}")
            self.end_headers()
            return
        m.answered.append(status)
        self.send_response(status)
        if m.etag:
            self.send_header("ETag", m.etag)
        if status == 206:
            last = len(m.payload) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(m.payload)}")
        if m.length:
            self.send_header("Content-Length", str(len(m.payload) - start))
        self.end_headers()
        end = start + m.cuts.pop(0) if m.cuts else len(m.payload)
        for at in range(start, min(end, len(m.payload)), 16384):
            try:
                self.wfile.write(m.payload[at : min(at + 16384, end)])
            except OSError:
                return
            time.sleep(m.pause)
        self.close_connection = True


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(_fetch, "_WAIT", 0.01)
    server = Server()
    yield server
    server.close()


def bring(archive, folder):
    said = []
    target = fetch(archive, folder, progress=False, say=said.append)
    return target, said


def assert_whole(folder):
    target = folder / "xlsa17"
    assert (target / "data" / "CUB" / "res101.mat").read_bytes() == NOISE
    assert (target / "data" / "README.txt").read_bytes() == b"hello"
    # Neither the archive nor anything temporary is left.
    assert [path.name for path in folder.iterdir()] == ["xlsa17"]


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
    server.answered.clear()
    with pytest.warns(InputWarning, match="could not be verified"):
        bring(server.archive(sha256=None, size=None), tmp_path)
    assert server.answered == [200]
    assert (tmp_path / "xlsa17" / "other.txt").read_bytes() == NOISE


def test_without_a_mark_only_a_known_checksum_lets_it_continue(server, tmp_path):
    server.etag = None
    server.cuts = [100_000]
    bring(server.archive(), tmp_path / "a")
    assert server.answered == [200, 206]
    server.answered.clear()
    server.cuts = [100_000]
    with pytest.warns(InputWarning):
        bring(server.archive(sha256=None), tmp_path / "b")
    assert server.answered == [200, 200]


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
    bring(server.archive(urls=(server.url("/old"),)), tmp_path)
    assert_whole(tmp_path)
    assert [path for path, _ in server.asked] == ["/old", "/middle", "/xlsa17.zip"]


def test_redirect_keeps_the_range(server, tmp_path):
    server.redirects = {"/old": "/xlsa17.zip"}
    server.cuts = [100_000]
    bring(server.archive(urls=(server.url("/old"),)), tmp_path)
    assert server.answered == [200, 206]
    assert_whole(tmp_path)


@pytest.mark.parametrize("where", ["/loop", "file:///etc/hostname", "ftp://127.0.0.1/x"])
def test_redirects_that_lead_nowhere(server, tmp_path, where):
    server.redirects = {"/loop": where}
    with pytest.raises(FetchError, match="Could not download"):
        bring(server.archive(urls=(server.url("/loop"),)), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_redirect_from_encrypted_to_plain():
    request = _fetch.urllib.request.Request("https://example.org/x.zip")
    with pytest.raises(_fetch.urllib.error.URLError, match="not encrypted"):
        _fetch._Redirects().redirect_request(request, None, 302, "", {}, "http://example.org/x")


def test_not_found(server, tmp_path):
    server.status = 404
    with pytest.raises(FetchError, match=r"the server answers 404 Not Found"):
        bring(server.archive(), tmp_path)
    assert len(server.asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_server_in_trouble_is_asked_again(server, tmp_path):
    server.status = 503
    with pytest.raises(FetchError, match=r"503"):
        bring(server.archive(), tmp_path)
    assert len(server.asked) == 4


def test_the_second_address_is_tried(server, tmp_path):
    server.redirects = {"/broken": "/broken"}
    bring(server.archive(urls=(server.url("/broken"), server.url())), tmp_path)
    assert_whole(tmp_path)


def test_nobody_there(server, tmp_path):
    url = server.url()
    server.close()
    with pytest.raises(FetchError, match=r"Could not download .*refused"):
        bring(server.archive(urls=(url,)), tmp_path)


# ------------------------------------------------------------------------------------- proof


def test_wrong_checksum(server, tmp_path):
    with pytest.raises(ValueError, match=r"sha256 [0-9a-f]{64} instead of 0000"):
        bring(server.archive(sha256="0" * 64), tmp_path)
    # Nothing that could be taken for it is left.
    assert list(tmp_path.iterdir()) == []


def test_wrong_size(server, tmp_path):
    with pytest.raises(ValueError, match=rf"has {len(PAYLOAD)} bytes instead of 7"):
        bring(server.archive(size=7), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_more_than_announced(server, tmp_path):
    server.length = False
    with pytest.raises(ValueError, match=r"longer than the 1000 bytes"):
        bring(server.archive(size=1000), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_unknown_checksum_is_computed_and_told(server, tmp_path):
    digest = hashlib.sha256(PAYLOAD).hexdigest()
    with pytest.warns(InputWarning, match=rf"could not be verified. Its sha256 is {digest}"):
        bring(server.archive(sha256=None), tmp_path)
    assert_whole(tmp_path)


def test_known_checksum_gives_no_warning(server, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bring(server.archive(), tmp_path)


def test_a_page_instead_of_an_archive(server, tmp_path):
    server.payload = b"<html>please log in</html>"
    with pytest.raises(ArchiveError, match=r"neither a zip nor a tar archive"):
        bring(server.archive(), tmp_path)
    assert not (tmp_path / "xlsa17").exists()


SCRIPT = """
import sys
from zslearn.datasets import _fetch
archive = _fetch.Archive("xlsa17", "xlsa17.zip", (sys.argv[1],), None, sys.argv[3], ())
_fetch.archives = lambda: {"xlsa17": archive}
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


def tar_with(name, kind=tarfile.REGTYPE, link="", content=b"x", mode="w:gz"):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        good = tarfile.TarInfo("good.txt")
        good.size = 4
        archive.addfile(good, io.BytesIO(b"good"))
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, link
        info.size = len(content) if kind == tarfile.REGTYPE else 0
        archive.addfile(info, io.BytesIO(content))
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
        (tar_with("../evil"), "leads out of the folder"),
        (tar_with("/tmp/evil"), "absolute or foreign name"),
        (tar_with("link", tarfile.SYMTYPE, "/etc/passwd"), "a link or a device"),
        (tar_with("link", tarfile.LNKTYPE, "good.txt"), "a link or a device"),
        (tar_with("device", tarfile.CHRTYPE), "a link or a device"),
        (tar_with("pipe", tarfile.FIFOTYPE), "a link or a device"),
    ],
)
def test_hostile_archives(server, tmp_path, payload, message):
    server.payload = payload
    with pytest.raises(ArchiveError, match=message):
        bring(server.archive(), tmp_path / "in")
    # The archive itself stays, for whoever wants to look; nothing of it was written.
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["xlsa17.zip"]


def test_honest_tar(server, tmp_path):
    for mode in ("w", "w:gz", "w:xz"):
        path = tmp_path / "x.tar"
        path.write_bytes(tar_with("a/b.txt", mode=mode))
        unpack(path, tmp_path / mode)
        assert (tmp_path / mode / "a" / "b.txt").read_bytes() == b"x"


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
    path.write_bytes(tar_with("zeros", content=bytes(2_000_000)))
    with pytest.raises(ArchiveError, match=r"more than the 1000000 expected"):
        unpack(path, tmp_path / "out", max_bytes=1_000_000)
    assert [one.name for one in tmp_path.iterdir()] == ["bomb.zip"]


def test_damaged_archives(tmp_path):
    path = tmp_path / "x.zip"
    rng = np.random.default_rng(1)
    for whole in (zipped([("a.txt", NOISE[:3000])]), tar_with("a.txt", content=NOISE[:3000])):
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
    for name, archive in archives().items():
        assert archive.file == f"{name}.zip"
        assert archive.urls
        assert all(url.startswith(("https://", "http://")) for url in archive.urls)
        assert archive.urls[0].startswith("https://")
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
