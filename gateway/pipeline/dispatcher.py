"""Attempts: try the decided endpoints in order until one starts to answer.

Before an endpoint's first frame another attempt may follow; after it, none (the commit point, A4).
Attempts share the call's one deadline, and the zones that they may touch never grow (M2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from gateway.core.deadline import Clock
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import (
    CloudFull,
    EgressForbidden,
    GatewayError,
    ModelFailed,
    NoEligibleEndpoint,
    OnpremUnavailable,
    Saturated,
    UpstreamError,
)
from gateway.core.types import Decision, Endpoint, InferenceRequest
from gateway.endpoints.versions.parts import EndpointParts
from gateway.pipeline.attempt import AttemptLog, AttemptServices, GrantPort, RunningAttempt
from gateway.pipeline.hedging import has_no_effect, has_state, hedged
from gateway.pipeline.retries import LONGEST_PAUSE_S, RetryBudget, pause_s
from gateway.pipeline.route import ClearancePort, NotCleared, Route
from gateway.scheduling.calls import QueuedCall
from gateway.scheduling.queue import NoServer, Spilled

_LATE = 2.0  # times the median: where all calls take the same time, the 95th percentile is no news


class QueuesPort(Protocol):
    """Where calls wait for on-prem servers: here, or at the gateway that owns them."""

    def enter(
        self, request: InferenceRequest, call: QueuedCall, group: tuple[str, ...]
    ) -> Coroutine[Any, Any, GrantPort]:
        """A turn at one of the servers. Raises Spilled when the call is to leave, NoServer when
        none takes it, or the GatewayError that refuses it."""
        ...


class Dispatcher:
    def __init__(
        self,
        parts: EndpointParts,
        clock: Clock,
        retries: RetryBudget | None = None,
        hedging: bool = False,
        queues: QueuesPort | None = None,
    ) -> None:
        """`queues`: of this gateway, unless servers are shared with other gateways."""
        self._registry = parts.registry
        self._candidates = parts.registry.candidates
        self._catalog = parts.registry.catalog
        self._clouds = parts.clouds
        self._recovery = parts.recovery
        self._entry = parts.entry
        self._services = AttemptServices.from_parts(parts, clock)
        self._queues: QueuesPort = queues or parts.entry
        self._clock = clock
        self._retries = retries or RetryBudget(clock)
        self._hedging = hedging

    async def send(
        self,
        request: InferenceRequest,
        clearance: ClearancePort,
        decision: Decision,
        log: AttemptLog,
    ) -> RunningAttempt:
        """The attempt whose answer has begun; whoever gets it must end it. Raises what the last
        attempt met; for a restricted call OnpremUnavailable, unless the queue was full or the model
        failed; or NotCleared before an attempt in the cloud that turns out not to be allowed.
        """
        self._retries.calls += 1
        route = Route(request, clearance, decision, log)
        with request.trace.stage("dispatch"):
            try:
                while (zone := route.zone) is not None or await self._another_chance(route):
                    if zone is None:
                        continue
                    if zone not in decision.zones:  # guard: M3.dispatched-zone
                        raise EgressForbidden(request.id)
                    if route.sent and not route.paid:  # before it waits for a place: others come
                        route.paid = self._retries.take()
                        if not route.paid:  # guard: A5.retry-permit
                            break
                    try:
                        if zone.onprem:
                            turn = await self._onprem_turn(route)
                            if turn is None:
                                continue
                            endpoint = self._catalog.endpoints[turn.server]
                        else:
                            turn, endpoint = None, route.clouds.popleft()
                            # guard: D5.cloud-retry
                            if route.last is not None and not self._worth_another(
                                request, endpoint.name
                            ):
                                continue
                            await route.clearance.to_leave(zone)
                        route.attempt = attempt = self._attempt(route, endpoint, turn)
                        route.paid = False
                        # guard: A7.hedge-switch minus 1
                        # guard: A7.idempotent-only minus 3
                        if self._hedging and route.may_hedge and has_no_effect(request):
                            return await self._hedged(attempt, route)
                        return await attempt.start()
                    except GatewayError as exc:
                        if not route.goes_on(exc):
                            raise
            finally:
                if route.paid:
                    self._retries.give_back()
            raise self._exhausted(route)

    def _attempt(
        self, route: Route, endpoint: Endpoint, turn: GrantPort | None = None
    ) -> RunningAttempt:
        return RunningAttempt(
            self._services, route.request, route.clearance.classification, route.decision,
            endpoint, route.log, turn,
        )  # fmt: skip

    async def _onprem_turn(self, route: Route) -> GrantPort | None:
        """A turn at one of the on-prem servers. None: there is none for this call, or it is to
        leave."""
        request, classification = route.request, route.clearance.classification
        servers = self._candidates.epoch(request.model).server_group(request)
        if (route.last is not None or route.losses) and not self._another_server(route, servers):
            route.onprem = False
            return None
        call = self._entry.call(request, classification.stays, route.clouds, route.avoid)
        with request.trace.stage("queue"):
            try:
                return await self._queues.enter(request, call, servers)
            except Spilled as spilled:
                route.leaves(spilled.why)
                return None
            except NoServer:
                route.onprem = False
                return None
            except Saturated:
                route.onprem = False
                raise
            except UpstreamError:  # of the connection to another gateway's queue
                route.onprem = False
                if route.clouds:
                    route.leaves("spill_unavailable")
                raise

    def _another_server(self, route: Route, servers: tuple[str, ...]) -> bool:
        """Whether one of them may still take a call that is not decided on just now."""
        request = route.request
        if route.last is not None:  # guard: D5.premises-retry
            route.avoid |= {n for n in servers if not self._worth_another(request, n)}
        return any(
            name not in route.avoid and not self._registry.refuses_call(name, request)
            for name in servers
        )

    async def _another_chance(self, route: Route) -> bool:
        """Whether a call that every endpoint has failed may go on, waited for."""
        # guard: A5.sole-endpoint minus 2
        return await self._room_in_time(route) or await self._recovered(route)

    async def _recovered(self, route: Route) -> bool:
        """Whether it is tried again where it failed for what may be over in a moment (A5)."""
        request, registry = route.request, self._registry
        # guard: A5.sequence-once minus 2
        if not 0 < route.sent < route.decision.tries or has_state(request):
            return False
        # guard: A5.ejected-retry without not registry.refuses_call(endpoint.name, request)
        pauses_s = {
            endpoint.name: max(
                pause_s(route.sent, error.retry_after_s), self._clouds.closed_s(endpoint.name)
            )
            for endpoint, error in route.transient
            if not registry.refuses_call(endpoint.name, request)
        }
        if not pauses_s:
            return False
        name = min(pauses_s, key=pauses_s.__getitem__)
        wait_s = pauses_s[name]
        usual_s = registry.model_state(name, request.model).times.usual_s
        # guard: A5.retry-after-bound
        if wait_s > LONGEST_PAUSE_S or not request.deadline.allows(wait_s + usual_s):
            return False
        if not self._retries.take():  # guard: A5.sole-permit
            return False
        route.paid = True
        await asyncio.sleep(wait_s)
        route.resume(self._catalog.endpoints[name])
        return True

    async def _room_in_time(self, route: Route) -> bool:
        """Whether a call that failed elsewhere goes on to a cloud that was full, having waited for
        a place there. One of which nothing was sent is decided on anew (`Pipeline`)."""
        # guard: A5.cloud-full-wait always
        if not route.full or not 0 < route.sent < route.decision.tries:
            return False
        full, route.full = route.full, ()
        if not await self._recovery.room_in_time(route.request, full):
            return False
        route.clouds.extend(self._catalog.endpoints[name] for name in full)
        return True

    async def _hedged(self, attempt: RunningAttempt, route: Route) -> RunningAttempt:
        others, clearance = route.clouds, route.clearance
        times = attempt.model_state.times
        if times.cold:  # guard: D6.hedge-estimate
            return await attempt.start()

        async def second() -> Coroutine[Any, Any, RunningAttempt] | None:
            endpoint = others[0]
            # guard: A7.hedge-zones -> allowed = True
            allowed = endpoint.zone in attempt.decision.zones
            # guard: D5.hedge-time minus 2
            if not (allowed and self._worth_another(attempt.request, endpoint.name)):
                return None
            if not endpoint.zone.onprem:
                try:
                    await clearance.to_leave(endpoint.zone)  # guard: A7.hedge-door
                except NotCleared:
                    return None
            # guard: A7.retry-budget minus 3
            # guard: A4.failed-hedge minus 1
            if attempt.finished or attempt.sent_s is None or not self._retries.take():
                return None  # it may have failed while the door was asked: what follows is no hedge
            others.popleft()
            route.sent += 1  # guard: A7.attempt-count
            return self._attempt(route, endpoint).start()

        late_s = max(times.slow_s, _LATE * times.usual_s)
        try:
            return await hedged(attempt.start(), late_s, second)
        except asyncio.CancelledError as exc:  # it may not even have begun
            left = DeferredError(exc)
        await attempt.aclose()  # guard: A2.departed-turn
        raise left.again()

    def _worth_another(self, request: InferenceRequest, name: str) -> bool:
        """No attempt starts that cannot finish (D5)."""
        p50_s = self._registry.model_state(name, request.model).times.usual_s
        return request.deadline.allows(p50_s)  # guard: D5.retry-time -> return True

    def _exhausted(self, route: Route) -> GatewayError:
        request, classification, last = route.request, route.clearance.classification, route.last
        # guard: A10.route-failure
        route.last = None  # or it had what is raised, whose traceback has it
        route.transient = ()  # guard: A10.route-transient
        sent = route.sent > 0
        if isinstance(last, UpstreamError) and last.transient:
            last.may_retry = route.sent < route.decision.tries  # guard: A5.client-retry
        if isinstance(last, ModelFailed):  # an answer, which calling again would not change
            return last
        if isinstance(last, CloudFull):
            last.sent = sent
        if isinstance(last, Saturated):  # the servers are well: the call came at a bad time
            return last
        if classification.stays:
            after_s = last.retry_after_s if isinstance(last, UpstreamError) else None
            refused = OnpremUnavailable(
                "this call must stay on the premises and no on-prem server could answer it",
                retry_after_s=after_s or self._recovery.retry_after_s(request.model),
            )
            refused.sent = sent
            return refused
        return last or NoEligibleEndpoint(
            "every endpoint that could take this call went out of service", retry_after_s=2.0
        )
