"""An answer whose body is still coming."""

from __future__ import annotations

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

    async def more(self, take: Callable[[bytes], bool] | None = None) -> bytes | None:
        """What has come; b"" at the end. While there is nothing, all that comes goes to `take`
        instead, until that says that it waits for no more: None. The wait is the caller's to
        bound."""
        connection = self._connection
        if connection is None:
            return b""
        answer = connection.answer
        try:
            while not (answer.pieces or answer.done):
                if await connection.more(take):
                    return None
        except ConnectionLost as exc:
            self.close()
            raise UpstreamUnreachable(exc.why) from None
        except BaseException:
            self.close()
            raise
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
