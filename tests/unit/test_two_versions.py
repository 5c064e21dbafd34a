"""Calls of two versions of the settings at the same servers, as a reload leaves them (O2)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.config import QueueSettings
from gateway.core.errors import GatewayError
from gateway.core.reply import ReplyStream
from gateway.core.types import InferenceRequest, Quota, ServedModel
from gateway.pipeline.rate_limits import RateLimits
from tests.unit.harness import (
    HANGS,
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

BATCH = 8
TAKES = Plan(open_s=0.1)
SETUP = Setup(max_batch=BATCH)


class Counting(ScriptedConnector):
    """Knows how many calls it had at once, of all versions."""

    most = 0

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        self.most = max(self.most, len(self.opening) + len(self.replies) + 1)
        return await super().open(request, served)


def _gpu(connector: Counting, **changes: object) -> Site:
    return replace(onprem(), connector=connector, expected_ms=100, address="gpu:1", **changes)  # type: ignore[arg-type]


async def _burst(rig: Rig, kind: str, budget_s: float, calls: int = 60) -> list[Ended]:
    return list(await asyncio.gather(*(rig.call(request(kind, budget_s)) for _ in range(calls))))


@pytest.mark.parametrize("what", ["place", "queue"])
async def test_two_versions_have_no_more_calls_with_a_server_than_one(what: str) -> None:
    """S2, where the endpoint's settings changed, and where only those of its queue did."""

    counting = Counting(TAKES)
    first = Rig(_gpu(counting, max_in_flight=5), setup=SETUP)
    old = asyncio.create_task(_burst(first, "restricted", 900.0))
    await asyncio.sleep(0.05)
    if what == "place":
        second = Rig(_gpu(counting, max_in_flight=5), setup=SETUP, before=first)
    else:
        changed = replace(SETUP, queue=QueueSettings(aging_s=3))
        second = Rig(
            _gpu(counting, max_in_flight=5), setup=changed, before=first,
            same=frozenset({"gpu"}), same_queues=False,
        )  # fmt: skip
    new = await _burst(second, "restricted", 900.0)
    assert all(e.error is None for e in (*new, *await old))
    assert counting.most == 5
    assert first.leftovers() == second.leftovers() == {}


async def test_two_versions_have_no_more_calls_in_the_cloud_than_it_takes() -> None:
    away = Counting(Plan(open_s=0.3))
    site = replace(cloud(), connector=away, max_in_flight=7, address="cloud:1")
    first = Rig(site)
    old = asyncio.create_task(_burst(first, "clear", 3.0, 7))
    await asyncio.sleep(0.05)
    second = Rig(replace(site, expected_ms=20), before=first)
    await _burst(second, "clear", 3.0)
    await old
    assert away.most == 7
    assert first.leftovers() == second.leftovers() == {}


async def test_a_queue_that_would_be_the_same_goes_on_with_all_who_wait_there() -> None:
    """One queue, in the order of deadlines, whichever version a call is of."""

    server = ScriptedConnector(TAKES)
    site = replace(onprem(), connector=server, expected_ms=100)
    first = Rig(site)
    old = [asyncio.create_task(first.call(request("restricted", 50.0))) for _ in range(5)]
    await asyncio.sleep(0.05)
    second = Rig(site, before=first, same=frozenset({"gpu"}))
    ((_, queue),) = first.queues
    ((_, same),) = second.queues
    assert queue is same
    assert queue.waiting >= 3
    urgent = request("restricted", 5.0)
    ended = await second.call(urgent)
    assert ended.error is None
    assert server.seen_ids.index(urgent.id) < len(old) - 1
    assert all(e.error is None for e in await asyncio.gather(*old))


async def test_what_is_learnt_and_out_stays_so_where_the_endpoint_is_the_same() -> None:
    site = onprem()
    first = Rig(site, cloud())
    first.eject("gpu")
    second = Rig(site, cloud(), before=first, same=frozenset({"gpu"}))
    assert second.registry.refuses("gpu", MODEL) == "ejected"
    third = Rig(replace(site, expected_ms=11), cloud(), before=second)
    assert not third.registry.refuses("gpu", MODEL)


