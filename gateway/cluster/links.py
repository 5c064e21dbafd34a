"""The way to one peer: HTTP/1.1 over mTLS, by the lean client. No redirects, no proxies, and no
byte before the certificate was checked for the peer's own name."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from gateway.cluster import Answers
from gateway.config import PeerSettings
from gateway.core import ambient
from gateway.core.deadline import Deadline
from gateway.core.errors import UpstreamFailed, UpstreamUnreachable
from gateway.protocols.http_client.origin import Origin
from gateway.protocols.http_client.stream import WireStream
from gateway.protocols.http_client.wire import ConnectionPool, WireRequest

STATE, CALL = "/spillway/cluster/state", "/spillway/cluster/call"
_PROBES = 2
_MAX_IDLE_S = 60.0  # a new connection costs both sides a handshake
_JSON = ((b"content-type", b"application/json"),)
_BYTES = ((b"content-type", b"application/octet-stream"),)


class TlsLink:
    def __init__(
        self,
        name: str,
        settings: PeerSettings,
        tls: Callable[[], ssl.SSLContext],
        *,
        connect_timeout_s: float,
        max_connections: int,
    ) -> None:
        """`tls` is asked when something is to be sent: who only explains needs no certificate."""
        self._name, self._url, self._tls = name, settings.url, tls
        self._connect_timeout_s = connect_timeout_s
        self._max_connections = max_connections
        self._probes: ConnectionPool | None = None
        self._calls: ConnectionPool | None = None
        self._asking: set[asyncio.Timeout] = set()

    async def state(self, state: bytes, deadline: Deadline) -> bytes:
        request = WireRequest("POST", STATE, _JSON, (state,))
        self._probes = self._probes or self._wire(_PROBES)
        answer = await self._probes.fetch(request, deadline)
        if answer.status != 200:
            raise UpstreamFailed("the peer does not say how it is")
        return answer.body

    async def forward(
        self, message: Sequence[bytes], deadline: Deadline, *, repeatable: bool
    ) -> Answers:
        request = WireRequest("POST", CALL, _BYTES, tuple(message), repeatable)
        self._calls = self._calls or self._wire(self._max_connections)
        stream = await self._unless_cut(self._calls.stream(request, deadline))
        if stream.status != 200:
            stream.close()
            raise UpstreamFailed("the peer does not take the call")
        return stream

    def cut(self) -> None:
        now_s = ambient.loop_s()
        for limit in self._asking:
            if not limit.expired():
                limit.reschedule(now_s)
        if self._calls is not None:
            self._calls.close()
            self._calls = None

    async def aclose(self) -> None:
        for wire in (self._probes, self._calls):
            if wire is not None:
                await wire.aclose()

    async def _unless_cut(self, opening: Awaitable[WireStream]) -> WireStream:
        try:
            async with asyncio.timeout(None) as limit:
                self._asking.add(limit)
                try:
                    return await opening
                finally:
                    self._asking.discard(limit)
        except TimeoutError:
            raise UpstreamUnreachable("the peer went away") from None

    def _wire(self, connections: int) -> ConnectionPool:
        return ConnectionPool(
            replace(Origin.from_url(self._url, self._tls()), certified=self._name),
            connect_timeout_s=self._connect_timeout_s,
            max_connections=connections,
            max_idle_s=_MAX_IDLE_S,
        )
