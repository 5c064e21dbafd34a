"""Promises in milliseconds, held on a machine that pauses."""

from __future__ import annotations

import time
from collections.abc import Iterator


class Lap:
    """One measurement. `begins` may be said again: the last one counts."""

    def __init__(self) -> None:
        self.took_s: float | None = None
        self._began_s = time.monotonic()

    def begins(self) -> None:
        self._began_s = time.monotonic()

    def ends(self) -> None:
        self.took_s = time.monotonic() - self._began_s


def within(bound_s: float, tries: int = 10) -> Iterator[Lap]:
    """Laps until one takes less than `bound_s`. Raises AssertionError when none of them does.

    A pause of the process or of the machine delays one lap; code that is late delays them all. The
    body of the loop must do the whole thing anew each time, and bound by itself what may hang.
    """
    took_s: list[float] = []
    for _ in range(tries):
        yield (lap := Lap())
        assert lap.took_s is not None, "the lap was never ended"
        if lap.took_s < bound_s:
            return
        took_s.append(lap.took_s)
    raise AssertionError(f"each of {tries} tries took {bound_s} s or more: {took_s}")
