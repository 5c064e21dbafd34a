"""Waits that end: what `asyncio.timeout` promises, with timers that are shared by many."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from gateway.core import timeouts

pytestmark = pytest.mark.anyio


class Timers:
    """How many the loop was asked for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.set = 0
        call_at = loop.call_at

        def counted(when: float, callback: Callable[..., object]) -> asyncio.TimerHandle:
            self.set += 1
            return call_at(when, callback)

        monkeypatch.setattr(loop, "call_at", counted)


async def test_a_wait_ends_at_its_time() -> None:
    with pytest.raises(TimeoutError), timeouts.within(0.02):
        await asyncio.sleep(10)
    await asyncio.sleep(0)  # no cancellation is left behind


async def test_a_time_that_has_passed_ends_the_wait_at_once() -> None:
    with pytest.raises(TimeoutError), timeouts.within(-1.0):
        await asyncio.sleep(10)


async def test_what_does_not_wait_is_not_disturbed() -> None:
    with timeouts.within(-1.0):
        found = 1
    await asyncio.sleep(0.01)
    assert found == 1


async def test_waits_one_after_the_other_share_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "_wheel", None)  # no timer of a test before, in the same loop
    timers = Timers(asyncio.get_running_loop(), monkeypatch)
    for later in range(100):
        with timeouts.within(30 + later):
            await asyncio.sleep(0)
    assert timers.set == 1


async def test_a_timer_of_an_earlier_wait_ends_no_later_one() -> None:
    with timeouts.within(0.02):
        await asyncio.sleep(0)
    with timeouts.within(0.2):
        await asyncio.sleep(0.08)
    with pytest.raises(TimeoutError), timeouts.within(0.02):
        await asyncio.sleep(10)


async def test_waits_within_waits_end_each_at_its_own_time() -> None:
    ended = []

    async def inner_first() -> None:
        with timeouts.within(0.05):
            try:
                with timeouts.within(0.01):
                    await asyncio.sleep(10)
            except TimeoutError:
                ended.append("inner")
            await asyncio.sleep(10)

    async def outer_first() -> None:
        with timeouts.within(0.01), timeouts.within(10):
            await asyncio.sleep(10)

    for wait in (inner_first, outer_first):
        with pytest.raises(TimeoutError):
            await wait()
    assert ended == ["inner"]


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    async def wait() -> None:
        with timeouts.within(10):
            await asyncio.sleep(10)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_that_comes_with_the_end_wins() -> None:
    async def wait() -> None:
        with timeouts.within(0.02):
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                task.cancel()
                raise

    task = asyncio.create_task(wait())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_its_own_goes_through() -> None:
    async def fail() -> None:
        with timeouts.within(0.01):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(10)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fail()


async def test_many_wait_side_by_side() -> None:
    async def wait(seconds: float) -> bool:
        try:
            with timeouts.within(seconds):
                await asyncio.sleep(0.15)
        except TimeoutError:
            return True
        return False

    found = await asyncio.gather(*(wait(0.01 if n % 2 else 5) for n in range(50)))
    assert found == [bool(n % 2) for n in range(50)]


class Ending:
    """Notes that it has ended; with `raises` it fails then."""

    def __init__(self, name: str, ended: list[str], raises: bool = False) -> None:
        self.name, self.ended, self.raises = name, ended, raises

    def expire(self) -> None:
        self.ended.append(self.name)
        if self.raises:
            raise ValueError(self.name)


async def test_a_wheel_ends_what_it_holds_in_the_order_of_their_times() -> None:
    wheel, ended = timeouts.TimerWheel(asyncio.get_running_loop()), list[str]()
    wheel.add(Ending("last", ended), 0.06)
    wheel.add(Ending("first", ended), 0.02)
    out = Ending("out", ended)
    del wheel.add(out, 0.02)[out]
    wheel.add(Ending("second", ended), 0.04)
    await asyncio.sleep(0.1)
    assert ended == ["first", "second", "last"]


async def test_what_fails_at_its_end_keeps_no_other_from_ending() -> None:
    loop = asyncio.get_running_loop()
    failed: list[object] = []
    loop.set_exception_handler(lambda _, context: failed.append(str(context["exception"])))
    wheel, ended = timeouts.TimerWheel(loop), list[str]()
    wheel.add(Ending("bad", ended, raises=True), 0.01)
    wheel.add(Ending("good", ended), 0.01)
    await asyncio.sleep(0.05)
    assert (ended, failed) == (["bad", "good"], ["bad"])


def test_each_loop_has_its_own() -> None:
    async def wait() -> None:
        with timeouts.within(5):
            await asyncio.sleep(0)

    for _ in range(3):
        asyncio.run(wait())


def test_only_a_task_can_be_patient() -> None:
    async def enter() -> None:
        loop = asyncio.get_running_loop()
        failed = loop.create_future()

        def outside() -> None:
            try:
                with timeouts.within(1):
                    failed.set_result(None)
            except RuntimeError as exc:
                failed.set_exception(exc)

        loop.call_soon(outside)
        await failed

    with pytest.raises(RuntimeError, match="only a task"):
        asyncio.run(enter())
