"""An endpoint to which chats are translated, and whose answers are translated back."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import orjson

from gateway.config.providers import ProviderDescription
from gateway.core.errors import UpstreamError, UpstreamRefused
from gateway.core.operations.chat import CHAT
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import JsonBody, OneFrame
from gateway.core.types import (
    AT_ONCE_BYTES,
    DocumentCall,
    InferenceRequest,
    JsonDocument,
    ServedModel,
)
from gateway.endpoints.connectors.openai.dialects import Dialect
from gateway.endpoints.connectors.openai.event_stream import AnswerBounds, EventStream
from gateway.endpoints.connectors.openai.provider import OpenAiConnector, ProviderAnswer
from gateway.endpoints.connectors.openai.usage import token_counts
from gateway.endpoints.credentials import Credential
from gateway.protocols import strictjson
from gateway.protocols.http_client.connection import HttpClientConnection
from gateway.protocols.http_client.stream import WireStream
from gateway.protocols.http_client.wire import ConnectionPool


def written(request: Callable[[Callable[[str], Any]], JsonDocument]) -> bytes:
    """The JSON of a request, in which a text that is JSON already stands as it is."""
    try:
        return orjson.dumps(request(orjson.Fragment))
    except TypeError:  # integers beyond 64 bits, which orjson refuses
        return json.dumps(request(json.loads), ensure_ascii=False, separators=(",", ":")).encode()


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
        document = self._document(call.document, served)
        made = partial(self._request, document, served, call.streamed)
        if call.size > AT_ONCE_BYTES:
            return self._open_at_length(partial(written, made), request, call, served.model)
        return self._open(written(made), request, call, served.model)

    def _request(
        self,
        document: JsonDocument,
        served: ServedModel,
        streamed: bool,
        as_json: Callable[[str], Any],
    ) -> JsonDocument:
        made = self._dialect.request(document, served, streamed, as_json)
        return made if self._provider is None else self._provider.completed(made)

    def _whole(
        self, operation: OperationSpec, model: str, answer: HttpClientConnection
    ) -> OneFrame:
        body = answer.body
        if answer.status != 200:
            refusal = body if len(body) <= self._bounds.refusal_bytes else b""
            raise self._failure(answer.status, answer.headers, refusal)
        document = self._dialect.answer(body, self._words, model)
        counts = token_counts(document["usage"])
        self.quota.read(answer.headers, counts[0])
        return OneFrame(JsonBody(strictjson.dumps(document)), *counts)

    def _stream(
        self,
        response: WireStream,
        request: InferenceRequest,
        call: DocumentCall,
        model: str,
        without_usage: bool,
    ) -> EventStream:
        options = call.document.get("stream_options") or {}
        usage_wanted = call.translation is not None or bool(options.get("include_usage"))
        events = self._dialect.events(usage_wanted, model)
        return EventStream(
            response,
            call.operation,
            self._bounds,
            self._words,
            held=request.held,
            reader=events,
            parser=self._parser(),
        )

    def _meaning(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> UpstreamError:
        return self._dialect.failure(status, headers, body, self._words)
