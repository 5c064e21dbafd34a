"""One request and its answer, on a connection that may carry another one behind them."""

from __future__ import annotations

import asyncio
import http
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from gateway.core.deferred_error import DeferredError
from gateway.core.errors import BodiesFull, BodyTooLarge
from gateway.core.held_bytes import BodyShare
from gateway.core.reply import Receiver
from gateway.protocols.http import ClientLeft
from gateway.protocols.http.head import Field, HttpHead
from gateway.protocols.pieces import PieceBuffer

_STATUS = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n" for s in http.HTTPStatus}
AS_TAKEN_BYTES = 64 * 1024
"""Of an answer: more goes out by `reply_as_taken`."""
_HELD_BYTES = 64 * 1024  # of a body that nobody reads yet: reading pauses
_DRAINED_BYTES = 1024 * 1024  # an unread body up to this is worth the connection
_ONE_WRITE_BYTES = 64 * 1024  # copying more costs more than it saves
_PART_BYTES = 128 * 1024  # of a large answer
_TURN_BYTES = 8 * _PART_BYTES  # behind which others get a turn


class ClosableBytes(Protocol):
    """The bytes of a streamed answer. Closing twice is harmless, and cancels what is upstream."""

    async def deliver(self, receiver: Receiver[bytes]) -> None:
        """Put all of them, as they come."""
        ...

    async def aclose(self) -> None: ...


class ExchangeServerPort(Protocol):
    """The server, as far as exchanges know it."""

    @property
    def date(self) -> str: ...
    @property
    def stopping(self) -> bool: ...


class HttpConnectionPort(Protocol):
    """The connection, as far as its exchanges know it."""

    peer_names: tuple[str, ...]
    peer: str | None
    local: str | None

    @property
    def host(self) -> ExchangeServerPort: ...
    def write(self, data: bytes) -> None: ...
    def put(self, data: bytes | memoryview) -> bool: ...
    def put_chunk(self, data: bytes) -> bool: ...
    async def written(self) -> None: ...
    def hold(self) -> None: ...
    def go_on(self) -> None: ...
    def cut(self) -> None: ...
    def abort(self) -> None: ...
    def answered(self, exchange: HttpExchange, close: bool, rest: bytes = b"") -> None: ...


class _Incoming:
    """A body that comes in pieces."""

    __slots__ = ("held_bytes", "pieces", "refused", "share", "size", "waiter")

    def __init__(self) -> None:
        self.pieces = PieceBuffer()
        self.size = 0
        self.held_bytes = 0  # that nobody has waited for
        self.waiter: asyncio.Future[None] | None = None
        self.share: BodyShare | None = None  # what it has of the budget, once somebody waits for it
        self.refused = False  # there was no room for it

    def count(self, more: int) -> None:
        """So many bytes of it, that have come."""
        if self.share is not None and not self.share.take(more):
            self.refused = True
            self.pieces.clear()


