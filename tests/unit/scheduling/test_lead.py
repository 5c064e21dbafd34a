"""The next batch is sent early enough to be a whole on the server when the running one ends."""

from __future__ import annotations

import pytest

from gateway.scheduling.calls import Action
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.servers.instance import Instance, Lead, ServerStatus
from gateway.scheduling.tuning import Tuning
from tests.unit.scheduling.calls import (
    BATCH,
    FIXED_S,
    PER_WORK_S,
    Seen,
    clear,
    restricted,
    scheduler,
    steady_model,
)

PLAIN = Tuning(margin=1.0, batch_safety=1.0, reserve=0.0, restricted_budget=1.0)


class Backlog:
    """A server that always has a batch running, and many calls that wait. Bursts that are sent
    less than `needs_s` before the running batch ends are executed in two parts."""

    def __init__(self, needs_s: float, model: BatchModel | None = None) -> None:
        self.waits = Scheduler({"gpu": model or steady_model()}, BATCH, PLAIN, None, 0.001)
        self.seen = Seen()
        self.needs_s = needs_s
        self.now_s = 0.0
        self.sent_s: list[float] = []
        self._come()

    def _come(self) -> None:
        while self.waits.waiting < 3 * BATCH:
            self._told(self.waits.arrive(restricted(60.0, self.now_s), self.now_s))

    def _told(self, actions: list[Action]) -> None:
        before = len(self.seen.releases)
        self.seen(actions)
        self.sent_s += [self.now_s] * (len(self.seen.releases) - before)

    def run(self, batches: int) -> list[bool]:
        """Of each batch, whether it was split."""
        found: list[bool] = []
        start_s, split = 0.0, False
        for at in range(batches):
            calls = self.seen.releases[at].calls
            took_s = FIXED_S + PER_WORK_S * len(calls)
            end_s = start_s + took_s * (1.5 if split else 1.0)
            while self.waits.wake_s < end_s:
                self.now_s = self.waits.wake_s
                self._told(self.waits.tick(self.now_s))
            for number, call in enumerate(calls):
                first_part = split and number < len(calls) // 2
                self.now_s = end_s - took_s / 2 if first_part else end_s
                self._told(self.waits.ended(call.id, True, self.now_s))
            self._come()
            start_s, split = end_s, end_s - self.sent_s[at + 1] < self.needs_s
            found.append(split)
        return found


def test_a_burst_that_was_split_is_sent_earlier_the_next_time_until_none_is() -> None:
    backlog = Backlog(needs_s=0.012)
    split = backlog.run(100)
    assert any(split[1:3]), "twice a round trip of one millisecond is too late for this server"
    assert sum(split[20:]) <= 4


def test_a_server_that_was_only_known_with_split_bursts_is_found_to_be_faster() -> None:
    """Its batches end before they are expected to, so that nothing is ever sent ahead."""
    cold = BatchModel(2 * FIXED_S, 2 * PER_WORK_S)
    backlog = Backlog(needs_s=0.012, model=cold)
    split = backlog.run(120)
    assert any(split[1:20])
    assert sum(split[60:]) <= 6


def test_a_server_that_takes_bursts_at_once_is_sent_them_as_late_as_the_network_allows() -> None:
    backlog = Backlog(needs_s=0.0015)
    split = backlog.run(30)
    assert not any(split[1:]), "the first batch goes to an idle server"


@pytest.mark.parametrize(("gap_s", "share"), [(0.0, 0.25), (0.006, 0.375)])
def test_two_batches_are_told_by_one_gap_and_not_by_how_long_all_answers_take(
    gap_s: float, share: float
) -> None:
    """The gateway reads one answer after the other; sixteen take longer than a batch of one."""
    instance = Instance(0, "gpu", steady_model(), ServerStatus(idle=[0]))
    first, second = (tuple(clear() for _ in range(BATCH)) for _ in range(2))
    instance.send(first, 0.0)
    instance.send(second, 0.03)
    for call in first:
        instance.ended(call.id, 0.04, answered=True)
    read_s = 0.08
    for call in second:
        read_s += 0.0008 + (gap_s if call is second[BATCH // 2] else 0.0)
        instance.ended(call.id, read_s, answered=True)
    assert read_s - 0.08 > 0.5 * (FIXED_S + PER_WORK_S), "a batch of one, or more"
    assert instance.lead.share == share


def test_nothing_is_sent_before_half_of_the_running_batch_is_over() -> None:
    """Who goes with the next batch would be few, and the others would wait for one more."""
    for rows in (1, BATCH):
        waits, took_s = scheduler(lead_s=1.0), FIXED_S + PER_WORK_S * rows
        waits.arrive(clear(work=float(rows)), 0.0)
        waits.arrive(clear(), 0.0)
        assert waits.wake_s == pytest.approx(took_s / 2, abs=1e-3)


def test_the_lead_grows_quickly_and_shrinks_slowly() -> None:
    lead = Lead()
    for _ in range(100):
        lead.observe(split=True)
    assert lead.share == 1.0
    lead.observe(split=False)
    assert 0.99 < lead.share < 1.0
    for _ in range(1000):
        lead.observe(split=False)
    assert lead.share == 0.25
