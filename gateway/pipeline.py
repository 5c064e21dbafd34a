"""The life of one call, in the order in which it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from gateway import ambient
from gateway.accounting.account import Accounts, CallAccount
from gateway.admission import Admission
from gateway.attempt import OpenedReply
from gateway.dispatch import Dispatcher, NotCleared
from gateway.errors import (
    CloudFull,
    DeadlineExceeded,
    Draining,
    EgressForbidden,
    Forbidden,
    GatewayError,
    NoEligibleEndpoint,
    OnpremUnavailable,
)
from gateway.limits import Limits
from gateway.routing.policy import Policy
from gateway.tracing import UNTRACED
from gateway.types import (
    Classification,
    Decision,
    EndpointState,
    Frame,
    InferenceReply,
    InferenceRequest,
    OneFrame,
    Outcome,
    Placement,
    Sensitivity,
    Zone,
)

_READ = frozenset({"clear", "entities", "labelled", "tainted", "pseudonymised"})
"""Reasons of a verdict that is known: from a whole scan, a label, or the call before it."""


class Classifier(Protocol):
    """Neither raises but for cancellation: what cannot be read is restricted."""

    async def classify(self, request: InferenceRequest) -> Classification:
        """What is looked for in every call."""
        ...

    async def complete(self, request: InferenceRequest, found: Classification) -> Classification:
        """And what is looked for only in a call that would leave. Never clears what is
        restricted."""
        ...


class Instead(Protocol):
    """A call that may leave in the place of a restricted one, and the way back (`pseudonyms`)."""

    @property
    def request(self) -> InferenceRequest: ...
    @property
    def found(self) -> Classification: ...
    async def to_leave(self) -> None: ...
    def restored(self, reply: InferenceReply) -> InferenceReply: ...
    def forget(self) -> None: ...


class Pseudonyms(Protocol):
    async def instead(self, request: InferenceRequest, found: Classification) -> Instead | None:
        """Never raises but for cancellation; None for a call that has to stay as it is."""
        ...


class States(Protocol):
    def snapshot(self, request: InferenceRequest, restricted: bool) -> Sequence[EndpointState]: ...
    def foresee(
        self, request: InferenceRequest, restricted: bool, decision: Decision
    ) -> Decision: ...
    async def back_in_time(self, request: InferenceRequest) -> bool:
        """Whether a server that was out is back, waited for if it is likely to be in time."""
        ...

    async def room_in_time(self, request: InferenceRequest, endpoints: Sequence[str]) -> bool:
        """Whether one of these, which were full, has room, or things have changed otherwise;
        waited for if it is likely to be in time."""
        ...


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would be done with a call, and on what grounds (O3)."""

    found: Classification
    states: Sequence[EndpointState]
    decision: Decision | None
    refusal: GatewayError | None


@dataclass(frozen=True, slots=True)
class Sent:
    """A call that is being answered: the verdict on what was sent, and what that was if it was not
    the call itself."""

    opened: OpenedReply
    found: Classification
    instead: Instead | None = None


