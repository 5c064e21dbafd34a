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

from gateway.core.deadline import Deadline
from gateway.core.deferred_error import DeferredError
from gateway.core.errors import (
    DeadlineExceeded,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.core.operations.registry import by_path
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import JsonBody, OneFrame
from gateway.core.types import AT_ONCE_BYTES, DocumentCall, InferenceRequest, ServedModel
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.event_stream import (
    AnswerBounds,
    EventStream,
    read_document,
)
from gateway.endpoints.connectors.openai.usage import (
    StreamUsage,
    asking,
    token_counts,
)
from gateway.endpoints.connectors.openai.words import ProviderWords
from gateway.protocols import strictjson
from gateway.protocols.http_client.connection import HttpClientConnection
from gateway.protocols.http_client.origin import Origin, Tls
from gateway.protocols.http_client.stream import WireStream
from gateway.protocols.http_client.wire import ConnectionPool, Header, WireRequest
from gateway.protocols.strictjson import dumps

_ACCEPT = {
    False: (b"accept", b"application/json"),
    True: (b"accept", b"text/event-stream"),
}
_TRACE = re.compile("[0-9a-f-]+")  # as all of them are that go to a cloud
REST_S = 0.5  # of a connection between two calls: no answer says to which of them it belongs


def endpoint_origin(url: str, tls: Tls | None = None) -> Origin:
    """Where the API stands: at the path of the base URL, or at `/v1` when it has none."""
    origin = Origin.from_url(url, tls)
    return origin if origin.base else replace(origin, base="/v1")


class OpenAiConnector:
    """One provider, as a `Connector`."""

    def __init__(
        self,
        wire: ConnectionPool,
        *,
        headers: Mapping[str, str] | None = None,
        bounds: AnswerBounds | None = None,
        paths: Mapping[OperationSpec, str] | None = None,
    ) -> None:
        """`wire` leads to the `endpoint_origin` of its base URL; `headers` go with every call and
        carry the provider's credential. `paths`: None for OpenAI's own, behind that base."""
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
        paths = paths or {each: path.removeprefix("/v1") for path, each in by_path().items()}
        self._readers = {each: partial(self._whole, each) for each in paths}
        self._starts = {
            (operation, streamed): wire.start("POST", path, (*self._headers, _ACCEPT[streamed]))
            for operation, path in paths.items()
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
            return self._open_at_length(partial(strictjson.dumps, document), request, call)
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
        self, written: Callable[[], bytes], request: InferenceRequest, call: DocumentCall
    ) -> OneFrame | EventStream:
        body = await asyncio.to_thread(written)
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
        return failures.error_from_status(status, headers, self._words.message(body, status))

    async def _refusal(self, response: WireStream) -> bytes:
        body = bytearray()
        with suppress(UpstreamError):  # the status says enough
            async for chunk in response:
                body += chunk
                if len(body) > self._bounds.refusal_bytes:
                    return b""
        return bytes(body)


def _trace_headers(request: InferenceRequest) -> tuple[Header, ...]:
    """Nothing else that the caller sent as a header goes out."""
    headers: tuple[Header, ...] = ()
    if request.traceparent:
        headers = ((b"traceparent", request.traceparent.encode()),)
    if request.tracestate:
        headers += ((b"tracestate", request.tracestate.encode()),)
    return headers
