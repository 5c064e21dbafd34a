"""When an endpoint that fails is left alone, and how it is tried again.

A health probe can take an endpoint out, but it never brings one back that failed inferences. Where
canaries can be sent, they alone close the breaker (`restore`), after a dwell; else, after a
cool-down, one call is let through, and only its answer closes it again. Every call carries the
epoch in which it started, and an opening begins a new one: what calls from before the opening have
to tell is no news, so a burst that fails together opens the breaker once and lengthens no
cool-down, and none of them passes for the probe.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.core.deadline import Clock

_FAILURES_IN_A_ROW = 3
_SAMPLE = 20  # last calls that the rate is taken over
_LEAST_FAILURES = 5  # in that sample
_RATE = 0.5
_COOL_DOWN_S = 2.0
_COOL_DOWN_MAX_S = 30.0
_PROBE_S = 30.0
_RELAPSE_S = 10.0  # failing again so soon after it was brought back doubles the dwell


def unwatched() -> None:
    """In the place of a watcher of changes, where there is none."""


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
    by_canary: bool = False  # no call is let through: canaries bring it back
    dwell_s: float = 1.0
    dwell_max_s: float = _COOL_DOWN_MAX_S
    changed: Callable[[], None] = unwatched
    """Called when it has opened or closed."""
    _next_dwell_s: float = 0.0
    _restored_s: float = -math.inf
    _probing_until_s: float = 0.0

    @property
    def closed(self) -> bool:
        return self.open_until_s == 0.0

    @property
    def dwelt(self) -> bool:
        """Whether it was out for as long as it must be."""
        return self.clock() >= self.open_until_s  # guard: S1.breaker-dwell -> return True

    def admits(self) -> bool:
        if self.closed:
            return True
        busy = self.probing and self.clock() < self._probing_until_s
        # guard: A6.canary-return minus 1
        return not self.by_canary and self.dwelt and not busy  # guard: A6.half-open-probe minus 3

    def starts(self, patience_s: float = _PROBE_S) -> int:
        """A call goes there; its end is told with the epoch that this returns. As a probe it counts
        for `patience_s`: one that hangs keeps no other from being the probe."""
        if self.open_until_s:
            self.probing = True
            self._probing_until_s = self.clock() + patience_s
        return self.epoch

    def succeeded(self, epoch: int) -> None:
        if epoch != self.epoch:  # guard: A6.stale-outcomes
            return
        if self.open_until_s:
            self._close()
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
        self._open(self._dwell_s(was_closed) if self.by_canary else self.cool_down_s)
        return was_closed

    def put_out(self) -> None:
        """Open for as long as nobody says otherwise, and try again at once."""
        self._open(0.0)

    def rest_no_longer(self) -> None:
        if not self.closed:
            self.open_until_s = min(self.open_until_s, self.clock())

    def restore(self) -> None:
        """Close: canaries were answered."""
        if self.closed:
            return
        self.epoch += 1
        self._restored_s = self.clock()
        self._close()

    def _close(self) -> None:
        self.open_until_s, self.cool_down_s, self.probing = 0.0, _COOL_DOWN_S, False
        self.changed()  # guard: S11.breaker-change

    def _open(self, for_s: float) -> None:
        self.epoch += 1
        self.in_a_row, self.probing = 0, False
        self.recent.clear()
        self.open_until_s = (self.clock() + for_s) or _PROBE_S  # 0 would mean closed
        self.changed()  # guard: S11.breaker-change

    def _dwell_s(self, was_closed: bool) -> float:
        """Hysteresis: what fails again as soon as it is back stays out for longer (S1)."""
        if was_closed:
            relapsed = self.clock() - self._restored_s < _RELAPSE_S + self._next_dwell_s
            doubled_s = min(self._next_dwell_s * 2, self.dwell_max_s)
            # guard: S1.dwell-backoff -> self._next_dwell_s = self.dwell_s
            self._next_dwell_s = max(doubled_s, self.dwell_s) if relapsed else self.dwell_s
        return self._next_dwell_s

    def _failing(self) -> bool:
        if self.in_a_row >= _FAILURES_IN_A_ROW:  # guard: A6.failure-streak
            return True
        failures = sum(self.recent)
        # guard: A6.failure-rate minus 1
        return failures >= _LEAST_FAILURES and failures >= _RATE * len(self.recent)
