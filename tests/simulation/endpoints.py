"""Endpoints in memory, behind the port that real connectors implement.

They answer, are slow, hang, refuse, fail, break off, lie about being up and recover, as their plan
says for each moment; and they tell the witness of every call that reaches them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from random import Random

from gateway.core.errors import (
    ModelDead,
    ModelFailed,
    Unconnected,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.operations.chat import CHAT
from gateway.core.reply import Frame, JsonBody, Receiver, ReplyStream, deliver_each
from gateway.core.types import DocumentCall, InferenceRequest, ServedModel
from tests.simulation.plan import START_S, EndpointPlan, Mood, Probe, Spell
from tests.simulation.witness import Witness

_FOREVER_S = 1e6
_SLOW = 12  # times slower

_ERRORS: dict[Mood, Callable[[], Exception]] = {
    Mood.UNREACHABLE: lambda: Unconnected("it cannot be connected to"),
    Mood.FAILS: lambda: UpstreamFailed("it answered 500"),
    Mood.BUSY: lambda: UpstreamBusy("it answered 429", retry_after_s=0.05),
    Mood.REFUSES: lambda: UpstreamRefused("it answered 422", http_status=422),
    Mood.MODEL_FAILS: lambda: ModelFailed("the model could not"),
    Mood.MODEL_DEAD: lambda: ModelDead("the model's process has died"),
    Mood.BUG: lambda: ValueError("a connector's bug"),
}
_SERVES_NOTHING = frozenset({Mood.UNREACHABLE, Mood.BUSY, Mood.REFUSES})
"""How it turns a call away without serving any of it, and charges nothing."""


CANARY = DocumentCall(CHAT, {"user": -1})
"""The gateway's own small inference. It goes around the queue, and no caller waits for it."""


def number_of(request: InferenceRequest) -> int:
    """By what the call carries: in the cloud its id is another one."""
    payload = request.payload
    if isinstance(payload, DocumentCall):
        return int(payload.document["user"])
    return int(payload.parameters["call"])


class SimulatedEndpoint:
    def __init__(self, plan: EndpointPlan, witness: Witness) -> None:
        self.plan = plan
        self.witness = witness
        self._rng = Random(plan.seed)
        self._ends_s = [START_S + spell.until_s for spell in plan.spells]

    def _now(self) -> Spell:
        return self.plan.spells[bisect_right(self._ends_s, self.witness.now_s)]

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        reply = SimulatedReply(self, request, self._now().mood, self._rng.random())
        try:
            await reply.begin()
        except asyncio.CancelledError:
            reply.ran("cancelled")
            raise
        except Exception:
            reply.ran("unserved" if reply.mood in _SERVES_NOTHING else "failed")
            raise
        return reply

    async def ready(self) -> bool:
        probe = self._now().probe
        if probe is Probe.SILENT:
            await asyncio.sleep(_FOREVER_S)
        if probe is Probe.BREAKS:
            raise UpstreamUnreachable("no connection for a probe")
        return probe is Probe.YES

    async def aclose(self) -> None:
        pass

    def back_in_s(self) -> float | None:
        """Its keeper is right about when this ends, and not always about what follows."""
        now = self._now()
        if not self.plan.restarts or now.probe is Probe.YES:
            return None
        return START_S + now.until_s - self.witness.now_s


class SimulatedReply:
    """One answer. It runs at the endpoint until it is whole, has failed or is closed."""

    total_tokens: int | None = None

    def __init__(
        self, endpoint: SimulatedEndpoint, request: InferenceRequest, mood: Mood, lot: float
    ) -> None:
        self._endpoint, self._request, self.mood = endpoint, request, mood
        self._number = number_of(request)
        self._frames = 1 + int(lot * 5) if request.streamed else 1
        self._breaks_at = int(lot * 7) % (self._frames + 1)
        slower = _SLOW if mood is Mood.SLOW else 1
        self._each_s = endpoint.plan.base_s * slower * (0.5 + lot) / self._frames
        self._given = 0
        self._closed = False
        self._story = endpoint.witness.calls.get(self._number)
        self._running = self._story is not None
        if self._story is not None:
            masked = isinstance(request.payload, DocumentCall) and "masked" in (
                request.payload.document
            )
            endpoint.witness.opened(endpoint.plan, self._number, request.model, masked)

    async def begin(self) -> None:
        """Up to where a connector hands the stream on, whose first frame is still to come."""
        if self.mood is Mood.HANGS:
            await asyncio.sleep(_FOREVER_S)
        if self.mood is Mood.LATE:
            await asyncio.sleep(max(0.0, self._request.deadline.remaining_s()) + 0.001)
        if self._each_s > 0.004:
            await asyncio.sleep(self._each_s / 2)
        if self._breaks_at == 0:
            self._fail()

    def _fail(self) -> None:
        error = _ERRORS.get(self.mood)
        if error is not None:
            if self._story is not None:
                self._story.bug_met |= self.mood is Mood.BUG
            raise error()

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        try:
            frame = await self._next()
        except asyncio.CancelledError:
            raise  # whoever cancels a read closes the stream
        except Exception:
            self.ran("failed")
            raise
        if frame is None:
            self.ran("whole")
            raise StopAsyncIteration
        return frame

    async def _next(self) -> Frame | None:
        if self._closed:
            return None
        await asyncio.sleep(self._each_s)
        if self._given == self._breaks_at:
            await self._break()
        if self._given == self._frames or self.mood is Mood.EMPTY:
            return None
        name = self._endpoint.plan.name
        frame = JsonBody(b"%d/%s/%d" % (self._number, name.encode(), self._given))
        self._given += 1
        if not self._request.streamed:  # its length told that this is all
            self.ran("whole")
        return frame

    async def _break(self) -> None:
        self._fail()
        if self.mood is Mood.CUTS:
            raise UpstreamUnreachable("the stream broke")
        if self.mood is Mood.STALLS:
            await asyncio.sleep(_FOREVER_S)

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        self._closed = True
        self.ran("closed")
        await asyncio.sleep(self._endpoint.plan.close_s)

    def ran(self, how: str) -> None:
        if self._running:
            self._running = False
            self._endpoint.witness.ran(self._endpoint.plan, self._number, self._request.model, how)
