"""The gateway that is simulated: settings, one model of theirs, and the live code made from both.

The scheduler is the one that the gateway would make of the settings, out of its own parts; only the
clock is the simulation's. Without a settings file there is one assumed for the mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import numpy as np

from gateway.accounting.metrics import Metrics
from gateway.config import EndpointSettings, ModelSettings, ServedBySettings, Settings
from gateway.config.model_catalog import Catalog
from gateway.core.deadline import Clock
from gateway.core.types import ServedModel, Zone
from gateway.endpoints.candidates import price_usd
from gateway.endpoints.state import EndpointState
from gateway.endpoints.versions.parts import EndpointParts, build_parts
from gateway.scheduling.executions import Execution
from gateway.scheduling.factory import new_scheduler, weights
from gateway.scheduling.queued_calls import Weights
from gateway.simulate.workload import Mode, TraceError, Workload, reckoned

CLOUD: Final = "cloud"
_NOWHERE: Final = "http://127.0.0.1:9"  # nothing is ever sent


@dataclass(frozen=True, slots=True)
class SimulatedSite:
    """One model of a gateway, with the servers and the cloud endpoint that serve it."""

    settings: Settings
    model: str
    servers: tuple[str, ...]
    cloud: str | None  # the cheapest endpoint of that zone
    stated: bool = True  # by a settings file, not assumed

    @classmethod
    def from_settings(cls, settings: Settings, model: str | None) -> SimulatedSite:
        """Raises TraceError when there is no such model, or none or several to choose from."""
        catalog = Catalog.from_settings(settings)
        onprem = {name: _zone_endpoints(catalog, name, True) for name in settings.models}
        in_cloud = {name: _zone_endpoints(catalog, name, False) for name in settings.models}
        name = model or _the_only([m for m in onprem if onprem[m] and in_cloud[m]] or list(onprem))
        if name not in onprem:
            raise TraceError(f"no model {name!r} in the settings; there are: {', '.join(onprem)}")
        if not onprem[name]:
            raise TraceError(f"model {name!r} has no on-prem endpoint, so no queue")
        clouds = sorted(in_cloud[name], key=lambda e: price_usd(_served(catalog, e, name), None))
        cloud = clouds[0] if clouds and not settings.routing.closes_cloud else None
        return cls(settings, name, tuple(onprem[name]), cloud)

    @classmethod
    def assumed(cls, mode: Mode, servers: int) -> SimulatedSite:
        """A gateway with default settings in front of the mode's servers."""
        names = tuple(f"server-{i + 1}" for i in range(servers))
        expected_ms = 1000 * (mode.rtt_s + mode.cloud_s)
        onprem = EndpointSettings(kind="kserve", zone=Zone.ONPREM, url=_NOWHERE)
        cloud = EndpointSettings(
            kind="kserve", zone=Zone.CLOUD, url=_NOWHERE, expected_ms=expected_ms
        )
        served = tuple(ServedBySettings(endpoint=name) for name in (*names, CLOUD))
        settings = Settings(
            endpoints={**dict.fromkeys(names, onprem), CLOUD: cloud},
            models={"model": ModelSettings(served_by=served, max_batch=mode.max_batch)},
        )
        return cls(settings, "model", names, CLOUD, stated=False)

    def sized(self, servers: int) -> SimulatedSite:
        """The same with another number of servers, the new ones like the first."""
        if servers == len(self.servers):
            return self
        added = (f"{self.servers[0]}-{n}" for n in range(2, 2 + servers))
        free = (name for name in added if name not in self.settings.places())
        names = (*self.servers[:servers], *islice(free, max(0, servers - len(self.servers))))
        old, model = self.settings.endpoints, self.settings.models[self.model]
        first = next(s for s in model.served_by if s.endpoint == self.servers[0])
        served = [
            *(s for s in model.served_by if s.endpoint not in self.servers),
            *(first.model_copy(update={"endpoint": name}) for name in names),
        ]
        endpoints = {**old, **{n: old.get(n, old[self.servers[0]]) for n in names}}
        models = {self.model: model.model_copy(update={"served_by": tuple(served)})}
        settings = self.settings.model_copy(
            update={"endpoints": endpoints, "models": {**self.settings.models, **models}}
        )
        return replace(self, settings=settings, servers=names)

    def following(self, policy: str) -> SimulatedSite:
        """The same with one of the rules in the place of its policy."""
        routing = self.settings.routing.model_copy(update={"policy": policy})
        cloud = None if routing.closes_cloud else self.cloud
        settings = self.settings.model_copy(update={"routing": routing})
        return replace(self, settings=settings, cloud=cloud)

    def parts(self, clock: Clock, mode: Mode) -> EndpointParts:
        """Everything of the live gateway that decides, with nothing behind it. Its servers have
        told it how large their batches are."""
        settings = self.settings
        parts = build_parts(
            Catalog.from_settings(settings),
            {name: _endpoint_state(its) for name, its in settings.places().items()},
            Metrics(),
            clock,
            self.weights,
            new_scheduler(settings.queue, settings.routing),
            health=settings.health,
        )
        parts.registry.assume_up()
        for name in self.servers:
            parts.queues.learn(self.model, name, Execution(mode.max_batch, one_by_one=mode.alone))
        return parts

    @property
    def weights(self) -> Weights:
        return weights(self.settings.queue, self.settings.routing)

    # What the settings say of servers and clouds

    def mode(self, base: Mode) -> Mode:
        """The modelled servers and cloud: as the settings state them, else as in the mode."""
        mode = replace(base, servers=len(self.servers))
        model = self.settings.models[self.model]
        queues = self.parts(lambda: 0.0, replace(mode, max_batch=1)).queues
        executions = [queues.executions.execution(self.model, name) for name in self.servers]
        alone = any(execution.one_by_one for execution in executions)
        if alone or "max_batch" in model.model_fields_set:
            mode = replace(mode, max_batch=max(e.rows for e in executions), alone=alone)
        onprem = self.settings.places()[self.servers[0]]
        if "expected_ms" in onprem.model_fields_set:
            queue = queues.queue(self.model, self.servers)
            believed = queue.scheduling.servers.model(self.servers[0])
            fixed = believed.fixed_s / believed.predict_s(1.0)
            alone_s = onprem.expected_ms / 1000
            mode = replace(mode, fixed_s=fixed * alone_s, per_work_s=(1 - fixed) * alone_s)
        return replace(mode, **self._cloud_times(base))

    def _cloud_times(self, base: Mode) -> Mapping[str, Any]:
        """The stated time, divided between way and service as in the mode."""
        if self.cloud is None:
            return {}
        endpoint = self.settings.places()[self.cloud]
        if "expected_ms" not in endpoint.model_fields_set:
            return {}
        factor = endpoint.expected_ms / 1000 / (base.rtt_s + base.cloud_s)
        return {"rtt_s": base.rtt_s * factor, "cloud_s": base.cloud_s * factor}

    def weighed(self, calls: Workload) -> Workload:
        """The calls with the settings' prices and penalties. The unit stays the mean cloud call,
        which keeps its worth where the settings state no price."""
        price, expected, unit_usd = calls.price, calls.price, calls.unit_usd
        served = self._priced()
        if served is not None:
            per_token = served.price_usd_per_1k_tokens / 1000
            usd = served.price_usd + per_token * calls.tokens
            unit_usd = float(usd.mean())
            price = usd / unit_usd
            expected = np.full(len(calls), price_usd(served, None) / unit_usd)
        weigh = self.weights
        factor = np.where(calls.restricted, weigh.restricted_factor, 1.0)
        factor = factor * weigh.priority_share**calls.priority
        return reckoned(
            replace(
                calls,
                price=price,
                expected_price=expected,
                penalty=weigh.miss_penalty_usd / unit_usd * factor,
                unit_usd=unit_usd,
                leaves=self.cloud is not None,
            )
        )

    def _priced(self) -> ServedModel | None:
        if self.cloud is None:
            return None
        served = _served(Catalog.from_settings(self.settings), self.cloud, self.model)
        return served if price_usd(served, None) > 0 else None


def _zone_endpoints(catalog: Catalog, model: str, onprem: bool) -> list[str]:
    places = catalog.endpoints
    return [e for e in catalog.find(model).endpoints if places[e].zone.onprem is onprem]


def _served(catalog: Catalog, endpoint: str, model: str) -> ServedModel:
    return catalog.endpoints[endpoint].models[model]


def _the_only(names: list[str]) -> str:
    if len(names) != 1:
        raise TraceError(f"say which model: --model NAME, one of: {', '.join(names) or 'none'}")
    return names[0]


class _Unreachable:
    """Nothing is ever sent."""

    async def ready(self) -> bool:
        return True

    async def aclose(self) -> None: ...


def _endpoint_state(settings: EndpointSettings) -> EndpointState:
    return EndpointState(
        settings=settings, connector=_Unreachable(), onprem=None, cloud=None, inspector=None
    )
