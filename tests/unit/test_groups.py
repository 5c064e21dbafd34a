"""What the queues are told of calls, of servers and of the cloud."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.config import QueueSettings, RoutingSettings
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, InferenceRequest, Tensor, TensorCall
from gateway.scheduling.calls import CloudPermission, Scheduling
from gateway.scheduling.estimates.batches import _COLD_CAUTION, BatchModel
from gateway.scheduling.executions import Execution
from gateway.scheduling.factory import new_scheduler, weights
from gateway.scheduling.queue import QueueConditions, ServerNow
from gateway.scheduling.queued_calls import CloudCandidate, Weights
from gateway.scheduling.queues import ModelQueues, Prior
from gateway.scheduling.rules.baselines import RULES, OnArrival
from gateway.scheduling.rules.failsafe import Guarded
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.servers.sharing import SharedGpu
from tests.unit.harness import MODEL, now_s, request, run

WEIGHTS = Weights(miss_penalty_usd=0.05, restricted_factor=10.0, priority_share=0.5, aging_s=7.0)


@dataclass
class Made:
    """What a queue was made with."""

    rows: int
    ahead: bool
    names: tuple[str, ...]
    first_s: float  # expected before its first call


class Rig:
    def __init__(self, **executions: Execution) -> None:
        self.made: list[Made] = []
        self.measured: dict[str, Prior] = {}
        self.groups = ModelQueues(
            WEIGHTS,
            self._new,
            lambda name: 0.1,
            lambda model, server: executions.get(server, Execution()),
            now_s,
            lambda model, server: self.measured.get(server),
        )
        self.groups.read_conditions = self._around

    def _new(
        self, servers: Mapping[str, BatchModel], rows: int, ahead: bool,
        gpus: Mapping[str, SharedGpu],
    ) -> Scheduling:  # fmt: skip
        first_s = next(iter(servers.values())).fixed_s
        self.made.append(Made(rows, ahead, tuple(servers), first_s))
        return Scheduler(servers, rows, gpus=gpus)

    @staticmethod
    def _around(model: str, servers: Sequence[str]) -> QueueConditions:
        return QueueConditions(tuple([ServerNow(name, True) for name in servers]), 0.0)


def asked(**changes: Any) -> InferenceRequest:
    return replace(request("clear", 5.0), **changes)


def said(text: str, **limits: int) -> DocumentCall:
    turns = [{"role": "user", "content": text}]
    return DocumentCall(CHAT, {"messages": turns, **limits}, False)


# Servers


@pytest.mark.parametrize(
    ("alone", "first_s"), [(False, 0.004 * _COLD_CAUTION), (True, 0.1 * 0.2 * _COLD_CAUTION)]
)
def test_a_queue_begins_with_what_was_measured_where_calls_make_batches(
    alone: bool, first_s: float
) -> None:
    async def main() -> None:
        rig = Rig(gpu=Execution(rows=8, one_by_one=alone))
        rig.measured["gpu"] = Prior(0.004, 0.001)
        rig.groups.queue("m", ("gpu",))
        assert rig.made[0].first_s == pytest.approx(first_s)

    run(main())


def test_calls_that_end_together_make_batches_and_the_next_is_sent_ahead() -> None:
    async def main() -> None:
        rig = Rig(gpu=Execution(rows=8, instances=2))
        rig.groups.queue(MODEL, ("gpu",))
        (made,) = rig.made
        assert (made.rows, made.ahead, made.names) == (8, True, ("gpu",))
        assert made.first_s == pytest.approx(0.104)
        assert rig.groups.executions.window(MODEL, "gpu") == 32

    run(main())


def test_calls_that_end_one_by_one_are_batches_of_their_own() -> None:
    """One long answer keeps no other from being sent."""

    async def main() -> None:
        rig = Rig(gpu=Execution(rows=4, one_by_one=True))
        group = rig.groups.queue(MODEL, ("gpu",))
        assert (rig.made[0].rows, rig.made[0].ahead) == (1, False)
        calls = [rig.groups.calls.call(asked(id=f"{i}"), True, ()) for i in range(9)]
        turns = [await group.enter(call, asked().deadline) for call in calls[:8]]
        assert rig.groups.in_flight(MODEL, "gpu") == 8
        turns[3].release(answered=True)
        await group.enter(calls[8], asked().deadline)
        assert rig.groups.in_flight(MODEL, "gpu") == 8
        rig.groups.close()

    run(main())


def test_what_a_server_says_of_itself_widens_its_queue_and_never_narrows_it() -> None:
    async def main() -> None:
        rig = Rig(gpu=Execution(rows=4))
        group = rig.groups.queue(MODEL, ("gpu",))
        rig.groups.learn(MODEL, "gpu", Execution(rows=16, instances=3))
        assert group.scheduling.limits.max_batch == 16
        rig.groups.learn(MODEL, "gpu", Execution(rows=2))
        assert rig.groups.executions.execution(MODEL, "gpu") == Execution(16, 3)
        assert rig.groups.queue(MODEL, ("gpu",)) is group

    run(main())


def test_calls_that_turn_out_to_end_one_by_one_have_a_new_queue_and_the_old_one_empties() -> None:
    async def main() -> None:
        rig = Rig(gpu=Execution(rows=4))
        group = rig.groups.queue(MODEL, ("gpu",))
        turn = await group.enter(rig.groups.calls.call(asked(), True, ()), asked().deadline)
        rig.groups.learn(MODEL, "gpu", Execution(rows=4, one_by_one=True))
        assert rig.groups.queue(MODEL, ("gpu",)) is not group
        turn.release(answered=True)
        assert group.scheduling.servers.in_flight("gpu") == 0
        rig.groups.close()

    run(main())


def test_calls_whose_rows_may_not_share_a_batch_go_one_at_a_time() -> None:
    """None is sent ahead either: what waits in a server's queue it may join."""

    async def main() -> None:
        rig = Rig(gpu=Execution(rows=8, instances=2, apart=True), other=Execution(rows=8))
        group = rig.groups.queue(MODEL, ("gpu",))
        assert (rig.made[0].rows, rig.made[0].ahead) == (1, False)
        assert rig.groups.executions.window(MODEL, "gpu") == 1
        calls = [rig.groups.calls.call(asked(id=f"{i}"), True, ()) for i in range(3)]
        turn = await group.enter(calls[0], asked().deadline)
        waiting = [asyncio.ensure_future(group.enter(c, asked().deadline)) for c in calls[1:]]
        await asyncio.sleep(0.01)
        assert rig.groups.in_flight(MODEL, "gpu") == 1
        turn.release(answered=True)
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert rig.groups.in_flight(MODEL, "gpu") == 1
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        rig.groups.queue(MODEL, ("gpu", "other"))
        assert (rig.made[1].rows, rig.made[1].ahead) == (1, False)
        rig.groups.close()

    run(main())


