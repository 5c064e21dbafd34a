"""Credentials that end: fetched before they are needed, and again before they end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.core import ambient
from gateway.endpoints.credentials import AccessToken, NoCredential
from gateway.protocols.aws.sigv4 import Signer

log = logging.getLogger(__name__)

_FETCH_S: Final = 10.0
_PAUSE_S: Final = 5.0  # between two fetches, whatever asks for them
_RENEWED_AT: Final = 0.8  # of its life
_SKEW_S: Final = 10.0  # before its end it is used no more


class NotIssued(Exception):
    """Nothing; the message says why, without a secret."""


class RenewedCredential:
    """A `Credential` that `fetch` gets; that raises NotIssued or OSError."""

    def __init__(
        self,
        endpoint: str,
        fetch: Callable[[], Awaitable[AccessToken | Signer]],
        bearer: bool = True,
    ) -> None:
        self._endpoint = endpoint
        self._fetch = fetch
        self.bearer = bearer
        self._issued: AccessToken | Signer | None = None
        self._ends_s = self._due_s = 0.0  # of the loop
        self._task: asyncio.Task[None] | None = None
        self.version = 0

    def issued(self) -> AccessToken | Signer:
        issued = self._issued
        # guard: A5.ended-token ambient.loop_s() >= self._ends_s -> False
        if issued is None or ambient.loop_s() >= self._ends_s:
            raise NoCredential("there is no valid credential for this endpoint at the moment")
        return issued

    def renew(self) -> bool:
        now_s = ambient.loop_s()
        if now_s >= self._due_s and (self._task is None or self._task.done()):
            self._due_s = now_s + _PAUSE_S
            self._task = asyncio.create_task(self._renewed(now_s))
        return self._issued is not None and now_s < self._ends_s

    def distrust(self) -> None:
        self._due_s = min(self._due_s, ambient.loop_s() + _PAUSE_S)

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _renewed(self, requested_s: float) -> None:
        try:
            async with asyncio.timeout(_FETCH_S):
                issued = await self._fetch()
            if not issued.usable:  # guard: S15.usable-keys
                raise NotIssued("it is empty, too long, or not visible ASCII")
        except (NotIssued, OSError, TimeoutError) as exc:
            why = str(exc) if isinstance(exc, NotIssued) else type(exc).__name__
            log.warning("%s: its credential was not renewed: %s", self._endpoint, why)
            return
        if issued != self._issued:
            self.version += 1
        self._issued = issued
        life_s = issued.life_s
        self._ends_s = float("inf") if life_s is None else requested_s + life_s - _SKEW_S
        if life_s is not None:
            self._due_s = max(self._due_s, requested_s + life_s * _RENEWED_AT)
