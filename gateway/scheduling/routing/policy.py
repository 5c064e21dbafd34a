"""The decision: one pure function over one snapshot of the endpoints."""

from __future__ import annotations

from collections.abc import Sequence
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
from gateway.core.operations.spec import CapabilityNeed
from gateway.core.structs import value
from gateway.core.types import (
    CLOUD,
    ONPREM,
    ONPREM_ONLY,
    Classification,
    Decision,
    EndpointSnapshot,
    InferenceRequest,
    Zone,
)
from gateway.scheduling.routing.filters import FILTERS, Filter, keeps_restricted_onprem
from gateway.scheduling.routing.needs import lacking
from gateway.scheduling.routing.scorers import Forecast, expected_cost_usd, late_probability

_LIKELY = 0.5
_NO_PLACE = frozenset({"protocol", "placement", "capability"})  # it never was one for the call
_LASTING = _NO_PLACE | {"restricted", "spill_off", "stateful", "version"}


@value
class Eligible:
    """Where a call may go by all but how busy endpoints are. They are counted in their order."""

    onprem: tuple[int, ...]
    cloud: tuple[int, ...]
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
        onprem, cloud, vetoes = self._filter(request, classification, states)
        if not (onprem or cloud):
            # guard: A10.refused-placement -> refused = self._refused(request, classification,
            #   vetoes, states); raise refused
            raise self._refused(request, classification, vetoes, states)
        return self._ranked(request, classification, onprem, cloud, vetoes, states)

    def eligible(
        self,
        request: InferenceRequest,
        classification: Classification,
        states: Sequence[EndpointSnapshot],
    ) -> Eligible:
        """Of states in which every endpoint has room and none is slow: what holds of further calls
        that the filters cannot tell from this one."""
        onprem, cloud, vetoes = self._filter(request, classification, states)
        at = {state.endpoint.name: number for number, state in enumerate(states)}
        return Eligible(
            tuple([at[state.endpoint.name] for state in onprem]),
            tuple([at[state.endpoint.name] for state in cloud]),
            vetoes,
        )

    def place(
        self,
        request: InferenceRequest,
        classification: Classification,
        eligible: Eligible,
        forecasts: Sequence[Forecast],
    ) -> Decision | None:
        """What `decide` comes to for a call that is known to be eligible so. `forecasts`: of every
        endpoint, in their order. None: one of them is full, or there is none. Raises
        DeadlineExceeded."""
        if request.deadline.passed():
            raise _too_late()
        onprem = [forecasts[number] for number in eligible.onprem]
        cloud = [forecasts[number] for number in eligible.cloud]
        if not (onprem or cloud):
            return None
        for forecast in cloud:
            if not forecast.room:
                return None
        return self._ranked(request, classification, onprem, cloud, eligible.vetoes, forecasts)

    def _ranked(
        self,
        request: InferenceRequest,
        classification: Classification,
        onprem: Sequence[Forecast],
        cloud: Sequence[Forecast],
        vetoes: tuple[tuple[str, str], ...],
        states: Sequence[Forecast],
    ) -> Decision:
        critical = False
        if onprem and cloud:
            critical = all(
                [late_probability(request, state, self.margin) >= _LIKELY for state in cloud]
            )
        if len(onprem) > 1:
            onprem = sorted(onprem, key=_predicted_s)
        if len(cloud) > 1:
            cloud = sorted(cloud, key=partial(self._cost, request))
        # guard: S5.no-zone minus 2
        # guard: M2.zones ONPREM_ONLY if classification.restricted or not self.spill else
        #   request.zones -> request.zones if self.spill else ONPREM_ONLY
        return Decision(
            attempts=tuple([state.endpoint for state in (*onprem, *cloud)]),
            reason=self._reason(classification, onprem, cloud, critical, vetoes),
            zones=ONPREM_ONLY if classification.restricted or not self.spill else request.zones,
            vetoes=vetoes,
            latency_critical=critical,
            tries=self.max_attempts,
            predicted_s={s.endpoint.name: round(s.predicted_s, 6) for s in states},
        )

    def _filter(
        self,
        request: InferenceRequest,
        classification: Classification,
        states: Sequence[EndpointSnapshot],
    ) -> tuple[list[EndpointSnapshot], list[EndpointSnapshot], tuple[tuple[str, str], ...]]:
        """Those on the premises and those in the cloud that may serve the call, and why no others
        may."""
        onprem: list[EndpointSnapshot] = []
        cloud: list[EndpointSnapshot] = []
        vetoes: list[tuple[str, str]] = []
        slow = 0
        for state in states:
            # guard: O4.restricted-stays -> why = None
            why = keeps_restricted_onprem(request, classification, state)
            # guard: S5.spill-switch
            if why is None and not self.spill and state.endpoint.zone is CLOUD:
                why = "spill_off"
            if why is None:
                for rule in self.filters:
                    why = rule(request, classification, state)
                    if why is not None:
                        break
            if why is not None:
                vetoes.append((state.endpoint.name, why))
            else:
                (onprem if state.endpoint.zone is ONPREM else cloud).append(state)
                if state.slow:
                    slow += 1
        if 0 < slow < len(onprem) + len(cloud):  # they are for calls that have no other place
            late = [s for s in states if s.slow and (s in onprem or s in cloud)]
            vetoes += [(state.endpoint.name, "slow") for state in late]
            onprem = [state for state in onprem if not state.slow]
            cloud = [state for state in cloud if not state.slow]
        return onprem, cloud, tuple(vetoes)

    def _cost(self, request: InferenceRequest, state: Forecast) -> tuple[float, float]:
        usd = expected_cost_usd(request, state, self.margin, self.miss_penalty_usd)
        return usd, state.predicted_s

    def _reason(
        self,
        classification: Classification,
        onprem: Sequence[Forecast],
        cloud: Sequence[Forecast],
        critical: bool,
        vetoes: tuple[tuple[str, str], ...],
    ) -> str:
        if onprem:
            if classification.restricted:
                return "restricted"
            if not cloud:
                return "onprem_only"
            return "latency_critical" if critical else "onprem_room"
        if any(why not in _NO_PLACE for _, why in vetoes):
            return "spill_unavailable"
        return "cloud_only"

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
                    return _incapable(need)  # guard: S10.missing-field
        waits_s = [s.predicted_s for s in states if s.endpoint.zone is Zone.ONPREM and not s.room]
        waits_s += [
            s.back_in_s
            for s in states
            if s.back_in_s is not None
            and (s.endpoint.zone is Zone.ONPREM or not classification.restricted)
        ]
        retry_after_s = min(waits_s, default=2.0)
        if classification.restricted:
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


def _predicted_s(state: Forecast) -> float:
    return state.predicted_s


def _too_late() -> DeadlineExceeded:
    return DeadlineExceeded("the latency budget was used up before the call was placed")


def _incapable(need: CapabilityNeed) -> Incapable:
    refused = Incapable(
        f"{need.field}: no endpoint that this call may go to offers {need.capability}; leave it out"
    )
    refused.field = need.field
    return refused


def leaving(decision: Decision, why: str) -> Decision:
    """The same call, which its queue sends to the cloud."""
    cloud = [e for e in decision.attempts if e.zone is CLOUD]
    onprem = [e for e in decision.attempts if e.zone is ONPREM]
    return replace(decision, attempts=(*cloud, *onprem), reason=why)


def slow_ones(decision: Decision) -> frozenset[str]:
    """Servers that are left to calls with no other place."""
    return frozenset(name for name, why in decision.vetoes if why == "slow")
