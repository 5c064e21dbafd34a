"""Who waits for a model, and in what order (S4): urgency, deadline, aging, and a small window."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import DeadlineExceeded, Saturated
from gateway.queue import OnPremQueue, Turn
from gateway.types import InferenceRequest
from tests.unit.harness import now_s, request, run


def queue(batch: int = 1, batches: float = 1.0, max_waiting: int = 100) -> OnPremQueue:
    return OnPremQueue(batch, now_s, in_flight_batches=batches, max_waiting=max_waiting)


async def order_of(calls: Sequence[tuple[str, InferenceRequest]]) -> list[str]:
    """Who is served in which order by a server that takes one at a time, held at first."""
    waits = queue()
    held = await waits.enter(request(), False)
    served: list[str] = []

    async def one(name: str, call: InferenceRequest) -> None:
        turn = await waits.enter(call, name.startswith("restricted"))
        served.append(name)
        turn.release()

    tasks = [asyncio.create_task(one(name, call)) for name, call in calls]
    await asyncio.sleep(0)
    held.release()
    await asyncio.gather(*tasks)
    assert (waits.in_flight, waits.waiting) == (0, 0)
    return served


# The order


def test_the_tightest_deadline_goes_first_whoever_came_first() -> None:
    async def main() -> list[str]:
        return await order_of([(f"{s:g} s", request(budget_s=s)) for s in (9.0, 3.0, 6.0, 1.0)])

    assert run(main()) == ["1 s", "3 s", "6 s", "9 s"]


def test_among_equals_the_first_to_come_goes_first() -> None:
    async def main() -> list[str]:
        return await order_of([(str(i), request(budget_s=5.0)) for i in range(9)])

    assert run(main()) == [str(i) for i in range(9)]


def test_the_more_urgent_priority_goes_before_an_equal_deadline() -> None:
    async def main() -> list[str]:
        calls = [(str(p), replace(request(budget_s=50.0), priority=p)) for p in (2, 0, 1)]
        return await order_of(calls)

    assert run(main()) == ["0", "1", "2"]


def test_restricted_calls_which_have_no_other_place_go_before_clear_ones_of_equal_budget() -> None:
    async def main() -> list[str]:
        return await order_of(
            [("clear", request(budget_s=5.0)), ("restricted", request(budget_s=5.0))]
        )

    assert run(main()) == ["restricted", "clear"]


def test_a_clear_call_with_half_the_budget_goes_before_a_restricted_one() -> None:
    async def main() -> list[str]:
        return await order_of(
            [("restricted", request(budget_s=5.0)), ("clear", request(budget_s=2.5))]
        )

    assert run(main()) == ["clear", "restricted"]


def test_a_call_without_a_tight_budget_is_not_put_off_for_ever() -> None:
    """An hour's budget counts as a minute of patience, so it beats a newcomer after a minute."""

    async def main() -> bool:
        waits = queue()
        old = waits.key(request(budget_s=3600.0), False)
        await asyncio.sleep(55.0)
        return old < waits.key(request(budget_s=10.0), False)

    assert run(main())


@pytest.mark.parametrize("priority", [1, 5, 9])
def test_the_lowest_class_progresses_under_permanent_overload(priority: int) -> None:
    """Twice the calls that the server can take, all urgent, for ever; one that is not."""

    async def main() -> float:
        waits = queue()
        start_s = now_s()

        async def served(call: InferenceRequest) -> None:
            turn = await waits.enter(call, False)
            await asyncio.sleep(0.1)
            turn.release()

        async def overload() -> None:
            async with asyncio.TaskGroup() as group:
                while True:
                    group.create_task(_until_late(served(request(budget_s=2.0))))
                    await asyncio.sleep(0.05)

        others = asyncio.create_task(overload())
        await asyncio.sleep(5.0)
        await served(replace(request(budget_s=3600.0), priority=priority))
        took_s = now_s() - start_s
        others.cancel()
        await asyncio.gather(others, return_exceptions=True)
        return took_s

    assert run(main()) < 60 + 10 * priority + 10


async def _until_late(waiting: Coroutine[Any, Any, None]) -> None:
    try:
        await waiting
    except DeadlineExceeded:
        return


# The window


@pytest.mark.parametrize(
    ("batch", "batches", "window"),
    [(1, 2.0, 2), (8, 2.0, 16), (8, 1.5, 12), (3, 1.5, 5), (1, 0.1, 1), (4, 1.0, 4)],
)
def test_at_most_the_running_batch_and_the_next_are_with_the_server(
    batch: int, batches: float, window: int
) -> None:
    async def main() -> None:
        waits = queue(batch, batches)
        tasks = [asyncio.create_task(waits.enter(request(), False)) for _ in range(window + 5)]
        await asyncio.sleep(0)
        assert (waits.in_flight, waits.waiting) == (window, 5)
        for i in range(5):
            tasks[i].result().release()
            await asyncio.sleep(0)
            assert (waits.in_flight, waits.waiting) == (window, 4 - i)
        for task in tasks[5:]:
            (await task).release()
        assert waits.in_flight == 0

    run(main())


def test_the_window_never_exceeds_what_the_endpoint_takes() -> None:
    assert OnPremQueue(64, lambda: 0.0, max_in_flight=10).window == 10


