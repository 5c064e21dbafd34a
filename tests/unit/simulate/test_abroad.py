"""A cloud with limits, outages and slow spells, met by the gateway's own code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gateway.core.errors import DeadlineExceeded, UpstreamFailed
from gateway.scheduling.calls import Action, QueuedCall, Refuse
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import CloudLatency
from gateway.scheduling.scheduler import Scheduler
from gateway.simulate.bound import least_cost
from gateway.simulate.loop import CLOUD, FAILED, WAITING, SimulatedOutcome, Simulation, VirtualClock
from gateway.simulate.modelled_cloud import ModelledCloud
from gateway.simulate.site import SimulatedSite
from gateway.simulate.study import (
    NAMES,
    POLICY,
    CloudFigures,
    StudyResult,
    StudyRun,
    in_time,
    replay,
)
from gateway.simulate.weather import OutagePeriod, SlowSpell, Weather, known_ahead
from gateway.simulate.workload import MODES, Workload, build
from tests.unit.simulate.traces import bursty

CALLS = 4000  # at this load seven seconds


def workload(load: float = 1.5, calls: int = CALLS) -> Workload:
    return build(bursty(calls), MODES["ms"], load, 1)


def under(weather: Weather, policy: str = POLICY, calls: Workload | None = None) -> StudyResult:
    return replay(calls or workload(), policy, run=StudyRun(weather=weather))


def cloud_of(result: StudyResult) -> CloudFigures:
    assert result.figures.cloud is not None
    return result.figures.cloud


def in_cloud(outcome: SimulatedOutcome, calls: Workload, from_s: float, to_s: float) -> int:
    """Calls that arrived then and were answered from the cloud."""
    then = (calls.arrive_s >= from_s) & (calls.arrive_s < to_s)
    return int(((outcome.place == CLOUD) & (outcome.done_s < np.inf) & then).sum())


FAILS = Weather(outages=(OutagePeriod(2.0, 4.0),))
HANGS = Weather(outages=(OutagePeriod(2.0, 4.0, hangs=True),))
SLOW = Weather(slow=(SlowSpell(2.0, 4.0, 10.0),))
ALL = {"limit": Weather(limit=12), "fails": FAILS, "hangs": HANGS, "slow": SLOW}


@pytest.mark.parametrize("policy", [POLICY, "static_split", "price_on_arrival"])
@pytest.mark.parametrize("weather", ALL.values(), ids=ALL)
def test_whatever_the_cloud_does_restricted_calls_stay_and_every_call_ends(
    weather: Weather, policy: str
) -> None:
    calls = workload(2.0, 600)
    result = under(weather, policy, calls)
    assert result.figures.restricted_in_cloud == 0
    assert not (result.outcome.place == WAITING).any()
    counts = cloud_of(result).attempts
    assert counts.attempts == counts.answered + counts.failed + counts.busy + counts.cut


@pytest.mark.parametrize("weather", [FAILS, HANGS], ids=["fails", "hangs"])
def test_an_outage_is_noticed_within_a_second_and_costs_few_calls(weather: Weather) -> None:
    calls = workload()
    result = under(weather, calls=calls)
    cloud = cloud_of(result)
    assert cloud.attempts.ejections == 1
    assert in_cloud(result.outcome, calls, 2.0, 3.8) == 0
    wanted = replay(calls, POLICY, run=StudyRun()).outcome
    would_leave = in_cloud(wanted, calls, 2.0, 4.0)
    lost = cloud.attempts.failed + cloud.attempts.cut
    assert lost < 0.4 * would_leave, f"{lost} of {would_leave} were sent into the outage"


def test_a_cloud_that_hangs_is_noticed_by_short_budgets_too() -> None:
    """They are less than twice what its answers take, but nobody is answered meanwhile."""
    calls = at_once([0.05 * at for at in range(60)], budget_s=0.3)
    hangs = Weather(outages=(OutagePeriod(1.0, 9.0, hangs=True),))
    calls = replace(calls, cloud_s=0.2 * np.ones(60))
    assert cloud_of(under(hangs, "static_split", calls)).attempts.ejections == 1


@pytest.mark.parametrize("weather", [FAILS, HANGS, SLOW], ids=["fails", "hangs", "slow"])
def test_after_it_calls_leave_again(weather: Weather) -> None:
    calls = workload()
    result = under(weather, calls=calls)
    fair = replay(calls, POLICY, run=StudyRun()).outcome
    assert in_cloud(result.outcome, calls, 6.0, 7.0) > 0.5 * in_cloud(fair, calls, 6.0, 7.0) > 0


def test_calls_that_come_back_from_the_cloud_are_served_on_the_premises() -> None:
    calls = workload(1.0)
    weather = Weather(outages=(OutagePeriod(0.0, 100.0),))
    result = under(weather, "static_split", calls)
    counts = cloud_of(result).attempts
    assert counts.failed > 3
    assert counts.returned == counts.failed + counts.closed
    assert cloud_of(result).failed == 0
    assert (result.outcome.place != CLOUD).all()
    policy = under(weather, POLICY, calls)
    assert policy.figures.attainment.all > 0.9, "and nobody lost what there is room for here"


def at_once(arrive_s: list[float], restricted: int = 0, budget_s: float = 5.0) -> Workload:
    """Calls that arrive as told, the last of them restricted, all of one size."""
    calls = workload(calls=len(arrive_s))
    ones = np.ones(len(arrive_s))
    stays = np.arange(len(arrive_s)) >= len(arrive_s) - restricted
    calls = replace(
        calls, arrive_s=np.array(arrive_s), work=ones, gpu_s=0.0025 * ones, restricted=stays,
        budget_s=budget_s * ones, cloud_s=0.4 * ones, penalty=5 * ones, price=ones,
        expected_price=ones,
    )  # fmt: skip
    return calls


def test_second_tries_are_those_that_calls_have_earned() -> None:
    """A reserve of 32, and one for every tenth call."""
    first, probe, between, second = 200, 1, 250, 100
    clear = [0.001 * at for at in range(first)] + [3.0] + [7.0 + 0.001 * at for at in range(second)]
    calls = at_once(clear + [3.5 + 0.01 * at for at in range(between)], restricted=between)
    weather = Weather(outages=(OutagePeriod(0.0, 1.0), OutagePeriod(6.9, 8.0)))
    result = under(weather, "static_split", calls)
    counts = cloud_of(result).attempts
    assert counts.answered == probe
    assert counts.failed > 250
    lost = result.outcome.place == FAILED
    assert lost[:first].sum() > 100, "the reserve is used up"
    came_back = second - int(lost[first + probe : first + probe + second].sum())
    assert 20 < came_back < 40, "those that 250 calls have earned"
    assert counts.returned == counts.failed + counts.closed - lost.sum()
    assert cloud_of(result).failed == lost.sum()
    assert not in_time(calls, result.outcome)[lost].any()


def test_no_second_try_begins_that_cannot_end() -> None:
    """The cloud takes half of the budget to fail them, and a server would need the other half."""
    outage = Weather(outages=(OutagePeriod(0.0, 1.0),))
    lost = under(outage, "static_split", at_once([0.0, 0.1, 0.2], budget_s=0.25))
    assert cloud_of(lost).failed == 3
    assert cloud_of(lost).attempts.returned == 0
    tried = under(outage, "static_split", at_once([0.0, 0.1, 0.2], budget_s=0.5))
    assert cloud_of(tried).failed == 0
    assert in_time(at_once([0.0, 0.1, 0.2], budget_s=0.5), tried.outcome).all()


def test_what_is_under_way_when_an_outage_begins_shares_its_fate() -> None:
    site, clock = SimulatedSite.assumed(MODES["ms"], 1), VirtualClock()
    for hangs in (False, True):
        clock.now_s = 0.9
        weather = Weather(outages=(OutagePeriod(1.0, 2.0, hangs),))
        abroad = ModelledCloud(site, site.parts(clock, MODES["ms"]), weather, clock)
        struck, spared = abroad.send(0.3, 5.0), abroad.send(0.05, 5.0)
        assert struck is not None
        assert spared is not None
        assert spared.error is None
        assert isinstance(struck.error, DeadlineExceeded if hangs else UpstreamFailed)
        assert struck.after_s == pytest.approx(5.0 if hangs else 0.1)


class Waits(Scheduler):
    """Never decides anything; remembers when it was asked to look again."""

    def __init__(self) -> None:
        super().__init__({"server-1": BatchModel(0.008, 0.002)}, 16)
        self.calls: list[QueuedCall] = []
        self.looked_s: list[float] = []

    def arrive(self, call: QueuedCall, now_s: float) -> list[Action]:
        self.calls.append(call)
        return []

    @property
    def waiting(self) -> int:
        return len(self.calls)

    def tick(self, now_s: float) -> list[Action]:
        self.looked_s.append(now_s)
        gone = self.calls if now_s > 0.5 else []
        self.calls = [] if gone else self.calls
        return [Refuse(call, "deadline_unmeetable") for call in gone]


def test_while_calls_wait_the_queue_looks_whether_the_cloud_has_opened() -> None:
    site, clock, waits = SimulatedSite.assumed(MODES["ms"], 1), VirtualClock(), Waits()
    abroad = ModelledCloud(site, site.parts(clock, MODES["ms"]), FAILS, clock)
    calls = at_once([0.0, 0.001])
    Simulation(calls, waits, site.servers, CloudLatency(0.15), None, abroad, clock).run()
    assert np.diff(waits.looked_s) == pytest.approx(0.05)
    assert len(waits.looked_s) > 8


def test_nobody_is_sent_beside_the_probe_of_a_half_open_breaker() -> None:
    assert cloud_of(under(HANGS)).attempts.closed == 0


def test_the_limit_is_kept_and_found() -> None:
    result = under(Weather(limit=12))
    counts = cloud_of(result).attempts
    assert 0 < counts.busy < counts.answered
    without = replay(workload(), POLICY, run=StudyRun())
    assert result.figures.spilled < without.figures.spilled


def test_a_429_closes_the_cloud_for_as_long_as_it_says() -> None:
    soon = cloud_of(under(Weather(limit=12, retry_after_s=0.1))).attempts
    late = cloud_of(under(Weather(limit=12, retry_after_s=5.0))).attempts
    assert late.attempts < 0.5 * soon.attempts


def test_a_fair_cloud_costs_what_it_costs_without_one() -> None:
    """The gateway's own limit, breaker and patience change nothing while all is well."""
    calls = workload()
    plain = replay(calls, POLICY).figures
    never = Weather(outages=(OutagePeriod(1e6, 2e6),))
    careful = under(never, calls=calls).figures
    assert careful.spilled == pytest.approx(plain.spilled, rel=0.05)
    assert careful.missed_cost + careful.cloud_cost == pytest.approx(
        plain.missed_cost + plain.cloud_cost, rel=0.05
    )


