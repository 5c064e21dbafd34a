"""The gateway's own decision on a virtual clock: what it must reach, and what it must never do."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import CloudLatency
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.tuning import Tuning
from gateway.simulate.bound import least_cost
from gateway.simulate.capacity import Prices, cheapest, sizes
from gateway.simulate.loop import CLOUD, REFUSED, WAITING, SimulatedWorld, Simulation
from gateway.simulate.study import NAMES, POLICY, StudyFigures, StudyRun, simulate
from gateway.simulate.workload import MODES, Workload, build
from tests.unit.simulate.traces import bursty


def workload(mode: str = "ms", load: float = 1.5, calls: int = 1500) -> Workload:
    return build(bursty(calls), MODES[mode], load, 1)


@pytest.fixture(scope="module", params=[("ms", 1.0), ("ms", 2.0), ("s", 1.5)], ids=str)
def compared(request: pytest.FixtureRequest) -> dict[str, StudyFigures]:
    calls = workload(*request.param)
    least = least_cost(calls)
    return {name: simulate(calls, name, least) for name in NAMES}


def test_no_policy_beats_who_knows_the_future(compared: dict[str, StudyFigures]) -> None:
    assert min(f.regret for f in compared.values() if f.regret is not None) > -1e-6


def test_the_decision_costs_less_than_any_simple_policy(compared: dict[str, StudyFigures]) -> None:
    regrets = {name: f.regret or 0.0 for name, f in compared.items()}
    assert regrets.pop(POLICY) < min(regrets.values()) + 0.02
    assert (compared[POLICY].regret or 0.0) < 0.2


def test_restricted_calls_stay_and_meet_their_budgets(compared: dict[str, StudyFigures]) -> None:
    assert [f.restricted_in_cloud for f in compared.values()] == [0] * len(NAMES)
    restricted = compared[POLICY].attainment.restricted
    assert restricted is not None
    assert restricted >= 0.98


def test_every_figure_fits_together(compared: dict[str, StudyFigures]) -> None:
    for figures in compared.values():
        assert figures.spilled + figures.shed <= figures.calls
        assert 0 < figures.utilisation <= 1.0 + 1e-9
        assert 1 <= figures.mean_batch <= 16


def test_what_dearer_arrivals_will_need_is_worth_reserving() -> None:
    calls = workload(load=2.0)
    costs = [
        sum((f.cloud_cost, f.missed_cost))
        for f in (
            simulate(calls, POLICY, run=StudyRun()),
            simulate(calls, POLICY, run=StudyRun(Tuning(reserve=0.0))),
        )
    ]
    assert costs[0] < costs[1]


def test_a_batch_model_that_is_too_low_costs_more_than_one_that_is_too_high() -> None:
    """Which is why a prediction is never below the measured median."""

    class Wrong(BatchModel):
        def observe(self, work: float, took_s: float) -> None:
            """It never learns."""

    def cost(factor: float) -> float:
        calls = workload("s", load=1.5)
        model = Wrong(0.6 * factor / 1.3, 0.15 * factor / 1.3)  # cold models add 30 %
        servers = {"gpu-0": model, "gpu-1": model}
        cloud = CloudLatency(0.09, 1.2)
        outcome = Simulation(calls, Scheduler(servers, 8), list(servers), cloud).run()
        late = outcome.done_s > calls.arrive_s + calls.budget_s
        return float(calls.penalty[late].sum() + calls.price[outcome.place == CLOUD].sum())

    right = cost(1.0)
    assert cost(0.8) > 1.3 * right
    assert cost(1.1) < 1.3 * right


@pytest.mark.parametrize("gateways", [2, 4])
@pytest.mark.parametrize("mode", ["ms", "s"])
def test_gateways_that_forward_to_an_owner_cost_hardly_more_than_one(
    mode: str, gateways: int
) -> None:
    calls = workload(mode, calls=3000)
    least = least_cost(calls)
    one = simulate(calls, POLICY, least).regret
    many = simulate(calls, POLICY, least, StudyRun(world=SimulatedWorld(gateways=gateways))).regret
    assert one is not None
    assert many is not None
    assert many <= one * 1.07 + 0.02  # the order of events alone moves it by so much


def test_release_by_phase_keeps_a_distant_server_busy() -> None:
    calls, far = workload(load=2.0), SimulatedWorld(network_s=0.002)
    on_completion = simulate(calls, POLICY, run=StudyRun(world=far, lead_s=0.0))
    by_phase = simulate(calls, POLICY, run=StudyRun(world=far, lead_s=None))
    assert by_phase.utilisation > on_completion.utilisation + 0.05
    assert by_phase.mean_batch > 0.88 * 16


def test_a_simulation_runs_the_same_way_again() -> None:
    calls, world = workload(), SimulatedWorld(batch_spread=0.1, gateways=3, seed=4)
    first, again = (simulate(calls, POLICY, run=StudyRun(world=world)) for _ in range(2))
    assert dataclasses.replace(first, took_s=0.0) == dataclasses.replace(again, took_s=0.0)


def test_every_call_has_one_end() -> None:
    calls = workload(load=3.0)
    waits = Scheduler({"gpu": BatchModel(0.008, 0.002)}, 16)
    outcome = Simulation(calls, waits, ["gpu"], CloudLatency(0.15)).run()
    assert not (outcome.place == WAITING).any()
    assert np.isinf(outcome.done_s[outcome.place == REFUSED]).all()
    assert waits.waiting == 0


def test_more_servers_cost_more_than_they_save_from_some_number_on() -> None:
    calls = workload("s", load=2.0, calls=800)
    found = list(sizes(calls, range(1, 7), Prices(gpu_usd_per_hour=3.0, cloud_call_usd=0.002)))
    best = cheapest(found)
    assert 1 < best.servers < 6
    assert [s.gpu_usd for s in found] == [3.0 * n for n in range(1, 7)]
    assert found[0].cloud_usd > found[-1].cloud_usd
