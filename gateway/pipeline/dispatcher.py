"""Attempts: try the decided endpoints in order until one starts to answer.

Before an endpoint's first frame another attempt may follow; after it, none (the commit point, A4).
Attempts share the call's one deadline, and the zones that they may touch never grow (M2).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol

from gateway.core.deadline import Clock
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import (
    AnswersFull,
    CloudFull,
    DeadlineExceeded,
    DeadlineUnmeetable,
    EgressForbidden,
    GatewayError,
    ModelFailed,
    NoEligibleEndpoint,
    OnpremUnavailable,
    OwnerLost,
    Saturated,
    SpillClosed,
    UpstreamError,
    UpstreamRefused,
)
from gateway.core.types import (
    CLOUD,
    ONPREM,
    Classification,
    Decision,
    Endpoint,
    InferenceRequest,
    Zone,
)
from gateway.endpoints.versions.parts import EndpointParts
from gateway.pipeline.attempt import AttemptLog, AttemptServices, GrantPort, RunningAttempt
from gateway.pipeline.hedging import has_no_effect, has_state, hedged
from gateway.pipeline.retries import LONGEST_PAUSE_S, RetryBudget, pause_s
from gateway.scheduling.calls import QueuedCall
from gateway.scheduling.queue import Grant, NoServer, Spilled
from gateway.scheduling.routing.policy import leaving, slow_ones

_LATE = 2.0  # times the median: where all calls take the same time, the 95th percentile is no news
_MOST_LOSSES = 3  # of gateways that die while they forward one call


class Clearance(Protocol):
    """What is known of a call's data, and the door at which the rest is found out."""

    @property
    def classification(self) -> Classification: ...

    async def to_leave(self) -> None:
        """Look for all that has not been looked for yet. Raises NotCleared if the call is
        restricted after all."""
        ...


class QueuesPort(Protocol):
    """Where calls wait for on-prem servers: here, or at the gateway that owns them."""

    def enter(
        self, request: InferenceRequest, call: QueuedCall, group: tuple[str, ...]
    ) -> Coroutine[Any, Any, GrantPort]:
        """A turn at one of the servers. Raises Spilled when the call is to leave, NoServer when
        none takes it, or the GatewayError that refuses it."""
        ...


class NotCleared(Exception):
    """A call that was about to leave may not. It has to be decided on anew."""


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
        self._catalog = parts.registry.catalog
        self._clouds = parts.clouds
        self._recovery = parts.recovery
        self._entry = parts.entry
        self._services = AttemptServices.from_parts(parts, clock)
        self._queues: QueuesPort = queues or parts.entry
        self._own_queues = queues is None
        self._clock = clock
        self._retries = retries or RetryBudget(clock)
        self._hedging = hedging

    async def send(
        self,
        request: InferenceRequest,
        clearance: Clearance,
        decision: Decision,
        log: AttemptLog,
    ) -> RunningAttempt:
        """The attempt whose answer has begun; whoever gets it must end it. Raises what the last
        attempt met; for a restricted call OnpremUnavailable, unless the queue was full or the model
        failed; or NotCleared before an attempt in the cloud that turns out not to be allowed.
        """
        self._retries.calls += 1
        first = decision.attempts[0]
        if first.zone not in decision.zones:  # guard: M3.dispatched-zone
            raise EgressForbidden(request.id)
        cloud = first.zone is CLOUD
        if self._hedging or request.trace.sampled or not (cloud or self._own_queues):
            with request.trace.stage("dispatch"):
                return await self._along(_Route(request, clearance, decision, log))
        # As most calls: it is sent to the cloud or to a server that is idle, which answers. Where
        # it may go else is thought of when it does not.
        turn: GrantPort | None = None
        if cloud:
            known = clearance.classification.complete
            await clearance.to_leave()
        else:
            known = False
            waiting: Grant | Coroutine[Any, Any, GrantPort] | None
            try:
                waiting = self._entry.ask(request, clearance.classification.restricted, decision)
            except NoServer:
                waiting = None
            if not isinstance(waiting, Grant):
                route = _Route(request, clearance, decision, log)
                route.in_line = waiting
                return await self._along(route)
            turn, first = waiting, self._catalog.endpoints[waiting.server]
        attempt = RunningAttempt(
            self._services, request, clearance.classification, decision, first, log, turn
        )
        try:
            return await attempt.start(just_decided=known)
        except GatewayError as exc:
            route = _Route(request, clearance, decision, log)
            if cloud:
                route.clouds.popleft()
            route.attempt = attempt
            if not route.goes_on(exc):
                raise
        return await self._along(route)

    async def _along(self, route: _Route) -> RunningAttempt:
        request, decision = route.request, route.decision
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
                    if zone is ONPREM:
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
                        await route.clearance.to_leave()
                    route.attempt = attempt = RunningAttempt(
                        self._services, request, route.clearance.classification, route.decision,
                        endpoint, route.log, turn,
                    )  # fmt: skip
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

    async def _onprem_turn(self, route: _Route) -> GrantPort | None:
        """A turn at one of the on-prem servers. None: there is none for this call, or it is to
        leave."""
        request, classification = route.request, route.clearance.classification
        if (in_line := route.in_line) is not None:
            route.in_line = None
            return await self._turn(in_line, route)
        servers = self._registry.candidates.server_group(request)
        if route.last is not None:  # guard: D5.premises-retry
            route.avoid |= {n for n in servers if not self._worth_another(request, n)}
        for name in servers:
            if name not in route.avoid and not self._registry.refuses_call(name, request):
                break
        else:
            route.onprem = False
            return None
        call = self._entry.call(request, classification.restricted, route.clouds, route.avoid)
        with request.trace.stage("queue"):
            return await self._turn(self._queues.enter(request, call, servers), route)

    async def _turn(
        self, entering: Coroutine[Any, Any, GrantPort], route: _Route
    ) -> GrantPort | None:
        try:
            return await entering
        except Spilled as spilled:
            route.leaves(spilled.why)
            return None
        except NoServer:
            route.onprem = False
            return None
        except Saturated:
            route.onprem = False
            raise
        except UpstreamError:  # of the way to another gateway's queue
            route.onprem = False
            if route.clouds:
                route.leaves("spill_unavailable")
            raise

    async def _another_chance(self, route: _Route) -> bool:
        """Whether a call that every endpoint has failed may go on, waited for."""
        # guard: A5.sole-endpoint minus 2
        return await self._room_in_time(route) or await self._recovered(route)

    async def _recovered(self, route: _Route) -> bool:
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

    async def _room_in_time(self, route: _Route) -> bool:
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

    async def _hedged(self, attempt: RunningAttempt, route: _Route) -> RunningAttempt:
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
            if endpoint.zone is CLOUD:
                try:
                    await clearance.to_leave()  # guard: A7.hedge-door
                except NotCleared:
                    return None
            # guard: A7.retry-budget minus 3
            # guard: A4.failed-hedge minus 1
            if attempt.finished or attempt.sent_s is None or not self._retries.take():
                return None  # it may have failed while the door was asked: what follows is no hedge
            others.popleft()
            route.sent += 1  # guard: A7.attempt-count
            return attempt.concurrent(endpoint, clearance.classification).start()

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

    def _exhausted(self, route: _Route) -> GatewayError:
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
        if classification.restricted:
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


