"""One attempt: one endpoint that is sent the call, up to the last frame of its answer.

Everything that an attempt holds (its turn, money put aside, the count of calls in flight, the
upstream) is given back in `finish`, which happens once, on every way out (A2).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, cast

from gateway import ambient, patience
from gateway.accounting.records import Durable
from gateway.backends import Cleared, OnPremBackend
from gateway.deadline import Clock
from gateway.errors import (
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
from gateway.fleet import Fleet
from gateway.patience import Patience
from gateway.place import Lane, Waiting, unavailable_why
from gateway.pricing import tariff, usd
from gateway.spill import Reservation
from gateway.tracing import Attribute, Value
from gateway.types import (
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
    ServedModel,
    ServerEvent,
    Take,
    TensorCall,
    Usage,
    Zone,
    flow_of,
)

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


class Granted(Protocol):
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


class RunningAttempt:
    """One try at one endpoint: its turn in the queue, the upstream call, the first frame."""

    answered = False  # whether its time tells how fast the server is
    reserved: Reservation | None = None
    stream: ReplyStream | None = None
    sent_s: float | None = None
    sent_as = ""  # what the cloud knows it by
    told: Durable | None = None  # done once it is on record
    epoch: int | None = None  # None: no call has gone there
    give_up_s = 0.0
    gpu_mark = 0.0
    frames = came_bytes = 0

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        request: InferenceRequest,
        found: Classification,
        decision: Decision,
        endpoint: Endpoint,
        log: AttemptLog,
        turn: Granted | None = None,
    ) -> None:
        self.fleet, self.clock, self.log = fleet, clock, log
        self.request, self.found, self.decision = request, found, decision
        self.endpoint, self.turn = endpoint, turn
        self.served = endpoint.models[request.model]
        self.place = fleet.places[endpoint.name]
        self.lane = fleet.lane(endpoint.name, request.model)
        self.span = request.trace.begin("attempt") if request.trace.sampled else None

    @property
    def finished(self) -> bool:
        return self.log is _NOWHERE

    def beside(self, endpoint: Endpoint, found: Classification) -> RunningAttempt:
        """Another try at the same call."""
        return RunningAttempt(
            self.fleet, self.clock, self.request, found, self.decision, endpoint, self.log
        )

    async def start(self) -> OpenedReply:
        fleet, endpoint, request = self.fleet, self.endpoint, self.request
        try:
            self._still_available()
            if endpoint.zone is CLOUD:  # much may have changed when what it takes is there
                self.reserved = await fleet.reserve(request, self.served)
                self.sent_as = ambient.new_id()
            self.told = told = self.log.starts(
                endpoint,
                self.decision.zones,
                0.0 if self.turn is None else self.turn.queued_s,
                self.sent_as,
            )
            if endpoint.zone is CLOUD:
                if told is not None and self.log.before_dispatch:
                    await self.log.on_record(told)
                self._still_available()
            self.epoch = fleet.started(endpoint, request.model)
            if self.place.gpu_time is not None:
                self.gpu_mark = self.place.gpu_time.enters()
            self.give_up_s = fleet.give_up_s(endpoint, request)
            self.sent_s = self.clock()
            limit = patience.within(min(request.deadline.remaining_s(), self.give_up_s))
            with limit, Waiting(self.place, request.model, self.found.restricted, limit):
                self.stream = stream = await self._open()
                if type(stream) is OneFrame:
                    first: Frame | None = stream.take()
                elif request.streamed and isinstance(request.payload, TensorCall):
                    first = await anext(stream, None)  # a decoupled model may give none
                else:
                    first = await anext(stream)
            self.came(first)
        except StopAsyncIteration:
            error = UpstreamFailed("the endpoint ended its answer before it began")
            await self.finish(error)
            raise error from None
        except TimeoutError:
            late = self._too_late()
            await self.finish(late)
            raise late from None
        except GatewayError as exc:
            await self.finish(exc)
            raise
        except asyncio.CancelledError:  # the caller left
            await self.finish(None, "cancelled")
            raise
        except EgressForbidden:
            await self.finish(None, "egress_forbidden")
            raise
        except BaseException:  # a connector's bug
            await self.finish(None, "internal")
            raise
        return OpenedReply(self, first)

    def _too_late(self) -> GatewayError:
        if self.request.deadline.passed():
            return DeadlineExceeded("the latency budget ran out before the answer began")
        if why := self.fleet.went_out(self.endpoint, self.request.model):
            return UpstreamGivenUp("the endpoint went out before it answered", reason=why)
        if self.clock() - (self.sent_s or 0.0) >= self.give_up_s:
            return UpstreamSilent("the endpoint gave no answer in many times its usual time")
        return UpstreamGivenUp("the endpoint became slow before it answered", reason="slow")

    def too_late_to_go_on(self) -> GatewayError:
        if self.request.deadline.passed():
            return DeadlineExceeded("the latency budget ran out while the answer was streaming")
        if why := self.fleet.went_out(self.endpoint, self.request.model):
            return UpstreamGivenUp("the endpoint went out while it was answering", reason=why)
        return UpstreamSilent("the endpoint has stopped in the middle of its answer")

    def _still_available(self) -> None:
        """An endpoint may fail while a call waits in its queue or at another one; then the call
        tries its next place at once instead of an endpoint that is known to be out (A6)."""
        endpoint, lane = self.endpoint, self.lane
        why = unavailable_why(self.place, lane)
        if not why and lane.health.slow_since_s is not None:
            why = self._better_elsewhere()
        if why:
            raise UpstreamGivenUp("the endpoint was taken out of service", reason=why)
        away = endpoint.zone is CLOUD
        if away and not self.fleet.takes_another(endpoint.name, self.request.model):
            raise CloudFull(  # others were decided on in the same moment, or came while it waited
                "the cloud has as many calls as it takes", (endpoint.name,), retry_after_s=1.0
            )

    def _better_elsewhere(self) -> str:
        if self.found.restricted or self.decision.attempts[-1] is self.endpoint:
            return ""
        return "slow" if self.lane.health.state == "slow" else ""

    def _open(self) -> Awaitable[ReplyStream]:
        place, request = self.place, self.request
        if self.span is not None:  # what the server does is within this attempt
            onwards = request.trace.onwards(self.span, request.traceparent)
            request = replace(request, traceparent=onwards)
        if self.endpoint.zone is CLOUD:
            if place.cloud is None or not self.sent_as:
                raise EgressForbidden(self.request.id)
            cleared = Cleared(request, self.found, self.decision, self.sent_as)
            return place.cloud.infer(cleared, self.served)
        if place.onprem is None:
            raise EgressForbidden(self.request.id)
        door = self.turn.door if self.turn is not None else None
        return (door or place.onprem).infer(request, self.served)

    async def finish(self, error: GatewayError | None, result: str = "") -> None:
        """`end`, and wait for the close."""
        closing = self.end(error, result)
        if closing is not None:
            await closed(closing)

    def end(self, error: GatewayError | None, result: str = "") -> asyncio.Future[None] | None:
        """Give the turn back, close the upstream, tell fleet and account; acts once. Returns the
        close, if that takes time."""
        log, self.log = self.log, _NOWHERE
        if log is _NOWHERE:
            return None
        took_s = self.clock() - self.sent_s if self.sent_s is not None else 0.0
        closing = None
        if self.stream is not None and type(self.stream) is not OneFrame:
            closing = _closing(self.stream)
        self.answered = error is None and not result
        if closing is not None:  # nobody takes this place before the close has gone out (S2)
            asyncio.get_running_loop().call_soon(self._leave)
        how = result or (error.reason if error is not None else "served")
        attempt = self.as_attempt(how, took_s, last=True)
        if self.reserved is not None:
            self.reserved.settle(attempt.cost.nano_usd)
        if self.epoch is not None:
            if self.answered:
                self.fleet.succeeded(self.endpoint, self.request, self.epoch, took_s)
            else:
                self._tell_of_failure(error, self.epoch)
        log.attempted(attempt)
        if self.span is not None:
            self.request.trace.end(self.span, _told(self.endpoint, how))
        if closing is None:
            self._leave()
        return closing

    def _leave(self) -> None:
        if self.turn is not None:
            self.turn.release(self.answered)
        if self.epoch is not None:
            self.fleet.ended(self.endpoint, self.request.model)

    def as_attempt(self, result: str, took_s: float, last: bool = False) -> Attempt:
        """So far; with `last` of the whole attempt, asked once."""
        told = getattr(self.stream, "usage", None)  # as the endpoint counted it
        if not isinstance(told, Usage):
            told = None
        cost = _NOT_SENT if self.epoch is None else self._cost(told or self._of_a_total(), last)
        return Attempt(
            endpoint=self.endpoint.name,
            zone=self.endpoint.zone,
            zones=self.decision.zones,
            result=result,
            queued_s=self.turn.queued_s if self.turn is not None else 0.0,
            took_s=took_s,
            price_usd=usd(cost.nano_usd),
            cost=cost,
            usage=told,
            sent_as=self.sent_as,
        )

    def came(self, frame: Frame | None) -> None:
        if frame is not None:
            self.frames += 1
            if self.served.egress_usd_per_gb:
                self.came_bytes += _length(frame)

    def _cost(self, usage: Usage | None, last: bool) -> Cost:
        gpu = self.place.gpu_time
        if gpu is None:
            return tariff.in_the_cloud(
                self.request, self.served, usage, self.frames, self.came_bytes
            )
        share_ns = gpu.leaves_ns(self.gpu_mark) if last else gpu.so_far_ns(self.gpu_mark)
        cost = tariff.on_the_premises(self.served, share_ns, usage)
        if self.found.restricted or not self.answered:
            return cost
        abroad = self.fleet.cheapest_abroad(self.request.model)
        if abroad is None:
            return cost
        return tariff.compared(cost, tariff.instead(self.request, abroad, usage, self.frames))

    def _of_a_total(self) -> Usage | None:
        """Of a total nobody knows what was given and what written: it is taken for whichever is
        dearer."""
        total = self.tokens()
        if total is None:
            return None
        prices = tariff.tariff(self.served)
        return Usage(total, 0) if prices.given >= prices.written else Usage(0, total)

    def _tell_of_failure(self, error: GatewayError | None, epoch: int) -> None:
        fleet, endpoint, model = self.fleet, self.endpoint, self.request.model
        sent_s = self.sent_s or 0.0
        if isinstance(error, UpstreamRefused):
            fleet.abandoned(endpoint, model, epoch)
        elif isinstance(error, UpstreamError) or (
            isinstance(error, DeadlineExceeded) and fleet.fairly_late(endpoint, model, sent_s)
        ):
            fleet.failed(endpoint, model, epoch, error, sent_s)
        else:
            fleet.abandoned(endpoint, model, epoch)

    def tokens(self) -> int | None:
        found = getattr(self.stream, "total_tokens", None)
        return found if isinstance(found, int) else None


def _closing(stream: ReplyStream) -> asyncio.Future[None] | None:
    """The close, which has begun."""
    return asyncio.ensure_future(stream.aclose())


async def closed(closing: asyncio.Future[None]) -> None:
    """It goes on by itself when it takes longer, or when the caller leaves."""
    done, _ = await asyncio.wait((closing,), timeout=_CLOSES_IN_S)
    for ended in done:
        ended.result()


def _length(frame: Frame) -> int:
    if isinstance(frame, GrpcMessage):
        return len(frame.message)
    return len(frame.data) if isinstance(frame, ServerEvent) else len(frame.body)


def _told(endpoint: Endpoint, result: str) -> dict[Attribute, Value]:
    return {"endpoint": endpoint.name, "zone": endpoint.zone.value, "result": result}


class _Nowhere:
    before_dispatch = True

    def starts(
        self, endpoint: Endpoint, zones: frozenset[Zone], queued_s: float, sent_as: str
    ) -> Durable | None:
        raise AssertionError("an attempt was finished twice")

    async def on_record(self, durable: Durable) -> None:
        raise AssertionError("an attempt was finished twice")

    def attempted(self, attempt: Attempt) -> None:
        raise AssertionError("an attempt was finished twice")

    def decided(self, decision: Decision) -> None:
        raise AssertionError("an attempt was finished twice")


_NOWHERE = _Nowhere()


class OpenedReply:
    """A committed reply. Every frame comes within the deadline; closing cancels the upstream."""

    def __init__(self, attempt: RunningAttempt, first: Frame | None) -> None:
        self._attempt = attempt
        self.endpoint = attempt.endpoint
        self._first: Frame | None = first
        self._done = False
        self._since_s: float | None = None  # the last frame, while the next is waited for
        self._take: Take
        self._lane: Lane
        self._ticket = 0
        self._told_s = self._gap_s = 0.0  # its lane; the longest gap since then

    @property
    def served(self) -> ServedModel:
        return self._attempt.served

    @property
    def total_tokens(self) -> int | None:
        return self._attempt.tokens()

    @property
    def told(self) -> Durable | None:
        """Done once the attempt is on record."""
        return self._attempt.told

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
        except StopAsyncIteration:
            await self._finish(None)
            raise
        except TimeoutError:
            late = attempt.too_late_to_go_on()
            await self._finish(late)
            raise late from None
        except GatewayError as exc:
            await self._finish(exc)
            raise

    @property
    def flow(self) -> Flow | None:
        """Ends at its limit, too: then `anext` finds out what that means."""
        return None if flow_of(self._attempt.stream) is None else self._flow

    def served_whole(self) -> tuple[Frame, Awaitable[None] | None]:
        """The first frame, which was the whole answer; and what there is to wait for: the close, if
        that takes time."""
        first, self._first, self._done = self._first, None, True
        assert first is not None
        closing = self._attempt.end(None)
        return first, None if closing is None else closed(closing)

    async def aclose(self) -> None:
        await self._finish(None, "cancelled")

    async def _next(self, stream: ReplyStream) -> Frame:
        attempt = self._attempt
        since_s = attempt.clock() if self._since_s is None else self._since_s
        self._since_s = None
        limit = self._limit(since_s)
        with limit, self._waiting(limit):
            frame = await anext(stream)
        attempt.lane.gaps.observe(attempt.clock() - since_s)
        attempt.came(frame)
        return frame

    async def _flow(self, take: Take) -> None:
        attempt, stream = self._attempt, cast(Flowing, self._attempt.stream)
        self._take, self._lane = take, attempt.lane
        if self._done or self._first is not None or not stream.pass_on(self._passes):
            return
        self._since_s = self._told_s = attempt.clock()
        self._gap_s = 0.0
        limit = self._limit(self._since_s)
        with suppress(TimeoutError), limit, self._waiting(limit) as self._ticket:
            await stream.flow(self._came)
            self._since_s = None

    def _came(self, events: bytes, count: int) -> bool:
        """What its lane is told is not told for each of many frames that follow closely."""
        now_s, since_s = self._attempt.clock(), self._since_s
        if since_s is not None and now_s - since_s > self._gap_s:
            self._gap_s = now_s - since_s
        self._since_s = now_s
        if now_s - self._told_s >= _TELLS_S:
            self._lane.gaps.observe(self._gap_s)
            self._lane.health.heard_from(self._ticket, now_s)
            self._told_s, self._gap_s = now_s, 0.0
        return self._passes(events, count)

    def _passes(self, events: bytes, count: int) -> bool:
        attempt = self._attempt
        attempt.frames += count
        if attempt.served.egress_usd_per_gb:
            attempt.came_bytes += len(events) - count * _FRAMED_BYTES
        return self._take(events, count)

    def _waiting(self, limit: Patience) -> Waiting:
        attempt = self._attempt
        return Waiting(
            attempt.place, attempt.request.model, attempt.found.restricted, limit, begun=True
        )

    def _limit(self, since_s: float) -> Patience:
        """Of the wait for a frame, since the one before it."""
        attempt = self._attempt
        request, waited_s = attempt.request, attempt.clock() - since_s
        patience_s = attempt.fleet.next_frame_s(attempt.endpoint, request.model) - waited_s
        return patience.within(min(request.deadline.remaining_s(), patience_s))

    async def _finish(self, error: GatewayError | None, result: str = "") -> None:
        self._done = True
        await self._attempt.finish(error, result)
