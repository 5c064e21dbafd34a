"""What is read in one go is what the parser and the checks of heads would have made of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocols.http import plain
from gateway.protocols.http.head import MAX_HEAD_BYTES, MAX_HEADERS, Field, HttpHead, check

BODY = b'{"model":"m"}'
USUAL = [
    b"Host: gateway:8080",
    b"Content-Type: application/json",
    b"Authorization: Bearer sk-1",
    b"Content-Length: 13",
]


def request(
    *more: bytes, line: bytes = b"POST /v1/chat/completions HTTP/1.1", body: bytes = BODY
) -> bytes:
    return b"\r\n".join([line, *USUAL, *more, b"", b""]) + body


@dataclass
class Parsed:
    """What httptools makes of the same bytes."""

    target: bytes = b""
    fields: list[Field] = field(default_factory=list)
    body: bytes = b""
    heads: int = 0
    ends: int = 0

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.heads += 1

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.ends += 1


def is_read_alike(data: bytes) -> bool:
    """Whether it is plain; then the parser agrees in all."""
    found = plain.PlainHeadReader().read(data)
    if found is None:
        return False
    head, body = found
    parser = httptools.HttpRequestParser(parsed := Parsed())
    parser.feed_data(data)
    assert (parsed.heads, parsed.ends, parsed.body) == (1, 1, body)
    assert parser.should_keep_alive()
    assert not parser.should_upgrade()
    other = HttpHead(
        parser.get_method().decode(), parsed.target, parser.get_http_version(), parsed.fields
    )
    check(other)
    check(head)
    for name in ("method", "version", "path", "raw_path", "query"):
        assert getattr(head, name) == getattr(other, name)
    length = str(len(body))
    assert {**head.headers, "content-length": length} == other.headers
    assert sorted([*head.fields, (b"content-length", length.encode())]) == sorted(other.fields)
    return True


@pytest.mark.parametrize(
    "data",
    [
        request(),
        request(b"x-empty:"),
        request(b"Connection: keep-alive", b"X-Stainless-Lang: python", b"Accept: */*"),
        request(b"no-blank:a", b"inner:  a  b".replace(b"  a", b" a")),
        request(line=b"POST /v2/models/a.b_c/versions/1/infer HTTP/1.1"),
        request(body=b"\r\n\r\n\r\n\r\n\r\n\r\n\n"),
    ],
)
def test_a_plain_request_is_read_as_the_parser_reads_it(data: bytes) -> None:
    assert is_read_alike(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(request()[:-1], id="body-to-come"),
        pytest.param(request() + b"P", id="another-behind"),
        pytest.param(request() + request(), id="two"),
        pytest.param(request()[:40], id="head-to-come"),
        pytest.param(
            request(b"x-a: b", body=b"").replace(b"Length: 13", b"Length: 0")[:-4], id="end-to-come"
        ),
        pytest.param(
            request(body=b"").replace(b"Length: 13", b"Length: 0")[:-2] + b"x-", id="more-to-come"
        ),
        pytest.param(b"\r\n" + request(), id="empty-line-before"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\r\n\r\n", id="no-head"),
        pytest.param(b"POST / HTTP/1.1\r\n\r\n", id="no-headers"),
        pytest.param(request(b"host: other"), id="twice"),
        pytest.param(request(b"accept: a", b"Accept: b"), id="twice-where-it-may"),
        pytest.param(request(b"content-length: 13"), id="two-lengths"),
        pytest.param(request().replace(b"Length: 13", b"Length: 013"), id="odd-length"),
        pytest.param(request().replace(b"Length: 13", b"Length: +13"), id="signed-length"),
        pytest.param(request().replace(b"Content-Length: 13\r\n", b""), id="no-length"),
        pytest.param(request().replace(b"Host: gateway:8080\r\n", b""), id="no-host"),
        pytest.param(request().replace(b"gateway:8080", b"a b"), id="odd-host"),
        pytest.param(request().replace(b"gateway:8080", b"a,b"), id="hosts"),
        pytest.param(request(b"transfer-encoding: chunked"), id="chunked"),
        pytest.param(request(b"transfer-encoding: identity"), id="coded"),
        pytest.param(request(b"connection: close"), id="close"),
        pytest.param(request(b"connection: keep-alive, upgrade"), id="connection"),
        pytest.param(request(b"proxy-connection: close"), id="proxy-connection"),
        pytest.param(request(b"upgrade: h2c"), id="upgrade"),
        pytest.param(request(b"x-a:  two blanks"), id="blanks-before"),
        pytest.param(request(b"x-a: behind "), id="blank-behind"),
        pytest.param(request(b"x-a: "), id="blank-alone"),
        pytest.param(request(b"x-a: a\tb"), id="tab"),
        pytest.param(request(b"x-a: a\rb"), id="return"),
        pytest.param(request(b"x-a: a\nx-b: c"), id="line-feed"),
        pytest.param(request(b"x-a: a", b" folded"), id="folded"),
        pytest.param(request(b"x-a : a"), id="blank-in-name"),
        pytest.param(request(b": a"), id="no-name"),
        pytest.param(request(b"x-a"), id="no-colon"),
        pytest.param(request(b"x-a: \xe9"), id="latin-1"),
        pytest.param(request(b"x-\xe9: a"), id="latin-1-in-name"),
        pytest.param(request(b"x-a: \x00"), id="nul"),
        pytest.param(request(line=b"GET / HTTP/1.1"), id="get"),
        pytest.param(request(line=b"POST /v1 HTTP/1.0"), id="1.0"),
        pytest.param(request(line=b"POST /v1 HTTP/1.1 "), id="blank-behind-version"),
        pytest.param(request(line=b"POST  /v1 HTTP/1.1"), id="two-blanks"),
        pytest.param(request(line=b"POST /v1?a=b HTTP/1.1"), id="query"),
        pytest.param(request(line=b"POST /v1#a HTTP/1.1"), id="fragment"),
        pytest.param(request(line=b"POST /v1/%2e HTTP/1.1"), id="quoted"),
        pytest.param(request(line=b"POST /v1/../v2 HTTP/1.1"), id="dots"),
        pytest.param(request(line=b"POST /v1//chat HTTP/1.1"), id="empty-segment"),
        pytest.param(request(line=b"POST /v1/chat/ HTTP/1.1"), id="slash-behind"),
        pytest.param(request(line=b"POST http://a/v1 HTTP/1.1"), id="absolute"),
        pytest.param(request(line=b"POST /" + b"a" * 2048 + b" HTTP/1.1"), id="long-path"),
        *(
            pytest.param(
                request(line=b"POST /" + b"a" * (2048 - n) + b" HTTP/1.1 x"), id=f"path-{n}"
            )
            for n in range(20)
        ),
        pytest.param(request(b"x-a: " + b"a" * MAX_HEAD_BYTES), id="long"),
        pytest.param(request(*(b"x-%d: a" % n for n in range(MAX_HEADERS))), id="many"),
    ],
)
def test_whatever_is_not_plain_is_left_to_the_parser(data: bytes) -> None:
    assert plain.PlainHeadReader().read(data) is None


LINES = (b"host: b", b"Content-Length: 13", b"Transfer-Encoding: chunked", b"Connection: close")
WORDS = (b"\r\n", b"\x00", b"\xe9", b"\t", b"..", b"%2e", b"POST", b"GET", b"HTTP/1.0")
PIECES = (
    st.sampled_from([b"%b\r\n" % line for line in LINES])
    | st.sampled_from(WORDS)
    | st.sampled_from([b"%c" % c for c in b"\r\n: /aA1?-_,"])
)


CHANGES = st.lists(st.tuples(st.integers(0, 170), st.integers(0, 12), PIECES), max_size=3)


def changed(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for at, gone, put in changes:
        data = data[:at] + put + data[at + gone :]
    return data


@settings(max_examples=400, deadline=None)
@given(CHANGES)
def test_whatever_is_plain_the_parser_reads_alike(changes: list[tuple[int, int, bytes]]) -> None:
    is_read_alike(changed(request(b"x-a: b"), changes))


def told(found: tuple[HttpHead, bytes] | None) -> object:
    return None if found is None else (found[0].path, dict(found[0].headers), found[1])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), CHANGES)
def test_what_came_before_on_a_connection_changes_nothing(
    body: bytes, changes: list[tuple[int, int, bytes]]
) -> None:
    reader = plain.PlainHeadReader()
    first = request(b"x-a: b", line=b"POST /v1/embeddings HTTP/1.1")
    assert told(reader.read(first)) == told(plain.PlainHeadReader().read(first))
    for data in (
        first.replace(b"Length: 13", b"Length: %d" % len(body)).replace(BODY, body),
        changed(first, changes),
        request(b"x-a: b"),
    ):
        assert told(reader.read(data)) == told(plain.PlainHeadReader().read(data))


def test_a_head_that_comes_again_is_the_one_that_is_known() -> None:
    reader = plain.PlainHeadReader()
    one, two = reader.read(request()), reader.read(request().replace(b": 13", b": 2")[:-11])
    other = reader.read(request(b"x-a: b"))
    assert one is not None
    assert two is not None
    assert other is not None
    assert two[0] is one[0]
    assert two[1] == BODY[:2]
    assert other[0] is not one[0]
