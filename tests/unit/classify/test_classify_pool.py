"""C1 with real worker processes: whatever a scanner does, an answer in time or a NoScan."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gateway.classify import NoScan, ScanFailed, ScanLate, ScannersBusy, ScannerUnfit
from gateway.classify.scan_workers import frames, process
from gateway.classify.scan_workers import pool as pool_module
from gateway.classify.scan_workers.pool import ScanPool, ScanWorker
from gateway.config import ClassifySettings
from tests.unit.classify import misbehaving_scanners


def spec(factory: str = "tests.unit.classify.misbehaving_scanners:scripted") -> frames.WorkerSpec:
    return frames.WorkerSpec(ClassifySettings(), factory=factory)


@contextlib.asynccontextmanager
async def running(
    workers: int = 1,
    max_waiting: int = 8,
    factory: str = "tests.unit.classify.misbehaving_scanners:scripted",
) -> AsyncIterator[ScanPool]:
    pool = ScanPool(spec(factory), workers, max_waiting)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.aclose()


async def expect(pool: ScanPool, text: str, budget_s: float = 60.0) -> str:
    """'found', 'nothing', or the reason why there is no scan."""
    try:
        (found,) = await pool.scan([text], budget_s)
    except NoScan as failure:
        return failure.reason
    return "found" if found else "nothing"


OUTCOMES = (
    ("find it", "found"),
    ("hello", "nothing"),
    ("raise", "failed"),
    ("die", "failed"),
    ("beyond", "failed"),
    ("untyped", "failed"),
    ("sure", "failed"),
    ("connect", "failed"),
    ("program", "failed"),
    ("fork", "failed"),
    ("print", "nothing"),
    ("environment", "nothing"),
    ("dumpable", "nothing"),
)


def test_a_scanner_can_only_answer_or_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next call is served again."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("SPILLWAY_TEST_KEY", "secret")

    async def scenario() -> list[tuple[str, str, str]]:
        async with running() as pool:
            return [
                (text, await expect(pool, text), await expect(pool, "find it"))
                for text, _ in OUTCOMES
            ]

    assert asyncio.run(scenario()) == [(text, outcome, "found") for text, outcome in OUTCOMES]


def test_garbage_from_a_scanner_is_a_failed_scan() -> None:
    async def scenario() -> tuple[str, str]:
        async with running(factory="tests.unit.classify.misbehaving_scanners:garbage") as pool:
            return await expect(pool, "garbage"), await expect(pool, "find it")

    assert asyncio.run(scenario()) == ("failed", "found")


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"[]", b"{}", b'{"found":[]}', b'{"found":[7]}']
)
def test_an_answer_that_does_not_fit_is_a_failed_scan(body: bytes) -> None:
    with pytest.raises(ScanFailed):
        frames.unpack_findings(body, ["text"])


def test_a_slow_scan_is_late_and_its_worker_lives_on() -> None:
    async def scenario() -> tuple[str, str, int]:
        async with running() as pool:
            return await expect(pool, "sleep", 0.3), await expect(pool, "find it"), pool.replaced

    assert asyncio.run(scenario()) == ("late", "found", 0)


@pytest.mark.parametrize("text", ["hang", "swallow"])
def test_a_worker_that_does_not_stop_is_late_and_no_hindrance(text: str) -> None:
    async def scenario() -> tuple[str, float, str]:
        async with running() as pool:
            started_s = time.monotonic()
            first = await expect(pool, text, 0.3)
            return first, time.monotonic() - started_s, await expect(pool, "find it")

    first, took_s, second = asyncio.run(scenario())
    assert (first, second) == ("late", "found")
    assert took_s < 30, "the scan itself takes 60 s"


def test_a_worker_that_hangs_is_killed_and_replaced() -> None:
    async def scenario() -> tuple[int, list[int]]:
        async with running() as pool:
            before = _children()
            await expect(pool, "hang", 0.2)
            await expect(pool, "find it")
            return pool.replaced, sorted(before & _children())

    assert asyncio.run(scenario()) == (1, [])


@pytest.mark.interpreted  # what is compiled takes `started` directly
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_worker_whose_successors_die_before_they_are_asked_is_replaced(
    run: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops tell of a pipe that nobody reads in different ways, and each way must be tried again: a
    replacement that is given up leaves no scanner for the rest of the process's life."""
    dead = 3

    async def start(factory: str) -> Any:
        nonlocal dead
        if dead == 0:
            return await process.started(factory)
        dead -= 1
        pipe = asyncio.subprocess.PIPE
        ended = await asyncio.create_subprocess_exec("true", stdin=pipe, stdout=pipe)
        await ended.wait()
        await asyncio.sleep(0.05)  # the loop closes its end
        return ended

    async def scenario() -> list[str]:
        async with running() as pool:
            (worker,) = pool._workers
            monkeypatch.setattr(pool_module, "started", start)
            os.kill(worker._process.pid, signal.SIGKILL)
            told = [await expect(pool, "find it", 30.0)]
            return [*told, await expect(pool, "find it", 30.0)]

    assert run(scenario())[-1] == "found"
    assert dead == 0


def test_a_replacement_that_fails_in_an_unknown_way_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [RuntimeError("a bug"), ValueError("another"), KeyError("a third")]
    start = ScanWorker.start

    async def failing(spec: frames.WorkerSpec) -> ScanWorker:
        if failures:
            raise failures.pop()
        return await start(spec)

    async def scenario() -> str:
        async with running() as pool:
            monkeypatch.setattr(ScanWorker, "start", failing)
            monkeypatch.setattr(pool_module, "_BACKOFF_S", (0.01,))
            await expect(pool, "die")
            return await expect(pool, "find it", 30.0)

    assert asyncio.run(scenario()) == "found"
    assert failures == []


