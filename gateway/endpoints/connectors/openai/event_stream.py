"""The events of an OpenAI stream, and how far it has come.

How a stream ends (BEHAVIOURS A4, A5):

* chat and completions end with `[DONE]`, or when every choice has its `finish_reason`;
* Responses end with `response.completed`, `.incomplete` or `.failed`;
* any other end is a broken stream, whatever the transport thinks of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from gateway.core import timeouts
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import (
    AnswersFull,
    DeadlineExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamUnreachable,
)
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare
from gateway.core.operations.spec import OperationSpec, StreamForm
from gateway.core.reply import Frame, Receiver, ServerEvent, ServerEvents
from gateway.core.types import Usage
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.large import READ_BYTES, answer_edges
from gateway.endpoints.connectors.openai.sse import EventParser, is_unread_event, tells_nothing
from gateway.endpoints.connectors.openai.usage import (
    is_usage_alone,
    token_counts,
)
from gateway.endpoints.connectors.openai.words import ProviderWords
from gateway.protocols.http_client.stream import WireStream

NO_SECRETS = ProviderWords()
_DONE = b"[DONE]"
_TURN_BYTES = 8 * 1024  # of events that are read before others have their turn
_LAST_MEDIA_STEPS = (".done", ".completed")
_LAST_RESPONSE_EVENTS = {"response.completed", "response.incomplete", "response.failed"}


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """What one answer may take, within its deadline."""

    event_bytes: int = 8 * 1024 * 1024  # the last event of a Responses stream repeats all of it
    media_bytes: int = 64 * 1024 * 1024  # of an answer that is no JSON
    refusal_bytes: int = 64 * 1024
    probe_s: float = 2.0
    drain_s: float = 0.05  # for the end of a body behind its last event, to keep the connection


@dataclass(slots=True)
class Progress:
    """How far a stream has come, from what its events say."""

    operation: OperationSpec
    words: ProviderWords = NO_SECRETS
    ended: bool = False  # said by the protocol itself
    failure: Exception | None = None
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

    def goes_on(self) -> None:
        """An event of choice 0 has come that was not read."""
        if 0 not in self._finished:
            self._open.add(0)

    def note(self, document: dict[str, Any]) -> None:
        if "error" in document or "type" in document or document.get("object") == "error":
            self.failure = failures.in_document(document, self.words)
            if self.operation.stream is StreamForm.MEDIA:
                self._note_media(document)
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

    def _note_media(self, document: dict[str, Any]) -> None:
        """There is a last event for each picture, so that the body's end ends the stream."""
        if str(document.get("type")).endswith(_LAST_MEDIA_STEPS):
            self._finished.add(0)

    def _note_response(self, document: dict[str, Any]) -> None:
        if document.get("type") in _LAST_RESPONSE_EVENTS:
            self.ended = True
            response = document.get("response")
            usage = response.get("usage") if isinstance(response, dict) else None
            if isinstance(usage, dict):
                self.total_tokens, self.usage = token_counts(usage)


class EventReader(Protocol):
    """Makes OpenAI's events of those of another API."""

    def read(self, event: ServerEvent, progress: Progress) -> Sequence[bytes]:
        """The data of the events in its place, with the progress noted. Raises UpstreamError for
        what is no event of that API."""
        ...


