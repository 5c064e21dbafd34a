"""How many GPUs, and what would it cost: the same arrivals in front of more and more servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gateway.simulate.study import POLICY, StudyFigures, StudyRun, simulate
from gateway.simulate.workload import Workload


@dataclass(frozen=True, slots=True)
class Prices:
    gpu_usd_per_hour: float  # amortisation, power and people of one server
    cloud_call_usd: float  # of the mean call, the unit of every other cost


@dataclass(frozen=True, slots=True)
class FleetSize:
    """One number of servers; US dollars per hour of the workload's own time."""

    servers: int
    gpu_usd: float
    cloud_usd: float
    missed_usd: float
    figures: StudyFigures

    @property
    def total_usd(self) -> float:
        return self.gpu_usd + self.cloud_usd + self.missed_usd


def sizes(
    calls: Workload, servers: Iterable[int], prices: Prices, run: StudyRun | None = None
) -> Iterator[FleetSize]:
    hours = (calls.arrive_s[-1] - calls.arrive_s[0]) / 3600
    call_usd = prices.cloud_call_usd / hours
    for number in servers:
        figures = simulate(replace(calls, servers=number), POLICY, run=run)
        yield FleetSize(
            servers=number,
            gpu_usd=number * prices.gpu_usd_per_hour,
            cloud_usd=figures.cloud_cost * call_usd,
            missed_usd=figures.missed_cost * call_usd,
            figures=figures,
        )


def cheapest(sizes: Iterable[FleetSize]) -> FleetSize:
    """The crossover: one server more costs more than it saves."""
    return min(sizes, key=lambda size: size.total_usd)
