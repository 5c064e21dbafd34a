"""The decision: one pure function over one snapshot of the endpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gateway.core.errors import (
    CloudFull,
    DeadlineExceeded,
    GatewayError,
    Incapable,
    NoEligibleEndpoint,
    OnpremUnavailable,
    Saturated,
)
from gateway.core.operations.capabilities import REMEDIES
from gateway.core.operations.dialects.fields import callers_field
from gateway.core.operations.spec import CapabilityNeed
from gateway.core.structs import value
from gateway.core.types import (
    Classification,
    Decision,
    DocumentCall,
    Endpoint,
    EndpointSnapshot,
    InferenceRequest,
    Zone,
)
from gateway.scheduling.routing.filters import FILTERS, Filter, keeps_restricted_onprem
from gateway.scheduling.routing.needs import lacking
from gateway.scheduling.routing.scorers import Forecast, expected_cost_usd, late_probability

_LIKELY = 0.5
_NO_PLACE = frozenset({"protocol", "placement", "capability"})  # it never was one for the call
_LASTING = _NO_PLACE | {"restricted", "not_admitted", "spill_off", "stateful", "version"}


@value
class Eligible:
    """Where a call may go by all but how busy endpoints are."""

    onprem: tuple[int, ...]  # endpoints, counted in their order
    cloud: tuple[int, ...]
    attempts: tuple[Endpoint, ...]  # the same; not ranked yet
    reason: str
    zones: frozenset[Zone]
    vetoes: tuple[tuple[str, str], ...]  # (endpoint, why)


@dataclass(frozen=True, slots=True)
class Policy:
    """What the decision weighs. `filters` are vetoes beside the built-in one; without `spill` no
    call may leave, by no way."""

    filters: tuple[Filter, ...] = FILTERS
    """Each reads of a call its operation, what its body asks for, the zones that its caller allows,
    and whether it is restricted; nothing else."""
    spill: bool = True
    margin: float = 1.2
    miss_penalty_usd: float = 0.05
    max_attempts: int = 2

    def decide(
        self,
        request: InferenceRequest,
        classification: Classification,
        states: Sequence[EndpointSnapshot],
    ) -> Decision:
        """Raises OnpremUnavailable, NoEligibleEndpoint, Saturated, DeadlineUnmeetable or
        DeadlineExceeded when the call has nowhere to go."""
        if request.deadline.passed():
            raise _too_late()
        eligible = self.eligible(request, classification, states)
        if not eligible.attempts:
            # guard: A10.refused-placement -> refused = self._refused(request, classification,
            #   eligible.vetoes, states); raise refused
            raise self._refused(request, classification, eligible.vetoes, states)
        predicted_s = {s.endpoint.name: round(s.predicted_s, 6) for s in states}
        return self.place(request, eligible, predicted_s, states)

    def eligible(
        self,
        request: InferenceRequest,
        classification: Classification,
        states: Sequence[EndpointSnapshot],
    ) -> Eligible:
        """Of states in which every endpoint has room and none is slow, this holds of further calls
        that the filters cannot tell from this one."""
        onprem, cloud, vetoes = self._filter(request, classification, states)
        # guard: M2.zones classification.admits(z) -> True
        # guard: S5.no-zone self.spill or z.onprem -> True
        zones = [z for z in request.zones if classification.admits(z) and (self.spill or z.onprem)]
        return Eligible(
            tuple(onprem),
            tuple(cloud),
            tuple([states[number].endpoint for number in (*onprem, *cloud)]),
            _reason(classification, onprem, cloud, vetoes),
            frozenset(zones),
            vetoes,
        )

    def place(
        self,
        request: InferenceRequest,
        eligible: Eligible,
        predicted_s: Mapping[str, float],
        forecasts: Sequence[Forecast],
    ) -> Decision:
        """The decision on a call that has somewhere to go. `forecasts`: of all endpoints, in their
        order; none are read where there is but one attempt. Raises DeadlineExceeded."""
        if request.deadline.passed():
            raise _too_late()
        attempts, reason, critical = eligible.attempts, eligible.reason, False
        if len(attempts) > 1:
            onprem = [forecasts[number] for number in eligible.onprem]
            cloud = [forecasts[number] for number in eligible.cloud]
            if onprem and cloud:
                late = [late_probability(request, state, self.margin) for state in cloud]
                critical = min(late) >= _LIKELY
            if critical and reason == "onprem_room":
                reason = "latency_critical"
            onprem.sort(key=_predicted_s)
            if len(cloud) > 1:
                cloud.sort(key=partial(self._cost, request))
            attempts = tuple([state.endpoint for state in onprem + cloud])
        return Decision(
            attempts, reason, eligible.zones, eligible.vetoes, critical, self.max_attempts,
            predicted_s,
        )  # fmt: skip

    def _filter(
        self,
        request: InferenceRequest,
        classification: Classification,
        states: Sequence[EndpointSnapshot],
    ) -> tuple[list[int], list[int], tuple[tuple[str, str], ...]]:
        """Those on the premises and those in the cloud that may serve the call, and why no others
        may."""
        onprem: list[int] = []
        cloud: list[int] = []
        vetoes: list[tuple[str, str]] = []
        slow: list[int] = []
        for number, state in enumerate(states):
            # guard: O4.restricted-stays -> why = None
            why = keeps_restricted_onprem(request, classification, state)
            # guard: S5.spill-switch
            if why is None and not self.spill and not state.endpoint.zone.onprem:
                why = "spill_off"
            if why is None:
                for rule in self.filters:
                    why = rule(request, classification, state)
                    if why is not None:
                        break
            if why is not None:
                vetoes.append((state.endpoint.name, why))
            else:
                (onprem if state.endpoint.zone.onprem else cloud).append(number)
                if state.slow:
                    slow.append(number)
        if 0 < len(slow) < len(onprem) + len(cloud):  # they are for calls with no other place
            vetoes += [(states[number].endpoint.name, "slow") for number in slow]
            onprem = [number for number in onprem if number not in slow]
            cloud = [number for number in cloud if number not in slow]
        return onprem, cloud, tuple(vetoes)

    def _cost(self, request: InferenceRequest, state: Forecast) -> tuple[float, float]:
        usd = expected_cost_usd(request, state, self.margin, self.miss_penalty_usd)
        return usd, state.predicted_s

    def _refused(
        self,
        request: InferenceRequest,
        classification: Classification,
        vetoes: tuple[tuple[str, str], ...],
        states: Sequence[EndpointSnapshot],
    ) -> GatewayError:
        """In a frame of its own: one that raises what a local names is held by it in turn."""
        refused = self._nowhere(request, classification, vetoes, states)
        refused.vetoes = vetoes
        return refused

    def _nowhere(
        self,
        request: InferenceRequest,
        classification: Classification,
        vetoes: tuple[tuple[str, str], ...],
        states: Sequence[EndpointSnapshot],
    ) -> GatewayError:
        if all(why in _LASTING for _, why in vetoes):
            for state in states:
                need = lacking(request, state.endpoint, state.served)
                if need is not None and (state.endpoint.name, "capability") in vetoes:
                    return _incapable(request, need)  # guard: S10.missing-field
        waits_s = [s.predicted_s for s in states if s.endpoint.zone.onprem and not s.room]
        waits_s += [
            s.back_in_s
            for s in states
            if s.back_in_s is not None and classification.admits(s.endpoint.zone)
        ]
        retry_after_s = min(waits_s, default=2.0)
        if classification.stays:
            return OnpremUnavailable(
                "this call must stay on the premises and no on-prem server can take it now",
                retry_after_s=retry_after_s,
            )
        why = "; ".join(f"{name}: {reason}" for name, reason in vetoes) or "none serves this model"
        full = tuple(name for name, reason in vetoes if reason == "cloud_full")
        if full:
            return CloudFull(
                f"the cloud has as many calls as it takes ({why})", full, retry_after_s
            )
        if any(reason == "queue_full" for _, reason in vetoes):
            return Saturated(f"every queue is full ({why})", retry_after_s=retry_after_s)
        return NoEligibleEndpoint(
            f"no endpoint can take this call now ({why})", retry_after_s=retry_after_s
        )


def _reason(
    classification: Classification,
    onprem: Sequence[int],
    cloud: Sequence[int],
    vetoes: tuple[tuple[str, str], ...],
) -> str:
    if onprem:
        if classification.stays:
            return "restricted"
        return "onprem_room" if cloud else "onprem_only"
    if any(why not in _NO_PLACE for _, why in vetoes):
        return "spill_unavailable"
    return "cloud_only"


def _predicted_s(state: Forecast) -> float:
    return state.predicted_s


def _too_late() -> DeadlineExceeded:
    return DeadlineExceeded("the latency budget was used up before the call was placed")


def _incapable(request: InferenceRequest, need: CapabilityNeed) -> Incapable:
    remedy = REMEDIES.get(need.capability, "leave it out")
    name, call = need.field, request.payload
    translation = call.translation if isinstance(call, DocumentCall) else None
    if translation is not None and need not in translation.unsaid:
        name = callers_field(translation.front, name, translation.turns)
    refused = Incapable(
        f"{name}: no endpoint that this call may go to offers {need.capability}; {remedy}"
    )
    refused.field = name
    return refused


def leaving(decision: Decision, why: str) -> Decision:
    """The same call, which its queue sends to the cloud."""
    cloud = [e for e in decision.attempts if not e.zone.onprem]
    onprem = [e for e in decision.attempts if e.zone.onprem]
    return replace(decision, attempts=(*cloud, *onprem), reason=why)


def avoided(decision: Decision) -> frozenset[str]:
    """Servers in the call's queue that it is not given: those that are left to calls with no other
    place, and those in zones that its caller leaves out."""
    # guard: M7.premises-zone why in ('slow', 'placement') -> why == 'slow'
    return frozenset(name for name, why in decision.vetoes if why in ("slow", "placement"))
