"""Whenever settings are reloaded, and whatever of them changes: restricted calls stay where their
own settings have premises (M1), zones do not widen (M2), no call outlives its deadline (D1), no
server has more calls than it takes (S2), and everything is given back (A2).
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from gateway.config import LimitSettings, QueueSettings
from gateway.core.reply import Frame, Receiver, ReplyStream, deliver_each
from gateway.core.types import InferenceRequest, ServedModel, Zone
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import Ended, Plan, Rig, ScriptedConnector, Setup, Site, request, run

BATCH = 4
MOST_HERE, MOST_AWAY = 5, 3  # calls with the server, and with the cloud
MOST_INSIDE = 64
SEEDS = range(10)
CALLS, RELOADS = 90, 8


@dataclass
class Server:
    """One server at one address, whatever versions of the settings reach it by."""

    inside: int = 0
    most: int = 0


class Reached(ScriptedConnector):
    """A version's way to a server."""

    def __init__(self, server: Server, *plans: Plan) -> None:
        super().__init__(*plans)
        self.server = server

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        self.server.inside += 1
        self.server.most = max(self.server.most, self.server.inside)
        try:
            reply = await super().open(request, served)
        except BaseException:
            self.server.inside -= 1
            raise
        return Leaving(reply, self.server)


class Leaving:
    """A reply that is with the server until it is closed, or has ended by itself."""

    def __init__(self, reply: ReplyStream, server: Server) -> None:
        self._reply, self._server = reply, server
        self._there = True
        self.total_tokens = self.usage = None

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        try:
            return await anext(self._reply)
        except BaseException:
            self._left()
            raise

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        self._left()  # the close has gone out
        await self._reply.aclose()

    def _left(self) -> None:
        if self._there:
            self._there = False
            self._server.inside -= 1


@dataclass
class World:
    """Versions of the settings, one after the other, over the same three servers."""

    chance: random.Random
    gpu: Server = field(default_factory=Server)
    away: Server = field(default_factory=Server)
    moved: Server = field(default_factory=Server)
    rigs: list[Rig] = field(default_factory=list)
    ended: list[tuple[int, InferenceRequest, Ended]] = field(default_factory=list)
    most_inside: int = 0

    def reload(self) -> None:
        chance, before = self.chance, self.rigs[-1] if self.rigs else None
        plans = [
            Plan(frames=chance.choice([1, 3]), open_s=chance.choice([0.05, 0.3, 0.6]),
                 frame_s=chance.choice([0.0, 0.1])) for _ in range(3)
        ]  # fmt: skip
        zone = chance.choice([Zone.ONPREM, Zone.CLOUD])
        sites = [
            Site("gpu", Zone.ONPREM, Reached(self.gpu, *plans),
                 max_in_flight=MOST_HERE, expected_ms=150, address="gpu:1"),
            Site("away", Zone.CLOUD, Reached(self.away, *plans), 0.001,
                 max_in_flight=MOST_AWAY, address="away:1"),
            Site("moved", zone, Reached(self.moved, *plans), expected_ms=150, address="moved:1"),
        ]  # fmt: skip
        same: set[str] = set()
        for at, site in enumerate(sites):
            was = None if before is None else before.sites[site.name]
            if was is not None and was.zone is site.zone and chance.random() < 0.6:
                sites[at] = was
                same.add(site.name)
        setup = Setup(
            policy=Policy(spill=chance.random() < 0.8, max_attempts=chance.choice([1, 2, 3])),
            queue=QueueSettings(aging_s=chance.choice([3.0, 10.0])),
            limits=LimitSettings(max_concurrent=MOST_INSIDE),
            max_batch=BATCH,
        )
        same_queues = before is not None and chance.random() < 0.5
        if same_queues and before is not None:
            setup = Setup(
                policy=setup.policy, queue=QueueSettings(), limits=setup.limits, max_batch=BATCH
            )
        name = f"version {len(self.rigs)}"
        self.rigs.append(
            Rig(*sites, setup=setup, before=before, same=frozenset(same), same_queues=same_queues,
                policy=name)
        )  # fmt: skip
        if before is not None:
            self._closing.append(asyncio.create_task(self._close(before)))

    _closing: list[asyncio.Task[None]] = field(default_factory=list)

    async def _close(self, rig: Rig) -> None:
        """As a core is, once its calls have ended."""
        await rig.accounts.quiet()
        await rig.handover.aclose()

    async def call(self) -> None:
        chance, version = self.chance, len(self.rigs) - 1
        kind = chance.choice(["clear", "restricted"])
        asked = request(kind, chance.choice([0.2, 1.0, 5.0]), streamed=chance.random() < 0.3)
        leaves_s = chance.choice([None, None, None, 0.02, 0.2])
        task = asyncio.create_task(self.rigs[version].call(asked))
        if leaves_s is not None:
            asyncio.get_running_loop().call_later(leaves_s, task.cancel)
        self.most_inside = max(self.most_inside, self.rigs[0].admission.inside)
        self.ended.append((version, asked, await task))

    async def live(self) -> None:
        self.reload()
        at = sorted(self.chance.uniform(0.0, 1.0) for _ in range(CALLS + RELOADS))
        reloads = set(self.chance.sample(range(len(at)), RELOADS))
        calls, last_s = [], 0.0
        for number, at_s in enumerate(at):
            await asyncio.sleep(at_s - last_s)
            last_s = at_s
            if number in reloads:
                self.reload()
            else:
                calls.append(asyncio.create_task(self.call()))
        await asyncio.gather(*calls)
        await asyncio.gather(*self._closing)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_reloaded_whenever(seed: int) -> None:
    async def main() -> None:
        world = World(random.Random(seed))
        await world.live()
        for version, asked, ended in world.ended:
            rig = world.rigs[version]
            assert ended.at_s <= asked.deadline.at_s + 0.05
            lines = rig.log.of(asked.id)
            attempts = [a for line in lines for a in line["attempts"]]
            zones = [set(a["zones"]) for a in attempts]
            assert all(later <= earlier for earlier, later in itertools.pairwise(zones))
            if asked.id.startswith("restricted"):
                assert {a["zone"] for a in attempts} <= {"onprem"}
                for attempt in attempts:
                    assert rig.sites[attempt["endpoint"]].zone is Zone.ONPREM
            assert {line["policy"] for line in lines if line["kind"] == "call"} == {
                f"version {version}"
            }
        settled = Counter(
            line["id"] for line in world.rigs[0].log.lines if line["outcome"] != "sent"
        )
        assert set(settled.values()) == {1}
        assert len(settled) == CALLS
        assert world.gpu.most <= MOST_HERE
        assert world.away.most <= MOST_AWAY
        assert world.most_inside <= MOST_INSIDE
        for rig in world.rigs:
            assert rig.leftovers() == {}
        assert world.rigs[-1].handover.siblings == []
        assert (world.gpu.inside, world.away.inside, world.moved.inside) == (0, 0, 0)

    run(main())


def test_the_worlds_are_busy_enough_to_tell() -> None:
    """Calls are in flight when settings change, of both classes, here and away."""

    async def main() -> tuple[int, int]:
        away = there = 0
        for seed in SEEDS[:3]:
            world = World(random.Random(seed))
            await world.live()
            away += world.away.most == MOST_AWAY
            there += world.gpu.most == MOST_HERE
        return away, there

    away, there = run(main())
    assert away >= 1
    assert there >= 1
