"""A connector of chats, which serves Responses as well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Final

import orjson

from gateway.core.errors import AnswersFull, BodyTooLarge, MalformedBody, UpstreamFailed
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare
from gateway.core.operations.chat import CHAT
from gateway.core.operations.dialects.responses import AS_CHAT
from gateway.core.operations.responses import RESPONSES
from gateway.core.reply import (
    Frame,
    JsonBody,
    OneFrame,
    Receiver,
    ReplyStream,
    ServerEvent,
    ServerEvents,
)
from gateway.core.types import DocumentCall, InferenceRequest, JsonDocument, ServedModel, Usage
from gateway.endpoints.connectors import Connector
from gateway.endpoints.connectors.openai.event_stream import AnswerBounds
from gateway.endpoints.connectors.openai.large import READ_BYTES
from gateway.endpoints.connectors.openai.responses.writer import ResponseWriter
from gateway.protocols import strictjson

_MOST_CHARACTERS: Final = AnswerBounds().event_bytes  # the last event repeats them all


class ResponsesConnector:
    """As a `Connector`: calls of other operations go on as they are."""

    def __init__(self, chats: Connector) -> None:
        self._chats = chats

    def open(self, request: InferenceRequest, served: ServedModel) -> Awaitable[ReplyStream]:
        call = request.payload
        if isinstance(call, DocumentCall) and call.operation is RESPONSES:
            return self._open(request, call, served)
        return self._chats.open(request, served)

    async def ready(self) -> bool:
        return await self._chats.ready()

    async def aclose(self) -> None:
        await self._chats.aclose()

    async def _open(
        self, request: InferenceRequest, call: DocumentCall, served: ServedModel
    ) -> ReplyStream:
        chat = DocumentCall(CHAT, AS_CHAT.document(call.document), call.streamed, call.size)
        answer = await self._chats.open(replace(request, payload=chat), served)
        writer = ResponseWriter(call.document, served.model, whole=not call.streamed)
        if not isinstance(answer, OneFrame):
            return ResponseStream(answer, writer, request.held)
        frame = answer.take()
        body = frame.body if isinstance(frame, JsonBody) else b""
        usage, total_tokens = answer.usage, answer.total_tokens
        if len(body) > READ_BYTES:
            made_body = await asyncio.to_thread(_response, body, writer, usage, total_tokens)
        else:
            made_body = _response(body, writer, usage, total_tokens)
        return OneFrame(JsonBody(made_body), total_tokens, usage)


def _response(
    body: bytes, writer: ResponseWriter, usage: Usage | None, total_tokens: int | None
) -> bytes:
    try:
        writer.read(strictjson.load_object(body))
    except (BodyTooLarge, MalformedBody):
        raise UpstreamFailed("the endpoint answered with something that is no chat") from None
    return strictjson.dumps(writer.end(usage, total_tokens))


def _chunk(data: bytes) -> JsonDocument:
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise UpstreamFailed("the endpoint sent an event that is no JSON object")
    return document


class ResponseStream:
    """The events of a response, made of those of a chat as they come."""

    def __init__(
        self, chat: ReplyStream, writer: ResponseWriter, held: AnswerShare | None = None
    ) -> None:
        """`held`: where the texts are counted, which the last event repeats."""
        self._chat = chat
        self._writer = writer
        self._held = held
        self._receiver: Receiver[Frame] | None = None
        self._ended = False

    @property
    def total_tokens(self) -> int | None:
        return getattr(self._chat, "total_tokens", None)

    @property
    def usage(self) -> Usage | None:
        return getattr(self._chat, "usage", None)

    @property
    def closed(self) -> bool:
        return getattr(self._chat, "closed", False)

    def __aiter__(self) -> ResponseStream:
        return self

    async def __anext__(self) -> ServerEvents:
        while True:
            try:
                frame = await anext(self._chat)
            except StopAsyncIteration:
                break
            if (events := self._translated(frame)).number:
                return events
        if (last := self._last()) is None:
            raise StopAsyncIteration
        return last

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        self._receiver = receiver
        try:
            await self._chat.deliver(self)
        finally:
            self._receiver = None
        if (last := self._last()) is not None and not receiver.put(last):
            await receiver.room()

    async def aclose(self) -> None:
        await self._chat.aclose()

    # A receiver of the chat's frames

    def put(self, frame: Frame) -> bool:
        events, receiver = self._translated(frame), self._receiver
        return receiver is None or not events.number or receiver.put(events)

    async def room(self) -> None:
        if self._receiver is not None:
            await self._receiver.room()

    def _translated(self, frame: Frame) -> ServerEvents:
        events = frame.apart() if isinstance(frame, ServerEvents) else [frame]
        for event in events:
            if isinstance(event, ServerEvent):
                self._writer.read(_chunk(event.data))
        self._hold(self._writer.events.characters)
        return ServerEvents(*self._writer.events.taken())

    def _hold(self, characters: int) -> None:
        """Raises UpstreamFailed, AnswersFull for more text than an answer may have."""
        if characters > _MOST_CHARACTERS:
            raise UpstreamFailed(
                "the endpoint's answer is too long for the last event of a response"
            )
        if self._held is None or characters <= UNCOUNTED_BYTES:
            return
        if not self._held.hold(self, characters):  # guard: S14.held-texts
            raise AnswersFull()

    def _last(self) -> ServerEvents | None:
        """What ends the response; None: it has ended."""
        if self._ended:
            return None
        self._ended = True
        self._writer.end(self.usage, self.total_tokens)
        return ServerEvents(*self._writer.events.taken())
