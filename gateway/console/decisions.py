"""The last decisions, and counts of all of them: taken in as each record is written.

This is the only part that runs for a call when nobody looks, so it does little: it keeps the
record, and counts it with others. A record that cannot be written is taken in all the same, for a
restricted call in the cloud must raise the alarm whatever happened to its record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple, Self

from gateway.accounting.records import SENT, DecisionLog, Durable
from gateway.deadline import Clock

_FIGURES = 2048  # calls whose times are kept for percentiles
_SECONDS = 120  # that paths are counted by
_OPEN = 4096  # calls whose end is still to be told
_AT_ONCE = 256  # records; a millisecond's work

Record = Mapping[str, Any]
Key = tuple[str, int]
"""Of a call: its id, which its caller may have chosen and given to another one, and its number."""
_key: Final[Callable[[Record], Key]] = itemgetter("id", "number")
Path = tuple[str, str, str, str, str]
"""Of calls: tenant, protocol, class, zone that answered or 'none', endpoint."""


class Figures(NamedTuple):
    """What percentiles are made of: one call."""

    at_s: float
    model: str
    sensitivity: str
    zone: str  # that answered, or 'none'
    budget_s: float
    took_s: float | None  # None: not answered, or not yet


_figures: Final[Callable[[tuple[Any, ...]], Figures]] = partial(tuple.__new__, Figures)


@dataclass(slots=True)
class Second:
    """Calls of one second by their path and by their zone."""

    at_s: int
    paths: Counter[Path] = field(default_factory=Counter)
    zones: dict[str, int] = field(default_factory=lambda: {"onprem": 0, "cloud": 0, "none": 0})


@dataclass(slots=True)
class Seen:
    """One decision of the tail. `revision` grows with everything that is told."""

    seq: int
    record: Record
    revision: int


class Decisions:
    """Who reads what is counted looks first."""

    def __init__(self, clock: Clock, tail: int = 500) -> None:
        self._clock = clock
        self._fresh: list[tuple[float, Record]] = []
        self._ring: deque[Seen] = deque(maxlen=tail)
        self._open: OrderedDict[Key, Seen] = OrderedDict()
        self.figures: deque[Figures] = deque(maxlen=_FIGURES)
        self.seconds: deque[Second] = deque(maxlen=_SECONDS)
        self._second = Second(-1)
        self.counts: Counter[tuple[str, str]] = Counter()  # class, zone
        self.restricted_in_cloud = 0
        self.stopped_at_door = 0
        self.latest_alarm: int | None = None
        self.seq = self.revision = 0

    def take(self, record: Record) -> None:
        """One record of the audit. It is counted when somebody looks, or with some hundred more."""
        if record["kind"] == "intent":  # what becomes of it is in the record of its call
            return
        self._fresh.append((self._clock(), record))
        if len(self._fresh) >= _AT_ONCE:
            self.look()

    def look(self) -> Self:
        """With all that was taken in."""
        fresh, self._fresh = self._fresh, []
        for now_s, record in fresh:
            self.revision += 1
            if record["kind"] == "end" or _key(record) in self._open:  # or told once more
                self._end(record, now_s)
            else:
                self._begin(record, now_s)
        return self

    def _end(self, record: Record, now_s: float) -> None:
        seen = self._open.pop(_key(record), None)
        if seen is None:
            return
        seen.record = {**seen.record, **record, "kind": "call"}
        seen.revision = self.revision
        if seen.record["sensitivity"] != "clear":
            self._judge(seen, again=True)
        self._count(seen.record, now_s)

    def _begin(self, record: Record, now_s: float) -> None:
        self.seq += 1
        seen = Seen(self.seq, record, self.revision)
        self._ring.append(seen)
        if record["sensitivity"] != "clear":
            self._judge(seen)
        if record["outcome"] == SENT:
            self._open[_key(record)] = seen
            if len(self._open) > _OPEN:
                self._open.popitem(last=False)
        else:
            self._count(record, now_s)

    def _count(self, record: Record, now_s: float) -> None:
        """When it has ended."""
        kind, zone = record["sensitivity"] or "restricted", zone_of(record)
        self.counts[kind, zone] += 1
        second = self._second
        if second.at_s != int(now_s):
            second = self._second = Second(int(now_s))
            self.seconds.append(second)
        endpoint = "" if zone == "none" else record["attempts"][-1]["endpoint"]
        second.paths[record["tenant"], record["protocol"], kind, zone, endpoint] += 1
        second.zones[zone] += 1
        self._measure(record, kind, zone, now_s)

    def _measure(self, record: Record, kind: str, zone: str, now_s: float) -> None:
        took_s = record["took_s"] if record["outcome"] == "served" else None
        self.figures.append(
            _figures((now_s, record["model"], kind, zone, record["budget_s"], took_s))
        )

    def _judge(self, seen: Seen, again: bool = False) -> None:
        """Whatever is not known to be clear counts as restricted."""
        results = {a["result"] for a in seen.record["attempts"] if a["zone"] == "cloud"}
        if not results or (again and self.latest_alarm == seen.seq):
            return
        self.latest_alarm = seen.seq
        if results == {"egress_forbidden"}:
            self.stopped_at_door += 1
        else:
            self.restricted_in_cloud += 1

    def since(self, revision: int, most: int) -> list[Seen]:
        """The newest that changed after `revision`, oldest first."""
        found = (seen for seen in reversed(self.look()._ring) if seen.revision > revision)
        return list(islice(found, most))[::-1]

    def find(self, seq: int) -> Seen | None:
        return next((seen for seen in reversed(self.look()._ring) if seen.seq == seq), None)

    def recent(self, window_s: float) -> list[Figures]:
        """Oldest first."""
        kept = list(self.look().figures)
        return kept[bisect_left(kept, self._clock() - window_s, key=itemgetter(0)) :]


def zone_of(record: Record) -> str:
    """Where it was answered, or is."""
    attempts, outcome = record["attempts"], record["outcome"]
    if attempts and (outcome == "served" or outcome == SENT):
        zone: str = attempts[-1]["zone"]
        return zone
    return "none"


class WatchedLog:
    """An audit whose records are seen here, too."""

    def __init__(self, log: DecisionLog, decisions: Decisions) -> None:
        self._log = log
        self._decisions = decisions
        self.check = log.check

    def append(self, record: Record) -> Durable | None:
        self._decisions.take(record)  # also one that cannot be written
        return self._log.append(record)

    def note(self, record: Record) -> None:
        self._decisions.take(record)
        self._log.note(record)
