"""The page of a gateway with several workers: each worker's part of it, put together.

The system gives a connection to any worker, so whichever serves the page asks the others for their
part while somebody looks: figures that can be added up, and the decisions since the last answer. A
decision's id is `WORKER-NUMBER`, by which every worker finds who can explain it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Protocol

from gateway.accounting.live.decisions import (
    FIGURES,
    CallFigures,
    DecisionRow,
    Decisions,
    SecondCounts,
)
from gateway.accounting.live.explanation import summary

Document = dict[str, Any]
TAIL: Final = 200  # decisions of a picture
_SECONDS: Final = 120
_NEWS: Final = 60  # decisions of one answer; of more the newest

Ask = Callable[[int, Document], Awaitable[Document | None]]
"""(worker, question) -> its answer; None: it has not answered."""


def decision_id(worker: int, seq: int) -> str:
    return f"{worker}-{seq}"


def parsed_id(text: str, own: int) -> tuple[int, int] | None:
    """(worker, number) of a decision's id; a number alone is one of this worker's."""
    worker, dash, number = text.rpartition("-")
    if not dash:
        worker = str(own)
    if not (worker.isdecimal() and number.isdecimal() and len(text) <= 24 and text.isascii()):
        return None
    return int(worker), int(number)


def summaries(decisions: Iterable[DecisionRow], worker: int) -> list[Document]:
    return [summary(row) | {"decision": decision_id(worker, row.seq)} for row in decisions]


@dataclass(slots=True)
class WorkerShare:
    """Another worker's part, as of its last answer."""

    process: str = ""  # a worker that was started again begins anew
    revision: int = 0
    tail: OrderedDict[str, Document] = field(default_factory=OrderedDict)
    seconds: OrderedDict[int, SecondCounts] = field(default_factory=OrderedDict)
    figures: deque[CallFigures] = field(default_factory=lambda: deque(maxlen=FIGURES))
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    alarm: Document = field(default_factory=dict)
    gateway: Document = field(default_factory=dict)
    endpoints: Mapping[str, Document] = field(default_factory=dict)
    pools: Sequence[Document] | None = None  # None: it decides on no queue

    def question(self) -> Document:
        last = next(reversed(self.seconds), -1)
        return {
            "process": self.process, "revision": self.revision, "seconds_from": last,
            "calls": self.counts.total(),
        }  # fmt: skip

    def take(self, answer: Document) -> list[Document]:
        """The decisions that are new in it."""
        if answer["process"] != self.process:
            fresh = WorkerShare(answer["process"])
            for name in self.__slots__:
                setattr(self, name, getattr(fresh, name))
        self.revision, self.alarm = answer["revision"], answer["alarm"]
        self.gateway, self.pools = answer["gateway"], answer["pools"]
        self.endpoints = {endpoint["name"]: endpoint for endpoint in answer["endpoints"]}
        self.counts = Counter({(kind, zone): n for kind, zone, n in answer["counts"]})
        for at_s, zones, paths in answer["seconds"]:
            by_path = Counter({tuple(path): n for path, n in paths})
            self.seconds[at_s] = SecondCounts(at_s, by_path, zones)
        while len(self.seconds) > _SECONDS:
            self.seconds.popitem(last=False)
        for figures in answer["figures"]:
            self.figures.append(CallFigures(*figures))
        for decision in answer["decisions"]:
            self.tail[decision["decision"]] = decision
        while len(self.tail) > TAIL:
            self.tail.popitem(last=False)
        news: list[Document] = answer["decisions"]
        return news


class WorkerPicture(Protocol):
    """What a worker shows of itself: its picture."""

    def part(self) -> Document: ...


def answer(
    question: Document, process: str, worker: int, decisions: Decisions, part: WorkerPicture
) -> Document:
    """This worker's part, for the worker that serves the page."""
    again = question["process"] == process
    log = decisions.snapshot()
    since = question["revision"] if again else 0
    seconds_from = question["seconds_from"] if again else -1
    uncounted = log.counts.total() - (question["calls"] if again else 0)
    return {
        "process": process,
        "revision": log.revision,
        "decisions": summaries(log.since(since, _NEWS if again else TAIL), worker),
        "seconds": [
            [second.at_s, second.zones, [[path, n] for path, n in second.paths.items()]]
            for second in log.seconds
            if second.at_s >= seconds_from
        ],
        "figures": [list(one) for one in islice(reversed(log.figures), uncounted)][::-1],
        "counts": [[*key, n] for key, n in log.counts.items()],
        "alarm": {
            "restricted_in_cloud": log.restricted_in_cloud,
            "stopped_at_door": log.stopped_at_door,
            "latest": None if log.latest_alarm is None else decision_id(worker, log.latest_alarm),
        },
        **part.part(),
    }


class Shares:
    """The parts of the other workers."""

    def __init__(self, workers: Sequence[int], ask: Ask, patience_s: float) -> None:
        """`patience_s`: for their answers; one that is late counts the next time."""
        self._ask, self._patience_s = ask, patience_s
        self._shares = {worker: WorkerShare() for worker in workers}
        self._asking: dict[int, asyncio.Task[None]] = {}
        self._news: list[Document] = []

    @property
    def shares(self) -> Sequence[WorkerShare]:
        return tuple(self._shares.values())

    async def refresh(self) -> None:
        for worker in self._shares:
            if worker not in self._asking:
                self._asking[worker] = asyncio.create_task(
                    self._refresh(worker), name="console-share"
                )
        if self._asking:
            await asyncio.wait(tuple(self._asking.values()), timeout=self._patience_s)

    async def _refresh(self, worker: int) -> None:
        share = self._shares[worker]
        try:
            answered = await self._ask(worker, {"console": share.question()})
            if answered is None:
                self._shares[worker] = WorkerShare()  # it may be gone; nothing old is shown as new
            else:
                self._news += share.take(answered["console"])
        finally:
            del self._asking[worker]

    def news(self) -> list[Document]:
        """Their decisions since it was called last."""
        news, self._news = self._news, []
        return news

    def tail(self) -> list[Document]:
        """The newest of all of them, the oldest first."""
        every = [decision for share in self.shares for decision in share.tail.values()]
        return sorted(every, key=itemgetter("time"))[-TAIL:]

    async def explained(self, worker: int, seq: int) -> Document | None:
        """None: it is not known there any more, or there is no such worker."""
        if worker not in self._shares:
            return None
        answered = await self._ask(worker, {"explain": seq})
        return None if answered is None else answered["explanation"]

    def close(self) -> None:
        for task in tuple(self._asking.values()):
            task.cancel()


def alone() -> Shares:
    """Of a gateway that is one process."""

    async def nobody(worker: int, question: Document) -> Document | None:
        return None

    return Shares((), nobody, 0.0)
