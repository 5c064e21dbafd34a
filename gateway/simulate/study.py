"""What a policy does with a workload, in the figures that an operator decides by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from gateway import ambient
from gateway.scheduling.arrival import RULES, OnArrival
from gateway.scheduling.batches import BatchModel
from gateway.scheduling.calls import Scheduling
from gateway.scheduling.latency import CloudLatency
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.tuning import DEFAULT, Tuning
from gateway.simulate.loop import CLOUD, REFUSED, Outcome, Simulation, World
from gateway.simulate.workload import Workload

POLICY: Final = "policy"  # the gateway's own, among the baselines
NAMES: Final = (POLICY, *RULES)
_RTT_S: Final = 0.09


@dataclass(frozen=True, slots=True)
class Attainment:
    """The share of the calls whose budget was met; None where there was no such call."""

    all: float
    restricted: float | None
    clear: float | None


@dataclass(frozen=True, slots=True)
class Figures:
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


@dataclass(frozen=True, slots=True)
class Run:
    """What is simulated beside the workload."""

    tuning: Tuning = DEFAULT
    world: World = field(default_factory=World)
    lead_s: float | None = 0.0


def simulate(
    calls: Workload,
    name: str,
    least_cost: float | None = None,
    run: Run | None = None,
    tell: Callable[[float], None] | None = None,
) -> Figures:
    run = run or Run()
    mode = calls.mode
    servers = [f"server-{i + 1}" for i in range(calls.servers)]
    models = {s: BatchModel(mode.fixed_s, mode.per_work_s) for s in servers}
    cloud = CloudLatency(
        _RTT_S + (0.0 if mode.cloud_by_work else mode.cloud_s),
        mode.cloud_s if mode.cloud_by_work else 0.0,
    )
    scheduler = _scheduler(name, models, mode.max_batch, run)
    began_s = ambient.monotonic_s()
    outcome = Simulation(calls, scheduler, servers, cloud, run.world).run(tell)
    return _figures(calls, outcome, least_cost, ambient.monotonic_s() - began_s)


def _scheduler(name: str, models: Mapping[str, BatchModel], max_batch: int, run: Run) -> Scheduling:
    if name == POLICY:
        return Scheduler(
            models, max_batch, run.tuning, run.lead_s, round_trip_s=2 * run.world.network_s
        )
    return OnArrival(models, max_batch, RULES[name])


def _figures(calls: Workload, outcome: Outcome, least_cost: float | None, took_s: float) -> Figures:
    met = outcome.done_s <= calls.arrive_s + calls.budget_s + 1e-9
    in_cloud = outcome.place == CLOUD
    cloud_cost = float(calls.price[in_cloud].sum())
    missed_cost = float(calls.penalty[~met].sum())
    onprem = int((outcome.done_s < np.inf).sum() - in_cloud.sum())
    regret = None if least_cost is None else (cloud_cost + missed_cost - least_cost) / len(calls)
    return Figures(
        calls=len(calls),
        regret=regret,
        attainment=Attainment(
            float(met.mean()), _mean(met[calls.restricted]), _mean(met[~calls.restricted])
        ),
        cloud_cost=cloud_cost,
        missed_cost=missed_cost,
        spilled=int(in_cloud.sum()),
        shed=int((outcome.place == REFUSED).sum()),
        restricted_in_cloud=int((in_cloud & calls.restricted).sum()),
        utilisation=outcome.busy_s / (outcome.span_s * calls.servers),
        mean_batch=onprem / max(1, outcome.batches),
        took_s=took_s,
    )


def _mean(met: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float | None:
    return float(met.mean()) if len(met) else None
