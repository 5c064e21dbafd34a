"""When an endpoint that fails is left alone, and how it is tried again.

A health probe can take an endpoint out, but it never brings one back that failed inferences: after
a cool-down one call is let through, and only its answer closes the breaker again.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.deadline import Clock

_FAILURES_TO_EJECT = 3
_COOL_DOWN_S = 2.0
_COOL_DOWN_MAX_S = 30.0


@dataclass(slots=True)
class Breaker:
    """Closed, open for a cool-down, or half-open for one call (BEHAVIOURS A6)."""

    clock: Clock
    failures: int = 0
    open_until_s: float = 0.0
    cool_down_s: float = _COOL_DOWN_S
    probing: bool = False

    @property
    def closed(self) -> bool:
        return self.open_until_s == 0.0

    def admits(self) -> bool:
        return self.closed or (self.clock() >= self.open_until_s and not self.probing)

    def starts(self) -> None:
        if not self.closed:
            self.probing = True

    def succeeded(self) -> None:
        self.failures, self.open_until_s, self.probing = 0, 0.0, False
        self.cool_down_s = _COOL_DOWN_S

    def abandoned(self) -> None:
        """The call ended without telling anything of the endpoint."""
        self.probing = False

    def failed(self, at_once: bool = False) -> bool:
        """True when this failure opens the breaker."""
        self.failures += 1
        reopen = self.probing or not self.closed
        self.probing = False
        if not reopen and not at_once and self.failures < _FAILURES_TO_EJECT:
            return False
        if reopen:
            self.cool_down_s = min(self.cool_down_s * 2, _COOL_DOWN_MAX_S)
        self.open_until_s = self.clock() + self.cool_down_s
        return not reopen
