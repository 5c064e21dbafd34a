"""A collector of OpenTelemetry: a real socket, OTLP over HTTP, every message parsed and kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class Seen:
    """One span, as text where the protocol has bytes."""

    trace: str
    id: str
    parent: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    told: dict[str, Any]
    failed: bool


@dataclass
class Receiver:
    status: int = 200
    raw: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    traces: list[ExportTraceServiceRequest] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)
    url: str = ""

    def spans(self, trace: str = "") -> list[Seen]:
        """In the order in which they began."""
        found = [
            _seen(span)
            for message in tuple(self.traces)
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted((s for s in found if trace in ("", s.trace)), key=lambda s: s.start_ns)

    def took(self, path: str, headers: dict[str, str], body: bytes) -> int:
        self.raw.append(body)
        self.headers.append(headers)
        if self.status == 200:
            if path == "/v1/traces":
                self.traces.append(ExportTraceServiceRequest.FromString(body))
            elif path == "/v1/metrics":
                self.metrics.append(ExportMetricsServiceRequest.FromString(body))
            else:
                return 404
        return self.status


def _seen(span: Any) -> Seen:
    told = {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}
    return Seen(
        span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name, span.kind,
        span.start_time_unix_nano, span.end_time_unix_nano, told, span.status.code == 2,
    )  # fmt: skip


@contextmanager
def collector() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {k.lower(): v for k, v in self.headers.items()}
            self.send_response(receiver.took(self.path, headers, body))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
