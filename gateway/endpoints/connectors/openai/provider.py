"""Any OpenAI-compatible provider: in the cloud, or a vLLM or NIM on the premises.

The body that goes out is our own serialisation of the parsed document, with the model's name at
the endpoint. What comes back goes on untouched, byte for byte, its `model` included: a caller sees
what the provider says of itself. It is parsed only to know whether it is whole and what it cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from gateway.config.providers import Authorization, ProviderDescription
from gateway.config.providers.limits import OPENAI_LIMITS
from gateway.core.deadline import Deadline
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import (
    DeadlineExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.core.operations.dialects.openai import spoken
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import JsonBody, OneFrame
from gateway.core.types import (
    AT_ONCE_BYTES,
    DocumentCall,
    InferenceRequest,
    JsonDocument,
    ServedModel,
)
from gateway.core.yaml_document import is_secret_name
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.amazon.events import AmazonEventParser
from gateway.endpoints.connectors.openai.amazon.failures import error_from_answer
from gateway.endpoints.connectors.openai.event_stream import (
    AnswerBounds,
    EventStream,
    read_document,
)
from gateway.endpoints.connectors.openai.form import form_parts
from gateway.endpoints.connectors.openai.heads import STREAMS, CallHeads
from gateway.endpoints.connectors.openai.media_stream import MediaStream
from gateway.endpoints.connectors.openai.quota import QuotaReader
from gateway.endpoints.connectors.openai.sse import EventParser
from gateway.endpoints.connectors.openai.usage import (
    StreamUsage,
    asking,
    token_counts,
)
from gateway.endpoints.connectors.openai.words import ProviderWords
from gateway.endpoints.credentials import Credential, NoCredential
from gateway.protocols import multipart, strictjson
from gateway.protocols.aws.sigv4 import Signer
from gateway.protocols.http_client.connection import HttpClientConnection
from gateway.protocols.http_client.origin import Origin, Tls
from gateway.protocols.http_client.stream import WireStream
from gateway.protocols.http_client.wire import ConnectionPool
from gateway.protocols.strictjson import dumps

REST_S = 0.5  # of a connection between two calls: no answer says to which of them it belongs


ProviderAnswer = OneFrame | EventStream | MediaStream


def endpoint_origin(url: str, tls: Tls | None = None, base: str = "/v1") -> Origin:
    """Where the API stands: at the path of the base URL, or at `base` when it has none."""
    origin = Origin.from_url(url, tls)
    return origin if origin.base else replace(origin, base=base)


class OpenAiConnector:
    """One provider, as a `Connector`."""

    def __init__(
        self,
        wire: ConnectionPool,
        *,
        headers: Mapping[str, str] | None = None,
        bounds: AnswerBounds | None = None,
        provider: ProviderDescription | None = None,
        query: Mapping[str, str] | None = None,
        credential: Credential | None = None,
    ) -> None:
        """`wire` leads to the `endpoint_origin` of its base URL; `headers` and `query` go with
        every call, and the headers carry the provider's credential, unless `credential` is
        renewed. `provider`: None for one that has every operation under OpenAI's own path."""
        self._wire = wire
        self._provider = provider
        self._credential = credential
        self._version = 0  # of the credential, that the heads have
        self._signing = provider.signing if provider else ""
        self._format = provider.stream_format if provider else "sse"
        self._bounds = bounds or AnswerBounds()
        self._given = headers or {}
        self._usage = StreamUsage()
        self._query_secrets = [
            value for name, value in (query or {}).items() if is_secret_name(name)
        ]
        self._words = ProviderWords((*self._given.values(), *self._query_secrets))
        limits = provider.limits if provider else None
        self.quota = QuotaReader(OPENAI_LIMITS if limits is None else limits)
        self._heads = CallHeads(wire, provider, query)
        self._heads.carry(self._given)

    def open(
        self, request: InferenceRequest, served: ServedModel
    ) -> Coroutine[Any, Any, ProviderAnswer]:
        call = request.payload
        if not isinstance(call, DocumentCall):
            raise UpstreamRefused("an OpenAI endpoint serves no tensors")
        if self._credential is not None:
            self._authorize(self._credential)
        chat = call.document if call.translation is None else spoken(call.document)[0]
        document = self._document(chat, served)
        if self._provider is not None:
            document = self._provider.completed(document)
        if call.files:
            return self._open_form(document, request, call, served.model)
        if call.streamed and self._usage.asks(call, served.model):
            return self._open_asking(document, request, call, served.model)
        if call.size > AT_ONCE_BYTES:
            written = partial(strictjson.dumps, document)
            return self._open_at_length(written, request, call, served.model)
        return self._open(strictjson.dumps(document), request, call, served.model)

    def _authorize(self, credential: Credential) -> None:
        """Raises NoCredential where there is no valid one."""
        issued = credential.issued()
        if credential.version == self._version:
            return
        self._version = credential.version
        if isinstance(issued, Signer):
            self._words = ProviderWords(
                (*self._given.values(), *issued.keys.secrets.values(), *self._query_secrets)
            )
            self._heads.carry(self._given, issued)
            return
        header = Authorization()
        if self._provider is not None and not credential.bearer:
            header = self._provider.authorization
        given = {**self._given, **header.headers(issued.text)}
        self._words = ProviderWords((*given.values(), *self._query_secrets))
        self._heads.carry(given)

    def _document(self, document: JsonDocument, served: ServedModel) -> JsonDocument:
        provider = self._provider
        if provider is None:
            return {**document, "model": served.model}
        for name, other in provider.renames.items():
            if name in document and other in document:
                raise UpstreamRefused(f"{name} and {other} are one field there; leave one out")
        return {**provider.sent(document), "model": served.model}

    async def _open_asking(
        self, document: dict[str, Any], request: InferenceRequest, call: DocumentCall, model: str
    ) -> ProviderAnswer:
        """For the usage that the caller does not need. A provider that does not know that is asked
        once more, without."""
        size = call.size
        for wanted in (asking(document), document):
            written = partial(self._head_and_body, partial(dumps, wanted), request, call, model)
            head, body = await asyncio.to_thread(written) if size > AT_ONCE_BYTES else written()
            response = await self._wire.open(head, body, request.deadline)
            if response.status == 200 or wanted is document:
                break
            refusal = await _refusal(response, self._bounds)
            await response.aclose()
            if not self._usage.refused(response.status, refusal, call, model):
                raise self._failure(response.status, response.headers, refusal)
        without_usage = wanted is not document and call.translation is None
        return await self._events(response, request, call, model, without_usage)

    async def _open_form(
        self, document: JsonDocument, request: InferenceRequest, call: DocumentCall, model: str
    ) -> ProviderAnswer:
        """Our own form of the parsed one, as documents are our own serialisation."""
        media_type, body = multipart.encode(form_parts(document, call.files))
        head = self._heads.form_head(request, call, model, media_type.encode(), body)
        return await self._sent(head, body, request, call, model)

    async def _open_at_length(
        self,
        written: Callable[[], bytes],
        request: InferenceRequest,
        call: DocumentCall,
        model: str,
    ) -> ProviderAnswer:
        head, body = await asyncio.to_thread(self._head_and_body, written, request, call, model)
        return await self._sent(head, body, request, call, model)

    def _head_and_body(
        self,
        written: Callable[[], bytes],
        request: InferenceRequest,
        call: DocumentCall,
        model: str,
    ) -> tuple[bytes, bytes]:
        """Of a call that is written so."""
        body = written()
        return self._heads.head(request, call, model, body), body

    def _open(
        self, body: bytes, request: InferenceRequest, call: DocumentCall, model: str
    ) -> Coroutine[Any, Any, ProviderAnswer]:
        return self._sent(self._heads.head(request, call, model, body), body, request, call, model)

    def _sent(
        self,
        head: bytes,
        body: bytes | tuple[bytes, ...],
        request: InferenceRequest,
        call: DocumentCall,
        model: str,
    ) -> Coroutine[Any, Any, ProviderAnswer]:
        if call.streamed:
            return self._streamed(head, body, request, call, model)
        read = partial(self._whole, call.operation, model)
        return self._wire.ask(head, body, request.deadline, read, held=request.held)

    async def ready(self) -> bool:
        """Whether the provider answers this gateway's key; not all of them list their models."""
        if self._credential is not None:
            if not self._credential.renew():
                return False
            self._authorize(self._credential)
        try:
            answer = await self._wire.fetch(
                self._heads.probe(), Deadline.after(self._bounds.probe_s)
            )
        except (UpstreamError, DeadlineExceeded):
            return False
        if answer.status in (401, 403):
            refusal = answer.body if len(answer.body) <= self._bounds.refusal_bytes else b""
            failure = self._failure(answer.status, answer.headers, refusal)
            # a role that may infer and do nothing else has access denied here
            return bool(self._signing) and not failure.any_call
        return answer.status < 500

    async def aclose(self) -> None:
        await self._wire.aclose()
        if self._credential is not None:
            await self._credential.aclose()

    def _distrust(self) -> None:
        if self._credential is not None:
            self._credential.distrust()

    def _whole(
        self, operation: OperationSpec, model: str, answer: HttpClientConnection
    ) -> OneFrame:
        body = answer.body
        if answer.status != 200:
            refusal = body if len(body) <= self._bounds.refusal_bytes else b""
            raise self._failure(answer.status, answer.headers, refusal)
        document = read_document(body, operation)
        if "error" in document or "type" in document or document.get("object") == "error":
            failure = failures.in_document(document, self._words)
            if failure is not None:
                failed, failure = DeferredError(failure), None
                raise failed.again()
        usage = document.get("usage")
        counts = token_counts(usage, operation.writes) if type(usage) is dict else (None, None)
        self.quota.read(answer.headers, counts[0])
        return OneFrame(JsonBody(body), *counts)

    async def _streamed(
        self,
        head: bytes,
        body: bytes | tuple[bytes, ...],
        request: InferenceRequest,
        call: DocumentCall,
        model: str,
    ) -> EventStream | MediaStream:
        response = await self._wire.open(head, body, request.deadline)
        return await self._events(response, request, call, model, False)

    async def _events(
        self,
        response: WireStream,
        request: InferenceRequest,
        call: DocumentCall,
        model: str,
        without_usage: bool,
    ) -> EventStream | MediaStream:
        try:
            if response.status != 200:
                refusal = await _refusal(response, self._bounds)
                raise self._failure(response.status, response.headers, refusal)
            self.quota.read(response.headers)
            media = response.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if media != STREAMS[self._format]:
                if call.operation.answers_bytes is not None:
                    return MediaStream(response, self._bounds.media_bytes)
                raise UpstreamFailed("the endpoint answered a streamed call with no event stream")
            return self._stream(response, request, call, model, without_usage)
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            failed = DeferredError(exc)
        await response.aclose()  # which releases the connection
        raise failed.again()

    def _stream(
        self,
        response: WireStream,
        request: InferenceRequest,
        call: DocumentCall,
        model: str,
        without_usage: bool,
    ) -> EventStream:
        return EventStream(
            response,
            call.operation,
            self._bounds,
            self._words,
            without_usage,
            request.held,
            parser=self._parser(),
        )

    def _parser(self) -> EventParser | None:
        """None for server-sent events."""
        if self._format == "amazon":
            return AmazonEventParser(self._bounds.event_bytes, self._words)
        return None

    def _failure(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> UpstreamError:
        self.quota.read(headers)
        failure = self._meaning(status, headers, body)
        if failure.reason == NoCredential.reason and failure.any_call:
            self._distrust()
        return failure

    def _meaning(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> UpstreamError:
        if self._signing:
            return error_from_answer(status, headers, body, self._words)
        return failures.error_from_status(status, headers, self._words.message(body, status))


async def _refusal(response: WireStream, bounds: AnswerBounds) -> bytes:
    body = bytearray()
    with suppress(UpstreamError):  # the status says enough
        async for chunk in response:
            body += chunk
            if len(body) > bounds.refusal_bytes:
                return b""
    return bytes(body)
