"""The connections of one origin that wait for their next call, and whether they get one.

HTTP/1.1 says of an answer only that it is the next one. So a server that writes a second answer to
one call has it taken for the answer to the next call on that connection. Three things keep them
apart: a connection rests before its next call, so that what comes late comes to nobody; it is
polled before it is used; and a server that was caught gets one call for each connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from gateway.core import ambient
from gateway.protocols.http_client.connection import HttpClientConnection

_log = logging.getLogger(__name__)
DISTRUST_S = 600.0  # after surplus bytes
_NEVER_S = 0.0


class IdleConnections:
    def __init__(
        self, max_idle_s: float, rest_s: float, cut: Callable[[HttpClientConnection], None]
    ) -> None:
        """`rest_s`: how long a connection rests before its next call, where another one can be
        had. Without such a time the one that was used last goes first. `cut` ends one."""
        self._cut = cut
        self._max_idle_s = max_idle_s
        self._rest_s = rest_s
        self._connections: deque[HttpClientConnection] = (
            deque()
        )  # by the time since which they rest
        self._distrusted_until_s = _NEVER_S
        self._now_s = ambient.clock()

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def trusted(self) -> bool:
        """Whether the server has written no more than it was asked for lately."""
        if self._distrusted_until_s == _NEVER_S:
            return True
        if self._now_s() < self._distrusted_until_s:
            return False
        self._distrusted_until_s = _NEVER_S
        return True

    def distrust(self) -> None:
        """Bytes came that no call had asked for: no connection gets a second call for a while."""
        if self.trusted:
            _log.warning(
                "an endpoint wrote more than one answer to a call; for %d s each of its "
                "connections has one call", int(DISTRUST_S),
            )  # fmt: skip
        self._distrusted_until_s = self._now_s() + DISTRUST_S

    def put(self, connection: HttpClientConnection) -> bool:
        """Whether it may have another call."""
        if not connection.rests() or (self._distrusted_until_s and not self.trusted):
            return False
        self._connections.append(connection)
        return True

    def take(self, may_open: bool) -> HttpClientConnection | None:
        """A connection that can have a call; None where there is none, or where a new one that
        `may_open` is better."""
        connections, rests = self._connections, self._rest_s > 0.0
        if self._distrusted_until_s and not self.trusted:
            self.clear()
        while connections:
            now_s = self._now_s()
            connection = connections.popleft() if rests else connections.pop()
            since_s = connection.idle_since
            if since_s <= now_s - self._max_idle_s:
                self._cut(connection)
            elif rests and may_open and since_s > now_s - self._rest_s:
                connections.appendleft(connection)
                return None
            elif connection.readable():  # the end, or what nobody asked for: it reads that first
                asyncio.get_running_loop().call_later(0, self._cut, connection)
            else:
                return connection
        return None

    def clear(self) -> None:
        while self._connections:
            self._cut(self._connections.pop())
