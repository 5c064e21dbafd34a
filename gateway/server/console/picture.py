"""What the page shows of the gateway, read from the live objects; only while somebody looks."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from gateway.accounting.live import words
from gateway.accounting.live.decisions import CallFigures, Decisions
from gateway.accounting.live.shares import Shares, alone, decision_id
from gateway.accounting.spill import SpillStop
from gateway.config.model_catalog import Catalog
from gateway.core.deadline import Clock
from gateway.core.types import EVERYWHERE
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import EndpointState, ModelState
from gateway.pipeline.admission import Admission
from gateway.scheduling.queues import ModelQueues
from gateway.scheduling.routing.work import CallSize
from gateway.server.console import figures, together
from gateway.server.console.spend import Spend

Section = Any  # JSON
_ROUND_MS = 3
_AVERAGE = CallSize(work=1.0, rows=1)  # call
_MEASURE_S = 1.0  # percentiles are sorted for anew


async def ignore_drained(name: str, drained: bool) -> None:
    """There is no other worker."""


@dataclass(slots=True)
class ConsoleSources:
    """What there is to look at: of the settings that are in use."""

    registry: EndpointRegistry
    queues: ModelQueues
    catalog: Catalog
    admission: Admission
    calls: Callable[[], int]  # that have not ended, of all settings
    decisions: Decisions
    stop: Callable[[], SpillStop]
    spend: Spend
    max_waiting: int
    default_budget_s: float
    policy: Callable[[], str]
    version: str
    clock: Clock
    announce_drained: Callable[[str, bool], Awaitable[None]] = ignore_drained
    """The other workers of this gateway, that an endpoint is drained, or no longer."""
    worker: int = 1
    shares: Shares = field(default_factory=alone)
    """What the other workers show, which is added to what this one does."""
    decides: bool = True
    """Whether the queues of this process decide; else those of another worker do."""


class Picture:
    def __init__(self, sight: ConsoleSources) -> None:
        self._sight = sight
        self._started_s = sight.clock()
        self._measured_s = -math.inf
        self._recent: Sequence[CallFigures] = ()
        self._latency: Section = None

    def sections(self) -> dict[str, Section]:
        """Each part that can change by itself."""
        sight, shares = self._sight, self._sight.shares.shares
        now_s, decisions = sight.clock(), sight.decisions.snapshot()
        self._measure(now_s)
        seconds = [*decisions.seconds, *(s for share in shares for s in share.seconds.values())]
        part = self.part()
        return {
            "gateway": {
                "version": sight.version,
                "policy": sight.policy(),
                **together.gateway(part, shares),
            },
            "endpoints": together.endpoints(part, shares),
            "pools": together.pools(part, shares),
            "flow": figures.flow(seconds, now_s, self._started_s),
            "timeline": figures.timeline(seconds, now_s),
            "latency": self._latency,
            "counts": together.counts(decisions.counts, shares),
            "alarm": together.alarm(self._alarm(), decisions.counts, shares),
            "spend": sight.spend.status().document(),
            "switch": self._switch(),
        }

    def part(self) -> dict[str, Section]:
        """What this process shows of itself, also on another worker's page."""
        sight = self._sight
        self._measure(sight.clock())
        return {
            "gateway": {"draining": sight.admission.draining, "in_flight": sight.calls()},
            "endpoints": [_endpoint(n, p) for n, p in sight.registry.states.items()],
            "pools": list(self._pools()) if sight.decides else None,
        }

    def _measure(self, now_s: float) -> None:
        if now_s - self._measured_s >= _MEASURE_S:
            self._measured_s = now_s
            since_s = now_s - figures.LATENCY_S
            recent = self._sight.decisions.recent(figures.LATENCY_S)
            for share in self._sight.shares.shares:
                recent += [one for one in share.figures if one.at_s >= since_s]
            self._recent = sorted(recent, key=itemgetter(0))
            self._latency = figures.latency(self._recent, now_s)

    def _alarm(self) -> Section:
        decisions = self._sight.decisions
        latest = decisions.latest_alarm
        return {
            "restricted_in_cloud": decisions.restricted_in_cloud,
            "stopped_at_door": decisions.stopped_at_door,
            "latest": None if latest is None else decision_id(self._sight.worker, latest),
        }

    def _switch(self) -> Section:
        stop = self._sight.stop()
        return {"available": stop.file is not None, "on": stop.on}

    def _pools(self) -> Iterator[Section]:
        registry, queues = self._sight.registry, self._sight.queues
        for (model, servers), group in queues:
            clear_s = figures.tight_budget_s(self._recent, model)
            budget_s = clear_s or self._sight.default_budget_s
            now_s = self._sight.clock()
            predicted_s = group.scheduling.completion_s(_AVERAGE, now_s + budget_s, now_s)
            waiting, most = group.waiting, self._sight.max_waiting
            refused = [registry.refuses(name, model) for name in servers]
            known = math.isfinite(predicted_s) and not all(refused)
            time_share = predicted_s / budget_s if known and predicted_s > 0 else 0.0
            yield {
                "model": model,
                "servers": list(servers),
                "waiting": waiting,
                "max_waiting": most,
                "in_flight": sum(group.scheduling.servers.in_flight(name) for name in servers),
                "window": sum(queues.executions.window(model, name) for name in servers),
                "out": not known,
                "predicted_ms": round(predicted_s * 1000) if known else None,
                "spills_at_ms": round(budget_s * 1000),
                "level": round(max(time_share, waiting / most), 3) if known else 1.0,
                "spills": clear_s is not None and self._has_cloud(model),
            }

    def _has_cloud(self, model: str) -> bool:
        states = self._sight.registry.states
        endpoints = self._sight.catalog.find(model).endpoints
        return any(not states[name].settings.zone.onprem for name in endpoints)


def _endpoint(name: str, state: EndpointState) -> Section:
    zone, kind = state.settings.zone, state.settings.kind
    return {
        "name": name,
        "zone": words.drawn(zone.name),
        "kind": kind if zone in EVERYWHERE else f"{zone.name}, {kind}",
        "state": state_name(state.up, state.drained, state.in_flight, state.model_states),
        "up": state.up,
        "drained": state.drained,
        "in_flight": state.in_flight,
        "stale": state.statistics is not None and state.statistics.stale,
        "models": [
            _model_section(model, model_state)
            for model, model_state in sorted(state.model_states.items())
        ],
    }


def state_name(
    up: bool, drained: bool, in_flight: int, model_states: Mapping[str, ModelState]
) -> str:
    """One word for the worst that is known of it."""
    if drained:
        return "draining" if in_flight else "drained"
    if not up:
        return "down"
    states = {model_state.health.state for model_state in model_states.values()}
    return next((bad for bad in ("ejected", "slow") if bad in states), "up")


def _model_section(model: str, model_state: ModelState) -> Section:
    cold = model_state.times.cold
    return {
        "model": model,
        "health": model_state.health.state,
        "in_flight": model_state.in_flight,
        "p50_ms": None if cold else round(model_state.times.quantile_s(0.5) * 1000, _ROUND_MS),
        "p95_ms": None if cold else round(model_state.times.quantile_s(0.95) * 1000, _ROUND_MS),
    }
