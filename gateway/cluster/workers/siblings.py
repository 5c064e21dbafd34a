"""A worker among the others: what it tells them, what it asks them, and whose queue decides."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, Protocol

from gateway.accounting.live.feed import EVERY_S
from gateway.accounting.live.shares import Shares
from gateway.accounting.metrics import Metrics
from gateway.cluster.peer_clouds import PeerClouds
from gateway.cluster.turns import Granting, TurnRequests, WorkerQueues
from gateway.cluster.workers.exposition import together
from gateway.cluster.workers.frames import Words
from gateway.cluster.workers.peers import Listening, PeerOwnerLine, ask, ask_all
from gateway.cluster.workers.worker import Worker
from gateway.core import ambient
from gateway.core.tasks import running
from gateway.endpoints.versions.parts import EndpointParts
from gateway.scheduling.queues import ModelQueues


class WorkerGateway(Protocol):
    """The gateway of this worker."""

    def serving(self) -> tuple[EndpointParts, str]:
        """The parts of the settings that new calls come to, and the settings' name."""
        ...

    def worker_status(self, number: int) -> dict[str, Any]: ...
    def render_metrics(self, tenants: bool) -> bytes: ...
    def console_part(self, question: Words) -> Words: ...
    def explained(self, seq: int) -> Words | None: ...


class SiblingWorker:
    def __init__(self, worker: Worker, metrics: Metrics) -> None:
        self._worker, self._metrics = worker, metrics
        self._clock = ambient.monotonic_s
        self._clouds = PeerClouds(self._clock)
        self._line = PeerOwnerLine(worker.place)
        self._asking = self._line.asking = TurnRequests(self._line, self._clock)
        worker.restarted = metrics.triton_restarts.inc

    def queues(self, parts: EndpointParts, policy: str) -> WorkerQueues | None:
        """Where calls of these settings wait; None: here."""
        if self._worker.owns:
            return None
        room = parts.conditions.own_cloud_room
        return WorkerQueues(self._asking, parts.entry, room, policy)

    async def begin(self, gateway: WorkerGateway, stack: contextlib.AsyncExitStack) -> None:
        self._gateway = gateway
        listening = Listening(self._worker.place, self._answer, self._granting)
        await listening.start()
        await self._drain_as_others()
        stack.push_async_callback(listening.aclose)
        works = [self._worker.run()]
        if self._worker.owns:
            self.turned()
        else:
            works.append(self._line.run())
        for work in works:
            await stack.enter_async_context(running(work, "worker"))

    async def announce_drained(self, name: str, drained: bool) -> None:
        await ask_all(self._worker.place, {"drain": name, "drained": drained})

    async def _drain_as_others(self) -> None:
        """A worker that takes the place of one that died."""
        others = await ask_all(self._worker.place, {"status": True})
        for words in others.values():
            for name in words["status"]["drained"]:
                self._drain(name, True)

    def _drain(self, name: str, drained: bool) -> None:
        parts, _ = self._gateway.serving()
        if name in parts.registry.states:
            parts.registry.drain(name, drained)

    def serves(self) -> None:
        _, policy = self._gateway.serving()
        self._worker.send({"ready": os.getpid(), "policy": policy})

    def turned(self) -> None:
        """To other settings, or to the first."""
        parts, policy = self._gateway.serving()
        if self._worker.owns:
            parts.conditions.room_elsewhere = self._clouds.room
        self._worker.send({"policy": policy})

    # What is told of all together

    async def metrics(self, tenants: bool, own: bytes) -> bytes:
        number = self._worker.place.number
        others = await ask_all(self._worker.place, {"metrics": tenants})
        pages = {n: str(words["metrics"]) for n, words in others.items() if "metrics" in words}
        pages[number] = own.decode()
        return together(pages).encode()

    def shares(self) -> Shares:
        """The other workers' parts of the console."""
        place = self._worker.place
        others = [n for n in range(1, place.count + 1) if n != place.number]

        async def ask_one(number: int, words: Words) -> Words | None:
            return await ask(place, number, words)

        return Shares(others, ask_one, EVERY_S)

    async def workers(self) -> list[dict[str, Any]]:
        number = self._worker.place.number
        others = await ask_all(self._worker.place, {"status": True})
        statuses = {n: words["status"] for n, words in others.items() if "status" in words}
        statuses[number] = self._gateway.worker_status(number)
        return [status for _, status in sorted(statuses.items())]

    async def _answer(self, request: Words) -> Words:
        if "metrics" in request:
            page = self._gateway.render_metrics(request["metrics"] is True).decode()
            return {"metrics": page}
        if "console" in request:
            return {"console": self._gateway.console_part(request["console"])}
        if "explain" in request:
            return {"explanation": self._gateway.explained(request["explain"])}
        if "drain" in request:
            self._drain(request["drain"], request["drained"] is True)
        return {"status": self._gateway.worker_status(self._worker.place.number)}

    # Queues

    def _granting(self, worker: str, send: Callable[[Words], None]) -> Granting:
        return Granting(worker, self._own_queues, self._clouds, self._metrics, self._clock, send)

    def _own_queues(self) -> tuple[ModelQueues, str]:
        parts, policy = self._gateway.serving()
        return parts.queues, policy
