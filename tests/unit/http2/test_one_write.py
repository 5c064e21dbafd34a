"""What one turn of the event loop has to send on a connection goes out in one write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.protocols.http2 import Code, frames
from gateway.protocols.http2.bounds import FloodLimit
from gateway.protocols.http2.sender import FrameSender, Stream

pytestmark = pytest.mark.anyio


class Transport:
    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return False


def sender() -> tuple[FrameSender, list[bytes]]:
    transport: Any = Transport()
    made = FrameSender(FloodLimit(1000, "", lambda: 0.0))
    made.open(transport)
    return made, transport.writes


def stream(number: int) -> Stream:
    made = Stream()
    made.id, made.window = number, 1 << 30
    return made


def numbers(data: bytes) -> list[int]:
    """The streams of the frames in these bytes."""
    found, at = [], 0
    while at < len(data):
        word, _, number = frames.read_head(data, at)
        found.append(number)
        at += frames.HEAD_BYTES + (word >> 8)
    return found


async def test_messages_of_one_turn_are_one_write_in_their_order() -> None:
    sending, writes = sender()
    for number in (1, 3, 5):
        sending.send_message(stream(number), ((), b""), b"answer", None)
    sending.reset(7, Code.CANCEL)
    assert writes == []
    await asyncio.sleep(0)
    (written,) = writes
    assert numbers(written) == [1, 1, 3, 3, 5, 5, 7]
    sending.send_message(stream(9), ((), b""), b"answer", None)
    await asyncio.sleep(0)
    assert numbers(writes[1]) == [9, 9]


async def test_much_does_not_wait_for_the_end_of_the_turn() -> None:
    sending, writes = sender()
    sending.window = 1 << 30
    for number in range(1, 20, 2):
        sending.send_message(stream(number), ((), b""), bytes(15_000), None)
    assert len(writes) == 2


async def test_what_was_to_be_sent_goes_out_before_the_end() -> None:
    sending, writes = sender()
    sending.send_message(stream(1), ((), b""), b"answer", None)
    sending.end()
    assert numbers(b"".join(writes)) == [1, 1]
    sending.send_message(stream(3), ((), b""), b"answer", None)
    await asyncio.sleep(0)
    assert len(writes) == 1
