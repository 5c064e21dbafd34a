"""The sender's side of a forwarded call: a turn at a server that another gateway decides on.

Whoever asks for a turn gets one of its own queue, or one at the owner, and the answer comes by the
same words: granted, to leave, no server, refused. Until the first frame a call that was with a
gateway which died is forwarded again, to the next owner, within its deadline and with its arrival.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from gateway.accounting.metrics import Metrics
from gateway.cluster import Answers, PeerLink
from gateway.cluster.failures import code, raised
from gateway.cluster.membership import Membership
from gateway.cluster.messages import (
    Forwarded,
    Kind,
    Messages,
    pack_call,
    unpack_frame,
    unpack_words,
)
from gateway.cluster.ownership import Ownership, single_owner
from gateway.cluster.peer_clouds import cloud_estimate
from gateway.core import ambient
from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    OwnerLost,
    UpstreamError,
    UpstreamFailed,
)
from gateway.core.reply import Frame, Receiver, ReplyStream, deliver_each
from gateway.core.types import InferenceRequest, ServedModel
from gateway.pipeline.hedging import has_state
from gateway.scheduling.calls import CloudPermission, QueuedCall
from gateway.scheduling.queue import Grant, NoServer, Spilled

_AGAIN_S = 0.05  # at the latest, when an owner did not take a call
_SAFE, _LIKELY = 1.2, 0.95
"""A call that could leave, and whose owner is in doubt, leaves while the cloud can still make it:
the same margin and share as of the decision."""
_LOOKS_S = 0.05
_LAST_WORD_S = 0.02
"""Longer than the call's budget: the owner says itself that it ran out, and the connection is kept.
To close it would end the call as well, and cost both sides a handshake."""
_MOST_REFUSALS = 40  # of an owner that lives, and says that it owns the servers


class LocalQueuesPort(Protocol):
    """This gateway's own."""

    async def enter(
        self, request: InferenceRequest, call: QueuedCall, group: tuple[str, ...]
    ) -> Grant: ...


class _Lost(Exception):
    """The peer went away, or speaks nonsense."""


class _NotOwnerAnymore(Exception):
    """The gateway that was asked did not take the call: look again who does."""


