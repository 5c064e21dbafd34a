"""A decision that stands: what was decided on a model's last call is decided on the next one of its
kind, as long as nothing has changed that it was decided by.

Nothing is weighed here. A decision stands for calls of its kind (clear or restricted, free to go
everywhere but for that, of the same shape) while all places that may serve them are well, with
room, and open, as they were when the policy weighed them. In any doubt it does not stand, and the
call is decided on (`Policy.decide`), which says the same:
`tests/properties/test_standing_decisions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.accounting.spill import SpillControl
from gateway.core.types import (
    EVERYWHERE,
    ONPREM,
    Classification,
    Decision,
    EndpointSnapshot,
    InferenceRequest,
    TensorCall,
)
from gateway.endpoints.candidates import Candidate
from gateway.scheduling.routing.policy import Policy

_NEARLY_OVER_S = 0.01  # what is left for a call that somebody had better look at


class CachedDecision:
    """The last decision on a call of one model and kind, and what it was made by."""

    __slots__ = (
        "_candidates",
        "_cloud",
        "_decision",
        "_drawn_s",
        "_margin",
        "_onprem",
        "_onprem_s",
        "_payload",
        "_policy",
        "_predicted_s",
        "_revision",
        "_servers",
        "_siblings",
        "_spill",
        "_stays",
        "_timed",
        "_true",
    )  # fmt: skip

    def __init__(
        self,
        request: InferenceRequest,
        restricted: bool,
        policy: Policy,
        decision: Decision,
        candidates: tuple[Candidate, ...],
        revision: int,
        siblings: Sequence[object],
        spill: SpillControl,
        onprem_s: Callable[[InferenceRequest, float], float],
    ) -> None:
        """`onprem_s`: when the queue would have answered a call. `revision`: of the catalog.
        `siblings`: settings of before whose calls are in the cloud as well."""
        self._policy, self._decision, self._revision = policy, decision, revision
        self._payload = type(request.payload)
        self._candidates, self._siblings = candidates, siblings
        self._spill, self._onprem_s = spill, onprem_s
        self._stays = restricted
        self._servers = tuple(candidate.name for candidate in candidates if candidate.onprem)
        self._cloud = not restricted and len(self._servers) < len(candidates)
        self._margin = policy.margin
        self._timed = self._cloud and len(candidates) > 1
        self._predicted_s = dict.fromkeys(
            (candidate.name for candidate in candidates), 0.0
        )  # as it was drawn
        self._drawn_s: dict[str, float] = {}  # of the cloud
        self._true = False  # the decision foretells what was drawn

    def lookup(
        self,
        request: InferenceRequest,
        classification: Classification,
        policy: Policy,
        revision: int,
        now_s: float,
    ) -> Decision | None:
        """For this call; None where it has to be decided on."""
        payload, left_s = request.payload, request.deadline.at_s - now_s
        # guard: O3.everywhere minus 3
        # guard: O3.sequence minus 6
        if (
            policy is not self._policy
            or revision != self._revision
            or request.zones is not EVERYWHERE
            or type(payload) is not self._payload
            or left_s <= _NEARLY_OVER_S
            or (type(payload) is TensorCall and not _plain(payload))
        ):
            return None
        # guard: O3.cloud-open minus 4
        if self._cloud and (self._siblings or self._spill.closed(request.tenant)):
            return None
        drawn_s = self._drawn_s
        for candidate in self._candidates:
            state, model_state = candidate.state, candidate.model_state
            if (
                self._stays and not candidate.onprem
            ):  # it is no place for the call; its time is told
                if drawn_s.get(candidate.name) != model_state.times.slow_s:
                    self._draw(candidate)
                continue
            # guard: O3.places-up minus 1
            # guard: O3.taking-calls minus 2
            # guard: O3.trusted minus 3
            # guard: O3.usual-speed minus 5
            if (
                not state.up
                or state.drained
                or model_state.breaker.open_until_s
                or model_state.suspects.suspended
                or model_state.health.slow_since_s is not None
            ):
                return None
            if candidate.onprem:
                continue
            slow_s, room = model_state.times.slow_s, state.room
            # guard: O3.room minus 2
            # guard: O3.retry-after minus 3
            # guard: O3.just-back minus 4
            if (
                room is None
                or state.in_flight >= room.limit
                or room.closed_until_s
                or model_state.health.slow_start.going
            ):
                return None
            # guard: O3.time-decides
            if self._timed and left_s < slow_s * self._margin:  # it could be late there
                return None
            if drawn_s.get(candidate.name) != slow_s:
                self._draw(candidate)
        return self._decision if self._true else self._foretold(request, now_s)

    def _draw(self, candidate: Candidate) -> None:
        """The time of one in the cloud, which is another than before."""
        self._drawn_s[candidate.name] = slow_s = candidate.model_state.times.slow_s
        self._predicted_s[candidate.name] = round(slow_s, 6)
        self._true = False

    def _foretold(self, request: InferenceRequest, now_s: float) -> Decision:
        """The same with the times of now."""
        was, servers, predicted_s = self._decision, self._servers, self._predicted_s.copy()
        self._true = not servers
        if servers:
            expected_s = round(self._onprem_s(request, now_s), 6)  # all of them have one queue
            for name in servers:
                predicted_s[name] = expected_s
        made = self._decision = Decision(
            was.attempts, was.reason, was.zones, was.vetoes, was.latency_critical, was.tries,
            predicted_s,
        )  # fmt: skip
        return made


def may_stand(
    request: InferenceRequest,
    classification: Classification,
    policy: Policy,
    decision: Decision,
    states: Sequence[EndpointSnapshot],
) -> bool:
    """Whether a decision was made by nothing but what `CachedDecision.lookup` looks at."""
    payload = request.payload
    if request.zones is not EVERYWHERE or not policy.usual:
        return False
    if type(payload) is TensorCall and not _plain(payload):
        return False
    if classification.restricted:
        return _all_stay(decision, states)
    if decision.vetoes or decision.latency_critical or any(state.slow for state in states):
        return False
    prices = {state.endpoint.name: state.price_usd for state in states}
    ranked = [prices[e.name] for e in decision.attempts if e.zone is not ONPREM]
    # guard: O3.time-made -> return bool(ranked)
    return ranked == sorted(set(ranked))  # by nothing else, as times change


def _all_stay(decision: Decision, states: Sequence[EndpointSnapshot]) -> bool:
    """Whether every server on the premises may have it, in the order of the settings: they have
    one queue."""
    # guard: O3.all-servers -> return 0 <= sum((state.endpoint.zone is ONPREM for state in states))
    return len(decision.attempts) == sum(state.endpoint.zone is ONPREM for state in states)


def _plain(call: TensorCall) -> bool:
    return not call.version and call.sequence is None
