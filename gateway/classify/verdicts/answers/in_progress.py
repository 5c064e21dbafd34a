"""One answer on its way: its texts as they come, and what reading them has shown."""

from __future__ import annotations

import asyncio

from gateway.classify.verdicts.answers import (
    CLEAR_ANSWER,
    ENTITIES,
    AnswerReading,
    AnswerReport,
)
from gateway.classify.verdicts.answers.masks import AnswerMasks, Mask, masked, withheld
from gateway.classify.verdicts.answers.texts import AnswerTexts, OpenedFrame, opened
from gateway.classify.verdicts.answers.verdicts import AnswerVerdicts
from gateway.core.errors import AnswerWithheld
from gateway.core.operations.spec import StreamForm
from gateway.core.reply import Frame, GrpcMessage, JsonBody, Placement, RestBody
from gateway.core.types import AT_ONCE_BYTES, InferenceRequest


class AnswerInProgress:
    """One answer: its texts as they come, and what reading them has shown, reported once."""

    def __init__(
        self,
        request: InferenceRequest,
        placement: Placement,
        verdicts: AnswerVerdicts,
        masks: AnswerMasks | None,
        restrict: bool,
        report: AnswerReport,
    ) -> None:
        self.request = request
        self.masks = masks
        self.masked = 0  # places
        self.withheld = False
        self._placement, self._verdicts = placement, verdicts
        self._restrict, self._report = restrict, report
        self._texts = AnswerTexts(verdicts.max_bytes, request.held)
        self._form = request.operation.stream if request.streamed else StreamForm.NONE
        self._settled = False

    def opened(self, frame: Frame) -> list[OpenedFrame]:
        """The frame, or the events in it; their texts are read in the end."""
        frames = opened(frame, self._form)
        for each in frames:
            self._texts.add(each)
        return frames

    async def whole(self, frame: Frame) -> Frame:
        """An answer that has come whole, as its caller may see it. Raises AnswerWithheld."""
        large = _size(frame) > AT_ONCE_BYTES
        (answer,) = await asyncio.to_thread(self.opened, frame) if large else self.opened(frame)
        try:
            if self.masks is None:
                return frame
            return answer.with_texts(await self.masked_whole(answer))
        finally:
            await self.settle()

    async def masked_whole(self, frame: OpenedFrame) -> list[str]:
        """The texts of a frame that are no pieces, masked. Raises AnswerWithheld."""
        if frame.unread:  # guard: C20.broken-withheld
            raise self.withhold(frame.unread)
        texts = [each.text for each in frame.texts if each.channel is None]
        if not texts:
            return texts
        masks = await self.find_masks(texts)
        if any(masks) and not frame.may_change:  # guard: C20.tensors-withheld
            raise self.withhold(ENTITIES)
        self.masked += sum(map(len, masks))
        return [masked(text, its) for text, its in zip(texts, masks, strict=True)]

    async def find_masks(self, texts: list[str]) -> list[list[Mask]]:
        """Raises AnswerWithheld."""
        assert self.masks is not None
        try:
            return await self.masks.find(self.request, texts)
        except AnswerWithheld:
            self.withheld = True
            raise

    def withhold(self, reason: str) -> AnswerWithheld:
        """To be raised: nothing of the answer goes any more."""
        self.withheld = True
        return withheld(reason)

    async def settle(self) -> None:
        """Read all that has come, mark the conversation, and report. Acts once."""
        if self._settled:
            return
        self._settled = True
        reading = AnswerReading("cancelled")
        try:
            reading = await self._reading()
        finally:
            if self._restrict and reading.reason != CLEAR_ANSWER:  # guard: C20.answer-restricts
                self._verdicts.restrict(self.request, reading.reason)
            self._report(self.request, self._placement, reading)

    async def _reading(self) -> AnswerReading:
        reason, entities = await self._verdicts.read(self.request, self._texts.texts(False))
        # guard: C20.tool-calls -> called, calls = reason, {}
        called, calls = await self._verdicts.read(self.request, self._texts.texts(True))
        reasons = (self._texts.unread, reason, called)  # what is not read comes first
        unread = [one for one in reasons if one not in ("", CLEAR_ANSWER, ENTITIES)]
        if ENTITIES in reasons:
            unread.append(ENTITIES)
        return AnswerReading(
            unread[0] if unread else CLEAR_ANSWER, entities, calls, self.masked, self.withheld
        )


def _size(frame: Frame) -> int:
    if isinstance(frame, JsonBody | RestBody):
        return len(frame.body)
    return len(frame.message) if isinstance(frame, GrpcMessage) else 0
