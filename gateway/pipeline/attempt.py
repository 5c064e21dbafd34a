"""One attempt: one endpoint that is sent the call, up to the last frame of its answer.

Everything that an attempt holds (its turn, money put aside, the count of calls in flight, the
upstream) is given back in `finish`, which happens once, on every way out (A2).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from typing import Protocol, cast

from gateway.accounting.pricing import tariff, usd
from gateway.accounting.pricing.gputime import GpuTime
from gateway.accounting.records import Durable
from gateway.accounting.spill import Reservation, SpillControl
from gateway.core import ambient
from gateway.core.deadline import Clock
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import (
    CloudFull,
    DeadlineExceeded,
    EgressForbidden,
    GatewayError,
    UpstreamError,
    UpstreamFailed,
    UpstreamGivenUp,
    UpstreamRefused,
    UpstreamSilent,
)
from gateway.core.trace_context import Attribute, Span, Value
from gateway.core.types import (
    CLOUD,
    Attempt,
    Classification,
    Cost,
    Decision,
    Endpoint,
    Flow,
    Flowing,
    Frame,
    GrpcMessage,
    InferenceRequest,
    OneFrame,
    ReplyStream,
    ServerEvent,
    Sink,
    TensorCall,
    Usage,
    Zone,
    in_chunk,
    stream_flow,
)
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.connectors import Cleared, OnPremBackend
from gateway.endpoints.health.patience import give_up_s, idle_s, parting_s
from gateway.endpoints.outcomes import Outcomes
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import AttemptTimeout, refused_why, went_out_why
from gateway.endpoints.versions.parts import EndpointParts

_NOT_SENT = Cost()
_FRAMED_BYTES = len(ServerEvent(b"").framed())
_TELLS_S = 0.02
_CLOSES_IN_S = 0.02  # no caller waits longer for an upstream that is slow to close (D1)


class AttemptLog(Protocol):
    """Keeps what was tried; the account of the call."""

    before_dispatch: bool
    """Nothing is sent to the cloud before it is on record."""

    def starts(
        self, endpoint: Endpoint, zones: frozenset[Zone], queued_s: float, sent_as: str
    ) -> Durable | None:
        """It is about to be sent. Returns what is done once that is on record. Raises
        RecordUnwritable."""
        ...

    async def on_record(self, durable: Durable) -> None:
        """Waits for that. Raises RecordUnwritable, DeadlineExceeded."""
        ...

    def attempted(self, attempt: Attempt) -> None: ...
    def decided(self, decision: Decision) -> None: ...


class GrantPort(Protocol):
    """A turn at an on-prem server. Given back exactly once."""

    @property
    def server(self) -> str: ...
    @property
    def queued_s(self) -> float: ...
    @property
    def door(self) -> OnPremBackend | None:
        """The way there, where it is not the server's own door: the gateway that owns it."""
        ...

    def release(self, answered: bool) -> None:
        """`answered`: whether the time that it took says how fast the server is."""
        ...


@dataclass(frozen=True, slots=True)
class AttemptServices:
    """What every attempt uses."""

    registry: EndpointRegistry
    outcomes: Outcomes
    clouds: Clouds
    spill: SpillControl
    clock: Clock

    @classmethod
    def from_parts(cls, parts: EndpointParts, clock: Clock) -> AttemptServices:
        return cls(parts.registry, parts.outcomes, parts.clouds, parts.spill, clock)


