"""What a Triton server says of itself, and how much that counts for.

Read every so often; between two readings, and while none comes, the gateway counts for itself what
it has sent (S2). A server whose statistics are old is not idle and not out: it is `stale`, a state
of its own, in which only the gateway's own count is used (S3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from gateway.core.deadline import Clock
from gateway.core.errors import UpstreamFailed

_MISSED = 3  # readings in a row


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """Batches of one size: how many were executed, and how long that took in all."""

    count: int
    compute_s: float


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """Counters of one model since its server started; all versions together."""

    executions: int = 0
    inferences: int = 0
    failures: int = 0
    queued_s: float = 0.0
    batches: Mapping[int, BatchFigures] = field(default_factory=dict)


def read(raw: bytes) -> dict[str, ModelFigures]:
    """A `ModelStatisticsResponse`, by model."""
    message = service_pb2.ModelStatisticsResponse()
    try:
        message.ParseFromString(raw)
    except DecodeError:
        raise UpstreamFailed("the server's statistics are not of the protocol") from None
    figures: dict[str, ModelFigures] = {}
    for one in message.model_stats:
        figures[one.name] = _sum(figures.get(one.name, ModelFigures()), one)
    return figures


def _sum(known: ModelFigures, one: service_pb2.ModelStatistics) -> ModelFigures:
    batches = dict(known.batches)
    for batch in one.batch_stats:
        size, infer = int(batch.batch_size), batch.compute_infer
        before = batches.get(size, BatchFigures(0, 0.0))
        batches[size] = BatchFigures(before.count + infer.count, before.compute_s + infer.ns / 1e9)
    return ModelFigures(
        known.executions + one.execution_count,
        known.inferences + one.inference_count,
        known.failures + one.inference_stats.fail.count,
        known.queued_s + one.inference_stats.queue.ns / 1e9,
        batches,
    )


@dataclass(slots=True)
class ServerStatistics:
    """The last reading of one server, and its age."""

    clock: Clock
    period_s: float
    models: Mapping[str, ModelFigures] = field(default_factory=dict)
    read_s: float = 0.0

    def __post_init__(self) -> None:
        self.read_s = self.clock()  # the first reading has its time too

    def learn(self, models: Mapping[str, ModelFigures]) -> None:
        self.models, self.read_s = models, self.clock()

    @property
    def stale(self) -> bool:
        # guard: S3.stale-statistics -> return False
        return self.clock() - self.read_s > _MISSED * self.period_s

    @property
    def state(self) -> str:
        return "stale" if self.stale else "fresh"


@dataclass(slots=True)
class StallWatch:
    """Calls in flight and not one execution: the batcher sleeps, or the device hangs (S8)."""

    clock: Clock
    executions: int = -1
    since_s: float = 0.0
    reported: bool = False  # of the stall that lasts

    def flat_s(self, executions: int, requested: bool) -> float:
        """For how long the model has had calls and executed nothing."""
        if executions != self.executions or not requested:  # guard: S8.idle-server minus 2
            self.executions, self.since_s, self.reported = executions, self.clock(), False
        return self.clock() - self.since_s
