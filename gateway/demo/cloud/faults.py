"""What the outages do to an HTTP answer that was already good."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.types import Message, Send

from gateway.demo.cloud.http_door import RecordingProtocol
from gateway.demo.cloud.settings import CloudSettings, OutageMode

_DRIPS_PER_S = 10
_FAILED: Mapping[str, Any] = {
    "error": {
        "message": "The server had an error while processing your request.",
        "type": "server_error",
        "param": None,
        "code": "server_error",
    }
}


class AnswerCutShort(Exception):
    """The connection is gone; the handler that was still answering has nobody to answer."""


class FaultySend:
    """Stands between the application and the connection, for one answer."""

    def __init__(
        self, send: Send, settings: CloudSettings, outage: OutageMode, via: RecordingProtocol
    ) -> None:
        self._send = send
        self._settings = settings
        self._outage = outage
        self._via = via
        self._pieces = 0
        self._held: Message | None = None
        self._over = False

    async def __call__(self, message: Message) -> None:
        if self._over:
            return
        if message["type"] == "http.response.start":
            await self._start(message)
        elif self._outage in (OutageMode.CUT, OutageMode.RESET):
            await self._break_off(message)
        elif self._outage is OutageMode.DRIP:
            await self._drip(message)
        elif self._outage in (OutageMode.MALFORMED, OutageMode.ERROR_EVENT):
            await self._spoil(message)
        else:
            await self._send(message)

    async def _start(self, message: Message) -> None:
        if self._outage in (OutageMode.MALFORMED, OutageMode.ERROR_EVENT):
            self._held = message  # its length is not known yet
        else:
            await self._send(message)

    async def _break_off(self, message: Message) -> None:
        """A stream breaks after its pieces; an answer in one piece breaks in its middle."""
        body: bytes = message.get("body", b"")
        streamed = message.get("more_body", False) or self._pieces > 0
        if streamed and body and self._pieces < self._settings.cut_after_chunks:
            self._pieces += 1
            await self._send(message)
            return
        self._over = True
        if not streamed or self._outage is OutageMode.RESET:
            await self._send(_piece(body[: len(body) // 2], more=True))
        await asyncio.sleep(0.01)  # a reset would overtake what is still in the socket's buffer
        if self._outage is OutageMode.RESET:
            self._via.reset()
        else:
            self._via.cut()
        raise AnswerCutShort

    async def _drip(self, message: Message) -> None:
        body: bytes = message.get("body", b"")
        piece = max(1, int(self._settings.drip_bytes_per_s / _DRIPS_PER_S))
        for at in range(0, len(body), piece):
            await self._send(_piece(body[at : at + piece], more=True))
            await asyncio.sleep(1 / _DRIPS_PER_S)
        await self._send(_piece(b"", more=message.get("more_body", False)))

    async def _spoil(self, message: Message) -> None:
        body: bytes = message.get("body", b"")
        assert self._held is not None
        if not _is_event_stream(self._held):
            await self._replace(_spoiled_whole(body, self._outage))
            return
        if self._pieces == 0:
            await self._send(self._held)
        if self._pieces < self._settings.cut_after_chunks and message.get("more_body", False):
            self._pieces += 1
            await self._send(message)
            return
        await self._send(_piece(_spoiled_event(self._outage), more=False))
        self._over = True

    async def _replace(self, body: bytes) -> None:
        assert self._held is not None
        headers = [pair for pair in self._held["headers"] if pair[0].lower() != b"content-length"]
        headers.append((b"content-length", str(len(body)).encode()))
        await self._send({**self._held, "status": 200, "headers": headers})
        await self._send(_piece(body, more=False))
        self._over = True


def _piece(body: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


def _is_event_stream(start: Message) -> bool:
    headers = {name.lower(): value for name, value in start["headers"]}
    return bytes(headers.get(b"content-type", b"")).startswith(b"text/event-stream")


def _spoiled_whole(body: bytes, outage: OutageMode) -> bytes:
    if outage is OutageMode.MALFORMED:
        return body[: len(body) // 2]
    return json.dumps(_FAILED).encode()


def _spoiled_event(outage: OutageMode) -> bytes:
    if outage is OutageMode.MALFORMED:
        return b'data: {"id": "chatcmpl-0", "choices": [{"delta": {"cont\n\n'
    return b"data: " + json.dumps(_FAILED).encode() + b"\n\n"
