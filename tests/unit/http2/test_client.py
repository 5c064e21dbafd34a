"""Calls to endpoints that answer in ways in which no server of gRPC would."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.core.errors import UpstreamBusy, UpstreamError, UpstreamRefused, UpstreamUnreachable
from gateway.endpoints.connectors.open_inference.grpc_failures import ours
from gateway.endpoints.connectors.open_inference.grpc_wire import GrpcWire, encode_fields, field
from gateway.protocols.http2 import Code, client
from gateway.protocols.http2.message import GrpcStatusError
from tests.laps import within
from tests.unit.http2.peers import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INFER,
    PADDED,
    PING,
    RST,
    WINDOW,
    Peer,
    frame,
    message,
    number,
    server,
    settings,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

HEAD = [(":status", "200"), ("content-type", "application/grpc")]
OK = [("grpc-status", "0")]
Serve = Callable[[Peer], Awaitable[None]]


def wire(address: str, **changes: Any) -> GrpcWire:
    made = {"connect_timeout_s": 2.0, "max_answer_bytes": 1 << 20, **changes}
    return GrpcWire(address, None, (("authorization", "Bearer x"),), **made)


def answer(peer: Peer, stream: int, content: bytes = b"yes") -> None:
    peer.send(
        peer.head(stream, HEAD),
        frame(DATA, 0, stream, message(content)),
        peer.head(stream, OK, END_HEADERS | END_STREAM),
    )


async def asked(peer: Peer) -> int:
    """The stream of the next call, once it has come whole."""
    while not ((seen := await peer.until(HEADERS, DATA)).flags & END_STREAM):
        if seen.kind == HEADERS:
            peer.decoder.decode(seen.payload)
    return seen.stream


async def outcome(serve: Serve, *, timeout_s: float = 5.0, **changes: Any) -> bytes | UpstreamError:
    """Of one call to such a server."""
    async with server(serve) as address:
        calling = wire(address, **changes)
        try:
            return await calling.ask(INFER, b"asked", timeout_s)
        except GrpcStatusError as exc:
            found = ours(exc)
            assert isinstance(found, UpstreamError)
            return found
        finally:
            await calling.aclose()


def answering(*said: bytes | Callable[[Peer], bytes], first: bytes = b"") -> Serve:
    """Greets, awaits a call and says that."""

    async def serve(peer: Peer) -> None:
        peer.send(first or settings())
        await asked(peer)
        for each in said:
            peer.send(each if isinstance(each, bytes) else each(peer))
        await peer.goodbye()

    return serve


def head(fields: list[tuple[str, str]], flags: int = END_HEADERS) -> Callable[[Peer], bytes]:
    return lambda peer: peer.head(1, fields, flags)


YES = frame(DATA, 0, 1, message(b"yes"))
END = head(OK, END_HEADERS | END_STREAM)


async def test_an_answer_in_pieces_is_read() -> None:
    async def serve(peer: Peer) -> None:
        peer.send(settings(), frame(PING, 0, 0, b"12345678"))
        stream = await asked(peer)
        early = peer.head(stream, [(":status", "103"), ("link", "x")])
        block = peer.block(HEAD)
        whole = message(b"yes")
        for said in (
            early,
            frame(HEADERS, 0, stream, block[:1]),
            frame(CONTINUATION, 0, stream),
            frame(CONTINUATION, END_HEADERS, stream, block[1:]),
            frame(DATA, PADDED, stream, b"\x02" + whole[:3] + bytes(2)),
            frame(DATA, 0, stream),
            frame(WINDOW, 0, stream, number(5)),
            frame(DATA, 0, stream, whole[3:]),
            peer.head(stream, OK, END_HEADERS | END_STREAM),
        ):
            for octet in said:
                peer.send(bytes((octet,)))
                await asyncio.sleep(0)
        await peer.goodbye()

    assert await outcome(serve) == b"yes"


ANSWERS: dict[str, tuple[Serve, type[UpstreamError]]] = {
    "a page of HTTP": (
        answering(head([(":status", "503"), ("content-type", "text/html")])), UpstreamUnreachable,
    ),
    "a page in the place of an answer": (
        answering(head([(":status", "200"), ("content-type", "text/html")])), UpstreamError,
    ),
    "no status": (
        answering(head(HEAD), frame(DATA, END_STREAM, 1, message(b"yes"))), UpstreamUnreachable,
    ),
    "no message": (answering(head(HEAD), END), UpstreamError),
    "half a message": (
        answering(head(HEAD), frame(DATA, 0, 1, message(b"yes")[:-1]), END), UpstreamError,
    ),
    "two messages": (answering(head(HEAD), YES, YES, END), UpstreamError),
    "a compressed message": (
        answering(head(HEAD), frame(DATA, 0, 1, message(b"yes", 1)), END), UpstreamError,
    ),
    "more than is taken": (
        answering(head(HEAD), *[frame(DATA, 0, 1, message(bytes(2 << 20))[: 1 << 20])] * 2),
        UpstreamRefused,
    ),
    "too many fields": (answering(head([*HEAD, ("x", "y" * 40_000)])), UpstreamBusy),
    "a malformed head": (answering(head([*HEAD, ("X-One", "1")])), UpstreamUnreachable),
    "a NUL in a field": (answering(head([*HEAD, ("x-one", "a\0b")])), UpstreamUnreachable),
    "a line feed in a field": (answering(head([*HEAD, ("x-one", "a\nb")])), UpstreamUnreachable),
    "a pseudo-header behind the answer": (
        answering(head(HEAD), YES, head([*HEAD[:1], *OK], END_HEADERS | END_STREAM)),
        UpstreamUnreachable,
    ),
    "a pseudo-header behind a field": (
        answering(head([*HEAD[1:], *HEAD[:1]]), YES, END), UpstreamUnreachable,
    ),
    "a connection's header": (
        answering(head([*HEAD, ("connection", "close")]), YES, END), UpstreamUnreachable,
    ),
    "a length that is another's": (
        answering(head([*HEAD, ("content-length", "9")]), YES, END), UpstreamError,
    ),
    "two lengths": (
        answering(head([*HEAD, *[("content-length", "8")] * 2]), YES, END), UpstreamUnreachable,
    ),
    "SETTINGS without end": (
        answering(frame(4, 0, 0, bytes(6 * 200))), UpstreamUnreachable,
    ),
    "a call that is refused": (answering(frame(RST, 0, 1, number(7))), UpstreamUnreachable),
    "a call that is cancelled": (answering(frame(RST, 0, 1, number(8))), UpstreamUnreachable),
    "a call that is broken off": (answering(frame(RST, 0, 1, number(2))), UpstreamUnreachable),
    "a reset that nobody knows": (answering(frame(RST, 0, 1, number(99))), UpstreamUnreachable),
    "calm": (answering(frame(RST, 0, 1, number(11))), UpstreamBusy),
    "a call that it never began": (
        answering(frame(GOAWAY, 0, 0, number(0) + number(0))), UpstreamUnreachable,
    ),
    "a frame that is none": (answering(b"\xff" * 9), UpstreamUnreachable),
    "a head that is no HPACK": (answering(frame(HEADERS, 4, 1, b"\xff\xff")), UpstreamUnreachable),
    "a head without end": (
        answering(frame(HEADERS, 0, 1, b""), *[frame(CONTINUATION, 0, 1, b"")] * 50),
        UpstreamUnreachable,
    ),
    "a flood": (answering(frame(PING, 0, 0, bytes(8)) * 12_000), UpstreamUnreachable),
    "an answer to nobody": (answering(frame(DATA, 0, 9, b"x")), UpstreamUnreachable),
    "a push": (answering(frame(5, 4, 1, bytes(8))), UpstreamUnreachable),
    "not HTTP/2": (answering(first=b"HTTP/1.1 400 Bad Request\r\n\r\n"), UpstreamUnreachable),
}  # fmt: skip


@pytest.mark.parametrize("surplus", [YES, END], ids=["data", "a second end"])
async def test_frames_behind_the_end_of_an_answer_end_the_connection(surplus: Any) -> None:
    codes: list[int] = []

    async def serve(peer: Peer) -> None:
        peer.send(settings())
        stream = await asked(peer)
        answer(peer, stream)
        peer.send(surplus if isinstance(surplus, bytes) else surplus(peer))
        codes.append(await peer.goodbye())

    async with server(serve) as address:
        calling = wire(address)
        assert await calling.ask(INFER, b"asked", 5.0) == b"yes"
        async with asyncio.timeout(5):
            while not codes:  # noqa: ASYNC110 - the endpoint notes it
                await asyncio.sleep(0.005)
        await calling.aclose()
    assert codes == [Code.STREAM_CLOSED]


async def test_interim_answers_without_end_are_a_flood() -> None:
    interim = frame(HEADERS, END_HEADERS, 1, b"\x08\x03103")
    found = await outcome(answering(interim * 12_000))
    assert isinstance(found, UpstreamUnreachable)


async def test_a_length_that_is_right_is_well() -> None:
    found = await outcome(answering(head([*HEAD, ("content-length", "8")]), YES, END))
    assert found == b"yes"


@pytest.mark.parametrize("name", ANSWERS)
async def test_what_is_no_answer_is_a_failure_of_the_endpoint(name: str) -> None:
    serve, error = ANSWERS[name]
    found = await outcome(serve)
    assert isinstance(found, error)


async def test_a_connection_that_is_lost_takes_its_calls_with_it_and_the_next_gets_another() -> (
    None
):
    served = 0

    async def serve(peer: Peer) -> None:
        nonlocal served
        served += 1
        peer.send(settings())
        stream = await asked(peer)
        if served > 1:
            answer(peer, stream)
            await peer.goodbye()

    async with server(serve) as address:
        calling = wire(address)
        with pytest.raises(GrpcStatusError, match="lost"):
            await calling.ask(INFER, b"", 5)
        assert await calling.ask(INFER, b"", 5) == b"yes"
        await calling.aclose()


async def test_a_server_that_goes_away_finishes_what_it_began() -> None:
    served: list[Peer] = []

    async def serve(peer: Peer) -> None:
        served.append(peer)
        peer.send(settings())
        streams = [await asked(peer)]
        if len(served) == 1:
            streams.append(await asked(peer))
            peer.send(frame(GOAWAY, 0, 0, number(1) + number(0)))
            await asyncio.sleep(0.05)
        answer(peer, streams[0])
        await peer.goodbye()

    async with server(serve) as address:
        calling = wire(address)
        first, second = await asyncio.gather(
            *(calling.ask(INFER, b"", 5) for _ in range(2)), return_exceptions=True
        )
        assert first == b"yes"
        assert isinstance(second, GrpcStatusError)
        assert second.code == "UNAVAILABLE"
        assert await calling.ask(INFER, b"", 5) == b"yes"
        await calling.aclose()
    assert len(served) == 2


async def test_no_more_calls_are_begun_than_the_server_takes() -> None:
    most = [0]

    async def serve(peer: Peer) -> None:
        peer.send(settings(streams=2))
        while True:
            began = [await asked(peer)]
            try:
                async with asyncio.timeout(0.03):
                    while True:
                        began.append(await asked(peer))
            except TimeoutError:
                most[0] = max(most[0], len(began))
            for stream in began:
                answer(peer, stream)

    async with server(serve) as address:
        calling = wire(address)
        asks = [asyncio.create_task(calling.ask(INFER, b"", 5)) for _ in range(7)]
        await asyncio.sleep(0.01)
        asks[3].cancel()  # which waits
        found = await asyncio.gather(*asks, return_exceptions=True)
        assert found.count(b"yes") == 6
        await calling.aclose()
    assert most == [2]


async def test_a_request_keeps_to_the_windows_of_its_server() -> None:
    large = bytes(300_000)
    got = bytearray()

    async def serve(peer: Peer) -> None:
        peer.send(settings(window=1000))
        await peer.until(HEADERS)
        first = await peer.until(DATA)
        assert len(first.payload) == 1000
        got.extend(first.payload)
        peer.send(settings(window=500, frame=20_000), frame(WINDOW, 0, 1, number(400_000)))
        while len(got) < 65_535:
            got.extend((await peer.until(DATA)).payload)
        peer.send(frame(WINDOW, 0, 0, number(400_000)))
        while True:
            seen = await peer.until(DATA)
            got.extend(seen.payload)
            if seen.flags & END_STREAM:
                break
        answer(peer, 1)
        await peer.goodbye()

    async with server(serve) as address:
        calling = wire(address)
        assert await calling.ask(INFER, large, 10) == b"yes"
        await calling.aclose()
    assert bytes(got) == message(large)


@pytest.mark.parametrize("table", [0, 100, 4096, 1 << 20])
async def test_heads_are_read_with_any_table(table: int) -> None:
    """Also when the server takes some of it back."""
    heads: list[dict[str, str]] = []

    async def serve(peer: Peer) -> None:
        peer.decoder.max_allowed_table_size = table
        peer.send(settings(table=table))
        for at in range(6):
            seen = await peer.until(HEADERS)
            heads.append(peer.decoded(seen.payload))
            await peer.until(DATA)
            if at == 2:
                peer.decoder.max_allowed_table_size = min(table, 60)
                peer.send(settings(table=min(table, 60)))
            answer(peer, seen.stream)
        await peer.goodbye()

    async with server(serve) as address:
        calling = wire(address)
        for at in range(6):
            own = encode_fields([("x-request-id", f"{at}")])
            assert await calling.ask(INFER, b"", 5, own) == b"yes"
        await calling.aclose()
    assert [h["x-request-id"] for h in heads] == [f"{at}" for at in range(6)]
    for told in heads:
        assert told[":path"] == INFER
        assert told["authorization"] == "Bearer x"
        assert told["grpc-timeout"]


async def test_a_call_that_is_given_up_is_reset_at_once() -> None:
    reset = asyncio.Event()
    begun = asyncio.Event()

    async def serve(peer: Peer) -> None:
        peer.send(settings())
        while True:
            await asked(peer)
            begun.set()
            assert (await peer.until(RST)).code == 8
            reset.set()

    async with server(serve) as address:
        calling = wire(address)
        for lap in within(0.1):
            reset.clear()
            begun.clear()
            asking = asyncio.create_task(calling.ask(INFER, b"", 5))
            await asyncio.wait_for(begun.wait(), 5)
            lap.begins()
            asking.cancel()
            await asyncio.wait_for(reset.wait(), 5)
            lap.ends()
        with pytest.raises(GrpcStatusError) as caught:
            await calling.ask(INFER, b"", 0.05)
        assert caught.value.code == "DEADLINE_EXCEEDED"
        await calling.aclose()


async def test_who_waits_for_a_connection_is_bounded_and_does_not_end_it_for_others() -> None:
    greet = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await greet.wait()
        peer.send(settings())
        answer(peer, await asked(peer))
        await peer.goodbye()

    async with server(serve) as address:
        calling = wire(address)
        patient = asyncio.create_task(calling.ask(INFER, b"", 5))
        hurried = asyncio.create_task(calling.ask(INFER, b"", 0.05))
        leaves = asyncio.create_task(calling.ask(INFER, b"", 5))
        await asyncio.sleep(0.01)
        leaves.cancel()
        with pytest.raises(GrpcStatusError) as caught:
            await hurried
        assert caught.value.code == "DEADLINE_EXCEEDED"
        greet.set()
        assert await patient == b"yes"
        await calling.aclose()


async def test_a_server_that_accepts_and_says_nothing_is_unreachable_in_time() -> None:
    async def serve(peer: Peer) -> None:
        await peer.goodbye()

    found = await outcome(serve, connect_timeout_s=0.1)
    assert isinstance(found, UpstreamUnreachable)


async def test_a_server_that_stops_answering_pings_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "QUIET_S", 0.05)
    monkeypatch.setattr(client, "PONG_S", 0.05)

    async def serve(peer: Peer) -> None:
        peer.send(settings())
        await asked(peer)
        await asyncio.sleep(3)

    found = await asyncio.wait_for(outcome(serve), 2)
    assert isinstance(found, UpstreamUnreachable)


async def test_a_closed_wire_fails_what_waits_and_takes_nothing() -> None:
    begun = asyncio.Event()

    async def serve(peer: Peer) -> None:
        peer.send(settings())
        await asked(peer)
        begun.set()
        await peer.goodbye()

    async with server(serve) as address:
        calling = wire(address)
        asking = asyncio.create_task(calling.ask(INFER, b"", 5))
        await asyncio.wait_for(begun.wait(), 5)
        await calling.aclose()
        for asks in (asking, calling.ask(INFER, b"", 5)):
            with pytest.raises(GrpcStatusError, match="closed"):
                await asks


async def test_any_frames_at_all_end_a_call() -> None:
    chance = random.Random(3)

    async def serve(peer: Peer) -> None:
        peer.send(settings())
        await asked(peer)
        for _ in range(chance.randrange(1, 8)):
            kind = chance.randrange(11)
            flags = chance.choice((0, 1, 4, 5, 8, 0x25, 255))
            payload = chance.choice((b"", number(1), bytes(8), chance.randbytes(20), message(b"y")))
            if kind == HEADERS and chance.random() < 0.8:
                payload = peer.block(chance.choice((HEAD, OK, [*HEAD, *OK])))
            peer.send(frame(kind, flags, chance.choice((0, 1, 1, 1, 2, 3)), payload))

    for _ in range(200):
        found = await outcome(serve, timeout_s=2.0)
        assert isinstance(found, (bytes, UpstreamError))
    assert not [t for t in asyncio.all_tasks() if "GrpcWire" in repr(t.get_coro())]


@pytest.mark.parametrize(("name", "value"), [("x", "a\nb"), ("X", "a"), ("x y", "a"), ("x", "ä")])
def test_what_cannot_stand_in_metadata_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="metadata"):
        field(name, value)
