"""The life of one call, in the order in which it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from gateway.core import ambient, timeouts
from gateway.core.errors import (
    CloudFull,
    DeadlineExceeded,
    Draining,
    EgressForbidden,
    GatewayError,
    NoEligibleEndpoint,
    OnpremUnavailable,
)
from gateway.core.reply import InferenceReply, MediaChunk, MediaReply, OneFrame, Placement
from gateway.core.types import Decision, InferenceRequest, Outcome
from gateway.pipeline.accounts import Accounts
from gateway.pipeline.admission import Admission
from gateway.pipeline.attempt import RunningAttempt
from gateway.pipeline.call import Call, ClassifierPort, PseudonymisedCallPort
from gateway.pipeline.call_account import CallAccount
from gateway.pipeline.decisions import (
    DecisionMaker,
    EntryPort,
    Explainer,
    Pseudonyms,
    RecoveryPort,
    SnapshotsPort,
)
from gateway.pipeline.dispatcher import Dispatcher
from gateway.pipeline.rate_limits import RateLimits
from gateway.pipeline.replies import OpenCalls, SettlingStream
from gateway.pipeline.route import NotCleared
from gateway.pipeline.upstream import closed
from gateway.scheduling.routing.policy import Policy

if TYPE_CHECKING:
    from gateway.pipeline.shadow.shadows import Shadows

_NO_LIMITS: Final[Mapping[str, str]] = {}


def stopping() -> Draining:
    return Draining("this gateway is stopping; call again", retry_after_s=1.0)


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
        self._limits = RateLimits(ambient.clock()) if limits is None else limits
        self._admission = admission
        self._classifier = classifier
        self._recovery = recovery
        self._dispatcher = dispatcher
        self._accounts = accounts
        self._decisions = DecisionMaker(
            snapshots, entry, policy, pseudonyms, shadows, block_unknown
        )
        self.explain = Explainer(
            admission, self._limits, accounts, classifier, self._decisions, recovery
        ).explain
        self._open: OpenCalls = {}  # in the order in which they came

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        """The answer, from its first frame on. Raises the GatewayError that refuses the call."""
        account = CallAccount(self._accounts, request)
        async with Call(request, account, self._classifier, self._open) as call:
            self._admit(call)
            await call.classify()
            decision = await self._decide(call)
            attempt = await self._send(call, decision)
            return await self._settle(call, attempt)

    def cut(self, why: Callable[[], GatewayError] = stopping) -> None:
        """End every call that is still open, with a reason (O7)."""
        for each in tuple(self._open):
            each.cut(why)

    def _admit(self, call: Call) -> None:
        request, account = call.request, call.account
        if request.trace.sampled:
            request.trace.since("front", request.received_s)
            call.enters("admission")
        account.releases.append(self._admission.enter(request))
        self._accounts.log.check()  # guard: B4.closed-audit
        if request.quotas:  # guard: B6.limit-check
            call.share = share = self._limits.enter(request)
            # guard: B6.limit-release
            account.releases.append(
                lambda: share.settle(account.total_tokens, bool(account.attempts))
            )

    async def _decide(self, call: Call) -> Decision:
        """On a call that none can take now, once a server is back that is expected in time."""
        request = call.request
        while True:
            try:
                if call.classification.restricted and self._decisions.pseudonyms is not None:
                    decision = await self._decide_instead(call)
                    if decision is not None:
                        return decision
                if request.trace.sampled:
                    call.enters("decide")
                decision = self._decisions.decide(request, call.classification, call.account)
                call.account.decision = decision
                if request.trace.sampled:
                    call.leaves()
                return decision
            except (OnpremUnavailable, NoEligibleEndpoint, CloudFull) as exc:
                if request.trace.sampled:
                    call.leaves(exc)
                if not await self._changes_in_time(call, exc):
                    raise

    async def _decide_instead(self, call: Call) -> Decision | None:
        """On another call that may leave, in its place, where there is one."""
        account = call.account
        if account.attempts:  # as one that stays: nothing of it may leave any more
            return None
        other = await self._decisions.instead(call.request, call.classification)
        if other is None:
            return None
        call.instead, decision = instead, _ = other
        account.classification, account.decision = instead.classification, decision
        self._decisions.show_shadows(instead.request, instead.classification, account)
        return decision

    async def _send(self, call: Call, decision: Decision) -> RunningAttempt:
        while True:
            admitted, sent = call.classification.admitted, call.instead or call
            try:
                call.attempt = await self._dispatcher.send(
                    sent.request, sent, decision, call.account
                )
                return call.attempt
            except NotCleared:  # no decision names that zone again
                if call.instead is not None:
                    raise
                if call.classification.admitted == admitted:
                    raise EgressForbidden(call.request.id) from None
                call.account.decision = None  # it was one for a call that could go further
            except (OnpremUnavailable, NoEligibleEndpoint, CloudFull) as exc:
                if not await self._changes_in_time(call, exc):
                    raise
            decision = await self._decide(call)

    async def _changes_in_time(self, call: Call, refused: GatewayError) -> bool:
        """Whether a call of which nothing was sent is decided on anew: what refused it is over."""
        if call.instead is not None:
            return False
        if isinstance(refused, CloudFull):
            return not refused.sent and await self._recovery.room_in_time(
                call.request, refused.endpoints
            )
        if isinstance(refused, OnpremUnavailable) and refused.sent:
            return False  # one that nothing was sent of may wait for a server that restarts
        return await self._recovery.back_in_time(call.request)

    async def _settle(self, call: Call, attempt: RunningAttempt) -> InferenceReply:
        """The answer, once what was sent is on record. A stream settles itself at its end."""
        account, instead, classification = call.account, call.instead, call.classification
        placed = account.decision  # its queue may have decided otherwise
        assert placed is not None
        attempts = len(account.attempts) + 1  # guard: S7.failed-attempts -> attempts = 1
        # guard: S7.failover-flag -> reason = placed.reason
        reason = placed.reason if not account.attempts else "failover"
        streamed, unrestored = call.request.payload.streamed, 0
        if not streamed and (closing := attempt.end(None)) is not None:
            await closed(closing)
        record = attempt.record
        # guard: B4.durable-mark (record.done() and record.result() is None) -> True
        if record is not None and not (record.done() and record.result() is None):
            await account.on_record(record)  # guard: B4.durable-answer
        frames: SettlingStream | OneFrame
        if streamed:
            account.begun(attempt.endpoint.name)
            frames = SettlingStream(attempt, account, reason, self._open)
        else:
            frames = attempt.whole()
            if instead is not None:
                frames, unrestored = await _restored(call.request, instead, frames)
            account.total_tokens = frames.total_tokens
            account.settle(Outcome.SERVED, reason)
        if instead is not None:
            classification = instead.classification
        placement = Placement(
            attempt.endpoint.zone,
            attempt.endpoint.name,
            reason,
            attempts,
            classification.sensitivity,
            classification.classify_s,
            sum(classification.pseudonymised.values()) if classification.pseudonymised else 0,
            _NO_LIMITS if call.share is None else call.share.headers(),
            unrestored,
            attempt.endpoint.kind,
            classification.data_class,
        )
        reply = InferenceReply(placement, frames)
        if not streamed:
            return reply
        if isinstance(attempt.first, MediaChunk):
            return MediaReply(placement, frames, attempt.first.media_type)
        return reply if instead is None else instead.restored(reply)


async def _restored(
    request: InferenceRequest, instead: PseudonymisedCallPort, frames: OneFrame
) -> tuple[OneFrame, int]:
    try:
        with timeouts.within(request.deadline.remaining_s()):
            return await instead.restored_whole(frames)
    except TimeoutError:
        raise DeadlineExceeded("the latency budget ran out while the answer was restored") from None
