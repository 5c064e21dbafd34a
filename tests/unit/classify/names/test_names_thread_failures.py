"""Whatever goes wrong while names are read: no scan, in time, and no word of the text (C1, C12)."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import traceback
from collections.abc import Callable, Sequence

import pytest

from gateway.classify import NoScan, ScanFailed, ScanLate
from gateway.classify.names.engines import local
from gateway.classify.names.engines.local import ReaderThread
from gateway.classify.names.engines.reader import NamesReader, UnmeasuredLanguage
from gateway.classify.names.model.tagger import Tagger
from gateway.core.types import Finding

from .knowing import Logits, Rows, nothing, plain_features
from .reading import FAR_S, THRESHOLDS, Found, Gate, GoOn, knowing, outcome, reached, scenario

MARKER = "MARKER-51c9-SECRET"


def test_nobody_waits_longer_than_any_scan_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_BUDGET_S", 0.05)
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        try:
            async with asyncio.timeout(FAR_S / 2):
                return await outcome(thread, budget_s=1e9)
        finally:
            gate.open.set()

    assert scenario(gate, play) == "late"


def test_a_model_that_hangs_makes_calls_late_and_then_busy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local, "END_S", 0.05)
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        first = asyncio.create_task(outcome(thread, budget_s=0.05))
        await reached(gate.entered)
        waiting = [asyncio.create_task(outcome(thread, budget_s=0.05)) for _ in range(3)]
        return [await first, await asyncio.gather(*waiting), await outcome(thread)]

    try:
        assert scenario(gate, play, most=3) == ["late", ["late"] * 3, "busy"]
        assert "hangs" in caplog.text
    finally:
        gate.open.set()


def raises(exc: BaseException) -> local.Read:
    def read(texts: Sequence[str], go_on: GoOn) -> Found:
        if texts[0].startswith("Zara"):
            return [[Finding("PERSON", 0, 4, 0.9)]]
        raise exc

    return read


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (raises(ValueError(MARKER)), "failed"),
        (raises(MemoryError(MARKER)), "failed"),
        (raises(SystemExit(MARKER)), "failed"),
        (raises(KeyboardInterrupt()), "failed"),
        (raises(ScanLate(MARKER)), "late"),
        (raises(UnmeasuredLanguage(MARKER)), "unmeasured_language"),
        (lambda texts, go_on: [[]] if texts[0].startswith("Zara") else [], "failed"),
        (lambda texts, go_on: [[]] if texts[0].startswith("Zara") else None, "failed"),
        (lambda texts, go_on: [UnmeasuredLanguage()], "unmeasured_language"),
    ],
)
def test_a_reader_that_fails_is_no_scan_and_the_next_call_is_read(
    read: local.Read, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[BaseException] = []

    async def play(thread: ReaderThread) -> object:
        try:
            await thread.find([f"my {MARKER}"], FAR_S)
        except NoScan as failure:
            seen.append(failure)
        return await outcome(thread, "Zara")

    after = scenario(read, play)
    assert after in ("found", "nothing", reason)
    (failure,) = seen
    assert isinstance(failure, NoScan)
    assert failure.reason == reason
    assert failure.__cause__ is None
    assert MARKER not in "".join(traceback.format_exception(failure)) + caplog.text


@pytest.mark.parametrize(
    "model",
    [
        lambda rows: nothing(rows) * float("nan"),
        lambda rows: nothing(rows)[:, :1],
        lambda rows: nothing(rows)[0],
    ],
)
def test_a_model_that_answers_nonsense_never_looks_like_a_text_without_names(
    model: Callable[[Rows], Logits],
) -> None:
    reader = NamesReader(Tagger(plain_features(), model), None, THRESHOLDS)

    async def play(thread: ReaderThread) -> object:
        return await outcome(thread)

    assert scenario(reader.read, play) == "failed"


def test_one_call_that_cannot_be_read_leaves_its_neighbours_alone() -> None:
    gate = Gate()

    def read(texts: Sequence[str], go_on: GoOn) -> Found:
        gate(texts, go_on)
        return [UnmeasuredLanguage() if text == "jag" else [] for text in texts]

    async def play(thread: ReaderThread) -> object:
        first = asyncio.create_task(outcome(thread, "first"))
        await reached(gate.entered)
        others = [asyncio.create_task(outcome(thread, text)) for text in ("a", "jag", "b")]
        await asyncio.sleep(0)
        gate.open.set()
        return [await first, *await asyncio.gather(*others)]

    assert scenario(read, play) == ["nothing", "nothing", "unmeasured_language", "nothing"]


def test_an_end_refuses_those_that_wait_and_those_that_come() -> None:
    gate = Gate()

    async def play(thread: ReaderThread) -> object:
        running = asyncio.create_task(outcome(thread, "running"))
        await reached(gate.entered)
        waiting = [asyncio.create_task(outcome(thread, "waits " * 2_000)) for _ in range(2)]
        waiting += [asyncio.create_task(outcome(thread, "waits"))]
        await asyncio.sleep(0)
        end = asyncio.create_task(asyncio.to_thread(thread.end))
        await reached(thread._ended)
        gate.open.set()
        await end
        return [await running, *await asyncio.gather(*waiting), await outcome(thread)]

    assert scenario(gate, play) == ["failed"] * 5


def test_a_thread_that_dies_refuses_at_once_and_says_so_without_a_word_of_the_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    died: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: died.append(str(args.exc_value)))

    def broken(thread: ReaderThread) -> None:
        raise RuntimeError("in the thread itself")

    monkeypatch.setattr(ReaderThread, "_read_short", broken)

    async def play(thread: ReaderThread) -> object:
        first = asyncio.gather(*(outcome(thread, MARKER) for _ in range(3)))
        return [await first, await outcome(thread)]

    assert scenario(knowing, play) == [["failed"] * 3, "failed"]
    assert died == ["in the thread itself"]
    assert "has died" in caplog.text
    assert MARKER not in caplog.text


def test_a_caller_that_leaves_as_the_answer_comes_leaves_no_complaint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complaints: list[object] = []
    callers: list[asyncio.Task[object]] = []

    tell = local._Job._resolve

    def tell_and_leave(job: local._Job, answer: local.Answer | NoScan) -> None:
        tell(job, answer)
        callers[0].cancel()  # the answer is there, and nobody comes to look at it

    monkeypatch.setattr(local._Job, "_resolve", tell_and_leave)

    async def play(thread: ReaderThread) -> object:
        asyncio.get_running_loop().set_exception_handler(lambda _, c: complaints.append(c))
        callers.append(asyncio.create_task(thread.find(["x"], FAR_S)))
        (left,) = await asyncio.gather(*callers, return_exceptions=True)
        callers.clear()
        gc.collect()
        return type(left)

    assert scenario(raises(ValueError(MARKER)), play) is asyncio.CancelledError
    gc.collect()
    assert complaints == []


def test_a_job_does_not_say_what_it_holds() -> None:
    async def play() -> str:
        job = local._Job([MARKER], 0.0, asyncio.get_running_loop().create_future(), 1)
        return repr(job)

    assert MARKER not in asyncio.run(play())


def test_an_answer_for_a_loop_that_has_ended_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    job = local._Job(["x"], 0.0, loop.create_future(), 1)
    loop.close()
    job.resolve(ScanFailed())
    job.resolve([[]])
