"""The parts that serve calls by one version of the settings, made and put together once."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.accounting.metrics import Metrics
from gateway.accounting.spill import SpillControl
from gateway.config import HealthSettings
from gateway.config.model_catalog import Catalog
from gateway.core.deadline import Clock
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.outcomes import Outcomes
from gateway.endpoints.queueing.conditions import ConditionsReader
from gateway.endpoints.queueing.declared import DeclaredServers
from gateway.endpoints.queueing.entry import QueueEntry
from gateway.endpoints.recovery import Recovery
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.snapshot import Snapshots
from gateway.endpoints.state import EndpointState
from gateway.endpoints.versions.handover import Handover
from gateway.scheduling.queued_calls import Weights
from gateway.scheduling.queues import ModelQueues, NewScheduler


@dataclass(frozen=True, slots=True)
class EndpointParts:
    """Whoever uses some of them takes those; nobody needs all."""

    registry: EndpointRegistry
    queues: ModelQueues
    clouds: Clouds
    conditions: ConditionsReader
    entry: QueueEntry
    snapshots: Snapshots
    recovery: Recovery
    outcomes: Outcomes
    handover: Handover
    spill: SpillControl


def build_parts(
    catalog: Catalog,
    states: dict[str, EndpointState],
    metrics: Metrics,
    clock: Clock,
    weights: Weights,
    scheduler: NewScheduler,
    spill: SpillControl | None = None,
    health: HealthSettings | None = None,
) -> EndpointParts:
    spill = spill or SpillControl.unlimited(clock)
    declared = DeclaredServers(catalog, states)
    queues = ModelQueues(
        weights, scheduler, declared.expected_s, declared.execution, clock, declared.measured
    )
    registry = EndpointRegistry(catalog, states, queues, spill, health or HealthSettings(), clock)
    clouds = Clouds(states, registry.model_state, clock, catalog)
    handover = Handover(registry, queues, clouds)
    conditions = ConditionsReader(registry, queues, clouds, handover, spill)
    queues.read_conditions = conditions.read
    queues.changed = registry.candidates.end_epochs
    entry = QueueEntry(registry, queues, metrics)
    recovery = Recovery(registry, clouds, metrics, clock)
    return EndpointParts(
        registry=registry,
        queues=queues,
        clouds=clouds,
        conditions=conditions,
        entry=entry,
        snapshots=Snapshots(registry, queues, clouds, spill, clock),
        recovery=recovery,
        outcomes=Outcomes(registry, queues, clouds, recovery, metrics, clock),
        handover=handover,
        spill=spill,
    )
