"""Calls of gRPC with one message each to one endpoint, on one HTTP/2 connection that is made when
it is needed.

Nothing is implicit, as in `wire`: no proxies of the environment, no retries, no compression. A call
that is cancelled or runs out of time is reset, so that the server sees it at once.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterable
from functools import partial
from urllib.parse import urlsplit

from gateway.core import timeouts
from gateway.core.deferred_error import DeferredError
from gateway.core.held_bytes import AnswerShare
from gateway.protocols.http2.calls import StreamedCall
from gateway.protocols.http2.client import Http2Client
from gateway.protocols.http2.hpack import Field, literal
from gateway.protocols.http2.message import GrpcStatusError, NoConnection
from gateway.protocols.tls import FreshTlsContext, TlsFiles, client_context

Pair = tuple[str, str]
_NAME = re.compile(r"[0-9a-z_.-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")
_MOST_DIGITS = 10**8  # of a timeout


class GrpcWire:
    def __init__(
        self,
        address: str,
        files: TlsFiles | None,
        metadata: Iterable[Pair],
        *,
        connect_timeout_s: float,
        max_answer_bytes: int,
    ) -> None:
        """`address` is host:port; with `files` over TLS; every call carries `metadata`. Raises
        ConfigError for files that cannot be read, ValueError for what are no metadata."""
        parts = urlsplit(f"//{address}")
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._address = address.encode()
        self._tls = (
            None if files is None else FreshTlsContext(files, partial(client_context, speaks="h2"))
        )
        self._metadata = tuple(field(name, value) for name, value in metadata)
        self._connect_timeout_s = connect_timeout_s
        self._max_answer_bytes = max_answer_bytes
        self._heads: dict[str, tuple[Field, ...]] = {}
        self._connection: Http2Client | None = None
        self._context: ssl.SSLContext | None = None  # that it was made with
        self._connecting: asyncio.Task[Http2Client | str] | None = None
        self._former: set[Http2Client] = set()  # with calls that go on
        self._closed = False

    async def ask(self, method: str, message: bytes, timeout_s: float, own: bytes = b"") -> bytes:
        """The answer's message. `method` is its whole path, `own` a block of header fields of this
        call alone. Raises Status."""
        try:
            # guard: D3.late-reset -> with timeouts.within(3600.0):
            with timeouts.within(timeout_s):
                return await self.call(method, message, timeout_s, own)
        except TimeoutError:
            raise GrpcStatusError("DEADLINE_EXCEEDED", "Deadline Exceeded") from None

    async def call(
        self,
        method: str,
        message: bytes,
        timeout_s: float,
        own: bytes = b"",
        held: AnswerShare | None = None,
    ) -> bytes:
        """The same; the wait is the caller's to bound. The server is told of `timeout_s`. The
        answer is counted in `held`."""
        head = self._heads.get(method) or self._head(method)
        connection = self._connection
        if connection is None or not connection.takes_calls:
            connection = await self._connected()
        # guard: D3.grpc-timeout -> call = connection.calls.call(head, own, message, held)
        call = connection.calls.call(head, _timeout(timeout_s) + own, message, held)
        try:
            answer = await call.answer
        except BaseException:
            connection.calls.cancel(call)  # guard: A8.call-reset
            raise
        if isinstance(answer, GrpcStatusError):
            failed = DeferredError(answer)
            # guard: A10.grpc-failure
            del answer, call  # they have it, and its traceback has this frame
            raise failed.again()
        return answer if isinstance(answer, bytes) else await answer.take_aside()

    async def stream(
        self,
        method: str,
        message: bytes,
        timeout_s: float,
        own: bytes = b"",
        held: AnswerShare | None = None,
    ) -> StreamedCall:
        """The same with any number of answers, for whoever has it to close."""
        head = self._heads.get(method) or self._head(method)
        connection = self._connection
        if connection is None or not connection.takes_calls:
            connection = await self._connected()
        # guard: D3.grpc-timeout -> return connection.calls.stream(head, own, message, held)
        return connection.calls.stream(head, _timeout(timeout_s) + own, message, held)

    def renew(self) -> None:
        """If its certificates have changed, calls from now on go over another connection."""
        connection = self._connection
        if self._tls is not None and connection is not None and self._tls() is not self._context:
            self._connection = None
            self._leave(connection)

    async def aclose(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait((self._connecting,))
        for connection in (self._connection, *self._former):
            if connection is not None:
                connection.close()

    def _head(self, method: str) -> tuple[Field, ...]:
        """What all calls of a method have in common, so that the server keeps it."""
        self._heads[method] = head = (
            (b":method", b"POST"),
            (b":scheme", b"http" if self._tls is None else b"https"),
            (b":path", method.encode()),
            (b":authority", self._address),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"user-agent", b"grpc-spillway"),
            *self._metadata,
        )
        return head

    async def _connected(self) -> Http2Client:
        """Many may wait for one connection; who leaves does not end it for the others."""
        if self._closed:
            raise GrpcStatusError("UNAVAILABLE", "this endpoint has been closed")
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            self._connecting.add_done_callback(self._has_connected)
        client = await asyncio.shield(self._connecting)
        if isinstance(client, str):
            raise NoConnection(client)
        return client

    def _has_connected(self, task: asyncio.Task[Http2Client | str]) -> None:
        self._connecting = None

    async def _connect(self) -> Http2Client | str:
        """Or why there is none."""
        context = None if self._tls is None else self._tls()
        made: Callable[[], Http2Client] = lambda: Http2Client(self._max_answer_bytes)  # noqa: E731
        connection: Http2Client | None = None
        why = "no connection to the endpoint in time"
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    made,
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=None if context is None else self._host,
                )
                why = await connection.greeted
        except TimeoutError:
            pass
        except ssl.SSLError:
            why = "no TLS connection that we trust"
        except OSError:
            why = "no connection to the endpoint"
        finally:
            if why and connection is not None:
                connection.close()
        if why or connection is None:
            return why
        former, self._connection, self._context = self._connection, connection, context
        if former is not None:
            self._leave(former)
        return connection

    def _leave(self, connection: Http2Client) -> None:
        self._former = {each for each in self._former if not each.gone}
        connection.retire()
        if not connection.gone:
            self._former.add(connection)


def field(name: str, value: str) -> Field:
    """Metadata as they go over the wire. Raises ValueError."""
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise ValueError(f"{name}: its name or its value cannot stand in metadata")
    raw = value.encode()
    return name.encode(), b64encode(raw) if name.endswith("-bin") else raw


def encode_fields(pairs: Iterable[Pair]) -> bytes:
    """A block of fields that no other call has."""
    return b"".join([literal(name.encode(), value.encode()) for name, value in pairs])


_TIMEOUT = literal(b"grpc-timeout", b"")[:-1]


def _timeout(left_s: float) -> bytes:
    """`grpc-timeout`, which has at most eight digits."""
    left = int(left_s * 1e6)
    text = b"%du" % left if 0 < left < _MOST_DIGITS else _long_timeout(left)
    return b"%b%c%b" % (_TIMEOUT, len(text), text)


def _long_timeout(left_us: int) -> bytes:
    left = max(1, left_us)
    for unit in (b"u", b"m", b"S"):
        if left < _MOST_DIGITS:
            return b"%d%b" % (left, unit)
        left //= 1000
    return b"%dS" % (_MOST_DIGITS - 1)