class _Route:
    """Where a call has been, and where it may still go."""

    last: GatewayError | None = None
    onprem = False
    sent = 0
    paid = False  # for a second try that has not begun
    losses = 0
    attempt: RunningAttempt | None = None
    avoid: frozenset[str] = frozenset()  # servers
    full: tuple[str, ...] = ()  # places in the cloud that had no room for it
    in_line: Coroutine[Any, Any, GrantPort] | None = None  # it stands in the queue already
    transient: tuple[tuple[Endpoint, UpstreamError], ...] = ()  # failures that may soon be over

    def __init__(
        self,
        request: InferenceRequest,
        clearance: Clearance,
        decision: Decision,
        log: AttemptLog,
    ) -> None:
        self.request, self.clearance, self.decision, self.log = request, clearance, decision, log
        self.clouds: deque[Endpoint] = deque()
        for endpoint in decision.attempts:
            if endpoint.zone is CLOUD:
                self.clouds.append(endpoint)
            else:
                self.onprem = True
        if decision.vetoes:
            self.avoid = slow_ones(decision)

    @property
    def zone(self) -> Zone | None:
        """Where it goes next; None: nowhere."""
        # guard: A5.endpoint-limit minus 1
        if self.sent >= self.decision.tries or not (self.onprem or self.clouds):
            return None
        if self.onprem and (not self.clouds or self.decision.attempts[0].zone is ONPREM):
            return ONPREM
        return CLOUD

    @property
    def may_hedge(self) -> bool:
        """Whether one more may be tried beside one that is about to be sent the call."""
        # guard: A7.attempt-limit minus 2
        return bool(self.clouds) and self.sent + 2 <= self.decision.tries

    def goes_on(self, error: GatewayError) -> bool:
        """Whether it may go elsewhere after this."""
        if isinstance(error, OwnerLost):
            return self._again()
        if isinstance(error, DeadlineUnmeetable):
            self.onprem = False
            return self.last is not None
        # guard: A5.final-refusal UpstreamRefused | DeadlineExceeded -> DeadlineExceeded
        # guard: A9.no-failover -> if isinstance(error, UpstreamRefused | DeadlineExceeded):
        if isinstance(error, UpstreamRefused | DeadlineExceeded | AnswersFull):
            return False
        # guard: A5.failover UpstreamError | Saturated -> Saturated
        if not isinstance(error, UpstreamError | Saturated | SpillClosed):
            return False
        self._failed(error)
        return True

    def _again(self) -> bool:
        """The gateway died that had forwarded the call, which was no fault of the server: it goes
        there once more by the next owner. Not where a second time could count twice."""
        self.attempt = None
        self.losses += 1
        return not has_state(self.request) and self.losses <= _MOST_LOSSES

    def leaves(self, why: str) -> None:
        self.decision = leaving(self.decision, why)
        self.log.decided(self.decision)

    def _failed(self, error: GatewayError) -> None:
        # guard: A10.route-traceback
        error.__traceback__ = None  # of frames that have this route: they would hold each other
        attempt, self.attempt, self.last = self.attempt, None, error
        if attempt is not None:
            self.sent += attempt.sent_s is not None
            if isinstance(error, CloudFull):
                # guard: A5.cloud-first-wait -> self.full = () if self.onprem else
                #   (attempt.endpoint.name,)
                self.full += (attempt.endpoint.name,)
            if attempt.endpoint.zone is ONPREM:
                self.avoid |= {attempt.endpoint.name}
            if isinstance(error, UpstreamError) and error.transient:
                self.transient += ((attempt.endpoint, error),)

    def resume(self, endpoint: Endpoint) -> None:
        """It may be tried again, having failed for the moment."""
        self.transient = tuple(t for t in self.transient if t[0].name != endpoint.name)
        if endpoint.zone is CLOUD:
            self.clouds.append(endpoint)
        else:
            self.onprem = True
            self.avoid -= {endpoint.name}
