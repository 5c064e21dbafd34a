"""Every endpoint's state: what it serves, whether it can be trusted, how long it takes.

State changes in synchronous methods only; `watch.py` asks the endpoints in the background.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gateway.accounting.metrics import Metrics
from gateway.backends import CloudBackend, Inspector, OnPremBackend, Probed
from gateway.breaker import Breaker
from gateway.catalog import Catalog
from gateway.config import EndpointSettings, QueueSettings
from gateway.deadline import Clock
from gateway.errors import GatewayError, ModelDead, ModelFailed, NoEligibleEndpoint, UpstreamBusy
from gateway.queue import OnPremQueue
from gateway.routing.estimate import ServiceTimes, completion_s
from gateway.types import Endpoint, EndpointState, InferenceRequest, ServedModel, Zone

log = logging.getLogger(__name__)

_EXPECTED_TOKENS = 500  # of a generation, until its answer says; only ranks endpoints by price


@dataclass(slots=True)
class Lane:
    """One model on one endpoint."""

    breaker: Breaker
    times: ServiceTimes
    queue: OnPremQueue | None  # on-prem only
    in_flight: int = 0


@dataclass(slots=True)
class Place:
    """One endpoint with its door."""

    settings: EndpointSettings
    connector: Probed  # its doors alone can send calls through it
    onprem: OnPremBackend | None
    cloud: CloudBackend | None
    inspector: Inspector | None
    up: bool = False
    in_flight: int = 0
    lanes: dict[str, Lane] = field(default_factory=dict)
    on_gray: Callable[[str], None] | None = None  # asks the embedded server's keeper to restart it
    batch_of: dict[str, int] = field(default_factory=dict)
    limits: set[asyncio.Timeout] = field(default_factory=set)  # of those who wait for an answer

    def learn_batch(self, model: str, batch: int) -> None:
        """What the server says of a model, also when calls were queued for it before."""
        self.batch_of[model] = batch
        lane = self.lanes.get(model)
        if lane is not None and lane.queue is not None:
            lane.queue.widen(batch)

    def give_up_waiting(self) -> None:
        """A frozen server keeps its connections open: who waits for it is told at once."""
        now_s = asyncio.get_running_loop().time()
        for limit in self.limits:
            limit.reschedule(now_s)


class Fleet:
    def __init__(
        self,
        catalog: Catalog,
        places: dict[str, Place],
        queue: QueueSettings,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._catalog = catalog
        self.places = places
        self._queue_settings = queue
        self._metrics = metrics
        self._clock = clock

    # What the decision reads

    def snapshot(self, request: InferenceRequest, restricted: bool) -> tuple[EndpointState, ...]:
        """The state of every endpoint that may serve the request's model."""
        model = self._catalog.find(request.model)
        return tuple(self._state(name, request, restricted) for name in model.endpoints)

    def _state(self, name: str, request: InferenceRequest, restricted: bool) -> EndpointState:
        place, lane = self.places[name], self.lane(name, request.model)
        endpoint = self._catalog.endpoints[name]
        served = endpoint.models[request.model]
        why = self._unavailable_why(place, lane)
        p50_s = lane.times.quantile_s(0.5)
        if lane.queue is not None:
            key = lane.queue.key(request, restricted)
            ahead = lane.queue.ahead(key)
            predicted_s = completion_s(max(p50_s, lane.times.quantile_s(0.75)), ahead,
                                       lane.queue.window)  # fmt: skip
            room, waiting, batch = lane.queue.room, lane.queue.waiting, lane.queue.batch
        else:
            predicted_s = lane.times.quantile_s(0.95)
            room, waiting, batch = place.in_flight < place.settings.max_in_flight, 0, 1
        return EndpointState(
            endpoint=endpoint,
            served=served,
            available=not why,
            unavailable_why=why,
            predicted_s=predicted_s,
            p50_s=p50_s,
            waiting=waiting,
            in_flight=lane.in_flight,
            batch=batch,
            room=room,
            cold=lane.times.cold,
            price_usd=price_usd(served, None),
        )

    def _unavailable_why(self, place: Place, lane: Lane) -> str:
        if not place.up:
            return "down"
        return "" if lane.breaker.admits() else "ejected"

    def lane(self, name: str, model: str) -> Lane:
        place = self.places[name]
        found = place.lanes.get(model)
        if found is None:
            found = place.lanes[model] = self._new_lane(name, place, model)
        return found

    def _new_lane(self, name: str, place: Place, model: str) -> Lane:
        queue = None
        if place.settings.zone is Zone.ONPREM:
            q = self._queue_settings
            batch = max(self._catalog.find(model).max_batch, place.batch_of.get(model, 1))
            queue = OnPremQueue(
                batch, self._clock, q.in_flight_batches, q.max_waiting, q.aging_s,
                place.settings.max_in_flight,
            )  # fmt: skip
        times = ServiceTimes(place.settings.expected_ms / 1000, self._clock)
        return Lane(Breaker(self._clock), times, queue)

    # What dispatch tells

    def place(self, name: str) -> Place:
        return self.places[name]

    @contextmanager
    def waiting_for(self, endpoint: Endpoint, limit: asyncio.Timeout) -> Iterator[None]:
        """While in here, `limit` runs out at once when the endpoint goes down: a frozen server
        keeps its connections open and would hold every call to its deadline."""
        limits = self.places[endpoint.name].limits
        limits.add(limit)
        try:
            yield
        finally:
            limits.discard(limit)

    def refuses(self, endpoint: Endpoint, model: str) -> str:
        """Why no call may go there now; empty when one may."""
        return self._unavailable_why(self.places[endpoint.name], self.lane(endpoint.name, model))

    def waited(self, endpoint: Endpoint, model: str, queued_s: float) -> None:
        self._metrics.queued_seconds.labels(endpoint.name, model).observe(queued_s)

    def started(self, endpoint: Endpoint, model: str) -> int:
        """Returns the epoch with which the call's end must be told."""
        lane, place = self.lane(endpoint.name, model), self.places[endpoint.name]
        lane.in_flight += 1
        place.in_flight += 1
        return lane.breaker.starts()

    def ended(self, endpoint: Endpoint, model: str) -> None:
        lane, place = self.lane(endpoint.name, model), self.places[endpoint.name]
        lane.in_flight -= 1
        place.in_flight -= 1

    def succeeded(self, endpoint: Endpoint, model: str, epoch: int, took_s: float) -> None:
        lane = self.lane(endpoint.name, model)
        lane.breaker.succeeded(epoch)
        lane.times.observe(took_s)
        self._metrics.attempt_seconds.labels(endpoint.name, model).observe(took_s)

    def abandoned(self, endpoint: Endpoint, model: str, epoch: int) -> None:
        self.lane(endpoint.name, model).breaker.abandoned(epoch)

    def failed(self, endpoint: Endpoint, model: str, epoch: int, error: GatewayError) -> None:
        """Count a failure that is the endpoint's; its 429 is not, nor is a model's failure on one
        call: whoever sends nonsense three times must not take the model from everybody."""
        lane, place = self.lane(endpoint.name, model), self.places[endpoint.name]
        if isinstance(error, UpstreamBusy | ModelFailed):
            lane.breaker.abandoned(epoch)
            return
        gray = isinstance(error, ModelDead)
        if lane.breaker.failed(epoch, at_once=gray):
            self._metrics.endpoint_ejections.labels(endpoint.name).inc()
            log.warning("%s: ejected for %s after %s", endpoint.name, model, error.reason)
        if gray and place.on_gray is not None:
            place.on_gray(f"{model} fails every inference")

    # Readiness and inspection

    def ready(self) -> bool:
        """Whether any on-prem endpoint is up; without one, restricted calls have no place."""
        onprem = [p for p in self.places.values() if p.settings.zone is Zone.ONPREM]
        return any(p.up for p in onprem) if onprem else any(p.up for p in self.places.values())

    def model_ready(self, model: str) -> bool:
        return any(
            not self._unavailable_why(self.places[name], self.lane(name, model))
            for name in self._catalog.find(model).endpoints
        )

    def inspector_of_server(self) -> Inspector:
        for place in self.places.values():
            if place.inspector and place.up and place.settings.zone is Zone.ONPREM:
                return place.inspector
        raise NoEligibleEndpoint("no on-prem inference server is up", retry_after_s=2.0)

    def inspector_of_model(self, model: str) -> tuple[Inspector, str]:
        entry = self._catalog.find(model)
        names = sorted(
            entry.endpoints, key=lambda n: self.places[n].settings.zone is not Zone.ONPREM
        )
        for name in names:
            place = self.places[name]
            if place.inspector and place.up:
                return place.inspector, self._catalog.endpoints[name].models[model].model
        raise NoEligibleEndpoint("no server of this model is up", retry_after_s=2.0)

    def report(self) -> list[dict[str, object]]:
        """For /status: every endpoint and lane, content-free."""
        return [
            {
                "endpoint": name,
                "zone": place.settings.zone.value,
                "kind": place.settings.kind,
                "up": place.up,
                "in_flight": place.in_flight,
                "models": {
                    model: {
                        "waiting": lane.queue.waiting if lane.queue else 0,
                        "in_flight": lane.in_flight,
                        "ejected": not lane.breaker.closed,
                        "p50_s": None if lane.times.cold else lane.times.quantile_s(0.5),
                        "p95_s": None if lane.times.cold else lane.times.quantile_s(0.95),
                    }
                    for model, lane in place.lanes.items()
                },
            }
            for name, place in self.places.items()
        ]

    def publish(self) -> None:
        """Bring the gauges up to date; called when they are read."""
        m = self._metrics
        for name, place in self.places.items():
            m.endpoint_available.labels(name, place.settings.zone.value).set(place.up)
            for model, lane in place.lanes.items():
                if lane.queue is not None:
                    m.queue_waiting.labels(name, model).set(lane.queue.waiting)
                    m.queue_in_flight.labels(name, model).set(lane.queue.in_flight)

    def assume_up(self) -> None:
        for place in self.places.values():
            place.up = True

    async def aclose(self) -> None:
        for place in self.places.values():
            await place.connector.aclose()


def price_usd(served: ServedModel, total_tokens: int | None) -> float:
    """Price of one call in US dollars; an estimate until its tokens are known."""
    tokens = _EXPECTED_TOKENS if total_tokens is None else total_tokens
    return served.price_usd + served.price_usd_per_1k_tokens * tokens / 1000
