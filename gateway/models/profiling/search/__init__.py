"""The search for how to serve a model: precision, instances, threads, and batching.

`space` says what may be tried, `climb` in which order and what wins, `trial` measures one choice at
a Triton of its own, `record` saves the measurements next to the model, `picture` draws them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from gateway.models.declaration import Declaration
from gateway.models.declaration.serving import (
    BatchingDeclaration,
    InstancesDeclaration,
    ServingTarget,
)
from gateway.models.declaration.tensors import Precision
from gateway.models.profiling import LoadPoint

_EMBEDDED = ServingTarget.EMBEDDED


@dataclass(frozen=True, slots=True)
class ServingChoice:
    """One way to serve a model from the embedded Triton."""

    precision: Precision | None  # None: the graph has no variants
    instances: int
    threads: int | None  # of each instance; None: the runtime's own
    max_batch: int  # 0: the model has no batch axis
    dynamic: bool
    preferred: tuple[int, ...] = ()
    delay_us: int = 0

    @classmethod
    def from_declaration(cls, declared: Declaration) -> ServingChoice:
        served, batching = declared.targets[_EMBEDDED], declared.batching
        own = declared.graph.precision if declared.graph else None
        batched = declared.max_batch > 0 and batching.dynamic
        return cls(
            served.precision or own,
            served.instances.count,
            served.instances.threads,
            declared.max_batch,
            batched,
            batching.preferred if batched else (),
            batching.delay_us if batched else 0,
        )

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> ServingChoice:
        """Raises ValueError, TypeError, KeyError."""
        precision = document["precision"]
        fields = {
            **document,
            "precision": None if precision is None else Precision(precision),
            "preferred": tuple(document["preferred"]),
        }
        return cls(**fields)

    def applied(self, declared: Declaration) -> Declaration:
        """The declaration of a model that is served so. Only what differs from it changes."""
        served = declared.targets[_EMBEDDED]
        own = declared.graph.precision if declared.graph else None
        if self.precision != (served.precision or own):
            precision = None if self.precision is own else self.precision
            served = served.model_copy(update={"precision": precision})
        instances = InstancesDeclaration(count=self.instances, threads=self.threads)
        served = served.model_copy(update={"instances": instances})
        changes: dict[str, Any] = {"targets": {**declared.targets, _EMBEDDED: served}}
        if declared.batch is not None:
            batching = BatchingDeclaration(
                dynamic=self.dynamic,
                rows_independent=declared.batching.rows_independent,
                preferred=self.preferred,
                delay_us=self.delay_us,
            )
            most = self.max_batch
            opt, least = min(declared.batch.opt, most), min(declared.batch.min, most)
            batch = declared.batch.model_copy(update={"min": least, "opt": opt, "max": most})
            changes |= {"batching": batching, "batch": batch}
        return declared.model_copy(update=changes)

    def __str__(self) -> str:
        """With instances x threads; `-` are the runtime's own threads."""
        return ", ".join(self._words())

    def _words(self) -> Iterator[str]:
        if self.precision is not None:
            yield self.precision.value
        yield f"{self.instances}x{self.threads or '-'}"
        if self.max_batch:
            yield f"batch {self.max_batch}" if self.dynamic else "no batching"
        if self.delay_us:
            yield f"{self.delay_us} us"
        if self.preferred:
            yield f"preferred {' '.join(map(str, self.preferred))}"


@dataclass(frozen=True, slots=True)
class ChoiceTrial:
    """What was measured of a choice: more and more callers, a row each."""

    choice: ServingChoice
    loads: tuple[LoadPoint, ...] = ()
    failure: str = ""  # why it does not serve

    def best(self, limit_s: float | None) -> LoadPoint | None:
        """The most calls a second of which 99 in 100 are answered within the limit."""
        within = [p for p in self.loads if limit_s is None or p.p99_s <= limit_s]
        return max(within, key=lambda point: point.calls_per_s, default=None)

    def score(self, limit_s: float | None) -> float:
        """Calls a second; below 0, and the higher the quicker it answers, where none is within the
        limit."""
        if (point := self.best(limit_s)) is not None:
            return point.calls_per_s
        return -min((p.p99_s for p in self.loads), default=float("inf"))

    def merged(self, again: ChoiceTrial) -> ChoiceTrial:
        """Both measurements, in the mean, of as many callers as both had."""
        pairs = zip(self.loads, again.loads, strict=False)
        return ChoiceTrial(self.choice, tuple(_mean(*pair) for pair in pairs), again.failure)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> ChoiceTrial:
        """Raises ValueError, TypeError, KeyError."""
        loads = tuple(LoadPoint(**point) for point in document["loads"])
        return cls(ServingChoice.from_json(document["choice"]), loads, document["failure"])


def _mean(one: LoadPoint, other: LoadPoint) -> LoadPoint:
    values = {
        key: (value + getattr(other, key)) / 2
        for key, value in asdict(one).items()
        if key != "callers"
    }
    return LoadPoint(callers=one.callers, **values)
