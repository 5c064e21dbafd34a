"""Whether a server answers anything at all.

A process that is stopped, or hangs, does not end by itself: its sockets still take connections, and
nothing comes. That is told from a busy one by time alone, so it has many looks, each of which any
answer satisfies, whatever it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx

from gateway.core import ambient

_LOOKS = 5  # unanswered, in a row; a gateway that stood still itself has lost one at most


class Pulse:
    def __init__(
        self, client: httpx.AsyncClient, silent_s: float, heard: Callable[[], int]
    ) -> None:
        """`heard` grows with every answer that others get from the server."""
        self._client = client
        self._every_s = silent_s / _LOOKS
        self._heard = heard

    async def lost(self, expected: Callable[[], bool]) -> None:
        """Returns when nothing was answered for `silent_s`, all the while that it is expected."""
        unanswered = 0
        while unanswered < _LOOKS:
            next_s = ambient.loop_s() + self._every_s
            silent = expected() and not await self._answers()
            # guard: A6.embedded-restart -> unanswered = 0
            unanswered = unanswered + 1 if silent and expected() else 0
            await asyncio.sleep(next_s - ambient.loop_s())

    async def _answers(self) -> bool:
        heard = self._heard()
        try:
            async with asyncio.timeout(self._every_s):
                await self._client.get("/v2/health/live")
        except (TimeoutError, httpx.TransportError):
            return self._heard() != heard
        return True
