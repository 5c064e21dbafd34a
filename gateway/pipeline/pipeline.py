"""The life of one call, in the order in which it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from gateway.accounting.records import is_durable
from gateway.core import ambient, timeouts
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import (
    CloudFull,
    DeadlineExceeded,
    Draining,
    EgressForbidden,
    Forbidden,
    GatewayError,
    NoEligibleEndpoint,
    OnpremUnavailable,
)
from gateway.core.trace_context import UNTRACED
from gateway.core.types import (
    CLOUD,
    PUBLIC_MODEL,
    Classification,
    Decision,
    Endpoint,
    EndpointSnapshot,
    Flow,
    Frame,
    InferenceReply,
    InferenceRequest,
    OneFrame,
    Outcome,
    Placement,
    Sensitivity,
    Sink,
)
from gateway.pipeline.admission import Admission
from gateway.pipeline.attempt import OpenedReply, RunningAttempt, closed
from gateway.pipeline.call_account import Accounts, CallAccount
from gateway.pipeline.dispatcher import Dispatcher, NotCleared
from gateway.pipeline.rate_limits import QuotaReservation, RateLimits
from gateway.scheduling.routing.policy import Policy

if TYPE_CHECKING:
    from gateway.pipeline.shadow.shadows import Shadows

_READ = frozenset({"clear", PUBLIC_MODEL, "entities", "labelled", "tainted", "pseudonymised"})
"""Reasons of a verdict that is known: from a whole scan, a label, the call before it, or the
operator's word."""


_NO_LIMITS: Final[Mapping[str, str]] = {}
_DECIDED_ANEW: Final = (NotCleared, OnpremUnavailable, NoEligibleEndpoint, CloudFull)
"""What a call may meet of which nothing was sent yet."""


def stopping() -> Draining:
    return Draining("this gateway is stopping; call again", retry_after_s=1.0)


class ClassifierPort(Protocol):
    """None raises but for cancellation: what cannot be read is restricted."""

    def classify_now(self, request: InferenceRequest) -> Classification | None:
        """What is looked for in every call, where nothing has to be waited for. None: `classify`
        goes on from there."""
        ...

    async def classify(self, request: InferenceRequest) -> Classification:
        """What is looked for in every call."""
        ...

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        """And what is looked for only in a call that would leave. Never clears what is
        restricted."""
        ...


class PseudonymisedCallPort(Protocol):
    """A call that may leave in the place of a restricted one, and the way back (`pseudonyms`)."""

    @property
    def request(self) -> InferenceRequest: ...
    @property
    def classification(self) -> Classification: ...
    async def to_leave(self) -> None: ...
    def restored(self, reply: InferenceReply) -> InferenceReply:
        """Of an answer that streams."""
        ...

    async def restored_whole(self, frames: OneFrame) -> tuple[OneFrame, int]:
        """An answer, and in how many places something of a surrogate is left in it."""
        ...

    def forget(self) -> None: ...


class Pseudonyms(Protocol):
    async def instead(
        self, request: InferenceRequest, classification: Classification
    ) -> PseudonymisedCallPort | None:
        """Never raises but for cancellation; None for a call that has to stay as it is."""
        ...


class SnapshotsPort(Protocol):
    def decide(
        self, request: InferenceRequest, classification: Classification, policy: Policy
    ) -> Decision:
        """What the policy makes of a snapshot of now."""
        ...

    def snapshot(
        self, request: InferenceRequest, restricted: bool
    ) -> Sequence[EndpointSnapshot]: ...


class EntryPort(Protocol):
    def foresee(self, request: InferenceRequest, restricted: bool, decision: Decision) -> Decision:
        """What the queue would make of a decision at once. Raises what would refuse the call."""
        ...


class RecoveryPort(Protocol):
    def worth_waiting(self, request: InferenceRequest) -> bool:
        """Whether `back_in_time` would wait."""
        ...

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

    classification: Classification
    states: Sequence[EndpointSnapshot]
    decision: Decision | None
    refusal: GatewayError | None
    shadows: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    waits: bool = False  # before it is refused: a server is expected to be back in time


