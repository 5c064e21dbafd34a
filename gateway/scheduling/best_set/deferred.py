"""Those who may not leave and cannot be in time as it looks now."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.scheduling.calls import QueuedCall

_FADE = 0.98  # per outcome: the last 50 count
_AGAIN_S = 1 / 128  # in binary: sums with it are exact
_TRIAL = 16  # of so many who have poor prospects one waits, to see whether they are still poor


@dataclass(slots=True)
class PutOff:
    """They come back when room is made, or are refused when they are provably late. While few of
    them come back, most are better told at once (BEHAVIOURS A1): with three times too much that
    cannot leave, nine of ten would wait for nearly all of their budget, for nothing."""

    least_prospects: float
    """The share that must have come back lately for another to wait."""

    calls: dict[int | str, QueuedCall] = field(default_factory=dict)  # oldest first
    _last_start: list[tuple[float, int, int | str]] = field(default_factory=list)  # heap
    _serial: int = 0
    _tried: set[int | str] = field(default_factory=set)  # were put off and have not ended
    _ended: float = 1.0
    _served: float = 1.0
    _poor: int = 0

    def __len__(self) -> int:
        return len(self.calls)

    def __contains__(self, call_id: int | str) -> bool:
        return call_id in self.calls

    def hopeful(self, call: QueuedCall) -> bool:
        """Whether it is worth waiting for a call that is put off now."""
        if call.id in self._tried or self._served >= self.least_prospects * self._ended:
            return True
        self._poor += 1
        return self._poor % _TRIAL == 0

    def add(self, call: QueuedCall, last_start_s: float) -> None:
        """`last_start_s`: a batch that begins later would be too late for it."""
        self.calls[call.id] = call
        self._tried.add(call.id)
        self._serial += 1
        heapq.heappush(self._last_start, (last_start_s, self._serial, call.id))

    def take(self, call_id: int | str) -> QueuedCall | None:
        return self.calls.pop(call_id, None)

    def served(self, call_id: int | str) -> None:
        """A call that may have been put off goes to a server."""
        if self._tried and call_id in self._tried:
            self._end(call_id, 1.0)

    def late(self, call_id: int | str) -> None:
        """A call that was put off is refused."""
        if call_id in self._tried:
            self._end(call_id, 0.0)

    def forget(self, call_id: int | str) -> None:
        """A call that may have been put off leaves, whatever the reason."""
        self._tried.discard(call_id)

    def _end(self, call_id: int | str, served: float) -> None:
        self._tried.discard(call_id)
        self._ended = self._ended * _FADE + 1.0
        self._served = self._served * _FADE + served

    @property
    def next_s(self) -> float:
        """When the first of them will be too late for a batch; inf: nobody is put off."""
        heap = self._last_start
        while heap and heap[0][2] not in self.calls:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def refuse_before(
        self, start_s: float, last_start_s: Callable[[QueuedCall], float]
    ) -> list[QueuedCall]:
        """No batch begins before `start_s`: those go whose last start, as it was when they were put
        off and as `last_start_s` reckons it now, is earlier. The others are asked about again."""
        gone: list[QueuedCall] = []
        while self.next_s < start_s:
            _, _, call_id = heapq.heappop(self._last_start)
            call = self.calls[call_id]
            if (last_s := last_start_s(call)) < start_s:
                del self.calls[call_id]
                self.late(call_id)
                gone.append(call)
            else:  # batches have become shorter, or nobody knows how long they are
                self._serial += 1
                again_s = min(last_s, start_s - start_s % _AGAIN_S + _AGAIN_S)
                heapq.heappush(self._last_start, (again_s, self._serial, call_id))
        return gone
