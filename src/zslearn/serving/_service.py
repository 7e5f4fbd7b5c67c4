"""Making the application, and running it."""

from __future__ import annotations

import asyncio
import os
import re
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from zslearn._utils._optional import import_optional
from zslearn.serving._guard import Limits
from zslearn.serving._recognizer import Recognizer

if TYPE_CHECKING:
    from fastapi import FastAPI

#: Connections beyond the requests in flight: people who look at the page keep one open.
_SPARE_CONNECTIONS = 256


def protocol_with_limit(seconds: float) -> type[H11Protocol]:
    """A protocol that ends connections on which no whole request begins in time."""

    class Protocol(H11Protocol):
        """Uvicorn waits for the head of a request without end; this one does not."""

        _limit: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._limit = self.loop.call_later(seconds, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            waits = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
            if waits and self._limit is None:
                self._limit = self.loop.call_later(seconds, self.transport.close)
            elif not waits and self._limit is not None:
                self._limit.cancel()
                self._limit = None

        def connection_lost(self, exc: Exception | None) -> None:
            if self._limit is not None:
                self._limit.cancel()
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


#: A token that can be guessed is none.
_SHORTEST_TOKEN = 16


def create_app(model: Recognizer | str | os.PathLike[str], *, token: str | None = None) -> FastAPI:
    """An ASGI application that serves a model, for a server of one's own.

    Parameters
    ----------
    model : Recognizer or path
        What answers; a path is that of a model file.
    token : str, optional
        What requests must carry as ``Authorization: Bearer TOKEN``, of 16 characters at least.
        Without one, only requests to a name of this machine (localhost) are answered.

    Returns
    -------
    FastAPI
        The application, of which one process may serve a model file at a time: others would
        not see the classes that are added.

    Raises
    ------
    ImportError
        A package of the extra ``serve`` is not installed; the message names it.

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
    >>> sorted(app.openapi()["paths"])
    ['/about', '/classes', '/classes/{name}', '/health', '/metrics', '/predict']
    """
    for module in ("fastapi", "python_multipart", "prometheus_client"):
        import_optional(module, "The service")
    from zslearn.serving._app import build_app

    _check_token(token)
    return build_app(model if isinstance(model, Recognizer) else Recognizer(model), token)


def serve(
    model: Recognizer | str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
) -> None:
    """Serve a model until the process is stopped.

    Parameters
    ----------
    model : Recognizer or path
        What answers; a path is that of a model file.
    host : str, default="127.0.0.1"
        The address to listen at; one that other machines can reach needs a token.
    port : int, default=8000
        The port.
    token : str, optional
        See :func:`create_app`.

    Raises
    ------
    ValueError
        Other machines could reach the service, and there is no token.
    """
    import_optional("uvicorn", "The service")
    import_optional("fastapi", "The service")
    from zslearn.serving._guard import is_loopback

    _check_token(token)
    if token is None and not is_loopback(host):
        raise ValueError(
            f"Other machines can reach {host}: give a token (--token), or serve this machine alone "
            "(--host 127.0.0.1)."
        )
    recognizer = model if isinstance(model, Recognizer) else Recognizer(model)
    app = create_app(recognizer, token=token)
    uvicorn.Server(server_config(app, host, port, recognizer.limits)).run()


def _check_token(token: str | None) -> None:
    if token is not None and not re.fullmatch(f"[!-~]{{{_SHORTEST_TOKEN},}}", token):
        raise ValueError(
            f"The token must be {_SHORTEST_TOKEN} characters or more, of ASCII and without spaces; "
            'make one with: python -c "import secrets; print(secrets.token_urlsafe())"'
        )
