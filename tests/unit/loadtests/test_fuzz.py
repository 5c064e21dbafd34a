"""The permanent part of `make fuzz`: generated inputs without a key, counted and not timed.

What one turn of the loop costs is told by the functions that it calls, Python's and C's: the same
on every machine. A turn of 50 ms calls some hundred thousand. Memory is what Python has allocated.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import random
import threading
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.server.grpc.front import GrpcFront
from loadtests.fuzz import http2_inputs
from loadtests.fuzz.families import FAMILIES
from loadtests.fuzz.inputs import Input
from loadtests.fuzz.meter import CountingLoop
from loadtests.fuzz.search import Search
from loadtests.fuzz.subject import Cost, deliver
from tests.unit.grpc_rig import Pipeline, key, running_front

pytestmark = pytest.mark.interpreted  # compiled functions are not counted

SIZE = 1 << 18
SEEDS = range(4)
MOST_CALLS = 60_000  # of one turn
MOST_MEMORY = 6  # times what was sent, and what a few calls need
FEW_CALLS_BYTES = 6 << 20  # five hundred refusals among them


class Served:
    """The gRPC front, in a thread, on a loop that counts."""

    def __init__(self) -> None:
        self.loop = CountingLoop()
        self.port = 0
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(30)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def _serve(self) -> None:
        async def run() -> None:
            async with running_front(Pipeline().handle, keys={"k": key(http2_inputs.KEY)}) as run:
                self.front: GrpcFront = run.front
                self.port = run.port
                self._ready.set()
                await self._stop.wait()

        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(run())

    def barrier(self) -> None:
        """All that was ready has run."""
        done = threading.Event()
        self.loop.call_soon_threadsafe(done.set)
        assert done.wait(60)

    def quiet(self) -> bool:
        """Whether two turns in a row found next to nothing to do."""
        before = self.loop.calls
        self.barrier()
        self.barrier()
        return self.loop.calls - before < 200


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    subject = Served()
    subject.start()
    try:
        yield subject
    finally:
        subject.stop()


def cost(served: Served, data: bytes) -> tuple[int, int]:
    """The most calls of one turn, and the most bytes that were allocated."""
    served.barrier()
    served.loop.clear()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        with contextlib.suppress(ConnectionError):
            deliver(served.port, data, served.quiet)
        served.barrier()
        return served.loop.most_calls, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def inputs(family: str, seed: int) -> Input:
    return FAMILIES[family].made(random.Random(seed), False, SIZE)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", [f.name for f in http2_inputs.FAMILIES])
def test_no_generated_input_without_a_key_costs_much(
    served: Served, family: str, seed: int
) -> None:
    made = inputs(family, seed)
    data = FAMILIES[family].render(made.segments, False)
    calls, memory = cost(served, data)
    assert calls < MOST_CALLS
    assert memory < MOST_MEMORY * len(data) + FEW_CALLS_BYTES


def _settings(count: int) -> bytes:
    pairs = [b"\x00\x04" + (70_000 + at).to_bytes(4) for at in range(count)]
    return http2_inputs.frame(http2_inputs.SETTINGS, 0, 0, b"".join(pairs))


def _repeated(*frames: bytes) -> bytes:
    whole = b"".join(frames)
    return http2_inputs.render((whole,) * (SIZE // len(whole)), False)


def _heads(path: str, content: bytes, flags: int = 4) -> bytes:
    head = http2_inputs.frame(http2_inputs.HEADERS, flags, 1, _block(path))
    return head + http2_inputs.frame(http2_inputs.DATA, 1, 1, content)


def _block(path: str, *more: tuple[bytes, bytes]) -> bytes:
    import hpack  # of the tests alone

    fields = [
        (b":method", b"POST", True), (b":scheme", b"http", True), (b":path", path.encode(), True),
        (b"content-type", b"application/grpc", True),
        *((name, value, True) for name, value in more),
    ]  # fmt: skip
    block: bytes = hpack.Encoder().encode(fields)
    return block


INFER = "/inference.GRPCInferenceService/ModelInfer"
PACKED = (b"grpc-encoding", b"gzip")
BOMB = gzip.compress(bytes(60 << 20))
HUFFMAN = b"\x00\x01x\xff\x81\xf9\x01" + bytes(32_000)  # a field of 51,200 noughts
GREETING = http2_inputs.PREFACE + http2_inputs.frame(http2_inputs.SETTINGS, 0, 0)
KNOWN_ONES: dict[str, bytes] = {
    "SETTINGS": GREETING + _settings(SIZE // 6),
    "a header block": GREETING
    + http2_inputs.frame(http2_inputs.HEADERS, 5, 1, b"\x00\x01x\x01y" * (SIZE // 5)),
    "octets of Huffman's code": _repeated(
        http2_inputs.frame(http2_inputs.HEADERS, 5, 1, HUFFMAN)
    ),
    "calls that anybody may make": _repeated(
        _heads("/grpc.health.v1.Health/Check", http2_inputs.message(b""))
    ),
    "calls that nobody may make": _repeated(
        _heads("/inference.GRPCInferenceService/ModelInfer", http2_inputs.message(b"x"))
    ),
    "data of a stream that has ended": _repeated(
        _heads("/grpc.health.v1.Health/Check", http2_inputs.message(b"")),
        http2_inputs.frame(http2_inputs.DATA, 0, 1, b"x") * 2000,
    ),
    "reflections": _repeated(
        http2_inputs.frame(
            http2_inputs.HEADERS, 4, 1,
            _block("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
        )
        + http2_inputs.frame(http2_inputs.DATA, 0, 1, http2_inputs.message(b"\x3a\x00")) * 4000
    ),
    "SETTINGS beside many calls": GREETING
    + b"".join(
        http2_inputs.frame(http2_inputs.HEADERS, 4, at, _block("/grpc.health.v1.Health/Check"))
        for at in range(1, 1001, 2)
    )
    + _settings(400),
    "a message by its octets": _repeated(
        http2_inputs.frame(http2_inputs.HEADERS, 4, 1, _block(INFER))
        + http2_inputs.frame(http2_inputs.DATA, 0, 1, http2_inputs.message(bytes(SIZE))[:5])
        + http2_inputs.frame(http2_inputs.DATA, 0, 1, b"x") * 24_000
    ),
    "a bomb": http2_inputs.render(
        (
            http2_inputs.frame(http2_inputs.HEADERS, 4, 1, _block(INFER, PACKED))
            + http2_inputs.frame(http2_inputs.DATA, 1, 1, http2_inputs.message(BOMB, 1)),
        ),
        False,
    ),
    "pings": _repeated(http2_inputs.frame(http2_inputs.PING, 0, 0, bytes(8))),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN_ONES)
def test_what_once_stopped_the_gateway_costs_little(served: Served, name: str) -> None:
    calls, memory = cost(served, KNOWN_ONES[name])
    assert calls < MOST_CALLS
    assert memory < MOST_MEMORY * len(KNOWN_ONES[name]) + FEW_CALLS_BYTES


@pytest.mark.parametrize("family", FAMILIES)
def test_inputs_of_a_family_are_made_changed_and_kept(family: str) -> None:
    chance, made = random.Random(1), inputs(family, 1)
    for _ in range(50):
        made = FAMILIES[family].changed(chance, made, inputs(family, 2), SIZE)
        assert made.segments
        assert Input.read(made.document()) == made
        assert isinstance(FAMILIES[family].render(made.segments, made.keyed), bytes)


def test_a_search_is_the_same_for_the_same_seed_and_keeps_the_costliest() -> None:
    def run() -> list[Any]:
        search = Search(3, ("frames", "json"))
        for each in search.inputs():
            size = sum(map(len, each.segments))
            search.learn(each, Cost(size, each.keyed, size / 1e3, size / 1e3, size))
            if search.tried >= 40:
                return [*search.worst()]
        raise AssertionError

    first = run()
    assert first == run()
    assert {family for family, *_ in first} == {"frames", "json"}
    assert all(
        len(kinds) == 3 for kinds in [{m for f, k, m, _ in first if (f, k) == ("json", True)}]
    )
