"""Heads and chunks as RFC 9112 writes them, and nothing that two parsers could read in two ways."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from gateway.protocols.http.framing import Framing, NotStrict
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from tests.unit.fronts.http_rig import Pipeline, services, serving

pytestmark = pytest.mark.anyio

HOST = b"Host: localhost\r\n"
READY = b"GET /v2/health/ready HTTP/1.1\r\n" + HOST
INFER = b"POST /v2/models/simple/infer HTTP/1.1\r\n" + HOST
BODY = b'{"inputs":[]}'
LAST = READY + b"Connection: close\r\n\r\n"
CHUNKED = INFER + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    given = services(Pipeline())
    async with serving(App(given, [kserve.front(given)])) as found:
        yield found


async def statuses(port: int, sent: bytes, piece: int) -> list[bytes]:
    """Of all answers until the gateway closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for at in range(0, len(sent), piece):
            writer.write(sent[at : at + piece])
            await asyncio.sleep(0)
        answer = await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        answer = b""
    finally:
        writer.close()
    return re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", answer)


GOOD = {
    "plain": READY + b"\r\n",
    "behind an empty line": b"\r\n" + READY + b"\r\n",
    "no space before a value": READY + b"X-A:b\r\n\r\n",
    "tabs around a value": READY + b"X-A:\t b \t\r\n\r\n",
    "an empty value": READY + b"X-A:\r\n\r\n",
    "a chunked body": CHUNKED + b"d\r\n" + BODY + b"\r\n0\r\n\r\n",
    "an extension and a trailer": CHUNKED + b"00D;a=b\r\n" + BODY + b"\r\n0;c\r\nX-T: 1\r\n\r\n",
    "two chunks": CHUNKED + b"1\r\n{\r\nc\r\n" + BODY[1:] + b"\r\n0\r\n\r\n",
    "its own absolute form": b"GET http://LOCALHOST/v2/health/ready HTTP/1.1\r\n" + HOST + b"\r\n",
    "a name with an escaped slash": INFER.replace(b"simple", b"org%2Fmodel")
    + b"Content-Length: 13\r\n\r\n"
    + BODY,
}
BAD = {
    "a bare CR first": b"\r" + READY + b"\r\n",
    "a bare LF first": b"\n" + READY + b"\r\n",
    "a bare CR behind an empty line": b"\r\n\r" + READY + b"\r\n",
    "two spaces": READY.replace(b"GET /", b"GET  /") + b"\r\n",
    "two spaces behind": READY.replace(b"ready H", b"ready  H") + b"\r\n",
    "a tab": READY.replace(b"GET /", b"GET\t/") + b"\r\n",
    "a space in the target": READY.replace(b"health/ready", b"health/re ady") + b"\r\n",
    "a space first": b" " + READY + b"\r\n",
    "a space behind the version": READY.replace(b"1.1\r", b"1.1 \r") + b"\r\n",
    "a bare LF": READY + b"X-A: b\n\r\n",
    "bare LFs alone": READY.replace(b"\r\n", b"\n") + b"\n",
    "a bare CR": READY + b"X-A: b\rX-B: c\r\n\r\n",
    "a folded line": READY + b"X-A: b\r\n c\r\n\r\n",
    "a folded first line": READY.replace(b"Host", b" X: y\r\nHost") + b"\r\n",
    "a space before the colon": READY + b"X-A : b\r\n\r\n",
    "a tab before the colon": READY + b"X-A\t: b\r\n\r\n",
    "no colon": READY + b"X-A\r\n\r\n",
    "no name": READY + b": b\r\n\r\n",
    "a control": READY + b"X-A: b\x0bc\r\n\r\n",
    "lengths that contradict": INFER + b"Content-Length: 13\r\nContent-Length: 12\r\n\r\n" + BODY,
    "a length twice": INFER + b"Content-Length: 13\r\nContent-Length: 13\r\n\r\n" + BODY,
    "a list of lengths": INFER + b"Content-Length: 13, 13\r\n\r\n" + BODY,
    "a signed length": INFER + b"Content-Length: +13\r\n\r\n" + BODY,
    "both framings": INFER + b"Content-Length: 13\r\n" + CHUNKED[len(INFER) :] + b"0\r\n\r\n",
    "another coding": INFER + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding twice": INFER + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n",
    "a bare LF behind a size": CHUNKED + b"d\n" + BODY + b"\r\n0\r\n\r\n",
    "a bare LF behind a chunk": CHUNKED + b"d\r\n" + BODY + b"\n0\r\n\r\n",
    "a space in a size": CHUNKED + b"d \r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size with a prefix": CHUNKED + b"0xd\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a signed size": CHUNKED + b"+d\r\n" + BODY + b"\r\n0\r\n\r\n",
    "no size": CHUNKED + b";a\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size of too many digits": CHUNKED + b"0" * 20 + b"d\r\n" + BODY + b"\r\n0\r\n\r\n",
    "an odd trailer": CHUNKED + b"d\r\n" + BODY + b"\r\n0\r\nX T: 1\r\n\r\n",
    "a foreign absolute form": b"GET http://evil/v2/health/ready HTTP/1.1\r\n" + HOST + b"\r\n",
    "its own with a user": b"GET http://a@localhost/v2/health/ready HTTP/1.1\r\n" + HOST + b"\r\n",
    "another port": b"GET http://localhost:81/v2/health/ready HTTP/1.1\r\n" + HOST + b"\r\n",
    "an escaped slash": READY.replace(b"health/ready", b"health%2Fready") + b"\r\n",
    "an escaped slash, lower": READY.replace(b"health/ready", b"health%2fready") + b"\r\n",
    "an escaped slash behind a name": READY.replace(
        b"health", b"models/simple%2fready/versions%2F1"
    )
    + b"\r\n",
}


