"""Calls that arrive together are decided on together: an idle server has them as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gateway.scheduling.arrivals import Arrivals, Waiter
from gateway.scheduling.queue import NoServer, ServerNow
from tests.unit.test_group import GATHERED, Queue, turns

pytestmark = pytest.mark.leaping


async def test_those_who_come_in_one_turn_are_one_batch_of_an_idle_server() -> None:
    queue = Queue(batch=8)
    granted = [await task for task in queue.queued(*(queue.call(str(at)) for at in range(5)))]
    assert queue.in_flight == 5
    for grant in granted:
        grant.release(answered=True)


async def test_those_who_come_in_turn_after_turn_are_too() -> None:
    queue = Queue(batch=8)
    tasks = []
    for at in range(5):
        tasks += queue.queued(queue.call(str(at)))
        await turns(1)
    assert queue.in_flight == 0
    await turns(GATHERED)
    assert queue.in_flight == 5
    for task in tasks:
        (await task).release(answered=True)


async def test_a_batch_that_is_full_waits_for_nobody() -> None:
    queue = Queue(batch=2)
    tasks = []
    for at in range(6):
        tasks += queue.queued(queue.call(str(at)))
        await turns(1)
    assert queue.in_flight == 2
    for task in tasks:
        (await task).release(answered=True)


async def test_a_batch_that_ends_has_those_who_have_come() -> None:
    queue = Queue(batch=8)
    first = await queue.enter(queue.call("first"))
    tasks = queue.queued(queue.call("second"), queue.call("third"))
    await turns(1)
    first.release(answered=True)
    assert queue.in_flight == 2
    for task in tasks:
        (await task).release(answered=True)


async def test_who_leaves_meanwhile_keeps_nobody_and_takes_no_room() -> None:
    queue = Queue(batch=8)
    for leaver in range(3):
        tasks = queue.queued(*(queue.call(f"{leaver}-{at}") for at in range(3)))
        await turns(1)
        tasks.pop(leaver).cancel()
        granted = [await task for task in tasks]
        assert queue.in_flight == 2
        for grant in granted:
            grant.release(answered=True)
    (alone,) = queue.queued(queue.call("alone"))
    await turns(1)
    alone.cancel()
    await turns(GATHERED)
    assert (queue.in_flight, queue.group.waiting) == (0, 0)


async def test_who_has_no_server_is_told_and_the_others_go() -> None:
    queue = Queue("a", "b", batch=8)
    queue.around.servers["b"] = ServerNow("b", False)
    there = queue.call("there")
    nowhere = queue.call("nowhere", avoid=frozenset({"a"}))
    served, refused = queue.queued(there, nowhere)
    (await served).release(answered=True)
    with pytest.raises(NoServer):
        await refused


async def test_where_more_come_in_every_turn_they_are_gathered_for_a_while_only() -> None:
    decided: list[int] = []
    time_s = 0.0

    def clock() -> float:
        nonlocal time_s
        time_s += 0.0002
        return time_s

    def decide(waiters: Sequence[Waiter]) -> None:
        decided.append(len(waiters))

    arrivals = Arrivals(clock, decide)
    queue = Queue()

    async def comes(name: str) -> None:
        await arrivals.gather(queue.call(name), 1 << 30)

    tasks = []
    for at in range(40):
        tasks.append(asyncio.create_task(comes(str(at))))
        await turns(1)
    assert decided
    assert max(decided) < 20
    await asyncio.wait(tasks)
    assert sum(decided) <= len(tasks)
