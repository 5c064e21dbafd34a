"""Where calls went over time: the share of those that arrived in each step, by where they ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gateway.simulate import loop
from gateway.simulate.study import in_time
from gateway.simulate.workload import Floats, Workload

ROUTES: Final = ("on the premises", "in the cloud", "not in time")
_STEPS: Final = 80
_LEAST_CALLS: Final = 12  # of a step, on average: fewer are noise


@dataclass(frozen=True, slots=True)
class RouteMix:
    until_s: Floats  # where each step ends
    shares: tuple[Floats, Floats, Floats]  # of ROUTES


def route_mix(calls: Workload, outcome: loop.SimulatedOutcome) -> RouteMix:
    steps = int(np.clip(len(calls) / _LEAST_CALLS, 1, _STEPS))
    span_s = float(calls.arrive_s[-1])
    step = np.minimum((calls.arrive_s / span_s * steps).astype(np.int64), steps - 1)
    met = in_time(calls, outcome)
    onprem, cloud = met & (outcome.place == loop.ONPREM), met & (outcome.place == loop.CLOUD)
    arrived = np.maximum(np.bincount(step, minlength=steps), 1)
    shares = [np.bincount(step[w], minlength=steps) / arrived for w in (onprem, cloud, ~met)]
    until_s = np.arange(1, steps + 1) * (span_s / steps)
    return RouteMix(until_s, (shares[0], shares[1], shares[2]))
