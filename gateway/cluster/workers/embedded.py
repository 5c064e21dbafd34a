"""Embedded servers, which the parent starts and keeps up, as a worker sees them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from gateway.core import ambient
from gateway.endpoints.triton.providers import Provided
from gateway.endpoints.triton.server.ports import TritonPorts
from gateway.endpoints.triton.server.server import TritonServer
from gateway.endpoints.triton.supervisor import Restart

Words = dict[str, Any]
_FIRST_WORD_S = 30.0  # the parent tells of all before it starts a worker's second line


def pack_server(server: TritonServer) -> Words:
    """What the parent tells of one."""
    ports = server.ports
    return {
        "state": server.state.value,
        "ports": [ports.http, ports.grpc, ports.metrics],
        "control_headers": dict(server.control_headers),
        "back_in_s": server.back_in_s(),
        "at_s": ambient.monotonic_s(),  # the clock is the machine's
        "provided": [[p.model, p.version, p.provider, p.graph, p.threads] for p in server.provided],
    }


class ParentServer:
    """As last told."""

    def __init__(self, words: Words) -> None:
        self.be(words)

    def be(self, words: Words) -> None:
        self.state: str = words["state"]
        self.ports = TritonPorts(*words["ports"])
        self.control_headers: Mapping[str, str] = words["control_headers"]
        self.provided = tuple(Provided(*each) for each in words["provided"])
        self._back_in_s: float | None = words["back_in_s"]
        self._at_s: float = words["at_s"]

    def back_in_s(self) -> float | None:
        if self._back_in_s is None:
            return None
        return max(0.0, self._back_in_s - (ambient.monotonic_s() - self._at_s))


class ParentSupervisor:
    """In the place of `endpoints.triton.supervisor.TritonSupervisor`. `ask` tells the parent."""

    def __init__(self, ask: Callable[[Words], None]) -> None:
        self._ask = ask
        self._servers: dict[str, ParentServer] = {}
        self._updated = asyncio.Event()
        self.moved: Callable[[str], None] = lambda name: None
        self.heard: Callable[[str], int] = lambda name: 0

    def get(self, name: str) -> ParentServer | None:
        return self._servers.get(name)

    def metrics_port(self, name: str) -> int | None:
        server = self._servers.get(name)
        return None if server is None else server.ports.metrics

    def restarter(self, name: str) -> Restart:
        return lambda model, reason: self._ask({"restart": name, "model": model, "reason": reason})

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Returns once the parent has told of its servers. Raises TimeoutError."""
        async with asyncio.timeout(_FIRST_WORD_S):
            await self._updated.wait()

    def on_servers(self, servers: Mapping[str, Words]) -> None:
        """By the parent: all that it has."""
        for name, words in servers.items():
            known = self._servers.get(name)
            if known is None:
                self._servers[name] = ParentServer(words)
                continue
            before = known.state
            known.be(words)
            if before != known.state:
                self.moved(name)
        self._updated.set()

    def answers(self) -> dict[str, int]:
        """How many answers each has given: such a server is not silent, whatever it says."""
        return {name: self.heard(name) for name in self._servers}
