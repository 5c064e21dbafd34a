"""How much room there is in a cloud that fails, hangs and comes back."""

from __future__ import annotations

import pytest

from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, NoEligibleEndpoint, UpstreamBusy, UpstreamFailed
from gateway.core.types import Endpoint, InferenceRequest, TensorCall, WireProtocol
from gateway.simulate.site import CLOUD, SimulatedSite
from gateway.simulate.workload import MODES
from tests.unit import harness
from tests.unit.harness import HANGS, Plan, cloud, request
from tests.unit.spill.clock import HandClock

pytestmark = pytest.mark.leaping

MODEL = "model"


class Rig:
    """The parts of one server and one cloud endpoint; outcomes are reported by hand."""

    def __init__(self) -> None:
        self.clock = HandClock()
        parts = SimulatedSite.assumed(MODES["ms"], 1).parts(self.clock, MODES["ms"])
        self.registry, self.clouds, self.outcomes = parts.registry, parts.clouds, parts.outcomes
        self.cloud: Endpoint = self.registry.catalog.endpoints[CLOUD]
        self.server: Endpoint = self.registry.catalog.endpoints["server-1"]
        self.request = InferenceRequest(
            id="1",
            protocol=WireProtocol.KSERVE_GRPC,
            tenant="t",
            model=MODEL,
            payload=TensorCall(inputs=()),
            deadline=Deadline(2000.0, self.clock),
        )

    @property
    def room(self) -> int:
        return self.clouds.room(CLOUD, MODEL)

    def answers(self, times: int, took_s: float = 0.2, endpoint: Endpoint | None = None) -> None:
        to = endpoint or self.cloud
        for _ in range(times):
            epoch = self.outcomes.started(to, MODEL)
            self.clock.pass_s(took_s)
            self.outcomes.succeeded(to, self.request, epoch, took_s)
            self.outcomes.ended(to, MODEL)

    def fails(self, times: int = 3) -> None:
        for _ in range(times):
            epoch = self.outcomes.started(self.cloud, MODEL)
            error = UpstreamFailed("an outage")
            self.outcomes.failed(self.cloud, MODEL, epoch, error, self.clock())
            self.outcomes.ended(self.cloud, MODEL)

    def starts(self, times: int) -> None:
        for _ in range(times):
            self.outcomes.started(self.cloud, MODEL)

    def comes_back(self) -> None:
        self.fails()
        self.clock.pass_s(2.1)
        self.answers(1)


def test_there_is_room_up_to_the_limit() -> None:
    rig = Rig()
    assert rig.room == 256
    rig.starts(200)
    assert rig.room == 56
    rig.starts(56)
    assert rig.room == 0


def test_an_open_breaker_leaves_no_room() -> None:
    rig = Rig()
    rig.fails()
    assert rig.room == 0


def test_a_half_open_breaker_has_room_for_its_probe_alone() -> None:
    """All who were sent beside it would find the door shut, and may not leave again."""
    rig = Rig()
    rig.fails()
    rig.clock.pass_s(2.1)
    assert rig.room == 1
    rig.starts(1)
    assert rig.room == 0


def test_after_its_return_there_is_as_much_room_as_it_really_takes() -> None:
    rig = Rig()
    rig.comes_back()
    room = rig.room
    assert 0 < room < 100
    for left in range(room, 0, -1):
        assert rig.clouds.takes_another(CLOUD, MODEL), left
        rig.starts(1)
    rig.clock.pass_s(3.1)
    assert rig.room == 256 - room


def test_what_was_slow_before_it_went_out_does_not_hold_it_back_after_its_return() -> None:
    rig = Rig()
    rig.answers(30)
    for _ in range(12):
        epoch, sent_s = rig.outcomes.started(rig.cloud, MODEL), rig.clock()
        rig.clock.pass_s(3.0)
        late = DeadlineExceeded("late")
        rig.outcomes.failed(rig.cloud, MODEL, epoch, late, sent_s)
        rig.outcomes.ended(rig.cloud, MODEL)
    assert rig.room == 0
    rig.clock.pass_s(60.0)
    rig.answers(1)
    rig.clock.pass_s(3.1)
    assert rig.room == 256