class Pipeline:
    def __init__(
        self,
        admission: Admission,
        classifier: ClassifierPort,
        snapshots: SnapshotsPort,
        entry: EntryPort,
        recovery: RecoveryPort,
        policy: Policy,
        dispatcher: Dispatcher,
        accounts: Accounts,
        block_unknown: bool = False,
        pseudonyms: Pseudonyms | None = None,
        limits: RateLimits | None = None,
        shadows: Shadows | None = None,
    ) -> None:
        self._shadows = shadows
        self._limits = RateLimits(ambient.clock()) if limits is None else limits
        self._admission = admission
        self._classifier = classifier
        self._snapshots = snapshots
        self._entry = entry
        self._recovery = recovery
        self._policy = policy
        self._dispatcher = dispatcher
        self._accounts = accounts
        self._block_unknown = block_unknown
        self._pseudonyms = pseudonyms
        self._open: dict[SettlingStream, None] = {}  # in the order in which they came
        self._waiting: dict[asyncio.Task[object], None] = {}
        self._cutting: Callable[[], GatewayError] | None = None

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        task, trace = asyncio.current_task(), request.trace
        assert task is not None
        account = self._accounts.open(request)
        clearance = AtTheDoor(self._classifier, request, account)
        opened: RunningAttempt | None = None
        unrestored = 0
        try:
            if trace.sampled:
                trace.since("front", request.received_s)
                with trace.stage("admission"):
                    share = self._admit(request, account)
            else:
                share = self._admit(request, account)
            self._waiting[task] = None
            if trace.sampled:
                with trace.stage("classify"):
                    if (scan := clearance.first_scan()) is not None:
                        await scan
            elif (scan := clearance.first_scan()) is not None:
                await scan
            while True:
                classification = clearance.classification
                try:
                    if self._pseudonyms is not None and classification.restricted:
                        opened = await self._send_instead(request, clearance, account)
                    if opened is None:
                        decide = self._traced_decision if trace.sampled else self._decide
                        decision = account.decision = decide(request, classification, account)
                        opened = await self._dispatcher.send(request, clearance, decision, account)
                    break
                except _DECIDED_ANEW as exc:
                    refused = DeferredError(exc)
                if not await self._again(
                    request, clearance, classification, account, refused.error
                ):
                    raise refused.again()
            placed = account.decision  # its queue may have decided otherwise
            assert placed is not None
            attempts = len(account.attempts) + 1  # guard: S7.failed-attempts -> attempts = 1
            # guard: S7.failover-flag -> reason = placed.reason
            reason = placed.reason if not account.attempts else "failover"
            frames: SettlingStream | OneFrame
            streamed = request.payload.streamed
            if not streamed and (closing := opened.end(None)) is not None:
                await closed(closing)
            if (record := opened.record) is not None and not is_durable(record):
                await account.on_record(record)  # guard: B4.durable-answer
            if streamed:
                account.begun(opened.endpoint.name)
                frames = SettlingStream(OpenedReply(opened), account, reason, self._ended)
                self._open[frames] = None
            else:
                frames = opened.whole()
                if clearance.instead is not None:
                    frames, unrestored = await _restored(request, clearance.instead, frames)
                account.total_tokens = frames.total_tokens
                account.settle(Outcome.SERVED, reason)
            reply = _reply(clearance, opened.endpoint, reason, attempts, share, frames, unrestored)
            self._waiting.pop(task, None)
            return reply
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            self._waiting.pop(task, None)
            if clearance.instead is not None:
                clearance.instead.forget()
            failed = DeferredError(self._ended_by(exc, task))
        if isinstance(failed.error, GatewayError):
            account.vetoes = failed.error.vetoes  # guard: P3.record-drained
        if opened is None:
            account.settle(*ending(failed.error))
            # guard: A10.failed-call failed.again() -> failed.error
            raise failed.again()
        try:
            await opened.aclose()
        finally:  # cancelled once more while it closes
            account.settle(*ending(failed.error))
        raise failed.again()

    def _admit(self, request: InferenceRequest, account: CallAccount) -> QuotaReservation | None:
        account.holds(self._admission.enter(request))
        account.check()  # guard: B4.closed-audit
        if not request.quotas:
            return None
        # guard: B6.limit-check -> share = self._limits.enter(replace(request, quotas=()))
        share = self._limits.enter(request)
        # guard: B6.limit-release
        account.holds(lambda: share.settle(account.total_tokens, bool(account.attempts)))
        return share

    def _ended_by(self, exc: BaseException, task: asyncio.Task[object]) -> BaseException:
        """What `cut` says when that has cancelled it, and not as if its caller had left."""
        why = self._cutting
        if why is not None and isinstance(exc, asyncio.CancelledError) and not task.uncancel():
            return why()  # guard: O7.waiting-cut
        return exc

    async def _send_instead(
        self, request: InferenceRequest, clearance: AtTheDoor, account: CallAccount
    ) -> RunningAttempt | None:
        """Another call that may leave, in its place, where there is one."""
        tried = bool(account.attempts)  # as one that stays: nothing of it may leave any more
        other = None if tried else await self._instead(request, clearance.classification)
        if other is None:
            return None
        instead, decision = other
        clearance.instead = instead
        account.classified(instead.classification)
        account.decision = decision
        if self._shadows is not None:
            states = self._snapshots.snapshot(instead.request, instead.classification.restricted)
            self._shadows.see(instead.request, instead.classification, states, account)
        return await self._dispatcher.send(instead.request, instead, decision, account)

    async def _again(
        self,
        request: InferenceRequest,
        clearance: AtTheDoor,
        classification: Classification,
        account: CallAccount,
        refused: BaseException,
    ) -> bool:
        """Whether a call that was to be sent, and was not, is decided on anew. `classification`:
        what was known of it when it was decided on."""
        if clearance.instead is not None:
            return False
        if isinstance(refused, NotCleared):  # from here on no decision may name the cloud again
            if classification.restricted:
                raise EgressForbidden(request.id) from None
            account.decision = None  # it was one for a call that could leave
            return True
        if isinstance(refused, CloudFull):
            return not refused.sent and await self._recovery.room_in_time(
                request, refused.endpoints
            )
        if isinstance(refused, OnpremUnavailable) and refused.sent:
            return False  # one that nothing was sent of may wait for a server that restarts
        return await self._recovery.back_in_time(request)

    async def _instead(
        self, request: InferenceRequest, classification: Classification
    ) -> tuple[PseudonymisedCallPort, Decision] | None:
        """Another call for one that would leave were it clear. What stays anyway is served as it
        is: surrogates are for the cloud alone."""
        if self._pseudonyms is None or not (request.pseudonymise and classification.restricted):
            return None
        if not self._would_leave(request):
            return None
        instead = await self._pseudonyms.instead(request, classification)
        if instead is None:
            return None
        try:
            decision = self._foresee(instead.request, instead.classification)
        except GatewayError:
            decision = None
        if decision is None or decision.attempts[0].zone is not CLOUD:
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
        return decision.attempts[0].zone is CLOUD

    async def explain(self, request: InferenceRequest) -> Explanation:
        """The verdict and the decision that `handle` would come to now, and those of the shadows;
        nothing is sent."""
        # guard: O3.no-memory without explained=True
        request = replace(request, explained=True, trace=UNTRACED)
        live = await self._explain(request)
        if self._shadows is None:
            return live
        return replace(
            live, shadows=self._shadows.foresee(request, live.classification, live.states)
        )

    async def _explain(self, request: InferenceRequest) -> Explanation:
        classification = await self._classifier.classify(request)
        try:  # before it would even be read; what is in it is told all the same
            self._admission.check(request)  # guard: O3.admission
            self._accounts.log.check()  # guard: O3.audit
            self._limits.check(request)  # guard: O3.limits
        except GatewayError as refusal:
            states = self._snapshots.snapshot(request, classification.restricted)
            return Explanation(classification, states, None, refusal)
        while True:
            states = self._snapshots.snapshot(request, classification.restricted)
            if (other := await self._instead(request, classification)) is not None:
                instead, decision = other
                instead.forget()
                return Explanation(instead.classification, states, decision, None)
            try:
                decision = self._foresee(request, classification)
            except (OnpremUnavailable, NoEligibleEndpoint) as refusal:
                # guard: O3.queue-wait -> waits = False
                waits = self._recovery.worth_waiting(request)
                return Explanation(classification, states, None, refusal, waits=waits)
            except GatewayError as refusal:
                return Explanation(classification, states, None, refusal)
            known = classification.complete or classification.restricted
            if known or decision.attempts[0].zone is not CLOUD:
                return Explanation(classification, states, decision, None)
            # guard: O3.reading-depth -> return Explanation(classification, states, decision, None)
            classification = await self._classifier.complete(request, classification)

    def cut(self, why: Callable[[], GatewayError] = stopping) -> None:
        """End every call that is still open, with a reason (O7)."""
        self._cutting = why
        for task in tuple(self._waiting):
            task.cancel()
        for stream in tuple(self._open):
            stream.cut(why)  # guard: O7.stream-cut

    def _ended(self, stream: SettlingStream) -> None:
        self._open.pop(stream, None)

    def _foresee(self, request: InferenceRequest, classification: Classification) -> Decision:
        """The decision, and what its queue would do with it at once."""
        with request.trace.stage("decide"):
            decision = self._decide(request, classification)
        # guard: O3.queue -> return decision
        return self._entry.foresee(request, classification.restricted, decision)

    def _traced_decision(
        self, request: InferenceRequest, classification: Classification, account: CallAccount
    ) -> Decision:
        with request.trace.stage("decide"):
            return self._decide(request, classification, account)

    def _decide(
        self,
        request: InferenceRequest,
        classification: Classification,
        account: CallAccount | None = None,
    ) -> Decision:
        """`account`: of a call that is to be sent, which shadows may see."""
        if self._block_unknown and classification.reason not in _READ:
            raise Forbidden(
                "this call could not be read for personal data and is refused",
                reason="unknown_blocked",
            )
        if account is not None and self._shadows is None:
            return self._snapshots.decide(request, classification, self._policy)
        states = self._snapshots.snapshot(request, classification.restricted)
        if account is not None and self._shadows is not None:
            self._shadows.see(request, classification, states, account)
        return self._policy.decide(request, classification, states)


