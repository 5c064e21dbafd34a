"""One kept HTTP/1.1 connection of a generator: a request out, an answer in, never two at once.

An answer without a length that ends with its connection counts as lost: no server here sends any.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, cast

import httptools

from loadtests.load.result import CUT, ERROR_IN_STREAM, LOST

_DONE = b"[DONE]"


class Owner(Protocol):
    def finished(self, connection: Connection, failure: str, sample: bytes) -> None:
        """The call is over; `failure` is empty when it was answered well."""

    def gone(self, connection: Connection) -> None:
        """It is closed, and no call is on it."""


class Connection(asyncio.Protocol):
    meant_s = first_s = 0.0
    chunks = 0
    route = ""
    busy = False

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._last = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, message: bytes, meant_s: float) -> None:
        self.meant_s, self.busy = meant_s, True
        assert self._transport is not None
        self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        self._last = data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.cut(LOST)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return  # 1xx: the answer is still to come
        fine = status < 300
        if not self._parser.should_keep_alive():
            self._close()
        self._finish("" if fine else str(status))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self.busy:
            self._finish(LOST)
        self._owner.gone(self)

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def cut(self, failure: str) -> None:
        """Ends the call under way, and the connection with it."""
        self._close()
        if self.busy:
            self._finish(failure)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _finish(self, failure: str) -> None:
        self.busy = False
        self._owner.finished(self, failure, self._last if failure else b"")


class StreamConnection(Connection):
    """Counts the events of a stream, and knows when the first of them came."""

    _tail = b""
    _error = False

    def send(self, message: bytes, meant_s: float) -> None:
        self.first_s, self.chunks, self._tail, self._error = 0.0, 0, b"", False
        super().send(message, meant_s)

    def on_body(self, body: bytes) -> None:
        if not self.first_s:
            self.first_s = time.monotonic()
        self.chunks += body.count(b"data:")
        self._error = self._error or b'"error"' in body
        self._tail = (self._tail + body)[-32:]

    def _finish(self, failure: str) -> None:
        if not failure and self._error:
            failure = ERROR_IN_STREAM
        elif not failure and _DONE not in self._tail:
            failure = CUT
        super()._finish(failure)


def routed(kind: type[Connection], header: str) -> Callable[[Owner], Connection]:
    """Connections that note the value of this header of each answer; costs some microseconds."""
    wanted = header.lower().encode()

    class Routed(kind):  # type: ignore[valid-type, misc]
        def send(self, message: bytes, meant_s: float) -> None:
            self.route = ""
            super().send(message, meant_s)

        def on_header(self, name: bytes, value: bytes) -> None:
            if len(name) == len(wanted) and name.lower() == wanted:
                self.route = value.decode("latin-1")

    return Routed
