"""`create_app` and `serve`, and the guard in front of every request.

The guard checks host, origin and token, limits bodies, time and the number of requests, and counts
responses. Packages of the extra ``serve`` are imported late, so that an error can name the extra.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from zslearn._utils._messages import plain
from zslearn._utils._optional import import_optional
from zslearn._version import __version__
from zslearn.serving._recognizer import Limits, Recognizer, Refusal

if TYPE_CHECKING:
    import pandas as pd
    from fastapi import FastAPI

_log = logging.getLogger("zslearn")

#: Shorter tokens are easy to guess.
_SHORTEST_TOKEN = 16


def create_app(
    model: str | os.PathLike[str],
    *,
    token: str | None = None,
    limits: Limits | None = None,
    pictures: str | os.PathLike[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    encoder: str | None = None,
    prior: Mapping[str, float] | None = None,
    taxonomy: pd.DataFrame | None = None,
    describe: Mapping[str, Sequence[str]] | None = None,
) -> FastAPI:
    """Build an ASGI application that serves a model file.

    Added classes, corrections and adaptations are saved in the file before their request is
    answered. While the application runs, no other process can change the file.

    Parameters
    ----------
    model : path
        The model file.
    token : str, optional
        A secret of at least 16 characters that requests send as ``Authorization: Bearer TOKEN``.
        Without one, only requests to a name of this machine (localhost) are answered.
    limits : Limits, optional
        Limits of requests and changes.
    pictures : path, optional
        The folder of the training images that the model file names; thumbnails of them are shown.
    weights, device : optional
        See :func:`~zslearn.images.load_backbone`.
    encoder : str, optional
        The text encoder, required if the model file names one in a folder: such folders are only
        read if the caller names them.
    prior : mapping of str to float, optional
        Prior odds of classes for requests without any, 1 for classes not named.
    taxonomy : DataFrame, optional
        Ranks of classes, as for :func:`~zslearn.signatures.taxonomy_hierarchy`. Requests may then
        restrict candidates to a taxon.
    describe : mapping of str to sequence of str, optional
        Texts of classes to add if the model does not know them.

    Returns
    -------
    FastAPI
        The application; run it in one process.

    Raises
    ------
    ImportError
        A package of the extra ``serve`` is missing.
    ValueError
        The file is not a model file, or an option does not fit it.

    Examples
    --------
    >>> import tempfile, zslearn
    >>> from pathlib import Path
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.serving import create_app
    >>> data = make_zero_shot(random_state=0)
    >>> model = zslearn.EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zslearn.save(model, Path(folder, "made_up.zsl"))
    ...     app = create_app(Path(folder, "made_up.zsl"))
    >>> sorted(app.openapi()["paths"])[:4]
    ['/about', '/adapt', '/adapt/images', '/classes']
    """
    for module in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        import_optional(module, "The service")
    if token is not None and not re.fullmatch(f"[!-~]{{{_SHORTEST_TOKEN},}}", token):
        raise ValueError(
            f"The token must have {_SHORTEST_TOKEN} characters or more, in ASCII without spaces; "
            'make one with: python -c "import secrets; print(secrets.token_urlsafe())"'
        )
    from fastapi import FastAPI, Request, Response, Security
    from fastapi.exceptions import RequestValidationError
    from fastapi.security import HTTPBearer
    from starlette.exceptions import HTTPException

    from zslearn.serving._app import Reason, api_router, page_routes
    from zslearn.serving._batching import Batcher

    metrics = Metrics()
    recognizer = Recognizer(
        model,
        limits=limits,
        pictures=pictures,
        weights=weights,
        device=device,
        encoder=encoder,
        prior=prior,
        taxonomy=taxonomy,
        describe=describe,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with recognizer.lock():
            yield

    app = FastAPI(
        title="zslearn",
        version=__version__,
        summary="A zero-shot model: predict images, and add classes by describing them.",
        # These pages load scripts from another server.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        responses={"default": {"model": Reason, "description": "Refused, with the reason."}},
        # Only documents the token, which the guard checks before a body is read.
        dependencies=[] if token is None else [Security(HTTPBearer(auto_error=False))],
    )
    app.include_router(
        api_router(recognizer, Batcher(recognizer, metrics.batch_rows.observe), metrics)
    )
    app.router.routes.extend(page_routes())
    app.state.recognizer = recognizer
    app.add_middleware(Guard, recognizer=recognizer, metrics=metrics, token=token)

    @app.exception_handler(Refusal)
    async def refused(_: Request, error: Refusal) -> Response:
        return _response(error)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        known = {404: "There is nothing at this address.", 405: "Method not allowed here."}
        reason = known.get(error.status_code, plain(error.detail, 200))
        response = _response(Refusal(error.status_code, reason))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        # Of a union, report the branch that fits best.
        errors = error.errors()
        first = min(errors, key=lambda e: (e["type"].endswith("_type"), -len(e["loc"])))
        kind = request.headers.get("content-type", "")
        if first["loc"] == ("body",) and not kind.startswith("application/json"):
            reason = "The body must be JSON, with Content-Type: application/json."
            return _response(Refusal(415, reason))
        # The names of union branches are not fields of the body.
        place = ".".join(plain(part, 60) for part in first["loc"] if "[" not in str(part))
        reason = plain(first["msg"].removeprefix("Value error, "), 300)
        return _response(Refusal(422, f"{place}: {reason}"))

    return app


def serve(
    model: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    **options: Any,
) -> None:
    """Serve a model file until the process is stopped.

    Parameters
    ----------
    model : path
        The model file.
    host : str, default="127.0.0.1"
        The address to listen on; an address that other machines can reach requires a token.
    port : int, default=8000
        The port.
    token, **options
        See :func:`create_app`.

    Raises
    ------
    ValueError
        Other machines can reach the address, but there is no token.
    RuntimeError
        Another process uses the model file.
    """
    if token is None and not is_loopback(host):
        raise ValueError(
            f"Other machines can reach {host}: give a token (--token), or serve only this machine "
            "(--host 127.0.0.1)."
        )
    app = create_app(model, token=token, **options)
    import uvicorn

    recognizer: Recognizer = app.state.recognizer
    with recognizer.lock():
        model_name, n_classes = plain(recognizer.path), len(recognizer.state.label_of)
        address = f"http://{plain(f'[{host}]' if ':' in host else host)}:{port}/"
        about = f"{model_name}: {n_classes} classes, accepts {_accepted(recognizer)}"
        _log.info("%s; serving at %s (press Ctrl-C to stop)", about, address)
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            ws="none",
            lifespan="on",
            access_log=False,
            log_level="warning",
            server_header=False,
            # Browsers that show the page keep connections open.
            limit_concurrency=recognizer.limits.in_flight + 256,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=5,
        )
        uvicorn.Server(config).run()


def _accepted(recognizer: Recognizer) -> str:
    """The kind of samples that a service accepts."""
    if recognizer.columns is not None:
        return "rows of a table"
    return "features" if recognizer.backbone is None else "images and features"


# The guard.

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Answered without a token; these reveal nothing of the model, and the page asks for the token.
OPEN_PATHS = frozenset({"/", "/page.css", "/page.js", "/health"})
_TOO_LONG = "The body is longer than the limit of {} bytes."
#: Answered even when the service is busy.
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
    """Whether a host name or address is a loopback one."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _response(refusal: Refusal) -> Any:
    """The response of a refusal."""
    from starlette.responses import Response

    headers = {}
    if refusal.retry_after is not None:
        headers["retry-after"] = str(refusal.retry_after)
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    if refusal.status in (408, 413):
        # The rest of the body stays unread.
        headers["connection"] = "close"
    content = {"status": refusal.status, "reason": refusal.reason}
    return Response(json.dumps(content), refusal.status, headers, "application/json")


