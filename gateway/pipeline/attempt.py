"""One attempt: one endpoint that is sent the call, up to the last frame of its answer.

Everything that an attempt holds (its turn, money put aside, the count of calls in flight, the
upstream) is given back in `end`, which acts once, on every exit (A2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Protocol

from gateway.accounting.pricing import tariff, usd
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
from gateway.core.reply import Frame, OneFrame, ReplyStream, ServerEvents
from gateway.core.trace_context import Span
from gateway.core.types import (
    Attempt,
    Classification,
    Cost,
    Decision,
    Endpoint,
    InferenceRequest,
    TensorCall,
    Usage,
    Zone,
)
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.connectors import Cleared, OnPremBackend
from gateway.endpoints.health.patience import give_up_s
from gateway.endpoints.outcomes import Outcomes
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import AttemptTimeout, refused_why, went_out_why
from gateway.endpoints.versions.parts import EndpointParts
from gateway.pipeline import upstream

_NOT_SENT = Cost()


class AttemptLog(Protocol):
    """Keeps what was tried; the account of the call."""

    before_dispatch: bool  # nothing is sent to the cloud before it is on record
    decision: Decision | None  # the last one: the queue may have decided otherwise

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


class GrantPort(Protocol):
    """A turn at an on-prem server. Given back exactly once."""

    @property
    def server(self) -> str: ...
    @property
    def queued_s(self) -> float: ...
    @property
    def door(self) -> OnPremBackend | None:
        """The connector of the gateway that owns the server; None: the server's own."""
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
    frames = 0
    received_bytes = 0  # where they are paid for
    heard_s = 0.0  # when the last frame arrived
    gpu_mark: float  # of `GpuTime`, where the server has one
    sent_s: float | None = None
    sent_as = ""  # the id under which it is sent to the cloud
    record: Durable | None = None  # done once it is on record
    epoch: int | None = None  # None: it was not sent
    high_s: float  # of its model's times, of a sample of so many, when it was sent
    sample: int
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
        return self.classification.stays

    async def start(self) -> RunningAttempt:
        """Itself, once its answer has begun."""
        request, outcomes = self.request, self.services.outcomes
        try:
            self._still_available()
            if not self.endpoint.zone.onprem:
                await self._record_and_reserve()
            else:
                queued_s = 0.0 if self.turn is None else self.turn.queued_s
                self.record = self.log.starts(self.endpoint, self.decision.zones, queued_s, "")
            self.epoch = outcomes.started(self.endpoint, request.model, request.tenant)
            if self.state.gpu_time is not None:
                self.gpu_mark = self.state.gpu_time.enters()
            now_s = self.sent_s = self.clock()
            times = self.model_state.times
            self.high_s, self.sample = times.high_s, times.sample
            least_s = self.services.registry.health.response_floor_ms / 1000
            # guard: D1.answer-wait -> with self.waits(now_s + 100000.0, now_s):
            # guard: D5.shared-deadline -> with self.waits(now_s + min(request.deadline.at_s -
            #   request.received_s, least_s), now_s):
            # guard: A5.answer-timeout -> with self.waits(request.deadline.at_s, now_s):
            with self.waits(min(request.deadline.at_s, now_s + least_s), now_s):
                self.stream = stream = await self._open()
                if type(stream) is OneFrame and not request.payload.streamed:
                    self.frames = 1
                    if self.served.egress_usd_per_gb and (frame := stream.peek()) is not None:
                        self.received_bytes = upstream.frame_bytes(frame)
                elif request.payload.streamed and isinstance(request.payload, TensorCall):
                    self.first = await anext(stream, None)  # a decoupled model may give none
                else:
                    self.first = await anext(stream)
                if self.first is not None:
                    self.on_frame(self.first)
            return self
        except StopAsyncIteration:
            failed = DeferredError(
                UpstreamFailed("the endpoint ended its answer before it began", transient=True)
            )
        except TimeoutError:
            failed = DeferredError(self._too_late())
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            failed = DeferredError(exc)
        if (closing := self.end_by(failed.error)) is not None:
            await upstream.closed(closing)
        raise failed.again()  # guard: A10.late-attempt failed.again() -> failed.error

    async def _record_and_reserve(self) -> None:
        """Before a call leaves. Much may have changed when its record and its budget are there."""
        request, spill = self.request, self.services.spill
        # guard: S5.attempt-reserve
        self.reserved = spill.reserve_for(request, self.served)
        if not self.reserved.leased:  # guard: S5.attempt-reserve
            await spill.lease(self.reserved, request.deadline)
        self.sent_as = ambient.new_id()
        self.record = self.log.starts(self.endpoint, self.decision.zones, 0.0, self.sent_as)
        if self.record is not None and self.log.before_dispatch:
            await self.log.on_record(self.record)  # guard: B8.send-record
        self._still_available()  # guard: B8.cloud-recheck
        if request.deadline.passed():  # guard: D1.durable-record
            raise DeadlineExceeded("the latency budget ran out before it was sent")

    def last_check(self) -> None:
        """Most are answered long before anybody has to ask how long theirs may take."""
        if self.begun:
            deadline_s, health = self.request.deadline.at_s, self.services.registry.health
            end = upstream.silent_until_s(
                self.state, self.model_state, health, deadline_s, self.heard_s
            )
            self.ends_s, self.may_last = end, True
            return
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

    def _still_available(self) -> None:
        """An endpoint may fail while a call waits in its queue or at another one; then the call
        tries its next place at once instead of an endpoint that is known to be out (A6)."""
        # guard: A6.ejected-reroute
        if not self.model_state.usual and (why := self._refused_why()):
            raise UpstreamGivenUp("the endpoint was taken out of service", reason=why)
        endpoint = self.endpoint
        cloud = not endpoint.zone.onprem
        # guard: S2.cloud-recheck -> if cloud and not endpoint.name:
        if cloud and not self.services.clouds.takes_another(endpoint.name, self.request.model):
            raise CloudFull(  # others were decided on in the same moment, or came while it waited
                "the cloud has as many calls as it takes", (endpoint.name,), retry_after_s=1.0
            )

    def _refused_why(self) -> str:
        why = refused_why(self.state, self.model_state, self.request.tenant)
        if why or self.model_state.health.state != "slow":
            return why
        better_elsewhere = self.decision.attempts[-1] is not self.endpoint
        return "slow" if better_elsewhere and not self.classification.stays else ""

    def _open(self) -> Awaitable[ReplyStream]:
        state, request = self.state, self.request
        if self.span is not None:  # what the server does is within this attempt
            onwards = request.trace.onwards(self.span, request.traceparent)
            request = replace(request, traceparent=onwards)
        if not (zone := self.endpoint.zone).onprem:
            if state.cloud is None or not self.sent_as:
                raise EgressForbidden(self.request.id)
            # guard: B8.cloud-id without self.sent_as
            cleared = Cleared(zone, request, self.classification, self.decision, self.sent_as)
            return state.cloud.infer(cleared, self.served)
        # guard: M7.queued-zone zone not in self.decision.zones -> False
        if state.onprem is None or zone not in self.decision.zones:
            raise EgressForbidden(self.request.id)
        door = self.turn.door if self.turn is not None else None
        return (door or state.onprem).infer(request, self.served)

    def on_frame(self, frame: Frame) -> None:
        self.frames += frame.number if type(frame) is ServerEvents else 1
        if self.served.egress_usd_per_gb:
            self.received_bytes += upstream.frame_bytes(frame)

    def whole(self) -> OneFrame:
        """All of an answer that does not stream."""
        if type(self.stream) is OneFrame:
            return self.stream
        assert self.first is not None
        return OneFrame(self.first, upstream.total_tokens(self.stream))

    async def aclose(self) -> None:
        """Close the upstream of a call whose caller has left. Harmless once it has ended."""
        if (closing := self.end(None, "cancelled")) is not None:
            await upstream.closed(closing)

    def end_by(self, error: BaseException) -> asyncio.Future[None] | None:
        """`end` a try that gave no whole answer."""
        if isinstance(error, GatewayError):
            return self.end(error)  # guard: A2.late-turn -> return None
        if isinstance(error, asyncio.CancelledError):  # the caller left
            # guard: A2.departed-turn -> return None
            # guard: A2.left-turn -> return None
            return self.end(None, "cancelled")
        result = "egress_forbidden" if isinstance(error, EgressForbidden) else "internal"
        return self.end(None, result)  # guard: A2.failed-turn -> return None

    def end(self, error: GatewayError | None, result: str = "") -> asyncio.Future[None] | None:
        """Give the turn back, close the upstream, report the outcome, write the account; acts once.
        Returns the close, if that takes time."""
        if self.finished:
            return None
        self.finished = True
        self.leave_wheel()
        sent_s, stream, closing = self.sent_s, self.stream, None
        took_s = 0.0 if sent_s is None else self.clock() - sent_s
        self.answered = answered = error is None and not result
        if stream is not None and type(stream) is not OneFrame:
            if not (answered and upstream.closed_whole(stream)):
                closing = upstream.begun_closing(stream)
            if closing is not None:  # nobody takes this place before the close has gone out (S2)
                # guard: S2.close-order -> self._leave()
                # guard: S2.leave-at-once -> self._leave()
                asyncio.get_running_loop().call_soon(self._leave)
        how = result or (error.reason if error is not None else "served")
        attempt = self._attempt(error, how, took_s)
        if self.reserved is not None:
            self.reserved.settle(attempt.cost.nano_usd)  # guard: A2.spend-release
        if self.epoch is not None:
            if answered:
                self.services.outcomes.succeeded(self.endpoint, self.request, self.epoch, took_s)
            else:
                self._report_failure(error, self.epoch)
        self.log.attempted(attempt)  # guard: A3.cancelled-record
        if self.span is not None:
            endpoint = self.endpoint
            self.request.trace.end(
                self.span, {"endpoint": endpoint.name, "zone": endpoint.zone.name, "result": how}
            )
        if closing is None:
            self._leave()
        return closing

    def _attempt(self, error: GatewayError | None, how: str, took_s: float) -> Attempt:
        """For the record, once, at its end."""
        endpoint, turn, cost = self.endpoint, self.turn, _NOT_SENT
        counted = getattr(self.stream, "usage", None)  # by the endpoint
        if type(counted) is not Usage:
            counted = None
        # guard: A7.loser-cost -> if self.epoch is not None and self.answered:
        # guard: B3.attempt-cost -> if self.epoch is not None and self.answered:
        if self.epoch is not None:
            usage = counted or upstream.estimated_usage(self.stream, self.served)
            unserved = isinstance(error, UpstreamError) and error.unserved and not self.frames
            if (gpu := self.state.gpu_time) is not None:
                cost = self._onprem_cost(gpu.leaves_ns(self.gpu_mark), usage)
            # guard: B3.unserved-free -> cost = tariff.in_the_cloud(self.request, self.served,
            #   usage, self.frames, self.received_bytes)
            elif counted is not None or not unserved:
                cost = tariff.in_the_cloud(
                    self.request, self.served, usage, self.frames, self.received_bytes
                )
        return Attempt(
            endpoint.name, endpoint.zone, self.decision.zones, how,
            0.0 if turn is None else turn.queued_s,
            took_s, usd(cost.nano_usd), cost, counted, self.sent_as,
        )  # fmt: skip

    def _onprem_cost(self, share_ns: int, usage: Usage | None) -> Cost:
        """With what the cheapest cloud would have charged for an answer that could have left."""
        cost = tariff.on_the_premises(self.served, share_ns, usage)
        if self.classification.stays or not self.answered:
            return cost
        cloud = self.services.registry.candidates.epoch(self.request.model).cheapest_cloud
        if cloud is None:
            return cost
        return tariff.compared(cost, tariff.instead(self.request, cloud, usage, self.frames))

    def _leave(self) -> None:
        if self.turn is not None:
            self.turn.release(self.answered)  # guard: A2.turn-release
        if self.epoch is not None:
            # guard: A2.inflight-release
            self.services.outcomes.ended(self.endpoint, self.request.model)

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
