"""What the settings make of the parts that stand apart: policy, budgets, the audit."""

from __future__ import annotations

import socket

from gateway import ambient
from gateway.accounting.metrics import Metrics
from gateway.audit.journal import Journal, Keeping
from gateway.audit.spool import Spool
from gateway.audit.writer import AuditWriter
from gateway.config import AuditSettings, Settings
from gateway.deadline import Clock
from gateway.ledger.limits import Limits
from gateway.retries import RetryBudget
from gateway.routing.policy import Policy
from gateway.spill import SpillBudgets, SpillControl, SpillStop


def audit_writer(settings: AuditSettings, metrics: Metrics) -> AuditWriter:
    spool = None
    if settings.on_failure == "spool":
        spool = Spool(settings.spool_max_bytes, settings.spool_directory)
    keeping = Keeping(
        directory=settings.directory,
        origin=settings.origin or f"spillway/{socket.gethostname()}",
        signing_key=settings.signing_key,
        segment_max_bytes=settings.segment_max_bytes,
        retain_days=settings.retain_days,
    )
    return AuditWriter(Journal(keeping, spool), metrics, settings.checkpoint_s)


def spill_control(settings: Settings, clock: Clock) -> SpillControl:
    routing = settings.routing
    everybody = Limits.usd(
        routing.spill_budget_usd_per_day,
        routing.spill_budget_usd_per_month,
        routing.spill_budget_usd_total,
    )
    of_tenants = {
        name: Limits.usd(
            tenant.spill_budget_usd_per_day,
            tenant.spill_budget_usd_per_month,
            tenant.spill_budget_usd_total,
        )
        for name, tenant in settings.tenants.items()
    }
    limited = {name: limits for name, limits in of_tenants.items() if limits}
    return SpillControl(
        SpillStop(routing.spill_stop_file, clock),
        SpillBudgets(everybody, limited, clock, ambient.wall_s),
    )


def policy(settings: Settings) -> Policy:
    return Policy(
        spill=settings.routing.spill,
        margin=settings.routing.margin,
        miss_penalty_usd=settings.routing.miss_penalty_usd,
        max_attempts=settings.routing.max_attempts,
    )


def retry_budget(settings: Settings, clock: Clock) -> RetryBudget:
    routing = settings.routing
    return RetryBudget(clock, routing.retry_share, routing.retry_reserve)
