"""An answer that is written event by event, as the chunks of its chat come."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Any, Final

from orjson import JSONDecodeError, loads

from gateway.core.errors import GatewayError, InternalError, UpstreamFailed
from gateway.core.reply import Frame, FrameSource, Receiver, ServerEvent, ServerEvents
from gateway.protocols import strictjson
from gateway.protocols.http import ClientLeft

_log = logging.getLogger(__name__)

_READ_BYTES: Final = 128 * 1024  # of a chunk: more is measured before it is parsed


class StreamWriter(ABC):
    """Writes one stream. Each call gives the bytes that follow, perhaps none."""

    def chunk(self, data: bytes) -> bytes:
        """Raises UpstreamFailed for one that the caller's API has no words for."""
        if len(data) > _READ_BYTES and not strictjson.is_within(data, strictjson.BOUNDS):
            raise UpstreamFailed("the endpoint sent an event that is too large to be translated")
        try:
            return self._chunk(loads(data))
        except (JSONDecodeError, AttributeError, TypeError, KeyError, IndexError):
            pass
        raise UpstreamFailed("the endpoint sent an event that is no chunk of a chat")

    @abstractmethod
    def _chunk(self, document: Any) -> bytes: ...

    @abstractmethod
    def last(self) -> bytes:
        """What ends a whole stream."""

    @abstractmethod
    def broken_off(self, error: GatewayError) -> bytes:
        """In-band, since the status line is long gone; and never what ends a whole stream."""


class TranslatedBytes:
    """What a streamed answer looks like on the wire; closing it closes the reply (A3, A4)."""

    def __init__(self, frames: FrameSource, writer: StreamWriter) -> None:
        self._frames, self._writer = frames, writer
        self._caller: Receiver[bytes]

    async def deliver(self, receiver: Receiver[bytes]) -> None:
        self._caller = receiver
        try:
            await self._frames.deliver(self)
            last = self._writer.last()
        except GatewayError as error:
            # guard: S13.in-band-error -> return
            last = self._writer.broken_off(error)
        except ClientLeft:
            raise
        except Exception as exc:  # noqa: BLE001 - a front's: the caller must learn of the cut
            _log.error("a stream failed: %s", type(exc).__name__)  # its text may be content
            failed = InternalError("the gateway failed while it streamed")
            last = self._writer.broken_off(failed)
        receiver.put(last)

    # A receiver of frames

    def put(self, frame: Frame) -> bool:
        if isinstance(frame, ServerEvents):
            written = b"".join(map(self._writer.chunk, frame.datas()))
        elif isinstance(frame, ServerEvent):
            written = self._writer.chunk(frame.data)
        else:
            raise InternalError("an event stream has a frame of another protocol")
        return not written or self._caller.put(written)

    async def room(self) -> None:
        await self._caller.room()

    async def aclose(self) -> None:
        await self._frames.aclose()
