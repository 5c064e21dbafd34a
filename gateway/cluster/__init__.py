"""Several gateways in front of the same servers: each server has one owner, whose queue is its only
one, and the other gateways forward to it (docs/decisions/021-workers-and-clusters.md).

`ownership` says whose a server is by right, `view` who lives and acts for whom, `membership` keeps
the view up to date. `forward` is the sender's side of a forwarded call, `owner` the receiver's,
`messages` what goes between them, and `links` and `listener` carry it over mTLS.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from gateway.core.deadline import Deadline


class Answers(Protocol):
    """What a peer has to say to one forwarded call, in pieces of any length. Whoever holds it must
    `close()` it; before its end that ends the call over there."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def __anext__(self) -> bytes: ...
    def close(self) -> None: ...


class PeerLink(Protocol):
    """The way to one peer, whose certificate was checked. What fails of it is UpstreamError, or
    DeadlineExceeded."""

    async def state(self, state: bytes, deadline: Deadline) -> bytes:
        """Say something of oneself, and hear the same of the peer."""
        ...

    async def forward(
        self, message: Sequence[bytes], deadline: Deadline, *, repeatable: bool
    ) -> Answers: ...
    def cut(self) -> None:
        """End all that is open: the peer is dead."""
        ...

    async def aclose(self) -> None: ...


Say = Callable[[bytes], Awaitable[None]]
"""Sends one message back to the peer."""


class Answering(Protocol):
    """What a gateway does for its peers. `peer` is the name in the checked certificate."""

    async def state(self, peer: str, state: bytes) -> bytes: ...
    async def answer(self, peer: str, message: bytes, say: Say) -> None: ...
