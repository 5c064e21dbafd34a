"""Any OpenAI-compatible provider: in the cloud, or a vLLM or NIM on the premises.

The body that goes out is our own serialisation of the parsed document, with the model's name at
the endpoint. What comes back goes on untouched, byte for byte, its `model` included: a caller sees
what the provider says of itself. It is parsed only to know whether it is whole and what it cost.

How a stream ends (BEHAVIOURS A4, A5):

* chat and completions end with `[DONE]`, or when every choice has its `finish_reason`;
* Responses end with `response.completed`, `.incomplete` or `.failed`;
* any other end is a broken stream, whatever the transport thinks of it.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import orjson

from gateway.core import ambient, timeouts
from gateway.core.deadline import Deadline
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import (
    AnswersFull,
    DeadlineExceeded,
    GatewayError,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare
from gateway.core.operations.registry import by_path
from gateway.core.operations.spec import OperationSpec, StreamForm
from gateway.core.types import (
    AT_ONCE_BYTES,
    DocumentCall,
    InferenceRequest,
    JsonBody,
    OneFrame,
    Passage,
    ServedModel,
    ServerEvent,
    Usage,
)
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.alike import Alike
from gateway.endpoints.connectors.openai.large import READ_BYTES, answer_edges
from gateway.endpoints.connectors.openai.sse import EventParser
from gateway.endpoints.connectors.openai.usage import (
    StreamUsage,
    asking,
    is_usage_alone,
    token_counts,
)
from gateway.endpoints.connectors.openai.words import ProviderWords
from gateway.protocols import strictjson
from gateway.protocols.http_client.connection import HttpClientConnection
from gateway.protocols.http_client.wire import (
    ConnectionPool,
    Header,
    Origin,
    Tls,
    WireRequest,
    WireStream,
)
from gateway.protocols.strictjson import dumps

_NO_SECRETS = ProviderWords({})
_ACCEPT = {
    False: (b"accept", b"application/json"),
    True: (b"accept", b"text/event-stream"),
}
_TRACE = re.compile("[0-9a-f-]+")  # as all of them are that go to a cloud
_DONE = b"[DONE]"
REST_S = 0.5  # of a connection between two calls: no answer says to which of them it belongs
_TURN_BYTES = 8 * 1024  # of events that are read before others have their turn
_LEARNS = 8  # so many events that nothing is like: then their stream has none that are
_LAST_RESPONSE_EVENTS = {"response.completed", "response.incomplete", "response.failed"}


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """What one answer may take, within its deadline."""

    event_bytes: int = 8 * 1024 * 1024  # the last event of a Responses stream repeats all of it
    refusal_bytes: int = 64 * 1024
    idle_s: float = 60.0  # between two reads of a stream: longer, and it counts as broken
    probe_s: float = 2.0
    drain_s: float = 0.05  # for the end of a body behind its last event, to keep the connection


def endpoint_origin(url: str, tls: Tls | None = None) -> Origin:
    """Where the API stands: at the path of the base URL, or at `/v1` when it has none."""
    origin = Origin.from_url(url, tls)
    return origin if origin.base else replace(origin, base="/v1")


@dataclass(slots=True)
class Progress:
    """How far a stream has come, from what its events say."""

    operation: OperationSpec
    words: ProviderWords = _NO_SECRETS
    ended: bool = False  # said by the protocol itself
    failure: GatewayError | None = None
    total_tokens: int | None = None
    usage: Usage | None = None
    _open: set[int] = field(default_factory=set)
    _finished: set[int] = field(default_factory=set)

    def done(self) -> None:
        """`[DONE]` was read. A Responses stream has its own last event, which it cannot replace."""
        if self.operation.stream is StreamForm.RESPONSES:
            self.end()
        self.ended = True

    def end(self) -> None:
        """The body is at its end; raises unless the protocol is, too."""
        if not self.ended and (self._open or not self._finished):  # guard: A4.cut-stream
            raise UpstreamUnreachable("the stream broke off before its end")
        self.ended = True

    def note(self, document: dict[str, Any]) -> None:
        if "error" in document or "type" in document or document.get("object") == "error":
            self.failure = failures.in_document(document, self.words)
        if self.operation.stream is StreamForm.RESPONSES:
            self._note_response(document)
            return
        usage = document.get("usage")
        if isinstance(usage, dict) and type(usage.get("total_tokens")) is int:
            self.total_tokens, self.usage = token_counts(usage)
        choices = document.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and isinstance(at := choice.get("index", 0), int):
                if choice.get("finish_reason") is not None:
                    self._open.discard(at)
                    self._finished.add(at)
                elif at not in self._finished:
                    self._open.add(at)

    def _note_response(self, document: dict[str, Any]) -> None:
        if document.get("type") in _LAST_RESPONSE_EVENTS:
            self.ended = True
            response = document.get("response")
            usage = response.get("usage") if isinstance(response, dict) else None
            if isinstance(usage, dict):
                self.total_tokens, self.usage = token_counts(usage)


class EventStream:
    """The events of a streamed answer, as the provider wrote them, without `[DONE]`."""

    def __init__(
        self,
        response: WireStream,
        operation: OperationSpec,
        bounds: AnswerBounds,
        words: ProviderWords = _NO_SECRETS,
        without_usage: bool = False,
        held: AnswerShare | None = None,
    ) -> None:
        """`without_usage`: the caller has not asked for the event that only says what it took.
        `held`: where an event is counted that has not come whole."""
        self._held = held
        self._counts = False  # something is counted there
        self._unfed: deque[bytes] = deque()  # of the last read
        self._response = response
        self._without_usage = without_usage
        self._bounds = bounds
        self._parser = EventParser(bounds.event_bytes)
        self._progress = Progress(operation, words)
        self._committed = False  # an event has gone to the caller
        self.closed = False  # what it held was given back
        self._alike: Alike | None = None  # to the last event that was read
        self._usual: Alike | None = None  # what the next read is, most likely
        self._learns = _LEARNS
        self._now_s = ambient.clock()

    @property
    def total_tokens(self) -> int | None:
        return self._progress.total_tokens

    @property
    def usage(self) -> Usage | None:
        return self._progress.usage

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> ServerEvent:
        try:
            return await self._next()
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            failed = DeferredError(exc)
        await self.aclose()  # which releases the connection
        raise failed.again()

    async def aclose(self) -> None:
        if not self.closed:
            self.closed = True
            await self._response.aclose()

    async def _next(self) -> ServerEvent:
        progress = self._progress
        while True:
            if self.closed:
                raise StopAsyncIteration
            if progress.failure is not None:
                # guard: A10.ended-stream -> raise progress.failure
                failed, progress.failure = DeferredError(progress.failure), None
                raise failed.again()
            if progress.ended:
                if not self._response.ended:
                    await self._drain()
                raise StopAsyncIteration
            event = self._parser.next()
            if event is None and self._unfed:
                await asyncio.sleep(0)  # others have their turn
                self._feed_on()
            elif event is None:
                await self._read()
            elif event.data == _DONE:
                progress.done()
            elif event.data and self._passes_on(event):
                return event

    def pass_on(self, passage: Passage) -> bool:
        """What came with the last event, up to the end or a failure."""
        parser, progress = self._parser, self._progress
        events, count, goes_on = [], 0, not (progress.ended or self.closed)
        try:
            while goes_on and progress.failure is None:
                if self._alike is not None:
                    raw, alike = parser.take_alike(self._alike)
                    if alike:
                        events.append(raw)
                        count += alike
                        self._learns = _LEARNS
                event = parser.next()
                if event is None:
                    break
                if event.data == _DONE:
                    progress.done()
                elif event.data and self._passes_on(event):
                    events.append(event.framed())
                    count += 1
                goes_on = not progress.ended
        except UpstreamError as error:
            progress.failure = error.with_traceback(None)  # or it would have this stream
        if count and not passage.events(events[0] if len(events) == 1 else b"".join(events), count):
            return False
        return goes_on and progress.failure is None and not self._unfed

    async def flow(self, passage: Passage) -> None:
        """What comes puts the idle limit off; its timer is not touched for that."""
        response, idle_s = self._response, self._bounds.idle_s
        on_body = partial(
            self._on_body, passage
        )  # no attribute: it has the attempt, which has this
        self._expect()
        left_s = idle_s
        while left_s > 0.0:
            try:
                with timeouts.within(min(left_s, response.deadline.remaining_s())):
                    await response.flow(on_body, passage.chunk)
                return
            except TimeoutError:
                if response.deadline.passed():
                    return
            left_s = max(response.received_s, passage.received_s) + idle_s - self._now_s()
        self._progress.failure = _stands_still()

    def _expect(self) -> None:
        self._usual = self._alike if self._parser.between else None
        self._response.expect(None if self._usual is None else self._usual.is_chunk)

    def _on_body(self, passage: Passage, body: bytes) -> bool:
        usual = self._usual
        if usual is not None and len(body) <= self._bounds.event_bytes:
            count = usual.all_in(body)
            if count:
                return passage.events(body, count)
        self._feed(body)
        goes_on = self.pass_on(passage) and self._has_room() and not self._unfed
        self._expect()
        return goes_on

    def _passes_on(self, event: ServerEvent) -> bool:
        """Whether the caller gets the event. A failure is ours to tell, in our words, except the
        one that Responses tells by an event of its own once the caller has seen the first."""
        progress = self._progress
        document = _document(event.data, progress.operation, event.event)
        progress.note(document)
        if progress.failure is not None:
            return progress.operation.stream is StreamForm.RESPONSES and self._committed
        if self._without_usage and is_usage_alone(document):
            return False
        self._committed = True
        learns = self._learns and not event.event and len(event.data) <= READ_BYTES
        self._alike = Alike.to(event.data) if learns else None
        self._learns -= self._learns > 0
        return True

    async def _read(self) -> None:
        left_s, idle_s = self._response.deadline.remaining_s(), self._bounds.idle_s
        try:
            with timeouts.within(min(left_s, idle_s)):
                chunk = await self._response.more()
        except TimeoutError:
            if left_s < idle_s:
                raise DeadlineExceeded("the latency budget ran out while it streamed") from None
            raise _stands_still() from None
        if not chunk:
            self._progress.end()
            return
        self._feed(chunk)
        self._has_room()

    def _feed(self, chunk: bytes) -> None:
        """Of a large read a part: it may be a thousand events."""
        if len(chunk) <= _TURN_BYTES:
            self._parser.feed(chunk)
            return
        for at in range(0, len(chunk), _TURN_BYTES):
            self._unfed.append(chunk[at : at + _TURN_BYTES])
        self._feed_on()

    def _feed_on(self) -> None:
        self._parser.feed(self._unfed.popleft())

    def _has_room(self) -> bool:
        """For what is held of an event that has not come whole; else the stream ends by that."""
        size, held = self._parser.held, self._held
        if held is None or (size <= UNCOUNTED_BYTES and not self._counts):
            return True
        self._counts = size > UNCOUNTED_BYTES
        if held.hold(self, size if self._counts else 0):  # guard: A9.event-budget always
            return True
        self._progress.failure = AnswersFull()
        return False

    async def _drain(self) -> None:
        """So that the connection can be kept."""
        limit = timeouts.within(self._bounds.drain_s)
        with suppress(TimeoutError, UpstreamError, DeadlineExceeded), limit:
            async for _ in self._response:
                pass


class OpenAiConnector:
    """One provider, as a `Connector`."""

    def __init__(
        self,
        wire: ConnectionPool,
        *,
        headers: Mapping[str, str] | None = None,
        bounds: AnswerBounds | None = None,
    ) -> None:
        """`wire` leads to the `endpoint_origin` of its base URL; `headers` go with every call and
        carry the provider's credential."""
        self._wire = wire
        self._bounds = bounds or AnswerBounds()
        given = headers or {}
        self._words = ProviderWords(given)
        self._usage = StreamUsage()
        self._headers: tuple[Header, ...] = (
            (b"user-agent", b"spillway"),
            (b"accept-encoding", b"identity"),
            *((name.encode("ascii"), value.encode("ascii")) for name, value in given.items()),
            (b"content-type", b"application/json"),
        )
        operations = by_path()
        self._readers = {each: partial(self._whole, each) for each in operations.values()}
        self._starts = {
            (operation, streamed): wire.start(
                "POST", path.removeprefix("/v1"), (*self._headers, _ACCEPT[streamed])
            )
            for path, operation in operations.items()
            for streamed in (False, True)
        }

    def open(
        self, request: InferenceRequest, served: ServedModel
    ) -> Coroutine[Any, Any, OneFrame | EventStream]:
        call = request.payload
        if not isinstance(call, DocumentCall):
            raise UpstreamRefused("an OpenAI endpoint serves no tensors")
        document = {**call.document, "model": served.model}
        if call.streamed and self._usage.asks(call, served.model):
            return self._open_asking(document, request, call, served.model)
        if call.size > AT_ONCE_BYTES:
            return self._open_at_length(document, request, call)
        return self._open(strictjson.dumps(document), request, call)

    async def _open_asking(
        self, document: dict[str, Any], request: InferenceRequest, call: DocumentCall, model: str
    ) -> OneFrame | EventStream:
        """For the usage that the caller does not need. A provider that does not know that is asked
        once more, without."""
        size = call.size
        for wanted in (asking(document), document):
            large = size > AT_ONCE_BYTES
            body = await asyncio.to_thread(dumps, wanted) if large else dumps(wanted)
            head = self._head(request, call, len(body))
            response = await self._wire.open(head, body, request.deadline)
            if response.status == 200 or wanted is document:
                break
            refusal = await self._refusal(response)
            await response.aclose()
            if not self._usage.refused(response.status, refusal, call, model):
                raise self._failure(response.status, response.headers, refusal)
        return await self._events(response, request, call.operation, wanted is not document)

    async def _open_at_length(
        self, document: dict[str, Any], request: InferenceRequest, call: DocumentCall
    ) -> OneFrame | EventStream:
        body = await asyncio.to_thread(strictjson.dumps, document)
        return await self._open(body, request, call)

    def _open(
        self, body: bytes, request: InferenceRequest, call: DocumentCall
    ) -> Coroutine[Any, Any, OneFrame | EventStream]:
        head = self._head(request, call, len(body))
        if call.streamed:
            return self._streamed(head, body, call.operation, request)
        return self._wire.ask(
            head, body, request.deadline, self._readers[call.operation], held=request.held
        )

    def _head(self, request: InferenceRequest, call: DocumentCall, length: int) -> bytes:
        start, trace = self._starts[call.operation, call.streamed], request.traceparent
        if request.tracestate or not _TRACE.fullmatch(trace):
            return self._wire.head(start, _trace_headers(request), length)
        return b"%btraceparent: %b\r\ncontent-length: %d\r\n\r\n" % (
            start, trace.encode(), length,
        )  # fmt: skip

    async def ready(self) -> bool:
        """Whether the provider answers this gateway's key; not all of them list their models."""
        sent = WireRequest("GET", "/models", self._headers)
        try:
            answer = await self._wire.fetch(sent, Deadline.after(self._bounds.probe_s))
        except (UpstreamError, DeadlineExceeded):
            return False
        return answer.status < 500 and answer.status not in (401, 403)

    async def aclose(self) -> None:
        await self._wire.aclose()

    def _whole(self, operation: OperationSpec, answer: HttpClientConnection) -> OneFrame:
        body = answer.body
        if answer.status != 200:
            refusal = body if len(body) <= self._bounds.refusal_bytes else b""
            raise self._failure(answer.status, answer.headers, refusal)
        document = _document(body, operation)
        if "error" in document or "type" in document or document.get("object") == "error":
            failure = failures.in_document(document, self._words)
            if failure is not None:
                failed, failure = DeferredError(failure), None
                raise failed.again()
        usage = document.get("usage")
        if type(usage) is not dict:
            return OneFrame(JsonBody(body))
        return OneFrame(JsonBody(body), *token_counts(usage, operation.writes))

    async def _streamed(
        self, head: bytes, body: bytes, operation: OperationSpec, request: InferenceRequest
    ) -> EventStream:
        response = await self._wire.open(head, body, request.deadline)
        return await self._events(response, request, operation, False)

    async def _events(
        self,
        response: WireStream,
        request: InferenceRequest,
        operation: OperationSpec,
        without_usage: bool,
    ) -> EventStream:
        try:
            if response.status != 200:
                refusal = await self._refusal(response)
                raise self._failure(response.status, response.headers, refusal)
            media = response.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if media != b"text/event-stream":
                raise UpstreamFailed("the endpoint answered a streamed call with no event stream")
            return EventStream(
                response, operation, self._bounds, self._words, without_usage, request.held
            )
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            failed = DeferredError(exc)
        await response.aclose()  # which releases the connection
        raise failed.again()

    def _failure(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> UpstreamError:
        return failures.error_from_status(status, headers, self._words.message(body, status))

    async def _refusal(self, response: WireStream) -> bytes:
        body = bytearray()
        with suppress(UpstreamError):  # the status says enough
            async for chunk in response:
                body += chunk
                if len(body) > self._bounds.refusal_bytes:
                    return b""
        return bytes(body)


def _stands_still() -> UpstreamUnreachable:
    return UpstreamUnreachable("the stream stood still for too long")


def _trace_headers(request: InferenceRequest) -> tuple[Header, ...]:
    """Nothing else that the caller sent as a header goes out."""
    headers: tuple[Header, ...] = ()
    if request.traceparent:
        headers = ((b"traceparent", request.traceparent.encode()),)
    if request.tracestate:
        headers += ((b"tracestate", request.tracestate.encode()),)
    return headers


def _document(data: bytes, operation: OperationSpec, kind: str = "") -> dict[str, Any]:
    """What is known of an answer, or of an event of this kind."""
    if len(data) > READ_BYTES:  # guard: A9.answer-passthrough
        return answer_edges(data, operation, kind)
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise UpstreamFailed("the endpoint answered with something that is no JSON object")
    return document
