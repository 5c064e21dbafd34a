"""One server that is asked for more than it can do, on a clock of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.scheduling.calls import Action, QueuedCall, Refuse
from gateway.scheduling.scheduler import Scheduler
from tests.unit.scheduling.calls import BATCH, FULL_S, Seen, finish, steady_model


@dataclass(slots=True)
class Overload:
    seen: Seen = field(default_factory=Seen)
    waited_s: list[float] = field(default_factory=list)  # of those who were refused, in turn
    in_time: int = 0  # of those whom the server answered

    @property
    def mean_batch(self) -> float:
        return len(self.seen.sent) / len(self.seen.releases)


def overloaded(load: float, call_at: Callable[[float], QueuedCall], calls: int = 4000) -> Overload:
    """Calls come evenly, `load` times as many as full batches of average calls could serve."""
    waits, done = Scheduler({"gpu": steady_model()}, BATCH), Overload()
    model, ends_s, batches = steady_model(), math.inf, 0

    def told(actions: list[Action], now_s: float) -> None:
        nonlocal ends_s
        done.seen(actions)
        done.waited_s += [now_s - a.call.arrived_s for a in actions if isinstance(a, Refuse)]
        if ends_s == math.inf and len(done.seen.releases) > batches:
            ends_s = now_s + model.predict_s(sum(c.work for c in done.seen.releases[batches].calls))

    for number in range(calls):
        at_s = number * FULL_S / BATCH / load
        while (now_s := min(ends_s, waits.wake_s)) <= at_s:
            if now_s < ends_s:
                told(waits.tick(now_s), now_s)
                continue
            release, ends_s, batches = done.seen.releases[batches], math.inf, batches + 1
            done.in_time += sum(now_s <= call.deadline_s for call in release.calls)
            told(finish(waits, release, now_s), now_s)
        told(waits.arrive(call_at(at_s), at_s), at_s)
    return done
