"""When an endpoint that fails is left alone, and how it is tried again.

A health probe can take an endpoint out, but it never brings one back that failed inferences: after
a cool-down one call is let through, and only its answer closes the breaker again. Every call
carries the epoch in which it started, and an opening begins a new one: what calls from before the
opening have to tell is no news, so a burst that fails together opens the breaker once and lengthens
no cool-down, and none of them passes for the probe.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gateway.deadline import Clock

_FAILURES_IN_A_ROW = 3
_SAMPLE = 20  # last calls that the rate is taken over
_LEAST_SAMPLE = 10
_RATE = 0.5
_COOL_DOWN_S = 2.0
_COOL_DOWN_MAX_S = 30.0


@dataclass(slots=True)
class Breaker:
    """Closed, open for a cool-down, or half-open for one call (BEHAVIOURS A6)."""

    clock: Clock
    epoch: int = 0
    in_a_row: int = 0
    open_until_s: float = 0.0
    cool_down_s: float = _COOL_DOWN_S
    probing: bool = False
    recent: deque[bool] = field(default_factory=lambda: deque(maxlen=_SAMPLE))  # True: it failed

    @property
    def closed(self) -> bool:
        return self.open_until_s == 0.0

    def admits(self) -> bool:
        return self.closed or (self.clock() >= self.open_until_s and not self.probing)

    def starts(self) -> int:
        """A call goes there; its end is told with the epoch that this returns."""
        if not self.closed:
            self.probing = True
        return self.epoch

    def succeeded(self, epoch: int) -> None:
        if epoch != self.epoch:
            return
        if not self.closed:
            self.open_until_s, self.cool_down_s, self.probing = 0.0, _COOL_DOWN_S, False
        self.in_a_row = 0
        self.recent.append(False)

    def abandoned(self, epoch: int) -> None:
        """The call ended without telling anything of the endpoint."""
        if epoch == self.epoch:
            self.probing = False

    def failed(self, epoch: int, at_once: bool = False) -> bool:
        """True when this failure opens the breaker."""
        if epoch != self.epoch:
            return False
        was_closed = self.closed
        self.in_a_row += 1
        self.recent.append(True)
        if was_closed and not at_once and not self._failing():
            return False
        if not was_closed:
            self.cool_down_s = min(self.cool_down_s * 2, _COOL_DOWN_MAX_S)
        self.epoch += 1
        self.in_a_row, self.probing = 0, False
        self.recent.clear()
        self.open_until_s = self.clock() + self.cool_down_s
        return was_closed

    def _failing(self) -> bool:
        if self.in_a_row >= _FAILURES_IN_A_ROW:
            return True
        return len(self.recent) >= _LEAST_SAMPLE and sum(self.recent) >= _RATE * len(self.recent)