@pytest.mark.parametrize("piece", [1, 7, 100_000])
@pytest.mark.parametrize("name", GOOD)
async def test_what_the_standard_writes_is_served(port: int, name: str, piece: int) -> None:
    assert await statuses(port, GOOD[name] + LAST, piece) == [b"200"] * 2


@pytest.mark.parametrize("piece", [1, 7, 100_000])
@pytest.mark.parametrize("name", BAD)
async def test_what_it_does_not_write_is_refused_and_nothing_behind_it(
    port: int, name: str, piece: int
) -> None:
    answers = await statuses(port, BAD[name] + LAST, piece)
    if answers or piece > len(BAD[name]):  # a reset, while it still comes, may lose the refusal
        assert answers in ([b"400"], [b"404"])


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"GET /v2/models/simple%2fready", b"404"),
        (b"GET /v2/models/simple%2Fversions%2F1/ready", b"400"),  # as Triton says it
        (b"POST /v2/models/simple%2Finfer", b"405"),  # of a model, and no call of `simple`
        (b"POST /v2/models/simple%2Fversions%2F1/infer", b"404"),
    ],
)
async def test_an_escaped_slash_of_a_name_separates_nothing(
    port: int, line: bytes, status: bytes
) -> None:
    length = b"Content-Length: 13\r\n\r\n" + BODY
    sent = line + b" HTTP/1.1\r\n" + HOST + length + LAST
    assert await statuses(port, sent, 100_000) == [status, b"200"]


async def test_requests_behind_each_other_are_all_served(port: int) -> None:
    chunked = GOOD["an extension and a trailer"]
    length = INFER + b"Content-Length: 13\r\n\r\n" + BODY
    sent = chunked + READY + b"\r\n" + length + chunked + b"\r\n" + LAST
    for piece in (1, 3, 1000):
        assert await statuses(port, sent, piece) == [b"200"] * 5


@pytest.mark.parametrize("piece", [1, 5, 1000])
def test_pieces_end_where_messages_do(piece: int) -> None:
    chunked = GOOD["two chunks"]
    sent = chunked + READY + b"\r\n" + INFER + b"Content-Length: 3\r\n\r\n{} " + b"\r\n" + READY
    framing = Framing()
    found = [p for at in range(0, len(sent), piece) for p in framing.pieces(sent[at : at + piece])]
    assert b"".join(found) == sent
    assert not framing.rests
    assert framing.pieces(b"\r\n") == [b"\r\n"]
    assert framing.rests


def test_a_line_without_end_is_bounded() -> None:
    framing = Framing()
    framing.pieces(CHUNKED)
    framing.pieces(b"0" * 16 * 1024)
    with pytest.raises(NotStrict):
        framing.pieces(b"0")
