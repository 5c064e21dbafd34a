"""The last decisions, and counts of all of them: taken in with some hundred other calls.

This is the only part that runs for a call when nobody looks, so it does little. A record that
cannot be written is taken in all the same, for a restricted call in the cloud must raise the alarm
whatever happened to its record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple, Self

from gateway.accounting.measures import Ended, Measures, Record
from gateway.core.deadline import Clock
from gateway.core.types import is_onprem

FIGURES = 2048  # calls whose times are kept for percentiles
_SECONDS = 120  # that paths are counted by

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


_Fields = tuple[int, str, str, str, float, str | None]
_record_fields: Final[Callable[[Record], _Fields]] = itemgetter(
    "number", "tenant", "protocol", "model", "budget_s", "sensitivity"
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

    __slots__ = ("_answer", "_end", "_record", "alarmed", "revision", "seq")

    def __init__(self, seq: int, record: Record, revision: int, end: Record | None = None) -> None:
        self.seq, self.revision = seq, revision
        self._record, self._end = record, end
        self._answer: Record | None = None
        self.alarmed = False

    @property
    def record(self) -> Record:
        """Of the call, with its end once that is known."""
        record = self._record
        if self._end is not None:
            record = {**record, **self._end, "kind": "call"}
        return record if self._answer is None else {**record, "answer": self._answer}

    @property
    def id(self) -> str:
        return str(self._record["id"])

    def answered(self, record: Record, revision: int) -> None:
        """The findings in its answer."""
        self._answer, self.revision = record, revision

    def ends(self, record: Record, end: Record, revision: int) -> None:
        self._record, self._end, self.revision = record, end, revision


class Decisions:
    """Who reads what is counted looks first."""

    def __init__(self, measures: Measures, clock: Clock, tail: int = 500) -> None:
        """`measures`: tell of the calls under way, and of those that have ended once `take` is
        their `watch`."""
        self._measures = measures
        self._clock = clock
        self._ring: deque[DecisionRow] = deque(maxlen=tail)
        self._open: dict[int, DecisionRow] = {}  # by number: under way, and already a row
        self.figures: deque[CallFigures] = deque(maxlen=FIGURES)
        self.seconds: deque[SecondCounts] = deque(maxlen=_SECONDS)
        self._second = SecondCounts(-1)
        self.counts: Counter[tuple[str, str]] = Counter()  # class, zone
        self.restricted_in_cloud = 0
        self.stopped_at_door = 0
        self.latest_alarm: int | None = None
        self.seq = self.revision = 0

    def snapshot(self) -> Self:
        """With all calls of now."""
        self._measures.count()
        for number, record in self._measures.sent.items():
            if number not in self._open:
                self._open[number] = self._see(record)
        return self

    def take(self, calls: Sequence[Ended]) -> None:
        """Calls that have ended."""
        for record, end, _, outcome, _, _, at_s in calls:
            number, tenant, protocol, model, budget_s, sensitivity = _record_fields(record)
            row = self._open.pop(number, None)
            if row is None:
                self._see(record, end)
            else:
                self.revision += 1
                row.ends(record, end, self.revision)
                self._judge(row)
            kind, zone, endpoint, took_s = sensitivity or "restricted", "none", "", None
            if outcome == "served":
                took_s = end["took_s"]
                if attempts := end["attempts"]:
                    endpoint = attempts[-1]["endpoint"]
                    zone = "onprem" if is_onprem(attempts[-1]["zone"]) else "cloud"
            self.figures.append(_figures((at_s, model, kind, zone, budget_s, took_s)))
            self.counts[kind, zone] += 1
            second = self._second
            if second.at_s != int(at_s):
                second = self._second = SecondCounts(int(at_s))
                self.seconds.append(second)
            second.paths[tenant, protocol, kind, zone, endpoint] += 1
            second.zones[zone] += 1

    def answered(self, record: Record) -> None:
        """The answer of a call, which has ended, has findings."""
        for row in reversed(self.snapshot()._ring):
            if row.id == record["id"]:
                self.revision += 1
                row.answered(record, self.revision)
                return

    def _see(self, record: Record, end: Record | None = None) -> DecisionRow:
        self.seq += 1
        self.revision += 1
        row = DecisionRow(self.seq, record, self.revision, end)
        self._ring.append(row)
        if record["sensitivity"] != "clear":
            self._judge(row)
        return row

    def _judge(self, row: DecisionRow) -> None:
        """Whatever is not known to be clear counts as restricted."""
        record = row.record
        # guard: P1.unread-call -> if record['sensitivity'] != 'restricted':
        if record["sensitivity"] == "clear":
            return
        admitted = record.get("admitted", ())
        results = {
            a["result"]
            for a in record["attempts"]
            if not is_onprem(a["zone"]) and a["zone"] not in admitted
        }
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
