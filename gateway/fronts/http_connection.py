"""One connection of the HTTP server: uvicorn's, with heads that stay what they were once read.

uvicorn has no limit on a head, waits for one for ever, and adds the trailers of a chunked body to
the headers. A small body and its trailers come in one read, before the app has run at all, so only
here can they be kept apart: trailers are read by nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gateway.fronts.guard import MAX_HEAD_BYTES, MAX_PATH_BYTES

PEER_NAMES = "spillway.peer_names"
"""A key of the scope: the names in the certificate that the connection was opened with."""

_MOST_BYTES = MAX_HEAD_BYTES + MAX_PATH_BYTES


class HttpConnection(HttpToolsProtocol):
    head_s = 20.0  # what a head may take from its first byte on

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._awaits_head = True
        self._head_without_upgrade = b""
        self._framing_bytes = 0  # that came since the last head, piece of a body, or end of one
        self._patience: asyncio.TimerHandle | None = None
        self._peer_names: tuple[str, ...] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if shown := transport.get_extra_info("peercert"):
            self._peer_names = names_in(shown)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._framing_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            told = "the request is not HTTP/1.1 as RFC 9112 has it"
            self._refuse(400, told, reason="malformed_head")
        if self._framing_bytes > _MOST_BYTES:
            told = f"the head or the trailers have more than {MAX_HEAD_BYTES} bytes"
            self._refuse(431, told, reason="head_too_large")
        elif not self._awaits_head:
            self._stop_waiting()
        elif self._patience is None:
            self._wait_for_head()

    def _feed(self, data: bytes) -> None:
        """No upgrade is offered, and who asks for one is served as if it had not (RFC 9110,
        section 7.8). The parser would not: it takes the body of such a request for the next one.
        """
        left = memoryview(data)
        while left:
            try:
                self.parser.feed_data(left)
                return
            except httptools.HttpParserUpgrade as upgrade:
                (at,) = upgrade.args
                left = left[at:]
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.parser.feed_data(self._head_without_upgrade)

    def on_message_begin(self) -> None:
        self._awaits_head = True
        super().on_message_begin()
        if self._peer_names:
            self.scope[PEER_NAMES] = self._peer_names  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            self._head_without_upgrade = self._rebuilt_head()
            return
        self._awaits_head = False
        self._framing_bytes = 0
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._awaits_head:  # else it is a trailer
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._framing_bytes = 0
        super().on_message_complete()

    def _rebuilt_head(self) -> bytes:
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            raise httptools.HttpParserError("a proxy's method")
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % each for each in self.headers if each[0] != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))

    def _refuse(self, status: int, message: str, *, reason: str) -> None:
        if self.transport.is_closing():
            return
        if self._is_next():
            self.transport.write(_refusal(status, message, reason))
        self.transport.close()

    def _is_next(self) -> bool:
        """Whether what is refused now is what the next answer on this connection belongs to."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return True
        return cycle.more_body and not cycle.response_started and not self.pipeline

    def _wait_for_head(self) -> None:
        self._patience = self.loop.call_later(self.head_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        if self._is_next():
            told = f"the head did not arrive within {self.head_s:g} s"
            self._refuse(408, told, reason="head_too_slow")
        else:  # an earlier call is still being served
            self._wait_for_head()


def names_in(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """The DNS names and URIs of a checked certificate, in the form of `certificates.NAME.san`."""
    names = certificate.get("subjectAltName", ())
    return tuple(name for kind, name in names if kind in ("DNS", "URI"))


def _refusal(status: int, message: str, reason: str) -> bytes:
    body = orjson.dumps({"error": message})
    return b"".join(
        (
            STATUS_LINE[status],
            b"content-type: application/json\r\nx-spillway-reason: %b\r\n" % reason.encode(),
            b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body),
            body,
        )
    )
