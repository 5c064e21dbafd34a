"""One attempt: one endpoint that is sent the call, up to the last frame of its answer.

Everything that an attempt holds (its turn, money put aside, the count of calls in flight, the
upstream) is given back in `finish`, which happens once, on every way out (A2).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Protocol, cast
from uuid import UUID

from gateway import ambient, patience
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
from gateway.place import Lane, Waiting
from gateway.pricing import tariff, usd
from gateway.spill import Reservation
from gateway.tracing import Attribute, Value
from gateway.types import (
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

    async def leaves(self, endpoint: str, sent_as: str) -> None:
        """Returns once it may be sent to this cloud endpoint: its intent is on record, where the
        settings want that. Raises RecordUnwritable, DeadlineExceeded."""
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
        self.endpoint = endpoint
        self.served = endpoint.models[request.model]
        self.turn = turn
        self.answered = False  # whether its time tells how fast the server is
        self.reserved: Reservation | None = None
        self.stream: ReplyStream | None = None
        self.sent_s: float | None = None
        self.epoch: int | None = None  # None: no call has gone there
        self.give_up_s = fleet.give_up_s(endpoint, request)
        self.gpu = fleet.gpu_time(endpoint)
        self.gpu_mark = 0.0
        self.frames = self.came_bytes = 0
        self.final: Cost | None = None
        self.sent_as: UUID | None = None  # what the cloud knows it by
        self.span = request.trace.begin("attempt")

    @property
    def lane(self) -> Lane:
        return self.fleet.lane(self.endpoint.name, self.request.model)

    @property
    def finished(self) -> bool:
        return self.log is _NOWHERE

    def beside(self, endpoint: Endpoint, found: Classification) -> RunningAttempt:
        """Another try at the same call."""
        return RunningAttempt(
            self.fleet, self.clock, self.request, found, self.decision, endpoint, self.log
        )

    async def start(self) -> OpenedReply:
        try:
            if self.endpoint.zone is Zone.CLOUD:
                await self._prepare_to_leave()
            self._still_available()
            self.epoch = self.fleet.started(self.endpoint, self.request.model)
            self.gpu_mark = self.gpu.enters() if self.gpu is not None else 0.0
            self.sent_s = self.clock()
            waiting = Waiting(self.request.model, self.found.restricted)
            limit = patience.within(self._patience_s())
            with limit, self.fleet.waiting_for(self.endpoint, waiting, limit):
                self.stream = await self._open()
                first = await self._first(self.stream)
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

    async def _prepare_to_leave(self) -> None:
        """Whatever has to be waited for; then it is looked again whether the cloud takes it."""
        self._still_available()
        self.reserved = await self.fleet.reserve(self.request, self.served)
        self.sent_as = ambient.new_uuid()
        await self.log.leaves(self.endpoint.name, str(self.sent_as))

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

    def _patience_s(self) -> float:
        return min(self.request.deadline.remaining_s(), self.give_up_s)

    async def _first(self, stream: ReplyStream) -> Frame | None:
        """None: on a stream a decoupled model may end a call without any answer."""
        if not (self.request.streamed and isinstance(self.request.payload, TensorCall)):
            return await anext(stream)
        return await anext(stream, None)

    def _still_available(self) -> None:
        """An endpoint may fail while a call waits in its queue or at another one; then the call
        tries its next place at once instead of an endpoint that is known to be out (A6)."""
        why = self.fleet.refuses(self.endpoint, self.request.model) or self._better_elsewhere()
        if why:
            raise UpstreamGivenUp("the endpoint was taken out of service", reason=why)
        away = self.endpoint.zone is Zone.CLOUD
        if away and not self.fleet.takes_another(self.endpoint.name, self.request.model):
            raise CloudFull(  # others were decided on in the same moment, or came while it waited
                "the cloud has as many calls as it takes", (self.endpoint.name,), retry_after_s=1.0
            )

    def _better_elsewhere(self) -> str:
        if self.found.restricted or self.decision.attempts[-1] is self.endpoint:
            return ""
        return "slow" if self.lane.health.state == "slow" else ""

    async def _open(self) -> ReplyStream:
        place, request = self.fleet.place(self.endpoint.name), self.request
        if self.span is not None:  # what the server does is within this attempt
            onwards = request.trace.onwards(self.span, request.traceparent)
            request = replace(request, traceparent=onwards)
        if self.endpoint.zone is Zone.CLOUD:
            if place.cloud is None or self.sent_as is None:
                raise EgressForbidden(self.request.id)
            cleared = Cleared(request, self.found, self.decision, self.sent_as)
            return await place.cloud.infer(cleared, self.served)
        if place.onprem is None:
            raise EgressForbidden(self.request.id)
        door = self.turn.door if self.turn is not None else None
        return await (door or place.onprem).infer(request, self.served)

    async def finish(self, error: GatewayError | None, result: str = "") -> None:
        """Give the turn back, close the upstream, tell fleet and account; acts once."""
        log, self.log = self.log, _NOWHERE
        if log is _NOWHERE:
            return
        took_s = self.clock() - self.sent_s if self.sent_s is not None else 0.0
        closing = _closing(self.stream)
        self.answered = error is None and not result
        if closing is not None:  # nobody takes this place before the close has gone out (S2)
            asyncio.get_running_loop().call_soon(self._leave)
        self.final = self.cost(last=True)
        if self.reserved is not None:
            self.reserved.settle(self.final.nano_usd)
        self._tell_fleet(error, result, took_s)
        log.attempted(self.as_attempt(result or (error.reason if error else "served"), took_s))
        if self.span is not None:
            how = result or (error.reason if error else "served")
            self.request.trace.end(self.span, _told(self.endpoint, how))
        if closing is None:
            self._leave()
        else:  # it goes on by itself when it takes longer, or when the caller leaves
            done, _ = await asyncio.wait((closing,), timeout=_CLOSES_IN_S)
            for closed in done:
                closed.result()

    def _leave(self) -> None:
        if self.turn is not None:
            self.turn.release(self.answered)
        if self.epoch is not None:
            self.fleet.ended(self.endpoint, self.request.model)

    def as_attempt(self, result: str, took_s: float) -> Attempt:
        cost = self.cost() if self.final is None else self.final
        return Attempt(
            endpoint=self.endpoint.name,
            zone=self.endpoint.zone,
            zones=self.decision.zones,
            result=result,
            queued_s=self.turn.queued_s if self.turn else 0.0,
            took_s=took_s,
            price_usd=usd(cost.nano_usd),
            cost=cost,
            usage=self.counted(),
            sent_as="" if self.sent_as is None else str(self.sent_as),
        )

    def came(self, frame: Frame | None) -> None:
        if frame is not None:
            self.frames += 1
            if self.served.egress_usd_per_gb:
                self.came_bytes += _length(frame)

    def cost(self, last: bool = False) -> Cost:
        """So far; with `last` of the whole attempt, asked once."""
        if self.epoch is None:
            return _NOT_SENT
        if self.gpu is None:
            return tariff.in_the_cloud(
                self.request, self.served, self.usage(), self.frames, self.came_bytes
            )
        share = self.gpu.leaves_ns if last else self.gpu.so_far_ns
        cost = tariff.on_the_premises(self.served, share(self.gpu_mark), self.usage())
        abroad = None if self.found.restricted else self.fleet.cheapest_abroad(self.request.model)
        if abroad is None or not self.answered:
            return cost
        there = tariff.instead(self.request, abroad, self.usage(), self.frames)
        return tariff.compared(cost, there)

    def usage(self) -> Usage | None:
        """As the endpoint counted. Of a total nobody knows what was given and what written: it is
        taken for whichever is dearer."""
        found = self.counted()
        if found is not None:
            return found
        total = self.tokens()
        if total is None:
            return None
        prices = tariff.tariff(self.served)
        return Usage(total, 0) if prices.given >= prices.written else Usage(0, total)

    def counted(self) -> Usage | None:
        found = getattr(self.stream, "usage", None)
        return found if isinstance(found, Usage) else None

    def _tell_fleet(self, error: GatewayError | None, result: str, took_s: float) -> None:
        if self.epoch is None:
            return
        fleet, endpoint, model = self.fleet, self.endpoint, self.request.model
        if error is None and not result:
            fleet.succeeded(endpoint, self.request, self.epoch, took_s)
        elif isinstance(error, UpstreamRefused):
            fleet.abandoned(endpoint, model, self.epoch)
        elif isinstance(error, UpstreamError) or (
            isinstance(error, DeadlineExceeded)
            and fleet.fairly_late(endpoint, model, self.sent_s or 0.0)
        ):
            fleet.failed(endpoint, model, self.epoch, error, self.sent_s or 0.0)
        else:
            fleet.abandoned(endpoint, model, self.epoch)

    def tokens(self) -> int | None:
        found = getattr(self.stream, "total_tokens", None)
        return found if isinstance(found, int) else None


def _closing(stream: ReplyStream | None) -> asyncio.Future[None] | None:
    """The close, which has begun. Of a whole answer there is nothing to close."""
    if stream is None or isinstance(stream, OneFrame):
        return None
    return asyncio.ensure_future(stream.aclose())


def _length(frame: Frame) -> int:
    if isinstance(frame, GrpcMessage):
        return len(frame.message)
    return len(frame.data) if isinstance(frame, ServerEvent) else len(frame.body)


def _told(endpoint: Endpoint, result: str) -> dict[Attribute, Value]:
    return {"endpoint": endpoint.name, "zone": endpoint.zone.value, "result": result}


class _Nowhere:
    async def leaves(self, endpoint: str, sent_as: str) -> None:
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
        self._first: Frame | None = first
        self._done = False
        self._since_s: float | None = None  # the last frame, while the next is waited for
        self._take: Take
        self._lane: Lane
        self._ticket = 0
        self._told_s = self._gap_s = 0.0  # its lane; the longest gap since then

    @property
    def endpoint(self) -> Endpoint:
        return self._attempt.endpoint

    @property
    def served(self) -> ServedModel:
        return self._attempt.served

    @property
    def total_tokens(self) -> int | None:
        return self._attempt.tokens()

    def so_far(self) -> Attempt:
        attempt = self._attempt
        return attempt.as_attempt("streaming", attempt.clock() - (attempt.sent_s or 0.0))

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

    async def served_whole(self) -> None:
        """The first frame was the whole answer."""
        await self._finish(None)

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

    def _waiting(self, limit: Patience) -> AbstractContextManager[int]:
        attempt = self._attempt
        waiting = Waiting(attempt.request.model, attempt.found.restricted, begun=True)
        return attempt.fleet.waiting_for(attempt.endpoint, waiting, limit)

    def _limit(self, since_s: float) -> Patience:
        """Of the wait for a frame, since the one before it."""
        attempt = self._attempt
        request, waited_s = attempt.request, attempt.clock() - since_s
        patience_s = attempt.fleet.next_frame_s(attempt.endpoint, request.model) - waited_s
        return patience.within(min(request.deadline.remaining_s(), patience_s))

    async def _finish(self, error: GatewayError | None, result: str = "") -> None:
        self._done = True
        await self._attempt.finish(error, result)
