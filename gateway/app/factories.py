"""What the settings make of the parts that stand apart: policy, shadows, budgets, the
audit."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from gateway.accounting.audit.journal.journal import Journal, JournalOptions
from gateway.accounting.audit.journal.segments import worker_directory
from gateway.accounting.audit.journal.spool import Spool
from gateway.accounting.audit.writer.writer import AuditWriter
from gateway.accounting.ledger.limits import EVERYBODY, BudgetLimits
from gateway.accounting.metrics import Metrics
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.config import AuditSettings, QueueSettings, RoutingSettings, Settings
from gateway.core import ambient
from gateway.core.deadline import Clock
from gateway.pipeline.retries import RetryBudget
from gateway.scheduling.factory import new_scheduler, weights
from gateway.scheduling.routing.policy import Policy

if TYPE_CHECKING:
    from gateway.endpoints.versions.parts import EndpointParts
    from gateway.pipeline.shadow.shadows import Shadows


def audit_writer(
    settings: AuditSettings, metrics: Metrics, worker: int | None = None, workers: int = 1
) -> AuditWriter:
    """`worker`: of several, each of which has a chain of its own."""
    spool = None
    if settings.on_failure == "spool":
        spool = Spool(settings.spool_max_bytes // workers, settings.spool_directory)
    origin, directory = settings.origin or f"spillway/{socket.gethostname()}", settings.directory
    if worker is not None:
        origin, directory = f"{origin}/worker-{worker}", worker_directory(directory, worker)
    keeping = JournalOptions(
        directory=directory,
        origin=origin,
        signing_key=settings.signing_key,
        segment_max_bytes=settings.segment_max_bytes,
        retain_days=settings.retain_days,
    )
    return AuditWriter(Journal(keeping, spool), metrics, settings.checkpoint_s)


def spill_control(settings: Settings, clock: Clock) -> SpillControl:
    limits = spill_limits(settings)
    everybody = limits.pop(EVERYBODY)
    limited = {name: own for name, own in limits.items() if own}
    budgets = SpillBudgets(everybody, limited, clock, ambient.wall_s)
    return SpillControl(
        spill_stop(settings, clock),
        budgets,
        allowed=not settings.routing.closes_cloud,
        lease_wait_s=settings.ledger.lease_wait_ms / 1000,
    )


def spill_stop(settings: Settings, clock: Clock) -> SpillStop:
    return SpillStop(settings.routing.spill_stop_file, clock)


def spill_limits(settings: Settings) -> dict[str, BudgetLimits]:
    """Of everybody and of each tenant, some without any."""
    routing = settings.routing
    everybody = BudgetLimits.usd(
        routing.spill_budget_usd_per_day,
        routing.spill_budget_usd_per_month,
        routing.spill_budget_usd_total,
    )
    tenant_limits = {
        name: BudgetLimits.usd(
            tenant.spill_budget_usd_per_day,
            tenant.spill_budget_usd_per_month,
            tenant.spill_budget_usd_total,
        )
        for name, tenant in settings.tenants.items()
    }
    return {EVERYBODY: everybody, **tenant_limits}


def policy(routing: RoutingSettings) -> Policy:
    return Policy(
        spill=not routing.closes_cloud,
        margin=routing.margin,
        miss_penalty_usd=routing.miss_penalty_usd,
        max_attempts=routing.max_attempts,
    )


def shadows(
    live: RoutingSettings, queues: QueueSettings, parts: EndpointParts, metrics: Metrics,
    clock: Clock,
) -> Shadows | None:  # fmt: skip
    """None where there are none: then nobody pays for them."""
    if not live.shadows:
        return None
    # Most gateways have none.
    from gateway.pipeline.shadow.shadow import Rules
    from gateway.pipeline.shadow.shadows import Shadows

    rules = {}
    for name, its in live.shadows.items():
        routing, queue = its.over(live, queues)
        rules[name] = Rules(policy(routing), weights(queue, routing), new_scheduler(queue, routing))
    return Shadows(
        rules, parts.queues, parts.registry.candidates, parts.conditions, metrics,
        live.shadow_share, clock,
    )  # fmt: skip


def retry_budget(settings: Settings, clock: Clock) -> RetryBudget:
    routing = settings.routing
    return RetryBudget(clock, routing.retry_share, routing.retry_reserve)