class RunningAttempt(AttemptTimeout):
    """One try at one endpoint: its turn in the queue, the upstream call, the first frame."""

    may_last = True
    answered = False  # whether its time tells how fast the server is
    finished = False
    reserved: Reservation | None = None
    stream: ReplyStream | None = None
    first: Frame | None = None  # of an answer that did not come whole
    sent_s: float | None = None
    sent_as = ""  # what the cloud knows it by
    record: Durable | None = None  # done once it is on record
    epoch: int | None = None  # None: no call has gone there
    gpu_mark = 0.0
    high_s = 0.0  # of its lane's times, of a sample of so many, when it was sent
    sample = 0
    frames = 0
    received_bytes = 0
    span: Span | None = None

    def __init__(
        self,
        services: AttemptServices,
        request: InferenceRequest,
        classification: Classification,
        decision: Decision,
        endpoint: Endpoint,
        log: AttemptLog,
        turn: GrantPort | None = None,
    ) -> None:
        self.services, self.clock, self.log = services, services.clock, log
        self.request, self.classification, self.decision = request, classification, decision
        self.endpoint, self.turn = endpoint, turn
        model, state = request.model, services.registry.states[endpoint.name]
        self.served = endpoint.models[model]
        self.state, self.model_state = state, state.model_states[model]
        if request.trace.sampled:
            self.span = request.trace.begin("attempt")

    @property
    def model(self) -> str:
        return self.request.model

    @property
    def restricted(self) -> bool:
        return self.classification.restricted

    def concurrent(self, endpoint: Endpoint, classification: Classification) -> RunningAttempt:
        """Another try at the same call."""
        return RunningAttempt(
            self.services, self.request, classification, self.decision, endpoint, self.log
        )

    async def start(self, just_decided: bool = False) -> RunningAttempt:
        """Itself, once its answer has begun. `just_decided`: in this very step, by what is there
        now; it is looked at again before the call goes."""
        services, endpoint, request = self.services, self.endpoint, self.request
        try:
            cloud = endpoint.zone is CLOUD
            if not (cloud and just_decided):
                self._still_available()
            if cloud:  # much may have changed when what it takes is there
                # guard: S5.attempt-reserve
                self.reserved = services.spill.reserve_for(request, self.served)
                if not self.reserved.leased:  # guard: S5.attempt-reserve
                    await services.spill.lease(self.reserved, request.deadline)
                self.sent_as = ambient.new_id()
            self.record = record = self.log.starts(
                endpoint,
                self.decision.zones,
                0.0 if self.turn is None else self.turn.queued_s,
                self.sent_as,
            )
            if cloud:
                if record is not None and self.log.before_dispatch:
                    await self.log.on_record(record)  # guard: B8.send-record
                self._still_available()  # guard: B8.cloud-recheck
                if request.deadline.passed():  # guard: D1.durable-record
                    raise DeadlineExceeded("the latency budget ran out before it was sent")
            self.epoch = services.outcomes.started(endpoint, request.model, request.tenant)
            if self.state.gpu_time is not None:
                self.gpu_mark = self.state.gpu_time.enters()
            now_s = self.sent_s = self.clock()
            times = self.model_state.times
            self.high_s, self.sample = times.high_s, times.sample
            least_s = services.registry.health.response_floor_ms / 1000
            # guard: D1.answer-wait -> with self.waits(now_s + 100000.0, now_s):
            # guard: D5.shared-deadline -> with self.waits(now_s + min(request.deadline.at_s -
            #   request.received_s, least_s), now_s):
            # guard: A5.answer-timeout -> with self.waits(request.deadline.at_s, now_s):
            with self.waits(min(request.deadline.at_s, now_s + least_s), now_s):
                self.stream = stream = await self._open()
                streamed = request.payload.streamed
                if type(stream) is OneFrame and not streamed:
                    self.frames = 1
                    if self.served.egress_usd_per_gb:
                        self.received_bytes = _length(stream.peek())
                elif streamed and isinstance(request.payload, TensorCall):
                    self.first = await anext(stream, None)  # a decoupled model may give none
                    self.on_frame(self.first)
                else:
                    self.first = await anext(stream)
                    self.on_frame(self.first)
            return self
        except StopAsyncIteration:
            failed, closing = self.failed(
                UpstreamFailed("the endpoint ended its answer before it began", transient=True)
            )
        except TimeoutError:
            # guard: A2.late-turn -> failed, closing = (DeferredError(self._too_late()), None)
            # guard: A10.late-attempt -> late = self._too_late(); failed, closing =
            #   DeferredError(late), self.end(late)
            failed, closing = self.failed(self._too_late())
        except GatewayError as exc:
            failed, closing = DeferredError(exc), self.end(exc)
        except asyncio.CancelledError as exc:  # the caller left
            # guard: A2.departed-turn -> failed, closing = (DeferredError(exc), None)
            # guard: A2.left-turn -> failed, closing = (DeferredError(exc), None)
            failed, closing = DeferredError(exc), self.end(None, "cancelled")
        except EgressForbidden as exc:
            failed, closing = DeferredError(exc), self.end(None, "egress_forbidden")
        except BaseException as exc:  # noqa: BLE001 - a connector's bug, raised below
            # guard: A2.failed-turn -> failed, closing = (DeferredError(exc), None)
            failed, closing = DeferredError(exc), self.end(None, "internal")
        if closing is not None:
            await closed(closing)
        raise failed.again()

    def failed(self, error: GatewayError) -> tuple[DeferredError, asyncio.Future[None] | None]:
        """For an error that no local of the frame that raises it may name."""
        return DeferredError(error), self.end(error)

    def last_check(self) -> None:
        """Most are answered long before anybody has to ask how long theirs may take."""
        self.ends_s = min(self.request.deadline.at_s, (self.sent_s or 0.0) + self._give_up_s())

    def _give_up_s(self) -> float:
        return give_up_s(self, self.services.registry.health, self.request)

    def _too_late(self) -> GatewayError:
        if self.request.deadline.passed():
            return DeadlineExceeded("the latency budget ran out before the answer began")
        if why := went_out_why(self.state, self.model_state):
            return UpstreamGivenUp("the endpoint went out before it answered", reason=why)
        if self.clock() - (self.sent_s or 0.0) >= self._give_up_s():
            return UpstreamSilent("the endpoint gave no answer in many times its usual time")
        return UpstreamGivenUp("the endpoint became slow before it answered", reason="slow")

    def too_late_to_go_on(self) -> GatewayError:
        if self.request.deadline.passed():
            return DeadlineExceeded("the latency budget ran out while the answer was streaming")
        if why := went_out_why(self.state, self.model_state):
            return UpstreamGivenUp("the endpoint went out while it was answering", reason=why)
        return UpstreamSilent("the endpoint has stopped in the middle of its answer")

    def _still_available(self) -> None:
        """An endpoint may fail while a call waits in its queue or at another one; then the call
        tries its next place at once instead of an endpoint that is known to be out (A6)."""
        endpoint, model_state = self.endpoint, self.model_state
        # guard: A6.ejected-reroute -> why = ''
        why = refused_why(self.state, model_state, self.request.tenant)
        if not why and model_state.health.slow_since_s is not None:
            why = self._better_elsewhere()
        if why:
            raise UpstreamGivenUp("the endpoint was taken out of service", reason=why)
        cloud = endpoint.zone is CLOUD
        # guard: S2.cloud-recheck -> if cloud and not endpoint.name:
        if cloud and not self.services.clouds.takes_another(endpoint.name, self.request.model):
            raise CloudFull(  # others were decided on in the same moment, or came while it waited
                "the cloud has as many calls as it takes", (endpoint.name,), retry_after_s=1.0
            )

    def _better_elsewhere(self) -> str:
        if self.classification.restricted or self.decision.attempts[-1] is self.endpoint:
            return ""
        return "slow" if self.model_state.health.state == "slow" else ""

    def _open(self) -> Awaitable[ReplyStream]:
        state, request = self.state, self.request
        if self.span is not None:  # what the server does is within this attempt
            onwards = request.trace.onwards(self.span, request.traceparent)
            request = replace(request, traceparent=onwards)
        if self.endpoint.zone is CLOUD:
            if state.cloud is None or not self.sent_as:
                raise EgressForbidden(self.request.id)
            # guard: B8.cloud-id without self.sent_as
            cleared = Cleared(request, self.classification, self.decision, self.sent_as)
            return state.cloud.infer(cleared, self.served)
        if state.onprem is None:
            raise EgressForbidden(self.request.id)
        door = self.turn.door if self.turn is not None else None
        return (door or state.onprem).infer(request, self.served)

    async def aclose(self) -> None:
        await self.finish(None, "cancelled")

    async def finish(self, error: GatewayError | None, result: str = "") -> None:
        """`end`, and wait for the close."""
        closing = self.end(error, result)
        if closing is not None:
            await closed(closing)

    def end(self, error: GatewayError | None, result: str = "") -> asyncio.Future[None] | None:
        """Give the turn back, close the upstream, report the outcome, write the account; acts once.
        Returns the close, if that takes time."""
        if self.finished:
            return None
        self.finished = True
        sent_s, stream, closing = self.sent_s, self.stream, None
        took_s = 0.0 if sent_s is None else self.clock() - sent_s
        self.answered = answered = error is None and not result
        if stream is not None and type(stream) is not OneFrame:
            closing = None if answered and _closed_whole(stream) else _closing(stream)
            if closing is not None:  # nobody takes this place before the close has gone out (S2)
                # guard: S2.close-order -> self._leave()
                # guard: S2.leave-at-once -> self._leave()
                asyncio.get_running_loop().call_soon(self._leave)
        how = result or (error.reason if error is not None else "served")
        unserved = isinstance(error, UpstreamError) and error.unserved and not self.frames
        attempt = self.as_attempt(how, took_s, unserved)
        if self.reserved is not None:
            self.reserved.settle(attempt.cost.nano_usd)  # guard: A2.spend-release
        if self.epoch is not None:
            if answered:
                self.services.outcomes.succeeded(self.endpoint, self.request, self.epoch, took_s)
            else:
                self._report_failure(error, self.epoch)
        self.log.attempted(attempt)  # guard: A3.cancelled-record
        if self.span is not None:
            self.request.trace.end(self.span, _attempt_attributes(self.endpoint, how))
        if closing is None:
            self._leave()
        return closing

    def _leave(self) -> None:
        if self.turn is not None:
            self.turn.release(self.answered)  # guard: A2.turn-release
        if self.epoch is not None:
            # guard: A2.inflight-release
            self.services.outcomes.ended(self.endpoint, self.request.model)

    def as_attempt(self, result: str, took_s: float, unserved: bool = False) -> Attempt:
        """Asked once, at its end. `unserved`: the endpoint said that it served nothing, which costs
        nothing in the cloud unless it counted tokens all the same."""
        counted = getattr(self.stream, "usage", None)  # as the endpoint counted it
        if type(counted) is not Usage:
            counted = None
        cost = _NOT_SENT
        # guard: A7.loser-cost -> if self.epoch is not None and self.answered:
        # guard: B3.attempt-cost -> if self.epoch is not None and self.answered:
        if self.epoch is not None:
            usage = counted or self._total_usage()
            if self.state.gpu_time is not None:
                cost = self._onprem_cost(self.state.gpu_time, usage)
            # guard: B3.unserved-free -> cost = tariff.in_the_cloud(self.request, self.served,
            #   usage, self.frames, self.received_bytes)
            elif counted is not None or not unserved:
                cost = tariff.in_the_cloud(
                    self.request, self.served, usage, self.frames, self.received_bytes
                )
        endpoint, turn = self.endpoint, self.turn
        return Attempt(
            endpoint.name,
            endpoint.zone,
            self.decision.zones,
            result,
            0.0 if turn is None else turn.queued_s,
            took_s,
            usd(cost.nano_usd),
            cost,
            counted,
            self.sent_as,
        )

    def whole(self) -> OneFrame:
        """All of an answer that does not stream."""
        if type(self.stream) is OneFrame:
            return self.stream
        assert self.first is not None
        return OneFrame(self.first, self.tokens())

    def on_frame(self, frame: Frame | None) -> None:
        if frame is not None:
            self.frames += 1
            if self.served.egress_usd_per_gb:
                self.received_bytes += _length(frame)

    def _onprem_cost(self, gpu: GpuTime, usage: Usage | None) -> Cost:
        cost = tariff.on_the_premises(self.served, gpu.leaves_ns(self.gpu_mark), usage)
        if self.classification.restricted or not self.answered:
            return cost
        served = self.services.registry.candidates.for_model(self.request.model).cheapest_cloud
        if served is None:
            return cost
        return tariff.compared(cost, tariff.instead(self.request, served, usage, self.frames))

    def _total_usage(self) -> Usage | None:
        """Of a total nobody knows what was given and what written: it is taken for whichever is
        dearer."""
        total = self.tokens()
        if total is None:
            return None
        prices = tariff.tariff(self.served)
        return Usage(total, 0) if prices.given >= prices.written else Usage(0, total)

    def _report_failure(self, error: GatewayError | None, epoch: int) -> None:
        outcomes, endpoint, model = self.services.outcomes, self.endpoint, self.request.model
        sent_s = self.sent_s or 0.0
        if isinstance(error, DeadlineExceeded) and self.sent_s is not None:
            # guard: A6.unawaited-answers
            outcomes.outlasted(endpoint, self.request, self.clock() - sent_s)
        if not isinstance(error, UpstreamRefused) and (
            isinstance(error, UpstreamError)
            or (
                isinstance(error, DeadlineExceeded)
                and outcomes.fairly_late(endpoint, model, sent_s)
            )
        ):
            outcomes.failed(endpoint, model, epoch, error, sent_s, self.request)
        else:
            outcomes.abandoned(endpoint, model, epoch, self.request.tenant)

    def tokens(self) -> int | None:
        tokens = getattr(self.stream, "total_tokens", None)
        return tokens if isinstance(tokens, int) else None


