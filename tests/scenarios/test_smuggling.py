"""One request as two: heads that two parsers could read in two ways get no second answer.

Each head is sent with every framing that an attack uses: a `content-length` over everything and a
chunk that ends early; a `content-length` that ends early and a chunk over everything; and a body
that is a request. The second request asks whether the gateway is live; then one of ours, on the
same connection, asks whether it is ready. The answer to that one must be the next.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.live import LiveGateway, LoopThread

CORPUS = Path(__file__).parents[3] / "shared" / "data" / "corpora" / "http_smuggling_heads.json"
TARGET = "/v2/repository/index"
SMUGGLED = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
OURS = b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNK_ENDS_EARLY, LENGTH_ENDS_EARLY = "chunk ends early", "length ends early"
BODY_IS_A_REQUEST = "body is a request"
FRAMINGS = (CHUNK_ENDS_EARLY, LENGTH_ENDS_EARLY, BODY_IS_A_REQUEST)
_AT_ONCE = 32
_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    closes: bool


class Line:
    """A connection that sends what it is told and reads answers one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> Answer | None:
        """None when the gateway closed the connection, or waits for more of the request."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await self._answer()
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            return None

    async def _answer(self) -> Answer:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        body = await self._reader.readexactly(length)
        return Answer(int(head.split()[1]), body, "connection: close" in head)

    def close(self) -> None:
        self._writer.close()


async def talk(gateway: LiveGateway, head: bytes, body: bytes) -> list[Answer]:
    """Every answer to the two and, where the connection lives on, to a request of ours."""
    at = urlsplit(gateway.http_url)
    line = Line(*await asyncio.open_connection(at.hostname, at.port))
    try:
        await line.send(head)
        await line.send(body)
        answers = []
        if (first := await line.answer()) is not None:
            answers.append(first)
            if not first.closes:
                await line.send(OURS)
                answers += [a for a in [await line.answer()] if a is not None]
        return answers
    finally:
        line.close()


def was_smuggled(answers: list[Answer]) -> bool:
    return any(json.loads(answer.body) == {"live": True} for answer in answers[:2])


def framed(head: str, framing: str) -> tuple[bytes, bytes]:
    """The attack: the head with its placeholders filled in, and the body that fits the framing."""
    ended = b"0\r\n\r\n" + SMUGGLED
    if framing == CHUNK_ENDS_EARLY:
        body, length = ended, len(ended)
    elif framing == LENGTH_ENDS_EARLY:
        size = b"%x\r\n" % len(ended)
        body, length = size + ended + b"\r\n0\r\n\r\n", len(size) + 5
    else:
        body, length = SMUGGLED, len(SMUGGLED)
    for name, value in (
        ("__METHOD__", "POST"),
        ("__ENDPOINT__", TARGET),
        ("__RANDOM__", "1"),
        ("__HOST__", "a"),
        ("__REPLACE_CL__", str(length)),
    ):
        head = head.replace(name, value)
    return head.encode("latin-1") + b"\r\n", body


async def served_twice(gateway: LiveGateway, heads: dict[str, str]) -> list[tuple[str, str]]:
    """The heads, each with its framing, behind which the second request was answered."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def attack(name: str, framing: str) -> tuple[str, str] | None:
        async with room:
            answers = await talk(gateway, *framed(heads[name], framing))
        return (name, framing) if was_smuggled(answers) else None

    found = await asyncio.gather(*(attack(n, f) for n in heads for f in FRAMINGS))
    return [each for each in found if each is not None]


def with_codings(*lines: str) -> str:
    first = "__METHOD__ __ENDPOINT__ HTTP/1.1\r\nHost: __HOST__\r\n"
    return first + "".join(f"{line}\r\n" for line in lines)