class HttpExchange:
    """The task that answers it is cancelled when the caller leaves (A3). Answered once, by `reply`
    or by `stream`, or cut. Headers of an answer are lines, each with its end."""

    task: asyncio.Task[None] | None = None
    arrival: Any = None  # what the fronts found out of this call
    left: bool = False  # the caller has
    started: bool = False  # the answer is on its way
    ended: bool = False
    _incoming: _Incoming | None = None  # of a body that did not come with the head

    def __init__(
        self, line: HttpConnectionPort, head: HttpHead, keeps: bool, body: bytes | None = None
    ) -> None:
        """`keeps`: whether the caller takes another answer on this connection. `body`: the whole of
        it, where it came with the head."""
        self._line = line
        self.head = head
        self.headers = head.headers
        self._keeps = keeps
        self._body = body
        self.complete = body is not None  # the whole body has come
        if body is None:
            self._incoming = _Incoming()

    @property
    def peer_names(self) -> tuple[str, ...]:
        """In the certificate of the connection."""
        return self._line.peer_names

    @property
    def peer(self) -> str | None:
        """The address at the other end."""
        return self._line.peer

    @property
    def local(self) -> str | None:
        """The address at this end."""
        return self._line.local

    # The body

    async def body(self, max_bytes: int, share: BodyShare | None = None) -> bytes:
        """The whole of it, as it came; counted in `share` until it has. Raises BodyTooLarge or
        BodiesFull, as soon as that is certain, or ClientLeft."""
        incoming = self._incoming
        if incoming is None or self.complete:
            return self.whole(max_bytes)
        if share is not None:
            incoming.share = share
            incoming.count(incoming.size)
        try:
            while not (self.complete or incoming.refused) and incoming.size <= max_bytes:
                await self._more(incoming)
            if incoming.refused:
                raise BodiesFull
            if incoming.size <= max_bytes:
                return await incoming.pieces.take_aside()
        finally:
            if share is not None:
                share.close()  # guard: A9.body-release
                incoming.share = None
        incoming.pieces.clear()
        raise _too_large(max_bytes)

    def whole(self, max_bytes: int) -> bytes:
        """What `body` gives, of one that is `complete`, or too large already; once."""
        body, self._body = self._body, None
        if body is None:
            body = b"" if self._incoming is None else self._incoming.pieces.take()
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
        return body

    async def _more(self, incoming: _Incoming) -> None:
        if self.left:
            raise ClientLeft
        if incoming.size == 0 and self.headers.get("expect", "").lower() == "100-continue":
            self._line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        incoming.waiter = asyncio.get_running_loop().create_future()
        incoming.held_bytes = 0
        self._line.go_on()
        await incoming.waiter
        incoming.waiter = None

    def receive(self, data: bytes) -> None:
        """Told by the connection."""
        incoming = self._incoming
        if self.ended or incoming is None or incoming.refused:
            return
        incoming.pieces.add(data)
        incoming.size += len(data)
        incoming.held_bytes += len(data)
        incoming.count(len(data))  # guard: A9.body-budget
        if incoming.waiter is not None:
            self._wake()
        elif incoming.held_bytes > _HELD_BYTES:
            self._line.hold()

    def receive_end(self) -> None:
        """Told by the connection."""
        self.complete = True
        self._wake()

    def caller_left(self) -> None:
        """Told by the connection."""
        self.left = True
        self._wake()
        if self.task is not None:
            # guard: A3.http-disconnect
            self.task.cancel()  # guard: D3.http-disconnect

    def _wake(self) -> None:
        waiter = None if self._incoming is None else self._incoming.waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # The answer

    def answer_with(self, lines: str) -> None:
        """Whoever answers, with these lines of the head, too."""
        self._line = _LineWithHeaders(self._line, lines)

    def is_last(self) -> None:
        """Nothing more is read from a connection whose head is refused."""
        self._keeps = False

    def cut(self) -> None:
        """End it as it is: no client can take what it has for the whole."""
        self._line.cut()

    def reply_fields(self, status: int, fields: Iterable[Field], body: bytes) -> None:
        """A `reply` with headers as pairs of bytes, to whatever method."""
        lines = b"".join([b"%b: %b\r\n" % field for field in fields])
        self.reply(status, lines.decode("latin-1"), b"" if self.head.method == "HEAD" else body)

    def reply(self, status: int, lines: str, body: bytes) -> None:
        """The whole answer to a POST. `content-length` is among the `lines`. Does nothing when the
        caller has left."""
        if self.left:
            return
        line = self._line
        host, close, end = line.host, False, "\r\n"
        if not self._keeps or host.stopping or (not self.complete and self._leaves_much_unread()):
            close, end = True, "connection: close\r\n\r\n"
        head = f"{_STATUS[status]}{host.date}{lines}{end}".encode("latin-1")
        self.started = self.ended = True
        if len(body) < _ONE_WRITE_BYTES:
            line.answered(self, close, head + body)
        else:
            line.write(head)
            line.answered(self, close, body)

    async def reply_as_taken(
        self, status: int, lines: str, body: bytes, stall_s: float = 30.0
    ) -> None:
        """A large `reply`, in parts as the caller takes them; it has them all but for a last one
        when this returns. A caller that takes nothing for `stall_s` is gone. Raises ClientLeft."""
        if self.left:
            raise ClientLeft
        line = self._line
        close = not self._keeps or line.host.stopping
        close = close or (not self.complete and self._leaves_much_unread())
        end = "connection: close\r\n\r\n" if close else "\r\n"
        self.started = True
        line.write(f"{_STATUS[status]}{line.host.date}{lines}{end}".encode("latin-1"))
        view = memoryview(body)
        for at in range(0, len(body), _PART_BYTES):
            # guard: A9.http-slow-reader -> if not line.put(view[at:at + _PART_BYTES]) and False:
            if not line.put(view[at : at + _PART_BYTES]):
                await self.taken(stall_s)
            elif at % _TURN_BYTES == 0:
                await asyncio.sleep(0)
        self.ended = True
        line.answered(self, close)

    async def stream(
        self, status: int, lines: str, content: ClosableBytes, stall_s: float = 30.0
    ) -> None:
        """An answer as its bytes come. They are closed on every exit: at the end, on an error, when
        the caller leaves, and on cancellation. When they fail midway the connection is cut, which
        no client can take for the end. A caller that takes nothing for `stall_s` is gone. Raises
        what `content` raises, or ClientLeft."""
        failed: DeferredError | None = None
        try:
            # guard: A3.late-reply -> line, chunkedchunked = (self._line, self.head.version !=
            #   '1.0')
            if self.left:
                raise ClientLeft
            line, chunked = self._line, self.head.version != "1.0"  # guard: A3.late-reply
            close = not (self._keeps and chunked) or line.host.stopping
            close = close or (not self.complete and self._leaves_much_unread())
            if chunked:
                lines += "transfer-encoding: chunked\r\n"
            end = "connection: close\r\n\r\n" if close else "\r\n"
            self.started = True
            line.write(f"{_STATUS[status]}{line.host.date}{lines}{end}".encode("latin-1"))
            await content.deliver(_Caller(self, line.put_chunk if chunked else line.put, stall_s))
            if chunked:
                line.write(b"0\r\n\r\n")
            self.ended = True
            line.answered(self, close)
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            failed = DeferredError(exc)
        await asyncio.shield(content.aclose())  # guard: A3.http-stream-close
        if failed is not None:
            raise failed.again()

    async def taken(self, stall_s: float) -> None:
        """Until the caller has room for more."""
        if self.left:
            raise ClientLeft
        try:
            async with asyncio.timeout(stall_s):
                await self._line.written()
        except TimeoutError:
            self._line.abort()  # to close it would wait for what is unsent to be taken
            raise ClientLeft from None

    def _leaves_much_unread(self) -> bool:
        """Whether a body comes that is too large, or of a size too uncertain, to be read for
        naught."""
        if "transfer-encoding" in self.headers:
            return True
        announced = self.headers.get("content-length", "0")
        return not announced.isdigit() or int(announced) > _DRAINED_BYTES


