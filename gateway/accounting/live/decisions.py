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

from gateway.accounting.records import DecisionLog, Durable
from gateway.core.deadline import Clock

FIGURES = 2048  # calls whose times are kept for percentiles
_SECONDS = 120  # that paths are counted by
_OPEN = 4096  # calls whose end is still to be told
_AT_ONCE = 256  # records; a millisecond's work

Record = Mapping[str, Any]
Key = tuple[str, int]
"""Of a call: its id, which its caller may have chosen and given to another one, and its number."""
Path = tuple[str, str, str, str, str]
"""Of calls: tenant, protocol, class, zone that answered or 'none', endpoint."""


class CallFigures(NamedTuple):
    """What percentiles are made of: one call."""

    at_s: float
    model: str
    sensitivity: str
    zone: str  # that answered, or 'none'
    budget_s: float
    took_s: float | None  # None: not answered, or not yet


_record_fields: Final[Callable[[Record], tuple[str, str, str, float, str | None]]] = itemgetter(
    "tenant", "protocol", "model", "budget_s", "sensitivity"
)
_figures: Final[Callable[[tuple[Any, ...]], CallFigures]] = partial(tuple.__new__, CallFigures)


@dataclass(slots=True)
class SecondCounts:
    """Calls of one second by their path and by their zone."""

    at_s: int
    paths: Counter[Path] = field(default_factory=Counter)
    zones: dict[str, int] = field(default_factory=lambda: {"onprem": 0, "cloud": 0, "none": 0})


class DecisionRow:
    """One decision of the tail. `revision` grows with everything that is told."""

    __slots__ = ("_end", "_record", "alarmed", "revision", "seq")

    def __init__(self, seq: int, record: Record, revision: int, end: Record | None = None) -> None:
        self.seq, self.revision = seq, revision
        self._record, self._end = record, end
        self.alarmed = False

    @property
    def record(self) -> Record:
        """Of the call, with its end once that is known."""
        return self._record if self._end is None else {**self._record, **self._end, "kind": "call"}

    def ends(self, end: Record, revision: int) -> None:
        self._end, self.revision = end, revision


class Decisions:
    """Who reads what is counted looks first."""

    def __init__(self, clock: Clock, tail: int = 500) -> None:
        self._clock = clock
        self._begun: dict[Key, Record] = {}  # under way, and in nobody's sight yet
        self._ended: list[tuple[float, Record]] = []  # not counted yet
        self._ring: deque[DecisionRow] = deque(maxlen=tail)
        self._open: OrderedDict[Key, DecisionRow] = OrderedDict()  # under way, and seen
        self.figures: deque[CallFigures] = deque(maxlen=FIGURES)
        self.seconds: deque[SecondCounts] = deque(maxlen=_SECONDS)
        self._second = SecondCounts(-1)
        self.counts: Counter[tuple[str, str]] = Counter()  # class, zone
        self.restricted_in_cloud = 0
        self.stopped_at_door = 0
        self.latest_alarm: int | None = None
        self.seq = self.revision = 0

    def begins(self, record: Record) -> None:
        """That a call is about to be sent."""
        if record["kind"] != "intent":  # what becomes of a further attempt is in the end
            self._begun[record["id"], record["number"]] = record

    def ends(self, record: Record) -> None:
        """It is counted when somebody looks, or with some hundred more."""
        self._ended.append((self._clock(), record))
        if len(self._ended) >= _AT_ONCE:
            self._count()

    def snapshot(self) -> Self:
        """With all that was taken in."""
        self._count()
        begun, self._begun = self._begun, {}
        for key, record in begun.items():
            self._open[key] = self._see(record)
        while len(self._open) > _OPEN:
            self._open.popitem(last=False)
        return self

    def _count(self) -> None:
        ended, self._ended = self._ended, []
        for now_s, end in ended:
            self._count_call(now_s, end)
        begun = self._begun
        while len(begun) > _OPEN:
            del begun[next(iter(begun))]

    def _count_call(self, now_s: float, end: Record) -> None:
        key = end["id"], end["number"]
        record = self._begun.pop(key, None)
        if record is not None:
            self._see(record, end)
        elif key in self._open:
            row = self._open.pop(key)
            record = row.record
            self.revision += 1
            row.ends(end, self.revision)
            self._judge(row)
        elif end["kind"] == "end":  # its beginning is forgotten
            return
        else:
            self._see(end)
        if record is None or "tenant" in end:
            record = end
        tenant, protocol, model, budget_s, sensitivity = _record_fields(record)
        kind = sensitivity or "restricted"
        zone, endpoint, took_s = _where(end)
        self.figures.append(_figures((now_s, model, kind, zone, budget_s, took_s)))
        self._add(int(now_s), (tenant, protocol, kind, zone, endpoint))

    def _add(self, at_s: int, path: Path) -> None:
        _, _, kind, zone, _ = path
        self.counts[kind, zone] += 1
        second = self._second
        if second.at_s != at_s:
            second = self._second = SecondCounts(at_s)
            self.seconds.append(second)
        second.paths[path] += 1
        second.zones[zone] += 1

    def _see(self, record: Record, end: Record | None = None) -> DecisionRow:
        self.seq += 1
        self.revision += 1
        row = DecisionRow(self.seq, record, self.revision, end)
        self._ring.append(row)
        if record["sensitivity"] != "clear" or (end is not None and "tenant" in end):
            self._judge(row)
        return row

    def _judge(self, row: DecisionRow) -> None:
        """Whatever is not known to be clear counts as restricted."""
        record = row.record
        # guard: P1.unread-call -> if record['sensitivity'] != 'restricted':
        if record["sensitivity"] == "clear":
            return
        results = {a["result"] for a in record["attempts"] if a["zone"] == "cloud"}
        if not results or row.alarmed:  # guard: P1.count-once minus 2
            return
        self.latest_alarm, row.alarmed = row.seq, True
        if results == {"egress_forbidden"}:
            self.stopped_at_door += 1
        else:
            self.restricted_in_cloud += 1

    def since(self, revision: int, most: int) -> list[DecisionRow]:
        """The newest that changed after `revision`, oldest first."""
        changed = (row for row in reversed(self.snapshot()._ring) if row.revision > revision)
        return list(islice(changed, most))[::-1]

    def find(self, seq: int) -> DecisionRow | None:
        return next((row for row in reversed(self.snapshot()._ring) if row.seq == seq), None)

    def recent(self, window_s: float) -> list[CallFigures]:
        """Oldest first."""
        figures = list(self.snapshot().figures)
        return figures[bisect_left(figures, self._clock() - window_s, key=itemgetter(0)) :]


def _where(end: Record) -> tuple[str, str, float | None]:
    """The zone and the endpoint that answered a call, and the time that it took, where one has."""
    if end["outcome"] != "served":
        return "none", "", None
    attempts = end["attempts"]
    if not attempts:
        return "none", "", end["took_s"]
    last = attempts[-1]
    return last["zone"], last["endpoint"], end["took_s"]


class WatchedLog:
    """An audit whose records are seen here, too; also those that cannot be written."""

    def __init__(self, log: DecisionLog, decisions: Decisions) -> None:
        self._append, self._note, self.check = log.append, log.note, log.check
        self._begins, self._ends = decisions.begins, decisions.ends

    def append(self, record: Record) -> Durable | None:
        self._begins(record)
        return self._append(record)

    def note(self, record: Record) -> None:
        self._ends(record)  # guard: P1.unrecorded-call -> self._note(record); self._ends(record)
        self._note(record)  # guard: P1.unrecorded-call
