"""Several whole gateways in one leaping loop, in front of the same scripted servers.

The links between them are in memory and do what the real ones do, but for TLS: a call that is
closed is cancelled over there, a killed gateway breaks everything off, and of one that is stopped
nothing is heard while its peers can still connect.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.cluster.forward import Forwarding
from gateway.cluster.membership import Membership
from gateway.cluster.owner import Owner
from gateway.cluster.view import ClusterView
from gateway.config import ClusterSettings
from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, UpstreamUnreachable
from gateway.core.held_bytes import HeldBytes
from gateway.core.types import Zone
from gateway.pipeline.dispatcher import Dispatcher
from gateway.pipeline.pipeline import Pipeline
from tests.unit.harness import Plan, Rig, ScriptedConnector, Setup, Site, cloud, now_s

HOP_S = 0.0005
NAMES = ("east", "west", "north")
FILES = {"cert_file": Path("cert"), "key_file": Path("key"), "ca_file": Path("ca")}


def settings(own: str, names: Sequence[str], owned: Mapping[str, Sequence[str]]) -> ClusterSettings:
    return ClusterSettings.model_validate(
        {
            "self": own,
            **FILES,
            "gateways": {
                name: {"url": "https://127.0.0.1:1", "owns": list(owned.get(name, ()))}
                for name in names
            },
        }
    )


class Ownership:
    def __init__(self, names: Sequence[str], owned: Mapping[str, Sequence[str]]) -> None:
        self.gateways = tuple(names)
        self._owned = owned
        self.owners = tuple(owned)

    def owner(self, server: str) -> str | None:
        return next((name for name, servers in self._owned.items() if server in servers), None)


@dataclass(eq=False)
class Line:
    """What one gateway says to another about one call."""

    to: Gateway
    link: MemoryLink
    said: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None
    broken: asyncio.Event = field(default_factory=asyncio.Event)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        found = await self.said.get()
        await self._heard()
        if self.broken.is_set():
            raise UpstreamUnreachable("the connection broke")
        if found is None:
            raise StopAsyncIteration
        return found

    async def _heard(self) -> None:
        """Nothing comes from a gateway that is stopped, until it goes on or is given up."""
        waits = [asyncio.ensure_future(e.wait()) for e in (self.to.running, self.broken)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def hang_up(self) -> None:
        self.broken.set()
        self.said.put_nowait(None)
        self.close()

    def close(self) -> None:
        self.link.lines.discard(self)
        if self.task is not None:
            self.task.cancel()


class MemoryLink:
    def __init__(self, by: Gateway, to: str, gateways: Mapping[str, Gateway]) -> None:
        self._by, self._name, self._gateways = by, to, gateways
        self.lines: set[Line] = set()
        self.sent: list[bytes] = []

    @property
    def _to(self) -> Gateway:
        return self._gateways[self._name]

    async def state(self, state: bytes, deadline: Deadline) -> bytes:
        await self._reached(deadline)
        return await self._to.owner.state(self._by.name, state)

    async def forward(
        self, message: Sequence[bytes], deadline: Deadline, *, repeatable: bool
    ) -> Line:
        line = Line(self._to, self)
        self.lines.add(line)
        self._to.lines.add(line)
        self.sent.append(b"".join(message))
        await asyncio.sleep(HOP_S)
        if not self._to.alive or not self._by.sees(self._to.name):
            raise UpstreamUnreachable("no connection")

        async def say(said: bytes) -> None:
            line.said.put_nowait(said)

        async def answer() -> None:
            try:
                await self._to.owner.answer(self._by.name, self.sent[-1], say)
            finally:
                self._to.lines.discard(line)
                line.said.put_nowait(None)

        line.task = asyncio.get_running_loop().create_task(answer())
        return line

    def cut(self) -> None:
        for line in tuple(self.lines):
            line.hang_up()

    async def aclose(self) -> None:
        self.cut()

    async def _reached(self, deadline: Deadline) -> None:
        await asyncio.sleep(HOP_S)
        if not self._to.alive or not self._by.sees(self._to.name):
            raise UpstreamUnreachable("no connection")
        try:
            async with asyncio.timeout(deadline.remaining_s()):
                await self._to.running.wait()
        except TimeoutError:
            raise DeadlineExceeded("silence") from None


class Gateway:
    """One of them: a whole `Rig` and its place in the cluster."""

    def __init__(
        self, name: str, names: Sequence[str], owned: Mapping[str, Sequence[str]], rig: Rig,
        setup: Setup, gateways: Mapping[str, Gateway],
    ) -> None:  # fmt: skip
        self.name, self.rig = name, rig
        self.alive = True
        self.running = asyncio.Event()
        self.running.set()
        self.blind_to: set[str] = set()
        self.lines: set[Line] = set()
        self.links = {to: MemoryLink(self, to, gateways) for to in names if to != name}
        told, ownership = settings(name, names, owned), Ownership(names, owned)
        self.view = ClusterView(
            name, names, ownership.owners, now_s, dwell_s=told.dwell_s,
            unclaimed_s=2 * told.silence_s, on_change=lambda: self.members.view_changed(),
        )  # fmt: skip
        self.members = Membership(self.view, self.links, told, rig.metrics, now_s)
        self.queues = Forwarding(
            rig.entry, rig.conditions.own_cloud_room, ownership, self.members, self.links,
            rig.metrics, now_s,
        )  # fmt: skip
        self.answers = HeldBytes(16 << 20)
        self.owner = Owner(rig.parts, ownership, self.view, rig.metrics, now_s, self.answers)
        rig.dispatcher = Dispatcher(rig.parts, now_s, setup.retries, setup.hedging, self.queues)
        rig.pipeline = Pipeline(
            rig.admission,
            rig.classifier,
            rig.snapshots,
            rig.entry,
            rig.recovery,
            setup.policy,
            rig.dispatcher,
            rig.accounts,
        )
        self.task: asyncio.Task[None] | None = None

    def sees(self, other: str) -> bool:
        return other not in self.blind_to

    async def start(self) -> None:
        await self.members.probe_all()
        self.task = asyncio.get_running_loop().create_task(self.members.run())

    async def kill(self) -> None:
        """As by SIGKILL: everybody's connections to it break."""
        self.alive = False
        for line in tuple(self.lines):
            line.hang_up()
        for link in self.links.values():
            link.cut()
        await self.stop()

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task

    def received(self, by: str, result: str) -> float:
        found = self.rig.metrics.registry.get_sample_value(
            "spillway_cluster_received_total", {"peer": by, "result": result}
        )
        return found or 0.0


