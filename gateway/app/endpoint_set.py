"""The endpoints, models and queues of one version of the settings, and what keeps watch over them.

Where the next version has the same endpoint it has the same `EndpointState`: its connections,
breakers, health and learnt times, and the calls that are there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from gateway.accounting.metrics import Metrics
from gateway.accounting.records import DecisionLog
from gateway.accounting.spill import SpillControl
from gateway.config import EndpointSettings, Settings
from gateway.config.model_catalog import Catalog
from gateway.core.deadline import Clock
from gateway.core.types import endpoint_name
from gateway.endpoints.connectors import Inspector, JoinsCalls, OnPremDoor
from gateway.endpoints.connectors.egress import CloudDoor
from gateway.endpoints.connectors.kinds import build_connector
from gateway.endpoints.health.canary_requests import CanaryDoors, CanaryPayloads
from gateway.endpoints.health.canary_runner import CanaryRunner
from gateway.endpoints.health.prober import Watch
from gateway.endpoints.health.statistics_poller import Scraping
from gateway.endpoints.model_discovery import ServerCensus
from gateway.endpoints.state import EndpointState
from gateway.endpoints.triton.metrics_relay import MetricsRelay
from gateway.endpoints.triton.supervisor import SupervisorPort
from gateway.endpoints.versions.parts import EndpointParts, build_parts
from gateway.models.profiling.priors import measured
from gateway.scheduling.factory import new_scheduler, weights

_SECTIONS = ("endpoints", "tls", "models", "undeclared_models", "health", "costs")


@dataclass(frozen=True, slots=True)
class ProcessServices:
    """What of the process all sites stand on."""

    keeper: SupervisorPort
    spill: SpillControl
    metrics: Metrics
    clock: Clock
    scheduler_failed: Callable[[Exception], None]
    log: DecisionLog
    scheduler_resumed: Callable[[], None] = lambda: None


class EndpointSet:
    def __init__(
        self, settings: Settings, services: ProcessServices, before: EndpointSet | None = None
    ) -> None:
        self.settings = settings
        self._services = services
        self.catalog = Catalog.from_settings(settings)
        self._server_places = settings.places()
        self._shared = frozenset(
            name for name in self._server_places if before is not None and self._as(before, name)
        )
        self.states: dict[str, EndpointState] = {
            name: before.states[name]
            if before is not None and name in self._shared
            else self._new_state(name, endpoint)
            for name, endpoint in self._server_places.items()
        }
        metrics, clock = services.metrics, services.clock
        self.parts: EndpointParts = build_parts(
            self.catalog, self.states, metrics, clock, weights(settings.queue, settings.routing),
            new_scheduler(
                settings.queue, settings.routing,
                services.scheduler_failed, services.scheduler_resumed,
            ),
            services.spill, settings.health,
        )  # fmt: skip
        parts = self.parts
        census = ServerCensus(
            self.catalog, settings.undeclared_models == "onprem", parts.queues.learn, clock
        )
        self.watch = Watch(self.states, census, metrics)
        self._canary_runner = CanaryRunner(
            parts.registry, parts.outcomes, parts.recovery, CanaryPayloads(self.catalog),
            CanaryDoors(services.log).infer, metrics, clock,
        )  # fmt: skip
        self._scraping = Scraping(parts.registry, parts.outcomes, metrics, clock)
        self._metrics_relay = MetricsRelay(
            settings.endpoints, services.keeper.metrics_port, metrics.triton, metrics,
            settings.health.triton_metrics_s,
        )  # fmt: skip
        self._running: list[asyncio.Task[None]] = []

    def fits(self, settings: Settings) -> bool:
        """Whether a site of these settings would be this one over again."""
        own = self.settings
        same = all(getattr(own, name) == getattr(settings, name) for name in _SECTIONS)
        return same and _queue_settings(own) == _queue_settings(settings)

    async def first_probe(self) -> None:
        """At what is new here; and what up servers have, of which these settings may name more."""
        names = [n for n in self.states if n not in self._shared]
        await asyncio.gather(
            *(self.watch.probe(name) for name in names),
            *(self.watch.learn(name) for name in self._shared if self.states[name].up),
        )

    def begin(self, before: EndpointSet | None = None) -> None:
        """To serve, in the place of a site whose calls go on."""
        if before is not None:
            same_queues = _queue_settings(before.settings) == _queue_settings(self.settings)
            self.parts.handover.follow(before.parts.handover, same_queues)
            before._rest(self)
        watchers = (self.watch, self._canary_runner, self._scraping, self._metrics_relay)
        self._run(watcher.run() for watcher in watchers)

    def _rest(self, after: EndpointSet) -> None:
        """Only calls that it has are left: they are to be told when one of its servers goes down,
        where nobody else looks at it."""
        self._stop()
        left = {n: p for n, p in self.states.items() if after.states.get(n) is not p}
        self._run([Watch(left, _learn_nothing, self._services.metrics).run()])

    def _run(self, some: Iterable[Coroutine[Any, Any, None]]) -> None:
        self._running = [asyncio.create_task(one) for one in some]

    def _stop(self) -> None:
        for task in self._running:
            task.cancel()

    async def aclose(self, others: Iterable[EndpointSet] = ()) -> None:
        """`others`: those that live on."""
        self._stop()
        await asyncio.gather(*self._running, return_exceptions=True)
        others = [*others]
        await self.parts.handover.aclose([other.parts.handover for other in others])
        shared = {name for other in others for name in other.states}
        for name in self.states.keys() - shared:
            self._services.metrics.triton.forget(name)

    def _as(self, before: EndpointSet, name: str) -> bool:
        """Whether an endpoint is what it was, so that all that is known of it still holds."""
        old, new = before.settings, self.settings
        if name not in before.states or old.health != new.health:
            return False
        was_set, is_set = before._server_places[name], self._server_places[name]
        if old.tls.for_endpoint(was_set) != new.tls.for_endpoint(is_set):
            return False
        was, now = before.catalog.endpoints[name].models, self.catalog.endpoints[name].models
        return all(was[model].model == now[model].model for model in was.keys() & now.keys())

    def _new_state(self, name: str, settings: EndpointSettings) -> EndpointState:
        keeper = self._services.keeper
        endpoint = endpoint_name(name)
        server = keeper.get(endpoint)
        settings = self.settings.tls.for_endpoint(settings)
        if server is not None and server.control_headers:
            shown = {key: SecretStr(value) for key, value in server.control_headers.items()}
            settings = settings.model_copy(update={"headers": {**settings.headers, **shown}})
        ports = None if server is None else server.ports
        most_bytes = self.settings.limits.max_answer_bytes
        connector = build_connector(settings, ports, most_bytes)
        cloud = not settings.zone.onprem
        return EndpointState(
            settings=settings,
            connector=connector,
            onprem=None if cloud else OnPremDoor(connector),
            cloud=CloudDoor(connector, settings.zone) if cloud else None,
            inspector=connector if isinstance(connector, Inspector) else None,
            on_gray=None if server is None else keeper.restarter(endpoint),
            back_in_s=(lambda: None) if server is None else server.back_in_s,
            measured={} if server is None else measured(settings.repository or Path("models")),
            provided=tuple if server is None else lambda: server.provided,
            joint_limits=connector.joint_limits if isinstance(connector, JoinsCalls) else {},
        )


def _queue_settings(settings: Settings) -> tuple[object, ...]:
    """What queues are made of."""
    routing = settings.routing
    return (
        settings.queue, routing.policy, routing.margin, routing.miss_penalty_usd,
        routing.restricted_factor,
    )  # fmt: skip


async def _learn_nothing(name: str, state: EndpointState) -> bool:
    return True
