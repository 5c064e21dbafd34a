"""What is decided about a call: to be sent, or only to be explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from gateway.core.errors import Forbidden, GatewayError, NoEligibleEndpoint, OnpremUnavailable
from gateway.core.trace_context import UNTRACED
from gateway.core.types import (
    PUBLIC_MODEL,
    Classification,
    Decision,
    EndpointSnapshot,
    InferenceRequest,
    Sensitivity,
)
from gateway.pipeline.accounts import Accounts
from gateway.pipeline.admission import Admission
from gateway.pipeline.call import ClassifierPort, PseudonymisedCallPort
from gateway.pipeline.call_account import CallAccount
from gateway.pipeline.rate_limits import RateLimits
from gateway.scheduling.routing.fit import requested_version
from gateway.scheduling.routing.policy import Policy
from gateway.scheduling.routing.version_split import preferred_versions

if TYPE_CHECKING:
    from gateway.pipeline.shadow.shadows import Shadows

_READ: Final = frozenset(
    {"clear", PUBLIC_MODEL, "entities", "labelled", "tainted", "pseudonymised"}
)
"""Reasons of a verdict that is known: from a whole scan, a label, the call before it, or the
operator's word."""

_BY_NAME: Final = ("hook:", "category:")
"""Begin the reasons that name what restricted a call."""


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

    def snapshot(self, request: InferenceRequest) -> Sequence[EndpointSnapshot]: ...


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


class DecisionMaker:
    """Decides on calls by the policy, over the states of now."""

    def __init__(
        self,
        snapshots: SnapshotsPort,
        entry: EntryPort,
        policy: Policy,
        pseudonyms: Pseudonyms | None,
        shadows: Shadows | None,
        block_unknown: bool,
    ) -> None:
        self.snapshots = snapshots
        self.pseudonyms = pseudonyms
        self.shadows = shadows
        self._entry = entry
        self._policy = policy
        self._block_unknown = block_unknown

    def decide(
        self,
        request: InferenceRequest,
        classification: Classification,
        account: CallAccount | None = None,
    ) -> Decision:
        """`account`: of a call that is to be sent, which shadows may see."""
        if self._block_unknown and not _was_read(classification.reason):
            raise Forbidden(
                "this call could not be read for personal data and is refused",
                reason="unknown_blocked",
            )
        if account is not None and self.shadows is None:
            return self.snapshots.decide(request, classification, self._policy)
        states = self.snapshots.snapshot(request)
        if account is not None and self.shadows is not None:
            self.shadows.see(request, classification, states, account)
        return self._policy.decide(request, classification, states)

    def show_shadows(
        self, request: InferenceRequest, classification: Classification, account: CallAccount
    ) -> None:
        """A call that is sent as it was foreseen."""
        if self.shadows is not None:
            states = self.snapshots.snapshot(request)
            self.shadows.see(request, classification, states, account)

    def foresee(self, request: InferenceRequest, classification: Classification) -> Decision:
        """The decision, and what its queue would do with it at once."""
        with request.trace.stage("decide"):
            decision = self.decide(request, classification)
        # guard: O3.queue -> return decision
        return self._entry.foresee(request, classification.stays, decision)

    async def instead(
        self, request: InferenceRequest, classification: Classification
    ) -> tuple[PseudonymisedCallPort, Decision] | None:
        """Another call for one that would leave were it clear. What stays anyway is served as it
        is: surrogates are for the cloud alone."""
        if self.pseudonyms is None or not (request.pseudonymise and classification.restricted):
            return None
        if not self._would_leave(request):
            return None
        instead = await self.pseudonyms.instead(request, classification)
        if instead is None:
            return None
        try:
            decision = self.foresee(instead.request, instead.classification)
        except GatewayError:
            decision = None
        if decision is None or decision.attempts[0].zone.onprem:
            instead.forget()
            return None
        return instead, decision

    def _would_leave(self, request: InferenceRequest) -> bool:
        """Decided with a verdict that is on no call, so that it can clear none."""
        if_clear = Classification("", Sensitivity.CLEAR, "clear", admitted=request.zones)
        try:
            decision = self.foresee(request, if_clear)
        except GatewayError:
            return False
        return not decision.attempts[0].zone.onprem


def _was_read(reason: str) -> bool:
    return reason in _READ or reason.startswith(_BY_NAME)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would be done with a call, and on what grounds (O3)."""

    classification: Classification
    states: Sequence[EndpointSnapshot]
    decision: Decision | None
    refusal: GatewayError | None
    shadows: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    waits: bool = False  # before it is refused: a server is expected to be back in time
    versions: Mapping[str, str] = field(default_factory=dict)  # of a split, by endpoint


class Explainer:
    """Comes to the verdict and the decision that a call would meet now; sends nothing."""

    def __init__(
        self,
        admission: Admission,
        limits: RateLimits,
        accounts: Accounts,
        classifier: ClassifierPort,
        decisions: DecisionMaker,
        recovery: RecoveryPort,
    ) -> None:
        self._admission = admission
        self._limits = limits
        self._accounts = accounts
        self._classifier = classifier
        self._decisions = decisions
        self._recovery = recovery

    async def explain(self, request: InferenceRequest) -> Explanation:
        """With the decisions of the shadows."""
        # guard: O3.no-memory without explained=True
        request = replace(request, explained=True, trace=UNTRACED)
        live = await self._explain(request)
        split = {
            state.endpoint.name: preferred_versions(state.served, request)[0]
            for state in live.states
            if state.served.versions and not requested_version(request)
        }
        live = replace(live, versions=split)
        shadows = self._decisions.shadows
        if shadows is None:
            return live
        return replace(live, shadows=shadows.foresee(request, live.classification, live.states))

    async def _explain(self, request: InferenceRequest) -> Explanation:
        decisions = self._decisions
        classification = await self._classifier.classify(request)
        try:  # before it would even be read; what is in it is shown all the same
            self._admission.check(request)  # guard: O3.admission
            self._accounts.log.check()  # guard: O3.audit
            self._limits.check(request)  # guard: O3.limits
        except GatewayError as refusal:
            states = decisions.snapshots.snapshot(request)
            return Explanation(classification, states, None, refusal)
        while True:
            states = decisions.snapshots.snapshot(request)
            if (other := await decisions.instead(request, classification)) is not None:
                instead, decision = other
                instead.forget()
                return Explanation(instead.classification, states, decision, None)
            try:
                decision = decisions.foresee(request, classification)
            except (OnpremUnavailable, NoEligibleEndpoint) as refusal:
                # guard: O3.queue-wait -> waits = False
                waits = self._recovery.worth_waiting(request)
                return Explanation(classification, states, None, refusal, waits=waits)
            except GatewayError as refusal:
                return Explanation(classification, states, None, refusal)
            known = classification.complete or classification.stays
            if known or decision.attempts[0].zone.onprem:
                return Explanation(classification, states, decision, None)
            # guard: O3.reading-depth -> return Explanation(classification, states, decision, None)
            classification = await self._classifier.complete(request, classification)
