"""A stream that is read as it passes."""

from __future__ import annotations

from gateway.classify.verdicts.answers.in_progress import AnswerInProgress
from gateway.core.deferred_error import DeferredError
from gateway.core.reply import Frame, FrameSource, Receiver, ServerEvent

LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
"""Events that say that they are the last. Of other streams the front writes the end."""


class ReadStream:
    """The frames of another source, as they are. The end of a delivery waits until all that has
    come is read; so does closing it before."""

    def __init__(self, frames: FrameSource, answer: AnswerInProgress) -> None:
        self._frames, self._answer = frames, answer
        self._receiver: Receiver[Frame] | None = None
        self._last: list[Frame] = []

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        self._receiver = receiver
        broken: DeferredError | None = None
        try:
            await self._frames.deliver(self)
        except Exception as error:  # noqa: BLE001 - raised below, once what has come is read
            broken = DeferredError(error)
        await self._answer.settle()
        for frame in self._last:
            if not receiver.put(frame):
                await receiver.room()
        self._last, self._receiver = [], None
        if broken is not None:
            raise broken.again()

    async def aclose(self) -> None:
        self._receiver = None
        try:
            await self._frames.aclose()
        finally:
            await self._answer.settle()  # guard: C20.left-caller

    # A receiver of frames

    def put(self, frame: Frame) -> bool:
        self._answer.opened(frame)
        # guard: C20.end-waits
        if self._last or (isinstance(frame, ServerEvent) and frame.event in LAST):
            self._last.append(frame)
            return True
        return self._receiver is not None and self._receiver.put(frame)

    async def room(self) -> None:
        if self._receiver is not None:
            await self._receiver.room()
