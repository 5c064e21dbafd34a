"""B6, A2: limits as calls meet them: first of all, and given back on every exit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.errors import OverLimit
from gateway.core.types import Quota
from tests.unit.harness import (
    ANSWERS,
    HANGS,
    UNREACHABLE,
    Plan,
    Rig,
    onprem,
    request,
)
from tests.unit.limits.holders import holders

pytestmark = pytest.mark.leaping

ONE = Quota("key a", "key", "acme", None, None, 1)
TOKENS = Quota("key a", "key", "acme", None, 600)


@pytest.mark.parametrize(
    "plan",
    [ANSWERS, UNREACHABLE, Plan(tokens=7), Plan(frames=3)],
    ids=["served", "failed", "counted", "frames"],
)
async def test_a_call_that_has_ended_holds_nothing_any_more(plan: Plan) -> None:
    rig = Rig(onprem(plan))
    for _ in range(3):
        ended = await rig.call(replace(request("restricted"), quotas=(ONE,)))
        assert not isinstance(ended.error, OverLimit)
    assert holders(rig.limits)["key a"].inside == 0


async def test_a_caller_who_leaves_gives_its_place_back() -> None:
    rig = Rig(onprem(HANGS, ANSWERS))
    left = asyncio.create_task(rig.call(replace(request("restricted"), quotas=(ONE,))))
    for _ in range(20):
        await asyncio.sleep(0)
    refused = await rig.call(replace(request("restricted-2"), quotas=(ONE,)))
    assert refused.reason == "concurrent_limit"
    left.cancel()
    await left
    served = await rig.call(replace(request("restricted-3"), quotas=(ONE,)))
    assert served.error is None


async def test_what_the_answer_counted_is_what_the_key_has_used() -> None:
    rig = Rig(onprem(Plan(tokens=123)))
    await rig.call(replace(request("restricted"), quotas=(TOKENS,)))
    bucket = holders(rig.limits)["key a"].tokens
    assert bucket is not None
    assert 600 - bucket.level(0.0) == pytest.approx(123, abs=1)


async def test_a_call_over_its_limit_is_neither_read_nor_sent_and_has_a_record() -> None:
    rig = Rig(onprem(HANGS))
    first = asyncio.create_task(rig.call(replace(request("restricted"), quotas=(ONE,))))
    for _ in range(20):
        await asyncio.sleep(0)
    over = replace(request("restricted"), quotas=(ONE,))
    await rig.call(over)
    (record,) = rig.log.of(over.id)
    assert (record["outcome"], record["end_reason"]) == ("shed", "concurrent_limit")
    assert record["sensitivity"] is None
    assert rig.admission.inside == 1
    first.cancel()
    await first


async def test_an_answer_says_what_is_left() -> None:
    rig = Rig(onprem())
    quota = Quota("key a", "key", "acme", 10)
    ended = await rig.call(replace(request("restricted"), quotas=(quota,)))
    assert ended.placement is not None
    assert ended.placement.limits["ratelimit"] == '"key-requests";r=9;t=6'
    plain = await rig.call(request("restricted"))
    assert plain.placement is not None
    assert plain.placement.limits == {}