@pytest.mark.parametrize("alone", [False, True])
def test_rows_that_turn_out_to_be_independent_have_a_new_queue_with_batches(alone: bool) -> None:
    async def main() -> None:
        rig = Rig(gpu=Execution(rows=1, one_by_one=alone))
        rig.groups.learn(MODEL, "gpu", Execution(apart=True))
        group = rig.groups.queue(MODEL, ("gpu",))
        assert (rig.made[0].rows, rig.groups.executions.window(MODEL, "gpu")) == (1, 1)
        rig.groups.learn(MODEL, "gpu", Execution(rows=8, instances=2))
        assert rig.groups.queue(MODEL, ("gpu",)) is not group
        assert rig.made[1].rows == (1 if alone else 8)
        assert rig.groups.executions.window(MODEL, "gpu") == 32
        rig.groups.learn(MODEL, "gpu", Execution(rows=8, instances=2, apart=True))
        rig.groups.queue(MODEL, ("gpu",))
        assert (rig.made[2].rows, rig.made[2].ahead) == (1, False)
        rig.groups.close()

    run(main())


# Calls


def test_a_missed_budget_costs_more_of_restricted_calls_and_less_of_later_priorities() -> None:
    async def main() -> None:
        groups = Rig().groups
        told = [
            groups.calls.call(asked(priority=priority), restricted, ())
            for restricted, priority in ((False, 0), (True, 0), (False, 2))
        ]
        assert [call.penalty for call in told] == pytest.approx([0.05, 0.5, 0.0125])
        assert [call.later_s for call in told] == [0.0, 0.0, 14.0]

    run(main())


def test_a_restricted_call_never_leaves_whatever_clouds_there_are() -> None:
    async def main() -> None:
        groups = Rig().groups
        clouds = (CloudCandidate("cloud", 0.0),)
        assert groups.calls.call(asked(), True, clouds).leave is CloudPermission.NEVER
        assert groups.calls.call(asked(), False, clouds).leave is CloudPermission.FREELY
        assert groups.calls.call(asked(), False, ()).leave is CloudPermission.NEVER

    run(main())


def test_what_the_cloud_takes_is_not_learnt_for_a_model_that_has_no_queue_here() -> None:
    async def main() -> None:
        groups = Rig().groups
        for _ in range(600):
            groups.calls.cloud_answered("cloud", asked(), 9.0)
        assert groups.calls.tail("cloud", MODEL, 1.0).late(8.0) == 0.0

    run(main())


def test_the_cheapest_cloud_counts_with_its_chance_to_be_late() -> None:
    async def main() -> None:
        groups = Rig().groups
        groups.calls.size(asked())  # somebody asks: the model has a queue here
        for _ in range(600):
            groups.calls.cloud_answered("late", asked(), 9.0)
            groups.calls.cloud_answered("quick", asked(), 0.1)
        cheap_and_late, dear = CloudCandidate("late", 0.001), CloudCandidate("quick", 0.02)
        assert groups.calls.call(asked(), False, (cheap_and_late, dear)).price == 0.02
        assert groups.calls.call(asked(), False, (cheap_and_late,)).price == 0.001
        long = replace(asked(), deadline=request("clear", 60.0).deadline)
        assert groups.calls.call(long, False, (cheap_and_late, dear)).price == 0.001

    run(main())