class Guard:
    """ASGI middleware that admits, limits and counts requests."""

    def __init__(
        self, app: Application, *, recognizer: Recognizer, metrics: Metrics, token: str | None
    ) -> None:
        self._app = app
        self._recognizer, self._limits = recognizer, recognizer.limits
        self._metrics = metrics
        self._token = None if token is None else hashlib.sha256(token.encode()).digest()
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, n_bytes, is_whole = perf_counter(), 0, 0, False
        headers = dict(scope["headers"])
        most = self._most_bytes(scope["path"], headers.get(b"content-type", b""))

        async def limited_receive() -> Message:
            nonlocal n_bytes, is_whole
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > most:
                from starlette.exceptions import HTTPException

                # FastAPI would turn any other exception into status 400.
                raise HTTPException(413, _TOO_LONG.format(most), {"connection": "close"})
            is_whole |= not message.get("more_body", False)
            return message

        async def watched_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        self._in_flight += 1
        self._metrics.in_flight.set(self._in_flight)
        try:
            self._admit(scope["path"], headers, most)
            async with asyncio.timeout(self._limits.seconds):
                await self._app(scope, limited_receive, watched_send)
        except Exception as error:
            # A response that has begun cannot be replaced.
            if not status:
                response = _response(self._refusal(error, scope, is_whole))
                await response(scope, receive, watched_send)
        finally:
            self._in_flight -= 1
            self._metrics.in_flight.set(self._in_flight)
            seconds = perf_counter() - start
            self._metrics.count(_route_of(scope), scope["method"], status or 500, seconds)

    def _most_bytes(self, path: str, kind: bytes) -> int:
        """The longest body: JSON gets less, since parsing takes many times its size."""
        if not kind.startswith(b"application/json"):
            return self._limits.body_bytes
        columns = self._recognizer.columns
        n_rows = self._limits.batch if columns is None else self._limits.rows
        n_rows = self._limits.unlabelled if path in ("/adapt", "/suggest") else n_rows
        n_numbers = n_rows * self._recognizer.n_features + len(self._recognizer.attributes)
        n_letters = sum(map(len, self._recognizer.attributes))
        # Every row repeats the names of the columns.
        n_letters += n_rows * sum(len(column.name) for column in columns or [])
        return min(self._limits.body_bytes, 2**20 + 32 * n_numbers + 12 * n_letters)

    def _refusal(self, error: Exception, scope: Scope, is_whole: bool) -> Refusal:
        """The response to an error."""
        if isinstance(error, Refusal):
            return error
        if isinstance(error, TimeoutError):
            seconds = f"{self._limits.seconds:g} seconds"
            if is_whole:
                return Refusal(503, f"No answer within {seconds}.", 1)
            return Refusal(408, f"The request did not arrive within {seconds}.")
        _log.error("a request to %s failed", _route_of(scope), exc_info=error)
        return Refusal(500, "The service failed; see its log for the reason.")

    def _admit(self, path: str, headers: dict[bytes, bytes], most: int) -> None:
        """Admit or refuse a request before its body is read."""
        if self._token is None:
            host = headers.get(b"host", b"").decode("latin-1")
            # A hostile page may point the name of its own server here (DNS rebinding).
            if not is_loopback(_split(f"//{host}").hostname or ""):
                raise Refusal(
                    421,
                    "This service only answers to names of its own machine, such as localhost.",
                )
            # Not checked with a token, which is stronger: a proxy may use another name.
            origin = headers.get(b"origin")
            if origin is not None and _split(origin.decode("latin-1")).netloc != host:
                raise Refusal(403, "Requests from pages of other servers are refused.")
        elif path not in OPEN_PATHS:
            scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
            # Digests have equal lengths, so that the comparison takes constant time.
            is_same = hmac.compare_digest(hashlib.sha256(token.strip()).digest(), self._token)
            if not is_same or scheme.lower() != b"bearer":
                raise Refusal(401, "Send the token of this service: Authorization: Bearer TOKEN.")
        if self._in_flight > self._limits.in_flight and path not in _ALWAYS:
            raise Refusal(503, f"Busy with {self._limits.in_flight} requests; try again soon.", 1)
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and (len(length) > 18 or int(length) > most):
            raise Refusal(413, _TOO_LONG.format(most))


def _route_of(scope: Scope) -> str:
    """The route that a request matched, never text from the request itself."""
    return getattr(scope.get("route"), "path", "other")


def _split(address: str) -> SplitResult:
    """Split an address; an invalid one has empty parts."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})


class Metrics:
    """Prometheus metrics of one service; labels never contain text from requests."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "zslearn_requests", "Answered requests.", ["route", "method", "status"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "zslearn_request_seconds", "Seconds from the first byte to the response.", ["route"],
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
            registry=registry,
        )  # fmt: skip
        self.in_flight = Gauge(
            "zslearn_requests_in_flight", "Requests being answered.", registry=registry
        )
        self.batch_rows = Histogram(
            "zslearn_batch_rows", "Images or feature vectors per batch.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256), registry=registry,
        )  # fmt: skip
        self.images = Counter("zslearn_images", "Predicted images.", ["as"], registry=registry)
        self.classes = Gauge(
            "zslearn_classes", "Classes by how they are known.", ["known_by"], registry=registry
        )

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        method = method if method in _METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)
