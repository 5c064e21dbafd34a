"""One caller cannot take all that may be held of requests, whichever way it sends them: others find
room while it holds its share."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol

import pytest

from gateway.core.held_bytes import NOBODY, HeldBytes
from gateway.core.reply import GrpcMessage, InferenceReply, OneFrame, RestBody
from gateway.core.types import InferenceRequest
from gateway.server import Services
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from tests.unit.fronts.http_rig import PLACEMENT as REST_PLACEMENT
from tests.unit.fronts.http_rig import serving
from tests.unit.grpc_rig import PLACEMENT, infer_request, key, running_front
from tests.unit.http2.peers import (
    DATA,
    END_STREAM,
    INFER,
    STREAM,
    Peer,
    caller,
    frame,
    message,
    request,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

MB = 1 << 20
PART = 900_000
WHOLE = infer_request("simple", values=range(115_000)).SerializeToString()
REST = json.dumps({"inputs": [{"name": "I", "datatype": "INT8", "shape": [1], "data": [1]}]})
REST_WHOLE = REST.encode().ljust(len(WHOLE))
KEYS = {name: key(name).model_copy(update={"tenant": name}) for name in ("a", "b")}


class Gateway:
    """Both listeners over one budget."""

    def __init__(self, services: Services, rest: int, grpc: int, may_answer: asyncio.Event) -> None:
        self.budget = services.held_bytes
        self.rest, self.grpc = rest, grpc
        self.may_answer = may_answer
        self.ends = contextlib.AsyncExitStack()

    async def holds(self, who: str, count: int) -> None:
        async with asyncio.timeout(10):
            while self.budget.held_by(who) != count:  # noqa: ASYNC110 - it has no event for it
                await asyncio.sleep(0.005)

    async def peer(self) -> Peer:
        return await self.ends.enter_async_context(caller(self.grpc))


@asynccontextmanager
async def gateway(most_bytes: int = 4 * MB) -> AsyncIterator[Gateway]:
    may_answer = asyncio.Event()

    async def handle(call: InferenceRequest) -> InferenceReply:
        await may_answer.wait()
        if call.protocol.value == "kserve-rest":
            return InferenceReply(REST_PLACEMENT, OneFrame(RestBody(b"{}")))
        return InferenceReply(PLACEMENT, OneFrame(GrpcMessage(b"")))

    async with running_front(handle, keys=KEYS) as first:
        made = replace(first.services, held_bytes=HeldBytes(most_bytes))
    app = App(made, [kserve.front(made)])
    async with running_front(made=made) as run, serving(app) as port:
        found = Gateway(made, port, run.port, may_answer)
        async with found.ends:
            yield found


class Sent(Protocol):
    """One request, which holds PART bytes."""

    async def reason(self) -> str:
        """Why it was refused."""
        ...

    async def served(self) -> bool:
        """The rest of it is sent, and it is answered."""
        ...


class OverHttp:
    def __init__(self, run: Gateway, reader: asyncio.StreamReader, writer: Any) -> None:
        self._run, self._reader, self._writer = run, reader, writer

    @classmethod
    async def begun(cls, run: Gateway, who: str) -> OverHttp:
        reader, writer = await asyncio.open_connection("127.0.0.1", run.rest)
        run.ends.callback(writer.close)
        writer.write(
            f"POST /v2/models/simple/infer HTTP/1.1\r\nhost: gateway\r\n"
            f"authorization: Bearer {who}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(REST_WHOLE)}\r\n\r\n".encode()
            + REST_WHOLE[:PART]
        )
        return cls(run, reader, writer)

    async def _head(self) -> str:
        async with asyncio.timeout(10):
            return (await self._reader.readuntil(b"\r\n\r\n")).decode()

    async def reason(self) -> str:
        head = await self._head()
        assert head.startswith("HTTP/1.1 429")
        assert "\r\nretry-after: " in head
        return head.split("x-spillway-reason: ")[1].split("\r\n")[0]

    async def served(self) -> bool:
        self._run.may_answer.set()
        self._writer.write(REST_WHOLE[PART:])
        return (await self._head()).startswith("HTTP/1.1 200")


class OverGrpc:
    path = INFER

    def __init__(self, run: Gateway, peer: Peer) -> None:
        self._run, self._peer = run, peer

    @classmethod
    async def begun(cls, run: Gateway, who: str) -> OverGrpc:
        sent = cls(run, await run.peer())
        peer = sent._peer
        peer.send(peer.head(1, request(cls.path, ("authorization", f"Bearer {who}"))))
        sent._put(message(WHOLE)[:PART])
        return sent

    def _put(self, data: bytes, flags: int = 0) -> None:
        for at in range(0, len(data), 60_000):
            last = at + 60_000 >= len(data)
            piece = data[at : at + 60_000]
            self._peer.send(frame(DATA, flags if last else 0, 1, piece))

    async def reason(self) -> str:
        fields = await self._peer.fields(1)
        assert fields["grpc-status"] == "8"  # RESOURCE_EXHAUSTED
        assert int(fields["retry-after-ms"]) > 0
        return fields["x-spillway-reason"]

    async def served(self) -> bool:
        self._run.may_answer.set()
        self._put(message(WHOLE)[PART:], END_STREAM)
        return (await self._peer.answer(1))[1]["grpc-status"] == "0"


class OverStream(OverGrpc):
    path = STREAM


class Inflated(OverGrpc):
    """What it is inflated to is held until it is answered."""

    @classmethod
    async def begun(cls, run: Gateway, who: str) -> Inflated:
        sent = cls(run, await run.peer())
        peer, own = sent._peer, (("authorization", f"Bearer {who}"), ("grpc-encoding", "gzip"))
        peer.send(peer.head(1, request(INFER, *own)))
        sent._put(message(gzip.compress(WHOLE), 1), END_STREAM)
        return sent

    async def served(self) -> bool:
        self._run.may_answer.set()
        return (await self._peer.answer(1))[1]["grpc-status"] == "0"


WAYS = [OverHttp, OverGrpc, OverStream, Inflated]


def held_by(way: Any) -> int:
    return len(WHOLE) if way is Inflated else PART


@pytest.mark.parametrize("other", WAYS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_caller_that_holds_its_share_leaves_room_for_others(way: Any, other: Any) -> None:
    async with gateway() as run:
        for count in (1, 2):
            await way.begun(run, "a")
            await run.holds("a", count * held_by(way))
        third: Sent = await way.begun(run, "a")
        assert await third.reason() == "bodies_full"
        await run.holds("a", 2 * held_by(way))
        elsewhere: Sent = await other.begun(run, "b")
        await run.holds("b", held_by(other))
        assert await elsewhere.served()
        await run.holds("b", 0)


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_given_up_or_served_is_room_again(way: Any) -> None:
    async with gateway() as run:
        first: Sent = await way.begun(run, "a")
        await way.begun(run, "a")
        await run.holds("a", 2 * held_by(way))
        assert await first.served()
        async with asyncio.timeout(10):
            while run.budget.held_by("a") > held_by(way):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.005)
        await run.ends.aclose()
        await run.holds("a", 0)
        assert run.budget.bytes == 0


async def test_strangers_are_one_caller_together() -> None:
    """For methods that anybody may call: however many they are, callers with a key find room."""
    async with gateway(100_000) as run:
        peers = [await run.peer() for _ in range(3)]
        for peer in peers[:2]:
            peer.send(peer.head(1, request("/inference.GRPCInferenceService/ServerLive")))
            peer.send(frame(DATA, 0, 1, message(bytes(60_000))[:20_000]))
        await run.holds(NOBODY, 40_000)
        peers[2].send(peers[2].head(1, request("/grpc.health.v1.Health/Check")))
        peers[2].send(frame(DATA, 0, 1, message(bytes(60_000))[:20_000]))
        assert (await peers[2].fields(1))["x-spillway-reason"] == "bodies_full"
        known = await run.peer()
        known.send(known.head(1, request(INFER, ("authorization", "Bearer a"))))
        known.send(frame(DATA, 0, 1, message(WHOLE)[:25_000]))
        await run.holds("a", 25_000)


async def test_the_largest_body_there_may_be_finds_room_when_its_caller_holds_nothing() -> None:
    """Beside one that holds as much: the smallest budget is four times the largest body."""
    async with gateway(4 * len(REST_WHOLE)) as run:
        first = await OverHttp.begun(run, "a")
        await run.holds("a", PART)
        second = await OverHttp.begun(run, "b")
        await run.holds("b", PART)
        assert await first.served()
        assert await second.served()
