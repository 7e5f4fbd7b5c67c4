"""What a request passes before the application reads it, and the set-up of the server.

The guard checks host, origin and token, limits time and the number of requests, and counts them.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import math
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic, perf_counter
from typing import Any
from urllib.parse import urlsplit

import h11
import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from uvicorn.protocols.http.h11_impl import H11Protocol

from zslearn.serving._recognizer import Limits, Refusal

_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})


class Measures:
    """What one service counts, for Prometheus; no label is made of what a request says."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._requests = Counter(
            "zslearn_requests", "Requests that were answered.", ["route", "method", "status"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "zslearn_request_seconds", "Seconds from the first byte to the answer.", ["route"],
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
            registry=registry,
        )  # fmt: skip
        self.in_flight = Gauge(
            "zslearn_requests_in_flight", "Requests being answered.", registry=registry
        )
        self.batch_rows = Histogram(
            "zslearn_batch_rows", "Images or feature vectors that were computed together.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256), registry=registry,
        )  # fmt: skip
        self.images = Counter(
            "zslearn_images", "Images that were predicted.", ["as"], registry=registry
        )
        self.classes = Gauge(
            "zslearn_classes", "Classes by how they are known.", ["known_by"], registry=registry
        )

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        method = method if method in _METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All of it, in the text format of Prometheus."""
        return generate_latest(self.registry)


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_log = logging.getLogger("zslearn")

#: What anybody may see: it says nothing of the model. The page asks for the token itself.
OPEN_PATHS = frozenset({"/", "/page.css", "/page.js", "/health"})
#: Answered however much there is to do.
_ALWAYS = frozenset({"/health", "/metrics"})
#: Wrong tokens of one address within so many seconds, and addresses that are remembered.
_MAX_GUESSES, _GUESS_SECONDS, _MAX_ADDRESSES = 10, 60.0, 1000
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


def is_loopback(host: str) -> bool:
    """Whether a name or an address is that of this machine alone."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """An ASGI application around another one.

    It checks the host, the origin and the token, limits time and the number of requests, counts
    what is answered, and turns every error into JSON with a reason. Without a token only requests
    to a name of this machine are answered: others come from a page whose server has pointed its
    own name here.
    """

    def __init__(
        self, app: Application, *, limits: Limits, measures: Measures, token: str | None
    ) -> None:
        self._app = app
        self._limits = limits
        self._measures = measures
        self._token = None if token is None else hashlib.sha256(token.encode()).digest()
        self._in_flight = 0
        # Address → when its first wrong token came, and how many.
        self._guesses: dict[str, tuple[float, int]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        start = perf_counter()
        has_body, status = False, 0

        async def watched_receive() -> Message:
            nonlocal has_body
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                has_body = True
            return message

        async def watched_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name for name, _ in message["headers"]}
                added = [(k, v) for k, v in _HEADERS if k not in own]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        self._in_flight += 1
        self._measures.in_flight.set(self._in_flight)
        try:
            self._admit(scope)
            async with asyncio.timeout(self._limits.seconds):
                await self._app(scope, watched_receive, watched_send)
        except Exception as error:
            refusal = self._refusal(error, scope, has_body)
            # Of an answer that has begun nothing can be taken back.
            if not status:
                await send_refusal(watched_send, refusal)
        finally:
            self._in_flight -= 1
            self._measures.in_flight.set(self._in_flight)
            seconds = perf_counter() - start
            self._measures.count(_route_of(scope), scope["method"], status or 500, seconds)

    def _refusal(self, error: Exception, scope: Scope, has_body: bool) -> Refusal:
        """What is answered after an error."""
        if isinstance(error, Refusal):
            return error
        if isinstance(error, TimeoutError):
            seconds = f"{self._limits.seconds:g} seconds"
            if has_body:
                return Refusal(503, f"No answer within {seconds}.", 1)
            return Refusal(408, f"The request was not whole within {seconds}.")
        _log.error("a request to %s failed", _route_of(scope), exc_info=error)
        return Refusal(500, "The service failed; its log says how.")

    def _admit(self, scope: Scope) -> None:
        """Refuse a request that may not be answered."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if self._token is None and not is_loopback(_name_of(host)):
            raise Refusal(
                421, "This service answers under the names of its own machine, such as localhost."
            )
        # A token does more than this, and a proxy in front may have another name.
        origin = headers.get(b"origin")
        if self._token is None and origin is not None and _place_of(origin) != host:
            raise Refusal(403, "Pages of other servers may not ask this one.")
        if self._token is not None and scope["path"] not in OPEN_PATHS:
            self._check_token(headers.get(b"authorization", b""), (scope.get("client") or ("",))[0])
        if self._in_flight > self._limits.in_flight and scope["path"] not in _ALWAYS:
            raise Refusal(503, f"{self._limits.in_flight} requests are being answered.", 1)

    def _check_token(self, header: bytes, address: str) -> None:
        first, n_wrong = self._guesses.get(address, (monotonic(), 0))
        left = first + _GUESS_SECONDS - monotonic()
        if n_wrong >= _MAX_GUESSES and left > 0:
            # Not compared at all: whoever guesses learns nothing.
            raise Refusal(429, "Too many wrong tokens came from this address.", math.ceil(left))
        scheme, _, token = header.partition(b" ")
        # Digests are of one length, and are compared in a time that does not depend on them.
        is_same = hmac.compare_digest(hashlib.sha256(token.strip()).digest(), self._token or b"")
        if is_same and scheme.lower() == b"bearer":
            return
        # A request without any token is no guess.
        if header:
            self._guesses.pop(address, None)
            if len(self._guesses) >= _MAX_ADDRESSES:
                del self._guesses[next(iter(self._guesses))]
            self._guesses[address] = (first, n_wrong + 1) if left > 0 else (monotonic(), 1)
        raise Refusal(401, "Give the token of this service: Authorization: Bearer TOKEN.")


