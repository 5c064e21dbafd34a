"""A stream for a caller that may not see what restricts.

Its events wait in their order until all text in them is free to go (`held_text`), and go as they
came but for masks. Text that is there for `HELD_S` goes as far as it can, also while nothing comes.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
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
_PASSED: Final = 16  # events with pieces of other texts, from which on a text is over


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
        self._events: Counter[Channel] = Counter()  # with pieces, of texts that come in sequence
        self._lock = asyncio.Lock()  # the timer lets go, too
        self._arrived = asyncio.Event()
        self._failed: DeferredError | None = None

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
        channels = {each.channel for each in frame.texts if each.channel is not None}
        self._events.update(map(_sequence, channels))
        for channel in channels:
            self._texts[channel].over_from = self._events[_sequence(channel)] + _PASSED
        if frame.ends in self._texts:
            self._texts[frame.ends].over_from = 0
        return _Held(frame, pieces)

    async def _let_go_in_time(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            await asyncio.sleep(HELD_S)
            try:
                await self._advance(waited=True)
            except Exception as error:  # noqa: BLE001 - raised to who delivers, by the next frame
                self._failed = DeferredError(error)
                return

    async def _advance(self, waited: bool = False, whole: bool = False) -> None:
        """Let go of the events whose text is free."""
        async with self._lock:
            if self._failed is not None:
                raise self._failed.again()
            for channel, text in list(self._texts.items()):
                # guard: C20.text-over -> over = True
                over = whole or self._events[_sequence(channel)] >= text.over_from
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
