"""What one event costs the scheduler with so many calls waiting.

`python -m loadtests.decide.events`

Calls arrive at a server that is overloaded twice over, with budgets long enough for the queue to
hold as many as are asked for, so that most arrivals make another call give way. Each event is timed
alone; the figures are microseconds of this machine's time.
"""

from __future__ import annotations

import argparse
import random
import time
from statistics import mean, median

from gateway.scheduling.calls import CloudPermission, QueuedCall, Release
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import Tail
from gateway.scheduling.scheduler import Scheduler

_BATCH = 16
_FIXED_S, _PER_WORK_S = 0.008, 0.002
_PER_CALL_S = _FIXED_S / _BATCH + _PER_WORK_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--events", type=int, default=3000)
    args = parser.parse_args()
    for waiting in args.waiting:
        took_us, were = _measure(waiting, args.events)
        print(
            f"{were:6.0f} waiting: median {median(took_us):6.1f} us, mean {mean(took_us):6.1f} us, "
            f"95th percentile {sorted(took_us)[int(0.95 * len(took_us))]:6.1f} us"
        )


def _measure(waiting: int, events: int) -> tuple[list[float], float]:
    """Less than half of the budget is filled: there are margins, and a part is reserved."""
    draw = random.Random(5)
    scheduler = Scheduler({"gpu": BatchModel(_FIXED_S, _PER_WORK_S)}, _BATCH)
    tail = Tail(0.15)
    budget_s = 2.4 * waiting * _PER_CALL_S + _FIXED_S + 4 * _PER_WORK_S
    now_s, batch_end_s = 0.0, float("inf")
    running: list[int | str] = []
    took_us: list[float] = []
    were: list[int] = []
    number = 0
    while len(took_us) < events:
        now_s += draw.expovariate(2.0 / _PER_CALL_S)
        if batch_end_s <= now_s:
            now_s = batch_end_s
            for call_id in running[:-1]:
                scheduler.ended(call_id, True, now_s)
            started = time.perf_counter()
            actions = scheduler.ended(running[-1], True, now_s)
        else:
            number += 1
            restricted = draw.random() < 0.3
            call = QueuedCall(
                id=number,
                arrived_s=now_s,
                deadline_s=now_s + budget_s * draw.uniform(0.5, 1.5),
                penalty=draw.choice((3.0, 5.0, 10.0)) * (2 if restricted else 1),
                price=draw.uniform(0.5, 2.0),
                work=draw.uniform(0.5, 1.5),
                leave=CloudPermission.NEVER if restricted else CloudPermission.FREELY,
                restricted=restricted,
                cloud=tail,
            )
            started = time.perf_counter()
            actions = scheduler.arrive(call, now_s)
        spent_us = (time.perf_counter() - started) * 1e6
        for action in actions:
            if isinstance(action, Release):
                running = [released.id for released in action.calls]
                work = sum(released.work for released in action.calls)
                batch_end_s = now_s + _FIXED_S + _PER_WORK_S * work
        if number > 3 * waiting:
            took_us.append(spent_us)
            were.append(scheduler.waiting)
    return took_us, mean(were)


if __name__ == "__main__":
    main()