def _route_of(scope: Scope) -> str:
    """The path of the route that a request matched: no text of the request's own."""
    return getattr(scope.get("route"), "path", "other")


def _name_of(host: str) -> str:
    """The name in a header Host, without the port."""
    if host.startswith("["):
        return host.partition("]")[0].strip("[")
    return host.partition(":")[0]


def _place_of(origin: bytes) -> str | None:
    """Name and port in a header Origin."""
    try:
        return urlsplit(origin.decode("latin-1")).netloc
    except ValueError:
        return None


async def send_refusal(send: Send, refusal: Refusal) -> None:
    """Answer with a reason."""
    body = json.dumps({"status": refusal.status, "reason": refusal.reason}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if refusal.retry_after is not None:
        headers.append((b"retry-after", str(refusal.retry_after).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.status in (408, 413):
        # What is left of the body is not read.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


#: Connections beyond the requests in flight: people who look at the page keep one open.
_SPARE_CONNECTIONS = 256


def protocol_with_limit(seconds: float) -> type[H11Protocol]:
    """A protocol that ends connections on which no whole request begins, or no answer is read."""

    class Protocol(H11Protocol):
        """Uvicorn waits for heads of requests, and for readers, without end; this one does not."""

        _limit: asyncio.TimerHandle | None = None
        _unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            # Writing is paused as long as anything waits to be read.
            transport.set_write_buffer_limits(high=0)
            self._limit = self.loop.call_later(seconds, transport.abort)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            waits = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
            if waits and self._limit is None:
                self._limit = self.loop.call_later(seconds, self.transport.abort)
            elif not waits and self._limit is not None:
                self._limit.cancel()
                self._limit = None

        def pause_writing(self) -> None:
            super().pause_writing()
            # Closed only, a connection would wait until all is read.
            self._unread = self.loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._unread is not None:
                self._unread.cancel()

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in (self._limit, self._unread):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)

    return Protocol


def server_config(app: Any, host: str, port: int, limits: Limits) -> uvicorn.Config:
    """How the server is set up."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=protocol_with_limit(limits.seconds),
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
        limit_concurrency=limits.in_flight + _SPARE_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
    )
