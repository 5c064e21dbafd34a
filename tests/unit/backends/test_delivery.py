"""Events of a provider's stream, put to a receiver as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field

import pytest

from gateway.core.reply import Frame, ServerEvent, ServerEvents
from gateway.core.types import ServedModel
from gateway.endpoints.connectors.openai.event_stream import EventStream
from tests.unit.backends.test_openai_connector import (
    HANG,
    Provider,
    chunk,
    connector,
    provider,
    sse,
    streamed,
)

pytestmark = pytest.mark.anyio
__all__ = ["provider"]

LAST = sse(chunk(finish="stop"), b"[DONE]")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Slow:
    """Has room for so many frames, and then once `more` is set. `meets` is called with each."""

    rooms: int = 1 << 30
    meets: Callable[[], None] = lambda: None
    text: bytes = b""
    events: int = 0
    waits: int = 0
    tasks: set[asyncio.Task[object] | None] = field(default_factory=set)
    full: asyncio.Event = field(default_factory=asyncio.Event)
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, item: Frame) -> bool:
        assert isinstance(item, ServerEvent | ServerEvents)
        assert self.rooms > 0, "put without room"
        self.text += item.framed()
        self.events += item.number if isinstance(item, ServerEvents) else 1
        self.tasks.add(asyncio.current_task())
        self.rooms -= 1
        self.meets()
        return self.rooms > 0

    async def room(self) -> None:
        self.waits += 1
        self.full.set()
        await self.more.wait()
        self.rooms = 1 << 30


class Steps(list[object]):
    """What is written, and how much of it was begun."""

    given = 0

    def __iter__(self) -> Iterator[object]:
        for step in super().__iter__():
            self.given += 1
            yield step


Opened = Callable[[], Coroutine[object, object, EventStream]]


@pytest.fixture
async def opened(provider: Provider) -> AsyncIterator[Opened]:
    there = connector(provider)

    async def opened() -> EventStream:
        stream = await there.open(streamed(), ServedModel("m"))
        assert isinstance(stream, EventStream)
        assert await anext(stream) == ServerEvent(chunk("first"))
        return stream

    yield opened
    await there.aclose()


async def test_no_task_wakes_for_events_that_come_later(provider: Provider, opened: Opened) -> None:
    events = [sse(chunk(str(n))) for n in range(20)]
    provider.streams(sse(chunk("first")), *events, LAST)
    receiver = Slow()
    await (await opened()).deliver(receiver)
    assert receiver.text.startswith(b"".join(events))
    assert receiver.events == 21
    assert receiver.tasks <= {None, asyncio.current_task()}
    assert None in receiver.tasks, "put by the connection's callback"
    assert receiver.waits == 0


async def test_nothing_is_put_without_room(provider: Provider, opened: Opened) -> None:
    """What is not taken is held up to a bound, and then the provider's writes are."""
    event = sse(chunk("x" * 8000))
    provider.streams(sse(chunk("first")), *[event] * 2000, LAST)
    provider.script = steps = Steps(provider.script)
    receiver = Slow(rooms=3)
    delivering = asyncio.create_task((await opened()).deliver(receiver))
    await receiver.full.wait()
    begun = -1
    for _ in range(len(steps)):
        if begun == (begun := steps.given):
            break
        await asyncio.sleep(0.2)
    assert steps.given < 2000, "the provider writes on although nobody reads"
    receiver.more.set()
    await delivering
    assert receiver.text.count(b"data: ") == receiver.events == 2001


async def test_what_a_receiver_raises_ends_the_stream(provider: Provider, opened: Opened) -> None:
    def fails() -> None:
        raise ValueError("a bug")

    provider.streams(sse(chunk("first")), sse(chunk("a")), sse(chunk("b")), HANG)
    receiver = Slow(meets=fails)
    with pytest.raises(ValueError, match="a bug"):
        await (await opened()).deliver(receiver)
    assert receiver.events == 1
    await provider.left.wait()


async def test_an_event_in_pieces_is_put_once_it_is_whole(
    provider: Provider, opened: Opened
) -> None:
    event = sse(chunk("a"))
    provider.streams(sse(chunk("first")), event[:9], event[9:], event, LAST)
    receiver = Slow()
    await (await opened()).deliver(receiver)
    assert receiver.text.startswith(event + event)
