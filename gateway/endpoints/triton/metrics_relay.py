"""Reads the metrics that Triton servers tell, every so often, for the gateway to tell on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from gateway.accounting import triton
from gateway.accounting.metrics import Metrics
from gateway.accounting.triton import TritonFigures
from gateway.config import EndpointSettings
from gateway.core.deadline import Deadline
from gateway.core.errors import GatewayError
from gateway.protocols.http_client.origin import Origin, trusting
from gateway.protocols.http_client.wire import ConnectionPool, WireRequest

log = logging.getLogger(__name__)

_MOST_BYTES = 4 * 1024 * 1024  # 30 kB for 20 models: one that tells more is none that we know
_REQUEST = WireRequest("GET", "")

FindPort = Callable[[str], int | None]
"""Where the embedded server of an endpoint tells its metrics; None: it has none."""


class MetricsRelay:
    """One reader for each Triton server that tells its metrics anywhere."""

    def __init__(
        self,
        endpoints: Mapping[str, EndpointSettings],
        find_port: FindPort,
        figures: TritonFigures,
        metrics: Metrics,
        period_s: float,
    ) -> None:
        self._figures = figures
        self._metrics = metrics
        self._period_s = period_s
        self._wires: dict[str, ConnectionPool] = {}
        for name, settings in endpoints.items():
            if (url := _url(settings, find_port(name))) is not None:
                self._wires[name] = _wire(url, settings)
                figures.expect(name, period_s)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for name in self._wires:
                    group.create_task(self._run_one(name))
        finally:
            for wire in self._wires.values():
                wire.close()

    async def _run_one(self, name: str) -> None:
        reported = False
        while True:
            await self.read(name)
            stale = self._figures.fresh(name) is None
            if stale and not reported:
                log.warning("%s: its metrics cannot be read; there are none of it in ours", name)
            reported = stale
            await asyncio.sleep(self._period_s)

    async def read(self, name: str) -> None:
        """One reading. None that fails changes anything but the age of the last one."""
        try:
            answer = await self._wires[name].fetch(_REQUEST, Deadline.after(self._period_s))
            if answer.status == 200:  # in a thread: 20 models are 5 ms of reading
                figures = await asyncio.to_thread(triton.read, answer.body)
                self._figures.learn(name, figures)
        except (GatewayError, ValueError):  # it is out, or talks nonsense
            return
        except Exception:  # noqa: BLE001 - a background loop goes on; the bug is counted
            self._metrics.tasks_failed.labels("triton_metrics").inc()


def _url(settings: EndpointSettings, port: int | None) -> str | None:
    return f"http://127.0.0.1:{port}" if port is not None else settings.metrics_url


def _wire(url: str, settings: EndpointSettings) -> ConnectionPool:
    ca_file = str(settings.ca_file) if settings.ca_file else None
    origin = Origin.from_url(url, trusting(ca_file) if ca_file else None)
    # guard: T2.exposition-size _MOST_BYTES -> 1 << 30
    return ConnectionPool(
        Origin(origin.host, origin.port, origin.tls, origin.base or "/metrics"),
        connect_timeout_s=settings.connect_timeout_ms / 1000,
        max_connections=1,
        max_body_bytes=_MOST_BYTES,
    )
