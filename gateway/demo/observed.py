"""What a caller of the demo saw of its call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.demo.plan import PlannedCall

UNREACHED = "unreached"  # the status of a call that got no answer at all


@dataclass(frozen=True, slots=True)
class Observed:
    """`status` is the protocol's own: "200", "503", "UNAVAILABLE", or a client's exception;
    `headers` are those named x-spillway-*, where a client shows them."""

    call: PlannedCall
    ok: bool
    status: str
    started_s: float  # monotonic
    took_s: float
    headers: Mapping[str, str] = field(default_factory=dict)
    first_s: float | None = None  # until the first piece of a streamed answer

    @property
    def in_time(self) -> bool:
        """Answered within the budget that it stated; False for a call that stated none."""
        budget_ms = self.call.budget_ms
        return self.ok and budget_ms is not None and self.took_s * 1000 <= budget_ms
