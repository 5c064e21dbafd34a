"""Heads that could be read in two ways are refused, and nothing behind the guard sees them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.core.errors import MalformedBody, MethodNotAllowed, RequestRejected, UnknownRoute
from gateway.protocols.http import head as guard
from gateway.protocols.http.head import HttpHead
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from tests.unit.fronts.http_rig import Answer, Client, Metadata, Pipeline, services, serving

SECRET = "4111111111111111"


def scope(*headers: tuple[str, str], **changes: Any) -> HttpHead:
    """A sane head, with the given headers behind its host."""
    given = [("host", "localhost"), *headers]
    found: dict[str, Any] = {
        "method": "POST",
        "http_version": "1.1",
        "target": b"/v2/models/simple/infer",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given],
        **changes,
    }
    return HttpHead(found["method"], found["target"], found["http_version"], found["headers"])


def with_path(raw: str, path: str | None = None) -> HttpHead:
    """`path`: what the parser makes of it, where that is another one."""
    found = scope(target=raw.encode("latin-1"))
    assert found.path == (raw if path is None else path)
    return found


SANE: list[HttpHead] = [
    scope(),
    scope(("content-length", "10")),
    scope(("transfer-encoding", "Chunked")),
    scope(("accept", "a"), ("accept", "b"), ("cookie", "a=b"), ("cookie", "c=d")),
    scope(("x-a", "tab\tand caf\xe9")),
    scope(*[(f"x-{n}", "v") for n in range(guard.MAX_HEADERS - 1)]),
    scope(("x-a", "v" * (guard.MAX_HEAD_BYTES - 100))),
    scope(http_version="1.0", headers=[]),
    scope(headers=[(b"host", b"[::1]:8080")]),
    scope(headers=[(b"host", b"")]),
    with_path("/v2/models/org%2Fmodel", "/v2/models/org/model"),
    with_path("/v2/models/caf%C3%A9", "/v2/models/caf\xe9"),
    with_path("/v2/models/a..b/.hidden", "/v2/models/a..b/.hidden"),
    scope(target=b"/v2?a=b&c=%00"),
]

MALFORMED: list[tuple[HttpHead, str]] = [
    (scope(("host", "localhost")), "host: must be sent once"),
    (scope(("host", "elsewhere")), "host: must be sent once"),
    (scope(headers=[]), "host: is missing"),
    (scope(headers=[(b"host", b"a b")]), "host: is not"),
    (scope(headers=[(b"host", b"a/b")]), "host: is not"),
    (scope(headers=[(b"host", b"a@b")]), "host: is not"),
    (scope(headers=[(b"host", b"a, b")]), "host: is not"),
    (scope(headers=[(b"host", b"\xc3\xa9")]), "host: is not"),
    (scope(headers=[(b"host", b"a:b")]), "host: is not"),
    (scope(headers=[(b"host", b"a:80:80")]), "host: is not"),
    (scope(("content-length", "1"), ("content-length", "1")), "content-length: must be sent once"),
    (scope(("content-length", "1"), ("transfer-encoding", "chunked")), "send one of them"),
    *[
        (scope(("content-length", bad)), "content-length: must be a number")
        for bad in ("", "+1", "-1", "1.0", "0x1", "1 ", "1, 1", "1 1", "1" * 19, "\u00b2", "1_0")
    ],
    *[
        (scope(("transfer-encoding", bad)), "transfer-encoding: only chunked")
        for bad in ("", "gzip", "gzip, chunked", "chunked, gzip", "identity", "chunked;a=b", "x")
    ],
    (scope(("transfer-encoding", "chunked"), http_version="1.0"), "only chunked"),
    *[
        (scope((name, "a"), (name, "a")), "must be sent once")
        for name in (
            *("authorization", "content-type", "content-encoding", "x-request-id", "traceparent"),
            *("x-latency-budget-ms", "x-spillway-placement", "x-spillway-spill"),
            *("inference-header-content-length", "x-stainless-read-timeout", "anything-else"),
        )
    ],
    *[
        (scope((name, "v")), "a character that none may have")
        for name in ("", "a b", "a:b", "a\x00", "a\t", "(a)", "Upper", "a\r")
    ],
    *[
        (scope(("x-a", value)), "a character that none may have")
        for value in ("a\x00b", "a\rb", "a\nb", "a\r\n b", "\x7f", "\x0b", "\x1b[31m")
    ],
    *[(scope(http_version=version), "HTTP/1.1 or HTTP/1.0") for version in ("0.9", "2.0", "1.2")],
]

TOO_LARGE: list[HttpHead] = [
    scope(*[(f"x-{n}", "v") for n in range(guard.MAX_HEADERS)]),
    scope(("x-a", "v" * guard.MAX_HEAD_BYTES)),
    scope(("v" * guard.MAX_HEAD_BYTES, "")),
    scope(*[(f"x-{n}", "v" * 400) for n in range(90)]),
    scope(target=b"/v2?" + b"a" * guard.MAX_HEAD_BYTES),
]

NOWHERE: list[HttpHead] = [
    with_path("/v2/../status"),
    with_path("/v2/models/.."),
    with_path("/v2/./models"),
    with_path("/v2/models/%2e%2e/status", "/v2/models/../status"),
    with_path("/v2/models/a%2F..%2F..%2Fstatus", "/v2/models/a/../../status"),
    with_path("//v2/models"),
    with_path("/v2//models"),
    with_path("/v2/models/a%5Cb", "/v2/models/a\\b"),
    with_path("/v2/models/a%00", "/v2/models/a\x00"),
    with_path("/v2/models/a%0d%0aHost:b", "/v2/models/a\r\nHost:b"),
    with_path("/v2/models/\xe9", "/v2/models/\xe9"),
    with_path("/" + "a" * guard.MAX_PATH_BYTES),
]


@pytest.mark.parametrize("head", SANE)
def test_a_sane_head_passes(head: HttpHead) -> None:
    guard.check(head)


@pytest.mark.parametrize(("head", "words"), MALFORMED)
def test_a_head_that_could_mean_two_things_is_malformed(head: HttpHead, words: str) -> None:
    with pytest.raises(MalformedBody) as caught:
        guard.check(head)
    assert words in caught.value.message
    assert caught.value.reason == "malformed_head"


@pytest.mark.parametrize("head", TOO_LARGE)
def test_a_head_beyond_its_cap_is_refused(head: HttpHead) -> None:
    with pytest.raises(MalformedBody) as caught:
        guard.check(head)
    assert caught.value.reason == "head_too_large"


@pytest.mark.parametrize("head", NOWHERE)
def test_a_path_that_two_parsers_could_resolve_in_two_ways_leads_nowhere(
    head: HttpHead,
) -> None:
    with pytest.raises(UnknownRoute):
        guard.check(head)


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "PROPFIND", "post", "QUERY", ""])
def test_a_method_that_is_not_of_the_web_is_not_allowed(method: str) -> None:
    with pytest.raises(MethodNotAllowed):
        guard.check(scope(method=method))


@pytest.mark.parametrize(
    "head",
    [
        scope((SECRET, "a"), (SECRET, "a")),
        scope((f"a {SECRET}", "a")),
        scope(("x-a", f"{SECRET}\x00")),
        scope(headers=[(b"host", f"{SECRET} b".encode())]),
        scope(("content-length", f"{SECRET}{SECRET}")),
        scope(("transfer-encoding", SECRET)),
        with_path(f"/{SECRET}/../a"),
        scope(method=SECRET),
        scope(http_version=SECRET),
    ],
)
def test_a_refusal_repeats_nothing_of_the_head(head: HttpHead) -> None:
    with pytest.raises(RequestRejected) as caught:
        guard.check(head)
    assert SECRET not in caught.value.message


# Over a socket: what the parser lets through, the guard stops


@dataclass
class Rig:
    port: int
    pipeline: Pipeline
    metadata: Metadata

    async def raw(self, head: bytes) -> tuple[Answer, bool]:
        """The answer, and whether the connection was closed behind it."""
        client = await Client.to(self.port)
        try:
            await client.send(head)
            answer = await asyncio.wait_for(client.answer(), 3)
            if answer.headers.get("connection") != "close":
                return answer, False
            return answer, await asyncio.wait_for(client.reader.read(), 3) == b""
        finally:
            client.close()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    found = Rig(0, Pipeline(), Metadata())
    given = services(found.pipeline, found.metadata)
    async with serving(App(given, [kserve.front(given)])) as found.port:
        yield found


def request(*lines: str, first: str = "POST /v2/models/simple/infer HTTP/1.1") -> bytes:
    host = [] if any(line.startswith("Host") for line in lines) else ["Host: a"]
    head = "\r\n".join([first, *host, *lines])
    return head.encode("latin-1") + b'\r\n\r\n{"inputs":[]}'


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("head", "status"),
    [
        (request("Host: a", "Host: b", "Content-Length: 13"), 400),
        (request("Host: a", "Host: a", "Content-Length: 13"), 400),
        (request("Host:a b", "Content-Length: 13"), 400),
        (request("Content-Length: 13", "Content-Length: 13"), 400),
        (request("Content-Length: 13", "Transfer-Encoding: chunked"), 400),
        (request("Transfer-Encoding: gzip, chunked"), 400),
        (request("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), 400),
        (request("Content-Length: +13"), 400),
        (request("Content-Length: 1_3"), 400),
        (request("Content-Length:"), 400),
        (request("Content-Length: 13", "X-A: b\r\n folded"), 400),
        (request("Content-Length: 13", "X-A:\r\n\tfolded"), 400),
        (request("Content-Length: 13", "X-A: b\rX-B: c"), 400),
        (request("Content-Length: 13", "X-A: b\nTransfer-Encoding: chunked"), 400),
        (request("Content-Length: 13", "X-A : b"), 400),
        (request("Content-Length: 13", " X-A: b"), 400),
        (request("Content-Length: 13", "X-A: \x00"), 400),
        (request("Content-Length: 13", "X\x7f: b"), 400),
        (request("Content-Length: 13", "no colon"), 400),
        (request("Content-Length: 13", "x" * 30_000 + ": b", "X-B: " + "y" * 3_000), 400),
        (request("Content-Length: 13", *[f"X-{n}: v" for n in range(2000)]), 400),
        (request("Content-Length: 13", first="POST /v2/models/simple/infer HTTP/0.9"), 400),
        (request("Content-Length: 13", first="POST /v2/models/simple/infer HTTP/2.0"), 400),
        (request("Content-Length: 13", first="POST /v2/models/simple/infer HTTP/1.2"), 400),
        (request("Content-Length: 13", first="POST /v2/models/simple/infer"), 400),
        (request("Content-Length: 13", first="post /v2/models/simple/infer HTTP/1.1"), 400),
        (request("Content-Length: 13", first="POST /v2/models/../status HTTP/1.1"), 404),
        (request("Content-Length: 13", first="POST /v2/models/simple\x01 HTTP/1.1"), 400),
        (request("Content-Length: 13", first="POST http://b/v2/../status HTTP/1.1"), 404),
        (request("Content-Length: 13", first="POST * HTTP/1.1"), 404),
        (request("Content-Length: 13", first="CONNECT a:443 HTTP/1.1"), 400),
        (request("Content-Length: 13", first="CONNECT /v2 HTTP/1.1"), 400),
        (request("Content-Length: 13", first="TRACE /v2 HTTP/1.1"), 405),
        (request(first="PRI * HTTP/2.0"), 400),
    ],
)
async def test_nothing_odd_gets_past_parser_and_guard(rig: Rig, head: bytes, status: int) -> None:
    answer, closed = await rig.raw(head)
    assert answer.status == status
    assert closed  # what stands behind such a head is nobody's request
    assert answer.headers["content-type"] == "application/json"
    assert answer.error
    assert rig.pipeline.seen == []
    assert rig.metadata.asked == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    "head",
    [
        request("Content-Length: 13"),
        request("Content-Length: 13", "Accept: a", "Accept: b", "X-Forwarded-For: a"),
        request("Content-Length: 13", "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings"),
        request("Content-Length: 13", "Connection: keep-alive", "Expect: 200-ok"),
        request("Content-Length: 13", first="POST http://a/v2/models/simple/infer HTTP/1.1"),
        request("Content-Length: 13", first="POST /v2/models/simple/infer?a=b HTTP/1.0"),
    ],
)
async def test_an_unusual_but_clear_head_is_served(rig: Rig, head: bytes) -> None:
    answer, _ = await rig.raw(head)
    assert answer.status == 200
    assert len(rig.pipeline.seen) == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "head",
    [
        request("Content-Length: 13", "X-A: " + "v" * 131_072),
        request("Content-Length: 13", *[f"X-{n}: {'v' * 999}" for n in range(2000)]),
        request("Content-Length: 13", first=f"POST /v2/{'a' * 131_072} HTTP/1.1"),
    ],
)
async def test_a_head_far_too_large_is_cut_off_unread(rig: Rig, head: bytes) -> None:
    try:
        answer, closed = await rig.raw(head)
        assert (answer.status, closed) == (431, True)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # it was still coming when the connection was closed
    assert rig.pipeline.seen == []
