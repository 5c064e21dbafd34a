"""What the console costs: a call while nobody looks, and the loop while somebody does.

python -m loadtests.console
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from typing import Any

from gateway.accounting.live.decisions import Decisions, WatchedLog
from gateway.accounting.live.feed import EVERY_S
from tests.unit.console.console_rig import Desk, record
from tests.unit.harness import MemoryLog

_CALLS = 20_000
_LAPS = 7


class _Nowhere(MemoryLog):
    def append(self, record: Any) -> None:
        return None


def _a_call_us(log: Any) -> float:
    lines = [record(call=str(n)) for n in range(_CALLS)]
    began = time.thread_time()
    for line in lines:
        log.append(line)
    return (time.thread_time() - began) / _CALLS * 1e6


def _added_us() -> float:
    plain, watched = _Nowhere(), WatchedLog(_Nowhere(), Decisions(time.monotonic))
    return statistics.median(_a_call_us(watched) - _a_call_us(plain) for _ in range(_LAPS))


async def _a_tick_ms(calls: int) -> tuple[float, float]:
    """The usual one, and the one a second that measures anew."""
    desk = Desk()
    looker = desk.feed.join()
    for n in range(calls):
        took_s = n * 7919 % 1000 / 1000
        desk.decisions.ends(record(call=str(n), tenant=f"t{n % 9}", took_s=took_s))
    took = []
    for _ in range(_LAPS):
        await asyncio.sleep(0.3)
        desk.decisions.ends(record())
        began = time.thread_time()
        desk.feed.tick()
        took.append((time.thread_time() - began) * 1000)
        while not looker.queue.empty():
            looker.queue.get_nowait()
    desk.feed.close()
    return statistics.median(took), max(took)


def main() -> None:
    out = sys.stdout.write
    out(f"a call, nobody looking: {_added_us():.2f} us more\n")
    for calls in (0, 500, 5000):
        usual_ms, most_ms = asyncio.run(_a_tick_ms(calls))
        share = (usual_ms * (1 / EVERY_S - 1) + most_ms) / 1000
        out(
            f"a look, after {calls} calls: {usual_ms:.2f} ms, once a second {most_ms:.2f} ms; "
            f"{share:.2%} of the loop while somebody looks\n"
        )


if __name__ == "__main__":
    main()
