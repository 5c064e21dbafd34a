"""An event that is handed on unread, with the frame of its chunk, is what the parser would have
read there, wherever the reads of a stream are cut and whatever stands between its chunks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.types import in_chunk
from gateway.endpoints.connectors.openai.alike import Alike
from gateway.protocols.http_client.connection import HttpClientConnection

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Transport:
    closing = False

    def write(self, data: bytes) -> None: ...
    def abort(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing


def event(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return b"data: %b\n\n" % json.dumps({"id": "c", "choices": [choice]}).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


FIRST = event("a")
EVENTS = st.text('aé"\\\n', max_size=20).map(event)
ODD = st.sampled_from(
    [
        b"",
        b"\r\n",
        b"0\r\n\r\n",
        b"5;\n\n\r\n",
        b"A0\r\n",
        b"\n\n\r\n",
        b"3;x=y\r\n{}\n\r\n",
        b"ff\r\n" + FIRST,
        chunk(b"\n\n"),
        chunk(chunk(FIRST)),
        chunk(FIRST)[1:],
        chunk(FIRST).upper(),
        b"0" + chunk(FIRST),
        chunk(FIRST[:20]) + chunk(FIRST[20:]),
        b"0\r\nx: \n\n\r\n",
        HEAD,
    ]
)
PARTS = st.lists(EVENTS.map(chunk) | EVENTS.map(chunk) | ODD, max_size=8)


async def read(reads: list[bytes], expected: Any) -> tuple[bytes, int, bool, bool, bool]:
    connection, transport, unread = HttpClientConnection(1 << 20), Transport(), 0
    connection.connection_made(transport)  # type: ignore[arg-type]
    connection.send(b"", b"", True)
    connection.data_received(HEAD + chunk(FIRST))
    got = [connection.taken()]

    def take(body: bytes) -> bool:
        got.append(body)
        return True

    def hand_on(data: bytes) -> bool:
        nonlocal unread
        unread += 1
        return take(in_chunk(data))

    connection.expected = expected
    flowing = asyncio.ensure_future(connection.flow(take, hand_on))
    for data in reads:
        await asyncio.sleep(0)
        if transport.closing or flowing.done():
            break
        connection.data_received(data)
    flowing.cancel()
    await asyncio.wait((flowing,))
    failed = connection._failure is not None
    return b"".join(got), unread, connection._done, failed, transport.closing


@settings(max_examples=600, deadline=None)
@given(PARTS, st.lists(st.integers(0, 400), max_size=6), st.booleans())
def test_a_chunk_that_is_handed_on_is_what_was_to_be_read(
    parts: list[bytes], cuts: list[int], whole: bool
) -> None:
    if whole:
        reads = [part for part in parts if part]
    else:
        text, at = b"".join(parts), sorted(cuts)
        ends = zip([0, *at], [*at, len(text)], strict=True)
        reads = [text[start:end] for start, end in ends if text[start:end]]
    alike = Alike.to(FIRST[6:-2])
    assert alike is not None

    async def both() -> None:
        handed = await read(reads, alike.is_chunk)
        plain = await read(reads, None)
        assert (handed[0], *handed[2:]) == (plain[0], *plain[2:])

    asyncio.run(both())


def test_events_of_a_kind_are_handed_on_unread() -> None:
    alike = Alike.to(FIRST[6:-2])
    assert alike is not None
    reads = [chunk(event(word)) for word in ("one", "two", "")] + [chunk(b": beat\n\n")]
    found = asyncio.run(read([*reads, *reads], alike.is_chunk))
    assert found[1] == 6
