"""Every endpoint's state: what it serves, whether it can be trusted, how long it takes.

State changes in synchronous methods only; `prober.py` asks the endpoints in the background.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, Final

from gateway.accounting.metrics import Metrics
from gateway.accounting.pricing import tariff
from gateway.accounting.pricing.gputime import GpuTime
from gateway.accounting.spill import Reservation, SpillControl
from gateway.config import HealthSettings
from gateway.config.model_catalog import Catalog
from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    ModelDead,
    ModelFailed,
    NoEligibleEndpoint,
    UpstreamBusy,
    UpstreamError,
    UpstreamGivenUp,
    UpstreamSilent,
)
from gateway.core.types import (
    CLOUD,
    Classification,
    Decision,
    DocumentCall,
    Endpoint,
    EndpointSnapshot,
    InferenceRequest,
    ServedModel,
    Zone,
    endpoint_name,
)
from gateway.endpoints.candidates import CandidateIndex
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.connectors import Inspector
from gateway.endpoints.decision_cache import CachedDecision, may_stand
from gateway.endpoints.health.breaker import Breaker
from gateway.endpoints.health.model_health import ModelHealth
from gateway.endpoints.health.patience import give_up_s, idle_s, parting_s
from gateway.endpoints.health.recovery import Recovery
from gateway.endpoints.state import EndpointState, ModelState, refused_why, unavailable_why
from gateway.scheduling.calls import QueuedCall, SpillNow
from gateway.scheduling.queue import Grant, ModelQueue, QueueConditions, ServerNow, refusal
from gateway.scheduling.queues import (
    CloudCandidate,
    Execution,
    Groups,
    NewScheduler,
    Prior,
    Weights,
)
from gateway.scheduling.routing.estimate import ServiceTimes
from gateway.scheduling.routing.policy import Policy, leaving, slow_ones

log = logging.getLogger(__name__)

_NONE: Final[frozenset[str]] = frozenset()
_OVERTAKEN = 2  # windows of calls with a server, where some that are later were answered first
_FAIR, _FAIR_CLOUD = 4.0, 2.0  # times the 95th percentile of the answers' times
_SPREADS = 4.0  # from the median to the slowest answers
_RECHECK_S = 0.5  # what was expected to be back soon may not be any more


class _Usual:
    """What is told of a server that is well, while all that it is made of stays the same."""

    __slots__ = ("revision", "server")

    def __init__(self, server: ServerNow, revision: int) -> None:
        self.server, self.revision = server, revision


class _QueueLayout:
    """Where a model's documents wait for servers on the premises, while its servers are the same
    and say the same of themselves."""

    __slots__ = ("group", "revision", "servers")

    def __init__(self, group: ModelQueue, revision: int, changes: int) -> None:
        self.group, self.revision, self.servers = group, revision, changes


class Fleet:
    def __init__(
        self,
        catalog: Catalog,
        places: dict[str, EndpointState],
        metrics: Metrics,
        clock: Clock,
        weights: Weights,
        scheduler: NewScheduler,
        spill: SpillControl | None = None,
        health: HealthSettings | None = None,
    ) -> None:
        self.health = health or HealthSettings()
        self.recovery = Recovery(self.health)
        self._catalog = catalog
        self.places = places
        self.groups = Groups(
            weights,
            scheduler,
            lambda name: places[name].settings.expected_ms / 1000,
            self._declared,
            self.around,
            clock,
            self._measured,
        )
        self.room_elsewhere: Callable[[str], float] = lambda model: 0
        """For a model, what the doors of gateways take that forward their calls to this one."""
        self._metrics = metrics
        self._clock = clock
        self._spill = spill or SpillControl.unlimited(clock)
        self.ways = CandidateIndex(catalog, places, self.lane)
        self._standing: dict[str, CachedDecision] = {}  # by model, of calls that may leave
        self._staying: dict[str, CachedDecision] = {}  # of those that may not
        self._reported: dict[tuple[str, str], ServerNow] = {}  # as last told
        self._usual: dict[tuple[str, str], _Usual] = {}
        self._queues: dict[str, _QueueLayout] = {}  # by model
        self.siblings: list[Fleet] = []
        """Those of other settings whose calls have not ended: they use the same servers."""
        self.clouds = Clouds(places, self.lane, clock, self._calls_elsewhere, self.siblings)
        self.takes_another: Callable[[str, str], bool] = self.clouds.takes_another
        """Whether an endpoint in the cloud has room for a call of a model."""
        for name, place in places.items():
            if place.lanes.new is None:
                place.lanes.new = partial(self._new_lane, place)
            if place.settings.zone is Zone.ONPREM and place.gpu_time is None:
                first = places[endpoint_name(name)]  # all places of an endpoint are on its GPUs
                place.gpu_time = first.gpu_time or GpuTime(clock)

    # What the decision reads

    def decide(
        self, request: InferenceRequest, classification: Classification, policy: Policy
    ) -> Decision:
        """What the policy makes of the states of now. Raises what it does."""
        model, changes = request.model, self._catalog.changes
        # guard: O3.leave-kind -> known = self._standing
        known = self._staying if classification.restricted else self._standing
        standing = known.get(model)
        alike = self.ways.for_model(model).serves_alike(request)
        if standing is not None and alike:  # guard: S10.standing-needs minus 2
            decision = standing.lookup(request, classification, policy, changes, self._clock())
            if decision is not None:
                return decision
        states = self.snapshot(request, classification.restricted)
        decision = policy.decide(request, classification, states)
        if alike and may_stand(request, classification, policy, decision, states):
            known[model] = CachedDecision(
                request, classification.restricted, policy, decision,
                self.ways.for_model(model).all, changes, self.siblings, self._spill, self._onprem_s,
            )  # fmt: skip
        return decision

    def snapshot(self, request: InferenceRequest, restricted: bool) -> tuple[EndpointSnapshot, ...]:
        """The state of every endpoint that may serve the request's model."""
        model, now_s = request.model, self._clock()
        onprem: tuple[float, int] | None = None  # its predicted seconds, and how many wait
        closed: str | None = None
        states = []
        ways = self.ways.for_model(model)
        for candidate in ways.all:
            place, lane = candidate.place, candidate.lane
            times, back_in_s = lane.times, None
            if lane.suspects:
                lane.suspects.forget_old()
            # guard: B2.cloud-only-closure -> why = refused_why(place, lane, request.tenant) or
            #   self._spill.closed(request.tenant)
            why = refused_why(place, lane, request.tenant)
            if candidate.onprem:
                if onprem is None:  # all of them have one queue
                    able = bool(self.server_group(request))  # else none of them may have it
                    onprem = times.usual_s, 0
                    if able:
                        onprem = self._onprem_s(request, now_s), self._group(request).waiting
                predicted_s, waiting = onprem
                room, batch = True, self.groups.execution(model, candidate.name).together
            else:
                if closed is None:
                    closed = self._spill.closed(request.tenant)
                why = why or closed  # guard: S5.cloud-closed
                predicted_s = times.slow_s
                room, waiting, batch = self.clouds.takes_another(candidate.name, model), 0, 1
            if why:
                back_in_s = place.back_in_s()
                if back_in_s or lane.breaker.open_until_s:
                    out_s = lane.health.out_for_s() if place.up else None
                    back_in_s = self.recovery.sure_s(back_in_s or out_s)
                elif lane.suspects.suspended:
                    out_s = lane.suspects.out_for_s(request.tenant)
                    back_in_s = self.recovery.sure_s(out_s) if out_s else None
            # guard: S3.stale-notice place.statistics is not None and place.statistics.stale ->
            #   False
            # guard: S3.own-count lane.in_flight -> 0
            states.append(EndpointSnapshot(
                endpoint=candidate.endpoint,
                served=candidate.served,
                available=not why,
                unavailable_why=why,
                predicted_s=predicted_s,
                p50_s=times.usual_s,
                waiting=waiting,
                in_flight=lane.in_flight,
                batch=batch,
                room=room,
                cold=times.cold_at(now_s),
                slow=lane.health.slow_since_s is not None,
                back_in_s=back_in_s,
                stale=place.statistics is not None and place.statistics.stale,
                price_usd=candidate.price_usd,
            ))  # fmt: skip
        return tuple(states)

    def drain(self, name: str, drained: bool) -> None:
        """Whether an endpoint, with its further places, gets no new calls. Those that it has
        finish; those that wait for it are told at once, as when it goes down."""
        some = {place for place in self.places if name in (place, endpoint_name(place))}
        for place in some:
            self.places[place].drained = drained
        for (_, servers), group in tuple(self.groups):
            if not some.isdisjoint(servers):
                group.refresh()  # guard: P3.waiter-refusal

    def lane(self, name: str, model: str) -> ModelState:
        return self.places[name].lanes[model]

    def _new_lane(self, place: EndpointState) -> ModelState:
        h = self.health
        breaker = Breaker(self._clock, dwell_s=h.dwell_s, dwell_max_s=h.dwell_max_s)
        health = ModelHealth(self._clock, h, breaker)
        times = ServiceTimes(place.settings.expected_ms / 1000, self._clock)
        return ModelState(breaker, times, ServiceTimes(0.0, self._clock), health)

    # The queues

    def learnt(self, name: str, model: str, execution: Execution) -> None:
        """What a server says of how it executes a model."""
        self.groups.learn(model, name, execution)

    def _measured(self, model: str, server: str) -> Prior | None:
        served = self._catalog.endpoints[server].models.get(model)
        return None if served is None else self.places[server].measured.get(served.model)

    def _declared(self, model: str, name: str) -> Execution:
        """What the settings say of how an on-prem server executes a model's calls."""
        model_settings, place = self._catalog.find(model), self.places[name].settings
        if place.kind == "openai":  # batches of its own making, as wide as the settings allow
            return Execution(rows=max(1, place.max_in_flight // 2), one_by_one=True)
        shares = place.kind == "triton" if place.shares_gpu is None else place.shares_gpu
        return Execution(model_settings.max_batch, 1, model_settings.task == "generate", shares)

    def server_group(self, request: InferenceRequest) -> tuple[str, ...]:
        """The on-prem servers that may serve the call, up or not: those it queues for."""
        return self.ways.for_model(request.model).server_group(request)

    def call(
        self, request: InferenceRequest, restricted: bool, clouds: Collection[Endpoint],
        avoid: frozenset[str] = frozenset(),
    ) -> QueuedCall:  # fmt: skip
        candidates = () if restricted else self._cloud_candidates(request.model, clouds)
        return self.groups.call(request, restricted, candidates, avoid)

    def _cloud_candidates(
        self, model: str, clouds: Collection[Endpoint]
    ) -> Sequence[CloudCandidate]:
        if not clouds:
            return ()
        prices_usd = self.ways.for_model(model).prices_usd
        return [CloudCandidate(endpoint.name, prices_usd[endpoint.name]) for endpoint in clouds]

    async def enter(
        self, request: InferenceRequest, call: QueuedCall, group: tuple[str, ...]
    ) -> Grant:
        """A turn at one of the group's servers. Raises what `ModelQueue.enter` does."""
        self.groups.entered(request.model, call)
        turn = await self.groups.queue(request.model, group).enter(call, request.deadline)
        self._queued(turn, request.model)
        return turn

    def ask(
        self, request: InferenceRequest, restricted: bool, decision: Decision
    ) -> Grant | Coroutine[Any, Any, Grant]:
        """The same for a call that was decided on in this step, whose turn may be there at once;
        else what waits for it, to be awaited. Raises NoServer."""
        model, attempts = request.model, decision.attempts
        clouds: Sequence[Endpoint] = ()
        if len(attempts) > 1 and not restricted:
            clouds = [endpoint for endpoint in attempts if endpoint.zone is CLOUD]
        avoid = slow_ones(decision) if decision.vetoes else _NONE
        call = self.groups.call(request, restricted, self._cloud_candidates(model, clouds), avoid)
        turn = self._group(request).ask(call, request.deadline)
        self.groups.entered(model, call)
        if isinstance(turn, Grant):
            self._queued(turn, model)
            return turn
        return self._in_line(turn, model)

    async def _in_line(self, waits: Coroutine[Any, Any, Grant], model: str) -> Grant:
        turn = await waits
        self._queued(turn, model)
        return turn

    def _queued(self, turn: Grant, model: str) -> None:
        self._metrics.queued_seconds.labels(turn.server, model).observe(turn.queued_s)

    def foresee(self, request: InferenceRequest, restricted: bool, decision: Decision) -> Decision:
        """What the queue would make of a decision at once, were the call sent now. Raises what
        the call would be refused with."""
        if decision.attempts[0].zone is not Zone.ONPREM:
            return decision
        clouds = [e for e in decision.attempts if e.zone is Zone.CLOUD]
        call = self.call(request, restricted, clouds, slow_ones(decision))
        action = self.groups.queue(request.model, self.server_group(request)).would(call)
        if action is None:
            return decision
        if isinstance(action, SpillNow):
            return leaving(decision, action.why)
        raise refusal(action)

    def endpoint(self, name: str) -> Endpoint:
        return self._catalog.endpoints[name]

    def around(self, model: str, servers: Sequence[str]) -> QueueConditions:
        now = []
        for name in servers:
            now.append(self._server_now(name, model))
        return QueueConditions(now, self.own_cloud_room(model) + self.room_elsewhere(model))

    def own_cloud_room(self, model: str) -> int:
        """Calls that this gateway's doors to the cloud take now."""
        clouds = self.ways.for_model(model).cloud_names
        if not clouds or self._spill.closed(""):
            return 0
        room = 0
        for name in clouds:
            room += self.clouds.room(name, model)
        return room

    def _server_now(self, name: str, model: str) -> ServerNow:
        place, changes = self.places[name], self.groups.changes
        lane, usual = place.lanes[model], self._usual.get((name, model))
        well = (
            place.up
            and not place.drained
            and not lane.breaker.open_until_s
            and not lane.health.slow_start.going
            and not self.siblings
        )
        if well and usual is not None and usual.revision == changes:
            return usual.server
        window = self.groups.window(model, name)
        # guard: S2.server-limit -> most = float(_OVERTAKEN * window)
        most = float(min(place.settings.max_in_flight, _OVERTAKEN * window))
        share = lane.health.slow_start.share()
        if not lane.breaker.closed:
            most = 1.0  # the probe of a half-open breaker
        elif share < 1.0:
            most = min(most, float(lane.health.slow_start.limit(window)))
        if self.siblings and (others := self._queued_elsewhere(name, model)):
            most = max(0.0, min(most, float(window)) - others)  # guard: O2.queue-carryover
        up, last = not unavailable_why(place, lane), self._reported.get((name, model))
        if last is None or last.up is not up or last.most != most:
            last = self._reported[name, model] = ServerNow(name, up, most)
        if well:
            self._usual[name, model] = _Usual(last, changes)
        return last

    # Beside settings of before

    def follow(self, before: Fleet, same_queues: bool) -> None:
        """Takes the place of a fleet whose calls go on: what both have they share, and what only
        the servers are the same of is counted together (S2)."""
        self.clouds.line = before.clouds.line
        for name, place in self.places.items():
            was = before.places.get(name) or before.places.get(endpoint_name(name))
            if was is not None and was is not place:
                place.drained = was.drained  # guard: O2.drain-carryover
        both = frozenset(n for n, p in self.places.items() if before.places.get(n) is p)
        for name in both:
            place = self.places[name]
            place.lanes.new = partial(self._new_lane, place)
        queues = frozenset(
            m for m in self._catalog.models
            if self._queues_for(m) == before._queues_for(m) and both.issuperset(self._queues_for(m))
        )  # fmt: skip
        self.groups.take_over(before.groups, both, queues if same_queues else frozenset())
        self._usual.clear()
        self._queues.clear()
        self.siblings[:] = [before, *before.siblings]
        for other in self.siblings:
            other.siblings.append(self)

    def part(self) -> None:
        """No call of these settings is left."""
        for other in self.siblings:
            other.siblings.remove(self)
        self.siblings.clear()

    def _queues_for(self, model: str) -> tuple[str, ...]:
        model_settings = self._catalog.models.get(model)
        names = () if model_settings is None else model_settings.endpoints
        return tuple(n for n in names if self.places[n].settings.zone is Zone.ONPREM)

    def _calls_elsewhere(self, name: str) -> int:
        if not self.siblings:
            return 0
        at = self.places[name].address(name)
        own = {id(place) for place in self.places.values()}
        others = {
            id(p): p.in_flight
            for fleet in self.siblings
            for n, p in fleet.places.items()
            if id(p) not in own and p.address(n) == at
        }
        return sum(others.values())

    def _queued_elsewhere(self, name: str, model: str) -> int:
        """Calls that queues which are not ours have with the same model of the same server."""
        known = {id(group) for _, group in self.groups}
        what, count = self._executed(name, model), 0
        for fleet in self.siblings:
            for (its, servers), group in fleet.groups:
                if id(group) in known:
                    continue
                known.add(id(group))
                at = (n for n in servers if fleet._executed(n, its) == what)
                count += sum(group.scheduling.in_flight(n) for n in at)
        return count

    def _executed(self, name: str, model: str) -> tuple[str, str]:
        served = self._catalog.endpoints[name].models.get(model)
        return self.places[name].address(name), model if served is None else served.model

    def cloud_room(self, name: str, model: str) -> int:
        return 0 if self._spill.closed("") else self.clouds.room(name, model)

    def cloud_capacity(self, model: str) -> dict[str, int]:
        """Calls that each endpoint in the cloud would take now if it had none."""
        closed = bool(self._spill.closed(""))
        names = (n for n in self._catalog.find(model).endpoints if n in self.clouds)
        return {name: 0 if closed else self.clouds.capacity(name, model) for name in names}

    def _onprem_s(self, request: InferenceRequest, now_s: float) -> float:
        """Seconds to the whole answer were it queued now."""
        size, deadline_s = self.groups.size(request), request.deadline.at_s
        return self._group(request).scheduling.completion_s(size, deadline_s, now_s)

    def _group(self, request: InferenceRequest) -> ModelQueue:
        """The queue that it would stand in."""
        model = request.model
        if type(request.payload) is not DocumentCall or not self.ways.for_model(model).serves_alike(
            request
        ):
            return self.groups.queue(model, self.server_group(request))
        revision, changes, layout = (
            self._catalog.changes,
            self.groups.changes,
            self._queues.get(model),
        )
        if layout is None or layout.revision != revision or layout.servers != changes:
            group = self.groups.queue(model, self.server_group(request))
            layout = self._queues[model] = _QueueLayout(group, revision, changes)
        return layout.group

    # What dispatch tells

    def place(self, name: str) -> EndpointState:
        return self.places[name]

    def give_up_s(self, endpoint: Endpoint, request: InferenceRequest) -> float:
        """How long one try there may wait for its answer to begin, whatever the deadline."""
        lane = self.places[endpoint.name].lanes[request.model]
        return give_up_s(lane.times, self.health, request)

    def next_frame_s(self, endpoint: Endpoint, model: str) -> float:
        """How long a stream from there may be silent, whatever the deadline."""
        gap_s = self.lane(endpoint.name, model).gap_s
        if self.went_out(endpoint, model):  # guard: P3.silent-stream self.went_out -> self.refuses
            return parting_s(gap_s)
        return idle_s(gap_s, self.health)

    def refuses(self, endpoint: Endpoint, model: str) -> str:
        """Why no call at all may go there now; empty when one may."""
        place = self.places[endpoint.name]
        return unavailable_why(place, place.lanes[model])

    def refuses_call(self, endpoint: Endpoint, request: InferenceRequest) -> str:
        """Why the call may not go there now; empty when it may."""
        place = self.places[endpoint.name]
        return refused_why(place, place.lanes[request.model], request.tenant)

    def went_out(self, endpoint: Endpoint, model: str) -> str:
        """Why a call that is there waits in vain; empty when it does not. One that is drained
        finishes what it has."""
        why = self.refuses(endpoint, model)
        return "" if why == "drained" else why

    def reserve(self, request: InferenceRequest, served: ServedModel) -> Reservation:
        """Money for an attempt in the cloud, as much as it can cost. Raises SpillClosed."""
        spill = self._spill
        if not spill.budgets.limited:
            return spill.reserve(request.tenant, 0)
        # guard: B1.cost-reserve -> return spill.reserve(request.tenant, 0)
        return spill.reserve(request.tenant, tariff.at_most(request, served))

    def lease(self, reserved: Reservation, deadline: Deadline) -> Awaitable[None]:
        """What of it the ledger has to be asked for. Raises SpillClosed."""
        return self._spill.lease(reserved, deadline)

    def cheapest_cloud(self, model: str) -> ServedModel | None:
        """What a call would be priced by in the cloud; None where the cloud has no such model."""
        return self.ways.for_model(model).cheapest_cloud

    def started(self, endpoint: Endpoint, model: str, tenant: str = "") -> int:
        """Returns the epoch with which the call's end must be told."""
        place = self.places[endpoint.name]
        lane = place.lanes[model]
        if lane.suspects:
            lane.suspects.starts(tenant)
        lane.in_flight += 1
        place.in_flight += 1
        breaker = lane.breaker
        if breaker.open_until_s:
            return breaker.starts(self.health.response_floor_ms / 1000)
        return breaker.epoch

    def ended(self, endpoint: Endpoint, model: str) -> None:
        place = self.places[endpoint.name]
        lane = place.lanes[model]
        lane.in_flight -= 1
        place.in_flight -= 1
        if self.clouds.line.waiting and endpoint.name in self.clouds:
            self.clouds.offer(endpoint.name)

    def succeeded(
        self, endpoint: Endpoint, request: InferenceRequest, epoch: int, took_s: float
    ) -> None:
        name, model = endpoint.name, request.model
        place = self.places[name]
        lane = place.lanes[model]
        breaker, times, limit = lane.breaker, lane.times, place.room
        was_out = breaker.open_until_s
        breaker.succeeded(epoch)
        if was_out and breaker.closed:  # the probe of a half-open breaker
            self.returned(name, model)
        if lane.suspects:
            lane.suspects.succeeded(request.tenant)
        lane.health.served(took_s, times)
        times.observe(took_s)
        if limit is not None:  # in the cloud
            limit.in_time += 1.0
            if 2 * place.in_flight >= limit.limit:  # fewer prove nothing
                limit.answered(place.in_flight)
            self.groups.cloud_answered(name, request, took_s)
        self._metrics.attempt_seconds.labels(name, model).observe(took_s)

    def abandoned(self, endpoint: Endpoint, model: str, epoch: int, tenant: str = "") -> None:
        lane = self.lane(endpoint.name, model)
        if lane.suspects:
            lane.suspects.abandoned(tenant)
        breaker = lane.breaker
        breaker.abandoned(epoch)
        if not breaker.closed and breaker.admits():  # the next call may be the probe
            self.recovery.notify(model, back=True)

    def failed(
        self, endpoint: Endpoint, model: str, epoch: int, error: GatewayError, sent_s: float,
        request: InferenceRequest | None = None,
    ) -> None:  # fmt: skip
        """Count a failure that is the endpoint's; its 429 is not, nor is a model's failure on one
        call, nor what `request` alone may have provoked: whoever sends nonsense three times must
        not take the model from everybody."""
        name = endpoint.name
        lane, place = self.lane(name, model), self.places[name]
        self._slow_down(name, error, sent_s)
        if isinstance(error, ModelFailed):  # a canary will tell whose fault it is
            lane.health.model_failed()
        gray = isinstance(error, ModelDead)
        silent = isinstance(error, UpstreamSilent) and lane.health.silent_since(sent_s)
        # guard: A6.connect-failure minus 3
        everybodys = gray or silent or (isinstance(error, UpstreamError) and error.any_call)
        if isinstance(error, UpstreamBusy | UpstreamGivenUp | ModelFailed):
            self.abandoned(endpoint, model, epoch, "" if request is None else request.tenant)
            return
        if not everybodys and request is not None:  # guard: A6.caller-failures
            if not self._several(name, lane, request, sent_s):
                self.abandoned(endpoint, model, epoch)
                return
            lane.suspects.forget()
            silent = True  # no more than that is needed
        if lane.health.failed(epoch, at_once=gray or silent):
            self.ejected(name, model, error.reason)
        elif not lane.breaker.closed:
            self.still_out(model)
        if gray and place.on_gray is not None:
            place.on_gray(f"{model} fails every inference")

    def _several(
        self, name: str, lane: ModelState, request: InferenceRequest, sent_s: float
    ) -> bool:
        """Whether several callers met such failures. Of one alone a canary finds out whose fault
        they are, where there is one; else the endpoint is out for that caller."""
        suspects, before = lane.suspects, lane.suspects.suspended
        half_open = not lane.breaker.closed
        if lane.health.proven and not half_open:
            lane.health.model_failed()
            return suspects.met(request, sent_s)
        several = suspects.failed(request, sent_s, few=half_open)
        if suspects.suspended > before and not several:
            self._metrics.endpoint_ejections.labels(name).inc()
            log.warning(
                "%s: ejected for %s and the one caller who met failures", name, request.model
            )
        return several

    def outlasted(self, endpoint: Endpoint, request: InferenceRequest, waited_s: float) -> None:
        """The call's budget ran out: an answer would have taken longer."""
        name = endpoint.name
        times = self.lane(name, request.model).times
        if waited_s > times.usual_s and name in self.clouds:
            self.groups.cloud_answered(name, request, waited_s)
        times.outlasted(waited_s)

    def fairly_late(self, endpoint: Endpoint, model: str, sent_s: float) -> bool:
        """Whether a deadline that has passed says something of the endpoint: it left many times
        what its answers usually take, which is known, and on the premises nobody else was answered
        meanwhile: who is asked too much answers some. In the cloud, where no canary looks and
        budgets are rarely so long, twice that will do, or more than its slowest answers spread if
        nobody else was answered meanwhile either."""
        lane, took_s = self.lane(endpoint.name, model), self._clock() - sent_s
        least, known_s = self.health.least_sample, lane.times.known_s
        slow_s = known_s(0.95, least)
        if endpoint.zone is Zone.ONPREM:
            return took_s >= _FAIR * slow_s and lane.health.silent_since(sent_s)
        usual_s, high_s = known_s(0.5, least), known_s(0.99, least)
        # guard: A6.deadline-evidence
        if high_s == math.inf or took_s < usual_s + _SPREADS * (high_s - usual_s):
            return False
        return took_s >= _FAIR_CLOUD * slow_s or lane.health.silent_since(sent_s)

    def ejected(self, name: str, model: str, why: str) -> None:
        self._metrics.endpoint_ejections.labels(name).inc()
        log.warning("%s: ejected for %s after %s", name, model, why)

    def returned(self, name: str, model: str) -> None:
        lane = self.lane(name, model)
        lane.suspects.forget()
        lane.health.slow_start.begin()
        lane.times.forget_over(lane.health.slow_s(lane.times.usual_s))  # guard: A6.slow-spell-end
        if name in self.clouds:
            self.clouds.limit(name).restart()
            self.clouds.offer(name)
        self._metrics.endpoint_returns.labels(name).inc()
        log.info("%s: back for %s", name, model)
        self.recovery.notify(model, back=True)

    def still_out(self, model: str) -> None:
        """What could have brought it back did not: who hoped for that alone is told."""
        if self.back_in_s(model) is None:
            self.recovery.notify(model, back=False)

    def became_slow(self, name: str, model: str) -> None:
        """Its clear calls go elsewhere where there is an elsewhere, those that wait included."""
        log.warning("%s: slow for %s; it is left to calls with no other place", name, model)
        self.groups.shun(model, name)
        # guard: A4.slow-model minus 3
        self.places[name].give_up_waiting(
            lambda w: w.model == model and not w.restricted and not w.begun
        )

    def back_in_s(self, model: str) -> float | None:
        """When an on-prem server of this model is expected to be back; None: nobody knows."""
        times_s = (self._back_in_s(place, lane) for place, lane in self._onprem(model))
        return min((s for s in times_s if s is not None), default=None)

    def _onprem(self, model: str) -> Iterator[tuple[EndpointState, ModelState]]:
        for name in self._catalog.find(model).endpoints:
            if self.places[name].settings.zone is Zone.ONPREM:
                yield self.places[name], self.lane(name, model)

    @staticmethod
    def _back_in_s(place: EndpointState, lane: ModelState) -> float | None:
        back_s = lane.health.back_in_s(lane.times.usual_s) if place.up else None
        return place.back_in_s() if back_s is None else back_s

    def retry_after_s(self, model: str) -> float:
        return self.recovery.retry_after_s(self.back_in_s(model))

    def worth_waiting(self, request: InferenceRequest) -> bool:
        """Whether an on-prem server that is out is likely to be back in time for the call."""
        back_in_s, need_s = self.back_in_s(request.model), self._need_s(request.model)
        return self.recovery.worthwhile(back_in_s, need_s, request.deadline)

    def _need_s(self, model: str) -> float:
        places = self._catalog.find(model).endpoints
        return min(self.lane(name, model).times.usual_s for name in places)

    async def back_in_time(self, request: InferenceRequest) -> bool:
        """Wait for an on-prem server that restarts, or for the canary of one that is up again,
        where that is likely to be in time."""
        if not self.worth_waiting(request):
            return False
        need_s = self._need_s(request.model)
        # guard: D1.recovery-wait -> most_s = 100000.0
        most_s = min(self.health.restart_wait_s, request.deadline.remaining_s() - need_s)
        until_s, back = self._clock() + most_s, False
        # guard: A1.expired-hope minus 3
        while not back and self._clock() < until_s and self.back_in_s(request.model) is not None:
            left_s = until_s - self._clock()
            back = await self.recovery.wait(request.model, min(left_s, _RECHECK_S)) or any(
                not unavailable_why(*each) for each in self._onprem(request.model)
            )  # in the step in which the wait ended
        self._metrics.recovery_waits.labels("back" if back else "late").inc()
        return back

    async def room_in_time(self, request: InferenceRequest, endpoints: Sequence[str]) -> bool:
        """Whether one of these in the cloud has room, or a server here is back, waited for if it
        is likely to be in time."""
        pairs = [(place, lane) for place, lane in self._onprem(request.model)]
        was_out = all(unavailable_why(*each) for each in pairs)

        def otherwise() -> bool:
            return was_out and any(not unavailable_why(*each) for each in pairs)

        opened = await self.clouds.room_in_time(request, endpoints, otherwise)
        self._metrics.cloud_waits.labels("room" if opened else "late").inc()
        return opened

    def _slow_down(self, name: str, error: GatewayError, sent_s: float) -> None:
        if name not in self.clouds:
            return
        limit, in_flight = self.clouds.limit(name), self.places[name].in_flight
        if isinstance(error, UpstreamBusy):
            limit.refused(sent_s, in_flight, error.retry_after_s)
        elif isinstance(error, DeadlineExceeded):
            limit.late(sent_s, in_flight)

    # Readiness and inspection

    def ready(self) -> bool:
        """Whether an endpoint is up that clear calls may go to, wherever it is."""
        # guard: O8.cloud-up minus 2
        # guard: O8.cloud-closed minus 3
        return self.onprem_up() or (self._spill.open and self._any_up(Zone.CLOUD))

    def onprem_up(self) -> bool:
        """Whether restricted calls have a place."""
        return self._any_up(Zone.ONPREM)

    def _any_up(self, zone: Zone) -> bool:
        # guard: O8.drained-endpoint minus 2
        return any(p.up and not p.drained for p in self.places.values() if p.settings.zone is zone)

    def model_ready(self, model: str) -> bool:
        return any(
            not unavailable_why(self.places[name], self.lane(name, model))
            for name in self._catalog.find(model).endpoints
            if self._spill.open or self.places[name].settings.zone is Zone.ONPREM
        )

    def server_inspector(self) -> Inspector:
        for place in self.places.values():
            if place.inspector and place.up and place.settings.zone is Zone.ONPREM:
                return place.inspector
        raise NoEligibleEndpoint("no on-prem inference server is up", retry_after_s=2.0)

    def model_inspector(self, model: str) -> tuple[Inspector, str]:
        entry = self._catalog.find(model)
        names = sorted(
            entry.endpoints, key=lambda n: self.places[n].settings.zone is not Zone.ONPREM
        )
        for name in names:
            place = self.places[name]
            if place.inspector and place.up:
                return place.inspector, self._catalog.endpoints[name].models[model].model
        raise NoEligibleEndpoint("no server of this model is up", retry_after_s=2.0)

    def assume_up(self) -> None:
        for place in self.places.values():
            place.up = True

    async def aclose(self, others: Sequence[Fleet] | None = None) -> None:
        """All but what the others have, too: unless said, those beside it. One that never followed
        has its places from them all the same."""
        others = tuple(self.siblings) if others is None else others
        self.part()
        self.groups.close([other.groups for other in others])
        shared = {id(place) for other in others for place in other.places.values()}
        for place in self.places.values():
            if id(place) not in shared:  # guard: O2.shared-connections always
                await place.connector.aclose()