LENGTH = "Content-Length: __REPLACE_CL__"
HEADS = {
    "both": with_codings(LENGTH, "Transfer-Encoding: chunked"),
    "both, the coding first": with_codings("Transfer-Encoding: chunked", LENGTH),
    "coding in capitals": with_codings(LENGTH, "Transfer-Encoding: CHUNKED"),
    "coding after a tab": with_codings(LENGTH, "Transfer-Encoding:\tchunked"),
    "coding with a space behind": with_codings(LENGTH, "Transfer-Encoding: chunked "),
    "coding with no space": with_codings(LENGTH, "Transfer-Encoding:chunked"),
    "space before the colon": with_codings(LENGTH, "Transfer-Encoding : chunked"),
    "tab before the colon": with_codings(LENGTH, "Transfer-Encoding\t: chunked"),
    "space before the name": with_codings(LENGTH, " Transfer-Encoding: chunked"),
    "control before the name": with_codings(LENGTH, "\x01Transfer-Encoding: chunked"),
    "control behind the coding": with_codings(LENGTH, "Transfer-Encoding: chunked\x0b"),
    "null behind the coding": with_codings(LENGTH, "Transfer-Encoding: chunked\x00"),
    "high byte before the coding": with_codings(LENGTH, "Transfer-Encoding: \xa0chunked"),
    "folded coding": with_codings(LENGTH, "Transfer-Encoding:\r\n chunked"),
    "folded into another": with_codings(LENGTH, "X-A: b\r\n Transfer-Encoding: chunked"),
    "bare line feed": with_codings(LENGTH, "X-A: b\nTransfer-Encoding: chunked"),
    "bare carriage return": with_codings(LENGTH, "X-A: b\rTransfer-Encoding: chunked"),
    "carriage return in the coding": with_codings(LENGTH, "Transfer-Encoding: chunked\r"),
    "two codings": with_codings(LENGTH, "Transfer-Encoding: identity, chunked"),
    "two codings, chunked first": with_codings(LENGTH, "Transfer-Encoding: chunked, identity"),
    "coding twice": with_codings(LENGTH, *["Transfer-Encoding: chunked"] * 2),
    "coding twice, once unknown": with_codings(
        LENGTH, "Transfer-Encoding: x", "Transfer-Encoding: chunked"
    ),
    "quoted coding": with_codings(LENGTH, 'Transfer-Encoding: "chunked"'),
    "unknown coding": with_codings(LENGTH, "Transfer-Encoding: xchunked"),
    "empty coding": with_codings(LENGTH, "Transfer-Encoding:"),
    "length twice": with_codings(LENGTH, "Content-Length: 0"),
    "length twice, alike": with_codings(LENGTH, LENGTH),
    "length as a list": with_codings("Content-Length: 0, __REPLACE_CL__"),
    "length with a sign": with_codings("Content-Length: +__REPLACE_CL__"),
    "length with a minus": with_codings("Content-Length: -__REPLACE_CL__"),
    "length in hexadecimal": with_codings("Content-Length: 0x__REPLACE_CL__"),
    "length with a fraction": with_codings("Content-Length: __REPLACE_CL__.0"),
    "length with a space within": with_codings("Content-Length: __REPLACE_CL__ 0"),
    "length with an underscore": with_codings("Content_Length: 0", LENGTH, "Content-Length:"),
    "length beyond 64 bits": with_codings("Content-Length: 18446744073709551616"),
    "length with a space before": with_codings("Content-Length : __REPLACE_CL__"),
    "upgrade": with_codings(LENGTH, "Connection: Upgrade", "Upgrade: h2c"),
    "websocket": with_codings(LENGTH, "Connection: Upgrade", "Upgrade: websocket"),
    "expectation": with_codings(LENGTH, "Expect: 200-ok"),
    "closing": with_codings(LENGTH, "Connection: close"),
    "old version": with_codings(LENGTH, "Transfer-Encoding: chunked").replace("1.1", "1.0"),
}


def test_a_second_request_that_is_one_is_served(
    gateway: LiveGateway, loop_thread: LoopThread
) -> None:
    """What the other tests look for is found where it is: two honest requests on one line."""
    honest = f"POST {TARGET} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    answers = loop_thread.run(talk(gateway, honest, SMUGGLED))
    assert [answer.status for answer in answers] == [200, 200]
    assert was_smuggled(answers)


def test_no_head_gets_a_second_request_served(
    gateway: LiveGateway, loop_thread: LoopThread
) -> None:
    assert loop_thread.run(served_twice(gateway, HEADS)) == []


def test_no_head_of_the_corpus_gets_a_second_request_served(
    gateway: LiveGateway, loop_thread: LoopThread
) -> None:
    if not CORPUS.exists():
        pytest.skip("the corpus of smuggling heads lies beside the repository, and is not there")
    heads = json.loads(CORPUS.read_text())
    assert len(heads) > 800
    assert loop_thread.run(served_twice(gateway, heads)) == []
