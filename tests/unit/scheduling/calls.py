"""Calls for tests: what matters by name, the rest unremarkable. Batches of 16 take 40 ms."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from gateway.scheduling.calls import (
    Action,
    CloudPermission,
    QueuedCall,
    Refuse,
    Release,
    Scheduling,
    SpillNow,
)
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import Tail
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.tuning import Tuning

FIXED_S, PER_WORK_S, BATCH = 0.008, 0.002, 16
FULL_S = FIXED_S + BATCH * PER_WORK_S
_ids = count()


def steady_model() -> BatchModel:
    """It has seen enough to be sure."""
    model = BatchModel(FIXED_S, PER_WORK_S)
    for at in range(64):
        work = float(1 + at % BATCH)
        model.observe(work, FIXED_S + PER_WORK_S * work)
    return model


def cloud(seconds: float) -> Tail:
    tail = Tail(seconds)
    for _ in range(600):
        tail.observe(seconds)
    return tail


CLOUD = cloud(0.02)


def clear(
    budget_s: float = 1.0, at_s: float = 0.0, penalty: float = 3.0, price: float = 1.0,
    work: float = 1.0, tail: Tail | None = CLOUD,
) -> QueuedCall:  # fmt: skip
    return QueuedCall(
        id=next(_ids), arrived_s=at_s, deadline_s=at_s + budget_s, penalty=penalty, price=price,
        work=work, leave=CloudPermission.FREELY, restricted=False, cloud=tail,
    )  # fmt: skip


def restricted(
    budget_s: float = 1.0, at_s: float = 0.0, penalty: float = 6.0, work: float = 1.0
) -> QueuedCall:
    return QueuedCall(
        id=next(_ids), arrived_s=at_s, deadline_s=at_s + budget_s, penalty=penalty, work=work
    )


def scheduler(
    servers: int = 1, tuning: Tuning | None = None, lead_s: float | None = 0.0,
    round_trip_s: float = 0.0,
) -> Scheduler:  # fmt: skip
    """Without the margins, so that tests reckon with the model's own numbers."""
    tuning = tuning or Tuning(margin=1.0, batch_safety=1.0, reserve=0.0, restricted_budget=1.0)
    models = {f"gpu-{i}": steady_model() for i in range(servers)}
    return Scheduler(models, BATCH, tuning, lead_s, round_trip_s)


@dataclass(slots=True)
class Seen:
    """What a scheduler wanted, in order."""

    releases: list[Release] = field(default_factory=list)
    spilled: list[QueuedCall] = field(default_factory=list)
    refused: list[Refuse] = field(default_factory=list)

    def __call__(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            if isinstance(action, Release):
                self.releases.append(action)
            elif isinstance(action, SpillNow):
                self.spilled.append(action.call)
            else:
                self.refused.append(action)
        return actions

    @property
    def sent(self) -> list[QueuedCall]:
        return [call for release in self.releases for call in release.calls]


def finish(waits: Scheduling, release: Release, now_s: float) -> list[Action]:
    """Every call of a batch is answered."""
    actions: list[Action] = []
    for call in release.calls:
        actions += waits.ended(call.id, True, now_s)
    return actions
