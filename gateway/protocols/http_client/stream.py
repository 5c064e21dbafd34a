"""An answer whose body is still coming."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from gateway.core import timeouts
from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, UpstreamUnreachable
from gateway.protocols.http_client.connection import ConnectionLost, HttpClientConnection


class WireStream:
    """An answer whose body is still coming. Whoever holds it must `aclose()` it; closing it
    before its end closes the connection."""

    def __init__(
        self,
        give_back: Callable[[HttpClientConnection], None],
        deadline: Deadline,
        connection: HttpClientConnection,
    ) -> None:
        """`give_back`: what its connection goes to in the end."""
        self.status = connection.status
        self.headers: Mapping[bytes, bytes] = connection.headers
        self._give_back = give_back
        self._connection: HttpClientConnection | None = connection
        self.deadline = deadline

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            with timeouts.within(self.deadline.remaining_s()):
                chunk = await self.more()
        except TimeoutError:
            raise late() from None
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def more(self) -> bytes:
        """Nothing at the end. The wait is the caller's to bound."""
        try:
            while (waiter := self.waiter()) is not None:
                await waiter
        except BaseException:
            self.close()
            raise
        return self.take()

    def waiter(self) -> asyncio.Future[None] | None:
        """Done when there may be something to take; None when there is. Raises what there is
        instead; then, and when the wait ends otherwise, it is to be closed."""
        connection = self._connection
        if connection is None or connection.answer.pieces or connection.answer.done:
            return None
        try:
            return connection.more()
        except ConnectionLost as exc:
            raise UpstreamUnreachable(exc.why) from None

    def take(self) -> bytes:
        """What has come; nothing at the end."""
        connection = self._connection
        if connection is None:
            return b""
        if not (chunk := connection.taken()):
            self.close()
        return chunk

    @property
    def ended(self) -> bool:
        """All of its body was taken."""
        return self._connection is None or self._connection.answer.ended

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._give_back(connection)


def late() -> DeadlineExceeded:
    return DeadlineExceeded("the endpoint did not answer within the latency budget")
