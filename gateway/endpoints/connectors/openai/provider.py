"""Any OpenAI-compatible provider: in the cloud, or a vLLM or NIM on the premises.

The body that goes out is our own serialisation of the parsed document, with the model's name at
the endpoint. What comes back goes on untouched, byte for byte, its `model` included: a caller sees
what the provider says of itself. It is parsed only to know whether it is whole and what it cost.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from gateway.config.providers import Authorization, ProviderDescription
from gateway.core.deadline import Deadline
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import (
    DeadlineExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.core.operations.registry import OPERATIONS
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import JsonBody, OneFrame
from gateway.core.types import AT_ONCE_BYTES, DocumentCall, InferenceRequest, ServedModel
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.event_stream import (
    AnswerBounds,
    EventStream,
    read_document,
)
from gateway.endpoints.connectors.openai.form import form_parts
from gateway.endpoints.connectors.openai.media_stream import MediaStream
from gateway.endpoints.connectors.openai.usage import (
    StreamUsage,
    asking,
    token_counts,
)
from gateway.endpoints.connectors.openai.words import ProviderWords
from gateway.endpoints.credentials import Credential
from gateway.protocols import multipart, strictjson
from gateway.protocols.http_client.connection import HttpClientConnection
from gateway.protocols.http_client.origin import Origin, Tls
from gateway.protocols.http_client.stream import WireStream
from gateway.protocols.http_client.wire import ConnectionPool, Header, WireRequest
from gateway.protocols.strictjson import dumps

_ACCEPT = {
    False: (b"accept", b"application/json"),
    True: (b"accept", b"text/event-stream"),
}
_ACCEPT_BYTES = (b"accept", b"*/*")
_JSON = b"application/json"
_MODEL = "{model}"
_TRACE = re.compile("[0-9a-f-]+")  # as all of them are that go to a cloud
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
        every call, and the headers carry the provider's credential, unless `credential` has a
        token that is renewed. `provider`: None for one that has every operation under OpenAI's own
        path."""
        self._wire = wire
        self._provider = provider
        self._credential = credential
        self._token_version = 0  # that the heads have
        self._bounds = bounds or AnswerBounds()
        self._given = headers or {}
        self._usage = StreamUsage()
        self._query = f"?{urlencode(query)}" if query else ""
        self._probe = f"{provider.probe if provider else '/models'}{self._query}"
        self._paths = {
            operation: provider.operations.get(operation.name, "")
            if provider
            else _own_path(operation)
            for operation in OPERATIONS.values()
            if operation.path
        }
        self._readers = {each: partial(self._whole, each) for each in self._paths}
        self._begin_with(self._given)

    def _begin_with(self, given: Mapping[str, str]) -> None:
        """Build the heads of calls that carry these headers."""
        self._words = ProviderWords(given)
        self._headers: tuple[Header, ...] = (
            (b"user-agent", b"spillway"),
            (b"accept-encoding", b"identity"),
            *((name.encode("ascii"), value.encode("ascii")) for name, value in given.items()),
        )
        self._starts = {
            (operation, streamed, ""): self._start(operation, path, streamed)
            for operation, path in self._paths.items()
            if path and _MODEL not in path
            for streamed in (False, True)
        }

    def open(
        self, request: InferenceRequest, served: ServedModel
    ) -> Coroutine[Any, Any, ProviderAnswer]:
        call = request.payload
        if not isinstance(call, DocumentCall):
            raise UpstreamRefused("an OpenAI endpoint serves no tensors")
        if self._credential is not None:
            self._authorize(self._credential)
        document = self._document(call, served)
        if call.files:
            return self._open_form(document, request, call, served.model)
        if call.streamed and self._usage.asks(call, served.model):
            return self._open_asking(document, request, call, served.model)
        if call.size > AT_ONCE_BYTES:
            written = partial(strictjson.dumps, document)
            return self._open_at_length(written, request, call, served.model)
        body = strictjson.dumps(document)
        return self._send(self._head(request, call, served.model, len(body)), body, request, call)

    def _authorize(self, credential: Credential) -> None:
        """Raises NoCredential where there is no valid token."""
        token = credential.token()
        if credential.version != self._token_version:
            self._token_version = credential.version
            header = Authorization()
            if self._provider is not None and not credential.bearer:
                header = self._provider.authorization
            self._begin_with({**self._given, **header.headers(token)})

    def _document(self, call: DocumentCall, served: ServedModel) -> dict[str, Any]:
        document, provider = call.document, self._provider
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
            large = size > AT_ONCE_BYTES
            body = await asyncio.to_thread(dumps, wanted) if large else dumps(wanted)
            head = self._head(request, call, model, len(body))
            response = await self._wire.open(head, body, request.deadline)
            if response.status == 200 or wanted is document:
                break
            refusal = await _refusal(response, self._bounds)
            await response.aclose()
            if not self._usage.refused(response.status, refusal, call, model):
                raise self._failure(response.status, response.headers, refusal)
        return await self._events(response, request, call.operation, wanted is not document)

    async def _open_form(
        self, document: dict[str, Any], request: InferenceRequest, call: DocumentCall, model: str
    ) -> ProviderAnswer:
        """Our own form of the parsed one, as documents are our own serialisation."""
        media_type, body = multipart.encode(form_parts(document, call.files))
        path = self._paths[call.operation].replace(_MODEL, quote(model, safe=""))
        start = self._start(call.operation, path, call.streamed, media_type.encode())
        head = self._wire.head(start, _trace_headers(request), sum(map(len, body)))
        return await self._send(head, body, request, call)

    async def _open_at_length(
        self,
        written: Callable[[], bytes],
        request: InferenceRequest,
        call: DocumentCall,
        model: str,
    ) -> ProviderAnswer:
        body = await asyncio.to_thread(written)
        head = self._head(request, call, model, len(body))
        return await self._send(head, body, request, call)

    def _send(
        self,
        head: bytes,
        body: bytes | tuple[bytes, ...],
        request: InferenceRequest,
        call: DocumentCall,
    ) -> Coroutine[Any, Any, ProviderAnswer]:
        if call.streamed:
            return self._streamed(head, body, call.operation, request)
        return self._wire.ask(
            head, body, request.deadline, self._readers[call.operation], held=request.held
        )

    def _start(
        self, operation: OperationSpec, path: str, streamed: bool, media_type: bytes = _JSON
    ) -> bytes:
        binary = streamed and operation.answers_bytes is not None
        accept = _ACCEPT_BYTES if binary else _ACCEPT[streamed]
        headers = (*self._headers, (b"content-type", media_type), accept)
        return self._wire.start("POST", f"{path}{self._query}", headers)

    def _start_with_model(self, call: DocumentCall, model: str) -> bytes:
        """Of a path that names the model. Its names at the endpoint are the settings' own, so
        that there are few."""
        key, path = (call.operation, call.streamed, model), self._paths[call.operation]
        start = self._starts.get(key)
        if start is None:
            named = path.replace(_MODEL, quote(model, safe=""))
            start = self._starts[key] = self._start(call.operation, named, call.streamed)
        return start

    def _head(
        self, request: InferenceRequest, call: DocumentCall, model: str, length: int
    ) -> bytes:
        start = self._starts.get((call.operation, call.streamed, ""))
        if start is None:
            start = self._start_with_model(call, model)
        trace = request.traceparent
        if request.tracestate or not _TRACE.fullmatch(trace):
            return self._wire.head(start, _trace_headers(request), length)
        return b"%btraceparent: %b\r\ncontent-length: %d\r\n\r\n" % (
            start, trace.encode(), length,
        )  # fmt: skip

    async def ready(self) -> bool:
        """Whether the provider answers this gateway's key; not all of them list their models."""
        if self._credential is not None:
            if not self._credential.renew():
                return False
            self._authorize(self._credential)
        sent = WireRequest("GET", self._probe, (*self._headers, (b"content-type", _JSON)))
        try:
            answer = await self._wire.fetch(sent, Deadline.after(self._bounds.probe_s))
        except (UpstreamError, DeadlineExceeded):
            return False
        if answer.status == 401:
            self._distrust()
        return answer.status < 500 and answer.status not in (401, 403)

    async def aclose(self) -> None:
        await self._wire.aclose()
        if self._credential is not None:
            await self._credential.aclose()

    def _distrust(self) -> None:
        if self._credential is not None:
            self._credential.distrust()

    def _whole(self, operation: OperationSpec, answer: HttpClientConnection) -> OneFrame:
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
        if type(usage) is not dict:
            return OneFrame(JsonBody(body))
        return OneFrame(JsonBody(body), *token_counts(usage, operation.writes))

    async def _streamed(
        self,
        head: bytes,
        body: bytes | tuple[bytes, ...],
        operation: OperationSpec,
        request: InferenceRequest,
    ) -> EventStream | MediaStream:
        response = await self._wire.open(head, body, request.deadline)
        return await self._events(response, request, operation, False)

    async def _events(
        self,
        response: WireStream,
        request: InferenceRequest,
        operation: OperationSpec,
        without_usage: bool,
    ) -> EventStream | MediaStream:
        try:
            if response.status != 200:
                refusal = await _refusal(response, self._bounds)
                raise self._failure(response.status, response.headers, refusal)
            media = response.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if media != b"text/event-stream":
                if operation.answers_bytes is not None:
                    return MediaStream(response, self._bounds.media_bytes)
                raise UpstreamFailed("the endpoint answered a streamed call with no event stream")
            return self._stream(response, request, operation, without_usage)
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            failed = DeferredError(exc)
        await response.aclose()  # which releases the connection
        raise failed.again()

    def _stream(
        self,
        response: WireStream,
        request: InferenceRequest,
        operation: OperationSpec,
        without_usage: bool,
    ) -> EventStream:
        return EventStream(
            response, operation, self._bounds, self._words, without_usage, request.held
        )

    def _failure(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> UpstreamError:
        if status == 401:
            self._distrust()
        return failures.error_from_status(status, headers, self._words.message(body, status))


async def _refusal(response: WireStream, bounds: AnswerBounds) -> bytes:
    body = bytearray()
    with suppress(UpstreamError):  # the status says enough
        async for chunk in response:
            body += chunk
            if len(body) > bounds.refusal_bytes:
                return b""
    return bytes(body)


def _own_path(operation: OperationSpec) -> str:
    """As its API has it: behind the base of the endpoint's URL, which /v1 stands for, or beside."""
    path = operation.path
    return path.removeprefix("/v1") if path.startswith("/v1/") else f"/..{path}"


def _trace_headers(request: InferenceRequest) -> tuple[Header, ...]:
    """Nothing else that the caller sent as a header goes out."""
    headers: tuple[Header, ...] = ()
    if request.traceparent:
        headers = ((b"traceparent", request.traceparent.encode()),)
    if request.tracestate:
        headers += ((b"tracestate", request.tracestate.encode()),)
    return headers
