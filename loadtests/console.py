"""What the console costs: a call while nobody looks, and the loop while somebody does.

python -m loadtests.console
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

from gateway.accounting.live.feed import EVERY_S
from gateway.accounting.measures import AT_ONCE
from tests.unit.console.console_rig import Desk, ended, live, record

_CALLS = 20_000
_LAPS = 7


def _a_call_us() -> float:
    decisions = live()
    calls = [ended(record(call=str(n), number=n), at_s=0.0) for n in range(_CALLS)]
    began = time.thread_time()
    for first in range(0, _CALLS, AT_ONCE):
        decisions.take(calls[first : first + AT_ONCE])
    return (time.thread_time() - began) / _CALLS * 1e6


async def _a_tick_ms(calls: int) -> tuple[float, float]:
    """The usual one, and the one a second that measures anew."""
    desk = Desk()
    looker = desk.feed.join()
    for n in range(calls):
        took_s = n * 7919 % 1000 / 1000
        desk.decisions.take([ended(record(call=str(n), tenant=f"t{n % 9}", took_s=took_s))])
    took = []
    for _ in range(_LAPS):
        await asyncio.sleep(0.3)
        desk.decisions.take([ended(record())])
        began = time.thread_time()
        desk.feed.tick()
        took.append((time.thread_time() - began) * 1000)
        while not looker.queue.empty():
            looker.queue.get_nowait()
    desk.feed.close()
    return statistics.median(took), max(took)


def main() -> None:
    out = sys.stdout.write
    call_us = statistics.median(_a_call_us() for _ in range(_LAPS))
    out(f"a call, nobody looking: {call_us:.2f} us more\n")
    for calls in (0, 500, 5000):
        usual_ms, most_ms = asyncio.run(_a_tick_ms(calls))
        share = (usual_ms * (1 / EVERY_S - 1) + most_ms) / 1000
        out(
            f"a look, after {calls} calls: {usual_ms:.2f} ms, once a second {most_ms:.2f} ms; "
            f"{share:.2%} of the loop while somebody looks\n"
        )


if __name__ == "__main__":
    main()
