"""Two models on one GPU, for tests: what it has learnt of them."""

from __future__ import annotations

from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.servers.sharing import SharedGpu
from gateway.scheduling.tuning import Tuning
from tests.unit.scheduling.calls import (
    BATCH,
    FIXED_S,
    FULL_S,
    PER_WORK_S,
    steady_model,
)

PLAIN = Tuning(margin=1.0, batch_safety=1.0, reserve=0.0, restricted_budget=1.0)
ALONE_S = FIXED_S + PER_WORK_S


def of(gpu: SharedGpu, tuning: Tuning = PLAIN, lead_s: float = 0.0) -> Scheduler:
    return Scheduler({"gpu": steady_model()}, BATCH, tuning, lead_s, gpus={"gpu": gpu})


def two(gpu: SharedGpu, tuning: Tuning = PLAIN, lead_s: float = 0.0) -> tuple[Scheduler, Scheduler]:
    return of(gpu, tuning, lead_s), of(gpu, tuning, lead_s)


def teach(gpu: SharedGpu, lost: float) -> None:
    """So much of the time that batches spent beside others was lost."""
    for _ in range(10):
        gpu.observe(0, steady_model(), 16.0, FULL_S, 0.0)
    for _ in range(100):
        gpu.observe(0, steady_model(), 16.0, FULL_S / (1 - lost / 2), FULL_S / (1 - lost / 2))


def in_turns() -> SharedGpu:
    gpu = SharedGpu()
    gpu.join()  # the teacher's place
    gpu.join()
    teach(gpu, lost=1.0)
    assert gpu.turns
    return gpu
