"""What the recorded run did beside what a policy would do: who would have gone elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gateway.simulate import loop
from gateway.simulate.records import CLOUD, NOWHERE, ONPREM, PLACES, Replayed
from gateway.simulate.study import Attainment, attainment, in_time
from gateway.simulate.workload import Workload

Matrix = Mapping[str, Mapping[str, int]]
"""Where calls were answered in time -> where they would be -> how many."""


@dataclass(frozen=True, slots=True)
class Moves:
    clear: Matrix
    restricted: Matrix

    @property
    def moved(self) -> int:
        return sum(
            count
            for matrix in (self.clear, self.restricted)
            for before, row in matrix.items()
            for after, count in row.items()
            if after != before
        )


@dataclass(frozen=True, slots=True)
class RecordedFigures:
    """Costs are in mean cloud calls, by the weights that the policies are simulated with."""

    calls: int
    attainment: Attainment
    cloud_cost: float
    missed_cost: float
    spilled: int
    missed: int
    restricted_in_cloud: int
    unit_usd: float


def as_recorded(replayed: Replayed, calls: Workload) -> RecordedFigures:
    """`calls`: the replayed ones, as they were simulated."""
    recorded = replayed.recorded
    in_cloud = recorded.place == CLOUD
    return RecordedFigures(
        calls=len(calls),
        attainment=attainment(recorded.met, calls.restricted),
        cloud_cost=float(recorded.cloud_usd.sum()) / calls.unit_usd,
        missed_cost=float(calls.penalty[~recorded.met].sum()),
        spilled=int(in_cloud.sum()),
        missed=int((~recorded.met).sum()),
        restricted_in_cloud=int((in_cloud & calls.restricted).sum()),
        unit_usd=calls.unit_usd,
    )


def moves(replayed: Replayed, calls: Workload, outcome: loop.SimulatedOutcome) -> Moves:
    """Nowhere: it was not answered in time."""
    before = np.where(replayed.recorded.met, replayed.recorded.place, NOWHERE)
    place = np.full(len(calls), NOWHERE, dtype=before.dtype)
    met = in_time(calls, outcome)
    place[met & (outcome.place == loop.ONPREM)] = ONPREM
    place[met & (outcome.place == loop.CLOUD)] = CLOUD
    return Moves(
        clear=_matrix(before, place, ~calls.restricted),
        restricted=_matrix(before, place, calls.restricted),
    )


def _matrix(
    before: NDArray[np.str_], after: NDArray[np.str_], which: NDArray[np.bool_]
) -> dict[str, dict[str, int]]:
    return {
        one: {other: int((which & (before == one) & (after == other)).sum()) for other in PLACES}
        for one in PLACES
    }
