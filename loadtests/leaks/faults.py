"""What goes wrong while the calls go on: one fault after the other, each for some seconds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

from gateway.demo.cloud.process import SimulatedCloud
from gateway.demo.cloud.settings import Setting
from tests.live import LiveGateway, descendants

_HELD_S = (0.5, 2.0)
_PAUSE_S = (0.5, 1.5)
_CLOUD: tuple[dict[str, Setting], ...] = (
    {"error_rate": 0.5},
    {"rate_limited_rate": 0.5},
    {"outage": "hang", "outage_rate": 0.3},
    {"outage": "reset", "outage_rate": 0.5},
    {"outage": "malformed", "outage_rate": 0.5},
    {"outage": "refuse"},
)
_WELL: dict[str, Setting] = {
    "error_rate": 0.0, "rate_limited_rate": 0.0, "outage": "none", "outage_rate": 1.0,
}  # fmt: skip


class Faults:
    """Makes faults until it is left, then heals what it broke. `counts`: how many of each kind."""

    def __init__(self, gateway: LiveGateway, cloud: SimulatedCloud, seed: int) -> None:
        self._gateway = gateway
        self._cloud = cloud
        self._dice = random.Random(seed)
        self.counts: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self._cloud.set(**_WELL)

    async def _run(self) -> None:
        kinds: dict[str, Callable[[float], Awaitable[None]]] = {
            "Triton stopped": self._triton_stopped,
            "Triton killed": self._triton_killed,
            "scanner killed": self._scanner_killed,
            "cloud": self._cloud_fails,
            "settings read again": self._reload,
        }
        while True:
            await asyncio.sleep(self._dice.uniform(*_PAUSE_S))
            kind = self._dice.choice(tuple(kinds))
            with contextlib.suppress(ProcessLookupError, AssertionError):  # it restarts just now
                await kinds[kind](self._dice.uniform(*_HELD_S))
                self.counts[kind] += 1

    async def _triton_stopped(self, held_s: float) -> None:
        pid = self._gateway.triton_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(held_s)
        finally:
            os.kill(pid, signal.SIGCONT)

    async def _triton_killed(self, held_s: float) -> None:
        os.kill(self._gateway.triton_pid(), signal.SIGKILL)
        await asyncio.sleep(held_s)

    async def _scanner_killed(self, held_s: float) -> None:
        triton = self._gateway.triton_pid()
        own = [pid for pid in descendants(self._gateway.process.pid) if pid != triton]
        scanners = [pid for pid in own if pid not in descendants(triton)]
        if scanners:
            os.kill(self._dice.choice(scanners), signal.SIGKILL)
        await asyncio.sleep(held_s)

    async def _cloud_fails(self, held_s: float) -> None:
        await self._cloud.set(**{**_WELL, **self._dice.choice(_CLOUD)})
        try:
            await asyncio.sleep(held_s)
        finally:
            await self._cloud.set(**_WELL)

    async def _reload(self, held_s: float) -> None:
        self._gateway.process.send_signal(signal.SIGHUP)
        await asyncio.sleep(held_s)
