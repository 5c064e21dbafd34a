"""A server that becomes five times slower for half a minute, while callers' budgets cut what it
does: it is learnt by what was cut, callers are told early, and it is forgotten when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

from gateway.core.errors import DeadlineExceeded
from gateway.core.reply import ReplyStream
from gateway.core.types import InferenceRequest, ServedModel, Zone
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.servers.group import Servers
from tests.unit.harness import (
    MODEL,
    Ended,
    Plan,
    Rig,
    ScriptedConnector,
    Site,
    cloud,
    now_s,
    request,
    run,
)

_ALONE_S = 0.04
_SLOWER = 5.0
_PHASES_S = (20.0, 30.0, 20.0)  # as usual, slower, as usual again


class OneByOne(ScriptedConnector):
    """Executes one call after the other: to its end, also where nobody awaits it any more; one that
    nobody awaits when its turn comes is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.slower = 1.0
        self._busy = asyncio.Lock()

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        await self._busy.acquire()
        executed = asyncio.get_running_loop().create_task(self._execute())
        await asyncio.shield(executed)
        return await super().open(request, served)

    async def _execute(self) -> None:
        await asyncio.sleep(_ALONE_S * self.slower)
        self._busy.release()


@dataclass(frozen=True, slots=True)
class Share:
    """Of one kind of call in one stretch of time."""

    calls: int
    in_time: float
    waited_in_vain: float
    """Who was told only when its time was over."""


def share(ended: Sequence[Ended]) -> Share:
    vain = sum(isinstance(e.error, DeadlineExceeded) for e in ended)
    served = sum(e.error is None for e in ended)
    return Share(len(ended), served / len(ended), vain / len(ended))


async def _phase(
    rig: Rig, chance: Random, lasts_s: float, kinds: Sequence[str], budgets_s: tuple[float, float]
) -> dict[str, list[Ended]]:
    tasks: dict[str, list[asyncio.Task[Ended]]] = {kind: [] for kind in kinds}
    until_s = now_s() + lasts_s
    while now_s() < until_s:
        await asyncio.sleep(chance.expovariate(12.0 * len(kinds)))
        kind = chance.choice(kinds)
        budget_s = chance.uniform(*budgets_s)
        tasks[kind].append(asyncio.create_task(rig.call(request(kind, budget_s))))
    return {kind: list(await asyncio.gather(*each)) for kind, each in tasks.items()}


def phases(
    kinds: Sequence[str], budgets_s: tuple[float, float], seed: int = 1, away: bool = True
) -> tuple[list[dict[str, Share]], Rig]:
    async def main() -> tuple[list[dict[str, Share]], Rig]:
        chance, server = Random(seed), OneByOne()
        sites = [Site("gpu", Zone.ONPREM, server, expected_ms=1000 * _ALONE_S)]
        if away:
            sites.append(cloud(Plan(open_s=0.15)))
        rig = Rig(*sites)
        shares = []
        for number, lasts_s in enumerate(_PHASES_S):
            server.slower = _SLOWER if number == 1 else 1.0
            ended = await _phase(rig, chance, lasts_s, kinds, budgets_s)
            shares.append({kind: share(each) for kind, each in ended.items()})
        assert rig.leftovers() == {}
        return shares, rig

    return run(main())


@pytest.mark.parametrize("budgets_s", [(0.15, 0.5), (0.3, 0.6)], ids=["tight", "fair"])
@pytest.mark.parametrize("seed", range(2))
def test_restricted_calls_are_served_as_far_as_it_goes_others_told_early(
    seed: int, budgets_s: tuple[float, float]
) -> None:
    """It executes five calls a second, of twelve that come; 1 to 15 % were in time, and up to half
    waited in vain, before what was cut taught anything."""
    (usual, slower, again), rig = phases(("restricted",), budgets_s, seed)
    assert usual["restricted"].in_time > 0.97
    assert slower["restricted"].in_time > 0.22
    assert slower["restricted"].waited_in_vain < 0.12
    assert again["restricted"].in_time > 0.83
    assert rig.registry.model_state("gpu", MODEL).breaker.epoch == 0, "it is slow and not dead"
    assert rig.cloud_seen == []


@pytest.mark.parametrize("kinds", [("clear",), ("restricted", "clear")], ids=["alone", "beside"])
@pytest.mark.parametrize("seed", range(2))
def test_clear_calls_leave_in_time(seed: int, kinds: tuple[str, ...]) -> None:
    """Alone, half of them were late."""
    (usual, slower, again), _ = phases(kinds, (0.3, 0.6), seed)
    assert usual["clear"].in_time > 0.97
    assert slower["clear"].in_time > 0.9
    assert again["clear"].in_time > 0.97


@pytest.mark.parametrize("seed", range(2))
def test_who_cannot_be_served_at_all_is_mostly_told_early(seed: int) -> None:
    """No budget is as long as a call takes: all that there is to know is what was cut."""
    (_, slower, again), rig = phases(("restricted",), (0.1, 0.19), seed, away=False)
    assert slower["restricted"].waited_in_vain < 0.5
    assert again["restricted"].in_time > 0.8
    assert rig.registry.model_state("gpu", MODEL).breaker.epoch == 0


def test_a_batch_that_was_cut_lasts_longer_than_it_had_lasted() -> None:
    model = BatchModel(0.02, 0.02)
    for _ in range(16):
        model.observe(1.0, 0.04)
    assert not model.at_least(1.0, 0.04)
    assert model.predict_s(1.0) == pytest.approx(0.04)
    assert model.at_least(1.0, 0.2)
    assert 0.2 < model.predict_s(1.0) <= 0.31
    assert model.at_least(1.0, 0.1), "no news, and still so"
    assert model.predict_s(1.0) > 0.2
    model.observe(1.0, 0.041)
    assert model.predict_s(1.0) < 0.05, "one answer says how long they take"


def test_what_was_cut_is_certain_for_a_second() -> None:
    """Else nobody would be sent there, and nobody would learn that it is over."""
    model = BatchModel(0.02, 0.02)
    for _ in range(16):
        model.observe(1.0, 0.04)
    (instance,) = Servers({"gpu": model}).up
    instance.renewed_s = 100.0
    assert instance.least_s(1.0, 129.0) == pytest.approx(0.04)
    model.at_least(1.0, 0.2)
    assert instance.least_s(1.0, 100.9) > 0.2
    assert instance.least_s(1.0, 101.1) == 0.0


def test_a_server_that_started_anew_is_as_usual() -> None:
    model = BatchModel(0.02, 0.02)
    servers = Servers({"gpu": model})
    model.at_least(1.0, 0.8)
    assert model.slower > 5.0
    servers.mark_up("gpu", up=False)
    servers.mark_up("gpu", up=True)
    assert model.slower == 1.0
