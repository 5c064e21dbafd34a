"""The events of an OpenAI stream, and how far it has come.

How a stream ends (BEHAVIOURS A4, A5):

* chat and completions end with `[DONE]`, or when every choice has its `finish_reason`;
* Responses end with `response.completed`, `.incomplete` or `.failed`;
* any other end is a broken stream, whatever the transport thinks of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from gateway.core import ambient, timeouts
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import (
    AnswersFull,
    DeadlineExceeded,
    GatewayError,
    UpstreamError,
    UpstreamFailed,
    UpstreamUnreachable,
)
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare
from gateway.core.operations.spec import OperationSpec, StreamForm
from gateway.core.types import (
    Passage,
    ServerEvent,
    Usage,
)
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.alike import Alike
from gateway.endpoints.connectors.openai.large import READ_BYTES, answer_edges
from gateway.endpoints.connectors.openai.sse import EventParser
from gateway.endpoints.connectors.openai.usage import (
    is_usage_alone,
    token_counts,
)
from gateway.endpoints.connectors.openai.words import ProviderWords
from gateway.protocols.http_client.wire import (
    WireStream,
)

NO_SECRETS = ProviderWords({})
_DONE = b"[DONE]"
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


@dataclass(slots=True)
class Progress:
    """How far a stream has come, from what its events say."""

    operation: OperationSpec
    words: ProviderWords = NO_SECRETS
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
        words: ProviderWords = NO_SECRETS,
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
        document = read_document(event.data, progress.operation, event.event)
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


def _stands_still() -> UpstreamUnreachable:
    return UpstreamUnreachable("the stream stood still for too long")


def read_document(data: bytes, operation: OperationSpec, kind: str = "") -> dict[str, Any]:
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
