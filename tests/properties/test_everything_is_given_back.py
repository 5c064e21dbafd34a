"""A2: a caller that is cut off at any await point, once or twice, leaves nothing behind."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Generator
from dataclasses import dataclass, replace
from typing import Any

from gateway.core.types import Quota
from tests.unit.harness import (
    BUSY,
    EMPTY,
    FAILS,
    REFUSES,
    Ended,
    Plan,
    Rig,
    ScriptedClassifier,
    Setup,
    cloud,
    cut_after,
    onprem,
    request,
    run,
)

SLOW_TO_CLOSE = Plan(frames=3, open_s=0.05, frame_s=0.01, close_s=0.03)
HANGS_IN_ITS_ANSWER = Plan(frames=3, hangs_at=1, close_s=0.03)
PLANS = (SLOW_TO_CLOSE, HANGS_IN_ITS_ANSWER, FAILS, BUSY, REFUSES, EMPTY, cut_after(2))
QUEUES = (SLOW_TO_CLOSE, replace(cut_after(2), open_s=0.05))
QUOTAS = (
    Quota("key k", "key", "t", 1e6, 1e9, 1000),
    Quota("tenant t", "tenant", "t", None, None, 1000),
)
QUEUED = Setup(classifier=ScriptedClassifier(takes_s=0.01))


class KilledAt(Coroutine[Any, Any, Ended]):
    """Runs a coroutine and cancels its task in the steps that lead up to these await points."""

    def __init__(self, inner: Coroutine[Any, Any, Ended], *points: int) -> None:
        self._inner, self._points = inner, points
        self.steps = 0

    def __await__(self) -> Generator[Any, Any, Ended]:
        return self._inner.__await__()

    def send(self, value: Any) -> Any:
        self._step()
        return self._inner.send(value)

    def throw(self, *exc: Any) -> Any:
        self._step()
        return self._inner.throw(*exc)

    def close(self) -> None:
        self._inner.close()

    def _step(self) -> None:
        self.steps += 1
        if self.steps in self._points:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()


@dataclass(frozen=True, slots=True)
class Case:
    plan: Plan
    kind: str
    streamed: bool
    crowded: bool = False  # it waits for its turn behind others

    @property
    def most(self) -> int:
        return 1 if self.crowded else 256


async def kill(case: Case, *points: int) -> int:
    """One call, killed there, between two that are not. How many steps it took."""
    gpus = (replace(onprem(case.plan, name=n), max_in_flight=case.most) for n in ("gpu", "gpu2"))
    rig = Rig(*gpus, cloud(case.plan), setup=QUEUED)
    around = [
        asyncio.create_task(rig.call(request("restricted", 0.5, quotas=QUOTAS))) for _ in range(2)
    ]
    if case.crowded:
        await asyncio.sleep(0.02)  # they are where it would be
    called = request(case.kind, 0.5, streamed=case.streamed, quotas=QUOTAS)
    killed = KilledAt(rig.call(called), *points)
    task: asyncio.Task[Ended] = asyncio.create_task(killed)
    around += [
        asyncio.create_task(rig.call(request("restricted", 0.5, quotas=QUOTAS))) for _ in range(2)
    ]
    await asyncio.gather(task, *around, return_exceptions=True)
    await asyncio.sleep(1.0)  # upstreams that close after their caller has gone
    told = f"{case}, killed at {points} of {killed.steps}"
    assert not rig.leftovers(), told
    if killed.steps > 1 or not points:
        assert all(len(ends) == 1 for ends in rig.log.ends().values()), told
        assert len(rig.log.ends()) == 5, told
    if case.crowded and not points:
        (own,) = rig.log.of(called.id)[-1]["attempts"]
        assert own["queued_s"] > 0.0, told
    return killed.steps


async def every_kill(case: Case) -> int:
    steps = await kill(case)
    kills = 0
    for first in range(1, steps + 1):
        for second in (first, *range(first + 1, first + 9, 2)):
            await kill(case, first, second)
            kills += 1
    return kills


def test_kills_at_every_await_point_leave_nothing() -> None:
    cases = itertools.product(PLANS, ("restricted", "clear"), (False, True))
    assert sum(run(every_kill(Case(*case))) for case in cases) >= 600


def test_kills_of_who_waits_in_the_queue_leave_nothing() -> None:
    cases = itertools.product(QUEUES, ("restricted", "clear"), (False, True), (True,))
    assert sum(run(every_kill(Case(*case))) for case in cases) >= 200


def test_a_caller_killed_before_its_first_step_leaves_nothing() -> None:
    async def killed_at_birth() -> dict[str, float]:
        rig = Rig(onprem())
        task = asyncio.create_task(rig.call(request("restricted")))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return rig.leftovers()

    assert run(killed_at_birth()) == {}
