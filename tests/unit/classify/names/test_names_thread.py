"""The thread that reads names: calls share its goes, and each gets its own answer in time (C9)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest
import uvloop

from gateway.classify import ScannersBusy
from gateway.classify.names.engines import local
from gateway.classify.names.engines.local import ReaderThread
from gateway.classify.names.engines.reader import NamesReader
from gateway.classify.names.model.tagger import Tagger
from gateway.core.types import Finding

from .knowing import Logits, Rows, nothing, plain_features, tagger_that_knows
from .reading import FAR_S, THRESHOLDS, Found, Gate, GoOn, knowing, outcome, reached, scenario


def test_names_are_found_at_their_offsets() -> None:
    async def play(thread: ReaderThread) -> object:
        return await thread.find(["call Dr. Zara now", "nobody", ""], FAR_S)

    assert scenario(knowing, play) == [[Finding("PERSON", 9, 13, 0.9999)], [], []]


def test_calls_that_come_together_get_their_own_answers() -> None:
    texts = ["x " * n + "Zara" for n in range(200)]

    async def play(thread: ReaderThread) -> object:
        found = await asyncio.gather(*(thread.find([text, "no"], FAR_S) for text in texts))
        return [[f.start for f in first] for first, _ in found]

    assert scenario(knowing, play, most=1_000) == [[2 * n] for n in range(200)]


def test_calls_that_wait_together_are_read_together() -> None:
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        first = asyncio.create_task(outcome(thread, "first"))
        await reached(gate.entered)
        waiting = [asyncio.create_task(outcome(thread, f"{n}")) for n in range(5)]
        await asyncio.sleep(0)
        gate.open.set()
        return await asyncio.gather(first, *waiting)

    assert scenario(gate, play) == ["found"] * 6
    assert gate.read == [["first"], ["0", "1", "2", "3", "4"]]


def test_a_long_text_lets_short_ones_go_between() -> None:
    order: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def read(texts: Sequence[str], go_on: GoOn) -> Found:
        order.append(texts[0][:5])
        if texts[0].startswith("long"):
            begun.set()
            assert go.wait(FAR_S)
            go_on()
            order.append("rest")
        return [[] for _ in texts]

    async def play(thread: ReaderThread) -> object:
        long = asyncio.create_task(outcome(thread, "long " * 3_000))
        await reached(begun)
        short = asyncio.create_task(outcome(thread, "short"))
        await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(long, short)

    assert scenario(read, play) == ["nothing", "nothing"]
    assert order == ["long ", "short", "rest"]


def test_short_texts_without_end_do_not_keep_a_long_one_from_being_read() -> None:
    begun: list[str] = []

    def read(texts: Sequence[str], go_on: GoOn) -> Found:
        begun.append(texts[0][:5])
        return [[] for _ in texts]

    async def play(thread: ReaderThread) -> object:
        shorts = [asyncio.create_task(outcome(thread, "s" * 5_900)) for _ in range(40)]
        long = asyncio.create_task(outcome(thread, "long " * 3_000))
        await long
        return await asyncio.gather(*shorts)

    scenario(read, play, most=100)
    assert begun.index("long ") < 10


@pytest.mark.parametrize("budget_s", [0.0, -1.0, float("nan")])
def test_without_time_there_is_no_scan(budget_s: float) -> None:
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        gate.open.set()
        return [await outcome(thread, "first", budget_s), await outcome(thread, "second")]

    assert scenario(gate, play) == ["late", "found"]
    assert gate.read == [["second"]]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_any_budget_is_a_budget(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def play() -> str:
        thread = ReaderThread(knowing, 8)
        try:
            return await outcome(thread, budget_s=float("inf"))
        finally:
            await asyncio.to_thread(thread.end)

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(play()) == "found"


def test_calls_whose_callers_left_count_until_it_is_their_turn() -> None:
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        first = asyncio.create_task(outcome(thread, "first"))
        await reached(gate.entered)
        left = [asyncio.create_task(outcome(thread, "left")) for _ in range(4)]
        await asyncio.sleep(0)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        busy = await outcome(thread)
        gate.open.set()
        answered = await first
        async with asyncio.timeout(FAR_S):  # the thread comes to those who left after answering
            while (last := await outcome(thread, "last")) == "busy":  # noqa: ASYNC110 - a thread
                await asyncio.sleep(0.001)
        return [busy, answered, last]

    assert scenario(gate, play, most=4) == ["busy", "found", "found"]
    assert gate.read == [["first"], ["last"]]  # and nobody reads what nobody waits for


def test_a_long_text_is_read_no_further_once_its_time_is_over() -> None:
    ended = threading.Event()
    runs: list[int] = []
    gate = threading.Event()

    def model(rows: Rows) -> Logits:
        runs.append(len(rows))
        assert gate.wait(FAR_S)
        return nothing(rows)

    def read(texts: Sequence[str], go_on: GoOn) -> Found:
        try:
            return NamesReader(Tagger(plain_features(), model), None, THRESHOLDS).read(texts, go_on)
        finally:
            ended.set()

    async def play(thread: ReaderThread) -> object:
        late = await outcome(thread, "word " * 50_000, 0.3)
        gate.set()
        await reached(ended)
        return late

    assert scenario(read, play) == "late"
    assert len(runs) <= 1


def test_what_is_read_in_one_go_is_bounded() -> None:
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        first = asyncio.create_task(outcome(thread, "first"))
        await reached(gate.entered)
        many = [asyncio.create_task(outcome(thread, "few")) for _ in range(100)]
        much = [asyncio.create_task(outcome(thread, "x" * 4_000)) for _ in range(5)]
        await asyncio.sleep(0)
        gate.open.set()
        return await asyncio.gather(first, *many, *much)

    assert scenario(gate, play, most=200) == ["found"] * 106
    assert max(map(len, gate.read)) <= local._TOGETHER
    assert max(sum(map(len, texts)) for texts in gate.read) <= 2 * local._LONG


def test_a_reader_asks_before_each_text_whether_to_go_on() -> None:
    asked: list[None] = []
    reader = NamesReader(tagger_that_knows({}), None, THRESHOLDS)
    reader.read(["few words"] * 10, lambda: asked.append(None))
    assert len(asked) >= 10


def test_too_many_calls_are_busy() -> None:
    async def play(thread: ReaderThread) -> object:
        return await outcome(thread)

    assert scenario(knowing, play, most=0) == ScannersBusy.reason