def test_who_counts_workers_is_told_of_each_that_is_replaced() -> None:
    async def scenario() -> tuple[int, int]:
        told: list[None] = []
        pool = ScanPool(spec(), on_replaced=lambda: told.append(None))
        await pool.start()
        try:
            for text, budget_s in (("die", 20.0), ("find it", 20.0), ("hang", 0.2)):
                await expect(pool, text, budget_s)
            return len(told), pool.replaced
        finally:
            await pool.aclose()

    assert asyncio.run(scenario()) == (2, 2)


def test_a_pool_grows_while_it_scans() -> None:
    async def scenario() -> tuple[str, str]:
        async with running() as pool:
            pool.grow(2)
            first = await expect(pool, "find it")
            hangs = [asyncio.create_task(expect(pool, "hang", 20.0)) for _ in range(2)]
            meanwhile = await expect(pool, "find it")  # two hang: there is a third
            for hang in hangs:
                hang.cancel()
            return first, meanwhile

    assert asyncio.run(scenario()) == ("found", "found")


def test_waiting_for_a_worker_counts_against_the_budget() -> None:
    async def scenario() -> list[str]:
        async with running() as pool:
            return list(
                await asyncio.gather(expect(pool, "sleep", 1.0), expect(pool, "find it", 0.2))
            )

    assert asyncio.run(scenario()) == ["late", "late"]


def test_more_calls_than_may_wait_are_busy() -> None:
    async def scenario() -> list[str]:
        async with running(max_waiting=2) as pool:
            return list(await asyncio.gather(*(expect(pool, "nap", 5.0) for _ in range(5))))

    outcomes = asyncio.run(scenario())
    assert sorted(outcomes) == ["busy"] * 2 + ["nothing"] * 3


def test_callers_that_leave_do_not_wear_workers_out() -> None:
    async def scenario() -> tuple[str, int]:
        async with running() as pool:
            for _ in range(3):
                leaver = asyncio.create_task(pool.scan(["nap"], 5.0))
                await asyncio.sleep(0.02)
                leaver.cancel()
                with contextlib.suppress(asyncio.CancelledError, NoScan):
                    await leaver
            return await expect(pool, "find it"), pool.replaced

    assert asyncio.run(scenario()) == ("found", 0)


def test_two_workers_scan_at_once(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        async with running(workers=2) as pool:
            calls = (f"meet {tmp_path} a b", f"meet {tmp_path} b a")
            return await asyncio.gather(*(expect(pool, call) for call in calls))

    assert asyncio.run(scenario()) == ["found"] * 2


def test_no_worker_outlives_its_pool() -> None:
    async def scenario() -> set[int]:
        before = _children()
        async with running(workers=2) as pool:
            task = asyncio.create_task(expect(pool, "hang", 20.0))
            await asyncio.sleep(0.1)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return _children() - before

    assert asyncio.run(scenario()) == set()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("text", ["hello", "die", "hang"])
def test_a_closed_pool_leaves_nothing_open_on_its_loop(
    text: str,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Closed the moment the call ends: the worker of "hang" is being replaced then."""
    complaints: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: complaints.append(repr(found)))

    async def scenario() -> None:
        async with running() as pool:
            await expect(pool, text, 0.3)

    with (
        warnings.catch_warnings(record=True) as warned,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        warnings.simplefilter("always")
        runner.run(scenario())
    gc.collect()
    assert (complaints, [str(w.message) for w in warned]) == ([], [])


def test_a_closed_pool_fails_local() -> None:
    async def scenario() -> str:
        async with running() as pool:
            pass
        return await expect(pool, "find it")

    assert asyncio.run(scenario()) == "failed"


def test_a_scanner_that_cannot_be_built_stops_the_start() -> None:
    async def scenario() -> None:
        async with running(factory="tests.unit.classify.misbehaving_scanners:unbuildable"):
            pass

    with pytest.raises(ScannerUnfit, match="RuntimeError") as caught:
        asyncio.run(scenario())
    assert misbehaving_scanners.MARKER not in repr(caught.value)


def test_a_scanner_that_knows_what_it_lacks_says_it() -> None:
    async def scenario() -> None:
        async with running(factory="tests.unit.classify.misbehaving_scanners:unfit"):
            raise AssertionError("it started")

    with pytest.raises(ScannerUnfit, match="there is no model at /models/x; put it there"):
        asyncio.run(scenario())


def test_exceptions_of_a_scan_carry_no_content() -> None:
    async def scenario() -> None:
        async with running(max_waiting=1) as pool:
            for text, budget_s in [("raise", 5.0), ("die", 5.0), ("beyond", 5.0), ("hang", 0.2)]:
                with pytest.raises(NoScan) as caught:
                    await pool.scan([text + " " + misbehaving_scanners.MARKER], budget_s)
                assert misbehaving_scanners.MARKER not in repr(caught.value)
                assert caught.value.__cause__ is None

    asyncio.run(scenario())


def test_reasons_have_names() -> None:
    assert [e.reason for e in (ScanLate, ScanFailed, ScannersBusy)] == ["late", "failed", "busy"]


def _children() -> set[int]:
    """Processes of ours that run a scan worker."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
            if (
                parent == os.getpid()
                and b"scan_workers.worker" in (stat.parent / "cmdline").read_bytes()
            ):
                found.add(int(stat.parent.name))
    return found


def test_a_text_of_too_many_candidates_says_so_and_keeps_its_worker() -> None:
    async def run() -> tuple[str, str, int]:
        async with running() as pool:
            return await expect(pool, "crowd"), await expect(pool, "find it"), pool.replaced

    assert asyncio.run(run()) == ("too_many", "found", 0)
