"""One absolute deadline for a call (D1)."""

from __future__ import annotations

import asyncio
import time

import pytest
import uvloop

from gateway.core.deadline import Deadline


@pytest.mark.parametrize(
    ("left_s", "passed"), [(1.0, False), (0.01, False), (0.0, True), (-1, True)]
)
def test_a_deadline_passes_when_nothing_is_left(left_s: float, passed: bool) -> None:
    assert Deadline(5.0 + left_s, clock=lambda: 5.0).passed() is passed


def test_whoever_a_timer_wakes_at_the_deadline_finds_that_it_has_passed() -> None:
    """uvloop's timers fire early: the call would be taken for one whose server went down."""

    async def woken(seconds: float) -> bool:
        deadline = Deadline(time.monotonic() + seconds)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(deadline.remaining_s()):
                await asyncio.Event().wait()
        return deadline.passed()

    async def many() -> list[bool]:
        return await asyncio.gather(*(woken(0.003 + n * 0.00037) for n in range(200)))

    assert all(uvloop.run(many()))
