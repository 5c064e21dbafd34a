"""What a process has once, whatever settings its calls come to: money, limits, the audit."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gateway.accounting import otlp
from gateway.accounting.audit.actions import Actions
from gateway.accounting.ledger.store import LedgerStore
from gateway.accounting.live.decisions import Decisions
from gateway.accounting.measures import measures_for
from gateway.accounting.metrics import Metrics
from gateway.app.endpoint_set import ProcessServices
from gateway.app.factories import audit_writer, spill_control
from gateway.app.generation import SharedResources
from gateway.app.ledger import new_ledger
from gateway.config import ConfigError, Settings, TelemetrySettings
from gateway.core.aliases import Aliases
from gateway.core.deadline import Clock
from gateway.core.held_bytes import HeldBytes
from gateway.core.types import Quota
from gateway.endpoints.triton.supervisor import SupervisorPort
from gateway.pipeline.admission import Admission
from gateway.pipeline.rate_limits import RateLimits

if TYPE_CHECKING:
    from gateway.accounting.otlp.collector import OtlpExporter
    from gateway.cluster.workers.siblings import SiblingWorker
    from gateway.cluster.workers.worker import Worker

log = logging.getLogger(__name__)

_LARGEST_HELD = 4  # bodies, and answers, at least: two of them by one caller


class ProcessParts:
    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        clock: Clock,
        keeper: SupervisorPort,
        aliases: Aliases,
        store: LedgerStore | None,
        worker: Worker | None,
        siblings: SiblingWorker | None,
    ) -> None:
        """`store`: without one nothing is kept of what calls cost. `worker`: which of several this
        process is. Raises ConfigError."""
        self.metrics = metrics
        self._store = store
        self.spill = spill_control(settings, clock)
        self.ledger = (
            None if store is None else new_ledger(store, settings, self.spill, metrics, clock)
        )
        place = () if worker is None else (worker.place.number, worker.place.count)
        self.audit = audit_writer(settings.audit, metrics, *place)
        self.actions = Actions(self.audit)
        measures = measures_for(metrics)
        self.decisions = Decisions(measures, clock, settings.console.tail)
        if settings.console.enabled:
            measures.watch = self.decisions.take
            measures.watch_answers = self.decisions.answered
        self.admission = Admission(settings.limits) if worker is None else worker.admission()
        self.collector = _collector(settings.telemetry, metrics)
        limits = settings.limits
        self.shared = SharedResources(
            ProcessServices(
                keeper,
                self.spill,
                metrics,
                clock,
                self._scheduler_failed,
                self.audit,
                self._scheduler_resumed,
            ),
            self.admission,
            RateLimits(clock, self._limit_refused)
            if worker is None
            else worker.limits(self._limit_refused),
            self.audit,
            self.ledger,
            lambda: not self.audit.failing,
            None if self.collector is None else self.collector.take,
            aliases,
            HeldBytes(max(limits.max_held_bytes, _LARGEST_HELD * limits.max_body_bytes)),
            HeldBytes(max(limits.max_held_answer_bytes, _LARGEST_HELD * limits.max_answer_bytes)),
            None if worker is None else worker.marks,
            None if siblings is None else siblings.queues,
        )

    def follow(self, settings: Settings) -> None:
        """Use the secrets of these settings from now on."""
        if self.collector is not None:
            self.collector.follow(settings.telemetry)
        if self._store is not None and settings.ledger.postgres is not None:
            self._store.follow(settings.ledger.postgres.get_secret_value())

    def _scheduler_failed(self, exc: Exception) -> None:
        self.metrics.scheduler_failures.inc()
        log.error("a queue's scheduler failed; a simple rule goes on in its place", exc_info=exc)

    def _scheduler_resumed(self) -> None:
        log.warning("a queue's scheduler decides again in the place of the simple rule")

    def _limit_refused(self, quota: Quota, what: str) -> None:
        self.metrics.limit_refusals.labels(quota.tenant, quota.kind, what).inc()


def _collector(telemetry: TelemetrySettings, metrics: Metrics) -> OtlpExporter | None:
    if telemetry.otlp_url is None:
        return None
    try:  # an extra: most gateways are scraped, and trace nothing
        from gateway.accounting.otlp.collector import OtlpExporter
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"telemetry.otlp_url: needs the package {exc.name}; install {otlp.EXTRA}"
        ) from None
    return OtlpExporter(telemetry, metrics)
