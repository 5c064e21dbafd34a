"""One line of the ledger: what one attempt cost, and for whom. No content of any call."""

from __future__ import annotations

from typing import NamedTuple

from gateway.types import Zone


class Entry(NamedTuple):
    """A tuple: there is one for each attempt, and it costs a tenth of a frozen class."""

    at_s: float  # seconds since 1970
    call: str  # the call's id, as in its decision record
    tenant: str
    model: str
    endpoint: str
    zone: Zone
    reason: str  # why the call was placed there
    result: str  # served, or why not
    restricted: bool
    nano_usd: int
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    moved_bytes: int = 0
    gpu_ns: int = 0
    cloud_nano_usd: int | None = None  # of an on-prem answer, had it come from the cloud
    estimated: bool = False

    @property
    def spent_abroad(self) -> int:
        """What counts against spill budgets."""
        return self.nano_usd if self.zone is Zone.CLOUD else 0
