"""What is held of endpoints' answers is bounded for each answer, for each caller and for all, and
large ones are neither parsed nor joined on the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.deadline import Deadline
from gateway.core.errors import AnswersFull, UpstreamFailed
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare, HeldBytes
from gateway.core.operations.chat import CHAT
from gateway.core.operations.responses import RESPONSES
from gateway.core.reply import JsonBody, OneFrame
from gateway.core.types import DocumentCall, InferenceRequest, ServedModel, Usage, WireProtocol
from gateway.endpoints.connectors.open_inference.grpc_failures import ours
from gateway.endpoints.connectors.open_inference.grpc_wire import GrpcWire
from gateway.endpoints.connectors.openai.event_stream import EventStream
from gateway.endpoints.connectors.openai.large import READ_BYTES, answer_edges
from gateway.endpoints.connectors.openai.provider import OpenAiConnector, endpoint_origin
from gateway.protocols.http2.message import GrpcStatusError
from gateway.protocols.http_client.connection import HttpClientConnection
from gateway.protocols.http_client.wire import ConnectionPool, WireAnswer, WireRequest
from tests.unit.backends.wire_rig import Peer, answer, listening, serving
from tests.unit.http2 import peers

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

MB = 1 << 20
ASKED = WireRequest("POST", "/x")


async def read(wire: ConnectionPool, share: AnswerShare | None) -> bytes:
    return (await wire.read(ASKED, Deadline.after(20), WireAnswer.from_connection, held=share)).body


def says(*parts: bytes) -> Callable[[Peer], Awaitable[None]]:
    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            for part in parts:
                await peer.say(part)

    return play


async def endless(peer: Peer) -> None:
    await peer.request()
    await peer.say(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await peer.say(bytes(UNCOUNTED_BYTES))


# The budget


def test_a_caller_holds_no_more_than_is_left_free() -> None:
    budget = HeldBytes(1000)
    assert budget.take("a", 500)
    assert not budget.take("a", 1)
    assert budget.take("b", 250)
    assert not budget.take("b", 1)
    assert budget.take("c", 125)
    assert (budget.bytes, budget.held_by("a"), budget.refused) == (875, 500, 2)
    budget.give_back("a", 500)
    assert budget.held_by("a") == 0
    assert budget.take("b", 62)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 60))))
def test_what_calls_hold_is_given_back_whatever_they_do(steps: list[tuple[str, int, int]]) -> None:
    budget = HeldBytes(100)
    shares = {caller: AnswerShare(budget, caller) for caller in "abc"}
    for caller, part, count in steps:
        before = shares[caller].bytes
        if not shares[caller].hold(part, count):
            assert shares[caller].bytes == before
        assert budget.bytes == sum(share.bytes for share in shares.values()) <= 100
        assert budget.held_by(caller) == shares[caller].bytes
    for share in shares.values():
        share.close()
        share.close()
        assert not share.hold("late", 1)
    assert budget.bytes == 0


# Whole answers over HTTP


async def test_an_endless_answer_is_cut_at_the_bound_and_held_by_nobody() -> None:
    budget = HeldBytes(100 * MB)
    share = AnswerShare(budget, "a")
    tracemalloc.start()
    try:
        async with asyncio.timeout(20), serving(endless, max_body_bytes=8 * MB) as (_, wire):
            with pytest.raises(UpstreamFailed, match="max_answer_bytes") as failed:
                await read(wire, share)
        assert tracemalloc.get_traced_memory()[1] < 12 * MB  # joined nowhere
    finally:
        tracemalloc.stop()
    assert failed.value.reason == "answer_too_large"
    assert budget.bytes == 0


async def test_an_answer_that_is_announced_too_large_is_refused_by_its_head() -> None:
    play = says(b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n")
    async with asyncio.timeout(5), serving(play, max_body_bytes=8 * MB) as (_, wire):
        with pytest.raises(UpstreamFailed) as failed:
            await read(wire, None)
    assert failed.value.reason == "answer_too_large"


async def test_one_caller_cannot_multiply_the_bound_and_others_find_room() -> None:
    budget = HeldBytes(16 * MB)
    large = answer(bytes(3 * MB))
    async with asyncio.timeout(20), serving(says(large), max_connections=9) as (_, wire):
        shares = [AnswerShare(budget, "a") for _ in range(6)]
        answers = await asyncio.gather(
            *(read(wire, share) for share in shares), return_exceptions=True
        )
        full = [each for each in answers if isinstance(each, AnswersFull)]
        assert 0 < len(answers) - len(full) <= 2
        assert full[0].reason == "answers_full"
        assert full[0].http_status == 429
        assert budget.bytes == budget.held_by("a") <= 8 * MB
        other = AnswerShare(budget, "b")
        assert len(await read(wire, other)) == other.bytes == 3 * MB
        for share in (*shares, other):
            share.close()
        assert budget.bytes == 0


async def test_an_answer_that_is_given_up_is_held_no_more() -> None:
    budget = HeldBytes(16 * MB)
    share = AnswerShare(budget, "a")

    async def halfway(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer(bytes(4 * MB))[: 2 * MB])
        await peer.gone()

    async with asyncio.timeout(20), serving(halfway) as (_, wire):
        reading = asyncio.ensure_future(read(wire, share))
        while budget.bytes < MB:  # noqa: ASYNC110 - the wire has no event for it
            await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert budget.bytes == 0


@pytest.mark.parametrize("size", [UNCOUNTED_BYTES - 1000, UNCOUNTED_BYTES + 1, 300_000])
async def test_answers_are_counted_from_the_size_that_buffers_have(size: int) -> None:
    share = AnswerShare(HeldBytes(16 * MB), "a")
    async with asyncio.timeout(20), serving(says(answer(b"x" * size))) as (_, wire):
        for _ in range(2):
            assert await read(wire, share) == b"x" * size
            assert share.bytes in (0, size) if size <= UNCOUNTED_BYTES else share.bytes > 0


async def test_small_chunks_are_held_in_little_more_than_they_measure() -> None:
    count = 1 << 19
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"2\r\nxy\r\n" * count + b"0\r\n\r\n"
    async with asyncio.timeout(60), serving(says(head, body)) as (_, wire):
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            assert await read(wire, None) == b"xy" * count
            assert tracemalloc.get_traced_memory()[1] - before < 12 * MB
        finally:
            tracemalloc.stop()


async def test_a_large_answer_is_read_in_a_thread_and_its_connection_kept() -> None:
    told: list[threading.Thread] = []

    def reads(connection: HttpClientConnection) -> bytes:
        told.append(threading.current_thread())
        return connection.body

    async with asyncio.timeout(20), serving(says(answer(b"ab" * MB))) as (server, wire):
        for _ in range(2):
            assert await wire.read(ASKED, Deadline.after(5), reads) == b"ab" * MB
        assert server.accepted == 1
    assert threading.main_thread() not in told


# What is known of a large answer

PARTS = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
LISTS = b"[[]" + b",[]" * READ_BYTES + b"]"


def test_the_usage_of_a_large_answer_is_found_at_either_edge() -> None:
    usage = orjson.dumps(PARTS)
    last = b'{"choices":' + LISTS + b',"usage":' + usage + b',"x":[{"y":"}"}]} \n'
    first = b' {"id":"1","usage":' + usage + b',"choices":' + LISTS + b"}"
    for body in (last, first):
        assert answer_edges(body, CHAT)["usage"] == PARTS


@pytest.mark.parametrize(
    "behind",
    [
        b',"choices":[{"usage":{"total_tokens":9}}]}',
        b',"content":"\\"usage\\":{\\"total_tokens\\":9}"}',
        b',"key\\"usage":{"total_tokens":9}}',
    ],
)
def test_a_usage_that_is_not_the_answers_own_is_not_taken(behind: bytes) -> None:
    assert "usage" not in answer_edges(b'{"a":' + LISTS + behind, CHAT)


def test_the_last_event_of_a_large_response_says_what_it_took() -> None:
    usage = orjson.dumps({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7})
    event = (
        b'{"type":"response.completed","response":{"output":' + LISTS + b',"usage":' + usage + b"}}"
    )
    known = answer_edges(event, RESPONSES, "response.completed")
    assert known["type"] == "response.completed"
    assert known["response"]["usage"]["total_tokens"] == 7


@pytest.mark.parametrize("body", [b"[" + LISTS + b"]", b'{"a":' + LISTS, b"x" * READ_BYTES * 2])
def test_a_large_answer_that_is_no_object_is_nonsense(body: bytes) -> None:
    with pytest.raises(UpstreamFailed):
        answer_edges(body, CHAT)


# OpenAI


def request(share: AnswerShare | None, streamed: bool = False) -> InferenceRequest:
    return InferenceRequest(
        "1", WireProtocol.OPENAI, "t", "scribe",
        DocumentCall(CHAT, {"model": "scribe", "messages": []}, streamed),
        Deadline.after(20), held=share,
    )  # fmt: skip


async def asked(play: Callable[[Peer], Awaitable[None]], asked: InferenceRequest) -> Any:
    async with listening(play) as server:
        wire = ConnectionPool(
            endpoint_origin(f"http://127.0.0.1:{server.port}/v1"), connect_timeout_s=2
        )
        try:
            found = await OpenAiConnector(wire).open(asked, ServedModel("m"))
            if isinstance(found, EventStream):
                try:
                    return [event async for event in found]
                finally:
                    await found.aclose()
            return found
        finally:
            await wire.aclose()


async def test_a_large_answer_goes_on_as_it_came_and_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: Counter[int] = Counter()

    def loads(text: bytes) -> Any:
        parsed[len(text)] += 1
        return json.loads(text)

    monkeypatch.setattr("gateway.endpoints.connectors.openai.event_stream.orjson.loads", loads)
    body = b'{"choices":' + LISTS + b',"usage":' + orjson.dumps(PARTS) + b"}"
    share = AnswerShare(HeldBytes(16 * MB), "a")
    async with asyncio.timeout(20):
        found = await asked(says(answer(body)), request(share))
    assert isinstance(found, OneFrame)
    assert (found.take(), found.usage) == (JsonBody(body), Usage(3, 4))
    assert max(parsed, default=0) <= READ_BYTES
    assert share.bytes == len(body)


async def test_an_event_without_end_is_of_the_budget() -> None:
    begins = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\ndata: '

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + begins)
        while True:
            await peer.say(b"x" * 10_000)

    budget = HeldBytes(2 * MB)
    share = AnswerShare(budget, "a")
    async with asyncio.timeout(20):
        with pytest.raises(AnswersFull):
            await asked(play, request(share, streamed=True))
    assert 0 < budget.bytes <= MB
    share.close()
    assert budget.bytes == 0


# gRPC


async def grpc_answer(content: bytes, share: AnswerShare | None) -> bytes:
    async def serve(peer: peers.Peer) -> None:
        peer.send(peers.settings())
        while not ((seen := await peer.until(1, 0)).flags & peers.END_STREAM):
            pass
        peer.send(
            peer.head(seen.stream, [(":status", "200"), ("content-type", "application/grpc")])
        )
        whole = peers.message(content)
        for at in range(0, len(whole), 16_000):
            peer.send(peers.frame(peers.DATA, 0, seen.stream, whole[at : at + 16_000]))
        ends = peers.END_HEADERS | peers.END_STREAM
        peer.send(peer.head(seen.stream, [("grpc-status", "0")], ends))
        await peer.until(peers.GOAWAY)

    async with peers.server(serve) as address:
        wire = GrpcWire(address, None, (), connect_timeout_s=2.0, max_answer_bytes=8 * MB)
        try:
            return await wire.call(peers.INFER, b"", 10.0, held=share)
        finally:
            await wire.aclose()


async def test_answers_of_grpc_are_of_the_same_budget() -> None:
    budget = HeldBytes(6 * MB)
    share = AnswerShare(budget, "a")
    content = bytes(range(256)) * (2 * MB // 256)
    async with asyncio.timeout(20):
        assert await grpc_answer(content, share) == content
        assert share.bytes == len(content) + 5
        with pytest.raises(GrpcStatusError) as full:
            await grpc_answer(content, share)
    assert isinstance(ours(full.value), AnswersFull)
    assert share.bytes == len(content) + 5  # of the one that came
    share.close()
    assert budget.bytes == 0
