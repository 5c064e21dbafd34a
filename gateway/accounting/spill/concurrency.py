"""How many calls an endpoint in the cloud is given at once.

Additive increase, multiplicative decrease, as TCP's congestion avoidance (RFC 5681): every answer
lets a little more in; a refusal for want of room (429), or calls of which many ran out of far more
time than answers take, takes a third away. Calls that started before the last decrease tell nothing
new, so one burst of refusals counts once. Near the number at which it refused last the limit rises
ten times slower: where that number is a quota, each refusal closes the endpoint for as long as it
says (simulated, a limit of 24 and a second: a third more calls got through).
"""

from __future__ import annotations

import math

from gateway.core.deadline import Clock

_DECREASE = 0.7
_LATE_SHARE, _LATE_CALLS = 0.3, 8.0  # of the last calls; fewer are by chance
_WINDOW = 32.0  # calls that the share is taken over
_FEW = 8  # calls at once, of which none is late for want of room
_NEAR, _SLOWLY = 1.0, 0.1
_CLOSED_AT_MOST_S = 3600.0  # then one call finds out whether that still holds
_CLOSED_UNASKED_S = 0.25
"""After a 429 that does not say when to come back."""


class AdaptiveLimit:
    """Between one call and `most` calls in flight; closed for as long as the endpoint asks."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = float(most)
        self._clock = clock
        self._decreased_s = -1.0
        self.closed_until_s = 0.0  # 0 once it is over
        self._let(self._most)
        self._refused_at = math.inf
        self.in_time = 0.0
        """Calls that were answered; whoever is told of one adds it."""
        self._late = 0.0

    def _let(self, calls: float) -> None:
        self._limit, self.limit = calls, int(calls)

    @property
    def closed_s(self) -> float:
        """Seconds for which the endpoint takes nothing; 0 when it does."""
        if not self.closed_until_s:
            return 0.0
        left_s = self.closed_until_s - self._clock()
        if left_s > 0.0:
            return left_s
        self.closed_until_s = 0.0
        return 0.0

    def room(self, in_flight: int) -> bool:
        if in_flight >= self.limit:
            return False
        return not self.closed_until_s or not self.closed_s

    def answered(self, in_flight: int) -> None:
        """One call was served while `in_flight` were there, itself included. A limit that nobody
        came near has proved nothing and stays."""
        if in_flight >= self._limit / 2:
            near = abs(self._limit + 1.0 - self._refused_at) <= _NEAR
            step = (_SLOWLY if near else 1.0) / self._limit
            self._let(min(self._most, self._limit + step))

    def restart(self) -> None:
        """The endpoint was out and is back: what made it slow is over, and how many calls it takes
        is found out anew."""
        self._refused_at = math.inf
        self._let(self._most)

    def close(self, wait_s: float) -> None:
        """Take nothing for so long."""
        if wait_s > 0.0:
            until_s = self._clock() + min(wait_s, _CLOSED_AT_MOST_S)
            self.closed_until_s = max(self.closed_until_s, until_s)

    def refused(self, started_s: float, in_flight: int, retry_after_s: float | None) -> None:
        """It said that it takes no more, to a call that began at `started_s`."""
        self.close(_CLOSED_UNASKED_S if retry_after_s is None else retry_after_s)
        if started_s > self._decreased_s:
            self._refused_at = float(in_flight)
        self._slowed(started_s, in_flight)

    def late(self, started_s: float, in_flight: int) -> None:
        """A call that began at `started_s` was not answered, in far more time than answers take.
        That happens to any endpoint; where it happens to many calls, while many are there at once,
        it has more than it can take."""
        if in_flight < _FEW:
            return
        self._late += 1.0
        calls = self.in_time + self._late
        if calls > _WINDOW:
            self.in_time *= _WINDOW / calls
            self._late *= _WINDOW / calls
            calls = _WINDOW
        if self._late >= max(_LATE_CALLS, _LATE_SHARE * calls):
            self.in_time = self._late = 0.0
            self._slowed(started_s, in_flight)

    def _slowed(self, started_s: float, in_flight: int) -> None:
        if started_s <= self._decreased_s:
            return
        self._decreased_s = self._clock()
        self._let(max(1.0, min(self._limit, float(in_flight)) * _DECREASE))
