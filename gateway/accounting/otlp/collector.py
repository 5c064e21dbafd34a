"""Sends what has been gathered to a collector, every so often.

No call waits for it, and what the collector does not take is dropped and counted: one that is out
costs memory for so many traces and no more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from gateway.accounting.metrics import Metrics
from gateway.accounting.otlp import figures, spans
from gateway.config import TelemetrySettings
from gateway.core import ambient
from gateway.core.deadline import Deadline
from gateway.core.errors import GatewayError
from gateway.core.trace_context import Trace
from gateway.protocols.http_client.origin import Origin, trusting
from gateway.protocols.http_client.wire import ConnectionPool, Header, WireRequest

log = logging.getLogger(__name__)

_MOST_TRACES: Final = 2048  # that wait to be sent; about 10 kB each
_AT_ONCE: Final = 512
_EVERY_S: Final = 1.0
_PATIENCE_S: Final = 5.0
_AGAIN: Final = {429, 502, 503, 504}  # OTLP, "Retryable response codes"
_CONNECT_S: Final = 2.0


class Message(Protocol):
    def SerializeToString(self) -> bytes: ...


class OtlpExporter:
    def __init__(self, settings: TelemetrySettings, metrics: Metrics) -> None:
        assert settings.otlp_url is not None
        self._settings = settings
        self._metrics = metrics
        self._wire = _wire(settings.otlp_url, settings)
        self._headers: tuple[Header, ...] = ()
        self.follow(settings)
        self._traces: deque[Trace] = deque()
        self._since_s = ambient.wall_s()
        self._resource = spans.resource(ambient.new_id())
        self._out = False

    def follow(self, settings: TelemetrySettings) -> None:
        """Send the headers of these settings from now on."""
        self._headers = (
            (b"content-type", b"application/x-protobuf"),
            *((n.lower().encode(), v.get_secret_value().encode())
              for n, v in settings.headers.items()),
        )  # fmt: skip

    def take(self, trace: Trace) -> None:
        """Called when a call has ended; returns at once."""
        if len(self._traces) >= _MOST_TRACES:  # guard: T3.trace-queue
            self._metrics.traces_dropped.labels("queue_full").inc()
            return
        self._traces.append(trace)

    async def run(self, refresh: Callable[[], object]) -> None:
        """`refresh` brings the gauges up to date before they are pushed."""
        next_push_s = ambient.monotonic_s() + self._settings.push_metrics_s
        try:
            while True:
                await asyncio.sleep(_EVERY_S)
                await self.send_traces()
                if self._settings.push_metrics and ambient.monotonic_s() >= next_push_s:
                    next_push_s += self._settings.push_metrics_s
                    refresh()
                    await self.send_metrics()
        finally:
            self._wire.close()

    async def send_traces(self) -> None:
        """All that wait; as far as the collector takes them."""
        while self._traces:
            batch = [self._traces.popleft() for _ in range(min(_AT_ONCE, len(self._traces)))]
            # In a thread: 512 traces are 100 ms of writing.
            message = await asyncio.to_thread(spans.request, batch, self._resource)
            sent = await self._post("/v1/traces", message)
            if sent is None and len(self._traces) + len(batch) <= _MOST_TRACES:
                self._traces.extendleft(reversed(batch))  # once more with the next ones
                return
            if not sent:
                why = "queue_full" if sent is None else "refused"
                self._metrics.traces_dropped.labels(why).inc(len(batch))
                return

    async def send_metrics(self) -> None:
        now_s = ambient.wall_s()
        registry = self._metrics.registry
        message = figures.request(registry, self._resource, self._since_s, now_s)
        await self._post("/v1/metrics", message)

    async def _post(self, path: str, message: Message) -> bool | None:
        """Whether the collector took it; None: it may at another time."""
        request = WireRequest("POST", path, self._headers, (message.SerializeToString(),))
        try:
            answer = await self._wire.fetch(request, Deadline.after(_PATIENCE_S))
        except GatewayError as error:
            self._report_failure(error.reason)
            return None
        except Exception:  # noqa: BLE001 - a background loop goes on; the bug is counted
            self._metrics.tasks_failed.labels("otlp").inc()
            return False
        if answer.status == 200:
            self._out = False
            return True
        self._report_failure(f"status {answer.status}")
        # guard: T3.collector-retry -> return False
        return None if answer.status in _AGAIN else False

    def _report_failure(self, why: str) -> None:
        if not self._out:
            log.warning("the collector of telemetry takes nothing: %s", why)
        self._out = True


def _wire(url: str, settings: TelemetrySettings) -> ConnectionPool:
    ca_file = str(settings.ca_file) if settings.ca_file else None
    origin = Origin.from_url(
        url, trusting(ca_file) if ca_file and url.startswith("https:") else None
    )
    return ConnectionPool(
        origin, connect_timeout_s=_CONNECT_S, max_connections=1, max_body_bytes=1024 * 1024
    )
