"""The port to the audit: one content-free record for each call, durable before its answer goes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

from gateway.core.errors import GatewayError


class RecordUnwritable(GatewayError):
    """Without its record a call is not answered."""

    http_status, grpc_status, reason = 503, "UNAVAILABLE", "record_unwritable"


SENT: Final = "sent"
"""The outcome of a call that was sent somewhere, as long as no more is known."""

Durable = asyncio.Future[RecordUnwritable | None]
"""Done once the record is durable, or cannot be: then it gives the error, of which who raises it
makes a copy. One of a call alone: who awaits it may cancel it."""


class DecisionLog(Protocol):
    """None waits. All raise RecordUnwritable."""

    def check(self) -> None:
        """While nothing can be recorded, no call is taken."""
        ...

    def append(self, record: Mapping[str, Any]) -> Durable | None:
        """None: it is durable already."""
        ...

    def note(self, record: Mapping[str, Any]) -> None:
        """What nobody waits for. It is durable a moment later."""
        ...