def test_a_429_still_holds_it_back() -> None:
    rig = Rig()
    rig.starts(20)
    epoch = rig.outcomes.started(rig.cloud, MODEL)
    busy = UpstreamBusy("too many", retry_after_s=1.0)
    rig.clock.pass_s(0.1)
    rig.outcomes.failed(rig.cloud, MODEL, epoch, busy, rig.clock())
    assert rig.room == 0
    rig.clock.pass_s(1.1)
    rig.outcomes.ended(rig.cloud, MODEL)
    assert rig.clouds.takes_another(CLOUD, MODEL) is False  # 20 are there, and 14 is the limit


# A deadline that passes


@pytest.mark.parametrize(
    ("left_s", "heard", "fair"),
    [
        (0.1, False, False),  # less than what its answers take: nobody could have made it
        (0.3, True, False),  # a little more, and others were answered meanwhile
        (0.3, False, True),  # a little more, and nobody was
        (0.5, True, True),
    ],
)
def test_a_deadline_in_the_cloud_tells_of_the_cloud_when_it_was_a_fair_one(
    left_s: float, heard: bool, fair: bool
) -> None:
    rig = Rig()
    rig.answers(20)
    health = rig.registry.model_state(CLOUD, MODEL).health
    sent_s = rig.clock()
    rig.clock.pass_s(left_s)
    if heard:
        health.answers.heard()
    assert rig.outcomes.fairly_late(rig.cloud, MODEL, sent_s) is fair


@pytest.mark.parametrize(("left_s", "fair"), [(0.5, False), (0.7, False), (0.9, True)])
def test_on_the_premises_it_takes_a_longer_one(left_s: float, fair: bool) -> None:
    """Canaries look there, and a deadline may pass because of what was sent before."""
    rig = Rig()
    rig.answers(20, endpoint=rig.server)
    sent_s = rig.clock()
    rig.clock.pass_s(left_s)
    assert rig.outcomes.fairly_late(rig.server, MODEL, sent_s) is fair


# The same of attempts


async def test_a_cloud_that_hangs_is_out_after_three_fair_deadlines() -> None:
    rig = harness.Rig(cloud(*[Plan(open_s=0.2)] * 12, *[HANGS] * 4))
    for _ in range(12):
        assert (await rig.call(request(budget_s=0.5))).error is None
    for _ in range(3):
        ended = await rig.call(request(budget_s=0.5))
        assert isinstance(ended.error, DeadlineExceeded)
    assert isinstance((await rig.call(request(budget_s=0.5))).error, NoEligibleEndpoint)
    assert len(rig.cloud_seen) == 15


async def test_deadlines_that_nobody_could_have_met_take_no_cloud_out() -> None:
    rig = harness.Rig(cloud(Plan(open_s=0.2)))
    assert (await rig.call(request(budget_s=0.5))).error is None
    for _ in range(6):
        ended = await rig.call(request(budget_s=0.1))
        assert isinstance(ended.error, DeadlineExceeded)
    assert (await rig.call(request(budget_s=0.5))).error is None


async def test_a_cloud_of_quick_and_long_answers_is_not_out_for_its_long_ones() -> None:
    quick, long = Plan(open_s=0.08), Plan(open_s=0.9)
    plans = [*[quick] * 12, *[long, quick] * 6, *[long] * 3, quick]
    rig = harness.Rig(cloud(*plans))
    ended = [await rig.call(request(budget_s=0.3)) for _ in plans]
    assert [e.error is None for e in ended] == [plan is quick for plan in plans]
    assert len(rig.cloud_seen) == len(plans)
