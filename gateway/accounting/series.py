"""The only kinds of metric that there are here: none can grow without end.

A label has at most `MOST_VALUES` values of a metric; whatever comes later counts as `other`. So ten
thousand tenants or models cost Prometheus what a thousand do, and the sums stay right. A registry
takes nothing else, so that no metric can be without its cap.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, Protocol, Self

import prometheus_client as client
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from gateway.core import ambient

MOST_VALUES: Final = 1000
_LONGEST: Final = 256  # characters of a name that is worth a series
OTHER: Final = "other"


class Cap:
    """What each label of one metric has had."""

    def __init__(self) -> None:
        self._had: dict[int, set[str]] = {}

    def admitted(self, values: Sequence[object]) -> tuple[str, ...]:
        return tuple(self._one(at, str(value)) for at, value in enumerate(values))

    def _one(self, at: int, value: str) -> str:
        had = self._had.get(at)
        if had is None:
            had = self._had[at] = set()
        if value in had:
            return value
        # guard: T1.label-values minus 1
        # guard: T1.label-length minus 2
        if len(had) >= MOST_VALUES or len(value) > _LONGEST:  # guard: B6.tenant-labels minus 1
            return OTHER
        had.add(value)
        return value


class Bounded(Collector):
    """Whose labels have a cap."""


class _Capped(Bounded):
    """Mixed into the client library's metrics; also saves them looking a series up each time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._made: dict[tuple[object, ...], Self] = {}
        self._cap = Cap()
        super().__init__(*args, **kwargs)

    def labels(self, *values: object, **named: object) -> Self:
        if named:
            raise TypeError("labels: give the values in the order of their names")
        made = self._made.get(values)
        if made is None:
            admitted = self._cap.admitted(values)  # not `values`: one entry for all that came late
            made = self._made.get(admitted)
            if made is None:
                child: Self = super().labels(*admitted)  # type: ignore[misc] # of what is mixed in
                made = self._made[admitted] = child  # guard: T1.overflow-memory admitted -> values
        return made

    def clear(self) -> None:
        self._made.clear()
        self._cap = Cap()
        super().clear()  # type: ignore[misc]

    def remove(self, *values: object) -> None:
        self._made.pop(values, None)
        super().remove(*values)  # type: ignore[misc]


class Counter(_Capped, client.Counter):
    """Counts without a lock, as all kinds here do: each series has one thread that counts in it,
    nearly always the loop's."""

    def _metric_init(self) -> None:
        self._counted = 0.0
        self._created = ambient.wall_s()

    def inc(self, amount: float = 1, exemplar: object = None) -> None:
        if amount < 0:
            raise ValueError("a counter only goes up")
        self._counted += amount

    def _child_samples(self) -> Iterable[Sample]:
        yield Sample("_total", {}, self._counted, None, None)
        yield Sample("_created", {}, self._created, None, None)


class Gauge(_Capped, client.Gauge):
    def _metric_init(self) -> None:
        self.level = 0.0  # also changed in place, where every call does

    def inc(self, amount: float = 1) -> None:
        self.level += amount

    def dec(self, amount: float = 1) -> None:
        self.level -= amount

    def set(self, value: float) -> None:
        self.level = float(value)

    def _child_samples(self) -> Iterable[Sample]:
        yield Sample("", {}, self.level, None, None)


class Histogram(_Capped, client.Histogram):
    def _metric_init(self) -> None:
        self._counts = [0] * len(self._upper_bounds)
        self._bounds = [str(floatToGoString(b)) for b in self._upper_bounds]  # type: ignore[no-untyped-call]
        self._added = 0.0
        self._created = ambient.wall_s()

    def observe(self, amount: float, exemplar: object = None) -> None:
        self._counts[bisect_left(self._upper_bounds, amount)] += 1
        self._added += amount

    def observe_all(self, amounts: Sequence[float]) -> None:
        """As many times `observe`, at a few comparisons for each bound."""
        ordered, counts, before = sorted(amounts), self._counts, 0
        for bucket, bound in enumerate(self._upper_bounds):
            upto = bisect_right(ordered, bound)
            counts[bucket] += upto - before
            before = upto
        self._added += sum(amounts)

    def _child_samples(self) -> Iterable[Sample]:
        upto = list(accumulate(self._counts))
        for bound, count in zip(self._bounds, upto, strict=True):
            yield Sample("_bucket", {"le": bound}, float(count), None, None)
        yield Sample("_count", {}, float(upto[-1]), None, None)
        yield Sample("_sum", {}, self._added, None, None)
        yield Sample("_created", {}, self._created, None, None)


class WithoutTenants(Collector):
    """What a registry has, but for every metric with the label `tenant`."""

    def __init__(self, registry: client.CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[client.Metric]:
        for family in self._registry.collect():
            # guard: B9.metric-names always
            if not any("tenant" in sample.labels for sample in family.samples):
                yield family


class Gathering(Protocol):
    """What counts a little later than it happens."""

    def count(self) -> None:
        """All that has happened."""
        ...


class MetricsRegistry(client.CollectorRegistry):
    gathering: Gathering | None = None

    def collect(self) -> Iterable[client.Metric]:
        if self.gathering is not None:
            self.gathering.count()
        return super().collect()

    def register(self, collector: Collector) -> None:
        """Raises TypeError for what has no cap."""
        if not isinstance(collector, Bounded):  # guard: T1.capped-registry
            raise TypeError(f"{collector} has no cap: take its kind from accounting.series")
        super().register(collector)

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(name, text, labels, registry=self)

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        return Gauge(name, text, labels, registry=self)

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float]
    ) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self)
