"""A stream for a caller that may not see what restricts.

Its events wait in their order until all text in them is free to go (`held_text`), and go as they
came but for masks. Text that is there for `HELD_S` goes as far as it can, also while nothing comes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple

from gateway.classify.verdicts.answers.held_text import HeldText
from gateway.classify.verdicts.answers.in_progress import AnswerInProgress
from gateway.classify.verdicts.answers.texts import Channel, OpenedFrame
from gateway.core import tasks
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import GatewayError
from gateway.core.reply import Frame, FrameSource, Receiver

HELD_S: Final = 0.5
_MOST_HELD: Final = 4096  # events


class _Held(NamedTuple):
    """An event, and where its pieces stand; None is a whole text, read with the event."""

    frame: OpenedFrame
    pieces: list[tuple[HeldText, int, int] | None]

    @property
    def is_free(self) -> bool:
        return all(piece is None or piece[2] <= piece[0].free for piece in self.pieces)


class MaskedStream:
    """The frames of another source, masked. Raises AnswerWithheld for what cannot be."""

    def __init__(self, frames: FrameSource, answer: AnswerInProgress) -> None:
        self._frames, self._answer = frames, answer
        self._receiver: Receiver[Frame]
        self._queue: deque[_Held] = deque()
        self._texts: dict[Channel, HeldText] = {}
        self._newest: dict[Channel, HeldText] = {}  # of those that come one after the other
        self._lock = asyncio.Lock()  # the timer lets go, too
        self._arrived = asyncio.Event()
        self._failed: BaseException | None = None

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        self._receiver = receiver
        broken: DeferredError | None = None
        try:
            async with tasks.running(self._let_go_in_time(), "held answer"):
                await self._frames.deliver(self)
        except GatewayError as error:  # what was held back precedes the break
            broken = DeferredError(error)
        if not self._answer.withheld:
            await self._advance(whole=True)
        await self._answer.settle()
        if broken is not None:
            raise broken.again()

    async def aclose(self) -> None:
        self._queue.clear()
        try:
            await self._frames.aclose()
        finally:
            await self._answer.settle()

    # A receiver of frames

    def put(self, frame: Frame) -> bool:
        for each in self._answer.opened(frame):
            self._queue.append(self._held(each))
        self._arrived.set()
        return False

    async def room(self) -> None:
        due = any(text.is_due for text in self._texts.values())
        if due or self._failed is not None or (self._queue and self._queue[0].is_free):
            await self._advance()
        if len(self._queue) > _MOST_HELD:
            raise self._answer.withhold("too_many")

    def _held(self, frame: OpenedFrame) -> _Held:
        pieces: list[tuple[HeldText, int, int] | None] = []
        for text, channel, _ in frame.texts:
            if channel is None:
                pieces.append(None)
                continue
            held = self._texts.setdefault(channel, HeldText())
            pieces.append((held, *held.add(text)))
            self._newest[_sequence(channel)] = held
        if not any(pieces):  # an event of the Responses API that ends a text
            self._newest.pop((), None)
        return _Held(frame, pieces)

    async def _let_go_in_time(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            await asyncio.sleep(HELD_S)
            try:
                await self._advance(waited=True)
            except Exception as error:  # noqa: BLE001 - raised to who delivers, by the next frame
                self._failed = error
                return

    async def _advance(self, waited: bool = False, whole: bool = False) -> None:
        """Let go of the events whose text is free."""
        async with self._lock:
            if self._failed is not None:
                raise self._failed
            for channel, text in self._texts.items():
                over = whole or self._newest.get(_sequence(channel)) is not text
                if text.is_due or ((waited or over) and text.is_held):
                    masks = await self._answer.find_masks([text.window()])
                    self._answer.masked += text.decide(masks[0], waited, over)
            while self._queue and self._queue[0].is_free:
                frame = await self._masked(self._queue[0])
                self._queue.popleft()
                if not self._receiver.put(frame):
                    await self._receiver.room()
            for text in self._texts.values():
                text.forget()

    async def _masked(self, held: _Held) -> Frame:
        frame = held.frame
        whole = iter(await self._answer.masked_whole(frame))
        texts = [next(whole) if p is None else p[0].piece(p[1], p[2]) for p in held.pieces]
        return frame.with_texts(texts)


def _sequence(channel: Channel) -> Channel:
    """Texts of one choice come one after the other, as all those of a Responses answer do."""
    return channel[:2] if channel[0] == "choices" else ()