def _closed_whole(stream: ReplyStream) -> bool:
    """Whether it was read to its end, and has closed itself: there is nothing to go out."""
    return getattr(stream, "closed", None) is True


def _closing(stream: ReplyStream) -> asyncio.Future[None] | None:
    """The close, which has begun."""
    # guard: A3.upstream-close -> return None
    return asyncio.ensure_future(stream.aclose())  # guard: S2.close-order -> return stream.aclose()


async def closed(closing: asyncio.Future[None]) -> None:
    """It goes on by itself when it takes longer, or when the caller leaves."""
    # guard: D1.close-wait without timeout=_CLOSES_IN_S
    done, _ = await asyncio.wait((closing,), timeout=_CLOSES_IN_S)
    for ended in done:
        ended.result()


def _length(frame: Frame | None) -> int:
    if frame is None:
        return 0
    if isinstance(frame, GrpcMessage):
        return len(frame.message)
    return len(frame.data) if isinstance(frame, ServerEvent) else len(frame.body)


def _attempt_attributes(endpoint: Endpoint, result: str) -> dict[Attribute, Value]:
    return {"endpoint": endpoint.name, "zone": endpoint.zone.value, "result": result}


class AttemptPassage:
    """What its lane is told of an answer that flows is not told for each of many frames that follow
    closely."""

    __slots__ = (
        "_attempt",
        "_chunk",
        "_clock",
        "_events",
        "_gap_s",
        "_priced",
        "_reported_s",
        "received_s",
    )

    def __init__(self, attempt: RunningAttempt, sink: Sink) -> None:
        self._attempt, self._clock = attempt, attempt.clock
        self._events, self._chunk = sink
        self._priced = attempt.served.egress_usd_per_gb > 0.0  # by the byte
        self.received_s = self._clock()
        # guard: A4.buffered-frames math.inf -> self.received_s
        self._reported_s = math.inf  # its lane: it is told nothing of what had come before
        self._gap_s = 0.0  # the longest since then

    def is_waited_for(self) -> None:
        """From now on."""
        self.received_s = self._reported_s = self._clock()
        self._gap_s = 0.0

    def events(self, events: bytes, count: int) -> bool:
        self._on_bytes(count)
        if self._priced:
            self._attempt.received_bytes += len(events) - count * _FRAMED_BYTES
        return self._events(events)

    def chunk(self, chunk: bytes) -> bool:
        self._on_bytes(1)
        if self._priced:
            self._attempt.received_bytes += len(in_chunk(chunk)) - _FRAMED_BYTES
        return self._chunk(chunk)

    def _on_bytes(self, count: int) -> None:
        self._attempt.frames += count
        now_s = self._clock()
        gap_s = now_s - self.received_s
        self.received_s = now_s
        if gap_s > self._gap_s:
            self._gap_s = gap_s
        if now_s - self._reported_s >= _TELLS_S:
            self._report(now_s)

    def _report(self, now_s: float) -> None:
        model_state = self._attempt.model_state
        model_state.gaps.observe(self._gap_s)
        model_state.health.answers.heard_from(self._attempt, now_s)
        self._reported_s, self._gap_s = now_s, 0.0


