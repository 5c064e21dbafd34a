"""Connections from the sockets of one listener, until it stops."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from email.utils import formatdate

from gateway.core import ambient
from gateway.protocols.http.connection import App, HttpConnection

_log = logging.getLogger(__name__)
_BACKLOG = 2048
_POLL_S = 1.0  # at connections that rest for too long, and at the clock
_CUT_S = 1.0  # for calls that are cut to give back what they hold


class HttpServer:
    def __init__(
        self,
        app: App,
        tls: ssl.SSLContext | None = None,
        connection: Callable[[HttpServer], HttpConnection] = HttpConnection,
    ) -> None:
        self.app = app
        self.stopping = False
        self._tls = tls
        self._connection = connection
        self._connections: set[HttpConnection] = set()
        self._empty = asyncio.Event()  # once it has stopped
        self._update_date()

    def _update_date(self) -> None:
        self.date = f"date: {formatdate(ambient.wall_s(), usegmt=True)}\r\n"

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Returns once callers are taken."""
        loop = asyncio.get_running_loop()
        self._servers = [
            await loop.create_server(
                lambda: self._connection(self), sock=each, ssl=self._tls, backlog=_BACKLOG
            )
            for each in sockets
        ]
        self._looking = loop.create_task(self._supervise())

    def serve(self, app: App) -> None:
        """Each exchange is begun with the one that is there."""
        self.app = app
        for connection in self._connections:
            connection.reader.forget()

    def stop(self) -> None:
        """Take nobody any more. Connections close once they have no call."""
        self.stopping = True
        self._looking.cancel()
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.close_if_idle()
        if not self._connections:
            self._empty.set()

    async def stopped(self, drain_s: float) -> None:
        """After `stop`: once the calls have ended. They are cut when `drain_s` is over."""
        try:
            async with asyncio.timeout(drain_s):
                await self._empty.wait()
        except TimeoutError:
            await self._cut()

    # What its connections tell

    def opened(self, connection: HttpConnection) -> None:
        self._connections.add(connection)

    def closed(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)
        if self.stopping and not self._connections:
            self._empty.set()

    # What runs beside

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(_POLL_S)
            self._update_date()
            for connection in tuple(self._connections):
                connection.close_if_idle(ambient.loop_s() - connection.idle_s)

    async def _cut(self) -> None:
        running = [c.task for c in self._connections if c.task is not None]
        if running:
            _log.warning("cutting %d connections with calls that did not finish", len(running))
        for connection in tuple(self._connections):
            connection.abort()
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=_CUT_S)
