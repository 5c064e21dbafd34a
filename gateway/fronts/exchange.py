"""One request and its answer on a connection that may carry another one behind them."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Scope, Send

LINGER_S = 1.0
LINGER_BYTES = 16 * 1024 * 1024
_DRAINED_BYTES = 1024 * 1024  # an unread body up to this is worth the connection


class Exchange:
    """Watches what has been read and sent.

    An answer that comes before a large body has been read closes its connection, but not at once:
    a client that is still sending would get a reset instead of the answer. So the answer goes out
    whole, what still comes is thrown away for a moment, and then the connection closes.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._unread = _has_body(scope)
        self._lingers = False
        self.started = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._unread = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            if self._unread:
                self._lingers = True
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        elif self._lingers and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._linger()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _linger(self) -> None:
        size = 0
        try:
            async with asyncio.timeout(LINGER_S):
                while self._unread and size < LINGER_BYTES:
                    size += len((await self.receive()).get("body", b""))
        except TimeoutError:
            return


def _has_body(scope: Scope) -> bool:
    """Whether a body comes that is too large, or of a size too uncertain, to be read for naught."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return True
    return int(headers.get(b"content-length", b"0")) > _DRAINED_BYTES
