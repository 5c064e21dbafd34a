"""Calls that one gateway takes and another decides on: served, spilled, refused, never leaked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from gateway.cluster.messages import Kind, Messages, pack, pack_words, unpack_call, unpack_words
from gateway.core.deadline import Deadline
from gateway.core.errors import (
    DeadlineExceeded,
    DeadlineUnmeetable,
    OnpremUnavailable,
    OwnerLost,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.core.types import ONPREM_ONLY, Tensor, TensorCall, Zone
from tests.unit.cluster.rig import Cluster, Line, running
from tests.unit.harness import (
    FAILS,
    HANGS,
    REFUSES,
    Ended,
    Plan,
    cut_after,
    now_s,
    request,
)

pytestmark = pytest.mark.leaping

SLOW = Plan(open_s=0.2)
SEQUENCE = TensorCall((Tensor("x", "INT32", (1,), b"\0" * 4),), parameters={"sequence_id": 7})


def zone(ended: Ended) -> Zone | None:
    return ended.placement.zone if ended.placement else None


def settled(cluster: Cluster) -> None:
    for gateway in cluster.gateways.values():
        assert gateway.rig.leftovers() == {}
        assert not gateway.lines


@pytest.mark.parametrize("kind", ["clear", "restricted"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_call_is_served_by_way_of_the_owner(kind: str, streamed: bool) -> None:
    async with running(Cluster(Plan(frames=4 if streamed else 1, tokens=9))) as cluster:
        west = cluster["west"]
        ended = await west.rig.call(request(kind, streamed=streamed))
        assert ended.error is None
        assert len(ended.frames) == (4 if streamed else 1)
        assert zone(ended) is Zone.ONPREM
        assert len(cluster.seen) == 1
        (line,) = [x for x in west.rig.log.lines if x["outcome"] != "sent"]
        assert line["outcome"] == "served"
        assert line["total_tokens"] == 9
        assert line["attempts"][0]["endpoint"] == "gpu"
        assert cluster["east"].rig.log.lines == []  # one record, at the gateway that took it
        assert cluster["east"].received("west", "served") == 1
        settled(cluster)


async def test_only_the_owner_has_calls_that_wait_for_the_server() -> None:
    async with running(Cluster(SLOW)) as cluster:
        calls = [
            asyncio.create_task(cluster[name].rig.call(request("restricted", 30)))
            for name in ("east", "west", "north")
            for _ in range(5)
        ]
        await asyncio.sleep(0.1)
        waiting = {n: _waiting(cluster, n) for n in cluster.gateways}
        assert waiting["west"] == waiting["north"] == 0
        assert waiting["east"] > 10
        assert {(await call).error for call in calls} == {None}
        settled(cluster)


def _waiting(cluster: Cluster, name: str) -> int:
    return sum(group.waiting for _, group in cluster[name].rig.queues)


async def test_what_has_no_room_leaves_by_the_door_of_the_gateway_that_took_it() -> None:
    async with running(Cluster(SLOW)) as cluster:
        calls = [cluster["west"].rig.call(request("clear", 0.6)) for _ in range(12)]
        ends = await asyncio.gather(*calls)
        assert {zone(e) for e in ends} == {Zone.ONPREM, Zone.CLOUD}
        spilled = [e for e in ends if zone(e) is Zone.CLOUD]
        assert {e.placement.reason for e in spilled if e.placement} == {"spill_deadline"}
        assert len(cluster["west"].rig.cloud_seen) == len(spilled)
        assert cluster["east"].rig.cloud_seen == cluster["north"].rig.cloud_seen == []
        assert cluster["east"].received("west", "leave") == len(spilled)
        settled(cluster)


async def test_an_owner_without_a_way_to_the_cloud_keeps_nobody_else_from_it() -> None:
    async with running(Cluster(SLOW)) as cluster:
        cluster["east"].rig.registry.states["cloud"].up = False
        calls = [cluster["west"].rig.call(request("clear", 0.6)) for _ in range(12)]
        ends = await asyncio.gather(*calls)
        assert {zone(e) for e in ends} == {Zone.ONPREM, Zone.CLOUD}
        await asyncio.sleep(6.0)
        assert cluster["east"].rig.conditions.read("m", ()).cloud_room == 0


async def test_a_restricted_call_without_room_is_refused_and_leaves_nowhere() -> None:
    async with running(Cluster(SLOW)) as cluster:
        calls = [cluster["west"].rig.call(request("restricted", 0.6)) for _ in range(12)]
        ends = await asyncio.gather(*calls)
        errors = [e.error for e in ends if e.error is not None]
        assert errors
        assert {type(e) for e in errors} <= {DeadlineUnmeetable, DeadlineExceeded}
        told = [e for e in errors if isinstance(e, DeadlineUnmeetable)]
        assert all((e.retry_after_s or 0) > 0 for e in told)
        assert [g.rig.cloud_seen for g in cluster.gateways.values()] == [[], [], []]
        settled(cluster)


async def test_at_the_owner_a_forwarded_call_may_be_on_the_premises_only() -> None:
    async with running(Cluster()) as cluster:
        asked = request("clear", 3.0)
        await asyncio.sleep(0.5)
        await cluster["west"].rig.call(asked)
        (seen,) = cluster.connectors["gpu"].seen
        assert seen.zones == ONPREM_ONLY
        assert seen.received_s == pytest.approx(asked.received_s, abs=0.01)  # as it arrived
        assert seen.deadline.at_s == pytest.approx(asked.deadline.at_s, abs=0.01)


@pytest.mark.parametrize("kind", ["clear", "restricted"])
async def test_a_refusal_of_the_server_comes_through_as_it_is(kind: str) -> None:
    async with running(Cluster(REFUSES)) as cluster:
        error = (await cluster["west"].rig.call(request(kind))).error
        assert isinstance(error, UpstreamRefused)
        assert error.http_status == 422
        settled(cluster)


async def test_a_failure_of_the_server_fails_over_where_the_call_may_go() -> None:
    async with running(Cluster(FAILS)) as cluster:
        clear = await cluster["west"].rig.call(request("clear"))
        assert zone(clear) is Zone.CLOUD
        restricted = await cluster["west"].rig.call(request("restricted"))
        assert isinstance(restricted.error, OnpremUnavailable)
        results = [a["result"] for x in cluster["west"].rig.log.lines for a in x["attempts"]]
        assert results == ["upstream_failed", "served", "upstream_failed"]
        settled(cluster)


async def test_another_server_of_the_owner_is_tried_and_not_the_same_again() -> None:
    async with running(Cluster(servers=("gpu", "gpu2"))) as cluster:
        cluster.connectors["gpu"]._plans = iter(lambda: FAILS, None)  # type: ignore[assignment]
        ends = [await cluster["west"].rig.call(request("restricted")) for _ in range(2)]
        assert [e.error for e in ends] == [None, None]
        settled(cluster)


async def test_a_server_that_hangs_holds_no_call_beyond_its_deadline() -> None:
    async with running(Cluster(HANGS)) as cluster:
        start_s = now_s()
        ended = await cluster["west"].rig.call(request("restricted", 0.7))
        assert isinstance(ended.error, DeadlineExceeded)
        assert ended.at_s - start_s <= 0.75
        await asyncio.sleep(0.1)
        settled(cluster)


async def test_who_leaves_is_gone_at_the_server_at_once() -> None:
    async with running(Cluster(HANGS)) as cluster:
        call = asyncio.create_task(cluster["west"].rig.call(request("restricted", 30)))
        await asyncio.sleep(0.1)
        assert cluster.connectors["gpu"].opening
        call.cancel()
        await asyncio.sleep(0.05)
        assert not cluster.connectors["gpu"].opening
        await call
        settled(cluster)


async def test_calls_with_the_same_id_do_not_meet_in_the_owners_queue() -> None:
    async with running(Cluster(SLOW)) as cluster:
        asked = request("restricted", 30)
        ends = await asyncio.gather(
            *(cluster[name].rig.call(asked) for name in ("west", "north", "west"))
        )
        assert [e.error for e in ends] == [None, None, None]
        settled(cluster)


async def test_a_call_that_is_not_wanted_any_more_when_it_is_granted_is_ended_at_the_server() -> (
    None
):
    async with running(Cluster(Plan(open_s=0.5))) as cluster:
        west = cluster["west"].rig
        before = [
            asyncio.create_task(cluster["east"].rig.call(request("restricted", 30)))
            for _ in range(2)
        ]
        await asyncio.sleep(0.1)
        asked = request("restricted", 30)
        call = asyncio.create_task(west.call(asked))
        await asyncio.sleep(0.1)
        west.eject("gpu")
        await asyncio.wait(before)
        ended = await call
        assert isinstance(ended.error, OnpremUnavailable)
        await asyncio.sleep(0.05)
        assert asked.id not in cluster.connectors["gpu"].opening


# The owner dies


async def test_calls_that_wait_at_an_owner_that_dies_are_served_by_the_next() -> None:
    async with running(Cluster(Plan(open_s=0.05))) as cluster:
        calls = [
            asyncio.create_task(cluster[name].rig.call(request("restricted", 30)))
            for name in ("west", "north")
            for _ in range(25)
        ]
        await asyncio.sleep(0.12)
        done = sum(call.done() for call in calls)
        assert done < 5
        killed_s = now_s()
        await cluster["east"].kill()
        ends = await asyncio.gather(*calls)
        assert {e.error for e in ends} == {None}
        after_s = sorted(e.at_s - killed_s for e in ends if e.at_s > killed_s)
        assert after_s[0] < 1.0
        assert cluster["west"].view.owner("east") == "west"
        assert cluster["north"].view.owner("east") == "west"
        del cluster.gateways["east"]
        settled(cluster)


async def test_a_dead_owner_says_nothing_of_its_server() -> None:
    async with running(Cluster(Plan(open_s=0.5))) as cluster:
        west = cluster["west"].rig
        calls = [asyncio.create_task(west.call(request("restricted", 30))) for _ in range(6)]
        await asyncio.sleep(0.2)
        await cluster["east"].kill()
        assert {(await call).error for call in calls} == {None}
        assert not any(west.registry.model_state("gpu", "m").breaker.recent)
        results = {a["result"] for line in west.log.lines for a in line["attempts"]}
        assert results == {"owner_lost", "served"}


async def test_after_the_first_frame_nothing_is_repeated() -> None:
    async with running(Cluster(Plan(frames=50, frame_s=0.1))) as cluster:
        west = cluster["west"].rig
        call = asyncio.create_task(west.call(request("restricted", 30, streamed=True)))
        await asyncio.sleep(0.55)
        await cluster["east"].kill()
        ended = await call
        assert isinstance(ended.error, OwnerLost)
        assert 3 <= len(ended.frames) <= 6
        assert len(cluster.seen) == 1


async def test_a_call_of_a_sequence_is_not_repeated_once_it_was_sent() -> None:
    async with running(Cluster(Plan(open_s=0.5))) as cluster:
        west = cluster["west"].rig
        call = asyncio.create_task(west.call(request("restricted", 30, payload=SEQUENCE)))
        await asyncio.sleep(0.2)
        await cluster["east"].kill()
        assert isinstance((await call).error, OwnerLost)
        assert len(cluster.seen) == 1


async def test_a_stopped_owner_is_found_out_and_its_calls_are_served_elsewhere() -> None:
    async with running(Cluster(Plan(open_s=0.05))) as cluster:
        calls = [
            asyncio.create_task(cluster[name].rig.call(request("restricted", 30)))
            for name in ("west", "north")
            for _ in range(10)
        ]
        await asyncio.sleep(0.06)
        cluster["east"].running.clear()
        stopped_s = now_s()
        ends = await asyncio.gather(*calls)
        assert {e.error for e in ends} == {None}
        first_s = min(e.at_s for e in ends if e.at_s > stopped_s + 0.2) - stopped_s
        assert first_s < 2.0


async def test_a_clear_call_whose_owner_has_stopped_leaves_while_the_cloud_can_make_it() -> None:
    async with running(Cluster()) as cluster:
        cluster["east"].running.clear()
        ended = await cluster["west"].rig.call(request("clear", 0.8))
        assert zone(ended) is Zone.CLOUD
        assert ended.placement is not None
        assert ended.placement.reason == "spill_unavailable"


async def test_an_owner_that_stops_in_good_order_hands_back_who_waits() -> None:
    async with running(Cluster(SLOW)) as cluster:
        calls = [
            asyncio.create_task(cluster["north"].rig.call(request("restricted", 30)))
            for _ in range(8)
        ]
        await asyncio.sleep(0.1)
        began_s = now_s()
        cluster["east"].view.leaves()
        cluster["east"].owner.leave()
        await cluster["east"].owner.quiet()
        assert now_s() - began_s < 0.5  # those that were with the server
        assert {(await call).error for call in calls} == {None}
        assert cluster["west"].received("north", "served") >= 6


async def test_an_owner_that_is_back_gets_its_calls_after_the_dwell_and_who_waits_stays() -> None:
    async with running(Cluster(Plan(open_s=0.25))) as cluster:
        east = cluster["east"]
        await east.kill()
        await asyncio.sleep(2.0)
        east.alive = True
        east.view.was_away()
        await east.start()
        assert east.view.owner("east") == "west"
        waiting = [
            asyncio.create_task(cluster["north"].rig.call(request("restricted", 60)))
            for _ in range(80)
        ]
        await asyncio.sleep(7.0)
        assert cluster["north"].view.owner("east") == "east"
        assert not all(call.done() for call in waiting)
        await cluster["north"].rig.call(request("restricted", 60))
        assert east.received("north", "served") == 1
        assert {(await call).error for call in waiting} == {None}
        assert cluster["west"].received("north", "served") == 80
        assert cluster["west"].received("north", "not_owner") == 0


# What a peer may say


async def _answered(cluster: Cluster, by: str, message: bytes) -> list[tuple[Kind, bytes]]:
    said: list[bytes] = []

    async def say(piece: bytes) -> None:
        said.append(piece)

    await cluster[by].owner.answer("north", message, say)

    async def chunks() -> AsyncIterator[bytes]:
        for piece in said:
            yield piece

    messages = Messages(chunks())
    found: list[tuple[Kind, bytes]] = []
    while (one := await messages.next()) is not None:
        found.append(one)
    return found


async def test_a_forwarded_call_is_never_forwarded_again() -> None:
    async with running(Cluster()) as cluster:
        north = cluster["north"]
        await north.rig.call(request("clear"))
        (message,) = north.links["east"].sent
        ((kind, body),) = await _answered(cluster, "west", message)
        assert kind is Kind.NOT_OWNER
        assert unpack_words(body) == {"claims": [], "leaving": False}
        assert cluster["west"].links["east"].sent == []
        assert len(cluster.seen) == 1


async def test_what_goes_over_says_what_the_decision_needs() -> None:
    async with running(Cluster()) as cluster:
        await cluster["north"].rig.call(request("clear", 2.0, priority=2))
        await cluster["north"].rig.call(request("restricted", 2.0))
        clear, restricted = map(unpack_call, cluster["north"].links["east"].sent)
        assert (clear.restricted, restricted.restricted) == (False, True)
        assert clear.priority == 2
        assert clear.cloud is not None
        assert clear.cloud.price_usd == 0.001
        assert restricted.cloud is None
        assert 1.9 < clear.left_s <= 2.0


class Liar:
    """A link to a peer that says one thing to whoever forwards."""

    def __init__(self, *said: bytes) -> None:
        self._said = said
        self.asked = self.exhausted = 0

    async def forward(self, *given: object, **named: object) -> Liar:
        self.asked += 1
        self._left = list(self._said)
        return self

    def __aiter__(self) -> Liar:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            self.exhausted += 1
            raise StopAsyncIteration
        return self._left.pop(0)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_an_answer_is_read_to_its_end_so_that_its_connection_can_be_kept(
    streamed: bool,
) -> None:
    async with running(Cluster()) as cluster:
        west = cluster["west"]
        granted = pack_words(Kind.GRANTED, {"server": "gpu", "queued_s": 0})
        end = pack_words(Kind.END, {"tokens": None})
        liar = Liar(granted, pack(Kind.EVENT, b"\0\0\0\0x"), end)
        west.links["east"].forward = liar.forward  # type: ignore[method-assign,assignment]
        ended = await west.rig.call(request("restricted", streamed=streamed))
        assert ended.frames == (b"x",)
        assert liar.exhausted == 1


@pytest.mark.parametrize("kind", ["clear", "restricted"])
@pytest.mark.parametrize(
    "said",
    [
        pytest.param(pack_words(Kind.GRANTED, {"server": "cloud", "queued_s": 0}), id="the-cloud"),
        pytest.param(
            pack_words(Kind.GRANTED, {"server": "nowhere", "queued_s": 0}), id="an-unknown-server"
        ),
        pytest.param(pack(Kind.EVENT, b"\0\0\0\0x"), id="a-frame-before-its-turn"),
    ],
)
async def test_a_peer_can_name_no_place_but_the_calls_own_servers(said: bytes, kind: str) -> None:
    async with running(Cluster()) as cluster:
        west = cluster["west"]
        west.links["east"].forward = Liar(said).forward  # type: ignore[method-assign,assignment]
        ended = await west.rig.call(request(kind))
        if kind == "restricted":
            assert isinstance(ended.error, OnpremUnavailable)
            assert west.rig.cloud_seen == []
        else:
            assert zone(ended) is Zone.CLOUD
            assert ended.placement is not None
            assert ended.placement.reason == "spill_unavailable"


async def test_the_owner_has_time_to_say_itself_that_the_budget_ran_out() -> None:
    """The connection is kept then; to give up at the same moment would close it."""

    async with running(Cluster(HANGS)) as cluster:
        west, given = cluster["west"], []
        forward = west.links["east"].forward

        async def noted(message: Sequence[bytes], deadline: Deadline, **named: bool) -> Line:
            given.append(deadline)
            return await forward(message, deadline, **named)

        west.links["east"].forward = noted  # type: ignore[method-assign]
        asked = request("restricted", 0.5)
        await west.rig.call(asked)
        assert 0.01 <= given[0].at_s - asked.deadline.at_s <= 0.05


async def test_a_peer_cannot_send_a_restricted_call_away() -> None:
    async with running(Cluster()) as cluster:
        west = cluster["west"]
        liar = Liar(pack_words(Kind.LEAVE, {"why": "spill_deadline"}))
        west.links["east"].forward = liar.forward  # type: ignore[method-assign,assignment]
        ended = await west.rig.call(request("restricted"))
        assert isinstance(ended.error, OnpremUnavailable)
        assert liar.asked == 1
        assert west.rig.cloud_seen == []


async def test_an_owner_that_breaks_everything_off_costs_a_call_no_more_than_its_budget() -> None:
    async with running(Cluster()) as cluster:
        west = cluster["west"]
        west.links["east"].forward = Liar().forward  # type: ignore[method-assign,assignment]
        error = (await west.rig.call(request("restricted", 30))).error
        assert isinstance(error, OnpremUnavailable | UpstreamFailed)


async def test_a_stream_that_breaks_at_the_server_ends_as_it_would_here() -> None:
    async with running(Cluster(cut_after(2))) as cluster:
        here = await cluster["east"].rig.call(request("restricted", streamed=True))
        there = await cluster["west"].rig.call(request("restricted", streamed=True))
        assert len(here.frames) == len(there.frames) == 2
        assert type(here.error) is type(there.error)
