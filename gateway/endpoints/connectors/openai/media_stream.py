"""An answer that is no JSON, such as a sound: its bytes as the provider sends them."""

from __future__ import annotations

import re

from gateway.core.errors import UpstreamFailed
from gateway.core.reply import Frame, MediaChunk, Receiver, deliver_each
from gateway.protocols.http_client.answer import too_large
from gateway.protocols.http_client.stream import WireStream

_MEDIA_TYPE = re.compile(
    r"(?:application|audio|image|text)/[\w.+-]{1,64}(?:; ?[\w-]{1,32}=\"?[\w.,+-]{1,64}\"?){0,4}",
    re.ASCII,
)


class MediaStream:
    """The bytes of an answer of status 200, at most `max_bytes` of them. Whoever reads it bounds
    the wait for each chunk; an answer that is not whole raises."""

    total_tokens = None
    usage = None

    def __init__(self, response: WireStream, max_bytes: int) -> None:
        """Raises UpstreamFailed for an answer that does not say what it is."""
        media_type = response.headers.get(b"content-type", b"").decode("latin-1")
        if not _MEDIA_TYPE.fullmatch(media_type):
            raise UpstreamFailed("the endpoint's answer has no media type that can be handed on")
        self._media_type = media_type
        self._response = response
        self._max_bytes = max_bytes
        self._size = 0
        self.closed = False  # what it held was given back

    def __aiter__(self) -> MediaStream:
        return self

    async def __anext__(self) -> Frame:
        chunk = b"" if self.closed else await self._response.more()
        if not chunk:
            await self.aclose()
            raise StopAsyncIteration
        self._size += len(chunk)
        if self._size > self._max_bytes:  # guard: S17.media-bound
            await self.aclose()
            raise too_large(self._max_bytes)
        return MediaChunk(chunk, self._media_type)

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        if not self.closed:
            self.closed = True
            await self._response.aclose()
