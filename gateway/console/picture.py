"""What the page shows of the gateway, read from the live objects; only while somebody looks."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.admission import Admission
from gateway.catalog import Catalog
from gateway.console import figures
from gateway.console.decisions import Decisions, Figures
from gateway.console.spend import Spend
from gateway.deadline import Clock
from gateway.fleet import Fleet
from gateway.place import Lane, Place
from gateway.routing.work import Size
from gateway.spill import SpillStop
from gateway.types import Zone

Section = Any  # JSON
_ROUND_MS = 3
_AVERAGE = Size(work=1.0, rows=1)  # call
_MEASURE_S = 1.0  # percentiles are sorted for anew


async def told_nobody(name: str, drained: bool) -> None:
    """There is no other worker."""


@dataclass(slots=True)
class Sight:
    """What there is to look at: of the settings that are in use."""

    fleet: Fleet
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
    tell_drained: Callable[[str, bool], Awaitable[None]] = told_nobody
    """The other workers of this gateway, that an endpoint is drained, or no longer."""


class Picture:
    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._started_s = sight.clock()
        self._measured_s = -math.inf
        self._recent: Sequence[Figures] = ()
        self._latency: Section = None

    def sections(self) -> dict[str, Section]:
        """Each part that can change by itself."""
        sight = self._sight
        now_s, seen = sight.clock(), sight.decisions.look()
        if now_s - self._measured_s >= _MEASURE_S:
            self._measured_s = now_s
            self._recent = seen.recent(figures.LATENCY_S)
            self._latency = figures.latency(self._recent, now_s)
        return {
            "gateway": {
                "version": sight.version,
                "policy": sight.policy(),
                "draining": sight.admission.draining,
                "in_flight": sight.calls(),
            },
            "endpoints": [_endpoint(n, p) for n, p in sight.fleet.places.items()],
            "pools": list(self._pools()),
            "flow": figures.flow(seen.seconds, now_s, self._started_s),
            "timeline": figures.timeline(seen.seconds, now_s),
            "latency": self._latency,
            "counts": self._counts(),
            "alarm": self._alarm(),
            "spend": sight.spend.standing().document(),
            "switch": self._switch(),
        }

    def _counts(self) -> list[Section]:
        counts = self._sight.decisions.counts
        return [
            {"sensitivity": kind, "zone": zone, "calls": calls}
            for (kind, zone), calls in sorted(counts.items())
        ]

    def _alarm(self) -> Section:
        seen = self._sight.decisions
        return {
            "restricted_in_cloud": seen.restricted_in_cloud,
            "stopped_at_door": seen.stopped_at_door,
            "latest": seen.latest_alarm,
            "restricted": sum(n for (kind, _), n in seen.counts.items() if kind != "clear"),
        }

    def _switch(self) -> Section:
        stop = self._sight.stop()
        return {"available": stop.file is not None, "on": stop.on}

    def _pools(self) -> Iterator[Section]:
        fleet = self._sight.fleet
        for (model, servers), group in fleet.groups:
            clear_s = figures.tight_budget_s(self._recent, model)
            budget_s = clear_s or self._sight.default_budget_s
            now_s = self._sight.clock()
            predicted_s = group.scheduling.completion_s(_AVERAGE, now_s + budget_s, now_s)
            waiting, most = group.waiting, self._sight.max_waiting
            refused = [fleet.refuses(fleet.endpoint(name), model) for name in servers]
            known = math.isfinite(predicted_s) and not all(refused)
            time_share = predicted_s / budget_s if known and predicted_s > 0 else 0.0
            yield {
                "model": model,
                "servers": list(servers),
                "waiting": waiting,
                "max_waiting": most,
                "in_flight": sum(group.scheduling.in_flight(name) for name in servers),
                "window": sum(fleet.groups.window(model, name) for name in servers),
                "out": not known,
                "predicted_ms": round(predicted_s * 1000) if known else None,
                "spills_at_ms": round(budget_s * 1000),
                "level": round(max(time_share, waiting / most), 3) if known else 1.0,
                "spills": clear_s is not None and self._has_cloud(model),
            }

    def _has_cloud(self, model: str) -> bool:
        places = self._sight.fleet.places
        endpoints = self._sight.catalog.find(model).endpoints
        return any(places[name].settings.zone is Zone.CLOUD for name in endpoints)


def _endpoint(name: str, place: Place) -> Section:
    return {
        "name": name,
        "zone": place.settings.zone.value,
        "kind": place.settings.kind,
        "state": state_of(place.up, place.drained, place.in_flight, place.lanes),
        "up": place.up,
        "drained": place.drained,
        "in_flight": place.in_flight,
        "stale": place.statistics is not None and place.statistics.stale,
        "models": [_lane(model, lane) for model, lane in sorted(place.lanes.items())],
    }


def state_of(up: bool, drained: bool, in_flight: int, lanes: Mapping[str, Lane]) -> str:
    """One word for the worst that is known of it."""
    if drained:
        return "draining" if in_flight else "drained"
    if not up:
        return "down"
    states = {lane.health.state for lane in lanes.values()}
    return next((bad for bad in ("ejected", "slow") if bad in states), "up")


def _lane(model: str, lane: Lane) -> Section:
    cold = lane.times.cold
    return {
        "model": model,
        "health": lane.health.state,
        "in_flight": lane.in_flight,
        "p50_ms": None if cold else round(lane.times.quantile_s(0.5) * 1000, _ROUND_MS),
        "p95_ms": None if cold else round(lane.times.quantile_s(0.95) * 1000, _ROUND_MS),
    }
