"""The owner's side of a forwarded call: its own queue, one of its servers, and the answer back.

A forwarded call cannot leave the premises from here, by the types alone: it comes in with the
on-prem zone only, and what is known of its data here is that it is restricted, whatever its own
gateway found, so that nobody can make a `Cleared` of it. Where it would spill, its own gateway is
told so. It is not forwarded again either: there is no way from here to a peer.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import replace

from gateway.accounting.metrics import Metrics
from gateway.accounting.records import Durable
from gateway.cluster import Say
from gateway.cluster.failures import packed
from gateway.cluster.membership import pack_announcement
from gateway.cluster.messages import Forwarded, Kind, pack, pack_frame, pack_words, unpack_call
from gateway.cluster.ownership import Ownership, single_owner
from gateway.cluster.peer_clouds import PeerClouds
from gateway.cluster.view import ClusterView
from gateway.core import ambient
from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import EgressForbidden, GatewayError
from gateway.core.held_bytes import AnswerShare, HeldBytes
from gateway.core.reply import Frame, Handled, ServerEvents
from gateway.core.types import (
    NOWHERE,
    ONPREM_ONLY,
    Attempt,
    Classification,
    Decision,
    Endpoint,
    InferenceRequest,
    Sensitivity,
    Zone,
)
from gateway.endpoints.versions.parts import EndpointParts
from gateway.pipeline.attempt import AttemptServices, RunningAttempt
from gateway.pipeline.replies import OpenedReply
from gateway.scheduling.calls import CloudPermission, QueuedCall
from gateway.scheduling.queue import Grant, NoServer, Spilled


class _NotOwner(Exception):
    """Somebody else decides on these servers, now or from now on."""


class Owner:
    def __init__(
        self,
        parts: EndpointParts,
        ownership: Ownership,
        view: ClusterView,
        metrics: Metrics,
        clock: Clock,
        answers: HeldBytes,
    ) -> None:
        """`answers`: the budget of this process for what endpoints answer."""
        self._catalog = parts.registry.catalog
        self._candidates = parts.registry.candidates
        self._entry = parts.entry
        self._services = AttemptServices.from_parts(parts, clock)
        self._answers = answers
        self._ownership = ownership
        self._view = view
        self._metrics = metrics
        self._clock = clock
        self._ids = itertools.count(1)
        self._waiting: set[asyncio.Timeout] = set()
        self._open = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._clouds = PeerClouds(clock)
        parts.conditions.room_elsewhere = self._clouds.room

    async def state(self, peer: str, state: bytes) -> bytes:
        return pack_announcement(self._view.announcement)

    async def answer(self, peer: str, message: bytes, say: Say) -> None:
        """Everything that comes of one forwarded call, the last word included."""
        self._open += 1
        self._quiet.clear()
        result = "cancelled"
        try:
            result = await self._answer(peer, message, say)
        finally:
            self._metrics.cluster_received.labels(peer, result).inc()
            self._open -= 1
            if not self._open:
                self._quiet.set()

    def leave(self) -> None:
        """This gateway stops: who waits here is handed back, to wait at the next owner."""
        now_s = ambient.loop_s()
        for limit in self._waiting:
            if not limit.expired():
                limit.reschedule(now_s)

    async def quiet(self) -> None:
        """Returns when no forwarded call is open."""
        await self._quiet.wait()

    async def _answer(self, peer: str, message: bytes, say: Say) -> str:
        try:
            forwarded = unpack_call(message)
            request = self._request(forwarded)
            turn = await self._turn(peer, forwarded, request)
        except Spilled as spilled:
            await say(pack_words(Kind.LEAVE, {"why": spilled.why}))
            return "leave"
        except NoServer:
            await say(pack(Kind.NO_SERVER))
            return "no_server"
        except _NotOwner:
            await say(pack(Kind.NOT_OWNER, pack_announcement(self._view.announcement)))
            return "not_owner"
        except GatewayError as exc:
            await say(pack_words(Kind.FAILED, packed(exc)))
            return "refused"
        # guard: A9.owner-answers -> with contextlib.nullcontext() as share:
        with contextlib.closing(AnswerShare(self._answers, forwarded.tenant)) as share:
            return await self._serve(replace(request, held=share), turn, say)

    async def _turn(self, peer: str, forwarded: Forwarded, request: InferenceRequest) -> Grant:
        domain, servers = single_owner(self._ownership, self._candidates.server_group(request))
        if domain is None or not self._view.acts_for(domain):
            raise _NotOwner
        call = self._call(peer, forwarded, request)
        try:
            async with asyncio.timeout(None) as limit:
                self._waiting.add(limit)
                try:
                    return await self._entry.enter(request, call, servers)
                finally:
                    self._waiting.discard(limit)
        except TimeoutError:
            raise _NotOwner from None

    def _request(self, forwarded: Forwarded) -> InferenceRequest:
        now_s = self._clock()
        return InferenceRequest(
            id=forwarded.id,
            protocol=forwarded.protocol,
            tenant=forwarded.tenant,
            model=forwarded.model,
            payload=forwarded.payload,
            deadline=Deadline(now_s + forwarded.left_s, self._clock),
            priority=forwarded.priority,
            zones=ONPREM_ONLY,
            traceparent=forwarded.traceparent,
            received_s=now_s - forwarded.waited_s,
        )

    def _call(self, peer: str, forwarded: Forwarded, request: InferenceRequest) -> QueuedCall:
        """As the queue sees it; what the cloud would cost is as its own gateway says."""
        call = self._entry.call(request, forwarded.restricted, (), forwarded.avoid)
        call = replace(call, id=f"{peer}/{next(self._ids)}")  # callers may choose the same ids
        if forwarded.cloud is None:
            return call
        return replace(
            call,
            leave=CloudPermission.FREELY,
            price=forwarded.cloud.price_usd,
            cloud=self._clouds.record(peer, request.model, call.work, forwarded.cloud),
        )

    async def _serve(self, request: InferenceRequest, turn: Grant, say: Say) -> str:
        endpoint = self._catalog.endpoints[turn.server]
        attempt = RunningAttempt(
            self._services, request, unknown(request), staying(endpoint), endpoint,
            _Unlogged(self._metrics, request.model),
            turn,
        )  # fmt: skip
        try:
            granted = {"server": turn.server, "queued_s": turn.queued_s}
            await say(pack_words(Kind.GRANTED, granted))
            opened = OpenedReply(await attempt.start())
        except GatewayError as exc:
            await say(pack_words(Kind.FAILED, packed(exc)))
            return "failed"
        except BaseException:
            await attempt.aclose()  # it may not even have begun
            raise
        return await self._pass_on(request, opened, say)

    async def _pass_on(self, request: InferenceRequest, opened: OpenedReply, say: Say) -> str:
        async def say_frame(frame: Frame) -> None:
            for each in frame.apart() if isinstance(frame, ServerEvents) else (frame,):
                await say(pack_frame(each))

        try:
            await opened.deliver(Handled(say_frame))
        except GatewayError as exc:
            await say(pack_words(Kind.FAILED, packed(exc)))
            return "failed"
        finally:
            await opened.aclose()
        await say(pack_words(Kind.END, {"tokens": opened.total_tokens}))
        return "served"


def unknown(request: InferenceRequest) -> Classification:
    """Nothing is known here of the data but that it may not leave from here."""
    return Classification(request.id, Sensitivity.RESTRICTED, "forwarded")


def staying(endpoint: Endpoint) -> Decision:
    # guard: M7.forwarded-zone frozenset({endpoint.zone}) if endpoint.zone.onprem else NOWHERE ->
    #   frozenset({endpoint.zone})
    zones = frozenset({endpoint.zone}) if endpoint.zone.onprem else NOWHERE
    return Decision((endpoint,), "forwarded", zones)


class _Unlogged:
    """The call's own gateway keeps its record."""

    before_dispatch = True
    decision: Decision | None = None

    def __init__(self, metrics: Metrics, model: str) -> None:
        self._metrics, self._model = metrics, model

    def starts(
        self, endpoint: Endpoint, zones: frozenset[Zone], queued_s: float, sent_as: str
    ) -> Durable | None:
        if not endpoint.zone.onprem:
            raise EgressForbidden(sent_as)  # what is forwarded stays
        return None

    async def on_record(self, durable: Durable) -> None:
        raise AssertionError("nothing was told")

    def attempted(self, attempt: Attempt) -> None:
        if attempt.result == "served":
            seconds = self._metrics.attempt_seconds.labels(attempt.endpoint, self._model)
            seconds.observe(attempt.took_s)
