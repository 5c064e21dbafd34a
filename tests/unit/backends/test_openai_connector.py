"""The connector of kind openai against a provider on a real socket that fails in every way."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gateway.core import timeouts
from gateway.core.deadline import Deadline
from gateway.core.errors import (
    DeadlineExceeded,
    Unconnected,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.spec import OperationSpec
from gateway.core.operations.texts.rerank import RERANK
from gateway.core.reply import Frame, JsonBody, ReplyStream, ServerEvent, ServerEvents
from gateway.core.types import DocumentCall, InferenceRequest, ServedModel, TensorCall, WireProtocol
from gateway.endpoints.connectors.openai.event_stream import AnswerBounds
from gateway.endpoints.connectors.openai.provider import (
    OpenAiConnector,
    endpoint_origin,
)
from gateway.protocols.http_client.wire import ConnectionPool
from tests.laps import within
from tests.unit.delivery import Reader
from tests.unit.threads import counted

pytestmark = pytest.mark.anyio

HANG = object()
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SAID = {"model": "scribe", "messages": [{"role": "user", "content": "hé"}], "x_extra": [1]}


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Provider:
    """Answers every call with `script`: bytes are written as they stand, HANG waits for the
    caller to leave, and at the end the connection is closed."""

    script: list[Any] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    keeps: bool = False  # the connection, for the next call
    connections: int = 0
    open: list[asyncio.StreamWriter] = field(default_factory=list)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._answer(reader, writer)
            while self.keeps:
                await self._answer(reader, writer)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen.append(await self._request(reader))
        self.taken.set()
        for step in self.script:
            if step is HANG:
                await reader.read()
                self.left.set()
            else:
                writer.write(step)
                await writer.drain()
                await asyncio.sleep(0.001)

    async def _request(self, reader: asyncio.StreamReader) -> Seen:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        method, path, _ = first.split(" ")
        return Seen(method, path, headers, body)

    def answers(self, body: bytes | object, status: int = 200, **headers: str) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.script = [head(status, {"content-length": str(len(raw)), **headers}) + raw]

    def streams(self, *pieces: Any, end: bool = True) -> None:
        kind = {"transfer-encoding": "chunked", "content-type": "text/event-stream; charset=utf-8"}
        parts = [p if p is HANG else b"%x\r\n%b\r\n" % (len(p), p) for p in pieces]
        self.script = [head(200, kind), *parts, *([b"0\r\n\r\n"] if end else [])]


def head(status: int, headers: Mapping[str, str]) -> bytes:
    named = {"content-type": "application/json"} | {
        k.replace("_", "-"): v for k, v in headers.items()
    }
    lines = "".join(f"{k}: {v}\r\n" for k, v in named.items())
    return f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode()


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.port = server.sockets[0].getsockname()[1]
    yield provider
    server.close()
    for writer in provider.open:
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    await server.wait_closed()


KEY = {"Authorization": "Bearer sk-1"}


def connector(
    provider: Provider,
    path: str = "/v1",
    headers: dict[str, str] | None = None,
    bounds: AnswerBounds | None = None,
    max_body_bytes: int = 1 << 20,
) -> OpenAiConnector:
    origin = endpoint_origin(f"http://127.0.0.1:{provider.port}{path}")
    wire = ConnectionPool(origin, connect_timeout_s=1.0, max_body_bytes=max_body_bytes)
    return OpenAiConnector(wire, headers=headers, bounds=bounds)


def request(
    document: dict[str, Any] | None = None,
    operation: OperationSpec = CHAT,
    within_s: float = 60.0,
) -> InferenceRequest:
    document = SAID if document is None else document
    return InferenceRequest(
        id="1",
        protocol=WireProtocol.OPENAI,
        tenant="t",
        model="scribe",
        payload=DocumentCall(operation, document, bool(document.get("stream"))),
        deadline=Deadline.after(within_s),
        traceparent=TRACEPARENT,
    )


def streamed(operation: OperationSpec = CHAT, within_s: float = 60.0) -> InferenceRequest:
    return request(SAID | {"stream": True}, operation, within_s)


async def frames(stream: ReplyStream) -> list[Frame]:
    seen: list[Frame] = []
    await collect(stream, seen)
    return seen


async def collect(stream: ReplyStream, seen: list[Frame]) -> None:
    """Events one by one, however they came: the first is awaited, all others are delivered."""

    def takes(frame: Frame) -> bool:
        events = frame.apart() if isinstance(frame, ServerEvents) else [frame]
        assert not isinstance(frame, ServerEvents) or len(events) == frame.number
        seen.extend(events)
        return False

    async for frame in stream:
        takes(frame)
        break
    await Reader(takes).read(stream)


async def ask(provider: Provider, call: InferenceRequest, **more: Any) -> list[Frame]:
    """All frames, with the connector closed behind them."""
    there = connector(provider, **more)
    try:
        stream = await opened(there, call)
        with timeouts.within(call.deadline.remaining_s()):
            return await frames(stream)
    except TimeoutError:
        raise DeadlineExceeded("too late") from None
    finally:
        await there.aclose()


async def opened(there: OpenAiConnector, call: InferenceRequest) -> ReplyStream:
    """Whoever opens a connector bounds the wait, as attempts do."""
    try:
        with timeouts.within(call.deadline.remaining_s()):
            return await there.open(call, ServedModel("scribe-large"))
    except TimeoutError:
        raise DeadlineExceeded("too late") from None


def chunk(text: str | None = None, finish: str | None = None, index: int = 0) -> bytes:
    delta = {} if text is None else {"content": text}
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return json.dumps({"id": "c", "choices": [choice]}, ensure_ascii=False).encode()


def sse(*datas: bytes) -> bytes:
    return b"".join(b"data: " + data + b"\n\n" for data in datas)


async def test_what_was_parsed_is_what_is_sent(provider: Provider) -> None:
    provider.answers({"choices": []})
    await ask(provider, request(), headers=KEY | {"OpenAI-Organization": "org"})
    (seen,) = provider.seen
    assert (seen.method, seen.path) == ("POST", "/v1/chat/completions")
    assert json.loads(seen.body) == SAID | {"model": "scribe-large"}
    assert "hé".encode() in seen.body
    assert seen.headers["authorization"] == "Bearer sk-1"
    assert seen.headers["traceparent"] == TRACEPARENT
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["openai-organization"] == "org"
    ours = {"host", "content-length", "accept", "accept-encoding", "connection", "user-agent"}
    named = {"authorization", "traceparent", "content-type", "openai-organization"}
    assert set(seen.headers) <= ours | named


@pytest.mark.parametrize(
    ("operation", "route"),
    [
        (CHAT, "/chat/completions"),
        (COMPLETIONS, "/completions"),
        (EMBEDDINGS, "/embeddings"),
        (RESPONSES, "/responses"),
        (RERANK, "/rerank"),
    ],
)
@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/openai/v1"])
async def test_the_path_is_the_operations_own(
    provider: Provider, operation: OperationSpec, route: str, path: str
) -> None:
    provider.answers({"data": []})
    await ask(provider, request(operation=operation), path=path)
    assert provider.seen[0].path == (path.rstrip("/") or "/v1") + route


async def test_a_whole_answer_goes_on_untouched_and_tells_its_tokens(provider: Provider) -> None:
    body = b'{ "model":"other",\n "usage": {"total_tokens": 12, "extra": 1.0e0} }'
    provider.answers(body)
    there = connector(provider)
    stream = await there.open(request(), ServedModel("m"))
    assert await frames(stream) == [JsonBody(body)]
    assert stream.total_tokens == 12
    await stream.aclose()
    await stream.aclose()
    await there.aclose()


@pytest.mark.parametrize(
    ("status", "headers", "kind", "retry_after_s"),
    [
        (429, {}, UpstreamBusy, None),
        (429, {"retry_after": "7"}, UpstreamBusy, 7.0),
        (429, {"retry_after": "7", "retry_after_ms": "1500"}, UpstreamBusy, 1.5),
        (429, {"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, UpstreamBusy, 0.0),
        (429, {"retry_after": "soon"}, UpstreamBusy, None),
        (429, {"retry_after": "-3"}, UpstreamBusy, 0.0),
        (429, {"retry_after": "nan"}, UpstreamBusy, None),
        (429, {"retry_after": "1e99"}, UpstreamBusy, 86_400.0),
        (500, {}, UpstreamFailed, None),
        (503, {"retry_after": "2"}, UpstreamFailed, 2.0),
        (529, {}, UpstreamFailed, None),
        (302, {"location": "http://127.0.0.1:1/"}, UpstreamFailed, None),
        (307, {"location": "http://127.0.0.1:1/"}, UpstreamFailed, None),
        (202, {}, UpstreamFailed, None),
    ],
)
async def test_a_status_has_its_class(
    provider: Provider,
    status: int,
    headers: dict[str, str],
    kind: type[UpstreamError],
    retry_after_s: float | None,
) -> None:
    provider.answers({"error": {"message": "said the provider"}}, status, **headers)
    for call in (request(), streamed()):
        with pytest.raises(kind) as caught:
            await ask(provider, call)
        assert type(caught.value) is kind
        assert caught.value.retry_after_s == retry_after_s
        assert "said" not in caught.value.message
    assert len(provider.seen) == 2  # no redirect is followed, nothing is tried twice


@pytest.mark.parametrize(
    ("status", "headers", "again", "bill"),
    [
        (500, {}, True, False),
        (501, {}, False, False),
        (502, {}, True, True),  # what stands behind the proxy may have served it
        (503, {}, True, False),
        (504, {}, True, True),
        (529, {}, True, False),
        (503, {"x_should_retry": "false"}, False, False),
        (429, {}, True, False),
        (429, {"x_should_retry": "false"}, False, False),
        (302, {"location": "http://127.0.0.1:1/"}, False, False),
    ],
)
async def test_a_failure_says_whether_it_may_be_over_soon_and_whether_it_was_served(
    provider: Provider, status: int, headers: dict[str, str], again: bool, bill: bool
) -> None:
    provider.answers({"error": {"message": "x"}}, status, **headers)
    with pytest.raises(UpstreamError) as caught:
        await ask(provider, request())
    assert (caught.value.transient, caught.value.unserved) == (again, not bill)


@pytest.mark.parametrize(
    ("status", "headers", "again"),
    [
        (400, {}, False),
        (403, {}, False),
        (404, {}, False),
        (408, {}, True),
        (409, {}, True),
        (413, {}, False),
        (422, {}, False),
        (422, {"x_should_retry": "true"}, True),
        (409, {"x_should_retry": "false"}, False),
    ],
)
async def test_what_the_sdks_would_try_again_is_told_to_them(
    provider: Provider, status: int, headers: dict[str, str], again: bool
) -> None:
    provider.answers({"error": {"message": "x"}}, status, retry_after="3", **headers)
    with pytest.raises(UpstreamRefused) as caught:
        await ask(provider, request())
    assert (caught.value.may_retry, caught.value.retry_after_s) == (again, 3.0)


async def test_a_connection_that_cannot_be_made_is_the_endpoints_matter(
    provider: Provider,
) -> None:
    free = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = free.sockets[0].getsockname()[1]
    free.close()
    await free.wait_closed()
    with pytest.raises(Unconnected) as caught:
        await ask(replace(provider, port=port), request())
    assert caught.value.any_call
    assert caught.value.unserved


@pytest.mark.parametrize("status", [400, 403, 404, 408, 409, 413, 422])
async def test_a_refusal_keeps_its_status_and_words(provider: Provider, status: int) -> None:
    body = b'{"error": {"message": "too long", "code": "context_length_exceeded"}}'
    provider.answers(body, status)
    with pytest.raises(UpstreamRefused) as caught:
        await ask(provider, streamed())
    assert (caught.value.http_status, caught.value.body) == (status, body)


@pytest.mark.parametrize(
    ("status", "body"), [(401, b'{"error": {"message": "Incorrect API key: sk-1"}}'), (403, b"")]
)
async def test_our_credential_is_not_the_callers_fault(
    provider: Provider, status: int, body: bytes
) -> None:
    provider.answers(body, status)
    with pytest.raises(UpstreamFailed) as caught:
        await ask(provider, request(), headers=KEY)
    assert caught.value.reason == "upstream_credentials"
    assert caught.value.http_status == 502
    assert "sk-1" not in caught.value.message


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"choices": [', b"[1]", b"null", b'{"a":NaN}'])
async def test_a_body_that_is_no_json_object_is_a_failure(provider: Provider, body: bytes) -> None:
    provider.answers(body)
    with pytest.raises(UpstreamFailed):
        await ask(provider, request())


IN_BAND = [
    ({"error": {"message": "x", "code": 500}}, UpstreamFailed),
    ({"error": {"message": "x", "type": "server_error"}}, UpstreamFailed),
    ({"error": "it broke"}, UpstreamFailed),
    ({"error": {"message": "x", "code": "rate_limit_exceeded"}}, UpstreamBusy),
    ({"error": {"message": "x", "code": 429}}, UpstreamBusy),
    ({"error": {"message": "x", "type": "invalid_request_error"}}, UpstreamRefused),
    ({"error": {"message": "x", "type": "BadRequestError", "code": 400}}, UpstreamRefused),
    ({"error": {"message": "x", "code": "content_filter"}}, UpstreamRefused),
    ({"error": {"message": "x", "code": 401}}, UpstreamFailed),
    ({"error": {"message": "x", "code": 403}}, UpstreamRefused),
]


@pytest.mark.parametrize(("document", "kind"), IN_BAND)
async def test_an_error_within_an_answer_of_status_200_is_an_error(
    provider: Provider, document: dict[str, Any], kind: type[UpstreamError]
) -> None:
    provider.answers(document)
    with pytest.raises(kind):
        await ask(provider, request())
    provider.streams(sse(json.dumps(document).encode(), b"[DONE]"))
    with pytest.raises(kind):
        await ask(provider, streamed())


async def test_null_errors_are_none(provider: Provider) -> None:
    provider.answers({"error": None, "choices": []})
    assert len(await ask(provider, request())) == 1


async def test_a_stream_goes_on_event_by_event(provider: Provider) -> None:
    one, two, last = chunk("h"), chunk("é😀"), chunk(finish="stop")
    usage = json.dumps({"choices": [], "usage": {"total_tokens": 9}}).encode()
    text = b": hi\n\n" + sse(one, two, last, usage, b"[DONE]")
    for size in (1, 5, len(text)):
        provider.streams(*(text[i : i + size] for i in range(0, len(text), size)))
        there = connector(provider)
        stream = await there.open(streamed(), ServedModel("m"))  # which asks for no usage
        assert await frames(stream) == [ServerEvent(e) for e in (one, two, last)]
        assert stream.total_tokens == 9
        await there.aclose()


async def test_the_end_may_be_told_by_finish_reasons_alone(provider: Provider) -> None:
    provider.streams(sse(chunk("a"), chunk("b", index=1), chunk(finish="stop")), end=True)
    with pytest.raises(UpstreamUnreachable, match="broke off"):  # the second choice has not ended
        await ask(provider, streamed())
    provider.streams(sse(chunk("a"), chunk(finish="stop")))
    assert len(await ask(provider, streamed())) == 2


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("text", [sse(chunk("a")), sse(chunk("a")) + b"data: {", b"", b"data: {"])
async def test_a_cut_stream_never_looks_whole(provider: Provider, text: bytes, end: bool) -> None:
    provider.streams(*([text] if text else []), end=end)
    there = connector(provider)
    stream = await there.open(streamed(), ServedModel("m"))
    seen: list[Frame] = []
    with pytest.raises(UpstreamUnreachable):
        await collect(stream, seen)
    assert seen == ([ServerEvent(chunk("a"))] if text.startswith(sse(chunk("a"))) else [])
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    await there.aclose()


@pytest.mark.parametrize("data", [b"{", b"[]", b"hello", b'{"a":1}{'])
async def test_an_event_that_is_no_json_object_ends_the_stream(
    provider: Provider, data: bytes
) -> None:
    provider.streams(sse(chunk("a"), data, b"[DONE]"))
    there = connector(provider)
    stream = await there.open(streamed(), ServedModel("m"))
    assert await anext(stream) == ServerEvent(chunk("a"))
    with pytest.raises(UpstreamFailed):
        await anext(stream)
    await there.aclose()


async def test_a_failure_after_the_first_event_ends_the_stream(provider: Provider) -> None:
    provider.streams(sse(chunk("a"), b'{"error": {"message": "x"}}', b"[DONE]"))
    there = connector(provider)
    stream = await there.open(streamed(), ServedModel("m"))
    assert await anext(stream) == ServerEvent(chunk("a"))
    with pytest.raises(UpstreamFailed):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):  # told once
        await anext(stream)
    await there.aclose()


async def test_a_stream_must_be_an_event_stream(provider: Provider) -> None:
    provider.answers({"choices": []})
    with pytest.raises(UpstreamFailed, match="event stream"):
        await ask(provider, streamed())


def event(kind: str, **more: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (
        kind.encode(),
        json.dumps({"type": kind, **more}).encode(),
    )


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete"])
async def test_a_response_ends_with_its_own_event(provider: Provider, kind: str) -> None:
    usage = {"response": {"usage": {"total_tokens": 4}, "error": None}}
    provider.streams(event("response.created"), event(kind, **usage))
    there = connector(provider)
    stream = await there.open(streamed(RESPONSES), ServedModel("m"))
    events = await frames(stream)
    assert [e.event for e in events if isinstance(e, ServerEvent)] == ["response.created", kind]
    assert stream.total_tokens == 4
    await there.aclose()


@pytest.mark.parametrize("tail", [b"", b"data: [DONE]\n\n"])
async def test_a_response_without_its_last_event_is_cut(provider: Provider, tail: bytes) -> None:
    provider.streams(event("response.created") + tail)
    with pytest.raises(UpstreamUnreachable):
        await ask(provider, streamed(RESPONSES))


async def test_a_stream_that_ended_leaves_its_connection_to_the_next(provider: Provider) -> None:
    provider.keeps = True
    there = connector(provider)
    for operation, text in (
        (CHAT, sse(chunk(finish="stop"), b"[DONE]")),
        (RESPONSES, event("response.completed")),
    ):
        provider.streams(text)  # the end of the body comes on its own, a moment later
        for _ in range(3):
            assert len(await frames(await there.open(streamed(operation), ServedModel("m")))) == 1
    assert (len(provider.seen), provider.connections) == (6, 1)
    await there.aclose()


async def test_a_body_that_does_not_end_behind_its_last_event_is_left(provider: Provider) -> None:
    provider.streams(sse(chunk(finish="stop"), b"[DONE]"), HANG, end=False)
    for lap in within(0.5):
        provider.left.clear()
        lap.begins()
        assert len(await ask(provider, streamed())) == 1
        await asyncio.wait_for(provider.left.wait(), 5)
        lap.ends()


@pytest.mark.parametrize(
    "failed",
    [
        event("response.failed", response={"error": {"code": "server_error", "message": "x"}}),
        event("response.failed", response={}),
        event("error", code="server_error", message="x"),
    ],
)
async def test_a_response_tells_its_failure_by_its_own_event(
    provider: Provider, failed: bytes
) -> None:
    provider.streams(event("response.created"), failed)
    there = connector(provider)
    stream = await there.open(streamed(RESPONSES), ServedModel("m"))
    seen: list[Frame] = []
    with pytest.raises(UpstreamFailed):
        await collect(stream, seen)
    kinds = [frame.event for frame in seen if isinstance(frame, ServerEvent)]
    assert kinds in (["response.created", "response.failed"], ["response.created", "error"])
    await there.aclose()
    provider.streams(failed)  # as the first event nothing has reached the caller: try elsewhere
    with pytest.raises(UpstreamFailed):
        await ask(provider, streamed(RESPONSES))


async def test_sizes_are_bounded(provider: Provider) -> None:
    bounds = AnswerBounds(event_bytes=100, refusal_bytes=100)
    provider.answers({"x": "y" * 200})
    with pytest.raises(UpstreamFailed):
        await ask(provider, request(), max_body_bytes=100)
    provider.streams(b"data: " + b"x" * 200)
    with pytest.raises(UpstreamFailed, match="more than 100 bytes"):
        await ask(provider, streamed(), bounds=bounds)
    provider.answers({"error": {"message": "y" * 200}}, 400)
    for call in (request(), streamed()):
        with pytest.raises(UpstreamRefused) as caught:
            await ask(provider, call, bounds=bounds)
        assert caught.value.body is None


async def test_nothing_outlives_the_deadline(provider: Provider) -> None:
    for lap in within(0.45):
        provider.script = [HANG]
        with pytest.raises(DeadlineExceeded):
            await ask(provider, request(within_s=0.1))
        provider.streams(sse(chunk("a")), HANG, end=False)
        with pytest.raises(DeadlineExceeded):
            await ask(provider, streamed(within_s=0.1))
        provider.script = [head(200, {"content-length": "10"}) + b"{", HANG]
        with pytest.raises(DeadlineExceeded):
            await ask(provider, request(within_s=0.1))
        lap.ends()


async def test_closing_or_cancelling_leaves_the_provider(provider: Provider) -> None:
    provider.streams(sse(chunk("a")), HANG, end=False)
    there = connector(provider)
    for lap in within(0.1):
        provider.left.clear()
        stream = await there.open(streamed(), ServedModel("m"))
        await anext(stream)
        lap.begins()
        await stream.aclose()
        await asyncio.wait_for(provider.left.wait(), 5)
        lap.ends()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    provider.script = [HANG]
    for lap in within(0.1):
        provider.left.clear()
        provider.taken.clear()
        task = asyncio.create_task(there.open(request(), ServedModel("m")))
        await asyncio.wait_for(provider.taken.wait(), 5)
        lap.begins()
        task.cancel()
        await asyncio.wait_for(provider.left.wait(), 5)
        lap.ends()
    await there.aclose()


async def test_a_provider_that_is_not_there_is_unreachable(provider: Provider) -> None:
    provider.port = 1
    with pytest.raises(UpstreamUnreachable):
        await ask(provider, request())
    assert not await connector(provider).ready()


async def test_tensors_are_refused_without_a_call(provider: Provider) -> None:
    with pytest.raises(UpstreamRefused):
        await ask(provider, replace(request(), payload=TensorCall(())))
    assert provider.seen == []


@pytest.mark.parametrize(("status", "ready"), [(200, True), (401, False), (500, False)])
async def test_readiness_is_asked_of_the_list_of_models(
    provider: Provider, status: int, ready: bool
) -> None:
    provider.answers({"data": []}, status)
    there = connector(provider, headers=KEY)
    assert await there.ready() is ready
    await there.aclose()
    assert (provider.seen[0].method, provider.seen[0].path) == ("GET", "/v1/models")
    assert provider.seen[0].headers["authorization"] == "Bearer sk-1"


async def test_a_silent_provider_is_not_ready(provider: Provider) -> None:
    provider.script = [HANG]
    there = connector(provider, bounds=AnswerBounds(probe_s=0.05))
    assert not await there.ready()
    await there.aclose()


async def test_a_large_document_is_written_beside_the_loop(provider: Provider) -> None:
    threads = counted()
    provider.answers({"choices": []})
    there = connector(provider)
    for size, count in ((0, 0), (100_000, 1)):
        document = {**SAID, "pad": "x" * size}
        asked = request(document)
        call = DocumentCall(CHAT, document, False, size)
        await there.open(replace(asked, payload=call), ServedModel("m"))
        assert threads.count == count
    await there.aclose()
