"""Traces as OTLP has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from gateway import __version__
from gateway.core.trace_context import Attribute, Span, Trace, Value

KEYS: Final[Mapping[Attribute, str]] = {
    "protocol": "spillway.protocol",
    "operation": "spillway.operation",
    "model": "gen_ai.request.model",
    "tenant": "spillway.tenant",
    "sensitivity": "spillway.sensitivity",
    "outcome": "spillway.outcome",
    "reason": "spillway.reason",
    "attempts": "spillway.attempts",
    "endpoint": "spillway.endpoint",
    "zone": "spillway.zone",
    "result": "spillway.result",
    "error": "error.type",
}
_KINDS: Final = {"call": OtlpSpan.SPAN_KIND_SERVER, "attempt": OtlpSpan.SPAN_KIND_CLIENT}
_NO_FAULT: Final = {"served", "cancelled"}


def resource(instance: str) -> Resource:
    """Who tells: one gateway of several."""
    labels = {
        "service.name": "spillway",
        "service.version": __version__,
        "service.instance.id": instance,
    }
    return Resource(attributes=list(attributes(labels)))


def scope() -> InstrumentationScope:
    return InstrumentationScope(name="spillway", version=__version__)


def request(traces: Iterable[Trace], resource: Resource) -> ExportTraceServiceRequest:
    spans = [_span(trace, span) for trace in traces for span in trace.spans]
    scoped = ScopeSpans(scope=scope(), spans=spans)
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=resource, scope_spans=[scoped])]
    )


def attributes(given: Mapping[str, Value]) -> Iterator[KeyValue]:
    for key, value in given.items():
        if isinstance(value, str):
            yield KeyValue(key=key, value=AnyValue(string_value=value))
        elif isinstance(value, int):
            yield KeyValue(key=key, value=AnyValue(int_value=value))
        else:
            yield KeyValue(key=key, value=AnyValue(double_value=value))


def _span(trace: Trace, span: Span) -> OtlpSpan:
    end_s = span.start_s if span.end_s is None else span.end_s
    return OtlpSpan(
        trace_id=bytes.fromhex(trace.id),
        span_id=bytes.fromhex(span.id),
        parent_span_id=bytes.fromhex(span.parent),
        name=f"spillway.{span.name}",
        kind=_KINDS.get(span.name, OtlpSpan.SPAN_KIND_INTERNAL),
        start_time_unix_nano=int((span.start_s + trace.wall_s) * 1e9),
        end_time_unix_nano=int((end_s + trace.wall_s) * 1e9),
        attributes=list(attributes({KEYS[key]: value for key, value in span.attributes.items()})),
        flags=1,
        status=Status(code=_status(span)),
    )


def _status(span: Span) -> Status.StatusCode.ValueType:
    """A call that was refused is no fault of this server, nor is one whose caller left."""
    failed = span.attributes.get("outcome") == "failed"
    if span.name == "attempt":
        failed = span.attributes.get("result", "served") not in _NO_FAULT
    return Status.STATUS_CODE_ERROR if failed else Status.STATUS_CODE_UNSET
