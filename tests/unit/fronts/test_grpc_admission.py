"""What of a gRPC call is held before it is known who calls, and how much of all calls together."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest

from gateway.auth import Callers
from gateway.config import LimitSettings
from gateway.core.errors import BodiesFull, BodyTooLarge
from gateway.core.held_bytes import BodyShare, HeldBytes
from gateway.core.reply import InferenceReply
from gateway.core.types import InferenceRequest
from gateway.protocols.http2 import Code
from gateway.protocols.http2.bounds import CONNECTION_WINDOW
from gateway.protocols.http2.exchange import Http2Exchange
from gateway.server import compression
from tests.unit.grpc_rig import (
    Pipeline,
    RunningFront,
    failure,
    infer_request,
    infer_response,
    key,
    reply,
    running_front,
    told,
)
from tests.unit.http2.peers import (
    DATA,
    END_HEADERS,
    END_STREAM,
    INFER,
    RST,
    STREAM,
    WINDOW,
    caller,
    frame,
    message,
    number,
    request,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

KEYS = {"k": key()}
AUTHORIZED = ("authorization", "Bearer secret")
WATCH = "/grpc.health.v1.Health/Watch"
CHECK = "/grpc.health.v1.Health/Check"
REFLECT = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
ASKED = infer_request(call="a").SerializeToString()
METHODS = (
    "ModelInfer", "ModelStreamInfer", "ModelReady", "ServerMetadata", "ModelMetadata",
    "ModelConfig", "ModelStatistics", "RepositoryIndex",
)  # fmt: skip


def connection_of(run: RunningFront, streams: int = 0) -> Any:
    """The calls of a raw peer, which has had such a stream."""
    calls = [connection.calls for connection in run.front._server._connections]
    (found,) = [each for each in calls if each.last_id > streams]
    return found


def held(run: RunningFront) -> HeldBytes:
    return run.services.held_bytes


async def until_held(run: RunningFront, count: int) -> None:
    async with asyncio.timeout(10):
        while held(run).bytes != count:  # noqa: ASYNC110 - the gateway has no event for it
            await asyncio.sleep(0.005)


async def until_none_runs(run: RunningFront) -> None:
    async with asyncio.timeout(10):
        while connection_of(run).running:  # noqa: ASYNC110 - the gateway has no event for it
            await asyncio.sleep(0.005)


# Who calls


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("credential", [None, ("authorization", "Bearer other")])
async def test_who_calls_is_asked_before_any_of_the_message_is_taken(
    method: str, credential: tuple[str, str] | None
) -> None:
    path = f"/inference.GRPCInferenceService/{method}"
    async with running_front(keys=KEYS) as run, caller(run.port) as peer:
        more = () if credential is None else (credential,)
        peer.send(peer.head(1, request(path, *more)))
        peer.send(frame(DATA, 0, 1, message(bytes(1 << 20))[:30_000]))
        trailers = await peer.fields(1)
        assert trailers["grpc-status"] == "16"
        assert trailers["x-spillway-reason"] == "unauthenticated"
        assert trailers["x-request-id"]
        assert (await peer.until(RST)).code == Code.NO_ERROR  # RFC 9113, section 8.1
        assert held(run).bytes == 0


async def test_nothing_is_held_of_somebody_unknown() -> None:
    """Not for a moment: there is no room for any of it."""
    async with running_front(keys=KEYS) as first:
        services = replace(first.services, held_bytes=HeldBytes(10))
    async with running_front(made=services) as run, caller(run.port) as peer:
        for stream, path in ((1, INFER), (3, STREAM)):
            peer.send(peer.head(stream, request(path)))
            peer.send(frame(DATA, 0, stream, message(bytes(1 << 20))[:20_000]))
            assert (await peer.fields(stream))["grpc-status"] == "16"
        assert (held(run).bytes, held(run).refused) == (0, 0)


async def test_nothing_is_inflated_for_somebody_unknown() -> None:
    bomb = gzip.compress(bytes(32 << 20))
    async with running_front(keys=KEYS) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request(INFER, ("grpc-encoding", "gzip"))))
        peer.send(frame(DATA, END_STREAM, 1, message(bomb, 1)))
        assert (await peer.fields(1))["grpc-status"] == "16"


@pytest.mark.interpreted  # no class may inherit from one that is compiled
async def test_a_caller_is_asked_for_its_credential_each_time_where_it_may_be_revoked() -> None:
    class Revocable(Callers):
        lasting = False

    callers = Revocable(KEYS)
    async with running_front(Pipeline().handle, keys=KEYS) as first:
        services = replace(first.services, callers=callers)
    async with running_front(made=services) as run, caller(run.port) as peer:
        for stream in (1, 3):
            peer.send(peer.head(stream, request(INFER, AUTHORIZED)))
            peer.send(frame(DATA, END_STREAM, stream, message(ASKED)))
            assert (await peer.answer(stream))[1]["grpc-status"] == "0"
        peer.send(peer.head(5, request(INFER)), frame(DATA, END_STREAM, 5, message(ASKED)))
        assert (await peer.fields(5))["grpc-status"] == "16"


async def test_a_connection_has_little_room_until_somebody_known_has_called() -> None:
    async with running_front(Pipeline().handle, keys=KEYS) as run:
        async with caller(run.port) as peer:  # a frame beyond it is refused by its head
            peer.send((100_000).to_bytes(3) + bytes((DATA, 0)) + number(1))
            assert await peer.goodbye() == Code.FLOW_CONTROL_ERROR
        async with caller(run.port) as peer:
            peer.send(peer.head(1, request(CHECK)))
            peer.send(peer.head(3, request(INFER, AUTHORIZED)))
            seen = await peer.until(WINDOW)
            more = int.from_bytes(seen.payload)
            assert (seen.stream, more) == (0, CONNECTION_WINDOW - 65_535)
            peer.send(frame(DATA, END_STREAM, 3, message(ASKED)))
            assert (await peer.answer(3))[1]["grpc-status"] == "0"


async def test_somebody_unknown_has_a_few_calls_at_once() -> None:
    async with running_front(keys=KEYS) as run, caller(run.port) as peer:
        for stream in range(1, 81, 2):
            peer.send(peer.head(stream, request(WATCH)))
            peer.send(frame(DATA, END_STREAM, stream, message(b"")))
        refused = await peer.until(RST)
        assert (refused.stream, refused.code) == (65, Code.REFUSED_STREAM)
        assert len(connection_of(run)._streams) == 32
    async with running_front(Pipeline().handle, keys=KEYS) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request(INFER, AUTHORIZED)))
        for stream in range(3, 83, 2):
            peer.send(peer.head(stream, request(WATCH)))
            peer.send(frame(DATA, END_STREAM, stream, message(b"")))
        await peer.until_read()
        assert len(connection_of(run)._streams) == 41


@pytest.mark.parametrize("path", [CHECK, REFLECT])
async def test_what_anybody_may_ask_is_small(path: str) -> None:
    """As it comes, and inflated."""
    async with running_front(keys=KEYS) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request(path)), frame(DATA, 0, 1, message(bytes(70_000))[:100]))
        assert (await peer.fields(1))["grpc-status"] == "8"
        peer.send(peer.head(3, request(path, ("grpc-encoding", "gzip"))))
        peer.send(frame(DATA, END_STREAM, 3, message(gzip.compress(bytes(70_000)), 1)))
        assert (await peer.fields(3))["grpc-status"] == "8"


async def test_refusals_without_end_end_the_connection() -> None:
    async with running_front(keys=KEYS) as run, caller(run.port) as peer:
        for stream in range(1, 3000, 2):
            peer.send(peer.head(stream, request(), END_HEADERS | END_STREAM))
            if stream % 100 == 1:
                await asyncio.sleep(0)
        assert await peer.goodbye() == Code.ENHANCE_YOUR_CALM


async def test_a_client_that_has_much_to_say_learns_that_it_is_unknown() -> None:
    """Unmodified, with a message of which nothing is read."""
    large = infer_request(values=range(1 << 18))
    async with running_front(Pipeline().handle, keys=KEYS) as run:
        for _ in range(3):
            found = await failure(run.stub.ModelInfer(large))
            assert found.code() is grpc.StatusCode.UNAUTHENTICATED
            assert told(found)["x-spillway-reason"] == "unauthenticated"
        await run.stub.ModelInfer(large, metadata=(AUTHORIZED,))  # on the same connection
        assert held(run).bytes == 0


# How much is held


async def test_what_all_connections_hold_together_is_bounded() -> None:
    limits = LimitSettings(max_body_bytes=8 << 20)
    budget = HeldBytes(10 << 20)  # of which one caller has half
    async with running_front(Pipeline().handle, limits=limits) as first:
        services = replace(first.services, held_bytes=budget, on_error=noted)
    NOTED.clear()
    async with running_front(made=services) as run:
        begun = [frame(DATA, 0, 1, part) for part in (message(bytes(6 << 20))[: 1 << 20],)]
        more = frame(DATA, 0, 1, bytes(1 << 20))
        async with caller(run.port) as one, caller(run.port) as two:
            for peer in (one, two):
                peer.send(peer.head(1, request()), *begun)
            one.send(more, more)
            await until_held(run, 4 << 20)
            two.send(more, more)
            refused = await two.fields(1)
            assert refused["grpc-status"] == "8"
            assert refused["x-spillway-reason"] == "bodies_full"
            assert int(refused["retry-after-ms"]) > 0
            assert NOTED == ["bodies_full"]
            await until_held(run, 3 << 20)  # what it had has been given back
            two.send(two.call(3, ASKED))
            assert (await two.answer(3))[1]["grpc-status"] == "0"
        await until_held(run, 0)
    assert budget.refused == 1


NOTED: list[str] = []


def noted(protocol: str, reason: str) -> None:
    NOTED.append(reason)


async def test_a_stream_that_is_refused_for_want_of_room_ends() -> None:
    """Its task too, which waited for the rest of a message."""
    async with running_front(Pipeline().handle) as first:
        services = replace(first.services, held_bytes=HeldBytes(1 << 17))
    async with running_front(made=services) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request(STREAM)))
        peer.send(frame(DATA, 0, 1, message(bytes(1 << 18))[:60_000]))
        await peer.until_read()
        peer.send(frame(DATA, 0, 1, bytes(60_000)))
        assert (await peer.fields(1))["x-spillway-reason"] == "bodies_full"
        await until_held(run, 0)
        await until_none_runs(run)


async def test_what_is_given_up_is_given_back() -> None:
    async with running_front(Pipeline().handle) as run:
        begun = frame(DATA, 0, 1, message(bytes(1 << 20))[:50_000])
        async with caller(run.port) as peer:
            peer.send(peer.head(1, request()), begun)
            await until_held(run, 50_000)
            peer.send(frame(RST, 0, 1, number(8)))
            await until_held(run, 0)
        async with caller(run.port) as peer:
            peer.send(peer.head(1, request(STREAM)), begun)
            await until_held(run, 50_000)
        await until_held(run, 0)  # the connection has ended
        async with caller(run.port) as peer:
            whole = message(ASKED)
            peer.send(peer.head(1, request()), frame(DATA, 0, 1, whole[:50]))
            await until_held(run, 50)
            peer.send(frame(DATA, END_STREAM, 1, whole[50:]))
            assert (await peer.answer(1))[1]["grpc-status"] == "0"
            assert held(run).bytes == 0


async def test_what_is_inflated_is_of_the_same_budget_until_it_is_answered() -> None:
    go_on = asyncio.Event()

    async def handle(call: InferenceRequest) -> InferenceReply:
        await go_on.wait()
        return reply(infer_response("a"))

    zeros = infer_request(values=[0] * (1 << 18)).SerializeToString()
    async with running_front(handle) as first:
        services = replace(first.services, held_bytes=HeldBytes(6 << 20))
    async with running_front(made=services) as run, caller(run.port) as peer:
        for stream in (1, 3):
            peer.send(peer.head(stream, request(INFER, ("grpc-encoding", "gzip"))))
            peer.send(frame(DATA, END_STREAM, stream, message(gzip.compress(zeros), 1)))
            if stream == 1:
                await until_held(run, len(zeros))
        refused = await peer.fields(3)
        assert refused["x-spillway-reason"] == "bodies_full"
        await until_held(run, len(zeros))
        go_on.set()
        assert (await peer.answer(1))[1]["grpc-status"] == "0"
        await until_held(run, 0)


# How long a message may take


@pytest.mark.parametrize("path", [INFER, STREAM])
async def test_a_message_that_does_not_come_whole_is_not_waited_for(path: str) -> None:
    limits = LimitSettings(default_latency_budget_ms=10)
    async with running_front(Pipeline().handle, limits=limits) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request(path)), frame(DATA, 0, 1, message(ASKED)[:9]))
        late = await peer.fields(1)
        assert late["grpc-status"] == "4"
        assert late["x-spillway-reason"] == "deadline_exceeded"
        assert held(run).bytes == 0
        await until_none_runs(run)


async def test_a_stream_may_be_silent_between_its_messages() -> None:
    limits = LimitSettings(default_latency_budget_ms=10)
    async with running_front(Pipeline().handle, limits=limits) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request(STREAM)), frame(DATA, 0, 1, message(ASKED)))
        await peer.until(DATA)
        connection = connection_of(run)
        exchange = connection._streams[1]
        assert not exchange.is_late(connection._now_s() + 3600)
        peer.send(frame(DATA, 0, 1, message(ASKED)[:9]))
        await peer.until_read()
        assert exchange.is_late(connection._now_s() + 3600)
        peer.send(frame(DATA, 0, 1, message(ASKED)[9:]))
        await peer.until_read()
        await peer.until_read()
        assert not exchange.is_late(connection._now_s() + 3600)


async def test_a_message_has_as_long_as_its_caller_waits() -> None:
    limits = LimitSettings(default_latency_budget_ms=10)
    async with running_front(Pipeline().handle, limits=limits) as run, caller(run.port) as peer:
        head = request(INFER, ("grpc-timeout", "50S"))
        peer.send(peer.head(1, head), frame(DATA, 0, 1, message(ASKED)[:9]))
        await peer.until_read()
        connection = connection_of(run)
        exchange = connection._streams[1]
        assert not exchange.is_late(exchange.at_s + 49)
        assert exchange.is_late(exchange.at_s + 51)


# Streams


async def test_a_message_of_a_stream_that_is_too_large_says_so() -> None:
    limits = LimitSettings(max_body_bytes=1 << 16)
    async with running_front(Pipeline().handle, limits=limits) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request(STREAM)))
        peer.send(frame(DATA, 0, 1, message(bytes(1 << 17))[:100]))
        assert (await peer.fields(1))["grpc-status"] == "8"


async def test_messages_that_are_all_there_leave_others_their_turn() -> None:
    """A stream of 3,000 small messages, of which none waits."""
    turns = 0

    async def counting() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with running_front(keys=KEYS) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request(STREAM, AUTHORIZED)))
        await peer.until_read()
        connection = connection_of(run)
        exchange = Http2Exchange(connection, connection._streams[1].head, 0.0)
        exchange.serving = connection._streams[1].serving
        exchange.pieces.add(message(b"one") * 3000)
        others = asyncio.create_task(counting())
        for _ in range(3000):
            assert await exchange.next() == message(b"one")
        others.cancel()
    assert turns >= 3000 // 20


# Inflating


async def test_what_inflates_beyond_measure_is_refused() -> None:
    bomb = gzip.compress(bytes(40 << 20))
    with pytest.raises(BodyTooLarge, match="times its size"):
        await compression.inflated(bomb, "gzip", 1 << 30)
    assert len(await compression.inflated(gzip.compress(bytes(16 << 20)), "gzip", 1 << 30)) == (
        16 << 20
    )
    text = b"".join([b"%d, " % (at * 7919 % 99_991) for at in range(3 << 20)])
    assert await compression.inflated(gzip.compress(text, 1), "gzip", 1 << 30) == text


async def test_what_is_inflated_takes_its_share_and_no_more() -> None:
    budget = HeldBytes(2 << 20)
    share = BodyShare(budget, "a")
    with pytest.raises(BodiesFull):
        await compression.inflated(zlib.compress(bytes(2 << 20)), "deflate", 1 << 30, share)
    assert 0 < budget.bytes <= 1 << 20
    share.close()
    share.close()
    assert budget.bytes == 0
    assert not budget.take("a", (1 << 20) + 1)
    assert budget.take("a", 1 << 20)
