"""Words between processes of one gateway: JSON behind its length, over sockets that only they
have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import orjson

Words = dict[str, Any]
_HEAD = 4
_MOST_BYTES = 256 * 1024 * 1024


class Frames(asyncio.Protocol):
    """One connection. `heard` is told what comes, `ended` when nothing comes any more."""

    def __init__(
        self, heard: Callable[[Frames, Words], None], ended: Callable[[Frames], None]
    ) -> None:
        self._heard, self._ended = heard, ended
        self._transport: asyncio.Transport | None = None
        self._held = bytearray()

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, words: Words) -> None:
        """Raises ConnectionError when nobody is there."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionError("the other process has gone")
        body = orjson.dumps(words, option=orjson.OPT_NON_STR_KEYS)
        self._transport.write(len(body).to_bytes(_HEAD, "big") + body)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        held = self._held
        held += data
        at, most = 0, len(held)
        while most - at >= _HEAD:
            end = at + _HEAD + int.from_bytes(held[at : at + _HEAD], "big")
            if end - at > _MOST_BYTES:
                self.close()
                return
            if end > most:
                break
            words = orjson.loads(bytes(held[at + _HEAD : end]))
            at = end
            self._heard(self, words)
        del held[:at]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._ended(self)
