"""The decision: one pure function over one snapshot of the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.errors import (
    DeadlineExceeded,
    DeadlineUnmeetable,
    GatewayError,
    NoEligibleEndpoint,
    OnpremUnavailable,
    Saturated,
)
from gateway.routing.filters import FILTERS, Filter, keeps_restricted_onprem
from gateway.routing.scorers import expected_cost_usd, late_probability
from gateway.types import (
    ONPREM_ONLY,
    Classification,
    Decision,
    EndpointState,
    InferenceRequest,
    Zone,
)

_SURELY_LATE = 0.999
_LIKELY = 0.5


@dataclass(frozen=True, slots=True)
class Policy:
    """What the decision weighs. `filters` are vetoes beside the built-in one."""

    filters: tuple[Filter, ...] = FILTERS
    spill: bool = True
    margin: float = 1.2
    miss_penalty_usd: float = 0.05
    max_waiting_batches: float = 3.0
    max_attempts: int = 2

    def decide(
        self, request: InferenceRequest, found: Classification, states: Sequence[EndpointState]
    ) -> Decision:
        """Raises OnpremUnavailable, NoEligibleEndpoint, Saturated, DeadlineUnmeetable or
        DeadlineExceeded when the call has nowhere to go."""
        if request.deadline.passed():
            raise DeadlineExceeded("the latency budget was used up before the call was placed")
        eligible, vetoes = self._filter(request, found, states)
        onprem = [s for s in eligible if s.endpoint.zone is Zone.ONPREM]
        cloud = [s for s in eligible if s.endpoint.zone is Zone.CLOUD]
        if not eligible:
            raise self._nowhere(found, vetoes, states)
        if not cloud:
            self._refuse_the_hopeless(request, onprem)
        late = {s.endpoint.name: late_probability(request, s, self.margin) for s in eligible}
        critical = bool(onprem) and all(late[s.endpoint.name] >= _LIKELY for s in cloud)
        order = sorted(eligible, key=lambda s: self._rank(request, s, cloud, late))
        return Decision(
            attempts=tuple(s.endpoint for s in order[: self.max_attempts]),
            reason=self._reason(found, order[0], onprem, cloud, late, critical, vetoes),
            zones=ONPREM_ONLY if found.restricted else request.zones,
            vetoes=vetoes,
            latency_critical=critical and bool(cloud),
            predicted_s={s.endpoint.name: round(s.predicted_s, 6) for s in states},
        )

    def _filter(
        self, request: InferenceRequest, found: Classification, states: Sequence[EndpointState]
    ) -> tuple[list[EndpointState], tuple[tuple[str, str], ...]]:
        eligible, vetoes = [], []
        for state in states:
            why = keeps_restricted_onprem(request, found, state)
            if why is None and not self.spill and state.endpoint.zone is Zone.CLOUD:
                why = "spill_off"
            for rule in self.filters:
                why = why or rule(request, found, state)
            if why is None:
                eligible.append(state)
            else:
                vetoes.append((state.endpoint.name, why))
        fast = [state for state in eligible if not state.slow]
        if fast:  # what has become slow is for calls that have no other place
            vetoes += [(state.endpoint.name, "slow") for state in eligible if state.slow]
        return fast or eligible, tuple(vetoes)

    def _full(self, state: EndpointState) -> bool:
        return (
            state.endpoint.zone is Zone.ONPREM
            and state.waiting >= self.max_waiting_batches * state.batch
        )

    def _rank(
        self,
        request: InferenceRequest,
        state: EndpointState,
        cloud: Sequence[EndpointState],
        late: dict[str, float],
    ) -> tuple[bool, float, float]:
        """Smaller is better: a full queue yields only to a cloud that is likely in time."""
        yields = self._full(state) and any(late[c.endpoint.name] < _LIKELY for c in cloud)
        cost = expected_cost_usd(request, state, self.margin, self.miss_penalty_usd)
        return yields, cost, state.predicted_s

    def _reason(
        self,
        found: Classification,
        chosen: EndpointState,
        onprem: Sequence[EndpointState],
        cloud: Sequence[EndpointState],
        late: dict[str, float],
        critical: bool,
        vetoes: tuple[tuple[str, str], ...],
    ) -> str:
        if chosen.endpoint.zone is Zone.ONPREM:
            if found.restricted:
                return "restricted"
            if not cloud:
                return "onprem_only"
            return "latency_critical" if critical else "onprem_room"
        if onprem:
            if all(late[s.endpoint.name] > 0 for s in onprem):
                return "spill_deadline"
            return "spill_queue"
        if any(why == "queue_full" for _, why in vetoes):
            return "spill_queue"
        if any(why not in ("protocol", "placement") for _, why in vetoes):
            return "spill_unavailable"
        return "cloud_only"

    def _refuse_the_hopeless(
        self, request: InferenceRequest, onprem: Sequence[EndpointState]
    ) -> None:
        """A call that can only wait and is provably late is told so at once (D4)."""
        if any(s.cold for s in onprem):
            return
        if all(late_probability(request, s, 1.0) >= _SURELY_LATE for s in onprem):
            soonest_s = min(s.predicted_s for s in onprem)
            raise DeadlineUnmeetable(
                "the on-prem servers cannot answer within the latency budget",
                retry_after_s=soonest_s,
            )

    def _nowhere(
        self,
        found: Classification,
        vetoes: tuple[tuple[str, str], ...],
        states: Sequence[EndpointState],
    ) -> GatewayError:
        waits_s = [s.predicted_s for s in states if s.endpoint.zone is Zone.ONPREM and not s.room]
        waits_s += [
            s.back_in_s
            for s in states
            if s.back_in_s is not None and (s.endpoint.zone is Zone.ONPREM or not found.restricted)
        ]
        retry_after_s = min(waits_s, default=2.0)
        if found.restricted:
            return OnpremUnavailable(
                "this call must stay on the premises and no on-prem server can take it now",
                retry_after_s=retry_after_s,
            )
        why = "; ".join(f"{name}: {reason}" for name, reason in vetoes) or "none serves this model"
        if any(reason == "queue_full" for _, reason in vetoes):
            return Saturated(f"every queue is full ({why})", retry_after_s=retry_after_s)
        return NoEligibleEndpoint(
            f"no endpoint can take this call now ({why})", retry_after_s=retry_after_s
        )
