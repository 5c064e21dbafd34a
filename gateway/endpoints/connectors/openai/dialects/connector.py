"""An endpoint to which chats are translated, and whose answers are translated back."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

from gateway.config.providers import ProviderDescription
from gateway.core.errors import UpstreamError, UpstreamRefused
from gateway.core.operations.chat import CHAT
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import JsonBody, OneFrame
from gateway.core.types import AT_ONCE_BYTES, DocumentCall, InferenceRequest, ServedModel
from gateway.endpoints.connectors.openai.dialects import Dialect
from gateway.endpoints.connectors.openai.event_stream import AnswerBounds, EventStream
from gateway.endpoints.connectors.openai.provider import OpenAiConnector, ProviderAnswer
from gateway.endpoints.connectors.openai.usage import token_counts
from gateway.endpoints.credentials import Credential
from gateway.protocols import strictjson
from gateway.protocols.http_client.connection import HttpClientConnection
from gateway.protocols.http_client.stream import WireStream
from gateway.protocols.http_client.wire import ConnectionPool


class TranslatingConnector(OpenAiConnector):
    """One endpoint, as a `Connector` of chats."""

    def __init__(
        self,
        dialect: Dialect,
        wire: ConnectionPool,
        *,
        headers: Mapping[str, str] | None = None,
        bounds: AnswerBounds | None = None,
        provider: ProviderDescription | None = None,
        query: Mapping[str, str] | None = None,
        credential: Credential | None = None,
    ) -> None:
        super().__init__(
            wire,
            headers=headers,
            bounds=bounds,
            provider=provider,
            query=query,
            credential=credential,
        )
        self._dialect = dialect

    def open(
        self, request: InferenceRequest, served: ServedModel
    ) -> Coroutine[Any, Any, ProviderAnswer]:
        call = request.payload
        if not isinstance(call, DocumentCall) or call.operation is not CHAT:
            raise UpstreamRefused("an endpoint with an API of its own serves chats alone")
        if self._credential is not None:
            self._authorize(self._credential)
        document = self._document(call, served)
        written = partial(self._dialect.body, document, served, call.streamed)
        if call.size > AT_ONCE_BYTES:
            return self._open_at_length(written, request, call, served.model)
        body = written()
        return self._send(self._head(request, call, served.model, len(body)), body, request, call)

    def _whole(self, operation: OperationSpec, answer: HttpClientConnection) -> OneFrame:
        body = answer.body
        if answer.status != 200:
            refusal = body if len(body) <= self._bounds.refusal_bytes else b""
            raise self._failure(answer.status, answer.headers, refusal)
        document = self._dialect.answer(body, self._words)
        counts = token_counts(document["usage"])
        return OneFrame(JsonBody(strictjson.dumps(document)), *counts)

    def _stream(
        self,
        response: WireStream,
        request: InferenceRequest,
        operation: OperationSpec,
        without_usage: bool,
    ) -> EventStream:
        call = request.payload
        options = call.document.get("stream_options") if isinstance(call, DocumentCall) else None
        events = self._dialect.events(bool(options and options.get("include_usage")))
        return EventStream(
            response, operation, self._bounds, self._words, False, request.held, events
        )

    def _failure(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> UpstreamError:
        if status == 401:
            self._distrust()
        return self._dialect.failure(status, headers, body, self._words)