def test_a_stormy_simulation_runs_the_same_way_again() -> None:
    first, again = (under(HANGS).figures for _ in range(2))
    assert replace(first, took_s=0.0) == replace(again, took_s=0.0)


def test_no_policy_beats_who_knows_the_outage() -> None:
    calls = workload(1.5, 800)
    fair = least_cost(calls)
    for weather in (
        Weather(outages=(OutagePeriod(0.5, 1.0),)),
        Weather(slow=(SlowSpell(0.5, 1, 10),)),
    ):
        least = least_cost(known_ahead(calls, weather))
        assert least > fair
        for name in NAMES:
            regret = replay(calls, name, least, StudyRun(weather=weather)).figures.regret
            assert regret is not None
            assert regret > -1e-6


def test_who_knows_an_outage_leaves_only_before_and_after_it() -> None:
    calls = workload()
    known = known_ahead(calls, FAILS)
    due_s = calls.arrive_s + calls.budget_s
    inside = (calls.arrive_s >= 2.0) & (due_s <= 4.0)
    assert inside.any()
    assert (known.alternative[inside] == calls.penalty[inside]).all()
    assert (known.alternative[~inside] == calls.alternative[~inside]).all()
    slow = known_ahead(calls, SLOW)
    assert (slow.alternative >= calls.alternative).all()
    assert (slow.alternative[inside] > calls.alternative[inside]).any()
