"""What may happen while a call is looked at, waits for its turn, or gives it back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest

from gateway.config import QueueSettings
from gateway.core.errors import DeadlineExceeded
from gateway.core.reply import ReplyStream
from gateway.core.types import Classification, InferenceRequest, Sensitivity, ServedModel
from gateway.pipeline.retries import RetryBudget
from tests.unit.harness import (
    FAILS,
    HANGS,
    HANGS_BEFORE_FIRST_FRAME,
    MODEL,
    Ended,
    Plan,
    Rig,
    ScriptedConnector,
    Setup,
    Site,
    cloud,
    now_s,
    onprem,
    request,
)

pytestmark = pytest.mark.leaping


@dataclass(frozen=True, slots=True)
class _AtTheDoor:
    """Finds everything at the door, if anything; each look takes its time."""

    first_s: float = 0.0
    door_s: float = 0.0

    def classify_now(self, request: InferenceRequest) -> None:
        """There is always something to wait for."""

    async def classify(self, request: InferenceRequest) -> Classification:
        await asyncio.sleep(self.first_s)
        return Classification(request.id, Sensitivity.CLEAR, "clear")

    async def complete(
        self, request: InferenceRequest, classification: Classification
    ) -> Classification:
        await asyncio.sleep(self.door_s)
        if not request.id.startswith("restricted"):
            return replace(classification, complete=True)
        return Classification(request.id, Sensitivity.RESTRICTED, "entities", complete=True)


class _SlowToGiveUp(ScriptedConnector):
    """Takes a moment until a cancelled call has left it."""

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        try:
            return await super().open(request, served)
        finally:
            await asyncio.sleep(0.05)


class _Counting(ScriptedConnector):
    """Counts the calls that are with it until they are closed."""

    most = 0

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        inside = len(self.opening) + len(self.replies) - len(self.closing) + 1
        self.most = max(self.most, inside)
        return await super().open(request, served)


async def _all(rig: Rig, calls: list[InferenceRequest]) -> list[Ended]:
    return await asyncio.gather(*(rig.call(call) for call in calls))


async def test_calls_that_are_at_the_door_together_overshoot_no_limit_in_the_cloud() -> None:
    """S2: each was decided on when there was room."""

    away = replace(cloud(Plan(open_s=0.1)), connector=_Counting(Plan(open_s=0.1)))
    rig = Rig(replace(away, max_in_flight=2), setup=Setup(classifier=_AtTheDoor(door_s=0.05)))
    ended = await _all(rig, [request("clear") for _ in range(5)])
    assert isinstance(away.connector, _Counting)
    assert away.connector.most == 2
    assert [one.error for one in ended] == [None] * 5  # three of them waited for a place
    assert rig.leftovers() == {}


async def test_a_call_is_closed_before_the_one_that_takes_its_turn_is_sent() -> None:
    """S2: not over the limit, not by one and not for a moment."""

    slow = Plan(frames=9, frame_s=0.05, close_s=0.02)
    site = Site("gpu", onprem().zone, _Counting(slow))
    rig = Rig(site, setup=Setup(queue=QueueSettings(lead_ms=0)))
    calls = [request("clear", 5.0, streamed=True) for _ in range(3)]
    await asyncio.gather(*(rig.call(call, read=2) for call in calls))
    assert isinstance(site.connector, _Counting)
    assert len(site.connector.seen) == 3
    assert site.connector.most == 1


async def test_a_look_that_never_ends_takes_no_longer_than_the_budget() -> None:
    """D1, at the first look and at the door."""

    for looks in (_AtTheDoor(first_s=60.0), _AtTheDoor(door_s=60.0)):
        rig = Rig(cloud(), setup=Setup(classifier=looks))
        began_s = now_s()
        ended = await rig.call(request("clear", 0.2))
        assert isinstance(ended.error, DeadlineExceeded)
        assert ended.at_s - began_s <= 0.25
        assert rig.cloud_seen == []
        assert rig.leftovers() == {}


async def test_the_record_of_a_call_that_had_to_stay_names_no_cloud() -> None:
    """It was decided on as a clear one first, and refused when it turned out to be none."""

    rig = Rig(cloud(), setup=Setup(classifier=_AtTheDoor()))
    call = request("restricted")
    await rig.call(call)
    (record,) = rig.log.of(call.id)
    assert record["sensitivity"] == "restricted"
    assert "cloud" not in record["zones"]
    assert record["attempts"] == []


async def test_a_first_try_that_fails_while_the_door_is_asked_is_followed_and_not_hedged() -> None:
    """A7: the second try has an end of its own in the record, and holds nothing afterwards."""

    gpu = ScriptedConnector(Plan(), replace(FAILS, open_s=0.2))
    site, away = Site("gpu", onprem().zone, gpu), cloud()
    setup = Setup(hedging=True, classifier=_AtTheDoor(door_s=0.5), retries=RetryBudget(now_s))
    rig = Rig(replace(site, expected_ms=1.0), away, setup=setup)
    await rig.call(request("clear", 5.0))  # warms the estimate: 10 ms
    call = request("clear", 5.0)
    ended = await rig.call(call)
    assert ended.placement is not None
    assert ended.placement.endpoint == away.name
    (record,) = rig.log.of(call.id)
    assert [a["result"] for a in record["attempts"]] == ["upstream_failed", "served"]
    assert rig.leftovers() == {}


async def test_a_call_that_is_at_the_door_when_its_cloud_goes_out_is_not_sent_there() -> None:
    """A6: out means out, also for those who were on their way."""

    rig = Rig(cloud(), setup=Setup(classifier=_AtTheDoor(door_s=0.5)))
    call = asyncio.create_task(rig.call(request("clear", 5.0)))
    await asyncio.sleep(0.2)
    rig.eject("cloud")
    ended = await call
    assert ended.reason == "ejected"
    assert rig.cloud_seen == []
    assert rig.leftovers() == {}


async def test_hung_calls_give_their_turn_to_those_who_wait() -> None:
    gpu = ScriptedConnector(HANGS, HANGS_BEFORE_FIRST_FRAME, Plan())
    rig = Rig(Site("gpu", onprem().zone, gpu),
              setup=Setup(queue=QueueSettings(lead_ms=0)))  # fmt: skip
    calls = [request("restricted", budget_s) for budget_s in (0.1, 0.2, 1.0)]
    ended = await _all(rig, calls)
    assert [type(one.error) for one in ended] == [DeadlineExceeded] * 2 + [type(None)]
    assert rig.leftovers() == {}


async def test_who_leaves_while_the_loser_of_a_hedge_is_closed_leaves_nothing_behind() -> None:
    """A7, A2: the winner's answer is nobody's then, and is given back too."""

    lingers = replace(HANGS_BEFORE_FIRST_FRAME, close_s=0.5)
    first = Site("first", onprem().zone, ScriptedConnector(Plan(), lingers), expected_ms=1.0)
    other = cloud(Plan())
    rig = Rig(first, other, setup=Setup(hedging=True, retries=RetryBudget(now_s)))
    await rig.call(request("clear", 5.0))
    task = asyncio.create_task(rig.call(request("clear", 5.0)))
    await asyncio.sleep(0.2)
    assert first.connector.closing
    assert len(other.connector.seen) == 1
    task.cancel()
    await task
    await asyncio.sleep(1.0)
    assert rig.leftovers() == {}


async def test_an_endpoint_that_goes_down_in_the_moment_of_a_deadline_is_noticed_all_the_same() -> (
    None
):
    """A limit that has fired is not moved: it would cancel the call once more, in the middle of
    what it still has to do, and its end would be no deadline's any more."""

    rig = Rig(Site("gpu", onprem().zone, _SlowToGiveUp(HANGS)))
    state = rig.registry.states["gpu"]
    task = asyncio.create_task(rig.call(request("clear", 0.2)))
    await asyncio.sleep(0.01)
    (waiting,) = state.model_states[MODEL].waiting
    due_s = waiting.ends_s
    told: list[str] = []

    def goes_down() -> None:
        waiting.leave_wheel()
        waiting.expire()  # a millisecond early, as timers of whole milliseconds may fire
        assert waiting.expired
        state.give_up_waiting()
        told.append("down")

    asyncio.get_running_loop().call_at(due_s - 0.001, goes_down)
    ended = await task
    assert isinstance(ended.error, DeadlineExceeded)
    assert told == ["down"]


async def test_an_upstream_that_is_slow_to_close_keeps_no_caller() -> None:
    """D1: the answer is there, or the deadline has passed; nobody waits for a farewell."""

    for plan in (Plan(close_s=5.0), replace(HANGS_BEFORE_FIRST_FRAME, close_s=5.0)):
        rig = Rig(Site("gpu", onprem().zone, ScriptedConnector(plan)))
        began_s = now_s()
        ended = await rig.call(request("clear", 0.2))
        assert ended.at_s - began_s <= 0.25
        await asyncio.sleep(6.0)
        assert rig.leftovers() == {}


async def test_two_calls_that_chose_the_same_id_wait_side_by_side() -> None:
    """Callers name their calls, and one that repeats a call may use its id again."""

    rig = Rig(onprem(Plan(open_s=0.2)))
    first = [rig.call(request(f"restricted{i}", 5.0)) for i in range(3)]
    twin = request("restricted", 5.0)
    ended = await asyncio.gather(*first, rig.call(twin), rig.call(twin))
    assert [e.error for e in ended] == [None] * 5
    assert rig.leftovers() == {}
