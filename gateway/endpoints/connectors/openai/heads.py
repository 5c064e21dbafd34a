"""The heads of calls to one provider: made once, and signed for each call that it asks that of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from gateway.config.providers import ProviderDescription
from gateway.core.operations.registry import OPERATIONS
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import DocumentCall, InferenceRequest
from gateway.protocols.aws import event_stream as amazon
from gateway.protocols.aws.sigv4 import Signer
from gateway.protocols.http_client.wire import ConnectionPool, Header, WireRequest

STREAMS = {"sse": b"text/event-stream", "amazon": amazon.MEDIA}
"""The media type of a description's `stream_format`."""
_WHOLE, _ANYTHING = b"application/json", b"*/*"
_MODEL = "{model}"
_TRACE = re.compile("[0-9a-f-]+")  # as all of them are that go to a cloud


class CallHeads:
    """Of POSTs that carry the same headers."""

    def __init__(
        self,
        wire: ConnectionPool,
        provider: ProviderDescription | None,
        query: Mapping[str, str] | None,
    ) -> None:
        self._wire = wire
        self._query = urlencode(query or {}, quote_via=quote, safe="")
        self._probe = _with_query(provider.probe if provider else "/models", self._query)
        self._accepted = {
            False: _WHOLE,
            True: STREAMS[provider.stream_format if provider else "sse"],
        }
        self._paths = {
            (operation, streamed): provider.path(operation.name, streamed)
            if provider
            else _own_path(operation)
            for operation in OPERATIONS.values()
            if operation.path
            for streamed in (False, True)
        }

    def carry(self, given: Mapping[str, str], signer: Signer | None = None) -> None:
        """From now on, all have these headers, and are signed where there is a signer."""
        self._signer = signer
        self._headers: tuple[Header, ...] = (
            (b"user-agent", b"spillway"),
            (b"accept-encoding", b"identity"),
            *((name.encode("ascii"), value.encode("ascii")) for name, value in given.items()),
        )
        self._starts = {
            (*call, ""): self._start(call[0], path, call[1])
            for call, path in self._paths.items()
            if path and _MODEL not in path
        }

    def head(self, request: InferenceRequest, call: DocumentCall, model: str, body: bytes) -> bytes:
        start, signer = self._starts.get((call.operation, call.streamed, "")), self._signer
        if start is None:
            start = self._start_with_model(call, model)
        trace = request.traceparent
        if signer is not None:
            headers = (*_trace_headers(request), *_signature(signer, start, body))
            return self._wire.head(start, headers, len(body))
        if request.tracestate or not _TRACE.fullmatch(trace):
            return self._wire.head(start, _trace_headers(request), len(body))
        return b"%btraceparent: %b\r\ncontent-length: %d\r\n\r\n" % (
            start, trace.encode(), len(body),
        )  # fmt: skip

    def form_head(
        self,
        request: InferenceRequest,
        call: DocumentCall,
        model: str,
        media_type: bytes,
        body: tuple[bytes, ...],
    ) -> bytes:
        """Of a call that is sent as a form."""
        path = self._paths[call.operation, call.streamed].replace(_MODEL, quote(model, safe=""))
        start = self._start(call.operation, path, call.streamed, media_type)
        headers = _trace_headers(request)
        if self._signer is not None:
            headers += _signature(self._signer, start, b"".join(body))
        return self._wire.head(start, headers, sum(map(len, body)))

    def probe(self) -> WireRequest:
        """A GET that shows whether the provider answers."""
        headers = (*self._headers, (b"content-type", _WHOLE))
        if self._signer is not None:
            start = self._wire.start("GET", self._probe, headers)
            headers += _signature(self._signer, start, b"")
        return WireRequest("GET", self._probe, headers)

    def _start(
        self, operation: OperationSpec, path: str, streamed: bool, media_type: bytes = _WHOLE
    ) -> bytes:
        binary = streamed and operation.answers_bytes is not None
        accepted = _ANYTHING if binary else self._accepted[streamed]
        headers = (*self._headers, (b"content-type", media_type), (b"accept", accepted))
        return self._wire.start("POST", _with_query(path, self._query), headers)

    def _start_with_model(self, call: DocumentCall, model: str) -> bytes:
        """Of a path that names the model. Its names at the endpoint are the settings' own, so
        that there are few."""
        key = (call.operation, call.streamed, model)
        start = self._starts.get(key)
        if start is None:
            path = self._paths[call.operation, call.streamed]
            named = path.replace(_MODEL, quote(model, safe=""))
            start = self._starts[key] = self._start(call.operation, named, call.streamed)
        return start


def _own_path(operation: OperationSpec) -> str:
    """As its API has it: behind the base of the endpoint's URL, which /v1 stands for, or beside."""
    path = operation.path
    return path.removeprefix("/v1") if path.startswith("/v1/") else f"/..{path}"


def _signature(signer: Signer, start: bytes, body: bytes) -> tuple[Header, ...]:
    made = signer.head_signature(start, body)
    return tuple([(name.encode(), value.encode()) for name, value in made.items()])


def _with_query(path: str, query: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}{query}" if query else path


def _trace_headers(request: InferenceRequest) -> tuple[Header, ...]:
    """Nothing else that the caller sent as a header goes out."""
    headers: tuple[Header, ...] = ()
    if request.traceparent:
        headers = ((b"traceparent", request.traceparent.encode()),)
    if request.tracestate:
        headers += ((b"tracestate", request.tracestate.encode()),)
    return headers