def test_a_server_that_turns_out_to_batch_more_gets_more_at_once() -> None:
    async def main() -> None:
        waits = queue(1, 2.0)
        tasks = [asyncio.create_task(waits.enter(request(), False)) for _ in range(9)]
        await asyncio.sleep(0)
        assert waits.in_flight == 2
        waits.widen(4)
        await asyncio.sleep(0)
        assert (waits.in_flight, waits.waiting) == (8, 1)
        waits.widen(2)
        assert waits.batch == 4, "it does not shrink below what is already there"
        for task in tasks:
            (await task).release()

    run(main())


def test_a_newcomer_does_not_overtake_those_who_wait_for_the_freed_place() -> None:
    async def main() -> list[str]:
        waits = queue()
        served: list[str] = []

        async def one(name: str) -> Turn:
            turn = await waits.enter(request(budget_s=5.0), False)
            served.append(name)
            return turn

        first = await one("first")
        second = asyncio.create_task(one("second"))
        await asyncio.sleep(0)
        first.release()
        third = asyncio.create_task(one("third"))
        (await second).release()
        (await third).release()
        return served

    assert run(main()) == ["first", "second", "third"]


def test_a_turn_that_is_released_twice_frees_one_place() -> None:
    async def main() -> None:
        waits = queue(2)
        turns = [await waits.enter(request(), False) for _ in range(2)]
        turns[0].release()
        turns[0].release()
        assert waits.in_flight == 1

    run(main())


# Refusal, expiry, leaving


def test_a_full_queue_refuses_at_once_and_says_when_to_come_back() -> None:
    async def main() -> None:
        waits = queue(max_waiting=2)
        tasks = [asyncio.create_task(waits.enter(request(), False)) for _ in range(3)]
        await asyncio.sleep(0)
        assert not waits.room
        start_s = now_s()
        with pytest.raises(Saturated) as caught:
            await waits.enter(request(), True)
        assert now_s() == start_s
        assert caught.value.reason == "queue_full"
        assert caught.value.retry_after_s
        (await tasks[0]).release()
        assert waits.waiting == 1
        for task in tasks[1:]:
            (await task).release()

    run(main())


def test_who_waits_past_its_deadline_is_told_so_and_leaves_no_trace() -> None:
    async def main() -> None:
        waits = queue()
        held = await waits.enter(request(), False)
        start_s = now_s()
        with pytest.raises(DeadlineExceeded) as caught:
            await waits.enter(request(budget_s=0.3), False)
        assert now_s() - start_s == pytest.approx(0.3, abs=0.05)
        assert caught.value.reason == "deadline_exceeded_in_queue"
        assert waits.waiting == 0
        held.release()
        assert waits.in_flight == 0

    run(main())


def test_how_long_a_call_waited_is_known() -> None:
    async def main() -> tuple[float, float]:
        waits = queue()
        held = await waits.enter(request(), False)
        task = asyncio.create_task(waits.enter(request(budget_s=5.0), False))
        await asyncio.sleep(1.5)
        held.release()
        return held.queued_s, (await task).queued_s

    at_once_s, waited_s = run(main())
    assert at_once_s == 0.0
    assert waited_s == pytest.approx(1.5)


@pytest.mark.parametrize("granted", [False, True], ids=["waiting", "just-granted"])
def test_a_caller_who_leaves_the_queue_gives_its_place_to_the_next(granted: bool) -> None:
    async def main() -> None:
        waits = queue()
        held = await waits.enter(request(), False)
        leaves, stays = (
            asyncio.create_task(waits.enter(request(budget_s=s), False)) for s in (1.0, 2.0)
        )
        await asyncio.sleep(0)
        if granted:
            held.release()  # grants it to the one that leaves in the same step
            leaves.cancel()
        else:
            leaves.cancel()
            held.release()
        turn = await stays
        assert (waits.in_flight, waits.waiting) == (1, 0)
        turn.release()
        assert waits.in_flight == 0
        assert leaves.cancelled()

    run(main())


def test_who_leaves_does_not_disturb_the_order_of_those_who_stay() -> None:
    async def main() -> list[float]:
        waits = queue()
        held = await waits.enter(request(), False)
        served: list[float] = []

        async def one(budget_s: float) -> None:
            turn = await waits.enter(request(budget_s=budget_s), False)
            served.append(budget_s)
            turn.release()

        tasks = {s: asyncio.create_task(one(s)) for s in (1.0, 2.0, 9.0, 3.0, 8.0, 10.0, 11.0)}
        await asyncio.sleep(0)
        tasks[1.0].cancel()
        await asyncio.sleep(0)
        held.release()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        return served

    assert run(main()) == [2.0, 3.0, 8.0, 9.0, 10.0, 11.0]


# What the decision reads


def test_a_call_counts_only_those_who_would_be_served_before_it() -> None:
    async def main() -> None:
        waits = queue()
        turns = [
            asyncio.create_task(waits.enter(request(budget_s=s), False))
            for s in (9.0, 1.0, 5.0, 20.0)
        ]
        await asyncio.sleep(0)  # the first is with the server
        assert waits.ahead(waits.key(request(budget_s=0.5), False)) == 1
        assert waits.ahead(waits.key(request(budget_s=6.0), False)) == 3
        assert waits.ahead(waits.key(request(budget_s=30.0), False)) == 4
        for turn in turns:
            turn.cancel()
        await asyncio.gather(*turns, return_exceptions=True)

    run(main())