class Cluster:
    """By default `east` owns the one server `gpu`, which all know, and each has its own cloud."""

    def __init__(
        self,
        *plans: Plan,
        names: Sequence[str] = NAMES,
        setup: Setup | None = None,
        servers: Sequence[str] = ("gpu",),
        connector: Any = None,
    ) -> None:
        """`connector`: to a real endpoint, which all servers are then."""
        self.connectors: dict[str, ScriptedConnector] = {
            s: connector or ScriptedConnector(*plans) for s in servers
        }
        owned, setup = {names[0]: tuple(servers)}, setup or Setup()
        self.gateways: dict[str, Gateway] = {}
        for name in names:
            sites = [Site(s, Zone.ONPREM, c) for s, c in self.connectors.items()]
            rig = Rig(*sites, cloud(), setup=setup)
            self.gateways[name] = Gateway(name, names, owned, rig, setup, self.gateways)

    @property
    def seen(self) -> list[str]:
        return [r.id for c in self.connectors.values() for r in c.seen]

    def __getitem__(self, name: str) -> Gateway:
        return self.gateways[name]


@asynccontextmanager
async def running(cluster: Cluster) -> AsyncIterator[Cluster]:
    for gateway in cluster.gateways.values():
        await gateway.start()
    await asyncio.sleep(1.0)
    try:
        yield cluster
    finally:
        for gateway in cluster.gateways.values():
            await gateway.stop()