class Pipeline:
    def __init__(
        self,
        admission: Admission,
        classifier: Classifier,
        states: States,
        policy: Policy,
        dispatcher: Dispatcher,
        accounts: Accounts,
        block_unknown: bool = False,
        pseudonyms: Pseudonyms | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._limits = Limits(ambient.monotonic_s) if limits is None else limits
        self._admission = admission
        self._classifier = classifier
        self._states = states
        self._policy = policy
        self._dispatcher = dispatcher
        self._accounts = accounts
        self._block_unknown = block_unknown
        self._pseudonyms = pseudonyms
        self._open: dict[SettlingStream, None] = {}  # in the order in which they came
        self._waiting: dict[asyncio.Task[object], None] = {}
        self._cutting = False

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        account = self._accounts.open(request)
        request.trace.since("front", request.received_s)
        try:
            with request.trace.stage("admission"):
                account.holds(self._admission.enter(request))
                account.check()
            share = self._limits.enter(request)
            account.holds(lambda: share.settle(account.total_tokens, bool(account.attempts)))
            with self._cuttable():
                clearance = AtTheDoor(self._classifier, request, account)
                await clearance.first_look()
                sent = await self._send(request, clearance, account)
        except BaseException as exc:
            if isinstance(exc, GatewayError):
                account.vetoes = exc.vetoes
            account.settle(*ending(exc))
            raise
        reply = await self._release(request, sent, account)
        if request.quotas:
            reply = replace(reply, placement=replace(reply.placement, limits=share.told()))
        return reply if sent.instead is None else sent.instead.restored(reply)

    async def _send(
        self, request: InferenceRequest, clearance: AtTheDoor, account: CallAccount
    ) -> Sent:
        while True:
            known = clearance.found.restricted
            tried = bool(account.attempts)  # as one that stays: nothing of it may leave any more
            if not tried and (other := await self._instead(request, clearance.found)) is not None:
                return await self._send_instead(*other, account)
            try:
                account.decision = self._decide(request, clearance.found)
                opened = await self._dispatcher.send(request, clearance, account.decision, account)
                return Sent(opened, clearance.found)
            except NotCleared:  # restricted from here on: no decision may name the cloud again
                if known:
                    raise EgressForbidden(request.id) from None
                account.decision = None  # it was one for a call that could leave
            except (OnpremUnavailable, NoEligibleEndpoint) as refused:
                if not await self._back_in_time(request, refused):
                    raise
            except CloudFull as full:
                if full.sent or not await self._states.room_in_time(request, full.endpoints):
                    raise

    async def _send_instead(
        self, instead: Instead, decision: Decision, account: CallAccount
    ) -> Sent:
        account.classified(instead.found)
        account.decision = decision
        try:
            opened = await self._dispatcher.send(instead.request, instead, decision, account)
        except BaseException:
            instead.forget()
            raise
        return Sent(opened, instead.found, instead)

    async def _instead(
        self, request: InferenceRequest, found: Classification
    ) -> tuple[Instead, Decision] | None:
        """Another call for one that would leave were it clear. What stays anyway is served as it
        is: surrogates are for the cloud alone."""
        if self._pseudonyms is None or not (request.pseudonymise and found.restricted):
            return None
        if not self._would_leave(request):
            return None
        instead = await self._pseudonyms.instead(request, found)
        if instead is None:
            return None
        try:
            decision = self._foresee(instead.request, instead.found)
        except GatewayError:
            decision = None
        if decision is None or decision.attempts[0].zone is not Zone.CLOUD:
            instead.forget()
            return None
        return instead, decision

    def _would_leave(self, request: InferenceRequest) -> bool:
        """Asked with a verdict that is on no call, so that it can clear none."""
        if_clear = Classification("", Sensitivity.CLEAR, "clear")
        try:
            decision = self._foresee(request, if_clear)
        except GatewayError:
            return False
        return decision.attempts[0].zone is Zone.CLOUD

    async def _back_in_time(
        self, request: InferenceRequest, refused: OnpremUnavailable | NoEligibleEndpoint
    ) -> bool:
        """A call that nothing has been sent of may wait for a server that restarts."""
        if isinstance(refused, OnpremUnavailable) and refused.sent:
            return False
        return await self._states.back_in_time(request)

    async def explain(self, request: InferenceRequest) -> Explanation:
        """The verdict and the decision that `handle` would come to now; nothing is sent."""
        request = replace(request, explained=True, trace=UNTRACED)
        found = await self._classifier.classify(request)
        while True:
            states = self._states.snapshot(request, found.restricted)
            if (other := await self._instead(request, found)) is not None:
                instead, decision = other
                instead.forget()
                return Explanation(instead.found, states, decision, None)
            try:
                decision = self._foresee(request, found)
            except GatewayError as refusal:
                return Explanation(found, states, None, refusal)
            known = found.complete or found.restricted
            if known or decision.attempts[0].zone is not Zone.CLOUD:
                return Explanation(found, states, decision, None)
            found = await self._classifier.complete(request, found)

    def cut(self) -> None:
        """End every call that is still open, with a reason (O7)."""
        self._cutting = True
        for task in tuple(self._waiting):
            task.cancel()
        for stream in tuple(self._open):
            stream.cut(_stopping())

    def _ended(self, stream: SettlingStream) -> None:
        self._open.pop(stream, None)

    @contextmanager
    def _cuttable(self) -> Iterator[None]:
        """A call in here ends by Draining when `cut` cancels it, not as if its caller had left."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting[task] = None
        try:
            yield
        except asyncio.CancelledError:
            if self._cutting and task.uncancel() == 0:
                raise _stopping() from None
            raise
        finally:
            self._waiting.pop(task, None)

    def _foresee(self, request: InferenceRequest, found: Classification) -> Decision:
        """The decision, and what its queue would do with it at once."""
        decision = self._decide(request, found)
        return self._states.foresee(request, found.restricted, decision)

    def _decide(self, request: InferenceRequest, found: Classification) -> Decision:
        if self._block_unknown and found.reason not in _READ:
            raise Forbidden(
                "this call could not be read for personal data and is refused",
                reason="unknown_blocked",
            )
        with request.trace.stage("decide"):
            states = self._states.snapshot(request, found.restricted)
            return self._policy.decide(request, found, states)

    async def _release(
        self, request: InferenceRequest, sent: Sent, account: CallAccount
    ) -> InferenceReply:
        """Let the answer go, its record written first."""
        opened, found, decision = sent.opened, sent.found, account.decision
        assert decision is not None
        try:
            placement = Placement(
                zone=opened.endpoint.zone,
                endpoint=opened.endpoint.name,
                reason=decision.reason if not account.attempts else "failover",
                attempts=len(account.attempts) + 1,
                sensitivity=found.sensitivity,
                classify_s=found.classify_s,
                pseudonymised=sum(found.pseudonymised.values()),
            )
            if request.streamed:
                with self._cuttable():
                    await account.record_before_release(opened.so_far())
                stream = SettlingStream(opened, account, self._ended)
                self._open[stream] = None
                return InferenceReply(placement, stream)
            only = await anext(opened)
            await opened.served_whole()
            account.total_tokens = opened.total_tokens
            with self._cuttable():
                await account.settle_before_release(placement.reason)
            return InferenceReply(placement, OneFrame(only))
        except BaseException as exc:
            if sent.instead is not None:
                sent.instead.forget()
            try:
                await opened.aclose()
            finally:  # cancelled once more while it closes
                account.settle(*ending(exc))
            raise


class AtTheDoor:
    """The verdict on one call, as far as it is known. What is costly to look for is looked for
    when the call is about to leave, and not at all in one that stays (DESIGN.md, "Clearance at the
    door"). A verdict can only become more restricted.
    """

    def __init__(
        self, classifier: Classifier, request: InferenceRequest, account: CallAccount
    ) -> None:
        self._classifier = classifier
        self._request = request
        self._account = account
        self._found: Classification | None = None

    @property
    def found(self) -> Classification:
        assert self._found is not None
        return self._found

    async def first_look(self) -> None:
        self._tell(await self._in_time(self._classifier.classify(self._request)))

    async def to_leave(self) -> None:
        if not self.found.restricted and not self.found.complete:
            look = self._classifier.complete(self._request, self.found)
            self._tell(await self._in_time(look))
        if self.found.restricted:
            raise NotCleared

    async def _in_time(self, look: Awaitable[Classification]) -> Classification:
        """A classifier keeps to the call's deadline; where not, the call still ends (D1)."""
        try:
            async with asyncio.timeout(max(0.0, self._request.deadline.remaining_s())):
                with self._request.trace.stage("classify"):
                    return await look
        except TimeoutError:
            raise DeadlineExceeded("the latency budget ran out while the call was read") from None

    def _tell(self, found: Classification) -> None:
        self._found = found
        self._account.classified(found)


def _stopping() -> Draining:
    return Draining("this gateway is stopping; call again", retry_after_s=1.0)


def ending(exc: BaseException) -> tuple[Outcome, str]:
    """How a call ended that raised this."""
    if isinstance(exc, GatewayError):
        return exc.outcome, exc.reason
    if isinstance(exc, asyncio.CancelledError):
        return Outcome.CANCELLED, "caller_left"
    return Outcome.FAILED, "internal"


class SettlingStream:
    """
    Pass frames on and settle the account exactly once, however the stream ends.

    A class and not an async generator: closing a generator that was never started runs none of its
    code, so a caller who leaves before the first frame would never be accounted for.
    """

    def __init__(
        self,
        opened: OpenedReply,
        account: CallAccount,
        on_end: Callable[[SettlingStream], None],
    ) -> None:
        self._opened = opened
        self._account = account
        self._on_end = on_end
        self._cut: asyncio.Future[GatewayError] = asyncio.get_running_loop().create_future()

    def cut(self, why: GatewayError) -> None:
        if not self._cut.done():
            self._cut.set_result(why)

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        try:
            return await self._next_or_cut()
        except StopAsyncIteration:
            self._settle(Outcome.SERVED, "served")
            raise
        except BaseException as exc:
            try:
                await self._opened.aclose()
            finally:  # cancelled once more while it closes
                self._settle(*ending(exc))
            raise

    async def _next_or_cut(self) -> Frame:
        frame = asyncio.ensure_future(anext(self._opened))
        try:
            await asyncio.wait((frame, self._cut), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not frame.done():
                frame.cancel()
                await asyncio.wait((frame,))
        if self._cut.done():
            raise self._cut.result()
        return frame.result()

    async def aclose(self) -> None:
        try:
            await self._opened.aclose()
        finally:  # a caller may be cut off while the upstream closes
            self._settle(Outcome.CANCELLED, "caller_left")

    def _settle(self, outcome: Outcome, reason: str) -> None:
        self._account.total_tokens = self._opened.total_tokens
        self._account.settle(outcome, reason)
        self._on_end(self)
