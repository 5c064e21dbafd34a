"""A lean HTTP/1.1 client for the hot path: one origin, kept connections, nothing implicit.

No proxies or credentials from the environment, no redirects, no decompression, no cookies. A call
that is cancelled or runs out of time closes its connection, so that the server sees it at once.
Every failure leaves here as an UpstreamError or as DeadlineExceeded.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from gateway.core import timeouts
from gateway.core.deadline import Deadline
from gateway.core.errors import Unconnected, UpstreamUnreachable
from gateway.core.held_bytes import AnswerShare
from gateway.core.structs import value
from gateway.protocols.http_client.connection import (
    ConnectionLost,
    HttpClientConnection,
)
from gateway.protocols.http_client.idle import IdleConnections
from gateway.protocols.http_client.origin import Origin
from gateway.protocols.http_client.stream import WireStream, late

T = TypeVar("T")
Header = tuple[bytes, bytes]

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Of a whole answer, unless settings say otherwise."""

_PATH = re.compile(r"/[\x21-\x7e]*")
_OURS = rb"host|connection|content-length|transfer-encoding|te"
_LINES = re.compile(
    rb"(?i:(?!(?:%b):)[!#$%%&'*+.^_`|~0-9a-z-]+: [^\x00-\x08\x0a-\x1f\x7f]*\r\n)+" % _OURS
)


@dataclass(frozen=True, slots=True)
class WireRequest:
    """`repeatable`: sending it twice does no harm, so that a kept connection which the server
    had closed already may cost a second try."""

    method: str
    path: str  # percent-encoded by whoever builds it
    headers: tuple[Header, ...] = ()
    body: tuple[bytes, ...] = field(default=(), repr=False)
    repeatable: bool = True


@value
class PostAgain:
    """A POST whose head begins as those of others do: with what `ConnectionPool.start` made."""

    start: bytes
    headers: tuple[Header, ...]  # its own
    body: bytes = field(repr=False)
    repeatable: bool = True


@value
class WireAnswer:
    status: int
    headers: Mapping[bytes, bytes] = field(repr=False)  # names in lower case
    body: bytes = field(repr=False)

    @classmethod
    def from_connection(cls, connection: HttpClientConnection) -> WireAnswer:
        return cls(connection.status, connection.headers, connection.body)