def _reply(
    clearance: AtTheDoor,
    endpoint: Endpoint,
    reason: str,
    attempts: int,
    share: QuotaReservation | None,
    frames: SettlingStream | OneFrame,
    unrestored: int,
) -> InferenceReply:
    instead = clearance.instead
    classification = clearance.classification if instead is None else instead.classification
    placement = Placement(
        endpoint.zone,
        endpoint.name,
        reason,
        attempts,
        classification.sensitivity,
        classification.classify_s,
        sum(classification.pseudonymised.values()) if classification.pseudonymised else 0,
        _NO_LIMITS if share is None else share.headers(),
        unrestored,
    )
    reply = InferenceReply(placement, frames)
    return reply if instead is None or type(frames) is OneFrame else instead.restored(reply)


async def _restored(
    request: InferenceRequest, instead: PseudonymisedCallPort, frames: OneFrame
) -> tuple[OneFrame, int]:
    try:
        with timeouts.within(request.deadline.remaining_s()):
            return await instead.restored_whole(frames)
    except TimeoutError:
        raise DeadlineExceeded("the latency budget ran out while the answer was restored") from None


class AtTheDoor:
    """The verdict on one call, as far as it is known. What is costly to look for is looked for
    when the call is about to leave, and not at all in one that stays (DESIGN.md, "Clearance at the
    door"). A verdict can only become more restricted.
    """

    classification: Classification  # from the first look on
    instead: PseudonymisedCallPort | None = None  # what goes in its place

    def __init__(
        self, classifier: ClassifierPort, request: InferenceRequest, account: CallAccount
    ) -> None:
        self._classifier = classifier
        self._request = request
        self._account = account

    def first_scan(self) -> Awaitable[None] | None:
        """What is looked for in every call. None: it is over, and nothing had to be waited for."""
        classification = self._classifier.classify_now(self._request)
        if classification is None:
            return self._full_scan()
        self.classification = classification
        self._account.classified(classification)
        return None

    async def _full_scan(self) -> None:
        self._record(await self._in_time(self._classifier.classify(self._request)))

    async def to_leave(self) -> None:
        # guard: M1.unread-call
        if not self.classification.restricted and not self.classification.complete:
            with self._request.trace.stage("classify"):
                scan = self._classifier.complete(self._request, self.classification)
                self._record(await self._in_time(scan))
        if self.classification.restricted:  # guard: M1.known
            raise NotCleared

    async def _in_time(self, scan: Awaitable[Classification]) -> Classification:
        """A classifier keeps to the call's deadline; where not, the call still ends (D1)."""
        try:
            left_s = self._request.deadline.remaining_s()
            with timeouts.within(left_s):  # guard: D1.scan-wait -> with timeouts.within(100000.0):
                return await scan
        except TimeoutError:
            raise DeadlineExceeded("the latency budget ran out while the call was read") from None

    def _record(self, classification: Classification) -> None:
        self.classification = classification
        self._account.classified(classification)


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
        reason: str,
        on_end: Callable[[SettlingStream], None],
    ) -> None:
        """`reason`: the code of its placement, which a stream that ends whole is counted under."""
        self._opened = opened
        self._account = account
        self._reason = reason
        self._on_end = on_end
        self._cut: Callable[[], GatewayError] | None = None
        self._reader: asyncio.Task[object] | None = None

    def cut(self, why: Callable[[], GatewayError]) -> None:
        """End it by this, and not as if its caller had left."""
        if self._cut is None:
            self._cut = why
            if self._reader is not None:
                self._reader.cancel()

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    @property
    def flow(self) -> Flow | None:
        """What ends or cuts it meanwhile is told by `anext`."""
        return None if self._opened.flow is None else self._flow

    async def _flow(self, sink: Sink) -> None:
        flow = self._opened.flow
        if self._cut is not None or flow is None:
            return
        self._reader = reader = asyncio.current_task()
        try:
            await flow(sink)
        except asyncio.CancelledError:
            if not self._cut_by_us(reader):
                raise
        finally:
            self._reader = None

    async def __anext__(self) -> Frame:
        try:
            return await self._next_or_cut()
        except StopAsyncIteration:
            self._settle(Outcome.SERVED, self._reason)
            raise
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            failed = DeferredError(exc)
        try:
            await self._opened.aclose()
        finally:  # cancelled once more while it closes
            self._settle(*ending(failed.error))
        raise failed.again()

    def _check_cut(self) -> None:
        if self._cut is not None:
            raise self._cut() from None

    async def _next_or_cut(self) -> Frame:
        self._check_cut()
        self._reader = reader = asyncio.current_task()
        try:
            return await anext(self._opened)
        except asyncio.CancelledError:
            if self._cut_by_us(reader):
                self._check_cut()
            raise
        finally:
            self._reader = None

    def _cut_by_us(self, reader: asyncio.Task[object] | None) -> bool:
        """Whether `cut` has cancelled the reader, and nobody else."""
        return self._cut is not None and reader is not None and not reader.uncancel()

    async def aclose(self) -> None:
        try:
            await self._opened.aclose()
        finally:  # a caller may be cut off while the upstream closes
            self._settle(Outcome.CANCELLED, "caller_left")  # guard: A2.stream-account

    def _settle(self, outcome: Outcome, reason: str) -> None:
        self._account.total_tokens = self._opened.total_tokens
        self._account.settle(outcome, reason)
        self._on_end(self)
