"""A scheduler that fails takes no call with it: a rule goes on with its books."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from gateway.config import QueueSettings
from gateway.scheduling.calls import Action, CallExtent, QueuedCall, Refuse, Release, SpillNow
from gateway.scheduling.rules.failsafe import DWELL_S, LONGEST_DWELL_S, RELAPSE_S, Guarded
from gateway.scheduling.rules.priorities import ByPriority
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.servers.sharing import SharedGpu
from gateway.scheduling.tuning import DEFAULT
from gateway.server.status import publish
from tests.unit import harness
from tests.unit.harness import Plan, cloud, onprem, request, run
from tests.unit.scheduling.calls import BATCH, Seen, clear, finish, restricted, steady_model

SERVERS = ("gpu-0", "gpu-1")


class Bug(Exception):
    pass


class Failing(Scheduler):
    """Raises at one of its decisions, before or after it has decided."""

    at = 1 << 30
    after = False
    twice = False  # instead of raising, decides on the same calls again
    blind = False  # cannot tell anything either
    decisions = 0

    def would(self, call: QueuedCall, now_s: float) -> SpillNow | Refuse | None:
        if self.blind:
            raise Bug
        return super().would(call, now_s)

    def completion_s(self, size: CallExtent, deadline_s: float, now_s: float) -> float:
        if self.blind:
            raise Bug
        return super().completion_s(size, deadline_s, now_s)

    def _decide(self, now_s: float) -> list[Action]:
        self.decisions += 1
        fails = self.decisions >= self.at
        if fails and not (self.after or self.twice):
            raise Bug
        actions = super()._decide(now_s)
        if fails and self.after:
            raise Bug
        return [*actions, *actions] if fails and self.twice else actions


@dataclass
class Rig:
    at: int = 1 << 30
    after: bool = False
    twice: bool = False
    gpus: dict[str, SharedGpu] = field(default_factory=dict)
    told: list[Exception] = field(default_factory=list)
    comes_back: bool = False
    later_at: int = 1 << 30  # when the schedulers after the first fail
    resumed: int = 0

    def __post_init__(self) -> None:
        self.models = {name: steady_model() for name in SERVERS}
        self.guarded = Guarded(
            self.scheduler(self.at), lambda: ByPriority(self.models, BATCH), self.told.append,
            (lambda: self.scheduler(self.later_at)) if self.comes_back else None, self.count,
        )  # fmt: skip

    def scheduler(self, at: int) -> Failing:
        own = Failing(self.models, BATCH, DEFAULT, 0.0, 0.0, self.gpus)
        own.at, own.after, own.twice = at, self.after, self.twice
        return own

    def count(self) -> None:
        self.resumed += 1


@pytest.mark.parametrize("how", ["before", "after", "twice"])
def test_those_who_wait_and_those_with_a_server_are_known_to_the_rule(how: str) -> None:
    rig = Rig(after=how == "after", twice=how == "twice")
    seen, waits = Seen(), rig.guarded
    for _ in range(4 * BATCH):
        seen(waits.arrive(restricted(9.0), 0.0))
    first = list(seen.releases)
    assert waits.waiting == 4 * BATCH - len(seen.sent)
    assert isinstance(waits.deciding, Failing)
    waits.deciding.at = 0
    seen(finish(waits, first[0], 0.05))
    assert waits.replaced
    assert len(rig.told) == 1
    for _ in range(20):
        for release in tuple(seen.releases):
            if release.calls[0].id in waits._books.sent:
                seen(finish(waits, release, 1.0))
    assert len(seen.sent) == 4 * BATCH
    assert len({call.id for call in seen.sent}) == 4 * BATCH
    assert (waits.waiting, waits.servers.in_flight("gpu-0"), waits.servers.in_flight("gpu-1")) == (
        0,
        0,
        0,
    )


def test_what_was_told_of_servers_holds_for_the_rule_too() -> None:
    rig = Rig()
    seen, waits = Seen(), rig.guarded
    seen(waits.mark_up("gpu-0", False, 0.0))
    seen(waits.limit("gpu-1", 3, 0.0))
    waits.limits.cloud_room = 0.0
    assert isinstance(waits.deciding, Failing)
    waits.deciding.at = 0
    for _ in range(10):
        seen(waits.arrive(clear(9.0), 0.0))
    assert waits.replaced
    assert seen.spilled == []
    assert {release.server for release in seen.releases} == {"gpu-1"}
    assert waits.servers.in_flight("gpu-1") == len(seen.sent) <= 3


def test_a_forecast_that_fails_refuses_nobody() -> None:
    waits = Rig().guarded
    own = waits.deciding
    assert isinstance(own, Failing)
    own.blind = True
    assert waits.would(restricted(), 0.0) is None
    assert waits.completion_s(restricted(), 1.0, 0.0) == 0.0
    assert not waits.replaced


def test_a_timer_that_cannot_be_told_goes_off_at_once_and_the_rule_follows() -> None:
    waits = Rig().guarded
    seen = Seen()
    seen(waits.arrive(restricted(9.0), 0.0))
    own = waits.deciding
    assert isinstance(own, Failing)
    own.blind, own.at = True, 0
    seen(waits.tick(0.1))
    assert waits.replaced


def test_the_other_models_of_a_gpu_do_not_wait_for_one_that_failed() -> None:
    gpus = {name: SharedGpu() for name in SERVERS}
    rig, other = Rig(gpus=gpus), {name: gpu.join() for name, gpu in gpus.items()}
    seen, waits = Seen(), rig.guarded
    for _ in range(4 * BATCH):
        seen(waits.arrive(restricted(9.0), 0.0))
    own = waits.deciding
    assert isinstance(own, Failing)
    own.at = 0
    seen(waits.tick(0.01))
    assert waits.replaced
    assert all(gpu.may(other[name], 99.0) for name, gpu in gpus.items())


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_every_call_ends_once_whenever_the_scheduler_fails(seed: int, comes_back: bool) -> None:
    chance = random.Random(seed)
    rig = Rig(at=chance.randrange(1, 300), after=chance.random() < 0.5,
              twice=chance.random() < 0.3, comes_back=comes_back,
              later_at=chance.choice((0, 20, 1 << 30)))  # fmt: skip
    waits, now_s = rig.guarded, 0.0
    if comes_back:
        waits._dwell._dwell_s = 0.1
    ended: Counter[int | str] = Counter()
    answers: list[tuple[float, QueuedCall]] = []

    def do(actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Release):
                answers.extend((now_s + chance.choice((0.01, 0.05)), c) for c in action.calls)
            else:
                ended[action.call.id] += 1
                if isinstance(action, SpillNow):
                    assert not action.call.restricted

    calls = 0
    while calls < 200 or answers or waits.waiting:
        now_s += 0.004
        if calls < 200:
            calls += 1
            make = chance.choice((clear, restricted))
            do(waits.arrive(make(chance.choice((0.02, 0.3, 5.0)), now_s), now_s))
        due = [a for a in answers if a[0] <= now_s]
        answers = [a for a in answers if a[0] > now_s]
        for _, call in due:
            ended[call.id] += 1
            do(waits.ended(call.id, chance.random() < 0.9, now_s))
        do(waits.tick(now_s))
        assert now_s < 60.0
    assert set(ended.values()) == {1}
    assert len(ended) == 200
    if not comes_back:
        assert waits.replaced is bool(rig.told)


# The way back


def failing_for(rig: Rig, seen: Seen, now_s: float = 0.0) -> None:
    """The scheduler raises at its next decision."""
    own = rig.guarded.deciding
    assert isinstance(own, Failing)
    own.at = 0
    for _ in range(4 * BATCH):
        seen(rig.guarded.arrive(restricted(900.0, now_s), now_s))
    assert rig.guarded.replaced


def test_a_scheduler_that_failed_for_a_while_decides_again_with_all_calls() -> None:
    rig, seen = Rig(comes_back=True), Seen()
    waits = rig.guarded
    seen(waits.mark_up("gpu-1", False, 0.0))
    seen(waits.limit("gpu-0", 3, 0.0))
    waits.limits.max_batch = 3
    failing_for(rig, seen)
    seen(waits.tick(DWELL_S - 0.1))
    assert waits.replaced
    assert waits.report(DWELL_S - 0.1) == {
        "safe_mode": True, "failures": 1, "last_error": "Bug",
        "for_s": DWELL_S - 0.1, "back_in_s": 0.1,
    }  # fmt: skip
    seen(waits.tick(DWELL_S))
    assert rig.resumed == 1
    own = waits.deciding
    assert isinstance(own, Failing)
    assert own.limits.max_batch == 3
    assert own.waiting == waits.waiting == 4 * BATCH - len(seen.sent)
    assert own.servers.in_flight("gpu-0") == waits.servers.in_flight("gpu-0") == len(seen.sent)
    assert waits.report(DWELL_S) == {"safe_mode": False, "failures": 1, "last_error": "Bug"}
    now_s = DWELL_S
    while waits._books.sent:
        now_s += 0.05
        seen(
            finish(
                waits, next(r for r in seen.releases if r.calls[0].id in waits._books.sent), now_s
            )
        )
    assert len({call.id for call in seen.sent}) == len(seen.sent) == 4 * BATCH
    assert {release.server for release in seen.releases} == {"gpu-0"}
    assert not waits.replaced


def test_one_that_fails_again_and_again_is_tried_less_and_less() -> None:
    """S1: it comes and goes a few times an hour, and not with every call."""
    rig, seen, failures = Rig(comes_back=True, later_at=0), Seen(), []
    failing_for(rig, seen)
    for tenths in range(10 * 3600):
        seen(rig.guarded.tick(tenths / 10))
        failures.append(len(rig.told))
    gaps = [failures.count(n) / 10 for n in range(1, len(rig.told))]
    assert gaps[:4] == pytest.approx([DWELL_S * 2**n for n in range(4)], abs=0.5)
    assert max(gaps) == pytest.approx(LONGEST_DWELL_S, abs=0.5)
    assert rig.resumed == 0
    assert len(rig.told) < 20


def test_one_that_was_well_for_long_is_back_after_the_first_dwell() -> None:
    rig, seen = Rig(comes_back=True), Seen()
    now_s = 0.0
    for _ in range(3):
        failing_for(rig, seen, now_s)
        seen(rig.guarded.tick(now_s + DWELL_S))
        assert not rig.guarded.replaced
        now_s += DWELL_S + RELAPSE_S
    failing_for(rig, seen, now_s)
    seen(rig.guarded.tick(now_s + DWELL_S))
    failing_for(rig, seen, now_s + DWELL_S + 1)
    seen(rig.guarded.tick(now_s + 2 * DWELL_S + 1))
    assert rig.guarded.replaced


def test_it_has_the_same_numbers_on_its_gpus_as_before() -> None:
    """By which their queues are known to the others."""
    gpus = {name: SharedGpu() for name in SERVERS}
    rig = Rig(gpus=gpus, comes_back=True)
    others = {name: gpu.join() for name, gpu in gpus.items()}
    before = {name: s.number for name, s in rig.guarded._scheduler.servers._statuses.items()}
    seen = Seen()
    for round_ in (0, 1):
        failing_for(rig, seen, 100.0 * round_)
        assert all(gpu.may(others[name], 9e9) for name, gpu in gpus.items())
        seen(rig.guarded.tick(100.0 * round_ + DWELL_S))
        own = rig.guarded.deciding
        assert isinstance(own, Failing)
        assert {name: s.number for name, s in own.servers._statuses.items()} == before
        assert {gpu.vacant for gpu in gpus.values()} == {2}


def test_through_the_gateway_a_bug_in_the_scheduler_costs_no_call() -> None:
    async def main() -> None:
        rig = harness.Rig(
            onprem(Plan(open_s=0.05)), cloud(),
            setup=harness.Setup(queue=QueueSettings(lead_ms=0)),
        )  # fmt: skip
        calls = [request(kind, 5.0) for kind in ("restricted", "clear") * 6]
        tasks = [asyncio.create_task(rig.call(call)) for call in calls]
        await asyncio.sleep(0.06)
        group = rig.queues.queue(harness.MODEL, ("gpu",))
        guarded = group.scheduling
        assert isinstance(guarded, Guarded)
        assert guarded.waiting
        told: list[Exception] = []
        guarded._failed = told.append
        assert isinstance(guarded.deciding, Scheduler)
        guarded.deciding.servers.up = None  # type: ignore[assignment]
        ended = await asyncio.gather(*tasks)
        assert [e.error for e in ended] == [None] * 12
        assert guarded.replaced
        assert len(told) == 1
        report = rig.queues.report()[0]["scheduler"]
        assert report == guarded.report(harness.now_s())
        publish(rig.metrics, rig.registry.states, rig.queues)
        labels = {"endpoint": "gpu", "model": harness.MODEL}
        shown = rig.metrics.registry.get_sample_value
        assert shown("spillway_queue_safe_mode", labels) == 1.0
        await asyncio.sleep(DWELL_S)
        later = await asyncio.gather(*(rig.call(request("restricted")) for _ in range(3)))
        assert [e.error for e in later] == [None] * 3
        assert isinstance(guarded.deciding, Scheduler)
        publish(rig.metrics, rig.registry.states, rig.queues)
        assert shown("spillway_queue_safe_mode", labels) == 0.0
        assert all(not seen.id.startswith("restricted") for seen in rig.cloud_seen)
        assert rig.leftovers() == {}

    run(main())
