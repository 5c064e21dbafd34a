"""Whether a commit waits a moment for records to share it.

What a commit costs (a thread that wakes, a sync) costs the same for one record as for a hundred.
"""

from __future__ import annotations

from gateway.core import ambient

_GATHERED_S = 0.002  # from one commit to the next, where that is likely to bring in
_WORTH = 3  # records or more


class CommitPace:
    def __init__(self) -> None:
        self._clock = ambient.clock()
        self._committed_s = 0.0  # when the last group went
        self._next_s = 0.0  # when the next one may

    def wait_s(self) -> float:
        """Until the next commit; nothing where records come alone."""
        return self._next_s and max(0.0, self._next_s - self._clock())

    def committed(self, count: int) -> None:
        """A group of so many records goes now."""
        now_s = self._clock()
        worth = count > 1 and count * _GATHERED_S >= _WORTH * (now_s - self._committed_s)
        self._committed_s, self._next_s = now_s, now_s + _GATHERED_S if worth else 0.0
