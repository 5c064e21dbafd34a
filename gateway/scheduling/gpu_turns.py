"""Models on one server share its GPU, where batches are made: whose turn it is hears of it here.

Their queues tell each other by `servers.sharing`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

from gateway.scheduling.queue import ModelQueue
from gateway.scheduling.servers.sharing import SharedGpu


class GpuTurns:
    def __init__(self) -> None:
        self._gpus: dict[str, SharedGpu] = {}  # by server
        self._queues: dict[str, dict[int, ModelQueue]] = {}  # by their numbers there
        self._passing_on = False

    def gpus(self, servers: Iterable[str]) -> Mapping[str, SharedGpu]:
        return {name: self._gpus.setdefault(name, SharedGpu()) for name in servers}

    def join(self, queue: ModelQueue, numbers: Mapping[str, int]) -> None:
        """`numbers`: which each GPU had to give before the queue's scheduler was made. A simple
        rule has taken none: it takes no part in turns."""
        for name, number in numbers.items():
            if self._gpus[name].vacant != number:
                self._queues.setdefault(name, {})[number] = queue
                queue.on_gpus[name] = number

    def leave(self, queue: ModelQueue) -> None:
        for name, number in queue.on_gpus.items():
            self._gpus[name].leave(number)  # guard: O2.gpu-departure
            self._queues[name].pop(number, None)
        queue.on_gpus.clear()

    def passing(self, servers: Collection[str]) -> Callable[[], None] | None:
        """What a queue in front of these servers calls when it has acted."""
        return partial(self._pass_on, servers) if servers else None

    def _pass_on(self, servers: Iterable[str]) -> None:
        """Where models of a server take turns, the next one is told."""
        if self._passing_on:
            return
        self._passing_on = True
        try:
            for name in servers:
                queues = self._queues.get(name, {})
                for _ in range(len(queues)):
                    turn = self._gpus[name].whose_turn()
                    if turn is None:
                        break
                    queues[turn].refresh()
        finally:
            self._passing_on = False

    def takes_turns(self, server: str) -> bool:
        """Whether its models execute one batch at a time."""
        gpu = self._gpus.get(server)
        return gpu is not None and gpu.turns

    def shared(self) -> Iterator[tuple[str, SharedGpu]]:
        """Those that have several models, by their server."""
        return ((name, gpu) for name, gpu in self._gpus.items() if gpu.shared)

    def report(self, server: str) -> dict[str, object]:
        """For /status; empty where models share nothing."""
        gpu = self._gpus.get(server)
        if gpu is None or not gpu.shared:
            return {}
        value = gpu.contention.value
        return {"contention": None if value is None else round(value, 3), "turns": gpu.turns}

    def take_over(self, before: GpuTurns, servers: Iterable[str]) -> None:
        """The GPUs of these servers, with all who take turns there, are those of both versions."""
        for name in servers:
            if name in before._gpus:
                self._gpus[name] = before._gpus[name]
                self._queues[name] = before._queues.setdefault(name, {})