async def test_a_drained_endpoint_stays_drained_whatever_else_is_said_of_it() -> None:
    first = Rig(onprem(), cloud())
    first.registry.drain("gpu", True)
    second = Rig(replace(onprem(), expected_ms=11), cloud(), before=first)
    assert second.registry.refuses("gpu", MODEL) == "drained"


async def test_a_place_that_is_new_at_a_drained_endpoint_is_drained() -> None:
    first = Rig(onprem(), cloud())
    first.registry.drain("gpu", True)
    second = Rig(onprem(), onprem(name="gpu#other"), cloud(), before=first)
    assert second.registry.refuses("gpu#other", MODEL) == "drained"


async def test_what_both_have_is_closed_with_the_last_of_them() -> None:
    class Closing(ScriptedConnector):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    kept, gone = Closing(), Closing()
    both = replace(onprem(), connector=kept, address="a:1")
    other = replace(onprem(name="other"), connector=gone, address="b:1")
    first = Rig(both, other)
    second = Rig(both, before=first, same=frozenset({"gpu"}))
    assert second.handover.siblings == [first.handover]
    await first.handover.aclose()
    assert (kept.closed, gone.closed) == (0, 1)
    assert second.handover.siblings == []
    await second.handover.aclose()
    assert kept.closed == 1


async def test_a_version_that_is_given_up_before_it_serves_closes_nothing_of_others() -> None:
    """Its scanners may turn out to be unfit."""

    class Closing(ScriptedConnector):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    kept = Closing()
    first = Rig(replace(onprem(), connector=kept), cloud())
    never = Rig(*first.sites.values(), before=first, same=frozenset({"gpu"}), follows=False)
    await never.handover.aclose([first.handover])
    assert kept.closed == 0
    assert (await first.call(request("restricted"))).error is None


async def test_models_that_come_and_go_leave_nothing_on_the_gpu() -> None:
    rig = Rig(onprem())
    await rig.call(request("restricted"))
    gpu = rig.queues.gpus._gpus["gpu"]
    for aging_s in range(1, 30):
        changed = Setup(queue=QueueSettings(aging_s=aging_s))
        after = Rig(
            *rig.sites.values(), setup=changed, before=rig, same=frozenset({"gpu"}),
            same_queues=False,
        )  # fmt: skip
        assert (await after.call(request("restricted"))).error is None
        assert after.queues.gpus._gpus["gpu"] is gpu
        await rig.handover.aclose()
        rig = after
    assert len(gpu._models) == 2
    assert not gpu.shared


async def test_a_place_that_nobody_of_the_new_version_looks_at_still_ends_its_waits() -> None:
    first = Rig(onprem(HANGS))
    call = asyncio.create_task(first.call(request("restricted", 50.0)))
    await asyncio.sleep(0.05)
    Rig(replace(onprem(), expected_ms=11), before=first)
    since_s = now_s()
    first.registry.states["gpu"].went_down()
    assert isinstance((await call).error, GatewayError)
    assert now_s() - since_s < 1.0


async def test_to_change_a_quota_grants_nothing_twice() -> None:
    limits = RateLimits(now_s)
    quota = Quota("key a", "key", "t", requests_per_minute=10.0, concurrent=3)

    def asks(its: Quota) -> bool:
        try:
            limits.enter(request(quotas=(its,))).settle(None, False)
        except GatewayError:
            return False
        return True

    assert [asks(quota) for _ in range(11)] == [True] * 10 + [False]
    more = replace(quota, requests_per_minute=12.0)
    assert [asks(more) for _ in range(3)] == [True, True, False]
    assert not asks(quota)

    held = replace(quota, holder="key b", requests_per_minute=None)
    shares = [limits.enter(request(quotas=(held,))) for _ in range(3)]
    fewer = replace(held, concurrent=2)
    assert not asks(fewer)
    for share in shares:
        share.settle(None, False)
    assert asks(fewer)
