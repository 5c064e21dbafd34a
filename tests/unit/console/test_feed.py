"""One picture, then what changes; nobody is waited for, and nothing runs while nobody looks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.accounting.live.feed import BEAT_TICKS, Events, Feed, TooManyViewers, Viewer
from tests.unit.console.console_rig import Desk, ended, live, record, told
from tests.unit.harness import request, run


class Figures:
    def __init__(self) -> None:
        self.now: dict[str, Any] = {"a": 1, "b": {"x": [1]}}
        self.looks = 0

    def sections(self) -> dict[str, Any]:
        self.looks += 1
        return self.now


async def never(seconds: float) -> None:
    await asyncio.Event().wait()


class Look:
    def __init__(self) -> None:
        self.figures, self.decisions = Figures(), live()
        self.feed = Feed(self.decisions, self.figures, lambda: 1700000000.0, never)

    def all_told(self, looker: Viewer) -> list[tuple[str, str, dict[str, Any]]]:
        found = []
        while not looker.queue.empty():
            event = looker.queue.get_nowait()
            assert event is not None
            found += [told(one) for one in event.split(b"\n\n") if one]
        return found


def test_who_joins_gets_a_picture_and_then_only_what_changed() -> None:
    async def main() -> None:
        look = Look()
        look.decisions.take([ended(record())])
        looker = look.feed.join()
        look.figures.now = {"a": 2, "b": {"x": [1]}}
        look.decisions.take([ended(record(call="2"))])
        look.feed.tick()
        (kind, _, picture), (then, _, delta) = look.all_told(looker)
        assert (kind, then) == ("snapshot", "delta")
        assert (picture["a"], picture["b"], len(picture["decisions"])) == (1, {"x": [1]}, 1)
        assert (delta["a"], "b" in delta) == (2, False)
        assert [d["seq"] for d in delta["decisions"]] == [2]
        look.feed.close()

    run(main())


def test_who_joins_later_has_the_same_as_who_was_there_from_the_start() -> None:
    async def main() -> None:
        look = Look()
        first = look.feed.join()
        for n in range(10):
            look.figures.now = {"a": n // 2, "b": n % 3, **({"c": n} if n > 4 else {})}
            look.decisions.take([ended(record(call=str(n)))])
            if n % 2:
                look.feed.tick()
        second = look.feed.join()
        look.figures.now = {"a": 99, "b": 0}
        look.feed.tick()
        folded = [_folded(look.all_told(looker)) for looker in (first, second)]
        assert folded[0] == folded[1]
        look.feed.close()

    run(main())


def _folded(events: list[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    decisions: dict[int, Any] = {}
    for kind, _, data in events:
        if kind == "snapshot":
            state, decisions = {}, {}
        decisions |= {d["seq"]: d for d in data.pop("decisions", [])}
        state |= data
    return {**state, "decisions": decisions}


def test_silence_is_told_once_a_second_so_that_it_cannot_be_taken_for_a_broken_line() -> None:
    async def main() -> None:
        look = Look()
        looker = look.feed.join()
        for _ in range(BEAT_TICKS * 3):
            look.feed.tick()
        _, *beats = look.all_told(looker)
        assert [set(data) for _, _, data in beats] == [{"time"}] * 3
        look.feed.close()

    run(main())


def test_who_does_not_keep_up_is_let_go_and_the_others_go_on() -> None:
    async def main() -> None:
        look = Look()
        stuck, quick = look.feed.join(), look.feed.join()
        got = len(look.all_told(quick))
        for n in range(40):
            look.figures.now = {"a": n}
            look.feed.tick()
            got += len(look.all_told(quick))
        assert got == 41
        assert (stuck.dropped, look.feed.looking, look.feed.dropped) == (True, 1, 1)
        assert [event async for event in Events(look.feed, stuck)] == []
        look.feed.close()

    run(main())


def test_who_comes_back_gets_what_it_missed_where_that_is_known() -> None:
    async def main() -> None:
        look = Look()
        away, there = look.feed.join(), look.feed.join()
        _, last, _ = look.all_told(away)[-1]
        look.feed.leave(away)
        for n in range(3):
            look.figures.now = {"a": 10 + n}
            look.feed.tick()
        again = look.all_told(look.feed.join(last))
        assert [(kind, data["a"]) for kind, _, data in again] == [
            ("delta", 10), ("delta", 11), ("delta", 12),
        ]  # fmt: skip
        look.feed.leave(there)
        look.feed.close()

    run(main())


@pytest.mark.parametrize(
    "last", ["", "x", "-", "00000000-1", "{epoch}-999", "{epoch}-x", "{epoch}-²"]
)
def test_who_comes_back_from_elsewhere_gets_a_picture(last: str) -> None:
    async def main() -> None:
        look = Look()
        _, at, _ = look.all_told(look.feed.join())[0]
        epoch = at.partition("-")[0]
        (kind, _, _), *_ = look.all_told(look.feed.join(last.replace("{epoch}", epoch)))
        assert kind == "snapshot"
        look.feed.close()

    run(main())


def test_nobody_goes_on_over_a_time_in_which_nobody_looked() -> None:
    async def main() -> None:
        look = Look()
        only = look.feed.join()
        _, last, _ = look.all_told(only)[-1]
        look.feed.leave(only)
        look.figures.now = {"a": 7}  # and nobody was told
        (kind, _, data), *_ = look.all_told(look.feed.join(last))
        assert (kind, data["a"]) == ("snapshot", 7)
        look.feed.close()

    run(main())


def test_nothing_is_looked_at_and_nothing_runs_while_nobody_looks() -> None:
    async def main() -> None:
        desk = Desk()
        before = asyncio.all_tasks()
        for _ in range(3):
            await desk.rig.call(request())
        assert asyncio.all_tasks() == before
        looker = desk.feed.join()
        assert len(asyncio.all_tasks()) == len(before) + 1
        desk.feed.leave(looker)
        await asyncio.sleep(1.0)
        assert asyncio.all_tasks() == before

    run(main())


def test_deltas_come_at_most_four_times_a_second() -> None:
    async def main() -> None:
        desk = Desk()
        looker = desk.feed.join()
        for _ in range(50):
            await desk.rig.call(request())
            await asyncio.sleep(0.03)
        assert looker.queue.qsize() <= 1 + 4 * 2 + 1
        desk.feed.close()

    run(main())


def test_streams_end_when_the_gateway_stops() -> None:
    async def main() -> None:
        look = Look()
        looker = look.feed.join()
        look.feed.close()
        assert [event async for event in Events(look.feed, looker)] == []

    run(main())


def test_only_so_many_look_at_once() -> None:
    async def main() -> None:
        look = Look()
        for _ in range(64):
            look.feed.join()
        with pytest.raises(TooManyViewers):
            look.feed.join()
        look.feed.close()

    run(main())


def test_a_reservoir_without_a_server_says_so_at_once() -> None:
    """Its queue hears of it only when a call comes."""

    async def main() -> None:
        desk = Desk()
        await desk.rig.call(request("clear", 5.0))
        before = desk.feed._sections.sections()["pools"][0]
        desk.rig.registry.states["gpu"].went_down()
        after = desk.feed._sections.sections()["pools"][0]
        assert (before["out"], after["out"], after["predicted_ms"]) == (False, True, None)

    run(main())


def test_the_picture_of_a_gateway_says_what_is_in_it() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.rig.call(request("clear", 5.0))
        await desk.rig.call(request("restricted", 5.0))
        event = desk.feed.join().queue.get_nowait()
        assert event is not None
        _, _, told_now = told(event)
        assert {e["name"]: e["state"] for e in told_now["endpoints"]} == {
            "gpu": "up",
            "cloud": "up",
        }
        assert [(p["model"], p["servers"], p["waiting"]) for p in told_now["pools"]] == [
            ("m", ["gpu"], 0)
        ]
        assert told_now["alarm"]["restricted_in_cloud"] == 0
        assert told_now["alarm"]["restricted"] == 1
        assert told_now["spend"]["budget_usd"] == 5.0
        assert told_now["switch"] == {"available": False, "on": False}
        assert {d["sensitivity"] for d in told_now["decisions"]} == {"clear", "restricted"}
        desk.feed.close()

    run(main())