class ForwardedTurn:
    """A turn at a server by way of its owner, which has sent it the call already."""

    def __init__(self, server: str, queued_s: float, reply: ForwardedReply) -> None:
        self.server = server
        self.queued_s = queued_s
        self._reply = reply

    @property
    def door(self) -> ForwardedTurn:
        return self

    async def infer(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        return self._reply

    def release(self, answered: bool) -> None:
        """The owner counts it; here there is an answer to be closed that nobody took."""
        self._reply.close()


class ForwardedReply:
    """The frames of the server, as the owner hands them on. An answer of one frame is read to its
    end with it: whoever takes it asks for no second one."""

    def __init__(
        self, answers: Answers, messages: Messages, heard: _Heard, *, streamed: bool
    ) -> None:
        self._answers = answers
        self._messages = messages
        self._heard = heard
        self._streamed = streamed
        self._ended = False
        self.total_tokens: int | None = None

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        try:
            frame = await self._next()
            if frame is not None and not self._streamed and await self._next() is not None:
                raise UpstreamFailed("the owner of the server answered a call twice")
        except _Lost:
            self.close()
            self._heard.lost()
            raise OwnerLost("the gateway that owns the server went away") from None
        if frame is None:
            raise StopAsyncIteration
        return frame

    async def _next(self) -> Frame | None:
        """None at the end."""
        if self._ended:
            return None
        try:
            kind, body = await _receive(self._messages)
            self._heard()
            self._ended = kind in (Kind.END, Kind.FAILED)
            if self._ended:
                await self._messages.next()  # to its end, so that the connection is kept
        except UpstreamError:
            raise _Lost from None
        if kind is Kind.FAILED:
            raise raised(unpack_words(body))
        if kind is not Kind.END:
            return unpack_frame(kind, body)
        tokens = unpack_words(body).get("tokens")
        self.total_tokens = tokens if isinstance(tokens, int) else None
        return None

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        self._answers.close()
        self._messages.close()


class _Heard:
    """Tells that a peer gave a sign of life, or that it went away."""

    def __init__(self, members: Membership, peer: str) -> None:
        self._members, self._peer = members, peer

    def __call__(self) -> None:
        self._members.heard(self._peer)

    def lost(self) -> None:
        self._members.doubt(self._peer)


class _Whereabouts:
    """Which gateway has the call; empty: none."""

    gateway = ""


class Forwarding:
    def __init__(
        self,
        own: LocalQueuesPort,
        own_cloud_room: Callable[[str], int],
        ownership: Ownership,
        members: Membership,
        links: Mapping[str, PeerLink],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._own = own
        self._own_cloud_room = own_cloud_room
        self._ownership = ownership
        self._members = members
        self._links = links
        self._metrics = metrics
        self._clock = clock

    async def enter(
        self, request: InferenceRequest, call: QueuedCall, group: tuple[str, ...]
    ) -> Grant | ForwardedTurn:
        """A turn at one of these servers, wherever their queue is. Raises what a queue does."""
        domain, servers = single_owner(self._ownership, group)
        if domain is None:
            return await self._own.enter(request, call, servers)
        where = _Whereabouts()
        if call.leave is not CloudPermission.FREELY or call.cloud is None:
            return await self._enter(request, call, servers, domain, where)
        last_s = request.deadline.at_s - _SAFE * call.cloud.quantile_s(_LIKELY)
        try:
            async with asyncio.timeout(None) as limit:
                with _Watched(self._members, where, limit, last_s, self._clock):
                    return await self._enter(request, call, servers, domain, where)
        except TimeoutError:
            raise Spilled("spill_unavailable") from None

    async def _enter(
        self,
        request: InferenceRequest,
        call: QueuedCall,
        servers: tuple[str, ...],
        domain: str,
        where: _Whereabouts,
    ) -> Grant | ForwardedTurn:
        refusals = 0
        while True:
            where.gateway = ""
            where.gateway = owner = await self._members.owner(domain, request.deadline)
            if owner == self._members.view.own:
                return await self._own.enter(request, call, servers)
            try:
                return await self._at(owner, request, call, servers)
            except _NotOwnerAnymore:
                if self._members.view.owner(domain) == owner:
                    refusals += 1
                    if refusals > _MOST_REFUSALS:
                        raise UpstreamFailed("the owner of the servers takes no call") from None
                    await self._members.changed(min(_AGAIN_S, request.deadline.remaining_s()))

    async def _at(
        self, owner: str, request: InferenceRequest, call: QueuedCall, servers: tuple[str, ...]
    ) -> ForwardedTurn:
        result, since_s = "cancelled", self._clock()
        try:
            turn = await self._request(owner, request, call, servers)
            hop_s = self._clock() - since_s - turn.queued_s
            self._metrics.cluster_hop_seconds.labels(owner).observe(max(0.0, hop_s))
            result = "granted"
            return turn
        except _NotOwnerAnymore as exc:
            result = str(exc)
            raise
        except Spilled:
            result = "leave"
            raise
        except NoServer:
            result = "no_server"
            raise
        except GatewayError:
            result = "refused"
            raise
        finally:
            self._metrics.cluster_forwards.labels(owner, result).inc()

    async def _request(
        self, owner: str, request: InferenceRequest, call: QueuedCall, servers: tuple[str, ...]
    ) -> ForwardedTurn:
        link, heard = self._links[owner], _Heard(self._members, owner)
        message = pack_call(self._forwarded(request, call))
        try:
            deadline = Deadline(request.deadline.at_s + _LAST_WORD_S, self._clock)
            answers = await link.forward(message, deadline, repeatable=not has_state(request))
            messages = Messages(answers, request.held)
            try:
                kind, body = await _receive(messages)
            except BaseException:
                answers.close()
                raise
        except DeadlineExceeded:
            raise DeadlineExceeded(
                "the latency budget ran out in the queue", reason="deadline_exceeded_in_queue"
            ) from None
        except UpstreamError:
            self._members.doubt(owner)
            raise _NotOwnerAnymore("lost") from None
        heard()
        if kind is Kind.GRANTED:
            reply = ForwardedReply(answers, messages, heard, streamed=request.streamed)
            return _granted(body, servers, reply)
        try:
            with contextlib.suppress(UpstreamError, DeadlineExceeded):  # the last word was said
                await messages.next()  # to its end, so that the connection is kept
        finally:
            answers.close()
        if kind is Kind.NOT_OWNER:
            self._members.on_announcement(owner, body)
            raise _NotOwnerAnymore("not_owner")
        raise _verdict(kind, body, call)

    def _forwarded(self, request: InferenceRequest, call: QueuedCall) -> Forwarded:
        estimate = cloud_estimate(call, self._own_cloud_room, request.model)
        now_s = self._clock()
        return Forwarded(
            id=request.record_id,
            protocol=request.protocol,
            tenant=request.tenant,
            model=request.model,
            payload=request.payload,
            left_s=request.deadline.remaining_s(),
            waited_s=max(0.0, now_s - request.received_s),
            priority=request.priority,
            restricted=call.restricted,
            cloud=estimate,
            avoid=call.avoid,
            traceparent=request.traceparent,
        )


def _granted(body: bytes, servers: tuple[str, ...], reply: ForwardedReply) -> ForwardedTurn:
    """Only a server of the call's own group can have been granted, so that no word of a peer can
    name a place outside the premises."""
    words = unpack_words(body)
    server, queued_s = words.get("server"), words.get("queued_s")
    if server not in servers or not isinstance(queued_s, int | float):
        reply.close()
        raise UpstreamFailed("the owner named a server that is not one of this call's")
    return ForwardedTurn(server, queued_s, reply)


def _verdict(kind: Kind, body: bytes, call: QueuedCall) -> Exception:
    """What the owner's queue said instead of a turn."""
    if kind is Kind.NO_SERVER:
        return NoServer()
    if kind is Kind.FAILED:
        return raised(unpack_words(body))
    if kind is Kind.LEAVE and call.leave is CloudPermission.FREELY:
        return Spilled(code(unpack_words(body).get("why"), "spill_deadline"))
    return UpstreamFailed("the owner of the server answered what no queue says")


async def _receive(messages: Messages) -> tuple[Kind, bytes]:
    message = await messages.next()
    if message is None:
        raise UpstreamFailed("the owner of the server said nothing")
    return message


class _Watched:
    """A call that could leave does so, from `last_s` on, as soon as its owner is in doubt: it may
    be stopped, and the cloud can still make it."""

    def __init__(
        self,
        members: Membership,
        where: _Whereabouts,
        limit: asyncio.Timeout,
        last_s: float,
        clock: Clock,
    ) -> None:
        self._members, self._where, self._limit = members, where, limit
        self._last_s, self._clock = last_s, clock
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._set(max(0.0, self._last_s - self._clock()))

    def __exit__(self, *ended: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, after_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(after_s, self._check)

    def _check(self) -> None:
        gateway = self._where.gateway
        if gateway == self._members.view.own:
            return  # it waits in our own queue, which sees to it
        if gateway and self._members.sure(gateway):
            self._set(_LOOKS_S)
        else:
            self._limit.reschedule(ambient.loop_s())
