"""Who would be late first is the same whichever way it is reckoned."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gateway.scheduling.best_set.waiting import FEW, NOBODY, QueuePosition, Slot, WaitingQueue
from gateway.scheduling.calls import QueuedCall
from gateway.scheduling.estimates.demand import WaitStretch

BATCH = 4


def first_late(calls: list[QueuedCall], slots: list[Slot], stretch: list[float]) -> int:
    """Batch after batch, each where a server is free first."""
    free_s = [slot.free_in_s for slot in slots]
    for start in range(0, len(calls), BATCH):
        at = free_s.index(min(free_s))
        free_s[at] += slots[at].fixed_s
        for number, call in enumerate(calls[start : start + BATCH], start):
            free_s[at] += call.work * slots[at].per_work_s
            if free_s[at] * stretch[int(call.penalty)] > call.deadline_s:
                return number
    return NOBODY


@pytest.mark.parametrize("servers", [1, 2, 3])
@pytest.mark.parametrize("waiting", [1, BATCH, 2 * BATCH + 1, FEW, FEW + 1, 8 * BATCH, 101])
def test_the_first_who_would_be_late_is_found_for_few_and_for_many(
    servers: int, waiting: int
) -> None:
    draw = random.Random(f"{servers} {waiting}")
    found = set()
    for _ in range(40):
        slots = [
            Slot(draw.uniform(0, 0.1), draw.uniform(0, 0.1), draw.uniform(0.01, 0.1))
            for _ in range(servers)
        ]
        stretch = [draw.uniform(1.0, 1.5) for _ in range(3)]
        loose = draw.uniform(0.5, 4.0)
        calls = [
            QueuedCall(
                id=at,
                arrived_s=0.0,
                deadline_s=0.3 + loose * 0.06 * at / servers,
                penalty=draw.randrange(3),
                work=draw.uniform(0.5, 1.5),
            )
            for at in range(waiting)
        ]
        line = WaitingQueue()
        for call in calls:
            line.add(call, QueuePosition(call.deadline_s, call.deadline_s, int(call.penalty)))
        given = WaitStretch(np.array(stretch), stretch)
        at = line.first_late(slots, BATCH, given, now_s=0.0)
        assert at == first_late(calls, slots, stretch)
        found.add(at)
    assert waiting < BATCH or {NOBODY} < found, "some have somebody late, and some nobody"
