"""A lean HTTP/1.1 client for the hot path: one origin, kept connections, nothing implicit.

No proxies or credentials from the environment, no redirects, no decompression, no cookies. A call
that is cancelled or runs out of time closes its connection, so that the server sees it at once.
Every failure leaves here as an UpstreamError or as DeadlineExceeded.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from gateway import ambient, patience
from gateway.backends.connection import Connection, Lost
from gateway.deadline import Deadline
from gateway.errors import DeadlineExceeded, UpstreamUnreachable
from gateway.tls import TlsFiles, of_client

Header = tuple[bytes, bytes]

Tls = ssl.SSLContext | Callable[[], ssl.SSLContext]
"""Of all connections, or asked for each new one."""

_T = TypeVar("_T")

_PATH = re.compile(r"/[\x21-\x7e]*")
_OURS = rb"host|connection|content-length|transfer-encoding|te"
_LINES = re.compile(
    rb"(?i:(?!(?:%b):)[!#$%%&'*+.^_`|~0-9a-z-]+: [^\x00-\x08\x0a-\x1f\x7f]*\r\n)+" % _OURS
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port; with `tls` for https. `base` goes before every path. The certificate
    must be of `certified`, where that is another name than the host's."""

    host: str
    port: int
    tls: Tls | None = None
    base: str = ""
    certified: str = ""

    @classmethod
    def of(cls, url: str, tls: Tls | None = None) -> Origin:
        """Raises ValueError for a URL with credentials, a query or another scheme."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url: must be http://host[:port] or https://host[:port]")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("url: must have neither credentials nor a query")
        secure = parts.scheme == "https"
        if secure and tls is None:
            tls = trusting()
        port = parts.port or (443 if secure else 80)
        return cls(parts.hostname, port, tls if secure else None, parts.path.rstrip("/"))

    @property
    def authority(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.tls else 80
        return (host if self.port == usual else f"{host}:{self.port}").encode("ascii")


def trusting(ca_file: str | None = None) -> ssl.SSLContext:
    """TLS that checks names and certificates, against `ca_file` alone where one is given."""
    return of_client(TlsFiles("ca_file", ca_file=None if ca_file is None else Path(ca_file)))


@dataclass(frozen=True, slots=True)
class WireRequest:
    """`repeatable`: sending it twice does no harm, so that a kept connection which the server
    had closed already may cost a second try."""

    method: str
    path: str  # percent-encoded by whoever builds it
    headers: tuple[Header, ...] = ()
    body: tuple[bytes, ...] = field(default=(), repr=False)
    repeatable: bool = True


class PostAgain:
    """A POST whose head begins as those of others do: with what `Wire.start` made."""

    __slots__ = ("body", "headers", "repeatable", "start")

    def __init__(
        self, start: bytes, headers: tuple[Header, ...], body: bytes, repeatable: bool = True
    ) -> None:
        self.start = start
        self.headers = headers  # its own
        self.body = (body,)
        self.repeatable = repeatable


@dataclass(frozen=True, slots=True)
class WireAnswer:
    status: int
    headers: Mapping[bytes, bytes] = field(repr=False)  # names in lower case
    body: bytes = field(repr=False)


class WireStream:
    """An answer whose body is still coming. Whoever holds it must `aclose()` it; closing it
    before its end closes the connection."""

    def __init__(self, wire: Wire, connection: Connection, deadline: Deadline) -> None:
        self.status = connection.status
        self.headers: Mapping[bytes, bytes] = connection.headers
        self._wire = wire
        self._connection: Connection | None = connection
        self._deadline = deadline

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._connection is None:
            raise StopAsyncIteration
        try:
            chunk = await _within(self._deadline, self._connection.chunk())
        except Lost as exc:
            await self.aclose()
            raise UpstreamUnreachable(exc.why) from None
        except BaseException:
            await self.aclose()
            raise
        if not chunk:
            await self.aclose()
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._wire._give_back(connection)


class Wire:
    """Connections to one origin, at most `max_connections` of them."""

    def __init__(
        self,
        origin: Origin,
        *,
        connect_timeout_s: float,
        max_connections: int = 256,
        max_body_bytes: int = 256 * 1024 * 1024,
        max_idle_s: float = 20.0,
    ) -> None:
        self._origin = origin
        self._connect_timeout_s = connect_timeout_s
        self._max_body_bytes = max_body_bytes
        self._max_idle_s = max_idle_s
        self._room = asyncio.Semaphore(max_connections)
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._closed = False

    async def fetch(self, request: WireRequest | PostAgain, deadline: Deadline) -> WireAnswer:
        """The whole answer, whatever its status."""
        connection = await self._exchange(request, deadline, streamed=False)
        try:
            return WireAnswer(connection.status, connection.headers, connection.body())
        finally:
            self._give_back(connection)

    async def stream(self, request: WireRequest | PostAgain, deadline: Deadline) -> WireStream:
        """The answer as soon as its head is here."""
        connection = await self._exchange(request, deadline, streamed=True)
        return WireStream(self, connection, deadline)

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        for connection in (*self._idle, *self._busy):
            connection.cut()
        self._idle.clear()

    async def _exchange(
        self, request: WireRequest | PostAgain, deadline: Deadline, *, streamed: bool
    ) -> Connection:
        head = self._head(request)
        again = False
        while True:
            connection, reused = await self._take(deadline, fresh=again)
            try:
                connection.send(head, request.body)
                await _within(deadline, connection.head() if streamed else connection.end())
                return connection
            except Lost as exc:
                self._give_back(connection)
                if not (reused and exc.silent and request.repeatable):
                    raise UpstreamUnreachable(exc.why) from None
                again = True  # once: the next connection is a new one
            except BaseException:
                self._give_back(connection)
                raise

    async def _take(self, deadline: Deadline, *, fresh: bool) -> tuple[Connection, bool]:
        """A connection, and whether it has served before."""
        if self._closed:
            raise UpstreamUnreachable("this endpoint has been closed")
        if deadline.passed():
            raise _late()
        if self._room.locked():
            await _within(deadline, self._room.acquire())
        else:
            await self._room.acquire()
        oldest = ambient.loop_s() - self._max_idle_s
        while self._idle and not fresh:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since > oldest:
                self._busy.add(connection)
                return connection, True
            connection.cut()
        try:
            connection = await self._connect(deadline)
        except BaseException:
            self._room.release()
            raise
        self._busy.add(connection)
        return connection, False

    async def _connect(self, deadline: Deadline) -> Connection:
        loop, origin = asyncio.get_running_loop(), self._origin
        limit = min(self._connect_timeout_s, deadline.remaining_s())
        try:
            async with asyncio.timeout(limit):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._max_body_bytes),
                    origin.host,
                    origin.port,
                    ssl=origin.tls() if callable(origin.tls) else origin.tls,
                    server_hostname=(origin.certified or origin.host) if origin.tls else None,
                )
        except TimeoutError:
            if deadline.passed():
                raise _late() from None
            raise UpstreamUnreachable("no connection to the endpoint in time") from None
        except ssl.SSLError:
            raise UpstreamUnreachable("no TLS connection that we trust") from None
        except OSError:
            raise UpstreamUnreachable("no connection to the endpoint") from None
        return connection

    def _give_back(self, connection: Connection) -> None:
        if connection not in self._busy:
            return
        self._busy.discard(connection)
        if connection.reusable and not self._closed:
            connection.rest()
            self._idle.append(connection)
        else:
            connection.cut()
        self._room.release()

    def start(self, method: str, path: str, headers: tuple[Header, ...] = ()) -> bytes:
        """The beginning of a head. Raises ValueError for what would not be one: that is a bug, not
        a caller's fault."""
        path = self._origin.base + path
        if method not in ("GET", "POST") or not _PATH.fullmatch(path):
            raise ValueError("not a request line")
        first = f"{method} {path} HTTP/1.1\r\nhost: ".encode() + self._origin.authority
        return first + b"\r\n" + _lines(headers)

    def _head(self, request: WireRequest | PostAgain) -> bytes:
        """Raises ValueError as `start` does."""
        if isinstance(request, PostAgain):
            start, posts = request.start, True
        else:
            start, posts = self.start(request.method, request.path), request.method == "POST"
        lines = _lines(request.headers)
        if not (request.body or posts):
            return b"%b%b\r\n" % (start, lines)
        return b"%b%bcontent-length: %d\r\n\r\n" % (start, lines, sum(map(len, request.body)))


def _lines(headers: tuple[Header, ...]) -> bytes:
    if not headers:
        return b""
    lines = b"".join([b"%b: %b\r\n" % each for each in headers])
    if not _LINES.fullmatch(lines) or lines.count(b"\r\n") != len(headers):
        raise ValueError("not a header")
    return lines


async def _within(deadline: Deadline, work: Awaitable[_T]) -> _T:
    try:
        with patience.within(deadline.remaining_s()):
            return await work
    except TimeoutError:
        raise _late() from None


def _late() -> DeadlineExceeded:
    return DeadlineExceeded("the endpoint did not answer within the latency budget")