class OpenedReply:
    """The frames of an attempt that has begun to answer. Each comes within the deadline; closing
    cancels the upstream."""

    def __init__(self, attempt: RunningAttempt) -> None:
        attempt.begun, attempt.may_last = True, False
        self._attempt = attempt
        self._first = attempt.first
        if self._first is None and type(attempt.stream) is OneFrame:
            self._first = attempt.stream.take()
        self._done = False
        self._since_s: float | None = None  # the last frame, while the next is waited for

    @property
    def total_tokens(self) -> int | None:
        return self._attempt.tokens()

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        attempt = self._attempt
        if self._done or attempt.stream is None:
            raise StopAsyncIteration
        try:
            return await self._next(attempt.stream)
        except StopAsyncIteration as exc:
            failed, closing = DeferredError(exc), attempt.end(None)
        except TimeoutError:
            failed, closing = attempt.failed(attempt.too_late_to_go_on())
        except GatewayError as exc:
            # guard: A4.first-frame -> await attempt._open(); failed, closing = DeferredError(exc),
            #   attempt.end(exc)
            # guard: A4.broken-stream DeferredError(exc) -> DeferredError(StopAsyncIteration())
            # guard: A4.commit-point -> attempt.stream = await attempt._open(); return await
            #   anext(attempt.stream)
            failed, closing = DeferredError(exc), attempt.end(exc)
        self._done = True
        if closing is not None:
            await closed(closing)
        raise failed.again()

    @property
    def flow(self) -> Flow | None:
        """Ends at its limit, too: then `anext` finds out what that means."""
        return None if stream_flow(self._attempt.stream) is None else self._flow

    async def aclose(self) -> None:
        self._done = True
        await self._attempt.aclose()

    async def _next(self, stream: ReplyStream) -> Frame:
        attempt = self._attempt
        since_s = attempt.clock() if self._since_s is None else self._since_s
        self._since_s = None
        with self._waits(since_s):
            frame = await anext(stream)
        attempt.model_state.gaps.observe(attempt.clock() - since_s)
        attempt.on_frame(frame)
        return frame

    async def _flow(self, sink: Sink) -> None:
        attempt, stream = self._attempt, cast(Flowing, self._attempt.stream)
        if self._done or self._first is not None:
            return
        passage = AttemptPassage(attempt, sink)
        if not stream.pass_on(passage):
            return
        passage.is_waited_for()
        try:
            with self._waits(passage.received_s):
                await stream.flow(passage)
        except TimeoutError:
            self._since_s = passage.received_s

    def _waits(self, since_s: float) -> AttemptTimeout:
        """For a frame, since the one before it."""
        attempt = self._attempt
        request, now_s, gap_s = attempt.request, attempt.clock(), attempt.model_state.gap_s
        # guard: P3.silent-stream -> if went_out_why(attempt.state, attempt.model_state) or
        #   attempt.state.drained:
        if went_out_why(attempt.state, attempt.model_state):
            idle_at_s = since_s + parting_s(gap_s)
        else:
            idle_at_s = since_s + idle_s(gap_s, attempt.services.registry.health)
        # guard: D1.frame-wait -> return attempt.waits(idle_at_s, now_s)
        # guard: A5.stream-timeout -> return attempt.waits(request.deadline.at_s, now_s)
        # guard: D1.later-frames -> return attempt.waits(now_s + 100000.0, now_s)
        return attempt.waits(min(request.deadline.at_s, idle_at_s), now_s)
