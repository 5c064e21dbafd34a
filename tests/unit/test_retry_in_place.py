"""A failure that may be over in a moment is mended where there is no other endpoint (A5)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest

from gateway.core.errors import (
    OnpremUnavailable,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamUnreachable,
)
from gateway.core.types import Tensor, TensorCall, Zone
from gateway.pipeline.retries import RetryBudget, pause_s
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import (
    ANSWERS,
    BUSY,
    FAILS,
    REFUSES,
    UNREACHABLE,
    Plan,
    Rig,
    Setup,
    Site,
    cloud,
    cut_after,
    now_s,
    onprem,
    request,
)

pytestmark = pytest.mark.leaping

FLAKES = Plan(error=lambda: UpstreamFailed("503", transient=True, unserved=True))


def says_again_in(seconds: float) -> Plan:
    return Plan(error=lambda: UpstreamFailed("503", transient=True, retry_after_s=seconds))


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "plan", [FLAKES, UNREACHABLE, BUSY, cut_after(0)], ids=["503", "reset", "429", "cut-early"]
)
@pytest.mark.parametrize(
    ("site", "kind"), [(cloud, "clear"), (onprem, "clear"), (onprem, "restricted")]
)
async def test_the_only_endpoint_is_tried_again(
    site: Callable[..., Site], kind: str, plan: Plan, streamed: bool
) -> None:
    rig = Rig(site(plan, ANSWERS))
    ended = await rig.call(request(kind, 5.0, streamed=streamed))
    assert ended.error is None
    assert ended.placement is not None
    assert ended.placement.attempts == 2
    assert rig.leftovers() == {}


async def test_a_restricted_call_is_tried_again_on_the_premises_alone() -> None:
    rig = Rig(onprem(FLAKES, FLAKES, ANSWERS), cloud())
    ended = await rig.call(request("restricted", 5.0))
    assert isinstance(ended.error, OnpremUnavailable), "two tries are all that it has"
    again = await rig.call(request("restricted", 5.0))
    assert again.placement is not None
    assert again.placement.zone is Zone.ONPREM
    assert rig.cloud_seen == []


async def test_another_endpoint_comes_before_another_try() -> None:
    rig = Rig(cloud(FLAKES, name="one"), cloud(name="other"))
    ended = await rig.call(request("clear", 5.0))
    assert ended.placement is not None
    assert ended.placement.endpoint == "other"


async def test_one_call_in_nine_that_fails_is_served_all_the_same() -> None:
    rig = Rig(cloud(*[ANSWERS] * 8, FLAKES))
    ended = [await rig.call(request("clear", 5.0)) for _ in range(300)]
    assert [e for e in ended if e.error is not None] == []


@pytest.mark.parametrize(
    "plan", [FAILS, REFUSES, cut_after(1)], ids=["for-good", "refused", "after-the-first-frame"]
)
async def test_what_another_try_could_not_mend_is_tried_once(plan: Plan) -> None:
    rig = Rig(cloud(plan))
    ended = await rig.call(request("clear", 5.0, streamed=True))
    assert isinstance(ended.error, UpstreamError)
    assert len(rig.cloud_seen) == 1
    assert not ended.error.may_retry


async def test_a_call_of_a_sequence_is_never_sent_twice() -> None:
    rig = Rig(onprem(UNREACHABLE, ANSWERS))
    tensors = (Tensor("x", "INT32", (1,), bytes(4)),)
    call = TensorCall(tensors, parameters={"sequence_id": 7, "sequence_start": True})
    await rig.call(request("restricted", 5.0, payload=call))
    assert len(rig.sites["gpu"].connector.seen) == 1


async def test_it_waits_as_long_as_the_endpoint_said() -> None:
    rig = Rig(cloud(says_again_in(2.0), ANSWERS))
    began_s = now_s()
    ended = await rig.call(request("clear", 5.0))
    assert ended.error is None
    assert ended.at_s - began_s >= 2.0


@pytest.mark.parametrize(("said_s", "budget_s"), [(2.0, 1.0), (30.0, 60.0)])
async def test_where_that_is_too_long_the_caller_is_told(said_s: float, budget_s: float) -> None:
    rig = Rig(cloud(says_again_in(said_s)))
    began_s = now_s()
    ended = await rig.call(request("clear", budget_s))
    assert isinstance(ended.error, UpstreamFailed)
    assert ended.at_s - began_s < 0.1
    assert (ended.error.may_retry, ended.error.retry_after_s) == (True, said_s)


def test_calls_that_failed_together_do_not_return_together() -> None:
    pauses_s = [[pause_s(failures, None) for _ in range(50)] for failures in (1, 2, 3)]
    for failures, drawn_s in enumerate(pauses_s, 1):
        longest_s = 0.05 * 2**failures
        assert len(set(drawn_s)) > 1
        assert all(longest_s / 2 <= s <= longest_s for s in drawn_s)
    assert pause_s(1, 3.0) == 3.0


@pytest.mark.parametrize("error", [UpstreamBusy, UpstreamUnreachable])
async def test_whose_tries_are_used_up_is_told_so(error: type[UpstreamError]) -> None:
    rig = Rig(cloud(Plan(error=lambda: error("x"))), setup=Setup(policy=Policy(max_attempts=3)))
    ended = await rig.call(request("clear", 50.0))
    assert isinstance(ended.error, error)
    assert len(rig.cloud_seen) == 3
    assert not ended.error.may_retry


async def test_while_no_second_try_is_in_hand_the_caller_may_try_again() -> None:
    retries = RetryBudget(now_s, share=0.0, reserve=0.0)
    rig = Rig(cloud(FLAKES), setup=Setup(retries=retries))
    ended = await rig.call(request("clear", 5.0))
    assert isinstance(ended.error, UpstreamFailed)
    assert ended.error.may_retry
    assert len(rig.cloud_seen) == 1


async def test_a_provider_that_fails_all_calls_is_not_doubled_in_load() -> None:
    rig = Rig(cloud(BUSY))
    for _ in range(1000):
        await rig.call(request("clear", 5.0))
    assert len(rig.cloud_seen) <= 1.1 * 1000 + 32


async def test_who_leaves_during_the_pause_takes_nothing_with_it() -> None:
    rig = Rig(cloud(says_again_in(2.0), ANSWERS))
    task = asyncio.create_task(rig.call(request("clear", 5.0)))
    await asyncio.sleep(1.0)
    task.cancel()
    await task
    assert len(rig.cloud_seen) == 1
    assert rig.leftovers() == {}


async def test_an_endpoint_that_went_out_meanwhile_is_not_tried_again() -> None:
    plan = Plan(open_s=0.5, error=says_again_in(2.0).error)
    rig = Rig(cloud(plan, ANSWERS))
    for drained_after_s in (0.2, 1.0):  # before it fails, and before it is tried again
        seen, began_s = len(rig.cloud_seen), now_s()
        task = asyncio.create_task(rig.call(request("clear", 5.0)))
        await asyncio.sleep(drained_after_s)
        rig.registry.drain("cloud", True)
        ended = await task
        assert ended.error is not None
        assert len(rig.cloud_seen) == seen + 1
        assert drained_after_s == 1.0 or ended.at_s - began_s < 1.0, "at once"
        rig.registry.drain("cloud", False)
        await asyncio.sleep(2.0)  # for as long as it asked for
        rig.sites["cloud"].connector._plans = itertools.cycle((plan, ANSWERS))
