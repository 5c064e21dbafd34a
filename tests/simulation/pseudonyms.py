"""Surrogates in the place of findings, behind the port that the real pseudonymiser implements."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.core.reply import Frame, FrameSource, InferenceReply, OneFrame, Receiver
from gateway.core.types import Classification, DocumentCall, InferenceRequest, Sensitivity, Zone
from tests.simulation.endpoints import number_of
from tests.simulation.plan import CLASSES, Look
from tests.simulation.witness import CallStory, Witness


class SimulatedPseudonyms:
    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    async def instead(
        self, request: InferenceRequest, classification: Classification
    ) -> SimulatedInstead | None:
        story = self._witness.calls[number_of(request)]
        await asyncio.sleep(story.plan.look_s)
        payload = request.payload
        if story.plan.door is not Look.WELL or not isinstance(payload, DocumentCall):
            return None
        masked = replace(payload, document={**payload.document, "masked": True})
        return SimulatedInstead(replace(request, payload=masked), story)


class SimulatedInstead:
    def __init__(self, request: InferenceRequest, story: CallStory) -> None:
        self.request = request
        self.classification = Classification(
            request.id, Sensitivity.CLEAR, "pseudonymised", complete=True,
            pseudonymised={"PERSON": 1}, admitted=CLASSES["clear"],
        )  # fmt: skip
        self._story = story
        self._known = True
        story.mappings += 1

    async def to_leave(self, zone: Zone) -> None:
        return None

    def restored(self, reply: InferenceReply) -> InferenceReply:
        return replace(reply, frames=_Restored(reply.frames, self))

    async def restored_whole(self, frames: OneFrame) -> tuple[OneFrame, int]:
        self.forget()
        return frames, 0

    def forget(self) -> None:
        if self._known:
            self._known = False
            self._story.mappings -= 1


class _Restored:
    def __init__(self, frames: FrameSource, instead: SimulatedInstead) -> None:
        self._frames = frames
        self._instead = instead

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await self._frames.deliver(receiver)

    async def aclose(self) -> None:
        self._instead.forget()
        await self._frames.aclose()