class ConnectionPool:
    """Connections to one origin, at most `max_connections` of them."""

    def __init__(
        self,
        origin: Origin,
        *,
        connect_timeout_s: float,
        max_connections: int = 256,
        max_body_bytes: int = MAX_ANSWER_BYTES,
        max_idle_s: float = 20.0,
        rest_s: float = 0.0,
    ) -> None:
        """`rest_s`: how long a connection rests before its next call, while there is room for
        another: for protocols whose answers do not say to which call they belong."""
        self._origin = origin
        self._connect_timeout_s = connect_timeout_s
        self._max_body_bytes = max_body_bytes
        self._room = max_connections
        self._queue: deque[asyncio.Future[None]] = deque()  # for room; some may have gone
        self._idle = IdleConnections(max_idle_s, rest_s, self._cut)
        self._open: set[HttpClientConnection] = set()  # all of them
        self._closed = False

    async def fetch(self, request: WireRequest | PostAgain, deadline: Deadline) -> WireAnswer:
        """The whole answer, whatever its status."""
        return await self.read(request, deadline, WireAnswer.from_connection)

    async def read(
        self,
        request: WireRequest | PostAgain,
        deadline: Deadline,
        read: Callable[[HttpClientConnection], T],
        *,
        alone: bool = False,
        held: AnswerShare | None = None,
    ) -> T:
        """What `read` makes of the whole answer, whatever its status. `alone`: on a connection of
        its own, which has had no other call and gets none."""
        head, body, once = self._head(request), request.body, request.repeatable
        try:
            with timeouts.within(deadline.remaining_s()):
                return await self.ask(head, body, deadline, read, once, alone=alone, held=held)
        except TimeoutError:
            raise late() from None

    async def stream(self, request: WireRequest | PostAgain, deadline: Deadline) -> WireStream:
        """The answer as soon as its head is here."""
        try:
            with timeouts.within(deadline.remaining_s()):
                return await self.open(
                    self._head(request), request.body, deadline, request.repeatable
                )
        except TimeoutError:
            raise late() from None

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        for connection in self._open:
            connection.cut()
        self._open.clear()
        self._idle.clear()

    async def ask(
        self,
        head: bytes,
        body: bytes | tuple[bytes, ...],
        deadline: Deadline,
        read: Callable[[HttpClientConnection], T],
        repeatable: bool = True,
        streamed: bool = False,
        alone: bool = False,
        held: AnswerShare | None = None,
    ) -> T:
        """What `read` makes of the answer, whatever its status; of a large one in a thread of its
        own. Nothing is sent when the deadline has passed; the wait for the answer is the caller's
        to bound. A connection that has a stream is from then on whoever's `read` has taken it. A
        whole answer is counted in `held`, which it stays in once it was read."""
        again = alone
        while True:
            if self._closed:
                raise UpstreamUnreachable("this endpoint has been closed")
            if deadline.passed():
                raise late()
            connection = None
            if self._room and not again:
                connection = self._idle.take(may_open=self._room > len(self._idle))
            if connection is None:
                connection = await self._in_turn(deadline, again)
            else:
                self._room -= 1
            try:
                await connection.send(head, body, streamed, held)
                if not connection.answered:
                    raise connection.broken()
                # guard: A9.threaded-read not streamed and connection.whole.is_large ->
                #   connection.join() and False
                if not streamed and connection.whole.is_large:
                    answer = await asyncio.to_thread(_read_aside, connection, read)
                    self._leave(connection, alone)
                    return answer
            except ConnectionLost as exc:
                self._drop(connection)
                if not (connection.reused and exc.silent and repeatable):
                    raise UpstreamUnreachable(exc.why) from None
                again = True  # once: the next connection is a new one
            except BaseException:
                self._drop(connection)
                raise
            else:
                if streamed:
                    return read(connection)
                try:
                    return read(connection)
                finally:
                    self._leave(connection, alone)

    async def open(
        self,
        head: bytes,
        body: bytes | tuple[bytes, ...],
        deadline: Deadline,
        repeatable: bool = True,
    ) -> WireStream:
        """What `stream` gives; the wait for the head is the caller's to bound."""
        taken = partial(WireStream, self._give_back, deadline)
        return await self.ask(head, body, deadline, taken, repeatable, streamed=True)

    async def _in_turn(self, deadline: Deadline, again: bool) -> HttpClientConnection:
        """A connection that there is room for; with `again` a new one."""
        if self._room:
            self._room -= 1
        else:
            await self._turn(deadline)
            if not again and (connection := self._idle.take(may_open=False)) is not None:
                return connection
        return await self._connect(deadline)

    async def _turn(self, deadline: Deadline) -> None:
        """Until there is room for one connection more, which is then this call's."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            with timeouts.within(deadline.remaining_s()):
                await turn
        except BaseException as exc:  # the room that it has got meanwhile is the next one's
            if not turn.cancelled() and not turn.cancel():
                self._next_turn()
            if isinstance(exc, TimeoutError):
                raise late() from None
            raise

    def _next_turn(self) -> None:
        """The room of one that has gone is the next one's."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._room += 1

    async def _connect(self, deadline: Deadline) -> HttpClientConnection:
        """A new one; without it there is room for another."""
        try:
            connection = await self._connected(deadline)
        except BaseException:  # whatever it was, its room is the next one's
            self._next_turn()
            raise
        self._open.add(connection)
        if self._closed:
            self._drop(connection)
            raise UpstreamUnreachable("this endpoint has been closed")
        return connection

    async def _connected(self, deadline: Deadline) -> HttpClientConnection:
        loop, origin = asyncio.get_running_loop(), self._origin
        limit = min(self._connect_timeout_s, deadline.remaining_s())
        try:
            async with asyncio.timeout(limit):
                _, connection = await loop.create_connection(
                    lambda: HttpClientConnection(self._max_body_bytes, self._idle.distrust),
                    origin.host,
                    origin.port,
                    ssl=origin.tls() if callable(origin.tls) else origin.tls,
                    server_hostname=(origin.certified or origin.host) if origin.tls else None,
                )
        except TimeoutError:
            if deadline.passed():
                raise late() from None
            raise Unconnected("no connection to the endpoint in time") from None
        except ssl.SSLError:
            raise Unconnected("no TLS connection that we trust") from None
        except OSError:
            raise Unconnected("no connection to the endpoint") from None
        return connection

    def _leave(self, connection: HttpClientConnection, alone: bool) -> None:
        """The call has its answer."""
        connection.handed_over()
        if alone:
            self._drop(connection)
        else:
            self._give_back(connection)

    def _give_back(self, connection: HttpClientConnection) -> None:
        if self._closed or not self._idle.put(connection):
            self._drop(connection)
            return
        if self._queue:
            self._next_turn()
        else:
            self._room += 1

    def _drop(self, connection: HttpClientConnection) -> None:
        """Of one call; the room is the next one's."""
        self._cut(connection)
        self._next_turn()

    def _cut(self, connection: HttpClientConnection) -> None:
        self._open.discard(connection)
        connection.cut()

    def start(self, method: str, path: str, headers: tuple[Header, ...] = ()) -> bytes:
        """The beginning of a head. A path that begins with `/..` stands beside the base of the
        origin, not behind it. Raises ValueError for what would not be one: that is a bug, not a
        caller's fault."""
        base = self._origin.base
        if path.startswith("/../"):
            base, path = base.rpartition("/")[0], path[3:]
        path = base + path
        if method not in ("GET", "POST") or not _PATH.fullmatch(path):
            raise ValueError("not a request line")
        first = f"{method} {path} HTTP/1.1\r\nhost: ".encode() + self._origin.authority
        return first + b"\r\n" + _lines(headers)

    def head(self, start: bytes, headers: tuple[Header, ...], length: int) -> bytes:
        """Of a body of this length, begun as `start` says. Raises ValueError as that does."""
        return b"%b%bcontent-length: %d\r\n\r\n" % (start, _lines(headers), length)

    def _head(self, request: WireRequest | PostAgain) -> bytes:
        if isinstance(request, PostAgain):
            return self.head(request.start, request.headers, len(request.body))
        start, length = self.start(request.method, request.path), sum(map(len, request.body))
        if not length and request.method == "GET":
            return b"%b%b\r\n" % (start, _lines(request.headers))
        return self.head(start, request.headers, length)


def _read_aside(connection: HttpClientConnection, read: Callable[[HttpClientConnection], T]) -> T:
    connection.join()
    return read(connection)


def _lines(headers: tuple[Header, ...]) -> bytes:
    if not headers:
        return b""
    lines = b"".join([b"%b: %b\r\n" % each for each in headers])
    if not _LINES.fullmatch(lines) or lines.count(b"\r\n") != len(headers):
        raise ValueError("not a header")
    return lines
