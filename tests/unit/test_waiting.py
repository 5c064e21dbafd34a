"""Waits at a lane end when they should."""

from __future__ import annotations

import asyncio

import pytest

from gateway.config import HealthSettings
from gateway.endpoints.health.breaker import Breaker
from gateway.endpoints.health.model_health import ModelHealth
from gateway.endpoints.state import AttemptTimeout, ModelState
from gateway.scheduling.routing.estimate import ServiceTimes
from tests.unit.harness import now_s

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def lane() -> ModelState:
    health = ModelHealth(now_s, HealthSettings(), Breaker(now_s))
    return ModelState(health.breaker, ServiceTimes(0.1, now_s), ServiceTimes(0.0, now_s), health)


class Call:
    def __init__(self, lane: ModelState, waiting: AttemptTimeout | None = None) -> None:
        self.waiting = AttemptTimeout() if waiting is None else waiting
        self.waiting.model_state = lane

    async def wait(self, seconds: float, answered_s: float = 10.0) -> float:
        """How long it waited."""
        began_s = now_s()
        with self.waiting.waits(began_s + seconds, began_s):
            await asyncio.sleep(answered_s)
        return now_s() - began_s


def lasting(lane: ModelState, later_s: float) -> Call:
    """`later_s`: how much longer it may last when its end has come."""

    class Lasting(AttemptTimeout):
        may_last = True

        def last_check(self) -> None:
            self.ends_s += later_s

    return Call(lane, Lasting())


async def test_a_wait_ends_at_its_time_and_leaves_nothing_behind(lane: ModelState) -> None:
    call = Call(lane)
    began_s = now_s()
    with pytest.raises(TimeoutError):
        await call.wait(0.02)
    assert 0.01 <= now_s() - began_s < 0.2
    assert not lane.waiting
    assert not call.waiting.expired
    await asyncio.sleep(0)  # no cancellation either


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_a_time_that_has_passed_ends_it_at_once(lane: ModelState, seconds: float) -> None:
    with pytest.raises(TimeoutError):
        await Call(lane).wait(seconds)


async def test_what_is_answered_in_time_is_a_sign_of_life(lane: ModelState) -> None:
    await Call(lane).wait(5.0, answered_s=0.01)
    assert lane.health.answers.heard_count == 1
    assert lane.health.answers.unanswered_since_s is None


async def test_who_gave_up_has_heard_nothing(lane: ModelState) -> None:
    with pytest.raises(TimeoutError):
        await Call(lane).wait(0.01)
    assert lane.health.answers.heard_count == 0
    assert lane.health.answers.unanswered_since_s is not None


async def test_each_of_many_ends_at_its_own_time(lane: ModelState) -> None:
    async def lasted(seconds: float) -> bool:
        try:
            await Call(lane).wait(seconds, answered_s=0.15)
        except TimeoutError:
            return False
        return True

    found = await asyncio.gather(*(lasted(0.01 * n if n % 2 else 5) for n in range(10)))
    assert found == [not n % 2 for n in range(10)]


@pytest.mark.interpreted  # no class may inherit from one that is compiled
async def test_a_wait_can_be_ended_sooner(lane: ModelState) -> None:
    call = lasting(lane, later_s=30)
    loop = asyncio.get_running_loop()
    loop.call_later(0.01, lambda: call.waiting.ends_by(now_s(), now_s()))
    with pytest.raises(TimeoutError):
        await call.wait(30)


async def test_nothing_ends_later_for_being_ended_sooner(lane: ModelState) -> None:
    call = Call(lane)
    asyncio.get_running_loop().call_later(0.01, lambda: call.waiting.ends_by(now_s() + 30, now_s()))
    with pytest.raises(TimeoutError):
        await call.wait(0.03)


@pytest.mark.interpreted  # no class may inherit from one that is compiled
async def test_what_may_last_is_asked_once_when_its_end_has_come(lane: ModelState) -> None:
    assert await lasting(lane, later_s=5.0).wait(0.02, answered_s=0.06) >= 0.05
    began_s = now_s()
    with pytest.raises(TimeoutError):
        await lasting(lane, later_s=0.03).wait(0.02)
    assert now_s() - began_s >= 0.04


async def test_a_cancellation_from_elsewhere_stays_one(lane: ModelState) -> None:
    task = asyncio.create_task(Call(lane).wait(10))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not lane.waiting


async def test_a_cancellation_that_comes_with_the_end_wins(lane: ModelState) -> None:
    async def wait() -> None:
        with (waiting := Call(lane).waiting).waits(now_s() + 0.02, now_s()):
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                assert waiting.expired
                task.cancel()
                raise

    task = asyncio.create_task(wait())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_who_is_slow_to_leave_is_told_once(lane: ModelState) -> None:
    async def wait() -> None:
        with Call(lane).waiting.waits(now_s() + 0.01, now_s()):
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)  # others run out of time meanwhile
                raise

    slow = asyncio.create_task(wait())
    with pytest.raises(TimeoutError):
        await Call(lane).wait(0.03)
    with pytest.raises(TimeoutError):
        await slow
