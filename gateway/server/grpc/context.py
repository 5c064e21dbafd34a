"""What a service finds of a call, as in a `grpc.aio.ServicerContext`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc

from gateway.core import ambient
from gateway.core.held_bytes import AnswerShare
from gateway.protocols.http2.exchange import OK, Http2Exchange
from gateway.protocols.http2.hpack import literal
from gateway.protocols.http2.message import framed
from gateway.protocols.http2.sender import Fields

Pairs = Iterable[tuple[str, str]]


class Aborted(Exception):
    def __init__(self, code: grpc.StatusCode, words: str) -> None:
        super().__init__(words)
        self.code, self.words = code, words


class Context:
    """Of one call, for its service."""

    __slots__ = ("_details", "_exchange", "_serialize", "_trailers", "head", "held")

    def __init__(self, exchange: Http2Exchange, serialize: Any) -> None:
        self._exchange = exchange
        self.head = exchange.head
        self._serialize = serialize
        self._trailers: Pairs = ()
        self._details: Fields | None = None
        self.held: AnswerShare | None = None  # of the answer, until the caller has taken it

    def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return self.head.metadata

    def time_remaining(self) -> float | None:
        timeout_s = self.head.timeout_s
        return None if timeout_s is None else self._exchange.at_s + timeout_s - ambient.loop_s()

    def admitted(self) -> Any:
        """What its service noted of it by the head; for the first who asks: later it may be another
        caller's, or nobody's any more."""
        noted, self._exchange.admitted = self._exchange.admitted, None
        return noted

    def auth_context(self) -> Any:
        """The names in the certificate that the connection was opened with."""
        return self._exchange.connection.peer_names

    def set_trailing_metadata(self, pairs: Pairs) -> None:
        self._trailers = pairs

    def answered_by(self, fields: Fields) -> None:
        """The trailers of a call that is answered, as they go over the wire."""
        self._details = fields

    async def abort(self, code: grpc.StatusCode, details: str = "", trailers: Pairs = ()) -> None:
        self._trailers = trailers or self._trailers
        raise Aborted(code, details)

    async def write(self, message: Any) -> None:
        written = message if self._serialize is None else self._serialize(message)
        await self._exchange.put(framed(written))

    def trailers(self) -> bytes:
        return b"".join(
            [literal(n.encode(), v.encode("ascii", "replace")) for n, v in self._trailers]
        )

    def tail(self) -> Fields:
        """Behind an answer."""
        return self._details or (OK, self.trailers())
