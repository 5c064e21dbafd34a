"""What is read in one go is what the parser and the checks of a connection make of it, too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocols.http_client import plain
from gateway.protocols.http_client.connection import HttpClientConnection

BODY = b'{"choices":[]}'
USUAL = [
    b"Date: Sun, 06 Nov 1994 08:49:37 GMT",
    b"Content-Type: application/json",
    b"Content-Length: 14",
]


def answer(*more: bytes, line: bytes = b"HTTP/1.1 200 OK", body: bytes = BODY) -> bytes:
    return b"\r\n".join([line, *USUAL, *more, b"", b""]) + body


class Transport:
    """Of a peer that takes all and says nothing by itself."""

    aborted = False

    def write(self, data: bytes) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


def made_of(connection: HttpClientConnection, data: bytes, parsed: bool) -> tuple[object, ...]:
    """Everything that a call sees of an answer that came in one read. `parsed`: as one of which
    something came before."""
    waiter = connection.send(b"", b"", False)
    if parsed:
        connection._untouched = False
    connection.data_received(data)
    waiter.cancel()
    if not connection.answered:
        return (False, connection.rests())
    fields = {
        name: value for name, value in connection.headers.items() if name != b"content-length"
    }
    found = connection.status, fields, connection.body
    return (*found, connection.rests())


def is_read_alike(*answers: bytes) -> None:
    async def read() -> None:
        one, other = HttpClientConnection(1 << 20), HttpClientConnection(1 << 20)
        for connection in (one, other):
            transport: Any = Transport()
            connection.connection_made(transport)
        for data in answers:
            kept = made_of(one, data, parsed=False)
            assert kept == made_of(other, data, parsed=True)
            if not kept[-1]:
                return

    asyncio.run(read())


@pytest.mark.parametrize(
    "data",
    [
        answer(),
        answer(b"x-empty:"),
        answer(b"Connection: keep-alive", b"Keep-Alive: timeout=5", b"Server: uvicorn"),
        answer(b"no-blank:a", b"inner: a  b"),
        answer().replace(b"Content-Length: 14", b"CONTENT-LENGTH:0").removesuffix(BODY),
    ],
)
def test_a_plain_answer_is_read_as_the_parser_reads_it(data: bytes) -> None:
    reader = plain.PlainAnswerReader()
    assert reader.read(data) == data.partition(b"\r\n\r\n")[2]
    assert b"content-length" not in reader.headers
    is_read_alike(data, data, data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\r\n\r\n", id="no-head"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", id="no-headers"),
        pytest.param(answer()[:-1], id="body-to-come"),
        pytest.param(answer()[:40], id="head-to-come"),
        pytest.param(answer() + b"H", id="another-behind"),
        pytest.param(answer() + answer(), id="two"),
        pytest.param(b"\r\n" + answer(), id="empty-line-before"),
        pytest.param(answer(b"content-length: 14"), id="two-lengths"),
        pytest.param(answer(b"content-length: 15"), id="two-other-lengths"),
        pytest.param(answer(b"set-cookie: a=b", b"Set-Cookie: c=d"), id="twice-where-it-may"),
        pytest.param(answer().replace(b"Length: 14", b"Length: 014"), id="odd-length"),
        pytest.param(answer().replace(b"Length: 14", b"Length: +14"), id="signed-length"),
        pytest.param(answer().replace(b"Content-Length: 14\r\n", b""), id="no-length"),
        pytest.param(answer(b"transfer-encoding: chunked"), id="chunked"),
        pytest.param(answer(b"transfer-encoding: identity"), id="coded"),
        pytest.param(answer(b"content-encoding: gzip"), id="compressed"),
        pytest.param(answer(b"content-encoding: identity"), id="not-compressed"),
        pytest.param(answer(b"connection: close"), id="close"),
        pytest.param(answer(b"connection: keep-alive, upgrade"), id="connection"),
        pytest.param(answer(b"proxy-connection: keep-alive"), id="proxy-connection"),
        pytest.param(answer(b"upgrade: h2c"), id="upgrade"),
        pytest.param(answer(b"x-a:  two blanks"), id="blanks-before"),
        pytest.param(answer(b"x-a: behind "), id="blank-behind"),
        pytest.param(answer(b"x-a: "), id="blank-alone"),
        pytest.param(answer(b"x-a: a\tb"), id="tab"),
        pytest.param(answer(b"x-a: a\rb"), id="return"),
        pytest.param(answer(b"x-a: a\nx-b: c"), id="line-feed"),
        pytest.param(answer(b"x-a: a", b" folded"), id="folded"),
        pytest.param(answer(b"x-a : a"), id="blank-in-name"),
        pytest.param(answer(b": a"), id="no-name"),
        pytest.param(answer(b"x-a"), id="no-colon"),
        pytest.param(answer(b"x-a: \xe9"), id="latin-1"),
        pytest.param(answer(b"x-a: \x00"), id="nul"),
        pytest.param(answer(line=b"HTTP/1.0 200 OK"), id="1.0"),
        pytest.param(answer(line=b"HTTP/1.1 204 No Content"), id="no-content"),
        pytest.param(answer(line=b"HTTP/1.1 100 Continue"), id="interim"),
        pytest.param(answer(line=b"HTTP/1.1 500 Internal Server Error"), id="failed"),
        pytest.param(answer(line=b"HTTP/1.1  200 OK"), id="two-blanks"),
        pytest.param(answer(b"x-a: " + b"a" * (17 * 1024)), id="long"),
    ],
)
def test_whatever_is_not_plain_is_left_to_the_parser(data: bytes) -> None:
    assert plain.PlainAnswerReader().read(data) is None
    is_read_alike(data)
    is_read_alike(answer(), data)


LINES = (b"Content-Length: 14", b"Transfer-Encoding: chunked", b"Connection: close")
WORDS = (b"\r\n", b"\x00", b"\xe9", b"\t", b"HTTP/1.1", b"200", b"304", b"gzip")
PIECES = (
    st.sampled_from([b"%b\r\n" % line for line in LINES])
    | st.sampled_from(WORDS)
    | st.sampled_from([b"%c" % c for c in b"\r\n: aA1?-_,"])
)
CHANGES = st.lists(st.tuples(st.integers(0, 140), st.integers(0, 12), PIECES), max_size=3)


def changed(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for at, gone, put in changes:
        data = data[:at] + put + data[at + gone :]
    return data


@settings(max_examples=200)
@given(st.binary(max_size=200), CHANGES)
def test_whatever_came_before_on_a_connection_it_is_read_alike(
    body: bytes, changes: list[tuple[int, int, bytes]]
) -> None:
    first = answer(b"x-a: b")
    other = answer(b"x-a: b", body=body).replace(b"Length: 14", b"Length: %d" % len(body))
    is_read_alike(changed(first, changes))
    is_read_alike(first, other, changed(first, changes), first)
