"""Records are waited for until each call's time is up, whatever the others have left."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from gateway.accounting.records import Durable
from gateway.accounting.waits import Waits
from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded

LONG_S, SHORT_S = 3600.0, 0.02


def begun(waits: Waits, left_s: float) -> Durable:
    """A record that nobody makes durable, waited for as an account does."""
    durable: Durable = asyncio.get_running_loop().create_future()
    deadline = waits.open[durable] = Deadline.after(left_s)
    if deadline.at_s < waits.looks_s:
        waits.watch(deadline)
    return durable


async def ends_late(durable: Durable) -> None:
    late = await asyncio.wait_for(asyncio.shield(durable), 5.0)
    assert isinstance(late, DeadlineExceeded)
    assert "before the record was durable" in late.message


@pytest.mark.parametrize("first_s", [LONG_S, SHORT_S])
def test_each_wait_ends_at_its_own_time(first_s: float) -> None:
    async def main() -> None:
        waits = Waits()
        one, other = begun(waits, first_s), begun(waits, LONG_S + SHORT_S - first_s)
        late, patient = (one, other) if first_s == SHORT_S else (other, one)
        await ends_late(late)
        assert not patient.done()

    asyncio.run(main())


def test_those_that_come_behind_are_looked_at_when_their_time_comes() -> None:
    async def main() -> None:
        waits = Waits()
        first, second, third = (begun(waits, n * SHORT_S) for n in (1, 2, 3))
        first.set_result(None)
        del waits.open[first]
        await ends_late(third)
        assert second.done()
        assert await first is None

    asyncio.run(main())


def test_one_whose_time_is_up_already_does_not_wait() -> None:
    async def main() -> None:
        await ends_late(begun(Waits(), -1.0))

    asyncio.run(main())


def test_what_became_durable_in_time_stays_so_and_who_has_left_is_let_go() -> None:
    async def main() -> None:
        waits = Waits()
        durable, left, late = (begun(waits, SHORT_S) for _ in range(3))
        durable.set_result(None)
        left.cancel()
        await ends_late(late)
        assert await durable is None
        with contextlib.suppress(asyncio.CancelledError):
            await left

    asyncio.run(main())