class _ServerWithHeaders:
    """Dates the answers of one exchange, and puts more lines behind that."""

    def __init__(self, server: ExchangeServerPort, lines: str) -> None:
        self._server, self._lines = server, lines

    @property
    def date(self) -> str:
        return self._server.date + self._lines

    @property
    def stopping(self) -> bool:
        return self._server.stopping


class _LineWithHeaders:
    """The connection, for one exchange. Few of them have more headers, and others pay nothing."""

    def __init__(self, line: HttpConnectionPort, lines: str) -> None:
        self.peer_names, self.peer, self.local = line.peer_names, line.peer, line.local
        self.host: ExchangeServerPort = _ServerWithHeaders(line.host, lines)
        self.write, self.put, self.put_chunk = line.write, line.put, line.put_chunk
        self.written, self.hold, self.go_on = line.written, line.hold, line.go_on
        self.cut, self.abort, self.answered = line.cut, line.abort, line.answered


class _Caller:
    """Receives the bytes of a streamed answer, on its connection."""

    __slots__ = ("_exchange", "_stall_s", "put")

    def __init__(
        self, exchange: HttpExchange, put: Callable[[bytes], bool], stall_s: float
    ) -> None:
        self._exchange, self._stall_s = exchange, stall_s
        self.put = put

    async def room(self) -> None:
        await self._exchange.taken(self._stall_s)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body has more than {max_bytes} bytes")
