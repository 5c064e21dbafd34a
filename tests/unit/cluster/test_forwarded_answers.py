"""What is held of answers that one gateway forwards for another counts for its caller at both: at
the owner as its endpoint sends them, and at the sender as the owner does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.cluster.failures import packed, raised
from gateway.cluster.messages import Kind, Messages, pack, pack_frame
from gateway.core.errors import AnswersFull, GatewayError
from gateway.core.held_bytes import AnswerShare, HeldBytes
from gateway.core.reply import GrpcMessage, received
from gateway.core.types import WireProtocol
from gateway.protocols.oip.grpc import decode_request
from tests.unit.backends.test_held_grpc import Dripping, both_ways, client, until
from tests.unit.cluster.rig import Cluster, Gateway, running
from tests.unit.grpc_rig import infer_request
from tests.unit.harness import request
from tests.unit.http2.endpoint import endpoint

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

MB = 1 << 20


@asynccontextmanager
async def cluster_of(dripping: Dripping, servers: int) -> AsyncIterator[tuple[Gateway, Gateway]]:
    """The owner of so many servers, all of them one endpoint, and another gateway."""
    names = [f"gpu-{number}" for number in range(servers)]
    async with asyncio.timeout(40), endpoint(dripping) as (address, _), client(address) as by:  # noqa: SIM117
        async with running(Cluster(servers=names, connector=by)) as cluster:
            yield cluster["east"], cluster["west"]


async def answered(
    by: Gateway, tenant: str, streamed: bool, share: AnswerShare | None = None
) -> list[int] | GatewayError:
    """The sizes of all messages, or why there are none."""
    payload = decode_request(infer_request(), streamed=streamed)
    asked = request(
        "restricted", 20.0, payload=payload, protocol=WireProtocol.KSERVE_GRPC, tenant=tenant,
        held=share,
    )  # fmt: skip
    sizes = []
    try:
        reply = await by.rig.pipeline.handle(asked)
        for frame in await received(reply.frames):
            assert isinstance(frame, GrpcMessage)
            sizes.append(len(frame.message))
    except GatewayError as error:
        return error
    return sizes


@both_ways
async def test_at_the_owner_answers_count_for_the_caller_they_are_for(streamed: bool) -> None:
    dripping = Dripping(6 * MB, streamed)
    async with cluster_of(dripping, 6) as (east, west):
        calls = [asyncio.create_task(answered(west, "a", streamed)) for _ in range(6)]
        await until(lambda: dripping.all_but_one and sum(c.done() for c in calls) == 5)
        for full in [call.result() for call in calls if call.done()]:
            assert isinstance(full, AnswersFull)
            assert (full.reason, full.http_status) == ("answers_full", 429)
            assert full.retry_after_s == 1.0
        held = east.answers
        assert 6 * MB <= held.bytes == held.held_by("a") <= held.most_bytes // 2
        dripping.may_end.set()
        assert [len(dripping.content)] in [await call for call in calls]
        await until(lambda: held.bytes == 0)
        assert await answered(west, "b", streamed) == [len(dripping.content)]
        await until(lambda: held.bytes == 0)


@both_ways
async def test_at_the_owner_others_find_room(streamed: bool) -> None:
    dripping = Dripping(3 * MB, streamed)
    async with cluster_of(dripping, 4) as (east, west):
        first = [asyncio.create_task(answered(west, "a", streamed)) for _ in range(3)]
        await until(lambda: sum(call.done() for call in first) == 1)  # it has room for two
        await until(lambda: dripping.all_but_one == 2)
        other = asyncio.create_task(answered(west, "b", streamed))
        await until(lambda: east.answers.held_by("b") >= 3 * MB)
        dripping.may_end.set()
        assert await other == [len(dripping.content)]
        await asyncio.gather(*first)


@both_ways
async def test_at_the_sender_they_count_as_well(streamed: bool) -> None:
    dripping = Dripping(3 * MB, streamed)
    dripping.may_end.set()
    async with cluster_of(dripping, 1) as (east, west):
        budget = HeldBytes(8 * MB)
        share, none = AnswerShare(budget, "a"), AnswerShare(HeldBytes(2 * MB), "a")
        assert await answered(west, "a", streamed, share)
        assert 3 * MB <= budget.bytes < 3.1 * MB  # until its caller has taken it
        share.close()
        assert budget.bytes == 0
        full = await answered(west, "a", streamed, none)
        assert isinstance(full, AnswersFull)
        none.close()
        await until(lambda: east.answers.bytes == 0)


async def chunks(*whole: bytes, size: int = 50_000) -> AsyncIterator[bytes]:
    for each in whole:
        for at in range(0, len(each), size):
            yield each[at : at + size]


async def test_a_message_of_a_peer_is_counted_as_it_comes() -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        yield pack(Kind.GRPC, bytes(30 * MB))[:10]
        while True:
            taken += 50_000
            yield bytes(50_000)

    budget = HeldBytes(8 * MB)
    share = AnswerShare(budget, "a")
    messages = Messages(endless(), share)
    with pytest.raises(AnswersFull):
        await messages.next()
    assert taken <= 4 * MB + 50_000
    assert budget.bytes <= 4 * MB
    messages.close()
    assert budget.bytes == 0


async def test_the_last_message_counts_until_the_next_has_come_or_the_call_ends() -> None:
    budget = HeldBytes(32 * MB)
    share = AnswerShare(budget, "a")
    frames = [pack_frame(GrpcMessage(bytes(size))) for size in (2 * MB, MB, 10)]
    messages = Messages(chunks(*frames), share)
    held = []
    for _ in frames:
        assert await messages.next() is not None
        held.append(budget.bytes // MB)
    assert held == [2, 1, 0]
    assert await messages.next() is None
    messages = Messages(chunks(frames[0], pack(Kind.END)), share)
    for _ in range(2):
        assert await messages.next() is not None
    messages.close()
    assert budget.bytes >= 2 * MB  # who asked for it has it
    share.close()
    assert budget.bytes == 0


def test_the_sender_learns_that_there_was_no_room() -> None:
    found = raised(packed(AnswersFull()))
    assert type(found) is AnswersFull  # and asks nobody else
    assert (found.reason, found.retry_after_s) == ("answers_full", 1.0)
