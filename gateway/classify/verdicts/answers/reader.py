"""Answers on their way to their callers: read, counted, and masked where a key asks for that.

A whole answer waits until it is read. A stream passes at once, and only its end waits until all of
it is read: what it says of its conversation holds before the next turn can come. For a caller that
may not see what restricts, its text is held back and masked (`masked_stream`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from gateway.classify.pseudonyms import SpanFinder
from gateway.classify.verdicts.answers import AnswerReport
from gateway.classify.verdicts.answers.in_progress import AnswerInProgress
from gateway.classify.verdicts.answers.masked_stream import MaskedStream
from gateway.classify.verdicts.answers.masks import AnswerMasks
from gateway.classify.verdicts.answers.read_stream import ReadStream
from gateway.classify.verdicts.answers.texts import AUDIO
from gateway.classify.verdicts.answers.verdicts import AnswerVerdicts
from gateway.core.deferred_error import DeferredError
from gateway.core.reply import InferenceReply, MediaChunk, MediaReply, OneFrame
from gateway.core.types import InferenceRequest

Handle = Callable[[InferenceRequest], Awaitable[InferenceReply]]


class AnswerInspector:
    def __init__(
        self,
        handle: Handle,
        verdicts: AnswerVerdicts,
        finder: SpanFinder | None,
        restrict: bool,
        report: AnswerReport,
    ) -> None:
        """`handle`: the pipeline's. `finder`: None where no key asks for masks. `restrict`: a
        conversation stays on the premises once something in an answer restricts."""
        self._handle = handle
        self._masks = None if finder is None else AnswerMasks(verdicts, finder)
        self._verdicts, self._restrict, self._report = verdicts, restrict, report

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        """The answer of the pipeline. Raises as that does, and AnswerWithheld."""
        reply = await self._handle(request)
        # guard: C20.key-masks -> masks = None
        masks = self._masks if request.tightening.answers_masked else None
        answer = AnswerInProgress(
            request, reply.placement, self._verdicts, masks, self._restrict, self._report
        )
        if isinstance(reply, MediaReply) and masks is not None:  # guard: S17.media-masked
            answer.opened(MediaChunk(b"", reply.media_type))
            withheld = DeferredError(answer.withhold(AUDIO))
            await ReadStream(reply.frames, answer).aclose()
            raise withheld.again()
        if request.streamed:
            stream = ReadStream if masks is None else MaskedStream
            return replace(reply, frames=stream(reply.frames, answer))
        frames = reply.frames
        assert isinstance(frames, OneFrame)
        frame = frames.take()
        assert frame is not None
        read = OneFrame(await answer.whole(frame), frames.total_tokens, frames.usage)
        return replace(reply, frames=read)
