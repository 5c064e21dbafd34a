"""The page of several workers: each part once, put together, and nothing old shown as new."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from gateway.accounting.live import shares as parts
from gateway.accounting.live.decisions import Decisions
from gateway.accounting.live.shares import Shares, WorkerShare, parsed_id
from gateway.server.console import together
from tests.unit.console.console_rig import attempt, ended, live, record
from tests.unit.harness import run

PART = {
    "gateway": {"draining": False, "in_flight": 2},
    "endpoints": [
        {"name": "gpu", "in_flight": 2, "state": "up", "models": [{"model": "m", "in_flight": 2}]}
    ],
    "pools": [{"model": "m"}],
}


class Worker:
    """Another one, which is asked as over its socket."""

    def __init__(self, number: int, decides: bool = False) -> None:
        self.number, self.process, self.decides = number, f"process {number}", decides
        self.decisions = live()
        self.answers = True
        self.questions = 0

    def part(self) -> dict[str, Any]:
        return PART | {"pools": PART["pools"] if self.decides else None}

    async def ask(self, question: dict[str, Any]) -> dict[str, Any] | None:
        self.questions += 1
        if not self.answers:
            return None
        asked = question["console"]
        found = parts.answer(asked, self.process, self.number, self.decisions, self)
        sent: dict[str, Any] = orjson.loads(orjson.dumps({"console": found}))  # as over its socket
        return sent


def of(*workers: Worker) -> Shares:
    by_number = {worker.number: worker for worker in workers}

    async def ask(number: int, question: dict[str, Any]) -> dict[str, Any] | None:
        return await by_number[number].ask(question)

    return Shares(tuple(by_number), ask, 10.0)


def calls(decisions: Decisions, first: int, count: int, **changes: Any) -> None:
    for n in range(first, first + count):
        decisions.take([ended(record(call=str(n), number=n, time=float(n), **changes))])


def test_every_decision_is_told_once_and_every_figure_counted_once() -> None:
    async def main() -> None:
        two, three = Worker(2, decides=True), Worker(3)
        shares = of(two, three)
        calls(two.decisions, 1, 30)
        calls(three.decisions, 31, 10)
        await shares.refresh()
        assert len(shares.news()) == 40
        await shares.refresh()
        assert shares.news() == []
        calls(two.decisions, 41, 1)
        await shares.refresh()
        (new,) = shares.news()
        assert new["decision"] == "2-31"
        assert sum(sum(s.counts.values()) for s in shares.shares) == 41
        assert sum(len(s.figures) for s in shares.shares) == 41
        assert sum(n for s in shares.shares for x in s.seconds.values()
                   for n in x.zones.values()) == 41  # fmt: skip
        assert [d["time"] for d in shares.tail()] == [float(n) for n in range(1, 42)]

    run(main())


def test_a_worker_that_was_started_again_begins_anew() -> None:
    async def main() -> None:
        two = Worker(2)
        shares = of(two)
        calls(two.decisions, 1, 5)
        await shares.refresh()
        two.decisions, two.process = live(), "another process"
        calls(two.decisions, 6, 2)
        await shares.refresh()
        (share,) = shares.shares
        assert sum(share.counts.values()) == 2
        assert [d["time"] for d in share.tail.values()] == [6.0, 7.0]

    run(main())


def test_of_a_worker_that_does_not_answer_nothing_is_shown() -> None:
    async def main() -> None:
        two = Worker(2, decides=True)
        shares = of(two)
        calls(two.decisions, 1, 5)
        await shares.refresh()
        two.answers = False
        await shares.refresh()
        assert together.pools(PART | {"pools": None}, shares.shares) == []
        assert shares.tail() == []

    run(main())


def test_a_worker_that_is_stuck_holds_up_no_page() -> None:
    async def main() -> None:
        asked = 0

        async def never(number: int, question: dict[str, Any]) -> None:
            nonlocal asked
            asked += 1
            await asyncio.Event().wait()

        shares = Shares((2,), never, 0.0)
        for _ in range(3):
            await shares.refresh()
        assert asked == 1
        assert shares.news() == []
        shares.close()

    run(main())


def test_sections_are_those_of_all() -> None:
    async def main() -> None:
        two = Worker(2, decides=True)
        shares = of(two)
        calls(two.decisions, 1, 3)
        bad = [attempt("cloud")]
        two.decisions.take([ended(record(bad, call="9", number=9, sensitivity="restricted"))])
        await shares.refresh()
        own = PART | {"pools": None}
        others = shares.shares
        assert together.gateway(own, others) == {"draining": False, "in_flight": 4}
        (endpoint,) = together.endpoints(own, others)
        assert (endpoint["in_flight"], endpoint["models"][0]["in_flight"]) == (4, 4)
        assert together.pools(own, others) == PART["pools"]
        quiet = {"restricted_in_cloud": 0, "stopped_at_door": 0, "latest": None}
        alarm = together.alarm(quiet, live().counts, others)
        assert (alarm["restricted_in_cloud"], alarm["latest"], alarm["restricted"]) == (1, "2-4", 1)

    run(main())


def test_an_endpoint_is_drained_when_its_calls_have_ended_at_every_worker() -> None:
    drained = PART["endpoints"][0] | {"in_flight": 0, "state": "drained"}  # type: ignore[index]
    own = PART | {"endpoints": [drained]}
    busy = WorkerShare(endpoints={"gpu": {"in_flight": 1, "models": []}})
    idle = WorkerShare(endpoints={"gpu": {"in_flight": 0, "models": []}})
    assert together.endpoints(own, (busy,))[0]["state"] == "draining"
    assert together.endpoints(own, (idle,))[0]["state"] == "drained"


def test_an_id_names_its_worker() -> None:
    assert parsed_id("2-31", 1) == (2, 31)
    assert parsed_id("31", 4) == (4, 31)
    for bad in ("", "-", "-1", "1-", "a-1", "1-a", "1-1-1", "\u0661-1", "1-" + "9" * 30, "../1"):
        assert parsed_id(bad, 1) is None, bad