class EventStream:
    """The events of a streamed answer, as the provider wrote them, without `[DONE]`. Whoever reads
    it bounds the wait for each frame."""

    def __init__(
        self,
        response: WireStream,
        operation: OperationSpec,
        bounds: AnswerBounds,
        words: ProviderWords = NO_SECRETS,
        without_usage: bool = False,
        held: AnswerShare | None = None,
        reader: EventReader | None = None,
        parser: EventParser | None = None,
    ) -> None:
        """`without_usage`: the caller has not asked for the event that only says what it took.
        `held`: where an event is counted that has not come whole. `reader`: None for a provider
        that writes OpenAI's events. `parser`: None for server-sent events."""
        self._reader = reader
        self._held = held
        self._counts = False  # something is counted there
        self._unfed: deque[bytes] = deque()  # of the last read
        self._at_hand = False  # something was fed, and not all of it was looked at
        self._response = response
        self._without_usage = without_usage
        self._bounds = bounds
        self._parser = parser or EventParser(bounds.event_bytes)
        self._progress = Progress(operation, words)
        self._committed = False  # an event has gone to the caller
        self._receiver: Receiver[Frame] | None = None
        self._full = False  # it has no room before it was waited for
        self._passing = False  # the last read was passed on unread
        self._between_events = False  # the next read may be an event that need not be read
        self._passed_bytes = min(bounds.event_bytes, _TURN_BYTES)  # the largest such
        self.closed = False  # what it held was given back

    @property
    def total_tokens(self) -> int | None:
        return self._progress.total_tokens

    @property
    def usage(self) -> Usage | None:
        return self._progress.usage

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> ServerEvent | ServerEvents:
        try:
            return await self._next()
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            failed = DeferredError(exc)
        await self.aclose()  # which releases the connection
        raise failed.again()

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        self._receiver = receiver
        try:
            async for events in self:
                if not receiver.put(events):
                    await receiver.room()
        finally:
            self._receiver = None

    def _take(self, chunk: bytes) -> bool:
        """Put the events of a read to the receiver. Whether the next read may come."""
        progress, receiver = self._progress, self._receiver
        try:
            if (
                self._between_events
                and receiver is not None
                and len(chunk) <= self._passed_bytes
                and is_unread_event(chunk)
            ):
                if not self._passing:
                    self._passing = True
                    progress.goes_on()
                self._full = not receiver.put(ServerEvents(chunk, 1))
                return not self._full
            self._come(chunk)
            events = None if receiver is None else self._take_events()
            if receiver is not None and events is not None:
                self._full = not receiver.put(events)
        except Exception as exc:  # noqa: BLE001 - raised where the stream is delivered
            progress.failure = exc.with_traceback(None)
        return not (
            self._full or self._at_hand or self._unfed or progress.ended or progress.failure
        )

    async def aclose(self) -> None:
        if not self.closed:
            self.closed, self._between_events = True, False
            await self._response.aclose()

    async def _next(self) -> ServerEvent | ServerEvents:
        progress = self._progress
        while True:
            if self._full and self._receiver is not None:
                self._full = False
                await self._receiver.room()
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
            if self._at_hand:
                if (events := self._take_events()) is not None:
                    return events
            elif self._unfed:
                await asyncio.sleep(0)  # others have their turn
                self._feed_on()
            else:
                chunk = await self._response.more(self._take)
                if chunk is not None:
                    self._come(chunk)

    def _take_events(self) -> ServerEvent | ServerEvents | None:
        """All events of the last read that the caller gets, up to the end or a failure. The first
        of a stream comes alone: behind it, no other endpoint may answer."""
        parser, progress, first = self._parser, self._progress, not self._committed
        events, count = [], 0
        try:
            while not progress.ended and progress.failure is None:
                if self._may_pass_unread:
                    raw, unread = parser.take_unread()
                    if unread:
                        progress.goes_on()
                        events.append(raw)
                        count += unread
                event = parser.next()
                if event is None:
                    self._at_hand = False
                    self._between_events = (
                        self._may_pass_unread and parser.at_rest and not self._unfed
                    )
                    break
                if self._reader is not None:
                    for data in self._reader.read(event, progress):
                        events.append(b"data: %b\n\n" % data)
                        count += 1
                    if first and count:
                        self._committed = True
                        break
                elif event.data == _DONE:
                    progress.done()
                elif event.data and self._passes_on(event):
                    if first:
                        return event
                    events.append(event.framed())
                    count += 1
        except UpstreamError as error:
            progress.failure = error.with_traceback(None)  # or it would have this stream
        if not count:
            return None
        return ServerEvents(events[0] if len(events) == 1 else b"".join(events), count)

    @property
    def _may_pass_unread(self) -> bool:
        """Events of a Responses stream each say what they are; the first of another is read."""
        return (
            self._committed
            and self._reader is None
            and self._progress.operation.stream is StreamForm.CHOICES
        )

    def _passes_on(self, event: ServerEvent) -> bool:
        """Whether the caller gets the event. A failure is ours to tell, in our words, except the
        one that Responses tells by an event of its own once the caller has seen the first."""
        progress = self._progress
        if self._may_pass_unread and tells_nothing(event.data):
            progress.goes_on()
            return True
        document = read_document(event.data, progress.operation, event.event)
        progress.note(document)
        if progress.failure is not None:
            return progress.operation.stream is StreamForm.RESPONSES and self._committed
        if self._without_usage and is_usage_alone(document):
            return False
        self._committed = True
        return True

    def _come(self, chunk: bytes) -> None:
        """A read; an empty one is the end of the body."""
        self._between_events = self._passing = False
        if chunk:
            self._feed(chunk)
            self._has_room()
        else:
            self._progress.end()

    def _feed(self, chunk: bytes) -> None:
        """Of a large read a part: it may be a thousand events."""
        self._at_hand = True
        if len(chunk) <= _TURN_BYTES:
            self._parser.feed(chunk)
            return
        for at in range(0, len(chunk), _TURN_BYTES):
            self._unfed.append(chunk[at : at + _TURN_BYTES])
        self._feed_on()

    def _feed_on(self) -> None:
        self._at_hand = True
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