def test_rows_are_work_and_places_where_the_first_dimension_counts_them() -> None:
    async def main() -> None:
        batched, plain = Rig(gpu=Execution(rows=16)).groups, Rig().groups
        batched.queue(MODEL, ("gpu",))
        call = asked(payload=TensorCall((Tensor("x", "FP32", (5, 2), bytes(40)),)))
        told = batched.calls.call(call, True, ())
        assert (told.rows, told.work) == (5, 5.0)
        told = plain.calls.call(call, True, ())
        assert (told.rows, told.work) == (1, 1.0)

    run(main())


def test_work_of_a_conversation_is_in_average_calls() -> None:
    async def main() -> None:
        groups = Rig().groups
        first = groups.calls.call(asked(payload=said("short", max_tokens=100)), True, ())
        assert first.work == 1.0
        for _ in range(300):
            groups.calls.entered(MODEL, first)
        twice = groups.calls.call(asked(payload=said("short", max_tokens=200)), True, ())
        assert twice.work == pytest.approx(2.0, rel=0.02)
        for _ in range(2000):
            call = groups.calls.call(asked(payload=said("short", max_tokens=200)), True, ())
            groups.calls.entered(MODEL, call)
        again = groups.calls.call(asked(payload=said("short", max_tokens=200)), True, ())
        assert again.work == pytest.approx(1.0, rel=0.02)

    run(main())


# Several models on one server


def in_turns(groups: ModelQueues) -> None:
    """What batches have told: two of different models get no more done at once than in turns."""
    ((_, gpu),) = groups.gpus.shared()
    for beside in (0.0, 1.0):
        for _ in range(40):
            gpu.observe(0, BatchModel(0.01, 0.0), 1.0, 0.01 * (1 + beside), 0.02 * beside)
    assert gpu.turns


def test_whose_turn_it_is_hears_of_it_in_the_step_in_which_the_other_batch_ends() -> None:
    async def main() -> None:
        groups = Rig().groups
        one, other = groups.queue("one", ("gpu",)), groups.queue("other", ("gpu",))
        in_turns(groups)
        turn = await one.enter(groups.calls.call(asked(id="1"), True, ()), asked().deadline)
        waits = asyncio.create_task(
            other.enter(groups.calls.call(asked(id="2"), True, ()), asked().deadline)
        )
        await asyncio.sleep(0)
        assert other.waiting == 1
        turn.release(answered=True)
        assert other.waiting == 0
        (await waits).release(answered=True)
        groups.close()

    run(main())


@pytest.mark.parametrize(
    "apart",
    [Execution(shares_gpu=False), Execution(rows=4, one_by_one=True)],
    ids=["a GPU of its own", "calls that end one by one"],
)
def test_models_that_make_no_batches_or_have_a_gpu_of_their_own_wait_for_nobody(
    apart: Execution,
) -> None:
    async def main() -> None:
        groups = Rig(gpu=apart).groups
        for model in ("one", "other"):
            groups.learn(model, "gpu", Execution(rows=8))
            groups.queue(model, ("gpu",))
        assert list(groups.gpus.shared()) == []
        assert all("turns" not in server for server in servers(groups))

    run(main())


def test_what_models_cost_each_other_is_shown_with_every_queue_that_it_concerns() -> None:
    async def main() -> None:
        groups = Rig().groups
        groups.queue("one", ("gpu",))
        groups.queue("other", ("gpu", "more"))
        assert [server.get("contention", "") for server in servers(groups)] == [None, None, ""]
        in_turns(groups)
        found = servers(groups)
        assert [server.get("turns") for server in found] == [True, True, None]
        assert found[0]["contention"] == pytest.approx(1.0, abs=0.01)

    run(main())


def servers(groups: ModelQueues) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for queue in groups.report():
        told: Any = queue["servers"]
        found += told.values()
    return found


# Settings


@pytest.mark.parametrize("policy", RULES)
def test_a_simple_rule_can_take_the_place_of_the_policy(policy: Any) -> None:
    made = new_scheduler(QueueSettings(), RoutingSettings(policy=policy))
    assert isinstance(made({"gpu": BatchModel(0.1, 0.01)}, 4, True, {}), OnArrival)


def test_the_settings_reach_the_scheduler() -> None:
    queue = QueueSettings(max_waiting=7, lead_ms=5.0, aging_s=3.0)
    routing = RoutingSettings(margin=1.5, miss_penalty_usd=0.2, restricted_factor=4.0)
    made = new_scheduler(queue, routing)
    guarded = [made({"gpu": BatchModel(0.1, 0.01)}, 4, ahead, {}) for ahead in (True, False)]
    ahead, not_ahead = (g.deciding for g in guarded if isinstance(g, Guarded))
    assert isinstance(ahead, Scheduler)
    assert isinstance(not_ahead, Scheduler)
    assert (ahead.lead_s, not_ahead.lead_s) == (0.005, 0.0)
    assert (ahead.tuning.max_waiting, ahead.tuning.margin) == (7, 1.5)
    assert weights(queue, routing) == Weights(0.2, 4.0, aging_s=3.0)
