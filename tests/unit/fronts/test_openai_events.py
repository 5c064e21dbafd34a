"""What a failure continues, of events that went out one by one or together."""

from __future__ import annotations

import json

import pytest

from gateway.core.errors import UpstreamUnreachable
from gateway.core.operations.responses import RESPONSES
from gateway.core.reply import Frame, Receiver, ServerEvent, ServerEvents
from gateway.server.openai.events import EventBytes

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def event(number: int) -> bytes:
    return ServerEvent(b'{"sequence_number": %d}' % number).framed()


class Frames:
    """An event, two that came together, and then a failure."""

    def __init__(self) -> None:
        self.frames: list[Frame] = [
            ServerEvent(b'{"sequence_number": 4}'),
            ServerEvents(event(5) + event(6), 2),
        ]

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        for frame in self.frames:
            receiver.put(frame)
        raise UpstreamUnreachable("it broke")

    async def aclose(self) -> None: ...


class Caller:
    def __init__(self) -> None:
        self.bytes: list[bytes] = []

    def put(self, item: bytes) -> bool:
        self.bytes.append(item)
        return True

    async def room(self) -> None: ...


@pytest.mark.parametrize("read", [1, 2])
async def test_a_failure_continues_what_went_out(read: int) -> None:
    frames, caller = Frames(), Caller()
    del frames.frames[read:]
    await EventBytes(frames, RESPONSES).deliver(caller)
    *events, failure = caller.bytes
    assert events == [event(4), event(5) + event(6)][:read]
    document = json.loads(failure.decode().split("data: ")[1])
    assert document["sequence_number"] == {1: 5, 2: 7}[read]


@pytest.mark.parametrize(
    "events",
    [
        [ServerEvent(b"a")],
        [ServerEvent(b"a\nb"), ServerEvent(b""), ServerEvent(b"c", "response.created")],
        [ServerEvent(b"\n\n", "x"), ServerEvent(b"data: y"), ServerEvent(b"event: z\ndata: ")],
    ],
)
def test_events_are_taken_apart_as_they_were_joined(events: list[ServerEvent]) -> None:
    joined = ServerEvents(b"".join(event.framed() for event in events), len(events))
    assert joined.apart() == events
    assert "a" not in repr(joined).removeprefix("ServerEvents")
