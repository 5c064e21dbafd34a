"""The only kinds of metric that there are here: none can grow without end.

A label has at most `MOST_VALUES` values of a metric; whatever comes later counts as `other`. So ten
thousand tenants or models cost Prometheus what a thousand do, and the sums stay right. A registry
takes nothing else, so that no metric can be without its cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

import prometheus_client as client
from prometheus_client.registry import Collector

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
        had = self._had.setdefault(at, set())
        if value in had:
            return value
        if len(had) >= MOST_VALUES or len(value) > _LONGEST:
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
            admitted = self._cap.admitted(values)
            found: Self = super().labels(*admitted)  # type: ignore[misc] # of the metric mixed in
            if admitted == values:  # else one entry for every value that ever came
                self._made[values] = found
            return found
        return made

    def clear(self) -> None:
        self._made.clear()
        self._cap = Cap()
        super().clear()  # type: ignore[misc]

    def remove(self, *values: object) -> None:
        self._made.pop(values, None)
        super().remove(*values)  # type: ignore[misc]


class Counter(_Capped, client.Counter):
    pass


class Gauge(_Capped, client.Gauge):
    pass


class Histogram(_Capped, client.Histogram):
    pass


class Registry(client.CollectorRegistry):
    def register(self, collector: Collector) -> None:
        """Raises TypeError for what has no cap."""
        if not isinstance(collector, Bounded):
            raise TypeError(f"{collector} has no cap: take its kind from accounting.series")
        super().register(collector)
