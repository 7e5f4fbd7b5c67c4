"""A server on loopback, with https, whose behaviour can be changed.

Its certificate is one that only the tests trust: set ``REQUESTS_CA_BUNDLE`` to `CERTIFICATE`.
"""

from __future__ import annotations

import functools
import hashlib
import io
import ssl
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from zslearn.datasets import Archive

CERTIFICATE = Path(__file__).with_name("loopback.pem")
NOISE = np.random.default_rng(0).bytes(300_000)


def zipped(members=(("data/CUB/res101.mat", NOISE), ("data/README.txt", b"hello"))):
    """A zip archive with one folder that holds everything."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members:
            archive.writestr(f"top/{name}", content)
    return file.getvalue()


PAYLOAD = zipped()


def left(folder):
    """Files in a folder, except the lock, which stays, and unfinished files."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.name not in (".xlsa17.lock", ".xlsa17.download")
    )


def assert_whole(folder, *also):
    """The archive was unpacked, and neither it nor anything temporary is left."""
    target = folder / "xlsa17"
    assert (target / "data" / "CUB" / "res101.mat").read_bytes() == NOISE
    assert (target / "data" / "README.txt").read_bytes() == b"hello"
    assert left(folder) == sorted(["xlsa17", *also])
    assert not (folder / ".xlsa17.download").exists()
    assert [path.name for path in target.iterdir()] == ["data"]


class Server:
    """A server whose behaviour can be changed; it remembers what it was asked."""

    def __init__(self, *, encrypted=True):
        self.payload = PAYLOAD
        self.ranges = True  # whether it can continue
        self.length = True  # whether it tells the length
        self.etag = '"one"'
        self.cuts = []  # after how many bytes the next connections break
        self.piece = 16384  # bytes sent at once
        self.pause = 0.0  # seconds between pieces
        self.status = None
        self.reason = None
        self.headers = {}
        self.redirects = {}
        self.asked = []  # (path, Range)
        self.answered = []
        handler = functools.partial(Handler, self)
        self.http = Listener(("127.0.0.1", 0), handler)
        self.scheme = "http"
        if encrypted:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self.http.socket = context.wrap_socket(
                self.http.socket, server_side=True, do_handshake_on_connect=False
            )
            self.scheme = "https"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def url(self, path="/xlsa17.zip"):
        return f"{self.scheme}://127.0.0.1:{self.http.server_port}{path}"

    def archive(self, **changes):
        digest = hashlib.sha256(self.payload).hexdigest()
        return Archive(**{"name": "xlsa17", "url": self.url(), "sha256": digest, **changes})

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(5)


class Listener(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Clients that go away are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    def __init__(self, server, *arguments):
        self.behaviour = server
        super().__init__(*arguments)

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        m = self.behaviour
        wanted = self.headers.get("Range")
        m.asked.append((self.path, wanted))
        if self.path in m.redirects:
            self.send_response(302)
            self.send_header("Location", m.redirects[self.path])
            self.end_headers()
            return
        if m.status:
            self.send_response(m.status, m.reason)
            self.end_headers()
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
        self.send_response(status, m.reason)
        if m.etag:
            self.send_header("ETag", m.etag)
        headers = {}
        if status == 206:
            last = len(m.payload) - 1
            headers["Content-Range"] = f"bytes {start}-{last}/{len(m.payload)}"
        if m.length:
            headers["Content-Length"] = str(len(m.payload) - start)
        for name, value in {**headers, **m.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self._send(start)
        self.close_connection = True

    def _send(self, start):
        m = self.behaviour
        end = min(start + m.cuts.pop(0) if m.cuts else len(m.payload), len(m.payload))
        for at in range(start, end, m.piece):
            self.wfile.write(m.payload[at : min(at + m.piece, end)])
            if m.pause:
                time.sleep(m.pause)
