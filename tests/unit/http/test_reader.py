"""A head that comes again is known, and what comes behind it is read as it would be alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocols.http.framing import NotStrict
from gateway.protocols.http.head import HttpHead
from gateway.protocols.http.reader import HeadTooLarge, RequestReader

BODY = b'{"model":"m"}'
USUAL = (b"Host: gateway:8080", b"Authorization: Bearer sk-1", b"Content-Type: application/json")
CHUNKED = b"Transfer-Encoding: chunked"


def request(
    *more: bytes, line: bytes = b"POST /v1/chat HTTP/1.1", body: bytes = BODY, length: bytes = b""
) -> bytes:
    sized = b"content-length: " + (length or b"%d" % len(body))
    return b"\r\n".join([line, *USUAL, sized, *more, b"", b""]) + body


@dataclass
class Request:
    head: HttpHead
    keeps: bool
    body: bytes = b""
    whole: bool = False

    def receive(self, data: bytes) -> None:
        self.body += data

    def receive_end(self) -> None:
        self.whole = True

    def summary(self) -> tuple[object, ...]:
        """But for the length, which a body that is whole has."""
        fields = [each for each in self.head.fields if each[0] != b"content-length"]
        head = (self.head.method, self.head.raw_path, self.head.version, fields)
        return (*head, self.keeps, self.body, self.whole)


@dataclass
class Connection:
    """Asks for the known head first, as a connection does."""

    requests: list[Request] = field(default_factory=list)
    known: int = 0

    def __post_init__(self) -> None:
        self.reader = RequestReader(self)

    def begin_request(self, head: HttpHead, keeps: bool) -> Request:
        self.requests.append(Request(head, keeps))
        return self.requests[-1]

    def receive(self, data: bytes) -> str:
        """How it is refused."""
        if whole := self.reader.repeated(data):
            self.known += 1
            self.requests.append(Request(whole[0], True, whole[1], True))
            return ""
        try:
            self.reader.read(data)
        except (httptools.HttpParserError, NotStrict, HeadTooLarge) as exc:
            return type(exc).__name__
        return ""


def test_a_head_that_comes_again_is_the_one_that_is_known() -> None:
    connection = Connection()
    for body in (BODY, b"{}", b"\r\n\r\n" + BODY):
        connection.receive(request(body=body))
    one, two, three = connection.requests
    assert one.head is two.head is three.head
    assert (two.body, three.body) == (b"{}", b"\r\n\r\n" + BODY)
    assert "content-length" not in one.head.headers
    connection.receive(request(b"x-a: b"))
    assert connection.requests[-1].head is not one.head
    assert connection.known == 2


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(request(length=b"1"), id="another-behind"),
        pytest.param(request(length=b"14"), id="body-to-come"),
        pytest.param(request(length=b"+13"), id="signed-length"),
        pytest.param(request(b"content-length: 13"), id="two-lengths"),
        pytest.param(request(CHUNKED), id="two-framings"),
        pytest.param(request(b"connection: close"), id="close"),
        pytest.param(request(line=b"POST /v1/chat HTTP/1.0"), id="1.0"),
        pytest.param(request(body=b"", line=b"GET /v1/models HTTP/1.1"), id="no-body"),
        pytest.param(request() + request(line=b"POST /v1/other HTTP/1.1"), id="two"),
    ],
)
def test_no_other_request_makes_a_head_known(data: bytes) -> None:
    connection = Connection()
    connection.receive(data)
    assert connection.reader.repeated(request()) is None
    assert connection.reader.repeated(data) is None


def test_what_is_forgotten_is_read_again() -> None:
    connection = Connection()
    connection.receive(request())
    connection.reader.forget()
    connection.receive(request())
    one, two = connection.requests
    assert (one.summary(), connection.known) == (two.summary(), 0)
    assert one.head is not two.head


PIECES = st.sampled_from(
    [b"\r\n", b"\x00", b"\xe9", b"\t", b"POST", b"GET", b"%2e", b"Connection: close\r\n", CHUNKED]
    + [b"%c" % c for c in b"\r\n: /aA13?-_,"]
)
CHANGES = st.lists(st.tuples(st.integers(0, 170), st.integers(0, 12), PIECES), max_size=3)


@settings(max_examples=200)
@given(st.binary(max_size=200), CHANGES)
def test_what_came_before_on_a_connection_changes_nothing(
    body: bytes, changes: list[tuple[int, int, bytes]]
) -> None:
    last = request(b"x-a: b")
    for at, gone, put in changes:
        last = last[:at] + put + last[at + gone :]
    connection = Connection()
    for data in (request(b"x-a: b"), request(b"x-a: b", body=body), last):
        before, alone = len(connection.requests), Connection()
        assert connection.receive(data) == alone.receive(data)
        ours = [each.summary() for each in connection.requests[before:]]
        assert ours == [each.summary() for each in alone.requests]
