"""What the settings make of the queues: the policy that decides, and what it weighs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from gateway.config import QueueSettings, RoutingSettings
from gateway.scheduling.calls import Scheduling
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.queued_calls import Weights
from gateway.scheduling.queues import NewScheduler
from gateway.scheduling.rules.baselines import RULES, OnArrival
from gateway.scheduling.rules.failsafe import Guarded
from gateway.scheduling.rules.priorities import PRIORITIES, ByPriority
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.servers.sharing import SharedGpu
from gateway.scheduling.tuning import DEFAULT

BEST_SET = "best_set"
ROUND_TRIP_S: Final = 0.001  # assumed, until an answer comes sooner


def weights(queue: QueueSettings, routing: RoutingSettings) -> Weights:
    return Weights(
        miss_penalty_usd=routing.miss_penalty_usd,
        restricted_factor=routing.restricted_factor,
        aging_s=queue.aging_s,
    )


def _raised(exc: Exception) -> None:
    raise exc


def new_scheduler(
    queue: QueueSettings,
    routing: RoutingSettings,
    failed: Callable[[Exception], None] = _raised,
    resumed: Callable[[], None] = lambda: None,
) -> NewScheduler:
    """The scheduler of a new queue: the set of calls that stays, or a simple rule. `failed` is told
    of one that raised, in whose place the rule with priorities goes on until `resumed`; a
    simulation ends there instead."""
    tuning = replace(DEFAULT, margin=routing.margin, max_waiting=queue.max_waiting)
    lead_s = None if queue.lead_ms is None else queue.lead_ms / 1000

    def best_set(
        servers: Mapping[str, BatchModel], rows: int, ahead: bool, gpus: Mapping[str, SharedGpu]
    ) -> Scheduling:
        def scheduler() -> Scheduler:
            lead = lead_s if ahead else 0.0
            return Scheduler(servers, rows, tuning, lead, ROUND_TRIP_S, gpus)

        def rule() -> ByPriority:
            return ByPriority(servers, rows, queue.max_waiting)

        return Guarded(scheduler(), rule, failed, scheduler, resumed)

    def by_rule(
        servers: Mapping[str, BatchModel], rows: int, ahead: bool, gpus: Mapping[str, SharedGpu]
    ) -> Scheduling:
        if routing.policy == PRIORITIES:
            return ByPriority(servers, rows, queue.max_waiting)
        return OnArrival(servers, rows, RULES[routing.policy], queue.max_waiting)

    return best_set if routing.policy == BEST_SET else by_rule
