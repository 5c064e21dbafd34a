"""What a failure continues, of events that went out as they came."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from gateway.core.errors import UpstreamUnreachable
from gateway.core.operations.responses import RESPONSES
from gateway.core.types import Frame, ServerEvent, Sink
from gateway.server.openai.events import EventBytes

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def event(number: int) -> bytes:
    return ServerEvent(b'{"sequence_number": %d}' % number).framed()


class Frames:
    """One that is asked for, one that flows, and then a failure."""

    def __init__(self, in_chunk: bool) -> None:
        self._in_chunk = in_chunk
        self._begun = False

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        if self._begun:
            raise UpstreamUnreachable("it broke")
        self._begun = True
        return ServerEvent(b'{"sequence_number": 4}')

    async def flow(self, sink: Sink) -> None:
        if self._in_chunk:
            sink.chunk(b"%x\r\n%b\r\n" % (len(event(5)), event(5)))
        else:
            sink.events(event(5))

    async def aclose(self) -> None: ...


@pytest.mark.parametrize("in_chunk", [False, True])
async def test_a_failure_continues_what_flowed(in_chunk: bool) -> None:
    went_out: list[bytes] = []

    def take(told: bytes) -> bool:
        went_out.append(told)
        return True

    stream = EventBytes(Frames(in_chunk), RESPONSES)
    assert await anext(stream) == event(4)
    assert stream.flow is not None
    await stream.flow(Sink(take, take))
    assert len(went_out) == 1
    assert event(5) in went_out[0]
    told = (await anext(stream)).decode().split("data: ")[1]
    assert json.loads(told)["sequence_number"] == 6
