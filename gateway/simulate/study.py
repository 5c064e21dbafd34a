"""What a policy does with a workload, in the figures that an operator decides by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gateway.core import ambient
from gateway.scheduling.calls import Scheduling
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import CloudLatency
from gateway.scheduling.rules.baselines import RULES, OnArrival
from gateway.scheduling.rules.priorities import PRIORITIES, ByPriority
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.tuning import DEFAULT, Tuning
from gateway.simulate.loop import (
    CLOUD,
    FAILED,
    ONPREM,
    REFUSED,
    SimulatedOutcome,
    SimulatedWorld,
    Simulation,
    VirtualClock,
)
from gateway.simulate.modelled_cloud import Counts, ModelledCloud
from gateway.simulate.site import SimulatedSite
from gateway.simulate.weather import Weather
from gateway.simulate.workload import Workload

Bools = NDArray[np.bool_]

POLICY: Final = "policy"  # the gateway's own, among the baselines
NAMES: Final = (POLICY, *RULES, PRIORITIES)


@dataclass(frozen=True, slots=True)
class Attainment:
    """The share of the calls whose budget was met; None where there was no such call."""

    all: float
    restricted: float | None
    clear: float | None


@dataclass(frozen=True, slots=True)
class CloudFigures:
    """What became of the attempts in a cloud that has limits or fails."""

    attempts: Counts
    failed: int  # calls that got no answer: nobody was left who could try them
    in_trouble: Attainment | None  # of the calls that arrived in an outage or a slow spell
    cost_in_trouble: float | None  # of each of these, cloud and penalties, in mean cloud calls


@dataclass(frozen=True, slots=True)
class StudyFigures:
    """Costs are in mean cloud calls."""

    calls: int
    regret: float | None  # per call, above the clairvoyant bound; None if that was not computed
    attainment: Attainment
    cloud_cost: float
    missed_cost: float  # penalties of missed budgets
    spilled: int
    shed: int
    restricted_in_cloud: int
    utilisation: float
    mean_batch: float
    took_s: float  # of the simulation itself
    cloud: CloudFigures | None = None


@dataclass(frozen=True, slots=True)
class StudyRun:
    """What is simulated beside the workload."""

    tuning: Tuning = DEFAULT
    world: SimulatedWorld = field(default_factory=SimulatedWorld)
    lead_s: float | None = 0.0
    weather: Weather = field(default_factory=Weather)
    site: SimulatedSite | None = None  # of a settings file; its scheduler decides, not `tuning`


@dataclass(frozen=True, slots=True)
class StudyResult:
    figures: StudyFigures
    outcome: SimulatedOutcome


def simulate(
    calls: Workload,
    name: str,
    least_cost: float | None = None,
    run: StudyRun | None = None,
    report: Callable[[float], None] | None = None,
) -> StudyFigures:
    return replay(calls, name, least_cost, run, report).figures


def replay(
    calls: Workload,
    name: str,
    least_cost: float | None = None,
    run: StudyRun | None = None,
    report: Callable[[float], None] | None = None,
) -> StudyResult:
    run = run or StudyRun()
    clock = VirtualClock()
    made = (_assumed if run.site is None else _stated)(calls, name, run, clock)
    began_s = ambient.monotonic_s()
    outcome = Simulation(
        calls, made.scheduler, made.servers, made.cloud, made.world, made.modelled, clock
    ).run(report)
    took_s = ambient.monotonic_s() - began_s
    figures = _figures(calls, outcome, least_cost, took_s)
    if made.modelled is not None:
        cloud = _cloud_figures(calls, outcome, made.modelled.counts, run.weather)
        figures = replace(figures, cloud=cloud)
    return StudyResult(figures, outcome)


@dataclass(frozen=True, slots=True)
class _Made:
    scheduler: Scheduling
    servers: tuple[str, ...]
    cloud: CloudLatency
    modelled: ModelledCloud | None
    world: SimulatedWorld


def _assumed(calls: Workload, name: str, run: StudyRun, clock: VirtualClock) -> _Made:
    """Without settings: the batch model knows its servers, and the cloud takes every call unless
    the weather says otherwise."""
    mode = calls.mode
    site = SimulatedSite.assumed(mode, calls.servers)
    models = {s: BatchModel(mode.fixed_s, mode.per_work_s) for s in site.servers}
    modelled = None
    if not run.weather.fair:
        modelled = ModelledCloud(site, site.parts(clock, mode), run.weather, clock)
    cloud = CloudLatency(
        mode.rtt_s + (0.0 if mode.cloud_by_work else mode.cloud_s),
        mode.cloud_s if mode.cloud_by_work else 0.0,
    )
    scheduler = _scheduler(name, models, mode.max_batch, run)
    return _Made(scheduler, site.servers, cloud, modelled, run.world)


def _scheduler(
    name: str, models: Mapping[str, BatchModel], max_batch: int, run: StudyRun
) -> Scheduling:
    if name == POLICY:
        return Scheduler(
            models, max_batch, run.tuning, run.lead_s, round_trip_s=2 * run.world.network_s
        )
    if name == PRIORITIES:
        return ByPriority(models, max_batch)
    return OnArrival(models, max_batch, RULES[name])


def _stated(calls: Workload, name: str, run: StudyRun, clock: VirtualClock) -> _Made:
    """What the gateway makes of the settings."""
    assert run.site is not None
    site = run.site.sized(calls.servers)
    if name != POLICY:
        site = site.following(name)
    parts = site.parts(clock, calls.mode)
    scheduler = parts.queues.queue(site.model, site.servers).scheduling
    for server in parts.conditions.read(site.model, site.servers).servers:
        scheduler.limit(server.name, server.most, 0.0)
    world = replace(run.world, aging_s=site.weights.aging_s)
    if site.cloud is None:
        return _Made(scheduler, site.servers, CloudLatency(1.0), None, world)
    cloud = CloudLatency(site.settings.places()[site.cloud].expected_ms / 1000)
    return _Made(
        scheduler, site.servers, cloud, ModelledCloud(site, parts, run.weather, clock), world
    )


def _figures(
    calls: Workload, outcome: SimulatedOutcome, least_cost: float | None, took_s: float
) -> StudyFigures:
    met = in_time(calls, outcome)
    in_cloud = outcome.place == CLOUD
    cloud_cost = float(calls.price[in_cloud].sum())
    missed_cost = float(calls.penalty[~met].sum())
    onprem = int((outcome.place == ONPREM).sum())
    regret = None if least_cost is None else (cloud_cost + missed_cost - least_cost) / len(calls)
    return StudyFigures(
        calls=len(calls),
        regret=regret,
        attainment=attainment(met, calls.restricted),
        cloud_cost=cloud_cost,
        missed_cost=missed_cost,
        spilled=int(in_cloud.sum()),
        shed=int((outcome.place == REFUSED).sum()),
        restricted_in_cloud=int((in_cloud & calls.restricted).sum()),
        utilisation=outcome.busy_s / (outcome.span_s * calls.servers),
        mean_batch=onprem / max(1, outcome.batches),
        took_s=took_s,
    )


def _cloud_figures(
    calls: Workload, outcome: SimulatedOutcome, counts: Counts, weather: Weather
) -> CloudFigures:
    failed = int((outcome.place == FAILED).sum())
    then = np.zeros(len(calls), dtype=np.bool_)
    for from_s, to_s in weather.spans:
        then |= (calls.arrive_s >= from_s) & (calls.arrive_s < to_s)
    if not then.any():
        return CloudFigures(counts, failed, None, None)
    met = in_time(calls, outcome)
    cost = calls.price * (outcome.place == CLOUD) + calls.penalty * ~met
    met_share = attainment(met[then], calls.restricted[then])
    return CloudFigures(counts, failed, met_share, float(cost[then].mean()))


def in_time(calls: Workload, outcome: SimulatedOutcome) -> Bools:
    return np.asarray(outcome.done_s <= calls.arrive_s + calls.budget_s + 1e-9)


def attainment(met: Bools, restricted: Bools) -> Attainment:
    return Attainment(float(met.mean()), _mean(met[restricted]), _mean(met[~restricted]))


def _mean(met: Bools) -> float | None:
    return float(met.mean()) if len(met) else None
