"""The server around the application."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from zslearn.serving._limits import Limits
from zslearn.utils import InputWarning

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


def run(app: Any, host: str, port: int, limits: Limits) -> None:
    """Serve until the process is stopped."""
    # Of classes that look alike: said to who adds them, not to the log of the server.
    warnings.simplefilter("ignore", InputWarning)
    uvicorn.Server(server_config(app, host, port, limits)).run()
