"""What every request passes before it is looked at: limits, checks of its words, the guard."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import re
import time
import unicodedata
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlsplit

from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from zslearn._utils._messages import composed


@dataclass(frozen=True)
class Limits:
    """How much a service takes on; what is beyond is refused with a reason.

    Parameters
    ----------
    body_bytes : int, default=33554432
        Bytes of a request's body, whether it says its length or not.
    pixels : int, default=50000000
        Pixels that an image may claim; more are refused before it is decoded.
    batch : int, default=64
        Images or feature vectors of one request.
    added_classes : int, default=1000
        Classes that may be added to those of the model file.
    in_flight : int, default=64
        Requests at the same time; further ones are answered with 503 and when to try again.
    seconds : float, default=30.0
        For a request from its first byte to the answer.

    Examples
    --------
    >>> from zslearn.serving import Limits
    >>> Limits(batch=8).batch
    8
    """

    body_bytes: int = 32 * 2**20
    pixels: int = 50_000_000
    batch: int = 64
    added_classes: int = 1000
    in_flight: int = 64
    seconds: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "added_classes" else 1e-3
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
                raise ValueError(f"The limit {field.name}={value!r} must be a positive number.")


MAX_NAME = 200
MAX_TEXT = 2000
MAX_TEXTS = 16


class Refusal(Exception):
    """A request that is answered with a status of HTTP and a reason: what is wrong, what to do."""

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


def checked_name(name: str) -> str:
    """The name of a new class in its normal form; a Refusal where it cannot be one."""
    normal = composed(name).strip()
    if not normal:
        raise Refusal(422, "The name is empty.")
    if len(normal) > MAX_NAME:
        raise Refusal(422, f"The name is longer than {MAX_NAME} characters.")
    if not normal.isprintable():
        raise Refusal(422, "The name holds characters that cannot be seen; leave them out.")
    # Browsers and other clients take these for folders, so that no address could name the class.
    if normal in (".", ".."):
        raise Refusal(422, "The name is one or two dots, which no address can hold.")
    return normal


def label_for(name: str, labels: NDArray[Any]) -> Any:
    """The label of a new class, of the kind that the model has; a Refusal where there is none."""
    if labels.dtype.kind in "iu":
        if not re.fullmatch(r"-?[0-9]{1,18}", name):
            raise Refusal(422, "The classes of this model are numbers: the name must be one.")
        if labels.dtype.kind == "u" and name.startswith("-"):
            raise Refusal(422, "The classes of this model are numbers that are not negative.")
        return int(name)
    if labels.dtype.kind in "bf":
        raise Refusal(422, "The classes of this model are no names: none can be added.")
    return name


def checked_texts(text: str | list[str]) -> list[str]:
    """What is said of a class, as a list; a Refusal where nothing is, or too much."""
    texts = [text] if isinstance(text, str) else list(text)
    if not texts or any(not words.strip() for words in texts):
        raise Refusal(422, "The text is empty.")
    if len(texts) > MAX_TEXTS or any(len(words) > MAX_TEXT for words in texts):
        raise Refusal(
            422, f"There may be {MAX_TEXTS} texts of {MAX_TEXT} characters each, not more."
        )
    if any(not _is_text(words) for words in texts):
        raise Refusal(422, "The text holds characters that are no text.")
    return texts


def _is_text(words: str) -> bool:
    """Whether text can be written in UTF-8 and has no control characters but ends of line."""
    return all(
        letter in "\n\r\t" or unicodedata.category(letter) not in ("Cc", "Cs") for letter in words
    )


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
OPEN_PATHS = frozenset({"/", "/page.css", "/page.js", "/health", "/openapi.json"})
#: Answered however much there is to do.
_ALWAYS = frozenset({"/health", "/metrics"})
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        start = time.perf_counter()
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
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - start
            self._measures.count(route, scope["method"], status or 500, seconds)

    def _refusal(self, error: Exception, scope: Scope, has_body: bool) -> Refusal:
        """What is answered after an error."""
        if isinstance(error, Refusal):
            return error
        if isinstance(error, TimeoutError):
            seconds = f"{self._limits.seconds:g} seconds"
            if has_body:
                return Refusal(503, f"No answer within {seconds}.", 1)
            return Refusal(408, f"The request was not whole within {seconds}.")
        where = scope.get("route", "an unknown place")
        _log.error("a request to %s failed", where, exc_info=error)
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
            self._check_token(headers.get(b"authorization", b""))
        if self._in_flight > self._limits.in_flight and scope["path"] not in _ALWAYS:
            raise Refusal(503, f"{self._limits.in_flight} requests are being answered.", 1)

    def _check_token(self, header: bytes) -> None:
        scheme, _, token = header.partition(b" ")
        # Digests are of one length, and are compared in a time that does not depend on them.
        is_same = hmac.compare_digest(hashlib.sha256(token.strip()).digest(), self._token or b"")
        if not (is_same and scheme.lower() == b"bearer"):
            raise Refusal(401, "Give the token of this service: Authorization: Bearer TOKEN.")


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
