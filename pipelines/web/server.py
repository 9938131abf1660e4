"""The process that serves the page: one address, bounded connections, and no patience for clients that never ask."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pipelines.errors import UsageError

if TYPE_CHECKING:
    from fastapi import FastAPI

REQUEST_S = 10.0
"""A client that has not asked for anything by then is let go."""
CONNECTIONS = 200
"""More requests at a time are answered with 503; of connections that wait for their client the oldest makes room."""
KEPT_S = 15
"""An open connection without a request is kept so long: longer than the page waits between refreshes."""


class ImpatientProtocol(H11Protocol):
    """Closes connections on which no whole request comes in time, which uvicorn alone waits for without end."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._made = self.loop.time()
        self._waiting = self.loop.call_later(REQUEST_S, self._let_go)
        if len(self.connections) >= CONNECTIONS:
            self._make_room()

    def _make_room(self) -> None:
        """Cut off the oldest other connection that asks nothing just now, or does not read what it asked for."""
        waiting = [c for c in self.connections if isinstance(c, ImpatientProtocol) and c is not self and c._waits()]
        if waiting:
            min(waiting, key=lambda one: one._made).transport.abort()

    def _waits(self) -> bool:
        idle = self.cycle is None or self.cycle.response_complete or self.flow.write_paused
        return idle and not self.transport.is_closing()

    def _let_go(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._waiting.cancel()
        super().connection_lost(exc)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0: any that is free. Raises UsageError where that cannot be."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=CONNECTIONS)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(
            f"cannot listen on {host} port {port}: {why.lower()}; --port and --host name another"
        ) from error


def server(app: FastAPI) -> uvicorn.Server:
    """The server, not yet running: `.run(sockets=[…])` serves until a signal."""
    config = uvicorn.Config(
        app, http=ImpatientProtocol, ws="none", log_level="warning", access_log=False, server_header=False,
        timeout_keep_alive=KEPT_S, limit_concurrency=CONNECTIONS, h11_max_incomplete_event_size=32_768,
        timeout_graceful_shutdown=5,
    )  # fmt: skip
    return uvicorn.Server(config)


def serve(app: FastAPI, place: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C, then return; uvicorn alone would end the process by that signal."""
    running = server(app)

    def stop(number: int, frame: object) -> None:
        running.should_exit = True

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
    running.run(sockets=[place])
