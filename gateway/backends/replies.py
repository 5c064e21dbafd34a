"""Replies that are at their end when they begin."""

from __future__ import annotations

from gateway.types import Frame


class OneFrame:
    """A whole answer, read already: there is nothing left to close."""

    def __init__(self, frame: Frame, total_tokens: int | None = None) -> None:
        self._frame: Frame | None = frame
        self.total_tokens = total_tokens

    def __aiter__(self) -> OneFrame:
        return self

    async def __anext__(self) -> Frame:
        if self._frame is None:
            raise StopAsyncIteration
        frame, self._frame = self._frame, None
        return frame

    async def aclose(self) -> None:
        self._frame = None
