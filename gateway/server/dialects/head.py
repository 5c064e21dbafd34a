"""The life of a call of another API: made a chat before anything else looks at it, and answered
behind all else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.auth import Caller
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.errors import InternalError, UnsupportedMedia
from gateway.core.operations.chat import CHAT
from gateway.core.operations.spec import OperationSpec, Translation
from gateway.core.reply import Frame, FrameSource, InferenceReply, JsonBody, OneFrame, received
from gateway.core.types import (
    AT_ONCE_BYTES,
    DocumentCall,
    InferenceRequest,
    JsonDocument,
    WireProtocol,
)
from gateway.protocols import strictjson
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, intake, labels
from gateway.server.dialects.stream import StreamWriter, TranslatedBytes
from gateway.server.http import EVENT_LINES, RequestHead
from gateway.server.intake import RequestContext
from gateway.server.openai.documents import read

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class TranslatedBody:
    """What a front has made of a body."""

    document: JsonDocument = field(repr=False)
    translation: Translation | None = None  # of a chat
    operation: OperationSpec = CHAT


def read_call(
    body: TranslatedBody, catalog: Catalog, size: int, caller: Caller
) -> tuple[CatalogModel, DocumentCall]:
    """The model, and the call; `size`: bytes of a large one; `caller` may have names of its own for
    models. Raises InvalidField, UnknownModel."""
    model, call = read(body.operation, body.document, catalog, size, caller=caller)
    if body.translation is not None:
        call = replace(call, translation=body.translation)
    return model, call


class TranslatedRequestHead(RequestHead):
    """Who inherits says what a body means and how its answer looks."""

    __slots__ = ("_bounds", "_protocol", "_stream_lines", "_unread")

    def __init__(
        self,
        services: Services,
        bounds: JsonBounds,
        protocol: WireProtocol,
        exchange: HttpExchange,
        stream_lines: str = EVENT_LINES,
        unread: Sequence[str] = (),
    ) -> None:
        """`stream_lines`: in the head of a streamed answer. `unread`: headers of this API that ask
        for nothing by themselves. Raises Unauthenticated, Unverifiable,
        UnsupportedMedia."""
        super().__init__(exchange, services)
        self._bounds, self._protocol = bounds, protocol
        self._stream_lines, self._unread = stream_lines, unread
        media = exchange.headers.get("content-type", "")
        if media.partition(";")[0].strip().lower() != JSON:
            raise UnsupportedMedia(f"content-type: send the body as {JSON}")

    def translated(self, body: JsonDocument) -> TranslatedBody:
        """Raises InvalidField."""
        raise NotImplementedError

    def whole(self, body: bytes, request: InferenceRequest, call: DocumentCall) -> bytes:
        """Raises UpstreamFailed for an answer that this API has no words for."""
        raise NotImplementedError

    def writer(self, request: InferenceRequest, call: DocumentCall) -> StreamWriter:
        raise NotImplementedError

    def lines(self, request: InferenceRequest) -> str:
        """More of an answer's head."""
        return ""

    def build_request(
        self, body: bytes, arrival: RequestContext
    ) -> InferenceRequest | Awaitable[InferenceRequest]:
        if len(body) > AT_ONCE_BYTES:
            return self._read_aside(body, arrival)
        return self._request(*self._read(body, 0), arrival)

    async def _read_aside(self, body: bytes, arrival: RequestContext) -> InferenceRequest:
        return self._request(*await asyncio.to_thread(self._read, body, len(body)), arrival)

    def _read(self, body: bytes, size: int) -> tuple[CatalogModel, DocumentCall]:
        depth = self.services.limits.max_json_depth
        document = strictjson.load_object(body, depth, self._bounds)
        labels.check_document(document)
        return read_call(self.translated(document), self.services.catalog, size, self.caller)

    def _request(
        self, model: CatalogModel, call: DocumentCall, arrival: RequestContext
    ) -> InferenceRequest:
        return self.terms(self._protocol, model).request(arrival, call)

    def answer(
        self, exchange: HttpExchange, request: InferenceRequest, reply: InferenceReply
    ) -> Awaitable[None] | None:
        frames, call = reply.frames, request.payload
        assert isinstance(call, DocumentCall)
        lines = intake.placement_lines(request.id, request.traceparent, reply.placement)
        lines += self.lines(request)
        if call.operation is CHAT:
            lines += self.translation_line(call, reply.placement, self._unread)
        if call.streamed:
            written = TranslatedBytes(frames, self.writer(request, call))
            return exchange.stream(200, lines + self._stream_lines, written)
        frame = frames.take() if isinstance(frames, OneFrame) else None
        if isinstance(frame, JsonBody) and len(frame.body) <= AT_ONCE_BYTES:
            made = self.whole(frame.body, request, call)
            exchange.reply(200, _whole(made, lines), made)
            return None
        return self._read_on(exchange, lines, frame, frames, request, call)

    async def _read_on(
        self,
        exchange: HttpExchange,
        lines: str,
        frame: Frame | None,
        frames: FrameSource,
        request: InferenceRequest,
        call: DocumentCall,
    ) -> None:
        if frame is None:
            answer = await received(frames)
            frame = answer[0] if len(answer) == 1 else None
        if not isinstance(frame, JsonBody):
            raise InternalError("an answer came in other frames than this protocol has")
        made = await asyncio.to_thread(self.whole, frame.body, request, call)
        await exchange.reply_as_taken(200, _whole(made, lines), made)


def _whole(body: bytes, lines: str) -> str:
    return f"content-type: {JSON}\r\ncontent-length: {len(body)}\r\n{lines}"
