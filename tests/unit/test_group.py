"""Calls that really wait for a model: their order, their batches, and every way out (S2, S4)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, DeadlineUnmeetable, Saturated
from gateway.scheduling.calls import Action, CloudPermission, QueuedCall, SpillNow
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import Tail
from gateway.scheduling.queue import (
    Grant,
    ModelQueue,
    NoServer,
    QueueConditions,
    ServerNow,
    Spilled,
)
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.tuning import Tuning
from tests.unit.harness import now_s, run

pytestmark = pytest.mark.leaping

BATCH_S = 0.1


def model() -> BatchModel:
    """A server whose batches take a tenth of a second, whatever is in them, as it has shown."""
    found = BatchModel(BATCH_S, 1e-6)
    for _ in range(20):
        found.observe(1.0, BATCH_S)
    return found


@dataclass
class Around:
    servers: dict[str, ServerNow] = field(default_factory=dict)
    cloud_room: float = 1e9

    def look(self) -> QueueConditions:
        return QueueConditions(tuple(self.servers.values()), self.cloud_room)


class Queue:
    """A group with real waiting calls, and a server that answers when a test says so."""

    def __init__(self, *names: str, batch: int = 1, max_waiting: int = 100) -> None:
        names = names or ("gpu",)
        self.around = Around({name: ServerNow(name, True) for name in names})
        self.scheduler = Scheduler(
            {name: model() for name in names}, batch, Tuning(max_waiting=max_waiting)
        )
        self.group = ModelQueue(self.scheduler, self.around.look, now_s)
        self.served: list[str] = []

    def call(
        self,
        name: str,
        budget_s: float = 5.0,
        *,
        clear: bool = False,
        later_s: float = 0.0,
        avoid: frozenset[str] = frozenset(),
    ) -> QueuedCall:
        return QueuedCall(
            name, now_s(), now_s() + budget_s, 1.0, price=0.01,
            leave=CloudPermission.FREELY if clear else CloudPermission.NEVER, restricted=not clear,
            cloud=Tail(0.01) if clear else None, later_s=later_s, avoid=avoid,
        )  # fmt: skip

    async def enter(self, call: QueuedCall) -> Grant:
        turn = await self.group.enter(call, Deadline(call.deadline_s, now_s))
        self.served.append(str(call.id))
        return turn

    async def serve(self, call: QueuedCall) -> None:
        turn = await self.enter(call)
        await asyncio.sleep(BATCH_S)
        turn.release(answered=True)

    def queued(self, *calls: QueuedCall) -> list[asyncio.Task[Grant]]:
        return [asyncio.create_task(self.enter(call)) for call in calls]

    @property
    def in_flight(self) -> int:
        return sum(self.scheduler.servers.in_flight(name) for name in self.around.servers)


GATHERED = 5  # turns of the loop, after which nobody who arrived is gathered any more


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def order_of(queue: Queue, *calls: QueuedCall) -> list[str]:
    """Who is served in which order, behind one that holds the server while they come."""
    held = await queue.enter(queue.call("held", 0.5))
    serving = [asyncio.create_task(queue.serve(call)) for call in calls]
    await asyncio.sleep(0)
    held.release(answered=False)
    await asyncio.gather(*serving)
    assert (queue.in_flight, queue.group.waiting) == (0, 0)
    return queue.served[1:]


# The order


async def test_the_tightest_deadline_goes_first_whoever_came_first() -> None:
    queue = Queue()
    assert (await order_of(queue, *(queue.call(f"{s:g} s", s) for s in (9.0, 3.0, 6.0, 1.0)))) == [
        "1 s",
        "3 s",
        "6 s",
        "9 s",
    ]


async def test_among_equals_the_first_to_come_goes_first() -> None:
    queue = Queue()
    assert (await order_of(queue, *(queue.call(str(i)) for i in range(9)))) == [
        str(i) for i in range(9)
    ]


async def test_a_less_urgent_call_stands_behind_others_of_its_deadline() -> None:
    queue = Queue()
    assert (
        await order_of(
            queue, *(queue.call(f"{later:g}", 50.0, later_s=later) for later in (20.0, 0.0, 10.0))
        )
    ) == ["0", "10", "20"]


# With the servers


async def test_what_is_with_a_server_is_one_batch_and_the_rest_waits_here() -> None:
    queue = Queue(batch=4)
    first = await queue.enter(queue.call("first"))
    waiting = queue.queued(*(queue.call(str(i)) for i in range(9)))
    await turns(GATHERED)
    assert (queue.in_flight, queue.group.waiting) == (1, 9)
    first.release(answered=True)
    await asyncio.sleep(0)
    assert (queue.in_flight, queue.group.waiting) == (4, 5)
    for task in waiting[:3]:
        task.result().release(answered=True)
    await asyncio.sleep(0)
    assert (queue.in_flight, queue.group.waiting) == (1, 5)
    for task in waiting:
        (await task).release(answered=True)
    assert queue.in_flight == 0


async def test_a_server_that_starts_slowly_gets_no_more_than_it_may() -> None:
    queue = Queue(batch=8)
    queue.around.servers["gpu"] = ServerNow("gpu", True, most=2)
    waiting = queue.queued(*(queue.call(str(i)) for i in range(6)))
    await asyncio.sleep(0)
    seen = 0
    for task in waiting:
        turn = await task
        seen = max(seen, queue.in_flight)
        turn.release(answered=True)
    assert seen <= 2


async def test_a_call_does_not_go_where_it_failed() -> None:
    queue = Queue("a", "b")
    calls = [queue.call(str(i), avoid=frozenset({"a"})) for i in range(4)]
    servers = []
    for task in queue.queued(*calls):
        turn = await task
        servers.append(turn.server)
        turn.release(answered=True)
    assert servers == ["b"] * 4


async def test_a_turn_that_is_released_twice_frees_one_place() -> None:
    queue = Queue(batch=2)
    held = await queue.enter(queue.call("held"))
    turns = queue.queued(*(queue.call(str(i)) for i in range(2)))
    await asyncio.sleep(0)
    held.release(answered=True)
    await asyncio.sleep(0)
    turns[0].result().release(answered=True)
    turns[0].result().release(answered=True)
    assert queue.in_flight == 1


async def test_how_long_a_call_waited_is_known() -> None:
    queue = Queue()
    held = await queue.enter(queue.call("held"))
    (task,) = queue.queued(queue.call("waits"))
    await asyncio.sleep(1.5)
    held.release(answered=True)
    at_once, waited_s = held.queued_s, (await task).queued_s
    assert at_once == 0.0
    assert waited_s == pytest.approx(1.5, abs=0.01)


# Ways out


async def test_a_clear_call_that_would_be_late_is_sent_away_at_once() -> None:
    queue = Queue()
    held = await queue.enter(queue.call("held"))
    others = queue.queued(*(queue.call(str(i), 0.5) for i in range(3)))
    await asyncio.sleep(0)
    began_s = now_s()
    with pytest.raises(Spilled) as told:
        await queue.enter(queue.call("clear", 0.3, clear=True))
    assert now_s() == began_s
    held.release(answered=True)
    for other in others:
        (await other).release(answered=True)
    assert (queue.in_flight, queue.group.waiting) == (0, 0)
    assert told.value.why == "spill_deadline"


@pytest.mark.parametrize("cloud_room", [0.0, 1e9])
def test_while_the_cloud_takes_nothing_nobody_is_sent_there(cloud_room: float) -> None:
    async def main() -> bool:
        queue = Queue()
        queue.around.cloud_room = cloud_room
        held = await queue.enter(queue.call("held"))
        try:
            turn = await queue.enter(queue.call("clear", 0.05, clear=True))
        except Spilled:
            return True
        except (DeadlineExceeded, DeadlineUnmeetable):
            return False
        finally:
            held.release(answered=True)
        turn.release(answered=True)
        return False

    assert run(main()) is (cloud_room > 0)


async def test_a_waiting_call_is_sent_away_when_the_server_turns_out_to_be_slow() -> None:
    queue = Queue()
    held = await queue.enter(queue.call("held"))
    began_s = now_s()
    (task,) = queue.queued(queue.call("clear", 0.5, clear=True))
    with pytest.raises(Spilled):
        await task
    held.release(answered=True)
    assert 0.1 < (now_s() - began_s) < 0.5


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_back() -> None:
    queue = Queue(max_waiting=2)
    held = await queue.enter(queue.call("held"))
    tasks = queue.queued(*(queue.call(str(i)) for i in range(2)))
    await asyncio.sleep(0)
    with pytest.raises(Saturated) as told:
        await queue.enter(queue.call("one more"))
    assert told.value.reason == "queue_full"
    assert told.value.retry_after_s
    held.release(answered=True)
    for task in tasks:
        (await task).release(answered=True)


async def test_a_call_that_is_provably_late_is_told_at_once_and_when_there_will_be_room() -> None:
    queue = Queue()
    queue.scheduler.arrive(queue.call("teaches"), now_s())
    await asyncio.sleep(BATCH_S)
    queue.scheduler.ended("teaches", True, now_s())
    held = await queue.enter(queue.call("held"))
    began_s = now_s()
    with pytest.raises(DeadlineUnmeetable) as told:
        await queue.enter(queue.call("late", 0.12))
    assert now_s() == began_s
    assert told.value.retry_after_s
    held.release(answered=True)


async def test_who_waits_past_its_deadline_is_told_so_and_leaves_no_trace() -> None:
    queue = Queue()
    held = await queue.enter(queue.call("held", 9.0))
    began_s = now_s()
    with pytest.raises((DeadlineExceeded, DeadlineUnmeetable)):
        await queue.enter(queue.call("waits", 0.3))
    assert now_s() - began_s <= 0.3 + 0.05
    assert queue.group.waiting == 0
    held.release(answered=True)
    assert queue.in_flight == 0


class _NeverActs(Scheduler):
    """Whatever happens, nobody is sent, moved or refused."""

    def arrive(self, call: QueuedCall, now_s: float) -> list[Action]:
        super().arrive(call, now_s)
        return []

    def tick(self, now_s: float) -> list[Action]:
        return []

    def cancelled(self, call_id: int | str, now_s: float) -> list[Action]:
        return []


async def test_a_wait_ends_with_its_deadline_whatever_is_decided() -> None:
    """D1: the queue keeps time by itself."""

    queue = Queue()
    queue.group.scheduling = _NeverActs({"gpu": model()}, 1)
    began_s = now_s()
    with pytest.raises(DeadlineExceeded):
        await queue.enter(queue.call("waits", 0.5))
    assert queue.group.waiting == 0
    queue.group.close()
    assert (now_s() - began_s) == pytest.approx(0.5, abs=0.01)


async def test_when_the_last_server_goes_whoever_waits_is_told_at_once() -> None:
    queue = Queue()
    held = await queue.enter(queue.call("held"))
    (task,) = queue.queued(queue.call("waits", 60.0))
    await asyncio.sleep(0)
    went_s = now_s()
    queue.around.servers["gpu"] = ServerNow("gpu", False)
    with pytest.raises(NoServer):
        await task
    held.release(answered=False)
    assert (now_s() - went_s) < 0.1


async def test_a_caller_who_leaves_while_it_waits_gives_its_place_up() -> None:
    queue = Queue()
    held = await queue.enter(queue.call("held"))
    leaves, stays = queue.queued(queue.call("leaves", 2.0), queue.call("stays", 4.0))
    await asyncio.sleep(0)
    leaves.cancel()
    await asyncio.gather(leaves, return_exceptions=True)
    assert queue.group.waiting == 1
    held.release(answered=True)
    (await stays).release(answered=True)
    assert (queue.in_flight, queue.group.waiting) == (0, 0)


async def test_a_caller_who_leaves_in_the_step_in_which_it_is_called_up_gives_its_turn_back() -> (
    None
):
    queue = Queue()
    held = await queue.enter(queue.call("held"))
    (leaves,) = queue.queued(queue.call("leaves"))
    await asyncio.sleep(0)
    held.release(answered=True)
    leaves.cancel()
    await asyncio.gather(leaves, return_exceptions=True)
    assert (queue.in_flight, queue.group.waiting) == (0, 0)
    (await queue.enter(queue.call("next"))).release(answered=True)


async def test_who_waits_for_a_server_where_it_failed_already_is_told_when_the_other_goes() -> None:
    queue = Queue("a", "b")
    held = [await queue.enter(queue.call(name)) for name in ("one", "two")]
    (task,) = queue.queued(queue.call("waits", 60.0, avoid=frozenset({"a"})))
    await asyncio.sleep(0)
    queue.around.servers["b"] = ServerNow("b", False)
    with pytest.raises(NoServer):
        await task
    with pytest.raises(NoServer):
        await queue.enter(queue.call("comes", 60.0, avoid=frozenset({"a"})))
    for turn in held:
        turn.release(answered=False)
    assert (queue.in_flight, queue.group.waiting) == (0, 0)


@pytest.mark.parametrize("others", [(), ("b",)], ids=["alone", "two servers"])
async def test_what_became_slow_is_left_to_those_with_no_other_place(
    others: tuple[str, ...],
) -> None:
    queue = Queue("a", *others)
    held = [await queue.enter(queue.call(f"held {i}")) for i in range(1 + len(others))]
    clear, stays = queue.queued(queue.call("clear", 50.0, clear=True), queue.call("stays"))
    await asyncio.sleep(0)
    queue.group.shun("a")
    if not others:
        with pytest.raises(Spilled, match="spill_slow"):
            await clear
    for turn in held:
        turn.release(answered=True)
    for task in (stays, clear) if others else (stays,):
        turn = await task
        assert turn.server == (others[0] if others else "a")
        turn.release(answered=True)
    assert (queue.in_flight, queue.group.waiting) == (0, 0)


# What would happen


async def test_a_forecast_is_what_then_happens_and_changes_nothing() -> None:
    queue = Queue()
    held = await queue.enter(queue.call("held"))
    others = queue.queued(*(queue.call(str(i), 0.6) for i in range(3)))
    await asyncio.sleep(0)
    foreseen = queue.group.would(queue.call("clear", 0.15, clear=True))
    assert isinstance(foreseen, SpillNow)
    assert queue.group.would(queue.call("long", 9.0)) is None
    assert (queue.in_flight, queue.group.waiting) == (1, 3)
    with pytest.raises(Spilled):
        await queue.enter(queue.call("clear", 0.15, clear=True))
    held.release(answered=True)
    for other in others:
        (await other).release(answered=True)
